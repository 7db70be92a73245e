__constant__ float first[16], second[16];
extern "C" __global__ void past_the_end(float *a, float *u) {
    a[threadIdx.x + 1] = 1;
}
extern "C" __global__ void far_past_the_end(float *a, float *u) { a[5000 + threadIdx.x] = 1; }
extern "C" __global__ void shared_overrun(float *a, float *u) {
    __shared__ float s[64], t[64];
    t[threadIdx.x] = 2;
    s[threadIdx.x + 1] = t[threadIdx.x];
    __syncthreads();
    a[threadIdx.x] = s[threadIdx.x];
}
extern "C" __global__ void constant_overrun(float *a, float *u) { a[threadIdx.x] = first[threadIdx.x] + second[0]; }
extern "C" __global__ void misaligned(float *a, float *u) { *(float4 *)(a + 2 * (threadIdx.x % 4)) = float4{}; }
extern "C" __global__ void missing_barrier(float *a, float *u) {
    __shared__ float s[64];
    s[threadIdx.x] = a[threadIdx.x];
    a[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void unset(float *a, float *u) { a[threadIdx.x] = u[threadIdx.x]; }
extern "C" __global__ void divergent(float *a, float *u) {
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
}
extern "C" __global__ void exited(float *a, float *u) {
    if (threadIdx.x % 32 >= 16) return;
    a[threadIdx.x] = __shfl_down_sync(0xffffffffu, a[threadIdx.x], 8);
}
extern "C" __global__ void different_values(float *a, float *u) {
    __shared__ int last;
    last = threadIdx.x / 32;
    __syncthreads();
    a[0] = last + threadIdx.x % 32;
}
extern "C" __global__ void same_value(float *a, float *u) {
    __shared__ int any;
    if (threadIdx.x == 0) any = 0;
    __syncthreads();
    if (a[threadIdx.x] == 0) any = 1;
    __syncthreads();
    u[0] = any;
}
extern "C" __global__ void right(float *a, float *u) {
    __shared__ float s[64], total;
    const int i = threadIdx.x;
    if (i == 0) total = 0;
    s[i] = a[i];
    __syncthreads();
    atomicAdd(&total, s[63 - i]);
    float v = __shfl_xor_sync(0xffffffffu, a[i], 1);
    __syncthreads();
    s[i] = v;
    __syncwarp();
    a[i] = s[i ^ 1] + total;
}
extern "C" __global__ void rest_has_ended(float *a, float *u) {
    if (threadIdx.x < 16)
        __syncthreads();
    if (threadIdx.x < 16) __syncthreads();
}
#include <mma.h>
using namespace nvcuda;
template <bool first, bool second> __device__ void product(float *a, float *u) {
    __shared__ __align__(32) half tile[2][256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> f;
    half *mine = tile[threadIdx.x / 32];
    for (int step = 0; step < 2; step++) {
        for (int i = threadIdx.x % 32; i < 256; i += 32) mine[i] = a[i % 64];
        if (first) __syncwarp();
        wmma::load_matrix_sync(f, mine, 16);
        if (second) __syncwarp();
    }
    u[threadIdx.x] = f.x[0];
}
extern "C" __global__ void matrix_not_complete(float *a, float *u) { product<false, true>(a, u); }
extern "C" __global__ void matrix_still_read(float *a, float *u) { product<true, false>(a, u); }
struct Sums { float each[4]; int n; };
extern "C" __global__ void registers_overrun(float *a, float *u) {
    float r[8];
    for (int i = 0; i <= 8 * (int)a[0] + 8; i++)
        r[i] = a[i];
    a[threadIdx.x] = r[(int)u[0] & 3];
}
extern "C" __global__ void register_before(float *a, float *u) {
    Sums sums[2] = {};
    a[1] = sums[threadIdx.x & 1].each[(int)a[threadIdx.x] - 1];
}
extern "C" __global__ void flat_tile(float *a, float *u) {
    __shared__ float tile[4][16];
    float r[4] = {};
    tile[0][threadIdx.x] = a[threadIdx.x];
    __syncthreads();
    r[threadIdx.x % 4] = 1;
    a[threadIdx.x] = tile[0][63 - threadIdx.x] + r[3 - threadIdx.x % 4];
}
extern "C" __global__ void warp_matrix(float *a, float *u) { product<true, true>(a, u); }
extern "C" __global__ void counted_without_atomic(float *a, float *u) { a[0] += 1; }
extern "C" __global__ void two_stores(float *a, float *u) { a[0] = threadIdx.x; }
extern "C" __global__ void two_distances(float *a, float *u) {
    a[threadIdx.x] = 1;
    if (threadIdx.x < 8) u[threadIdx.x] = a[threadIdx.x + 1];
    u[threadIdx.x] = a[63 - threadIdx.x];
}
extern "C" __global__ void misaligned_bytes(uint8_t *a, float *u) { *(int *)(a + 2 * threadIdx.x) = 1; }
extern "C" __global__ void unset_pairs(float *a, float2 *u) { a[threadIdx.x] = u[2 + threadIdx.x % 8].y; }
struct Point { float x, y, z; };
extern "C" __global__ void past_points(float *a, Point *u) { u[threadIdx.x].y = 1; }
extern "C" __global__ void past_the_middle(float *a, float *u) { a[threadIdx.x] = 1; }
extern "C" __global__ void never_written(float *a, float *u) {
    __shared__ float nothing[64];
    a[threadIdx.x] = nothing[threadIdx.x];
}
extern "C" __global__ void handed_over(float *a, float *u) {
    unsigned &in_z = (unsigned &)gridDim.z;
    if (threadIdx.x == 0) in_z = 7;
    __syncthreads();
    a[threadIdx.x] = in_z;
}
extern "C" __global__ void unset_fragment(float *a, float *u) {
    __shared__ __align__(32) half tile[256];
    __shared__ __align__(32) float sums[2][256];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> x;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> y;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> z;
    for (int i = threadIdx.x; i < 256; i += 64) tile[i] = 1;
    __syncthreads();
    wmma::load_matrix_sync(x, tile, 16);
    wmma::load_matrix_sync(y, tile, 16);
    for (int i = 0; i < 2; i++) wmma::mma_sync(z, x, y, z);
    wmma::store_matrix_sync(sums[threadIdx.x / 32], z, 16, wmma::mem_row_major);
}
