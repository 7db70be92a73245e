// 11 split floats, warpgroups: products of four warps.
//
// Idea      wgmma, of compute capability 9.0, multiplies for four warps at once: 64 rows, windows of the
//           split image in registers, times both parts of the weights of a group of maps in shared memory.
//           The weights stay there for all images. A word of the image, once in a register, serves all maps.
// Delta     from the rung: rows and columns of a product change places, and maps that do not fit in shared
//           memory are another block's. More maps fit in a block that holds one image and stores its maps
//           in STAGES. The compute warps take registers that the others do not need.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1. The
//           arranged mask a [GROUPS,2,TURNS,STEPS,2,2 MAPS] has 16 bytes per column and half of a step: 8
//           terms; first their high parts, then the low ones. Behind it are an exponent per map, and a copy
//           of k.
// Launch    arrange: grid (TURNS, GROUPS), block (32, STEPS). conv: grid GROUPS times any number of blocks,
//           each of which computes many images; block (32, COMPUTE + FETCH + STORE), COMPUTE a multiple of 4,
//           FETCH + STORE = 4. Shared memory: the weights of a group, IMAGES images with four bytes per
//           pixel, OUTS times MAPS / STAGES maps, an exponent per map. IMAGES and OUTS are 1 or 2.
// Requires  K <= 7; compute capability 8.0, and 9.0 for wgmma. Errors are relative to the largest |x| of the
//           image and the largest |k| of the map. An image or a mask that is not finite is computed without
//           the tensor cores. MAPS is a multiple of 4 STAGES, at most 24. With several stages, one round of
//           the compute warps covers all windows. Compiled once for each layer and choice of sizes.

#include "warpgroups.cuh"
#include <cuda_pipeline_primitives.h>
#include <type_traits>

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int GROUPS = (M + MAPS - 1) / MAPS, N = 2 * MAPS;                  // columns of a product
constexpr int TOGETHER = C > 1 && K % 2 ? 2 : 1;            // two channels share a step for their last rows
constexpr int PAIRS = K > 1 ? K / 2 : 1;                    // of rows in a window
constexpr int STEPS = (TOGETHER * K + 1) / 2, TURNS = (C + TOGETHER - 1) / TOGETHER;
constexpr int ACROSS = (Wo + 1) / 2, STRIPS = (Ho + TALL - 1) / TALL, WINDOWS = STRIPS * ACROSS;
constexpr int INPUTS = TALL + K - 1, ROWS = TALL * (STRIPS - 1) + INPUTS;    // of a strip, of all strips
constexpr int UNITS = (WINDOWS + 63) / 64, AT_ONCE = COMPUTE / 4, ROUNDS = (UNITS + AT_ONCE - 1) / AT_ONCE;
constexpr int FOURS = ((TURNS * TOGETHER - 1) * H * W + ROWS * W + 11) / 4;  // of pixels in shared memory
constexpr int STAGED = MAPS / STAGES, OUTPUTS = STAGED * Ho * Wo;            // maps that are stored at once
constexpr int OUT_FOURS = (OUTPUTS + 3) / 4;
constexpr int PART_PIECES = TURNS * STEPS * 2 * N;          // of 16 bytes: one part of the weights of a group
constexpr int COPY = GROUPS * 2 * PART_PIECES, THREADS = 32 * (COMPUTE + FETCH + STORE);
constexpr int IMAGE = 1, OUTPUT = 2, TEAM = 3, STORED = 4, READ = 5;         // barriers
constexpr bool TWO_BATCHES = C > 1 && MAPS >= 16 && TALL * MAPS < 80;        // if there are registers enough
constexpr int HELD = TWO_BATCHES ? 4 : 3;                   // rows in registers
constexpr bool MOVE_REGISTERS = COMPUTE == 8;               // 168 per thread are too few for them
static_assert(1 <= K && K <= 7 && 1 <= TALL && 1 <= MAPS && MAPS <= 24);
static_assert(1 <= STAGES && MAPS % (4 * STAGES) == 0);
static_assert((STAGES == 1 || ROUNDS == 1) && (IMAGES == 1 || IMAGES == 2) && (OUTS == 1 || OUTS == 2));
static_assert(COMPUTE >= 4 && COMPUTE % 4 == 0 && 1 <= FETCH && 1 <= STORE && FETCH + STORE == 4);
static_assert(THREADS <= 1024);

// The map of pair i of columns in eight j. EIGHTS of them have the maps of a stage.
constexpr int EIGHTS = STAGED / 4;
__device__ inline int map_of(int j, int i) { return j / EIGHTS * STAGED + i * EIGHTS + j % EIGHTS; }

