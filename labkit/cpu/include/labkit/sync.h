// Barriers, fences, and the meeting of a warp's lanes.
//
// Where a thread has to wait, the runtime (runtime/block.cpp) notes that, chooses who runs next, and the
// switch is made here, in the kernel (context.h says why). Each call brings the place in the source where it
// stands, so that the runtime can say which threads wait where.
#pragma once
#include "context.h"
#include "words.h"

#define LABKIT_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

LABKIT_WORD unsigned labkit_spins;            // how often this thread has called maybe_yield
LABKIT_WORD int labkit_votes, labkit_voters;  // at the last barrier: how many threads said yes, how many came

namespace labkit {

// They throw nothing, so that no stretch of code begins between them and the switch: check mode would note it for the
// thread that runs next.
LABKIT_API Switch arrive(int predicate, const char *what, const char *file, int line) noexcept;
LABKIT_API Switch meet(unsigned mask, void *mine, void (*combine)(void *const *lanes, unsigned arrived),
                       const char *what, const char *file, int line) noexcept;
LABKIT_API Switch gather(const char *file, int line) noexcept;
LABKIT_API unsigned gathered();
LABKIT_API Switch let_others_run() noexcept;

// The lanes in `mask` meet. `mine` points to this lane's slot, readable by all. When the last live lane of
// `mask` has arrived, it runs combine(lanes, arrived) once (lanes[i] is null unless bit i of arrived), then
// all continue.
inline void warp_collective(unsigned mask, void *mine, void (*combine)(void *const *lanes, unsigned arrived),
                            const char *what, LABKIT_HERE) {
    follow(meet(mask, mine, combine, what, file, line));
}

// The lanes that reach this same call together: found when no lane of the warp can run any further.
inline unsigned warp_converged(LABKIT_HERE) {
    follow(gather(file, line));
    return gathered();
}

LABKIT_API unsigned lane_id();

// Let another thread of the block run.
inline void yield() { follow(let_others_run()); }

// For operations that a thread may repeat until another thread acts (a lock's atomicCAS).
inline void maybe_yield() {
    if (++labkit_spins % 64 == 0) yield();
}

// Give the launch up with a sentence (printf-like) that says why.
[[noreturn]] LABKIT_API void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace labkit

inline void __syncthreads(LABKIT_HERE) { labkit::follow(labkit::arrive(0, "__syncthreads", file, line)); }

inline int __syncthreads_count(int predicate, LABKIT_HERE) {
    labkit::follow(labkit::arrive(predicate, "__syncthreads_count", file, line));
    return labkit_votes;
}

inline int __syncthreads_and(int predicate, LABKIT_HERE) {
    labkit::follow(labkit::arrive(predicate, "__syncthreads_and", file, line));
    return labkit_votes == labkit_voters;
}

inline int __syncthreads_or(int predicate, LABKIT_HERE) {
    labkit::follow(labkit::arrive(predicate, "__syncthreads_or", file, line));
    return labkit_votes != 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, LABKIT_HERE) {
    labkit::warp_collective(mask, nullptr, nullptr, "__syncwarp", file, line);
}

LABKIT_API void __nanosleep(unsigned int nanoseconds);

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// The threads of a block run one at a time on one worker: it is enough that the compiler keeps the order.
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
