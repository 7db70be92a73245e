#include <cuda_pipeline.h>
#define KERNEL extern "C" __global__ void

// Right.
KERNEL lock_in_shared_memory(int *x) {
    __shared__ int lock, sum;
    if (threadIdx.x == 0) lock = sum = 0;
    __syncthreads();
    for (bool done = false; !done;)
        if (atomicCAS(&lock, 0, 1) == 0) {
            __threadfence_block();
            sum += 1;
            __threadfence_block();
            atomicExch(&lock, 0);
            done = true;
        }
    __syncthreads();
    if (threadIdx.x == 0) x[0] = sum;
}
KERNEL flag_between_warps(int *x) {
    volatile int *flag = x + 8;
    if (threadIdx.x == 32) { x[1] = 7; __threadfence_block(); *flag = 1; }
    else if (threadIdx.x == 0) { while (*flag == 0) __nanosleep(10); __threadfence_block(); x[0] = x[1]; }
}
KERNEL volatile_word_of_two_warps(int *x) { if (threadIdx.x % 32 == 0) *(volatile int *)x = threadIdx.x; }

// Three tiles through two buffers, the next one copied in the background while this one is read.
#define TILES(WAIT, AFTER) \
    __shared__ int tile[2][64]; \
    int sum = 0; \
    __pipeline_memcpy_async(&tile[0][threadIdx.x], x + threadIdx.x, 4); \
    __pipeline_commit(); \
    for (int t = 0; t < 3; t++) { \
        if (t < 2) __pipeline_memcpy_async(&tile[(t + 1) % 2][threadIdx.x], x + threadIdx.x, 4); \
        __pipeline_commit(); \
        WAIT; \
        sum += tile[t % 2][threadIdx.x ^ 32]; \
        AFTER; \
    } \
    x[64 + threadIdx.x] = sum
KERNEL copied_ahead(int *x) { TILES(__pipeline_wait_prior(1); __syncthreads(), __syncthreads()); }
KERNEL copied_ahead_in_ptx(int *x) { TILES(asm volatile("cp.async.wait_group 1;"); __syncthreads(), __syncthreads()); }
KERNEL waits_for_all(int *x) { TILES(asm volatile("cp.async.wait_all;"); __syncthreads(), __syncthreads()); }
KERNEL each_reads_its_own_copy(int *x) {
    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], x + threadIdx.x, 4);
    __pipeline_commit();
    __pipeline_wait_prior(0);
    x[threadIdx.x] = tile[threadIdx.x];
}
KERNEL lock_released_by_a_store(int *x) {
    __shared__ int lock, sum;
    if (threadIdx.x == 0) lock = sum = 0;
    __syncthreads();
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1)) {}
        sum += threadIdx.x;
        lock = 0;
    }
    __syncthreads();
    x[threadIdx.x] = sum;
}

// Wrong.
KERNEL lock_used_before_it_is_made(int *x) {
    __shared__ int lock, sum;
    if (threadIdx.x == 0) lock = 0;
    if (threadIdx.x % 32 == 0) {
        while (atomicCAS(&lock, 0, 1)) {}
        sum = threadIdx.x;
        atomicExch(&lock, 0);
    }
    __syncthreads();
    x[threadIdx.x] = sum;
}
KERNEL flag_without_a_fence(int *x) {
    volatile int *flag = x + 8;
    if (threadIdx.x == 0) { x[1] = 7; *flag = 1; }
    if (threadIdx.x == 32) x[0] = x[1] + *flag;
}
KERNEL histogram_read_too_early(int *x) {
    __shared__ int bins[64];
    bins[threadIdx.x] = 0;
    __syncthreads();
    atomicAdd(&bins[threadIdx.x / 2], 1);
    x[threadIdx.x] = bins[63 - threadIdx.x];
}
KERNEL wait_is_missing(int *x) { TILES(__syncthreads(), __syncthreads()); }
KERNEL wait_is_one_group_short(int *x) { TILES(__pipeline_wait_prior(2); __syncthreads(), __syncthreads()); }
KERNEL wait_is_short_in_ptx(int *x) { TILES(asm volatile("cp.async.wait_group 2;"); __syncthreads(), __syncthreads()); }
KERNEL barrier_before_the_wait(int *x) { TILES(__syncthreads(); __pipeline_wait_prior(1), __syncthreads()); }
KERNEL buffer_used_too_early(int *x) { TILES(__pipeline_wait_prior(1); __syncthreads(), ); }
KERNEL never_waits_for_its_own_copy(int *x) {
    __shared__ int tile[64];
    __pipeline_memcpy_async(&tile[threadIdx.x], x + threadIdx.x, 4);
    __pipeline_commit();
    x[threadIdx.x] = tile[threadIdx.x];
}
KERNEL volatile_reduction(int *x) {
    __shared__ volatile int s[64];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 32) {
        s[threadIdx.x] += s[threadIdx.x + 32];
        s[threadIdx.x] += s[threadIdx.x + 16];
    }
}
