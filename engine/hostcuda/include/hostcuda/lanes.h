// Thread loops by warp: the words of the second versions of kernels with warp functions (loops.h, loops/exchange.py), and of
// direct kernels, which have groups of neighbors instead.
//
// Between two barriers, HOSTCUDA_WARPS { HOSTCUDA_WARP { ... } } runs what follows for each warp, and in it HOSTCUDA_LANES {
// HOSTCUDA_LANE ... } for each lane. A warp is in one row of the block: other blocks run on fibers. What a lane gives to a
// warp function is in slots, each of the size of its type.
#pragma once
#include "warp.h"

#define HOSTCUDA_WARPS                                                                                  \
    for (hostcuda_size hostcuda_z = 0, hostcuda_row = 0; hostcuda_z < hostcuda_depth; ++hostcuda_z)               \
        for (hostcuda_size hostcuda_y = 0; hostcuda_y < hostcuda_height; ++hostcuda_y, hostcuda_row += hostcuda_width) \
            for (hostcuda_size hostcuda_x = 0; hostcuda_x < hostcuda_width; hostcuda_x += hostcuda_warp)

// Outside of the loops over the lanes, threadIdx is that of the first one.
#define HOSTCUDA_WARP                                                                                   \
    const hostcuda_size hostcuda_base = hostcuda_row + hostcuda_x;                                            \
    const hostcuda_size hostcuda_lanes = hostcuda_width - hostcuda_x < hostcuda_warp ? hostcuda_width - hostcuda_x : hostcuda_warp; \
    [[maybe_unused]] const ::uint3 threadIdx = {(unsigned)hostcuda_x, (unsigned)hostcuda_y, (unsigned)hostcuda_z};
#define HOSTCUDA_LANES for (hostcuda_size hostcuda_lane = 0; hostcuda_lane < hostcuda_lanes; ++hostcuda_lane)
#define HOSTCUDA_LANE                                                                                   \
    [[maybe_unused]] const ::uint3 threadIdx = {(unsigned)(hostcuda_x + hostcuda_lane), (unsigned)hostcuda_y, (unsigned)hostcuda_z}; \
    [[maybe_unused]] const hostcuda_size hostcuda_t = hostcuda_base + hostcuda_lane;

// Of direct kernels (loops/direct.py): a group of neighbors instead of a warp, and runs of those that are left.
#define HOSTCUDA_GROUPS                                                                                 \
    constexpr hostcuda_size hostcuda_warp = 16;                                                           \
    HOSTCUDA_WARPS
#define HOSTCUDA_GROUP                                                                                  \
    bool hostcuda_live[hostcuda_warp];                                                                    \
    __builtin_memset(hostcuda_live, true, hostcuda_warp);                                                 \
    const hostcuda_size hostcuda_from = 0, hostcuda_to = hostcuda_lanes;
#define HOSTCUDA_RUN [&](const hostcuda_size hostcuda_from, const hostcuda_size hostcuda_to) __attribute__((always_inline))
#define HOSTCUDA_NEIGHBORS                                                                              \
    HOSTCUDA_UNROLL(1)                                                                                  \
    for (hostcuda_size hostcuda_lane = hostcuda_from; hostcuda_lane < hostcuda_to; ++hostcuda_lane)

// Of kernels whose threads can return before a warp function.
#define HOSTCUDA_FIRST_LEFT                                                                             \
    const unsigned hostcuda_left = ::hostcuda::present(hostcuda_live + hostcuda_base, hostcuda_lanes);          \
    if (!hostcuda_left) continue;                                                                       \
    [[maybe_unused]] const hostcuda_size hostcuda_first = hostcuda_base + __builtin_ctz(hostcuda_left);
#define HOSTCUDA_LEAVE_IF_NONE_LEFT(section)                                                            \
    if (!::hostcuda::present(hostcuda_live + hostcuda_base, hostcuda_lanes)) goto hostcuda_next_##section;

