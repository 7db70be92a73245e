// cuBLASLt: its handle alone. What else a program names is refused by its name.
#pragma once
#include "cublas_v2.h"
#ifdef HOSTCUDA_HOST_CODE
typedef struct cublasLtContext *cublasLtHandle_t;
inline cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle) { return cublasCreate((cublasHandle_t *)handle); }
inline cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return cublasDestroy((cublasHandle_t)handle); }
#endif
