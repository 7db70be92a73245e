// Thread loops by warp: the words of the second versions of kernels with warp functions (loops.h, cpu/loops/exchange.py).
//
// Between two barriers, LABKIT_WARPS { LABKIT_WARP { ... } } runs what follows for each warp, and in it LABKIT_LANES {
// LABKIT_LANE ... } for each lane. A warp is in one row of the block: other blocks run on fibers. What a lane gives to a
// warp function is in slots, each of the size of its type.
#pragma once
#include "warp.h"

#define LABKIT_WARPS                                                                                  \
    for (size_t labkit_z = 0, labkit_row = 0; labkit_z < labkit_depth; ++labkit_z)                    \
        for (size_t labkit_y = 0; labkit_y < labkit_height; ++labkit_y, labkit_row += labkit_width)   \
            for (size_t labkit_x = 0; labkit_x < labkit_width; labkit_x += labkit_warp)

// Outside of the loops over the lanes, threadIdx is that of the first one.
#define LABKIT_WARP                                                                                   \
    const size_t labkit_base = labkit_row + labkit_x;                                                 \
    const size_t labkit_lanes = labkit_width - labkit_x < labkit_warp ? labkit_width - labkit_x : labkit_warp; \
    [[maybe_unused]] const uint3 threadIdx = {(unsigned)labkit_x, (unsigned)labkit_y, (unsigned)labkit_z};
#define LABKIT_LANES for (size_t labkit_lane = 0; labkit_lane < labkit_lanes; ++labkit_lane)
#define LABKIT_LANE                                                                                   \
    [[maybe_unused]] const uint3 threadIdx = {(unsigned)(labkit_x + labkit_lane), (unsigned)labkit_y, (unsigned)labkit_z}; \
    [[maybe_unused]] const size_t labkit_t = labkit_base + labkit_lane;

// Of kernels whose threads can return before a warp function.
#define LABKIT_FIRST_LEFT                                                                             \
    const unsigned labkit_left = labkit::present(labkit_live + labkit_base, labkit_lanes);            \
    if (!labkit_left) continue;                                                                       \
    [[maybe_unused]] const size_t labkit_first = labkit_base + __builtin_ctz(labkit_left);
#define LABKIT_LEAVE_IF_NONE_LEFT(section)                                                            \
    if (!labkit::present(labkit_live + labkit_base, labkit_lanes)) goto labkit_next_##section;

