// Indexes that wrap.
#define INT_LIMIT 0x7fffffff

// case minus_plus
__global__ void minus_plus(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    const unsigned i = threadIdx.x - 5u;
    a[i + 5u] = in[threadIdx.x];
    __syncthreads();
    out[i + 5u] = a[63u - (i + 5u)];
}
// case guarded_minus
__global__ void guarded_minus(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned left = threadIdx.x - 1, far = threadIdx.x - 8u;
    out[threadIdx.x] = (left < 64 ? a[left] : 1) + (far < 64 ? a[far] : 2) * 3;
}
// case hashed
__global__ void hashed(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * 2654435761u + threadIdx.x;
    out[blockIdx.x * 64 + threadIdx.x] = a[i & 63];
}
// case hashed_blocks: grid 4
__global__ void hashed_blocks(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int i = blockIdx.x * 2654435761u + threadIdx.x;
    out[blockIdx.x * 64 + threadIdx.x] = a[i & 63] + in[(i + n) & 1023];
}
// case product_of_threads
__global__ void product_of_threads(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned i = threadIdx.x * 0x9e3779b9u;
    out[threadIdx.x] = a[i >> 26] + a[i % 64] * 3;
}
// case around_the_limit
__global__ void around_the_limit(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned i = INT_LIMIT + threadIdx.x;
    out[threadIdx.x] = a[i - INT_LIMIT] + a[(i + 1u) & 63];
}
// case signed_around_the_limit
__global__ void signed_around_the_limit(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int i = static_cast<int>(0x80000000u + threadIdx.x);
    out[threadIdx.x] = a[i & 63] * 2 + (i < 0);
}
// case wraps_twice
__global__ void wraps_twice(unsigned *out, const unsigned *in, int n) {
    const unsigned a = threadIdx.x + 0xffffffc0u;
    __syncthreads();
    const unsigned b = a * 4u + 256u;
    __syncthreads();
    out[threadIdx.x] = in[b] + in[a + 64u];
}
// case short_index
__global__ void short_index(unsigned *out, const unsigned *in, int n) {
    unsigned char i = threadIdx.x * 5;
    __syncthreads();
    i += 250;
    __syncthreads();
    const unsigned short j = threadIdx.x - 1;
    out[threadIdx.x] = in[i] + in[j & 127];
}
// case long_index
__global__ void long_index(unsigned *out, const unsigned *in, int n) {
    const long long i = threadIdx.x - 3ll;
    __syncthreads();
    out[threadIdx.x] = i < 0 ? 5 : in[i];
    __syncthreads();
    const unsigned long long j = threadIdx.x - 3u;
    out[64 + threadIdx.x] = j > 100 ? 6 : in[j];
}
// case negative_offset
__global__ void negative_offset(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64];
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned *middle = a + 32;
    const int i = static_cast<int>(threadIdx.x) - 32;
    out[threadIdx.x] = middle[i] + middle[-i - 1];
}
// case unsigned_negative_stride
__global__ void unsigned_negative_stride(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (unsigned i = threadIdx.x + 8; i >= 8; i -= 8) sum += in[i];
    __syncthreads();
    for (unsigned i = threadIdx.x & 7; i < 8; --i) sum = sum * 3 + in[i];
    out[threadIdx.x] = sum;
}
// case mirrored
__global__ void mirrored(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[128];
    a[threadIdx.x] = in[threadIdx.x];
    a[127 - threadIdx.x] = in[threadIdx.x + 64];
    __syncthreads();
    const unsigned i = ~threadIdx.x;
    out[threadIdx.x] = a[i & 127] + a[i + 128u - 0u > 64u ? 1 : 2];
}
// case uniform_that_wraps
__global__ void uniform_that_wraps(unsigned *out, const unsigned *in, int n) {
    unsigned base = n;
    base -= 10;
    __syncthreads();
    const unsigned at = base + threadIdx.x + 10u;
    __syncthreads();
    out[threadIdx.x] = in[at] + base;
}
// case two_dimensions_that_wrap: block 16 4
__global__ void two_dimensions_that_wrap(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[4][16];
    a[threadIdx.y][threadIdx.x] = in[threadIdx.y * 16 + threadIdx.x];
    __syncthreads();
    const unsigned x = threadIdx.x - 1u, y = threadIdx.y - 1u;
    unsigned sum = 0;
    for (unsigned dy = 0; dy < 3; ++dy)
        for (unsigned dx = 0; dx < 3; ++dx)
            if (x + dx < 16 && y + dy < 4) sum += a[y + dy][x + dx] * (dy * 3 + dx + 1);
    out[threadIdx.y * 16 + threadIdx.x] = sum;
}
// case array_of_thread_that_wraps
__global__ void array_of_thread_that_wraps(unsigned *out, const unsigned *in, int n) {
    unsigned a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    unsigned k = threadIdx.x - 9u;
    __syncthreads();
    a[k % 8] += 10;
    k *= 0x10001u;
    __syncthreads();
    a[(k >> 3) & 7] += 100;
    __syncthreads();
    unsigned sum = 0;
    for (int i = 0; i < 8; ++i) sum = sum * 3 + a[i];
    out[threadIdx.x] = sum;
}
// case comparison_as_index
__global__ void comparison_as_index(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned counts[2][64];
    counts[0][threadIdx.x] = counts[1][threadIdx.x] = 0;
    __syncthreads();
    counts[in[threadIdx.x] > 30000][threadIdx.x] += 5;
    __syncthreads();
    out[threadIdx.x] = counts[0][63 - threadIdx.x] * 2 + counts[threadIdx.x < 5][threadIdx.x];
}
