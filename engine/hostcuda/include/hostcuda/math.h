// CUDA's math functions and arithmetic intrinsics.
//
// Most come from the C++ library, with the same names. This header has the rest: functions that only CUDA has (rsqrtf,
// sinpif, erfcinvf, ...), min and max of mixed types, and the intrinsics with two leading underscores. The fast ones
// (__expf, __sinf, ...) are the accurate functions here; intrinsics with a rounding suffix (_rn, _rz, _ru, _rd) round
// that way, and are never fused with other operations. Conversions to integers saturate and map NaN as the hardware does.
//
// glibc declares some of the names itself (__expf and __sinf; recent versions also rsqrtf and sinpif). These are
// `extern "C"` and `noexcept` here, so that the definition agrees with such a declaration.
#pragma once
// Without libstdc++'s special functions, which no kernel calls: they took a third of the time to compile a small one.
#include <cstddef>
#undef _GLIBCXX_USE_STD_SPEC_FUNCS
#include <fenv.h>
#include <float.h>
#include <limits.h>
#include "exact.h"
// std::fmin and the like are of these, too.
#define __builtin_fminf(a, b) ::hostcuda::lesser<float>(a, b)
#define __builtin_fmaxf(a, b) ::hostcuda::greater<float>(a, b)
#include <math.h>
#undef __builtin_fminf
#undef __builtin_fmaxf
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <type_traits>
#include "vector_types.h"

// The argument of ceil, if it is a quotient: frontend/sizes.py writes this where the compiler only looks for warnings.
namespace hostcuda {
template <class T, class = void> struct Quotient {
    static constexpr T of(T value) { return value; }
};
template <class T> struct Quotient<T, std::enable_if_t<std::is_integral_v<T>>> {
    [[deprecated("a quotient of integers is rounded down before ceil gets it: write (n + t - 1) / t")]]
    static constexpr T of(T value) { return value; }
};
}

// ---- min, max, abs: CUDA's overloads ----------------------------------------------------------------------

#define HOSTCUDA_MIN_MAX(R, A, B)                                                                       \
    constexpr R min(A a, B b) { return (R)a < (R)b ? (R)a : (R)b; }                                   \
    constexpr R max(A a, B b) { return (R)a > (R)b ? (R)a : (R)b; }
#define HOSTCUDA_FMIN_FMAX(R, A, B)                                                                     \
    constexpr R min(A a, B b) { return hostcuda::lesser((R)a, (R)b); }                                  \
    constexpr R max(A a, B b) { return hostcuda::greater((R)a, (R)b); }
// A signed and an unsigned type of the same width are compared as unsigned, as in C++'s arithmetic.
#define HOSTCUDA_MIN_MAX_WIDTH(S, U)                                                                    \
    HOSTCUDA_MIN_MAX(S, S, S) HOSTCUDA_MIN_MAX(U, U, U) HOSTCUDA_MIN_MAX(U, S, U) HOSTCUDA_MIN_MAX(U, U, S)

HOSTCUDA_MIN_MAX_WIDTH(int, unsigned int)
HOSTCUDA_MIN_MAX_WIDTH(long, unsigned long)
HOSTCUDA_MIN_MAX_WIDTH(long long, unsigned long long)
HOSTCUDA_FMIN_FMAX(float, float, float)
HOSTCUDA_FMIN_FMAX(double, double, double)
HOSTCUDA_FMIN_FMAX(double, float, double)
HOSTCUDA_FMIN_FMAX(double, double, float)

#undef HOSTCUDA_MIN_MAX
#undef HOSTCUDA_FMIN_FMAX
#undef HOSTCUDA_MIN_MAX_WIDTH

// Templates: a program's C++ files may define functions of these names and parameters.
HOSTCUDA_LAZY constexpr unsigned int umin(unsigned int a, unsigned int b) { return a < b ? a : b; }
HOSTCUDA_LAZY constexpr unsigned int umax(unsigned int a, unsigned int b) { return a > b ? a : b; }
HOSTCUDA_LAZY constexpr long long llmin(long long a, long long b) { return a < b ? a : b; }
HOSTCUDA_LAZY constexpr long long llmax(long long a, long long b) { return a > b ? a : b; }
HOSTCUDA_LAZY constexpr unsigned long long ullmin(unsigned long long a, unsigned long long b) { return a < b ? a : b; }
HOSTCUDA_LAZY constexpr unsigned long long ullmax(unsigned long long a, unsigned long long b) { return a > b ? a : b; }

// libm's versions are calls, which prevent the vectorization of a loop with a ReLU.
extern "C" {
inline float fminf(float a, float b) HOSTCUDA_NOEXCEPT { return hostcuda::lesser(a, b); }
inline float fmaxf(float a, float b) HOSTCUDA_NOEXCEPT { return hostcuda::greater(a, b); }
inline double fmin(double a, double b) HOSTCUDA_NOEXCEPT { return hostcuda::lesser(a, b); }
inline double fmax(double a, double b) HOSTCUDA_NOEXCEPT { return hostcuda::greater(a, b); }
}

// ---- Functions that C++ does not have -----------------------------------------------------------------------------

