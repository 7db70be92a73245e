// A warpgroup multiplies: 64 x 32 by 32 x 16, both matrices in shared memory with swizzled rows of 64 bytes.
//
// BUG  1: no wgmma.fence before the first product          2: the sums are read before wgmma.wait_group
//      3: no fence.proxy.async after the stores            4: the rows are stored without the swizzle
//      5: the products are not committed as a group        6: the descriptors say that there is no swizzle
#include "instructions.h"

const int ROWS = 64, COLUMNS = 16, TERMS = 32, ROW_BYTES = 64;

// Where the term of a row is in its matrix: pieces of 16 bytes change places within a row, another way for each two rows.
__device__ int place(int row, int term)
{
    const int byte = row * ROW_BYTES + term * 2;
    return BUG == 4 ? byte : byte ^ (byte >> 7 & 3) << 4;
}

// Eight rows after eight rows of 64 bytes each
__device__ uint64_t descriptor(const char *matrix, int first_term)
{
    const uint64_t swizzle_64 = 2, leading = 16, stride = 8 * ROW_BYTES;
    return ((address(matrix) + first_term * 2) & 0x3ffff) >> 4 | leading >> 4 << 16 | stride >> 4 << 32
        | (BUG == 6 ? 0 : swizzle_64) << 62;
}

__global__ void multiply(const half *a, const half *b, float *c)
{
    __shared__ alignas(512) char rows[ROWS * ROW_BYTES], columns[COLUMNS * ROW_BYTES];
    const int t = threadIdx.x;
    for (int i = t; i < ROWS * TERMS; i += 128)
        *(half *)(rows + place(i / TERMS, i % TERMS)) = a[i];
    for (int i = t; i < COLUMNS * TERMS; i += 128)
        *(half *)(columns + place(i / TERMS, i % TERMS)) = b[i];
    if (BUG != 3)
        fence_proxy_async();
    __syncthreads();
    float sums[8] = {};
    if (BUG != 1)
        wgmma_fence();
    for (int term = 0; term < TERMS; term += 16)
        wgmma_m64n16k16(sums, descriptor(rows, term), descriptor(columns, term));
    if (BUG != 5)
        wgmma_commit_group();
    if (BUG != 2)
        wgmma_wait_group();
    for (int i = 0; i < 8; i++) {
        const int row = t / 32 * 16 + i / 2 % 2 * 8 + t % 32 / 4;
        const int column = i / 4 * 8 + t % 4 * 2 + i % 2;
        c[row * COLUMNS + column] = sums[i];
    }
}

int main()
{
    std::vector<half> a(ROWS * TERMS), b(COLUMNS * TERMS);
    std::vector<float> expected(ROWS * COLUMNS);
    for (int i = 0; i < ROWS * TERMS; i++)
        a[i] = __float2half(float(i * 7 % 31 - 12));
    for (int i = 0; i < COLUMNS * TERMS; i++)
        b[i] = __float2half(float(i * 5 % 23 - 9));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        for (int term = 0; term < TERMS; term++)
            expected[i] += __half2float(a[i / COLUMNS * TERMS + term]) * __half2float(b[i % COLUMNS * TERMS + term]);
    float *c = put(std::vector<float>(expected.size()));
    multiply<<<1, 128>>>(put(a), put(b), c);
    return compare(c, expected);
}
