// 13a one exchange: ReLU and the maximum of 4 x 4 outputs, in the registers in which tensor cores leave them.
//
// y [tile][map][window] for each block: a has the weights of four maps, b the windows of a tile, both as lanes load them.
// Launch: 32 threads per block, a block per tile.

#include <cuda_fp16.h>

// d += a b, as in tensor.cuh
__device__ void mma(float (&d)[4], const uint4 &a, const uint2 &b)
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y));
}

extern "C" __global__ void pool(const uint4 *a, const uint2 *b, float *y)
{
    const int lane = threadIdx.x, map = lane / 8, below = lane / 4 % 2, window = lane % 4;
    float sum[2][4] = {};                                   // of the upper squares, and of those below them
    const uint4 weights = a[lane];
    for (int row = 0; row < 2; ++row)
        mma(sum[row], weights, b[(blockIdx.x * 2 + row) * 32 + lane]);

#ifdef SKELETON
    __shared__ float outputs[4][4][16];                     // of a map: four rows, of four windows side by side
    for (int row = 0; row < 2; ++row)
        for (int i = 0; i < 4; ++i)
            outputs[map][2 * row + below][4 * window + i % 2 * 2 + i / 2] = sum[row][i];
    __syncwarp();
    float most = 0;                                         // ReLU
    for (int h = 0; h < 4; ++h)
        for (int w = 0; w < 4; ++w)
            most = fmaxf(most, outputs[map][h][4 * window + w]);
#else
    float most = 0;                                         // ReLU
    for (int row = 0; row < 2; ++row)
        for (int i = 0; i < 4; ++i)
            most = fmaxf(most, sum[row][i]);
    most = fmaxf(most, __shfl_xor_sync(0xffffffff, most, 4));
#endif
    if (!below)
        y[blockIdx.x * 16 + map * 4 + window] = most;
}