namespace hostcuda {

constexpr double pi = 3.14159265358979323846;
constexpr double sqrt_half = 0.70710678118654752440;
constexpr double inv_sqrt_pi = 0.56418958354775628695;

// sin(pi x) and cos(pi x). x = n/2 + t with |t| <= 1/4 is exact, so that the results for multiples of 1/2 are
// exact.
inline void sincos_pi(double x, double *sine, double *cosine) {
    double reduced = fmod(x, 2.0);
    double n = rint(2.0 * reduced);
    double t = reduced - 0.5 * n;
    double s = sin(pi * t), c = cos(pi * t);
    switch (n == n ? (int)n & 3 : 0) {
        case 0: *sine = n == 0.0 && t == 0.0 ? x * 0.0 : s; *cosine = c; break;
        case 1: *sine = c; *cosine = -s + 0.0; break;
        case 2: *sine = t == 0.0 ? copysign(0.0, x) : -s; *cosine = -c; break;
        default: *sine = -c; *cosine = s + 0.0; break;
    }
}

// Inverse of erfc on (0, 2): the start value is from the leading asymptotic term, followed by Halley's method.
inline double inverse_erfc(double x) {
    if (!(x >= 0.0 && x <= 2.0)) return NAN;
    if (x == 0.0) return INFINITY;
    if (x == 2.0) return -INFINITY;
    double tail = x < 1.0 ? x : 2.0 - x;   // solve for the upper tail, y >= 0
    double y;
    if (tail > 0.5) {
        y = (1.0 - tail) / (2.0 * inv_sqrt_pi);
    } else {
        double t = sqrt(-2.0 * log(0.5 * tail));   // Hastings' normal quantile, to 4.5e-4
        y = sqrt_half * (t - ((0.010328 * t + 0.802853) * t + 2.515517)
                             / (((0.001308 * t + 0.189269) * t + 1.432788) * t + 1.0));
    }
    for (int step = 0; step < 4; step++) {
        double slope = 2.0 * inv_sqrt_pi * exp(-y * y);
        if (slope == 0.0) break;
        double newton = (erfc(y) - tail) / slope;
        y += newton / (1.0 + y * newton);
    }
    return x < 1.0 ? y : -y;
}

inline double inverse_erf(double x) {
    if (fabs(x) >= 0.5) return x > 0.0 ? inverse_erfc(1.0 - x) : -inverse_erfc(1.0 + x);
    double y = x / (2.0 * inv_sqrt_pi);   // small x: computed with erf, for its relative accuracy
    for (int step = 0; step < 5; step++) {
        double newton = (erf(y) - x) / (2.0 * inv_sqrt_pi * exp(-y * y));
        y -= newton / (1.0 + y * newton);
    }
    return y;
}

// exp(x^2) erfc(x): the definition, with x^2 in twice the precision; from 10 on, where erfc is small, its
// asymptotic series.
inline double scaled_erfc(double x) {
    if (x < 10.0) {
        double square = x * x;
        return exp(square) * (1.0 + fma(x, x, -square)) * erfc(x);
    }
    double term = 1.0, sum = 1.0, step = 0.5 / (x * x);
    for (int k = 1; k < 12; k++) sum += term *= -(2 * k - 1) * step;
    return sum * inv_sqrt_pi / x;
}

// The modified Bessel functions I_0 and I_1 of x >= 0: the series, whose terms are all positive; from 20 on, where it gets
// long, the asymptotic one.
inline double bessel_i(int order, double x) {
    double term = 1.0, sum = 1.0;
    if (!(x >= 20.0)) {   // or NaN
        for (int k = 1; term > 1e-17 * sum; k++) sum += term *= 0.25 * x * x / (k * (k + order));
        return order ? 0.5 * x * sum : sum;
    }
    if (x > 720.0) return INFINITY;
    for (int k = 1; fabs(term) > 1e-17 * sum; k++)
        sum += term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8.0 * k * x);
    double root = exp(0.5 * x);   // its square alone may overflow
    return root / sqrt(2.0 * pi * x) * root * sum;
}

// Length of a vector without intermediate overflow or underflow.
inline double length(int dimensions, const double *p) {
    double largest = 0.0, sum = 0.0;
    bool infinite = false;
    for (int i = 0; i < dimensions; i++) {
        infinite |= isinf(p[i]);
        largest = fmax(largest, fabs(p[i]));
    }
    if (infinite) return INFINITY;
    if (largest == 0.0) {
        for (int i = 0; i < dimensions; i++) sum += p[i];   // keeps a NaN
        return fabs(sum);
    }
    for (int i = 0; i < dimensions; i++) sum += (p[i] / largest) * (p[i] / largest);
    return largest * sqrt(sum);
}

}  // namespace hostcuda

extern "C" {
inline float rsqrtf(float x) noexcept { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) noexcept { return 1.0 / sqrt(x); }
inline double sinpi(double x) noexcept { double s, c; hostcuda::sincos_pi(x, &s, &c); return s; }
inline double cospi(double x) noexcept { double s, c; hostcuda::sincos_pi(x, &s, &c); return c; }
inline float sinpif(float x) noexcept { return (float)sinpi((double)x); }
inline float cospif(float x) noexcept { return (float)cospi((double)x); }
}

