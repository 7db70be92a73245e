// Barriers, fences, and collective operations of a warp's lanes.
//
// When a thread must wait, the runtime (runtime/scheduler.cpp) records that and chooses the next thread; the switch is made
// here, in the kernel (context.h says why). Each call passes its place in the source, so that the runtime can report which
// threads wait where. Mostly the thread before has come to the same place, and the next one is ready: then the kernel needs
// no call of the runtime (fiber.h).
#pragma once
#include "fiber.h"
#include "phase.h"
#include "words.h"

// A function whose accesses check mode does not see.
#ifdef HOSTCUDA_CHECK
#define HOSTCUDA_UNSEEN __attribute__((noinline, no_sanitize("thread")))
#else
#define HOSTCUDA_UNSEEN
#endif

#define HOSTCUDA_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

HOSTCUDA_WORD unsigned hostcuda_spins;            // calls of maybe_yield since the last thread was let run
HOSTCUDA_WORD int hostcuda_votes, hostcuda_voters;  // at the last barrier: number of true predicates, number of threads
HOSTCUDA_WORD hostcuda::Turn hostcuda_turn;

namespace hostcuda {

// They do not throw, so that no basic block starts between them and the switch: check mode would record it for the next
// thread.
HOSTCUDA_API Switch arrive(int predicate, const char *what, const char *file, int line) noexcept;
HOSTCUDA_API Switch meet(unsigned mask, void *mine, void (*combine)(void *const *lanes, unsigned arrived),
                       const char *what, const char *file, int line) noexcept;
HOSTCUDA_API Switch gather(const char *file, int line) noexcept;
HOSTCUDA_API unsigned gathered();
// Of a cooperative launch, behind a barrier of the block: wait for the other blocks.
HOSTCUDA_API Switch wait_for_grid(const char *file, int line) noexcept;
HOSTCUDA_API bool is_cooperative();
HOSTCUDA_API Switch let_others_run() noexcept;

HOSTCUDA_API void begin_phases(Phase &phase, unsigned expected);
// Arrive; returns the number of the phase to wait for.
HOSTCUDA_API unsigned arrive_at(Phase &phase, unsigned count, const char *what, const char *file, int line);
// Wait until the phase with that number has ended.
HOSTCUDA_API Switch wait_for(const Phase &phase, unsigned number, const char *what, const char *file, int line) noexcept;

// The barriers with a number. They are zero at the start of a block.
HOSTCUDA_API const Phase &block_phase(unsigned number);
HOSTCUDA_API unsigned arrive_at_number(unsigned number, unsigned expected, const char *what, const char *file, int line);
// `count` threads wait there for each other, and the last one calls combine(slots, count), which are those from thread
// `first` on.
HOSTCUDA_API Switch meet_at(unsigned number, unsigned first, unsigned count, void *mine,
                          void (*combine)(void *const *slots, unsigned count), const char *what, const char *file,
                          int line) noexcept;

// Wait for all threads of the block.
static inline __attribute__((always_inline)) void barrier(int predicate, const char *what, const char *file, int line) {
    Switch s;
#ifndef HOSTCUDA_CHECK   // there the runtime is told of each thread that waits
    Turn &turn = hostcuda_turn;
    Fiber *me = turn.current, *before = turn.last;
    turn.last = me;
    asm volatile("" ::: "memory");
    Fiber *next = me->next;
    if (__builtin_expect(next && turn.line == line && turn.file == file, 1)) {
        turn.arrived++;
        turn.votes += predicate != 0;
        s = follow_last(turn, me, next);
    } else {
        turn.last = before;
        s = arrive(predicate, what, file, line);
    }
#else
    s = arrive(predicate, what, file, line);
#endif
    follow(s);
}

// The lanes in `mask` wait for each other. `mine` points to this lane's slot, which all can read. The last live lane of
// `mask` to arrive calls combine(lanes, arrived) once (lanes[i] is null unless bit i of arrived is set), then all
// continue.
inline void warp_collective(unsigned mask, void *mine, void (*combine)(void *const *lanes, unsigned arrived),
                            const char *what, HOSTCUDA_HERE) {
    follow(meet(mask, mine, combine, what, file, line));
}

// The lanes that reach this call together, determined when no lane of the warp can run further.
inline unsigned warp_converged(HOSTCUDA_HERE) {
    follow(gather(file, line));
    return gathered();
}

#ifdef HOSTCUDA_CHECK
HOSTCUDA_API unsigned lane_id();
HOSTCUDA_API void returns_within(unsigned first, unsigned last);   // the thread returns from a function of these lines (rewrite.py)
#else
inline unsigned lane_id() { return hostcuda_turn.thread.number % 32; }
#endif

// Let another thread of the block run.
inline void yield() { follow(let_others_run()); }

// For operations that a thread may repeat until another thread acts (the atomicCAS of a lock).
inline void maybe_yield() {
    if (++hostcuda_spins < 64) return;
    hostcuda_spins = 0;   // the thread's state is then the same at each turn of its loop (runtime/spins.cpp)
    yield();
}

// Abandon the launch with a message (as for printf).
[[noreturn]] HOSTCUDA_API void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace hostcuda

inline void __syncthreads(HOSTCUDA_HERE) { hostcuda::barrier(0, "__syncthreads", file, line); }

inline int __syncthreads_count(int predicate, HOSTCUDA_HERE) {
    hostcuda::barrier(predicate, "__syncthreads_count", file, line);
    return hostcuda_votes;
}

inline int __syncthreads_and(int predicate, HOSTCUDA_HERE) {
    hostcuda::barrier(predicate, "__syncthreads_and", file, line);
    return hostcuda_votes == hostcuda_voters;
}

inline int __syncthreads_or(int predicate, HOSTCUDA_HERE) {
    hostcuda::barrier(predicate, "__syncthreads_or", file, line);
    return hostcuda_votes != 0;
}

inline void __syncwarp(unsigned mask = 0xffffffffu, HOSTCUDA_HERE) {
    hostcuda::warp_collective(mask, nullptr, nullptr, "__syncwarp", file, line);
}

HOSTCUDA_API void __nanosleep(unsigned int nanoseconds);

inline void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __threadfence_system() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
// The threads of a block run one at a time on one worker, so a barrier for the compiler is sufficient.
inline void __threadfence_block() { __atomic_signal_fence(__ATOMIC_SEQ_CST); }
