// half and half2: CUDA's 16-bit floating point (cuda_fp16.h).
//
// Every operation computes in float and rounds once to half (to nearest even). A float has more than twice the bits of a
// half, so that for + - * / and sqrt the two roundings give the correctly rounded result (Figueroa, 1995). For the fused
// multiply-add see fma_float below; it is one instruction where the processor has it (AVX512-FP16, ARMv8.2).
//
// Conversions are one instruction if the processor has it (F16C on x86, AArch64), otherwise integer arithmetic. On x86
// with GCC it is written in assembler with _Float16, which is kept in vector registers. A chain of half products and sums
// ran at 600 million pairs per second that way; at 210 with GCC 12's builtins, which move each value through the integer
// registers; at 360 with its _Float16 arithmetic, which may also omit roundings under -ffast-math.
//
// In thread loops, g++ calls functions of the runtime instead, because they have versions for vectors: see "Thread loops".
#pragma once
#include <stdint.h>
#include <string.h>
#include <type_traits>
#include "math.h"
#include "vector_types.h"

#define HOSTCUDA_INLINE inline __attribute__((always_inline))

// ---- Conversion -------------------------------------------------------------------------------------------

namespace hostcuda {

enum rounding { to_nearest = 0, down = 1, up = 2, to_zero = 3 };   // numbered as F16C's immediate operand

// float to half in integer arithmetic, for compilers or processors without the conversion.
template <rounding mode> constexpr uint16_t round_to_half(float x) {
    uint32_t bits = __builtin_bit_cast(uint32_t, x);
    uint32_t sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x1ff));
    if (magnitude == 0x7f800000) return (uint16_t)(sign | 0x7c00);
    uint32_t kept = 0, rest = 0, halfway = 0;
    if (magnitude >= 0x38800000) {           // normal: the exponent's bias changes, 13 bits are dropped
        kept = (magnitude - 0x38000000) >> 13;
        rest = magnitude & 0x1fff;
        halfway = 0x1000;
    } else if (magnitude != 0) {             // subnormal: count in 2^-24
        int exponent = (int)(magnitude >> 23);
        int shift = exponent < 100 ? 26 : 126 - exponent;
        uint32_t mantissa = (magnitude & 0x7fffff) | 0x800000;
        kept = mantissa >> shift;
        rest = mantissa & ((1u << shift) - 1);
        halfway = 1u << (shift - 1);
    }
    bool away = mode == to_nearest ? rest > halfway || (rest != 0 && rest == halfway && (kept & 1))
              : mode == up ? rest != 0 && sign == 0
              : mode == down ? rest != 0 && sign != 0 : false;
    if (kept >= 0x7c00) {                    // too large even before rounding
        bool infinite = mode == to_nearest || (mode == up && sign == 0) || (mode == down && sign != 0);
        return (uint16_t)(sign | (infinite ? 0x7c00u : 0x7bffu));
    }
    return (uint16_t)(sign | (kept + away));
}

constexpr float widen_half(uint16_t bits) {
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 0x3ff;
    uint32_t magnitude = 0;
    if (exponent == 31) magnitude = 0x7f800000 | mantissa << 13 | (mantissa != 0 ? 0x400000u : 0u);
    else if (exponent != 0) magnitude = (exponent + 112) << 23 | mantissa << 13;
    else magnitude = __builtin_bit_cast(uint32_t, (float)mantissa * 0x1p-24f);
    return __builtin_bit_cast(float, sign | magnitude);
}

typedef float float_x4 __attribute__((vector_size(16)));   // a half2 as floats: two lanes are used
typedef unsigned int uint_x4 __attribute__((vector_size(16)));

#if defined(__F16C__) && defined(__FLT16_MANT_DIG__) && defined(__GNUC__) && !defined(__clang__)

typedef _Float16 half_storage;

