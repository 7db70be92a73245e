// References that do not show an ampersand where a rewriter looks for it, and casts to references.

using Ref = unsigned &;
typedef unsigned &OldRef;
template <class T> using RefTo = T &;
struct Point { unsigned x, y; };

// case using_alias
__global__ void using_alias(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    Ref r = v;
    __syncthreads();
    r += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case typedef_alias
__global__ void typedef_alias(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    OldRef r = v;
    r = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v * 2 + r;
}
// case alias_parameter
__device__ void alias_parameter_step(Ref v, RefTo<unsigned> w) { v += 1; w += v; }
__global__ void alias_parameter(unsigned *out, const unsigned *in, int n) {
    unsigned v = n, w = 0;
    alias_parameter_step(v, w);
    __syncthreads();
    out[threadIdx.x] = v * 10 + w;
    __syncthreads();
    alias_parameter_step(w, v);
    __syncthreads();
    out[threadIdx.x] += v * 1000 + w;
}
// case alias_in_the_kernel
__global__ void alias_in_the_kernel(unsigned *out, const unsigned *in, int n) {
    typedef unsigned Mine, &MineRef, *MinePointer;
    Mine v = 1;
    MineRef r = v;
    MinePointer p = &r;
    __syncthreads();
    r += threadIdx.x;
    __syncthreads();
    *p *= 2;
    out[threadIdx.x] = v;
}
// case decltype_auto
__global__ void decltype_auto(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    decltype(auto) r = (v);
    __syncthreads();
    r *= 3;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case decltype_of_parentheses
__global__ void decltype_of_parentheses(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    decltype((v)) r = v;
    decltype(v) copy = v;
    r += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v + copy * 100;
}
// case returned_decltype_auto
__device__ decltype(auto) returned_decltype_auto_of(Point &p) { return (p.x); }
__global__ void returned_decltype_auto(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 1};
    returned_decltype_auto_of(p) += 4;
    __syncthreads();
    out[threadIdx.x] = p.x;
}
// case auto_reference
__global__ void auto_reference(unsigned *out, const unsigned *in, int n) {
    unsigned a[2] = {1, threadIdx.x};
    auto &r = a[1];
    auto &&s = a[0];
    __syncthreads();
    r += 3;
    s = r;
    __syncthreads();
    out[threadIdx.x] = a[0] * 100 + a[1];
}
// case reference_to_array
__global__ void reference_to_array(unsigned *out, const unsigned *in, int n) {
    unsigned a[2] = {1, threadIdx.x};
    unsigned(&r)[2] = a;
    __syncthreads();
    r[0] += r[1];
    __syncthreads();
    out[threadIdx.x] = a[0];
}
// case reference_member
struct Holder {
    unsigned &v;
    __device__ void add(unsigned by) { v += by; }
};
__global__ void reference_member(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    Holder h = {v};
    __syncthreads();
    h.add(n);
    __syncthreads();
    h.v *= 2;
    out[threadIdx.x] = v;
}
// case reference_member_to_a_uniform
__global__ void reference_member_to_a_uniform(unsigned *out, const unsigned *in, int n) {
    int k = 0;
    struct Step { int &k; } step{k};
    unsigned sum = 0;
    while (k < 4) {
        sum += in[threadIdx.x + k];
        __syncthreads();
        ++step.k;
    }
    out[threadIdx.x] = sum;
}
// case conversion_to_a_reference
struct Handle {
    unsigned *p;
    __device__ operator unsigned &() const { return *p; }
};
__global__ void conversion_to_a_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    Handle h = {&v};
    static_cast<unsigned &>(h) = 5;
    __syncthreads();
    unsigned &r = h;
    r += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case conversion_that_changes
struct Ticket {
    unsigned v;
    __device__ operator unsigned() { return v++; }
};
__global__ void conversion_that_changes(unsigned *out, const unsigned *in, int n) {
    Ticket t = {threadIdx.x};
    const unsigned a = t;
    __syncthreads();
    const unsigned b = t;
    __syncthreads();
    out[threadIdx.x] = a * 10000 + b * 100 + t.v;
}
// case cast_to_a_reference
__global__ void cast_to_a_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    (unsigned &)v += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v;
    __syncthreads();
    static_cast<unsigned &>(v) *= 2;
    __syncthreads();
    out[threadIdx.x] += v * 100;
}
// case reinterpreted
__global__ void reinterpreted(unsigned *out, const unsigned *in, int n) {
    float f = in[threadIdx.x];
    reinterpret_cast<unsigned &>(f) ^= 0x80000000;
    __syncthreads();
    (unsigned &)f |= 1;
    __syncthreads();
    out[threadIdx.x] = __float_as_uint(f);
}
// case functional_cast
__global__ void functional_cast(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    Ref(v) += 6;
    __syncthreads();
    Ref(v) <<= 1;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case reference_to_shared
__global__ void reference_to_shared(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned &mine = s[threadIdx.x], &other = s[63 - threadIdx.x];
    mine = in[threadIdx.x];
    __syncthreads();
    const unsigned seen = other;
    __syncthreads();
    mine += seen;
    __syncthreads();
    out[threadIdx.x] = other;
}
// case reference_chosen
__global__ void reference_chosen(unsigned *out, const unsigned *in, int n) {
    unsigned a = 1, b = 2;
    unsigned &r = threadIdx.x & 1 ? a : b;
    __syncthreads();
    r = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = a * 100 + b;
}
// case reference_to_a_uniform_chosen
__global__ void reference_to_a_uniform_chosen(unsigned *out, const unsigned *in, int n) {
    int a = n, b = 2 * n;
    int &r = n > 5 ? a : b;
    for (int i = 0; i < 3; ++i) {
        __syncthreads();
        r += i;
    }
    __syncthreads();
    out[threadIdx.x] = a * 100 + b;
}
// case reference_to_a_member
__global__ void reference_to_a_member(unsigned *out, const unsigned *in, int n) {
    Point p = {1, 2};
    unsigned &y = p.y;
    p.x += threadIdx.x;
    __syncthreads();
    y += p.x;
    __syncthreads();
    out[threadIdx.x] = p.x * 10 + p.y;
}
// case rvalue_reference
__global__ void rvalue_reference(unsigned *out, const unsigned *in, int n) {
    unsigned &&r = threadIdx.x * 2;
    __syncthreads();
    r += 1;
    __syncthreads();
    out[threadIdx.x] = r;
}
// case binding_by_reference
__global__ void binding_by_reference(unsigned *out, const unsigned *in, int n) {
    Point p = {threadIdx.x, 2};
    auto &[x, y] = p;
    __syncthreads();
    x += y;
    __syncthreads();
    out[threadIdx.x] = p.x;
}
// case references_in_nested_blocks
__global__ void references_in_nested_blocks(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x, w = 1;
    {
        unsigned &r = v;
        __syncthreads();
        r += 1;
        {
            unsigned &r = w;
            __syncthreads();
            r += 2;
        }
        __syncthreads();
        r += 3;
    }
    out[threadIdx.x] = v * 10 + w;
}
// case pointer_reference
__global__ void pointer_reference(unsigned *out, const unsigned *in, int n) {
    const unsigned *p = in;
    const unsigned *&r = p;
    r += threadIdx.x;
    __syncthreads();
    ++r;
    __syncthreads();
    out[threadIdx.x] = *p;
}
