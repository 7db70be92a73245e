// Floating point in 8 bits: e4m3 (4 bits of exponent, 3 of mantissa, no infinity, at most 448) and e5m2 (at most 57344).
//
// Conversions round to nearest even. Too large values become the largest one (__NV_SATFINITE, and in the constructors) or
// infinity (__NV_NOSAT), which in e4m3 is NaN. There is no arithmetic: convert to float or half.
#pragma once
#include "hostcuda.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned int __nv_fp8x4_storage_t;
typedef enum { __NV_NOSAT, __NV_SATFINITE } __nv_saturation_t;
typedef enum { __NV_E4M3, __NV_E5M2 } __nv_fp8_interpretation_t;

namespace hostcuda {

inline __nv_fp8_storage_t round_to_fp8(float x, bool saturate, __nv_fp8_interpretation_t kind) {
    const int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    const unsigned largest = kind == __NV_E4M3 ? 0x7e : 0x7b, infinite = kind == __NV_E4M3 ? 0x7f : 0x7c;
    unsigned bits = __float_as_uint(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return 0x7f;
    int exponent = (int)(magnitude >> 23), least = 128 - bias, shift = 23 - mantissa_bits;
    unsigned significant = magnitude;
    if (exponent >= least) {
        significant -= (unsigned)(least - 1) << 23;
    } else {                                 // subnormal: in units of the least one
        significant = exponent ? (magnitude & 0x7fffff) | 0x800000 : 0;
        shift += least - exponent;
        if (shift > 25) shift = 25;          // less than half of it
    }
    unsigned kept = significant >> shift, rest = significant & ((1u << shift) - 1), half = 1u << (shift - 1);
    kept += rest > half || (rest == half && (kept & 1));
    if (kept > largest) kept = saturate ? largest : infinite;
    return (__nv_fp8_storage_t)(sign | kept);
}

inline float widen_fp8(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    const int mantissa_bits = kind == __NV_E4M3 ? 3 : 2, bias = kind == __NV_E4M3 ? 7 : 15;
    unsigned magnitude = x & 0x7f, exponent = magnitude >> mantissa_bits, mantissa = magnitude & ((1u << mantissa_bits) - 1);
    float value;
    if (kind == __NV_E4M3 ? magnitude == 0x7f : magnitude > 0x7c) value = __uint_as_float(0x7fffffff);
    else if (kind == __NV_E5M2 && magnitude == 0x7c) value = __uint_as_float(0x7f800000);
    else if (exponent == 0) value = (float)mantissa * __uint_as_float((unsigned)(128 - bias - mantissa_bits) << 23);
    else value = __uint_as_float((exponent + 127 - bias) << 23 | mantissa << (23 - mantissa_bits));
    return __uint_as_float(__float_as_uint(value) | (unsigned)(x & 0x80) << 24);
}

}  // namespace hostcuda

inline __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return hostcuda::round_to_fp8(x, saturate == __NV_SATFINITE, kind);
}
inline __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8(hostcuda::round_to_odd(x), saturate, kind);
}
inline __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8((float)__half(x), saturate, kind);
}
inline __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8((float)__nv_bfloat16(x), saturate, kind);
}
inline __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    return __half(hostcuda::widen_fp8(x, kind));
}

// Two at once, the first in the lower half.
inline __nv_fp8x2_storage_t __nv_cvt_float2_to_fp8x2(float2 x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return (__nv_fp8x2_storage_t)(__nv_cvt_float_to_fp8(x.x, saturate, kind) | __nv_cvt_float_to_fp8(x.y, saturate, kind) << 8);
}
inline __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float2_to_fp8x2(__half22float2(__half2(x)), saturate, kind);
}
inline __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)x, kind).x, __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(x >> 8), kind).x};
}

