// 11 background: the rung's jobs without teams, with copies in the background.
//
// Idea      All warps do each job, as in the step no_teams. But two copies go on in the background: that of
//           the next image to shared memory, and that of finished maps to y (a bulk copy, from compute
//           capability 9.0 on). Nothing else overlaps within a block.
// Delta     from the step no_teams: two images and two buffers of maps. An image is copied one turn earlier,
//           and the block waits for stored maps one turn later.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1. The
//           arranged mask a [GROUPS,TURNS,STEPS,2,32] has 16 bytes per lane: halves, the high parts, then
//           the low ones. Behind it are an exponent per map, and a copy of k.
// Launch    arrange: grid (TURNS, GROUPS), block (32, STEPS). conv: any grid (blocks), each block computes
//           many images; block (32, WARPS), as many warps as the rung has in all teams. Shared memory as
//           for the rung: 8 + 16 IMAGES FOURS bytes, for two images, or one where a block can have less:
//           then no image is copied ahead; if STAGED 8 MAPS (Ho Wo + GAP) bytes of maps, too.
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
    extern __shared__ float4 images[];                      // [IMAGES][FOURS], and behind them `out`
    __shared__ int largest[2];
    float *out = (float *)(images + IMAGES * FOURS);        // [2][MAPS,STRIDE]
    const int lane = threadIdx.x, thread = 32 * threadIdx.y + lane;

    for (int i = thread; i < IMAGES * FOURS; i += THREADS)
        images[i] = make_float4(0, 0, 0, 0);                // zeros, since a weight of 0 times a NaN is a NaN
    __syncthreads();

    Weights high;
    load(high, a + lane);
    if (IMAGES == 2 && blockIdx.x < B)
        copy_image<THREADS>(images, x + (size_t)blockIdx.x * C * H * W, thread);
    for (int b = blockIdx.x, turn = 0, unit = 0; b < B; b += gridDim.x, turn ^= IMAGES - 1) {
        float4 *image = images + turn * FOURS;
        if (IMAGES == 1)
            copy_image<THREADS>(image, x + (size_t)b * C * H * W, thread);
        if (thread == 0)
            largest[turn] = 0;
        __pipeline_wait_prior(0);
        __syncthreads();                                    // complete; the other image is read no more
        if (IMAGES == 2 && b + gridDim.x < B)               // the next one, from now on
            copy_image<THREADS>(images + (turn ^ 1) * FOURS, x + (size_t)(b + gridDim.x) * C * H * W,
                                thread);
        find_largest<THREADS>(largest[turn], image, thread);
        __syncthreads();                                    // its largest pixel is known
        const int bits = largest[turn];
        split_image<THREADS>(image, bits, thread);
        __syncthreads();                                    // it is split
        #pragma unroll 1
        for (int group = 0; group < GROUPS; ++group, unit ^= 1) {
            float *maps = y + ((size_t)b * M + group * MAPS) * Ho * Wo;
            float *place = out + unit * MAPS * STRIDE;
            multiply_maps<WARPS>(STAGED ? place : maps, high, image, bits, a,
                                 x + (size_t)b * C * H * W, group);
            if (STAGED) {
                wait_for_copies<0>();                       // those before them are stored
                __syncthreads();                            // the maps are complete
                store_maps<THREADS>(maps, place, min(MAPS, M - group * MAPS), thread);
            }
        }
        if (IMAGES == 1)
            __syncthreads();                                // the image may be overwritten
    }
    wait_for_copies<0>();
}
