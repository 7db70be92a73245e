// Addresses outside of a buffer in global memory.
#include "planted.h"

//: kind="by one" grid=2 block=64 args=f100,f100,100
extern "C" __global__ void guard_takes_one_more(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (PLANTED(i <= n, i < n)) {
    float v = i < n ? in[i] : 0;
    out[i] = 2 * v;  // BUG
  }
}

//: kind="by one" grid=1 block=32 args=f32,f32,32
extern "C" __global__ void stencil_looks_right(const float *in, float *out, int n) {
  int i = threadIdx.x;
  float right = 0;
  if (PLANTED(true, i + 1 < n))
    right = in[i + 1];  // BUG
  out[i] = in[i] + right;
}

//: kind="by one" grid=1 block=16x16 args=f256,f15,16
extern "C" __global__ void rows_counted_one_short(const float *in, float *out, int n) {
  int row = threadIdx.y, col = threadIdx.x;
  if (row < PLANTED(n, n - 1) && col == 0)
    out[row] = in[row * n];  // BUG
}

//: kind="by a tile" grid=4 block=32 args=f100,f100,100
extern "C" __global__ void no_guard(const float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (PLANTED(n > 0, i < n))
    out[i] = 1;  // BUG
}

//: kind="by a tile" grid=2x2 block=8x8 args=f100,f100,10
extern "C" __global__ void tile_reads_past_the_image(const float *in, float *out, int n) {
  __shared__ float tile[8][8];
  int x = blockIdx.x * 8 + threadIdx.x, y = blockIdx.y * 8 + threadIdx.y;
  tile[threadIdx.y][threadIdx.x] = 0;
  if (PLANTED(true, x < n && y < n))
    tile[threadIdx.y][threadIdx.x] = in[y * n + x];  // BUG
  __syncthreads();
  if (x < n && y < n) out[y * n + x] = tile[threadIdx.y][threadIdx.x];
}

//: kind="by a tile" grid=1 block=64 args=f64,f64,64
extern "C" __global__ void stride_loop_runs_over(const float *in, float *out, int n) {
  for (int i = threadIdx.x; i < PLANTED(n + 64, n); i += blockDim.x)
    out[i] = 3;  // BUG
}

//: kind="negative" grid=1 block=32 args=f32,f32,32
extern "C" __global__ void stencil_looks_left(const float *in, float *out, int n) {
  int i = threadIdx.x;
  float left = 0;
  if (PLANTED(i < n, i > 0))
    left = in[i - 1];  // BUG
  out[i] = left;
}

//: kind="negative" grid=1 block=10x10 args=f100,f100,10
extern "C" __global__ void halo_is_not_clamped(const float *in, float *out, int n) {
  int x = threadIdx.x - 1, y = threadIdx.y - 1;
  float v = 0;
  if (PLANTED(true, x >= 0 && y >= 0))
    v = in[y * n + x];  // BUG
  out[threadIdx.y * n + threadIdx.x] = v;
}

//: kind="negative" grid=1 block=32 args=f32,f32,32
extern "C" __global__ void reversed_from_the_wrong_end(const float *in, float *out, int n) {
  int i = threadIdx.x;
  out[PLANTED(n - 2 - i, n - 1 - i)] = in[i];  // BUG
}

//: kind="into the neighbour" grid=1 block=64 args=f256,f256,256
extern "C" __global__ void one_row_further(float *in, float *out, int n) {
  int i = threadIdx.x;
  in[n - PLANTED(0, 64) + i] = out[i];  // BUG
}

//: kind="into the neighbour" grid=1 block=16x16 args=f96,f96,16,6
extern "C" __global__ void transposed_index(const float *in, float *out, int w, int h) {
  int x = threadIdx.x, y = threadIdx.y;
  if (x < w && y < h)
    out[PLANTED(x * w + y, x * h + y)] = in[y * w + x];  // BUG
}

//: kind="into the neighbour" grid=3 block=32 args=f64,f96,64
extern "C" __global__ void one_block_too_many(float *in, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < PLANTED(n + 32, n))
    in[i] = out[i];  // BUG
}
