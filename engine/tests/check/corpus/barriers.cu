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

//: kind="absent lane" grid=1 block=32 args=f32,f32
extern "C" __global__ void shuffle_from_a_lane_outside_the_mask(const float *in, float *out) {
  int i = threadIdx.x;
  if (i < PLANTED(24, 32))
    out[i] = __shfl_down_sync(PLANTED(0x00ffffffu, 0xffffffffu), in[i], 8);  // BUG
}

//: kind="absent lane" grid=1 block=40 args=f40,f2
extern "C" __global__ void partial_warp_sum(const float *in, float *out) {
  int lane = threadIdx.x % 32, live = threadIdx.x < 32 ? 32 : 8;
  float v = in[threadIdx.x];
  for (int half = PLANTED(16, live / 2); half > 0; half /= 2)
    v += __shfl_down_sync(0xffffffffu >> (32 - live), v, half, PLANTED(32, live));  // BUG
  if (lane == 0) out[threadIdx.x / 32] = v;
}
