// A ring of two stages for a warpgroup: a thread copies boxes of two matrices by their tensor maps, the warpgroup multiplies them,
// and one of its threads says for all four warps that a stage is empty, as libraries do.
//
// BUG  1: it says so before wgmma.wait_group          2: the boxes have another swizzle than the descriptors say
//      3: the last group of products is not awaited   4: nobody says that a stage is empty
#include "instructions.h"
#include <cuda.h>

const int ROWS = 64, COLUMNS = 16, TERMS = 32, STEPS = 5, STAGES = 2, LENGTH = STEPS * TERMS, ROW_BYTES = TERMS * 2;

__device__ uint64_t descriptor(const char *matrix, int first_term)
{
    const uint64_t swizzle_64 = 2, leading = 16, stride = 8 * ROW_BYTES;
    return ((address(matrix) + first_term * 2) & 0x3ffff) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | swizzle_64 << 62;
}

__global__ void multiply(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *c)
{
    __shared__ alignas(1024) char rows[STAGES][ROWS * ROW_BYTES], columns[STAGES][COLUMNS * ROW_BYTES];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int t = threadIdx.x;
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 1);
        }
    __syncthreads();
    if (t == 128) {
        for (int step = 0; step < STEPS; step++) {
            const int s = step % STAGES;
            wait_for(&empty[s], (step / STAGES + 1) % 2);
            mbarrier_arrive_expect_tx(&full[s], sizeof rows[s] + sizeof columns[s]);
            cp_async_bulk_tensor_2d(rows[s], &a, step * TERMS, 0, &full[s]);
            cp_async_bulk_tensor_2d(columns[s], &b, step * TERMS, 0, &full[s]);
        }
    } else if (t < 128) {
        float sums[8] = {};
        for (int step = 0; step < STEPS; step++) {
            const int s = step % STAGES;
            wait_for(&full[s], step / STAGES % 2);
            if (BUG == 1 && t == 0)
                mbarrier_arrive(&empty[s]);
            wgmma_fence();
            for (int term = 0; term < TERMS; term += 16)
                wgmma_m64n16k16(sums, descriptor(rows[s], term), descriptor(columns[s], term));
            wgmma_commit_group();
            if (BUG == 3)
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
            else
                wgmma_wait_group();
            if (BUG != 1 && BUG != 4 && t == 0)
                mbarrier_arrive(&empty[s]);
        }
        wgmma_wait_group();
        for (int i = 0; i < 8; i++) {
            const int row = t / 32 * 16 + i / 2 % 2 * 8 + t % 32 / 4;
            c[row * COLUMNS + i / 4 * 8 + t % 4 * 2 + i % 2] = sums[i];
        }
    }
}

CUtensorMap encode(half *matrix, int rows)
{
    CUtensorMap map;
    cuuint64_t shape[] = {LENGTH, (cuuint64_t)rows}, pitch[] = {LENGTH * sizeof(half)};
    cuuint32_t box[] = {TERMS, (cuuint32_t)rows}, steps[] = {1, 1};
    void *function;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
    ((decltype(&cuTensorMapEncodeTiled))function)(
        &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, matrix, shape, pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        BUG == 2 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return map;
}

int main()
{
    std::vector<half> a(ROWS * LENGTH), b(COLUMNS * LENGTH);
    std::vector<float> expected(ROWS * COLUMNS);
    for (int i = 0; i < ROWS * LENGTH; i++)
        a[i] = __float2half(float(i * 7 % 31 - 12));
    for (int i = 0; i < COLUMNS * LENGTH; i++)
        b[i] = __float2half(float(i * 5 % 23 - 9));
    for (int i = 0; i < ROWS * COLUMNS; i++)
        for (int term = 0; term < LENGTH; term++)
            expected[i] += __half2float(a[i / COLUMNS * LENGTH + term]) * __half2float(b[i % COLUMNS * LENGTH + term]);
    float *c = put(std::vector<float>(expected.size()));
    multiply<<<1, 160>>>(encode(put(a), ROWS), encode(put(b), COLUMNS), c);
    return compare(c, expected);
}