extern "C" __global__
void arrange(const float *x, const float *__restrict__ k, uint4 *__restrict__ a, int, int, int, int, int, int)
{
    __shared__ int largest[MAPS];
    const int lane = threadIdx.x, step = threadIdx.y, turn = blockIdx.x, group = blockIdx.y;
    int *exponents = (int *)(a + COPY);
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
        if (lane == 0 && turn == 0)
            exponents[group * MAPS + i] = bits < INFINITE ? exponent(bits) - 14 : INFINITE;
    }
    __syncthreads();

    const bool tail = step == TOGETHER * (K / 2);           // the last rows of the channels
    for (int i = lane; i < 2 * N; i += 32) {
        const int second = i / N, column = i % N, of = map_of(column / 8, column / 2 % 4);
        const int m = group * MAPS + of;
        const int c = turn * TOGETHER + (tail ? second : step / PAIRS);
        const int p = tail ? K - 1 : step % PAIRS * 2 + second;
        const bool inside = m < M && c < min(C, (turn + 1) * TOGETHER);
        auto weight = [&](int term) {
            const int q = term - column % 2;                // the mask moves right by the output's column
            const float scale = power(14 - exponent(largest[of]));
            return inside && 0 <= q && q < K ? k[((m * C + c) * K + p) * K + q] * scale : 0;
        };
        unsigned parts[2][4];
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float2 two = split(weight(2 * j), weight(2 * j + 1));
            const unsigned first = __float_as_uint(two.x), other = __float_as_uint(two.y);
            parts[0][j] = __byte_perm(first, other, 0x5410);
            parts[1][j] = __byte_perm(first, other, 0x7632);
        }
        #pragma unroll
        for (int part = 0; part < 2; ++part)
            a[(((group * 2 + part) * TURNS + turn) * STEPS + step) * 2 * N + i] =
                make_uint4(parts[part][0], parts[part][1], parts[part][2], parts[part][3]);
    }
}

// A turn of products: high high, low high and high low. Of each row of inputs the lane has two pixels of two
// windows, left[0] and left[1].
__device__ inline void multiply(float (&sum)[TALL][N / 2], const unsigned *const (&left)[2], Columns weights)
{
    unsigned rows[HELD][2][TOGETHER][2];                    // the last ones: high parts, low parts
    auto load = [&](int h) {
        #pragma unroll
        for (int t = 0; t < TOGETHER; ++t)
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                const unsigned *at = left[i] + (t * H + h) * W;
                const uint2 two = W % 2 ? make_uint2(at[0], at[1]) : *(const uint2 *)at;
                rows[h % HELD][0][t][i] = __byte_perm(two.x, two.y, 0x5410);
                rows[h % HELD][1][t][i] = __byte_perm(two.x, two.y, 0x7632);
            }
    };
    load(0);
    if (K > 1)
        load(1);                                            // no window ends in row 0
    #pragma unroll
    for (int h = K > 1; h < INPUTS; ++h) {
        begin();
        #pragma unroll
        for (int product_of = 0; product_of < 3; ++product_of) {
            const int part = product_of == 1, of_weights = product_of == 2;
            #pragma unroll
            for (int step = 0; step < STEPS; ++step) {
                const bool tail = step == TOGETHER * (K / 2);
                const int last = tail ? K - 1 : step % PAIRS * 2 + 1;        // row of the window
                const int t = tail ? 0 : step / PAIRS, u = tail ? TOGETHER - 1 : t;
                const unsigned (&first)[2] = rows[(tail ? h : h + HELD - 1) % HELD][part][t];
                const unsigned (&second)[2] = rows[h % HELD][part][u];
                if (h >= last && h - last < TALL)
                    product<N>(sum[h - last], first[0], first[1], second[0], second[1],
                               weights + of_weights * PART_PIECES + step * 2 * N);
            }
        }
        commit();
        if (h < INPUTS - 1)
            load(h + 1);
        if (h < INPUTS - 1 && TWO_BATCHES)
            wait<1>();                                      // what the batch before this one read is free
        else
            wait<0>();
    }
}

