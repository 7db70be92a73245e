// copy: SIZE floats, four per thread in one load and one store.

#include "program.cuh"

__global__ void copy_float4(const float4 *x, float4 *y)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 26, 1024);
    const std::vector<float> values = small_integers(arguments.size);
    float *x = on_device(values), *y = poisoned(arguments.size);
    const float ms = median_ms(arguments.repeats, [=] {
        copy_float4<<<arguments.size / 1024, 256>>>((const float4 *)x, (float4 *)y);
    });
    require(on_host(y, arguments.size) == values, "copy: the copy differs");
    printf("copy,%d,copy_float4,%.6g\n", arguments.size, ms);
}
