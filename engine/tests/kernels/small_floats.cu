// Floating point in 8 bits, bfloat16, and bytes and shorts in a word.
#include <cuda_fp8.h>

extern "C" {

__global__ void widen(float *e4m3, float *e5m2, unsigned short *halves)
{
    __nv_fp8_e4m3 a;
    __nv_fp8_e5m2 b;
    a.__x = b.__x = threadIdx.x;
    e4m3[threadIdx.x] = float(a);
    e5m2[threadIdx.x] = float(b);
    halves[threadIdx.x] = __nv_cvt_fp8_to_halfraw(threadIdx.x, __NV_E4M3).x;
}

// codes[form][i]
__global__ void narrow(const float *x, unsigned char *codes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    codes[i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E4M3);
    codes[n + i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, __NV_E5M2);
    codes[2 * n + i] = __nv_fp8_e4m3(x[i]).__x;
    codes[3 * n + i] = __nv_fp8_e5m2((double)x[i]).__x;
    codes[4 * n + i] = __nv_fp8x2_e5m2(make_float2(0.0f, x[i])).__x >> 8;
    codes[5 * n + i] = __nv_fp8x4_e4m3(make_float4(0.0f, 0.0f, x[i], 1.0f)).__x >> 16 & 0xff;
    codes[6 * n + i] = __nv_cvt_halfraw_to_fp8(__float2half(x[i]), __NV_SATFINITE, __NV_E4M3);
}

__global__ void brain(const float *x, float *out)
{
    int i = threadIdx.x;
    __nv_bfloat16 a = __float2bfloat16(x[i]);
    __nv_bfloat162 pair(a, __float2bfloat16(2.0f));
    out[i] = hsqrt(a);
    out[32 + i] = hexp(a);
    out[64 + i] = __shfl_xor_sync(0xffffffffu, a, 5);
    out[96 + i] = __high2float(__shfl_down_sync(0xffffffffu, pair, 1)) + __low2float(h2sqrt(pair));
    __shared__ __nv_bfloat16 sum;
    __shared__ __nv_bfloat162 sums;
    if (i == 0) sum = __float2bfloat16(0.0f), sums = __nv_bfloat162(sum, sum);
    __syncthreads();
    atomicAdd(&sum, __float2bfloat16(1.0f));
    atomicAdd(&sums, __nv_bfloat162(__float2bfloat16(2.0f), __float2bfloat16(3.0f)));
    __syncthreads();
    out[128 + i] = (float)sum + 100.0f * __low2float(sums) + 10000.0f * __high2float(sums);
    out[160 + i] = __hmax2(pair, __hneg2(pair)).x;
}

// out[mode][i]
__global__ void brain_roundings(const float *x, unsigned short *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    out[i] = __bfloat16_as_ushort(__float2bfloat16_rd(x[i]));
    out[n + i] = __bfloat16_as_ushort(__float2bfloat16_ru(x[i]));
    out[2 * n + i] = __bfloat16_as_ushort(__float2bfloat16_rz(x[i]));
}

__global__ void brain_integers(const long long *x, float *out, int *relations)
{
    int i = threadIdx.x;
    out[i] = __ll2bfloat16_rn(x[i]);
    __nv_bfloat16 a = __ushort_as_bfloat16(0x7fff), b = out[i];
    __nv_bfloat162 nan(a, b), two(b, b);
    bool holds[] = {__hlt(a, b), __hltu(a, b), __hbeq2(two, two), __hbneu2(nan, two), b == b, a == a,
                    __bfloat162int_rn(__float2bfloat16(2.5f)) == 2, (bool)__hisnan(__hmax_nan(a, b)),
                    __heq2_mask(nan, two) == 0xffff0000u, (float)__hadd_sat(b, __float2bfloat16(1e30f)) == 1.0f};
    relations[i] = 0;
    for (int bit = 0; bit < 10; bit++) relations[i] |= holds[bit] << bit;
}

// out[function][i]
__global__ void bytes_and_shorts(const unsigned *x, const unsigned *y, unsigned *out)
{
    unsigned a = x[threadIdx.x], b = y[threadIdx.x];
    unsigned results[] = {__vaddss4(a, b), __vsubus4(a, b), __vaddus2(a, b), __vsubss2(a, b), __vabs4(a), __vabs2(a),
                          __vneg4(a), __vabsss4(a), __vsetgtu4(a, b), __vseteq2(a, b),
                          (unsigned)__dp2a_lo((int)a, (int)b, 7), __dp2a_hi(a, b, 7u),
                          (unsigned)__vimax3_s32((int)a, (int)b, 5), __viaddmin_u32(a, b, 1u << 31), __fns(a, 3, 2)};
    for (int i = 0; i < 15; i++) out[i * 32 + threadIdx.x] = results[i];
}

}
