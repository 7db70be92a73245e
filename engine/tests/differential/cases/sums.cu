// Sums and quotients at the ends of what a number can hold.

// case wrapped_half: grid 3, n 0 3
__global__ void wrapped_half(unsigned *out, const unsigned *in, int n) {
    int i = (blockIdx.x - 5) / 2 + threadIdx.x;
    const long long l = i;
    __syncthreads();
    const long long m = i;
    if (blockIdx.x == 1) out[threadIdx.x] = (l >> 32) + (m < 0) * 10 + (i > 0) * 100;
}
// case wrapped_variable: grid 3, n 0 3
__global__ void wrapped_variable(unsigned *out, const unsigned *in, int n) {
    const unsigned base = blockIdx.x - 5;
    const int i = base / 2 + threadIdx.x;
    __syncthreads();
    if (blockIdx.x == 1) out[threadIdx.x] = i < 0 ? 7 : i / 3;
}
// case large_constant: grid 2
constexpr int most_int = 0x7fffffff;
__global__ void large_constant(unsigned *out, const unsigned *in, int n) {
    const int base = blockIdx.x * most_int;
    const int i = base + threadIdx.x;
    const long long l = i;
    __syncthreads();
    if (blockIdx.x == 1) out[threadIdx.x] = (l >> 32) + (i < 0) * 10;
}
// case least_int: n 0
__global__ void least_int(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[80];
    const int j = n - 2147483647 - 1, k = j + 3;
    const int i = threadIdx.x + blockIdx.x;
    s[threadIdx.x + 3] = 0;
    __syncthreads();
    s[i + k - j] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x + 3];
}
// case divided_by_nothing: n 0 3
__global__ void divided_by_nothing(unsigned *out, const unsigned *in, int n) {
    int q = 100;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x >= n) return;
    q /= n;
    __syncthreads();
    out[threadIdx.x] += q;
}
// case remainder_of_nothing: n 0 3
__global__ void remainder_of_nothing(unsigned *out, const unsigned *in, int n) {
    unsigned q = 100;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x];
    if (threadIdx.x >= n) return;
    q %= n;
    __syncthreads();
    out[threadIdx.x] += q;
}
// case some_blocks_do_not_fit: grid 3, n 3 1073741824
__global__ void some_blocks_do_not_fit(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    const int base = blockIdx.x % 2 * n;
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int i = base + threadIdx.x;
    atomicAdd(&out[threadIdx.x], s[i - base] + 1);
    __syncthreads();
    atomicAdd(&out[threadIdx.x + 64], (long long)i >> 20);
}
// case counter_near_the_limit: n 3 2147483600
__global__ void counter_near_the_limit(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = n - 3; i < n; i += 1) {
        const int k = i + threadIdx.x % 32;
        sum += in[k - i] + (k >> 8);
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case wrapping_counter: n 3 -5
__global__ void wrapping_counter(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (unsigned i = n; i - n < 3; ++i) {
        const int k = i + threadIdx.x;
        __syncthreads();
        sum += in[(k - n) & 63] + (k < 0);
    }
    out[threadIdx.x] = sum;
}