// The words for one warp function, by its number.
#define LABKIT_SLOTS(n) [[maybe_unused]] alignas(64) char labkit_slots_##n[16 * labkit_warp];
#define LABKIT_MEET(n, kind) [[maybe_unused]] const auto labkit_word_##n = labkit::meeting_##kind(labkit_slots_##n, labkit_present_##n);
#define labkit_offer(n, value) labkit::offer<decltype(__shfl_sync(0u, value, 0))>(labkit_slots_##n, labkit_lane, value)
#define labkit_offer_vote(n, value) labkit::offer<int>(labkit_slots_##n, labkit_lane, value)
#define labkit_offer_word(n, kind, value) labkit::offer<decltype(__##kind##_sync(0u, value))>(labkit_slots_##n, labkit_lane, value)
// A value that is computed before a meeting, and used after it.
#define labkit_keep(n, value) labkit::offer<std::decay_t<decltype(value)>>(labkit_slots_##n, labkit_lane, value)
#define labkit_again(n, value) labkit::again<std::decay_t<decltype(value)>>(labkit_slots_##n, labkit_lane)
#define labkit_take(n, kind, value, from, width)                                                      \
    labkit::take<labkit::kind, decltype(__shfl_sync(0u, value, 0))>(                        \
        labkit_slots_##n, (int)labkit_lane, labkit_present_##n, from, width)
#define labkit_vote(n) labkit_word_##n
#define labkit_reduced(n, kind, value) labkit_word_##n.as((decltype(__##kind##_sync(0u, value)))0)

// A value beside a mask that is that of all lanes, or else this does not compile.
#define labkit_all_lanes(mask, value) labkit::all_lanes<(unsigned)(mask)>(value)

constexpr size_t labkit_warp = 32;

namespace labkit {

template <unsigned mask, class T> LABKIT_INLINE T all_lanes(T value) {
    static_assert(mask == 0xffffffff, "this mask needs fibers");
    return value;
}

// The lanes of a warp that take part.
inline unsigned present(size_t lanes) { return 0xffffffffu >> (32 - lanes); }
inline unsigned present(const bool *live, size_t lanes) {
    unsigned mask = 0;
    for (size_t i = 0; i < lanes; ++i) mask |= (unsigned)live[i] << i;
    return mask;
}

template <class T> LABKIT_INLINE void offer(char *slots, size_t lane, T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16, "this value needs fibers");
    memcpy(slots + lane * sizeof value, (const void *)&value, sizeof value);
}
template <class T> LABKIT_INLINE T again(const char *slots, size_t lane) {
    T value;
    memcpy((void *)&value, slots + lane * sizeof value, sizeof value);
    return value;
}

// As shuffle_source and shuffle_combine (warp.h): a lane that reads from one that does not take part keeps its own value.
template <shuffle_kind kind, class T>
LABKIT_INLINE T take(const char *slots, int lane, unsigned present, int operand, int width) {
    int first = lane & ~(width - 1), last = first + width - 1, source = lane;
    if (kind == shuffle_index) source = first + (operand & (width - 1));
    else if (kind == shuffle_up) source -= operand & 31;
    else if (kind == shuffle_down) source += operand & 31;
    else source ^= operand & 31;
    if (kind == shuffle_up ? source < first : kind != shuffle_index && source > last) source = lane;
    if (!(present >> source & 1)) source = lane;
    T value;
    memcpy((void *)&value, slots + source * sizeof value, sizeof value);
    return value;
}

// Votes: what each lane gets.
inline unsigned meeting_ballot(const char *slots, unsigned present) {
    unsigned votes = 0;
    for (int i = 0; i < 32; ++i) votes |= (unsigned)(((const int *)slots)[i] != 0) << i;
    return votes & present;
}
inline int meeting_any(const char *slots, unsigned present) { return meeting_ballot(slots, present) != 0; }
inline int meeting_all(const char *slots, unsigned present) { return meeting_ballot(slots, present) == present; }

// Reductions: what each lane gets if it gives int, or unsigned int.
struct Reduced {
    int of_int;
    unsigned of_unsigned;
    int as(int) const { return of_int; }
    unsigned as(unsigned) const { return of_unsigned; }
};
#define LABKIT_REDUCED(kind, expression)                                                              \
    template <class T> inline T total_##kind(const char *slots, unsigned present) {                   \
        int i = __builtin_ctz(present);                                                               \
        T a = ((const T *)slots)[i];                                                                  \
        while (++i < 32)                                                                              \
            if (present >> i & 1) {                                                                   \
                T b = ((const T *)slots)[i];                                                          \
                a = expression;                                                                       \
            }                                                                                         \
        return a;                                                                                     \
    }                                                                                                 \
    inline Reduced meeting_##kind(const char *slots, unsigned present) {                       \
        return {total_##kind<int>(slots, present), total_##kind<unsigned>(slots, present)};           \
    }
LABKIT_REDUCED(reduce_add, (T)((unsigned)a + (unsigned)b))
LABKIT_REDUCED(reduce_min, a < b ? a : b)
LABKIT_REDUCED(reduce_max, a > b ? a : b)
LABKIT_REDUCED(reduce_and, a & b)
LABKIT_REDUCED(reduce_or, a | b)
LABKIT_REDUCED(reduce_xor, a ^ b)
#undef LABKIT_REDUCED

}  // namespace labkit