// Store the lane's sums of a stage, times 2^e and the power of two of the map: two outputs side by side of
// the window and of the one eight further.
__device__ inline void store(float *maps, const float (&sum)[TALL][N / 2], int stage, int window,
                             const int *exponents, int e, int count)
{
    #pragma unroll
    for (int i = 0; i < 2; ++i, window += 8) {
        const int w = window % ACROSS * 2, h0 = window / ACROSS * TALL;
        if (window >= WINDOWS)
            continue;
        #pragma unroll
        for (int j = stage * EIGHTS; j < (stage + 1) * EIGHTS; ++j) {
            const int m = map_of(j, threadIdx.x % 4);
            if (m >= count)
                continue;
            const int all = e + exponents[m];
            const float some = power(all / 2), others = power(all - all / 2);    // 2^all may be no float
            float *at = maps + ((m - stage * STAGED) * Ho + h0) * Wo + w;
            #pragma unroll
            for (int t = 0; t < TALL; ++t, at += Wo) {
                if (h0 + t >= Ho)
                    continue;
                const float *two = &sum[t][4 * j + 2 * i];
                const float2 result = make_float2(two[0] * some * others, two[1] * some * others);
                if (Wo % 2 == 0)
                    *(float2 *)at = result;
                else {
                    at[0] = result.x;
                    if (w + 1 < Wo)
                        at[1] = result.y;
                }
            }
        }
    }
}

