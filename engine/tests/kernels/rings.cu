// A ring of stages between warps that produce tiles and warps that consume them. Its fields say how it is made, and which
// mistake one warp makes at one tile, or all of them at each. A model of it is in hopper/rings.py.
#include <cuda/ptx>
namespace ptx = cuda::ptx;

struct Ring {                                            // in the order of the fields in hopper/rings.py
    int stages, producers, consumers, pieces, tiles, lanes;
    int copies, producers_take_turns, consumers_take_turns, each_lane_arrives, one_lane_waits, expects_late;
    int mistake, tile, warp;
};
enum {
    none, producer_does_not_wait, consumer_does_not_wait, producer_does_not_arrive, consumer_does_not_arrive, parity_of_producer,
    parity_of_consumer, producer_arrives_early, consumer_arrives_early, consumer_arrives_twice, more_bytes, fewer_bytes,
    full_expects_more, full_expects_fewer, empty_expects_more, empty_expects_fewer, no_meeting_after_wait, no_meeting_before_arrival
};
constexpr int piece = 8;                                 // elements; a tile has some pieces

__device__ void meet(const Ring &r) { __syncwarp((1u << r.lanes) - 1); }

__device__ void wait(const Ring &r, uint64_t *at, int parity, bool waits)
{
    if (waits && (!r.one_lane_waits || threadIdx.x % 32 == 0)) while (!ptx::mbarrier_try_wait_parity(at, parity));
    if (r.one_lane_waits && r.mistake != no_meeting_after_wait) meet(r);
}

__device__ void arrive(const Ring &r, uint64_t *at)
{
    if (!r.each_lane_arrives && r.mistake != no_meeting_before_arrival) meet(r);
    if (r.each_lane_arrives || threadIdx.x % 32 == 0) ptx::mbarrier_arrive(at);
}

__device__ void expect(uint64_t *full, int bytes)
{
    ptx::mbarrier_arrive_expect_tx(ptx::sem_release, ptx::scope_cta, ptx::space_shared, full, bytes);
}

extern "C" __global__ void ring(const int *x, int *y, Ring r)
{
    extern __shared__ __align__(128) int stage[];
    __shared__ uint64_t full[8], empty[8];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, elements = piece * r.pieces;
    const int arrivals = r.each_lane_arrives ? r.lanes : 1;
    const int sharing = r.producers_take_turns ? 1 : r.producers, readers = r.consumers_take_turns ? 1 : r.consumers;
    if (threadIdx.x == 0)
        for (int s = 0; s < r.stages; s++) {
            ptx::mbarrier_init(&full[s], sharing * (r.copies ? 1 : arrivals)
                               + (r.mistake == full_expects_more) - (r.mistake == full_expects_fewer));
            ptx::mbarrier_init(&empty[s], readers * arrivals
                               + (r.mistake == empty_expects_more) - (r.mistake == empty_expects_fewer));
        }
    __syncthreads();
    const int producer = warp - r.consumers;
    if (lane >= r.lanes || (producer >= 0 && r.copies && lane)) return;
    int sum = 0;
    for (int i = 0; i < r.tiles; i++) {
        const int s = i % r.stages, lap = i / r.stages, mistake = i == r.tile && warp == r.warp ? r.mistake : none;
        if (producer < 0) {
            if (r.consumers_take_turns && i % r.consumers != warp) continue;
            wait(r, &full[s], lap % 2 ^ (mistake == parity_of_consumer), mistake != consumer_does_not_wait);
            if (mistake == consumer_arrives_early) arrive(r, &empty[s]);
            for (int p = r.consumers_take_turns ? 0 : warp; p < r.pieces; p += readers)
                for (int j = lane; j < piece; j += r.lanes) sum += stage[s * elements + p * piece + (j + 1) % piece] * (i + 1);
            if (mistake != consumer_does_not_arrive && mistake != consumer_arrives_early) arrive(r, &empty[s]);
            if (mistake == consumer_arrives_twice) arrive(r, &empty[s]);
            continue;
        }
        if (r.producers_take_turns && i % r.producers != producer) continue;
        const int count = elements / sharing, first = r.producers_take_turns ? 0 : producer * count;
        const int *from = x + i * elements + first;
        int *to = stage + s * elements + first;
        const int bytes = 4 * count, expected = bytes + 16 * (mistake == more_bytes) - 16 * (mistake == fewer_bytes);
        wait(r, &empty[s], lap % 2 ^ 1 ^ (mistake == parity_of_producer), mistake != producer_does_not_wait);
        if (r.copies) {
            const bool arrives = mistake != producer_does_not_arrive;
            if (arrives && !r.expects_late) expect(&full[s], expected);
            ptx::cp_async_bulk(ptx::space_cluster, ptx::space_global, to, from, bytes, &full[s]);
            if (arrives && r.expects_late) expect(&full[s], expected);
            continue;
        }
        if (mistake == producer_arrives_early) arrive(r, &full[s]);
        for (int j = lane; j < count; j += r.lanes) to[j] = from[j];
        if (mistake != producer_does_not_arrive && mistake != producer_arrives_early) arrive(r, &full[s]);
    }
    if (producer < 0) y[threadIdx.x] = sum;
}
