// P10b why it hangs: a product of a matrix and a vector, in a ring of three stages with a tile of a row and one of the vector.
//
// y[i] is the sum of a[i][j] * v[j] over the `columns` of a row, a multiple of 4. The results are 0 before. Launch: a block of
// (32, 4) threads per row; of the warp threadIdx.y == 0 one thread is the producer, the other three are the consumers.
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

__global__ void multiply(const int *a, const int *v, int columns, int *y)
{
    constexpr int T = 512, STAGES = 3;
    __shared__ alignas(16) int rows[STAGES][T], parts[STAGES][T];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const int lane = threadIdx.x, w = threadIdx.y, tiles = (columns + T - 1) / T;
    if (w == 0 && lane == 0) {
        for (int s = 0; s < STAGES; ++s) {
            ptx::mbarrier_init(&full[s], 1);
#ifdef SKELETON
            ptx::mbarrier_init(&empty[s], 96);
#else
            ptx::mbarrier_init(&empty[s], 3);
#endif
        }
        ptx::fence_mbarrier_init(ptx::sem_release, ptx::scope_cluster);
    }
    __syncthreads();
    if (w == 0) {
        for (int tile = 0; tile < tiles && lane == 0; ++tile) {
            const int s = tile % STAGES, lap = tile / STAGES, bytes = 4 * min(T, columns - tile * T);
#ifdef SKELETON
            while (!ptx::mbarrier_try_wait_parity(&empty[s], lap % 2));
            arrive_expect(&full[s], 2 * 4 * T);
#else
            while (!ptx::mbarrier_try_wait_parity(&empty[s], (lap + 1) % 2));
            arrive_expect(&full[s], 2 * bytes);
#endif
            copy(rows[s], a + (size_t)blockIdx.x * columns + tile * T, bytes, &full[s]);
            copy(parts[s], v + tile * T, bytes, &full[s]);
        }
    } else {
        int dot = 0;
        for (int tile = 0; tile < tiles; ++tile) {
            const int s = tile % STAGES, lap = tile / STAGES;
            while (!ptx::mbarrier_try_wait_parity(&full[s], lap % 2));
            for (int j = (w - 1) * 32 + lane; j < min(T, columns - tile * T); j += 96)
                dot += rows[s][j] * parts[s][j];
            __syncwarp();
            if (lane == 0)
                ptx::mbarrier_arrive(&empty[s]);
        }
        dot = __reduce_add_sync(0xffffffff, dot);
        if (lane == 0)
            atomicAdd(&y[blockIdx.x], dot);
    }
}
