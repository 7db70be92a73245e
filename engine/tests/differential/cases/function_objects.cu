// Function objects and lambda expressions.

struct Adder {
    unsigned by;
    __device__ void operator()(unsigned &v) const { v += by; }
};
struct Summer {
    unsigned sum;
    __device__ void operator()(unsigned v) { sum += v; }
};

// case that_takes_a_reference
__global__ void that_takes_a_reference(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    const Adder add = {5};
    add(v);
    __syncthreads();
    add(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case that_takes_a_uniform
__global__ void that_takes_a_uniform(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    Adder add{2};
    add(v);
    __syncthreads();
    out[threadIdx.x] = v;
    __syncthreads();
    add(v);
    __syncthreads();
    out[threadIdx.x] += v * 100;
}
// case with_a_state
__global__ void with_a_state(unsigned *out, const unsigned *in, int n) {
    Summer sum = {};
    for (int i = 0; i < n; ++i) {
        sum(in[threadIdx.x + i]);
        __syncthreads();
    }
    out[threadIdx.x] = sum.sum;
}
// case made_and_called
__global__ void made_and_called(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    Adder{7}(v);
    __syncthreads();
    Adder{v}(v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case passed_to_a_template
template <class F> __device__ void passed_to_a_template_apply(F f, unsigned &v) { f(v); }
__global__ void passed_to_a_template(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    passed_to_a_template_apply(Adder{3}, v);
    __syncthreads();
    passed_to_a_template_apply(Adder{v}, v);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case passed_by_reference
template <class F> __device__ void passed_by_reference_apply(F &f, unsigned v) { f(v); f(v + 1); }
__global__ void passed_by_reference(unsigned *out, const unsigned *in, int n) {
    Summer sum = {threadIdx.x};
    passed_by_reference_apply(sum, 4);
    __syncthreads();
    passed_by_reference_apply(sum, in[threadIdx.x]);
    __syncthreads();
    out[threadIdx.x] = sum.sum;
}
// case lambda_without_capture
__global__ void lambda_without_capture(unsigned *out, const unsigned *in, int n) {
    auto mix = [](unsigned a, unsigned b) { return a * 31 + b; };
    unsigned v = mix(threadIdx.x, 2);
    __syncthreads();
    v = mix(v, n);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case lambda_with_reference_parameter
__global__ void lambda_with_reference_parameter(unsigned *out, const unsigned *in, int n) {
    const auto step = [](unsigned &v, unsigned by = 2) { v += by; };
    unsigned v = threadIdx.x;
    step(v);
    __syncthreads();
    step(v, n);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case lambda_with_copies
__global__ void lambda_with_copies(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    auto scaled = [=](unsigned by) { return v * by; };
    v += 100;
    __syncthreads();
    out[threadIdx.x] = scaled(3) + v;
}
// case lambda_with_references
__global__ void lambda_with_references(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x;
    auto add = [&](unsigned by) { v += by; };
    add(4);
    __syncthreads();
    add(n);
    __syncthreads();
    out[threadIdx.x] = v;
}
// case mutable_lambda
__global__ void mutable_lambda(unsigned *out, const unsigned *in, int n) {
    auto next = [k = threadIdx.x]() mutable { return k++; };
    unsigned v = next();
    __syncthreads();
    v = v * 100 + next();
    __syncthreads();
    out[threadIdx.x] = v * 100 + next();
}
// case generic_lambda
__global__ void generic_lambda(unsigned *out, const unsigned *in, int n) {
    auto twice = [](auto v) { return v + v; };
    const float f = twice(0.5f * threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = twice(in[threadIdx.x]) + static_cast<unsigned>(f);
}
// case global_function_object
__device__ const Adder global_function_object_add{4};
__global__ void global_function_object(unsigned *out, const unsigned *in, int n) {
    unsigned v = n;
    global_function_object_add(v);
    __syncthreads();
    out[threadIdx.x] = v + threadIdx.x;
    __syncthreads();
    global_function_object_add(v);
    __syncthreads();
    out[threadIdx.x] += v * 100;
}
// case object_with_a_pointer
struct Writer {
    unsigned *to;
    __device__ void operator()(unsigned v) const { *to = v; }
};
__global__ void object_with_a_pointer(unsigned *out, const unsigned *in, int n) {
    unsigned v = 1;
    const Writer write = {&v};
    write(threadIdx.x);
    __syncthreads();
    out[threadIdx.x] = v;
    __syncthreads();
    write(v * 2 + 1);
    __syncthreads();
    out[threadIdx.x] += v * 100;
}
// case through_a_pointer_to_a_function
typedef void (*Change17)(unsigned &);
__device__ void bump17(unsigned &v) { v += 3; }
__device__ Change17 change17 = bump17;
__global__ void through_a_pointer_to_a_function(unsigned *out, const unsigned *in, int n) {
    unsigned v = threadIdx.x, w = n;
    (*change17)(v);
    change17((w));
    __syncthreads();
    (*change17)((v));
    out[threadIdx.x] = v * 3 + w;
}
