// 10b no conflicts: a map of out begins eight banks after the one before.
//
// A store to out goes to four maps, to two rows of each and to four words of a row, one word apart. On
// layer 2 of lenet86 a map has 578 words, 18 times the banks and 2 more: the four maps meet in the same few
// banks. With 8 in place of the 2 they lie side by side. A row has 17 words, which moves the second row to
// the banks between. A map that is no multiple of 8 bytes stays as it is: a piece that is copied spans its
// end.

#include "tensor.cuh"

constexpr int C = FIXED_C, M = FIXED_M, H = FIXED_H, W = FIXED_W, K = FIXED_K, Ho = H - K + 1, Wo = W - K + 1;
constexpr int STEPS = (K + 2) / 2;                          // pairs of rows in a window: K + 1 rows or more
constexpr int ACROSS = (Wo + 3) / 4 * 2;                    // squares side by side in a map, an even number
constexpr int STRIPS = (Ho + 2 * PAIRS - 1) / (2 * PAIRS);  // a strip is PAIRS squares high
constexpr int COLUMNS = STRIPS * ACROSS;                    // of b: one per stack
constexpr int PITCH = W + W % 2, ROWS = 2 * (STRIPS * PAIRS + STEPS - 1);    // of a channel in shared memory
constexpr int MAPS = 4 * GROUPS, THREADS = 32 * WARPS;
static_assert(1 <= K && K <= 7 && 1 <= WARPS && WARPS <= 32 && 1 <= PAIRS && 1 <= GROUPS);
constexpr int ROOM = WARPS <= 8 ? 4 : 1;                    // blocks that a multiprocessor has room for
constexpr bool GATHER = Wo % 4 != 0;                        // else a lane's outputs are 8 aligned bytes
#ifdef SKELETON
#else
constexpr int MAP = Ho * Wo % 4 || !GATHER ? Ho * Wo : (Ho * Wo + 47) / 64 * 64 + 16;    // halves, in out
#endif

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

// Copy an image to shared memory, where each row begins with a word. Threads make equally many iterations.
__device__ inline void fetch(half *image, const half *__restrict__ x, int thread)
{
    using Piece = Widest<W % 2 ? 1 : H * W>;                // odd rows move by half a word, even ones do not
    constexpr int N = sizeof(Piece) / 2;
    #pragma unroll 4
    for (int c = 0; c < C; ++c, image += ROWS * PITCH, x += H * W)
        #pragma unroll 16
        for (int first = 0; first < H * W; first += N * THREADS) {
            const int at = first + N * thread;
            if (at < H * W)
                *(Piece *)&image[at / W * PITCH + at % W] = *(const Piece *)&x[at];
        }
}

// The weights of a channel, as the lane holds them.
__device__ inline void load(uint4 (&weights)[GROUPS][STEPS], const uint4 *mask)
{
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g)
        #pragma unroll
        for (int step = 0; step < STEPS; ++step)
            weights[g][step] = mask[(g * C * STEPS + step) * 32];
}

