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
extern "C" __global__ void two_threads_per_slot(const float *in, float *out) {
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

//: kind="missing syncwarp" grid=1 block=32 args=f32,f32
extern "C" __global__ void warp_takes_itself_to_be_in_step(const float *in, float *out) {
  __shared__ float tile[32];
  int i = threadIdx.x;
  tile[i] = in[i];  // BUG
  PLANTED(, __syncwarp());
  out[i] = tile[31 - i];  // BUG
}

//: kind="missing syncwarp" grid=1 block=64 args=f64,f2
extern "C" __global__ void warp_tree(const float *in, float *out) {
  __shared__ float sums[64];
  int lane = threadIdx.x % 32;
  float *sum = sums + threadIdx.x - lane;
  sum[lane] = in[threadIdx.x];  // BUG
  for (int half = 16; half > 0; half /= 2) {
    PLANTED(, __syncwarp());
    if (lane < half)
      sum[lane] += sum[lane + half];  // BUG
  }
  if (lane == 0) out[threadIdx.x / 32] = sum[0];
}

//: kind="between blocks" grid=4 block=32 args=i128,i8
extern "C" __global__ void blocks_add_up_their_bins(const int *in, int *bins) {
  __shared__ int mine[8];
  int i = threadIdx.x;
  if (i < 8) mine[i] = 0;
  __syncthreads();
  atomicAdd(&mine[in[blockIdx.x * 32 + i] % 8], 1);
  __syncthreads();
  if (i < 8)
    PLANTED(bins[i] += mine[i], atomicAdd(&bins[i], mine[i]));  // BUG
}

__device__ unsigned arrived;
__device__ int lock;

//: kind="between blocks" grid=4 block=32 args=f128,f4,f1
extern "C" __global__ void last_block_sums_without_fence(const float *in, float *part, float *out) {
  if (threadIdx.x) return;
  float sum = 0;
  for (int i = 0; i < 32; i++) sum += in[blockIdx.x * 32 + i];
  part[blockIdx.x] = sum;  // BUG
  PLANTED(, __threadfence());
  if (atomicInc(&arrived, gridDim.x - 1) < gridDim.x - 1) return;
  sum = 0;
  for (int b = 0; b < gridDim.x; b++)
    sum += part[b];  // BUG
  out[0] = sum;
}

//: kind="between blocks" grid=4 block=32 args=f128,f4,f1
extern "C" __global__ void first_block_sums_without_waiting(const float *in, float *part, float *out) {
  if (threadIdx.x) return;
  float sum = 0;
  for (int i = 0; i < 32; i++) sum += in[blockIdx.x * 32 + i];
  part[blockIdx.x] = sum;  // BUG
  __threadfence();
  if (PLANTED(blockIdx.x > 0, atomicInc(&arrived, gridDim.x - 1) < gridDim.x - 1)) return;
  sum = 0;
  for (int b = 0; b < gridDim.x; b++)
    sum += part[b];  // BUG
  out[0] = sum;
}

//: kind="between blocks" grid=4 block=32 args=f128,f1,f128
extern "C" __global__ void share_of_an_unfinished_total(const float *in, float *total, float *out) {
  int i = blockIdx.x * 32 + threadIdx.x;
  atomicAdd(total, in[i]);  // BUG
  __threadfence();
  __syncthreads();
  __shared__ bool last;
  if (threadIdx.x == 0) last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
  __syncthreads();
  if (PLANTED(true || last, last))
    for (int b = PLANTED(blockIdx.x, 0); b <= PLANTED(blockIdx.x, 3); b++)
      out[b * 32 + threadIdx.x] = in[b * 32 + threadIdx.x] / total[0];  // BUG
}

//: kind="between blocks" grid=4 block=32 args=f128,f1
extern "C" __global__ void block_zero_clears_the_sum(const float *in, float *sum) {
  if (PLANTED(blockIdx.x == 0, false) && threadIdx.x == 0)
    sum[0] = 0;  // BUG
  __syncthreads();
  atomicAdd(sum, in[blockIdx.x * 32 + threadIdx.x]);  // BUG
}

//: kind="between blocks" grid=4 block=34 args=f130,f130
extern "C" __global__ void halo_written_by_both(const float *in, float *out) {
  int t = threadIdx.x, i = blockIdx.x * 32 + t;
  if (PLANTED(true, t < 32 || blockIdx.x == 3))
    out[i] = in[i] * (t + 1);  // BUG
}

//: kind="between blocks" grid=4 block=32 args=f130,f130
extern "C" __global__ void stencil_in_place(float *x, float *y) {
  int i = blockIdx.x * 32 + threadIdx.x + 1;
  float v = x[i - 1] + x[i] + x[i + 1];  // BUG
  __syncthreads();
  PLANTED(x, y)[i] = v;  // BUG
}

//: kind="between blocks" grid=4 block=32 args=f128,f1
extern "C" __global__ void lock_without_fences(const float *in, float *sum) {
  if (threadIdx.x) return;
  while (atomicCAS(&lock, 0, 1)) {}
  PLANTED(, __threadfence());
  sum[0] += in[blockIdx.x];  // BUG
  PLANTED(, __threadfence());
  atomicExch(&lock, 0);
}

//: kind="hidden by an update" grid=1 block=64 args=f64,i64
extern "C" __global__ void counter_cleared_by_the_first(const float *in, int *out) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;  // BUG
  PLANTED(, __syncthreads());
  atomicAdd(&count, in[threadIdx.x] > 30);  // BUG
  __syncthreads();
  out[threadIdx.x] = count;
}

