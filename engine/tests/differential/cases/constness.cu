// What a program can see of a variable: its const, its type, its address, the name of its function.

// case const_object_method
struct Acc { unsigned v; __device__ unsigned get() { return v; } __device__ unsigned get() const { return v * 3; } };
__global__ void const_object_method(unsigned *out, const unsigned *in, int n) {
    const Acc acc = {in[threadIdx.x]};
    unsigned a = acc.get();
    __syncthreads();
    out[threadIdx.x] = a + acc.get() * 5;
}
// case const_scalar_overload
__device__ unsigned pick(unsigned &v) { return v; }
__device__ unsigned pick(const unsigned &v) { return v * 3; }
__global__ void const_scalar_overload(unsigned *out, const unsigned *in, int n) {
    const unsigned c = in[threadIdx.x];
    unsigned a = pick(c);
    __syncthreads();
    out[threadIdx.x] = a + pick(c) * 5;
}
// case const_array_deduced
template <class T> __device__ unsigned kind_of(T &v) {
    return std::is_const_v<std::remove_reference_t<decltype(v[0])>> ? 3 : 5;
}
__global__ void const_array_deduced(unsigned *out, const unsigned *in, int n) {
    const unsigned a[2] = {in[threadIdx.x], 2};
    __syncthreads();
    out[threadIdx.x] = a[0] + kind_of(a);
}
// case const_deduced
template <class T> __device__ unsigned kind(T &&v) { return std::is_const_v<std::remove_reference_t<T>> ? v : v * 3; }
__global__ void const_deduced(unsigned *out, const unsigned *in, int n) {
    const unsigned c = in[threadIdx.x];
    const unsigned *const p = &c;
    unsigned d = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = kind(c) + kind(d) * 5 + *p;
}
// case const_decltype
__global__ void const_decltype(unsigned *out, const unsigned *in, int n) {
    unsigned x = threadIdx.x * 2, k = n;
    __syncthreads();
    out[threadIdx.x] = x + (std::is_same_v<decltype(x), unsigned> ? 100 : 200) + (std::is_const_v<decltype(k)> ? 1000 : 2000);
}
// case const_decltype_parameter
__global__ void const_decltype_parameter(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x] + (std::is_same_v<decltype(n), int> ? 100 : 200);
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x] + (std::is_same_v<decltype((n)), int &> ? 100 : 200);
}
// case kept_decltype
__global__ void kept_decltype(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x], y = in[threadIdx.x + 1], *p = &y;
    __syncthreads();
    *p += 1;
    out[threadIdx.x] = x + y + (std::is_same_v<decltype(x), unsigned> ? 100 : 200) + (std::is_same_v<decltype(y), unsigned> ? 1000 : 2000);
}
// case named_by_a_word
__global__ void named_by_a_word(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = x + sizeof(__func__) * 100000;
}
// case trait_of_type
template <class T> struct Wide { static constexpr unsigned value = 1; };
template <> struct Wide<unsigned> { static constexpr unsigned value = 2; };
__global__ void trait_of_type(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x];
    __syncthreads();
    using T = decltype(x);
    out[threadIdx.x] = x + Wide<T>::value * 100 + Wide<decltype(x)>::value;
}
// case type_of_a_shuffled
__global__ void type_of_a_shuffled(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x];
    auto y = x;
    x += __shfl_xor_sync(0xffffffff, x, 1);
    out[threadIdx.x] = x + (std::is_same_v<decltype(x), unsigned> ? 100 : 200);
}
// case typeof_is_older
__global__ void typeof_is_older(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x], k = n;
    __syncthreads();
    out[threadIdx.x] = x + (std::is_same_v<__typeof__(x), unsigned> ? 100 : 200) + (std::is_same_v<__typeof__(k), unsigned> ? 1000 : 2000);
}
// case pretty_name
__global__ void pretty_name(unsigned *out, const unsigned *in, int n) {
    unsigned x = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = x + __FUNCTION__[0] * 100000 + sizeof(__builtin_FUNCTION()) ;
}
// case aligned_array
__global__ void aligned_array(unsigned *out, const unsigned *in, int n) {
    __align__(16) unsigned char bytes[20] = {};
    *reinterpret_cast<uint4 *>(bytes) = make_uint4(in[threadIdx.x], 2, 3, 4);
    __syncthreads();
    uint4 v = *reinterpret_cast<uint4 *>(bytes);
    out[threadIdx.x] = v.x + v.y + v.z + v.w + bytes[19];
}
// case aligned_address
__global__ void aligned_address(unsigned *out, const unsigned *in, int n) {
    alignas(64) unsigned v = in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = v + (reinterpret_cast<unsigned long long>(&v) & 63) * 1000;
}
// case aligned_kept
__global__ void aligned_kept(unsigned *out, const unsigned *in, int n) {
    alignas(16) unsigned a[5] = {in[threadIdx.x], 1, 2, 3, 4};
    alignas(32) unsigned v = threadIdx.x, *p = &v;
    uint4 *q = reinterpret_cast<uint4 *>(a);
    __syncthreads();
    out[threadIdx.x] = ((size_t)(void *)a % 16) * 100 + (size_t)p % 32 + q->x + *p;
}
