#include <cuda/barrier>
#include <cuda_fp16.h>
extern "C" {
// The ways of a branch whose sides the compiler may put anywhere meet at the store, in each turn of the loop.
__global__ void padded(const float *x, float *y, int n) {
    __shared__ float a[32], b[32];
    float sum = 0;
    for (int step = 0; step < n; step += 16) {
        const int i = step + threadIdx.x;
        a[threadIdx.x] = threadIdx.x < 20 && i < n ? x[i] : 0;
        b[threadIdx.x] = threadIdx.x > 4 && i + 3 < n ? x[i + 3] : 0;
        __syncthreads();
        for (int j = 0; j < 16; j++) sum += a[j] * b[j];
        __syncthreads();
    }
    y[threadIdx.x] = sum;
}
// Odd lanes have twice as much to write to their logs, and far more than these hold.
__global__ void unequal(volatile float *x, float *y, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) {
        if (threadIdx.x % 2) for (int j = 0; j < 3; j++) sum += x[32 * j];
        sum += x[threadIdx.x];
    }
    y[threadIdx.x] = sum;
}
__device__ __noinline__ float far(volatile float *x, int n) {
    float sum = 0;
    for (int i = 0; i < n; i++) sum += x[i];
    return sum;
}
// A function that some of the lanes call: the others wait for them behind the call.
__global__ void calls(volatile float *x, float *y) {
    float sum = x[threadIdx.x];
    if (threadIdx.x < 7) sum += far(x, threadIdx.x);
    y[threadIdx.x] = sum + x[threadIdx.x];
}
// Shared arrays with constructors: threads wait at barriers, of which the compiler thinks that they may throw.
__global__ void constructed(const half *x, half *y, int n) {
    __shared__ half tile[64];
    for (int i = 0; i < n; i++) {
        tile[threadIdx.x] = x[threadIdx.x];
        __syncthreads();
        y[threadIdx.x] = tile[threadIdx.x ^ 1];
        __syncthreads();
    }
}
__global__ void unrolled(const float *x, float *y) {
    float column[4], sum = 0;
    #pragma unroll
    for (int q = 0; q < 3; q++) {
        #pragma unroll
        for (int i = 0; i < 4; i++) column[i] = x[32 * (4 * q + i) + threadIdx.x];
        #pragma unroll
        for (int i = 0; i < 4; i++) sum += column[i] * column[3 - i];
    }
    y[threadIdx.x] = sum;
}
__global__ void first_come(volatile int *x, int *y) {
    for (int lane = 0; lane < 32; lane++) {
        if (threadIdx.x == lane) y[lane] = x[lane];
        __syncwarp();
    }
    y[threadIdx.x] = x[threadIdx.x];
}
__global__ void reductions(int *y, float *z) {
    atomicAdd(&y[threadIdx.x], 1);
    atomicAdd(&z[threadIdx.x], 1.0f);
    atomicMax(&y[threadIdx.x], 3);
    (void)atomicOr(&y[threadIdx.x], 3);
    if (atomicAdd(&y[threadIdx.x], 2) < 0) y[0] = 1;
    z[threadIdx.x] = atomicAdd(&z[threadIdx.x + 32], 1.0f);
    atomicExch(&y[threadIdx.x], 5);
    atomicCAS(&y[threadIdx.x], 1, 2);
}
__device__ int highest(int *y, int value) { return atomicMax(y, value); }
__global__ void through_a_function(int *y) {
    highest(y + threadIdx.x, 4);
    y[threadIdx.x + 32] = highest(y + 64 + threadIdx.x, 4);
}
__global__ void shared_atomics(int *y) {
    __shared__ int bins[32];
    bins[threadIdx.x] = 0;
    atomicAdd(&bins[threadIdx.x], 1);
    y[threadIdx.x] = bins[threadIdx.x];
}
__global__ void phases(float *y) {
    __shared__ cuda::barrier<cuda::thread_scope_block> all;
    if (threadIdx.x == 0) init(&all, 64);
    __syncthreads();
    all.arrive_and_wait();
    y[threadIdx.x] = 1;
    all.arrive_and_wait();
}
__global__ void exchanges(const float *x, float *y, int *z) {
    float sum = x[threadIdx.x] + __shfl_xor_sync(~0u, x[threadIdx.x + 48], 1) + __popc(__ballot_sync(~0u, threadIdx.x < 3));
    __syncwarp();
    y[32 * threadIdx.x] = sum;
    if (threadIdx.x > 0) return;
    const int first = atomicAdd(&z[4000], 5);
    z[4032] = first + atomicAdd(&z[4000], 2);
}
// The first warp stores, the third loads; the second does both, and loads what another lane of it has stored.
__global__ void roles(int *y) {
    __shared__ int tile[64];
    const int i = threadIdx.x;
    if (i < 64) tile[i] = i;
    __syncthreads();
    if (i >= 32) y[i] = tile[(i ^ 1) % 64];
}
// Each lane reads all of both arrays: of the first 4 words in a row, of the second words that are 8 apart, with 16 of these
// in between before a word's neighbour is read.
__global__ void neighbours(float *y) {
    __shared__ __align__(16) float rows[16][8], columns[16][8];
    const int i = threadIdx.x;
    for (int n = i; n < 128; n += 32) rows[n / 8][n % 8] = columns[n / 8][n % 8] = n;
    __syncthreads();
    float sum = 0;
    for (int t = 0; t < 16; ++t)
        for (int m = 0; m < 8; ++m) sum += rows[t][m];
    for (int t = 0; t < 8; ++t)
        for (int m = 0; m < 16; ++m) sum += columns[m][t];
    y[i] = sum + rows[i / 2][i % 2 * 4] + rows[i / 2][i % 2 * 4 + 1];   // a word per lane: two loads
}
// Two warps meet at barrier 1; the third arrives at barrier 2, where nobody waits.
__global__ void left_half_full() {
    const unsigned warp = threadIdx.x / 32;
    if (warp == 0) asm volatile("bar.sync 1, 64;" ::: "memory");
    if (warp == 1) asm volatile("bar.arrive 1, 64;" ::: "memory");
    if (warp == 2) asm volatile("bar.arrive 2, 64;" ::: "memory");
}
}
