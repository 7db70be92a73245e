// What the kernels on tensor cores share: the product of a warp, the widest access to rows of halves, barriers of
// some warps, and floats as halves.
//
// Nothing here reads or writes memory: each load and each store is at a line of the kernel itself.
#pragma once
#include <cuda_fp16.h>
#include <type_traits>

// d += a b: a has 16 rows of 16 terms, b has 8 columns. Of b, a lane holds terms of column lane / 4; of a and
// d it holds parts of the rows lane / 4 and lane / 4 + 8: in d, the columns 2 (lane % 4) and the next.
__device__ inline void mma(float (&d)[4], const uint4 &a, unsigned b0, unsigned b1)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b0), "r"(b1));
}

// The widest access for rows of N halves: each row begins at a multiple of its size.
template <int N> using Widest =
    std::conditional_t<N % 2, unsigned short, std::conditional_t<N % 4, unsigned, unsigned long long>>;

// Wait at a barrier until `warps` warps have arrived. Number 0 is __syncthreads().
__device__ inline void barrier(int number, int warps)
{
    __syncwarp();                                           // bar.sync is for whole warps
    asm volatile("bar.sync %0, %1;" :: "r"(number), "r"(32 * warps) : "memory");
}

// Two halves as a word, the first in its lower 16 bits.
__device__ inline unsigned word_of(half2 two)
{
    unsigned word;
    memcpy(&word, &two, sizeof word);                       // a cast to unsigned & would break aliasing
    return word;
}

// The bits of |v|, in the order of the numbers; those of infinity and NaN are INFINITE or more.
constexpr int INFINITE = 0x7f800000;
__device__ inline int magnitude(float v) { return __float_as_int(fabsf(v)); }
__device__ inline int exponent(int bits) { return max((bits >> 23) - 127, -112); }
__device__ inline float power(int exponent) { return __int_as_float((127 + exponent) << 23); }

// Two floats as two halves each, the high one in the lower 16 bits. With one part, what it leaves is dropped.
template <int PARTS = 2> __device__ inline float2 split(float v, float w)
{
    const half2 high = __floats2half2_rn(v, w);
    const half2 low = PARTS == 2 ? __floats2half2_rn(v - __low2float(high), w - __high2float(high))
                                 : __float2half2_rn(0);
    const unsigned h = word_of(high), l = word_of(low);
    auto parts = [&](unsigned which) { return __uint_as_float(__byte_perm(h, l, which)); };
    return make_float2(parts(0x5410), parts(0x7632));
}
