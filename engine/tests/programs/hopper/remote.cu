// Blocks of a cluster send what they have to the next block: words by st.async, counts by red.async, and a row by a bulk copy from
// shared memory. An mbarrier of the receiver counts all of it.
//
// BUG  1: the receiver expects too little         2: it does not wait                 3: a block ends before its row is sent
//      4: a sender writes anew before its row is sent      5: no fence of proxies between the row's stores and its copy
#include "instructions.h"
#include <cooperative_groups.h>

const int BLOCKS = 4, THREADS = 64, ROW = 96, BYTES = THREADS * 3 * sizeof(int) + THREADS * sizeof(int) + ROW * sizeof(int);

__device__ unsigned in_block(unsigned address, unsigned rank)
{
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__global__ void __cluster_dims__(BLOCKS) send(const int *x, int *y)
{
    __shared__ alignas(16) int row[ROW], received[ROW], words[THREADS], pairs[2 * THREADS];
    __shared__ unsigned count;
    __shared__ uint64_t barrier;
    auto cluster = cooperative_groups::this_cluster();
    const unsigned t = threadIdx.x, next = (cluster.block_rank() + 1) % BLOCKS, b = blockIdx.x;
    if (t == 0) {
        mbarrier_init(&barrier, 1);
        count = 0;
        mbarrier_arrive_expect_tx(&barrier, BYTES - (BUG == 1 ? 16 : 0));
    }
    for (int i = t; i < ROW; i += THREADS)
        row[i] = x[b * ROW + i];
    if (BUG != 5)
        fence_proxy_async();
    cluster.sync();
    const unsigned counted = in_block(address(&barrier), next);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];"
                 :: "r"(in_block(address(&words[t]), next)), "r"(b * 100 + t), "r"(counted) : "memory");
    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s32 [%0], {%1, %2}, [%3];"
                 :: "r"(in_block(address(&pairs[2 * t]), next)), "r"(t), "r"(row[t]), "r"(counted) : "memory");
    asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];"
                 :: "r"(in_block(address(&count), next)), "r"(t), "r"(counted) : "memory");
    if (t == 0)
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                     :: "r"(in_block(address(received), next)), "r"(address(row)), "r"((unsigned)sizeof row), "r"(counted) : "memory");
    if (BUG == 4)
        row[t] = 0;
    if (BUG != 2)
        wait_for(&barrier, 0);
    y[b * THREADS + t] = words[t] * 3 + pairs[2 * t] + pairs[2 * t + 1] * 5 + (int)count + received[t] + received[ROW - 1 - t];
    if (BUG != 3)
        cluster.sync();
}

int main()
{
    std::vector<int> x(2 * BLOCKS * ROW), expected(2 * BLOCKS * THREADS);
    for (int i = 0; i < (int)x.size(); i++)
        x[i] = i * 19 % 401;
    for (int i = 0; i < (int)expected.size(); i++) {
        const int b = i / THREADS, t = i % THREADS, from = b / BLOCKS * BLOCKS + (b + BLOCKS - 1) % BLOCKS;
        const int *row = &x[from * ROW];
        expected[i] = (from * 100 + t) * 3 + t + row[t] * 5 + THREADS * (THREADS - 1) / 2 + row[t] + row[ROW - 1 - t];
    }
    int *y = put(std::vector<int>(expected.size()));
    send<<<2 * BLOCKS, THREADS>>>(put(x), y);
    return compare(y, expected);
}
