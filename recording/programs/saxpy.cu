// saxpy: y = a x + y on SIZE floats, in a loop over the grid.

#include "program.cuh"

__global__ void saxpy(float a, const float *x, float *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = a * x[i] + y[i];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 1 << 26, 256);
    const int n = arguments.size;
    const std::vector<float> values = small_integers(n);
    float *x = on_device(values), *y = on_device(values);
    const float ms = median_ms(arguments.repeats, [=] { saxpy<<<1056, 256>>>(0.0f, x, y, n); });
    require(on_host(y, n) == values, "saxpy: an element is wrong");
    printf("saxpy,%d,saxpy,%.6g\n", n, ms);
}
