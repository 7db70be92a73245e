// cuBLAS: products of matrices, as plain loops of the host's. Whatever else a program calls is refused by its name.
//
// These headers come after the folders of -I, so that a program may bring its own.
#pragma once
#ifdef HOSTCUDA_HOST_CODE   // else the host's code is in Python
#include <vector>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

enum cublasStatus_t {
    CUBLAS_STATUS_SUCCESS = 0, CUBLAS_STATUS_NOT_INITIALIZED = 1, CUBLAS_STATUS_ALLOC_FAILED = 3, CUBLAS_STATUS_INVALID_VALUE = 7,
    CUBLAS_STATUS_ARCH_MISMATCH = 8, CUBLAS_STATUS_MAPPING_ERROR = 11, CUBLAS_STATUS_EXECUTION_FAILED = 13,
    CUBLAS_STATUS_INTERNAL_ERROR = 14, CUBLAS_STATUS_NOT_SUPPORTED = 15, CUBLAS_STATUS_LICENSE_ERROR = 16
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C };
enum cublasMath_t {
    CUBLAS_DEFAULT_MATH, CUBLAS_TENSOR_OP_MATH, CUBLAS_PEDANTIC_MATH, CUBLAS_TF32_TENSOR_OP_MATH,
    CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION = 16
};
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1, CUBLAS_GEMM_DFALT = -1, CUBLAS_GEMM_DEFAULT_TENSOR_OP = 99, CUBLAS_GEMM_DFALT_TENSOR_OP = 99 };
enum cublasComputeType_t {
    CUBLAS_COMPUTE_16F = 64, CUBLAS_COMPUTE_16F_PEDANTIC = 65, CUBLAS_COMPUTE_32F = 68, CUBLAS_COMPUTE_32F_PEDANTIC = 69,
    CUBLAS_COMPUTE_64F = 70, CUBLAS_COMPUTE_64F_PEDANTIC = 71, CUBLAS_COMPUTE_32F_FAST_16F = 74, CUBLAS_COMPUTE_32F_FAST_16BF = 75,
    CUBLAS_COMPUTE_32F_FAST_TF32 = 77
};
enum cudaDataType { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
typedef cudaDataType cudaDataType_t;
typedef struct cublasContext { cudaStream_t stream; cublasMath_t mode; } *cublasHandle_t;

inline const char *cublasGetStatusName(cublasStatus_t status) {
    switch (status) {
#define HOSTCUDA_STATUS(name) case name: return #name;
        HOSTCUDA_STATUS(CUBLAS_STATUS_SUCCESS) HOSTCUDA_STATUS(CUBLAS_STATUS_NOT_INITIALIZED) HOSTCUDA_STATUS(CUBLAS_STATUS_ALLOC_FAILED)
        HOSTCUDA_STATUS(CUBLAS_STATUS_INVALID_VALUE) HOSTCUDA_STATUS(CUBLAS_STATUS_ARCH_MISMATCH) HOSTCUDA_STATUS(CUBLAS_STATUS_MAPPING_ERROR)
        HOSTCUDA_STATUS(CUBLAS_STATUS_EXECUTION_FAILED) HOSTCUDA_STATUS(CUBLAS_STATUS_INTERNAL_ERROR)
        HOSTCUDA_STATUS(CUBLAS_STATUS_NOT_SUPPORTED) HOSTCUDA_STATUS(CUBLAS_STATUS_LICENSE_ERROR)
#undef HOSTCUDA_STATUS
    }
    return "unknown";
}
inline const char *cublasGetStatusString(cublasStatus_t status) { return cublasGetStatusName(status); }

inline cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    *handle = new cublasContext{};
    return CUBLAS_STATUS_SUCCESS;
}
#define cublasCreate_v2 cublasCreate
inline cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}
#define cublasDestroy_v2 cublasDestroy
inline cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
    *mode = handle->mode;
    return CUBLAS_STATUS_SUCCESS;
}
inline cublasStatus_t cublasSetWorkspace(cublasHandle_t, void *, size_t) { return CUBLAS_STATUS_SUCCESS; }

