// Random numbers in kernels: the generators XORWOW and Philox, their integers, and uniform and normal distributions.
//
// Uniform numbers are in (0, 1], as cuRAND's. Normal ones are made in pairs (Box and Muller), of which the second is kept.
// Their last bits may differ from a GPU's, which has its own logarithm, sine and cosine.
#pragma once
#include "hostcuda.h"
#include "hostcuda/philox.h"
#include "hostcuda/xorwow.h"

namespace hostcuda {
namespace random {

template <class State> struct no_generator {
    static_assert(sizeof(State) == 0, "the CPU engine has no generators of cuRAND but XORWOW (curandState) and Philox "
                                      "(curandStatePhilox4_32_10_t)");
};

constexpr float pair_scale = 2.3283064e-10f;                      // 2^-32
constexpr double double_scale = 1.1102230246251565e-16;           // 2^-53

inline float uniform(unsigned x) { return x * pair_scale + pair_scale / 2.0f; }
// From 53 of 64 bits.
inline double uniform_double(unsigned x, unsigned y) {
    unsigned long long bits = (unsigned long long)x ^ ((unsigned long long)y << 21);
    return bits * double_scale + double_scale / 2.0;
}
inline float2 normal(unsigned x, unsigned y) {
    float u = x * pair_scale + pair_scale / 2.0f, angle = y * (pair_scale * 6.2831855f) + pair_scale * 6.2831855f / 2.0f;
    float radius = sqrtf(-2.0f * logf(u)), sine, cosine;
    sincosf(angle, &sine, &cosine);
    return {sine * radius, cosine * radius};
}
inline double2 normal_double(uint4 x) {
    double u = uniform_double(x.x, x.y), turns = uniform_double(x.z, x.w) * 2.0;
    double radius = sqrt(-2.0 * log(u)), sine, cosine;
    sincospi(turns, &sine, &cosine);
    return {sine * radius, cosine * radius};
}
template <class State> inline uint4 four(State *state) {
    unsigned x = curand(state), y = curand(state), z = curand(state), w = curand(state);
    return {x, y, z, w};
}

}  // namespace random
}  // namespace hostcuda

#define HOSTCUDA_RANDOM(State)                                                                          \
    inline float curand_uniform(State *state) { return hostcuda::random::uniform(curand(state)); }      \
    inline float2 curand_normal2(State *state) {                                                      \
        unsigned x = curand(state), y = curand(state);                                                \
        return hostcuda::random::normal(x, y);                                                          \
    }                                                                                                 \
    inline double2 curand_normal2_double(State *state) {                                              \
        return hostcuda::random::normal_double(hostcuda::random::four(state));                            \
    }                                                                                                 \
    inline float curand_normal(State *state) {                                                        \
        if ((state->boxmuller_flag = !state->boxmuller_flag)) {                                       \
            float2 pair = curand_normal2(state);                                                      \
            state->boxmuller_extra = pair.y;                                                          \
            return pair.x;                                                                            \
        }                                                                                             \
        return state->boxmuller_extra;                                                                \
    }                                                                                                 \
    inline double curand_normal_double(State *state) {                                                \
        if ((state->boxmuller_flag_double = !state->boxmuller_flag_double)) {                         \
            double2 pair = curand_normal2_double(state);                                              \
            state->boxmuller_extra_double = pair.y;                                                   \
            return pair.x;                                                                            \
        }                                                                                             \
        return state->boxmuller_extra_double;                                                         \
    }                                                                                                 \
    inline float curand_log_normal(State *state, float mean, float deviation) {                       \
        return expf(mean + deviation * curand_normal(state));                                         \
    }                                                                                                 \
    inline double curand_log_normal_double(State *state, double mean, double deviation) {             \
        return exp(mean + deviation * curand_normal_double(state));                                   \
    }
HOSTCUDA_RANDOM(curandStateXORWOW_t)
HOSTCUDA_RANDOM(curandStatePhilox4_32_10_t)
#undef HOSTCUDA_RANDOM

inline double curand_uniform_double(curandStateXORWOW_t *state) {
    unsigned x = curand(state), y = curand(state);
    return hostcuda::random::uniform_double(x, y);
}
// From one integer, as cuRAND does it: 32 random bits.
inline double curand_uniform_double(curandStatePhilox4_32_10_t *state) { return (curand(state) + 1.0) * 0x1p-32; }

typedef hostcuda::random::no_generator<int> curandStateMRG32k3a, curandStateMRG32k3a_t, curandStateMtgp32, curandStateMtgp32_t,
    curandStateSobol32, curandStateSobol32_t, curandStateScrambledSobol32, curandStateScrambledSobol32_t, curandStateSobol64,
    curandStateSobol64_t, curandStateScrambledSobol64, curandStateScrambledSobol64_t;

inline float4 curand_uniform4(curandStatePhilox4_32_10_t *state) {
    uint4 x = curand4(state);
    return {hostcuda::random::uniform(x.x), hostcuda::random::uniform(x.y), hostcuda::random::uniform(x.z), hostcuda::random::uniform(x.w)};
}
inline float4 curand_normal4(curandStatePhilox4_32_10_t *state) {
    uint4 x = curand4(state);
    float2 first = hostcuda::random::normal(x.x, x.y), second = hostcuda::random::normal(x.z, x.w);
    return {first.x, first.y, second.x, second.y};
}
inline double2 curand_uniform2_double(curandStatePhilox4_32_10_t *state) {
    uint4 x = curand4(state);
    return {hostcuda::random::uniform_double(x.x, x.y), hostcuda::random::uniform_double(x.z, x.w)};
}

