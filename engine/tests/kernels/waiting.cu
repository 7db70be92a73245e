// Loops in which a thread waits for a word of memory that another thread writes.
extern "C" {
__global__ void one_waits(volatile int *flag, int *x)
{
    if (threadIdx.x == 0) {
        while (*flag == 0);
        x[0] = 7;
    } else if (threadIdx.x == blockDim.x - 1) {
        __threadfence();
        *flag = 1;
    }
}
// Each waits for the next one. What its registers hold must be there afterwards.
__global__ void all_wait(float *x)
{
    __shared__ volatile int turn;
    const int t = threadIdx.x, last = blockDim.x - 1;
    if (t == 0) turn = last;
    float a = t, b = 1 + t, c = 2 * t, d = t * t;
    long n = 0;
    __syncthreads();
    while (turn != t) n++;
    x[t] = a + b + c + d + (n < 0);
    turn = t - 1;
    __syncthreads();
    x[t] += turn;
}
// They count, so that no state comes again.
__global__ void with_a_counter(volatile int *flag, int *x)
{
    if (threadIdx.x == 0) {
        unsigned n = 0;
        while (*flag == 0) ++n;
        x[0] = n;
    } else {
        *flag = 1;
    }
}
__global__ void back_and_forth(volatile int *ball, int rounds, int *x)
{
    const int t = threadIdx.x;
    for (int i = 0; i < rounds; ++i) {
        while (*ball != t);
        x[t] += i;
        *ball = 1 - t;
    }
}
__global__ void between_barriers(int rounds, int *x)
{
    __shared__ volatile int flag;
    for (int i = 0; i < rounds; ++i) {
        if (threadIdx.x == 0) flag = 0;
        __syncthreads();
        if (threadIdx.x == i % blockDim.x) flag = 1;
        else while (flag == 0);
        atomicAdd(x, 1);
        __syncthreads();
    }
}
__global__ void in_a_warp(int *x)
{
    __shared__ volatile int flag;
    if (threadIdx.x == 0) flag = 0;
    __syncwarp();
    if (threadIdx.x == 31) flag = 1;
    while (flag == 0);
    x[threadIdx.x] = __shfl_xor_sync(~0u, (int)threadIdx.x, 1);
}
}
