// 11d who meets whom: three teams of warps, two buffers between each two of them, and one barrier that hands over both.
//
// y[b][i] is the sum of a[j] x[b][i + j] for j from 0 to 6. x [B][134], a [7], y [B][128], all float32. Launch: blocks of
// (32, 7) threads, each block with every gridDim.x-th row.

constexpr int COMPUTE = 4, FETCH = 2, STORE = 1, K = 7, WIDTH = 128;
constexpr int IMAGE = 1, OUTPUT = 2;                        // numbers of barriers

// Wait at barrier n until `warps` warps are there.
__device__ void barrier(int n, int warps)
{
    asm volatile("bar.sync %0, %1;" :: "r"(n), "r"(32 * warps) : "memory");
}

extern "C" __global__ void filter(const float *x, const float *a, float *y, int B)
{
    __shared__ float images[2][WIDTH + K - 1];
    __shared__ float4 out[2][WIDTH / 4];
    const int lane = threadIdx.x, warp = threadIdx.y;

    if (warp < COMPUTE) {
        const int i = 32 * warp + lane;
        float weights[K];
        for (int j = 0; j < K; ++j)
            weights[j] = a[j];
        for (int b = blockIdx.x, turn = 0; b < B; b += gridDim.x, turn ^= 1) {
#ifdef SKELETON
#else
            barrier(IMAGE, COMPUTE + FETCH);                // this image is there; the other is no longer read
#endif
            float sum = 0;
            for (int j = 0; j < K; ++j)
                sum += weights[j] * images[turn][i + j];
            ((float *)out[turn])[i] = sum;
#ifdef SKELETON
#else
            barrier(OUTPUT, COMPUTE + STORE);               // these sums are complete; those before are stored
#endif
        }
    } else if (warp < COMPUTE + FETCH) {
        const int thread = 32 * (warp - COMPUTE) + lane;
        for (int b = blockIdx.x, turn = 0; b < B; b += gridDim.x, turn ^= 1) {
            for (int i = thread; i < WIDTH + K - 1; i += 32 * FETCH)
                images[turn][i] = x[b * (WIDTH + K - 1) + i];
#ifdef SKELETON
#else
            barrier(IMAGE, COMPUTE + FETCH);
#endif
        }
    } else {
        for (int b = blockIdx.x, turn = 0; b < B; b += gridDim.x, turn ^= 1) {
#ifdef SKELETON
#else
            barrier(OUTPUT, COMPUTE + STORE);
#endif
            ((float4 *)(y + b * WIDTH))[lane] = out[turn][lane];
        }
    }
}
