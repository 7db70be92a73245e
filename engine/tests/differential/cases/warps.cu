// Warp functions, also in warps that are not whole.
#define ALL 0xffffffffu

// case sum_by_xor
__global__ void sum_by_xor(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k);
    out[threadIdx.x] = v;
}
// case sum_by_down
__global__ void sum_by_down(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int k = 16; k > 0; k >>= 1) v = v * 3 + __shfl_down_sync(ALL, v, k);
    out[threadIdx.x] = v;
}
// case scan_by_up
__global__ void scan_by_up(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned lane = threadIdx.x % 32;
    for (unsigned k = 1; k < 32; k *= 2) {
        const unsigned before = __shfl_up_sync(ALL, v, k);
        if (lane >= k) v += before;
    }
    out[threadIdx.x] = v;
}
// case from_any_lane
__global__ void from_any_lane(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v += __shfl_sync(ALL, v, v);
    v ^= __shfl_sync(ALL, v, threadIdx.x * 7 + n);
    v += __shfl_sync(ALL, threadIdx.x, -1);
    out[threadIdx.x] = v;
}
// case narrow_widths
__global__ void narrow_widths(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v += __shfl_sync(ALL, v, 5, 4);
    v ^= __shfl_up_sync(ALL, v, 2, 8);
    v += __shfl_down_sync(ALL, v, 3, 16) * 3;
    v ^= __shfl_xor_sync(ALL, v, 12, 8);
    v += __shfl_xor_sync(ALL, v, 5, 8);
    out[threadIdx.x] = v;
}
// case types
__global__ void types(unsigned *out, const unsigned *in, int n) {
    float f = in[threadIdx.x] * 0.5f;
    double d = in[threadIdx.x] * 0.25;
    long long l = in[threadIdx.x] * 0x100000001ll;
    int i = -static_cast<int>(threadIdx.x);
    f += __shfl_xor_sync(ALL, f, 1);
    d += __shfl_down_sync(ALL, d, 2);
    l ^= __shfl_up_sync(ALL, l, 3);
    i -= __shfl_sync(ALL, i, 9);
    out[threadIdx.x] = __float_as_uint(f) + static_cast<unsigned>(d) * 3 + static_cast<unsigned>(l >> 32) + i;
}
// case votes
__global__ void votes(unsigned *out, const unsigned *in, int n) {
    const unsigned v = in[threadIdx.x];
    const unsigned odd = __ballot_sync(ALL, v & 1);
    const int any = __any_sync(ALL, v > 60000), all = __all_sync(ALL, v > 300);
    out[threadIdx.x] = __popc(odd) * 100 + any * 10 + all + (odd << 16);
}
// case vote_of_a_wide_value
__global__ void vote_of_a_wide_value(unsigned *out, const unsigned *in, int n) {
    const int v = in[threadIdx.x] & 2;
    out[threadIdx.x] = __ballot_sync(ALL, v) ^ __any_sync(ALL, 0.5f > v) ^ __all_sync(ALL, threadIdx.x + 1);
}
// case reductions
__global__ void reductions(unsigned *out, const unsigned *in, int n) {
    const unsigned v = in[threadIdx.x];
    unsigned r = __reduce_add_sync(ALL, v) ^ __reduce_xor_sync(ALL, v);
    r += __reduce_max_sync(ALL, v) * 3 + __reduce_min_sync(ALL, v) * 5;
    r ^= __reduce_and_sync(ALL, v | 0xf0f) + __reduce_or_sync(ALL, v & 0xf0f);
    const int i = static_cast<int>(v) - 30000;
    r += __reduce_add_sync(ALL, i) + __reduce_max_sync(ALL, i) + __reduce_min_sync(ALL, i);
    out[threadIdx.x] = r;
}
// case matches
__global__ void matches(unsigned *out, const unsigned *in, int n) {
    const unsigned same = __match_any_sync(ALL, in[threadIdx.x] & 3);
    out[threadIdx.x] = same ^ __match_any_sync(ALL, threadIdx.x / 5);
}
// case partial_last_warp: block 80
__global__ void partial_last_warp(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned b = __ballot_sync(ALL, v & 1);
    v += __shfl_xor_sync(ALL, v, 8, 16);
    v += __shfl_down_sync(ALL, v, 1, 16);
    v += __reduce_add_sync(ALL, v) + __all_sync(ALL, v > 5) + __any_sync(ALL, v == 5);
    out[threadIdx.x] = v ^ b;
}
// case few_threads: block 7
__global__ void few_threads(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned b = __ballot_sync(ALL, threadIdx.x != 3);
    v += __shfl_sync(ALL, v, n);
    __syncwarp();
    out[threadIdx.x] = v + b + __reduce_max_sync(ALL, v) + __match_any_sync(ALL, v & 1);
}
// case odd_rows: block 5 7
__global__ void odd_rows(unsigned *out, const unsigned *in, int n) {
    const unsigned t = threadIdx.y * 5 + threadIdx.x;
    unsigned v = in[t];
    const unsigned b = __ballot_sync(ALL, threadIdx.x & 1);
    v += __shfl_sync(ALL, v, 1);
    v = v * 3 + __popc(b) + b;
    __syncthreads();
    out[t] = v + __reduce_add_sync(ALL, threadIdx.y);
}
// case square: block 16 16
__global__ void square(unsigned *out, const unsigned *in, int n) {
    const unsigned t = threadIdx.y * 16 + threadIdx.x;
    unsigned v = in[t];
    v += __shfl_xor_sync(ALL, v, 16);
    v ^= __shfl_down_sync(ALL, v, 4, 16);
    out[t] = v + __ballot_sync(ALL, threadIdx.y & 1);
}
// case rows_of_warps: block 32 3
__global__ void rows_of_warps(unsigned *out, const unsigned *in, int n) {
    const unsigned t = threadIdx.y * 32 + threadIdx.x;
    unsigned v = in[t];
    if (threadIdx.y < 2) v += __shfl_xor_sync(ALL, v, 3);
    for (unsigned i = threadIdx.y; i < 4; ++i) v += __shfl_down_sync(ALL, v, i + 1) * i;
    out[t] = v;
}
// case some_warps: block 96
__global__ void some_warps(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned warp = threadIdx.x / 32;
    if (warp == 1) v = v * 3 + __shfl_xor_sync(ALL, v, 1);
    else v += __shfl_up_sync(ALL, v, 4);
    if (threadIdx.x < 64) v += __ballot_sync(ALL, v & 1);
    out[threadIdx.x] = v;
}
// case rounds_of_a_warp: block 96
__global__ void rounds_of_a_warp(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const int warp = threadIdx.x >> 5, warps = blockDim.x / 32;
    for (int row = warp; row < 7; row += warps) {
        v += __shfl_xor_sync(ALL, v, row) + row;
        __syncwarp();
    }
    out[threadIdx.x] = v;
}
// case warp_then_block: block 128
__global__ void warp_then_block(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned sums[4];
    unsigned v = in[threadIdx.x];
    for (int k = 16; k > 0; k /= 2) v += __shfl_down_sync(ALL, v, k);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x < 4 ? sums[threadIdx.x] : 0;
    if (threadIdx.x < 32)
        for (int k = 2; k > 0; k /= 2) v += __shfl_down_sync(ALL, v, k);
    if (threadIdx.x == 0) out[0] = v;
}
// case shared_within_a_warp
__global__ void shared_within_a_warp(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    __syncwarp();
    const unsigned next = s[threadIdx.x ^ 1];
    __syncwarp();
    s[threadIdx.x] += next * 2;
    __syncwarp();
    out[threadIdx.x] = s[threadIdx.x ^ 2];
}
// case value_that_a_warp_changes
__global__ void value_that_a_warp_changes(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned word[2];
    if (threadIdx.x % 32 == 0) word[threadIdx.x / 32] = in[threadIdx.x];
    __syncwarp();
    const unsigned seen = word[threadIdx.x / 32];
    __syncwarp();
    if (threadIdx.x % 32 == 1) word[threadIdx.x / 32] = 8;
    __syncwarp();
    out[threadIdx.x] = seen * 3 + word[threadIdx.x / 32];
}
// case half_masks
__global__ void half_masks(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    if (threadIdx.x & 16) v += __shfl_xor_sync(0xffff0000u, v, 1);
    else v ^= __ballot_sync(0x0000ffffu, v & 1);
    __syncwarp();
    out[threadIdx.x] = v;
}
// case mask_of_a_ballot
__global__ void mask_of_a_ballot(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned odd = __ballot_sync(ALL, v & 1);
    if (v & 1) v += __reduce_add_sync(odd, threadIdx.x) + __popc(__ballot_sync(odd, v & 2));
    out[threadIdx.x] = v;
}
// case lanes_that_returned
__global__ void lanes_that_returned(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x >= 48) return;
    unsigned v = in[threadIdx.x];
    v += __reduce_add_sync(threadIdx.x < 32 ? ALL : 0xffffu, v);
    out[threadIdx.x] = v;
}
// case in_expressions
__global__ void in_expressions(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = __shfl_xor_sync(ALL, v, 1) + __shfl_xor_sync(ALL, v + 1, 2) * 3;
    v += __shfl_sync(ALL, __shfl_xor_sync(ALL, v, 4), 3);
    const unsigned a[2] = {__shfl_up_sync(ALL, v, 1), __ballot_sync(ALL, v & 4)};
    out[threadIdx.x] = v ^ a[0] ^ a[1];
}
// case changes_its_own_value
__global__ void changes_its_own_value(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = __shfl_xor_sync(ALL, v++, 1) + 2;
    v += __shfl_xor_sync(ALL, v *= 3, 2);
    out[threadIdx.x] = v;
}
// case uniform_loop_with_votes
__global__ void uniform_loop_with_votes(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], sum = 0;
    for (int bit = 0; bit < n; ++bit) {
        const unsigned set = __ballot_sync(ALL, v >> bit & 1);
        sum = sum * 3 + __popc(set & ((1u << threadIdx.x % 32) - 1));
    }
    out[threadIdx.x] = sum;
}
// case loop_until_none
__global__ void loop_until_none(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x] & 15, rounds = 0;
    while (__any_sync(ALL, v)) {
        if (v) --v;
        ++rounds;
    }
    out[threadIdx.x] = rounds;
}
// case leader_broadcasts
__global__ void leader_broadcasts(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    unsigned at = 0;
    if (threadIdx.x % 32 == 0) at = atomicAdd(&counter, 32u);
    at = __shfl_sync(ALL, at, 0);
    __syncthreads();
    out[threadIdx.x] = counter + (at & 31);
}
// case uniform_broadcast
__global__ void uniform_broadcast(unsigned *out, const unsigned *in, int n) {
    const unsigned first = __shfl_sync(ALL, in[threadIdx.x], 0);
    unsigned sum = 0;
    for (unsigned i = 0; i < (first & 3) + 1; ++i) sum += __shfl_xor_sync(ALL, threadIdx.x + i, 1);
    out[threadIdx.x] = sum;
}
// case counted_barriers: block 48
__global__ void counted_barriers(unsigned *out, const unsigned *in, int n) {
    const unsigned v = in[threadIdx.x];
    const int odd = __syncthreads_count(v & 1);
    const int any = __syncthreads_or(v == 7), all = __syncthreads_and(v > 100);
    out[threadIdx.x] = odd * 100 + any * 10 + all;
}
// case masks_with_names
__global__ void masks_with_names(unsigned *out, const unsigned *in, int n) {
    unsigned all = 0xffffffffu;
    const unsigned same = ~0u;
    unsigned v = __shfl_xor_sync(all, in[threadIdx.x], 1);
    if (threadIdx.x < 32) {
        const unsigned mine = 0xffffffff;
        v += __reduce_add_sync(mine, v & 7);
    }
    v += __popc(__ballot_sync(same, v & 1));
    out[threadIdx.x] = v;
}
// case masks_that_change
__global__ void masks_that_change(unsigned *out, const unsigned *in, int n) {
    unsigned mask = 0xffffffffu;
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < 2; ++i) {
        if ((threadIdx.x & 31) < 16 || i == 0) v += __shfl_sync(mask, v, 3);
        mask >>= 16;
        __syncthreads();
    }
    out[threadIdx.x] = v;
}
// case changed_masks: block 16
__device__ void halve(unsigned &mask) { mask >>= 16; }
__global__ void changed_masks(unsigned *out, const unsigned *in, int n) {
    unsigned mask = 0xffffffffu;
    unsigned v = __shfl_sync(mask, in[threadIdx.x], 1);
    halve(mask);
    v += __shfl_sync(mask, v, 3);
    out[threadIdx.x] = v;
}
