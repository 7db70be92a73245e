// Products of a warpgroup, four warps: 64 rows of 16 terms times N columns, the sums in registers.
//
// The terms of the rows are in registers, in the places where mma.sync has them: a lane of warp w holds terms
// of rows 16 w + lane / 4 and 8 more. Of the sums it holds, in these rows, columns 8 j + 2 (lane % 4) and the
// next. The columns are in shared memory, where all warps read them: 16 bytes with the first 8 terms for each
// of N columns, then 16 bytes with the other 8 terms for each. N is a multiple of 8, up to 72.
//
// Compiled for sm_90a the products are those of wgmma: they are computed while the warps go on, and what they
// read and add to may not be touched before `wait`. Elsewhere they are those of mma.sync, eight columns at a
// time.
#pragma once
#include "copies.cuh"
#include "tensor.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
constexpr bool WARPGROUPS = true;
#define WARPGROUP_ASM(...) asm volatile(__VA_ARGS__)
#else
constexpr bool WARPGROUPS = false;
#define WARPGROUP_ASM(...)
#endif

// Where columns begin in shared memory, in pieces of 16 bytes; for wgmma the distances between its blocks of
// 8 columns x 8 terms, too: the other 8 terms of a column are APART pieces behind the first, and eight columns
// are NEXT pieces behind the eight before. One may add pieces to it.
typedef unsigned long long Columns;
template <int APART, int NEXT = 8> __device__ inline Columns columns(const uint4 *at)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    return __cvta_generic_to_shared(at) >> 4 | (Columns)APART << 16 | (Columns)NEXT << 32;
#else
    return (Columns)at >> 4;
#endif
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TO_8 "%0, %1, %2, %3"
#define TO_16 TO_8 ", %4, %5, %6, %7"
#define TO_24 TO_16 ", %8, %9, %10, %11"
#define TO_32 TO_24 ", %12, %13, %14, %15"
#define TO_40 TO_32 ", %16, %17, %18, %19"
#define TO_48 TO_40 ", %20, %21, %22, %23"
#define TO_56 TO_48 ", %24, %25, %26, %27"
#define TO_64 TO_56 ", %28, %29, %30, %31"
#define TO_72 TO_64 ", %32, %33, %34, %35"
#define D_8 "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
#define D_16 D_8, "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
#define D_24 D_16, "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11])
#define D_32 D_24, "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
#define D_40 D_32, "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19])
#define D_48 D_40, "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23])
#define D_56 D_48, "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27])
#define D_64 D_56, "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define D_72 D_64, "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35])
#define WGMMA(ADD, N, A0, A1, A2, A3, B) \
    asm volatile("{.reg .pred p; setp.eq.u32 p, 1, " #ADD "; " \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.f16.f16 " \
                 "{" TO_##N "}, {%" #A0 ", %" #A1 ", %" #A2 ", %" #A3 "}, %" #B ", p, 1, 1, 0;}" \
                 : D_##N : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(b))
#define PRODUCT(...) if (add) WGMMA(1, __VA_ARGS__); else WGMMA(0, __VA_ARGS__)
#endif

// d += a b, or if not `add`, which the compiler has to know, d = a b
template <int N, int APART = N, int NEXT = 8>
__device__ inline void product(float (&d)[N / 2], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                               Columns b, bool add = true)
{
    static_assert(N % 8 == 0 && N <= 72);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if constexpr (N == 8) { PRODUCT(8, 4, 5, 6, 7, 8); }
    if constexpr (N == 16) { PRODUCT(16, 8, 9, 10, 11, 12); }
    if constexpr (N == 24) { PRODUCT(24, 12, 13, 14, 15, 16); }
    if constexpr (N == 32) { PRODUCT(32, 16, 17, 18, 19, 20); }
    if constexpr (N == 40) { PRODUCT(40, 20, 21, 22, 23, 24); }
    if constexpr (N == 48) { PRODUCT(48, 24, 25, 26, 27, 28); }
    if constexpr (N == 56) { PRODUCT(56, 28, 29, 30, 31, 32); }
    if constexpr (N == 64) { PRODUCT(64, 32, 33, 34, 35, 36); }
    if constexpr (N == 72) { PRODUCT(72, 36, 37, 38, 39, 40); }
#else
    const unsigned *at = (const unsigned *)(b << 4) + threadIdx.x;    // 4 words per column: those of lane / 4
    #pragma unroll
    for (int j = 0; j < N / 2; j += 4) {
        if (!add)
            d[j] = d[j + 1] = d[j + 2] = d[j + 3] = 0;
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[j]), "+f"(d[j + 1]), "+f"(d[j + 2]), "+f"(d[j + 3])
                     : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(at[NEXT * j]), "r"(at[4 * APART + NEXT * j]));
    }
#endif
}

// Before the first product, and whenever others than products have written to the registers of products.
__device__ inline void begin() { WARPGROUP_ASM("wgmma.fence.sync.aligned;" ::: "memory"); }

// The products since the last `commit` are a batch; wait until at most `batches` are still being computed.
__device__ inline void commit() { WARPGROUP_ASM("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int batches> __device__ inline void wait()
{
    WARPGROUP_ASM("wgmma.wait_group.sync.aligned %0;" :: "n"(batches) : "memory");
}

// Registers per thread from here on: a team of warpgroups takes those that another has given.
template <int count> __device__ inline void take_registers()
{
    WARPGROUP_ASM("setmaxnreg.inc.sync.aligned.u32 %0;" :: "n"(count));
}
template <int count> __device__ inline void give_registers()
{
    WARPGROUP_ASM("setmaxnreg.dec.sync.aligned.u32 %0;" :: "n"(count));
}
