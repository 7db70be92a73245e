struct Pair { int first, zeros[6], second; };
__device__ int bins[8], guard[8];
__device__ int filled[6] = {1, 0, 0, 0, 5, 6};
__constant__ Pair pairs[2] = {{1, {0}, 2}, {3, {0}, 4}};
namespace ours { __device__ float inner[3]; }
template <int n> __device__ int sized[n];
extern "C" __global__ void past_bins(int *o) {
    atomicAdd(&bins[threadIdx.x], 1);
}
extern "C" __global__ void before_guard(int *o) {
    guard[(int)threadIdx.x - 1] = 1;
}
extern "C" __global__ void past_filled(int *o) {
    filled[threadIdx.x] = 1;
}
extern "C" __global__ void past_inner(int *o) {
    ours::inner[threadIdx.x] = 1;
}
extern "C" __global__ void past_sized(int *o) {
    sized<5>[threadIdx.x] = 1;
}
extern "C" __global__ void past_static(int *o) {
    static int local[4];
    local[threadIdx.x] = o[threadIdx.x];
    o[threadIdx.x] = local[threadIdx.x & 3];
}
extern "C" __global__ void far_away(int *o) {
    o[1000000000 + threadIdx.x] = 1;
}
extern "C" __global__ void all_within(int *o) {
    int i = threadIdx.x;
    if (i < 3) bins[i] = guard[i] + sized<5>[i] + (int)ours::inner[i];
    if (i < 4) filled[i] += bins[0] * 0;
    __syncthreads();
    if (i == 0)
        for (int k = 0; k < 2; k++) {
            o[8 * k] = pairs[k].first;
            for (int j = 0; j < 6; j++) o[8 * k + 1 + j] = pairs[k].zeros[j];
            o[8 * k + 7] = pairs[k].second;
        }
}
extern "C" __global__ void heap(int *o) {
    int *block = (int *)malloc(64), *more = new int[4];
    for (int i = 0; i < 16; i++) block[i] = more[i & 3] = i + threadIdx.x;
    o[threadIdx.x] = block[5] + more[1];
    free(block);
    delete[] more;
    delete new int(3);
}
__device__ int *kept;
extern "C" __global__ void keeps(int *o) {
    if (threadIdx.x == 0) kept = (int *)malloc(64);
    __syncthreads();
    if (threadIdx.x < 16) kept[threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void takes_up(int *o) {
    if (threadIdx.x < 16) o[threadIdx.x] = kept[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(kept);
}
extern "C" __global__ void past_block(int *o) {
    volatile int *block = (volatile int *)malloc(64);
    block[threadIdx.x] = 1;
    free((void *)block);
}
extern "C" __global__ void unset_block(int *o) {
    volatile int *block = (volatile int *)malloc(64);
    o[threadIdx.x] = block[3];
    free((void *)block);
}
extern "C" __global__ void freed_block(int *o) {
    volatile int *block = (volatile int *)malloc(64);
    block[3] = 1;
    free((void *)block);
    block[3] = 2;
}
extern "C" __global__ void frees_twice(int *o) {
    volatile int *block = (volatile int *)malloc(64);
    block[0] = 1;
    free((void *)block);
    free((void *)block);
}
