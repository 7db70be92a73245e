// Blocks of a cluster, as their kernels see each other (include/hostcuda/cluster.h); scheduler.cpp runs them in turns.
#undef _FORTIFY_SOURCE
#include "fibers.h"

#define HOSTCUDA_PLACE const char *what, const char *file, int line

// An address of another block in PTX's window: bit 30, its rank, and the distance as in __cvta_generic_to_shared, made positive.
constexpr unsigned window_bits = 19, no_shared = ~0u >> 1;
static_assert(shared_limit <= 1 << (window_bits - 1));

Block *owner_of(Block &b, const void *address) {
    const char *at = (const char *)address;
    for (Block *each : b.cluster->blocks)
        if (at - each->shared.mapping >= 0 && at - each->shared.mapping < (ptrdiff_t)each->shared.bytes) return each;
    return nullptr;
}

void begin_cluster(Cluster &c) {
    c.barrier = {};
    c.gone = 0;
    for (Block *b : c.blocks) b->cluster_arrivals.clear();
}

// Some thread has arrived, or has ended.
static void settle(Cluster &c) {
    unsigned live = 0;
    for (const Block *b : c.blocks) live += b->live;
    c.barrier.expected = live + c.gone;
    if (c.barrier.arrived < c.barrier.expected) return;
    c.barrier = {0, 0, c.barrier.number + 1};
    c.gone = 0;
    watch_cluster_phase();
    for (Block *b : c.blocks) wake(*b);
}

void leave_cluster(Block &b, unsigned thread) {
    Cluster &c = *b.cluster;
    c.gone += !b.cluster_arrivals.empty() && b.cluster_arrivals[thread] == c.barrier.number + 1;
    settle(c);
}

namespace hostcuda {

EXPORT ClusterPlace cluster_place() { return block->in_cluster; }

EXPORT void *map_shared_to(const void *address, unsigned rank, HOSTCUDA_PLACE) {
    Block &b = *block;
    if (rank >= b.in_cluster.blocks)
        fail("%s at %s:%d: there is no block with rank %u in the cluster, which has %u", what, file, line, rank, b.in_cluster.blocks);
    const Block *owner = owner_of(b, address);
    if (!owner) fail("%s at %s:%d: the address is in no shared memory", what, file, line);
    return b.cluster->blocks[rank]->shared.mapping + ((const char *)address - owner->shared.mapping);
}

EXPORT unsigned rank_of_shared(const void *address) {
    if (block->in_cluster.blocks == 1) return space_of(address) == 's' ? 0 : ~0u;
    const Block *owner = owner_of(*block, address);
    return owner ? owner->in_cluster.rank : ~0u;
}

EXPORT unsigned cluster_window_address(const void *address) {
    const Block *owner = owner_of(*block, address);
    if (!owner) return no_shared;
    const char *at = (const char *)address;
    ptrdiff_t distance = at - (at >= owner->dynamic_shared ? owner->dynamic_shared : owner->shared.static_end);
    return 1u << 30 | owner->in_cluster.rank << window_bits | (unsigned)(distance + (1 << (window_bits - 1)));
}

EXPORT void *of_cluster_window(unsigned address) {
    Block &b = *block;
    if (address == no_shared) fail("an address that is in no shared memory was taken for one there (__cvta_generic_to_shared), and is used");
    unsigned rank = (address & ((1u << 30) - 1)) >> window_bits;
    if (rank >= b.in_cluster.blocks) fail("the address 0x%x of shared memory is in a block of rank %u, which the cluster does not have", address, rank);
    const Block &owner = *b.cluster->blocks[rank];
    int distance = (int)(address & ((1u << window_bits) - 1)) - (1 << (window_bits - 1));
    return (distance < 0 ? owner.shared.static_end : owner.dynamic_shared) + distance;
}

EXPORT void arrive_at_cluster(bool releases, HOSTCUDA_PLACE) {
    Block &b = *block;
    Cluster &c = *b.cluster;
    if (b.cluster_arrivals.empty()) b.cluster_arrivals.assign(max_threads, 0);
    unsigned &mine = b.cluster_arrivals[hostcuda_turn.thread.number];
    if (mine) fail("%s at %s:%d: the thread has arrived before, and has not waited since (barrier.cluster.wait)", what, file, line);
    mine = c.barrier.number + 1;
    c.barrier.arrived++;
    b.done++;
    watch_cluster_arrival(releases);
    settle(c);
}

EXPORT Switch wait_for_cluster(HOSTCUDA_PLACE) noexcept {
    Block &b = *block;
    Fiber *me = hostcuda_turn.current;
    unsigned thread = hostcuda_turn.thread.number;
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (b.cluster_arrivals.empty() || !b.cluster_arrivals[thread])
        fail("%s at %s:%d: the thread has not arrived before (barrier.cluster.arrive)", what, file, line);
    unsigned number = b.cluster_arrivals[thread] - 1;
    b.cluster_arrivals[thread] = 0;
    if (b.cluster->barrier.number != number) return {&me->context, &me->context};
    return sleep(b, me, b.cluster->barrier, number, {what, file, line});
}

EXPORT void cluster_waited() { watch_cluster_waited(); }

}  // namespace hostcuda
