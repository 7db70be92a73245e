// 13 network, warpgroups: the whole of lenet86 on products of four warps.
//
// Idea      wgmma, of compute capability 9.0, multiplies for four warps at once: 64 windows in registers, times
//           the weights of all maps in shared memory. A team of four warps has an image of its own. The teams
//           of a block share the weights and never wait for each other: while one fetches or pools, others
//           multiply.
// Delta     from the kernel of page 13: in the first layer rows and columns of a product change places, as in
//           the steps warpgroups of rungs 10 and 11. Two windows side by side are a lane's, so that it has all
//           outputs of a pool's window. In the second layer the weights remain the rows: 16 maps of 2 x 2
//           outputs are 64. The columns are windows, and no warp loads them: the maps lie in shared memory as
//           wgmma reads them, and a window begins at any piece. All loads of an image's pixels are on their way
//           at once.
// Numbers   PRODUCTS = 1: halves. PRODUCTS = 3: a number is the sum of two halves. Scales and factors as there. The
//           second layer adds all small products first, while the sums that tensor cores truncate are small.
// Shapes    x [B,86,86] float32, or [B,SOURCE_H,SOURCE_W] bytes; y [B,10] float32. The arranged weights have 16
//           bytes per column of a product and 8 terms in the first layer, a1 [part,4,2,16]; 16 bytes per lane
//           and step in the second, a2 [part,16,4,32]. a3 and `dense` are those of page 13's kernel.
// Launch    any grid, one block per multiprocessor; block (32, 4 TEAMS). Team t of block b computes images
//           b + t gridDim.x, and so on, TEAMS gridDim.x further each. Dynamic shared memory: the weights, and
//           for each team its maps, an image, and the features of SLOTS images.
// Requires  |pixel| <= LIMIT: an image with another pixel, an infinity or a NaN gets ten NaN. Bytes:
//           SOURCE_W <= 39, or 86 x 86. SLOTS <= 8. Compute capability 8.0, and 9.0 for wgmma.

#include "network.cuh"
#include "warpgroups.cuh"

constexpr int THREADS = 128;                                // of a team
static_assert(1 <= TEAMS && THREADS * TEAMS <= 1024 && 1 <= SLOTS && SLOTS <= 8);

constexpr int DEPTH = PARTS;                                // batches of products on their way

// The first layer: a warpgroup computes 64 windows of 2 x 2 outputs at once, and TALL of them below each other. A step
// of a window is a pair of rows of inputs, 16 terms.
struct First {
    static constexpr int TALL = 5, STEPS = 4, N = 16, PITCH = SIZE / 2, PAIRS = TALL + STEPS - 1;
    static constexpr int HELD = 4;                          // pairs in registers
    static constexpr int WORDS = SIZE * PITCH, PIECES = STEPS * 2 * N;
    static constexpr int ACROSS = 40, WINDOWS = 8 * ACROSS;
};

// The second: a window of 64 outputs, 2 x 2 in 16 maps, is a column of a product. A piece of 16 bytes is two pixels
// side by side, of all maps. Pieces in rows 4 apart lie together, so eight columns are windows of eight pools below
// each other. The ninth pool's windows read a copy of their rows, and eight columns are side by side.
struct Second {
    static constexpr int ACROSS = 20, STEPS = 16, HELD = 5;
    static constexpr int BELOW = PARTS == 1 ? 11 : 10;      // pieces together; 11: neighbours in different banks
    static constexpr int LAST = 4 * ACROSS * BELOW;         // where the ninth pool's rows begin
    static constexpr int MAP_PIECES = LAST + 8 * ACROSS, WORDS = 4 * MAP_PIECES, PIECES = STEPS * THREADS;

    // Where row h of the maps is, in column x of pieces.
    __device__ static constexpr int piece(int h, int x) { return (h % 4 * ACROSS + x) * BELOW + h / 4; }
};
constexpr int POOLS = POOLED * POOLED;
static_assert(FEATURES == 16 * POOLS);

struct alignas(16) Team {
    alignas(16) unsigned maps[PARTS][Second::WORDS];
    unsigned image[PARTS][First::WORDS], features[PARTS][SLOTS * FEATURE_WORDS];
    unsigned refused;                                       // a bit per slot
};

