// Cooperative groups (cooperative_groups.h): thread blocks, tiles, coalesced threads and their partitions, and reduce and
// scans over them. groups_async.h has the copies.
//
// The operations of a tile of up to 32 threads or of coalesced threads are the warp functions of warp.h with the group's
// lanes as mask. A larger tile has a barrier of its own. The blocks of a grid wait for each other in a cooperative launch
// only.
#pragma once
#include <type_traits>
#include <utility>
#include "sync.h"
#include "warp.h"

namespace hostcuda {
namespace groups {

// Each member of a group has a slot, and one of them computes all results from all values, in the order of the ranks. It
// calls the operation by a pointer, so that check mode sees the operation's accesses, but not those to the slots.
template <class T> struct fold_slot {
    static_assert(std::is_trivially_copyable_v<T>, "threads exchange values byte by byte: the type must be trivially copyable");
    T (*apply)(const void *operation, T a, T b);
    const void *operation;
    T value, result;                        // at first, the exclusive result of rank 0
};

template <class T, class Operation> T apply(const void *operation, T a, T b) { return (*(const Operation *)operation)(a, b); }

enum fold_kind { fold_all, fold_inclusive, fold_exclusive };

template <fold_kind kind, class T, class Operation> fold_slot<T> slot_for(const T &value, const Operation &operation) {
    if constexpr (kind == fold_exclusive) return {apply<T, Operation>, &operation, value, T()};
    else return {apply<T, Operation>, &operation, value, value};
}

template <fold_kind kind, class T> HOSTCUDA_UNSEEN void fold(void *const *slots, unsigned count) {
    typedef fold_slot<T> Slot;
    unsigned i = 0;
    while (!slots[i]) i++;
    T total = ((Slot *)slots[i])->value;
    if (kind == fold_inclusive) ((Slot *)slots[i])->result = total;
    while (++i < count) {
        auto *slot = (Slot *)slots[i];
        if (!slot) continue;
        if (kind == fold_exclusive) slot->result = total;
        total = slot->apply(slot->operation, total, slot->value);
        if (kind == fold_inclusive) slot->result = total;
    }
    if (kind == fold_all)
        for (i = 0; i < count; i++)
            if (slots[i]) ((Slot *)slots[i])->result = total;
}

template <class T> struct value_slot {
    static_assert(std::is_trivially_copyable_v<T>, "threads exchange values byte by byte: the type must be trivially copyable");
    T value, result;
    unsigned source;                        // the index of the slot to read
};

template <class T> HOSTCUDA_UNSEEN void exchange_values(void *const *slots, unsigned count) {
    for (unsigned i = 0; i < count; i++)
        if (auto *slot = (value_slot<T> *)slots[i]) {
            auto *source = (const value_slot<T> *)slots[slot->source];
            slot->result = source ? source->value : slot->value;
        }
}

}  // namespace groups
}  // namespace hostcuda

namespace cooperative_groups {

enum group_type { coalesced_group_id, multi_grid_group_id, grid_group_id, thread_block_id, multi_tile_group_id };

namespace details {

inline unsigned thread_number() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
inline unsigned block_threads() { return blockDim.x * blockDim.y * blockDim.z; }
inline unsigned lane_mask(unsigned count) { return 0xffffffffu >> (32 - count); }

}  // namespace details

// Any group of threads of a block.
class thread_group {
  public:
    void sync(HOSTCUDA_HERE) const {
        if (lanes) hostcuda::warp_collective(lanes, nullptr, nullptr, "sync", file, line);
        else if (threads) meet(nullptr, nullptr, "sync", file, line);
        else __syncthreads(file, line);
    }
    unsigned long long num_threads() const {
        return lanes ? (unsigned)__popc(lanes) : threads ? threads : details::block_threads();
    }
    unsigned long long size() const { return num_threads(); }
    unsigned long long thread_rank() const {
        if (lanes) return (unsigned)__popc(lanes & ((1u << hostcuda::lane_id()) - 1));
        return threads ? details::thread_number() % threads : details::thread_number();
    }
    group_type get_type() const { return lanes ? coalesced_group_id : threads ? multi_tile_group_id : thread_block_id; }

  protected:
    constexpr thread_group(unsigned lanes, unsigned threads) : lanes(lanes), threads(threads) {}

