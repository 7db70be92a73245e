// Device functions with barriers or warp functions, which a rewriter may put in place of their calls.
#define ALL 0xffffffffu

__device__ unsigned turned(unsigned *s, unsigned v, const unsigned at) {
    __syncthreads();
    s[at] = v;
    __syncthreads();
    const unsigned got = s[(at + 1) % blockDim.x];
    __syncthreads();
    return got;
}
__device__ unsigned summed(unsigned v) {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k);
    return v;
}
__device__ void same_names_step(unsigned *s, unsigned &v, unsigned k, const unsigned at) {
    unsigned t = k + 1;
    s[at] = v * t;
    __syncthreads();
    for (unsigned i = 0; i < 2; ++i) t += s[(at + i) % 64];
    __syncthreads();
    v = t;
}
__device__ void nested_twice_inner(unsigned *s, unsigned &v, int by, const unsigned at) {
    const unsigned mine = v + by;
    s[at] = mine;
    __syncthreads();
    v ^= s[63 - at];
    __syncthreads();
}
__device__ unsigned nested_twice_outer(unsigned *s, unsigned v, int by, const unsigned at) {
    unsigned mine = v;
    nested_twice_inner(s, mine, by, at);
    nested_twice_inner(s, v, by * 2, at);
    return mine * 3 + v;
}
__device__ unsigned parameter_is_changed_of(unsigned *s, unsigned v, int rounds, const unsigned at) {
    while (rounds-- > 0) {
        s[at] = v;
        __syncthreads();
        v = v * 3 + s[at ^ 1];
        __syncthreads();
    }
    return v + rounds;
}
__device__ unsigned argument_changes_meanwhile_of(unsigned *s, unsigned value, unsigned &changed, const unsigned at) {
    changed += 10;
    s[at] = changed;
    __syncthreads();
    const unsigned got = s[at ^ 3];
    __syncthreads();
    return got * 2 + value;
}
__device__ unsigned shared_value_as_argument_of(unsigned *word, unsigned value, const unsigned at) {
    __syncthreads();
    if (at == 0) *word = 50;
    __syncthreads();
    return value + *word;
}
__device__ void uniform_by_reference_step(unsigned *s, int &k, const unsigned at) {
    s[at] += k;
    __syncthreads();
    k *= 2;
}
__device__ unsigned early_return_inside_of(unsigned *s, unsigned v, int n, const unsigned at) {
    if (n > 2) {
        s[at] = v;
        __syncthreads();
        return s[63 - at];
    }
    return v;
}
__device__ unsigned own_shared_memory_of(unsigned v) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = v;
    __syncthreads();
    v += s[(threadIdx.x * 3) % 64];
    __syncthreads();
    return v;
}
template <int N, class T> __device__ void template_with_barrier_of(T *s, T &v, const unsigned at) {
    for (int i = 0; i < N; ++i) {
        s[at] = v;
        __syncthreads();
        v += s[(at + N) % 64];
        __syncthreads();
    }
}
__device__ unsigned char narrow_results_of(unsigned short v) { return summed(v) + v; }
__device__ unsigned asks_for_its_thread_of() { return threadIdx.x * 3 + blockIdx.x; }
__device__ unsigned pointers_that_move_of(unsigned *s, const unsigned *p, const unsigned at) {
    p += at;
    s += at;
    *s = *p++;
    __syncthreads();
    const unsigned v = s[-static_cast<int>(at)] + *p;
    __syncthreads();
    return v;
}

