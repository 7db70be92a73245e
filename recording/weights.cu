// How the weights reach the kernel of the step `rows` of rung 07, and what stops its warps: one change at a time, for
// data/experiments/weights-*.csv and the page 07_rows. A program of its own, for nvcc and Nsight Compute:
//
//     nvcc -arch=native -O3 -std=c++17 -o /tmp/weights recording/weights.cu
//     ncu --csv --page raw --print-units base --clock-control none --metrics METRICS /tmp/weights
//
// METRICS are the last columns of the file. There is one launch per layer and kernel, in the order of the file, with
// 1000 images; /tmp/weights 2 launches with 2 images. The program stops if an output differs from the first kernel's.
//
// Compare times of one number of images only: those per image fall with it. On an H100, lenet72 layer 2 as it is, with
// 100, 1000, 3000 and 10,000 images: 9.4, 8.0, 6.7 and 5.8 us per image. The multiprocessors' requests for constants to
// the next cache (gcc__cache_requests_type_constant.sum) fall alike, 70, 63, 53 and 46 thousand per image; those for
// instructions (gcc__cache_requests_type_instruction.sum) are 4,620 in each launch.

#include <cstdio>
#include <cstdlib>
#include <vector>

constexpr int K = 7;
enum How { AS_IT_IS, ONE_MAP_AT_A_TIME, LOAD_PER_LANE, GLOBAL_MEMORY };
const char *const NAMES[] = {"as it is", "one map at a time", "a load per lane", "global memory"};

__constant__ float mask[16384];

template <int ROWS, How HOW>
__global__ void conv(const float *__restrict__ x, const float *__restrict__ k, float *__restrict__ y,
                     int B, int C, int H, int W, int M, int size)
{
    const int Ho = H - K + 1, Wo = W - K + 1;
    const int tiles = (Wo + blockDim.x - 1) / blockDim.x;
    const int first = (blockIdx.x / tiles * blockDim.y + threadIdx.y) * ROWS;
    const int w = blockIdx.x % tiles * blockDim.x + threadIdx.x;
    const int h = min(first, Ho - ROWS);
    const int m = HOW == ONE_MAP_AT_A_TIME ? blockIdx.z : blockIdx.y;      // blocks begin in the order of x, y, z
    const int b = HOW == ONE_MAP_AT_A_TIME ? blockIdx.y : blockIdx.z;
    if (first >= Ho || w >= Wo) return;

    x += (size_t)b * C * H * W;
    y += ((size_t)b * M + m) * Ho * Wo;
    const int zero = HOW == LOAD_PER_LANE ? (size - K) * threadIdx.x : 0;       // size is K, but nvcc does not know

    float sum[ROWS] = {};
    for (int c = 0; c < C; ++c)
        #pragma unroll
        for (int q = 0; q < K; ++q) {
            float column[ROWS + K - 1];
            #pragma unroll
            for (int i = 0; i < ROWS + K - 1; ++i)
                column[i] = x[(c * H + h + i) * W + w + q];
            #pragma unroll
            for (int p = 0; p < K; ++p)
                #pragma unroll
                for (int r = 0; r < ROWS; ++r)
                    sum[r] += column[r + p]
                        * (HOW == GLOBAL_MEMORY ? k : mask)[((m * C + c) * K + p) * K + q + zero];
        }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (h + r >= first)
            y[(h + r) * Wo + w] = sum[r];
}

struct Layer { const char *name; int C, H, M; };

float *x, *k, *y;
int images = 1000;
std::vector<float> expected;

template <int ROWS, How HOW>
void launch(const Layer &layer)
{
    const int out = layer.H - K + 1, below = (out + ROWS - 1) / ROWS;
    const int high = (below + (below + 15) / 16 - 1) / ((below + 15) / 16);     // of a block
    const int tiles = (out + 15) / 16 * ((below + high - 1) / high);
    const bool turned = HOW == ONE_MAP_AT_A_TIME;
    const dim3 grid(tiles, turned ? images : layer.M, turned ? layer.M : images), block(16, high);
    std::vector<float> got((size_t)images * layer.M * out * out);
    cudaMemset(y, 255, sizeof(float) * got.size());
    conv<ROWS, HOW><<<grid, block>>>(x, k, y, images, layer.C, layer.H, layer.H, layer.M, K);
    cudaMemcpy(got.data(), y, sizeof(float) * got.size(), cudaMemcpyDeviceToHost);
    if (HOW == AS_IT_IS) expected = got;
    const cudaError_t error = cudaGetLastError();
    if (error || got != expected) {
        printf("%s, %s: %s\n", layer.name, NAMES[HOW], error ? cudaGetErrorString(error) : "a wrong output");
        exit(1);
    }
    printf("%s, %s: right\n", layer.name, NAMES[HOW]);
}

template <int ROWS>
void launch_all(const Layer &layer)
{
    launch<ROWS, AS_IT_IS>(layer);
    launch<ROWS, ONE_MAP_AT_A_TIME>(layer);
    launch<ROWS, LOAD_PER_LANE>(layer);
    launch<ROWS, GLOBAL_MEMORY>(layer);
}

int main(int count, char **arguments)
{
    if (count > 1) images = atoi(arguments[1]);
    std::vector<float> numbers((size_t)(images + 1) * 12 * 33 * 33);            // the largest input, and the mask
    for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = (float)((i * 7919 + 13) % 1009) / 1009 - 0.5f;
    cudaMalloc(&x, 4 * numbers.size());
    cudaMalloc(&k, sizeof mask);
    cudaMalloc(&y, (size_t)4 * images * 12 * 66 * 66);                          // the largest output
    cudaMemcpy(x, numbers.data(), 4 * numbers.size(), cudaMemcpyHostToDevice);
    cudaMemcpy(k, numbers.data(), sizeof mask, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(mask, numbers.data(), sizeof mask);
    launch_all<10>({"lenet86 layer 1", 1, 86, 4});
    launch_all<4>({"lenet86 layer 2", 4, 40, 16});
    launch_all<11>({"lenet72 layer 1", 1, 72, 12});
    launch_all<4>({"lenet72 layer 2", 12, 33, 24});
}
