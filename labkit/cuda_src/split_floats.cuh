// The jobs of rung 11 as functions: copy an image, split it, multiply it, store its maps.
//
// The steps teams, no_teams and background have all of this in common. They differ in which warps do a job, and
// when. What a function does is what the rung does. STAGED: maps pass through shared memory, to be stored in whole
// sectors; it is 0 where Wo is a multiple of 4.
#pragma once
#include "copies.cuh"
#include "tensor.cuh"
#include <cuda_pipeline_primitives.h>
#include <type_traits>

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int MAPS = 8 / DOWN;                              // of a product, with 1 x 2 or 2 x 2 outputs
constexpr int WINDOW = K + DOWN - 1;                        // rows of inputs that they need
constexpr int TOGETHER = C > 1 && WINDOW % 2 ? 2 : 1;       // two channels share a step for their last rows
constexpr int STEPS = (TOGETHER * WINDOW + 1) / 2, TURNS = (C + TOGETHER - 1) / TOGETHER;
constexpr int GROUPS = (M + MAPS - 1) / MAPS, WEIGHTS = GROUPS * TURNS * STEPS * 64;
constexpr int ACROSS = (Wo + 1) / 2, STRIPS = (Ho + DOWN * TALL - 1) / (DOWN * TALL);
constexpr int COLUMNS = STRIPS * ACROSS, EIGHTS = (COLUMNS + 7) / 8;         // of the products
constexpr int INPUTS = DOWN * (TALL - 1) + WINDOW;          // rows of inputs that a strip needs
constexpr int ROWS = DOWN * TALL * (STRIPS - 1) + INPUTS;   // that all strips need: some are beyond the image
constexpr int FOURS = ((TURNS * TOGETHER - 1) * H * W + ROWS * W + 11) / 4;  // of pixels in shared memory
constexpr bool FOUR = Wo % 4 == 0;                          // a lane's outputs are 16 aligned bytes
constexpr int GAP = STAGED && Ho * Wo % 4 == 0 ? 4 : 0;     // behind a map: the next is in other banks
constexpr int STRIDE = Ho * Wo + GAP;                       // of maps in shared memory
constexpr bool BULK = BULK_COPIES && GAP > 0;               // else the copies are the threads' own
static_assert(1 <= K && K <= 7 && (DOWN == 1 || DOWN == 2) && 1 <= TALL && (IMAGES == 1 || IMAGES == 2));
typedef uint4 Weights[STEPS];

