// Clusters: blocks of a launch that run together, and whose threads reach each other's shared memory.
//
// The blocks take turns on one worker (runtime/clusters.cpp). Each has its own shared memory, so that an address in that of
// another block is an ordinary one, at the same distance from its begin. In PTX's window of shared memory it is a number with
// bit 30, the rank of its block above bit 18, and the place there below. A block without a cluster is one of its own.
#pragma once
#include "cluster_place.h"
#include "sync.h"

namespace hostcuda {

HOSTCUDA_API ClusterPlace cluster_place();

// The place of an address of the block's shared memory, or of another block's, in that of the block with this rank.
HOSTCUDA_API void *map_shared_to(const void *address, unsigned rank, const char *what, const char *file, int line);
HOSTCUDA_API unsigned rank_of_shared(const void *address);         // ~0: it is in no shared memory of the cluster
HOSTCUDA_API unsigned cluster_window_address(const void *address);   // in no shared memory: one that fails where it is used
HOSTCUDA_API void *of_cluster_window(unsigned address);
inline bool in_cluster_window(unsigned address) { return address >> 30 == 1; }

// The barrier of all threads of the cluster that have not ended, in two steps. What a thread does before an arrival that
// releases is before what others do when they have waited.
HOSTCUDA_API void arrive_at_cluster(bool releases, const char *what, const char *file, int line);
HOSTCUDA_API Switch wait_for_cluster(const char *what, const char *file, int line) noexcept;
HOSTCUDA_API void cluster_waited();

inline void await_cluster(const char *what, const char *file, int line) {
    follow(wait_for_cluster(what, file, line));
    cluster_waited();
}

}  // namespace hostcuda

inline uint3 hostcuda_uint3(const hostcuda::Index &i) { return {i.x, i.y, i.z}; }
inline dim3 __clusterDim() { return hostcuda_uint3(hostcuda::cluster_place().size); }
inline dim3 __clusterRelativeBlockIdx() { return hostcuda_uint3(hostcuda::cluster_place().at); }
inline dim3 __clusterGridDimInClusters() {
    const hostcuda::Index size = hostcuda::cluster_place().size;
    return {gridDim.x / size.x, gridDim.y / size.y, gridDim.z / size.z};
}
inline dim3 __clusterIdx() {
    const hostcuda::Index size = hostcuda::cluster_place().size;
    return {blockIdx.x / size.x, blockIdx.y / size.y, blockIdx.z / size.z};
}
inline unsigned int __clusterRelativeBlockRank() { return hostcuda::cluster_place().rank; }
inline unsigned int __clusterSizeInBlocks() { return hostcuda::cluster_place().blocks; }
inline void __cluster_barrier_arrive(HOSTCUDA_HERE) { hostcuda::arrive_at_cluster(true, "__cluster_barrier_arrive", file, line); }
inline void __cluster_barrier_arrive_relaxed(HOSTCUDA_HERE) {
    hostcuda::arrive_at_cluster(false, "__cluster_barrier_arrive_relaxed", file, line);
}
inline void __cluster_barrier_wait(HOSTCUDA_HERE) { hostcuda::await_cluster("__cluster_barrier_wait", file, line); }
inline void *__cluster_map_shared_rank(const void *address, unsigned int rank, HOSTCUDA_HERE) {
    return hostcuda::map_shared_to(address, rank, "__cluster_map_shared_rank", file, line);
}
inline unsigned int __cluster_query_shared_rank(const void *address) { return hostcuda::rank_of_shared(address); }