// case once
__global__ void once(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    out[threadIdx.x] = turned(s, in[threadIdx.x], threadIdx.x);
}
// case twice_in_one_expression
__global__ void twice_in_one_expression(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    const unsigned v = turned(s, threadIdx.x, threadIdx.x) + 3 * turned(s, in[threadIdx.x], threadIdx.x);
    out[threadIdx.x] = v;
}
// case call_in_a_call
__global__ void call_in_a_call(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = turned(s, turned(s, in[threadIdx.x], threadIdx.x) + 1, threadIdx.x);
    v += summed(v);
    out[threadIdx.x] = v;
}
// case same_names
__global__ void same_names(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned t = in[threadIdx.x], v = threadIdx.x, k = 2;
    for (unsigned i = 0; i < 2; ++i) {
        same_names_step(s, t, v, threadIdx.x);
        same_names_step(s, v, k + i, threadIdx.x);
    }
    out[threadIdx.x] = t * 3 + v * 5 + k;
}
// case nested_twice
__global__ void nested_twice(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = in[threadIdx.x];
    v = nested_twice_outer(s, v, n, threadIdx.x);
    unsigned mine = nested_twice_outer(s, v + 1, 1, threadIdx.x);
    out[threadIdx.x] = v + mine;
}
// case parameter_is_changed
__global__ void parameter_is_changed(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = in[threadIdx.x];
    const unsigned w = parameter_is_changed_of(s, v, n, threadIdx.x);
    out[threadIdx.x] = v * 7 + w + n;
}
// case argument_changes_meanwhile
__global__ void argument_changes_meanwhile(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = threadIdx.x;
    const unsigned w = argument_changes_meanwhile_of(s, v, v, threadIdx.x);
    __syncthreads();
    const unsigned x = argument_changes_meanwhile_of(s, v * 2, v, threadIdx.x);
    out[threadIdx.x] = v + w * 100 + x;
}
// case shared_value_as_argument
__global__ void shared_value_as_argument(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned word;
    if (threadIdx.x == 0) word = n;
    __syncthreads();
    out[threadIdx.x] = shared_value_as_argument_of(&word, word, threadIdx.x);
}
// case uniform_by_reference
__global__ void uniform_by_reference(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    int k = n;
    uniform_by_reference_step(s, k, threadIdx.x);
    uniform_by_reference_step(s, k, threadIdx.x);
    for (int i = 0; i < k; ++i) { s[threadIdx.x] ^= i; __syncthreads(); }
    out[threadIdx.x] = s[63 - threadIdx.x] + k;
}
// case early_return_inside
__global__ void early_return_inside(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    out[threadIdx.x] = early_return_inside_of(s, in[threadIdx.x], n, threadIdx.x);
}
// case own_shared_memory
__global__ void own_shared_memory(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = n;
    unsigned v = own_shared_memory_of(in[threadIdx.x]);
    v = own_shared_memory_of(v + s[63 - threadIdx.x]);
    out[threadIdx.x] = v;
}
// case template_with_barrier
__global__ void template_with_barrier(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    __shared__ float f[64];
    unsigned v = in[threadIdx.x];
    float w = v * 0.5f;
    template_with_barrier_of<2>(s, v, threadIdx.x);
    template_with_barrier_of<1, float>(f, w, threadIdx.x);
    out[threadIdx.x] = v ^ __float_as_uint(w);
}
// case under_a_uniform_condition
__global__ void under_a_uniform_condition(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = in[threadIdx.x];
    if (n > 2) v = turned(s, v, threadIdx.x); else v = 1;
    for (int i = 0; i < n; ++i) v += turned(s, v + i, threadIdx.x);
    if (turned(s, n, threadIdx.x) > 2u) v ^= 1;
    out[threadIdx.x] = v;
}
// case narrow_results
__global__ void narrow_results(unsigned *out, const unsigned *in, int n) {
    const int v = narrow_results_of(in[threadIdx.x] * 5);
    out[threadIdx.x] = v * 3;
}
// case asks_for_its_thread
__global__ void asks_for_its_thread(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = asks_for_its_thread_of();
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x] + asks_for_its_thread_of();
}
// case pointers_that_move
__global__ void pointers_that_move(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = pointers_that_move_of(s, in, threadIdx.x);
    v += pointers_that_move_of(s, in + n, threadIdx.x);
    out[threadIdx.x] = v + s[0];
}
