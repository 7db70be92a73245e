// The product of matrices, C = A B with A of m x k and B of k x n, in its usual steps.
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <mma.h>
using namespace nvcuda;

#define TILE 16

template <int BM, int BN, int BK, int TM>
__device__ void blocktile_1d(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float As[BM * BK], Bs[BK * BN];
    int column = threadIdx.x % BN, row = threadIdx.x / BN, first_row = blockIdx.y * BM, first_column = blockIdx.x * BN;
    float sums[TM] = {0.0f};
    for (int t = 0; t < k; t += BK) {
        int a = threadIdx.x / BK, b = threadIdx.x % BK;
        As[threadIdx.x] = first_row + a < m && t + b < k ? A[(first_row + a) * k + t + b] : 0.0f;
        a = threadIdx.x / BN, b = threadIdx.x % BN;
        Bs[threadIdx.x] = t + a < k && first_column + b < n ? B[(t + a) * n + first_column + b] : 0.0f;
        __syncthreads();
        for (int dot = 0; dot < BK; dot++) {
            float b = Bs[dot * BN + column];
            for (int i = 0; i < TM; i++) sums[i] += As[(row * TM + i) * BK + dot] * b;
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        if (first_row + row * TM + i < m && first_column + column < n)
            C[(first_row + row * TM + i) * n + first_column + column] = sums[i];
}

template <int BM, int BN, int BK, int TM, int TN>
__device__ void blocktile_2d(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float As[BM][BK], Bs[BK][BN];
    constexpr int threads = BM * BN / (TM * TN);
    int column = threadIdx.x % (BN / TN), row = threadIdx.x / (BN / TN), y = blockIdx.y * BM, x = blockIdx.x * BN;
    float sums[TM][TN] = {}, a[TM], b[TN];
    for (int t = 0; t < k; t += BK) {
        for (int i = threadIdx.x; i < BM * BK; i += threads)
            As[i / BK][i % BK] = y + i / BK < m && t + i % BK < k ? A[(y + i / BK) * k + t + i % BK] : 0.0f;
        for (int i = threadIdx.x; i < BK * BN; i += threads)
            Bs[i / BN][i % BN] = t + i / BN < k && x + i % BN < n ? B[(t + i / BN) * n + x + i % BN] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int dot = 0; dot < BK; dot++) {
            for (int i = 0; i < TM; i++) a[i] = As[row * TM + i][dot];
            for (int j = 0; j < TN; j++) b[j] = Bs[dot][column * TN + j];
            for (int i = 0; i < TM; i++)
                for (int j = 0; j < TN; j++) sums[i][j] += a[i] * b[j];
        }
        __syncthreads();
    }
    for (int i = 0; i < TM; i++)
        for (int j = 0; j < TN; j++)
            if (y + row * TM + i < m && x + column * TN + j < n) C[(y + row * TM + i) * n + x + column * TN + j] = sums[i][j];
}

extern "C" {

__global__ void matmul_naive(const float *A, const float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.x * blockDim.x + threadIdx.x, column = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += A[row * k + i] * B[i * n + column];
    C[row * n + column] = sum;
}

__global__ void matmul_coalesced(const float *A, const float *B, float *C, int m, int n, int k)
{
    int row = blockIdx.y * 16 + threadIdx.x / 16, column = blockIdx.x * 16 + threadIdx.x % 16;
    if (row >= m || column >= n) return;
    float sum = 0.0f;
    for (int i = 0; i < k; i++) sum += A[row * k + i] * B[i * n + column];
    C[row * n + column] = sum;
}

__global__ void matmul_tiled(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, column = blockIdx.x * TILE + threadIdx.x;
    float sum = 0.0f;
    for (int t = 0; t < (k + TILE - 1) / TILE; t++) {
        As[threadIdx.y][threadIdx.x] = row < m && t * TILE + threadIdx.x < k ? A[row * k + t * TILE + threadIdx.x] : 0.0f;
        Bs[threadIdx.y][threadIdx.x] = t * TILE + threadIdx.y < k && column < n ? B[(t * TILE + threadIdx.y) * n + column] : 0.0f;
        __syncthreads();
        for (int i = 0; i < TILE; i++) sum += As[threadIdx.y][i] * Bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) C[row * n + column] = sum;
}

__global__ void matmul_registers_1d(const float *A, const float *B, float *C, int m, int n, int k)
{
    blocktile_1d<32, 32, 8, 4>(A, B, C, m, n, k);
}

__global__ void __launch_bounds__(64) matmul_registers_2d(const float *A, const float *B, float *C, int m, int n, int k)
{
    blocktile_2d<32, 32, 8, 4, 4>(A, B, C, m, n, k);
}

// The next tiles are on their way while these are multiplied. m, n, k are multiples of 16.
__global__ void matmul_cp_async(const float *A, const float *B, float *C, int m, int n, int k)
{
    __shared__ __align__(16) float As[2][16][16], Bs[2][16][16];
    int tx = threadIdx.x % 16, ty = threadIdx.x / 16, row = blockIdx.y * 16 + ty, column = blockIdx.x * 16 + tx;
    auto load = [&](int stage, int t) {
        if (threadIdx.x < 64) {
            int y = threadIdx.x / 4, x = threadIdx.x % 4 * 4;
            __pipeline_memcpy_async(&As[stage][y][x], A + (blockIdx.y * 16 + y) * k + t + x, 16);
            __pipeline_memcpy_async(&Bs[stage][y][x], B + (t + y) * n + blockIdx.x * 16 + x, 16);
        }
        __pipeline_commit();
    };
    float sum = 0.0f;
    load(0, 0);
    for (int t = 0; t < k; t += 16) {
        int stage = t / 16 % 2;
        if (t + 16 < k) {
            load(1 - stage, t + 16);
            __pipeline_wait_prior(1);
        } else {
            __pipeline_wait_prior(0);
        }
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += As[stage][ty][i] * Bs[stage][i][tx];
        __syncthreads();
    }
    C[row * n + column] = sum;
}

__global__ void matmul_wmma(const half *A, const half *B, float *C, int m, int n, int k)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> b;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    int row = blockIdx.y * 16, column = blockIdx.x * 16;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::load_matrix_sync(a, A + row * k + i, k);
        wmma::load_matrix_sync(b, B + i * n + column, n);
        wmma::mma_sync(c, a, b, c);
    }
    wmma::store_matrix_sync(C + row * n + column, c, n, wmma::mem_row_major);
}