// The words for one warp function, by its number.
#define HOSTCUDA_SLOTS(n) [[maybe_unused]] alignas(64) char hostcuda_slots_##n[16 * hostcuda_warp];
#define HOSTCUDA_MEET(n, kind) [[maybe_unused]] const auto hostcuda_word_##n = ::hostcuda::meeting_##kind(hostcuda_slots_##n, hostcuda_present_##n);
#define hostcuda_offer(n, value) ::hostcuda::offer<decltype(__shfl_sync(0u, value, 0))>(hostcuda_slots_##n, hostcuda_lane, value)
#define hostcuda_offer_vote(n, value) ::hostcuda::offer<int>(hostcuda_slots_##n, hostcuda_lane, value)
#define hostcuda_offer_word(n, kind, value) ::hostcuda::offer<decltype(__##kind##_sync(0u, value))>(hostcuda_slots_##n, hostcuda_lane, value)
// A value that is computed before a meeting, and used after it.
#define hostcuda_keep(n, value) ::hostcuda::offer<::std::decay_t<decltype(value)>>(hostcuda_slots_##n, hostcuda_lane, value)
#define hostcuda_again(n, value) ::hostcuda::again<::std::decay_t<decltype(value)>>(hostcuda_slots_##n, hostcuda_lane)
#define hostcuda_take(n, kind, value, from, width)                                                      \
    ::hostcuda::take<::hostcuda::kind, decltype(__shfl_sync(0u, value, 0))>(                    \
        hostcuda_slots_##n, (int)hostcuda_lane, hostcuda_present_##n, from, width)
#define hostcuda_vote(n) hostcuda_word_##n
#define hostcuda_reduced(n, kind, value) hostcuda_word_##n.as((decltype(__##kind##_sync(0u, value)))0)

// A mask that is that of all lanes, or else this does not compile.
#define hostcuda_require_all_lanes(mask) static_assert((unsigned)(mask) == 0xffffffff, "this mask needs fibers")

constexpr size_t hostcuda_warp = 32;

namespace hostcuda {

// Call `run` for each run of lanes that are left, with the number of its first lane and that after its last one. All lanes of
// a group are a run of a length that the compiler knows.
template <size_t lanes, class F> HOSTCUDA_INLINE void runs(const bool (&live)[lanes], size_t count, F run) {
    constexpr bool all[] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    static_assert(sizeof all == sizeof live);
    if (count == lanes && !__builtin_memcmp(live, all, lanes)) return run(0, lanes);
    for (size_t from = 0, to; from < count; from = to + 1) {
        for (to = from; to < count && live[to]; ++to) {}
        if (from < to) run(from, to);
    }
}

// The lanes of a warp that take part.
inline unsigned present(size_t lanes) { return 0xffffffffu >> (32 - lanes); }
inline unsigned present(const bool *live, size_t lanes) {
    unsigned mask = 0;
    for (size_t i = 0; i < lanes; ++i) mask |= (unsigned)live[i] << i;
    return mask;
}

template <class T> HOSTCUDA_INLINE void offer(char *slots, size_t lane, T value) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16, "this value needs fibers");
    memcpy(slots + lane * sizeof value, (const void *)&value, sizeof value);
}

template <class T> HOSTCUDA_INLINE T again(const char *slots, size_t lane) {
    T value;
    memcpy((void *)&value, slots + lane * sizeof value, sizeof value);
    return value;
}

// As shuffle_source and shuffle_combine (warp.h): a lane that reads from one that does not take part keeps its own value.
template <shuffle_kind kind, class T>
HOSTCUDA_INLINE T take(const char *slots, int lane, unsigned present, int operand, int width) {
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
#define HOSTCUDA_REDUCED(kind, expression)                                                              \
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
HOSTCUDA_REDUCED(reduce_add, (T)((unsigned)a + (unsigned)b))
HOSTCUDA_REDUCED(reduce_min, a < b ? a : b)
HOSTCUDA_REDUCED(reduce_max, a > b ? a : b)
HOSTCUDA_REDUCED(reduce_and, a & b)
HOSTCUDA_REDUCED(reduce_or, a | b)
HOSTCUDA_REDUCED(reduce_xor, a ^ b)
#undef HOSTCUDA_REDUCED

}  // namespace hostcuda
