// An attempt as it was handed in.
__global__ void saxpy(int n, float a, const float *x, float *y)
{
    const int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n + 1; i += threads)
        y[i] = a * x[i] + y[i];
}
