// cuBLAS multiplies matrices of integers, so that each product is exact.
#include <cublas_v2.h>
#include <cublasLt.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
template <class N, class Multiply> double worst(Multiply multiply)   // of integers: each product is exact
{
    const int m = 3, n = 5, k = 4, lda = 6, ldb = 7, ldc = 8;
    double most = 0;
    for (int turned = 0; turned < 4; turned++) {
        bool ta = turned & 1, tb = turned & 2;
        std::vector<N> a(lda * 4), b(ldb * 5), c(ldc * n), got(ldc * n);
        N *x, *y, *z;
        for (auto each : {&a, &b, &c}) for (N &value : *each) value = N(float(rand() % 9 - 4));
        cudaMalloc(&x, a.size() * sizeof(N));
        cudaMalloc(&y, b.size() * sizeof(N));
        cudaMalloc(&z, c.size() * sizeof(N));
        cudaMemcpy(x, a.data(), a.size() * sizeof(N), cudaMemcpyDefault);
        cudaMemcpy(y, b.data(), b.size() * sizeof(N), cudaMemcpyDefault);
        cudaMemcpy(z, c.data(), c.size() * sizeof(N), cudaMemcpyDefault);
        cublasHandle_t handle;
        cublasCreate(&handle);
        cublasOperation_t ways[] = {CUBLAS_OP_N, CUBLAS_OP_T};
        if (multiply(handle, ways[ta], ways[tb], m, n, k, x, lda, y, ldb, z, ldc)) return 1e9;
        cudaMemcpy(got.data(), z, c.size() * sizeof(N), cudaMemcpyDefault);
        for (int j = 0; j < n; j++)
            for (int i = 0; i < ldc; i++) {
                double want = float(c[j * ldc + i]);
                if (i < m) want *= 3;
                for (int l = 0; l < k * (i < m); l++) {
                    float of_a = ta ? a[i * lda + l] : a[l * lda + i];
                    want += 2 * of_a * float(tb ? b[l * ldb + j] : b[j * ldb + l]);
                }
                most = fmax(most, fabs(want - float(got[j * ldc + i])));
            }
        cublasDestroy(handle);
    }
    return most;
}
int main()
{
    cublasLtHandle_t light;
    cublasLtCreate(&light);
    auto single = [](auto handle, auto ta, auto tb, int m, int n, int k, auto x, int lda, auto y, int ldb, auto z,
                     int ldc) {
        float two = 2, three = 3;
        return cublasSgemm(handle, ta, tb, m, n, k, &two, x, lda, y, ldb, &three, z, ldc);
    };
    auto halves = [](auto handle, auto ta, auto tb, int m, int n, int k, auto x, int lda, auto y, int ldb, auto z,
                     int ldc) {
        float two = 2, three = 3;
        return cublasGemmEx(handle, ta, tb, m, n, k, &two, x, CUDA_R_16F, lda, y, CUDA_R_16F, ldb, &three, z,
                            CUDA_R_16F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
    };
    printf("%g %g\n", worst<float>(single), worst<__half>(halves));
    float one = 1, *small;
    cudaMalloc(&small, 4);
    cublasHandle_t handle;
    cublasCreate(&handle);
    printf("%d %d\n", cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 9, 9, 9, &one, small, 9, small, 9, &one, small, 9),
           cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 9, 9, 9, &one, small, 8, small, 9, &one, small, 9));
}