HOSTCUDA_INLINE float widen(half_storage x) {
    if (__builtin_constant_p(x)) return widen_half(__builtin_bit_cast(uint16_t, x));
    float result;
    asm("vcvtph2ps %1, %0" : "=x"(result) : "x"(x));
    return result;
}
// g++ loads a half into the low bits of a register, which it keeps otherwise: the load waits for what was there. For the
// sum of a thread that is the sum of the thread before it, so that the chains of two threads would not overlap.
HOSTCUDA_INLINE half_storage load(const half_storage &x) {
    half_storage result;
    asm("" : "=x"(result) : "0"(__builtin_bit_cast(float, (uint32_t)__builtin_bit_cast(uint16_t, x))));
    return result;
}
template <rounding mode> HOSTCUDA_INLINE half_storage narrow(float x) {
    if (__builtin_constant_p(x)) return __builtin_bit_cast(half_storage, round_to_half<mode>(x));
    half_storage result;
    asm("vcvtps2ph %2, %1, %0" : "=x"(result) : "x"(x), "i"(mode));
    return result;
}
#if defined(__AVX512FP16__)
#define HOSTCUDA_NATIVE_HALF
HOSTCUDA_INLINE half_storage fused(half_storage a, half_storage b, half_storage c) {
    asm("vfmadd231sh %1, %2, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
HOSTCUDA_INLINE float fused(float a, float b, float c) {   // of pairs
    asm("vfmadd231ph %1, %2, %0" : "+x"(c) : "x"(a), "x"(b));
    return c;
}
#endif
// A half2 as the bits of a float, which keeps it in a vector register.
HOSTCUDA_INLINE float_x4 widen_pair(float pair) {
    float_x4 result;
    asm("vcvtph2ps %1, %0" : "=x"(result) : "x"(pair));
    return result;
}
HOSTCUDA_INLINE float narrow_pair(float_x4 x) {
    float pair;
    asm("vcvtps2ph $0, %1, %0" : "=x"(pair) : "x"(x));
    return pair;
}

#else

typedef uint16_t half_storage;
HOSTCUDA_INLINE half_storage load(half_storage x) { return x; }

#if defined(__F16C__)
typedef short short_x8 __attribute__((vector_size(16)));
HOSTCUDA_INLINE float widen(half_storage x) {
    return __builtin_ia32_vcvtph2ps((short_x8){(short)x, 0, 0, 0, 0, 0, 0, 0})[0];
}
template <rounding mode> HOSTCUDA_INLINE half_storage narrow(float x) {
    return (half_storage)((short_x8)__builtin_ia32_vcvtps2ph((float_x4){x, 0, 0, 0}, mode))[0];
}
#elif defined(__aarch64__)
#if defined(__ARM_FEATURE_FP16_SCALAR_ARITHMETIC) && (!defined(__clang__) || __clang_major__ >= 19)
#define HOSTCUDA_NATIVE_HALF   // clang 14 calls a function for __builtin_fmaf16
HOSTCUDA_INLINE half_storage fused(half_storage a, half_storage b, half_storage c) {
    auto value = [](half_storage x) { return __builtin_bit_cast(__fp16, x); };
    return __builtin_bit_cast(half_storage, (__fp16)__builtin_fmaf16(value(a), value(b), value(c)));
}
HOSTCUDA_INLINE float fused(float a, float b, float c) {   // of pairs
    auto bits = [](float x) { return __builtin_bit_cast(uint32_t, x); };
    uint32_t low = fused((half_storage)bits(a), (half_storage)bits(b), (half_storage)bits(c));
    uint32_t high = fused((half_storage)(bits(a) >> 16), (half_storage)(bits(b) >> 16), (half_storage)(bits(c) >> 16));
    return __builtin_bit_cast(float, low | high << 16);
}
#endif
HOSTCUDA_INLINE float widen(half_storage x) { return (float)__builtin_bit_cast(__fp16, x); }
// With half arithmetic in the processor, the compiler would join a product and a sum of halves, and round once.
#if __has_builtin(__builtin_assoc_barrier)
HOSTCUDA_INLINE float apart(float x) { return __builtin_assoc_barrier(x); }
#else
HOSTCUDA_INLINE float apart(float x) { asm("" : "+w"(x)); return x; }
#endif
template <rounding mode> HOSTCUDA_INLINE half_storage narrow(float x) {
    if constexpr (mode == to_nearest) return __builtin_bit_cast(half_storage, (__fp16)apart(x));
    else return round_to_half<mode>(x);
}
#else
// The same as widen_half and round_to_half, in fewer instructions: an addition or a product of floats rounds the subnormal.
HOSTCUDA_INLINE float widen(half_storage x) {
    uint32_t magnitude = (uint32_t)(x & 0x7fff) << 13;
    uint32_t bits = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, magnitude) * 0x1p112f);
    bits |= magnitude > 0x0f800000 ? 0x7fc00000 : magnitude == 0x0f800000 ? 0x7f800000 : 0;
    return __builtin_bit_cast(float, bits | (uint32_t)(x & 0x8000) << 16);
}
template <rounding mode> HOSTCUDA_INLINE half_storage narrow(float x) {
    if constexpr (mode != to_nearest) return round_to_half<mode>(x);
    uint32_t bits = __builtin_bit_cast(uint32_t, x), sign = bits >> 16 & 0x8000, f = bits & 0x7fffffff;
    uint32_t small = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, f) + 0.5f) - 0x3f000000;
    uint32_t normal = (f + 0xc8000fff + (f >> 13 & 1)) >> 13;
    uint32_t large = f > 0x7f800000 ? 0x7e00 | (f >> 13 & 0x1ff) : 0x7c00;
    return (half_storage)(sign | (f >= 0x47800000 ? large : f < 0x38800000 ? small : normal));
}
#endif
HOSTCUDA_INLINE float_x4 widen_pair(float pair) {
    uint32_t bits = __builtin_bit_cast(uint32_t, pair);
    return float_x4{widen((half_storage)bits), widen((half_storage)(bits >> 16)), 0.0f, 0.0f};
}
HOSTCUDA_INLINE float narrow_pair(float_x4 x) {
    uint32_t low = narrow<to_nearest>(x[0]), high = narrow<to_nearest>(x[1]);
    return __builtin_bit_cast(float, low | high << 16);
}

