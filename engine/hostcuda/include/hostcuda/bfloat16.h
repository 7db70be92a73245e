// __nv_bfloat16 and __nv_bfloat162 (cuda_bf16.h): the upper half of a float.
//
// As for half, every operation computes in float and rounds once, to nearest even; the fused multiply-add
// computes in double and also rounds once.
#pragma once
#include <stdint.h>
#include <type_traits>
#include "half.h"
#include "vector_types.h"

struct __nv_bfloat16_raw { unsigned short x; };

namespace hostcuda {

constexpr unsigned short round_to_bfloat16(float x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return (unsigned short)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// An integer as a double that rounds like it: of the bits that a double does not have, the last one that it has tells
// whether there are any.
template <class T> inline double double_to_odd(T x) {
    const T lost = 2047;
    if (x < (T)1 << 52 && (std::is_unsigned_v<T> || -x < (T)1 << 52)) return (double)x;
    return (double)((x & ~lost) | ((x & lost) != 0 ? lost + 1 : 0));
}

// The same towards zero, up or down.
template <rounding mode> constexpr unsigned short round_to_bfloat16(float x) {
    if (mode == to_nearest) return round_to_bfloat16(x);
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    bool away = (bits & 0xffff) != 0 && mode == (bits >> 31 ? down : up);
    return (unsigned short)((bits >> 16) + away);
}

}  // namespace hostcuda

struct __nv_bfloat16 {
    unsigned short storage;

    __nv_bfloat16() = default;
    constexpr __nv_bfloat16(const __nv_bfloat16_raw &raw) : storage(raw.x) {}
    constexpr __nv_bfloat16(float x) : storage(hostcuda::round_to_bfloat16(x)) {}
    __nv_bfloat16(double x) : __nv_bfloat16(hostcuda::round_to_odd(x)) {}
    __nv_bfloat16(const __half &x) : __nv_bfloat16((float)x) {}
    __nv_bfloat16(short x) : __nv_bfloat16((double)x) {}
    __nv_bfloat16(unsigned short x) : __nv_bfloat16((double)x) {}
    __nv_bfloat16(int x) : __nv_bfloat16((double)x) {}
    __nv_bfloat16(unsigned int x) : __nv_bfloat16((double)x) {}
    __nv_bfloat16(long x) : __nv_bfloat16((long long)x) {}
    __nv_bfloat16(unsigned long x) : __nv_bfloat16((unsigned long long)x) {}
    __nv_bfloat16(long long x) : __nv_bfloat16(hostcuda::double_to_odd(x)) {}
    __nv_bfloat16(unsigned long long x) : __nv_bfloat16(hostcuda::double_to_odd(x)) {}

    constexpr operator __nv_bfloat16_raw() const { return {storage}; }
    constexpr operator float() const { return __builtin_bit_cast(float, (uint32_t)storage << 16); }
    operator signed char() const { return (signed char)max(-128, min(127, (int)*this)); }
    operator unsigned char() const { return (unsigned char)max(0, min(255, (int)*this)); }
    operator char() const { return (char)(signed char)*this; }
    operator short() const { return (short)max(-32768, min(32767, (int)*this)); }
    operator unsigned short() const { return (unsigned short)max(0, min(65535, (int)*this)); }
    operator int() const { return __float2int_rz((float)*this); }
    operator unsigned int() const { return __float2uint_rz((float)*this); }
    operator long() const { return __float2ll_rz((float)*this); }
    operator unsigned long() const { return __float2ull_rz((float)*this); }
    operator long long() const { return __float2ll_rz((float)*this); }
    operator unsigned long long() const { return __float2ull_rz((float)*this); }
    constexpr operator bool() const { return (storage & 0x7fff) != 0; }
};

inline __half::__half(const __nv_bfloat16 &x) : __half((float)x) {}

struct alignas(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;

    __nv_bfloat162() = default;
    constexpr __nv_bfloat162(const __nv_bfloat16 &x, const __nv_bfloat16 &y) : x(x), y(y) {}
};

typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

constexpr __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
constexpr __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
#define HOSTCUDA_BFLOAT16_ROUNDED(suffix, mode)                                                         \
    constexpr __nv_bfloat16 __float2bfloat16##suffix(float x) {                                       \
        return __nv_bfloat16(__nv_bfloat16_raw{hostcuda::round_to_bfloat16<hostcuda::mode>(x)});          \
    }
