// What the preprocessor leaves as it is (hostcuda/frontend/preprocess.py): the rewriter looks for these words, and the compiler
// then reads them as words.h, print.h and math.h define them. They are macros that stand for themselves, because programs
// ask with #ifdef whether there are such macros.
#pragma once
#define __global__ __global__
#define __device__ __device__
#define __host__ __host__
#define __shared__ __shared__
#define __constant__ __constant__
#define __managed__ __managed__
#define __grid_constant__ __grid_constant__
#define __launch_bounds__ __launch_bounds__
#define __maxnreg__ __maxnreg__
#define __cluster_dims__ __cluster_dims__
#define __forceinline__ __forceinline__
#define __noinline__ __noinline__
#define __align__ __align__
#define __builtin_align__ __builtin_align__
#define __builtin_assume __builtin_assume
#define __assume __assume
#define __trap __trap
#define __brkpt __brkpt
#define printf printf