#endif

// A double as a float: truncated towards zero, with the last bit set if bits were lost ("rounding to odd"). Rounding the
// result to 16 bits is the same as rounding the double (Boldo and Melquiond, 2008).
inline float round_to_odd(double x) {
    float nearest = (float)x;
    if ((double)nearest == x || x != x) return nearest;
    uint32_t bits = __builtin_bit_cast(uint32_t, nearest);
    if (fabs((double)nearest) > fabs(x)) bits--;
    return __builtin_bit_cast(float, bits | 1);
}

// Fused multiply-add of three halves, as a float that rounds to the correct half. The product of two halves is exact in a
// float, but rounding the sum to float and then to half is wrong if the float is halfway between two halves and the exact
// sum is not. Such floats are rare and easy to detect. They are computed again in double, where the sum is exact unless
// its terms are so far apart that the smaller one cannot reach a halfway point.
inline __attribute__((noinline, cold)) float fma_float_halfway(float a, float b, float c) {
    return round_to_odd((double)a * (double)b + (double)c);
}
// Halfway between two normal halves: the 13 dropped bits are 1000000000000. Below 2^-14, among the subnormals, any pattern
// may be halfway; there all are taken, except those below 2^-24, which are exact.
HOSTCUDA_INLINE float fma_float(float a, float b, float c) {
    float sum = a * b + c;
    uint32_t bits = __builtin_bit_cast(uint32_t, sum);
    bool halfway = (bits & 0x1fff) == 0x1000 || 2 * bits - 0x67000000u < 0x0a000000u;
    return __builtin_expect(halfway, 0) ? fma_float_halfway(a, b, c) : sum;
}
inline __attribute__((noinline, cold)) float_x4 fma_pair_halfway(float_x4 a, float_x4 b, float_x4 c) {
    return float_x4{fma_float_halfway(a[0], b[0], c[0]), fma_float_halfway(a[1], b[1], c[1]), 0.0f, 0.0f};
}
HOSTCUDA_INLINE float_x4 fma_pair(float_x4 a, float_x4 b, float_x4 c) {
    float_x4 sum = a * b + c;
    uint_x4 bits = (uint_x4)sum;
    auto halfway = ((bits & 0x1fff) == 0x1000) | (2 * bits - 0x67000000u < 0x0a000000u);
#if defined(__SSE__)
    bool any = __builtin_ia32_movmskps((float_x4)halfway) & 3;
#else
    bool any = halfway[0] | halfway[1];
#endif
    return __builtin_expect(any, 0) ? fma_pair_halfway(a, b, c) : sum;
}

}  // namespace hostcuda

// ---- Thread loops ------------------------------------------------------------------------------------------

// g++ cannot vectorize a loop with an assembler statement, but one with calls of functions that have versions for vectors:
// those of runtime/half.cpp. In sources with thread loops they compute what HOSTCUDA_LANES(...) returns. Each argument and
// result is a half2 as the bits of a float, or one half with zeros above it: a vector register has it.
#if defined(__F16C__) && defined(__AVX2__) && defined(__FMA__) && !defined(__clang__)
#define HOSTCUDA_HALF_VECTORS extern "C" __attribute__((simd("notinbranch"), const, leaf, nothrow))
HOSTCUDA_HALF_VECTORS float hostcuda_half2_fma(float a, float b, float c);
HOSTCUDA_HALF_VECTORS float hostcuda_half2_add(float a, float b);
HOSTCUDA_HALF_VECTORS float hostcuda_half2_sub(float a, float b);
HOSTCUDA_HALF_VECTORS float hostcuda_half2_mul(float a, float b);
HOSTCUDA_HALF_VECTORS float hostcuda_half_widen(float half);
HOSTCUDA_HALF_VECTORS float hostcuda_half_narrow(float x);
namespace hostcuda { HOSTCUDA_INLINE bool in_lanes(); }   // defined by the source, because this header is precompiled for all
#define HOSTCUDA_IN_LANES(yes) HOSTCUDA_INLINE bool hostcuda::in_lanes() { return yes; }
#define HOSTCUDA_LANES(...) if (hostcuda::in_lanes()) return __VA_ARGS__;
#else
#define HOSTCUDA_IN_LANES(yes)
#define HOSTCUDA_LANES(...)
#endif

