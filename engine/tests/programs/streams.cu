// Each case is a block of main. In those that are wrong the second mark is the line that is found, the first one the
// other access.
#include <cstdio>
__device__ int total;
__device__ volatile int ready;
__global__ void fill(int *x) { x[threadIdx.x] = 2 * threadIdx.x + 5; }
__global__ void add(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x] + 1; }
__global__ void twice(int *x) { x[threadIdx.x] *= 2; }
__global__ void odd(char *x) { x[2 * threadIdx.x + 1] = 1; }
__global__ void even(char *x) { x[2 * threadIdx.x] = 1; }
__global__ void count() { atomicAdd(&total, 1); }
__global__ void send(int *x) { *x = 4; __threadfence(); ready = 1; }
__global__ void take(int *x) { while (!ready) {} __threadfence(); x[1] = x[0]; }
int main() {
    int *a, *b, *h;
    cudaMalloc(&a, 128);
    cudaMalloc(&b, 128);
    cudaMallocHost(&h, 128);
    cudaStream_t s, t, apart;
    cudaStreamCreate(&s);
    cudaStreamCreateWithFlags(&t, 0);
    cudaStreamCreateWithFlags(&apart, cudaStreamNonBlocking);
    cudaEvent_t event, never;
    cudaEventCreate(&event);
    cudaEventCreate(&never);
    cudaMemset(a, 0, 128);
    cudaDeviceSynchronize();
    {
        fill<<<1, 32, 0, s>>>(a);                                          // first
        add<<<1, 32, 0, t>>>(a, b);                                        // found
        cudaDeviceSynchronize();
    } {
        add<<<1, 32, 0, s>>>(a, b);                                        // first
        cudaMemsetAsync(a, 0, 128, t);                                     // found
        cudaDeviceSynchronize();
    } {
        cudaMemcpyAsync(a, h, 128, cudaMemcpyHostToDevice, s);             // first
        twice<<<1, 32, 0, t>>>(a);                                         // found
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32>>>(a);                                                // first
        twice<<<1, 32, 0, apart>>>(a);                                     // found
        cudaDeviceSynchronize();
    } {
        cudaStreamWaitEvent(t, never, 0);
        fill<<<1, 32, 0, s>>>(b);                                          // first
        cudaEventRecord(never, s);
        twice<<<1, 32, 0, t>>>(b);                                         // found
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32, 0, s>>>(a);                                          // first
        cudaStreamSynchronize(t);
        cudaMemcpyAsync(h, a, 128, cudaMemcpyDeviceToHost, t);             // found
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32, 0, s>>>(a);
        cudaEventRecord(event, s);
        cudaStreamWaitEvent(apart, event, 0);
        add<<<1, 32, 0, apart>>>(a, b);
        cudaStreamSynchronize(apart);
        add<<<1, 32, 0, t>>>(b, a);
        twice<<<1, 32>>>(a);
        add<<<1, 32, 0, s>>>(a, b);
        cudaDeviceSynchronize();
    } {
        odd<<<1, 32, 0, s>>>((char *)a);
        even<<<1, 32, 0, t>>>((char *)a);
        fill<<<1, 32, 0, s>>>(b);
        fill<<<1, 32, 0, t>>>(b);
        cudaDeviceSynchronize();
    } {
        count<<<1, 32, 0, s>>>();
        count<<<1, 32, 0, t>>>();
        add<<<1, 32, 0, s>>>(a, b);
        cudaMemcpyAsync(h, a, 128, cudaMemcpyDeviceToHost, t);
        cudaEventRecord(event, t);
        cudaEventSynchronize(event);
        twice<<<1, 32, 0, t>>>((int *)h);
        cudaDeviceSynchronize();
    } {
        send<<<1, 1, 0, s>>>(a);
        take<<<1, 1, 0, t>>>(a);
        cudaDeviceSynchronize();
    } {
        fill<<<1, 32, 0, s>>>(a);
        void *more;
        cudaMalloc(&more, 16);
        add<<<1, 32, 0, t>>>(a, b);
        cudaDeviceSynchronize();
    } {
        int *own, *other;
        cudaMallocAsync(&own, 128, s);
        cudaMallocAsync(&other, 128, s);
        fill<<<1, 32, 0, s>>>(own);
        cudaFreeAsync(own, s);
        fill<<<1, 32, 0, t>>>(other);  // first
        cudaFreeAsync(other, s);       // found
    }
    return cudaDeviceSynchronize();
}
