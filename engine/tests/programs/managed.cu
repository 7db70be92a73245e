// The host sets managed memory that a kernel reads.
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
int main() {
    int *x;
    cudaMallocManaged(&x, 128);
    for (int i = 0; i < 32; ++i) x[i] = 1;
    twice<<<1, 32>>>(x);
    return cudaDeviceSynchronize();
}
