// Memory, and functions, with names that look like something else.

// case pointer_to_function
__device__ const unsigned *pointed_at(const unsigned &v) { return &v; }
__device__ const unsigned *(*value)(const unsigned &) = pointed_at;
__global__ void pointer_to_function(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned *p = value(v);
    v += 1;
    __syncthreads();
    v += 5;
    __syncthreads();
    out[threadIdx.x] = *p;
}
// case pointer_to_counting_function
__device__ unsigned counted = 0;
__device__ unsigned counting(unsigned by) { return atomicAdd(&counted, by) * 0 + by; }
__device__ unsigned (*make_count)(unsigned) = counting;
__global__ void pointer_to_counting_function(unsigned *out, const unsigned *in, int n) {
    unsigned before = counted;
    __syncthreads();
    unsigned by = make_count(2);
    __syncthreads();
    out[threadIdx.x] = by * 10000 + counted - before;
}
// case parenthesized_memory
__device__ unsigned (make_memory) = 3;
__global__ void parenthesized_memory(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) make_memory = n;
    __syncthreads();
    unsigned v = make_memory + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) make_memory = n + 5;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case enumerator_elsewhere
namespace Elsewhere { enum { limit = 4 }; }
__device__ unsigned limit = 2;
__global__ void enumerator_elsewhere(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) limit = n + 1;
    __syncthreads();
    unsigned v = n > 2 && n < 9 ? limit + threadIdx.x : 0;
    __syncthreads();
    if (threadIdx.x == 0) limit = n + 50;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case memory_beside_a_shuffle: block 32
__device__ unsigned beside = 4;
__global__ void memory_beside_a_shuffle(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    if (threadIdx.x == 0) beside = 4;
    __syncwarp();
    { unsigned beside = 1; v += beside; }
    unsigned w = 0;
    w = beside + v;
    out[threadIdx.x + (__shfl_sync(0xffffffff, v, 0) & 0)] = w + beside;
    __syncwarp();
    if (threadIdx.x == 0) beside = 9;
    __syncwarp();
    out[threadIdx.x] += beside * 1000;
}
// case statement_that_looks_declared
__device__ bool note(unsigned &v) { v += 3; return true; }
__global__ void statement_that_looks_declared(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    bool odd = v & 1;
    odd && note(v);
    __syncthreads();
    odd & note(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case unnamed_struct_memory
__device__ struct { unsigned v; } make_state = {3};
__global__ void unnamed_struct_memory(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) make_state.v = 3 + n;
    __syncthreads();
    unsigned v = make_state.v + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) make_state.v = 50;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case device_variable_C
__device__ unsigned C = 3;
__global__ void device_variable_C(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) C = 3 + n;
    __syncthreads();
    unsigned v = C + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) C = 50;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case own_shuffle
__device__ uint2 __shfl_sync(unsigned mask, uint2 v, int lane) {
    return make_uint2(__shfl_sync(mask, v.y, lane), __shfl_sync(mask, v.x, lane));
}
__global__ void own_shuffle(unsigned *out, const unsigned *in, int n) {
    uint2 v = make_uint2(in[threadIdx.x], threadIdx.x);
    v = __shfl_sync(0xffffffff, v, n);
    out[threadIdx.x] = v.x * 3 + v.y;
}
// case pointer_to_asking_function
__device__ unsigned asking() { return threadIdx.x; }
__device__ unsigned (*make_mine)() = asking;
__global__ void pointer_to_asking_function(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    unsigned me = make_mine();
    __syncthreads();
    out[threadIdx.x] = v + me * 10;
}
