// Each kernel fills out[threads of the grid] from in[4096]. All have a warp function and can be split.
#include <cuda_fp16.h>
#define ALL 0xffffffffu   // lanes
constexpr unsigned full = ~0u;
__device__ __inline__ float warp_sum(float v) {
    for (int offset = warpSize / 2; offset > 0; offset /= 2) v += __shfl_down_sync(full, v, offset);
    return v;
}
__device__ int warp_inclusive(int v) {
    const int lane = threadIdx.x & 31;
    for (int delta = 1; delta < 32; delta <<= 1) {
        int other = __shfl_up_sync(ALL, v, delta);
        if (lane >= delta) v += other;
    }
    return v;
}
__device__ float block_sum(float v) {
    static __shared__ float of_warp[32];
    int lane = threadIdx.x % warpSize, warp = threadIdx.x / warpSize;
    v = warp_sum(v);
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    v = threadIdx.x < (blockDim.x + 31) / warpSize ? of_warp[lane] : 0.0f;
    return warp == 0 ? warp_sum(v) : v;
}
template <class T, int width> __device__ T from_left(T v) { return __shfl_up_sync(ALL, v, 1, width); }
template <typename T> __inline__ __device__ T across(T v) {
    #pragma unroll
    for (int offset = 16; offset > 0; offset >>= 1) v += __shfl_xor_sync(ALL, v, offset, 32);
    return v;
}
template <typename T> __inline__ __device__ T across_block(T v) {
    static __shared__ T shared[32];
    const int lane = threadIdx.x & 0x1f, warp = threadIdx.x >> 5;
    v = across<T>(v);
    if (lane == 0) shared[warp] = v;
    __syncthreads();
    v = (threadIdx.x < (blockDim.x / 32.f)) ? shared[lane] : (T)0;
    return across<T>(v);
}
__device__ void last_warp(volatile float *s, unsigned t) {
    float v = s[t];
    v += s[t + 32]; __syncwarp(); s[t] = v; __syncwarp();
    for (int k = 16; k > 0; k /= 2) { v += s[t + k]; __syncwarp(); s[t] = v; __syncwarp(); }
}
__device__ float next_of(const float row[], const float v) {
    row += 3;
    const float next = __shfl_down_sync(ALL, v, 1);
    return next + *row;
}
#define BLOCK ((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x)
#define AT (((BLOCK * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x)
#define OUT out[AT]
#define IN in[AT % 4096]

