// P2a add together: a grid-stride loop over the pixels, and an atomic addition for each.

__global__ void histogram(const unsigned char *pixels, int n, unsigned *bins)
{
#ifdef SKELETON
    // bins[v] is the number of pixels that are v; all 256 bins are 0 before the launch

#else
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[pixels[i]], 1);
#endif
}
