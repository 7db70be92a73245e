// __nv_bfloat16 and __nv_bfloat162 (cuda_bf16.h): the upper half of a float.
//
// As for half, every operation computes in float and rounds once, to nearest even; the fused multiply-add
// computes in double and also rounds once.
#pragma once
#include <stdint.h>
#include "half.h"
#include "vector_types.h"

struct __nv_bfloat16_raw { unsigned short x; };

namespace labkit {

constexpr unsigned short round_to_bfloat16(float x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace labkit

struct __nv_bfloat16 {
    unsigned short storage;

    __nv_bfloat16() = default;
    constexpr __nv_bfloat16(const __nv_bfloat16_raw &raw) : storage(raw.x) {}
    constexpr __nv_bfloat16(float x) : storage(labkit::round_to_bfloat16(x)) {}
    __nv_bfloat16(double x) : __nv_bfloat16(labkit::round_to_odd(x)) {}
    __nv_bfloat16(int x) : __nv_bfloat16((double)x) {}
    __nv_bfloat16(unsigned int x) : __nv_bfloat16((double)x) {}

    constexpr operator __nv_bfloat16_raw() const { return {storage}; }
    constexpr operator float() const { return __builtin_bit_cast(float, (uint32_t)storage << 16); }
    operator int() const { return __float2int_rz((float)*this); }
    constexpr operator bool() const { return (storage & 0x7fff) != 0; }
};

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;

    __nv_bfloat162() = default;
    constexpr __nv_bfloat162(const __nv_bfloat16 &x, const __nv_bfloat16 &y) : x(x), y(y) {}
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

constexpr __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
constexpr __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
inline __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
constexpr float __bfloat162float(__nv_bfloat16 a) { return (float)a; }
inline int __bfloat162int_rz(__nv_bfloat16 a) { return __float2int_rz((float)a); }
inline int __bfloat162int_rn(__nv_bfloat16 a) { return __float2int_rn((float)a); }
constexpr unsigned short __bfloat16_as_ushort(__nv_bfloat16 a) { return a.storage; }
constexpr short __bfloat16_as_short(__nv_bfloat16 a) { return (short)a.storage; }
constexpr __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
    return __nv_bfloat16(__nv_bfloat16_raw{bits});
}
constexpr __nv_bfloat16 __short_as_bfloat16(short bits) { return __ushort_as_bfloat16((unsigned short)bits); }
constexpr __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
constexpr __nv_bfloat162 make_bfloat162(__nv_bfloat16 low, __nv_bfloat16 high) { return {low, high}; }
constexpr __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
constexpr __nv_bfloat162 __floats2bfloat162_rn(float low, float high) {
    return {__nv_bfloat16(low), __nv_bfloat16(high)};
}
constexpr __nv_bfloat162 __float2bfloat162_rn(float x) { return __floats2bfloat162_rn(x, x); }
constexpr __nv_bfloat162 __float22bfloat162_rn(float2 x) { return __floats2bfloat162_rn(x.x, x.y); }
constexpr float2 __bfloat1622float2(__nv_bfloat162 a) { return {(float)a.x, (float)a.y}; }
constexpr float __low2float(__nv_bfloat162 a) { return (float)a.x; }
constexpr float __high2float(__nv_bfloat162 a) { return (float)a.y; }
constexpr __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
constexpr __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }

#define LABKIT_BFLOAT16_ARITHMETIC(name, name2, operation)                                            \
    inline __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) {                                     \
        return __nv_bfloat16((float)a operation (float)b);                                            \
    }                                                                                                 \
    inline __nv_bfloat162 name2(__nv_bfloat162 a, __nv_bfloat162 b) {                                 \
        return {name(a.x, b.x), name(a.y, b.y)};                                                      \
    }                                                                                                 \
    LABKIT_BFLOAT16_OPERATORS(__nv_bfloat16, name, operation)                                         \
    LABKIT_BFLOAT16_OPERATORS(__nv_bfloat162, name2, operation)
#define LABKIT_BFLOAT16_OPERATORS(T, name, operation)                                                 \
    inline T operator operation(const T &a, const T &b) { return name(a, b); }                        \
    inline T &operator operation##=(T &a, const T &b) { return a = name(a, b); }
