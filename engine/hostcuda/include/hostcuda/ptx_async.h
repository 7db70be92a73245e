// Inline PTX of mbarriers, bulk copies and fences of proxies: frontend/ptx_async.py replaces the instructions by calls of these
// functions (see mbarrier.h).
#pragma once
#include "mbarrier.h"
#include "ptx.h"
#include "tensormap.h"

namespace hostcuda {
namespace ptx {

template <class T> inline char *generic_at(T address, int offset) {
    static_assert(sizeof address == 8, "a generic address has 64 bits");
    return (char *)address + offset;
}

HOSTCUDA_INLINED void mbarrier_init(void *at, unsigned count, HOSTCUDA_HERE) { init_mbarrier(at, count, "mbarrier.init", file, line); }
HOSTCUDA_INLINED void mbarrier_inval(void *at, HOSTCUDA_HERE) {
    hostcuda_barrier_made(at);
    end_mbarrier(at, "mbarrier.inval", file, line);
}
HOSTCUDA_INLINED unsigned long long mbarrier_arrive(void *at, unsigned count, unsigned bytes, Arrival how, const char *what, HOSTCUDA_HERE) {
    return arrive_mbarrier(at, count, bytes, how, what, file, line);
}
HOSTCUDA_INLINED void mbarrier_expect_tx(void *at, unsigned bytes, HOSTCUDA_HERE) {
    arrive_mbarrier(at, 0, bytes, Arrival::once, "mbarrier.expect_tx", file, line);
}
HOSTCUDA_INLINED void mbarrier_complete_tx(void *at, unsigned bytes, HOSTCUDA_HERE) {
    arrive_mbarrier(at, 0, -(long)bytes, Arrival::once, "mbarrier.complete_tx", file, line);
}
HOSTCUDA_INLINED bool mbarrier_wait(void *at, unsigned long long phase, int parity, const char *what, HOSTCUDA_HERE) {
    return wait_mbarrier(at, phase, parity, true, what, file, line);
}
// Here the copies are made already. If the arrival is not one that the barrier was made to expect, it adds itself, and comes.
HOSTCUDA_INLINED void cp_async_arrive(void *at, bool is_expected, HOSTCUDA_HERE) {
    hostcuda_barrier_used(at);
    complete_copies_at(at, "cp.async.mbarrier.arrive", file, line);
    if (is_expected) arrive_at_mbarrier(at, 1, 0, Arrival::once, "cp.async.mbarrier.arrive.noinc", file, line);
}

HOSTCUDA_INLINED void bulk_to_shared(char *to, const char *from, unsigned bytes, void *mbarrier, HOSTCUDA_HERE) {
    copy_bulk(to, from, bytes, mbarrier, nullptr, "cp.async.bulk", file, line);
}
// To each block of the cluster whose bit is set, at the same place in its shared memory.
template <class Copy> HOSTCUDA_INLINED void copy_to_blocks(char *to, void *mbarrier, unsigned blocks, const char *file, int line, Copy copy) {
    for (unsigned left = blocks & 0xffff; left; left &= left - 1) {
        const unsigned rank = __builtin_ctz(left);
        copy((char *)map_shared_to(to, rank, "multicast::cluster", file, line), map_shared_to(mbarrier, rank, "multicast::cluster", file, line));
    }
}
HOSTCUDA_INLINED void bulk_to_shared(char *to, const char *from, unsigned bytes, void *mbarrier, unsigned blocks, HOSTCUDA_HERE) {
    copy_to_blocks(to, mbarrier, blocks, file, line, [=](char *to, void *mbarrier) __attribute__((always_inline)) {
        copy_bulk(to, from, bytes, mbarrier, nullptr, "cp.async.bulk", file, line);
    });
}
HOSTCUDA_INLINED void bulk_to_global(const char *to, const char *from, unsigned bytes, HOSTCUDA_HERE) {
    copy_bulk((char *)to, from, bytes, nullptr, nullptr, "cp.async.bulk", file, line);
}
HOSTCUDA_INLINED void bulk_reduce(const char *to, const char *from, unsigned bytes, void (*combine)(char *, const char *, size_t), HOSTCUDA_HERE) {
    copy_bulk((char *)to, from, bytes, nullptr, combine, "cp.reduce.async.bulk", file, line);
}

template <class T> inline T reduce_add(T a, T b) { return a + b; }
template <class T> inline T reduce_min(T a, T b) { return b < a ? b : a; }
template <class T> inline T reduce_max(T a, T b) { return a < b ? b : a; }
template <class T> inline T reduce_and(T a, T b) { return a & b; }
template <class T> inline T reduce_or(T a, T b) { return a | b; }
template <class T> inline T reduce_xor(T a, T b) { return a ^ b; }
template <class T> inline T reduce_inc(T a, T b) { return a >= b ? 0 : a + 1; }
template <class T> inline T reduce_dec(T a, T b) { return a == 0 || a > b ? b : a - 1; }
// Called by the runtime: check mode has seen these accesses before.
template <auto operation, class T> HOSTCUDA_UNSEEN void combine(char *to, const char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i += sizeof(T)) {
        T a, b;
        memcpy((void *)&a, to + i, sizeof a);
        memcpy((void *)&b, from + i, sizeof b);
        a = operation(a, b);
        memcpy(to + i, (const void *)&a, sizeof a);
    }
}

// The map's address is a pointer or an integer.
template <class Map> HOSTCUDA_INLINED void box_to_shared(Map map, const int (&at)[5], unsigned rank, char *to, void *mbarrier, HOSTCUDA_HERE) {
    copy_box((const void *)map, at, rank, to, mbarrier, nullptr, "cp.async.bulk.tensor", file, line);
}
template <class Map>
HOSTCUDA_INLINED void box_to_shared(Map map, const int (&at)[5], unsigned rank, char *to, void *mbarrier, unsigned blocks, HOSTCUDA_HERE) {
    copy_to_blocks(to, mbarrier, blocks, file, line, [&](char *to, void *mbarrier) __attribute__((always_inline)) {
        copy_box((const void *)map, at, rank, to, mbarrier, nullptr, "cp.async.bulk.tensor", file, line);
    });
}
// A reduction has the type of the map's elements.
enum class reductions { none, add, min, max, inc, dec, and_, or_, xor_ };
template <class T> inline auto reduction_of(reductions which) -> void (*)(char *, const char *, size_t) {
    switch (which) {
        case reductions::add: return combine<reduce_add<T>, T>;
        case reductions::min: return combine<reduce_min<T>, T>;
        case reductions::max: return combine<reduce_max<T>, T>;
        default: break;
    }
    if constexpr (std::is_integral_v<T>) {
        switch (which) {
            case reductions::inc: return combine<reduce_inc<T>, T>;
            case reductions::dec: return combine<reduce_dec<T>, T>;
            case reductions::and_: return combine<reduce_and<T>, T>;
            case reductions::or_: return combine<reduce_or<T>, T>;
            case reductions::xor_: return combine<reduce_xor<T>, T>;
            default: break;
        }
    }
    return nullptr;
}
// A template, because the compiler would make all of these functions for each source otherwise.
template <class Which> inline auto reduction_of_type(unsigned type, Which which) -> void (*)(char *, const char *, size_t) {
    switch (type) {
        case CU_TENSOR_MAP_DATA_TYPE_UINT32: return reduction_of<unsigned>(which);
        case CU_TENSOR_MAP_DATA_TYPE_INT32: return reduction_of<int>(which);
        case CU_TENSOR_MAP_DATA_TYPE_UINT64: return reduction_of<unsigned long long>(which);
        case CU_TENSOR_MAP_DATA_TYPE_INT64: return reduction_of<long long>(which);
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return reduction_of<__half>(which);
        case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return reduction_of<__nv_bfloat16>(which);
        case CU_TENSOR_MAP_DATA_TYPE_FLOAT32: return reduction_of<float>(which);
        default: return nullptr;
    }
}
template <class Map> HOSTCUDA_INLINED void box_to_global(Map map, const int (&at)[5], unsigned rank, char *from, reductions which, HOSTCUDA_HERE) {
    auto combine = which == reductions::none ? nullptr : reduction_of_type(((const CUtensorMap *)map)->hostcuda_type, which);
    if (which != reductions::none && !combine)
        fail("cp.reduce.async.bulk.tensor at %s:%d: the CPU engine has no such reduction for the type of its map", file, line);
    copy_box((const void *)map, at, rank, from, nullptr, combine, "cp.async.bulk.tensor", file, line);
}

// A store, or an update, whose bytes an mbarrier counts. It is made later, as a copy is.
HOSTCUDA_INLINED void write_later(char *to, const void *words, size_t bytes, void *mbarrier, void (*combine)(char *, const char *, size_t),
                                  const char *what, const char *file, int line) {
    if ((size_t)to % bytes) fail("%s at %s:%d: its address is no multiple of its %zu bytes", what, file, line, bytes);
    hostcuda_barrier_counts(mbarrier);
    Piece piece{to, (const char *)words, bytes};
    unsigned watched = hostcuda_bulk_writes(&piece, 1, combine != nullptr, combine ? "a red.async" : "an st.async");
    begin_bulk(&piece, 1, mbarrier, combine, watched, true, what, file, line);
}
template <class T, class... Value> HOSTCUDA_INLINED void st_async(char *to, char *mbarrier, Value... values) {
    const T words[] = {values...};
    write_later(to, words, sizeof words, mbarrier, nullptr, "st.async", __builtin_FILE(), __builtin_LINE());
}
template <auto operation, class T> HOSTCUDA_INLINED void red_async(char *to, char *mbarrier, T value) {
    write_later(to, &value, sizeof value, mbarrier, combine<operation, T>, "red.async", __builtin_FILE(), __builtin_LINE());
}

HOSTCUDA_INLINED void cluster_arrive(bool releases, HOSTCUDA_HERE) { arrive_at_cluster(releases, "barrier.cluster.arrive", file, line); }
HOSTCUDA_INLINED void cluster_wait(HOSTCUDA_HERE) { await_cluster("barrier.cluster.wait", file, line); }
// Of an address in PTX's window of shared memory, or of a generic one.
template <class T, bool in_window> inline T mapa(T address, unsigned rank, HOSTCUDA_HERE) {
    void *at = map_shared_to(in_window ? __cvta_shared_to_generic(address) : (void *)(size_t)address, rank, "mapa", file, line);
    return in_window ? (T)cluster_window_address(at) : (T)(size_t)at;
}
template <class T, bool in_window> inline unsigned getctarank(T address) {
    return rank_of_shared(in_window ? __cvta_shared_to_generic(address) : (void *)(size_t)address);
}

// One of the lanes that meet: the first.
struct elect_slot { unsigned lane; };
HOSTCUDA_INLINED unsigned elect(unsigned mask, HOSTCUDA_HERE) {
    elect_slot slot{};
    warp_collective(mask, &slot, [](void *const *lanes, unsigned arrived) HOSTCUDA_UNSEEN {
        for (unsigned left = arrived; left; left &= left - 1) ((elect_slot *)lanes[__builtin_ctz(left)])->lane = __builtin_ctz(arrived);
    }, "elect.sync", file, line);
    return slot.lane;
}

}  // namespace ptx
}  // namespace hostcuda

HOSTCUDA_INLINED void cudaGridDependencySynchronize() { hostcuda_grid_wait(); }
HOSTCUDA_INLINED void cudaTriggerProgrammaticLaunchCompletion() { hostcuda_grid_launch_dependents(); }
