// P5a a row per warp: the largest number, the sum of the exponentials and the quotients, each in a pass over the row.

__global__ void softmax(const float *x, float *y, int rows, int columns)
{
#ifdef SKELETON
    // y[r][i] = exp(x[r][i]) / (sum of exp(x[r][j]) over the row); blockDim is (32, 4): a warp per row

#else
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;                                // a whole warp
    x += row * columns;
    y += row * columns;
    float largest = -INFINITY, sum = 0;
    for (int i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int apart = 16; apart > 0; apart /= 2)
        largest = fmaxf(largest, __shfl_xor_sync(0xffffffff, largest, apart));
    for (int i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffff, sum, apart);
    for (int i = threadIdx.x; i < columns; i += 32) y[i] = expf(x[i] - largest) / sum;
#endif
}
