// 11c three products: a product of floats on tensor cores, from the high and low parts of its factors.
//
// c = a b for each block: a [16][16], b [16][8] with its columns one behind the other, c [16][8], all float32. Launch: 32
// threads per block.

#include <cuda_fp16.h>

// d += a b, with the fragments of P8.
__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Two floats, rounded to halves, in a register.
__device__ unsigned round_both(float2 v)
{
    return __half_as_ushort(__float2half_rn(v.x)) | (unsigned)__half_as_ushort(__float2half_rn(v.y)) << 16;
}

#ifdef SKELETON
#else
// What rounding to halves leaves of two floats, as halves, too.
__device__ unsigned round_rest(float2 v)
{
    return round_both(make_float2(v.x - __half2float(__float2half_rn(v.x)), v.y - __half2float(__float2half_rn(v.y))));
}

#endif
extern "C" __global__ void multiply(const float *a, const float *b, float *c)
{
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const float2 *rows = (const float2 *)(a + blockIdx.x * 16 * 16);        // 8 pairs per row
    const float2 *columns = (const float2 *)(b + blockIdx.x * 16 * 8);      // and 8 per column
    const float2 of_a[4] = {rows[g * 8 + t], rows[(g + 8) * 8 + t], rows[g * 8 + t + 4], rows[(g + 8) * 8 + t + 4]};
    const float2 of_b[2] = {columns[g * 8 + t], columns[g * 8 + t + 4]};
    const unsigned high_a[4] = {round_both(of_a[0]), round_both(of_a[1]), round_both(of_a[2]), round_both(of_a[3])};
    const unsigned high_b[2] = {round_both(of_b[0]), round_both(of_b[1])};
    float d[4] = {0, 0, 0, 0};
#ifdef SKELETON
#else
    const unsigned low_a[4] = {round_rest(of_a[0]), round_rest(of_a[1]), round_rest(of_a[2]), round_rest(of_a[3])};
    const unsigned low_b[2] = {round_rest(of_b[0]), round_rest(of_b[1])};
    mma(d, low_a, high_b);
    mma(d, high_a, low_b);
#endif
    mma(d, high_a, high_b);
    float2 *out = (float2 *)(c + blockIdx.x * 16 * 8);                      // 4 pairs per row
    out[g * 4 + t] = make_float2(d[0], d[1]);
    out[(g + 8) * 4 + t] = make_float2(d[2], d[3]);
}
