// 13 network, warpgroups: the whole of lenet86 on products of four warps.
//
// Idea      wgmma, of compute capability 9.0, multiplies for four warps at once: 64 windows in registers, times
//           the weights of all maps in shared memory. A team of four warps has an image of its own. The teams
//           of a block share the weights and never wait for each other: while one fetches or pools, others
//           multiply.
// Delta     from the kernel of page 13: rows and columns of a product change places, as in the steps
//           warpgroups of rungs 10 and 11. Two windows side by side are a lane's, so that it has all outputs
//           of a pool's window. All loads of an image's pixels are on their way at once.
// Numbers   PRODUCTS = 1: halves. PRODUCTS = 3: a number is the sum of two halves. Scales and factors as there.
// Shapes    x [B,86,86] float32, or [B,SOURCE_H,SOURCE_W] bytes; y [B,10] float32. The arranged weights have 16
//           bytes per column of a product and 8 terms: a1 [part,4,2,16] of the first layer, a2 [part,4,4,2,64]
//           of the second. a3 and `dense` are those of page 13's kernel.
// Launch    any grid, one block per multiprocessor; block (32, 4 TEAMS). Team t of block b computes images
//           b + t gridDim.x, and so on, TEAMS gridDim.x further each. Dynamic shared memory: the weights, and
//           for each team an image, its maps, and the features of SLOTS images.
// Requires  |pixel| <= LIMIT: an image with another pixel, an infinity or a NaN gets ten NaN. Bytes:
//           SOURCE_W <= 39, or 86 x 86. SLOTS <= 8. Compute capability 8.0, and 9.0 for wgmma.

#include "network.cuh"
#include "warpgroups.cuh"

constexpr int THREADS = 128;                                // of a team

constexpr int DEPTH = PARTS;                                // batches of products on their way

// A layer: a warpgroup computes 64 windows of 2 x 2 outputs at once, TALL of them below each other. A step of a window
// is a pair of rows of inputs, 16 terms.
template <int C_, int M_, int PITCH_, int TALL_, int STRIPS, int HELD_> struct Convolution {
    static constexpr int C = C_, TALL = TALL_, STEPS = 4, N = 4 * M_, PITCH = PITCH_;       // words: two pixels each
    static constexpr int ROWS = 2 * TALL * STRIPS + 6, PAIRS = TALL + STEPS - 1;    // of an image, of a strip
    static constexpr int HELD = HELD_;                      // pairs in registers
    static constexpr int PLANE = C > 1 ? (ROWS * PITCH + 23) / 16 * 16 - 8 : ROWS * PITCH;  // in different banks
    static constexpr int WORDS = C * PLANE, PIECES = C * STEPS * 2 * N;     // of one part: image, 16 bytes of weights
};
using First = Convolution<1, 4, SIZE / 2, 5, 8, 4>;
using Second = Convolution<4, 16, 21, 2, 9, 5>;
constexpr int ACROSS = 40, WINDOWS = 8 * ACROSS, POOLS = POOLED * POOLED;       // of the first layer, of the second
static_assert(First::ROWS == SIZE && FEATURES == 16 * POOLS);

