// Two transposes of a matrix; the page's examples give TILE.
__global__ void naive(float *y, const float *x, int n) {
    int i = blockIdx.x * TILE + threadIdx.x, j = blockIdx.y * 8 + threadIdx.y;
    y[i * n + j] = x[j * n + i];
}
__global__ void transpose(float *y, const float *x, int n) {
    __shared__ float tile[TILE][TILE + 1];
    int i = blockIdx.x * TILE, j = blockIdx.y * TILE;
    for (int k = threadIdx.y; k < TILE; k += 8) tile[k][threadIdx.x] = x[(j + k) * n + i + threadIdx.x];
    __syncthreads();
    for (int k = threadIdx.y; k < TILE; k += 8) y[(i + k) * n + j + threadIdx.x] = tile[threadIdx.x][k];
}
int main(int, char **arguments) {
    int n = atoi(arguments[1]);
    float *x, *y;
    cudaMalloc(&x, 4 * n * n), cudaMalloc(&y, 4 * n * n), cudaMemset(x, 0, 4 * n * n);
    naive<<<dim3(n / TILE, n / 8), dim3(TILE, 8)>>>(y, x, n);
    transpose<<<dim3(n / TILE, n / TILE), dim3(TILE, 8)>>>(y, x, n);
    return cudaDeviceSynchronize();
}
