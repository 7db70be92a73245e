// Macros that stand for a variable, a member, a statement.

struct Point { unsigned x, y; };

// case names_a_variable
#define VARIABLE total
__global__ void names_a_variable(unsigned *out, const unsigned *in, int n) {
    unsigned total = threadIdx.x;
    __syncthreads();
    VARIABLE += 3;
    __syncthreads();
    out[threadIdx.x] = total;
}
// case names_a_uniform
#define UNIFORM_OF_MINE step
__global__ void names_a_uniform(unsigned *out, const unsigned *in, int n) {
    int step = n;
    unsigned sum = 0;
    for (int i = 0; i < 3; ++i) {
        sum = sum * 3 + step * threadIdx.x;
        __syncthreads();
        UNIFORM_OF_MINE += 2;
    }
    out[threadIdx.x] = sum + step;
}
// case names_a_member
#define SECOND p.y
__global__ void names_a_member(unsigned *out, const unsigned *in, int n) {
    Point p = {1, 2};
    SECOND = threadIdx.x;
    __syncthreads();
    ++SECOND;
    __syncthreads();
    out[threadIdx.x] = p.x + p.y * 10;
}
// case names_an_element
#define ELEMENT(i) a[(i) & 3]
__global__ void names_an_element(unsigned *out, const unsigned *in, int n) {
    unsigned a[4] = {1, 2, 3, 4};
    ELEMENT(threadIdx.x) += 5;
    __syncthreads();
    ELEMENT(n) ^= a[0];
    __syncthreads();
    out[threadIdx.x] = a[0] + a[1] * 10 + a[2] * 100 + a[3] * 1000;
}
// case names_a_shared_element
#define MY_CELL cells[threadIdx.x]
#define CELL_OF(i) cells[(i) % 64]
__global__ void names_a_shared_element(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned cells[64];
    MY_CELL = in[threadIdx.x];
    __syncthreads();
    const unsigned next = CELL_OF(threadIdx.x + 1);
    __syncthreads();
    MY_CELL += next;
    __syncthreads();
    out[threadIdx.x] = CELL_OF(threadIdx.x + 2);
}
// case names_a_reference
#define AS_REFERENCE(name, of) unsigned &name = of
__global__ void names_a_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    AS_REFERENCE(r, v);
    __syncthreads();
    r += 9;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case reference_type
