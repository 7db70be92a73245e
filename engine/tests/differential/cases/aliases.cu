// What refers to a variable by another name, and operators of types with two names.
#include <algorithm>

struct Two { unsigned a, b; };
struct Deep { Two t[2]; Two u; unsigned *p; const unsigned *q; float2 f; };
__device__ void bump(unsigned &x) { x += 7; }
__device__ void swap_two(Two &t) { unsigned x = t.a; t.a = t.b; t.b = x; }
__device__ const unsigned *place(const unsigned &x) { return &x; }
template <typename T> __device__ T *place_any(T &x) { return &x; }
template <typename T> __device__ unsigned size_any(T x) { return sizeof(x); }
using Ref = unsigned &;
using Ptr = unsigned *;

// case address_of_a_maximum
__global__ void address_of_a_maximum(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = in[threadIdx.x + 1];
    const unsigned *p = &std::max(v, w);
    __syncthreads();
    v += 5;
    w += 7;
    out[threadIdx.x] = *p;
}
// case reference_to_a_maximum
__device__ const unsigned *max_where(const unsigned &x) { return &x; }
__global__ void reference_to_a_maximum(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = in[threadIdx.x + 1];
    const unsigned *p = max_where(std::max(v, w));
    __syncthreads();
    v += 5;
    w += 7;
    out[threadIdx.x] = *p;
}
// case uniform_through_a_minimum
__global__ void uniform_through_a_minimum(unsigned *out, const unsigned *in, int n) {
    int v = n, w = n + 2;
    unsigned x = in[threadIdx.x];
    *const_cast<int *>(&std::min(v, w)) += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = x + v * 5 + w;
}
// case cast_of_a_minimum
__global__ void cast_of_a_minimum(unsigned *out, const unsigned *in, int n) {
    int v = n, w = n + 2;
    unsigned x = in[threadIdx.x];
    const_cast<int &>(std::min(v, w)) += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = x + v * 5 + w;
}
// case std_of_copies
__global__ void std_of_copies(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = std::max(v, 5u);
    int m = std::min(n, 2);
    for (int k = 0; k < std::min(m, n); ++k) { __syncthreads(); v += std::min(v, w) + k; }
    v = std::max(v, w) + 1;
    w = (unsigned)std::max(v, w) * std::min(v, w);
    __syncthreads();
    out[threadIdx.x] = std::max<unsigned>(v, w) + size_any(std::min(v, w));
}
// case operator_of_a_named_enum
typedef enum { LOW, HIGH } Level;
__device__ unsigned *operator&(Level a, unsigned &x) { x += a; return &x; }
__global__ void operator_of_a_named_enum(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned *p = HIGH & v;
    __syncthreads();
    v += 3;
    *p += 2;
    __syncthreads();
    out[threadIdx.x] = *p * 3 + v;
}
// case operator_of_another_name
namespace Side {
typedef struct Q { unsigned x; } S;
__device__ unsigned *operator&(const S &a, unsigned &x) { return &x; }
__constant__ Q q1 = {3};
}
__global__ void operator_of_another_name(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned *p = Side::q1 & v;
    __syncthreads();
    v += 3;
    *p += 2;
    __syncthreads();
    out[threadIdx.x] = *p * 3 + v;
}
// case pointer_steps
__global__ void pointer_steps(unsigned *out, const unsigned *in, int n) {
    const unsigned *p = in + threadIdx.x;
    unsigned v = *p++;
    __syncthreads();
    v = v * 3 + *p++;
    __syncthreads();
    v = v * 3 + *p;
    out[threadIdx.x] = v;
}
// case pointer_steps_uniform
__global__ void pointer_steps_uniform(unsigned *out, const unsigned *in, int n) {
    const unsigned *p = in + n;
    unsigned v = *p++;
    __syncthreads();
    p += 2;
    v = v * 3 + *p++ * threadIdx.x;
    __syncthreads();
    v = v * 3 + *p;
    out[threadIdx.x] = v;
}
// case assigned_address
__global__ void assigned_address(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], w = in[threadIdx.x + 1];
    unsigned *p = &(v += w), *q = &++w;
    __syncthreads();
    *p += 5;
    *q *= 3;
    out[threadIdx.x] = v + w * 3;
}
// case chosen_step
__global__ void chosen_step(unsigned *out, const unsigned *in, int n) {
    int a = n, b = n + 1;
    const unsigned x = in[threadIdx.x];
    ++(x & 1 ? a : b);
    (x & 2 ? a : b)--;
    __syncthreads();
    out[threadIdx.x] = x + a * 3 + b;
}
// case cast_to_a_reference
__global__ void cast_to_a_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    Ptr p = &(Ref)v;
    __syncthreads();
    *p += 3;
    (Ref)v += 2;
    static_cast<Ref>(v) *= 3;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case placed_by_a_template
__global__ void placed_by_a_template(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned *p = place_any(v);
    const unsigned *q = place(v), *r = place_any<const unsigned>(v);
    __syncthreads();
    *p += 3;
    __syncthreads();
    out[threadIdx.x] = *q + *r * 3 + v + size_any(v) + size_any<unsigned char>(v);
}
// case struct_of_structs
__global__ void struct_of_structs(unsigned *out, const unsigned *in, int n) {
    unsigned w = threadIdx.x;
    Deep d = {{{1, 2}, {in[threadIdx.x], 4}}, {5, 6}, &w, in, {1.5f, 2.5f}};
    __syncthreads();
    d.t[1].a += d.u.b;
    *d.p += 3;
    d.q += 2;
    bump(d.t[0].b);
    swap_two(d.u);
    d.f.x += w;
    __syncthreads();
    d.p[0]++;
    out[threadIdx.x] = d.t[0].b + d.t[1].a * 3 + d.u.a * 5 + d.q[1] + w + (unsigned)(d.f.x * 2);
}
// case steps_with_signs
__global__ void steps_with_signs(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    int i = n, j = threadIdx.x;
    v += -i++ + !j-- + ~j++ * - --i + +i++;
    __syncthreads();
    v = v * 3 + i - j;
    v += (-(i)++) + (!(++(j)));
    __syncthreads();
    out[threadIdx.x] = v + i * 3 + j;
}
// case pointer_walk
__global__ void pointer_walk(unsigned *out, const unsigned *in, int n) {
    const unsigned *p = in + threadIdx.x, *const e = p + n;
    unsigned v = 0;
    while (p < e) v = v * 3 + *p++;
    __syncthreads();
    v += *--p;
    v += *(p += 2);
    __syncthreads();
    out[threadIdx.x] = v + (unsigned)(e - p) + p[0];
}
// case condition_sides
__global__ void condition_sides(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], i = 0, j = 0;
    if (v & 1 && ++i) j += 2;
    if (v & 2 || (j += 3)) i++;
    unsigned w = v & 4 ? i++ : --j;
    __syncthreads();
    (void)(v & 8 && (i += 5));
    (v & 16) ? bump(i) : bump(j);
    __syncthreads();
    out[threadIdx.x] = v + i * 3 + j * 5 + w;
}
