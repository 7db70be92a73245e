// Tiles of a matrix by a tensor map, with swizzled rows of 64 bytes: each block writes the sums of its tile's columns.
//
// The matrix is no multiple of the tiles: beyond its edges a copy writes zeros, and their bytes count, too.
//
// BUG  1: the readers forget the swizzle                       2: the tile is where the swizzle does not begin anew
//      3: only the bytes within the matrix are expected        4: the coordinates are in the other order
//      5: the tile is at no multiple of 128                    6: the pitch of the matrix is no multiple of 16
#include "instructions.h"
#include <cuda.h>

const int HEIGHT = 44, WIDTH = 56, PITCH = 60, TILE_ROWS = 12, TILE_COLUMNS = 16;
const int DOWN = (HEIGHT + TILE_ROWS - 1) / TILE_ROWS, ACROSS = (WIDTH + TILE_COLUMNS - 1) / TILE_COLUMNS;

__global__ void add_columns(const __grid_constant__ CUtensorMap map, int *sums)
{
    __shared__ alignas(1024) char memory[TILE_ROWS * 64 + 256];
    __shared__ uint64_t copied;
    char *tile = memory + (BUG == 2 ? 128 : BUG == 5 ? 32 : 0);
    const int row = blockIdx.y * TILE_ROWS, column = blockIdx.x * TILE_COLUMNS;
    if (threadIdx.x == 0) {
        mbarrier_init(&copied, 1);
        const int inside = min(TILE_ROWS, HEIGHT - row) * min(TILE_COLUMNS, WIDTH - column);
        mbarrier_arrive_expect_tx(&copied, 4 * (BUG == 3 ? inside : TILE_ROWS * TILE_COLUMNS));
        if (BUG == 4)
            cp_async_bulk_tensor_2d(tile, &map, row, column, &copied);
        else
            cp_async_bulk_tensor_2d(tile, &map, column, row, &copied);
    }
    __syncthreads();
    wait_for(&copied, 0);
    int sum = 0;
    for (int i = 0; i < TILE_ROWS; i++) {
        const int byte = i * 64 + threadIdx.x * 4;
        sum += (i + 1) * *(const int *)(tile + (BUG == 1 ? byte : byte ^ (byte >> 7 & 3) << 4));
    }
    sums[(blockIdx.y * ACROSS + blockIdx.x) * TILE_COLUMNS + threadIdx.x] = sum;
}

int main()
{
    std::vector<int> matrix(HEIGHT * PITCH), expected(DOWN * ACROSS * TILE_COLUMNS);
    for (int i = 0; i < HEIGHT * PITCH; i++) {
        const int row = i / PITCH, column = i % PITCH;
        matrix[i] = (row * 53 + column * column * 3) % 719;
        if (column < WIDTH) {
            const int tile = row / TILE_ROWS * ACROSS + column / TILE_COLUMNS;
            expected[tile * TILE_COLUMNS + column % TILE_COLUMNS] += (row % TILE_ROWS + 1) * matrix[i];
        }
    }
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &entry, cudaEnableDefault, &found);
    CUtensorMap map;
    const cuuint64_t size[] = {WIDTH, HEIGHT}, pitch[] = {4 * PITCH - (BUG == 6 ? 8 : 0)};
    const cuuint32_t box[] = {TILE_COLUMNS, TILE_ROWS}, steps[] = {1, 1};
    const CUresult result = ((decltype(&cuTensorMapEncodeTiled))entry)(
        &map, CU_TENSOR_MAP_DATA_TYPE_INT32, 2, put(matrix), size, pitch, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_64B, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS) {
        printf("FAIL cuTensorMapEncodeTiled returns %d\n", result);
        return 1;
    }
    int *sums = put(std::vector<int>(expected.size()));
    add_columns<<<dim3(ACROSS, DOWN), TILE_COLUMNS>>>(map, sums);
    return compare(sums, expected);
}