inline void sincospi(double x, double *s, double *c) { hostcuda::sincos_pi(x, s, c); }
inline void sincospif(float x, float *s, float *c) {
    double sine, cosine;
    hostcuda::sincos_pi(x, &sine, &cosine);
    *s = (float)sine;
    *c = (float)cosine;
}
inline double rcbrt(double x) { return 1.0 / cbrt(x); }
inline double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
inline double norm(int dimensions, const double *p) { return hostcuda::length(dimensions, p); }
inline double norm3d(double a, double b, double c) { double p[] = {a, b, c}; return hostcuda::length(3, p); }
inline double norm4d(double a, double b, double c, double d) {
    double p[] = {a, b, c, d};
    return hostcuda::length(4, p);
}
inline double rnorm(int dimensions, const double *p) { return 1.0 / norm(dimensions, p); }
inline double rnorm3d(double a, double b, double c) { return 1.0 / norm3d(a, b, c); }
inline double rnorm4d(double a, double b, double c, double d) { return 1.0 / norm4d(a, b, c, d); }
inline double erfinv(double x) { return hostcuda::inverse_erf(x); }
inline double erfcinv(double x) { return hostcuda::inverse_erfc(x); }
inline double erfcx(double x) { return hostcuda::scaled_erfc(x); }
inline double normcdf(double x) { return 0.5 * erfc(-x * hostcuda::sqrt_half); }
inline double normcdfinv(double x) { return -hostcuda::inverse_erfc(2.0 * x) / hostcuda::sqrt_half; }

// The float versions compute in double.
inline float rcbrtf(float x) { return (float)rcbrt((double)x); }
inline float rhypotf(float x, float y) { return (float)rhypot((double)x, (double)y); }
inline float norm3df(float a, float b, float c) { return (float)norm3d(a, b, c); }
inline float norm4df(float a, float b, float c, float d) { return (float)norm4d(a, b, c, d); }
inline float rnorm3df(float a, float b, float c) { return (float)rnorm3d(a, b, c); }
inline float rnorm4df(float a, float b, float c, float d) { return (float)rnorm4d(a, b, c, d); }
inline float normf(int dimensions, const float *p) {
    double sum = 0.0;
    for (int i = 0; i < dimensions; i++) sum += (double)p[i] * p[i];
    return (float)sqrt(sum);
}
inline float rnormf(int dimensions, const float *p) { return 1.0f / normf(dimensions, p); }
inline float erfinvf(float x) { return (float)erfinv((double)x); }
inline float erfcinvf(float x) { return (float)erfcinv((double)x); }
inline float erfcxf(float x) { return (float)erfcx((double)x); }
inline float normcdff(float x) { return (float)normcdf((double)x); }
inline float normcdfinvf(float x) { return (float)normcdfinv((double)x); }
inline float fdividef(float x, float y) { return x / y; }
inline double cyl_bessel_i0(double x) { return hostcuda::bessel_i(0, fabs(x)); }
inline double cyl_bessel_i1(double x) { return copysign(hostcuda::bessel_i(1, fabs(x)), x); }
inline float cyl_bessel_i0f(float x) { return (float)cyl_bessel_i0((double)x); }
inline float cyl_bessel_i1f(float x) { return (float)cyl_bessel_i1((double)x); }

// Overloads for float of functions that the C++ library does not overload.
inline float rsqrt(float x) { return rsqrtf(x); }
inline float rcbrt(float x) { return rcbrtf(x); }
inline float sinpi(float x) { return sinpif(x); }
inline float cospi(float x) { return cospif(x); }
inline void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
inline void sincospi(float x, float *s, float *c) { sincospif(x, s, c); }
inline float exp10(float x) { return exp10f(x); }
inline float erfinv(float x) { return erfinvf(x); }
inline float erfcinv(float x) { return erfcinvf(x); }
inline float erfcx(float x) { return erfcxf(x); }
inline float normcdf(float x) { return normcdff(x); }
inline float normcdfinv(float x) { return normcdfinvf(x); }

// ---- Fast float intrinsics --------------------------------------------------------------------------------

namespace hostcuda {
inline bool is_subnormal(float x) { return x != 0 && fabsf(x) < FLT_MIN; }
inline float flush(float x) { return is_subnormal(x) ? copysignf(0, x) : x; }
// As 2 to the power of y log2(x), which has no value for a negative x, and for 0 to the power of 0.
inline float power(float x, float y) {
    float exponent = y * log2f(x);
    return x > 0 && fabsf(exponent) <= FLT_MAX ? powf(x, y) : exp2f(exponent);
}
}

extern "C" {
inline float __expf(float x) noexcept { return expf(x); }
inline float __exp10f(float x) noexcept { return exp10f(x); }
inline float __logf(float x) noexcept { return logf(x); }
inline float __log2f(float x) noexcept { return log2f(x); }
inline float __log10f(float x) noexcept { return log10f(x); }
inline float __powf(float x, float y) noexcept { return hostcuda::power(x, y); }
inline float __sinf(float x) noexcept { return sinf(x); }
inline float __cosf(float x) noexcept { return cosf(x); }
inline float __tanf(float x) noexcept { return tanf(x); }
inline float __tanhf(float x) noexcept { return tanhf(x); }
inline void __sincosf(float x, float *s, float *c) noexcept { sincosf(x, s, c); }
}
inline float __fdividef(float x, float y) { return fabsf(y) > 0x1p126f ? x * copysignf(0, y) : x / y; }
inline float __saturatef(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }   // NaN becomes 0

// ---- Arithmetic with a stated rounding --------------------------------------------------------------------

