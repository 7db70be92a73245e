// Warp functions: shuffles, votes, match, reduce, active mask.
//
// All use one primitive (sync.h): the lanes of a mask wait for each other, and the last one to arrive combines their
// values. Each lane has a slot on its own stack, which the combining lane reads and writes. The forms without a mask, which
// CUDA removed with compute capability 7.0, apply to the converged lanes.
#pragma once
#include <string.h>
#include <type_traits>
#include "bfloat16.h"
#include "half.h"
#include "sync.h"

namespace hostcuda {

// ---- Shuffles ---------------------------------------------------------------------------------------------

template <class Word> struct shuffle_slot {
    Word value, result;
    int source;                       // the lane to read from
};

#ifdef HOSTCUDA_CHECK
HOSTCUDA_API void missing_source(int lane, int source);   // reports to check mode
#endif

// A lane that reads from one that does not take part keeps its own value (undefined in CUDA).
template <class Word> inline void shuffle_combine(void *const *lanes, unsigned arrived) {
    for (int i = 0; i < 32; i++) {
        if (!(arrived >> i & 1)) continue;
        auto *slot = (shuffle_slot<Word> *)lanes[i];
        auto *source = (const shuffle_slot<Word> *)lanes[slot->source];
#ifdef HOSTCUDA_CHECK
        if (!source) missing_source(i, slot->source);
#endif
        slot->result = source ? source->value : slot->value;
    }
}

enum shuffle_kind { shuffle_index, shuffle_up, shuffle_down, shuffle_xor };

// The lane from which `lane` reads. The warp is divided into segments of `width` lanes (a power of two up to 32). An index
// wraps around within the segment; up and down stop at its ends; xor can reach an earlier segment but not a later one.
inline int shuffle_source(shuffle_kind kind, int lane, unsigned operand, int width) {
    int first = lane & ~(width - 1), last = first + width - 1;
    long long source = lane;
    switch (kind) {
        case shuffle_index: return first + (int)(operand & (unsigned)(width - 1));
        case shuffle_up: source -= operand & 31; return source < first ? lane : (int)source;
        case shuffle_down: source += operand & 31; return source > last ? lane : (int)source;
        default: source ^= operand & 31; return source > last ? lane : (int)source;
    }
}

template <class T>
inline T shuffle(shuffle_kind kind, unsigned mask, T value, unsigned operand, int width, const char *what,
                 const char *file, int line) {
    struct Wide { alignas(T) char bytes[sizeof(T)]; };   // a structure of a cooperative group's shuffle
    typedef std::conditional_t<sizeof(T) <= 8, unsigned long long, Wide> Word;
    shuffle_slot<Word> slot{};
    memcpy((void *)&slot.value, (const void *)&value, sizeof value);
    slot.source = shuffle_source(kind, (int)lane_id(), operand, width);
    warp_collective(mask, &slot, shuffle_combine<Word>, what, file, line);
    memcpy((void *)&value, (const void *)&slot.result, sizeof value);
    return value;
}

// ---- Votes, match, reduce: every lane gets a word computed from all lanes -------------------------------------------

template <class T> struct word_slot {
    T value;
    unsigned result;
    int all;
};

template <class Combine, class T>
inline word_slot<T> warp_word(unsigned mask, T value, Combine, const char *what, const char *file, int line) {
    word_slot<T> slot{value, 0, 0};
    auto combine = [](void *const *lanes, unsigned arrived) {
        Combine()((word_slot<T> *const *)lanes, arrived);
    };
    warp_collective(mask, &slot, combine, what, file, line);
    return slot;
}

struct combine_ballot {
    void operator()(word_slot<int> *const *lanes, unsigned arrived) const {
        unsigned votes = 0;
        for (int i = 0; i < 32; i++)
            if (arrived >> i & 1) votes |= (unsigned)(lanes[i]->value != 0) << i;
        for (int i = 0; i < 32; i++)
            if (arrived >> i & 1) { lanes[i]->result = votes; lanes[i]->all = votes == arrived; }
    }
};

struct combine_match {
    template <class T> void operator()(word_slot<T> *const *lanes, unsigned arrived) const {
        for (int i = 0; i < 32; i++) {
            if (!(arrived >> i & 1)) continue;
            unsigned equal = 0;
            for (int j = 0; j < 32; j++)   // compares bits, so that a NaN matches itself
                if (arrived >> j & 1)
                    equal |= (unsigned)(memcmp(&lanes[i]->value, &lanes[j]->value, sizeof(T)) == 0) << j;
            lanes[i]->result = equal;
            lanes[i]->all = equal == arrived;
        }
    }
};

template <class Operation> struct combine_reduce {
    template <class T> void operator()(word_slot<T> *const *lanes, unsigned arrived) const {
        int first = __builtin_ctz(arrived);
        T total = lanes[first]->value;
        for (int i = first + 1; i < 32; i++)
            if (arrived >> i & 1) total = Operation()(total, lanes[i]->value);
        for (int i = 0; i < 32; i++)
            if (arrived >> i & 1) lanes[i]->result = (unsigned)total;
    }
};

}  // namespace hostcuda


// nvcc has these for older cards only: "identifier is undefined".
#define HOSTCUDA_REMOVED(name)                                                                          \
    [[deprecated(name " without _sync is removed since compute capability 7.0: write " name "_sync, with the mask of the "  \
                 "lanes that take part, 0xffffffff for all, before its arguments")]]

#define HOSTCUDA_SHUFFLES(T)                                                                            \
    HOSTCUDA_SHUFFLE(T, __shfl, shuffle_index, int)                                                     \
    HOSTCUDA_SHUFFLE(T, __shfl_up, shuffle_up, unsigned int)                                            \
    HOSTCUDA_SHUFFLE(T, __shfl_down, shuffle_down, unsigned int)                                        \
    HOSTCUDA_SHUFFLE(T, __shfl_xor, shuffle_xor, int)
