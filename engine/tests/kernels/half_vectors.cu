// What g++ calls for vectors of each length, against the operations on one value.
#include <cuda_fp16.h>
#ifdef HOSTCUDA_HALF_VECTORS
#define ROUND_TRIP(function, x) function##_narrow(function##_widen(x))
#define VECTORS(n, isa) \
    typedef float x##n __attribute__((vector_size(4 * n), aligned(4))); \
    extern "C" x##n _ZGV##isa##N##n##vvv_hostcuda_half2_fma(x##n, x##n, x##n); \
    extern "C" x##n _ZGV##isa##N##n##vv_hostcuda_half2_add(x##n, x##n); \
    extern "C" x##n _ZGV##isa##N##n##vv_hostcuda_half2_sub(x##n, x##n); \
    extern "C" x##n _ZGV##isa##N##n##vv_hostcuda_half2_mul(x##n, x##n); \
    extern "C" x##n _ZGV##isa##N##n##v_hostcuda_half_widen(x##n); \
    extern "C" x##n _ZGV##isa##N##n##v_hostcuda_half_narrow(x##n); \
    __device__ void vectors##n(int which, const float *a, const float *b, const float *c, float *y) { \
        for (int i = 0; i < 16; i += n) { \
            x##n p = *(x##n *)(a + i), q = *(x##n *)(b + i), r = *(x##n *)(c + i); \
            *(x##n *)(y + i) = which == 0 ? _ZGV##isa##N##n##vvv_hostcuda_half2_fma(p, q, r) \
                             : which == 1 ? _ZGV##isa##N##n##vv_hostcuda_half2_add(p, q) \
                             : which == 2 ? _ZGV##isa##N##n##vv_hostcuda_half2_sub(p, q) \
                             : which == 3 ? _ZGV##isa##N##n##vv_hostcuda_half2_mul(p, q) \
                             : which == 4 ? _ZGV##isa##N##n##v_hostcuda_half_widen(p) \
                                          : ROUND_TRIP(_ZGV##isa##N##n##v_hostcuda_half, p); \
        } \
    }
VECTORS(4, b)
VECTORS(8, d)
#ifdef __AVX512F__
VECTORS(16, e)
#endif
__device__ float one(int which, half2 a, half2 b, half2 c)
{
    if (which == 4) return __low2float(a);
    half2 y = which == 0 ? __hfma2(a, b, c) : which == 1 ? a + b : which == 2 ? a - b : which == 3 ? a * b
              : __halves2half2(__float2half(__low2float(a)), __ushort_as_half(0));
    return __int_as_float(*(int *)&y);
}
__device__ bool differ(int which, float x, float y)   // two NaN are the same
{
    int p = __float_as_int(x), q = __float_as_int(y);
    if (which == 4) return p != q && !(x != x && y != y);
    for (int half : {0, 16}) {
        bool both_nan = (p >> half & 0x7fff) > 0x7c00 && (q >> half & 0x7fff) > 0x7c00;
        if ((p ^ q) >> half & 0xffff && !both_nan) return true;
    }
    return false;
}
#endif
extern "C" __global__ void compare(const float *a, const float *b, const float *c, int n, int *wrong)
{
#ifndef HOSTCUDA_HALF_VECTORS
    wrong[0] = -1;
#else
    for (int i = 0; i < n; i += 16)
        for (int which = 0; which < 6; which++) {
            float y[4][16];
            vectors4(which, a + i, b + i, c + i, y[0]);
            vectors8(which, a + i, b + i, c + i, y[1]);
#ifdef __AVX512F__
            vectors16(which, a + i, b + i, c + i, y[2]);
#else
            memcpy(y[2], y[1], sizeof y[2]);
#endif
            for (int j = 0; j < 16; j++) {
                float p = a[i + j], q = b[i + j], r = c[i + j];
                y[3][j] = which == 0 ? hostcuda_half2_fma(p, q, r) : which == 1 ? hostcuda_half2_add(p, q)
                        : which == 2 ? hostcuda_half2_sub(p, q) : which == 3 ? hostcuda_half2_mul(p, q)
                        : which == 4 ? hostcuda_half_widen(p) : hostcuda_half_narrow(hostcuda_half_widen(p));
                float want = one(which, *(half2 *)&p, *(half2 *)&q, *(half2 *)&r);
                for (int version = 0; version < 4; version++) wrong[which] += differ(which, y[version][j], want);
            }
        }
#endif
}
