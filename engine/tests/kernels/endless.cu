// Loops that never end, and some that end after seconds.
extern "C" {
__global__ void nobody_writes(volatile int *flag) { while (*flag == 0); }
__global__ void all_blocks_meet(int *count)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(count, 1);
        while (atomicAdd(count, 0) < gridDim.x);
    }
    __syncthreads();
}
__global__ void never_released(int *lock) { while (atomicCAS(lock, 1, 2) != 1); }
__global__ void forgets_its_step(int *x)
{
    for (int i = 0; i < 10;) atomicAdd(x, 0);
}
// They end, after some seconds in which their threads look much alike.
__global__ void counts_slowly(int *count)
{
    if (threadIdx.x == 0)
        while (atomicAdd(count, 1) < 700000000);
}
__global__ void counts_in_a_register(volatile int *flag)
{
    for (unsigned i = 0; i < 4000000000u && *flag == 0; ++i);
}
}
