// Complex numbers as pairs: cuFloatComplex (cuComplex) is a float2, cuDoubleComplex a double2.
#pragma once
#ifndef HOSTCUDA_CPU
#include "hostcuda.h"
#endif

// The float functions end in f. Quotients are scaled by the larger part, to avoid intermediate overflow.
#define HOSTCUDA_COMPLEX(Complex, Pair, Real, f)                                                        \
    typedef Pair Complex;                                                                             \
    inline Complex make_##Complex(Real x, Real y) { return {x, y}; }                                  \
    inline Real cuCreal##f(Complex a) { return a.x; }                                                 \
    inline Real cuCimag##f(Complex a) { return a.y; }                                                 \
    inline Complex cuConj##f(Complex a) { return {a.x, -a.y}; }                                       \
    inline Complex cuCadd##f(Complex a, Complex b) { return {a.x + b.x, a.y + b.y}; }                 \
    inline Complex cuCsub##f(Complex a, Complex b) { return {a.x - b.x, a.y - b.y}; }                 \
    inline Complex cuCmul##f(Complex a, Complex b) {                                                  \
        return {a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x};                                        \
    }                                                                                                 \
    inline Complex cuCdiv##f(Complex a, Complex b) {                                                  \
        Real scale = 1 / (fabs##f(b.x) + fabs##f(b.y));                                               \
        a = {a.x * scale, a.y * scale}, b = {b.x * scale, b.y * scale};                               \
        Real square = b.x * b.x + b.y * b.y;                                                          \
        return {(a.x * b.x + a.y * b.y) / square, (a.y * b.x - a.x * b.y) / square};                  \
    }                                                                                                 \
    inline Real cuCabs##f(Complex a) { return hypot##f(a.x, a.y); }                                   \
    inline Complex cuCfma##f(Complex a, Complex b, Complex c) { return cuCadd##f(cuCmul##f(a, b), c); }
HOSTCUDA_COMPLEX(cuFloatComplex, float2, float, f)
HOSTCUDA_COMPLEX(cuDoubleComplex, double2, double, )
#undef HOSTCUDA_COMPLEX

typedef cuFloatComplex cuComplex;
inline cuComplex make_cuComplex(float x, float y) { return {x, y}; }
inline cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return {a.x, a.y}; }
inline cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) { return {(float)a.x, (float)a.y}; }
