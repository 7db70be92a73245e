// What depends on the processor: switching stacks, thread-local variables, atomic operations, half precision, faults.
#include <cuda_fp16.h>
#include <stdio.h>

// Registers that live across barriers.
extern "C" __global__ void barriers(const int *x, int *y, int n)
{
    __shared__ int s[64];
    int t = threadIdx.x, a[24], sum = 0;
    double d = t;
    for (int i = 0; i < 24; i++) a[i] = x[i * 64 + t];
    for (int r = 0; r < n; r++) {
        s[t] = a[r & 7];
        __syncthreads();
        int v = s[63 - t];
        for (int i = 0; i < 24; i++) a[i] = a[i] * 3 + v + i;
        d = d * 0.5 + v % 1000;
        __syncthreads();
    }
    for (int i = 0; i < 24; i++) sum = sum * 31 + a[i];
    y[t] = sum + (int)(d * 100);
}

// Exchanges between lanes, with and without a mask.
extern "C" __global__ void lanes(const int *x, int *y)
{
    int t = threadIdx.x, v = x[t];
    for (int i = 16; i; i /= 2) v += __shfl_xor_sync(~0u, v, i);
    unsigned odd = __ballot_sync(~0u, x[t] & 1), some = 0;
    if (t % 3 == 0) some = __activemask();
    float f = __shfl_down_sync(~0u, x[t] * 0.25f, 3, 8);
    y[t] = v + (int)odd + 7 * (int)some + __shfl_sync(~0u, v, t % 5) + (int)(4 * f) + __syncthreads_count(x[t] > 10);
}

// Blocks at the same words; a lock.
extern "C" __global__ void atomics(const int *x, int *y, float *z, unsigned long long *w)
{
    int t = threadIdx.x;
    atomicAdd(&y[t % 4], x[t]);
    atomicMax(&y[4], x[t]);
    atomicXor(&y[5], x[t]);
    atomicAdd(&z[0], 0.5f);
    atomicAdd(&w[0], 1ull << 33);
    bool mine = false;
    while (!mine) {
        mine = atomicCAS(&y[6], 0, 1) == 0;
        if (mine) {
            y[7] += 1;
            __threadfence();
            atomicExch(&y[6], 0);
        }
    }
}

extern "C" __global__ void halves(const float *x, __half *y, float *z)
{
    int t = threadIdx.x;
    __half a = __float2half(x[t]), b = __float2half(x[63 - t]);
    y[t] = __hadd(__hmul(a, b), __hdiv(a, __hadd(b, __float2half(2.5f))));
    __half2 pair = __hfma2(__halves2half2(a, b), __halves2half2(b, b), __halves2half2(a, a));
    z[2 * t] = __low2float(pair);
    z[2 * t + 1] = __half2float(__hmax(a, __high2half(pair)));
}

extern "C" __global__ void prints(int n)
{
    if (threadIdx.x < 3) printf("block %d thread %d: %5.2f %s\n", blockIdx.x, threadIdx.x, n * 0.5, "text");
}

extern "C" __global__ void dynamic(const int *x, int *y)
{
    extern __shared__ int d[];
    __shared__ int first[8], second[5];
    d[threadIdx.x] = x[threadIdx.x];
    if (threadIdx.x < 8) first[threadIdx.x] = 1;
    if (threadIdx.x < 5) second[threadIdx.x] = 2;
    __syncthreads();
    y[threadIdx.x] = d[blockDim.x - 1 - threadIdx.x] + first[threadIdx.x % 8] + second[threadIdx.x % 5];
}

extern "C" __global__ void faults(int *y, int which)
{
    __shared__ int s[16];
    volatile int past = 16 + which;
    s[threadIdx.x % 16] = 0;
    __syncthreads();
    if (threadIdx.x == 5) switch (which) {
        case 0: y[-(1ll << 36)] = 1; break;
        case 1: y[0] = s[past]; break;
        case 2: s[-1] = 1; break;
        case 3: __trap();
        case 4: y[0] = *(volatile int *)nullptr; break;
        case 5: __syncthreads(); break;
        case 6: free(y); break;
    }
    __syncthreads();
    y[threadIdx.x] = s[threadIdx.x % 16];
}