namespace hostcuda {

// The bits of a half or half2, and back. By reference and with memcpy: g++ then loads and keeps them as integers.
template <class T> HOSTCUDA_INLINE uint32_t bits(const T &x) {
    std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t> result;
    memcpy(&result, (const void *)&x, sizeof result);
    return result;
}
template <class T> HOSTCUDA_INLINE T number(uint32_t bits) {
    std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t> given = bits;
    T result;
    memcpy((void *)&result, &given, sizeof result);
    return result;
}
// The same as the bits of a float.
template <class T> HOSTCUDA_INLINE float packed(const T &x) { return number<float>(bits(x)); }
template <class T> HOSTCUDA_INLINE T unpacked(float x) { return number<T>(bits(x)); }

}  // namespace hostcuda

// ---- The types --------------------------------------------------------------------------------------------

struct __half_raw { unsigned short x; };
struct __half2_raw { unsigned short x, y; };

struct __nv_bfloat16;

struct __half {
    hostcuda::half_storage storage;

    __half() = default;
    constexpr __half(const __half_raw &raw) : storage(__builtin_bit_cast(hostcuda::half_storage, raw.x)) {}
    HOSTCUDA_INLINE __half(float x) : storage(hostcuda::narrow<hostcuda::to_nearest>(x)) {}
    HOSTCUDA_INLINE __half(double x) : storage(hostcuda::narrow<hostcuda::to_nearest>(hostcuda::round_to_odd(x))) {}
    __half(short x) : __half((double)x) {}
    __half(unsigned short x) : __half((double)x) {}
    __half(int x) : __half((double)x) {}
    __half(unsigned int x) : __half((double)x) {}
    __half(long x) : __half((double)x) {}                  // 64 bits: the rounding to double has no effect,
    __half(unsigned long x) : __half((double)x) {}         // because 65520 is infinity already
    __half(long long x) : __half((double)x) {}
    __half(unsigned long long x) : __half((double)x) {}
    explicit __half(const __nv_bfloat16 &x);  // bfloat16.h

    constexpr operator __half_raw() const { return {__builtin_bit_cast(unsigned short, storage)}; }
    HOSTCUDA_INLINE operator float() const { return hostcuda::widen(storage); }
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
    constexpr operator bool() const { return (__builtin_bit_cast(unsigned short, storage) & 0x7fff) != 0; }
};

namespace hostcuda {
HOSTCUDA_INLINE __half fetch(const __half &kept) {   // of loops.h
    HOSTCUDA_LANES(number<__half>(bits(kept)))
    __half result;
    result.storage = load(kept.storage);
    return result;
}
}  // namespace hostcuda

struct alignas(4) __half2 {
    __half x, y;

    __half2() = default;
    constexpr __half2(const __half &x, const __half &y) : x(x), y(y) {}
    constexpr __half2(const __half2_raw &raw) : x(__half_raw{raw.x}), y(__half_raw{raw.y}) {}
    constexpr operator __half2_raw() const { return {__half_raw(x).x, __half_raw(y).x}; }
};

typedef __half half;
typedef __half2 half2;
typedef __half __nv_half;
typedef __half2 __nv_half2;
typedef __half_raw __nv_half_raw;
typedef __half2_raw __nv_half2_raw;

// ---- Conversions and packing ------------------------------------------------------------------------------

constexpr unsigned short __half_as_ushort(__half a) { return __half_raw(a).x; }
constexpr short __half_as_short(__half a) { return (short)__half_raw(a).x; }
constexpr __half __ushort_as_half(unsigned short bits) { return __half(__half_raw{bits}); }
constexpr __half __short_as_half(short bits) { return __half(__half_raw{(unsigned short)bits}); }

namespace hostcuda {

HOSTCUDA_INLINE float_x4 widen2(__half2 a) { return widen_pair(__builtin_bit_cast(float, a)); }
HOSTCUDA_INLINE __half2 narrow2(float_x4 x) { return __builtin_bit_cast(__half2, narrow_pair(x)); }

template <rounding mode> HOSTCUDA_INLINE __half to_half(float x) {
    __half result;
    result.storage = narrow<mode>(x);
    return result;
}
template <rounding mode> HOSTCUDA_INLINE __half to_half(double x) { return to_half<mode>(round_to_odd(x)); }

}  // namespace hostcuda

HOSTCUDA_INLINE float __half2float(__half a) { return hostcuda::widen(a.storage); }
HOSTCUDA_INLINE __half __float2half(float x) { return hostcuda::to_half<hostcuda::to_nearest>(x); }
HOSTCUDA_INLINE __half __double2half(double x) { return hostcuda::to_half<hostcuda::to_nearest>(x); }

// name_rn, _rz, _ru, _rd: an expression in a rounding mode, or the integer conversion of a float with that
// suffix.
#define HOSTCUDA_HALF_FROM(T, name, Via)                                                                \
    inline __half __##name##2half_rn(T x) { return hostcuda::to_half<hostcuda::to_nearest>((Via)x); }     \
    inline __half __##name##2half_rz(T x) { return hostcuda::to_half<hostcuda::to_zero>((Via)x); }        \
    inline __half __##name##2half_ru(T x) { return hostcuda::to_half<hostcuda::up>((Via)x); }             \
    inline __half __##name##2half_rd(T x) { return hostcuda::to_half<hostcuda::down>((Via)x); }