namespace hostcuda {

// Hides a value from the optimizer, in memory: computations with it are made after this point, in the rounding mode set
// before it.
template <class T> inline void opaque(T &value) { asm volatile("" : "+m"(value) : : "memory"); }

// The result of a single operation, kept from being fused into the next one (a*b+c would round once, not
// twice).
inline float unfused(float value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#else
    opaque(value);
#endif
    return value;
}
inline double unfused(double value) {
#if defined(__x86_64__)
    asm("" : "+x"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#else
    opaque(value);
#endif
    return value;
}

// operation(operands...) in the given rounding mode of <fenv.h>.
template <int mode, class Operation, class... T> inline auto rounded(Operation operation, T... operands) {
    int previous = fegetround();
    fesetround(mode);
    (opaque(operands), ...);
    auto result = operation(operands...);
    opaque(result);
    fesetround(previous);
    return result;
}

}  // namespace hostcuda

#define HOSTCUDA_DIRECTED(R, name, suffix, mode, parameters, names, expression)                         \
    inline R name##suffix parameters {                                                                \
        return hostcuda::rounded<mode>([] parameters -> R { return expression; }, HOSTCUDA_UNWRAP names); \
    }
#define HOSTCUDA_UNWRAP(...) __VA_ARGS__
#define HOSTCUDA_ROUNDINGS(R, name, parameters, names, expression)                                      \
    inline R name##_rn parameters { return hostcuda::unfused((R)(expression)); }                        \
    HOSTCUDA_DIRECTED(R, name, _rz, FE_TOWARDZERO, parameters, names, expression)                       \
    HOSTCUDA_DIRECTED(R, name, _ru, FE_UPWARD, parameters, names, expression)                           \
    HOSTCUDA_DIRECTED(R, name, _rd, FE_DOWNWARD, parameters, names, expression)

HOSTCUDA_ROUNDINGS(float, __fadd, (float a, float b), (a, b), a + b)
HOSTCUDA_ROUNDINGS(float, __fsub, (float a, float b), (a, b), a - b)
HOSTCUDA_ROUNDINGS(float, __fmul, (float a, float b), (a, b), a * b)
HOSTCUDA_ROUNDINGS(float, __fdiv, (float a, float b), (a, b), a / b)
HOSTCUDA_ROUNDINGS(float, __frcp, (float a), (a), 1.0f / a)
HOSTCUDA_ROUNDINGS(float, __fsqrt, (float a), (a), __builtin_sqrtf(a))
HOSTCUDA_ROUNDINGS(float, __fmaf, (float a, float b, float c), (a, b, c), __builtin_fmaf(a, b, c))
HOSTCUDA_ROUNDINGS(double, __dadd, (double a, double b), (a, b), a + b)
HOSTCUDA_ROUNDINGS(double, __dsub, (double a, double b), (a, b), a - b)
HOSTCUDA_ROUNDINGS(double, __dmul, (double a, double b), (a, b), a * b)
HOSTCUDA_ROUNDINGS(double, __ddiv, (double a, double b), (a, b), a / b)
HOSTCUDA_ROUNDINGS(double, __drcp, (double a), (a), 1.0 / a)
HOSTCUDA_ROUNDINGS(double, __dsqrt, (double a), (a), __builtin_sqrt(a))
HOSTCUDA_ROUNDINGS(double, __fma, (double a, double b, double c), (a, b, c), __builtin_fma(a, b, c))
HOSTCUDA_ROUNDINGS(float, __double2float, (double a), (a), (float)a)
HOSTCUDA_ROUNDINGS(float, __int2float, (int a), (a), (float)a)
HOSTCUDA_ROUNDINGS(float, __uint2float, (unsigned int a), (a), (float)a)
HOSTCUDA_ROUNDINGS(float, __ll2float, (long long a), (a), (float)a)
HOSTCUDA_ROUNDINGS(float, __ull2float, (unsigned long long a), (a), (float)a)
HOSTCUDA_ROUNDINGS(double, __ll2double, (long long a), (a), (double)a)
HOSTCUDA_ROUNDINGS(double, __ull2double, (unsigned long long a), (a), (double)a)
inline float __frsqrt_rn(float a) { return (float)(1.0 / sqrt((double)a)); }
inline double __int2double_rn(int a) { return a; }
inline double __uint2double_rn(unsigned int a) { return a; }

#undef HOSTCUDA_ROUNDINGS
#undef HOSTCUDA_DIRECTED
#undef HOSTCUDA_UNWRAP

// ---- Float to integer: saturating -------------------------------------------------------------------------

#define HOSTCUDA_TO_INTEGER(F, from, I, to)                                                             \
    inline I __##from##2##to##_rn(F x) { return hostcuda::saturate_to<I>((F)rint(x)); }                 \
    inline I __##from##2##to##_rz(F x) { return hostcuda::saturate_to<I>((F)trunc(x)); }                \
    inline I __##from##2##to##_ru(F x) { return hostcuda::saturate_to<I>((F)ceil(x)); }                 \
    inline I __##from##2##to##_rd(F x) { return hostcuda::saturate_to<I>((F)floor(x)); }
