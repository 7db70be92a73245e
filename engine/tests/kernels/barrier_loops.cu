// Each kernel fills out[threads of the grid] from in[n]. All have a barrier and can be split.
#define HALF(n) ((n) / 2)
#define COLUMN threadIdx.x
#ifndef WIDTH
#define WIDTH 64
#endif
__constant__ int scale = 3;
__device__ int calls;
struct Pair { float first, second; };
#define ADD(to, value) atomicAdd(&(to), value)
__device__ void add_one(float *v) { *v += 1; }
__device__ void twice(int &n) { n *= 2; }
__device__ int above(int a, int b) { return a > b ? a : b; }
__device__ float total(float v) {
    __shared__ float sums[WIDTH];
    const int at = threadIdx.x;                    // the kernel has another one
    sums[at] = v;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (at < s) sums[at] += sums[at + s];
        __syncthreads();
    }
    return sums[0] + v;
}
__device__ int whole(float v) {
    __syncthreads();
    return v;                                      // without its fraction
}
template <int N, class T> __device__ T reverse(float *tile, T v, T by) {
    tile[threadIdx.x] = v * by;
    __syncthreads();
    v = tile[blockDim.x - 1 - threadIdx.x] + N;
    __syncthreads();
    return v;
}
__device__ float exchanged(float tile[WIDTH], float v, int n) {
    for (int i = 0; i < n; i++) v = reverse<2, float>(tile, v, 0.5f);
    return v;
}
#define ROW ((blockIdx.x * blockDim.z + threadIdx.z) * blockDim.y + threadIdx.y)
#define OUT out[ROW * blockDim.x + threadIdx.x]