LABKIT_BFLOAT16_ARITHMETIC(__hadd, __hadd2, +)
LABKIT_BFLOAT16_ARITHMETIC(__hsub, __hsub2, -)
LABKIT_BFLOAT16_ARITHMETIC(__hmul, __hmul2, *)
LABKIT_BFLOAT16_ARITHMETIC(__hdiv, __h2div, /)
#undef LABKIT_BFLOAT16_ARITHMETIC
#undef LABKIT_BFLOAT16_OPERATORS

inline __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __nv_bfloat16((double)(float)a * (double)(float)b + (double)(float)c);
}
inline __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
constexpr __nv_bfloat16 __hneg(__nv_bfloat16 a) { return __ushort_as_bfloat16(a.storage ^ 0x8000); }
constexpr __nv_bfloat16 __habs(__nv_bfloat16 a) { return __ushort_as_bfloat16(a.storage & 0x7fff); }
constexpr __nv_bfloat16 operator-(const __nv_bfloat16 &a) { return __hneg(a); }
constexpr __nv_bfloat162 operator-(const __nv_bfloat162 &a) { return {__hneg(a.x), __hneg(a.y)}; }
constexpr bool __hisnan(__nv_bfloat16 a) { return (a.storage & 0x7fff) > 0x7f80; }

#define LABKIT_BFLOAT16_RELATION(name, relation)                                                      \
    inline bool name(__nv_bfloat16 a, __nv_bfloat16 b) { return (float)a relation (float)b; }         \
    inline bool operator relation(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return name(a, b); }
LABKIT_BFLOAT16_RELATION(__heq, ==)
LABKIT_BFLOAT16_RELATION(__hneu, !=)
LABKIT_BFLOAT16_RELATION(__hlt, <)
LABKIT_BFLOAT16_RELATION(__hle, <=)
LABKIT_BFLOAT16_RELATION(__hgt, >)
LABKIT_BFLOAT16_RELATION(__hge, >=)
#undef LABKIT_BFLOAT16_RELATION

inline __nv_bfloat16 __hmax(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(fmaxf((float)a, (float)b));
}
inline __nv_bfloat16 __hmin(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(fminf((float)a, (float)b));
}
inline __nv_bfloat162 __hmax2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
inline __nv_bfloat162 __hmin2(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
constexpr __nv_bfloat162 __hneg2(__nv_bfloat162 a) { return {__hneg(a.x), __hneg(a.y)}; }
constexpr __nv_bfloat162 __habs2(__nv_bfloat162 a) { return {__habs(a.x), __habs(a.y)}; }
constexpr int __hisinf(__nv_bfloat16 a) { return a.storage == 0x7f80 ? 1 : a.storage == 0xff80 ? -1 : 0; }

// ---- Functions --------------------------------------------------------------------------------------------

#define LABKIT_BFLOAT16_FUNCTION(name, expression)                                                    \
    inline __nv_bfloat16 h##name(__nv_bfloat16 a) { float x = (float)a; return __nv_bfloat16(expression); } \
    inline __nv_bfloat162 h2##name(__nv_bfloat162 a) { return {h##name(a.x), h##name(a.y)}; }
LABKIT_BFLOAT16_FUNCTION(sqrt, sqrtf(x))
LABKIT_BFLOAT16_FUNCTION(rsqrt, 1.0 / sqrt((double)x))
LABKIT_BFLOAT16_FUNCTION(rcp, 1.0f / x)
LABKIT_BFLOAT16_FUNCTION(exp, expf(x))
LABKIT_BFLOAT16_FUNCTION(exp2, exp2f(x))
LABKIT_BFLOAT16_FUNCTION(exp10, exp10f(x))
LABKIT_BFLOAT16_FUNCTION(log, logf(x))
LABKIT_BFLOAT16_FUNCTION(log2, log2f(x))
LABKIT_BFLOAT16_FUNCTION(log10, log10f(x))
LABKIT_BFLOAT16_FUNCTION(sin, sinf(x))
LABKIT_BFLOAT16_FUNCTION(cos, cosf(x))
LABKIT_BFLOAT16_FUNCTION(tanh, tanhf(x))
LABKIT_BFLOAT16_FUNCTION(floor, floorf(x))
LABKIT_BFLOAT16_FUNCTION(ceil, ceilf(x))
LABKIT_BFLOAT16_FUNCTION(rint, rintf(x))
LABKIT_BFLOAT16_FUNCTION(trunc, truncf(x))
#undef LABKIT_BFLOAT16_FUNCTION
