// 10 square: a product is eight squares of outputs in four maps.
//
// Idea      mma.sync multiplies 16 rows of 16 terms by 8 columns, and defines which terms a lane holds: two
//           neighbours per register. Neighbouring terms of a convolution are neighbouring inputs. A column
//           of the product is a square of 2 x 2 outputs, whose window of 8 x 8 inputs begins at an even
//           column: two of its rows are 16 terms. The 16 rows of the product are the square's outputs in
//           four maps. Each sees the mask moved by its row and column, and zeros around it.
// Delta     from 09: a new program. mma.sync in place of WMMA, and no im2col. A kernel of its own arranges
//           the mask, once, as the lanes hold it.
// Saves     the tile of u in shared memory, and every barrier. Per product there are 4 loads of inputs, 2
//           bytes each, and 1 of weights, which layers with one channel keep in registers.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float16, row-major; Ho = H-K+1, Wo = W-K+1. The
//           arranged mask a [M/4,C,STEPS,32] has 16 bytes per lane; STEPS = (K+2)/2 products cover a
//           window.
// Launch    arrange: grid (C, M/4), block (32, STEPS). conv: grid (B), block (32, WARPS). No shared memory.
// Requires  K <= 7; x finite; |y| < 65504, the largest half; compute capability 8.0. Compiled once for each
//           layer and choice of sizes.

#include "tensor.cuh"

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int STEPS = (K + 2) / 2;                          // pairs of rows in a window: K + 1 rows or more
constexpr int ACROSS = (Wo + 3) / 4 * 2;                    // squares side by side in a map, an even number
constexpr int COLUMNS = (Ho + 1) / 2 * ACROSS;              // of b: one per window
constexpr int THREADS = 32 * WARPS;
static_assert(1 <= K && K <= 7 && 1 <= WARPS && WARPS <= 32);

// Row r < 8 of `a` is output A (r even) or C (r odd) of a square in map r / 2; row r + 8 is the output to
// its right, B or D. For C and D the mask lies a row lower in the window, for B and D an input further right.
extern "C" __global__
void arrange(const half *x, const half *__restrict__ k, uint4 *__restrict__ a, int, int, int, int, int, int)
{
    const int lane = threadIdx.x, c = blockIdx.x, step = threadIdx.y;
    const int m = 4 * blockIdx.y + lane / 8, below = lane / 4 % 2;
    auto weight = [&](int p, int q) {
        const bool inside = m < M && 0 <= p && p < K && 0 <= q && q < K;
        return inside ? unsigned(__half_as_ushort(k[((m * C + c) * K + p) * K + q])) : 0;
    };
    auto pair = [&](int p, int q) { return weight(p, q) | weight(p, q + 1) << 16; };
    const int p = 2 * step - below, q = lane % 4 * 2;       // the lane's word: weights q and q + 1 of row p
    a[((blockIdx.y * C + c) * STEPS + step) * 32 + lane] =
        make_uint4(pair(p, q), pair(p, q - 1), pair(p + 1, q), pair(p + 1, q - 1));
}

// Inputs at and at + 1, two terms. Beyond the image any input will do: its weight is 0.
__device__ inline unsigned pair(const unsigned short *x, int at)
{
    return x[min(at, C * H * W - 1)] | unsigned(x[min(at + 1, C * H * W - 1)]) << 16;
}

// The weights of a channel, as the lane holds them.
__device__ inline void load(uint4 (&weights)[STEPS], const uint4 *mask)
{
    #pragma unroll
    for (int step = 0; step < STEPS; ++step)
        weights[step] = mask[step * 32];
}

// Multiply eight windows. The lane's words are those of one, which begins at `window`.
__device__ inline void multiply(float (&sum)[4], uint4 (&weights)[STEPS],
                                const uint4 *mask, const unsigned short *x, int window)
{
    #pragma unroll 1
    for (int c = 0; c < C; ++c, mask += STEPS * 32, window += H * W) {
        if (C > 1)
            load(weights, mask);
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const unsigned b0 = pair(x, window + 2 * step * W), b1 = pair(x, window + (2 * step + 1) * W);
            mma(sum, weights[step], b0, b1);
        }
    }
}

// Store outputs w to w + 3 of a row: the lane holds a row of two squares side by side.
__device__ inline void store_four(half *at, const float (&d)[4], int w, bool inside)
{
    using Piece = Widest<Wo>;
    constexpr int N = sizeof(Piece) / 2;
    const half2 low = __floats2half2_rn(d[0], d[2]), high = __floats2half2_rn(d[1], d[3]);
    const unsigned long long four = word_of(low) | (unsigned long long)word_of(high) << 32;
    #pragma unroll
    for (int i = 0; i < 4; i += N)
        if (inside && w + i < Wo)
            *(Piece *)&at[i] = four >> 16 * i;
}

// Store the lane's sums, of windows `column` and `column` + 1; only `count` of the maps exist.
__device__ inline void store(half *maps, const float (&sum)[4], int column, int count)
{
    const int lane = threadIdx.x, w = column % ACROSS * 2, h = column / ACROSS * 2 + lane / 4 % 2;
    store_four(maps + (lane / 8 * Ho + h) * Wo + w, sum, w, lane / 8 < count && h < Ho);
}

extern "C" __global__ __launch_bounds__(THREADS)
void conv(const half *__restrict__ x, const uint4 *__restrict__ a, half *__restrict__ y,
          int, int, int, int, int, int)
{
    const int lane = threadIdx.x, b = blockIdx.x;
    uint4 weights[STEPS];

    x += (size_t)b * C * H * W;
    for (int m0 = 0; m0 < M; m0 += 4) {
        const uint4 *mask = a + m0 / 4 * C * STEPS * 32 + lane;
        half *maps = y + ((size_t)b * M + m0) * Ho * Wo;
        if (C == 1)
            load(weights, mask);                            // once for all columns
        for (int first = 8 * threadIdx.y; first < COLUMNS; first += 8 * WARPS) {
            const int column = min(first + lane / 4, COLUMNS - 1);    // the lane's window
            float sum[4] = {};
            const int window = column / ACROSS * 2 * W + column % ACROSS * 2 + lane % 4 * 2;
            multiply(sum, weights, mask, (const unsigned short *)x, window);
            store(maps, sum, first + lane % 4 * 2, M - m0);
        }
    }
}
