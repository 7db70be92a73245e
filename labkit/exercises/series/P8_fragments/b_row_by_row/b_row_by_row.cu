// P8b row by row: a sum of K products, and a b whose rows are one behind the other, so its two halves of a word lie apart.
//
// c = a b for each block: a [16][K], b [K][8], c [16][8]. K is a multiple of 16. Launch: 32 threads per block.

#include <cuda_fp16.h>

// d += a b. Of lane 4 g + t: a[0] is row g, columns 2 t and 2 t + 1; a[1] the same of row g + 8; a[2] and a[3] are 8
// columns further. b[0] is rows 2 t and 2 t + 1 of column g; b[1] is 8 rows further. d[0] and d[1] are row g, columns
// 2 t and 2 t + 1; d[2] and d[3] are those of row g + 8. In asm, %0 is the first operand below, "+f" a float register that
// is read and written, "r" a register of 32 bits. row.col: a goes by rows, b by columns; then the types of d, a, b and c.
__device__ void mma(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

#ifdef SKELETON
#else
// Rows k and k + 1 of a column of b, as one word.
__device__ unsigned pair(const half *b, int k, int column)
{
    return __half_as_ushort(b[k * 8 + column]) | (unsigned)__half_as_ushort(b[(k + 1) * 8 + column]) << 16;
}

#endif
extern "C" __global__ void multiply(const half *a, const half *b, float *c, int K)
{
#ifdef SKELETON
    // c[16][8] = a[16][K] b[K][8], for the block's matrices; begin with your kernel of P8a

#else
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const unsigned *rows = (const unsigned *)(a + blockIdx.x * 16 * K);     // words of two halves, K / 2 per row
    b += blockIdx.x * K * 8;
    float d[4] = {0, 0, 0, 0};
    for (int k = 0; k < K; k += 16) {
        const int low = g * K / 2 + k / 2 + t, high = low + 8 * K / 2;
        const unsigned fa[4] = {rows[low], rows[high], rows[low + 4], rows[high + 4]};
        const unsigned fb[2] = {pair(b, k + 2 * t, g), pair(b, k + 2 * t + 8, g)};
        mma(d, fa, fb);
    }
    float2 *out = (float2 *)(c + blockIdx.x * 16 * 8);                      // 4 per row
    out[g * 4 + t] = make_float2(d[0], d[1]);
    out[(g + 8) * 4 + t] = make_float2(d[2], d[3]);
#endif
}