HOSTCUDA_TO_INTEGER(float, float, int, int)
HOSTCUDA_TO_INTEGER(float, float, unsigned int, uint)
HOSTCUDA_TO_INTEGER(float, float, long long, ll)
HOSTCUDA_TO_INTEGER(float, float, unsigned long long, ull)
HOSTCUDA_TO_INTEGER(double, double, int, int)
HOSTCUDA_TO_INTEGER(double, double, unsigned int, uint)
HOSTCUDA_TO_INTEGER(double, double, long long, ll)
HOSTCUDA_TO_INTEGER(double, double, unsigned long long, ull)
#undef HOSTCUDA_TO_INTEGER
// Of the C library, which declares them noexcept (glibc's __THROW) or not (in a browser).
#ifdef __THROW
#define HOSTCUDA_LIKE_C(I, name, F, rounded) inline I name(F x) __THROW { return hostcuda::saturate_to<I>(rounded(x)); }
#else
#define HOSTCUDA_LIKE_C(I, name, F, rounded) inline I name(F x) { return hostcuda::saturate_to<I>(rounded(x)); }
#endif
extern "C" {
HOSTCUDA_LIKE_C(long, lrintf, float, rintf)
HOSTCUDA_LIKE_C(long, lrint, double, rint)
HOSTCUDA_LIKE_C(long, lroundf, float, roundf)
HOSTCUDA_LIKE_C(long, lround, double, round)
HOSTCUDA_LIKE_C(long long, llrintf, float, rintf)
HOSTCUDA_LIKE_C(long long, llrint, double, rint)
HOSTCUDA_LIKE_C(long long, llroundf, float, roundf)
HOSTCUDA_LIKE_C(long long, llround, double, round)
}
#undef HOSTCUDA_LIKE_C

// ---- Bits -------------------------------------------------------------------------------------------------

constexpr int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
constexpr unsigned int __float_as_uint(float x) { return __builtin_bit_cast(unsigned int, x); }
constexpr float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
constexpr float __uint_as_float(unsigned int x) { return __builtin_bit_cast(float, x); }
constexpr long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
constexpr double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
constexpr int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
constexpr int __double2loint(double x) { return (int)__double_as_longlong(x); }
constexpr double __hiloint2double(int high, int low) {
    unsigned long long bits = (unsigned long long)(unsigned int)high << 32 | (unsigned int)low;
    return __longlong_as_double((long long)bits);
}

constexpr int __popc(unsigned int x) { return __builtin_popcount(x); }
constexpr int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
constexpr int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
constexpr int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
constexpr int __ffs(int x) { return __builtin_ffs(x); }
constexpr int __ffsll(long long x) { return __builtin_ffsll(x); }
// The position of the n-th set bit from `from` on, upwards; downwards if n is negative; `from` itself if n is 0.
constexpr unsigned int __fns(unsigned int x, unsigned int from, int n) {
    int step = n < 0 ? -1 : 1, left = n < 0 ? -n : n > 0 ? n : 1;
    for (int i = (int)from; i >= 0 && i < 32; i += step) {
        if (x >> i & 1 && --left == 0) return (unsigned int)i;
        if (n == 0) break;
    }
    return 0xffffffffu;
}
constexpr unsigned int __brev(unsigned int x) {
    x = (x & 0x55555555u) << 1 | (x >> 1 & 0x55555555u);
    x = (x & 0x33333333u) << 2 | (x >> 2 & 0x33333333u);
    x = (x & 0x0f0f0f0fu) << 4 | (x >> 4 & 0x0f0f0f0fu);
    return __builtin_bswap32(x);
}
constexpr unsigned long long __brevll(unsigned long long x) {
    return (unsigned long long)__brev((unsigned int)x) << 32 | __brev((unsigned int)(x >> 32));
}
// Four bytes selected from y:x; nibble i of the selector selects byte i of the result.
constexpr unsigned int __byte_perm(unsigned int x, unsigned int y, unsigned int selector) {
    unsigned long long bytes = (unsigned long long)y << 32 | x;
    unsigned int result = 0;
    for (int i = 0; i < 4; i++)
        result |= (unsigned int)(bytes >> 8 * (selector >> 4 * i & 7) & 0xff) << 8 * i;
    return result;
}
constexpr unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int shift) {
    return (unsigned int)(((unsigned long long)high << 32 | low) << (shift & 31) >> 32);
}
constexpr unsigned int __funnelshift_r(unsigned int low, unsigned int high, unsigned int shift) {
    return (unsigned int)(((unsigned long long)high << 32 | low) >> (shift & 31));
}
constexpr unsigned int __funnelshift_lc(unsigned int low, unsigned int high, unsigned int shift) {
    return shift >= 32 ? low : __funnelshift_l(low, high, shift);
}
constexpr unsigned int __funnelshift_rc(unsigned int low, unsigned int high, unsigned int shift) {
    return shift >= 32 ? high : __funnelshift_r(low, high, shift);
}

// ---- Integer arithmetic -----------------------------------------------------------------------------------

constexpr int __mulhi(int a, int b) { return (int)((long long)a * b >> 32); }
constexpr unsigned int __umulhi(unsigned int a, unsigned int b) {
    return (unsigned int)((unsigned long long)a * b >> 32);
}
constexpr long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }
constexpr unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned long long)((unsigned __int128)a * b >> 64);
}
// The low 32 bits of the product of the low 24 bits.
constexpr unsigned int __umul24(unsigned int a, unsigned int b) { return (a & 0xffffffu) * (b & 0xffffffu); }
constexpr int __mul24(int a, int b) {
    int low_a = (int)((unsigned int)a << 8) >> 8, low_b = (int)((unsigned int)b << 8) >> 8;
    return (int)((unsigned int)low_a * (unsigned int)low_b);
}
constexpr unsigned int __sad(int a, int b, unsigned int c) {
    return c + (a > b ? (unsigned int)a - (unsigned int)b : (unsigned int)b - (unsigned int)a);
}
constexpr unsigned int __usad(unsigned int a, unsigned int b, unsigned int c) {
    return c + (a > b ? a - b : b - a);
}
// Averages without overflow; those with r round up.
constexpr int __hadd(int a, int b) { return (int)(((long long)a + b) >> 1); }
constexpr int __rhadd(int a, int b) { return (int)(((long long)a + b + 1) >> 1); }
constexpr unsigned int __uhadd(unsigned int a, unsigned int b) {
    return (unsigned int)(((unsigned long long)a + b) >> 1);
}
constexpr unsigned int __urhadd(unsigned int a, unsigned int b) {
    return (unsigned int)(((unsigned long long)a + b + 1) >> 1);
}

