// 11 one: floats rounded to halves, in two teams of warps.
//
// Idea      The products of rung 10, on floats that are rounded to halves. While COMPUTE warps multiply,
//           FETCH warps copy the next image to shared memory and round it there. Named barriers keep the
//           teams in step.
// Delta     from rung 10: a product is 8 maps of 1 x 2 outputs, so that two channels can share the step with
//           their last rows: 7 of 8 terms are weights. Where there are few maps, it is 4 maps of 2 x 2
//           outputs.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1. The
//           arranged mask a [GROUPS,TURNS,STEPS,2,32] has 16 bytes per lane: halves, and as many zeros.
// Launch    arrange: grid (TURNS, GROUPS), block (32, STEPS). conv: any grid (blocks), each block computes
//           many images; block (32, COMPUTE + FETCH). Shared memory: 8 + 16 IMAGES FOURS bytes, for
//           two images, or one where a block can have less.
// Requires  K <= 7; |x|, |k| < 65504, the largest half; compute capability 8.0. Compiled once for each layer
//           and choice of sizes.

#include "tensor.cuh"
#include <cuda_pipeline_primitives.h>

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int MAPS = 8 / DOWN;                              // of a product, with 1 x 2 or 2 x 2 outputs
constexpr int WINDOW = K + DOWN - 1;                        // rows of inputs that they need
constexpr int TOGETHER = C > 1 && WINDOW % 2 ? 2 : 1;       // two channels share a step for their last rows
constexpr int STEPS = (TOGETHER * WINDOW + 1) / 2, TURNS = (C + TOGETHER - 1) / TOGETHER;
constexpr int GROUPS = (M + MAPS - 1) / MAPS;
constexpr int ACROSS = (Wo + 1) / 2, STRIPS = (Ho + DOWN * TALL - 1) / (DOWN * TALL);
constexpr int COLUMNS = STRIPS * ACROSS, EIGHTS = (COLUMNS + 7) / 8;         // of the products
constexpr int INPUTS = DOWN * (TALL - 1) + WINDOW;          // rows of inputs that a strip needs
constexpr int ROWS = DOWN * TALL * (STRIPS - 1) + INPUTS;   // that all strips need: some are beyond the image
constexpr int FOURS = ((TURNS * TOGETHER - 1) * H * W + ROWS * W + 11) / 4;  // of pixels in shared memory
constexpr int THREADS = 32 * (COMPUTE + FETCH);
constexpr bool FOUR = Wo % 4 == 0;                          // a lane's outputs are 16 aligned bytes
static_assert(1 <= K && K <= 7 && (DOWN == 1 || DOWN == 2) && 1 <= TALL);
static_assert(1 <= COMPUTE && 1 <= FETCH && THREADS <= 1024 && (IMAGES == 1 || IMAGES == 2));
constexpr int IMAGE = 1, TEAM = 3, READ = 4;                // barriers; number 0 is __syncthreads()
typedef uint4 Weights[STEPS];

// Row r < 8 of a product is the output in map r / DOWN, row r % DOWN and column 0; row r + 8 is the one
// beside it.
extern "C" __global__
void arrange(const float *x, const float *__restrict__ k, uint4 *__restrict__ a, int, int, int, int, int, int)
{
    const int lane = threadIdx.x, step = threadIdx.y, turn = blockIdx.x, group = blockIdx.y;
    const int i = lane / 4 / DOWN, m = group * MAPS + i, below = lane / 4 % DOWN;

    // The step's terms: 8 columns of row p of channel c, and of row r of channel d.
    const bool tail = step == TOGETHER * (WINDOW / 2);
    const int c = turn * TOGETHER + (tail ? 0 : step / (WINDOW / 2)), d = tail ? turn * TOGETHER + 1 : c;
    const int p = tail ? WINDOW - 1 : step % (WINDOW / 2) * 2, r = tail ? WINDOW - 1 : p + 1;
    auto weight = [&](int c, int p, int q) {
        p -= below;
        const bool inside = m < M && c < min(C, (turn + 1) * TOGETHER) && 0 <= p && p < K && 0 <= q && q < K;
        return inside ? k[((m * C + c) * K + p) * K + q] : 0;
    };
    auto pair = [&](int c, int p, int q) { return split<1>(weight(c, p, q), weight(c, p, q + 1)); };
    const int q = lane % 4 * 2;
    const float2 terms[] = {pair(c, p, q), pair(c, p, q - 1), pair(d, r, q), pair(d, r, q - 1)};
    unsigned parts[2][4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        const unsigned first = __float_as_uint(terms[j].x), second = __float_as_uint(terms[j].y);
        parts[0][j] = __byte_perm(first, second, 0x5410);
        parts[1][j] = __byte_perm(first, second, 0x7632);
    }
    #pragma unroll
    for (int part = 0; part < 2; ++part)
        a[(((group * TURNS + turn) * STEPS + step) * 2 + part) * 32 + lane] =
            make_uint4(parts[part][0], parts[part][1], parts[part][2], parts[part][3]);
}

// The weights of TOGETHER channels.
__device__ inline void load(Weights &weights, const uint4 *__restrict__ mask)
{
    #pragma unroll
    for (int step = 0; step < STEPS; ++step)
        weights[step] = mask[64 * step];
}

