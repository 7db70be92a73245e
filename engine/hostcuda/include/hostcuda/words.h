// CUDA's qualifiers and built-in variables as C++.
//
// The threads of a block run on one worker of the engine, one at a time. So a variable of the block is a variable of the
// worker: __shared__ is thread_local, and threadIdx etc. are thread-local variables of the runtime, which sets them before
// a thread runs. They are const here although the runtime changes them: they never change for a thread, so that the
// compiler can keep them in registers across barriers and stores.
#pragma once
#include <new>   // for placement new
#include <stddef.h>
#include "platform.h"
#include "vector_types.h"

#define HOSTCUDA_API __attribute__((visibility("default")))
// A variable of the runtime.
#define HOSTCUDA_WORD extern "C" HOSTCUDA_API HOSTCUDA_OF_WORKER

// A function that calls templates: as a template itself it makes the compiler instantiate them in the kernels that call
// it, and not in all.
#define HOSTCUDA_LAZY template <int = 0>

#define HOSTCUDA_CPU 1
#ifndef __CUDACC__
#define __CUDACC__ 1
#endif
#ifndef __NVCC__
#define __NVCC__ 1
#endif
#define __CUDACC_VER_MAJOR__ 12   // what the driver says, too
#define __CUDACC_VER_MINOR__ 0
#ifndef __CUDA_ARCH__
#define __CUDA_ARCH__ 900
#endif

#define __global__
#define __device__
#define __host__
#define __managed__
#define __grid_constant__
#define __launch_bounds__(...)
#define __maxnreg__(...)
#define __cluster_dims__(...)
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__   // of no effect here: as an attribute it would break libstdc++'s own __attribute__((__noinline__))
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __attribute__((aligned(n)))

// Each constant has its own section, because one section cannot have const and other variables; the runtime finds them by
// the prefix of the names. `used`: the host writes it, which the compiler does not know.
#define HOSTCUDA_TEXT_(x) #x
#define HOSTCUDA_TEXT(x) HOSTCUDA_TEXT_(x)
#define __constant__ __attribute__((used, section("hc_constant." HOSTCUDA_TEXT(__COUNTER__))))

struct dim3 {
    unsigned int x, y, z;
    constexpr dim3(unsigned int x = 1, unsigned int y = 1, unsigned int z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

HOSTCUDA_WORD const uint3 threadIdx;
HOSTCUDA_WORD const uint3 blockIdx;
HOSTCUDA_WORD const dim3 blockDim;
HOSTCUDA_WORD const dim3 gridDim;
constexpr int warpSize = 32;

HOSTCUDA_WORD void *const hostcuda_dynamic_shared;
HOSTCUDA_WORD char *const hostcuda_shared_end;    // of static shared memory, which is at lower addresses

namespace hostcuda {

// The block's dynamic shared memory: 256-byte aligned, with the size given at the launch.
inline void *dynamic_shared() { return hostcuda_dynamic_shared; }
[[deprecated("it begins where the extern __shared__ array before it begins: if the two are to be apart, declare one, "
             "and let a pointer into it be the other")]]
inline void *dynamic_shared(int) { return hostcuda_dynamic_shared; }

// Replaces `extern __shared__ T name[]` at namespace scope, where a pointer would not depend on the block.
template <class T> struct dynamic_shared_array {
    operator T *() const { return (T *)hostcuda_dynamic_shared; }
    template <class U> explicit operator U *() const { return (U *)hostcuda_dynamic_shared; }
    T (*operator&() const)[] { return (T (*)[])hostcuda_dynamic_shared; }
};

}  // namespace hostcuda
