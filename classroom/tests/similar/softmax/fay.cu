__global__ void softmax(const float *x, float *y, int rows, int columns)
{
    int tx = threadIdx.x, ty = threadIdx.y;
    int r = blockIdx.x * blockDim.y + ty;
    if (r >= rows) return;
    int begin = r * columns, end = begin + columns;
    float mx = x[begin];
    for (int k = begin + tx; k < end; k = k + 32) mx = fmaxf(x[k], mx);
    mx = fmaxf(mx, __shfl_xor_sync(0xFFFFFFFF, mx, 16));
    mx = fmaxf(mx, __shfl_xor_sync(0xFFFFFFFF, mx, 8));
    mx = fmaxf(mx, __shfl_xor_sync(0xFFFFFFFF, mx, 4));
    mx = fmaxf(mx, __shfl_xor_sync(0xFFFFFFFF, mx, 2));
    mx = fmaxf(mx, __shfl_xor_sync(0xFFFFFFFF, mx, 1));
    float sm = 0.0f;
    for (int k = begin + tx; k < end; k = k + 32) sm = sm + expf(x[k] - mx);
    sm += __shfl_xor_sync(0xFFFFFFFF, sm, 16);
    sm += __shfl_xor_sync(0xFFFFFFFF, sm, 8);
    sm += __shfl_xor_sync(0xFFFFFFFF, sm, 4);
    sm += __shfl_xor_sync(0xFFFFFFFF, sm, 2);
    sm += __shfl_xor_sync(0xFFFFFFFF, sm, 1);
    for (int k = begin + tx; k < end; k = k + 32) y[k] = expf(x[k] - mx) / sm;
}