__device__ inline int barrier_of_team() { return 1 + threadIdx.y / 4; }
__device__ inline void team_barrier() { barrier(barrier_of_team(), 4); }

// ------------------------------------------------------------------------------------------------------- the pixels
#if !defined SOURCE_W || SOURCE_W == 86 && SOURCE_H == 86
#ifdef SOURCE_W
typedef uchar4 Four;
#else
typedef float4 Four;
#endif
// Four pixels at `at`, as halves.
__device__ inline void keep_four(unsigned *at, float2 left, float2 right)
{
    #pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        const half2 a = __floats2half2_rn(left.x, left.y), b = __floats2half2_rn(right.x, right.y);
        *(uint2 *)(at + part * First::WORDS) = make_uint2(word_of(a), word_of(b));
        left = make_float2(left.x - __low2float(a), left.y - __high2float(a));
        right = make_float2(right.x - __low2float(b), right.y - __high2float(b));
    }
}

// Returns whether all of this thread's pixels are within the limit.
__device__ inline bool fetch(Team &s, const void *x, int b, int thread, float scale, float unit)
{
    constexpr int FOURS = SIZE * SIZE / 4, ROUNDS = (FOURS + THREADS - 1) / THREADS;
    const Four *from = (const Four *)x + (size_t)b * FOURS;
    const float factor = sizeof(Four) == sizeof(float4) ? scale : unit * scale;     // exact: a power of two
    Four v[ROUNDS];
    #pragma unroll
    for (int i = 0; i < ROUNDS; ++i)                        // all of them are on their way at once
        v[i] = from[min(i * THREADS + thread, FOURS - 1)];
    team_barrier();                                         // the image and the maps before are no longer read
    bool within = true;
    #pragma unroll
    for (int i = 0; i < ROUNDS; ++i) {
        if (sizeof(Four) == sizeof(float4))
            within &= fabsf(v[i].x) <= LIMIT && fabsf(v[i].y) <= LIMIT && fabsf(v[i].z) <= LIMIT
                && fabsf(v[i].w) <= LIMIT;
        if (const int at = i * THREADS + thread; at < FOURS)
            keep_four(s.image[0] + 2 * at, make_float2(factor * v[i].x, factor * v[i].y),
                      make_float2(factor * v[i].z, factor * v[i].w));
    }
    return within;
}
#else
// Bytes of another size. Rows lie where the maps will be.
__device__ inline bool fetch(Team &s, const void *x, int b, int, float scale, float unit)
{
    static_assert(SIZE * SOURCE_W <= Second::WORDS, "at most 39 columns");
    team_barrier();                                         // the image and the maps before are no longer read
    resize<4>(s.image[0], First::WORDS, (float *)s.maps[0], x, b, barrier_of_team(), scale, unit);
    return true;
}
#endif

// ------------------------------------------------------------------------------------------------- the convolutions
// The products of 64 windows, of which the lane reads words of two from `left` on. A pair of rows is step 0 of a
// window, step 1 of the one above it, and so on.
__device__ inline void multiply(float (&sum)[First::TALL][First::N / 2], const unsigned *left, Columns weights)
{
    constexpr int AHEAD = First::HELD - DEPTH;
    unsigned pairs[First::HELD][PARTS][4];
    auto load = [&](int pair) {
        #pragma unroll
        for (int part = 0; part < PARTS; ++part)
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                pairs[pair % First::HELD][part][i] =
                    left[part * First::WORDS + (2 * pair + i / 2) * First::PITCH + i % 2];
    };
    #pragma unroll
    for (int pair = 0; pair < AHEAD; ++pair)
        load(pair);
    #pragma unroll
    for (int pair = 0; pair < First::PAIRS; ++pair) {
        begin();
        #pragma unroll
        for (int i = 0; i < PRODUCTS; ++i)
            #pragma unroll
            for (int step = 0; step < First::STEPS; ++step)
                if (0 <= pair - step && pair - step < First::TALL) {
                    const unsigned (&a)[4] = pairs[pair % First::HELD][part_of_b(i)];
                    product<First::N>(sum[pair - step], a[0], a[1], a[2], a[3],
                                      weights + part_of_a(i) * First::PIECES + step * 2 * First::N, step + i > 0);
                }
        commit();
        if (pair < First::PAIRS - 1)
            wait<DEPTH>();                                  // what the batches before have read is free
        if (pair + AHEAD < First::PAIRS)
            load(pair + AHEAD);
    }
    wait<0>();
}

