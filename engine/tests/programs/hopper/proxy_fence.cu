// What ordinary stores have written is copied out in bulk: a fence makes them visible to the copy.
//
// BUG  1: no fence                                2: no barrier between the stores and the copy
//      3: each thread makes its fence before its stores
#include "instructions.h"

const int BLOCKS = 3, COLUMNS = 16, ROWS = 20, THREADS = 80;

// Write the transpose of each block's ROWS x COLUMNS matrix.
__global__ void transpose(const int *x, int *y)
{
    __shared__ alignas(16) int turned[COLUMNS * ROWS];
    const int first = blockIdx.x * COLUMNS * ROWS;
    if (BUG == 3)
        fence_proxy_async();
    for (int i = threadIdx.x; i < COLUMNS * ROWS; i += THREADS)
        turned[i % COLUMNS * ROWS + i / COLUMNS] = x[first + i];
    if (BUG == 0 || BUG == 2)
        fence_proxy_async();
    if (BUG != 2)
        __syncthreads();
    if (threadIdx.x == 0) {
        cp_async_bulk_out(y + first, turned, sizeof(turned));
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group<0>();
    }
}

int main()
{
    std::vector<int> x(BLOCKS * COLUMNS * ROWS), expected(x.size());
    for (int i = 0; i < (int)x.size(); i++) {
        const int at = i % (COLUMNS * ROWS);
        x[i] = i * 71 % 1511;
        expected[i - at + at % COLUMNS * ROWS + at / COLUMNS] = x[i];
    }
    int *y = put(std::vector<int>(expected.size()));
    transpose<<<BLOCKS, THREADS>>>(put(x), y);
    return compare(y, expected);
}