HOSTCUDA_HALF_FROM(float, float, float)
HOSTCUDA_HALF_FROM(short, short, float)
HOSTCUDA_HALF_FROM(unsigned short, ushort, float)
HOSTCUDA_HALF_FROM(int, int, double)
HOSTCUDA_HALF_FROM(unsigned int, uint, double)
HOSTCUDA_HALF_FROM(long long, ll, double)
HOSTCUDA_HALF_FROM(unsigned long long, ull, double)
#undef HOSTCUDA_HALF_FROM

#define HOSTCUDA_HALF_TO(T, name, low, high, via)                                                       \
    inline T __half2##name##_rn(__half a) { return (T)max(low, min(high, __float2##via##_rn((float)a))); } \
    inline T __half2##name##_rz(__half a) { return (T)max(low, min(high, __float2##via##_rz((float)a))); } \
    inline T __half2##name##_ru(__half a) { return (T)max(low, min(high, __float2##via##_ru((float)a))); } \
    inline T __half2##name##_rd(__half a) { return (T)max(low, min(high, __float2##via##_rd((float)a))); }
HOSTCUDA_HALF_TO(short, short, SHRT_MIN, SHRT_MAX, int)
HOSTCUDA_HALF_TO(unsigned short, ushort, 0, USHRT_MAX, int)
HOSTCUDA_HALF_TO(int, int, INT_MIN, INT_MAX, int)
HOSTCUDA_HALF_TO(unsigned int, uint, 0u, UINT_MAX, uint)
HOSTCUDA_HALF_TO(long long, ll, LLONG_MIN, LLONG_MAX, ll)
HOSTCUDA_HALF_TO(unsigned long long, ull, 0ull, ULLONG_MAX, ull)
#undef HOSTCUDA_HALF_TO
inline signed char __half2char_rz(__half a) { return (signed char)a; }
inline unsigned char __half2uchar_rz(__half a) { return (unsigned char)a; }

HOSTCUDA_INLINE __half2 __halves2half2(__half low, __half high) {
    HOSTCUDA_LANES(hostcuda::number<__half2>(hostcuda::bits(low) | hostcuda::bits(high) << 16))
    return __half2(low, high);
}
HOSTCUDA_INLINE __half2 make_half2(__half low, __half high) { return __halves2half2(low, high); }
HOSTCUDA_INLINE __half2 __half2half2(__half a) {
    HOSTCUDA_LANES(hostcuda::number<__half2>(hostcuda::bits(a) * 0x10001u))
    return __half2(a, a);
}
HOSTCUDA_INLINE __half2 __floats2half2_rn(float low, float high) {
    HOSTCUDA_LANES(hostcuda::number<__half2>(
        hostcuda::bits(hostcuda_half_narrow(low)) | hostcuda::bits(hostcuda_half_narrow(high)) << 16))
    return hostcuda::narrow2(hostcuda::float_x4{low, high, 0.0f, 0.0f});
}
HOSTCUDA_INLINE __half2 __float2half2_rn(float x) { return __floats2half2_rn(x, x); }
HOSTCUDA_INLINE __half2 __float22half2_rn(float2 x) { return __floats2half2_rn(x.x, x.y); }
HOSTCUDA_INLINE __half __low2half(const __half2 &a) {
    HOSTCUDA_LANES(hostcuda::number<__half>(hostcuda::bits(a)))
    return a.x;
}
HOSTCUDA_INLINE __half __high2half(const __half2 &a) {
    HOSTCUDA_LANES(hostcuda::number<__half>(hostcuda::bits(a) >> 16))
    return a.y;
}
HOSTCUDA_INLINE float __low2float(const __half2 &a) {
    HOSTCUDA_LANES(hostcuda_half_widen(hostcuda::packed(a)))
    return hostcuda::widen2(a)[0];
}
HOSTCUDA_INLINE float __high2float(const __half2 &a) {
    HOSTCUDA_LANES(hostcuda_half_widen(hostcuda::number<float>(hostcuda::bits(a) >> 16)))
    return hostcuda::widen2(a)[1];
}
HOSTCUDA_INLINE float2 __half22float2(const __half2 &a) {
    HOSTCUDA_LANES(float2{__low2float(a), __high2float(a)})
    hostcuda::float_x4 x = hostcuda::widen2(a);
    return float2{x[0], x[1]};
}
HOSTCUDA_INLINE __half2 __low2half2(const __half2 &a) { return __half2half2(__low2half(a)); }
HOSTCUDA_INLINE __half2 __high2half2(const __half2 &a) { return __half2half2(__high2half(a)); }
HOSTCUDA_INLINE __half2 __lows2half2(const __half2 &a, const __half2 &b) {
    return __halves2half2(__low2half(a), __low2half(b));
}
HOSTCUDA_INLINE __half2 __highs2half2(const __half2 &a, const __half2 &b) {
    return __halves2half2(__high2half(a), __high2half(b));
}
HOSTCUDA_INLINE __half2 __lowhigh2highlow(const __half2 &a) { return __halves2half2(__high2half(a), __low2half(a)); }

