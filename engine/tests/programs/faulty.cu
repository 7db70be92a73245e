// Wrong calls, and a kernel that leaves its array: SIZE and OFFSET say by how much.
#include <stdio.h>
__global__ void fill(int *x, int n) { x[(blockIdx.x * 32 + threadIdx.x) % SIZE + OFFSET] = n; }
int main() {
    int *x, one = 1;
    cudaMalloc(&x, 100 * sizeof(int));
    printf("%d\n", cudaMemcpy(x, &one, 1 << 20, cudaMemcpyHostToDevice));
    printf("%d\n", cudaMemcpy(&one, &one, sizeof one, cudaMemcpyHostToDevice));
    printf("%d\n", cudaFree(&one));
    fill<<<4, 32>>>(x, 7);
    printf("%s\n", cudaGetErrorString(cudaDeviceSynchronize()));
    printf("%s\n", cudaGetErrorString(cudaMemset(x, 0, 4)));
    return 0;
}
