// sgemm_tiled: c = a b for matrices of SIZE x SIZE floats. A block shares tiles of 16 x 16 in shared memory.

#include "program.cuh"

__global__ void sgemm_tiled(const float *a, const float *b, float *c, int n)
{
    __shared__ float a_tile[16][16], b_tile[16][16];
    const int x = threadIdx.x, y = threadIdx.y;
    const int column = blockIdx.x * 16 + x, row = blockIdx.y * 16 + y;
    float sum = 0;
    for (int step = 0; step < n; step += 16) {
        a_tile[y][x] = a[row * n + step + x];
        b_tile[y][x] = b[(step + y) * n + column];
        __syncthreads();
        for (int k = 0; k < 16; ++k)
            sum += a_tile[y][k] * b_tile[k][x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 2048, 16);
    const int n = arguments.size;
    const size_t count = (size_t)n * n;
    const std::vector<float> left = small_integers(count), right(left.rbegin(), left.rend());
    float *a = on_device(left), *b = on_device(right), *c = poisoned(count);
    const float ms = median_ms(arguments.repeats, [=] {
        sgemm_tiled<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n);
    });
    // Every 97th element is computed again. The sums are whole numbers below 2^24, so that float is exact.
    const std::vector<float> result = on_host(c, count);
    for (size_t i = 0; i < count; i += 97) {
        float sum = 0;
        for (int k = 0; k < n; ++k)
            sum += left[i / n * n + k] * right[(size_t)k * n + i % n];
        require(result[i] == sum, "sgemm_tiled: an element is wrong");
    }
    printf("sgemm_tiled,%d,sgemm_tiled,%.6g\n", n, ms);
}
