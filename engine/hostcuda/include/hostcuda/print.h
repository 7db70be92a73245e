// printf, assert and __trap in kernels.
//
// printf writes to the runtime's buffer, which the host reads when it synchronizes, as in CUDA. The lanes of a warp print statement
// by statement: each has a number, in the order of the source. assert and __trap end the
// launch, not the process. The C headers are included first, because the macros would break their declarations.
#pragma once
#include <assert.h>
#include <stdio.h>
#include "sync.h"

namespace hostcuda {
HOSTCUDA_API int print(int statement, const char *format, ...) __attribute__((format(printf, 2, 3)));
}

#define printf(...) hostcuda::print(__COUNTER__ + 1, __VA_ARGS__)
#define __trap() hostcuda::fail("__trap() at %s:%d", __FILE__, __LINE__)
#define __brkpt() hostcuda::fail("__brkpt() at %s:%d", __FILE__, __LINE__)

#ifdef HOSTCUDA_LINE
// Called by the C library's assert; replaces the library's function.
extern "C" __attribute__((visibility("hidden")))
inline void __assert_fail(const char *what, const char *file, HOSTCUDA_LINE line, const char *) HOSTCUDA_NOEXCEPT {
    hostcuda::fail("assertion `%s' failed at %s:%u", what, file, (unsigned)line);
}
#endif
