#ifdef SKELETON
// Clamp: y[i] is x[i], but not below -1 and not above 1, for any n and any number of blocks.
//
// Here the first thread does all the work. Share it: neighbouring threads load neighbouring numbers.
// Goal, for 4,096 numbers in 8 blocks of 128 threads: 4 sectors per load, at most 128 load requests,
// at most 16 memory instructions per warp.

#else
// Clamp with a grid-stride loop: with T threads, thread t takes the numbers t, t + T, t + 2T and so on.

#endif
__global__ void clamp(const float *x, float *y, int n)
{
#ifdef SKELETON
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    for (int i = 0; i < n; ++i)
#else
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
#endif
        y[i] = fminf(fmaxf(x[i], -1.0f), 1.0f);
}