// The lane has windows 2 (lane / 4) and the next of its warp, with all outputs of map lane % 4: ReLU and the maximum.
__device__ inline void first(Team &s, Columns weights, float factor)
{
    const int lane = threadIdx.x;
    #pragma unroll 1
    for (int start = 0; start < First::WINDOWS; start += 64) {
        const int window = start + threadIdx.y % 4 * 16 + lane / 4 * 2;
        const int strip = window / First::ACROSS * First::TALL, w = window % First::ACROSS, x = w / 2;
        float sum[First::TALL][First::N / 2];
        multiply(sum, s.image[0] + strip * 2 * First::PITCH + w + lane % 4, weights);
        #pragma unroll
        for (int t = 0; t < First::TALL; ++t) {
            const float (&d)[8] = sum[t];
            const float left = factor * fmaxf(fmaxf(fmaxf(d[0], d[1]), fmaxf(d[4], d[5])), 0);
            const float right = factor * fmaxf(fmaxf(fmaxf(d[2], d[3]), fmaxf(d[6], d[7])), 0);
            const int h = strip + t;
            unsigned *to = s.maps[0] + lane % 4;
            keep_two(to + 4 * Second::piece(h, x), Second::WORDS, left, right);
            if (h >= 32)
                keep_two(to + 4 * (Second::LAST + (h - 32) * Second::ACROSS + x), Second::WORDS, left, right);
        }
        __syncwarp();                                       // products are for whole warps
    }
}

// The same of all lanes, so that the compiler keeps it, and sums with it, in registers of the warp.
__device__ inline Columns of_warp(Columns at)
{
    return at >> 32 << 32 | __shfl_sync(0xffffffff, (unsigned)at, 0);
}

// Windows `left` to left + ACROSS - 1 of eight pools below each other, and with LAST all of the ninth's. The lane has
// outputs of map lane / 8 of its warp, in row lane / 4 % 2 of windows of two pools.
template <int ACROSS, bool LAST>
__device__ inline void pools(Team &s, const uint4 *weights, int left, half *features, float factor)
{
    constexpr int AHEAD = Second::HELD - DEPTH, BELOW = Second::BELOW, N = 8 * ACROSS;
    constexpr int STEPS = Second::STEPS, LARGE = (PARTS - 1) * STEPS;        // where high high begins
    const int lane = threadIdx.x, lower = lane / 4 % 2;
    const uint4 *maps = (const uint4 *)s.maps[0];
    const Columns eight = of_warp(columns<BELOW, BELOW>(maps + left * BELOW));
    const Columns ninth = of_warp(columns<1>(maps + Second::LAST));
    float sum[2][N / 2], last[12];
    uint4 a[Second::HELD][PARTS];
    auto load = [&](int n) {
        #pragma unroll
        for (int part = 0; part < (n < LARGE ? PARTS : 1); ++part)
            a[n % Second::HELD][part] = weights[part * Second::PIECES + n % STEPS * THREADS];
    };
    #pragma unroll
    for (int n = 0; n < AHEAD; ++n)
        load(n);
    #pragma unroll
    for (int n = 0; n < LARGE + STEPS; ++n) {
        const int row = n % STEPS / 2, x = n % 2 * 2;
        begin();
        #pragma unroll
        for (int i = 0; i < PRODUCTS; ++i) {
            if ((i < PRODUCTS - 1) != (n < LARGE))          // all small products first, then high high
                continue;
            const uint4 &w = a[n % Second::HELD][part_of_a(i)];
            const int part = part_of_b(i) * Second::MAP_PIECES;
            const bool add = n + i > 0;
            #pragma unroll
            for (int below = 0; below < 2; ++below)
                product<N, BELOW, BELOW>(sum[below], w.x, w.y, w.z, w.w,
                                         eight + part + Second::piece(row + 2 * below, x), add);
            if (LAST)
                product<24, 1>(last, w.x, w.y, w.z, w.w, ninth + part + row * Second::ACROSS + x, add);
        }
        commit();
        if (n < LARGE + STEPS - 1)
            wait<DEPTH>();
        if (n + AHEAD < LARGE + STEPS)
            load(n + AHEAD);
    }
    wait<0>();
    auto store = [&](int h, int w, float most) {
        keep(features + h * POOLED + w, 2 * SLOTS * FEATURE_WORDS, factor * fmaxf(most, 0));
    };
    auto largest = [](const float (&d)[N / 2], int i) { return fmaxf(d[i], d[i + 2]); };
    #pragma unroll
    for (int j = 0; j < ACROSS; j += 2) {                   // two windows of a pool; its last one is cut at the edge
        float most[2];
        #pragma unroll
        for (int i = 0; i < 2; ++i) {
            most[i] = fmaxf(largest(sum[0], 4 * j + i), largest(sum[1], 4 * j + i));
            if (j + 1 < ACROSS)
                most[i] = fmaxf(most[i], fmaxf(largest(sum[0], 4 * j + 4 + i), largest(sum[1], 4 * j + 4 + i)));
        }
        const float other = __shfl_xor_sync(0xffffffff, lower ? most[0] : most[1], 4);
        store(lane % 4 * 2 + lower, (left + j) / 2, fmaxf(lower ? most[1] : most[0], other));
    }
    if (LAST)
        #pragma unroll
        for (int j = 0; j < 3; ++j) {
            const int w = 4 * j + lane % 4;
            const float even = fmaxf(last[4 * j], last[4 * j + 2]), odd = fmaxf(last[4 * j + 1], last[4 * j + 3]);
            const float most = w < POOLED - 1 ? fmaxf(even, odd) : even, other = __shfl_xor_sync(0xffffffff, most, 4);
            if (w < POOLED && !lower)
                store(POOLED - 1, w, fmaxf(most, other));
        }
    __syncwarp();                                           // products are for whole warps
}