extern "C" {
__global__ void lives_across(float *out, const float *in, int n) {
    __shared__ float tile[WIDTH];
    int i = threadIdx.x;
    float x = in[i % n], y;
    tile[i] = x;
    y = x * x;
    __syncthreads();
    OUT = x + y + tile[blockDim.x - 1 - i];
}
__global__ void returns_early(float *out, const float *in, int n) {
    __shared__ float tile[WIDTH];
    OUT = -1;
    if (threadIdx.x >= n - 8) return;
    int share = 100 / (n - 8);                     // if no thread is left, this divides by 0
    tile[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < 2; i++) {
        if (threadIdx.x == i) return;
        __syncthreads();
    }
    OUT = tile[0] + share;
}
__global__ void sums_as_a_tree(float *out, const float *in, int n) {
    __shared__ float sums[WIDTH];
    sums[COLUMN] = in[COLUMN % n];
    for (int s = HALF(blockDim.x); s > 0; s >>= 1) {
        __syncthreads();
        if (COLUMN < s) sums[COLUMN] += sums[COLUMN + s];
    }
    __syncthreads();
    OUT = sums[0];
}
__global__ void moves_its_pointer(float *out, const float *in, int n) {
    in += threadIdx.x % 3;
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < 3; ++i) {
        sum += *in;
        __syncthreads();
        in += threadIdx.x % 2;
    }
    OUT = sum;
}
__global__ void leaves_its_loop(float *out, const float *in, int n) {
    float sum = 0;
    int round = -1;
    do {
        ++round;
        if (round == n) break;
        if (round % 2 == 1) continue;
        sum += in[round];
        __syncthreads();
    } while (round < 5);
    while (true) {
        __syncthreads();
        round++;
        if (round > 9) break;
    }
    OUT = sum + round;
}
__global__ void takes_an_address(float *out, const float *in, int n) {
    float v = in[threadIdx.x % n], row[3] = {v, v + 1, v + 2};
    float *last = &row[2];
    __syncthreads();
    if (threadIdx.x % 2) add_one(&v);
    *last += v;
    __syncthreads();
    OUT = v + row[0] + row[2];
}
__global__ void changes_an_argument(float *out, const float *in, int n) {
    if (threadIdx.x == 1) twice(n);
    __syncthreads();
    OUT = n;
}
__global__ void asks_a_function(float *out, const float *in, int n) {
    for (int i = 0; i < n; i++) {
        OUT = above(n, i) + i;
        __syncthreads();
    }
}
__global__ void hides_names(float *out, const float *in, int n) {
    const int a = 5;
    const int r = a + threadIdx.x;
    float sum = scale;
    int scale = 7;
    for (int i = 0; i < 2; i++) {
        const int a = 100;
        __syncthreads();
        sum += r + a * scale;
        for (int n = 0; n < 2; n++) sum += n;
    }
    OUT = sum + n;
}
__global__ void keeps_more_than_numbers(float *out, const float *in, int n) {
    Pair pair = {in[0], threadIdx.x + 1.0f};
    float sums[4] = {1, 2};
    const float first = in[threadIdx.x % n];
    __syncthreads();
    pair.first += pair.second;
    for (int i = 0; i < 4; i++) sums[i] += pair.second;
    __syncthreads();
    OUT = pair.first + sums[0] + sums[3] + first;
}
__global__ void asks_its_block(float *out, const float *in, int n) {
    __shared__ float tile[WIDTH];
    if (blockIdx.x % 2) {
        tile[threadIdx.x] = in[0];
        __syncthreads();
        OUT = tile[0];
    } else {
        __syncthreads();
        OUT = 2;
    }
}
__global__ void counts_in_shared(float *out, const float *in, int n) {
    __shared__ int bins[4];
    if (threadIdx.x < 4) bins[threadIdx.x] = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) ADD(bins[(int)in[i] % 4], 1);
    __syncthreads();
    OUT = bins[threadIdx.x % 4];
}
__global__ void has_branches(float *out, const float *in, int n) {
#ifdef WIDTH
    float v = in[1];
#else
    float v = in[2];
#endif
    __syncthreads();
#ifndef WIDTH
    v += 100;
#endif
    OUT = v;
}
__global__ void numbers_its_threads(float *out, const float *in, int n) {
    extern __shared__ float last[];
    float number = threadIdx.x + 10 * threadIdx.y + 100 * threadIdx.z;
    if (threadIdx.x == blockDim.x - 1) last[threadIdx.y + blockDim.y * threadIdx.z] = number;
    __syncthreads();
    OUT = number + last[threadIdx.y + blockDim.y * threadIdx.z];
}
__global__ void calls_what_waits(float *out, const float *in, int n) {
    __shared__ float tile[WIDTH];
    float x = in[threadIdx.x], at = 1.5f;
    x = reverse<1, float>(tile, x, at + n);
    x += at;
    if (n > 8) x = exchanged(tile, x, n / 4);
    const float sum = total(x * at);
    at = whole(sum);
    OUT = x + sum + at;
}
__global__ void guards_its_row(float *out, const float *in, int n) {
    __shared__ float tile[WIDTH];
    const int row = blockIdx.x + threadIdx.y, column = 3u - n + threadIdx.x;
    const int rounded = 0.75f + 0.75f + threadIdx.x, shifted = 1 << 1 + threadIdx.x;
    const long wide = 4294967295l + n + threadIdx.x;
    float v = row < 1 && column >= 0 ? in[row * n - 2 + column + 2] : -1;
    if (blockIdx.x && row < n) v += rounded + shifted + wide % 100;
    tile[threadIdx.x] = threadIdx.y < 1 ? v : 0;
    __syncthreads();
    OUT = column < n || row > 1 ? tile[threadIdx.x] : tile[n - 5 + column - n];
}
}
template <int N, typename T> __global__ void is_a_template(float *out, const float *in, int n) {
    T values[N];
    for (int i = 0; i < N; i++) values[i] = in[(threadIdx.x + i) % n];
    __syncthreads();
    OUT = values[N - 1] - values[0];
}
template __global__ void is_a_template<3, double>(float *, const float *, int);
