// 10 speed of light, warpgroups: products of four warps.
//
// Idea      wgmma, of compute capability 9.0, multiplies for four warps at once: 64 rows, windows of the
//           image in registers, times the weights of up to 24 maps in shared memory. The weights stay there
//           for all images. A word of the image, once in a register, serves all maps.
// Delta     from the rung: rows and columns of a product change places. With several channels a window has
//           1 x 2 outputs instead of 2 x 2: two channels share a step for their last rows, and 7/8 of the
//           terms are needed. Teams of warps fetch, compute and store at the same time. Where W is odd, a
//           pixel has a word in shared memory: it and the next one. Finished maps leave as one bulk copy.
//           Each block arranges the weights that it needs: there is one launch.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float16, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid GROUPS times any number of blocks, each of which computes many images; block
//           (32, COMPUTE + FETCH + STORE), COMPUTE a multiple of 4. Shared memory: the weights of a group,
//           two images with two bytes per pixel, or four if W is odd, OUTS times MAPS maps.
// Requires  K <= 7; x finite; |y| < 65504, the largest half; compute capability 8.0, and 9.0 for wgmma.
//           DOWN MAPS is a multiple of 4, at most 24. Compiled once for each layer and choice of sizes.

#include "warpgroups.cuh"
#include <cuda_pipeline_primitives.h>
#include <type_traits>

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int GROUPS = (M + MAPS - 1) / MAPS, N = 2 * DOWN * MAPS;           // columns of a product
constexpr int WINDOW = K + DOWN - 1, PAIRS = WINDOW > 1 ? WINDOW / 2 : 1;    // rows of inputs, pairs of them
constexpr int TOGETHER = C > 1 && WINDOW % 2 ? 2 : 1;       // two channels share a step for their last rows
constexpr int STEPS = (TOGETHER * WINDOW + 1) / 2, TURNS = (C + TOGETHER - 1) / TOGETHER;
constexpr int ACROSS = (Wo + 1) / 2, STRIPS = (Ho + DOWN * TALL - 1) / (DOWN * TALL);
constexpr int WINDOWS = STRIPS * ACROSS;
constexpr int INPUTS = DOWN * (TALL - 1) + WINDOW;          // rows of inputs that a strip needs
constexpr int ROWS = DOWN * TALL * (STRIPS - 1) + INPUTS;   // that all strips need: some are beyond the image
constexpr int WORDS = 1 + W % 2, PITCH = W * WORDS / 2;     // if W is odd, a word per pixel: it and the next
constexpr int IMAGE_WORDS = ((TURNS * TOGETHER - 1) * H + ROWS) * PITCH + 4 * WORDS;
constexpr int IMAGE_PIECES = (IMAGE_WORDS + 3) / 4, OUT_PIECES = (MAPS * Ho * Wo + 7) / 8;    // of 16 bytes
constexpr int WEIGHT_PIECES = TURNS * STEPS * 2 * N, THREADS = 32 * (COMPUTE + FETCH + STORE);
constexpr int PIECES_AT_ONCE = ROOM == 1 ? 4 : 2;           // of a thread; two blocks have few registers
constexpr int IMAGE = 1, OUTPUT = 2, STORED = 3, ARRANGED = 4;               // barriers
constexpr bool EARLY = C > 1 || ROOM == 1;                  // else device memory is the limit already
constexpr int HELD = !EARLY ? 3 : DOWN == 1 ? 4 : 6;        // rows of inputs in registers
static_assert(1 <= K && K <= 7 && (DOWN == 1 || DOWN == 2) && 1 <= TALL);
static_assert(DOWN * MAPS % 4 == 0 && 4 <= DOWN * MAPS && DOWN * MAPS <= 24);
static_assert(COMPUTE >= 4 && COMPUTE % 4 == 0 && 1 <= FETCH && 1 <= STORE && THREADS <= 1024);
static_assert((OUTS == 1 || OUTS == 2) && (ROOM == 1 || ROOM == 2));
static_assert(OUTS == 2 || COMPUTE / 4 <= (WINDOWS + 63) / 64, "a warp without windows does not wait");

