// Memory that is read before anybody has written it.
#include "planted.h"

//: kind="shared, unset" grid=1 block=32 args=f64,f64
extern "C" __global__ void halo_never_loaded(const float *in, float *out) {
  __shared__ float tile[33];
  int i = threadIdx.x;
  tile[i] = in[i];
  if (PLANTED(false, i == 0)) tile[32] = 0;
  __syncthreads();
  out[i] = tile[i] + tile[i + 1];  // BUG
}

//: kind="shared, unset" grid=1 block=64 args=i64,f64
extern "C" __global__ void bins_not_cleared(const int *in, float *out) {
  __shared__ int bins[8];
  if (threadIdx.x < 8) PLANTED((void)0, bins[threadIdx.x] = 0);
  __syncthreads();
  atomicAdd(&bins[in[threadIdx.x] % 8], 1);  // BUG
  __syncthreads();
  if (threadIdx.x < 8) out[threadIdx.x] = bins[threadIdx.x];  // BUG
}

//: kind="shared, unset" grid=1 block=32 shared=128 args=f32,f32
extern "C" __global__ void guard_leaves_a_hole(const float *in, float *out) {
  extern __shared__ float buffer[];
  int i = threadIdx.x;
  if (i < PLANTED(30, 32)) buffer[i] = in[i];
  __syncthreads();
  out[i] = buffer[31 - i];  // BUG
}

//: kind="global, unset" grid=1 block=32 args=f32,u32
extern "C" __global__ void adds_to_what_was_never_set(const float *in, float *out) {
  int i = threadIdx.x;
  PLANTED(, out[i] = 0);
  out[i] += in[i];  // BUG
}

//: kind="global, unset" grid=1 block=32 args=u32,f32,f32
extern "C" __global__ void input_never_copied(const float *scratch, const float *in, float *out) {
  const float *from = PLANTED(scratch, in);
  out[threadIdx.x] = from[threadIdx.x];  // BUG
}

//: kind="global, unset" grid=1 block=64 args=u64,f64
extern "C" __global__ void last_row_not_written(float *scratch, float *out) {
  int i = threadIdx.x;
  if (i < PLANTED(60, 64)) scratch[i] = i;
  __syncthreads();
  out[i] = scratch[63 - i];  // BUG
}

//: kind="unset by the launch before" grid=1 block=64 launches=2 args=n,f64,u64,f64
extern "C" __global__ void second_pass_reads_more(int pass, const float *in, float *scratch, float *out) {
  int i = threadIdx.x;
  if (pass == 0 && i < PLANTED(60, 64)) scratch[i] = in[i];
  if (pass == 1)
    out[i] = scratch[i];  // BUG
}

//: kind="unset by the launch before" grid=2 block=32 launches=2 args=n,f64,u64,f64
extern "C" __global__ void passes_in_the_wrong_order(int pass, const float *in, float *scratch, float *out) {
  int i = blockIdx.x * 32 + threadIdx.x;
  if (pass == PLANTED(1, 0)) scratch[i] = in[i];
  else
    out[i] = scratch[63 - i];  // BUG
}

struct Tagged { float w[3]; unsigned char tag; };
struct Wide { double value; int count; };

//: kind="struct, a member unset" grid=1 block=64 args=f64
extern "C" __global__ void only_the_tag(float *out) {
  __shared__ Tagged cells[64];
  int i = threadIdx.x;
  cells[i].tag = i;
  for (int k = 0; k < PLANTED(2, 3); k++) cells[i].w[k] = k;
  __syncthreads();
  Tagged other = cells[63 - i];  // BUG
  out[i] = other.w[1] + other.tag;
}

//: kind="struct, a member unset" grid=1 block=32 args=u128,u128,f64
extern "C" __global__ void count_without_a_value(Wide *from, Wide *to, float *out) {
  int i = threadIdx.x;
  from[i].count = i;
  PLANTED(, from[i].value = i);
  to[i] = from[i];  // BUG
  out[i] = to[i].count;
}
