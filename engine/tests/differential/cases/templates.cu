// Templates of functions and of structs.

template <class T> __device__ void add_to(T &v, T by) { v += by; }
template <class T> __device__ T twice(T v) { return v + v; }
template <class T> struct Pair { T a, b; __device__ T sum() const { return a + b; } __device__ void swap() { T c = a; a = b; b = c; } };
template <int N> struct Repeat {
    __device__ static void run(unsigned &v) { v = v * 3 + N; Repeat<N - 1>::run(v); }
};
template <> struct Repeat<0> {
    __device__ static void run(unsigned &) {}
};

// case reference_parameter
__global__ void reference_parameter(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    add_to(v, 4u);
    __syncthreads();
    add_to<unsigned>(v, n);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case forwarding_reference
template <class T> __device__ void forwarding_reference_of(T &&v) { v += 2; }
__global__ void forwarding_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    forwarding_reference_of(v);
    __syncthreads();
    forwarding_reference_of<unsigned &>(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case struct_of_a_template
__global__ void struct_of_a_template(unsigned *out, const unsigned *in, int n) {
    Pair<unsigned> p = {threadIdx.x, 2};
    Pair<float> q{0.5f, 1.0f * n};
    p.swap();
    __syncthreads();
    p.a += p.sum();
    q.swap();
    __syncthreads();
    out[threadIdx.x] = p.a * 10 + p.b + __float_as_uint(q.a - q.b);
}
// case recursion_of_templates
__global__ void recursion_of_templates(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    Repeat<3>::run(v);
    __syncthreads();
    Repeat<2>::run(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case comparison_that_looks_like_one
__global__ void comparison_that_looks_like_one(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x, b = 20, c = 3;
    unsigned v = a<b, w = b> (c);
    __syncthreads();
    v += a < b && b > c;
    __syncthreads();
    out[threadIdx.x] = v * 10 + w;
}
// case array_parameter
template <class T, int N> __device__ T array_parameter_sum(T (&a)[N]) {
    T sum = 0;
    for (int i = 0; i < N; ++i) sum += a[i]++;
    return sum;
}
__global__ void array_parameter(unsigned *out, const unsigned *in, int n) {
    unsigned a[3] = {threadIdx.x, 1, 2};
    unsigned v = array_parameter_sum(a);
    __syncthreads();
    v = v * 100 + array_parameter_sum(a);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case variable_template
template <class T> constexpr T variable_template_step = T(3);
__global__ void variable_template(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    for (unsigned i = 0; i < variable_template_step<unsigned>; ++i) {
        v += variable_template_step<int> * i;
        __syncthreads();
    }
    out[threadIdx.x] = v;
}
// case if_constexpr
template <bool UP> __device__ void if_constexpr_step(unsigned &v) {
    if constexpr (UP) ++v; else v *= 2;
}
__global__ void if_constexpr(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    if_constexpr_step<true>(v);
    __syncthreads();
    if_constexpr_step<(3 < 2)>(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case variadic_template
template <class... T> __device__ void variadic_template_add(unsigned &to, T... v) { ((to += v), ...); }
__global__ void variadic_template(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    variadic_template_add(v, 1u, 2, in[threadIdx.x]);
    __syncthreads();
    variadic_template_add(v, v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case operator_of_a_template
template <class T> __device__ Pair<T> &operator+=(Pair<T> &p, T by) { p.a += by; p.b -= by; return p; }
template <class T> __device__ Pair<T> operator*(Pair<T> &p, T by) { p.a *= by; return p; }
__global__ void operator_of_a_template(unsigned *out, const unsigned *in, int n) {
    Pair<unsigned> p = {threadIdx.x, 1000};
    p += 3u;
    __syncthreads();
    const Pair<unsigned> q = p * 5u;
    __syncthreads();
    out[threadIdx.x] = p.a + p.b + q.sum();
}