HOSTCUDA_BFLOAT16_ROUNDED(_rz, to_zero)
HOSTCUDA_BFLOAT16_ROUNDED(_ru, up)
HOSTCUDA_BFLOAT16_ROUNDED(_rd, down)
#undef HOSTCUDA_BFLOAT16_ROUNDED
#define HOSTCUDA_BFLOAT16_FROM(T, name)                                                                 \
    inline __nv_bfloat16 __##name##2bfloat16_rn(T x) { return __nv_bfloat16(x); }
HOSTCUDA_BFLOAT16_FROM(short, short)
HOSTCUDA_BFLOAT16_FROM(unsigned short, ushort)
HOSTCUDA_BFLOAT16_FROM(int, int)
HOSTCUDA_BFLOAT16_FROM(unsigned int, uint)
HOSTCUDA_BFLOAT16_FROM(long long, ll)
HOSTCUDA_BFLOAT16_FROM(unsigned long long, ull)
#undef HOSTCUDA_BFLOAT16_FROM
#define HOSTCUDA_BFLOAT16_TO(T, name, low, high, via)                                                   \
    inline T __bfloat162##name##_rn(__nv_bfloat16 a) { return (T)max(low, min(high, __float2##via##_rn((float)a))); } \
    inline T __bfloat162##name##_rz(__nv_bfloat16 a) { return (T)max(low, min(high, __float2##via##_rz((float)a))); } \
    inline T __bfloat162##name##_ru(__nv_bfloat16 a) { return (T)max(low, min(high, __float2##via##_ru((float)a))); } \
    inline T __bfloat162##name##_rd(__nv_bfloat16 a) { return (T)max(low, min(high, __float2##via##_rd((float)a))); }
HOSTCUDA_BFLOAT16_TO(short, short, SHRT_MIN, SHRT_MAX, int)
HOSTCUDA_BFLOAT16_TO(unsigned short, ushort, 0, USHRT_MAX, int)
HOSTCUDA_BFLOAT16_TO(int, int, INT_MIN, INT_MAX, int)
HOSTCUDA_BFLOAT16_TO(unsigned int, uint, 0u, UINT_MAX, uint)
HOSTCUDA_BFLOAT16_TO(long long, ll, LLONG_MIN, LLONG_MAX, ll)
HOSTCUDA_BFLOAT16_TO(unsigned long long, ull, 0ull, ULLONG_MAX, ull)
#undef HOSTCUDA_BFLOAT16_TO
inline __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
constexpr float __bfloat162float(__nv_bfloat16 a) { return (float)a; }
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
constexpr __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return {a.x, a.x}; }
constexpr __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return {a.y, a.y}; }
constexpr __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.x, b.x}; }
constexpr __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return {a.y, b.y}; }
constexpr __nv_bfloat162 __lowhigh2highlow(__nv_bfloat162 a) { return {a.y, a.x}; }

#define HOSTCUDA_BFLOAT16_ARITHMETIC(name, name2, operation)                                            \
    inline __nv_bfloat16 name(__nv_bfloat16 a, __nv_bfloat16 b) {                                     \
        return __nv_bfloat16((float)a operation (float)b);                                            \
    }                                                                                                 \
    inline __nv_bfloat162 name2(__nv_bfloat162 a, __nv_bfloat162 b) {                                 \
        return {name(a.x, b.x), name(a.y, b.y)};                                                      \
    }                                                                                                 \
    inline __nv_bfloat16 name##_rn(__nv_bfloat16 a, __nv_bfloat16 b) { return name(a, b); }           \
    inline __nv_bfloat162 name2##_rn(__nv_bfloat162 a, __nv_bfloat162 b) { return name2(a, b); }      \
    inline __nv_bfloat16 name##_sat(__nv_bfloat16 a, __nv_bfloat16 b) {                               \
        return __nv_bfloat16(__saturatef((float)a operation (float)b));                               \
    }                                                                                                 \
    inline __nv_bfloat162 name2##_sat(__nv_bfloat162 a, __nv_bfloat162 b) {                           \
        return {name##_sat(a.x, b.x), name##_sat(a.y, b.y)};                                          \
    }                                                                                                 \
    HOSTCUDA_BFLOAT16_OPERATORS(__nv_bfloat16, name, operation)                                         \
    HOSTCUDA_BFLOAT16_OPERATORS(__nv_bfloat162, name2, operation)
