// 11 split floats, warpgroups: products of four warps.
//
// Idea      wgmma, of compute capability 9.0, multiplies for four warps at once: 64 rows, windows of the
//           split image in registers, times both parts of the weights of a group of maps in shared memory.
//           The weights stay there for all images. A word of the image, once in a register, serves all maps.
// Delta     from the rung: rows and columns of a product change places, and maps that do not fit in shared
//           memory are another block's. More maps fit in a block that holds one image and stores its maps
//           in STAGES; they leave as bulk copies. The fetch warps split an image in registers, and give the
//           compute warps those that they do not need. Each block arranges the weights that it needs: there
//           is one launch.
// Shapes    x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo], float32, row-major; Ho = H-K+1, Wo = W-K+1.
// Launch    grid GROUPS times any number of blocks, each of which computes many images; block
//           (32, COMPUTE + FETCH + STORE), COMPUTE a multiple of 4, FETCH + STORE = 4. Shared memory: the
//           weights of a group, IMAGES images with four bytes per pixel, OUTS times MAPS / STAGES maps with
//           gaps, an exponent per map. IMAGES and OUTS are 1 or 2.
// Requires  K <= 7; compute capability 8.0, and 9.0 for wgmma. Errors are relative to the largest |x| of the
//           image and the largest |k| of the map. An image or a mask that is not finite is computed without
//           the tensor cores. MAPS is a multiple of 4 STAGES, at most 24. With several stages, one round of
//           the compute warps covers all windows. Compiled once for each layer and choice of sizes.

#include "warpgroups.cuh"
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
// If W is even, a word in shared memory is two high parts or two low parts: first all high ones, then all low
// ones. Else it has both parts of a pixel, so that every window begins at a word.
constexpr bool PLANES = W % 2 == 0;
constexpr int WORDS = 1 + W % 2, PITCH = W * WORDS / 2, LOW = 2 * FOURS;     // of two pixels, of a row
constexpr int STAGED = MAPS / STAGES;                       // maps that are stored at once
constexpr int PART_PIECES = TURNS * STEPS * 2 * N;          // of 16 bytes: one part of the weights of a group
constexpr int THREADS = 32 * (COMPUTE + FETCH + STORE);
constexpr int IMAGE = 1, OUTPUT = 2, TEAM = 3, STORED = 4, READ = 5, ARRANGED = 6;            // barriers
constexpr int HELD = 3;                                     // rows in registers
constexpr bool MOVE_REGISTERS = COMPUTE == 8;               // 168 per thread are too few for them
static_assert(1 <= K && K <= 7 && 1 <= TALL && 1 <= MAPS && MAPS <= 24);
static_assert(1 <= STAGES && MAPS % (4 * STAGES) == 0);
static_assert((STAGES == 1 || ROUNDS == 1) && (IMAGES == 1 || IMAGES == 2) && (OUTS == 1 || OUTS == 2));
static_assert(COMPUTE >= 4 && COMPUTE % 4 == 0 && 1 <= FETCH && 1 <= STORE && FETCH + STORE == 4);
static_assert(THREADS <= 1024);

// The map of pair i of columns in eight j. EIGHTS of them have the maps of a stage.
constexpr int EIGHTS = STAGED / 4;
__device__ inline int map_of(int j, int i) { return j / EIGHTS * STAGED + i * EIGHTS + j % EIGHTS; }

// Lanes beside each other store to maps that are EIGHTS apart. A gap behind as many lets four lanes, which
// store two outputs each, reach different banks: 8 words. A bulk copy moves a RUN of outputs.
constexpr int BETWEEN = EIGHTS * Ho * Wo, GAP = BETWEEN % 4 ? 0 : (40 - BETWEEN % 32) % 32;
constexpr int RUNS = GAP ? 4 : 1, RUN = 4 * BETWEEN / RUNS, OUT_FOURS = (4 * (BETWEEN + GAP) + 3) / 4;
constexpr bool BULK = BULK_COPIES && M % MAPS == 0 && RUN % 4 == 0;

// Where output i of a stage is in shared memory.
__device__ inline int place(int i) { return GAP ? i + i / BETWEEN * GAP : i; }

// Two floats as words of two halves each: their high parts, their low parts.
__device__ inline uint2 halves(float v, float w)
{
    const half2 high = __floats2half2_rn(v, w);
    const half2 low = __floats2half2_rn(v - __low2float(high), w - __high2float(high));
    return make_uint2(word_of(high), word_of(low));
}