// Dot products of four bytes, or of two shorts with two of four bytes, added to c.
constexpr int __dp4a(char4 a, char4 b, int c) {
    return (int)((unsigned int)c + (unsigned int)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w));
}
constexpr unsigned int __dp4a(uchar4 a, uchar4 b, unsigned int c) {
    return c + (unsigned int)(a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w);
}
constexpr int __dp4a(int a, int b, int c) {
    return __dp4a(__builtin_bit_cast(char4, a), __builtin_bit_cast(char4, b), c);
}
constexpr unsigned int __dp4a(unsigned int a, unsigned int b, unsigned int c) {
    return __dp4a(__builtin_bit_cast(uchar4, a), __builtin_bit_cast(uchar4, b), c);
}
constexpr int __dp2a_lo(int a, int b, int c) {
    return c + (short)a * (signed char)b + (a >> 16) * (signed char)(b >> 8);
}
constexpr int __dp2a_hi(int a, int b, int c) { return __dp2a_lo(a, b >> 16, c); }
constexpr unsigned int __dp2a_lo(unsigned int a, unsigned int b, unsigned int c) {
    return c + (a & 0xffff) * (b & 0xff) + (a >> 16) * (b >> 8 & 0xff);
}
constexpr unsigned int __dp2a_hi(unsigned int a, unsigned int b, unsigned int c) { return __dp2a_lo(a, b >> 16, c); }
constexpr int __dp2a_lo(short2 a, char4 b, int c) { return c + a.x * b.x + a.y * b.y; }
constexpr int __dp2a_hi(short2 a, char4 b, int c) { return c + a.x * b.z + a.y * b.w; }
constexpr unsigned int __dp2a_lo(ushort2 a, uchar4 b, unsigned int c) {
    return c + (unsigned int)a.x * b.x + (unsigned int)a.y * b.y;
}
constexpr unsigned int __dp2a_hi(ushort2 a, uchar4 b, unsigned int c) {
    return c + (unsigned int)a.x * b.z + (unsigned int)a.y * b.w;
}

// ---- Video instructions: four bytes or two shorts in a word -----------------------------------------------

namespace hostcuda {
typedef signed char s8x4 __attribute__((vector_size(4)));
typedef unsigned char u8x4 __attribute__((vector_size(4)));
typedef short s16x2 __attribute__((vector_size(4)));
typedef unsigned short u16x2 __attribute__((vector_size(4)));
}

#define HOSTCUDA_VIDEO(name, V, expression)                                                             \
    inline unsigned int name(unsigned int x, unsigned int y) {                                        \
        auto a = (hostcuda::V)x, b = (hostcuda::V)y;                                                      \
        return (unsigned int)(expression);                                                            \
    }