// Multiply eight stacks. The lane's words are those of one, which begins at `window`. Two rows of inputs are
// k-step 0 of a window, k-step 1 of the window above it, and so on.
__device__ inline void multiply(float (&sum)[GROUPS][PAIRS][4], uint4 (&weights)[GROUPS][STEPS],
                                const uint4 *mask, const unsigned *window)
{
    #pragma unroll 1
    for (int c = 0; c < C; ++c, mask += STEPS * 32, window += ROWS * PITCH / 2) {
        if (C > 1)
            load(weights, mask);
        #pragma unroll
        for (int row = 0; row < PAIRS + STEPS - 1; ++row) {
            const unsigned b0 = window[row * PITCH], b1 = window[row * PITCH + PITCH / 2];
            #pragma unroll
            for (int step = 0; step < STEPS; ++step)
                #pragma unroll
                for (int g = 0; g < GROUPS; ++g)
                    if (0 <= row - step && row - step < PAIRS)
                        mma(sum[g][row - step], weights[g][step], b0, b1);
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

// Store the lane's sums, of stacks `column` and `column` + 1; only `count` of the maps exist.
__device__ inline void store(half *maps, const float (&sum)[GROUPS][PAIRS][4], int column, int count)
{
    const int lane = threadIdx.x, w = column % ACROSS * 2, h0 = column / ACROSS * PAIRS * 2 + lane / 4 % 2;
    #pragma unroll
    for (int g = 0; g < GROUPS; ++g)
        #pragma unroll
        for (int row = 0; row < PAIRS; ++row) {
            const int m = 4 * g + lane / 8, h = h0 + 2 * row;
#ifdef SKELETON
            store_four(maps + (m * Ho + h) * Wo + w, sum[g][row], w, (M % MAPS == 0 || m < count) && h < Ho);
#else
            store_four(maps + m * MAP + h * Wo + w, sum[g][row], w, (M % MAPS == 0 || m < count) && h < Ho);
#endif
        }
}

// Copy whole maps to y, `count` halves.
__device__ inline void copy(half *__restrict__ y, const half *out, int count, int thread)
{
    using Piece = Widest<M * Ho * Wo>;
    constexpr int N = sizeof(Piece) / 2;
    #pragma unroll 8
    for (int first = 0; first < count; first += N * THREADS) {
        const int at = first + N * thread;
        if (at < count)
#ifdef SKELETON
            *(Piece *)&y[at] = *(const Piece *)&out[at];
#else
            *(Piece *)&y[at] = *(const Piece *)&out[at + at / (Ho * Wo) * (MAP - Ho * Wo)];
#endif
    }
}

extern "C" __global__ __launch_bounds__(THREADS, ROOM)
void conv(const half *__restrict__ x, const uint4 *__restrict__ a, half *__restrict__ y,
          int B, int, int, int, int, int)
{
    __shared__ __align__(16) unsigned image[C * ROWS * PITCH / 2 + 4];    // two halves per word
#ifdef SKELETON
    __shared__ __align__(16) half out[GATHER ? MAPS * Ho * Wo : 1];
#else
    __shared__ __align__(16) half out[GATHER ? MAPS * MAP : 1];
#endif
    const int lane = threadIdx.x, thread = threadIdx.y * 32 + lane;
    uint4 weights[GROUPS][STEPS];

    for (int i = thread; i < C * ROWS * PITCH / 2 + 4; i += THREADS)
        image[i] = 0;                                       // beyond the image: 0 times a NaN would be a NaN
    for (int b = blockIdx.x; b < B; b += gridDim.x) {
        __syncthreads();                                    // the image before is no longer read
        fetch((half *)image, x + (size_t)b * C * H * W, thread);
        __syncthreads();                                    // the image is complete
        for (int m0 = 0; m0 < M; m0 += MAPS) {
            const uint4 *mask = a + m0 / 4 * C * STEPS * 32 + lane;
            half *maps = y + ((size_t)b * M + m0) * Ho * Wo, *to = GATHER ? out : maps;
            if (C == 1 && (M > MAPS || b == blockIdx.x))    // else they are in the registers already
                load(weights, mask);
            for (int first = 8 * threadIdx.y; first < COLUMNS; first += 8 * WARPS) {
                const int column = min(first + lane / 4, COLUMNS - 1);    // the lane's stack
                float sum[GROUPS][PAIRS][4] = {};
                const unsigned *window = image + column / ACROSS * PAIRS * PITCH + column % ACROSS + lane % 4;
                multiply(sum, weights, mask, window);
                store(to, sum, first + lane % 4 * 2, M - m0);
            }
            if (GATHER) {
                __syncthreads();                            // the maps are complete
                copy(maps, to, min(MAPS, M - m0) * Ho * Wo, thread);
                __syncthreads();                            // and copied
            }
        }
    }
}