// The weights of `count` maps, as products read them: [2,TURNS,STEPS,2,N] pieces of 8 terms, high parts, then
// low ones; and an exponent per map. This is for the compute warps.
__device__ inline void arrange(uint4 *weights, int *exponents, const float *__restrict__ k, int count,
                               int thread)
{
    for (int m = thread / 32; m < MAPS; m += COMPUTE) {     // a warp looks through a map's mask
        int bits = 0;
        if (m < count)
            #pragma unroll 20                               // as many loads are on their way at once
            for (int first = 0; first < C * K * K; first += 32)
                if (const int j = first + thread % 32; j < C * K * K)
                    bits = max(bits, magnitude(k[m * C * K * K + j]));
        bits = __reduce_max_sync(0xffffffff, bits);
        if (thread % 32 == 0)
            exponents[m] = bits < INFINITE ? exponent(bits) - 14 : INFINITE;
    }
    barrier(ARRANGED, COMPUTE);                                 // the exponents are complete
    #pragma unroll 1
    for (int i = thread; i < PART_PIECES; i += 32 * COMPUTE) {
        const int column = i % N, second = i / N % 2, step = i / (2 * N) % STEPS, turn = i / (2 * N * STEPS);
        const bool tail = step == TOGETHER * (K / 2);       // the last rows of the channels
        const int m = map_of(column / 8, column / 2 % 4);
        const int c = turn * TOGETHER + (tail ? second : step / PAIRS);
        const int p = tail ? K - 1 : step % PAIRS * 2 + second;
        const bool inside = m < count && c < min(C, (turn + 1) * TOGETHER) && exponents[m] != INFINITE;
        const float scale = inside ? power(-exponents[m]) : 0;
        auto weight = [&](int term) {
            const int q = term - column % 2;                // the mask moves right by the output's column
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
            weights[part * PART_PIECES + i] =
                make_uint4(parts[part][0], parts[part][1], parts[part][2], parts[part][3]);
    }
}

// A turn of products: for each row high high, low high and high low, a batch each. While one is computed, the
// registers of the next one are filled. Of each row of inputs the lane has two pixels of two windows, left[0]
// and left[1].
__device__ inline void multiply(float (&sum)[TALL][N / 2], const unsigned *const (&left)[2], Columns weights)
{
    unsigned rows[HELD][2][TOGETHER][2];                    // the last ones: high parts, low parts
    auto load = [&](int h) {
        #pragma unroll
        for (int t = 0; t < TOGETHER; ++t)
            #pragma unroll
            for (int i = 0; i < 2; ++i) {
                const unsigned *at = left[i] + (t * H + h) * PITCH;
                const unsigned one = at[0], other = at[PLANES ? LOW : 1];
                rows[h % HELD][0][t][i] = PLANES ? one : __byte_perm(one, other, 0x5410);
                rows[h % HELD][1][t][i] = PLANES ? other : __byte_perm(one, other, 0x7632);
            }
    };
    load(0);
    if (K > 1)
        load(1);                                            // no window ends in row 0
    #pragma unroll
    for (int h = K > 1; h < INPUTS; ++h)
        #pragma unroll
        for (int product_of = 0; product_of < 3; ++product_of) {
            const int part = product_of == 1, of_weights = product_of == 2;
            begin();
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
            commit();
            wait<1>();                                      // what the batch before this one read is free
            if (product_of == 0 && h < INPUTS - 1)
                load(h + 1);
        }
    wait<0>();
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
            float *at = maps + ((m - stage * STAGED) * Ho + h0) * Wo + threadIdx.x % 4 * GAP + w;
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
        maps[place(i)] = sum;
    }
}

// Split an image: each thread holds a part of it in registers, so that the largest pixel is known before the
// image in its place may be overwritten: then `wait` returns. What does not fit is read twice. `partial` has
// room for an integer per warp.
template <class Wait>
__device__ inline void fetch(float4 *image, int *largest, int *partial, const float *__restrict__ x,
                             int thread, Wait wait)
{
    constexpr int PIXELS = C * H * W, EACH = (PIXELS + 128 * FETCH - 1) / (128 * FETCH);    // of fours
    constexpr int BATCHES = (EACH + 12) / 13, BATCH = (EACH + BATCHES - 1) / BATCHES;
    float4 four[BATCH];
    auto load = [&](int batch) {
        #pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const int i = 4 * ((batch * BATCH + j) * 32 * FETCH + thread);
            auto pixel = [&](int i) { return i < PIXELS ? x[i] : 0; };
            if (PIXELS % 4)
                four[j] = make_float4(pixel(i), pixel(i + 1), pixel(i + 2), pixel(i + 3));
            else
                four[j] = i < PIXELS ? *(const float4 *)&x[i] : make_float4(0, 0, 0, 0);
        }
    };
    int bits = 0;
    #pragma unroll 1
    for (int batch = 0; batch < BATCHES; ++batch) {
        load(batch);
        #pragma unroll
        for (const float4 &v : four) {
            bits = max(bits, max(magnitude(v.x), magnitude(v.y)));
            bits = max(bits, max(magnitude(v.z), magnitude(v.w)));
        }
    }
    bits = __reduce_max_sync(0xffffffff, bits);
    if (threadIdx.x == 0)
        partial[thread / 32] = bits;
    barrier(TEAM, FETCH);
    #pragma unroll
    for (int warp = 0; warp < FETCH; ++warp)
        bits = max(bits, partial[warp]);
    const float scale = power(14 - exponent(bits));
    wait();
    if (thread == 0)
        *largest = bits;
    #pragma unroll 1
    for (int batch = BATCHES - 1; batch >= 0; --batch) {
        if (batch < BATCHES - 1)
            load(batch);
        #pragma unroll
        for (int j = 0; j < BATCH; ++j) {
            const int i = (batch * BATCH + j) * 32 * FETCH + thread;
            const float4 &v = four[j];
            if (PLANES) {
                if (4 * i >= PIXELS)
                    continue;
                const uint2 left = halves(v.x * scale, v.y * scale), right = halves(v.z * scale, v.w * scale);
                ((uint2 *)image)[i] = make_uint2(left.x, right.x);
                ((uint2 *)image)[LOW / 2 + i] = make_uint2(left.y, right.y);
            } else {
                const float2 left = split(v.x * scale, v.y * scale), right = split(v.z * scale, v.w * scale);
                if (4 * i < PIXELS)
                    image[i] = make_float4(left.x, left.y, right.x, right.y);
            }
        }
    }
}