// Arrange the weights as the lanes load them. Row r < 8 of a product is the output in map r / DOWN,
// row r % DOWN and column 0; row r + 8 is the one beside it.
__device__ inline void arrange_weights(const float *__restrict__ k, uint4 *__restrict__ a)
{
    __shared__ int largest[MAPS];
    const int lane = threadIdx.x, step = threadIdx.y, turn = blockIdx.x, group = blockIdx.y;
    const int i = lane / 4 / DOWN, m = group * MAPS + i, below = lane / 4 % DOWN;
    int *exponents = (int *)(a + WEIGHTS);
    float *copy = (float *)(exponents + GROUPS * MAPS);

    for (int i = step; i < MAPS; i += STEPS) {              // a warp looks through a map's mask
        int bits = 0;
        if (group * MAPS + i < M)
            #pragma unroll 4
            for (int j = lane; j < C * K * K; j += 32) {
                const int at = (group * MAPS + i) * C * K * K + j;
                bits = max(bits, magnitude(k[at]));
                if (turn == 0)
                    copy[at] = k[at];                       // for `direct`
            }
        bits = __reduce_max_sync(0xffffffff, bits);
        if (lane == 0)
            largest[i] = bits;
    }
    __syncthreads();
    const int e = exponent(largest[i]);
    if (turn == 0 && step == 0 && lane % (4 * DOWN) == 0)
        exponents[m] = largest[i] < INFINITE ? e - 14 : INFINITE;

    // The step's terms: 8 columns of row p of channel c, and of row r of channel d.
    const bool tail = step == TOGETHER * (WINDOW / 2);
    const int c = turn * TOGETHER + (tail ? 0 : step / (WINDOW / 2)), d = tail ? turn * TOGETHER + 1 : c;
    const int p = tail ? WINDOW - 1 : step % (WINDOW / 2) * 2, r = tail ? WINDOW - 1 : p + 1;
    auto weight = [&](int c, int p, int q) {
        p -= below;
        const bool inside = m < M && c < min(C, (turn + 1) * TOGETHER) && 0 <= p && p < K && 0 <= q && q < K;
        return inside ? k[((m * C + c) * K + p) * K + q] * power(14 - e) : 0;
    };
    auto pair = [&](int c, int p, int q) { return split(weight(c, p, q), weight(c, p, q + 1)); };
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

// One part of the weights of TOGETHER channels.
__device__ inline void load(Weights &weights, const uint4 *__restrict__ mask)
{
    #pragma unroll
    for (int step = 0; step < STEPS; ++step)
        weights[step] = mask[64 * step];
}

// The products of eight columns with one part of the weights, and with the high part or both parts of the
// inputs. Each window in which rows h - 1 and h of the inputs are the two rows of a step multiplies them, so
// that a row is loaded once.
template <int PARTS>
__device__ inline void multiply(float (&sum)[TALL][4], const Weights &weights, const unsigned *window)
{
    uint2 above[TOGETHER], row[TOGETHER] = {};              // two pixels: their high parts, their low parts
    #pragma unroll
    for (int h = 0; h < INPUTS; ++h) {
        #pragma unroll
        for (int t = 0; t < TOGETHER; ++t) {
            const unsigned *at = window + (t * H + h) * W;
            const uint2 two = W % 2 ? make_uint2(at[0], at[1]) : *(const uint2 *)at;
            above[t] = row[t];
            row[t] = make_uint2(__byte_perm(two.x, two.y, 0x5410), __byte_perm(two.x, two.y, 0x7632));
        }
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool tail = step == TOGETHER * (WINDOW / 2);    // a last row of each channel
            const int t = tail ? 0 : step / (WINDOW / 2);
            const int last = tail ? WINDOW - 1 : step % (WINDOW / 2) * 2 + 1;    // row of the window
            const uint2 first = tail ? row[0] : above[t], second = row[tail ? TOGETHER - 1 : t];
            if (h < last || (h - last) % DOWN || (h - last) / DOWN >= TALL)
                continue;
            mma(sum[(h - last) / DOWN], weights[step], first.x, second.x);
            if (PARTS == 2)
                mma(sum[(h - last) / DOWN], weights[step], first.y, second.y);
        }
    }
}

// Which column is the first (i = 0) and the second (i = 1) of lane j, of four that have the same maps in d:
// they store 16 bytes each, or twice 8 bytes that lie side by side.
__device__ inline int column_of(int j, int i) { return FOUR ? 2 * j + i : j + 4 * i; }