#define HOSTCUDA_VIDEO_SIGNS(name, expression)                                                          \
    HOSTCUDA_VIDEO(name##s2, s16x2, expression) HOSTCUDA_VIDEO(name##u2, u16x2, expression)               \
    HOSTCUDA_VIDEO(name##s4, s8x4, expression) HOSTCUDA_VIDEO(name##u4, u8x4, expression)
HOSTCUDA_VIDEO(__vadd2, u16x2, a + b)
HOSTCUDA_VIDEO(__vadd4, u8x4, a + b)
HOSTCUDA_VIDEO(__vsub2, u16x2, a - b)
HOSTCUDA_VIDEO(__vsub4, u8x4, a - b)
HOSTCUDA_VIDEO(__vcmpeq2, u16x2, a == b)
HOSTCUDA_VIDEO(__vcmpeq4, u8x4, a == b)
HOSTCUDA_VIDEO(__vcmpne2, u16x2, a != b)
HOSTCUDA_VIDEO(__vcmpne4, u8x4, a != b)
HOSTCUDA_VIDEO_SIGNS(__vmax, a > b ? a : b)
HOSTCUDA_VIDEO_SIGNS(__vmin, a < b ? a : b)
HOSTCUDA_VIDEO_SIGNS(__vabsdiff, a > b ? a - b : b - a)
HOSTCUDA_VIDEO_SIGNS(__vcmpge, a >= b)
HOSTCUDA_VIDEO_SIGNS(__vcmpgt, a > b)
HOSTCUDA_VIDEO_SIGNS(__vcmple, a <= b)
HOSTCUDA_VIDEO_SIGNS(__vcmplt, a < b)
HOSTCUDA_VIDEO(__vavgu2, u16x2, (a | b) - ((a ^ b) >> 1))
HOSTCUDA_VIDEO(__vavgu4, u8x4, (a | b) - ((a ^ b) >> 1))
// 1 instead of all bits where the relation holds.
HOSTCUDA_VIDEO_SIGNS(__vsetge, (a >= b) & 1)
HOSTCUDA_VIDEO_SIGNS(__vsetgt, (a > b) & 1)
HOSTCUDA_VIDEO_SIGNS(__vsetle, (a <= b) & 1)
HOSTCUDA_VIDEO_SIGNS(__vsetlt, (a < b) & 1)
HOSTCUDA_VIDEO(__vseteq2, u16x2, (a == b) & 1)
HOSTCUDA_VIDEO(__vseteq4, u8x4, (a == b) & 1)
HOSTCUDA_VIDEO(__vsetne2, u16x2, (a != b) & 1)
HOSTCUDA_VIDEO(__vsetne4, u8x4, (a != b) & 1)
HOSTCUDA_VIDEO(__vhaddu2, u16x2, (a & b) + ((a ^ b) >> 1))
HOSTCUDA_VIDEO(__vhaddu4, u8x4, (a & b) + ((a ^ b) >> 1))
#undef HOSTCUDA_VIDEO
#undef HOSTCUDA_VIDEO_SIGNS

// Saturating, and of one operand.
namespace hostcuda {
template <class Vector, class Operation> inline unsigned int saturated(unsigned int x, unsigned int y, Operation operation) {
    typedef std::remove_reference_t<decltype(Vector()[0])> Part;
    constexpr int least = std::is_signed_v<Part> ? -(1 << (8 * sizeof(Part) - 1)) : 0;
    constexpr int most = least + (1 << 8 * sizeof(Part)) - 1;
    auto a = (Vector)x, b = (Vector)y;
    for (unsigned i = 0; i < 4 / sizeof(Part); i++) a[i] = (Part)max(least, min(most, operation((int)a[i], (int)b[i])));
    return (unsigned int)a;
}
}  // namespace hostcuda
#define HOSTCUDA_SATURATED(name, V, expression)                                                         \
    inline unsigned int name(unsigned int x, unsigned int y) {                                        \
        return hostcuda::saturated<hostcuda::V>(x, y, [](int a, int b) { return expression; });           \
    }
HOSTCUDA_SATURATED(__vaddss2, s16x2, a + b)
HOSTCUDA_SATURATED(__vaddss4, s8x4, a + b)
HOSTCUDA_SATURATED(__vaddus2, u16x2, a + b)
HOSTCUDA_SATURATED(__vaddus4, u8x4, a + b)
HOSTCUDA_SATURATED(__vsubss2, s16x2, a - b)
HOSTCUDA_SATURATED(__vsubss4, s8x4, a - b)
HOSTCUDA_SATURATED(__vsubus2, u16x2, a - b)
HOSTCUDA_SATURATED(__vsubus4, u8x4, a - b)
HOSTCUDA_SATURATED(__vavgs2, s16x2, (a + b + (a + b >= 0)) >> 1)   // a half is rounded away from 0
HOSTCUDA_SATURATED(__vavgs4, s8x4, (a + b + (a + b >= 0)) >> 1)
#undef HOSTCUDA_SATURATED
inline unsigned int __vneg2(unsigned int x) { return __vsub2(0u, x); }
inline unsigned int __vneg4(unsigned int x) { return __vsub4(0u, x); }
inline unsigned int __vnegss2(unsigned int x) { return __vsubss2(0u, x); }
inline unsigned int __vnegss4(unsigned int x) { return __vsubss4(0u, x); }
inline unsigned int __vabs2(unsigned int x) { return __vmaxs2(x, 0u) | (__vneg2(x) & __vcmplts2(x, 0u)); }
inline unsigned int __vabs4(unsigned int x) { return __vmaxs4(x, 0u) | (__vneg4(x) & __vcmplts4(x, 0u)); }
inline unsigned int __vabsss2(unsigned int x) { return __vmaxs2(x, __vnegss2(x)); }
inline unsigned int __vabsss4(unsigned int x) { return __vmaxs4(x, __vnegss4(x)); }

// The largest or smallest one of three, and of a sum, which wraps around, and a third one: of words, or of both halves.
// _relu: or 0, if that is larger. The pointers tell whether it is the first one, of each half.
namespace hostcuda {
template <class V> inline V larger(V a, V b) { return a > b ? a : b; }
template <class V> inline V smaller(V a, V b) { return a < b ? a : b; }
}  // namespace hostcuda
#define HOSTCUDA_OF_THREE(T, V, Sum, suffix)                                                            \
    inline T __vimax3_##suffix(T a, T b, T c) { return (T)hostcuda::larger(hostcuda::larger((V)a, (V)b), (V)c); }   \
    inline T __vimin3_##suffix(T a, T b, T c) { return (T)hostcuda::smaller(hostcuda::smaller((V)a, (V)b), (V)c); } \
    inline T __viaddmax_##suffix(T a, T b, T c) { return (T)hostcuda::larger((V)((Sum)a + (Sum)b), (V)c); }       \
    inline T __viaddmin_##suffix(T a, T b, T c) { return (T)hostcuda::smaller((V)((Sum)a + (Sum)b), (V)c); }
#define HOSTCUDA_RELU(T, V, suffix)                                                                     \
    inline T __vimax_##suffix##_relu(T a, T b) { return __vimax3_##suffix(a, b, (T)0); }              \
    inline T __vimin_##suffix##_relu(T a, T b) { return (T)hostcuda::larger(hostcuda::smaller((V)a, (V)b), V{}); }  \
    inline T __vimax3_##suffix##_relu(T a, T b, T c) { return __vimax_##suffix##_relu(__vimax3_##suffix(a, b, c), c); } \
    inline T __vimin3_##suffix##_relu(T a, T b, T c) { return __vimin_##suffix##_relu(__vimin3_##suffix(a, b, c), c); } \
    inline T __viaddmax_##suffix##_relu(T a, T b, T c) { return __vimax_##suffix##_relu(__viaddmax_##suffix(a, b, c), c); } \
    inline T __viaddmin_##suffix##_relu(T a, T b, T c) { return __vimin_##suffix##_relu(__viaddmin_##suffix(a, b, c), c); }
#define HOSTCUDA_WHICH(T, suffix)                                                                       \
    inline T __vibmax_##suffix(T a, T b, bool *first) { *first = a >= b; return max(a, b); }          \
    inline T __vibmin_##suffix(T a, T b, bool *first) { *first = a <= b; return min(a, b); }
#define HOSTCUDA_WHICH_HALVES(sign)                                                                     \
    inline unsigned int __vibmax_##sign##16x2(unsigned int a, unsigned int b, bool *high, bool *low) { \
        const unsigned int first = __vcmpge##sign##2(a, b);                                           \
        *high = first >> 16, *low = first & 1;                                                        \
        return __vmax##sign##2(a, b);                                                                 \
    }                                                                                                 \
    inline unsigned int __vibmin_##sign##16x2(unsigned int a, unsigned int b, bool *high, bool *low) { \
        const unsigned int first = __vcmple##sign##2(a, b);                                           \
        *high = first >> 16, *low = first & 1;                                                        \
        return __vmin##sign##2(a, b);                                                                 \
    }
