// What the kernels of the whole network share: its sizes, numbers as halves, the resizing of pixels, and the fully
// connected layers. A team of TEAM warps has an image of its own, and waits at the barrier of this number.
#pragma once
#include "tensor.cuh"

constexpr int PARTS = PRODUCTS == 1 ? 1 : 2;
static_assert(PRODUCTS == 1 || PRODUCTS == 3);
constexpr int SIZE = 86, CLASSES = 10, HIDDEN = 32, POOLED = 9;
constexpr int FEATURES = 16 * POOLED * POOLED, STEPS_3 = FEATURES / 16;
constexpr int FEATURE_WORDS = FEATURES / 2 + 4;             // of an image: 4 more keep 8 images in different banks
constexpr int SLOT_PITCH = HIDDEN + 1;

// The parts of the i-th product: low high, high low, high high, the small ones first.
__device__ constexpr int part_of_a(int i) { return PARTS == 2 && i == 0; }
__device__ constexpr int part_of_b(int i) { return PARTS == 2 && i == 1; }

// Store a number as its parts, which lie `apart` halves from each other.
__device__ inline void keep(half *at, int apart, float v)
{
    const half high = __float2half_rn(v);
    at[0] = high;
    if (PARTS == 2)
        at[apart] = __float2half_rn(v - __half2float(high));
}

__device__ inline void keep_two(unsigned *at, int apart, float v, float w)
{
    const half2 high = __floats2half2_rn(v, w);
    at[0] = word_of(high);
    if (PARTS == 2) {
        const half2 low = __floats2half2_rn(v - __low2float(high), w - __high2float(high));
        at[apart] = word_of(low);
    }
}

#ifdef SOURCE_W
// Row or column i of SIZE laid over n: its first neighbour, and how far it is from that. Pixel centres on pixel centres.
struct Place { int first; float part; };
__device__ inline Place place(int i, int n)
{
    const int at = min(max((2 * i + 1) * n - SIZE, 0), 2 * SIZE * (n - 1));     // in parts of 2 SIZE
    return {at / (2 * SIZE), __fdiv_rn(float(at % (2 * SIZE)), float(2 * SIZE))};
}
__device__ inline float between(float v, float w, float part)
{
    return __fadd_rn(__fmul_rn(v, 1 - part), __fmul_rn(w, part));   // no fused multiply-add: NumPy has none
}

// Bytes of another size: first all rows of the result at the columns of the source, then its columns. Both parts of
// the image lie `apart` words from each other; there is room for SIZE x SOURCE_W floats at `rows`.
template <int TEAM>
__device__ inline void resize(unsigned *image, int apart, float *rows, const void *x, int b, int number, float scale,
                              float unit)
{
    constexpr int THREADS = 32 * TEAM;
    const int thread = threadIdx.y % TEAM * 32 + threadIdx.x;
    const unsigned char *from = (const unsigned char *)x + (size_t)b * (SOURCE_H * SOURCE_W);
    for (int i = thread; i < SIZE * SOURCE_W; i += THREADS) {
        const Place y = place(i / SOURCE_W, SOURCE_H);
        const int below = min(y.first + 1, SOURCE_H - 1), w = i % SOURCE_W;
        rows[i] = between(__fmul_rn(from[y.first * SOURCE_W + w], unit), __fmul_rn(from[below * SOURCE_W + w], unit),
                          y.part);
    }
    barrier(number, TEAM);
    constexpr int AT_ONCE = THREADS / (SIZE / 2);           // rows: a thread stays in its two columns
    const int column = thread % (SIZE / 2) * 2;
    const Place left = place(column, SOURCE_W), right = place(column + 1, SOURCE_W);
    const int l = min(left.first + 1, SOURCE_W - 1), r = min(right.first + 1, SOURCE_W - 1);
    if (thread < AT_ONCE * (SIZE / 2))
        for (int h = thread / (SIZE / 2); h < SIZE; h += AT_ONCE) {
            const float *row = rows + h * SOURCE_W;
            keep_two(image + (h * SIZE + column) / 2, apart, scale * between(row[left.first], row[l], left.part),
                     scale * between(row[right.first], row[r], right.part));
        }
}
#endif

// Of up to 8 images: both layers and softmax. The first is split over the warps by its terms; after that a warp has an
// image, and a lane an output. There is room for TEAM x 8 partial sums of HIDDEN outputs at `partial`. Images lie
// `stride` from each other in y; those whose bit is set in `refused` get NaN.
template <int TEAM, int ROOM>
__device__ inline void classify(const unsigned *features, float *partial, const uint4 *__restrict__ a,
                                const float *__restrict__ dense, float *y, int stride, int images, unsigned refused,
                                int number, float factor)
{
    const int lane = threadIdx.x, warp = threadIdx.y % TEAM;
    float sum[PARTS][2][4] = {};                            // of high high; of the small ones, which lose less apart
    for (int step = warp; step < STEPS_3; step += TEAM) {
        unsigned b[PARTS][2];
        #pragma unroll
        for (int part = 0; part < PARTS; ++part) {
            const int slot = min(lane / 4, ROOM - 1);
            const unsigned *at = features + (part * ROOM + slot) * FEATURE_WORDS + step * 8 + lane % 4;
            b[part][0] = at[0];
            b[part][1] = at[4];
        }
        #pragma unroll
        for (int i = 0; i < PRODUCTS; ++i)
            #pragma unroll
            for (int upper = 0; upper < 2; ++upper)
                mma(sum[i < PRODUCTS - 1][upper], a[((part_of_a(i) * STEPS_3 + step) * 2 + upper) * 32 + lane],
                    b[part_of_b(i)][0], b[part_of_b(i)][1]);
    }
    #pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int slot = lane % 4 * 2 + i % 2, output = i / 4 * 16 + i / 2 % 2 * 8 + lane / 4;
        const float small = PARTS == 2 ? sum[PARTS - 1][i / 4][i % 4] : 0;
        partial[(warp * 8 + slot) * SLOT_PITCH + output] = sum[0][i / 4][i % 4] + small;
    }
    barrier(number, TEAM);
    for (int slot = warp; slot < images; slot += TEAM) {
        float hidden = 0;
        #pragma unroll
        for (int i = 0; i < TEAM; ++i)
            hidden += partial[(i * 8 + slot) * SLOT_PITCH + lane];
        hidden = fmaxf(hidden * factor + dense[lane], 0);
        const float *w = dense + HIDDEN;
        const int o = min(lane, CLASSES - 1);
        float score = w[HIDDEN * CLASSES + o];
        #pragma unroll
        for (int j = 0; j < HIDDEN; ++j)
            score += __shfl_sync(0xffffffff, hidden, j) * w[j * CLASSES + o];
        float most = score;                                 // lanes from 10 on have that of lane 9
        #pragma unroll
        for (int other = 16; other; other /= 2)
            most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, other));
        const float power = lane < CLASSES ? expf(score - most) : 0;
        float total = power;
        #pragma unroll
        for (int other = 16; other; other /= 2)
            total += __shfl_xor_sync(0xffffffff, total, other);
        if (lane < CLASSES)
            y[(size_t)slot * stride * CLASSES + lane] = refused >> slot & 1 ? NAN : power / total;
    }
}
