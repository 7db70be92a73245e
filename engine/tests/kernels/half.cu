// half, half2 and bfloat16: packing, mixed types, atomics, shuffles.
#include <cuda_bf16.h>
extern "C" __global__ void packing(const float2 *x, half2 *pairs, float *floats, short *bits)
{
    half2 v = __float22half2_rn(x[0]), w = __floats2half2_rn(3.0f, 4.0f);
    half low = __low2half(v), high = __high2half(v);
    pairs[0] = v;
    pairs[1] = __halves2half2(high, low);
    pairs[2] = __lows2half2(v, w);
    pairs[3] = __highs2half2(v, w);
    pairs[4] = __low2half2(v);
    pairs[5] = __high2half2(v);
    pairs[6] = __lowhigh2highlow(v);
    pairs[7] = __half2half2(low);
    pairs[8] = __float2half2_rn(5.0f);
    pairs[9] = make_half2(high, 7);
    pairs[10] = half2(low, high);
    pairs[10].x = pairs[10].y;
    pairs[11] = __hneg2(__habs2(-v));
    pairs[12] = __hcmadd(v, w, v);
    float2 f = __half22float2(v);
    floats[0] = f.x; floats[1] = f.y; floats[2] = __low2float(v); floats[3] = __high2float(v);
    floats[4] = (float)low; floats[5] = low; floats[6] = __half2float(high);
    bits[0] = __half_as_short(low); bits[1] = (short)__half_as_ushort(high);
    bits[2] = __half_as_short(__ushort_as_half(0x3c01)); bits[3] = __half_as_short(__short_as_half((short)0x8001));
    __half_raw raw = low;
    bits[4] = raw.x; bits[5] = *reinterpret_cast<short *>(&high);
}
extern "C" __global__ void mixed(float *y)
{
    __shared__ half tile[4][5];
    tile[1][2] = 1;
    tile[1][3] = 2.5f;
    tile[1][4] = 0.1;
    half a = tile[1][2], b = (half)tile[1][3], c(3), d = __float2half(0.5f), e = 7u, f = (short)-2;
    a += b;
    a *= c;
    a -= d;
    a /= e;
    y[0] = a;
    y[1] = tile[1][4];
    y[2] = a++; y[3] = --a; y[4] = -f;
    y[5] = (int)b; y[6] = (unsigned char)half(300); y[7] = (short)half(-1.9f);
    y[8] = a ? 1 : 0;
    y[9] = half(0.0f) ? 1 : 0;
    y[10] = a > b ? 1 : 0;
    half2 p = __float2half2_rn(1.0f);
    p += p; p = p * p; ++p;
    y[11] = __low2float(p) + (p == __half2half2(5) ? 10 : 0);
    half accumulator = 0;
    for (int i = 0; i < 4096; i++) accumulator = __hadd(accumulator, __float2half(1.0f));
    y[12] = accumulator;
    const half table[3] = {1, 2, 3};
    y[13] = table[2];
    y[14] = __half2float(__hfma_relu(half(-1), half(2), half(1)));
}
extern "C" __global__ void sum(half *one, half2 *two, half *shared)
{
    __shared__ half s;
    if (threadIdx.x == 0) s = 0;
    __syncthreads();
    atomicAdd(one, half(1));
    atomicAdd(two, __floats2half2_rn(1, 2));
    atomicAdd(&s, half(0.5f));
    __syncthreads();
    shared[blockIdx.x] = s;
}
extern "C" __global__ void rotate(const half2 *x, half2 *y, half *z)
{
    int t = threadIdx.x;
    y[t] = __shfl_sync(0xffffffff, x[t], (t + 1) % 32);
    z[t] = __shfl_xor_sync(0xffffffff, __low2half(x[t]), 2);
}
extern "C" __global__ void ops(const float *x, const float *y, float *sum, float *product, float *fused, float *pair,
                               int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_bfloat16 a = __float2bfloat16(x[i]), b = __float2bfloat16(y[i]);
    sum[i] = __bfloat162float(__hadd(a, b));
    product[i] = __bfloat162float(a * b);
    fused[i] = __bfloat162float(__hfma(a, b, a));
    __nv_bfloat162 p = __floats2bfloat162_rn(x[i], y[i]);
    float2 f = __bfloat1622float2(__hmul2(p, p));
    pair[i] = f.x + f.y;
}
