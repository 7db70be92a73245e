// one warp = one row
__device__ float warp_max(float v)
{
    for (int d = 16; d; d >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, d));
    return v;
}
__device__ float warp_sum(float v)
{
    for (int d = 16; d; d >>= 1) v += __shfl_xor_sync(0xffffffffu, v, d);
    return v;
}

__global__ void softmax(const float *x, float *y, int rows, int columns)
{
    int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r < rows) {
        const float *in = x + (size_t)r * columns;
        float *out = y + (size_t)r * columns;
        float m = in[0];
        for (int c = threadIdx.x; c < columns; c += 32) m = fmaxf(m, in[c]);
        m = warp_max(m);
        float s = 0.f;
        for (int c = threadIdx.x; c < columns; c += 32) s += expf(in[c] - m);
        s = warp_sum(s);
        for (int c = threadIdx.x; c < columns; c += 32) out[c] = expf(in[c] - m) / s;
    }
}
