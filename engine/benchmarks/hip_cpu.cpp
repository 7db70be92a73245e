// A kernel file of the lab for HIP-CPU, with a function for each of its kernels that launches it and waits.
//
// Compiled with KERNELS, the file's name in quotes, and LAUNCHERS, LAUNCHER(name) for each kernel.
#include <hip/hip_runtime.h>
#include KERNELS

#define LAUNCHER(kernel)                                                                                              \
    extern "C" void launch_##kernel(const unsigned *grid, const unsigned *block, float *x, float *k, float *y, int B, \
                                    int C, int H, int W, int M, int K)                                                \
    {                                                                                                                 \
        hipLaunchKernelGGL(kernel, dim3(grid[0], grid[1], grid[2]), dim3(block[0], block[1], block[2]), 0, nullptr,   \
                           x, k, y, B, C, H, W, M, K);                                                                \
        hipDeviceSynchronize();                                                                                       \
    }
LAUNCHERS