// Store the lane's sums of the columns from `first` on, times 2^e; only `count` of the maps exist.
__device__ inline void store(float *maps, const float (&sum)[TALL][4], int first, int e, int count)
{
    const int lane = threadIdx.x, m = lane / 4 / DOWN;
    const float some = power(e / 2), others = power(e - e / 2);        // 2^e itself may be no float
    auto result = [&](int j, int n) { return sum[j][n] * some * others; };
    #pragma unroll
    for (int i = 0; i < 2; ++i) {
        const int column = first + column_of(lane % 4, i), w = column % ACROSS * 2;
        const int h0 = column / ACROSS * DOWN * TALL + lane / 4 % DOWN;
        float *at = maps + m * STRIDE + h0 * Wo + w;
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

// `count` maps without tensor cores, by as many warps: infinities and NaN spread as far as the formula says.
template <int warps> __device__ inline void direct(float *maps, const float *x, const float *k, int count)
{
    for (int i = threadIdx.y * 32 + threadIdx.x; i < count * Ho * Wo; i += 32 * warps) {
        const float *window = x + i / Wo % Ho * W + i % Wo, *mask = k + i / (Ho * Wo) * C * K * K;
        float sum = 0;
        for (int term = 0; term < C * K * K; ++term)
            sum += window[(term / (K * K) * H + term / K % K) * W + term % K] * mask[term];
        maps[i + i / (Ho * Wo) * GAP] = sum;
    }
}

// ------------------------------------------------------------------------------------------------- the jobs
// Each is done by some threads or warps, as many as its parameter says; `thread` or threadIdx.y numbers them from 0.

// Start to copy an image to shared memory; __pipeline_wait_prior(0) waits for what a thread copies.
template <int threads>
__device__ inline void copy_image(float4 *image, const float *__restrict__ x, int thread)
{
    constexpr int N = C * H * W % 4 ? 1 : 4;
    #pragma unroll 4
    for (int i = N * thread; i < C * H * W; i += N * threads)
        __pipeline_memcpy_async((float *)image + i, x + i, 4 * N);
    __pipeline_commit();
}

// Let `largest`, 0 before, be the largest magnitude of a pixel.
template <int threads> __device__ inline void find_largest(int &largest, const float4 *image, int thread)
{
    int bits = 0;
    #pragma unroll 4
    for (int i = thread; i < FOURS; i += threads) {
        const float4 v = image[i];
        bits = max(bits, max(magnitude(v.x), magnitude(v.y)));
        bits = max(bits, max(magnitude(v.z), magnitude(v.w)));
    }
    atomicMax(&largest, bits);
}

// Replace each pixel by two halves, times the image's power of two.
template <int threads> __device__ inline void split_image(float4 *image, int largest, int thread)
{
    const float scale = power(14 - exponent(largest));
    #pragma unroll 4
    for (int i = thread; i < FOURS; i += threads) {
        const float4 v = image[i];
        const float2 left = split(v.x * scale, v.y * scale), right = split(v.z * scale, v.w * scale);
        image[i] = make_float4(left.x, left.y, right.x, right.y);
    }
}

// Multiply a split image with the weights of a group of maps. `high` has the high parts of this group's first
// weights, and then those of the next group's. `x` is the image in global memory.
template <int warps>
__device__ inline void multiply_maps(float *maps, Weights &high, const float4 *image, int largest,
                                     const uint4 *__restrict__ a, const float *__restrict__ x, int group)
{
    const int lane = threadIdx.x, warp = threadIdx.y, m0 = group * MAPS;
    const int *exponents = (const int *)(a + WEIGHTS);
    const float *k = (const float *)(exponents + GROUPS * MAPS);
    const int of_map = exponents[m0 + lane / 4 / DOWN];
    if (largest >= INFINITE || __any_sync(0xffffffff, of_map == INFINITE)) {
        direct<warps>(maps, x, k + m0 * C * K * K, min(MAPS, M - m0));
        load(high, a + (group + 1) % GROUPS * TURNS * STEPS * 64 + lane);    // of the next group
    } else
        for (int eight = warp; eight < EIGHTS; eight += warps) {
            const int column = min(8 * eight + column_of(lane / 8, lane / 4 % 2), COLUMNS - 1);
            const unsigned *window = (const unsigned *)image
                + column / ACROSS * DOWN * TALL * W + (column % ACROSS + lane % 4) * 2;
            const uint4 *mask = a + group * TURNS * STEPS * 64 + lane;
            const int next = eight + warps < EIGHTS ? group : (group + 1) % GROUPS;
            float sum[TALL][4] = {};
            Weights low;
            #pragma unroll 1
            for (int i = 0; i < TURNS; ++i, window += TOGETHER * H * W) {
                load(low, mask + 32);
                multiply<2>(sum, high, window);
                mask = i < TURNS - 1 ? mask + STEPS * 64 : a + next * TURNS * STEPS * 64 + lane;
                load(high, mask);                           // of the next ones: there is time until then
                multiply<1>(sum, low, window);
            }
            store(maps, sum, 8 * eight, exponent(largest) - 14 + of_map, M - m0);
        }
    if (BULK)
        publish();
}

// Copy `count` maps from shared memory to y. Bulk copies go on in the background: wait_for_copies waits for
// those of a thread.
template <int threads>
__device__ inline void store_maps(float *y, const float *maps, int count, int thread)
{
    using Piece = std::conditional_t<M * Ho * Wo % 4 || MAPS * Ho * Wo % 4, float, float4>;
    constexpr int N = sizeof(Piece) / 4;
    if constexpr (BULK) {
        for (int m = thread; m < count; m += threads)
            copy_out<4 * Ho * Wo>(y + m * Ho * Wo, maps + m * STRIDE);
        commit_copies();
    } else
        #pragma unroll 4
        for (int i = N * thread; i < count * Ho * Wo; i += N * threads)
            *(Piece *)&y[i] = *(const Piece *)&maps[i + i / (Ho * Wo) * GAP];
}
