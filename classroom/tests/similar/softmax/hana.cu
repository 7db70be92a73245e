__global__ void softmax(const float *x, float *y, int rows, int columns)
{
    const unsigned everyone = 0xffffffff;
    const int row = blockIdx.x * blockDim.y + threadIdx.y, lane = threadIdx.x;
    if (row >= rows) return;
    x += row * columns + lane;
    y += row * columns + lane;
    const int mine = (columns - lane + 31) / 32;   // numbers of this lane

    float high = -INFINITY;
    for (int n = 0; n < mine; ++n) high = fmaxf(high, x[32 * n]);
    for (int far = 1; far <= 16; far += far) high = fmaxf(high, __shfl_xor_sync(everyone, high, far));

    float below = 0;
    for (int n = 0; n < mine; ++n) below += expf(x[32 * n] - high);
    for (int far = 1; far <= 16; far += far) below += __shfl_xor_sync(everyone, below, far);

    for (int n = 0; n < mine; ++n) y[32 * n] = expf(x[32 * n] - high) / below;
}
