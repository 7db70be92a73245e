// 13 network: the whole of lenet86 in one kernel.
//
// Idea      A block takes an image from its pixels to ten probabilities. All maps between the layers stay in shared
//           memory: they are never written to device memory, and nothing is launched in between. The convolutions are
//           rung 10's. A lane holds four outputs that lie side by side, so ReLU and the maximum of a pool's window
//           are one exchange with a neighbour, and a 4th or a 16th of the outputs is stored. The first fully
//           connected layer is a product of tensor cores, too, whose 8 columns are 8 images of the block.
// Numbers   PRODUCTS = 1: pixels, maps and weights are rounded to half. PRODUCTS = 3: a number is the sum of two
//           halves, high + low, and a product is high high + high low + low high: errors a few times those of float,
//           because tensor cores truncate the sums, which are float in both. Every layer's input and weights are
//           scaled by powers of two, so that high does not overflow and low keeps its bits; `factors` undo it.
// Shapes    x [B,86,86] float32, or [B,SOURCE_H,SOURCE_W] bytes, which are resized to 86 x 86 as
//           labkit.networks.images does it; y [B,10] float32. The arranged weights a1, a2, a3 have 16 bytes per lane
//           and product: [part][group of 4 maps][channel][step], and [part][step][16 outputs] of the fully connected
//           layer. `dense`: bias [32], weights [32,10], bias [10] of both fully connected layers, float32.
// Launch    any grid, block b computes the images b, b + gridDim.x, ...; block (32, WARPS); dynamic shared memory:
//           PARTS times 49,128 bytes.
// Requires  |pixel| <= LIMIT, for which the host has chosen the scales: an image with another pixel, an infinity or a
//           NaN gets ten NaN. Bytes: SOURCE_W <= 39, or 86 x 86. Compute capability 8.0.

#include "network.cuh"

constexpr int THREADS = 32 * WARPS;
constexpr int SLOTS = 8;                                    // images whose features wait for the matrix product

// A layer in terms of rung 10: squares of 2 x 2 outputs, of which a warp computes 8 x PAIRS in 4 GROUPS maps at once.
template <int C_, int M_, int H_, int PAIRS_, int GROUPS_> struct Convolution {
    static constexpr int C = C_, M = M_, PAIRS = PAIRS_, GROUPS = GROUPS_;
    static constexpr int K = 7, STEPS = 4, Ho = H_ - K + 1, PITCH = H_;
    static constexpr int ACROSS = (Ho + 3) / 4 * 2, STRIPS = (Ho + 2 * PAIRS - 1) / (2 * PAIRS);
    static constexpr int COLUMNS = STRIPS * ACROSS, TILES = (COLUMNS + 7) / 8, SETS = M / (4 * GROUPS);
    static constexpr int ROWS = 2 * (STRIPS * PAIRS + STEPS - 1);       // of a channel in shared memory
    static constexpr int WORDS = C * ROWS * PITCH / 2 + 4;              // of all channels: two halves per word
};
using First = Convolution<1, 4, SIZE, PAIRS_1, 1>;
using Second = Convolution<4, 16, First::Ho / 2, PAIRS_2, GROUPS_2>;
static_assert(First::STRIPS * First::PAIRS == First::Ho / 2 && Second::PAIRS % 2 == 0, "whole windows of the pools");
static_assert(GROUPS_2 >= 1 && Second::M % (4 * GROUPS_2) == 0 && 1 <= WARPS && WARPS <= 32 && 1 <= BLOCKS);

static_assert(POOLED == (Second::Ho + 3) / 4, "the last window is cut at the edge");
static_assert(FEATURES == Second::M * POOLED * POOLED && WARPS * SLOTS * SLOT_PITCH <= First::WORDS,
              "the partial sums fit into an image");

struct Block {                                              // of shared memory
    unsigned image[PARTS][First::WORDS], maps[PARTS][Second::WORDS], features[PARTS][SLOTS * FEATURE_WORDS];
};