// ---- Arithmetic -------------------------------------------------------------------------------------------

#define HOSTCUDA_HALF_ARITHMETIC(name, operation)                                                       \
    HOSTCUDA_INLINE __half __h##name(const __half &a, const __half &b) {                                \
        HOSTCUDA_LANES(hostcuda::unpacked<__half>(hostcuda_half2_##name(hostcuda::packed(a), hostcuda::packed(b)))) \
        return __half((float)a operation (float)b);                                                   \
    }                                                                                                 \
    HOSTCUDA_INLINE __half __h##name##_rn(const __half &a, const __half &b) { return __h##name(a, b); } \
    HOSTCUDA_INLINE __half __h##name##_sat(__half a, __half b) {                                        \
        return __half(__saturatef((float)a operation (float)b));                                      \
    }                                                                                                 \
    HOSTCUDA_INLINE __half2 __h##name##2(const __half2 &a, const __half2 &b) {                          \
        HOSTCUDA_LANES(hostcuda::unpacked<__half2>(hostcuda_half2_##name(hostcuda::packed(a), hostcuda::packed(b)))) \
        return hostcuda::narrow2(hostcuda::widen2(a) operation hostcuda::widen2(b));                        \
    }                                                                                                 \
    HOSTCUDA_INLINE __half2 __h##name##2_rn(const __half2 &a, const __half2 &b) { return __h##name##2(a, b); } \
    HOSTCUDA_INLINE __half2 __h##name##2_sat(__half2 a, __half2 b) {                                    \
        return __half2(__h##name##_sat(a.x, b.x), __h##name##_sat(a.y, b.y));                         \
    }                                                                                                 \
    HOSTCUDA_INLINE __half operator operation(const __half &a, const __half &b) { return __h##name(a, b); } \
    HOSTCUDA_INLINE __half2 operator operation(const __half2 &a, const __half2 &b) {                    \
        return __h##name##2(a, b);                                                                    \
    }                                                                                                 \
    HOSTCUDA_INLINE __half &operator operation##=(__half &a, const __half &b) { return a = __h##name(a, b); } \
    HOSTCUDA_INLINE __half2 &operator operation##=(__half2 &a, const __half2 &b) {                      \
        return a = __h##name##2(a, b);                                                                \
    }
HOSTCUDA_HALF_ARITHMETIC(add, +)
HOSTCUDA_HALF_ARITHMETIC(sub, -)
HOSTCUDA_HALF_ARITHMETIC(mul, *)
#undef HOSTCUDA_HALF_ARITHMETIC

HOSTCUDA_INLINE __half __hdiv(__half a, __half b) { return __half((float)a / (float)b); }
HOSTCUDA_INLINE __half2 __h2div(__half2 a, __half2 b) { return __half2(__hdiv(a.x, b.x), __hdiv(a.y, b.y)); }
HOSTCUDA_INLINE __half operator/(const __half &a, const __half &b) { return __hdiv(a, b); }
HOSTCUDA_INLINE __half2 operator/(const __half2 &a, const __half2 &b) { return __h2div(a, b); }
HOSTCUDA_INLINE __half &operator/=(__half &a, const __half &b) { return a = __hdiv(a, b); }
HOSTCUDA_INLINE __half2 &operator/=(__half2 &a, const __half2 &b) { return a = __h2div(a, b); }

HOSTCUDA_INLINE __half __hfma(const __half &a, const __half &b, const __half &c) {
    HOSTCUDA_LANES(hostcuda::unpacked<__half>(hostcuda_half2_fma(hostcuda::packed(a), hostcuda::packed(b), hostcuda::packed(c))))
#ifdef HOSTCUDA_NATIVE_HALF
    __half result;
    result.storage = hostcuda::fused(a.storage, b.storage, c.storage);
    return result;
#else
    return __half(hostcuda::fma_float((float)a, (float)b, (float)c));
#endif
}
HOSTCUDA_INLINE __half __hfma_sat(__half a, __half b, __half c) {
    return __half(__saturatef(hostcuda::fma_float((float)a, (float)b, (float)c)));
}
HOSTCUDA_INLINE __half2 __hfma2(const __half2 &a, const __half2 &b, const __half2 &c) {
    HOSTCUDA_LANES(hostcuda::unpacked<__half2>(hostcuda_half2_fma(hostcuda::packed(a), hostcuda::packed(b), hostcuda::packed(c))))
#ifdef HOSTCUDA_NATIVE_HALF
    return hostcuda::unpacked<__half2>(hostcuda::fused(hostcuda::packed(a), hostcuda::packed(b), hostcuda::packed(c)));
#else
    return hostcuda::narrow2(hostcuda::fma_pair(hostcuda::widen2(a), hostcuda::widen2(b), hostcuda::widen2(c)));
#endif
}
HOSTCUDA_INLINE __half2 __hfma2_sat(__half2 a, __half2 b, __half2 c) {
    return __half2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y));
}

