// Kernels that are followed from statement to statement.
#include <cuda_fp16.h>
__constant__ float weights[2][3];
struct Point { int x; float y; };

__device__ int twice(int value)
{
    int result = value;
    result += value;
    return result;
}

extern "C" __global__ void sums(const float *x, float *y, int n)
{
    __shared__ float tile[4][8];
    const int t = threadIdx.x;
    tile[t / 8][t % 8] = x[t];
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < n; i++) {
        const float factor = weights[i % 2][i % 3];
        sum += factor * tile[(t + i) % 32 / 8][(t + i) % 8];
    }
    x += 2 * t;
    y[t] = sum;
}

extern "C" __global__ void kinds(double *out, int n)
{
    int later;
    int some[4];
    float4 four = make_float4(1, 2, 3, n);
    Point point = {n, 0.5f};
    half small = __float2half(1.5f);
    bool flag = n > 2;
    unsigned char letter = 200;
    long long wide = -(1ll << 40);
    double exact = 1.0 / n;
    for (int i = 0; i < 2; i++) {
        int inner;
        if (i == 0) inner = 7;
        some[i] = twice(i + n);
    }
    later = some[1];
    *out = exact + later;
}

extern "C" __global__ void one_line(int *out) { int s = 0; for (int i = 0; i < 3; i++) s += i; *out = s; }

extern "C" __global__ void undecided(int *out)
{
    int unset;
    if (unset & 1)
        *out = 1;
    else
        *out = 2;
}

extern "C" __global__ void waits(volatile int *out)
{
    __shared__ int seen[64];
    seen[threadIdx.x] = threadIdx.x;
    __syncthreads();
    int other = seen[63 - threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = other;
}

extern "C" __global__ void beyond(int *out, int n)
{
    int i = n;
    out[i] = 1;
}