#define HOSTCUDA_BFLOAT16_OPERATORS(T, name, operation)                                                 \
    inline T operator operation(const T &a, const T &b) { return name(a, b); }                        \
    inline T &operator operation##=(T &a, const T &b) { return a = name(a, b); }
HOSTCUDA_BFLOAT16_ARITHMETIC(__hadd, __hadd2, +)
HOSTCUDA_BFLOAT16_ARITHMETIC(__hsub, __hsub2, -)
HOSTCUDA_BFLOAT16_ARITHMETIC(__hmul, __hmul2, *)
HOSTCUDA_BFLOAT16_ARITHMETIC(__hdiv, __h2div, /)
#undef HOSTCUDA_BFLOAT16_ARITHMETIC
#undef HOSTCUDA_BFLOAT16_OPERATORS

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

inline __nv_bfloat16 operator+(const __nv_bfloat16 &a) { return a; }
inline __nv_bfloat162 operator+(const __nv_bfloat162 &a) { return a; }
inline __nv_bfloat16 &operator++(__nv_bfloat16 &a) { return a += __nv_bfloat16(1.0f); }
inline __nv_bfloat16 &operator--(__nv_bfloat16 &a) { return a -= __nv_bfloat16(1.0f); }
inline __nv_bfloat16 operator++(__nv_bfloat16 &a, int) { __nv_bfloat16 old = a; ++a; return old; }
inline __nv_bfloat16 operator--(__nv_bfloat16 &a, int) { __nv_bfloat16 old = a; --a; return old; }

// Each relation is false for a NaN; the form with u ("unordered") is true.
#define HOSTCUDA_BFLOAT16_RELATION(name, relation)                                                      \
    inline bool __h##name(__nv_bfloat16 a, __nv_bfloat16 b) {                                         \
        return !__hisnan(a) && !__hisnan(b) && (float)a relation (float)b;                            \
    }                                                                                                 \
    inline bool __h##name##u(__nv_bfloat16 a, __nv_bfloat16 b) {                                      \
        return __hisnan(a) || __hisnan(b) || (float)a relation (float)b;                              \
    }                                                                                                 \
    HOSTCUDA_BFLOAT16_RELATION2(name) HOSTCUDA_BFLOAT16_RELATION2(name##u)
#define HOSTCUDA_BFLOAT16_RELATION2(name)                                                               \
    inline __nv_bfloat162 __h##name##2(__nv_bfloat162 a, __nv_bfloat162 b) {                          \
        return {__nv_bfloat16(__h##name(a.x, b.x) ? 1.0f : 0.0f), __nv_bfloat16(__h##name(a.y, b.y) ? 1.0f : 0.0f)}; \
    }                                                                                                 \
    inline bool __hb##name##2(__nv_bfloat162 a, __nv_bfloat162 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); } \
    inline unsigned int __h##name##2_mask(__nv_bfloat162 a, __nv_bfloat162 b) {                       \
        return hostcuda::as_mask(__h##name(a.x, b.x), __h##name(a.y, b.y));                             \
    }
HOSTCUDA_BFLOAT16_RELATION(eq, ==)
HOSTCUDA_BFLOAT16_RELATION(ne, !=)
HOSTCUDA_BFLOAT16_RELATION(lt, <)
HOSTCUDA_BFLOAT16_RELATION(le, <=)
HOSTCUDA_BFLOAT16_RELATION(gt, >)
HOSTCUDA_BFLOAT16_RELATION(ge, >=)
#undef HOSTCUDA_BFLOAT16_RELATION
#undef HOSTCUDA_BFLOAT16_RELATION2

#define HOSTCUDA_BFLOAT16_OPERATOR(relation, name, name2)                                               \
    inline bool operator relation(const __nv_bfloat16 &a, const __nv_bfloat16 &b) { return name(a, b); } \
    inline bool operator relation(const __nv_bfloat162 &a, const __nv_bfloat162 &b) { return name2(a, b); }
HOSTCUDA_BFLOAT16_OPERATOR(==, __heq, __hbeq2)
HOSTCUDA_BFLOAT16_OPERATOR(!=, __hneu, __hbneu2)
HOSTCUDA_BFLOAT16_OPERATOR(<, __hlt, __hblt2)
HOSTCUDA_BFLOAT16_OPERATOR(<=, __hle, __hble2)
HOSTCUDA_BFLOAT16_OPERATOR(>, __hgt, __hbgt2)
HOSTCUDA_BFLOAT16_OPERATOR(>=, __hge, __hbge2)
#undef HOSTCUDA_BFLOAT16_OPERATOR

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
inline __nv_bfloat16 __hmax_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hisnan(a) || __hisnan(b) ? __ushort_as_bfloat16(0x7fff) : __hmax(a, b);
}
inline __nv_bfloat16 __hmin_nan(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __hisnan(a) || __hisnan(b) ? __ushort_as_bfloat16(0x7fff) : __hmin(a, b);
}
inline __nv_bfloat162 __hmax2_nan(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y)}; }
inline __nv_bfloat162 __hmin2_nan(__nv_bfloat162 a, __nv_bfloat162 b) { return {__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y)}; }
inline __nv_bfloat16 __hfma_sat(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __nv_bfloat16(__saturatef((float)__hfma(a, b, c)));
}
inline __nv_bfloat16 __hfma_relu(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __hmax_nan(__hfma(a, b, c), __nv_bfloat16(0.0f));
}
inline __nv_bfloat162 __hfma2_relu(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return __hmax2_nan(__hfma2(a, b, c), __bfloat162bfloat162(__nv_bfloat16(0.0f)));
}
constexpr int __hisinf(__nv_bfloat16 a) { return a.storage == 0x7f80 ? 1 : a.storage == 0xff80 ? -1 : 0; }

