// Memory that the host may access, in threads of its own, too; with WRONG memory that it may not.
#include <cstdio>
#include <thread>
#include <vector>

__global__ void add(int *x, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] += i;
}

int main()
{
    const int n = 1 << 20;
    int *x, *managed, *pinned, *other;
    std::vector<int> y(n);
    cudaMalloc(&x, n * sizeof(int));
    cudaMallocManaged(&managed, 400);
    cudaMallocHost((void **)&pinned, 400);
    cudaMemset(x, 0, n * sizeof(int));
    for (int i = 0; i < 100; ++i) managed[i] = pinned[i] = 1;
    add<<<n / 256, 256>>>(x, n);
    add<<<1, 128>>>(managed, 100);
    add<<<1, 128>>>(pinned, 100);
    cudaDeviceSynchronize();
#ifdef WRONG
    cudaMalloc(&x, 100); x[24] = 1;
#endif
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
        threads.emplace_back([&, t] {
            cudaStream_t stream;
            cudaStreamCreate(&stream);
            for (int i = 0; i < 100; ++i) {
                int *own, one = 0;
                cudaMalloc(&own, 100 << t * 4);
                cudaMemset(own, 0, 100 << t * 4);
                add<<<1, 32, 0, stream>>>(own, 25);
                cudaStreamSynchronize(stream);
                cudaMemcpy(&one, own + 24, 4, cudaMemcpyDeviceToHost);
                if (one != 24) printf("%d\n", one);
                cudaFree(own);
            }
        });
    for (auto &each : threads) each.join();
    for (int i = 0; i < 300; ++i) cudaMalloc(&other, 4096);
    add<<<1, 1024>>>(other, 1024);
    cudaMemcpy(y.data(), x, n * sizeof(int), cudaMemcpyDeviceToHost);
    long sum = 0;
    for (int each : y) sum += each;
    printf("%d %d %ld %s\n", managed[99], pinned[99], sum, cudaGetErrorString(cudaDeviceSynchronize()));
}