HOSTCUDA_OF_THREE(int, int, unsigned int, s32)
HOSTCUDA_OF_THREE(unsigned int, unsigned int, unsigned int, u32)
HOSTCUDA_OF_THREE(unsigned int, hostcuda::s16x2, hostcuda::u16x2, s16x2)
HOSTCUDA_OF_THREE(unsigned int, hostcuda::u16x2, hostcuda::u16x2, u16x2)
HOSTCUDA_RELU(int, int, s32)
HOSTCUDA_RELU(unsigned int, hostcuda::s16x2, s16x2)
HOSTCUDA_WHICH(int, s32)
HOSTCUDA_WHICH(unsigned int, u32)
HOSTCUDA_WHICH_HALVES(s)
HOSTCUDA_WHICH_HALVES(u)
#undef HOSTCUDA_OF_THREE
#undef HOSTCUDA_RELU
#undef HOSTCUDA_WHICH
#undef HOSTCUDA_WHICH_HALVES

// Sums of the absolute differences.
namespace hostcuda {
template <class V> inline unsigned int differences(unsigned int x, unsigned int y) {
    const auto a = (V)x, b = (V)y;
    unsigned int sum = 0;
    for (unsigned i = 0; i < 4 / sizeof a[0]; i++) sum += (unsigned int)(a[i] > b[i] ? a[i] - b[i] : b[i] - a[i]);
    return sum;
}
}  // namespace hostcuda
inline unsigned int __vsads2(unsigned int x, unsigned int y) { return hostcuda::differences<hostcuda::s16x2>(x, y); }
inline unsigned int __vsads4(unsigned int x, unsigned int y) { return hostcuda::differences<hostcuda::s8x4>(x, y); }
inline unsigned int __vsadu2(unsigned int x, unsigned int y) { return hostcuda::differences<hostcuda::u16x2>(x, y); }
inline unsigned int __vsadu4(unsigned int x, unsigned int y) { return hostcuda::differences<hostcuda::u8x4>(x, y); }

// ---- Loads and stores with a cache hint: plain ones here --------------------------------------------------

namespace hostcuda {
template <class T> struct same { typedef T type; };   // keeps a parameter out of template argument deduction
}

#define HOSTCUDA_LOAD(name) template <class T> inline T name(const T *address) { return *address; }
#define HOSTCUDA_STORE(name)                                                                            \
    template <class T> inline void name(T *address, typename hostcuda::same<T>::type value) {           \
        *address = value;                                                                             \
    }
HOSTCUDA_LOAD(__ldg)
HOSTCUDA_LOAD(__ldcg)
HOSTCUDA_LOAD(__ldca)
HOSTCUDA_LOAD(__ldcs)
HOSTCUDA_LOAD(__ldlu)
HOSTCUDA_LOAD(__ldcv)
HOSTCUDA_STORE(__stwb)
HOSTCUDA_STORE(__stcg)
HOSTCUDA_STORE(__stcs)
HOSTCUDA_STORE(__stwt)
#undef HOSTCUDA_LOAD
#undef HOSTCUDA_STORE

// ---- Hints and clocks -------------------------------------------------------------------------------------

#ifndef __clang__
#define __builtin_assume(condition) ((condition) ? (void)0 : __builtin_unreachable())
#endif
#define __assume(condition) __builtin_assume(condition)

// The processor's cycle (or, elsewhere than on x86, timer) counter.
inline long long clock64() {
#if defined(__x86_64__) || defined(__i386__)
    return (long long)__builtin_ia32_rdtsc();
#else
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
#endif
}
extern "C" inline clock_t clock() HOSTCUDA_NOEXCEPT { return (clock_t)clock64(); }
