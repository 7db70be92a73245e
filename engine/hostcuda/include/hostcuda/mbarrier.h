// Barriers in shared memory with phases (PTX: mbarrier), and bulk copies, for which they or groups of their thread wait.
//
// The runtime (runtime/mbarriers.cpp, runtime/bulk.cpp) keeps the state of an mbarrier; in the kernel's memory is a word that
// tells whether something else has written there. A bulk copy is made as late as it may be: when all threads wait, and one of
// them for this copy, or when its thread waits for it. Its target has meaningless bytes until then. So a kernel that relies on
// an early copy fails here, too.
#pragma once
#include "async.h"
#include "sync.h"

namespace hostcuda {

#define HOSTCUDA_PLACE const char *what, const char *file, int line
HOSTCUDA_API void make_mbarrier(void *at, unsigned expected, HOSTCUDA_PLACE);
HOSTCUDA_API void end_mbarrier(void *at, HOSTCUDA_PLACE);
// Expect these bytes in the current phase (less than none: so many are there), and let `count` threads arrive. Returns the
// phase, and above its 32 bits the arrivals that were missing before.
HOSTCUDA_API unsigned long long arrive_at_mbarrier(void *at, unsigned count, long bytes, Arrival, HOSTCUDA_PLACE);
// Wait for the phase that arrive_at_mbarrier has returned, or for the last one with this parity, unless that is -1. One that
// `tries` may go on without: mbarrier_waited() says whether the phase has ended.
HOSTCUDA_API Switch wait_at_mbarrier(void *at, unsigned long long phase, int parity, bool tries, HOSTCUDA_PLACE) noexcept;
HOSTCUDA_API bool mbarrier_waited();
// The thread's copies in the background (async.h) are complete in the current phase.
HOSTCUDA_API void complete_copies_at(void *at, HOSTCUDA_PLACE);

// Begin a copy, for which an mbarrier counts bytes, or if null a group of the thread; `combine`, if not null, makes of the
// target's bytes and the new ones what is written. `watched` is what hostcuda_bulk_writes has returned. The source may be
// gone afterwards, if the copy is `of_values`.
HOSTCUDA_API void begin_bulk(const Piece *pieces, unsigned count, void *mbarrier, void (*combine)(char *to, const char *from, size_t bytes),
                             unsigned watched, bool of_values, HOSTCUDA_PLACE);
HOSTCUDA_API void commit_bulk();
HOSTCUDA_API void await_bulk(unsigned prior, bool only_read);   // all but the last groups; only that their sources are read

}  // namespace hostcuda

#ifdef HOSTCUDA_CHECK
extern "C" HOSTCUDA_API void hostcuda_barrier_made(void *barrier);
extern "C" HOSTCUDA_API void hostcuda_barrier_used(void *barrier);
// A copy is about to begin: first its reads, then its writes.
extern "C" HOSTCUDA_API void hostcuda_bulk_reads(const hostcuda::Piece *pieces, unsigned count, const char *reader);
extern "C" HOSTCUDA_API unsigned hostcuda_bulk_writes(const hostcuda::Piece *pieces, unsigned count, bool combines, const char *writer = "a bulk copy");
extern "C" HOSTCUDA_API void hostcuda_proxy_fence(bool shared, bool global);
// What the thread has done is before its next arrival at the barrier of the cluster, also if that is relaxed.
extern "C" HOSTCUDA_API void hostcuda_cluster_fence();
// The mbarrier of a copy, which may be in another block of the cluster.
extern "C" HOSTCUDA_API void hostcuda_barrier_counts(void *barrier);
// Of a programmatic launch: the thread waits for the launches before it; those behind it may begin.
extern "C" HOSTCUDA_API void hostcuda_grid_wait();
extern "C" HOSTCUDA_API void hostcuda_grid_launch_dependents();
// A copy of a tensor's box with this swizzle begins, of a box that may be outside of the tensor; a product reads an operand from
// there on with that one.
extern "C" HOSTCUDA_API void hostcuda_tile_copied(const void *to, size_t bytes, unsigned swizzle, const char *file, int line);
extern "C" HOSTCUDA_API void hostcuda_box_outside(const char *what, const char *file, int line);
extern "C" HOSTCUDA_API void hostcuda_tile_used(const void *from, size_t bytes, unsigned swizzle, const char *file, int line);
#else
inline void hostcuda_barrier_made(void *) {}
inline void hostcuda_barrier_used(void *) {}
inline void hostcuda_bulk_reads(const hostcuda::Piece *, unsigned, const char *) {}
inline unsigned hostcuda_bulk_writes(const hostcuda::Piece *, unsigned, bool, const char * = nullptr) { return 0; }
inline void hostcuda_proxy_fence(bool, bool) {}
inline void hostcuda_cluster_fence() {}
inline void hostcuda_barrier_counts(void *) {}
inline void hostcuda_grid_wait() {}
inline void hostcuda_grid_launch_dependents() {}
inline void hostcuda_tile_copied(const void *, size_t, unsigned, const char *, int) {}
inline void hostcuda_box_outside(const char *, const char *, int) {}
inline void hostcuda_tile_used(const void *, size_t, unsigned, const char *, int) {}
#endif

// Inlined, so that what check mode is told has the line of the kernel.
#define HOSTCUDA_INLINED inline __attribute__((always_inline))

namespace hostcuda {

// Refuse what is not aligned as a bulk copy has to be.
inline void require_bulk(const char *to, const char *from, size_t bytes, const char *what, const char *file, int line) {
    const char *wrong = (size_t)to % 16 ? "its target" : (size_t)from % 16 ? "its source" : bytes % 16 ? "its size" : nullptr;
    if (wrong)
        fail("%s at %s:%d, of %zu bytes: %s is no multiple of 16 bytes, and a GPU stops there or hangs", what, file, line, bytes, wrong);
}

HOSTCUDA_INLINED void copy_bulk(char *to, const char *from, size_t bytes, void *mbarrier, void (*combine)(char *, const char *, size_t),
                      const char *what, const char *file, int line) {
    require_bulk(to, from, bytes, what, file, line);
    if (mbarrier) hostcuda_barrier_counts(mbarrier);
    Piece piece{to, from, bytes};
    hostcuda_bulk_reads(&piece, 1, "a bulk copy");
    unsigned watched = hostcuda_bulk_writes(&piece, 1, combine != nullptr);
    begin_bulk(&piece, 1, mbarrier, combine, watched, false, what, file, line);
}

HOSTCUDA_INLINED bool wait_mbarrier(void *at, unsigned long long phase, int parity, bool tries, const char *what, const char *file, int line) {
    hostcuda_barrier_used(at);
    follow(wait_at_mbarrier(at, phase, parity, tries, what, file, line));
    return mbarrier_waited();
}

HOSTCUDA_INLINED unsigned long long arrive_mbarrier(void *at, unsigned count, long bytes, Arrival how, const char *what, const char *file, int line) {
    hostcuda_barrier_used(at);
    return arrive_at_mbarrier(at, count, bytes, how, what, file, line);
}

HOSTCUDA_INLINED void init_mbarrier(void *at, unsigned count, const char *what, const char *file, int line) {
    hostcuda_barrier_made(at);
    make_mbarrier(at, count, what, file, line);
}

}  // namespace hostcuda
