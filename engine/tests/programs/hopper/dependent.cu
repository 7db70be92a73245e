// A chain of programmatic launches: each kernel lets the next one begin at once, and each waits before it uses earlier results.
//
// BUG  1: the second kernel does not wait     2: the third kernel does not wait, and overwrites what the second one reads
//      3: the second kernel waits too late    4: the second kernel neither waits nor uses anything, the third one relies on the first
//      5: no mistake: one thread of a block waits, then the block meets     6: no mistake: no launch is programmatic, none waits
#include "instructions.h"

const int THREADS = 96, BLOCKS = 4, N = THREADS * BLOCKS, ROUNDS = 3;

__device__ void let_next_begin() { asm volatile("griddepcontrol.launch_dependents;"); }
__device__ void wait_for_last() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

__global__ void fill(int *x, int round)
{
    let_next_begin();
    if (BUG != 6)
        wait_for_last();
    const int i = blockIdx.x * THREADS + threadIdx.x;
    x[i] = i * 7 % 101 + round;
}

__global__ void mirror(const int *x, int *y)
{
    const int i = blockIdx.x * THREADS + threadIdx.x;
    let_next_begin();
    const int early = BUG == 3 ? x[N - 1 - i] : 0;
    if (BUG == 5) {
        if (threadIdx.x == 5)
            cudaGridDependencySynchronize();
        __syncthreads();
    } else if (BUG != 1 && BUG != 4 && BUG != 6) {
        wait_for_last();
    }
    y[i] = BUG == 4 ? i : BUG == 3 ? early : x[N - 1 - i];
}

__global__ void add_up(int *x, const int *y, int *sums)
{
    if (BUG != 2 && BUG != 6)
        wait_for_last();
    cudaTriggerProgrammaticLaunchCompletion();
    const int i = blockIdx.x * THREADS + threadIdx.x;
    sums[i] += x[i] - y[i];
    x[i] = 0;
}

int main()
{
    std::vector<int> expected(N);
    for (int i = 0; i < N; i++)
        for (int round = 0; round < ROUNDS; round++)
            expected[i] += i * 7 % 101 + round - (BUG == 4 ? i : (N - 1 - i) * 7 % 101 + round);
    int *x = put(std::vector<int>(N)), *y = put(std::vector<int>(N)), *sums = put(std::vector<int>(N));
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = BLOCKS;
    config.blockDim = THREADS;
    config.attrs = &attribute;
    config.numAttrs = BUG != 6;
    for (int round = 0; round < ROUNDS; round++) {
        cudaLaunchKernelEx(&config, fill, x, round);
        cudaLaunchKernelEx(&config, mirror, (const int *)x, y);
        cudaLaunchKernelEx(&config, add_up, x, (const int *)y, sums);
    }
    return compare(sums, expected);
}
