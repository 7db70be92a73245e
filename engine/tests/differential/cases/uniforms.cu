// Values that are the same for all threads, and some that only look so.

// case changed_between_barriers
__global__ void changed_between_barriers(unsigned *out, const unsigned *in, int n) {
    int k = n;
    unsigned v = threadIdx.x + k;
    __syncthreads();
    k = k * 2 + 1;
    v += k;
    __syncthreads();
    k -= 3;
    out[threadIdx.x] = v * k;
}
// case changed_in_a_block
__global__ void changed_in_a_block(unsigned *out, const unsigned *in, int n) {
    int k = 1;
    {
        k += n;
        __syncthreads();
        { k *= 3; }
        __syncthreads();
    }
    for (int i = 0; i < k; ++i) __syncthreads();
    out[threadIdx.x] = k + threadIdx.x;
}
// case changed_under_a_uniform_condition: n 3 4
__global__ void changed_under_a_uniform_condition(unsigned *out, const unsigned *in, int n) {
    int k = 2;
    if (n & 1) k = 5;
    __syncthreads();
    if (n > 3) { k += 7; __syncthreads(); } else --k;
    unsigned v = threadIdx.x;
    for (int i = 0; i < k; ++i) { v = v * 3 + i; __syncthreads(); }
    out[threadIdx.x] = v;
}
// case changed_by_some
__global__ void changed_by_some(unsigned *out, const unsigned *in, int n) {
    int k = n;
    if (threadIdx.x & 1) k = 7;
    __syncthreads();
    out[threadIdx.x] = k;
    __syncthreads();
    if (threadIdx.x < 9) ++k;
    __syncthreads();
    out[threadIdx.x] += k * 100;
}
// case changed_in_a_loop_of_threads
__global__ void changed_in_a_loop_of_threads(unsigned *out, const unsigned *in, int n) {
    int k = n;
    for (unsigned i = 0; i < threadIdx.x % 4; ++i) k += i;
    __syncthreads();
    out[threadIdx.x] = k;
}
// case used_before_and_after
__global__ void used_before_and_after(unsigned *out, const unsigned *in, int n) {
    int k = n;
    const int before = k;
    __syncthreads();
    k += 10;
    const int after = k;
    __syncthreads();
    k = 0;
    __syncthreads();
    out[threadIdx.x] = before * 1000 + after * 10 + k;
}
// case depends_on_a_later_uniform
__global__ void depends_on_a_later_uniform(unsigned *out, const unsigned *in, int n) {
    int a = n, b = a + 1;
    a = b * 2;
    __syncthreads();
    b = a - b;
    __syncthreads();
    const int c = a + b;
    a = 0;
    __syncthreads();
    out[threadIdx.x] = a + b * 10 + c * 100;
}
// case derived_index
__global__ void derived_index(unsigned *out, const unsigned *in, int n) {
    unsigned row = blockIdx.x;
    const unsigned at = row * 64 + threadIdx.x;
    __syncthreads();
    row += 5;
    __syncthreads();
    out[at] = row * 64 + in[at];
}
// case swapped
__global__ void swapped(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[2][64];
    int from = 0, to = 1;
    s[0][threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        s[to][threadIdx.x] = s[from][(threadIdx.x + 1) % 64] + i;
        __syncthreads();
        const int kept = from;
        from = to;
        to = kept;
    }
    out[threadIdx.x] = s[from][threadIdx.x];
}
// case swapped_pointers
__global__ void swapped_pointers(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a[64], b[64];
    unsigned *from = a, *to = b;
    a[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    for (int i = 0; i < n; ++i) {
        to[threadIdx.x] = from[(threadIdx.x + 3) % 64] ^ i;
        __syncthreads();
        unsigned *kept = from;
        from = to;
        to = kept;
    }
    out[threadIdx.x] = from[threadIdx.x];
}
// case toggled
__global__ void toggled(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[2][64];
    bool odd = false;
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < n; ++i) {
        s[odd][threadIdx.x] = v;
        __syncthreads();
        v += s[odd][63 - threadIdx.x];
        odd = !odd;
    }
    out[threadIdx.x] = v + odd;
}
// case parameter_changed
__global__ void parameter_changed(unsigned *out, const unsigned *in, int n) {
    n += 2;
    __syncthreads();
    out += n;
    in += 1;
    __syncthreads();
    out[threadIdx.x] = in[threadIdx.x] + n;
}
// case parameter_of_each_thread
__global__ void parameter_of_each_thread(unsigned *out, const unsigned *in, int n) {
    in += threadIdx.x;
    n = *in;
    __syncthreads();
    n += in[1];
    __syncthreads();
    out[threadIdx.x] = n;
}
// case array_of_uniforms
__global__ void array_of_uniforms(unsigned *out, const unsigned *in, int n) {
    int steps[3] = {n, 2, 1};
    unsigned v = 0;
    for (int i = 0; i < 3; ++i) {
        v = v * 10 + steps[i];
        __syncthreads();
        steps[i] += threadIdx.x;
        __syncthreads();
    }
    out[threadIdx.x] = v + steps[1] * 1000;
}
// case struct_of_uniforms
struct Sizes { int rows, columns; };
__global__ void struct_of_uniforms(unsigned *out, const unsigned *in, int n) {
    Sizes sizes = {n, 2};
    unsigned v = threadIdx.x;
    for (int i = 0; i < sizes.rows; ++i) {
        v += sizes.columns;
        __syncthreads();
        ++sizes.columns;
    }
    out[threadIdx.x] = v;
}
// case block_index: grid 3, n 1
__global__ void block_index(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned rounds = blockIdx.x + n;
    for (unsigned i = 0; i < rounds; ++i) {
        v = v * 3 + i;
        __syncthreads();
    }
    if (blockIdx.x == 1) { __syncthreads(); v += 5; }
    out[blockIdx.x * blockDim.x + threadIdx.x] = v + gridDim.x;
}
// case uniform_float
__global__ void uniform_float(unsigned *out, const unsigned *in, int n) {
    float scale = 1;
    float v = in[threadIdx.x];
    while (scale < n * 2) {
        v = v * 0.5f + scale;
        __syncthreads();
        scale *= 1.5f;
    }
    out[threadIdx.x] = __float_as_uint(v);
}
// case assigned_in_a_condition
__global__ void assigned_in_a_condition(unsigned *out, const unsigned *in, int n) {
    int k;
    unsigned v = threadIdx.x;
    if ((k = n * 2) > 4) { v += k; __syncthreads(); }
    while ((k -= 2) > 0) { v = v * 3 + k; __syncthreads(); }
    out[threadIdx.x] = v + k;
}
// case constexpr_values
constexpr int constexpr_values_of(int i) { return i * i + 1; }
__global__ void constexpr_values(unsigned *out, const unsigned *in, int n) {
    constexpr int ROUNDS = constexpr_values_of(2);
    static constexpr unsigned STEP = 3u;
    const int twice = ROUNDS * 2;
    unsigned v = threadIdx.x;
    for (int i = 0; i < ROUNDS; ++i) { v += STEP * i; __syncthreads(); }
    out[threadIdx.x] = v + twice;
}
// case constant_memory
__constant__ int constant_memory_limits[3] = {2, 4, 1};
__global__ void constant_memory(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    for (int i = 0; i < constant_memory_limits[n % 3 + 1]; ++i) { v += i; __syncthreads(); }
    out[threadIdx.x] = v;
}
// case ternary_of_uniforms
__global__ void ternary_of_uniforms(unsigned *out, const unsigned *in, int n) {
    const int rounds = n > 2 ? n : 2, half = rounds > 3 ? rounds / 2 : rounds;
    unsigned v = in[threadIdx.x];
    for (int i = half; i--;) { v ^= v << 1; __syncthreads(); }
    out[threadIdx.x] = v + rounds;
}
// case volatile_locals
__global__ void volatile_locals(unsigned *out, const unsigned *in, int n) {
    volatile unsigned v = threadIdx.x;
    volatile int k = n;
    __syncthreads();
    v = v + k;
    k = 9;
    __syncthreads();
    out[threadIdx.x] = v * k;
}
