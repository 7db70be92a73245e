// What textbooks use besides; its main is in textbook_main.cpp.
#include <stdio.h>
#include <memory>
__device__ __noinline__ int next(int x) { return x + 1; }
__attribute__((__noinline__)) int last(int x) { return x - 1; }
template <class T> __global__ void fill(T *x, int n = 2, T *also = NULL)
{
    if (threadIdx.x < n) x[threadIdx.x] = next(n);
    if (also && threadIdx.x < n) also[threadIdx.x] = n;
}
void CUDART_CB told(cudaStream_t s, cudaError_t status, void *data) { printf("told %d %d\n", status, *(int *)data); }
void CUDART_CB called(void *data) { printf("called %d\n", *(int *)data); }
template <class F> __global__ void for_each(F f) { f(threadIdx.x); }
struct Lock {
    int *mutex;
    Lock() { cudaMalloc(&mutex, sizeof *mutex), cudaMemset(mutex, 0, sizeof *mutex); }
    ~Lock() { cudaFree(mutex); }   // of the host's copies only, as on a GPU
    __device__ void lock() { while (atomicCAS(mutex, 0, 1)); }
    __device__ void unlock() { atomicExch(mutex, 0); }
};
__global__ void count(Lock lock, int *x)
{
    if (threadIdx.x > 0) return;
    lock.lock();
    *x += 1;
    lock.unlock();
}
__device__ int same(int i) { return i; }
__global__ void hello() { printf("hello from %d\n", threadIdx.x); }
int elsewhere(int x);
int textbook()
{
    int *x, *y, seen[4] = {};
    cudaMalloc(&x, sizeof seen);
    cudaMallocManaged(&y, sizeof seen);
    fill<<<1, 32, 0, 0>>>(x);
    fill<int><<<{1, 1}, 32, 0, NULL>>>(x + 2, last(2), y);
    cudaStreamAddCallback(0, told, y, 0);
    cudaLaunchHostFunc(0, called, y);
    cudaMemcpy(seen, x, sizeof seen, cudaMemcpyDeviceToHost);
    printf("default arguments: %d %d %d %d\n", seen[0], seen[1], seen[2], y[0]);

    float box[2][3][4], back[2][3][4] = {};
    for (int i = 0; i < 24; i++) ((float *)box)[i] = i;
    cudaPitchedPtr device;
    cudaMemcpy3DParms copy = {};
    copy.extent = make_cudaExtent(sizeof box[0][0], 3, 2);
    cudaMalloc3D(&device, copy.extent);
    copy.srcPtr = make_cudaPitchedPtr(box, sizeof box[0][0], 4, 3), copy.dstPtr = device;
    copy.kind = cudaMemcpyHostToDevice;
    cudaMemcpy3D(&copy);
    copy.dstPtr = make_cudaPitchedPtr(back, sizeof box[0][0], 4, 3), copy.srcPtr = device;
    copy.kind = cudaMemcpyDeviceToHost;
    copy.srcPos = make_cudaPos(0, 1, 0), copy.extent.height = 2;
    cudaMemcpy3D(&copy);
    printf("a box: %g %g %g\n", back[0][0][0], back[1][1][3], back[1][2][0]);

    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, 0);
    printf("managed: %d, elsewhere: %d\n", properties.managedMemory, elsewhere(5));
    void *arguments[] = {&x, &x, &x};
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)fill<int>, 1 << 20, 32, arguments)));
    hello<<<1, 1>>>();
    for_each<<<1, 4>>>([=] __device__ (int i) { y[i] = same(i); });
    cudaMemLocation host = {cudaMemLocationTypeHost, 0};
    printf("lambda: %d %d\n", cudaMemPrefetchAsync(y, sizeof seen, host, 0), cudaDeviceSynchronize());
    cudaMemset(y, 0, sizeof *y);
    Lock lock;
    count<<<5, 32>>>(lock, y);
    cudaDeviceSynchronize();
    printf("a lock: %d\n", y[0]);
    return y[3];
}
