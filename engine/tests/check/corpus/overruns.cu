// Arrays in shared and in constant memory that are too short.
#include "planted.h"

//: kind="shared, static" grid=1 block=64 args=f65,f64
extern "C" __global__ void halo_has_no_room(const float *in, float *out) {
  __shared__ float tile[PLANTED(64, 65)];
  int i = threadIdx.x;
  tile[i] = in[i];
  if (i == 63)
    tile[i + 1] = in[i + 1];  // BUG
  __syncthreads();
  float right = 0;
  if (i < 63) right = tile[i + 1];
  out[i] = tile[i] + right;
}

//: kind="shared, static" grid=1 block=64 args=i64,f64
extern "C" __global__ void bin_number_too_large(const int *in, float *out) {
  __shared__ int bins[PLANTED(60, 64)];
  for (int i = threadIdx.x; i < 60; i += blockDim.x) bins[i] = 0;
  __syncthreads();
  bins[threadIdx.x] = in[threadIdx.x];  // BUG
  __syncthreads();
  if (threadIdx.x < 60) out[threadIdx.x] = bins[threadIdx.x];
}

//: kind="shared, dynamic" grid=1 block=64 shared=256 args=f64,f64
extern "C" __global__ void asks_for_twice_what_it_gets(const float *in, float *out) {
  extern __shared__ float buffer[];
  float *second = buffer + PLANTED(64, 0);
  second[threadIdx.x] = in[threadIdx.x];  // BUG
  __syncthreads();
  if (threadIdx.x == 0) out[0] = buffer[0];
}

//: kind="shared, dynamic" grid=1 block=32 shared=128 args=f64,f64
extern "C" __global__ void last_thread_reads_on(const float *in, float *out) {
  extern __shared__ float buffer[];
  int i = threadIdx.x;
  buffer[i] = in[i];
  __syncthreads();
  float v = 0;
  if (PLANTED(true, i < 31))
    v = buffer[i + 1];  // BUG
  out[i] = v;
}

//: kind="shared, dynamic" grid=1 block=64 shared=128/256 args=f64,f64
extern "C" __global__ void launched_with_too_little(const float *in, float *out) {
  extern __shared__ float buffer[];
  buffer[threadIdx.x] = in[threadIdx.x];  // BUG
  __syncthreads();
  out[threadIdx.x] = buffer[63 - threadIdx.x];
}

//: kind="shared, dynamic" grid=1 block=64 shared=0/256 args=f64,f64
extern "C" __global__ void launched_with_none(const float *in, float *out) {
  extern __shared__ float buffer[];
  buffer[threadIdx.x] = in[threadIdx.x];  // BUG
  __syncthreads();
  out[threadIdx.x] = buffer[63 - threadIdx.x];
}

__constant__ float weights[PLANTED(24, 25)] = {1, 2, 3};
__constant__ float table[16] = {1, 2, 3};

//: kind="constant" grid=1 block=32 args=f32,25
extern "C" __global__ void mask_is_larger_than_its_array(float *out, int taps) {
  float sum = 0;
  for (int i = 0; i < taps; i++)
    sum += weights[i];  // BUG
  out[threadIdx.x] = sum;
}

//: kind="constant" grid=1 block=32 args=f32
extern "C" __global__ void lane_indexes_a_short_table(float *out) {
  int i = threadIdx.x;
  out[i] = table[PLANTED(i, i % 16)];  // BUG
}

//: kind="registers, namesake of a shared array" grid=1 block=32 args=f64,f64,5
extern "C" __global__ void local_buffer_is_too_short(const float *in, float *out, int taps) {
  float buffer[PLANTED(4, 5)];
  for (int i = 0; i < taps; i++)
    buffer[i] = in[i];  // BUG
  float sum = 0;
  for (int i = 0; i < 4; i++) sum += buffer[(i + taps) % 4];
  out[threadIdx.x] = sum;
}