// ---- Functions --------------------------------------------------------------------------------------------

#define HOSTCUDA_BFLOAT16_FUNCTION(name, expression)                                                    \
    inline __nv_bfloat16 h##name(__nv_bfloat16 a) { float x = (float)a; return __nv_bfloat16(expression); } \
    inline __nv_bfloat162 h2##name(__nv_bfloat162 a) { return {h##name(a.x), h##name(a.y)}; }
HOSTCUDA_BFLOAT16_FUNCTION(sqrt, sqrtf(x))
HOSTCUDA_BFLOAT16_FUNCTION(rsqrt, 1.0 / sqrt((double)x))
HOSTCUDA_BFLOAT16_FUNCTION(rcp, 1.0f / x)
HOSTCUDA_BFLOAT16_FUNCTION(exp, expf(x))
HOSTCUDA_BFLOAT16_FUNCTION(exp2, exp2f(x))
HOSTCUDA_BFLOAT16_FUNCTION(exp10, exp10f(x))
HOSTCUDA_BFLOAT16_FUNCTION(log, logf(x))
HOSTCUDA_BFLOAT16_FUNCTION(log2, log2f(x))
HOSTCUDA_BFLOAT16_FUNCTION(log10, log10f(x))
HOSTCUDA_BFLOAT16_FUNCTION(sin, sinf(x))
HOSTCUDA_BFLOAT16_FUNCTION(cos, cosf(x))
HOSTCUDA_BFLOAT16_FUNCTION(tanh, tanhf(x))
HOSTCUDA_BFLOAT16_FUNCTION(floor, floorf(x))
HOSTCUDA_BFLOAT16_FUNCTION(ceil, ceilf(x))
HOSTCUDA_BFLOAT16_FUNCTION(rint, rintf(x))
HOSTCUDA_BFLOAT16_FUNCTION(trunc, truncf(x))
#undef HOSTCUDA_BFLOAT16_FUNCTION

#define CUDART_INF_BF16 __ushort_as_bfloat16((unsigned short)0x7f80)
#define CUDART_NAN_BF16 __ushort_as_bfloat16((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_BF16 __ushort_as_bfloat16((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_BF16 __ushort_as_bfloat16((unsigned short)0x7f7f)
#define CUDART_NEG_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x8000)
#define CUDART_ZERO_BF16 __ushort_as_bfloat16((unsigned short)0x0000)
#define CUDART_ONE_BF16 __ushort_as_bfloat16((unsigned short)0x3f80)