constexpr __half __hneg(__half a) { return __ushort_as_half(__half_as_ushort(a) ^ 0x8000); }
constexpr __half __habs(__half a) { return __ushort_as_half(__half_as_ushort(a) & 0x7fff); }
constexpr __half2 __hneg2(__half2 a) { return __half2(__hneg(a.x), __hneg(a.y)); }
constexpr __half2 __habs2(__half2 a) { return __half2(__habs(a.x), __habs(a.y)); }

// Complex a * b + c, with the real part in the lower half: four fused multiply-adds.
HOSTCUDA_INLINE __half2 __hcmadd(__half2 a, __half2 b, __half2 c) {
    return __half2(__hfma(__hneg(a.y), b.y, __hfma(a.x, b.x, c.x)), __hfma(a.y, b.x, __hfma(a.x, b.y, c.y)));
}

inline __half operator+(const __half &a) { return a; }
inline __half operator-(const __half &a) { return __hneg(a); }
inline __half2 operator+(const __half2 &a) { return a; }
inline __half2 operator-(const __half2 &a) { return __hneg2(a); }
inline __half &operator++(__half &a) { return a += __half(1.0f); }
inline __half &operator--(__half &a) { return a -= __half(1.0f); }
inline __half operator++(__half &a, int) { __half old = a; ++a; return old; }
inline __half operator--(__half &a, int) { __half old = a; --a; return old; }
inline __half2 &operator++(__half2 &a) { return a += __half2half2(1.0f); }
inline __half2 &operator--(__half2 &a) { return a -= __half2half2(1.0f); }
inline __half2 operator++(__half2 &a, int) { __half2 old = a; ++a; return old; }
inline __half2 operator--(__half2 &a, int) { __half2 old = a; --a; return old; }

// ---- Comparison -------------------------------------------------------------------------------------------

// NaN by its bits, which also works under -ffast-math.
constexpr bool __hisnan(__half a) { return (__half_as_ushort(a) & 0x7fff) > 0x7c00; }
constexpr int __hisinf(__half a) {
    return __half_as_ushort(a) == 0x7c00 ? 1 : __half_as_ushort(a) == 0xfc00 ? -1 : 0;
}

namespace hostcuda {

HOSTCUDA_INLINE bool unordered(__half a, __half b) { return __hisnan(a) || __hisnan(b); }
inline __half2 as_half2(bool x, bool y) { return __half2(__half(x ? 1.0f : 0.0f), __half(y ? 1.0f : 0.0f)); }
inline unsigned int as_mask(bool x, bool y) { return (x ? 0xffffu : 0u) | (y ? 0xffff0000u : 0u); }

}  // namespace hostcuda

inline __half2 __hisnan2(__half2 a) { return hostcuda::as_half2(__hisnan(a.x), __hisnan(a.y)); }

