// The threads of a block on one worker, as kernels and the runtime see them.
//
// A thread that must wait is put into a list, and the first ready one continues. The ready fibers are a list that follows
// the current one: the next to continue is current->next. If they come to a barrier in this order, their list is already that
// of those who wait there, and only its last one is noted. A kernel does that itself, without a call of the runtime (sync.h).
#pragma once
#include "context.h"
#include "queue.h"

namespace hostcuda {

struct Index { unsigned x, y, z; };

struct alignas(16) Thread {
    Index index;               // threadIdx
    unsigned number;           // the same as one number; check mode: ~0 before the first one
};

// The function at which threads wait, and where it is called.
struct Place {
    const char *what, *file;
    int line;

    bool is(const char *file, int line) const { return this->line == line && this->file == file; }
};

struct Fiber;

// Lanes that wait for each other by mask.
struct Meeting {
    Meeting *next;
    void (*combine)(void *const *lanes, unsigned arrived);
    unsigned warp, mask, arrived;
    unsigned awaited;          // those of the mask that have not ended
    Place place;               // of the first lane
    bool mixed;                // not all are there
    Queue<Fiber> waiting;
    void *lanes[32];
};

// One cache line, which every barrier uses.
struct alignas(64) Fiber {
    Context context;
    Fiber *next;               // in its list
    Thread thread;

    struct Wait *wait;         // for the runtime: what its thread waits for
    char *top;                 // of its stack
};

// The thread that runs, of each worker.
struct Turn {
    Thread thread;             // begins with threadIdx
    Fiber *current;

    // The thread before waits at the barrier: its place, else null. Or for lanes of its warp: their meeting, else null. In both
    // cases the current fiber follows the one before in its list.
    const char *file;
    int line;
    unsigned arrived, votes;   // threads at the barrier, those of them with a true predicate
    Meeting *meeting;
    Fiber *last;               // the one before; the current one while it changes the lists, so that no signal suspends it
};

// The current fiber is suspended where the one before it waits, too.
static inline __attribute__((always_inline)) Switch follow_last(Turn &turn, Fiber *me, Fiber *next) {
    if (next->next) prefetch(next->next->context);
    turn.current = next;
    turn.thread = next->thread;
    return {&me->context, &next->context};
}

}  // namespace hostcuda