#define HOSTCUDA_SHUFFLE(T, name, kind, Operand)                                                        \
    HOSTCUDA_LAZY inline T name##_sync(unsigned mask, T value, Operand operand, int width = 32, HOSTCUDA_HERE) {      \
        return hostcuda::shuffle(hostcuda::kind, mask, value, (unsigned)operand, width, #name "_sync",    \
                               file, line);                                                           \
    }                                                                                                 \
    HOSTCUDA_LAZY HOSTCUDA_REMOVED(#name) inline T name(T value, Operand operand, int width = 32, HOSTCUDA_HERE) {    \
        unsigned mask = hostcuda::warp_converged(file, line);                                           \
        return hostcuda::shuffle(hostcuda::kind, mask, value, (unsigned)operand, width, #name, file, line); \
    }

HOSTCUDA_SHUFFLES(int)
HOSTCUDA_SHUFFLES(unsigned int)
HOSTCUDA_SHUFFLES(long)
HOSTCUDA_SHUFFLES(unsigned long)
HOSTCUDA_SHUFFLES(long long)
HOSTCUDA_SHUFFLES(unsigned long long)
HOSTCUDA_SHUFFLES(float)
HOSTCUDA_SHUFFLES(double)
HOSTCUDA_SHUFFLES(__half)
HOSTCUDA_SHUFFLES(__half2)
HOSTCUDA_SHUFFLES(__nv_bfloat16)
HOSTCUDA_SHUFFLES(__nv_bfloat162)
#undef HOSTCUDA_SHUFFLE
#undef HOSTCUDA_SHUFFLES

inline unsigned int __activemask(HOSTCUDA_HERE) { return hostcuda::warp_converged(file, line); }

inline unsigned int __ballot_sync(unsigned mask, int predicate, HOSTCUDA_HERE) {
    return hostcuda::warp_word(mask, predicate, hostcuda::combine_ballot(), "__ballot_sync", file, line).result;
}
inline int __any_sync(unsigned mask, int predicate, HOSTCUDA_HERE) {
    return hostcuda::warp_word(mask, predicate, hostcuda::combine_ballot(), "__any_sync", file, line).result != 0;
}
inline int __all_sync(unsigned mask, int predicate, HOSTCUDA_HERE) {
    return hostcuda::warp_word(mask, predicate, hostcuda::combine_ballot(), "__all_sync", file, line).all;
}
HOSTCUDA_REMOVED("__ballot") inline unsigned int __ballot(int predicate, HOSTCUDA_HERE) {
    return __ballot_sync(hostcuda::warp_converged(file, line), predicate, file, line);
}
HOSTCUDA_REMOVED("__any") inline int __any(int predicate, HOSTCUDA_HERE) {
    return __any_sync(hostcuda::warp_converged(file, line), predicate, file, line);
}
HOSTCUDA_REMOVED("__all") inline int __all(int predicate, HOSTCUDA_HERE) {
    return __all_sync(hostcuda::warp_converged(file, line), predicate, file, line);
}

#define HOSTCUDA_MATCH(T)                                                                               \
    HOSTCUDA_LAZY inline unsigned int __match_any_sync(unsigned mask, T value, HOSTCUDA_HERE) {                       \
        auto slot = hostcuda::warp_word(mask, value, hostcuda::combine_match(), "__match_any_sync", file, line); \
        return slot.result;                                                                           \
    }                                                                                                 \
    HOSTCUDA_LAZY inline unsigned int __match_all_sync(unsigned mask, T value, int *predicate, HOSTCUDA_HERE) {       \
        auto slot = hostcuda::warp_word(mask, value, hostcuda::combine_match(), "__match_all_sync", file, line); \
        *predicate = slot.all;                                                                        \
        return slot.all ? slot.result : 0;                                                            \
    }
HOSTCUDA_MATCH(int)
HOSTCUDA_MATCH(unsigned int)
HOSTCUDA_MATCH(long)
HOSTCUDA_MATCH(unsigned long)
HOSTCUDA_MATCH(long long)
HOSTCUDA_MATCH(unsigned long long)
HOSTCUDA_MATCH(float)
HOSTCUDA_MATCH(double)
#undef HOSTCUDA_MATCH

#define HOSTCUDA_REDUCE(T, name, expression)                                                            \
    HOSTCUDA_LAZY inline T name(unsigned mask, T value, HOSTCUDA_HERE) {                                              \
        struct operation { T operator()(T a, T b) const { return expression; } };                     \
        auto slot = hostcuda::warp_word(mask, value, hostcuda::combine_reduce<operation>(), #name, file, line); \
        return (T)slot.result;                                                                        \
    }
HOSTCUDA_REDUCE(unsigned int, __reduce_add_sync, a + b)
HOSTCUDA_REDUCE(unsigned int, __reduce_min_sync, a < b ? a : b)
HOSTCUDA_REDUCE(unsigned int, __reduce_max_sync, a > b ? a : b)
HOSTCUDA_REDUCE(int, __reduce_add_sync, (int)((unsigned int)a + (unsigned int)b))
HOSTCUDA_REDUCE(int, __reduce_min_sync, a < b ? a : b)
HOSTCUDA_REDUCE(int, __reduce_max_sync, a > b ? a : b)
HOSTCUDA_REDUCE(unsigned int, __reduce_and_sync, a & b)
HOSTCUDA_REDUCE(unsigned int, __reduce_or_sync, a | b)
HOSTCUDA_REDUCE(unsigned int, __reduce_xor_sync, a ^ b)
#undef HOSTCUDA_REDUCE
