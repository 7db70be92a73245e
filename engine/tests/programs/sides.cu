// What host and device see of __CUDA_ARCH__.
#include <cstdio>
#if __CUDA_ARCH__ < 600 && defined(__CUDA_ARCH__)
__device__ double atomicAdd(double *p, double x) { return *p; }
#endif
#ifdef __CUDA_ARCH__
#define SIDE 1
#else
#define SIDE 2
#endif
struct Method {
    __host__ __device__ int get() const {
#ifdef __CUDA_ARCH__
        return 10 + threadIdx.x;
#else
        int n = 20;
        return n;
#endif
    }
};
template <class T> __host__ __device__ constexpr T side(T x) { return x * SIDE; }
#ifndef __CUDA_ARCH__
int only_host() { return 5; }
#endif
__global__ void k(int *o) { o[0] = Method().get(); o[1] = side(3); o[2] = SIDE; }
int main() {
    static_assert(side(1) == 2 || side(1) == 1, "");
    int *o, h[3];
    cudaMalloc(&o, 12);
    k<<<1, 1>>>(o);
    cudaMemcpy(h, o, 12, cudaMemcpyDeviceToHost);
    printf("%d %d %d, %d %d %d %d line %d", h[0], h[1], h[2], Method().get(), side(3), SIDE, only_host(), __LINE__);
}
