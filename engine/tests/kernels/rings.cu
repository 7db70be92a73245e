// A ring of stages between a producer, which begins bulk copies, and warps of consumers; `mistake` breaks it in one way.
#include <cuda/ptx>
namespace ptx = cuda::ptx;

enum { none, no_wait_for_empty, no_arrival, first_parity, phase_stays, early_arrival, more_bytes, more_arrivals };

extern "C" __global__ void ring(const int *x, int *y, int stages, int warps, int elements, int tiles, int mistake)
{
    extern __shared__ __align__(128) int stage[];
    __shared__ uint64_t full[8], empty[8];
    const int t = threadIdx.x, consumers = 32 * warps;
    if (t == 0)
        for (int i = 0; i < stages; i++) {
            ptx::mbarrier_init(&full[i], 1);
            ptx::mbarrier_init(&empty[i], warps + (mistake == more_arrivals));
        }
    __syncthreads();
    const int *from = x + blockIdx.x * tiles * elements;
    if (t == consumers) {
        for (int i = 0, s = 0, parity = mistake != first_parity; i < tiles; i++) {
            if (mistake != no_wait_for_empty) while (!ptx::mbarrier_try_wait_parity(&empty[s], parity));
            const int bytes = 4 * elements;
            ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, &full[s],
                                           bytes + 16 * (mistake == more_bytes));
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, stage + s * elements, from + i * elements, bytes, &full[s]);
            if (++s == stages) s = 0, parity ^= 1;
        }
    } else if (t < consumers) {
        int sum = 0;
        for (int i = 0, s = 0, parity = 0; i < tiles; i++) {
            while (!ptx::mbarrier_try_wait_parity(&full[s], parity));
            if (mistake == early_arrival && t % 32 == 0) ptx::mbarrier_arrive(&empty[s]);
            if (t / 32 == i % warps) __nanosleep(100);
            for (int j = t; j < elements; j += consumers) sum += stage[s * elements + j] * (i + 1);
            __syncwarp();
            if (mistake != no_arrival && mistake != early_arrival && t % 32 == 0) ptx::mbarrier_arrive(&empty[s]);
            if (++s == stages) s = 0, parity ^= mistake != phase_stays;
        }
        y[blockIdx.x * consumers + t] = sum;
    }
}
