// Device functions that wait, where their text would mean something else in the kernel.

#define ALL 0xffffffffu

// case character_literal
__device__ unsigned character_sum(unsigned a) {
    unsigned x = a == 'a' ? 1 : 'a';
    x += __shfl_xor_sync(ALL, x, 1);
    return x;
}
__global__ void character_literal(unsigned *out, const unsigned *in, int n) {
    unsigned v = 96 + threadIdx.x % 3;
    v = character_sum(v);
    out[threadIdx.x] = v;
}
// case converted_argument
using ConstantFloat = const float;
__device__ unsigned half_of_const(unsigned *s, float const& v, const unsigned t) {
    __syncthreads();
    s[t] = 2 * (v / 2);
    __syncthreads();
    return s[t ^ 1];
}
__device__ unsigned half_of_alias(unsigned *s, ConstantFloat &v, const unsigned t) {
    __syncthreads();
    s[t] = 2 * (v / 2);
    __syncthreads();
    return s[t ^ 1];
}
__global__ void converted_argument(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[256];
    unsigned v = 2 * threadIdx.x + 1;
    unsigned a = half_of_const(s, v, threadIdx.x);
    unsigned b = half_of_alias(s, v, threadIdx.x);
    out[threadIdx.x] = a + 100 * b;
}
// case later_overload
__device__ unsigned later_mix(long v) { return v + 1; }
__device__ unsigned later_sum(unsigned x) {
    x += __shfl_xor_sync(ALL, x, 1);
    return later_mix(x);
}
__device__ unsigned later_mix(unsigned v) { return v * 5; }
__global__ void later_overload(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = later_sum(v);
    out[threadIdx.x] = v + later_mix(v);
}
// case using_directive
namespace Aside { __device__ unsigned aside_mix(unsigned v) { return v * 5; } constexpr unsigned aside_other = 3; }
__device__ unsigned aside_mix(long v) { return v + 1; }
__device__ unsigned aside_sum(unsigned x) {
    x += __shfl_xor_sync(ALL, x, 1);
    return aside_mix(x);
}
__global__ void using_directive(unsigned *out, const unsigned *in, int n) {
    using namespace Aside;
    unsigned v = in[threadIdx.x];
    v = aside_sum(v);
    out[threadIdx.x] = v + aside_other;
}
// case kernel_in_a_namespace
constexpr unsigned spaced_k = 3;
__device__ unsigned spaced_sum(unsigned x) {
    x += __shfl_xor_sync(ALL, x, 1);
    return x * spaced_k;
}
namespace Spaced {
constexpr unsigned spaced_k = 5;
using size_t = unsigned short;
__global__ void kernel_in_a_namespace(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = spaced_sum(v);
    __syncthreads();
    out[threadIdx.x] = v + spaced_k;
}
}
using Spaced::kernel_in_a_namespace;
// case binding_meets_global
struct Two { unsigned a, b; };
constexpr unsigned bound_k = 3;
__device__ unsigned bound_sum(unsigned x) {
    x += __shfl_xor_sync(ALL, x, 1);
    return x * bound_k;
}
__global__ void binding_meets_global(unsigned *out, const unsigned *in, int n) {
    Two t = {7, in[threadIdx.x]};
    unsigned v = in[threadIdx.x];
    auto [bound_k, b] = t;
    v = bound_sum(v);
    out[threadIdx.x] = v;
}
// case lost_const
__device__ unsigned lost_sum(unsigned x) {
    x += __shfl_xor_sync(ALL, x, 1);
    return x;
}
__device__ unsigned lost_pick(unsigned &v) { return v; }
__device__ unsigned lost_pick(const unsigned &v) { return v * 3; }
__global__ void lost_const(unsigned *out, const unsigned *in, int n) {
    const unsigned v = lost_sum(in[threadIdx.x]);
    out[threadIdx.x] = lost_pick(v);
}
// case lost_const_type
__global__ void lost_const_type(unsigned *out, const unsigned *in, int n) {
    const unsigned v = lost_sum(in[threadIdx.x]);
    out[threadIdx.x] = v + (std::is_const_v<decltype(v)> ? 1000 : 2000);
}
// case lost_const_reference
__device__ void lost_both(const unsigned &x, unsigned &y) {
    y += __shfl_xor_sync(ALL, x, 1) + lost_pick(x);
}
__global__ void lost_const_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = 3;
    lost_both(v, w);
    out[threadIdx.x] = w;
}
// case specialized
template <class T> __device__ T special_total(T v) {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k);
    return v;
}
template <> __device__ unsigned special_total<unsigned>(unsigned v) {
    for (int k = 16; k > 0; k /= 2) v ^= __shfl_xor_sync(ALL, v, k) * 3;
    return v;
}
__global__ void specialized(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = special_total<unsigned>(v);
    unsigned w = in[threadIdx.x];
    w = special_total(w);
    out[threadIdx.x] = v + w;
}
// case noexcept_overload
__device__ unsigned over_total(unsigned v) {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k);
    return v;
}
__device__ unsigned over_total(float v) noexcept {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k) * 0.5f;
    return v * 4;
}
__global__ void noexcept_overload(unsigned *out, const unsigned *in, int n) {
    float f = in[threadIdx.x] * 0.25f;
    unsigned v = over_total(f);
    out[threadIdx.x] = v;
}
// case attribute_overload
__device__ unsigned attr_total(unsigned v) {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k);
    return v;
}
[[nodiscard]] __device__ unsigned attr_total(float v) {
    for (int k = 16; k > 0; k /= 2) v += __shfl_xor_sync(ALL, v, k) * 0.5f;
    return v * 4;
}
__global__ void attribute_overload(unsigned *out, const unsigned *in, int n) {
    float f = in[threadIdx.x] * 0.25f;
    unsigned v = attr_total(f);
    out[threadIdx.x] = v;
}
// case index_of_a_call
__device__ unsigned bump_all(unsigned &x) {
    __syncthreads();
    x += 1;
    return threadIdx.x;
}
__global__ void index_of_a_call(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned k = in[threadIdx.x];
    s[bump_all(k)] = k;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x] + k * 1000;
}
// case second_index
__global__ void second_index(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[4][64];
    for (int i = 0; i < 4; ++i) s[i][threadIdx.x] = 0;
    unsigned k = threadIdx.x % 3;
    s[k][bump_all(k)] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = s[0][threadIdx.x] + s[1][threadIdx.x] * 3 + s[2][threadIdx.x] * 5 + s[3][threadIdx.x] * 7;
}
// case shadowed_parameter_names
__device__ unsigned shadow_sum(unsigned v, unsigned w) {
    unsigned s = v;
    { unsigned v = w; s += v; }
    s += __shfl_xor_sync(ALL, s, 1) + v;
    return s;
}
__global__ void shadowed_parameter_names(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], s = 2, w = 3;
    v = shadow_sum(w + v, s);
    out[threadIdx.x] = v + s + w;
}
// case default_argument
__device__ unsigned default_sum(unsigned v, unsigned by = 3) {
    return __shfl_xor_sync(ALL, v, by) + by;
}
__global__ void default_argument(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = default_sum(v);
    v = default_sum(v, 5);
    out[threadIdx.x] = v;
}
// case same_reference_twice
__device__ void twice_step(unsigned &a, unsigned &b) {
    a += 1;
    __syncthreads();
    b *= 2;
    a += b;
}
__global__ void same_reference_twice(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    twice_step(v, v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case truncating_result
__device__ unsigned char small_sum(unsigned v) {
    v += __shfl_xor_sync(ALL, v, 1);
    return v;
}
__global__ void truncating_result(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v += small_sum(v);
    unsigned w = small_sum(v) + 300;
    out[threadIdx.x] = v + w * 7;
}
// case narrowing_parameter
__device__ unsigned narrow_sum(unsigned char v) {
    return v + __shfl_xor_sync(ALL, v, 1) * 3;
}
__global__ void narrowing_parameter(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    v = narrow_sum(v);
    out[threadIdx.x] = v;
}
// case using_std
namespace Twin { __device__ unsigned twin(unsigned v) { return v * 7; } }
__device__ unsigned twin_sum(unsigned x) { x *= 3; x += __shfl_xor_sync(0xffffffff, x, 1); return abs(int(x)); }
__global__ void using_std(unsigned *out, const unsigned *in, int n) {
    using namespace Twin;
    unsigned v = in[threadIdx.x];
    const unsigned w = twin_sum(v), u = twin(w);
    out[threadIdx.x] = w + u;
}
// case two_results
__device__ unsigned two_sum(unsigned x) { x += __shfl_xor_sync(0xffffffff, x, 1); return x; }
__global__ void two_results(unsigned *out, const unsigned *in, int n) {
    const unsigned v = in[threadIdx.x], *const p = in + two_sum(v) % 32;
    unsigned const w = two_sum(*p);
    const float f = two_sum(w);
    out[threadIdx.x] = w + v + (unsigned)f;
}
