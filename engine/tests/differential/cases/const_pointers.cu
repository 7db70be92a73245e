// Pointers to const: what they point to changes all the same.

struct View { const unsigned *at; unsigned skip; };

// case to_a_local
__global__ void to_a_local(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    const unsigned *p = &v;
    __syncthreads();
    v += 10;
    __syncthreads();
    out[threadIdx.x] = *p;
}
// case to_a_uniform
__global__ void to_a_uniform(unsigned *out, const unsigned *in, int n) {
    int v = n;
    const int *const p = &v;
    __syncthreads();
    v += 4;
    __syncthreads();
    out[threadIdx.x] = *p * 2 + threadIdx.x;
}
// case in_a_struct
__global__ void in_a_struct(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    View view = {&v, 1};
    __syncthreads();
    v *= 3;
    __syncthreads();
    out[threadIdx.x] = *view.at + view.skip;
}
// case to_an_array
__global__ void to_an_array(unsigned *out, const unsigned *in, int n) {
    unsigned a[4] = {1, 2, 3, 4};
    const unsigned *p = a + 1;
    a[1] = threadIdx.x;
    __syncthreads();
    a[2] = p[0] + 1;
    __syncthreads();
    out[threadIdx.x] = p[0] + p[1] * 100;
}
// case that_moves
__global__ void that_moves(unsigned *out, const unsigned *in, int n) {
    const unsigned *p = in + threadIdx.x;
    unsigned sum = *p++;
    __syncthreads();
    p += n;
    sum += *p;
    __syncthreads();
    out[threadIdx.x] = sum + (unsigned)(p - in);
}
// case to_shared
__global__ void to_shared(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    const unsigned *p = s + (threadIdx.x ^ 1);
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned first = *p;
    __syncthreads();
    s[threadIdx.x] = 7 * first;
    __syncthreads();
    out[threadIdx.x] = first + *p;
}
// case reference_to_const
__global__ void reference_to_const(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    const unsigned &r = v;
    __syncthreads();
    v ^= 21;
    __syncthreads();
    out[threadIdx.x] = r;
}
// case reference_to_const_uniform
__global__ void reference_to_const_uniform(unsigned *out, const unsigned *in, int n) {
    int v = n;
    const int &r = v;
    for (int i = 0; i < 3; ++i) {
        v += i;
        __syncthreads();
        out[threadIdx.x + i * 64] = r;
    }
}
// case passed_as_const_pointer
__device__ unsigned passed_as_const_pointer_sum(const unsigned *a, int count) {
    unsigned sum = 0;
    for (int i = 0; i < count; ++i) sum = sum * 3 + a[i];
    return sum;
}
__global__ void passed_as_const_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned a[3] = {threadIdx.x, 1, 2};
    const unsigned *whole = a;
    __syncthreads();
    a[1] += passed_as_const_pointer_sum(whole, 3);
    __syncthreads();
    out[threadIdx.x] = passed_as_const_pointer_sum(whole, 3);
}
// case const_cast_pointer
__global__ void const_cast_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    const unsigned *p = &v;
    __syncthreads();
    *const_cast<unsigned *>(p) += 100;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case const_cast_reference
__global__ void const_cast_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    const unsigned &r = v;
    const_cast<unsigned &>(r) += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v;
    __syncthreads();
    out[threadIdx.x] += r;
}
// case pointer_to_pointer
__global__ void pointer_to_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = 1, w = 2, *p = &v, **pp = &p;
    __syncthreads();
    if (threadIdx.x & 1) *pp = &w;
    __syncthreads();
    **pp += threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v * 1000 + w;
}
// case array_of_views
__global__ void array_of_views(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x, w = 3;
    View views[2] = {{&v, 0}, {&w, 1}};
    __syncthreads();
    v += w;
    w = v * 2;
    __syncthreads();
    out[threadIdx.x] = *views[0].at * 5 + *views[1].at + views[1].skip;
}
// case volatile_pointer
__global__ void volatile_pointer(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    volatile unsigned *p = s;
    p[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned v = p[63 - threadIdx.x];
    __syncthreads();
    p[threadIdx.x] = v + 1;
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x ^ 3] + v;
}
// case const_pointer_to_input
__global__ void const_pointer_to_input(unsigned *out, const unsigned *in, int n) {
    const unsigned *__restrict__ const row = in + blockIdx.x * 64;
    unsigned v = row[threadIdx.x];
    __syncthreads();
    v += row[(threadIdx.x + n) % 64];
    __syncthreads();
    out[threadIdx.x] = v;
}
