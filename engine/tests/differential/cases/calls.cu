// Calls and shuffles that leave their statement, and functions that stand in a kernel more than once.
#define ALL 0xffffffffu
struct Two { unsigned a, b; };
__device__ unsigned twice(unsigned a) { a += __shfl_down_sync(ALL, a, 2); return a * 2; }
__device__ unsigned warp_sum(unsigned v) { for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k); return v; }
__device__ void step(unsigned &x) { x ^= __shfl_xor_sync(ALL, x, 1) >> 1; x += 3; }
__device__ unsigned next(unsigned *x) { return (*x)++; }
__device__ int votes(int v) { return __popc(__ballot_sync(ALL, v & 1)); }

// case persists_apart
__device__ unsigned apart_f(unsigned x, int put) {
    __shared__ unsigned t[64];
    if (put) t[threadIdx.x] = x;
    __syncthreads();
    unsigned r = t[63 - threadIdx.x];
    __syncthreads();
    return r;
}
__device__ unsigned apart_g(unsigned x) {
    unsigned r = apart_f(x, 0);
    return r * 3;
}
__global__ void persists_apart(unsigned *out, const unsigned *in, int n) {
    unsigned a = apart_f(in[threadIdx.x], 1);
    unsigned b = apart_g(a);
    out[threadIdx.x] = a + b * 7;
}
// case persists_other_order
__device__ unsigned other_f(unsigned x, int put) {
    __shared__ unsigned t[64];
    if (put) t[threadIdx.x] = x;
    __syncthreads();
    unsigned r = t[63 - threadIdx.x];
    __syncthreads();
    return r;
}
__device__ void other_g(unsigned &x) { x = other_f(x, 1) + 5; }
__global__ void persists_other_order(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    other_g(v);
    unsigned b = other_f(v, 0);
    out[threadIdx.x] = v + b * 7;
}
// case two_references_to_one
__device__ void two_refs(unsigned &a, unsigned &b) {
    b += __shfl_xor_sync(ALL, b, 1);
    {
        unsigned a = b + 1;
        b = a * 3;
    }
}
__global__ void two_references_to_one(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    two_refs(v, v);
    out[threadIdx.x] = v;
}
// case two_references_to_one_loop
__device__ void two_refs_loop(unsigned &k, unsigned &b) {
    b += __shfl_xor_sync(ALL, b, 1);
    for (unsigned k = 0; k < 3; ++k) b += k * 5;
}
__global__ void two_references_to_one_loop(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    two_refs_loop(v, v);
    out[threadIdx.x] = v;
}
// case size_of_a_call
__device__ unsigned sized(unsigned &x) {
    x += 5;
    x ^= __shfl_xor_sync(ALL, x, 1);
    return x;
}
__global__ void size_of_a_call(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = 3;
    w += sizeof(sized(v));
    out[threadIdx.x] = v * 3 + w;
}
// case size_of_a_shuffle
__global__ void size_of_a_shuffle(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned w = sizeof(__shfl_sync(ALL, v, 0));
    v += __shfl_xor_sync(ALL, v, 1);
    out[threadIdx.x] = v * 3 + w;
}
// case bound_of_a_shuffle
__global__ void bound_of_a_shuffle(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned w[sizeof(__shfl_sync(ALL, v, 0))];
    for (int k = 0; k < 4; ++k) w[k] = k * v;
    v += __shfl_xor_sync(ALL, v, 1);
    out[threadIdx.x] = v * 3 + w[n];
}
// case own_warp_size
__global__ void own_warp_size(unsigned *out, const unsigned *in, int n) {
    const int warpSize = 16;
    unsigned v = in[threadIdx.x];
    const unsigned half = threadIdx.x / warpSize;
    for (unsigned k = half; k < half + 2; k += 1) v = v * 3 + k + __shfl_xor_sync(ALL, v, 1);
    out[threadIdx.x] = v;
}
// case negated_step_of_a_vote
__global__ void negated_step_of_a_vote(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = 0;
    int b = __popc(__ballot_sync(ALL, v & 1));
    if (threadIdx.x & 1) w = -b++;
    __syncthreads();
    for (int k = b; k < b + 2; ++k) v = v * 3 + k + __shfl_xor_sync(ALL, v, 1);
    out[threadIdx.x] = v + w;
}
// case inverted_step_of_a_vote
__global__ void inverted_step_of_a_vote(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = 0;
    unsigned b = __ballot_sync(ALL, v & 1);
    if (threadIdx.x & 1) w = ~b--;
    __syncthreads();
    for (unsigned k = b; k - b < 2; ++k) v = v * 3 + k + __shfl_xor_sync(ALL, v, 1);
    out[threadIdx.x] = v + w;
}
// case index_by_its_reference
__device__ unsigned step_ref(unsigned &a) {
    a += __shfl_xor_sync(ALL, a, 1) & 3;
    return a * 3;
}
__global__ void index_by_its_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x] & 7;
    unsigned t[16] = {0};
    t[v & 15] = step_ref(v);
    unsigned s = 0;
    for (int k = 0; k < 16; ++k) s = s * 3 + t[k];
    out[threadIdx.x] = v + s;
}
// case tree_of_calls: n 2
__device__ unsigned tree(unsigned x, int d) {
    x += __shfl_xor_sync(ALL, x, 1);
    if (d > 0) {
        x += tree(x, d - 1);
        x += tree(x + 1, d - 2);
    }
    return x;
}
__global__ void tree_of_calls(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = tree(v, n);
    out[threadIdx.x] = v;
}
// case in_any_statement
__global__ void in_any_statement(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = 1;
    if (n > 2) v = twice(v); else w = twice(v);
    for (int k = 0; k < 2; ++k) w += twice(w);
    do w ^= twice(v); while (n > 5);
    if (n > 5) step(v); else if (n > 2) step(w); else step(w);
    { step(v); }
    out[threadIdx.x] = v + w * 3;
}
// case vote_in_a_loop
__global__ void vote_in_a_loop(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int k = 0; k < n; ++k) {
        const unsigned b = __ballot_sync(ALL, v >> k & 1);
        if (b & 1) v += __shfl_sync(ALL, v, 3);
        if (b == 7) break;
        v += b;
    }
    while (true) {
        const bool more = __any_sync(ALL, v > 1000);
        if (!more) break;
        v /= 3;
    }
    out[threadIdx.x] = v;
}
// case warps_apart: block 96 2
__global__ void warps_apart(unsigned *out, const unsigned *in, int n) {
    const unsigned t = threadIdx.y * 96 + threadIdx.x, warp = threadIdx.x / 32;
    unsigned v = in[t];
    if (threadIdx.x < 64) v += __shfl_xor_sync(ALL, v, 1);
    if (warp == 1) v ^= warp_sum(v);
    else if (threadIdx.y) v += twice(v);
    for (int row = warp; row < 5; row += 3) v = v * 3 + row + __shfl_xor_sync(ALL, v, 2);
    for (int k = threadIdx.y; k < 3; ++k) { int j = k * warp; v += j + __shfl_down_sync(ALL, v, 1); j += v; v ^= j; }
    out[t] = v;
}
// case uniform_of_a_warp_changes: block 96
__global__ void uniform_of_a_warp_changes(unsigned *out, const unsigned *in, int n) {
    int u = n;
    unsigned v = in[threadIdx.x];
    for (int k = threadIdx.x / 32; k < 3; ++k) {
        int w = k * 2;
        u += 2;
        w += u;
        v = v * 3 + w + __shfl_xor_sync(ALL, v, 1);
        w -= threadIdx.x;
        v += w;
    }
    __syncthreads();
    out[threadIdx.x] = v + u;
}
// case counter_of_a_warp: block 96
__global__ void counter_of_a_warp(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int k = threadIdx.x / 32; k < 4; k++) {
        int w = 0;
        for (int j = 0; j < k; ++j) { w += j; v += w * __shfl_xor_sync(ALL, v, 1); }
        if (w & 1) continue;
        v += 5;
    }
    for (int k = 0; k < 3; k++) {
        if (k == threadIdx.x / 32) break;
        step(v);
    }
    out[threadIdx.x] = v;
}
// case read_then_written: block 32
__global__ void read_then_written(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[32];
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    unsigned v = __shfl_sync(ALL, s[(threadIdx.x + 1) % 32], threadIdx.x ^ 1);
    s[threadIdx.x] = v;
    __syncwarp();
    unsigned w = __shfl_sync(ALL, s[(threadIdx.x + 1) % 32], s[(threadIdx.x + 5) % 32]);
    s[threadIdx.x] = w;
    bool any = __any_sync(ALL, s[threadIdx.x] & 1);
    if (__all_sync(ALL, s[threadIdx.x] > 5)) s[threadIdx.x] ^= 9;
    __syncwarp();
    out[threadIdx.x] = s[31 - threadIdx.x] + v + any;
}
// case effects_in_arguments
__global__ void effects_in_arguments(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], k = 3;
    unsigned w = __shfl_xor_sync(ALL, next(&k), 1);
    v += __shfl_xor_sync(ALL, next(&v), next(&k));
    if (__any_sync(ALL, next(&k) == 5)) v += 5;
    v ^= __reduce_add_sync(ALL, next(&k) * next(&v));
    out[threadIdx.x] = v + k * 3 + w;
}
// case references_everywhere
__device__ void sort_two(unsigned &a, unsigned &b) {
    a += __shfl_xor_sync(ALL, b, 1) & 1;
    if (a > b) { unsigned t = a; a = b; b = t; }
}
__global__ void references_everywhere(unsigned *out, const unsigned *in, int n) {
    unsigned a = in[threadIdx.x], b = in[threadIdx.x + 5], t = 4;
    sort_two(a, b);
    sort_two(b, t);
    sort_two(t, a);
    sort_two(a, a);
    out[threadIdx.x] = a + b * 3 + t * 5;
}
// case nested_functions
__device__ unsigned inner_f(unsigned v) { unsigned x = v; x += __shfl_xor_sync(ALL, x, 1); return x; }
__device__ unsigned outer_f(unsigned x) { unsigned v = inner_f(x + 1); x ^= v; v = inner_f(x); return v + x; }
__global__ void nested_functions(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x], v = 3;
    v += outer_f(x);
    x = outer_f(v) - x;
    out[threadIdx.x] = x + v;
}
// case reductions
__global__ void reductions(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    int i = v - 30000;
    const int low = __reduce_min_sync(ALL, i), high = __reduce_max_sync(ALL, i);
    const unsigned m = __reduce_or_sync(ALL, v), x = __reduce_xor_sync(ALL, v);
    __syncthreads();
    for (int k = low; k < low + 2; ++k) v = v * 3 + k;
    if (high > 5) v += m;
    out[threadIdx.x] = v + x;
}
// case vote_loops: block 64
__global__ void vote_loops(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int k = threadIdx.x / 32; k < 3; ++k) {
        bool more = true;
        int rounds = 0;
        while (more) { v /= 3; more = __any_sync(ALL, v > 100); rounds++; }
        do { v += rounds; more = __all_sync(ALL, v > 10); rounds -= 1; if (more) v -= 5; } while (more && rounds > 0);
        v = v * 7 + in[k * 64 + threadIdx.x] + rounds;
    }
    out[threadIdx.x] = v;
}
// case comma_before_a_call
__global__ void comma_before_a_call(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = 1;
    out[threadIdx.x] = 0;
    out[threadIdx.x + 64 * (w = v & 1, __shfl_sync(ALL, w, 3) & 1)] = v;
    if (w = v >> 1, __any_sync(ALL, w > 9)) v += w;
    v += (w ^= 5, __shfl_xor_sync(ALL, w, 1)) << (w & 3);
    out[threadIdx.x] ^= v + w * 3;
}
