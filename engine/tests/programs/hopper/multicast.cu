// A ring of two stages in a cluster of two blocks that work with the same rows: each block copies half of a stage into the shared
// memory of both, and a stage is filled again when the consumers of both have arrived at the mbarriers of both.
//
// BUG  1: no barrier of the cluster behind mbarrier.init      2: the consumers arrive at the mbarrier of their own block only
//      3: each block expects only the half that it copies     4: the halves are copied into the own block only
//      5: no barrier of the cluster before a block ends       6: the consumers arrive before they read
#include "instructions.h"
#include <cooperative_groups.h>

const int BLOCKS = 2, STAGES = 2, ROWS = 7, LENGTH = 64, CONSUMERS = 64, CLUSTERS = 2;

__device__ void arrive_in_block(uint64_t *barrier, unsigned rank)
{
    asm volatile("{.reg .b32 at;\nmapa.shared::cluster.u32 at, %0, %1;\nmbarrier.arrive.release.cluster.shared::cluster.b64 _, [at];}"
                 :: "r"(address(barrier)), "r"(rank) : "memory");
}

__device__ void multicast(void *shared, const void *global, unsigned bytes, uint64_t *barrier, uint16_t blocks)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
                 :: "r"(address(shared)), "l"(global), "r"(bytes), "r"(address(barrier)), "h"(blocks) : "memory");
}

__global__ void add_rows(const int *x, int *sums)
{
    __shared__ alignas(128) int stages[STAGES][LENGTH];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    auto cluster = cooperative_groups::this_cluster();
    const unsigned rank = cluster.block_rank(), t = threadIdx.x;
    const int *rows = x + blockIdx.x / BLOCKS * ROWS * LENGTH;
    if (t == 0)
        for (int s = 0; s < STAGES; s++) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], (BUG == 2 ? 1 : BLOCKS) * CONSUMERS / 32);
        }
    if (BUG == 1)
        __syncthreads();
    else
        cluster.sync();
    if (t == CONSUMERS) {
        for (int row = 0; row < ROWS; row++) {
            const int s = row % STAGES, half = LENGTH / BLOCKS;
            wait_for(&empty[s], (row / STAGES + 1) % 2);
            mbarrier_arrive_expect_tx(&full[s], sizeof(int) * (BUG == 3 ? half : LENGTH));
            multicast(&stages[s][rank * half], rows + row * LENGTH + rank * half, sizeof(int) * half, &full[s],
                      BUG == 4 ? 1 << rank : (1 << BLOCKS) - 1);
        }
    } else if (t < CONSUMERS) {
        int sum = 0;
        for (int row = 0; row < ROWS; row++) {
            const int s = row % STAGES;
            wait_for(&full[s], row / STAGES % 2);
            if (BUG == 6 && t % 32 == 0)
                for (int r = 0; r < BLOCKS; r++)
                    arrive_in_block(&empty[s], r);
            sum += stages[s][t] * (rank ? row : 1);
            __syncwarp();
            if (BUG != 6 && t % 32 == 0)
                for (int r = 0; r < BLOCKS; r++)
                    if (BUG != 2 || r == (int)rank)
                        arrive_in_block(&empty[s], r);
        }
        sums[blockIdx.x * CONSUMERS + t] = sum;
    }
    if (BUG != 5)
        cluster.sync();
}

int main()
{
    std::vector<int> x(CLUSTERS * ROWS * LENGTH), expected(CLUSTERS * BLOCKS * CONSUMERS);
    for (int i = 0; i < (int)x.size(); i++) {
        x[i] = i * 23 % 509;
        const int row = i / LENGTH % ROWS, first = i / LENGTH / ROWS * BLOCKS;
        for (int rank = 0; rank < BLOCKS; rank++)
            expected[(first + rank) * CONSUMERS + i % LENGTH] += x[i] * (rank ? row : 1);
    }
    int *sums = put(std::vector<int>(expected.size()));
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim = {BLOCKS, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = CLUSTERS * BLOCKS;
    config.blockDim = CONSUMERS + 32;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, add_rows, (const int *)put(x), sums);
    return compare(sums, expected);
}
