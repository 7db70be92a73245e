// Bulk copies to global memory: each block makes squares piece by piece in the same shared memory and copies each piece out.
//
// BUG  1: the next piece is written before the copy has read the last one    2: the copies are in no group
//      3: the block ends without waiting for the last copy
#include "instructions.h"

const int BLOCKS = 2, PIECES = 4, LENGTH = 224, THREADS = 64;

__global__ void write_squares(int *y)
{
    __shared__ alignas(16) int piece[LENGTH];
    for (int p = 0; p < PIECES; p++) {
        const int first = (blockIdx.x * PIECES + p) * LENGTH;
        for (int i = threadIdx.x; i < LENGTH; i += THREADS)
            piece[i] = (first + i) * (first + i);
        fence_proxy_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            cp_async_bulk_out(y + first, piece, sizeof(piece));
            if (BUG != 2)
                cp_async_bulk_commit_group();
            if (BUG != 1 && !(BUG == 3 && p == PIECES - 1))
                cp_async_bulk_wait_group_read<0>();
        }
        __syncthreads();
    }
    if (BUG != 3 && threadIdx.x == 0)
        cp_async_bulk_wait_group<0>();
}

int main()
{
    std::vector<int> expected(BLOCKS * PIECES * LENGTH);
    for (int i = 0; i < (int)expected.size(); i++)
        expected[i] = i * i;
    int *y = put(std::vector<int>(expected.size()));
    write_squares<<<BLOCKS, THREADS>>>(y);
    return compare(y, expected);
}
