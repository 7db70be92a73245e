// Layers of neural networks.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

template <class Operation> __device__ float across_warp(float v, Operation operation)
{
    for (int offset = 16; offset > 0; offset >>= 1) v = operation(v, __shfl_xor_sync(0xffffffffu, v, offset));
    return v;
}

template <class Operation> __device__ float across_block(float v, float neutral, Operation operation)
{
    __shared__ float of_warp[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    v = across_warp(v, operation);
    __syncthreads();
    if (lane == 0) of_warp[warp] = v;
    __syncthreads();
    return across_warp(lane < blockDim.x / 32 ? of_warp[lane] : neutral, operation);
}

extern "C" {

__global__ void softmax_rows(const float *x, float *y, int width)
{
    const float *row = x + blockIdx.x * width;
    auto larger = [](float a, float b) { return fmaxf(a, b); };
    auto plus = [](float a, float b) { return a + b; };
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) most = fmaxf(most, row[i]);
    most = across_block(most, -INFINITY, larger);
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += expf(row[i] - most);
    sum = across_block(sum, 0.0f, plus);
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = expf(row[i] - most) / sum;
}

// Maximum and sum in one pass.
__global__ void softmax_online(const float *x, float *y, int width)
{
    const float *row = x + blockIdx.x * width;
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < width; i += 32) {
        float before = most;
        most = fmaxf(most, row[i]);
        sum = sum * expf(before - most) + expf(row[i] - most);
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        float m = __shfl_xor_sync(~0u, most, offset), s = __shfl_xor_sync(~0u, sum, offset), both = fmaxf(most, m);
        sum = sum * expf(most - both) + s * expf(m - both);
        most = both;
    }
    for (int i = threadIdx.x; i < width; i += 32) y[blockIdx.x * width + i] = expf(row[i] - most) / sum;
}

__global__ void layer_norm(const float *x, const float *gain, const float *bias, float *y, int width)
{
    const float *row = x + blockIdx.x * width;
    auto plus = [](float a, float b) { return a + b; };
    float sum = 0.0f, squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += blockDim.x) sum += row[i];
    float mean = across_block(sum, 0.0f, plus) / width;
    for (int i = threadIdx.x; i < width; i += blockDim.x) squares += (row[i] - mean) * (row[i] - mean);
    float scale = rsqrtf(across_block(squares, 0.0f, plus) / width + 1e-5f);
    for (int i = threadIdx.x; i < width; i += blockDim.x) y[blockIdx.x * width + i] = (row[i] - mean) * scale * gain[i] + bias[i];
}

__global__ void rms_norm(const __nv_bfloat16 *x, const float *gain, float *y, int width)
{
    float squares = 0.0f;
    for (int i = threadIdx.x; i < width; i += 32) {
        float v = __bfloat162float(x[blockIdx.x * width + i]);
        squares += v * v;
    }
    squares = across_warp(squares, [](float a, float b) { return a + b; });
    float scale = rsqrtf(squares / width + 1e-6f);
    for (int i = threadIdx.x; i < width; i += 32)
        y[blockIdx.x * width + i] = __bfloat162float(x[blockIdx.x * width + i]) * scale * gain[i];
}

// One query: scores, their softmax, and the weighted sum of the values, in one pass over the keys.
__global__ void attention_row(const float *q, const float *k, const float *v, float *out, int keys, float scale)
{
    const int depth = 32;
    float mine = q[blockIdx.x * depth + threadIdx.x], most = -INFINITY, sum = 0.0f, result = 0.0f;
    for (int j = 0; j < keys; j++) {
        float score = across_warp(mine * k[j * depth + threadIdx.x], [](float a, float b) { return a + b; }) * scale;
        float now = fmaxf(most, score), shrink = __expf(most - now), weight = __expf(score - now);
        sum = sum * shrink + weight;
        result = result * shrink + weight * v[j * depth + threadIdx.x];
        most = now;
    }
    out[blockIdx.x * depth + threadIdx.x] = result / sum;
}

__global__ void cross_entropy(const float *logits, const int *label, float *loss, int classes, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *row = logits + i * classes;
    float most = row[0], sum = 0.0f;
    for (int c = 1; c < classes; c++) most = fmaxf(most, row[c]);
    for (int c = 0; c < classes; c++) sum += expf(row[c] - most);
    loss[i] = logf(sum) + most - row[label[i]];
}

__global__ void embedding(const int *token, const float4 *table, float4 *out, int width)
{
    for (int i = threadIdx.x; i < width; i += blockDim.x) out[blockIdx.x * width + i] = table[token[blockIdx.x] * width + i];
}

__global__ void max_pool(const float *x, float *y, int height, int width)
{
    int column = threadIdx.x, row = blockIdx.y, channel = blockIdx.z, out = width / 2;
    if (column >= out) return;
    const float *at = x + (channel * height + 2 * row) * width + 2 * column;
    y[(channel * (height / 2) + row) * out + column] = fmaxf(fmaxf(at[0], at[1]), fmaxf(at[width], at[width + 1]));
}

__global__ void im2col(const float *x, float *columns, int channels, int height, int width, int k)
{
    int ho = height - k + 1, wo = width - k + 1, i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= channels * ho * wo) return;
    int column = i % wo, row = i / wo % ho, channel = i / (wo * ho);
    for (int p = 0; p < k; p++)
        for (int q = 0; q < k; q++)
            columns[((channel * k + p) * k + q) * ho * wo + row * wo + column] = x[(channel * height + row + p) * width + column + q];
}

__global__ void int8_dot(const int *a, const int *b, int *out, int words)
{
    int sum = 0;
    for (int i = threadIdx.x; i < words; i += 32) sum = __dp4a(a[blockIdx.x * words + i], b[blockIdx.x * words + i], sum);
    sum = __reduce_add_sync(0xffffffffu, sum);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

__global__ void quantize_fp8(const float *x, unsigned char *codes, float *back, float scale, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    __nv_fp8_e4m3 code(x[i] * scale);
    codes[i] = code.__x;
    back[i] = float(code) / scale;
}

__global__ void half2_axpy(__half2 a, const __half2 *x, __half2 *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hfma2(a, x[i], y[i]);
}

__global__ void sgd_momentum(float *weight, float *speed, const float *gradient, float rate, float momentum, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    speed[i] = momentum * speed[i] - rate * gradient[i];
    weight[i] += speed[i];
}

}
