// 11 teams: the rung, with its jobs as functions.
//
// Idea      Each job of an image has a team of warps: FETCH warps copy and split the next image while COMPUTE
//           warps multiply this one and STORE warps copy finished maps to y.
// Delta     from the rung: none but that the jobs are functions (split_floats.cuh), so that conv shows only
//           which team does which job, and where two teams meet. The steps no_teams and background do the
//           same jobs without teams.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1. The
//           arranged mask a [GROUPS,TURNS,STEPS,2,32] has 16 bytes per lane: halves, the high parts, then
//           the low ones. Behind it are an exponent per map, and a copy of k.
// Launch    as the rung: arrange: grid (TURNS, GROUPS), block (32, STEPS). conv: any grid (blocks), each
//           block computes many images; block (32, COMPUTE + FETCH + STORE). Shared memory: 8 + 16 IMAGES
//           FOURS bytes, for two images, or one where a block can have less; with STORE warps
//           8 MAPS (Ho Wo + GAP) bytes of maps, too.
// Requires  as the rung: K <= 7; compute capability 8.0. Compiled once for each layer and choice of sizes.

#include "split_floats.cuh"

constexpr int THREADS = 32 * (COMPUTE + FETCH + STORE);
constexpr int IMAGE = 1, OUTPUT = 2, TEAM = 3, READ = 4;    // barriers; number 0 is __syncthreads()
static_assert(1 <= COMPUTE && 1 <= FETCH && THREADS <= 1024 && STAGED == (STORE > 0));

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
    const int lane = threadIdx.x, warp = threadIdx.y;

    for (int i = 32 * warp + lane; i < IMAGES * FOURS; i += THREADS)
        images[i] = make_float4(0, 0, 0, 0);                // zeros, since a weight of 0 times a NaN is a NaN
    __syncthreads();

    if (warp < COMPUTE) {
        Weights high;
        load(high, a + lane);
        for (int b = blockIdx.x, turn = 0, unit = 0; b < B; b += gridDim.x, turn ^= IMAGES - 1) {
            barrier(IMAGE, COMPUTE + FETCH);                // this image is split
            const int bits = largest[turn];
            #pragma unroll 1
            for (int group = 0; group < GROUPS; ++group, unit ^= 1) {
                float *maps = y + ((size_t)b * M + group * MAPS) * Ho * Wo;
                float *place = out + unit * MAPS * STRIDE;
                multiply_maps<COMPUTE>(STAGED ? place : maps, high, images + turn * FOURS, bits, a,
                                       x + (size_t)b * C * H * W, group);
                if (STAGED)
                    barrier(OUTPUT, COMPUTE + STORE);       // complete; those before them are stored
            }
            if (IMAGES == 1)
                barrier(READ, COMPUTE + FETCH);             // the image may be overwritten
        }
    } else if (warp < COMPUTE + FETCH) {
        const int thread = 32 * (warp - COMPUTE) + lane;
        for (int b = blockIdx.x, turn = 0; b < B; b += gridDim.x, turn ^= IMAGES - 1) {
            float4 *image = images + turn * FOURS;
            copy_image<32 * FETCH>(image, x + (size_t)b * C * H * W, thread);
            if (thread == 0)
                largest[turn] = 0;
            __pipeline_wait_prior(0);
            barrier(TEAM, FETCH);                           // the image is complete
            find_largest<32 * FETCH>(largest[turn], image, thread);
            barrier(TEAM, FETCH);                           // its largest pixel is known
            split_image<32 * FETCH>(image, largest[turn], thread);
            barrier(IMAGE, COMPUTE + FETCH);                // it is split; of two, the other is read no more
            if (IMAGES == 1)
                barrier(READ, COMPUTE + FETCH);
        }
    } else if (STAGED) {
        const int thread = 32 * (warp - COMPUTE - FETCH) + lane;
        for (int b = blockIdx.x, unit = 0; b < B; b += gridDim.x)
            for (int m0 = 0; m0 < M; m0 += MAPS, unit ^= 1) {
                barrier(OUTPUT, COMPUTE + STORE);
                store_maps<32 * STORE>(y + ((size_t)b * M + m0) * Ho * Wo, out + unit * MAPS * STRIDE,
                                       min(MAPS, M - m0), thread);
                wait_for_copies<0>();
            }
    }
}