// ------------------------------------------------------------------------------------------------------- the pixels
#ifndef SOURCE_W
// Float pixels: four per access. Returns whether all of this thread's are within the limit.
__device__ inline bool fetch(Block &s, const void *x, int b, int thread, float scale, float)
{
    const float4 *from = (const float4 *)x + (size_t)b * (SIZE * SIZE / 4);
    bool within = true;
    #pragma unroll
    for (int first = 0; first < SIZE * SIZE / 4; first += THREADS) {
        const int at = first + thread;
        if (at >= SIZE * SIZE / 4) break;
        const float4 v = from[at];
        within &= fabsf(v.x) <= LIMIT && fabsf(v.y) <= LIMIT && fabsf(v.z) <= LIMIT && fabsf(v.w) <= LIMIT;
        keep_two(s.image[0] + 2 * at, First::WORDS, scale * v.x, scale * v.y);
        keep_two(s.image[0] + 2 * at + 1, First::WORDS, scale * v.z, scale * v.w);
    }
    return within;
}
#elif SOURCE_W == 86 && SOURCE_H == 86
// Bytes of the right size: four per access. `unit` is 1 / white.
__device__ inline bool fetch(Block &s, const void *x, int b, int thread, float scale, float unit)
{
    const uchar4 *from = (const uchar4 *)x + (size_t)b * (SIZE * SIZE / 4);
    const float factor = unit * scale;                      // exact: the scale is a power of two
    #pragma unroll
    for (int first = 0; first < SIZE * SIZE / 4; first += THREADS) {
        const int at = first + thread;
        if (at >= SIZE * SIZE / 4) break;
        const uchar4 v = from[at];
        keep_two(s.image[0] + 2 * at, First::WORDS, factor * v.x, factor * v.y);
        keep_two(s.image[0] + 2 * at + 1, First::WORDS, factor * v.z, factor * v.w);
    }
    return true;
}
#else
// Bytes of another size. Rows lie where the maps will be.
__device__ inline bool fetch(Block &s, const void *x, int b, int, float scale, float unit)
{
    static_assert(SIZE * SOURCE_W <= Second::WORDS, "at most 39 columns");
    resize<WARPS>(s.image[0], First::WORDS, (float *)s.maps[0], x, b, 0, scale, unit);
    return true;
}
#endif

// ------------------------------------------------------------------------------------------------- the convolutions
// The weights of a channel, as the lane holds them.
template <class L>
__device__ inline void load(uint4 (&weights)[PARTS][L::GROUPS][L::STEPS], const uint4 *__restrict__ mask)
{
    #pragma unroll
    for (int part = 0; part < PARTS; ++part)
        #pragma unroll
        for (int g = 0; g < L::GROUPS; ++g)
            #pragma unroll
            for (int step = 0; step < L::STEPS; ++step)
                weights[part][g][step] = mask[((part * L::M / 4 + g) * L::C * L::STEPS + step) * 32];
}

// The products of eight columns. The lane's terms are those of one, whose window begins at `window`. Two rows
// of inputs are step 0 of a square, step 1 of the square above it, and so on.
template <class L>
__device__ inline void multiply(float (&sum)[L::GROUPS][L::PAIRS][4], uint4 (&weights)[PARTS][L::GROUPS][L::STEPS],
                                const uint4 *__restrict__ mask, const unsigned *window)
{
    #pragma unroll 1
    for (int c = 0; c < L::C; ++c, mask += L::STEPS * 32, window += L::ROWS * L::PITCH / 2) {
        if (L::C > 1)
            load<L>(weights, mask);
        #pragma unroll
        for (int row = 0; row < L::PAIRS + L::STEPS - 1; ++row) {
            unsigned b[PARTS][2];
            #pragma unroll
            for (int part = 0; part < PARTS; ++part) {
                b[part][0] = window[part * L::WORDS + row * L::PITCH];
                b[part][1] = window[part * L::WORDS + row * L::PITCH + L::PITCH / 2];
            }
            #pragma unroll
            for (int i = 0; i < PRODUCTS; ++i)
                #pragma unroll
                for (int step = 0; step < L::STEPS; ++step)
                    #pragma unroll
                    for (int g = 0; g < L::GROUPS; ++g)
                        if (0 <= row - step && row - step < L::PAIRS)
                            mma(sum[g][row - step], weights[part_of_a(i)][g][step], b[part_of_b(i)][0],
                                b[part_of_b(i)][1]);
        }
    }
}

// ReLU and the maximum of 2 x 2 outputs: the lane has a row of two squares side by side, `column` and the next. Of the
// first it gets the other row from the lane that has it, or gives that lane the second's.
__device__ inline void pool(First, Block &s, const float (&sum)[1][First::PAIRS][4], int column, int, int, float factor)
{
    const int lane = threadIdx.x, below = lane / 4 % 2;
    const int w = column % First::ACROSS + below, h = column / First::ACROSS * First::PAIRS;
    half *to = (half *)s.maps[0] + (lane / 8 * Second::ROWS + h) * Second::PITCH + w;
    #pragma unroll
    for (int row = 0; row < First::PAIRS; ++row) {
        const float (&d)[4] = sum[0][row];
        const float left = fmaxf(d[0], d[2]), right = fmaxf(d[1], d[3]);
        const float other = __shfl_xor_sync(0xffffffff, below ? left : right, 4);
        const float most = fmaxf(fmaxf(below ? right : left, other), 0);
        keep(to + row * Second::PITCH, 2 * Second::WORDS, factor * most);
    }
}