extern "C" {
__global__ void sum_per_warp(float *out, const float *in, int n) { OUT = warp_sum(IN) + n; }
__global__ void sum_per_block(float *out, const float *in, int n) {
    float sum = 0;
    for (int i = threadIdx.x; i < 40 * n; i += blockDim.x) sum += in[i];
    sum = block_sum(sum);
    OUT = threadIdx.x == 0 ? sum : -1;
}
__global__ void shuffles_in_all_ways(float *out, const float *in, int n) {
    const int lane = threadIdx.x % 32;
    const float v = IN;
    float a = __shfl_sync(ALL, v, lane * 7 + n), b = __shfl_sync(ALL, v, lane + 5, 8);
    float c = __shfl_up_sync(ALL, v, n % 7, 16), d = __shfl_down_sync(ALL, a, 3, 4);
    float e = __shfl_xor_sync(ALL, v, n + 3, 8);
    e += __shfl_xor_sync(ALL, b, 16) - 2 * __shfl_up_sync(ALL, c, 33 + n);
    OUT = a + 3 * b + 5 * c + 7 * d + 11 * e;
}
__global__ void shuffles_all_types(float *out, const float *in, int n) {
    const long long wide = (1ll << 40) * (int)IN;
    const unsigned long long from = __shfl_xor_sync(ALL, (unsigned long long)wide, 9);
    double d = IN / 3.0;
    d = __shfl_down_sync(ALL, d, 2);
    half h = __float2half(IN), h2 = __shfl_xor_sync(ALL, h, 1);
    half2 pair = __floats2half2_rn(IN, 2 * IN);
    pair = __shfl_up_sync(ALL, pair, 4);
    char small = (char)IN;
    int promoted = 300 + __shfl_sync(ALL, small, n);
    const float nan = __shfl_xor_sync(ALL, __int_as_float(0x7fa00000 + threadIdx.x), 3);
    OUT = (float)(from >> 36) + d + __half2float(h2) + __low2float(pair) * __high2float(pair) + promoted
          + (__float_as_int(nan) & 0xffff);
}
__global__ void calls_a_template(float *out, const float *in, int n) {
    double d = IN * n;
    int i = (int)d;
    d = from_left<double, 16>(d);
    i = from_left<int, 32>(i);
    OUT = d + i;
}
__global__ void calls_templates_in_expressions(float *out, const float *in, int n) {
    double wide = IN / 3;
    wide = across_block<double>(wide);
    float single = threadIdx.x;
    const int four = 4, count = 2 * across<int>(n) + four;
    OUT = (float)wide * count + 1 / (1 + across<float>(single));
}
__global__ void changes_an_argument(float *out, const float *in, int n) {
    if (threadIdx.x % 32 == 1) n += 5;
    in += threadIdx.x;
    OUT = n + __shfl_down_sync(ALL, n, 1) * *in;
    n += 1000;
}
__global__ void votes(float *out, const float *in, int n) {
    const float v = IN;
    unsigned above = __ballot_sync(ALL, v > 40 * n);
    int any = __any_sync(ALL, v == 3), all = __all_sync(full, v > 0), count = __popc(above);
    if (__all_sync(ALL, (int)v % 2 == 0) || n == 16) count += 100;
    OUT = (above % 1000) + 2 * any + 4 * all + 8 * count;
}
__global__ void reduces(float *out, const float *in, int n) {
    const int v = (int)IN - 50;
    const unsigned u = v;
    unsigned most = __reduce_max_sync(ALL, u);
    OUT = __reduce_add_sync(ALL, v) + 3.0f * __reduce_min_sync(ALL, v) + most % 1000 + __reduce_xor_sync(ALL, u) % 77
          + __reduce_and_sync(ALL, u) % 55 + __reduce_or_sync(ALL, u) % 33 + __reduce_max_sync(ALL, v);
}
__global__ void returns_early(float *out, const float *in, int n) {
    OUT = -1;
    if (AT % 64 >= 40 + n) return;                 // some lanes of a warp
    float v = warp_sum(IN);
    if (threadIdx.x % 32 == 5) return;
    v += __shfl_sync(ALL, v, 5);                   // of a lane that has returned
    const int left = __popc(__ballot_sync(ALL, 1)), count = 100 / left;
    OUT = v + left + count + __reduce_add_sync(ALL, 1);
}
__global__ void returns_by_warp(float *out, const float *in, int n) {
    const int warp = threadIdx.x / 32, row = blockIdx.x * 3 + warp;
    OUT = 0;
    if (row >= n / 4) return;
    float sum = 0;
    for (int i = threadIdx.x % 32; i < 100; i += 32) sum += in[row * 100 + i];
    sum = warp_sum(sum);
    if (threadIdx.x % 32) return;
    OUT = sum;
}
__global__ void rows_by_warp(float *out, const float *in, int n) {
    __shared__ float sums[64];
    const int lane = threadIdx.x % 32, warp = threadIdx.x >> 5, warps = (blockDim.x + 31) / 32;
    for (int row = warp; row < n; row += warps) {  // another number of rounds in each warp
        float sum = 0;
        const int start = row * 10;
        for (int j = lane; j < 10; j += 32) sum += in[start + j];
        sum = warp_sum(sum);
        if (row % 5 == 4) continue;
        if (lane == 0) sums[row] = sum;
        if (row > 13) break;
    }
    __syncthreads();
    OUT = threadIdx.x % n % 5 == 4 ? 1 : sums[threadIdx.x % n % 14];
}
__global__ void some_warps(float *out, const float *in, int n) {
    __shared__ int of_warp[32];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, mine = warp_inclusive((int)IN);
    if (lane == 31 || threadIdx.x == blockDim.x - 1) of_warp[warp] = mine;
    __syncthreads();
    if (warp == 0) of_warp[lane] = warp_inclusive(lane < (blockDim.x + 31) / 32 ? of_warp[lane] : 0);
    __syncthreads();
    if (threadIdx.x < 64 && n > 8) {
        mine += __shfl_xor_sync(ALL, mine, 1);
    } else if (warp != 3) {
        mine -= __shfl_xor_sync(ALL, mine, 2);
    }
    OUT = mine + (warp > 0 ? of_warp[warp - 1] : 0);
}
__global__ void synchronizes_warps(float *out, const float *in, int n) {
    __shared__ float s[1024];
    const int t = threadIdx.y * blockDim.x + threadIdx.x, warp = t / 32, warp_of_row = threadIdx.x / 32;
    s[t] = in[t];
    __syncwarp();
    float v = s[(t ^ 1) < blockDim.x * blockDim.y ? t ^ 1 : t];
    __syncwarp(0xffffffff);
    s[t] = v * n;
    for (int round = 0; round < 3; round++) {
        __syncwarp();
        const float next = s[warp * 32 + (t + 1) % 8];
        __syncwarp();
        s[t] += next;
    }
    if (warp_of_row == 1)
        __syncwarp();
    OUT = s[t];
}
__global__ void keeps_arrays(float *out, const float *in, int n) {
    float row[6], most[3] = {};
    for (int j = 0; j < 6; j++) row[j] = in[j * 32 + threadIdx.x % 32];
    for (int j = 0; j < 3; j++) {
        for (int k = 0; k < 6; k++) {
            float other = __shfl_sync(full, row[k], 2 * j);
            if (k == threadIdx.x) most[j] = other;
        }
        row[j] += __shfl_xor_sync(full, most[j], 1);
    }
    __syncthreads();
    OUT = row[0] + row[1] * row[2] + most[n % 3];
}
__global__ void ends_in_its_last_warp(float *out, const float *in, int n) {
    __shared__ volatile float s[96], all[96];
    unsigned t = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    if (t < 96) all[t] = s[t] = IN * n;
    if (blockDim.x >= 64) {
        __syncthreads();
        if (threadIdx.x < 32) last_warp(s, threadIdx.x);
        __syncthreads();
    }
    OUT = blockDim.x >= 64 ? s[0] + all[n] : n;
}
__global__ void counts_in_loops(float *out, const float *in, int n) {
    __shared__ int base, of_warp[32];
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (threadIdx.x == 0) base = 0;
    for (int first = 0; first < n * 20; first += blockDim.x) {
        int i = first + threadIdx.x, v = i < n * 20 ? (int)in[i] % 3 : 0;
        unsigned kept = __ballot_sync(ALL, v > 0);
        if (lane == 0) of_warp[warp] = __popc(kept);
        __syncthreads();
        int at = base + __popc(kept & ((1u << lane) - 1));
        for (int w = 0; w < warp; w++) at += of_warp[w];
        if (v > 0) OUT = at;
        __syncthreads();
        if (threadIdx.x == 0)
            for (int w = 0; w < (blockDim.x + 31) / 32; w++) base += of_warp[w];
        __syncthreads();
    }
    OUT = base;
}
__global__ void reads_memory_in_order(float *out, const float *in, int n) {
    __shared__ int next[1024];
    const int t = threadIdx.x;
    next[t] = (t * 5 + 1) % 32;
    __syncwarp();
    float v = __shfl_sync(ALL, IN, next[t]);       // the index is read before another lane changes it
    next[t] = 7;
    __syncwarp();
    v += __shfl_sync(ALL, v, next[t / 32 * 32]);
    OUT = v;
}
__global__ void reads_beside(float *out, const float *in, int n) {
    __shared__ float s[1024];
    const int t = threadIdx.x;
    const int right = (t ^ 1) < blockDim.x ? t ^ 1 : t;
    s[t] = IN;
    __syncwarp();
    float v = s[t] + __shfl_xor_sync(ALL, n * t, 1), u = 1;
    s[right] = -1;                                 // the neighbor has read it
    __syncwarp();
    const float before = s[t], three = 3, w = __shfl_xor_sync(ALL, v + three, 2);
    s[right] = w - before;
    __syncwarp();
    u += s[t] * __shfl_sync(ALL, t, 3);
    s[right] = v;
    __shared__ int sum;
    if (t == 0) sum = n;
    __syncthreads();
    OUT = u + v;
    OUT = OUT + sum * __shfl_down_sync(ALL, v, 1);
}
__global__ void hides_a_variable(float *out, const float *in, int n) {
    float v = IN, sum = 0;
    for (int i = 0; i < 2; i++) {
        sum += v * 3;                              // the float
        float other = __shfl_xor_sync(ALL, sum, 1);
        int v = (int)other + i;
        __syncthreads();
        sum += v;
    }
    OUT = sum + v;
}
__global__ void chooses(float *out, const float *in, int n) {
    const float v = IN;
    const float a = fmaxf(v, __shfl_xor_sync(ALL, n > 8 ? v : -v, 4)) * 2;
    float b = -__shfl_down_sync(ALL, v < 30 ? a : v, 1) / (1 + a);
    OUT = __any_sync(ALL, b > 0) ? a + b : a - b;
}
__global__ void changes_while_it_declares(float *out, const float *in, int n) {
    int i = (int)IN, a = i++, b = __shfl_xor_sync(ALL, i, 1), c = i--, d = __shfl_down_sync(ALL, i + b, 1);
    OUT = a + 3 * b + 5 * c + 7 * d;
}
__global__ void advances_in_its_loop(float *out, const float *in, int n) {
    int at = threadIdx.x;
    float v = IN;
    for (int i = 0, k = 0; i < 5; k += n, ++i) v += __shfl_xor_sync(ALL, v, i) + in[at + k];
    OUT = v + at;
}
__global__ void reduces_bits_of_int(float *out, const float *in, int n) {
    const int v = (int)IN - 50;                    // an unsigned int comes back
    OUT = __reduce_or_sync(ALL, v) + 3.0f * (__reduce_xor_sync(ALL, v) / 2) + __reduce_and_sync(ALL, -v | 1 << 31) % 77;
}
__global__ void moves_a_pointer_of_a_function(float *out, const float *in, int n) {
    float v = IN;
    v = next_of(in, v);
    OUT = v + *in;
}
__global__ void synchronizes_its_block(float *out, const float *in, int n) {
    __shared__ float s[1024];
    const unsigned t = threadIdx.x;
    float v = IN;
    for (int i = 0; i < n / 4; i++) {
        v += __shfl_xor_sync(ALL, v, 1 << i);
        s[t] = v;
        __syncthreads();
        v += s[(t + 32) % blockDim.x];
        v = warp_sum(v);
        __syncthreads();
    }
    OUT = v;
}
}
