// The header of cuBLAS with its earlier name.
#pragma once
#include "cublas_v2.h"