namespace hostcuda {

// A matrix in memory of the device, column by column; its numbers are computed with as T.
template <class T> struct Matrix {
    void *at;
    cudaDataType type;
    size_t rows, columns, leading;

    template <class Use> cudaError_t with_type(Use use) {
        return type == CUDA_R_64F ? use((double *)at) : type == CUDA_R_16F ? use((__half *)at)
             : type == CUDA_R_16BF ? use((__nv_bfloat16 *)at) : use((float *)at);
    }
    template <class N> cudaError_t copy(N *device, std::vector<N> &host, bool in, cudaStream_t stream) {
        const size_t packed = rows * sizeof(N), pitch = leading * sizeof(N);
        const char *const name = "cudaMemcpy2DAsync", *const shown = "cudaMemcpy2DAsync of a cuBLAS product";
        cudaError_t error = in ? host_as(shown, name, host.data(), packed, device, pitch, packed, columns, cudaMemcpyDeviceToHost, stream)
                               : host_as(shown, name, device, pitch, host.data(), packed, packed, columns, cudaMemcpyHostToDevice, stream);
        return error ? error : cudaStreamSynchronize(stream);
    }
    // Refuse one that its leading dimension makes larger than its memory.
    cudaError_t refuse(char letter) {
        const size_t size = type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
        return rows && columns ? host("cublas_matrix", at, letter, rows, columns, leading, size) : cudaSuccess;
    }
    cudaError_t read(std::vector<T> &values, cudaStream_t stream) {
        return with_type([&](auto *device) {
            std::vector<std::remove_pointer_t<decltype(device)>> host(rows * columns);
            cudaError_t error = copy(device, host, true, stream);
            for (size_t i = 0; i < host.size(); i++) values[i] = (T)host[i];
            return error;
        });
    }
    cudaError_t write(const std::vector<T> &values, cudaStream_t stream) {
        return with_type([&](auto *device) {
            using Number = std::remove_pointer_t<decltype(device)>;
            std::vector<Number> host(rows * columns);
            for (size_t i = 0; i < host.size(); i++) host[i] = (Number)values[i];
            return copy(device, host, false, stream);
        });
    }
};

// c = alpha a b + beta c, in floating-point numbers of type T.
template <class T>
cublasStatus_t multiply(cublasHandle_t handle, cublasOperation_t turn_a, cublasOperation_t turn_b, long m, long n, long k, T alpha,
                        const void *a, cudaDataType of_a, long lda, const void *b, cudaDataType of_b, long ldb, T beta, void *c,
                        cudaDataType of_c, long ldc) {
    const bool ta = turn_a != CUBLAS_OP_N, tb = turn_b != CUBLAS_OP_N;
    if (!handle) return CUBLAS_STATUS_NOT_INITIALIZED;
    if (m < 0 || n < 0 || k < 0 || lda < (ta ? k : m) || ldb < (tb ? n : k) || ldc < m) return CUBLAS_STATUS_INVALID_VALUE;
    Matrix<T> first{(void *)a, of_a, size_t(ta ? k : m), size_t(ta ? m : k), (size_t)lda};
    Matrix<T> second{(void *)b, of_b, size_t(tb ? n : k), size_t(tb ? k : n), (size_t)ldb};
    Matrix<T> result{c, of_c, (size_t)m, (size_t)n, (size_t)ldc};
    if (first.refuse('A') || second.refuse('B') || result.refuse('C')) return CUBLAS_STATUS_EXECUTION_FAILED;
    std::vector<T> x(m * k), y(k * n), z(m * n), column(m);
    if (first.read(x, handle->stream) || second.read(y, handle->stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (beta != 0 && result.read(z, handle->stream)) return CUBLAS_STATUS_EXECUTION_FAILED;
    if (ta) {                                  // so that the inner loop below reads along a column
        std::vector<T> turned(m * k);
        for (long i = 0; i < m; i++)
            for (long l = 0; l < k; l++) turned[l * m + i] = x[i * k + l];
        x.swap(turned);
    }
    for (long j = 0; j < n; j++) {
        column.assign(m, 0);
        for (long l = 0; l < k; l++) {
            const T factor = tb ? y[l * n + j] : y[j * k + l], *from = &x[l * m];
            for (long i = 0; i < m; i++) column[i] += from[i] * factor;
        }
        for (long i = 0; i < m; i++) z[j * m + i] = alpha * column[i] + (beta != 0 ? beta * z[j * m + i] : 0);
    }
    return result.write(z, handle->stream) ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

}  // namespace hostcuda

inline cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const void *alpha, const void *a,
    cudaDataType of_a, int lda, long long stride_a, const void *b, cudaDataType of_b, int ldb, long long stride_b, const void *beta,
    void *c, cudaDataType of_c, int ldc, long long stride_c, int count, cublasComputeType_t compute, cublasGemmAlgo_t) {
    auto bytes = [](cudaDataType type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; };
    auto scalar = [=](const void *of) {
        return compute <= CUBLAS_COMPUTE_16F_PEDANTIC ? (double)(float)*(const __half *)of
             : compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC ? *(const double *)of : *(const float *)of;
    };
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i < count && !status; i++) {
        auto all = [&](auto number) {
            using T = decltype(number);
            return hostcuda::multiply<T>(handle, ta, tb, m, n, k, (T)scalar(alpha), (const char *)a + i * stride_a * bytes(of_a), of_a,
                                         lda, (const char *)b + i * stride_b * bytes(of_b), of_b, ldb, (T)scalar(beta),
                                         (char *)c + i * stride_c * bytes(of_c), of_c, ldc);
        };
        status = compute == CUBLAS_COMPUTE_64F || compute == CUBLAS_COMPUTE_64F_PEDANTIC ? all(0.0) : all(0.0f);
    }
    return status;
}
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                   const void *alpha, const void *a, cudaDataType of_a, int lda, const void *b, cudaDataType of_b,
                                   int ldb, const void *beta, void *c, cudaDataType of_c, int ldc, cublasComputeType_t compute,
                                   cublasGemmAlgo_t algorithm) {
    return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, of_a, lda, 0, b, of_b, ldb, 0, beta, c, of_c, ldc, 0, 1,
                                      compute, algorithm);
}
// Before cuBLAS 11 the type to compute with was one of cudaDataType.
inline cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k,
                                   const void *alpha, const void *a, cudaDataType of_a, int lda, const void *b, cudaDataType of_b,
                                   int ldb, const void *beta, void *c, cudaDataType of_c, int ldc, cudaDataType compute,
                                   cublasGemmAlgo_t algorithm) {
    return cublasGemmEx(handle, ta, tb, m, n, k, alpha, a, of_a, lda, b, of_b, ldb, beta, c, of_c, ldc,
                        compute == CUDA_R_64F ? CUBLAS_COMPUTE_64F : compute == CUDA_R_16F ? CUBLAS_COMPUTE_16F : CUBLAS_COMPUTE_32F,
                        algorithm);
}
#define HOSTCUDA_GEMM(letter, T, type, compute)                                                                                    \
    inline cublasStatus_t cublas##letter##gemmStridedBatched(                                                                      \
        cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n, int k, const T *alpha, const T *a, int lda, \
        long long stride_a, const T *b, int ldb, long long stride_b, const T *beta, T *c, int ldc, long long stride_c, int count) { \
        return cublasGemmStridedBatchedEx(handle, ta, tb, m, n, k, alpha, a, type, lda, stride_a, b, type, ldb, stride_b, beta, c,  \
                                          type, ldc, stride_c, count, compute, CUBLAS_GEMM_DEFAULT);                               \
    }                                                                                                                              \
    inline cublasStatus_t cublas##letter##gemm(cublasHandle_t handle, cublasOperation_t ta, cublasOperation_t tb, int m, int n,     \
                                               int k, const T *alpha, const T *a, int lda, const T *b, int ldb, const T *beta,     \
                                               T *c, int ldc) {                                                                    \
        return cublas##letter##gemmStridedBatched(handle, ta, tb, m, n, k, alpha, a, lda, 0, b, ldb, 0, beta, c, ldc, 0, 1);        \
    }
HOSTCUDA_GEMM(S, float, CUDA_R_32F, CUBLAS_COMPUTE_32F)
HOSTCUDA_GEMM(D, double, CUDA_R_64F, CUBLAS_COMPUTE_64F)
HOSTCUDA_GEMM(H, __half, CUDA_R_16F, CUBLAS_COMPUTE_16F)
#undef HOSTCUDA_GEMM
#endif
