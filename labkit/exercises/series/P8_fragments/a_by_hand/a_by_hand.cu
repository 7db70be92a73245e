// P8a by hand: a warp loads the fragments of two matrices into registers, and multiplies them by one instruction.
//
// c = a b for each block: a [16][16], b [16][8] with its columns one behind the other, c [16][8]. Launch: 32 threads per
// block.

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

extern "C" __global__ void multiply(const half *a, const half *b, float *c, int K)
{
#ifdef SKELETON
    // c[16][8] = a[16][16] b[16][8], for the block's matrices; b has its columns one behind the other, and K is 16

#else
    const int g = threadIdx.x / 4, t = threadIdx.x % 4;
    const unsigned *rows = (const unsigned *)(a + blockIdx.x * 16 * 16);    // words of two halves, 8 per row
    const unsigned *columns = (const unsigned *)(b + blockIdx.x * 16 * 8);  // and 8 per column
    const unsigned fa[4] = {rows[g * 8 + t], rows[(g + 8) * 8 + t], rows[g * 8 + t + 4], rows[(g + 8) * 8 + t + 4]};
    const unsigned fb[2] = {columns[g * 8 + t], columns[g * 8 + t + 4]};
    float d[4] = {0, 0, 0, 0};
    mma(d, fa, fb);
    float2 *out = (float2 *)(c + blockIdx.x * 16 * 8);                      // 4 per row
    out[g * 4 + t] = make_float2(d[0], d[1]);
    out[(g + 8) * 4 + t] = make_float2(d[2], d[3]);
#endif
}
