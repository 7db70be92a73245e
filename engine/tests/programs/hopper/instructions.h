// The asynchronous instructions that the programs beside this file use: a function per instruction, named after it. And
// what the programs share on the host: arrays of the device, and the comparison with the expected result.
#pragma once
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

#ifndef BUG
#define BUG 0    // no mistake
#endif

// What is in shared memory is given to instructions by its address there.
__device__ inline unsigned address(const void *shared) { return (unsigned)__cvta_generic_to_shared(shared); }

__device__ inline void mbarrier_init(uint64_t *barrier, unsigned arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" :: "r"(address(barrier)), "r"(arrivals) : "memory");
}

__device__ inline void mbarrier_arrive(uint64_t *barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(address(barrier)) : "memory");
}

__device__ inline void mbarrier_arrive_expect_tx(uint64_t *barrier, unsigned bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(address(barrier)), "r"(bytes) : "memory");
}

__device__ inline bool mbarrier_try_wait_parity(uint64_t *barrier, unsigned parity)
{
    unsigned ended;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(ended) : "r"(address(barrier)), "r"(parity) : "memory");
    return ended;
}

__device__ inline void wait_for(uint64_t *barrier, unsigned parity)
{
    while (!mbarrier_try_wait_parity(barrier, parity));
}

__device__ inline void cp_async_bulk_in(void *shared, const void *global, unsigned bytes, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(address(shared)), "l"(global), "r"(bytes), "r"(address(barrier)) : "memory");
}

__device__ inline void cp_async_bulk_out(void *global, const void *shared, unsigned bytes)
{
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                 :: "l"(global), "r"(address(shared)), "r"(bytes) : "memory");
}

__device__ inline void cp_async_bulk_commit_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int groups> __device__ inline void cp_async_bulk_wait_group()
{
    asm volatile("cp.async.bulk.wait_group %0;" :: "n"(groups) : "memory");
}

template <int groups> __device__ inline void cp_async_bulk_wait_group_read()
{
    asm volatile("cp.async.bulk.wait_group.read %0;" :: "n"(groups) : "memory");
}

__device__ inline void cp_async_bulk_tensor_2d(void *shared, const void *map, int column, int row, uint64_t *barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 :: "r"(address(shared)), "l"(map), "r"(column), "r"(row), "r"(address(barrier)) : "memory");
}

__device__ inline void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

__device__ inline void bar_sync(int barrier, int threads)
{
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}

__device__ inline void bar_arrive(int barrier, int threads)
{
    asm volatile("bar.arrive %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}

__device__ inline void stmatrix_x4(void *row, const unsigned (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

__device__ inline void stmatrix_x4_trans(void *row, const unsigned (&r)[4])
{
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]), "r"(r[3]) : "memory");
}

__device__ inline void ldmatrix_x4(unsigned (&r)[4], const void *row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(address(row)) : "memory");
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_wait_group() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

// sums += a b of 64 rows, 16 columns and 16 terms, both by descriptors, both with their terms side by side
__device__ inline void wgmma_m64n16k16(float (&sums)[8], uint64_t a, uint64_t b)
{
    asm volatile("{.reg .pred p; setp.eq.u32 p, 1, 1; wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1, 0, 0;}"
                 : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3]),
                   "+f"(sums[4]), "+f"(sums[5]), "+f"(sums[6]), "+f"(sums[7])
                 : "l"(a), "l"(b));
}

// A copy of an array on the device
template <class T> T *put(const std::vector<T> &values)
{
    T *on_device;
    cudaMalloc(&on_device, values.size() * sizeof(T));
    cudaMemcpy(on_device, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
    return on_device;
}

// Compare what is on the device with what is expected, print the verdict, and return the exit status.
template <class T> int compare(const T *on_device, const std::vector<T> &expected)
{
    std::vector<T> got(expected.size());
    cudaError_t error = cudaMemcpy(got.data(), on_device, got.size() * sizeof(T), cudaMemcpyDeviceToHost);
    if (error != cudaSuccess)
        printf("%s\n", cudaGetErrorString(error));
    size_t bad = 0;
    long long checksum = 0;
    for (size_t i = 0; i < got.size(); i++) {
        bad += error != cudaSuccess || got[i] != expected[i];
        checksum += (long long)got[i] * (i % 13 + 1);
    }
    printf("%s bad=%zu checksum=%lld\n", bad ? "FAIL" : "PASS", bad, checksum);
    return bad > 0;
}
