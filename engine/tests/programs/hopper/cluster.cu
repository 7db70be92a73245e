// Clusters of three blocks turn rows round that are three blocks long, through each other's shared memory, and count odd numbers
// in the shared memory of the first block.
//
// BUG  1: a barrier of the block in place of the cluster's, before the neighbour's part is read
//      2: no barrier before a block ends        3: no barrier before the first access to another block
//      4: one thread does not meet the others   5: the count is taken before the cluster has met
//      6: no mistake: the barrier in two steps, and other work between
//      7: as 6, and the work between reads the neighbour's part
#include "instructions.h"
#include <cooperative_groups.h>

const int BLOCKS = 3, THREADS = 64, LENGTH = 160, CLUSTERS = 2;

__device__ void meet()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__global__ void __cluster_dims__(BLOCKS, 1, 1) turn_long_rows(const int *x, int *y, int *odd)
{
    __shared__ int part[LENGTH];
    __shared__ int count;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank();
    const int first = blockIdx.x * LENGTH;
    int *first_count = cluster.map_shared_rank(&count, 0);
    if (threadIdx.x == 0)
        count = 0;
    if (BUG != 3)
        cluster.sync();
    int mine = 0;
    for (int i = threadIdx.x; i < LENGTH; i += THREADS) {
        part[i] = x[first + i];
        mine += part[i] % 2;
    }
    if (mine)
        atomicAdd(first_count, mine);
    if (BUG == 5 && rank == 0 && threadIdx.x == 0)
        odd[blockIdx.x / BLOCKS] = count;
    const int *other = cluster.map_shared_rank(part, BLOCKS - 1 - rank);
    int sum = 0;
    if (BUG == 1) {
        __syncthreads();
    } else if (BUG == 6 || BUG == 7) {
        __cluster_barrier_arrive();
        sum = BUG == 7 ? other[threadIdx.x] : mine;
        __cluster_barrier_wait();
    } else if (BUG != 4 || rank != 1 || threadIdx.x != 7) {
        meet();
    }
    for (int i = threadIdx.x; i < LENGTH; i += THREADS)
        y[first + i] = other[LENGTH - 1 - i];
    if (BUG != 2)
        meet();
    if (BUG != 5 && rank == 0 && threadIdx.x == 0)
        odd[blockIdx.x / BLOCKS] = count;
    if (sum == -1)
        y[first] = sum;
}

int main()
{
    const int n = CLUSTERS * BLOCKS * LENGTH, row = BLOCKS * LENGTH;
    std::vector<int> x(n), expected(n + CLUSTERS * BLOCKS);
    for (int i = 0; i < n; i++)
        x[i] = i * 41 % 997;
    for (int i = 0; i < n; i++) {
        expected[i] = x[i / row * row + row - 1 - i % row];
        expected[n + i / row] += x[i] % 2;
    }
    int *y = put(std::vector<int>(expected.size()));
    turn_long_rows<<<CLUSTERS * BLOCKS, THREADS>>>(put(x), y, y + n);
    return compare(y, expected);
}