// `count` maps without tensor cores: infinities and NaN spread as far as the formula says.
__device__ inline void direct(float *maps, const float *x, const float *k, int count)
{
    for (int i = threadIdx.y * 32 + threadIdx.x; i < count * Ho * Wo; i += 32 * COMPUTE) {
        const float *window = x + i / Wo % Ho * W + i % Wo, *mask = k + i / (Ho * Wo) * C * K * K;
        float sum = 0;
        for (int term = 0; term < C * K * K; ++term)
            sum += window[(term / (K * K) * H + term / K % K) * W + term % K] * mask[term];
        maps[i] = sum;
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 1)
void conv(const float *__restrict__ x, const uint4 *__restrict__ a, float *__restrict__ y,
          int B, int, int, int, int, int)
{
    extern __shared__ uint4 weights[];                      // [2 PART_PIECES]; behind them images and maps
    __shared__ int largest[2];                              // of the images
    float4 *images = (float4 *)(weights + 2 * PART_PIECES);                  // [IMAGES][FOURS]
    float4 *outs = images + IMAGES * FOURS;                                  // [OUTS][STAGED,Ho,Wo]
    int *exponents = (int *)(outs + OUTS * OUT_FOURS);                       // [MAPS]
    const int lane = threadIdx.x, warp = threadIdx.y;
    const int m0 = blockIdx.x % GROUPS * MAPS, count = min(MAPS, M - m0);
    const int first = blockIdx.x / GROUPS, blocks = gridDim.x / GROUPS;
    const float *k = (const float *)((const int *)(a + COPY) + GROUPS * MAPS) + m0 * C * K * K;

    for (int i = 32 * warp + lane; i < 2 * PART_PIECES; i += THREADS)
        weights[i] = a[m0 / MAPS * 2 * PART_PIECES + i];
    for (int i = 32 * warp + lane; i < IMAGES * FOURS; i += THREADS)
        images[i] = make_float4(0, 0, 0, 0);                // beyond the image: 0 times a NaN would be a NaN
    for (int i = 32 * warp + lane; i < MAPS; i += THREADS)
        exponents[i] = ((const int *)(a + COPY))[m0 + i];
    publish();
    __syncthreads();

    if (warp < COMPUTE) {
        if (MOVE_REGISTERS)
            take_registers<216>();
        bool finite = true;                                 // the weights of these maps
        for (int i = 0; i < MAPS; ++i)
            finite &= exponents[i] != INFINITE;
        for (int b = first, turn = 0, slot = 0; b < B; b += blocks, turn = (turn + 1) % IMAGES) {
            barrier(IMAGE, COMPUTE + FETCH);                // this image is split
            const int bits = largest[turn];
            if (bits >= INFINITE || !finite) {
                for (int m = 0; m < MAPS; m += STAGED, slot = (slot + 1) % OUTS) {
                    if (OUTS == 1)
                        barrier(STORED, COMPUTE + STORE);   // `outs` may be overwritten
                    direct((float *)(outs + slot * OUT_FOURS), x + (size_t)b * C * H * W, k + m * C * K * K,
                           min(STAGED, count - m));
                    barrier(OUTPUT, COMPUTE + STORE);       // complete; those before are stored
                }
                if (IMAGES == 1)
                    barrier(READ, COMPUTE + FETCH);
                continue;
            }
            #pragma unroll 1
            for (int round = 0; round < ROUNDS; ++round) {  // as many for all warps: `at` stays uniform
                const int unit = round * AT_ONCE + warp / 4, window = 64 * unit + warp % 4 * 16 + lane / 4;
                auto left_of = [&](int window) {
                    const int strip = window / ACROSS, place = window % ACROSS;
                    return (const unsigned *)(images + turn * FOURS) + strip * TALL * W
                        + (place + lane % 4) * 2;
                };
                const int last = WINDOWS - 1;
                const unsigned *left[] = {left_of(min(window, last)), left_of(min(window + 8, last))};
                float sum[TALL][N / 2] = {};
                Columns at = columns<N>(weights);
                const int turns = UNITS % AT_ONCE == 0 || unit < UNITS ? TURNS : 0;
                #pragma unroll 1
                for (int i = 0; i < turns; ++i, at += STEPS * 2 * N) {
                    multiply(sum, left, at);
                    left[0] += TOGETHER * H * W;
                    left[1] += TOGETHER * H * W;
                }
                if (IMAGES == 1 && round == ROUNDS - 1)
                    barrier(READ, COMPUTE + FETCH);         // the image may be overwritten
                #pragma unroll
                for (int stage = 0; stage < STAGES; ++stage) {
                    if (OUTS == 1 && round == 0)
                        barrier(STORED, COMPUTE + STORE);
                    store((float *)(outs + slot * OUT_FOURS), sum, stage, window, exponents,
                          exponent(bits) - 14, count);
                    __syncwarp();                           // products are for whole warps
                    if (round == ROUNDS - 1) {
                        barrier(OUTPUT, COMPUTE + STORE);
                        slot = (slot + 1) % OUTS;
                    }
                }
            }
        }
        return;
    }
    if (MOVE_REGISTERS)
        give_registers<72>();
    if (warp < COMPUTE + FETCH) {
        const int thread = (warp - COMPUTE) * 32 + lane;
        for (int b = first, turn = 0; b < B; b += blocks, turn = (turn + 1) % IMAGES) {
            float4 *image = images + turn * FOURS;
            constexpr int PIECE = C * H * W % 4 ? 1 : 4;
            #pragma unroll 4
            for (int i = PIECE * thread; i < C * H * W; i += PIECE * 32 * FETCH)
                __pipeline_memcpy_async((float *)image + i, x + (size_t)b * C * H * W + i, 4 * PIECE);
            __pipeline_commit();
            if (thread == 0)
                largest[turn] = 0;
            __pipeline_wait_prior(0);
            barrier(TEAM, FETCH);                           // the image is complete
            int bits = 0;
            #pragma unroll 4
            for (int i = thread; i < FOURS; i += 32 * FETCH) {
                const float4 v = image[i];
                bits = max(bits, max(magnitude(v.x), magnitude(v.y)));
                bits = max(bits, max(magnitude(v.z), magnitude(v.w)));
            }
            bits = __reduce_max_sync(0xffffffff, bits);
            if (lane == 0)
                atomicMax(&largest[turn], bits);
            barrier(TEAM, FETCH);                           // its largest pixel is known
            const float scale = power(14 - exponent(largest[turn]));
            #pragma unroll 4
            for (int i = thread; i < FOURS; i += 32 * FETCH) {
                const float4 v = image[i];
                const float2 left = split(v.x * scale, v.y * scale), right = split(v.z * scale, v.w * scale);
                image[i] = make_float4(left.x, left.y, right.x, right.y);
            }
            barrier(IMAGE, COMPUTE + FETCH);                // split; with two images, the one before may go
            if (IMAGES == 1) {
                const float *next = x + (size_t)(b + blocks) * C * H * W;
                for (int i = 32 * thread; b + blocks < B && i < C * H * W; i += 32 * 32 * FETCH)
                    prefetch(next + i);
                barrier(READ, COMPUTE + FETCH);
            }
        }
    } else {
        using Piece = std::conditional_t<M * Ho * Wo % 4 || OUTPUTS % 4, float, float4>;
        constexpr int PIECE = sizeof(Piece) / 4;
        const int thread = (warp - COMPUTE - FETCH) * 32 + lane;
        for (int b = first, slot = 0; b < B; b += blocks)
            for (int m = 0; m < MAPS; m += STAGED, slot = (slot + 1) % OUTS) {
                if (OUTS == 1)
                    barrier(STORED, COMPUTE + STORE);       // those before them are
                barrier(OUTPUT, COMPUTE + STORE);
                const float *from = (const float *)(outs + slot * OUT_FOURS);
                float *to = y + ((size_t)b * M + m0 + m) * Ho * Wo;
                #pragma unroll 8
                for (int i = PIECE * thread; i < min(STAGED, count - m) * Ho * Wo; i += PIECE * 32 * STORE)
                    *(Piece *)&to[i] = *(const Piece *)&from[i];
            }
    }
}
