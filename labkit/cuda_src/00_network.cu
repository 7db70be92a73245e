// 00 network: the layers of lenet86 around its convolutions.
//
// Idea      One thread per output element, in order: these kernels take little of the network's time, and stay
//           as plain as their formulas. NumPy's versions are in labkit/networks/lenet86.py.
// Shapes    Row-major float32: images and maps [B,M,H,W], rows [B,I]. Each kernel names its own.
// Launch    1-D grid and blocks of any size, as many threads as outputs or more: the tail is guarded.
// Requires  At most 2^31 - 1 blocks, and sizes of one image that an int can count.

#include <cuda_fp16.h>

__device__ size_t my_element() { return (size_t)blockIdx.x * blockDim.x + threadIdx.x; }

// ReLU, then max-pool: x [maps,H,W] -> y [maps,Ho,Wo]. The host chooses Ho and Wo; a last window that reaches
// over the edge (ceil mode) is cut there, and must keep at least one element.
extern "C" __global__ void relu_max_pool(const float *x, float *y, int maps, int H, int W,
                                         int window, int stride, int Ho, int Wo)
{
    const size_t i = my_element();
    if (i >= (size_t)maps * Ho * Wo) return;
    const int h = i / Wo % Ho * stride, w = i % Wo * stride;  // the window's first row and column
    x += i / Wo / Ho * H * W;                                 // from here on x is this output's map

    float best = 0;                                           // max(0, all of them): ReLU and maximum at once
    bool nan = false;
    for (int p = h; p < min(h + window, H); ++p)
        #pragma unroll 1                                      // by fours, lanes with a cut window would part
        for (int q = w; q < min(w + window, W); ++q) {
            const float v = x[p * W + q];
            best = v > best ? v : best;
            nan |= isnan(v);                                  // it must not vanish here; nothing exceeds it
        }
    y[i] = nan ? NAN : best;
}

// Fully connected: y [B,O] = x [B,I] w [I,O] + bias [O], then ReLU if asked. Neighbouring threads read
// neighbouring columns of w and the same element of x.
extern "C" __global__ void fully_connected(const float *x, const float *w, const float *bias, float *y,
                                           int B, int I, int O, int relu)
{
    const size_t i = my_element();
    if (i >= (size_t)B * O) return;
    const int o = i % O;
    x += i / O * I;
    float sum = bias[o];
    for (int j = 0; j < I; ++j)
        sum += x[j] * w[(size_t)j * O + o];
    y[i] = relu && sum < 0 ? 0 : sum;
}

// Softmax: y [B,N] = exp(x - max) / sum of exp(x - max), one thread a row. Without the maximum, exp overflows
// at 89.
extern "C" __global__ void softmax(const float *x, float *y, int B, int N)
{
    const size_t b = my_element();
    if (b >= B) return;
    x += b * N;
    y += b * N;
    float most = x[0], sum = 0;
    for (int j = 1; j < N; ++j)
        most = fmaxf(most, x[j]);
    for (int j = 0; j < N; ++j)
        sum += y[j] = expf(x[j] - most);
    for (int j = 0; j < N; ++j)
        y[j] /= sum;
}

// For convolutions that read and write half.
extern "C" __global__ void float_to_half(const float *x, half *y, long long n)
{
    const size_t i = my_element();
    if (i < n) y[i] = __float2half(x[i]);
}

extern "C" __global__ void half_to_float(const half *x, float *y, long long n)
{
    const size_t i = my_element();
    if (i < n) y[i] = __half2float(x[i]);
}
