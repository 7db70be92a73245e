// A block hands rows to the other block of its cluster, through that one's shared memory and with two
// flags written by hand: how many rows are there, and how many are read.
//
// BUG  1: no fence between a row and its flag       2: only the thread that waits for the flag knows that the row is there
//      3: the sender does not wait until the row before is read      4: a block ends before the other one's last access to it
#include "instructions.h"
#include <cooperative_groups.h>

const int THREADS = 64, ROWS = 5, CLUSTERS = 2;

__global__ void __cluster_dims__(2) hand_on(const int *x, int *sums)
{
    __shared__ int row[THREADS];
    __shared__ unsigned sent, taken;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned t = threadIdx.x, rank = cluster.block_rank(), first = blockIdx.x / 2 * ROWS * THREADS;
    int *row_there = cluster.map_shared_rank(row, 1);
    volatile unsigned *sent_there = cluster.map_shared_rank(&sent, 1), *taken_there = cluster.map_shared_rank(&taken, 0);
    volatile unsigned *sent_here = &sent, *taken_here = &taken;
    if (t == 0)
        sent = taken = 0;
    cluster.sync();
    int sum = 0;
    for (unsigned i = 0; i < ROWS; i++) {
        if (rank == 0) {
            if (t == 0 && BUG != 3) {
                while (*taken_here < i);
                __threadfence();
            }
            __syncthreads();
            row_there[t] = x[first + i * THREADS + t];
            __syncthreads();
            if (t == 0) {
                if (BUG != 1)
                    __threadfence();
                *sent_there = i + 1;
            }
        } else {
            if (t == 0) {
                while (*sent_here <= i);
                __threadfence();
            }
            if (BUG != 2)
                __syncthreads();
            sum += (i + 1) * row[THREADS - 1 - t];
            __syncthreads();
            if (t == 0) {
                __threadfence();
                *taken_there = i + 1;
            }
        }
    }
    if (rank == 1)
        sums[blockIdx.x / 2 * THREADS + t] = sum;
    if (BUG != 4)
        cluster.sync();
}

int main()
{
    std::vector<int> x(CLUSTERS * ROWS * THREADS), expected(CLUSTERS * THREADS);
    for (int i = 0; i < (int)x.size(); i++) {
        x[i] = i * 23 % 509;
        expected[i / (ROWS * THREADS) * THREADS + THREADS - 1 - i % THREADS] += (i / THREADS % ROWS + 1) * x[i];
    }
    int *sums = put(std::vector<int>(expected.size()));
    hand_on<<<2 * CLUSTERS, THREADS>>>(put(x), sums);
    return compare(sums, expected);
}
