// online: maximum and sum in one pass
__global__ void softmax(const float *x, float *y, int rows, int columns)
{
    int row = blockIdx.x * 4 + threadIdx.y;
    if (row >= rows) return;
    float m = -1e30f, s = 0;
    for (int j = threadIdx.x; j < columns; j += warpSize) {
        float v = x[row * columns + j];
        float next = max(m, v);
        s = s * expf(m - next) + expf(v - next);
        m = next;
    }
    for (int k = 1; k < 32; k *= 2) {
        float m2 = __shfl_xor_sync(~0u, m, k), s2 = __shfl_xor_sync(~0u, s, k);
        float next = max(m, m2);
        s = s * expf(m - next) + s2 * expf(m2 - next);
        m = next;
    }
    float scale = 1 / s;
    for (int j = threadIdx.x; j < columns; j += warpSize)
        y[row * columns + j] = scale * expf(x[row * columns + j] - m);
}
