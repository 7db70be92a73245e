// 11 no teams: the rung's jobs, one after the other.
//
// Idea      All warps copy an image, then all split it, then all multiply it with the weights of some maps,
//           then all store these maps. Nothing overlaps within a block. It shows what teams gain.
// Delta     from the step teams: one loop in place of three, __syncthreads() between the jobs, and each job
//           is that of all warps. So one image and one buffer of maps are enough.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1. The
//           arranged mask a [GROUPS,TURNS,STEPS,2,32] has 16 bytes per lane: halves, the high parts, then
//           the low ones. Behind it are an exponent per map, and a copy of k.
// Launch    arrange: grid (TURNS, GROUPS), block (32, STEPS). conv: any grid (blocks), each block computes
//           many images; block (32, WARPS), as many warps as the rung has in all teams. Shared memory:
//           8 + 16 FOURS bytes, for an image; if STAGED 4 MAPS (Ho Wo + GAP) bytes of maps, too. So two
//           blocks of 8 warps fit into a multiprocessor of an H200.
// Requires  as the rung: K <= 7; compute capability 8.0. Compiled once for each layer and choice of sizes.

#include "split_floats.cuh"

constexpr int THREADS = 32 * WARPS;
static_assert(1 <= WARPS && THREADS <= 1024);

extern "C" __global__
void arrange(const float *x, const float *__restrict__ k, uint4 *__restrict__ a, int, int, int, int, int, int)
{
    arrange_weights(k, a);
}

extern "C" __global__ __launch_bounds__(THREADS)
void conv(const float *__restrict__ x, const uint4 *__restrict__ a, float *__restrict__ y,
          int B, int, int, int, int, int)
{
    extern __shared__ float4 image[];                       // [FOURS], and behind it `out`
    __shared__ int largest;
    float *out = (float *)(image + FOURS);                  // [MAPS,STRIDE]
    const int lane = threadIdx.x, thread = 32 * threadIdx.y + lane;

    for (int i = thread; i < FOURS; i += THREADS)
        image[i] = make_float4(0, 0, 0, 0);                 // zeros, since a weight of 0 times a NaN is a NaN
    __syncthreads();

    Weights high;
    load(high, a + lane);
    for (int b = blockIdx.x; b < B; b += gridDim.x) {
        copy_image<THREADS>(image, x + (size_t)b * C * H * W, thread);
        if (thread == 0)
            largest = 0;
        __pipeline_wait_prior(0);
        __syncthreads();                                    // the image is complete
        find_largest<THREADS>(largest, image, thread);
        __syncthreads();                                    // its largest pixel is known
        const int bits = largest;
        split_image<THREADS>(image, bits, thread);
        __syncthreads();                                    // it is split
        #pragma unroll 1
        for (int group = 0; group < GROUPS; ++group) {
            float *maps = y + ((size_t)b * M + group * MAPS) * Ho * Wo;
            multiply_maps<WARPS>(STAGED ? out : maps, high, image, bits, a,
                                 x + (size_t)b * C * H * W, group);
            __syncthreads();                                // the maps are complete, the image is free
            if (STAGED) {
                store_maps<THREADS>(maps, out, min(MAPS, M - group * MAPS), thread);
                wait_for_copies<0>();
                __syncthreads();                            // they may be overwritten
            }
        }
    }
}