// Each relation is false for a NaN; the form with u ("unordered") is true.
#define HOSTCUDA_HALF_RELATION(name, relation)                                                          \
    HOSTCUDA_INLINE bool __h##name(__half a, __half b) {                                                \
        return !hostcuda::unordered(a, b) && (float)a relation (float)b;                                \
    }                                                                                                 \
    HOSTCUDA_INLINE bool __h##name##u(__half a, __half b) {                                             \
        return hostcuda::unordered(a, b) || (float)a relation (float)b;                                 \
    }                                                                                                 \
    HOSTCUDA_HALF_RELATION2(name) HOSTCUDA_HALF_RELATION2(name##u)
#define HOSTCUDA_HALF_RELATION2(name)                                                                   \
    inline __half2 __h##name##2(__half2 a, __half2 b) {                                               \
        return hostcuda::as_half2(__h##name(a.x, b.x), __h##name(a.y, b.y));                            \
    }                                                                                                 \
    inline bool __hb##name##2(__half2 a, __half2 b) { return __h##name(a.x, b.x) && __h##name(a.y, b.y); } \
    inline unsigned int __h##name##2_mask(__half2 a, __half2 b) {                                     \
        return hostcuda::as_mask(__h##name(a.x, b.x), __h##name(a.y, b.y));                             \
    }
HOSTCUDA_HALF_RELATION(eq, ==)
HOSTCUDA_HALF_RELATION(ne, !=)
HOSTCUDA_HALF_RELATION(lt, <)
HOSTCUDA_HALF_RELATION(le, <=)
HOSTCUDA_HALF_RELATION(gt, >)
HOSTCUDA_HALF_RELATION(ge, >=)
#undef HOSTCUDA_HALF_RELATION
#undef HOSTCUDA_HALF_RELATION2

#define HOSTCUDA_HALF_OPERATOR(relation, name, name2)                                                   \
    HOSTCUDA_INLINE bool operator relation(const __half &a, const __half &b) { return name(a, b); }     \
    HOSTCUDA_INLINE bool operator relation(const __half2 &a, const __half2 &b) { return name2(a, b); }
HOSTCUDA_HALF_OPERATOR(==, __heq, __hbeq2)
HOSTCUDA_HALF_OPERATOR(!=, __hneu, __hbneu2)
HOSTCUDA_HALF_OPERATOR(<, __hlt, __hblt2)
HOSTCUDA_HALF_OPERATOR(<=, __hle, __hble2)
HOSTCUDA_HALF_OPERATOR(>, __hgt, __hbgt2)
HOSTCUDA_HALF_OPERATOR(>=, __hge, __hbge2)
#undef HOSTCUDA_HALF_OPERATOR

// Minimum and maximum: the other operand if one is NaN (NaN with the suffix _nan); +0 is greater than -0.
#define HOSTCUDA_HALF_EXTREME(name, relation, sign_of_lesser)                                           \
    HOSTCUDA_INLINE __half __h##name(__half a, __half b) {                                              \
        if (__hisnan(a)) return __hisnan(b) ? __ushort_as_half(0x7fff) : b;                           \
        if (__hisnan(b)) return a;                                                                    \
        if ((float)a == (float)b) return __half_as_ushort(a) >> 15 == sign_of_lesser ? a : b;         \
        return (float)a relation (float)b ? a : b;                                                    \
    }                                                                                                 \
    HOSTCUDA_INLINE __half __h##name##_nan(__half a, __half b) {                                        \
        return hostcuda::unordered(a, b) ? __ushort_as_half(0x7fff) : __h##name(a, b);                  \
    }                                                                                                 \
    HOSTCUDA_INLINE __half2 __h##name##2(__half2 a, __half2 b) {                                        \
        return __half2(__h##name(a.x, b.x), __h##name(a.y, b.y));                                     \
    }                                                                                                 \
    HOSTCUDA_INLINE __half2 __h##name##2_nan(__half2 a, __half2 b) {                                    \
        return __half2(__h##name##_nan(a.x, b.x), __h##name##_nan(a.y, b.y));                         \
    }
HOSTCUDA_HALF_EXTREME(min, <, 1)
HOSTCUDA_HALF_EXTREME(max, >, 0)
#undef HOSTCUDA_HALF_EXTREME

inline __half __hfma_relu(__half a, __half b, __half c) { return __hmax_nan(__hfma(a, b, c), __half(0.0f)); }
inline __half2 __hfma2_relu(__half2 a, __half2 b, __half2 c) {
    return __hmax2_nan(__hfma2(a, b, c), __half2half2(__half(0.0f)));
}

// ---- Functions --------------------------------------------------------------------------------------------

#define HOSTCUDA_HALF_FUNCTION(name, expression)                                                        \
    inline __half h##name(__half a) { float x = (float)a; return __half(expression); }                \
    inline __half2 h2##name(__half2 a) { return __half2(h##name(a.x), h##name(a.y)); }
HOSTCUDA_HALF_FUNCTION(sqrt, sqrtf(x))
HOSTCUDA_HALF_FUNCTION(rsqrt, 1.0 / sqrt((double)x))
HOSTCUDA_HALF_FUNCTION(rcp, 1.0f / x)
HOSTCUDA_HALF_FUNCTION(exp, expf(x))
HOSTCUDA_HALF_FUNCTION(exp2, exp2f(x))
HOSTCUDA_HALF_FUNCTION(exp10, exp10f(x))
HOSTCUDA_HALF_FUNCTION(log, logf(x))
HOSTCUDA_HALF_FUNCTION(log2, log2f(x))
HOSTCUDA_HALF_FUNCTION(log10, log10f(x))
HOSTCUDA_HALF_FUNCTION(sin, sinf(x))
HOSTCUDA_HALF_FUNCTION(cos, cosf(x))
HOSTCUDA_HALF_FUNCTION(tanh, tanhf(x))
HOSTCUDA_HALF_FUNCTION(tanh_approx, tanhf(x))
HOSTCUDA_HALF_FUNCTION(floor, floorf(x))
HOSTCUDA_HALF_FUNCTION(ceil, ceilf(x))
HOSTCUDA_HALF_FUNCTION(rint, rintf(x))
HOSTCUDA_HALF_FUNCTION(trunc, truncf(x))
#undef HOSTCUDA_HALF_FUNCTION

#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fff)
#define CUDART_MIN_DENORM_FP16 __ushort_as_half((unsigned short)0x0001)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bff)
#define CUDART_NEG_ZERO_FP16 __ushort_as_half((unsigned short)0x8000)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0x0000)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00)
