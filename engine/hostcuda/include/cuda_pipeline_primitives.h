// Copies of a thread in the background. See hostcuda/async.h for when they are made.
#pragma once
#include "hostcuda.h"
#include "hostcuda/async.h"

// 4, 8 or 16 bytes, of which the last `zeros` become zero.
inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0, HOSTCUDA_HERE) {
    if (zeros > bytes || !hostcuda::copy_async(to, from, bytes, bytes - zeros))
        hostcuda::fail("__pipeline_memcpy_async at %s:%d copies 4, 8 or 16 bytes, not %zu (of which %zu are zero)", file, line,
                     bytes, zeros);
}
inline void __pipeline_commit() { hostcuda_copies_committed(); }
inline void __pipeline_wait_prior(size_t prior) { hostcuda_copies_awaited(prior); }
