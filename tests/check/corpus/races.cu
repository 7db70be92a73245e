// Accesses that nothing puts in order.
#include "planted.h"

//: kind="missing first barrier" grid=1 block=64 args=f64,f64
extern "C" __global__ void tile_read_before_it_is_full(const float *in, float *out) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = in[i];  // BUG
  PLANTED(, __syncthreads());
  out[i] = tile[63 - i];  // BUG
}

//: kind="missing first barrier" grid=1 block=16x16 args=f256,f256
extern "C" __global__ void transpose_without_barrier(const float *in, float *out) {
  __shared__ float tile[16][17];
  int x = threadIdx.x, y = threadIdx.y;
  tile[y][x] = in[y * 16 + x];  // BUG
  PLANTED(, __syncthreads());
  out[y * 16 + x] = tile[x][y];  // BUG
}

//: kind="missing first barrier" grid=1 block=64 args=f64,f64
extern "C" __global__ void thread_zero_sets_the_scale(const float *in, float *out) {
  __shared__ float scale;
  if (threadIdx.x == 0)
    scale = in[0];  // BUG
  PLANTED(, __syncthreads());
  out[threadIdx.x] = scale * in[threadIdx.x];  // BUG
}

//: kind="missing second barrier" grid=1 block=64 args=f256,f64,4
extern "C" __global__ void next_tile_comes_too_early(const float *in, float *out, int tiles) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  float sum = 0;
  for (int t = 0; t < tiles; t++) {
    tile[i] = in[t * 64 + i];  // BUG
    __syncthreads();
    sum += tile[63 - i];  // BUG
    PLANTED(, __syncthreads());
  }
  out[i] = sum;
}

//: kind="missing second barrier" grid=1 block=16x16 args=f512,f512,f256,2
extern "C" __global__ void gemm_without_second_barrier(const float *a, const float *b, float *c, int tiles) {
  __shared__ float as[16][16], bs[16][16];
  int x = threadIdx.x, y = threadIdx.y;
  float sum = 0;
  for (int t = 0; t < tiles; t++) {
    as[y][x] = a[y * 32 + t * 16 + x];  // BUG
    bs[y][x] = b[(t * 16 + y) * 16 + x];  // BUG
    __syncthreads();
    for (int k = 0; k < 16; k++)
      sum += as[y][k] * bs[k][x];  // BUG
    PLANTED(, __syncthreads());
  }
  c[y * 16 + x] = sum;
}

//: kind="write-write" grid=1 block=64 args=f64,f64
extern "C" __global__ void all_write_the_maximum(const float *in, float *out) {
  __shared__ float best;
  if (PLANTED(true, threadIdx.x == 0))
    best = in[threadIdx.x];  // BUG
  __syncthreads();
  out[threadIdx.x] = best;
}

//: kind="write-write" grid=1 block=64 args=f64,f64
extern "C" __global__ void two_threads_a_slot(const float *in, float *out) {
  __shared__ float slot[64];
  int i = threadIdx.x;
  slot[PLANTED(i % 32, i)] = in[i];  // BUG
  __syncthreads();
  out[i] = slot[i % 32];
}

//: kind="non-atomic update" grid=1 block=64 args=i64,f64
extern "C" __global__ void histogram_in_shared(const int *in, float *out) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) bins[threadIdx.x] = 0;
  __syncthreads();
  int b = in[threadIdx.x] % 8;
  PLANTED(bins[b] += 1, atomicAdd(&bins[b], 1));  // BUG
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];
}

//: kind="non-atomic update" grid=4 block=32 args=i128,i8
extern "C" __global__ void histogram_in_global(const int *in, int *bins) {
  int b = in[blockIdx.x * blockDim.x + threadIdx.x] % 8;
  PLANTED(bins[b] += 1, atomicAdd(&bins[b], 1));  // BUG
}

//: kind="non-atomic update" grid=1 block=64 args=f64,f64
extern "C" __global__ void sum_in_shared(const float *in, float *out) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  PLANTED(sum += in[threadIdx.x], atomicAdd(&sum, in[threadIdx.x]));  // BUG
  __syncthreads();
  if (threadIdx.x == 0) out[0] = sum;
}

//: kind="reduction without barriers" grid=1 block=128 args=f128,f128
extern "C" __global__ void tree_without_barriers(const float *in, float *out) {
  __shared__ float sum[128];
  int i = threadIdx.x;
  sum[i] = in[i];  // BUG
  for (int half = 64; half > 0; half /= 2) {
    PLANTED(, __syncthreads());
    if (i < half)
      sum[i] += sum[i + half];  // BUG
  }
  if (i == 0) out[0] = sum[0];
}

//: kind="reduction without barriers" grid=1 block=128 args=f128,f128
extern "C" __global__ void last_warp_is_not_in_step(const float *in, float *out) {
  __shared__ float sum[128];
  int i = threadIdx.x;
  sum[i] = in[i];
  for (int half = 64; half > 0; half /= 2) {
    if (PLANTED(half >= 32, true)) __syncthreads();
    if (i < half)
      sum[i] += sum[i + half];  // BUG
  }
  if (i == 0) out[0] = sum[0];
}

//: kind="reduction without barriers" grid=1 block=64 args=f64,f64
extern "C" __global__ void scan_in_one_buffer(const float *in, float *out) {
  __shared__ float scan[64];
  int i = threadIdx.x;
  scan[i] = in[i];
  for (int step = 1; step < 64; step *= 2) {
    __syncthreads();
    float left = 0;
    if (i >= step)
      left = scan[i - step];  // BUG
    PLANTED(, __syncthreads());
    scan[i] += left;  // BUG
  }
  out[i] = scan[i];
}
