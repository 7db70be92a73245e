// What depends on the system that kernels are compiled for: threads of Linux. wasm/include has another one.
#pragma once
#include <features.h>

// A variable of each worker, read with one load from a fixed offset in the thread's own block. The loader reserves little
// memory there for libraries that are loaded later: enough for words, not for arrays.
#define HOSTCUDA_OF_WORKER __thread __attribute__((tls_model("initial-exec")))

// Each is found on its own, not relative to others: the runtime places them (runtime/shared.cpp).
#define __shared__ thread_local __attribute__((tls_model("global-dynamic")))

// For the runtime: the place in a kernel's code that has called this function, and whether a thread can wait in a function
// that check mode calls for an access.
#define HOSTCUDA_CALLER __builtin_return_address(0)
#define HOSTCUDA_WAITS_IN_HOOKS true

// How the C library declares the functions that the engine defines: minimum and maximum, clock; __assert_fail's line.
#define HOSTCUDA_NOEXCEPT noexcept
#ifdef __GLIBC__
#define HOSTCUDA_LINE unsigned
#endif
