// printf, assert and __trap in kernels.
//
// printf goes to the runtime's buffer, from which the host takes it when it synchronizes, as with CUDA's.
// assert and __trap end the launch, not the process. The C headers come first, because the macros would break
// their declarations.
#pragma once
#include <assert.h>
#include <stdio.h>
#include "sync.h"

namespace labkit {
LABKIT_API int print(const char *format, ...) __attribute__((format(printf, 1, 2)));
}

#define printf(...) labkit::print(__VA_ARGS__)
#define __trap() labkit::fail("__trap() at %s:%d", __FILE__, __LINE__)

#ifdef __GLIBC__
// What the C library's assert calls: taken here, in front of the library's own.
extern "C" __attribute__((visibility("hidden")))
inline void __assert_fail(const char *what, const char *file, unsigned line, const char *) noexcept {
    labkit::fail("assertion `%s' failed at %s:%u", what, file, line);
}
#endif
