// Classes that look like plain data and are not: values of their own, references, operators, bases.

struct Stats { unsigned sum = 0, most = 7; };
struct Braced { unsigned a{4}; };
__device__ unsigned statistic(unsigned v) {
    Stats s;
    s.sum += v;
    s.sum += __shfl_xor_sync(0xffffffff, s.sum, 1);
    s.most = max(s.most, __shfl_xor_sync(0xffffffff, s.sum, 2));
    return s.sum + s.most;
}

template <bool b> struct Base {};
template <unsigned n> struct Storage { unsigned data[64]; };
struct Sized : Storage<sizeof(float)> { __device__ unsigned mine() const { return data[threadIdx.x]; } };
struct Compared : Storage<(4 >= 4)> { __device__ unsigned mine() const { return data[threadIdx.x]; } };
struct Taker : Base<3 == 3> { unsigned *p; __device__ void operator<<(unsigned &v) { p = &v; } };

using Reference = unsigned &;
struct Ref { Reference r; };
__device__ void stash(unsigned **place, Ref r) { *place = &r.r; }

typedef enum { A0, B0, C0 } Letter, *LetterPointer, &LetterReference;
__device__ LetterPointer place_of(LetterReference e) { return &e; }

__device__ unsigned *places[64];
__device__ auto shifter(int i) {
    struct Local { int i; __device__ void operator<<(unsigned &v) { places[i] = &v; } };
    return Local{i};
}
__device__ auto setter(int i) {
    struct Local { int i; __device__ void operator=(unsigned &v) { places[i] = &v; } };
    return Local{i};
}

// case values_of_members_in_a_loop
__global__ void values_of_members_in_a_loop(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < n; ++i) v += statistic(v + i);
    out[threadIdx.x] = v;
}
// case braced_values_of_members
__global__ void braced_values_of_members(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    for (int i = 0; i < n; ++i) {
        Braced d;
        d.a += v;
        __syncwarp();
        v = d.a;
    }
    out[threadIdx.x] = v;
}
// case base_with_parentheses
__global__ void base_with_parentheses(unsigned *out, const unsigned *in, int n) {
    __shared__ Sized t;
    t.data[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = t.mine();
}
// case base_with_a_comparison
__global__ void base_with_a_comparison(unsigned *out, const unsigned *in, int n) {
    __shared__ Compared t;
    t.data[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = t.mine();
}
// case operator_of_a_class_with_a_base
__global__ void operator_of_a_class_with_a_base(unsigned *out, const unsigned *in, int n) {
    __shared__ Taker t[64];
    unsigned v = in[threadIdx.x];
    t[threadIdx.x] << v;
    __syncthreads();
    *t[threadIdx.x].p += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case reference_member_by_an_alias
__global__ void reference_member_by_an_alias(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x], *p;
    stash(&p, {v});
    __syncthreads();
    *p += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case typedef_of_a_reference
__global__ void typedef_of_a_reference(unsigned *out, const unsigned *in, int n) {
    Letter e = (Letter)(in[threadIdx.x] & 1);
    LetterPointer p = place_of(e);
    __syncthreads();
    *p = C0;
    __syncthreads();
    out[threadIdx.x] = e;
}
// case operator_of_a_class_in_a_function
__global__ void operator_of_a_class_in_a_function(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    shifter(threadIdx.x) << v;
    __syncthreads();
    *places[threadIdx.x] += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case assignment_of_a_class_in_a_function
__global__ void assignment_of_a_class_in_a_function(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    setter(threadIdx.x) = v;
    __syncthreads();
    *places[threadIdx.x] += 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
