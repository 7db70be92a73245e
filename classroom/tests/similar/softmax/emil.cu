__global__ void softmax(const float *x, float *y, int rows, int columns)
{
    auto bigger = [](float a, float b) { return a > b ? a : b; };
    auto plus = [](float a, float b) { return a + b; };
    auto all = [](float mine, auto op) {
#pragma unroll
        for (int mask = 16; mask >= 1; mask /= 2) mine = op(mine, __shfl_xor_sync(0xffffffff, mine, mask));
        return mine;
    };
    for (int row = blockIdx.x * blockDim.y + threadIdx.y; row < rows; row += gridDim.x * blockDim.y) {
        const long at = (long)row * columns;
        float top = -INFINITY;
        for (int i = threadIdx.x; i < columns; i += blockDim.x) top = bigger(top, x[at + i]);
        top = all(top, bigger);
        float sum = 0;
        for (int i = threadIdx.x; i < columns; i += blockDim.x) sum += expf(x[at + i] - top);
        const float inverse = 1.0f / all(sum, plus);
        for (int i = threadIdx.x; i < columns; i += blockDim.x) y[at + i] = expf(x[at + i] - top) * inverse;
    }
}
