// gather: SIZE floats (a power of two), each from a place that an array of indices says; neighbours are far apart.

#include "program.cuh"

__global__ void gather(const float *x, const int *places, float *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[places[i]];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 24, 1024);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    std::vector<int> places(n);
    for (int i = 0; i < n; ++i)
        places[i] = i * 2654435761u % (unsigned)n;
    int *from;
    CUDA(cudaMalloc(&from, n * sizeof(int)));
    CUDA(cudaMemcpy(from, places.data(), n * sizeof(int), cudaMemcpyHostToDevice));
    float *x = on_device(values), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { gather<<<n / 256, 256>>>(x, from, y); });
    const std::vector<float> result = on_host(y, n);
    for (int i = 0; i < n; ++i)
        require(result[i] == values[places[i]], "gather: an element is wrong");
    printf("gather,%d,gather,%.6g\n", n, ms);
}
