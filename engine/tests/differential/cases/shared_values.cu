// Values that are computed from shared or __device__ memory, which then changes.

// case queue_position
__global__ void queue_position(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned base;
    if (threadIdx.x == 0) base = 5;
    __syncthreads();
    const unsigned pos = base + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) base = 100;
    __syncthreads();
    out[pos] = pos;
}
// case device_scalar
__device__ unsigned device_scalar_word;
__global__ void device_scalar(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) device_scalar_word = n;
    __syncthreads();
    const unsigned twice = device_scalar_word * 2;
    __syncthreads();
    if (threadIdx.x == 0) device_scalar_word = 77;
    __syncthreads();
    out[threadIdx.x] = twice + device_scalar_word;
}
// case device_array_element
__device__ int device_array_element_words[4];
__global__ void device_array_element(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x < 4) device_array_element_words[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const int second = device_array_element_words[1], at = second & 1;
    __syncthreads();
    if (threadIdx.x == 1) device_array_element_words[1] = ~second;
    __syncthreads();
    out[threadIdx.x * 2 + at] = second;
}
// case shared_element_as_limit: n 3 5
__global__ void shared_element_as_limit(unsigned *out, const unsigned *in, int n) {
    __shared__ int limits[2];
    if (threadIdx.x < 2) limits[threadIdx.x] = n + threadIdx.x;
    __syncthreads();
    const int limit = limits[1];
    unsigned sum = 0;
    for (int i = 0; i < limit; ++i) {
        sum += in[threadIdx.x + i];
        __syncthreads();
        if (threadIdx.x == 0) limits[1] = 1;
        __syncthreads();
    }
    out[threadIdx.x] = sum + limit;
}
// case shared_in_branch: n 3 4
__global__ void shared_in_branch(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned flag;
    if (threadIdx.x == 0) flag = n & 1;
    __syncthreads();
    const bool odd = flag;
    __syncthreads();
    if (threadIdx.x == 5) flag = !flag;
    __syncthreads();
    if (odd) out[threadIdx.x] = 1 + flag;
    __syncthreads();
    if (odd) out[threadIdx.x] += 10;
}
// case exchanged_scalars
__global__ void exchanged_scalars(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned a, b;
    if (threadIdx.x == 0) { a = in[1]; b = in[2]; }
    __syncthreads();
    const unsigned was_a = a, was_b = b;
    __syncthreads();
    if (threadIdx.x == 0) { a = was_b; b = was_a; }
    __syncthreads();
    out[threadIdx.x] = was_a * 3 + was_b * 5 + a * 7 + b;
}
// case running_total
__global__ void running_total(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned total;
    if (threadIdx.x == 0) total = 0;
    __syncthreads();
    for (int i = 0; i < 3; ++i) {
        const unsigned before = total;
        __syncthreads();
        if (threadIdx.x == 63) total += in[i];
        __syncthreads();
        out[threadIdx.x + 64 * i] = before + threadIdx.x;
        __syncthreads();
    }
}
// case value_in_register_only
__global__ void value_in_register_only(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned s[64];
    s[threadIdx.x] = in[threadIdx.x];
    __syncthreads();
    const unsigned first = s[0], last = s[63];
    __syncthreads();
    s[threadIdx.x] = first ^ last;
    __syncthreads();
    out[threadIdx.x] = first + 2 * last + s[(threadIdx.x + 1) % 64];
}
// case global_word
__global__ void global_word(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) out[100] = n;
    __syncthreads();
    const unsigned seen = out[100];
    __syncthreads();
    if (threadIdx.x == 3) out[100] = 9;
    __syncthreads();
    out[threadIdx.x] = seen;
}
// case two_steps_from_shared
__global__ void two_steps_from_shared(unsigned *out, const unsigned *in, int n) {
    __shared__ int start;
    if (threadIdx.x == 0) start = 7;
    __syncthreads();
    const int row = start / 2;
    const int at = row * 16 + threadIdx.x;
    __syncthreads();
    if (threadIdx.x == 0) start = 40;
    __syncthreads();
    out[at] = row;
}
// case shared_struct_member
struct Window { unsigned low, high; };
__global__ void shared_struct_member(unsigned *out, const unsigned *in, int n) {
    __shared__ Window window;
    if (threadIdx.x == 0) window = {2, 40};
    __syncthreads();
    const Window mine = window;
    const unsigned width = window.high - window.low;
    __syncthreads();
    if (threadIdx.x == 0) window.low = 30;
    __syncthreads();
    out[threadIdx.x] = width * 100 + mine.low + window.low;
}
// case atomic_counter_read
__global__ void atomic_counter_read(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned counter;
    if (threadIdx.x == 0) counter = 0;
    __syncthreads();
    if (in[threadIdx.x] & 1) atomicAdd(&counter, 1u);
    __syncthreads();
    const unsigned odd = counter;
    __syncthreads();
    if (!(in[threadIdx.x] & 1)) atomicAdd(&counter, 2u);
    __syncthreads();
    out[threadIdx.x] = odd * 1000 + counter;
}
// case through_a_pointer
__global__ void through_a_pointer(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned word;
    unsigned *const p = &word;
    if (threadIdx.x == 0) *p = 11;
    __syncthreads();
    const unsigned seen = *p;
    __syncthreads();
    if (threadIdx.x == 0) *p = 12;
    __syncthreads();
    out[threadIdx.x] = seen * 100 + *p;
}
// case through_a_function
__device__ unsigned through_a_function_word;
__device__ unsigned through_a_function_now() { return through_a_function_word; }
__global__ void through_a_function(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) through_a_function_word = 3;
    __syncthreads();
    const unsigned seen = through_a_function_now();
    __syncthreads();
    if (threadIdx.x == 0) through_a_function_word = 4;
    __syncthreads();
    out[threadIdx.x] = seen * 10 + through_a_function_now();
}
// case changed_by_a_function
__device__ unsigned changed_by_a_function_word;
__device__ void changed_by_a_function_step(unsigned by) { changed_by_a_function_word += by; }
__global__ void changed_by_a_function(unsigned *out, const unsigned *in, int n) {
    if (threadIdx.x == 0) changed_by_a_function_word = 0;
    __syncthreads();
    const unsigned was = changed_by_a_function_word;
    __syncthreads();
    if (threadIdx.x == 0) changed_by_a_function_step(n);
    __syncthreads();
    out[threadIdx.x] = was + changed_by_a_function_word * 8;
}
// case float_scalar
__global__ void float_scalar(unsigned *out, const unsigned *in, int n) {
    __shared__ float scale;
    if (threadIdx.x == 0) scale = 0.5f * n;
    __syncthreads();
    const float mine = scale * in[threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) scale = -1;
    __syncthreads();
    out[threadIdx.x] = __float_as_uint(mine);
    out[64 + threadIdx.x] = __float_as_uint(mine * scale);
}
// case loop_bound_from_block_sum
__global__ void loop_bound_from_block_sum(unsigned *out, const unsigned *in, int n) {
    __shared__ unsigned rounds;
    if (threadIdx.x == 0) rounds = 0;
    __syncthreads();
    atomicAdd(&rounds, 1u);
    __syncthreads();
    unsigned sum = 0;
    for (unsigned i = 0; i < rounds / 16; ++i) {
        sum = sum * 3 + i;
        __syncthreads();
    }
    out[threadIdx.x] = sum;
}
