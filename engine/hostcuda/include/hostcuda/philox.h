// Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011), with cuRAND's counters.
//
// The key is the seed. Of the counter's 128 bits the upper half is the subsequence and the lower half counts groups of four
// numbers. Random123's known answers agree (tests/test_curand.py).
#pragma once
#include "vector_types.h"

struct curandStatePhilox4_32_10 {
    uint4 ctr, output;         // the output of the counter before
    uint2 key;
    unsigned int STATE;        // the number of its words that have been used
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

inline uint4 curand_Philox4x32_10(uint4 c, uint2 key) {
    for (int round = 0; round < 10; round++) {
        unsigned long long x = 0xd2511f53ull * c.x, z = 0xcd9e8d57ull * c.z;
        c = {(unsigned)(z >> 32) ^ c.y ^ key.x, (unsigned)z, (unsigned)(x >> 32) ^ c.w ^ key.y, (unsigned)x};
        key.x += 0x9e3779b9u;
        key.y += 0xbb67ae85u;
    }
    return c;
}

namespace hostcuda {
namespace random {

inline void add(unsigned &low, unsigned &high, unsigned long long n, unsigned long long *carry) {
    unsigned long long before = (unsigned long long)high << 32 | low, after = before + n;
    low = (unsigned)after;
    high = (unsigned)(after >> 32);
    if (carry) *carry = after < before;
}
// Count groups of four.
inline void count(curandStatePhilox4_32_10 &s, unsigned long long groups) {
    unsigned long long carry;
    add(s.ctr.x, s.ctr.y, groups, &carry);
    add(s.ctr.z, s.ctr.w, carry, nullptr);
}
inline unsigned word(const uint4 &of, unsigned i) { return i == 0 ? of.x : i == 1 ? of.y : i == 2 ? of.z : of.w; }

}  // namespace random
}  // namespace hostcuda

inline void skipahead(unsigned long long count, curandStatePhilox4_32_10_t *state) {
    state->STATE += (unsigned)(count & 3);
    unsigned long long groups = count / 4 + (state->STATE > 3);
    state->STATE &= 3;
    hostcuda::random::count(*state, groups);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}
inline void skipahead_sequence(unsigned long long count, curandStatePhilox4_32_10_t *state) {
    hostcuda::random::add(state->ctr.z, state->ctr.w, count, nullptr);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
}

inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStatePhilox4_32_10_t *state) {
    *state = {};
    state->key = {(unsigned)seed, (unsigned)(seed >> 32)};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}

inline unsigned int curand(curandStatePhilox4_32_10_t *state) {
    unsigned result = hostcuda::random::word(state->output, state->STATE++);
    if (state->STATE == 4) {
        hostcuda::random::count(*state, 1);
        state->output = curand_Philox4x32_10(state->ctr, state->key);
        state->STATE = 0;
    }
    return result;
}

// The next four numbers.
inline uint4 curand4(curandStatePhilox4_32_10_t *state) {
    uint4 before = state->output;
    hostcuda::random::count(*state, 1);
    state->output = curand_Philox4x32_10(state->ctr, state->key);
    auto at = [&](unsigned i) {
        unsigned n = state->STATE + i;
        return n < 4 ? hostcuda::random::word(before, n) : hostcuda::random::word(state->output, n - 4);
    };
    return {at(0), at(1), at(2), at(3)};
}