#define HOSTCUDA_FP8(name, kind)                                                                        \
    struct __nv_fp8_##name {                                                                          \
        __nv_fp8_storage_t __x;                                                                       \
        __nv_fp8_##name() = default;                                                                  \
        explicit __nv_fp8_##name(float x) : __x(__nv_cvt_float_to_fp8(x, __NV_SATFINITE, kind)) {}    \
        explicit __nv_fp8_##name(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, kind)) {}  \
        explicit __nv_fp8_##name(__half x) : __nv_fp8_##name((float)x) {}                             \
        explicit __nv_fp8_##name(__nv_bfloat16 x) : __nv_fp8_##name((float)x) {}                      \
        explicit __nv_fp8_##name(int x) : __nv_fp8_##name((double)x) {}                               \
        explicit __nv_fp8_##name(unsigned int x) : __nv_fp8_##name((double)x) {}                      \
        explicit operator float() const { return hostcuda::widen_fp8(__x, kind); }                      \
        explicit operator double() const { return (float)*this; }                                     \
        explicit operator __half() const { return __half((float)*this); }                             \
        explicit operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); }               \
        explicit operator int() const { return __float2int_rz((float)*this); }                        \
        explicit operator bool() const { return (__x & 0x7f) != 0; }                                  \
    };                                                                                                \
    struct alignas(2) __nv_fp8x2_##name {                                                             \
        __nv_fp8x2_storage_t __x;                                                                     \
        __nv_fp8x2_##name() = default;                                                                \
        explicit __nv_fp8x2_##name(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, kind)) {} \
        explicit __nv_fp8x2_##name(double2 x)                                                         \
            : __nv_fp8x2_##name(float2{hostcuda::round_to_odd(x.x), hostcuda::round_to_odd(x.y)}) {}      \
        explicit __nv_fp8x2_##name(__half2 x) : __nv_fp8x2_##name(__half22float2(x)) {}               \
        explicit __nv_fp8x2_##name(__nv_bfloat162 x) : __nv_fp8x2_##name(__bfloat1622float2(x)) {}    \
        explicit operator float2() const {                                                            \
            return {hostcuda::widen_fp8((__nv_fp8_storage_t)__x, kind), hostcuda::widen_fp8((__nv_fp8_storage_t)(__x >> 8), kind)}; \
        }                                                                                             \
        explicit operator __half2() const { return __float22half2_rn((float2)*this); }                \
    };                                                                                                \
    struct alignas(4) __nv_fp8x4_##name {                                                             \
        __nv_fp8x4_storage_t __x;                                                                     \
        __nv_fp8x4_##name() = default;                                                                \
        explicit __nv_fp8x4_##name(float4 x)                                                          \
            : __x(__nv_cvt_float2_to_fp8x2({x.x, x.y}, __NV_SATFINITE, kind)                          \
                  | (unsigned)__nv_cvt_float2_to_fp8x2({x.z, x.w}, __NV_SATFINITE, kind) << 16) {}    \
        explicit __nv_fp8x4_##name(double4 x)                                                         \
            : __nv_fp8x4_##name(float4{hostcuda::round_to_odd(x.x), hostcuda::round_to_odd(x.y),          \
                                       hostcuda::round_to_odd(x.z), hostcuda::round_to_odd(x.w)}) {}      \
        explicit __nv_fp8x4_##name(__half2 low, __half2 high)                                         \
            : __x(__nv_fp8x2_##name(low).__x | (unsigned)__nv_fp8x2_##name(high).__x << 16) {}        \
        explicit __nv_fp8x4_##name(__nv_bfloat162 low, __nv_bfloat162 high)                           \
            : __x(__nv_fp8x2_##name(low).__x | (unsigned)__nv_fp8x2_##name(high).__x << 16) {}        \
        explicit operator float4() const {                                                            \
            auto at = [&](int i) { return hostcuda::widen_fp8((__nv_fp8_storage_t)(__x >> 8 * i), kind); }; \
            return {at(0), at(1), at(2), at(3)};                                                      \
        }                                                                                             \
    };
HOSTCUDA_FP8(e4m3, __NV_E4M3)
HOSTCUDA_FP8(e5m2, __NV_E5M2)
#undef HOSTCUDA_FP8