// The outputs of pair i of columns in eight j: their row of the window, and their map. Lanes beside each
// other store to maps, and banks, that lie apart. If Wo is odd, fewer of them meet where maps are neighbors.
__device__ inline int row_of(int i) { return i % DOWN; }
__device__ inline int map_of(int j, int i)
{
    return Wo % 2 ? j * (4 / DOWN) + i / DOWN : i / DOWN * (MAPS * DOWN / 4) + j;
}

// The weights of `count` maps, as products read them: [TURNS,STEPS,2,N] pieces of 8 terms. This is for
// all warps but those that fetch.
__device__ inline void arrange(uint4 *weights, const half *__restrict__ k, int count, int thread)
{
    #pragma unroll PIECES_AT_ONCE
    for (int i = thread; i < WEIGHT_PIECES; i += 32 * (COMPUTE + STORE)) {
        const int column = i % N, second = i / N % 2, step = i / (2 * N) % STEPS, turn = i / (2 * N * STEPS);
        const bool tail = step == TOGETHER * (WINDOW / 2);  // the last rows of the channels
        const int m = map_of(column / 8, column / 2 % 4);
        const int c = turn * TOGETHER + (tail ? second : step / PAIRS);
        const int p = (tail ? WINDOW - 1 : step % PAIRS * 2 + second) - row_of(column / 2 % 4);
        const bool inside = m < count && c < min(C, (turn + 1) * TOGETHER) && 0 <= p && p < K;
        unsigned short terms[8];
        #pragma unroll
        for (int term = 0; term < 8; ++term) {
            const int q = term - column % 2;                // the mask moves by the output's row and column
            terms[term] = inside && 0 <= q && q < K ? __half_as_ushort(k[((m * C + c) * K + p) * K + q]) : 0;
        }
        auto two = [&](int term) { return terms[term] | unsigned(terms[term + 1]) << 16; };
        weights[i] = make_uint4(two(0), two(2), two(4), two(6));
    }
}

// The row of windows for which row h of the inputs is the last one of this step; -1 if there is none.
__device__ constexpr int ending(int h, int step)
{
    const int below = h - (step == TOGETHER * (WINDOW / 2) ? WINDOW - 1 : step % PAIRS * 2 + 1);
    return below >= 0 && below % DOWN == 0 && below / DOWN < TALL ? below / DOWN : -1;
}
__device__ constexpr bool products_at(int h)
{
    for (int step = 0; step < STEPS; ++step)
        if (ending(h, step) >= 0)
            return true;
    return false;
}

// A turn of products. Of each row of inputs the lane has a word of two windows, left[0] and left[1]. EARLY
// rows are loaded while the products of the row before are computed.
__device__ inline void multiply(float (&sum)[TALL][N / 2], const unsigned *const (&left)[2], Columns weights)
{
    unsigned rows[HELD][TOGETHER][2];                       // the last rows of each channel
    auto load = [&](int h) {
        #pragma unroll
        for (int t = 0; t < TOGETHER; ++t)
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                rows[h % HELD][t][i] = left[i][(t * H + h) * PITCH];
    };
    constexpr int FIRST = WINDOW > 1;                       // no window ends in row 0
    #pragma unroll
    for (int h = 0; h < FIRST + EARLY; ++h)
        load(h);
    #pragma unroll
    for (int h = FIRST; h < INPUTS; ++h) {
        if (!EARLY)
            load(h);
        const bool some = !EARLY || products_at(h);         // else an empty batch
        if (some) {
            begin();
            #pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const bool tail = step == TOGETHER * (WINDOW / 2);
                const int t = tail ? 0 : step / PAIRS, u = tail ? TOGETHER - 1 : t, of = ending(h, step);
                const unsigned (&first)[2] = rows[(tail ? h : h + HELD - 1) % HELD][t];
                const unsigned (&second)[2] = rows[h % HELD][u];
                if (of >= 0)
                    product<N>(sum[of], first[0], first[1], second[0], second[1],
                               weights + step * 2 * N);
            }
            commit();
        }
        if (EARLY && h < INPUTS - 1)
            load(h + 1);
        if (h == INPUTS - 1)
            wait<0>();
        else if (some)
            wait<1>();                                      // what the batch before this one read is free
    }
}

