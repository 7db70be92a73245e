// Pointers that point nowhere, no more, or askew.
#include "planted.h"

//: kind="freed" grid=1 block=32 args=x32,f32,f32
extern "C" __global__ void reads_freed_memory(const float *freed, const float *live, float *out) {
  const float *in = PLANTED(freed, live);
  out[threadIdx.x] = in[threadIdx.x];  // BUG
}

//: kind="freed" grid=1 block=32 args=x32,f32,f32
extern "C" __global__ void writes_freed_memory(float *freed, float *live, const float *in) {
  float *out = PLANTED(freed, live);
  out[threadIdx.x] = in[threadIdx.x];  // BUG
}

//: kind="null" grid=1 block=32 args=null,f32
extern "C" __global__ void reads_null(const float *none, float *out) {
  float bias = 0;
  if (PLANTED(true, none != nullptr))
    bias = none[threadIdx.x];  // BUG
  out[threadIdx.x] = bias;
}

//: kind="null" grid=1 block=32 args=null,f32
extern "C" __global__ void writes_null(float *none, float *out) {
  out[threadIdx.x] = 1;
  if (PLANTED(threadIdx.x == 0, none != nullptr))
    none[0] = 1;  // BUG
}

//: kind="misaligned" grid=1 block=16 args=f100,f100
extern "C" __global__ void float4_from_one_float_on(const float *in, float *out) {
  const float4 *from = (const float4 *)(in + PLANTED(1, 4));
  float4 v = from[threadIdx.x];  // BUG
  out[threadIdx.x] = v.x + v.y + v.z + v.w;
}

//: kind="misaligned" grid=1 block=7 args=f70,f70,7
extern "C" __global__ void float2_rows_of_odd_width(const float *in, float *out, int w) {
  int row = threadIdx.x;
  const float *first = in + row * PLANTED(w, (w + 1));
  float2 v = *(const float2 *)first;  // BUG
  out[row] = v.x + v.y;
}

//: kind="misaligned" grid=1 block=8 args=f32,f32
extern "C" __global__ void int_out_of_bytes(const char *in, int *out) {
  const char *from = in + PLANTED(3, 4) * threadIdx.x;
  out[threadIdx.x] = *(const int *)from;  // BUG
}

//: kind="another thread's variable" grid=1 block=64 args=f64,f64
extern "C" __global__ void variable_of_thread_zero(const float *in, float *out) {
  __shared__ float *first, value;
  float x = in[threadIdx.x];
  if (threadIdx.x == 0) {
    first = &x;
    value = x;
  }
  __syncthreads();
  out[threadIdx.x] = PLANTED(*first, value);  // BUG
}