#define REFERENCE_TYPE unsigned &
__device__ void reference_type_step(REFERENCE_TYPE v) { v += 1; }
__global__ void reference_type(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    REFERENCE_TYPE r = v;
    reference_type_step(v);
    __syncthreads();
    r *= threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case statement_with_barrier
#define STEP_AND_WAIT(v, by) do { (v) += (by); __syncthreads(); } while (0)
__global__ void statement_with_barrier(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    unsigned v = threadIdx.x;
    STEP_AND_WAIT(v, 2);
    STEP_AND_WAIT(s[threadIdx.x] = v, n);
    out[threadIdx.x] = s[63 - threadIdx.x] + v;
}
// case barrier_by_name
#define WAIT_FOR_ALL __syncthreads();
__global__ void barrier_by_name(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    WAIT_FOR_ALL
    out[threadIdx.x] = s[(threadIdx.x * 5 + n) & 63];
}
// case barrier_function
#define sync() __syncthreads()
__global__ void barrier_function(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    sync();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
// case loop_by_macro
#define EACH(i, count) for (int i = 0; i < (count); ++i)
__global__ void loop_by_macro(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    EACH(i, n) {
        sum += in[threadIdx.x + i];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case condition_by_macro
#define IN_FIRST_WARP if (threadIdx.x < 32)
__global__ void condition_by_macro(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
    IN_FIRST_WARP v += 5;
    __syncthreads();
    IN_FIRST_WARP { v *= 2; }
    out[threadIdx.x] = v;
}
// case declares_two
#define TWO_OF(type, name, value) type name = (value); type name##_next = name + 1
__global__ void declares_two(unsigned *out, const unsigned *in, int n) {
    TWO_OF(unsigned, v, threadIdx.x);
    __syncthreads();
    v += v_next;
    v_next ^= 3;
    __syncthreads();
    out[threadIdx.x] = v * 100 + v_next;
}
// case increments
#define COUNT_UP(v) v++
__global__ void increments(unsigned *out, const unsigned *in, int n) {
    int k = 0;
    unsigned sum = threadIdx.x;
    while (k < n) {
        __syncthreads();
        sum = sum * 2 + k;
        COUNT_UP(k);
    }
    COUNT_UP(sum);
    __syncthreads();
    out[threadIdx.x] = sum;
}
// case assigns
#define SET(a, b) a = b
__global__ void assigns(unsigned *out, const unsigned *in, int n) {
    unsigned v = 1, w = 2;
    SET(v, threadIdx.x);
    __syncthreads();
    SET(w, v + n);
    __syncthreads();
    SET(v, w * 2);
    out[threadIdx.x] = v + w;
}
// case variadic
#define CALL(f, ...) f(__VA_ARGS__)
__device__ void variadic_add(unsigned &v, unsigned a, unsigned b) { v += a * b; }
__global__ void variadic(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    CALL(variadic_add, v, 2, 3);
    __syncthreads();
    CALL(variadic_add, v, v, n);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case pastes_a_name
#define PART(i) part##i
__global__ void pastes_a_name(unsigned *out, const unsigned *in, int n) {
    unsigned part0 = threadIdx.x, part1 = 2;
    __syncthreads();
    PART(1) += PART(0);
    PART(0) = 7;
    __syncthreads();
    out[threadIdx.x] = part0 * 1000 + part1;
}
// case redefined
#define FACTOR 2
__device__ unsigned redefined_scaled(unsigned v) { return v * FACTOR; }
#undef FACTOR
#define FACTOR 5
__global__ void redefined(unsigned *out, const unsigned *in, int n) {
    const unsigned v = redefined_scaled(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = v + FACTOR;
}
#undef FACTOR
// case ifdef_in_the_kernel
#define WITH_EXTRA
__global__ void ifdef_in_the_kernel(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[threadIdx.x];
#ifdef WITH_EXTRA
    v += n;
    __syncthreads();
#else
    v = 0;
#endif
    v *= 3;
#if 0
    v = 1;
#endif
    __syncthreads();
    out[threadIdx.x] = v;
}
// case index_by_macro
#define GLOBAL_INDEX (blockIdx.x * blockDim.x + threadIdx.x)
#define LANE (threadIdx.x % 32)
__global__ void index_by_macro(unsigned *out, const unsigned *in, int n) {
    unsigned v = in[GLOBAL_INDEX];
    __syncthreads();
    v += LANE;
    __syncthreads();
    out[GLOBAL_INDEX] = v;
}
// case braces_in_macro
#define OPEN {
#define CLOSE }
__global__ void braces_in_macro(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    for (int i = 0; i < n; ++i) OPEN
        v += i;
        __syncthreads();
    CLOSE
    out[threadIdx.x] = v;
}
// case macro_of_a_keyword
#define VALUE_OF_THREAD unsigned
__global__ void macro_of_a_keyword(unsigned *out, const unsigned *in, int n) {
    VALUE_OF_THREAD v = in[threadIdx.x];
    __syncthreads();
    v += 3;
    __syncthreads();
    out[threadIdx.x] = v;
}
// case swap_by_macro
#define SWAP(T, a, b) { T kept = a; a = b; b = kept; }
__global__ void swap_by_macro(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x, w = n;
    SWAP(unsigned, v, w)
    __syncthreads();
    if (threadIdx.x & 1) SWAP(unsigned, v, w)
    __syncthreads();
    out[threadIdx.x] = v * 100 + w;
}