extern "C" __global__ __launch_bounds__(THREADS, 1)
void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
          int B, int, int, int, int, int)
{
    extern __shared__ uint4 weights[];                      // [2 PART_PIECES]; behind them images and maps
    __shared__ int largest[2], partial[2][FETCH];           // pixels of images; of what a warp holds of one
    float4 *images = (float4 *)(weights + 2 * PART_PIECES);                  // [IMAGES][FOURS]
    float4 *outs = images + IMAGES * FOURS;                                  // [OUTS][OUT_FOURS]
    int *exponents = (int *)(outs + OUTS * OUT_FOURS);                       // [MAPS]
    const int lane = threadIdx.x, warp = __shfl_sync(0xffffffff, threadIdx.y, 0);    // the same of all lanes
    const int m0 = blockIdx.x % GROUPS * MAPS, count = min(MAPS, M - m0);
    const int first = blockIdx.x / GROUPS, blocks = gridDim.x / GROUPS;
    k += m0 * C * K * K;

    if (warp < COMPUTE) {
        if (MOVE_REGISTERS)
            take_registers<216>();
        arrange(weights, exponents, k, count, 32 * warp + lane);
        publish();
        barrier(ARRANGED, COMPUTE);
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
                    publish();
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
                    return (const unsigned *)(images + turn * FOURS) + strip * TALL * PITCH
                        + (place + lane % 4) * WORDS;
                };
                const int last = WINDOWS - 1;
                const unsigned *left[] = {left_of(min(window, last)), left_of(min(window + 8, last))};
                float sum[TALL][N / 2] = {};
                Columns at = columns<N>(weights);
                const int turns = UNITS % AT_ONCE == 0 || unit < UNITS ? TURNS : 0;
                #pragma unroll 1
                for (int i = 0; i < turns; ++i, at += STEPS * 2 * N) {
                    multiply(sum, left, at);
                    left[0] += TOGETHER * H * PITCH;
                    left[1] += TOGETHER * H * PITCH;
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
                        publish();
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
        for (int slot = 0; slot < IMAGES; ++slot)           // beyond the image: 0 times a NaN would be a NaN
            for (int i = C * H * PITCH + thread; i < (PLANES ? LOW : 2 * LOW); i += 32 * FETCH)
                for (int part = 0; part <= PLANES; ++part)
                    ((unsigned *)(images + slot * FOURS))[part * LOW + i] = 0;
        for (int b = first, n = 0; b < B; b += blocks, ++n) {
            const int turn = n % IMAGES;
            auto wait = [&] {
                if (IMAGES == 1 && n > 0)
                    barrier(READ, COMPUTE + FETCH);         // the image before it may be overwritten
            };
            fetch(images + turn * FOURS, largest + turn, partial[n % 2], x + (size_t)b * C * H * W, thread,
                  wait);
            barrier(IMAGE, COMPUTE + FETCH);                // split; with two images, the one before may go
        }
        if (IMAGES == 1 && first < B)
            barrier(READ, COMPUTE + FETCH);                 // that of the last image
    } else {
        using Piece = std::conditional_t<M * Ho * Wo % 4 || STAGED * Ho * Wo % 4, float, float4>;
        constexpr int PIECE = sizeof(Piece) / 4;
        const int thread = (warp - COMPUTE - FETCH) * 32 + lane;
        for (int b = first, slot = 0; b < B; b += blocks)
            for (int m = 0; m < MAPS; m += STAGED, slot = (slot + 1) % OUTS) {
                if (OUTS == 1)
                    barrier(STORED, COMPUTE + STORE);       // those before them are
                barrier(OUTPUT, COMPUTE + STORE);
                const float *from = (const float *)(outs + slot * OUT_FOURS);
                float *to = y + ((size_t)b * M + m0 + m) * Ho * Wo;
                if constexpr (BULK) {
                    if (thread < RUNS)
                        copy_out<4 * RUN>(to + thread * RUN, from + thread * (RUN + GAP));
                    commit_copies();
                    wait_for_copies<0>();                   // `outs` may be overwritten
                } else
                    #pragma unroll 8
                    for (int i = PIECE * thread; i < min(STAGED, count - m) * Ho * Wo;
                         i += PIECE * 32 * STORE)
                        *(Piece *)&to[i] = *(const Piece *)&from[place(i)];
            }
    }
}