struct alignas(16) Team {
    unsigned image[PARTS][First::WORDS], maps[PARTS][Second::WORDS], features[PARTS][SLOTS * FEATURE_WORDS];
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
        *(uint2 *)(at + part * First::WORDS) = make_uint2((const unsigned &)a, (const unsigned &)b);
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
// The products of 64 windows, of which the lane reads words of two from `left` on. A pair of rows is step 0 of a window,
// step 1 of the one above it, and so on.
template <class L>
__device__ inline void multiply(float (&sum)[L::TALL][L::N / 2], const unsigned *left, Columns weights)
{
    constexpr int AHEAD = L::HELD - DEPTH;
    unsigned pairs[L::HELD][PARTS][4];
    auto load = [&](int pair, const unsigned *from) {
        #pragma unroll
        for (int part = 0; part < PARTS; ++part)
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                pairs[pair % L::HELD][part][i] = from[part * L::WORDS + (2 * pair + i / 2) * L::PITCH + i % 2];
    };
    #pragma unroll
    for (int pair = 0; pair < AHEAD; ++pair)
        load(pair, left);
    #pragma unroll 1
    for (int c = 0; c < L::C; ++c, left += L::PLANE, weights += L::STEPS * 2 * L::N)
        #pragma unroll
        for (int pair = 0; pair < L::PAIRS; ++pair) {
            begin();
            #pragma unroll
            for (int i = 0; i < PRODUCTS; ++i)
                #pragma unroll
                for (int step = 0; step < L::STEPS; ++step)
                    if (0 <= pair - step && pair - step < L::TALL) {
                        const unsigned (&a)[4] = pairs[pair % L::HELD][part_of_b(i)];
                        product<L::N>(sum[pair - step], a[0], a[1], a[2], a[3],
                                      weights + part_of_a(i) * L::PIECES + step * 2 * L::N);
                    }
            commit();
            if (L::C > 1 || pair < L::PAIRS - 1)
                wait<DEPTH>();                              // what the batches before have read is free
            if (pair + AHEAD < L::PAIRS)
                load(pair + AHEAD, left);
            else if (c + 1 < L::C)
                load(pair + AHEAD - L::PAIRS, left + L::PLANE);
        }
    wait<0>();
}

// The lane has windows 2 (lane / 4) and the next of its warp, with all outputs of map lane % 4: ReLU and the maximum.
__device__ inline void first(Team &s, Columns weights, float factor)
{
    const int lane = threadIdx.x;
    #pragma unroll 1
    for (int window = threadIdx.y % 4 * 16 + lane / 4 * 2; window < WINDOWS; window += 64) {
        const int strip = window / ACROSS * First::TALL, w = window % ACROSS;
        float sum[First::TALL][First::N / 2] = {};
        multiply<First>(sum, s.image[0] + strip * 2 * First::PITCH + w + lane % 4, weights);
        unsigned *to = s.maps[0] + lane % 4 * Second::PLANE + strip * Second::PITCH + w / 2;
        #pragma unroll
        for (int t = 0; t < First::TALL; ++t) {
            const float (&d)[8] = sum[t];
            const float left = fmaxf(fmaxf(fmaxf(d[0], d[1]), fmaxf(d[4], d[5])), 0);
            const float right = fmaxf(fmaxf(fmaxf(d[2], d[3]), fmaxf(d[6], d[7])), 0);
            keep_two(to + t * Second::PITCH, Second::WORDS, factor * left, factor * right);
        }
    }
}

// The lane has a pool's window, 4 x 4 outputs, of maps lane % 4, lane % 4 + 4 and so on.
__device__ inline void second(Team &s, Columns weights, int slot, float factor)
{
    const int lane = threadIdx.x;
    #pragma unroll 1
    for (int pool = threadIdx.y % 4 * 8 + lane / 4; pool < (POOLS + 31) / 32 * 32; pool += 32) {
        const int at = min(pool, POOLS - 1), h = at / POOLED, w = at % POOLED;
        float sum[Second::TALL][Second::N / 2] = {};
        multiply<Second>(sum, s.maps[0] + h * 4 * Second::PITCH + w * 2 + lane % 4, weights);
        half *to = (half *)(s.features[0] + slot * FEATURE_WORDS) + lane % 4 * POOLS + at;
        const bool wide = w < POOLED - 1, high = h < POOLED - 1;        // else cut at the edge
        if (pool < POOLS)
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                float most = 0;
                #pragma unroll
                for (int t = 0; t < Second::TALL; ++t) {
                    const float *d = &sum[t][8 * i];
                    const float left = fmaxf(fmaxf(d[0], d[1]), fmaxf(d[4], d[5]));
                    const float right = fmaxf(fmaxf(d[2], d[3]), fmaxf(d[6], d[7]));
                    const float both = wide ? fmaxf(left, right) : left;
                    most = t == 0 || high ? fmaxf(most, both) : most;
                }
                keep(to + 4 * i * POOLS, 2 * SLOTS * FEATURE_WORDS, factor * most);
            }
        __syncwarp();                                       // products are for whole warps
    }
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
        team_barrier();                                     // its maps are complete
        second(s, columns<Second::N>(weights + SECOND), slot, factor2);
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