// ReLU and the maximum of 4 x 4 outputs: the lane has a row of 4 in each square row, which is just a window's width.
__device__ inline void pool(Second, Block &s, const float (&sum)[Second::GROUPS][Second::PAIRS][4], int column, int m0,
                            int slot, float factor)
{
    const int lane = threadIdx.x, below = lane / 4 % 2;
    const int w = column % Second::ACROSS / 2, h0 = column / Second::ACROSS * (Second::PAIRS / 2);
    const bool whole = 4 * w + 2 < Second::Ho;
    half *to = (half *)(s.features[0] + slot * FEATURE_WORDS);
    #pragma unroll
    for (int g = 0; g < Second::GROUPS; ++g)
        #pragma unroll
        for (int i = 0; i < Second::PAIRS / 2; ++i) {
            const int h = h0 + i;
            float most = 0;
            #pragma unroll
            for (int row = 0; row < 2; ++row) {
                const float (&d)[4] = sum[g][2 * i + row];
                if (4 * h + 2 * row < Second::Ho) {
                    most = fmaxf(most, fmaxf(d[0], d[2]));
                    most = whole ? fmaxf(most, fmaxf(d[1], d[3])) : most;
                }
            }
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 4));
            if (!below && h < POOLED)
                keep(to + ((m0 + 4 * g + lane / 8) * POOLED + h) * POOLED + w, 2 * SLOTS * FEATURE_WORDS, factor * most);
        }
}

template <class L>
__device__ inline void convolve(Block &s, const unsigned *image, const uint4 *__restrict__ mask, int slot, float factor)
{
    const int lane = threadIdx.x;
    uint4 weights[PARTS][L::GROUPS][L::STEPS];
    mask += lane;
    if (L::C == 1)
        load<L>(weights, mask);
    #pragma unroll 1
    for (int task = threadIdx.y; task < L::TILES * L::SETS; task += WARPS) {
        const int first = task % L::TILES * 8, m0 = task / L::TILES * 4 * L::GROUPS;
        const int column = min(first + lane / 4, L::COLUMNS - 1);       // of the lane's terms
        float sum[L::GROUPS][L::PAIRS][4] = {};
        const unsigned *window =
            image + column / L::ACROSS * L::PAIRS * L::PITCH + column % L::ACROSS + lane % 4;
        multiply<L>(sum, weights, mask + m0 / 4 * L::C * L::STEPS * 32, window);
        pool(L(), s, sum, first + lane % 4 * 2, m0, slot, factor);
    }
}

// The fully connected layers; the partial sums lie where the image was.
__device__ inline void classify(Block &s, const uint4 *__restrict__ a, const float *__restrict__ dense, float *y,
                                int images, unsigned refused, float factor)
{
    classify<WARPS, SLOTS>(s.features[0], (float *)s.image[0], a, dense, y, gridDim.x, images, refused, 0, factor);
}

extern "C" __global__ __launch_bounds__(THREADS, BLOCKS)
void network(const void *__restrict__ x, const uint4 *__restrict__ a1, const uint4 *__restrict__ a2,
             const uint4 *__restrict__ a3, const float *__restrict__ dense, float *__restrict__ y, int B,
             float scale, float unit, float factor1, float factor2, float factor3)
{
    extern __shared__ uint4 memory[];
    Block &s = *(Block *)memory;
    const int thread = threadIdx.y * 32 + threadIdx.x;
    for (int i = thread; i < sizeof(Block) / 4; i += THREADS)
        ((unsigned *)memory)[i] = 0;                        // what no layer writes is read, and not used
    int slot = 0;
    unsigned refused = 0;                                   // a bit per slot
    for (int b = blockIdx.x; b < B; b += gridDim.x) {
        __syncthreads();                                    // zeros, classify and the image before are done
        const bool within = fetch(s, x, b, thread, scale, unit);
        refused |= unsigned(!__syncthreads_and(within)) << slot;        // the image is complete
        convolve<First>(s, s.image[0], a1, 0, factor1);
        __syncthreads();                                    // its maps are complete
        convolve<Second>(s, s.maps[0], a2, slot, factor2);
        if (++slot == SLOTS || b + gridDim.x >= B) {
            __syncthreads();                                // the features of all slots are complete
            const int first = b - (slot - 1) * gridDim.x;
            classify(s, a3, dense, y + (size_t)first * CLASSES, slot, refused, factor3);
            slot = 0;
            refused = 0;
        }
    }
}
