// sgemm_blocked: c = a b for matrices of SIZE x SIZE floats. A thread computes 4 x 4 elements, 16
// apart, from tiles of 64 x 16.

#include "program.cuh"

__global__ void sgemm_blocked(const float *a, const float *b, float *c, int n)
{
    __shared__ float a_tile[64][16], b_tile[16][64];
    const int x = threadIdx.x, y = threadIdx.y, row0 = blockIdx.y * 64, column0 = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int step = 0; step < n; step += 16) {
        for (int i = 0; i < 4; ++i) {
            a_tile[y + 16 * i][x] = a[(row0 + y + 16 * i) * n + step + x];
            b_tile[y][x + 16 * i] = b[(step + y) * n + column0 + x + 16 * i];
        }
        __syncthreads();
        #pragma unroll
        for (int k = 0; k < 16; ++k) {
            float left[4], right[4];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                left[i] = a_tile[y + 16 * i][k];
                right[i] = b_tile[k][x + 16 * i];
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                #pragma unroll
                for (int j = 0; j < 4; ++j)
                    sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
    #pragma unroll
    for (int i = 0; i < 4; ++i)
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            c[(row0 + y + 16 * i) * n + column0 + x + 16 * j] = sum[i][j];
}

int main(int argc, char **argv)
{
    const Arguments arguments(argc, argv, 2048, 64);
    const int n = arguments.size;
    const size_t count = (size_t)n * n;
    const std::vector<float> left = small_integers(count), right(left.rbegin(), left.rend());
    float *a = on_device(left), *b = on_device(right), *c = poisoned(count);
    const float ms = median_ms(arguments.repeats, [=] {
        sgemm_blocked<<<dim3(n / 64, n / 64), dim3(16, 16)>>>(a, b, c, n);
    });
    // Every 97th element is computed again. The sums are whole numbers below 2^24, so that float is exact.
    const std::vector<float> result = on_host(c, count);
    for (size_t i = 0; i < count; i += 97) {
        float sum = 0;
        for (int k = 0; k < n; ++k)
            sum += left[i / n * n + k] * right[(size_t)k * n + i % n];
        require(result[i] == sum, "sgemm_blocked: an element is wrong");
    }
    printf("sgemm_blocked,%d,sgemm_blocked,%.6g\n", n, ms);
}
