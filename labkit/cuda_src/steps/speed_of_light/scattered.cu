// 10 scattered: a lane stores its own outputs.
//
// Idea      A lane holds, of each square, two outputs side by side. It could store them where they belong.
// Delta     from 10: no shared memory for the outputs, and no barrier but those of the image.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float16, row-major; Ho = H-K+1, Wo = W-K+1. The arranged
//           mask a [M/4,C,STEPS,32] has 16 bytes a lane; STEPS = (K+2)/2 products span the rows of a window.
// Launch    arrange: grid (C, M/4), block (32, STEPS). conv: any grid (blocks), which walk over the images,
//           block (32, WARPS). Shared memory, at most 48 KB: an image, its rows made even, with the rows that
//           the last windows reach beyond it.
// Requires  K <= 7; x finite, |y| < 65504, the largest half; compute capability 8.0. Compiled once for each
//           layer and choice of sizes.

#include <cuda_fp16.h>

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int STEPS = (K + 2) / 2;                          // pairs of rows in a window: K + 1 rows or more
constexpr int ACROSS = (Wo + 1) / 2;                        // squares side by side in a map
constexpr int STRIPS = (Ho + 2 * PAIRS - 1) / (2 * PAIRS);  // of PAIRS squares below each other
constexpr int COLUMNS = STRIPS * ACROSS;                    // of squares: the columns of the products
constexpr int PITCH = W + W % 2;                            // halves in a row of the image
constexpr int REACH = 2 * (STRIPS * PAIRS + STEPS - 1);     // rows that the windows reach
constexpr int ROWS = REACH > H ? REACH : H + H % 2;
constexpr int THREADS = 32 * WARPS, ROOM = WARPS <= 8 ? 4 : 1;    // blocks that a multiprocessor has room for

// d += a b, a 16 x 16, b 16 x 8. A lane holds, of b, terms of column lane / 4; of a and d, a part of the rows
// lane / 4 and lane / 4 + 8: in d the columns 2 (lane % 4) and the next.
__device__ inline void mma(float (&d)[4], const uint4 &a, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

__device__ inline unsigned word(float low, float high)      // two halves
{
    const half2 both = __floats2half2_rn(low, high);
    return __half_as_ushort(__low2half(both)) | unsigned(__half_as_ushort(__high2half(both))) << 16;
}

// Row r < 8 of a product is the output in map r / 2, row r % 2 and column 0 of the square, row r + 8 the one
// beside it, in column 1. An output sees the mask moved down by its row and to the right by its column.
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
    const int p = 2 * step - below, q = lane % 4 * 2;       // the lane's terms: columns q and q + 1
    a[((blockIdx.y * C + c) * STEPS + step) * 32 + lane] =
        make_uint4(pair(p, q), pair(p, q - 1), pair(p + 1, q), pair(p + 1, q - 1));
}

// An image to shared memory, in pieces as large as its sizes allow.
__device__ inline void fetch(half *image, const half *__restrict__ x, int thread)
{
    auto place = [&](int i, half value) {
        image[i / (H * W) * (ROWS * PITCH) + i / W % H * PITCH + i % W] = value;
    };
    if constexpr (W % 2 == 0 && H * W % 4 == 0 && ROWS * PITCH % 4 == 0) {
        constexpr int PIECES = H * W < 4 ? 1 : H * W / 4;   // of a channel, 8 bytes each
        #pragma unroll 4
        for (int i = thread; i < C * PIECES; i += THREADS)
            ((uint2 *)image)[i / PIECES * (ROWS * PITCH / 4) + i % PIECES] = ((const uint2 *)x)[i];
    } else if constexpr (C * H * W % 2 == 0) {
        #pragma unroll 8
        for (int i = thread; i < C * H * W / 2; i += THREADS) {
            const half2 both = ((const half2 *)x)[i];
            place(2 * i, __low2half(both));
            place(2 * i + 1, __high2half(both));
        }
    } else
        for (int i = thread; i < C * H * W; i += THREADS)
            place(i, x[i]);
}

