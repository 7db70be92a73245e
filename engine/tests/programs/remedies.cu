// Mistakes whose remedies are said in the words of CUDA C++.
#include <vector>
__constant__ float m[9];
__device__ int n[2];
__global__ void k(float *y) { extern __shared__ float s[]; *y = s[0] = m[0] + n[0]; }
int main() {
    std::vector<float> a(9, 2);
    cudaMemcpy(m, a.data(), 36, cudaMemcpyHostToDevice);
    cudaMemcpy(a.data(), n, 8, cudaMemcpyDeviceToHost);
    k<<<1, 1, 65536>>>(a.data());
    void *p;
    cudaMalloc(&p, 1ll << 50);
}
