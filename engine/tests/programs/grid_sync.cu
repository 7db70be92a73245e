// Blocks that wait for each other: a cooperative launch, whose blocks keep their locals and their shared memory.
#include <cooperative_groups.h>
#include <cstdio>
#include <cstring>
#include <vector>
namespace cg = cooperative_groups;

// The sum of x, in two phases; then each block adds what it has kept.
__global__ void sum(const float *x, float *partial, float *total, int n, int rounds) {
    extern __shared__ float kept[];
    __shared__ float sums[64];
    cg::grid_group grid = cg::this_grid();
    const int t = threadIdx.x;
    kept[t] = blockIdx.x * 1000 + t;
    float mine = 0, locals[4];
    for (int i = 0; i < 4; i++) locals[i] = t + i;
    for (int i = grid.thread_rank(); i < n; i += grid.num_threads()) mine += x[i];
    sums[t] = mine;
    __syncthreads();
    for (int half = 32; half; half /= 2) {
        if (t < half) sums[t] += sums[t + half];
        __syncthreads();
    }
    for (int round = 0; round < rounds; round++) {
        if (t == 0) partial[blockIdx.x] = sums[0] + round;
        grid.sync();
        if (grid.thread_rank() == 0) {
            total[0] = 0;
            for (int b = 0; b < gridDim.x; b++) total[0] += partial[b];
        }
        cg::sync(grid);
    }
    if (kept[t] != blockIdx.x * 1000 + t || locals[t % 4] != t + t % 4) total[1] = 1;
}

__global__ void leaves_early(int *x) {
    if (blockIdx.x == 1) return;
    cg::this_grid().sync();   // found by early
    x[0] = 1;
}

__global__ void races(int *x) {
    x[blockIdx.x] = 1;   // found by races
    if (x[(blockIdx.x + 1) % gridDim.x]) x[gridDim.x + blockIdx.x] = 1;
    cg::this_grid().sync();
}

__global__ void plain(int *valid) {
    *valid = cg::this_grid().is_valid();
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    int n = 10000, blocks = 0, rounds = 3, supported = 0;
    float *x, *partial, *total, results[2];
    int *numbers;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&partial, 64 * sizeof(float));
    cudaMalloc(&total, 2 * sizeof(float));
    cudaMalloc(&numbers, 32 * sizeof(int));
    cudaMemset(total, 0, 2 * sizeof(float));
    cudaMemset(numbers, 0, 32 * sizeof(int));
    std::vector<float> ones(n, 1);
    cudaMemcpy(x, ones.data(), n * sizeof(float), cudaMemcpyHostToDevice);
    if (!strcmp(what, "early")) {
        void *of[] = {&numbers};
        cudaLaunchCooperativeKernel(leaves_early, 3, 64, of);
        printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
        return 0;
    }
    if (!strcmp(what, "races")) {
        void *of[] = {&numbers};
        cudaLaunchCooperativeKernel(races, 16, 1, of);
        cudaDeviceSynchronize();
        return 0;
    }
    cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, sum, 64, 256);
    void *of_sum[] = {&x, &partial, &total, &n, &rounds};
    cudaError_t launched = cudaLaunchCooperativeKernel((void *)sum, dim3(40), dim3(64), of_sum, 256);
    cudaMemcpy(results, total, sizeof results, cudaMemcpyDeviceToHost);
    printf("%d %d %s %g %g\n", supported, blocks, cudaGetErrorName(launched), results[0], results[1]);
    printf("%s\n", cudaGetErrorName(cudaLaunchCooperativeKernel(sum, 100000, 64, of_sum, 256)));
    int valid = 7;
    plain<<<1, 1>>>(numbers);
    cudaMemcpy(&valid, numbers, sizeof valid, cudaMemcpyDeviceToHost);
    printf("%d\n", valid);
    cudaFree(x), cudaFree(partial), cudaFree(total), cudaFree(numbers);
}
