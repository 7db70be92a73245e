// Barriers, fences, and the meeting of a warp's lanes: declarations of what runtime/block.cpp does.
//
// Each call brings the place in the source where it stands, so that the runtime can say which threads wait where.
#pragma once
#include "words.h"

#define LABKIT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

LABKIT_API void __syncthreads(LABKIT_HERE);
LABKIT_API int __syncthreads_count(int predicate, LABKIT_HERE);
LABKIT_API int __syncthreads_and(int predicate, LABKIT_HERE);
LABKIT_API int __syncthreads_or(int predicate, LABKIT_HERE);
LABKIT_API void __nanosleep(unsigned int nanoseconds);

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// The threads of a block run one at a time on one worker: it is enough that the compiler keeps the order.
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

LABKIT_WORD unsigned labkit_spins;

namespace labkit {

// The lanes in `mask` meet. `mine` points to this lane's slot, readable by all. When the last live lane of `mask` has
// arrived, it runs combine(lanes, arrived) once (lanes[i] is null unless bit i of arrived), then all continue.
LABKIT_API void warp_collective(unsigned mask, void *mine, void (*combine)(void *const *lanes, unsigned arrived),
                                const char *what, LABKIT_HERE);

// The lanes that reach this same call together: found when no lane of the warp can run any further.
LABKIT_API unsigned warp_converged(LABKIT_HERE);

LABKIT_API unsigned lane_id();

// Let another thread of the block run.
LABKIT_API void yield();

// For operations that a thread may repeat until another thread acts (a lock's atomicCAS).
inline void maybe_yield() {
    if (++labkit_spins % 64 == 0) yield();
}

// Give the launch up with a sentence (printf-like) that says why.
[[noreturn]] LABKIT_API void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace labkit

inline void __syncwarp(unsigned mask = 0xffffffffu, LABKIT_HERE) {
    labkit::warp_collective(mask, nullptr, nullptr, "__syncwarp", file, line);
}