    unsigned lanes;                         // of a warp, as a mask; or 0
    unsigned threads;                       // of a tile of several warps; 0: the whole block

    // All threads of a tile of several warps call combine with their slots.
    void meet(void *mine, void (*combine)(void *const *, unsigned), const char *what, const char *file, int line) const {
        unsigned first = details::thread_number() / threads * threads, left = details::block_threads() - first;
        // 64 threads: numbers 0 to 15, 128 threads: 16 to 23, and so on.
        unsigned number = 32 - 2048 / threads + first / threads;
        hostcuda::follow(hostcuda::meet_at(hostcuda::first_tile_phase + number, first, left < threads ? left : threads, mine,
                                       combine, what, file, line));
    }

    friend thread_group tiled_partition(const thread_group &parent, unsigned size);
};

// All threads of the block.
class thread_block : public thread_group {
  public:
    constexpr thread_block() : thread_group(0, 0) {}

    struct arrival_token { unsigned number; };

    static void sync(HOSTCUDA_HERE) { __syncthreads(file, line); }
    static arrival_token barrier_arrive(HOSTCUDA_HERE) {
        return {hostcuda::arrive_at_number(hostcuda::block_arrival, num_threads(), "barrier_arrive", file, line)};
    }
    static void barrier_wait(arrival_token &&token, HOSTCUDA_HERE) {
        hostcuda::follow(hostcuda::wait_for(hostcuda::block_phase(hostcuda::block_arrival), token.number, "barrier_wait", file, line));
    }
    static unsigned thread_rank() { return details::thread_number(); }
    static unsigned size() { return num_threads(); }
    static unsigned num_threads() { return details::block_threads(); }
    static dim3 group_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 thread_index() { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    static dim3 group_dim() { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    static dim3 dim_threads() { return group_dim(); }
};

inline thread_block this_thread_block() { return {}; }

// Memory for tiles of several warps, which need none here.
template <unsigned most_threads = 1024> struct block_tile_memory { unsigned unused; };
template <unsigned most_threads> inline thread_block this_thread_block(block_tile_memory<most_threads> &) { return {}; }

// All blocks of the launch.
class grid_group {
  public:
    static bool is_valid() { return hostcuda::is_cooperative(); }
    static void sync(HOSTCUDA_HERE) {
        if (!is_valid())
            hostcuda::fail("grid.sync() at %s:%d: the launch is not cooperative: launch with cudaLaunchCooperativeKernel, or end the kernel "
                         "here and launch a second one", file, line);
        hostcuda::barrier(0, "grid.sync()", file, line);
        hostcuda::follow(hostcuda::wait_for_grid(file, line));
    }
    static unsigned long long block_rank() {
        return ((unsigned long long)blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    }
    static unsigned long long num_blocks() { return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static unsigned long long thread_rank() { return block_rank() * details::block_threads() + details::thread_number(); }
    static unsigned long long num_threads() { return num_blocks() * details::block_threads(); }
    static unsigned long long size() { return num_threads(); }
    static dim3 block_index() { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    static dim3 dim_blocks() { return dim3(gridDim.x, gridDim.y, gridDim.z); }
    static dim3 group_dim() { return dim_blocks(); }
};

inline grid_group this_grid() { return {}; }

// The blocks of a cluster (cluster.h).
class cluster_group {
  public:
    struct arrival_token {};

    static void sync(HOSTCUDA_HERE) {
        hostcuda::arrive_at_cluster(true, "cluster.sync()", file, line);
        hostcuda::await_cluster("cluster.sync()", file, line);
    }
    static arrival_token barrier_arrive(HOSTCUDA_HERE) {
        hostcuda::arrive_at_cluster(true, "cluster.barrier_arrive()", file, line);
        return {};
    }
    static void barrier_wait(HOSTCUDA_HERE) { hostcuda::await_cluster("cluster.barrier_wait()", file, line); }
    static void barrier_wait(arrival_token &&, HOSTCUDA_HERE) { barrier_wait(file, line); }
    template <class T> static T *map_shared_rank(T *address, int rank, HOSTCUDA_HERE) {
        return (T *)hostcuda::map_shared_to((const void *)address, rank, "cluster.map_shared_rank()", file, line);
    }
    static unsigned query_shared_rank(const void *address) { return hostcuda::rank_of_shared(address); }
    static unsigned block_rank() { return __clusterRelativeBlockRank(); }
    static unsigned num_blocks() { return __clusterSizeInBlocks(); }
    static dim3 block_index() { return __clusterRelativeBlockIdx(); }
    static dim3 dim_blocks() { return __clusterDim(); }
    static unsigned thread_rank() { return block_rank() * details::block_threads() + details::thread_number(); }
    static unsigned num_threads() { return num_blocks() * details::block_threads(); }
    static unsigned size() { return num_threads(); }
    static dim3 dim_threads() { return {num_blocks() ? __clusterDim().x * blockDim.x : 0, __clusterDim().y * blockDim.y, __clusterDim().z * blockDim.z}; }
    static dim3 thread_index() {
        dim3 at = __clusterRelativeBlockIdx();
        return {at.x * blockDim.x + threadIdx.x, at.y * blockDim.y + threadIdx.y, at.z * blockDim.z + threadIdx.z};
    }
};

inline cluster_group this_cluster() { return {}; }

namespace details {

// Lanes of one warp. Ranks count the lanes of the mask, starting with the lowest.
class lane_group : public thread_group {
  public:
    explicit lane_group(unsigned mask) : thread_group(mask, 0) {}

    void sync(HOSTCUDA_HERE) const { hostcuda::warp_collective(lanes, nullptr, nullptr, "sync", file, line); }
    unsigned thread_rank() const { return (unsigned)thread_group::thread_rank(); }
    unsigned num_threads() const { return (unsigned)__popc(lanes); }
    unsigned size() const { return num_threads(); }

    template <class T> T shfl(T value, unsigned rank, HOSTCUDA_HERE) const {
        return exchange(value, rank % num_threads(), file, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, HOSTCUDA_HERE) const {
        unsigned rank = thread_rank();
        return exchange(value, delta <= rank ? rank - delta : rank, file, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, HOSTCUDA_HERE) const {
        unsigned rank = thread_rank();
        return exchange(value, delta < num_threads() - rank ? rank + delta : rank, file, line);
    }
    int any(int predicate, HOSTCUDA_HERE) const { return __any_sync(lanes, predicate, file, line); }
    int all(int predicate, HOSTCUDA_HERE) const { return __all_sync(lanes, predicate, file, line); }
    unsigned ballot(int predicate, HOSTCUDA_HERE) const { return packed(__ballot_sync(lanes, predicate, file, line)); }
    template <class T> unsigned match_any(T value, HOSTCUDA_HERE) const {
        return packed(__match_any_sync(lanes, value, file, line));
    }
    template <class T> unsigned match_all(T value, int &predicate, HOSTCUDA_HERE) const {
        return packed(__match_all_sync(lanes, value, &predicate, file, line));
    }
    unsigned mask() const { return lanes; }

  protected:
    // The lane with a given rank in the group.
    unsigned lane_of(unsigned rank) const {
        unsigned left = lanes;
        while (rank-- > 0) left &= left - 1;
        return (unsigned)__builtin_ctz(left);
    }
    // The group's bits of a warp's word, packed: bit i is that of rank i.
    unsigned packed(unsigned word) const {
        unsigned result = 0, rank = 0;
        for (unsigned left = lanes; left != 0; left &= left - 1) result |= (word >> __builtin_ctz(left) & 1) << rank++;
        return result;
    }
    template <class T> T exchange(T value, unsigned rank, const char *file, int line) const {
        return hostcuda::shuffle(hostcuda::shuffle_index, lanes, value, lane_of(rank), 32, "__shfl_sync", file, line);
    }
};

// `count` neighbouring threads: lanes of a warp, or several warps.
template <unsigned count> class warp_tile : public lane_group {
  public:
    warp_tile() : lane_group(lane_mask(count) << (hostcuda::lane_id() & ~(count - 1))) {}

    static unsigned thread_rank() { return hostcuda::lane_id() & (count - 1); }
    template <class T> T shfl_xor(T value, unsigned lane_mask, HOSTCUDA_HERE) const {
        return hostcuda::shuffle(hostcuda::shuffle_xor, lanes, value, lane_mask, (int)count, "__shfl_xor_sync", file, line);
    }
};

template <unsigned count> class block_tile : public thread_group {
  public:
    block_tile() : thread_group(0, count) {}

    static unsigned thread_rank() { return thread_number() % count; }
    template <class T> T shfl(T value, unsigned rank, HOSTCUDA_HERE) const {
        hostcuda::groups::value_slot<T> slot{value, value, rank % count};
        meet(&slot, hostcuda::groups::exchange_values<T>, "shfl", file, line);
        return slot.result;
    }
    int any(int predicate, HOSTCUDA_HERE) const {
        return fold_here<hostcuda::groups::fold_all>(predicate != 0, [](int a, int b) { return a | b; }, "any", file, line);
    }
    int all(int predicate, HOSTCUDA_HERE) const {
        return fold_here<hostcuda::groups::fold_all>(predicate != 0, [](int a, int b) { return a & b; }, "all", file, line);
    }
    template <hostcuda::groups::fold_kind kind, class T, class Operation>
    T fold_here(T value, const Operation &operation, const char *what, const char *file, int line) const {
        auto slot = hostcuda::groups::slot_for<kind>(value, operation);
        meet(&slot, hostcuda::groups::fold<kind, T>, what, file, line);
        return slot.result;
    }
};

}  // namespace details

// A tile of `count` threads, a power of two; Parent is the type of the group that was divided.
template <unsigned count, class Parent = void>
class thread_block_tile : public std::conditional_t<(count <= 32), details::warp_tile<(count <= 32 ? count : 32)>, details::block_tile<count>> {
    static_assert(count != 0 && count <= 1024 && (count & (count - 1)) == 0,
                  "the number of threads of a tile is a power of two up to 1024");

  public:
    thread_block_tile(unsigned rank, unsigned groups) : number(rank), groups(groups) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<count, Other> &other)
        : number(other.meta_group_rank()), groups(other.meta_group_size()) {}

    static constexpr unsigned size() { return count; }
    static constexpr unsigned num_threads() { return count; }
    unsigned meta_group_rank() const { return number; }    // the number of this tile in the parent
    unsigned meta_group_size() const { return groups; }    // the parent's number of tiles

  private:
    unsigned number, groups;
};

// The converged lanes of a warp, or some of them.
class coalesced_group : public details::lane_group {
  public:
    explicit coalesced_group(unsigned mask, unsigned number = 0, unsigned groups = 1)
        : lane_group(mask), number(number), groups(groups) {}

    unsigned meta_group_rank() const { return number; }
    unsigned meta_group_size() const { return groups; }

  private:
    unsigned number, groups;
};

template <unsigned count, class Parent>
inline thread_block_tile<count, Parent> tiled_partition(const Parent &parent) {
    return {(unsigned)parent.thread_rank() / count, ((unsigned)parent.size() + count - 1) / count};
}

namespace details {

// The lanes of `mask` with the ranks of this lane's tile.
inline unsigned tile_of_lanes(unsigned mask, unsigned size) {
    unsigned rank = (unsigned)__popc(mask & ((1u << hostcuda::lane_id()) - 1)), first = rank / size * size, result = 0, i = 0;
    for (unsigned left = mask; left != 0; left &= left - 1, i++)
        if (i >= first && i < first + size) result |= left & -left;
    return result;
}

inline void require_tile_size(unsigned size) {
    if (size == 0 || size > 32 || (size & (size - 1)) != 0)
        hostcuda::fail("tiled_partition(group, %u): the number of threads of a tile is a power of two up to 32", size);
}

}  // namespace details

inline coalesced_group tiled_partition(const coalesced_group &parent, unsigned size) {
    details::require_tile_size(size);
    return coalesced_group(details::tile_of_lanes(parent.mask(), size), parent.thread_rank() / size,
                           (parent.size() + size - 1) / size);
}
inline thread_group tiled_partition(const thread_group &parent, unsigned size) {
    details::require_tile_size(size);
    if (parent.lanes) return coalesced_group(details::tile_of_lanes(parent.lanes, size));
    return coalesced_group(details::lane_mask(size) << (hostcuda::lane_id() & ~(size - 1)));
}

inline coalesced_group coalesced_threads(HOSTCUDA_HERE) {
    return coalesced_group(hostcuda::warp_converged(file, line));
}

// The threads of the group with the same label, or the same predicate. The parts are numbered by their first threads; with
// a predicate, those for which it is true are the second part.
template <class Group, class Label>
inline coalesced_group labeled_partition(const Group &group, Label label, HOSTCUDA_HERE) {
    static_assert(std::is_integral_v<Label>, "the label of a partition is an integer");
    typedef std::conditional_t<sizeof(Label) <= 4, int, long long> Word;
    unsigned mine = __match_any_sync(group.mask(), (Word)label, file, line);
    unsigned lane = hostcuda::lane_id(), first = (unsigned)__builtin_ctz(mine);
    unsigned leaders = __ballot_sync(group.mask(), lane == first, file, line);
    return coalesced_group(mine, (unsigned)__popc(leaders & ((1u << first) - 1)), (unsigned)__popc(leaders));
}
template <class Group> inline coalesced_group binary_partition(const Group &group, bool predicate, HOSTCUDA_HERE) {
    unsigned votes = __ballot_sync(group.mask(), predicate, file, line), mine = predicate ? votes : group.mask() & ~votes;
    return mine == group.mask() ? coalesced_group(mine) : coalesced_group(mine, predicate, 2);
}

template <class Group> inline void sync(const Group &group, HOSTCUDA_HERE) { group.sync(file, line); }
template <class Group> inline auto thread_rank(const Group &group) { return group.thread_rank(); }
template <class Group> inline auto group_size(const Group &group) { return group.size(); }

// One thread of the group calls function(arguments...).
template <class Group, class Function, class... A>
inline void invoke_one(const Group &group, Function &&function, A &&...arguments) {
    if (group.thread_rank() == 0) std::forward<Function>(function)(std::forward<A>(arguments)...);
}
template <class Group, class Function, class... A>
inline auto invoke_one_broadcast(const Group &group, Function &&function, A &&...arguments) {
    decltype(function(arguments...)) result{};
    if (group.thread_rank() == 0) result = std::forward<Function>(function)(std::forward<A>(arguments)...);
    return group.shfl(result, 0);
}

// Operators for reduce and the scans.
template <class T = void> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T = void> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T = void> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T = void> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T = void> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T = void> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };
template <> struct plus<void> { template <class T> T operator()(T a, T b) const { return a + b; } };
template <> struct less<void> { template <class T> T operator()(T a, T b) const { return b < a ? b : a; } };
template <> struct greater<void> { template <class T> T operator()(T a, T b) const { return a < b ? b : a; } };
template <> struct bit_and<void> { template <class T> T operator()(T a, T b) const { return a & b; } };
template <> struct bit_or<void> { template <class T> T operator()(T a, T b) const { return a | b; } };
template <> struct bit_xor<void> { template <class T> T operator()(T a, T b) const { return a ^ b; } };

namespace details {

template <hostcuda::groups::fold_kind kind, class Group, class T, class Operation>
inline T fold_group(const Group &group, T value, const Operation &operation, const char *what, const char *file, int line) {
    if constexpr (std::is_base_of_v<lane_group, Group>) {
        auto slot = hostcuda::groups::slot_for<kind>(value, operation);
        auto combine = [](void *const *slots, unsigned) { hostcuda::groups::fold<kind, T>(slots, 32); };
        hostcuda::warp_collective(group.mask(), &slot, combine, what, file, line);
        return slot.result;
    } else {
        return group.template fold_here<kind>(value, operation, what, file, line);
    }
}

}  // namespace details

// The result is the same in every thread of a tile or a coalesced group.
template <class Group, class T, class Operation>
inline T reduce(const Group &group, T value, Operation operation, HOSTCUDA_HERE) {
    return details::fold_group<hostcuda::groups::fold_all>(group, value, operation, "reduce", file, line);
}

// The sum (or another operation's result) of the values of all lower ranks, and of this rank's if it is inclusive. The
// exclusive result of rank 0 is T().
template <class Group, class T, class Operation = plus<T>>
inline T inclusive_scan(const Group &group, T value, Operation operation = {}, HOSTCUDA_HERE) {
    return details::fold_group<hostcuda::groups::fold_inclusive>(group, value, operation, "inclusive_scan", file, line);
}
template <class Group, class T, class Operation = plus<T>>
inline T exclusive_scan(const Group &group, T value, Operation operation = {}, HOSTCUDA_HERE) {
    return details::fold_group<hostcuda::groups::fold_exclusive>(group, value, operation, "exclusive_scan", file, line);
}

}  // namespace cooperative_groups
