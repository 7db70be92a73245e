// Copies of a thread in the background. See labkit/async.h for when they are made.
#pragma once
#include "labkit_cuda.h"
#include "labkit/async.h"

// 4, 8 or 16 bytes, of which the last `zeros` become zero.
inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0, LABKIT_HERE) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
        labkit::fail("__pipeline_memcpy_async at %s:%d copies 4, 8 or 16 bytes, not %zu (of which %zu are zero)", file, line,
                     bytes, zeros);
    if (bytes == 16) labkit::copy_word<uint4>(to, from, bytes - zeros);
    else if (bytes == 8) labkit::copy_word<uint2>(to, from, bytes - zeros);
    else labkit::copy_word<unsigned>(to, from, bytes - zeros);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
