// The host goes on before the device has ended; marked where it uses what a kernel or a copy still uses.
#include <cstdio>
#include <cstring>
#include <vector>
__global__ void fill(int *x, int n) { if (threadIdx.x < n) x[threadIdx.x] = threadIdx.x + 7; }
__global__ void add(const int *x, int *y, int n) { if (threadIdx.x < n) atomicAdd(y, x[threadIdx.x]); }
__global__ void raise(volatile int *flag) { *flag = 1; }
__global__ void announce(int *x, volatile int *flag) { *x = 3; __threadfence_system(); *flag = 1; }
int main() {
    int *managed, *pinned, *d, sum = 0, first;
    volatile int *flag;
    cudaMallocManaged(&managed, 256);
    cudaMallocManaged((void **)&flag, 4);
    cudaMallocHost(&pinned, 256);
    cudaMalloc(&d, 256);
    cudaEvent_t event;
    cudaEventCreate(&event);
    std::vector<int> pageable(64);
    fill<<<1, 32>>>(managed, 32);
    if (cudaGetLastError()) return 1;
    sum += managed[40];
    sum += managed[3];                                                     // found
    cudaDeviceSynchronize();
    sum += managed[4];
    add<<<1, 32>>>(managed, d, 16);
    sum += managed[2] + managed[20];
    managed[20] = 1;
    managed[2] = 3;                                                        // found
    cudaStreamSynchronize(0);
    raise<<<1, 1>>>((int *)flag);
    while (!*flag) ;
    fill<<<1, 32>>>(d, 32);
    cudaMemcpyAsync(pinned, d, 128, cudaMemcpyDeviceToHost);
    pinned[40] = 1;
    memcpy(&first, pinned, 4);                                             // found
    sum += first;
    cudaMemcpyAsync(d, pinned, 256, cudaMemcpyHostToDevice);
    sum += pinned[1];
    cudaEventRecord(event);
    for (int i = 5; i < 8; i++) pinned[i] = i;                             // found
    cudaEventSynchronize(event);
    pinned[6] = 6;
    cudaMemcpyAsync(pageable.data(), d, 256, cudaMemcpyDeviceToHost);
    sum += pageable[2];
    fill<<<1, 32>>>(managed, 16);
    cudaEventRecord(event);
    while (cudaEventQuery(event)) ;
    managed[5]++;
    cudaStream_t other;
    cudaStreamCreate(&other);
    fill<<<1, 32>>>(managed, 32);
    cudaStreamSynchronize(other);
    fill<<<1, 1>>>(managed + 40, 1);
    cudaStreamSynchronize(0);
    sum += managed[1];
    fill<<<1, 32>>>(pinned, 32);                                           // page-locked memory that a kernel uses
    sum += pinned[40];
    sum += pinned[7];                                                      // found
    cudaDeviceSynchronize();
    announce<<<1, 1>>>(pinned + 1, pinned);
    while (!*(volatile int *)pinned) ;
    sum += pinned[1];
    cudaDeviceSynchronize();
    announce<<<1, 1>>>(pinned + 3, pinned + 2);
    while (!__atomic_load_n(pinned + 2, __ATOMIC_ACQUIRE)) ;
    sum += pinned[3];
    cudaEventRecord(event);
    fill<<<1, 32, 0, other>>>(managed, 32);
    cudaEventSynchronize(event);
    sum += managed[9];                                                     // found
    printf("%d", sum);
}