// ldmatrix and mma.sync: a warp computes 16 x 8.
__global__ void matmul_mma(const half *A, const half *B, float *C, int m, int n, int k)
{
    __shared__ __align__(16) half As[16][16], Bs[16][8];
    int row = blockIdx.y * 16, column = blockIdx.x * 8, lane = threadIdx.x;
    float c[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    unsigned a[4], b[2];
    for (int t = 0; t < k; t += 16) {
        *(int4 *)&As[lane / 2][lane % 2 * 8] = *(const int4 *)&A[(row + lane / 2) * k + t + lane % 2 * 8];
        if (lane < 16) *(int4 *)&Bs[lane][0] = *(const int4 *)&B[(t + lane) * n + column];
        __syncwarp();
        unsigned at = (unsigned)__cvta_generic_to_shared(&As[lane % 16][lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
                     : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
        at = (unsigned)__cvta_generic_to_shared(&Bs[lane % 16][0]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];\n" : "=r"(b[0]), "=r"(b[1]) : "r"(at));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
                     : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
        __syncwarp();
    }
    for (int i = 0; i < 4; i++) C[(row + lane / 4 + i / 2 * 8) * n + column + lane % 4 * 2 + i % 2] = c[i];
}

__global__ void gemv(const float *A, const float *x, float *y, int m, int k)
{
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= m) return;
    float sum = 0.0f;
    for (int i = lane; i < k; i += 32) sum += A[row * k + i] * x[i];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(0xffffffff, sum, offset);
    if (lane == 0) y[row] = sum;
}

__global__ void outer_product(const double *x, const double *y, double *A, int m, int n)
{
    for (int i = blockIdx.x; i < m; i += gridDim.x)
        for (int j = threadIdx.x; j < n; j += blockDim.x) A[i * n + j] += x[i] * y[j];
}

}
