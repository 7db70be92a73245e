// matvec: a matrix of SIZE x SIZE floats times a vector; a warp per row.

#include "program.cuh"

__global__ void matvec(const float *a, const float *x, float *y, int n)
{
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    float sum = 0;
    for (int column = lane; column < n; column += 32)
        sum += a[(size_t)row * n + column] * x[column];
    for (int apart = 16; apart > 0; apart /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, apart);
    if (lane == 0) y[row] = sum;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 8192, 32);
    const int n = arguments.size;
    const std::vector<float> matrix = small_integers((size_t)n * n), vector = small_integers(n);
    float *a = on_device(matrix), *x = on_device(vector), *y = poisoned(n);
    const float ms = median_ms(arguments.repeats, [=] { matvec<<<n / 8, 256>>>(a, x, y, n); });
    const std::vector<float> result = on_host(y, n);
    for (int row = 0; row < n; ++row) {
        float sum = 0;                                      // of integers below 2^24: exact
        for (int column = 0; column < n; ++column)
            sum += matrix[(size_t)row * n + column] * vector[column];
        require(result[row] == sum, "matvec: an element is wrong");
    }
    printf("matvec,%d,matvec,%.6g\n", n, ms);
}
