// Right programs whose host answers a kernel, has volatile accesses of its own, or counts bytes beside elements.
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void answer(volatile int *words, int rounds) {
    for (int i = 1; i <= rounds; i++) {
        while (words[0] != i);
        __threadfence_system();
        words[1] = i;
    }
}
__global__ void add_one(float *x) { x[threadIdx.x] += 1; }
int main() {
    int *words;
    cudaHostAlloc(&words, 12, cudaHostAllocMapped);
    volatile int *shared = words;
    shared[0] = shared[1] = shared[2] = 0;
    answer<<<1, 1>>>(words, 3);
    for (int i = 1; i < 3; i++) {
        shared[0] = i;
        while (shared[1] != i);
    }
    shared[0] = 3;
    cudaDeviceSynchronize();
    shared[0] = 4;
    while (shared[2] != 0);
    int n = 256;
    std::vector<float> more(n);
    float *d, *h = (float *)malloc(n);
    for (int i = 0; i < n / 4; i++) h[i] = more[i] + i;
    cudaMalloc(&d, n);
    cudaMemcpy(d, h, n, cudaMemcpyHostToDevice);
    add_one<<<1, 64>>>(d);
    cudaMemcpy(h, d, n, cudaMemcpyDeviceToHost);
    printf("%d %g\n", shared[1], h[63]);
}
