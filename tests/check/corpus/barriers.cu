// Barriers and warp operations that not all reach.
#include "planted.h"

//: kind="divergent barrier" grid=1 block=64 args=f64,f64
extern "C" __global__ void half_the_block_waits(const float *in, float *out) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = in[i];
  if (PLANTED(i < 32, i < 64))
    __syncthreads();  // BUG
  __syncthreads();  // BUG
  out[i] = tile[63 - i];
}

//: kind="divergent barrier" grid=1 block=64 args=f64,f64
extern "C" __global__ void each_branch_its_own_barrier(const float *in, float *out) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = in[i];
  if (PLANTED(i % 2, 0))
    __syncthreads();  // BUG
  else
    __syncthreads();  // BUG
  out[i] = tile[i];
}

//: kind="divergent barrier" grid=1 block=64 args=f64,f64,64
extern "C" __global__ void loop_of_unequal_length(const float *in, float *out, int n) {
  __shared__ float tile[64];
  int i = threadIdx.x;
  tile[i] = in[i];
  for (int j = PLANTED(i, 0); j < n; j += 32)
    __syncthreads();  // BUG
  __syncthreads();  // BUG
  out[i] = tile[63 - i];
}

//: kind="exited lanes" grid=1 block=32 args=f32,f32
extern "C" __global__ void shuffle_after_return(const float *in, float *out) {
  int i = threadIdx.x;
  if (PLANTED(i >= 16, i >= 32)) return;
  float v = in[i];
  v += __shfl_down_sync(0xffffffffu, v, 1);  // BUG
  out[i] = v;
}

//: kind="exited lanes" grid=1 block=32 args=f32,f32
extern "C" __global__ void mask_names_absent_lanes(const float *in, float *out) {
  int i = threadIdx.x;
  if (i < 24)
    out[i] = __shfl_xor_sync(PLANTED(0xffffffffu, 0x00ffffffu), in[i], 1);  // BUG
}
