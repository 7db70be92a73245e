// Bulk copies from shared to global memory, in the background: of compute capability 9.0. Where BULK_COPIES is false,
// a kernel has to copy itself, and these functions do nothing.
#pragma once

#if __CUDA_ARCH__ >= 900 && !defined HOSTCUDA_CPU
constexpr bool BULK_COPIES = true;
#define BULK_ASM(...) asm volatile(__VA_ARGS__)
#else
constexpr bool BULK_COPIES = false;
#define BULK_ASM(...)
#endif

// Make what this thread wrote to shared memory visible to bulk copies and to wgmma.
__device__ inline void publish() { BULK_ASM("fence.proxy.async.shared::cta;" ::: "memory"); }

// Start to copy shared memory to global memory. `bytes` and both addresses are multiples of 16.
template <int bytes> __device__ inline void copy_out(void *to, const void *from)
{
    BULK_ASM("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
             :: "l"(to), "r"((unsigned)__cvta_generic_to_shared(from)), "r"(bytes) : "memory");
}

// The copies that this thread has started since the last `commit_copies` are a batch; wait until what all but the
// last `batches` of them copy may be overwritten.
__device__ inline void commit_copies() { BULK_ASM("cp.async.bulk.commit_group;" ::: "memory"); }
template <int batches> __device__ inline void wait_for_copies()
{
    BULK_ASM("cp.async.bulk.wait_group.read %0;" :: "n"(batches) : "memory");
}
