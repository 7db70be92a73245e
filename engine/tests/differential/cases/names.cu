// One name for several things.

enum Phase { first = 3, second = 5, total = 7 };
__constant__ unsigned weights[4] = {2, 3, 5, 7};
__device__ unsigned helper(unsigned x) { unsigned sum = x; sum += 2; return sum; }

// case enumerator_and_variable
__global__ void enumerator_and_variable(unsigned *out, const unsigned *in, int n) {
    unsigned v = second;
    __syncthreads();
    {
        unsigned second = threadIdx.x;
        second += v;
        __syncthreads();
        v = second;
    }
    __syncthreads();
    out[threadIdx.x] = v + second;
}
// case enumerator_hides_variable
__global__ void enumerator_hides_variable(unsigned *out, const unsigned *in, int n) {
    unsigned k = threadIdx.x, sum = 0;
    {
        enum { k = 9 };
        sum += k;
        __syncthreads();
        sum += k * 2;
    }
    __syncthreads();
    k += 1;
    __syncthreads();
    out[threadIdx.x] = sum * 100 + k;
}
// case local_enumerator
__global__ void local_enumerator(unsigned *out, const unsigned *in, int n) {
    enum { ROUNDS = 3, WIDTH = ROUNDS * 2 };
    unsigned sum = 0;
    for (int i = 0; i < ROUNDS; ++i) {
        sum += in[threadIdx.x * WIDTH + i];
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
// case variable_of_an_enumerators_name
__global__ void variable_of_an_enumerators_name(unsigned *out, const unsigned *in, int n) {
    unsigned total = threadIdx.x;
    __syncthreads();
    total += first;
    __syncthreads();
    out[threadIdx.x] = total;
}
// case shadowed_uniform
__global__ void shadowed_uniform(unsigned *out, const unsigned *in, int n) {
    unsigned k = n, sum = 0;
    for (unsigned i = 0; i < 2; ++i) {
        unsigned k = threadIdx.x;
        k += i;
        __syncthreads();
        sum += k;
    }
    __syncthreads();
    out[threadIdx.x] = sum * 10 + k;
}
// case shadowed_by_itself
__global__ void shadowed_by_itself(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    {
        unsigned outer = v, v = outer * 2;
        __syncthreads();
        v += 1;
        __syncthreads();
        out[threadIdx.x] = v;
    }
    out[threadIdx.x + 64] = v;
}
// case shadowed_parameter
__global__ void shadowed_parameter(unsigned *out, const unsigned *in, int n) {
    unsigned sum = n;
    {
        unsigned n = in[threadIdx.x];
        __syncthreads();
        n += sum;
        __syncthreads();
        sum = n;
    }
    out[threadIdx.x] = sum + n;
}
// case loops_with_one_counter_name
__global__ void loops_with_one_counter_name(unsigned *out, const unsigned *in, int n) {
    unsigned sum = 0;
    for (int i = 0; i < n; ++i) {
        for (unsigned i = 0; i < 2; ++i) sum += in[threadIdx.x + i];
        __syncthreads();
        sum = sum * 3 + i;
    }
    for (unsigned i = threadIdx.x; i < 70; i += 3) sum ^= i;
    __syncthreads();
    out[threadIdx.x] = sum;
}
// case variable_named_as_its_type
struct item { unsigned v; };
__global__ void variable_named_as_its_type(unsigned *out, const unsigned *in, int n) {
    item item = {threadIdx.x};
    __syncthreads();
    item.v += 2;
    __syncthreads();
    struct item other = item;
    out[threadIdx.x] = other.v;
}
// case variable_named_as_a_function
__global__ void variable_named_as_a_function(unsigned *out, const unsigned *in, int n) {
    unsigned v = helper(threadIdx.x);
    unsigned helper = v;
    __syncthreads();
    helper += n;
    __syncthreads();
    out[threadIdx.x] = helper;
}
// case variable_named_as_a_constant
__global__ void variable_named_as_a_constant(unsigned *out, const unsigned *in, int n) {
    unsigned sum = weights[threadIdx.x & 3];
    {
        unsigned weights = threadIdx.x;
        __syncthreads();
        weights *= 2;
        sum += weights;
    }
    __syncthreads();
    out[threadIdx.x] = sum + weights[n & 3];
}
// case member_named_as_a_variable
struct Cell { unsigned v, sum; };
__global__ void member_named_as_a_variable(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x, sum = 1;
    Cell c = {4, 5};
    c.v += v;
    __syncthreads();
    c.sum = sum + c.v;
    sum += 2;
    __syncthreads();
    out[threadIdx.x] = c.v * 1000 + c.sum * 10 + sum + v;
}
// case local_of_the_function_has_our_name
__device__ unsigned local_of_the_function_has_our_name_of(unsigned v, unsigned sum) {
    unsigned k = v + 1;
    k *= sum;
    return k;
}
__global__ void local_of_the_function_has_our_name(unsigned *out, const unsigned *in, int n) {
    unsigned k = 2, v = threadIdx.x, sum = k;
    __syncthreads();
    sum += local_of_the_function_has_our_name_of(sum, k);
    __syncthreads();
    out[threadIdx.x] = sum + k * v;
}
// case names_with_underscores
__global__ void names_with_underscores(unsigned *out, const unsigned *in, int n) {
    unsigned t = threadIdx.x, kept = 1, kept_t = 2, lane = 3, warp = 4, hostcuda = 5, thread = 6;
    __syncthreads();
    kept += t; kept_t += kept; lane += kept_t; warp += lane; hostcuda += warp; thread += hostcuda;
    __syncthreads();
    out[threadIdx.x] = kept + kept_t * 2 + lane * 3 + warp * 5 + hostcuda * 7 + thread * 11;
}
// case namespace_variable
namespace space { __device__ unsigned word[2]; __device__ unsigned twice(unsigned x) { return x * 2; } }
__global__ void namespace_variable(unsigned *out, const unsigned *in, int n) {
    unsigned word = threadIdx.x;
    if (threadIdx.x == 0) space::word[1] = n;
    __syncthreads();
    word += space::word[1];
    __syncthreads();
    out[threadIdx.x] = space::twice(word);
}
// case using_in_the_kernel
namespace more { __device__ unsigned triple(unsigned &x) { return x *= 3; } }
__global__ void using_in_the_kernel(unsigned *out, const unsigned *in, int n) {
    using namespace more;
    unsigned v = threadIdx.x;
    triple(v);
    __syncthreads();
    v += triple(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case comments_and_strings
__global__ void comments_and_strings(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x; /* v += 1; __syncthreads(); { */
    const char *text = "v = 7; } __syncthreads();";
    __syncthreads();
    v += text[n] == '}' ? 1 : text[0]; // } v = 2
    __syncthreads();
    v \
        += 2;
    out[threadIdx.x] = v;
}
