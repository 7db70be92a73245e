// Declarations in other words than most, which hide a name from outside; and a name that is not hidden yet, or no more.

struct Point { unsigned x, y; };
struct Two { unsigned a, b; };

// case binding_hides
__global__ void binding_hides(unsigned *out, const unsigned *in, int n) {
    unsigned x = 1000, y = in[threadIdx.x];
    Point p = {threadIdx.x, 2};
    {
        auto [x, y] = p;
        out[threadIdx.x] = x + y;
        __syncthreads();
        out[threadIdx.x] += x * 10 + y;
    }
    __syncthreads();
    out[threadIdx.x] += x + y;
}
// case decltype_hides
constexpr int hidden_rounds = 2;
__global__ void decltype_hides(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    decltype(n) hidden_rounds = n;
    for (int i = 0; i < hidden_rounds; ++i) {
        sum += in[threadIdx.x + i];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case parenthesized_hides
constexpr unsigned hidden_size = 2;
__global__ void parenthesized_hides(unsigned *out, const unsigned *in, int n) {
    unsigned (hidden_size) = 5;
    unsigned row = threadIdx.x * hidden_size;
    __syncthreads();
    out[threadIdx.x] = row + hidden_size;
}
// case member_pointer_hides
__device__ unsigned Point::*hidden_member = &Point::x;
__global__ void member_pointer_hides(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 100};
    unsigned Point::*hidden_member = &Point::y;
    out[threadIdx.x] = p.*hidden_member;
    __syncthreads();
    out[threadIdx.x] += p.*hidden_member * 3;
}
// case using_hides
namespace Other { constexpr unsigned hidden_k = 9; __device__ unsigned hidden_m = 4; }
__global__ void using_hides(unsigned *out, const unsigned *in, int n) {
    unsigned hidden_k = threadIdx.x, sum = 0;
    {
        using Other::hidden_k;
        sum += hidden_k;
        __syncthreads();
        sum += hidden_k * 2;
        __syncthreads();
    }
    out[threadIdx.x] = sum + hidden_k;
}
// case flattened_enumerators
constexpr unsigned flat_k = 3;
__global__ void flattened_enumerators(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    {
        enum { flat_k = 9 };
        sum += flat_k;
        __syncthreads();
        sum += flat_k * 2;
    }
    __syncthreads();
    out[threadIdx.x] = sum + flat_k * 1000;
}
// case flattened_using
using flat_type = unsigned;
__global__ void flattened_using(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    {
        using flat_type = unsigned char;
        sum += flat_type(in[threadIdx.x]);
        __syncthreads();
        sum += 1;
    }
    __syncthreads();
    out[threadIdx.x] = sum + flat_type(in[threadIdx.x] * 3);
}
// case recomputed_name_is_global
__device__ unsigned early_row = 7;
__global__ void recomputed_name_is_global(unsigned *out, const unsigned *in, int n) {
    unsigned sum = in[threadIdx.x] + early_row;
    unsigned early_row = threadIdx.x * 2;
    __syncthreads();
    out[threadIdx.x] = sum + early_row;
}
// case anonymous_union
__global__ void anonymous_union(unsigned *out, const unsigned *in, int n) {
    union { unsigned bits; float real; };
    real = in[threadIdx.x] * 0.5f;
    __syncthreads();
    out[threadIdx.x] = bits;
}
// case small_size_t: block 512
__global__ void small_size_t(unsigned *out, const unsigned *in, int n) {
    using size_t = unsigned short;
    size_t v = in[threadIdx.x] * 3;
    __syncthreads();
    out[threadIdx.x] = v + sizeof(size_t);
}
// case bound_early
constexpr unsigned bound_k = 3;
__device__ unsigned bound_sum(unsigned x) {
    x *= bound_k;
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x;
}
__global__ void bound_early(unsigned *out, const unsigned *in, int n) {
    Two t = {7, in[threadIdx.x]};
    unsigned v = in[threadIdx.x];
    auto [bound_k, b] = t;
    v = bound_sum(v);
    out[threadIdx.x] = v;
}
// case used_early
namespace Far { constexpr unsigned used_k = 7; }
constexpr unsigned used_k = 3;
__device__ unsigned used_sum(unsigned x) {
    x *= used_k;
    x += __shfl_xor_sync(0xffffffff, x, 1);
    return x;
}
__global__ void used_early(unsigned *out, const unsigned *in, int n) {
    using Far::used_k;
    unsigned v = in[threadIdx.x];
    v = used_sum(v);
    out[threadIdx.x] = v + used_k;
}
// case hidden_by_attribute
constexpr unsigned attribute_k = 2;
__global__ void hidden_by_attribute(unsigned *out, const unsigned *in, int n) {
    unsigned attribute_k __attribute__((unused)) = 5;
    unsigned row = threadIdx.x * attribute_k;
    __syncthreads();
    out[threadIdx.x] = row + attribute_k;
}
// case hidden_by_wide
constexpr unsigned wide_k = 2;
__global__ void hidden_by_wide(unsigned *out, const unsigned *in, int n) {
    unsigned __int128 wide_k = 5;
    unsigned row = threadIdx.x * 3;
    __syncthreads();
    out[threadIdx.x] = row + unsigned(wide_k);
}
// case hidden_by_function_pointer
__device__ unsigned pick_a(unsigned v) { return v + 1; }
__device__ unsigned pick_b(unsigned v) { return v * 3; }
__device__ unsigned picked(unsigned v) { return v * 7; }
__global__ void hidden_by_function_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned (*picked)(unsigned) = n > 2 ? pick_a : pick_b;
    v = picked(v);
    __syncthreads();
    out[threadIdx.x] = picked(v);
}
// case hidden_by_auto_pair
__device__ unsigned pair_a = 9, pair_b = 8;
__global__ void hidden_by_auto_pair(unsigned *out, const unsigned *in, int n) {
    Two t = {threadIdx.x, in[threadIdx.x]};
    auto [pair_a, pair_b] = t;
    out[threadIdx.x] = pair_a;
    __syncthreads();
    out[threadIdx.x] += pair_b;
}
// case hidden_in_condition
constexpr unsigned condition_k = 9;
__global__ void hidden_in_condition(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    if (decltype(n) condition_k = n) {
        sum += condition_k;
        __syncthreads();
        sum += condition_k * 10;
    }
    out[threadIdx.x] = sum;
}
// case hidden_by_typedef_cast
constexpr unsigned cast_k = 9;
template <bool> struct Choose { typedef unsigned type; };
__global__ void hidden_by_typedef_cast(unsigned *out, const unsigned *in, int n) {
    std::conditional_t<(sizeof(int) > 2), unsigned, float> cast_k = threadIdx.x;
    Choose<(3 > 2)>::type other = cast_k;
    __syncthreads();
    out[threadIdx.x] = other * 100 + cast_k;
}
// case hidden_index_names
__global__ void hidden_index_names(unsigned *out, const unsigned *in, int n) {
    struct Size { unsigned x, y; };
    const Size blockDim = {7, 2};
    const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
    unsigned v = in[t] * blockDim.y;
    __syncthreads();
    out[threadIdx.x] = v + blockDim.x * 3;
}
// case pasted_statement_names: block 64 2
__global__ void pasted_statement_names(unsigned *out, const unsigned *in, int n) {
    struct Size { unsigned x; };
    const Size blockDim = {16};
    unsigned v = in[threadIdx.x + 64 * threadIdx.y];
    const unsigned t = threadIdx.y * blockDim.x + threadIdx.x;
    for (unsigned i = t / 32; i < 4; ++i) v += i;
    __syncwarp();
    out[threadIdx.x + 64 * threadIdx.y] = v;
}
// case own_warp_size: block 64
__global__ void own_warp_size(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const int warpSize = 16;
    for (int i = threadIdx.x / warpSize; i < 4; ++i) v += i;
    __syncwarp();
    const int part = threadIdx.x / warpSize;
    unsigned w = 0;
    if (part >= 0) w = __shfl_xor_sync(0xffffffff, v, 1);
    __syncwarp();
    w += part * 100;
    for (int i = 0; i < 2; ++i) { w += __shfl_xor_sync(0xffffffff, w, 2) + part; }
    out[threadIdx.x] = w;
}
// case steady_part: block 64
__global__ void steady_part(unsigned *out, const unsigned *in, int n) {
    const int warpSize = 16;
    unsigned v = in[threadIdx.x], w = 5;
    const int rounds = 2 + threadIdx.x / 32 + 0 * warpSize;
    for (int i = 0; i < rounds; ++i) { v += __shfl_xor_sync(0xffffffff, v, 1) * i; w += rounds; }
    out[threadIdx.x] = v + w;
}
// case greek_memory
__device__ unsigned µ = 3;
__global__ void greek_memory(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) µ = 3 + n;
    __syncthreads();
    unsigned v = µ + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) µ = 50;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case greek_variables
__global__ void greek_variables(unsigned *out, const unsigned *in, int n) {
    unsigned x = threadIdx.x;
    for (int i = 0; i < 2; ++i) {
        unsigned Δx = in[threadIdx.x + i];
        __syncthreads();
        x += Δx;
    }
    out[threadIdx.x] = x;
}
// case greek_sum
__global__ void greek_sum(unsigned *out, const unsigned *in, int n) {
    unsigned x = 100, σ = in[threadIdx.x], λx = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = x + λx;
    __syncthreads();
    out[threadIdx.x] += σ;
}
// case dollar_memory
__device__ unsigned n$n = 3;
__global__ void dollar_memory(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) n$n = 3 + n;
    __syncthreads();
    unsigned v = n$n + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) n$n = 50;
    __syncthreads();
    out[threadIdx.x] = v;
}
