// XORWOW, Marsaglia's xorshift generator with a Weyl sequence (Journal of Statistical Software 8(14), 2003), seeded and
// divided into subsequences as cuRAND does it.
//
// The state's five words v are linear over the bits: a step multiplies 160 bits by a matrix, and subsequence n starts after
// 2^67 n steps. The constants of the seed are cuRAND's. Published outputs of cuRAND agree (tests/test_curand.py).
#pragma once
#include <stdint.h>
#include <string.h>
#include "sync.h"

struct curandStateXORWOW {
    unsigned int d, v[5];
    int boxmuller_flag, boxmuller_flag_double;
    float boxmuller_extra;
    double boxmuller_extra_double;
};
typedef curandStateXORWOW curandStateXORWOW_t, curandState_t, curandState;

namespace hostcuda {
namespace random {

constexpr unsigned weyl = 362437;

inline unsigned next(curandStateXORWOW &s) {
    unsigned t = s.v[0] ^ (s.v[0] >> 2);
    s.v[0] = s.v[1];
    s.v[1] = s.v[2];
    s.v[2] = s.v[3];
    s.v[3] = s.v[4];
    s.v[4] = (s.v[4] ^ (s.v[4] << 4)) ^ (t ^ (t << 1));
    s.d += weyl;
    return s.v[4] + s.d;
}

// The matrix of some number of steps: its columns, the results for each bit.
struct Steps {
    unsigned column[160][5];

    HOSTCUDA_UNSEEN void apply(const unsigned *from, unsigned *to) const {
        unsigned sum[5] = {};
        for (int bit = 0; bit < 160; bit++) {
            unsigned taken = -(from[bit / 32] >> bit % 32 & 1u);
            for (int i = 0; i < 5; i++) sum[i] ^= column[bit][i] & taken;
        }
        memcpy(to, sum, sizeof sum);
    }
    HOSTCUDA_UNSEEN void square() {
        Steps twice;
        for (int bit = 0; bit < 160; bit++) apply(column[bit], twice.column[bit]);
        *this = twice;
    }
};

// Of 2^first, 2^(first + 1), ... steps, made on first use.
constexpr int powers = 64;
HOSTCUDA_UNSEEN inline const Steps *steps_from(int first) {
    struct Powers {
        Steps of[powers];
        HOSTCUDA_UNSEEN explicit Powers(int first) {
            for (int bit = 0; bit < 160; bit++) {
                curandStateXORWOW one{};
                one.v[bit / 32] = 1u << bit % 32;
                next(one);
                memcpy(of[0].column[bit], one.v, sizeof one.v);
            }
            for (int i = 0; i < first; i++) of[0].square();
            for (int i = 1; i < powers; i++) {
                of[i] = of[i - 1];
                of[i].square();
            }
        }
    };
    if (first == 0) {
        static const Powers steps(0);
        return steps.of;
    }
    static const Powers subsequences(67);
    return subsequences.of;
}

inline void skip(unsigned long long count, const Steps *power, unsigned *v) {
    unsigned own[5] = {v[0], v[1], v[2], v[3], v[4]};
    for (; count; count >>= 1, power++)
        if (count & 1) power->apply(own, own);
    for (int i = 0; i < 5; i++) v[i] = own[i];
}

}  // namespace random
}  // namespace hostcuda

inline void skipahead(unsigned long long count, curandStateXORWOW_t *state) {
    if (count) hostcuda::random::skip(count, hostcuda::random::steps_from(0), state->v);
    state->d += hostcuda::random::weyl * (unsigned)count;
}
inline void skipahead_sequence(unsigned long long count, curandStateXORWOW_t *state) {   // d returns to its value in 2^32 steps
    if (count) hostcuda::random::skip(count, hostcuda::random::steps_from(67), state->v);
}

inline void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                        curandStateXORWOW_t *state) {
    unsigned low = ((unsigned)seed ^ 0xaad26b49u) * 1099087573u, high = ((unsigned)(seed >> 32) ^ 0xf7dcefddu) * 2591861531u;
    *state = {6615241u + high + low,
              {123456789u + low, 362436069u ^ low, 521288629u + high, 88675123u ^ high, 5783321u + low},
              0, 0, 0.0f, 0.0};
    skipahead_sequence(subsequence, state);
    skipahead(offset, state);
}

inline unsigned int curand(curandStateXORWOW_t *state) { return hostcuda::random::next(*state); }