// Store the lane's sums: two outputs side by side of the window `at` and of the one eight further.
__device__ inline void store(half *maps, const float (&sum)[TALL][N / 2], int window, int count)
{
    #pragma unroll
    for (int i = 0; i < 2; ++i, window += 8) {
        const int w = window % ACROSS * 2, h0 = window / ACROSS * DOWN * TALL + row_of(threadIdx.x % 4);
        if (window >= WINDOWS)
            continue;
        #pragma unroll
        for (int j = 0; j < N / 8; ++j) {
            const int m = map_of(j, threadIdx.x % 4);
            half *at = maps + (m * Ho + h0) * Wo + w;
            #pragma unroll
            for (int t = 0; t < TALL; ++t, at += DOWN * Wo) {
                if (m >= count || h0 + DOWN * t >= Ho)
                    continue;
                const half2 two = __floats2half2_rn(sum[t][4 * j + 2 * i], sum[t][4 * j + 2 * i + 1]);
                if (Wo % 2 == 0)
                    *(half2 *)at = two;
                else {
                    at[0] = __low2half(two);
                    if (w + 1 < Wo)
                        at[1] = __high2half(two);
                }
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS, ROOM)
void conv(const half *__restrict__ x, const half *__restrict__ k, half *__restrict__ y,
          int B, int, int, int, int, int)
{
    extern __shared__ uint4 weights[];                      // [WEIGHT_PIECES]; behind them images and maps
    uint4 *images = weights + WEIGHT_PIECES, *outs = images + 2 * IMAGE_PIECES;
    const int lane = threadIdx.x, warp = __shfl_sync(0xffffffff, threadIdx.y, 0);    // the same of all lanes
    const int m0 = blockIdx.x % GROUPS * MAPS, count = min(MAPS, M - m0);
    const int first = blockIdx.x / GROUPS, blocks = gridDim.x / GROUPS;

    if (warp < COMPUTE || warp >= COMPUTE + FETCH) {
        arrange(weights, k + m0 * C * K * K, count, 32 * (warp < COMPUTE ? warp : warp - FETCH) + lane);
        publish();
        barrier(ARRANGED, COMPUTE + STORE);
    }

    if (warp < COMPUTE) {
        for (int b = first, turn = 0; b < B; b += blocks, turn ^= 1) {
            barrier(IMAGE, COMPUTE + FETCH);                // this image is complete
            for (int unit = warp / 4; unit < (WINDOWS + 63) / 64; unit += COMPUTE / 4) {
                const int window = 64 * unit + warp % 4 * 16 + lane / 4;
                auto left_of = [&](int window) {
                    const int strip = window / ACROSS, place = window % ACROSS;
                    return (const unsigned *)(images + turn * IMAGE_PIECES)
                        + strip * DOWN * TALL * PITCH + (place + lane % 4) * WORDS;
                };
                const int last = WINDOWS - 1;
                const unsigned *left[] = {left_of(min(window, last)), left_of(min(window + 8, last))};
                float sum[TALL][N / 2] = {};
                Columns at = columns<N>(weights);
                #pragma unroll 1
                for (int i = 0; i < TURNS; ++i, at += STEPS * 2 * N) {
                    multiply(sum, left, at);
                    left[0] += TOGETHER * H * PITCH;
                    left[1] += TOGETHER * H * PITCH;
                }
                if (OUTS == 1 && unit < COMPUTE / 4)
                    barrier(STORED, COMPUTE + STORE);       // `out` may be overwritten
                store((half *)(outs + turn % OUTS * OUT_PIECES), sum, window, count);
                __syncwarp();                                   // products are for whole warps
            }
            publish();
            barrier(OUTPUT, COMPUTE + STORE);               // complete; the maps before them are stored
        }
    } else if (warp < COMPUTE + FETCH) {
        const int thread = (warp - COMPUTE) * 32 + lane;
        for (int slot = 0; slot < 2; ++slot)                // beyond the image: 0 times a NaN would be a NaN
            for (int i = C * H * PITCH + thread; i < 4 * IMAGE_PIECES; i += 32 * FETCH)
                ((unsigned *)(images + slot * IMAGE_PIECES))[i] = 0;
        for (int b = first, turn = 0; b < B; b += blocks, turn ^= 1) {
            uint4 *image = images + turn * IMAGE_PIECES;
            const half *from = x + (size_t)b * C * H * W;
            if (C * H * W % 4 == 0 && W % 2 == 0) {
                constexpr int PIECE = C * H * W % 8 ? 4 : 8;
                #pragma unroll 4
                for (int i = PIECE * thread; i < C * H * W; i += PIECE * 32 * FETCH)
                    __pipeline_memcpy_async((half *)image + i, from + i, 2 * PIECE);
                __pipeline_commit();
                __pipeline_wait_prior(0);
            } else if (C * H * W % 4 == 0) {                // four pixels are four words
                constexpr int FOURS = (C * H * W + 3) / 4, EACH = (FOURS + 32 * FETCH - 1) / (32 * FETCH);
                constexpr int BATCH = EACH < 35 ? EACH : 35;    // 35: all of layer 2 of lenet72 at once
                const uint2 *fours = (const uint2 *)from;
                for (int start = thread; start < FOURS; start += BATCH * 32 * FETCH) {
                    uint2 four[BATCH];
                    unsigned next[BATCH];
                    #pragma unroll
                    for (int j = 0; j < BATCH; ++j)
                        if (const int i = start + j * 32 * FETCH; i < FOURS) {
                            four[j] = fours[i];
                            next[j] = fours[min(i + 1, FOURS - 1)].x;
                        }
                    #pragma unroll
                    for (int j = 0; j < BATCH; ++j)
                        if (const int i = start + j * 32 * FETCH; i < FOURS)
                            image[i] = make_uint4(four[j].x, __byte_perm(four[j].x, four[j].y, 0x5432),
                                                  four[j].y, __byte_perm(four[j].y, next[j], 0x5432));
                }
            } else                                          // any alignment; no pixel follows the last
                #pragma unroll 4
                for (int i = thread; i < C * H * PITCH; i += 32 * FETCH) {
                    const half *two = from + i * 2 / WORDS;
                    ((half2 *)image)[i] = __halves2half2(two[0], two[i < C * H * PITCH - 1 || WORDS == 1]);
                }
            barrier(IMAGE, COMPUTE + FETCH);                // complete; the one before is read no more
        }
    } else {
        const int thread = (warp - COMPUTE - FETCH) * 32 + lane;
        constexpr bool BULK = BULK_COPIES && M % MAPS == 0 && MAPS * Ho * Wo % 8 == 0;
        for (int b = first, turn = 0; b < B; b += blocks, turn ^= 1) {
            if (OUTS == 1)
                barrier(STORED, COMPUTE + STORE);
            barrier(OUTPUT, COMPUTE + STORE);
            const half *from = (const half *)(outs + turn % OUTS * OUT_PIECES);
            half *to = y + ((size_t)b * M + m0) * Ho * Wo;
            if (BULK) {
                if (thread == 0)
                    copy_out<2 * MAPS * Ho * Wo>(to, from);
                commit_copies();
                wait_for_copies<0>();                       // `out` may be overwritten
            } else {
                using Piece = std::conditional_t<M * Ho * Wo % 2 || MAPS * Ho * Wo % 2, half, half2>;
                constexpr int PIECE = sizeof(Piece) / 2;
                #pragma unroll 8
                for (int i = PIECE * thread; i < count * Ho * Wo; i += PIECE * 32 * STORE)
                    *(Piece *)&to[i] = *(const Piece *)&from[i];
            }
        }
    }
}
