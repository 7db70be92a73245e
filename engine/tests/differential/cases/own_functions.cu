// Own functions and operators that change their arguments, some named like functions that never do.

struct Bits { unsigned v; };
__device__ void operator>>(Bits &b, int &count) { count += b.v & 1; b.v >>= 1; }
__device__ Bits &operator<<(Bits &b, unsigned x) { b.v = b.v * 3 + x; return b; }
__device__ Bits &operator+=(Bits &b, unsigned x) { b.v += x; return b; }
__device__ Bits operator+(Bits &b, unsigned x) { b.v += 1; return {b.v + x}; }
__device__ bool operator==(Bits &b, unsigned x) { return b.v++ == x; }
__device__ unsigned operator-(Bits &b) { return b.v *= 2; }
__device__ Bits &operator++(Bits &b) { b.v += 7; return b; }
__device__ unsigned operator,(Bits &b, unsigned x) { return b.v += x; }

// case shift_that_takes
__global__ void shift_that_takes(unsigned *out, const unsigned *in, int n) {
    Bits b = {in[threadIdx.x]};
    int count = 0;
    b >> count;
    __syncthreads();
    b >> count;
    __syncthreads();
    out[threadIdx.x] = b.v * 4 + count;
}
// case shift_that_gives
__global__ void shift_that_gives(unsigned *out, const unsigned *in, int n) {
    Bits b = {threadIdx.x};
    b << 1 << n;
    __syncthreads();
    b << in[threadIdx.x];
    __syncthreads();
    out[threadIdx.x] = b.v;
}
// case plus_that_changes
__global__ void plus_that_changes(unsigned *out, const unsigned *in, int n) {
    Bits b = {threadIdx.x};
    const Bits c = b + 5;
    __syncthreads();
    const Bits d = b + n;
    __syncthreads();
    out[threadIdx.x] = b.v * 100 + c.v * 10 + d.v;
}
// case equality_that_changes
__global__ void equality_that_changes(unsigned *out, const unsigned *in, int n) {
    Bits b = {threadIdx.x};
    unsigned hits = b == 5;
    __syncthreads();
    hits += b == 6;
    __syncthreads();
    out[threadIdx.x] = b.v * 10 + hits;
}
// case minus_that_changes
__global__ void minus_that_changes(unsigned *out, const unsigned *in, int n) {
    Bits b = {threadIdx.x + 1};
    const unsigned a = -b;
    __syncthreads();
    const unsigned c = -b;
    __syncthreads();
    out[threadIdx.x] = a + c * 100 + b.v;
}
// case own_increment
__global__ void own_increment(unsigned *out, const unsigned *in, int n) {
    Bits b = {threadIdx.x};
    ++b;
    __syncthreads();
    ++b += 2;
    __syncthreads();
    out[threadIdx.x] = b.v;
}
// case own_comma
__global__ void own_comma(unsigned *out, const unsigned *in, int n) {
    Bits b = {threadIdx.x};
    b, 4u;
    __syncthreads();
    const unsigned c = (b, 2u);
    __syncthreads();
    out[threadIdx.x] = b.v + c;
}
// case own_floor
__device__ unsigned floor(unsigned &v) { return v /= 2; }
__global__ void own_floor(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    const unsigned a = floor(v);
    __syncthreads();
    floor(v);
    __syncthreads();
    out[threadIdx.x] = v + a;
}
// case own_floor_of_a_uniform
__global__ void own_floor_of_a_uniform(unsigned *out, const unsigned *in, int n) {
    unsigned v = n * 9;
    unsigned sum = 0;
    while (v > 1) {
        sum += floor(v);
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case own_trunc
__device__ void trunc(unsigned &v, unsigned bits) { v &= (1u << bits) - 1; }
__global__ void own_trunc(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    trunc(v, 9);
    __syncthreads();
    trunc(v, 5);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case max_of_a_struct
struct Best {
    __device__ static unsigned max(unsigned &n, unsigned by) { return n += by; }
    __device__ static unsigned min(unsigned &n) { return n -= 1; }
};
__global__ void max_of_a_struct(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    const unsigned a = Best::max(v, 1);
    __syncthreads();
    out[threadIdx.x] = v + a;
    __syncthreads();
    Best::min(v);
    __syncthreads();
    out[threadIdx.x] += v * 100;
}
// case make_that_changes
__device__ uint2 make_pair_of(unsigned &v) { v += 3; return make_uint2(v, v * 2); }
__global__ void make_that_changes(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    const uint2 a = make_pair_of(v);
    __syncthreads();
    const uint2 b = make_pair_of(v);
    __syncthreads();
    out[threadIdx.x] = a.x + a.y * 3 + b.x * 5 + v * 7;
}
// case atomic_that_is_none
__device__ unsigned atomicTwice(unsigned &v) { return v *= 2; }
__global__ void atomic_that_is_none(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x + 1;
    atomicTwice(v);
    __syncthreads();
    const unsigned w = atomicTwice(v);
    __syncthreads();
    out[threadIdx.x] = v + w;
}
// case own_abs
__device__ int abs(int *v) { return *v = *v < 0 ? -*v : *v; }
__global__ void own_abs(unsigned *out, const unsigned *in, int n) {
    int v = static_cast<int>(threadIdx.x) - 20;
    const int was = v;
    abs(&v);
    __syncthreads();
    out[threadIdx.x] = v * 3 - was;
}
// case function_by_pointer
__device__ void function_by_pointer_add(unsigned *v, unsigned by) { *v += by; }
__global__ void function_by_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x, w = n;
    function_by_pointer_add(&v, 5);
    __syncthreads();
    function_by_pointer_add(threadIdx.x & 1 ? &v : &w, v);
    __syncthreads();
    out[threadIdx.x] = v * 10 + w;
}
// case uniform_by_reference
__device__ void uniform_by_reference_step(int &k) { k += 2; }
__global__ void uniform_by_reference(unsigned *out, const unsigned *in, int n) {
    int k = 0;
    unsigned sum = 0;
    while (k < n * 2) {
        sum += in[threadIdx.x + k];
        __syncthreads();
        uniform_by_reference_step(k);
    }
    out[threadIdx.x] = sum + k;
}
// case returned_reference
__device__ unsigned &returned_reference_larger(unsigned &a, unsigned &b) { return a > b ? a : b; }
__global__ void returned_reference(unsigned *out, const unsigned *in, int n) {
    unsigned a = threadIdx.x, b = 20;
    returned_reference_larger(a, b) = 1;
    __syncthreads();
    returned_reference_larger(a, b) += 1000;
    __syncthreads();
    out[threadIdx.x] = a * 3 + b;
}
// case returned_pointer
__device__ unsigned *returned_pointer_next(unsigned *p) { return p + 1; }
__global__ void returned_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned a[3] = {1, 2, 3};
    *returned_pointer_next(a) = threadIdx.x;
    __syncthreads();
    returned_pointer_next(a)[1] += a[1];
    __syncthreads();
    out[threadIdx.x] = a[0] + a[1] * 10 + a[2] * 100;
}
// case default_argument
__device__ unsigned default_argument_add(unsigned &to, unsigned by = 4) { return to += by; }
__global__ void default_argument(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    default_argument_add(v);
    __syncthreads();
    default_argument_add(v, n);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case overloads
__device__ unsigned overloads_of(unsigned v) { return v + 1; }
__device__ unsigned overloads_of(unsigned &v, int by) { return v += by; }
__device__ unsigned overloads_of(float v) { return static_cast<unsigned>(v * 4); }
__global__ void overloads(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    const unsigned a = overloads_of(v);
    __syncthreads();
    const unsigned b = overloads_of(v, 2), c = overloads_of(0.5f * v);
    __syncthreads();
    out[threadIdx.x] = v + a * 3 + b * 5 + c * 7;
}
// case recursive
__device__ void recursive_step(unsigned &v, int depth) {
    if (depth == 0) return;
    v = v * 3 + depth;
    recursive_step(v, depth - 1);
}
__global__ void recursive(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    recursive_step(v, n);
    __syncthreads();
    recursive_step(v, 2);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case member_operators
struct Ring {
    unsigned a[4];
    __device__ unsigned &operator[](unsigned i) { return a[i & 3]; }
    __device__ unsigned operator()(unsigned x) { return a[0] += x; }
    __device__ Ring &operator=(unsigned x) { a[1] = x; return *this; }
    __device__ unsigned *operator->*(int i) { return a + i; }
    __device__ bool operator!() { return a[2]++ & 1; }
};
__global__ void member_operators(unsigned *out, const unsigned *in, int n) {
    Ring r = {{1, 2, 3, threadIdx.x}};
    r[7] += 2;
    r(threadIdx.x);
    __syncthreads();
    r = 9u;
    *(r->*3) *= 2;
    const bool b = !r;
    __syncthreads();
    out[threadIdx.x] = r[0] + r[1] * 10 + r[2] * 100 + r[3] * 1000 + b;
}
// case methods_that_change_and_do_not
struct Clock {
    unsigned now, period;
    __device__ unsigned peek() const { return now % period; }
    __device__ unsigned tick() { return ++now % period; }
};
__global__ void methods_that_change_and_do_not(unsigned *out, const unsigned *in, int n) {
    Clock c = {threadIdx.x, 7};
    const unsigned a = c.tick();
    __syncthreads();
    const unsigned b = c.peek() + c.tick();
    __syncthreads();
    out[threadIdx.x] = a + b * 10 + c.peek() * 100;
}
// case constructor_that_takes_a_reference
struct Taker {
    unsigned v;
    __device__ Taker(unsigned &from, unsigned by) : v(from) { from -= by; }
};
__global__ void constructor_that_takes_a_reference(unsigned *out, const unsigned *in, int n) {
    unsigned store = in[threadIdx.x];
    Taker a(store, 3);
    __syncthreads();
    Taker b{store, 4};
    __syncthreads();
    out[threadIdx.x] = store + a.v * 3 + b.v * 5;
}
// case sincos_of_own
__device__ void sincos(unsigned v, unsigned *s, unsigned *c) { *s = v * 3; *c = v * 5; }
__global__ void sincos_of_own(unsigned *out, const unsigned *in, int n) {
    unsigned s, c;
    sincos(threadIdx.x, &s, &c);
    __syncthreads();
    sincos(s + c, &c, &s);
    __syncthreads();
    out[threadIdx.x] = s * 100 + c;
}
// case modf_of_cuda
__global__ void modf_of_cuda(unsigned *out, const unsigned *in, int n) {
    float whole;
    int exponent;
    const float part = modff(in[threadIdx.x] * 0.125f, &whole);
    __syncthreads();
    const float mantissa = frexpf(whole + 1, &exponent);
    __syncthreads();
    out[threadIdx.x] = __float_as_uint(part) ^ __float_as_uint(mantissa) ^ exponent;
}