// The products of eight columns. Each window in which rows h - 1 and h of the inputs are the two rows of a
// step multiplies them, so that a row is loaded once.
__device__ inline void multiply(float (&sum)[TALL][4], const Weights &weights, const unsigned *window)
{
    unsigned above[TOGETHER], row[TOGETHER] = {};           // two pixels
    #pragma unroll
    for (int h = 0; h < INPUTS; ++h) {
        #pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            const unsigned *at = window + (t * H + h) * W;
            const uint2 two = W % 2 ? make_uint2(at[0], at[1]) : *(const uint2 *)at;
            above[t] = row[t];
            row[t] = __byte_perm(two.x, two.y, 0x5410);
        }
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool tail = step == TOGETHER * (WINDOW / 2);    // a last row of each channel
            const int t = tail ? 0 : step / (WINDOW / 2);
            const int last = tail ? WINDOW - 1 : step % (WINDOW / 2) * 2 + 1;    // row of the window
            const unsigned first = tail ? row[0] : above[t], second = row[tail ? TOGETHER - 1 : t];
            if (h < last || (h - last) % DOWN || (h - last) / DOWN >= TALL)
                continue;
            mma(sum[(h - last) / DOWN], weights[step], first, second);
        }
    }
}

// Which column is the first (i = 0) and the second (i = 1) of lane j, of four that have the same maps in d:
// they store 16 bytes each, or twice 8 bytes that lie side by side.
__device__ inline int column_of(int j, int i) { return FOUR ? 2 * j + i : j + 4 * i; }

// Store the lane's sums of the columns from `first` on; only `count` of the maps exist.
__device__ inline void store(float *maps, const float (&sum)[TALL][4], int first, int count)
{
    const int lane = threadIdx.x, m = lane / 4 / DOWN;
    auto result = [&](int j, int n) { return sum[j][n]; };
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int column = first + column_of(lane % 4, i), w = column % ACROSS * 2;
        const int h0 = column / ACROSS * DOWN * TALL + lane / 4 % DOWN;
        float *at = maps + (m * Ho + h0) * Wo + w;
        #pragma unroll
        for (int j = 0; j < TALL; ++j, at += DOWN * Wo) {
            if (column >= COLUMNS || m >= count || h0 + DOWN * j >= Ho)
                continue;
            const float2 two = make_float2(result(j, i), result(j, i + 2));
            const float2 next = make_float2(result(j, 1), result(j, 3));
            if (FOUR) {
                if (i == 0)
                    *(float4 *)at = make_float4(two.x, two.y, next.x, next.y);
            } else if (Wo % 2 == 0)
                *(float2 *)at = two;
            else {
                at[0] = two.x;
                if (w + 1 < Wo)
                    at[1] = two.y;
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS)
void conv(const float *__restrict__ x, const uint4 *__restrict__ a, float *__restrict__ y,
          int B, int, int, int, int, int)
{
    extern __shared__ float4 images[];                      // [IMAGES][FOURS]
    const int lane = threadIdx.x, warp = threadIdx.y;

    for (int i = 32 * warp + lane; i < IMAGES * FOURS; i += THREADS)
        images[i] = make_float4(0, 0, 0, 0);                // zeros, since a weight of 0 times a NaN is a NaN
    __syncthreads();

    if (warp < COMPUTE) {
        Weights weights;
        for (int b = blockIdx.x, turn = 0; b < B; b += gridDim.x, turn ^= IMAGES - 1) {
            barrier(IMAGE, COMPUTE + FETCH);                // this image is rounded
            #pragma unroll 1
            for (int group = 0; group < GROUPS; ++group) {
                const int m0 = group * MAPS;
                float *maps = y + ((size_t)b * M + m0) * Ho * Wo;
                for (int eight = warp; eight < EIGHTS; eight += COMPUTE) {
                    const int column = min(8 * eight + column_of(lane / 8, lane / 4 % 2), COLUMNS - 1);
                    const unsigned *window = (const unsigned *)(images + turn * FOURS)
                        + column / ACROSS * DOWN * TALL * W + (column % ACROSS + lane % 4) * 2;
                    const uint4 *mask = a + group * TURNS * STEPS * 64 + lane;
                    float sum[TALL][4] = {};
                    #pragma unroll 1
                    for (int i = 0; i < TURNS; ++i, mask += STEPS * 64, window += TOGETHER * H * W) {
                        load(weights, mask);
                        multiply(sum, weights, window);
                    }
                    store(maps, sum, 8 * eight, M - m0);
                }
            }
            if (IMAGES == 1)
                barrier(READ, COMPUTE + FETCH);             // the image may be overwritten
        }
    } else {
        const int thread = (warp - COMPUTE) * 32 + lane;
        for (int b = blockIdx.x, turn = 0; b < B; b += gridDim.x, turn ^= IMAGES - 1) {
            float4 *image = images + turn * FOURS;
            constexpr int N = C * H * W % 4 ? 1 : 4;
            #pragma unroll 4
            for (int i = N * thread; i < C * H * W; i += N * 32 * FETCH)
                __pipeline_memcpy_async((float *)image + i, x + (size_t)b * C * H * W + i, 4 * N);
            __pipeline_commit();
            __pipeline_wait_prior(0);
            barrier(TEAM, FETCH);                           // the image is complete
            #pragma unroll 4
            for (int i = thread; i < FOURS; i += 32 * FETCH) {
                const float4 v = image[i];
                const float2 left = split<1>(v.x, v.y), right = split<1>(v.z, v.w);
                image[i] = make_float4(left.x, left.y, right.x, right.y);
            }
            barrier(IMAGE, COMPUTE + FETCH);                // rounded; of two, the other is read no more
            if (IMAGES == 1)
                barrier(READ, COMPUTE + FETCH);
        }
    }
}