//: kind="hidden by an update" grid=1 block=64 args=f64,i64
extern "C" __global__ void counter_cleared_by_the_last(const float *in, int *out) {
  __shared__ int count[2];
  if (threadIdx.x == 63) *(int2 *)count = make_int2(0, 0);  // BUG
  PLANTED(, __syncthreads());
  if (threadIdx.x > 40) atomicAdd(&count[1], in[threadIdx.x] > 30);  // BUG
  __syncthreads();
  out[threadIdx.x] = count[1];
}

//: kind="hidden by an update" grid=1 block=64 args=i64,i64
extern "C" __global__ void own_bin_cleared(const int *in, int *out) {
  __shared__ int bins[64];
  bins[threadIdx.x] = 0;  // BUG
  PLANTED(, __syncthreads());
  atomicAdd(&bins[threadIdx.x], 1);  // BUG
  atomicAdd(&bins[in[threadIdx.x] % 8], 1);  // BUG
  __syncthreads();
  out[threadIdx.x] = bins[threadIdx.x];
}

//: kind="hidden by an update" grid=1 block=64 args=f64,f64
extern "C" __global__ void sum_read_by_the_last(const float *in, float *out) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[threadIdx.x]);  // BUG
  PLANTED(, __syncthreads());
  if (threadIdx.x == 63) out[0] = sum;  // BUG
}

//: kind="hidden by an update" grid=1 block=64 args=f64,f64
extern "C" __global__ void sums_of_warps_read_by_one(const float *in, float *out) {
  __shared__ float sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, in[threadIdx.x]);  // BUG
  PLANTED(__syncwarp(), __syncthreads());
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = sum;  // BUG
}

//: kind="hidden by an update" grid=1 block=64 args=i64
extern "C" __global__ void global_counter_cleared(int *count) {
  if (threadIdx.x == 0) *count = 0;  // BUG
  PLANTED(, __syncthreads());
  atomicAdd(count, 1);  // BUG
}

//: kind="hidden by an update" grid=1 block=64 args=i64
extern "C" __global__ void global_sum_read_by_the_last(int *sum) {
  atomicAdd(sum, 2);  // BUG
  PLANTED(, __syncthreads());
  if (threadIdx.x == 63) sum[1] = sum[0];  // BUG
}

//: kind="hidden by an own access" grid=1 block=64 args=f64
extern "C" __global__ void added_in_place(float *x) {
  int i = threadIdx.x;
  float right = i < 63 ? x[i + 1] : 0;  // BUG
  PLANTED(, __syncthreads());
  x[i] = x[i] + right;  // BUG
}

//: kind="write-write" grid=1 block=64 args=f64,f64
extern "C" __global__ void all_clear_and_add(const float *in, float *out) {
  __shared__ float sum;
  PLANTED(sum = 0, if (threadIdx.x == 0) sum = 0);  // BUG
  PLANTED(, __syncthreads());
  PLANTED(sum = sum + in[threadIdx.x] + 1, atomicAdd(&sum, in[threadIdx.x] + 1));  // BUG
  __syncthreads();
  out[threadIdx.x] = sum;
}

//: kind="single bytes" grid=1 block=64 args=i17
extern "C" __global__ void letters_move_left(char *text) {
  int i = threadIdx.x;
  char next = text[i + 1];  // BUG
  PLANTED(, __syncthreads());
  text[i] = next;  // BUG
}

//: kind="single bytes" grid=2 block=32 args=i16,i17
extern "C" __global__ void bytes_between_blocks(const char *in, char *out) {
  int i = blockIdx.x * 32 + threadIdx.x;
  out[i] = in[i] + 1;  // BUG
  if (PLANTED(threadIdx.x == 31, false)) out[i + 1] = 99;  // BUG
}

//: kind="volatile update" grid=2 block=40 args=i64,i1
extern "C" __global__ void volatile_counter(const int *in, volatile int *count) {
  if (in[threadIdx.x] % 3 == 0)
    PLANTED(*count = *count + 1, atomicAdd((int *)count, 1));  // BUG
}

//: kind="claimed by an atomic" grid=1 block=64 args=i64,i65
extern "C" __global__ void queue_of_the_claimed(int *owner, int *queue) {
  int i = threadIdx.x;
  if (atomicCAS(&owner[i], i, -1) == i)
    queue[1 + PLANTED(queue[0]++, i)] = i;  // BUG
}