__device__ inline void second(Team &s, const uint4 *weights, int slot, float factor)
{
    const int lane = threadIdx.x, warp = threadIdx.y % 4;
    half *features = (half *)(s.features[0] + slot * FEATURE_WORDS) + (4 * warp + lane / 8) * POOLS;
    pools<8, true>(s, weights + warp * 32 + lane, 0, features, factor);
    pools<9, false>(s, weights + warp * 32 + lane, 8, features, factor);
}

extern "C" __global__ __launch_bounds__(THREADS * TEAMS, 1)
void network(const void *__restrict__ x, const uint4 *__restrict__ a1, const uint4 *__restrict__ a2,
             const uint4 *__restrict__ a3, const float *__restrict__ dense, float *__restrict__ y, int B,
             float scale, float unit, float factor1, float factor2, float factor3)
{
    extern __shared__ uint4 weights[];                      // of both convolutions; behind them what each team has
    constexpr int SECOND = PARTS * First::PIECES, PIECES = SECOND + PARTS * Second::PIECES;
    Team *teams = (Team *)(weights + PIECES);
    const int first_thread = threadIdx.y * 32 + threadIdx.x;
    for (int i = first_thread; i < PIECES; i += THREADS * TEAMS)
        weights[i] = i < SECOND ? a1[i] : a2[i - SECOND];
    for (int i = first_thread; i < TEAMS * sizeof(Team) / 4; i += THREADS * TEAMS)
        ((unsigned *)teams)[i] = 0;                         // what no layer writes is read, and not used
    publish();
    __syncthreads();

    const int team = threadIdx.y / 4, stride = gridDim.x * TEAMS;
    Team &s = teams[team];
    int slot = 0;
    for (int b = blockIdx.x + gridDim.x * team; b < B; b += stride) {
        if (!fetch(s, x, b, first_thread % THREADS, scale, unit))
            atomicOr(&s.refused, 1u << slot);
        team_barrier();                                     // the image is complete
        first(s, columns<First::N>(weights), factor1);
        publish();
        team_barrier();                                     // its maps are complete
        second(s, weights + SECOND, slot, factor2);
        if (++slot == SLOTS || b + stride >= B) {
            team_barrier();                                 // the features of all slots are complete
            float *to = y + (size_t)(b - (slot - 1) * stride) * CLASSES;
            classify<4, SLOTS>(s.features[0], (float *)s.maps[0], a3, dense, to, stride, slot, s.refused,
                               barrier_of_team(), factor3);
            slot = 0;
            if (first_thread % THREADS == 0)
                s.refused = 0;
        }
    }
}