extern "C" __global__ __launch_bounds__(THREADS, ROOM)
void conv(const half *__restrict__ x, const uint4 *__restrict__ a, half *__restrict__ y,
          int B, int, int, int, int, int)
{
    constexpr int MAPS = 4 * GROUPS, TILES = (COLUMNS + 7) / 8;
    __shared__ __align__(16) unsigned image[C * ROWS * PITCH / 2 + 4];    // two halves in a word
    const int lane = threadIdx.x, thread = threadIdx.y * 32 + lane;

    uint4 weights[GROUPS][STEPS];                           // of a channel, for the maps at hand
    auto load = [&](const uint4 *mask) {
        #pragma unroll
        for (int g = 0; g < GROUPS; ++g)
            #pragma unroll
            for (int step = 0; step < STEPS; ++step)
                weights[g][step] = mask[(g * C * STEPS + step) * 32];
    };
    for (int i = thread; i < C * ROWS * PITCH / 2 + 4; i += THREADS)
        image[i] = 0;                                       // beyond the image: 0 times a NaN would be a NaN
    for (int b = blockIdx.x; b < B; b += gridDim.x) {
        __syncthreads();                                    // nobody reads the image before
        fetch((half *)image, x + (size_t)b * C * H * W, thread);
        __syncthreads();                                    // the image is complete
        for (int m0 = 0; m0 < M; m0 += MAPS) {
            half *maps = y + ((size_t)b * M + m0) * Ho * Wo;
            if (C == 1 && (M > MAPS || b == blockIdx.x))    // else they are in the registers already
                load(a + m0 / 4 * STEPS * 32 + lane);
            for (int tile = threadIdx.y; tile < TILES; tile += WARPS) {
                const int mine = min(8 * tile + lane / 4, COLUMNS - 1);    // whose terms I hand in
                const unsigned *window = image + mine / ACROSS * PAIRS * PITCH + mine % ACROSS + lane % 4;
                const uint4 *mask = a + m0 / 4 * C * STEPS * 32 + lane;
                float sum[GROUPS][PAIRS][4] = {};
                #pragma unroll 1
                for (int c = 0; c < C; ++c, window += ROWS * PITCH / 2, mask += STEPS * 32) {
                    if (C > 1)
                        load(mask);
                    // Two rows of inputs are a window's first two, and the next two of the one above.
                    #pragma unroll
                    for (int row = 0; row < PAIRS + STEPS - 1; ++row) {
                        const unsigned b0 = window[row * PITCH], b1 = window[row * PITCH + PITCH / 2];
                        #pragma unroll
                        for (int step = 0; step < STEPS; ++step)
                            if (0 <= row - step && row - step < PAIRS)
                                #pragma unroll
                                for (int g = 0; g < GROUPS; ++g)
                                    mma(sum[g][row - step], weights[g][step], b0, b1);
                    }
                }
                const int column = 8 * tile + 2 * (lane % 4);    // whose sums I hold, and those of the next
                #pragma unroll
                for (int g = 0; g < GROUPS; ++g)
                    #pragma unroll
                    for (int row = 0; row < PAIRS; ++row) {
                        const float (&d)[4] = sum[g][row];
                        const int m = 4 * g + lane / 8;
                        const unsigned two[] = {word(d[0], d[2]), word(d[1], d[3])};
                        #pragma unroll
                        for (int i = 0; i < 2; ++i) {
                            const int h = ((column + i) / ACROSS * PAIRS + row) * 2 + lane / 4 % 2;
                            const int w = (column + i) % ACROSS * 2, at = (m * Ho + h) * Wo + w;
                            if (column + i >= COLUMNS || h >= Ho || m0 + m >= M)
                                continue;                   // beyond the map, or no map
                            if constexpr (Wo % 2 == 0)
                                *(unsigned *)&maps[at] = two[i];
                            else {
                                maps[at] = __ushort_as_half(two[i] & 0xffff);
                                if (w + 1 < Wo)
                                    maps[at + 1] = __ushort_as_half(two[i] >> 16);
                            }
                        }
                    }
            }
        }
    }
}
