// Cooperative groups (cooperative_groups.h): thread blocks, tiles of a warp, coalesced threads, and reduce
// over them.
//
// The operations of a tile or a coalesced group are the warp functions of warp.h with the group's lanes as mask.
// Groups of several blocks (grid_group, cluster_group) are not supported, because blocks run one after the other.
#pragma once
#include <type_traits>
#include "sync.h"
#include "warp.h"

namespace cooperative_groups {

// All threads of the block.
class thread_block {
  public:
    void sync(LABKIT_HERE) const { __syncthreads(file, line); }
    unsigned thread_rank() const {
        return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
    }
    unsigned size() const { return num_threads(); }
    unsigned num_threads() const { return blockDim.x * blockDim.y * blockDim.z; }
    dim3 group_index() const { return dim3(blockIdx.x, blockIdx.y, blockIdx.z); }
    dim3 thread_index() const { return dim3(threadIdx.x, threadIdx.y, threadIdx.z); }
    dim3 group_dim() const { return dim3(blockDim.x, blockDim.y, blockDim.z); }
    dim3 dim_threads() const { return group_dim(); }
};

inline thread_block this_thread_block() { return {}; }

namespace details {

// Lanes of one warp, as a mask. Ranks count the lanes of the mask, starting with the lowest.
class lanes {
  public:
    explicit lanes(unsigned mask) : mask(mask) {}

    void sync(LABKIT_HERE) const { __syncwarp(mask, file, line); }
    unsigned thread_rank() const { return (unsigned)__popc(mask & ((1u << labkit::lane_id()) - 1)); }
    unsigned size() const { return (unsigned)__popc(mask); }
    unsigned num_threads() const { return size(); }

    template <class T> T shfl(T value, unsigned rank, LABKIT_HERE) const {
        return exchange(value, rank % size(), file, line);
    }
    template <class T> T shfl_up(T value, unsigned delta, LABKIT_HERE) const {
        unsigned rank = thread_rank();
        return exchange(value, delta <= rank ? rank - delta : rank, file, line);
    }
    template <class T> T shfl_down(T value, unsigned delta, LABKIT_HERE) const {
        unsigned rank = thread_rank();
        return exchange(value, delta < size() - rank ? rank + delta : rank, file, line);
    }
    int any(int predicate, LABKIT_HERE) const { return __any_sync(mask, predicate, file, line); }
    int all(int predicate, LABKIT_HERE) const { return __all_sync(mask, predicate, file, line); }
    unsigned ballot(int predicate, LABKIT_HERE) const {
        return packed(__ballot_sync(mask, predicate, file, line));
    }
    template <class T> unsigned match_any(T value, LABKIT_HERE) const {
        return packed(__match_any_sync(mask, value, file, line));
    }
    template <class T> unsigned match_all(T value, int &predicate, LABKIT_HERE) const {
        return packed(__match_all_sync(mask, value, &predicate, file, line));
    }

  protected:
    unsigned mask;

    // The lane with a given rank in the group.
    unsigned lane_of(unsigned rank) const {
        unsigned left = mask;
        while (rank-- > 0) left &= left - 1;
        return (unsigned)__builtin_ctz(left);
    }
    // The group's bits of a warp's word, packed: bit i is that of rank i.
    unsigned packed(unsigned word) const {
        unsigned result = 0, rank = 0;
        for (unsigned left = mask; left != 0; left &= left - 1)
            result |= (word >> __builtin_ctz(left) & 1) << rank++;
        return result;
    }
    template <class T> T exchange(T value, unsigned rank, const char *file, int line) const {
        return __shfl_sync(mask, value, (int)lane_of(rank), 32, file, line);
    }
};

}  // namespace details

// `count` neighbouring lanes (a power of two up to 32); Parent is the type of the group that was divided.
template <unsigned count, class Parent = void> class thread_block_tile : public details::lanes {
    static_assert(count != 0 && count <= 32 && (count & (count - 1)) == 0,
                  "a tile has 1, 2, 4, 8, 16 or 32 threads");

  public:
    thread_block_tile(unsigned rank, unsigned groups)
        : lanes((0xffffffffu >> (32 - count)) << (labkit::lane_id() & ~(count - 1))), rank(rank),
          groups(groups) {}
    template <class Other>
    thread_block_tile(const thread_block_tile<count, Other> &other)
        : lanes(other), rank(other.meta_group_rank()), groups(other.meta_group_size()) {}

    static constexpr unsigned size() { return count; }
    static constexpr unsigned num_threads() { return count; }
    unsigned thread_rank() const { return labkit::lane_id() & (count - 1); }
    unsigned meta_group_rank() const { return rank; }      // the number of this tile in the parent
    unsigned meta_group_size() const { return groups; }    // the parent's number of tiles
    template <class T> T shfl_xor(T value, unsigned lane_mask, LABKIT_HERE) const {
        return __shfl_xor_sync(mask, value, (int)lane_mask, (int)count, file, line);
    }

  private:
    unsigned rank, groups;
};

// The converged lanes of a warp.
class coalesced_group : public details::lanes {
  public:
    using lanes::lanes;
};

template <unsigned count, class Parent>
inline thread_block_tile<count, Parent> tiled_partition(const Parent &parent) {
    return {parent.thread_rank() / count, (parent.size() + count - 1) / count};
}
inline coalesced_group coalesced_threads(LABKIT_HERE) {
    return coalesced_group(labkit::warp_converged(file, line));
}

template <class Group> inline void sync(const Group &group, LABKIT_HERE) { group.sync(file, line); }
template <class Group> inline unsigned thread_rank(const Group &group) { return group.thread_rank(); }
template <class Group> inline unsigned group_size(const Group &group) { return group.size(); }

// Operators for reduce.
template <class T> struct plus { T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { T operator()(T a, T b) const { return a ^ b; } };

// The result is the same in every thread of a tile or a coalesced group.
template <class Group, class T, class Operation>
inline T reduce(const Group &group, T value, Operation operation, LABKIT_HERE) {
    T total = group.shfl(value, 0, file, line);
    for (unsigned rank = 1; rank < group.size(); rank++)
        total = operation(total, group.shfl(value, rank, file, line));
    return total;
}

}  // namespace cooperative_groups
