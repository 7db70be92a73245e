// Copies of a thread in the background. See hostcuda/async.h for when they are made.
#pragma once
#include "hostcuda.h"
#include "hostcuda/async.h"

// 4, 8 or 16 bytes, of which the last `zeros` become zero.
inline void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0, HOSTCUDA_HERE) {
    if ((bytes != 4 && bytes != 8 && bytes != 16) || zeros > bytes)
        hostcuda::fail("__pipeline_memcpy_async at %s:%d copies 4, 8 or 16 bytes, not %zu (of which %zu are zero)", file, line,
                     bytes, zeros);
    if (bytes == 16) hostcuda::copy_word<uint4>(to, from, bytes - zeros);
    else if (bytes == 8) hostcuda::copy_word<uint2>(to, from, bytes - zeros);
    else hostcuda::copy_word<unsigned>(to, from, bytes - zeros);
}
inline void __pipeline_commit() {}
inline void __pipeline_wait_prior(size_t) {}
