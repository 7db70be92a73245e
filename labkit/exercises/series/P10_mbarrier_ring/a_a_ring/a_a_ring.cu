// P10a a ring of four stages: a thread copies tiles of a row into the ring, and three warps add them up.
//
// total[i] is the sum of row i of x, which has `columns` numbers, a multiple of 4. The totals are 0 before. Launch: a block
// of (32, 4) threads per row; of the warp threadIdx.y == 0 one thread is the producer, the other three are the consumers.
#include <cstdint>
#include <cuda/ptx>
namespace ptx = cuda::ptx;

// Arrive, and let the phase wait for so many bytes, too.
__device__ void arrive_expect(uint64_t *barrier, int bytes)
{
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, barrier, bytes);
}

// Begin a copy whose bytes the mbarrier counts. Both addresses and the bytes are multiples of 16.
__device__ void copy(void *shared, const void *global, int bytes, uint64_t *barrier)
{
    ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, shared, global, bytes, barrier);
}

__global__ void sums(const int *x, int columns, int *total)
{
#ifdef SKELETON
    // four stages, each with an mbarrier that says "full" and one that says "empty":
    // how many arrive at each, which of them counts bytes, and when does it have which parity?

#else
    constexpr int T = 1024, STAGES = 4;
    __shared__ alignas(16) int ring[STAGES][T];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int lane = threadIdx.x, tiles = (columns + T - 1) / T;
    if (threadIdx.y == 0 && lane == 0) {
        for (int s = 0; s < STAGES; ++s) {
            ptx::mbarrier_init(&full[s], 1);                // the producer
            ptx::mbarrier_init(&empty[s], 3);               // a thread of each warp of consumers
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();                                        // the mbarriers are made
    if (threadIdx.y == 0) {
        for (int i = 0; i < tiles && lane == 0; ++i) {
            const int s = i % STAGES, lap = i / STAGES, bytes = 4 * min(T, columns - i * T);
            if (lap > 0)                                    // the tile of the lap before is no longer read
                while (!ptx::mbarrier_try_wait_parity(&empty[s], (lap - 1) % 2));
            arrive_expect(&full[s], bytes);
            copy(ring[s], x + (size_t)blockIdx.x * columns + i * T, bytes, &full[s]);
        }
    } else {
        int sum = 0;
        for (int i = 0; i < tiles; ++i) {
            const int s = i % STAGES, lap = i / STAGES;
            while (!ptx::mbarrier_try_wait_parity(&full[s], lap % 2));
            for (int j = (threadIdx.y - 1) * 32 + lane; j < min(T, columns - i * T); j += 96)
                sum += ring[s][j];
            __syncwarp();                                   // all lanes have read
            if (lane == 0)
                ptx::mbarrier_arrive(&empty[s]);
        }
        sum = __reduce_add_sync(0xffffffff, sum);
        if (lane == 0)
            atomicAdd(&total[blockIdx.x], sum);
    }
#endif
}
