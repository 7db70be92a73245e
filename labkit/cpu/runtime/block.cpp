// A block of threads on one worker.
//
// The threads of a block run on fibers (stacks). One fiber runs threads 0, 1, 2, ... to their ends in a loop. When a thread
// must wait, at a barrier or for the other lanes of its warp, its fiber is suspended with it, and another fiber continues:
// one whose thread can continue, or else a new one with the next thread. So a kernel without barriers uses one fiber, and a
// barrier costs one switch per thread.
//
// A thread runs until it waits, ends, or repeats an atomic operation (labkit::maybe_yield). A loop that only reads memory
// until another thread of its block writes there ends on a GPU, but not here.
//
// No lock and no atomic operation is needed, because all threads of a block are on one worker. The next fiber is chosen
// from, in this order:
//
//   ready      fibers whose threads can continue, in order of arrival
//   unstarted  threads that have not started
//   converged  lanes at a warp function without a mask, which continue when their warps have no other lanes to run
//   (none)     every thread waits for another: a deadlock, which ends the launch
//
// A launch that fails (deadlock, divergent barrier, assertion, invalid address) is left by switching to the worker's own
// stack; the stacks of the fibers are reused from their tops.
#undef _FORTIFY_SOURCE
#include "check.h"
#include "runtime.h"
#include <atomic>
#include <errno.h>
#include <exception>
#include <memory>
#include <mutex>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <vector>

// The variables of words.h and sync.h. They are in the initial thread-local block: one load from a fixed address.
#define WORD EXPORT __thread __attribute__((tls_model("initial-exec")))
extern "C" {
WORD Index threadIdx, blockIdx, blockDim, gridDim;
WORD void *labkit_dynamic_shared;
WORD unsigned labkit_spins;
WORD int labkit_votes, labkit_voters;
}

using labkit::Context;
using labkit::Switch;
using labkit::switch_context;

namespace {

constexpr unsigned warp_size = 32, max_threads = 1024;
constexpr size_t stack_bytes = 512 << 10;   // in CUDA, too, a thread has at most 512 KB
// The colours need one more page, and an odd number of pages avoids conflicts of stacks in the caches and the TLB.
constexpr size_t stack_pitch = stack_bytes + guard_bytes + page;
constexpr size_t loops_bytes = 64 << 20;    // of the stack for thread loops: the variables of all threads of a block
constexpr unsigned slab_fibers = 32, most_slabs = max_threads / slab_fibers + 1;

struct Fiber;

// First in, first out.
struct Queue {
    Fiber *head = nullptr, **tail = &head;
    void clear() { head = nullptr; tail = &head; }
    inline void push(Fiber *fiber);
    inline Fiber *pop();
    void take_all(Queue &other) {
        if (!other.head) return;
        *tail = other.head;
        tail = other.tail;
        other.clear();
    }
};

// Lanes that wait for each other by mask.
struct Meeting {
    Meeting *next;
    unsigned mask, arrived;
    void (*combine)(void *const *, unsigned);
    Queue waiting;
    void *lanes[warp_size];
};

struct alignas(64) Fiber {
    // One cache line, used by every barrier.
    Context context;
    Fiber *next;               // in its list
    Index index;               // threadIdx of its thread
    unsigned thread;           // the same as one number
    const char *file;          // the place at which its thread waits
    int line;
    unsigned mask;             // the result of warp_converged

    const char *what;          // the function at which its thread waits
    char *top;                 // of its stack
    const labkit::Phase *phase;   // what it waits for, if it sleeps: another number than this
    unsigned number;
    Meeting meeting;           // if its thread is the first to arrive

    void waits_at(const char *what, const char *file, int line) {
        this->what = what;
        this->file = file;
        this->line = line;
    }
};

void Queue::push(Fiber *fiber) {
    fiber->next = nullptr;
    *tail = fiber;
    tail = &fiber->next;
}

Fiber *Queue::pop() {
    Fiber *fiber = head;
    head = fiber->next;
    if (!head) tail = &head;
    return fiber;
}

enum class Access { unknown, read, write, impossible };   // the access that faulted

// Fibers are made in groups, with their stacks in one mapping.
struct Slab {
    char *stacks;
    std::unique_ptr<Fiber[]> fibers;
};

struct Warp {
    unsigned live;             // lanes that have not ended
    Meeting *meetings;
    Queue converged;
#ifdef LABKIT_CHECK
    Queue parked;              // their logs are full
#endif
};

}  // namespace

struct Block {
    // Used at the start, the end and the barriers of every thread.
    Fiber *current;
    Queue ready;
    unsigned started, threads, live;
    unsigned converged;                        // lanes in the warps' converged queues
    Index next;                                // threadIdx of the next thread to start
    void (*call)(const char *);
    const char *arguments;

    // The barrier: waiting threads, the place of the first one, the predicates so far and the last results.
    Queue barrier;
    unsigned arrived = 0;
    Queue sleeping;                            // threads that wait for a phase
    const char *barrier_file;
    int barrier_line;
    bool mixed;                                // they are not all at the same place
    int votes;
#ifdef LABKIT_CHECK
    unsigned absent;                           // ended threads that a finding has named
#endif

    Warp warps[max_threads / warp_size];
    Fiber *free = nullptr;
    labkit::Phase phases[labkit::block_phases];   // of barriers that have a number, zero at the start of a block
    bool phases_used = true;
    void *slots[max_threads];                  // of the threads that meet there
    Fiber loops{};                             // runs thread loops, all threads of a block
    std::vector<Slab> slabs;                   // all fibers
#ifdef LABKIT_CHECK
    char *stacks = nullptr;                    // one range for all stacks
#endif
    SharedMemory shared;

    // The worker's own stack, and the reason for the return to it.
    Context home, nowhere;
    sigset_t signals;                          // blocked in this worker, except in a signal handler that was left
    const Launch *launch;
    const volatile bool *cancelled;
    volatile bool running = false;
    bool failed;
    int signal;
    const char *fault_address;
    Access access;
    std::string error;
#ifdef LABKIT_CHECK
    uintptr_t left_at, left_stack;             // instruction and stack pointer of the thread that left the launch
    const char *tool, *kind;                   // of the finding, if none was made yet
#endif
};

static __thread Block *block __attribute__((tls_model("initial-exec")));

static std::string triple(Index i) { return format("(%u,%u,%u)", i.x, i.y, i.z); }

// ---- Leaving a launch -------------------------------------------------------------------------------------

[[noreturn]] static void leave(Block &b) {
    b.failed = true;
#ifdef LABKIT_CHECK
    if (!b.left_stack) b.left_stack = (uintptr_t)__builtin_frame_address(0);
#endif
    switch_context(b.nowhere, b.home);
    __builtin_unreachable();
}

// "kernel f, block (0,0,0)", and the thread if it caused the error
static std::string place(Block &b, bool with_thread) {
    std::string text = std::string("kernel ") + b.launch->kernel + ", block " + triple(blockIdx);
    return with_thread ? text + ", thread " + triple(threadIdx) : text;
}

[[noreturn]] static void fail_block(Block &b, const std::string &sentence) {
    b.error = place(b, false) + ": " + sentence;
    leave(b);
}

[[noreturn]] static void fail_thread(Block &b, const std::string &sentence) {
    b.error = place(b, true) + ": " + sentence;
    leave(b);
}

// An error of the kernel: check mode makes a finding of it.
static void blame([[maybe_unused]] Block &b, [[maybe_unused]] const char *tool, [[maybe_unused]] const char *kind) {
#ifdef LABKIT_CHECK
    b.tool = tool;
    b.kind = kind;
#endif
}

namespace labkit {
[[noreturn]] EXPORT void fail(const char *pattern, ...) {
    char text[1000];
    va_list values;
    va_start(values, pattern);
    vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    if (block && block->running) {
        blame(*block, "memcheck", !strncmp(text, "assertion", 9) ? "assertion" : !strncmp(text, "__trap", 6) ? "trap" : "fault");
        fail_thread(*block, text);
    }
    fprintf(stderr, "%s (outside a kernel)\n", text);
    abort();
}
}  // namespace labkit

// Calls of kernels (toolchain.py).
extern "C" {
[[noreturn]] EXPORT void __wrap_abort() { labkit::fail("abort() was called"); }
[[noreturn]] EXPORT void __wrap_exit(int) { labkit::fail("exit() was called: leave a kernel with return, or end the launch with __trap()"); }
[[noreturn]] EXPORT void __wrap__exit(int status) { __wrap_exit(status); }
[[noreturn]] EXPORT void __wrap__Exit(int status) { __wrap_exit(status); }
[[noreturn]] EXPORT void __wrap_quick_exit(int status) { __wrap_exit(status); }
}

bool in_kernel() { return block && block->running; }

// "thread (0,0,0) and 31 more at __syncthreads (a.cu:7); thread ..." for all waiting threads.
static std::string who_waits(Block &b) {
    struct Site { const char *what, *file; int line; Index first; unsigned count; };
    std::vector<Site> sites;
    auto add = [&](Queue &queue) {
        for (Fiber *f = queue.head; f; f = f->next) {
            Site *site = nullptr;
            for (Site &s : sites)
                if (s.line == f->line && !strcmp(s.what, f->what) && !strcmp(s.file, f->file)) site = &s;
            if (site) site->count++;
            else sites.push_back({f->what, f->file, f->line, f->index, 1});
        }
    };
    add(b.barrier);
    add(b.sleeping);
    for (Warp &w : b.warps)
        for (Meeting *m = w.meetings; m; m = m->next) add(m->waiting);
    std::string text;
    for (Site &s : sites) {
        if (!text.empty()) text += "; ";
        text += "thread " + triple(s.first);
        if (s.count > 1) text += format(" and %u more", s.count - 1);
        text += format(" at %s (%s:%d)", s.what, s.file, s.line);
        if (&s == &sites[3] && sites.size() > 5)
            return text + format("; %zu more places", sites.size() - 4);
    }
    return text;
}

// The threads wait for each other at different places; `at` is one of them.
[[noreturn]] static void fail_diverged(Block &b, [[maybe_unused]] Fiber *at, const std::string &how) {
    std::string sentence = how + who_waits(b);
#ifdef LABKIT_CHECK
    if (at) watch_divergence(at->file, at->line, at->index, sentence);
#endif
    fail_block(b, sentence);
}

// ---- Fibers -----------------------------------------------------------------------------------------------

static void fiber_main();

// MADV_GUARD_INSTALL (Linux 6.13) does not split the mapping, as mprotect does. A process can have only 65530 mappings, so with
// very many stacks the last ones have no guard.
void guard(char *address, size_t bytes) {
    constexpr int madv_guard_install = 102, no_advice = 12345, most_split = 16000;
    static const bool understood = madvise(address, bytes, no_advice) != 0;   // qemu-user accepts all advice and does nothing
    static std::atomic<int> split{0};
    if ((!understood || madvise(address, bytes, madv_guard_install) != 0) && split++ < most_split) (void)!mprotect(address, bytes, PROT_NONE);
}

static void begin_anew(Block &b, Fiber &fiber) {
    labkit::make_context(fiber.context, fiber.top, stack_bytes, fiber_main);
    fiber.next = b.free;
    b.free = &fiber;
}

static bool add_fibers(Block &b) {
    size_t bytes = slab_fibers * stack_pitch;
#ifdef LABKIT_CHECK
    if (!b.stacks) b.stacks = map_memory(most_slabs * bytes);
    char *slab = b.stacks && b.slabs.size() < most_slabs ? b.stacks + b.slabs.size() * bytes : nullptr;
#else
    char *slab = map_memory(bytes);
#endif
    if (!slab) return false;
    madvise(slab, bytes, MADV_NOHUGEPAGE);
    std::unique_ptr<Fiber[]> fibers(new Fiber[slab_fibers]());
    for (unsigned i = slab_fibers; i-- > 0;) {
        char *low = slab + i * stack_pitch;
        guard(low, guard_bytes);
        // Stacks that start at the same offset in a page use the same cache lines, so they start at 64 different
        // offsets.
        unsigned colour = (b.slabs.size() * slab_fibers + i) * 5 % 64;
        fibers[i].top = low + stack_pitch - colour * 64;
        begin_anew(b, fibers[i]);
    }
    b.slabs.push_back({slab, std::move(fibers)});
    return true;
}

static Fiber *take_fiber(Block &b) {
    if (UNLIKELY(!b.free) && !add_fibers(b))
        fail_block(b, format("no memory for the stacks of %u waiting threads: %s", b.started, strerror(errno)));
    Fiber *fiber = b.free;
    b.free = fiber->next;
#ifdef LABKIT_CHECK
    fiber->thread = ~0u;
#endif
    return fiber;
}

static void resolve_converged(Block &b);

#ifdef LABKIT_CHECK
static void resume_parked(Block &b, Warp &w) {
    Queue parked;
    parked.take_all(w.parked);
    while (parked.head) {
        Fiber *fiber = parked.pop();
        (watch_resumes(fiber->thread) ? b.ready : w.parked).push(fiber);
    }
}

// A thread waits or has ended: notify check mode, and resume lanes that waited for their warp's logs.
static void stopped(Block &b, unsigned thread, bool waits) {
    Warp &w = b.warps[thread / warp_size];
    if (watch_stop(thread, w.live, waits)) resume_parked(b, w);
}

// Nothing else can run: lanes with full logs continue without the other lanes of their warps.
static bool resume_all_parked(Block &b) {
    for (Warp &w : b.warps) {
        if (!w.parked.head) continue;
        watch_match(&w - b.warps, w.live);
        resume_parked(b, w);
    }
    return b.ready.head != nullptr;
}
#endif

// The next fiber if none is ready; null if all threads have ended.
static __attribute__((noinline)) Fiber *find_work(Block &b) {
    if (b.started < b.threads && (b.started % warp_size != 0 || !b.converged)) return take_fiber(b);
    if (b.converged) {
        resolve_converged(b);
        return b.ready.pop();
    }
    if (b.live == 0) return nullptr;
    Fiber *first = b.barrier.head ? b.barrier.head : b.sleeping.head;
#ifdef LABKIT_CHECK
    if (resume_all_parked(b)) return b.ready.pop();
    for (Warp &w : b.warps)
        if (!first && w.meetings) first = w.meetings->waiting.head;
#endif
    fail_diverged(b, first, "deadlock, all " + std::to_string(b.live) + " threads wait: ");
}

// The current fiber is suspended (the caller has put it into a queue): return the next one.
static inline __attribute__((always_inline)) Switch change(Block &b, Fiber *me, Fiber *next) {
    if (next->next) labkit::prefetch(next->next->context);   // its stack may no longer be in the cache
    me->index = threadIdx;
    b.current = next;
    threadIdx = next->index;
#ifdef LABKIT_CHECK
    if (next->thread != ~0u) watch_thread(next->thread);
#endif
    return {&me->context, &next->context};
}

static inline __attribute__((always_inline)) Switch suspend(Block &b, Fiber *me) {
    return change(b, me, LIKELY(b.ready.head != nullptr) ? b.ready.pop() : find_work(b));
}

static void release_barrier(Block &b);
static void end_meeting(Block &b, Warp &w, Meeting *meeting, void *from);

// A thread has ended: threads that waited only for it can continue.
static __attribute__((noinline)) void release_waiting(Block &b, Warp &w) {
    if (b.arrived && b.arrived == b.live) release_barrier(b);
    for (Meeting *m = w.meetings, *next; m; m = next) {
        next = m->next;
        if (m->arrived == (m->mask & w.live)) end_meeting(b, w, m, nullptr);
    }
}

static void fiber_main() {
    Block &b = *block;
    Fiber *me = b.current;
    for (;;) {
        try {
            do {
                threadIdx = b.next;
                me->thread = b.started++;
                if (++b.next.x == blockDim.x) {
                    b.next.x = 0;
                    if (++b.next.y == blockDim.y) {
                        b.next.y = 0;
                        ++b.next.z;
                    }
                }
                labkit_spins = 0;
#ifdef LABKIT_CHECK
                watch_thread(me->thread);
#endif
                b.call(b.arguments);
                --b.live;
                Warp &w = b.warps[me->thread / warp_size];
                w.live &= ~(1u << me->thread % warp_size);
#ifdef LABKIT_CHECK
                stopped(b, me->thread, false);
#endif
                if (UNLIKELY(b.arrived || w.meetings)) release_waiting(b, w);
            } while (b.started < b.threads && !b.ready.head && !b.converged);
        } catch (const std::exception &e) {
            blame(b, "memcheck", "exception");
            fail_thread(b, format("an exception left the kernel: %s", e.what()));
        } catch (...) {
            blame(b, "memcheck", "exception");
            fail_thread(b, "an exception left the kernel");
        }
        me->next = b.free;
        b.free = me;
        if (b.live == 0) {
            switch_context(me->context, b.home);
        } else {
            follow(suspend(b, me));
        }
    }
}

// Thread loops run all threads of a block on one large stack.
static void loops_main() {
    Block &b = *block;
    for (;;) {
        try {
            b.launch->loops(b.arguments);
        } catch (...) {
            fail_block(b, "an exception left the kernel");
        }
        switch_context(b.loops.context, b.home);
    }
}

static void prepare_loops(Block &b) {
    if (!b.loops.top) {
        char *stack = map_memory(guard_bytes + loops_bytes);
        if (!stack) {
            fprintf(stderr, "labkit: no memory for a worker: %s\n", strerror(errno));
            abort();
        }
        guard(stack, guard_bytes);
        b.loops.top = stack + guard_bytes + loops_bytes;
    }
    labkit::make_context(b.loops.context, b.loops.top, loops_bytes, loops_main);
}

// ---- Called by kernels: barriers --------------------------------------------------------------------------

#ifdef LABKIT_CHECK
// Threads that have ended never reach the barrier of the others.
static void report_absent(Block &b) {
    unsigned ended = b.threads - b.live, first = 0;
    if (ended <= b.absent) return;                         // told at an earlier barrier
    b.absent = ended;
    while (b.warps[first / warp_size].live >> first % warp_size & 1) first++;
    Index index{first % blockDim.x, first / blockDim.x % blockDim.y, first / blockDim.x / blockDim.y};
    std::string who = ended > 1 ? format(" and %u more never reach, because they have", ended - 1) : " never reaches, because it has";
    Fiber *waits = b.barrier.head;
    watch_divergence(waits->file, waits->line, waits->index,
                     format("divergent barrier, which thread %s%s ended: %s", triple(index).c_str(), who.c_str(), who_waits(b).c_str()));
}
#endif

static void release_barrier(Block &b) {
    if (UNLIKELY(b.mixed)) {
        Fiber *first = b.barrier.head;
        for (Fiber *f = first; f; f = f->next)
            if (f->line != first->line || strcmp(f->file, first->file))
                fail_diverged(b, f, "divergent barrier, its threads wait at different ones: ");
    }
    if (UNLIKELY(*b.cancelled)) leave(b);
#ifdef LABKIT_CHECK
    report_absent(b);
#endif
    labkit_votes = b.votes;
    labkit_voters = b.arrived;
    b.votes = b.arrived = 0;
#ifdef LABKIT_CHECK
    watch_barrier_released();
#endif
    b.ready.take_all(b.barrier);
}

namespace labkit {
EXPORT Switch arrive(int predicate, const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    me->waits_at(what, file, line);
    b.votes += predicate != 0;
    if (b.arrived++ == 0) {
        b.barrier_file = file;
        b.barrier_line = line;
        b.mixed = false;
    } else if (UNLIKELY(line != b.barrier_line || file != b.barrier_file)) {
        b.mixed = true;
    }
    b.barrier.push(me);
#ifdef LABKIT_CHECK
    stopped(b, me->thread, true);
#endif
    if (b.arrived == b.live) release_barrier(b);
    return suspend(b, me);
}
}  // namespace labkit

// ---- Called by kernels: barriers of some threads ------------------------------------------------------------

static void sleep(Block &b, Fiber *me, const labkit::Phase &phase, unsigned number, const char *what, const char *file, int line) {
    me->waits_at(what, file, line);
    me->phase = &phase;
    me->number = number;
    b.sleeping.push(me);
}

static void complete(Block &b, labkit::Phase &phase) {
    phase.arrived = 0;
    phase.number++;
#ifdef LABKIT_CHECK
    watch_phase();
#endif
    Queue asleep;
    asleep.take_all(b.sleeping);
    while (asleep.head) {
        Fiber *fiber = asleep.pop();
        (fiber->phase->number != fiber->number ? b.ready : b.sleeping).push(fiber);
    }
}

namespace labkit {

EXPORT void begin_phases(Phase &phase, unsigned expected) { phase = {expected, 0, 0}; }

EXPORT unsigned arrive_at(Phase &phase, unsigned count, const char *what, const char *file, int line) {
    unsigned number = phase.number;
    if (count > phase.expected - phase.arrived)
        fail("%s at %s:%d: %u threads arrive at a barrier that expects %u more", what, file, line, count, phase.expected - phase.arrived);
    phase.arrived += count;
    if (phase.arrived == phase.expected) complete(*block, phase);
    return number;
}

EXPORT void leave_barrier(Phase &phase, const char *what, const char *file, int line) {
    if (phase.arrived == phase.expected)
        fail("%s at %s:%d: no thread is left that could leave the barrier", what, file, line);
    if (--phase.expected == phase.arrived) complete(*block, phase);
}

EXPORT Switch wait_for(const Phase &phase, unsigned number, const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (phase.number != number) return {&me->context, &me->context};
    sleep(b, me, phase, number, what, file, line);
    return suspend(b, me);
}

EXPORT const Phase &block_phase(unsigned number) { return block->phases[number]; }

EXPORT unsigned arrive_at_number(unsigned number, unsigned expected, const char *what, const char *file, int line) {
    block->phases_used = true;
    block->phases[number].expected = expected;
    return arrive_at(block->phases[number], 1, what, file, line);
}

EXPORT Switch meet_at(unsigned number, unsigned first, unsigned count, void *mine, void (*combine)(void *const *, unsigned),
                      const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    Phase &phase = b.phases[number];
    b.phases_used = true;
    b.slots[me->thread] = mine;
    if (++phase.arrived < count) {
        sleep(b, me, phase, phase.number, what, file, line);
        return suspend(b, me);
    }
    if (combine) combine(b.slots + first, count);
    complete(b, phase);
    return {&me->context, &me->context};
}

}  // namespace labkit

// ---- Called by kernels: warps -----------------------------------------------------------------------------

static void end_meeting(Block &b, Warp &w, Meeting *meeting, [[maybe_unused]] void *from) {
    Meeting **link = &w.meetings;
    while (*link != meeting) link = &(*link)->next;
    *link = meeting->next;
#ifdef LABKIT_CHECK
    unsigned before = (&w - b.warps) * warp_size, lanes = b.threads - before;
    unsigned absent = meeting->mask & ~meeting->arrived & (lanes < warp_size ? (1u << lanes) - 1 : ~0u);
    Fiber *someone = meeting->waiting.head ? meeting->waiting.head : b.current;
    if (absent) {
        Index who = meeting->waiting.head ? someone->index : threadIdx;
        watch_absent(someone->what, someone->file, someone->line, who, absent);
    }
    bool of_matrices = strstr(someone->what, "matrix") || strstr(someone->what, "mma");
    watch_meeting(&w - b.warps, meeting->arrived, from, !of_matrices);
#endif
    if (meeting->combine && meeting->arrived) meeting->combine(meeting->lanes, meeting->arrived);
#ifdef LABKIT_CHECK
    watch_met();
#endif
    b.ready.take_all(meeting->waiting);
}

namespace labkit {

EXPORT unsigned lane_id() { return block->current->thread % warp_size; }

EXPORT Switch meet(unsigned mask, void *mine, void (*combine)(void *const *, unsigned), const char *what,
                   const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    Warp &w = b.warps[me->thread / warp_size];
    unsigned lane = me->thread % warp_size;
    if (UNLIKELY(!(mask >> lane & 1))) {
        blame(b, "synccheck", "caller outside its mask");
        fail_thread(b, format("%s at %s:%d with mask 0x%08x, which does not name the calling lane %u", what,
                              file, line, mask, lane));
    }
    Meeting *meeting = w.meetings;
    while (meeting && (meeting->mask != mask || meeting->combine != combine)) meeting = meeting->next;
    if (!meeting) {
        meeting = &me->meeting;
        meeting->mask = mask;
        meeting->arrived = 0;
        meeting->combine = combine;
        meeting->waiting.clear();
        memset(meeting->lanes, 0, sizeof meeting->lanes);
        meeting->next = w.meetings;
        w.meetings = meeting;
    }
    meeting->lanes[lane] = mine;
    meeting->arrived |= 1u << lane;
#ifdef LABKIT_CHECK
    me->waits_at(what, file, line);
#endif
    if (meeting->arrived == (mask & w.live)) {
        bool in_order = !combine && meeting != &me->meeting;
        end_meeting(b, w, meeting, __builtin_return_address(0));
        if (!in_order) return {&me->context, &me->context};
        // After __syncwarp the lanes go on in the order in which they came. Then s[i] += s[i + 16] reads the old value, as in
        // step; it is a race, but a common one.
        b.ready.push(me);
        return suspend(b, me);
    }
    me->waits_at(what, file, line);
    meeting->waiting.push(me);
    return suspend(b, me);
}

EXPORT Switch gather(const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    me->waits_at("a warp function without mask", file, line);
    b.warps[me->thread / warp_size].converged.push(me);
    b.converged++;
    return suspend(b, me);
}

EXPORT unsigned gathered() { return block->current->mask; }

EXPORT char space_of(const void *address) {
    auto at = (const char *)address;
    const SharedMemory &shared = block->shared;
    if (at >= shared.mapping && at < shared.mapping + shared.bytes) return 's';
    for (const Slab &slab : block->slabs)
        if (at >= slab.stacks && at < slab.stacks + slab_fibers * stack_pitch) return 'l';
    return 'g';
}

EXPORT Switch let_others_run() noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (b.converged && !b.ready.head && b.started == b.threads) resolve_converged(b);
    if (b.started == b.threads && !b.ready.head) {
        sched_yield();                                     // the thread may wait for another block
        return {&me->context, &me->context};
    }
    b.ready.push(me);
    // Threads that have not started run before ready ones, which may all be spinning.
    return change(b, me, b.started < b.threads ? take_fiber(b) : b.ready.pop());
}

}  // namespace labkit

// Resume all lanes at warp functions without a mask; those of a warp at the same place are converged.
static void resolve_converged(Block &b) {
    for (Warp &w : b.warps) {
        for (Fiber *f = w.converged.head; f; f = f->next) f->mask = 0;
        for (Fiber *f = w.converged.head; f; f = f->next) {
            if (f->mask) continue;
            unsigned mask = 0;
            for (Fiber *g = f; g; g = g->next)
                if (g->line == f->line && g->file == f->file) mask |= 1u << g->thread % warp_size;
            for (Fiber *g = f; g; g = g->next)
                if (g->line == f->line && g->file == f->file) g->mask = mask;
        }
        b.ready.take_all(w.converged);
    }
    b.converged = 0;
}

EXPORT void __nanosleep(unsigned nanoseconds) {
    Block &b = *block;
    bool alone = b.started == b.threads && !b.ready.head;
    follow(labkit::let_others_run());
    if (alone) usleep(nanoseconds < 1000000 ? nanoseconds / 1000 : 1000);
}

// ---- Called by kernels: printf ----------------------------------------------------------------------------

static std::mutex print_mutex;
static std::string printed;
constexpr size_t print_limit = 1 << 20;   // as in CUDA, the oldest lines are lost beyond it

namespace labkit {
// CUDA's printf has no %n, which would write to an address unseen.
static void require_no_count(const char *pattern) {
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at, '%')) {
        at += 1 + strspn(at + 1, "-+ #'$*.0123456789hlLqjztZI");
        if (*at == 'n') fail("printf has no %%n: remove it");
        if (*at) at++;
    }
}

EXPORT int print(const char *pattern, ...) {
    char text[2048];
    require_no_count(pattern);
    va_list values;
    va_start(values, pattern);
    int length = vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    if (length < 0) return length;
    if ((size_t)length >= sizeof text) length = sizeof text - 1;
    std::lock_guard<std::mutex> lock(print_mutex);
    if (printed.size() + length > print_limit) {
        size_t line = printed.find('\n', print_limit / 4);
        printed.erase(0, line == std::string::npos ? printed.size() : line + 1);
    }
    printed.append(text, length);
    return length;
}
}  // namespace labkit

EXPORT size_t lk_printf_take(char *text, size_t bytes) {
    std::lock_guard<std::mutex> lock(print_mutex);
    size_t count = printed.size() < bytes ? printed.size() : bytes;
    memcpy(text, printed.data(), count);
    printed.erase(0, count);
    return count;
}

// ---- Called by workers ------------------------------------------------------------------------------------

Block *new_block() {
    Block *b = new Block();
    if (!map_shared(b->shared) || !add_fibers(*b)) {
        fprintf(stderr, "labkit: no memory for a worker: %s\n", strerror(errno));
        abort();
    }
    for (Warp &w : b->warps) w.meetings = nullptr;
    pthread_sigmask(SIG_SETMASK, nullptr, &b->signals);
    block = b;
    return b;
}

void delete_block(Block *b) {
    for (Slab &slab : b->slabs) munmap(slab.stacks, slab_fibers * stack_pitch);
    if (b->loops.top) munmap(b->loops.top - loops_bytes - guard_bytes, guard_bytes + loops_bytes);
    unmap_shared(b->shared);
    block = nullptr;
    delete b;
}

void begin_launch(Block &b, const Launch &launch) {
    labkit_dynamic_shared = fill_shared(b.shared, *launch.shared, launch.dynamic_shared);
#ifdef LABKIT_CHECK
    watch_launch(launch, (char *)labkit_dynamic_shared, b.shared.static_end);
#endif
    blockDim = launch.block;
    gridDim = launch.grid;
    b.launch = &launch;
    b.call = launch.call;
    b.arguments = launch.arguments;
    b.threads = launch.block.x * launch.block.y * launch.block.z;
    if (launch.loops && !b.loops.top) prepare_loops(b);
}

#ifdef LABKIT_CHECK
static const char *kind_of_fault(Block &b) {
    const char *low = b.current->top - stack_bytes - page;
    if (b.signal == SIGFPE) return "division by zero";
    if (b.signal == SIGILL) return "illegal instruction";
    if (b.signal == SIGABRT) return "fault";
    return b.fault_address >= low - guard_bytes && b.fault_address < low + page ? "stack overflow" : "out of bounds";
}

// Report to check mode where the launch was left. Values on the thread's stack that point into the kernel's code are return
// addresses, the innermost first.
static void tell_where_left(Block &b) {
    constexpr size_t most = 16;
    uintptr_t places[most], begin = b.launch->text_begin, size = b.launch->text_end - begin;
    size_t count = 0;
    if (b.left_at - begin < size) places[count++] = b.left_at + 1;   // not a return address but the faulting instruction
    uintptr_t lowest = (uintptr_t)b.current->top - stack_bytes;
    auto word = (const uintptr_t *)((b.left_stack > lowest ? b.left_stack : lowest) & ~(uintptr_t)7);
    for (; word < (const uintptr_t *)b.current->top && count < most; word++)
        if (*word - begin < size) places[count++] = *word;
    if (*b.cancelled && b.error.empty()) watch_cancelled(places, count);
    else if (b.kind) watch_fault(b.tool, b.kind, b.error.substr(b.error.find(": ") + 2), places, count);
}
#endif

static std::string describe_fault(Block &b) {
    if (b.signal == SIGFPE) return "integer division by zero";
    if (b.signal == SIGABRT) return "the C or C++ library has called abort(), after a message on stderr";
    if (b.signal == SIGILL) return "an illegal instruction (a trap of the compiler?)";
    const char *address = b.fault_address, *low = b.current->top - stack_bytes - page;
    if (address >= low - guard_bytes && address < low + page)
        return format("stack overflow: its local arrays and calls need more than %zu KB", stack_bytes >> 10);
    if (b.access == Access::impossible || b.signal == SIGBUS)
        return "a misaligned address (that of a float4 must be a multiple of 16), or one that does not exist";
    const char *doing = b.access == Access::read    ? "a read of"
                        : b.access == Access::write ? "a write to"
                                                    : "an access to";
    if (std::string where = describe_shared(b.shared, address); !where.empty()) return format("%s %s", doing, where.c_str());
    return format("%s %p, %s", doing, (const void *)address, describe_address(address).c_str());
}

static bool run_on_fibers(Block &b, Index at, const volatile bool *cancelled, std::string &error) {
    blockIdx = at;
#ifdef LABKIT_CHECK
    watch_block(at, b.threads);
#endif
    b.cancelled = cancelled;
    b.started = 0;
    b.live = b.threads;
    b.converged = 0;
    b.next = {0, 0, 0};
    for (unsigned i = 0, left = b.threads; left; i++) {
        unsigned lanes = left < warp_size ? left : warp_size;
        b.warps[i].live = lanes < warp_size ? (1u << lanes) - 1 : ~0u;
        left -= lanes;
    }
    if (UNLIKELY(b.phases_used)) {
        memset(b.phases, 0, sizeof b.phases);
        b.phases_used = false;
    }
    b.failed = false;
    b.signal = 0;
#ifdef LABKIT_CHECK
    b.absent = 0;
    b.left_at = b.left_stack = 0;
    b.kind = nullptr;
#endif
    b.error.clear();
    b.current = b.free;
    b.free = b.free->next;
    b.running = true;
    switch_context(b.home, b.current->context);
    b.running = false;
    if (LIKELY(!b.failed)) {
        if (LIKELY(!is_damaged(b.shared))) return true;
        error = place(b, false) + ": " + describe_damage(b.shared);
        return false;
    }

    pthread_sigmask(SIG_SETMASK, &b.signals, nullptr);
    if (b.signal) b.error = place(b, true) + ": " + describe_fault(b);
#ifdef LABKIT_CHECK
    if (b.signal) blame(b, "memcheck", kind_of_fault(b));
    tell_where_left(b);
    if (b.error.empty()) b.error = place(b, true) + " was stopped";
#endif
    error = b.error;
    b.ready.clear();
    b.barrier.clear();
    b.sleeping.clear();
    b.arrived = b.votes = 0;
    for (Warp &w : b.warps) {
        w.meetings = nullptr;
        w.converged.clear();
#ifdef LABKIT_CHECK
        w.parked.clear();
#endif
    }
    b.free = nullptr;
    for (Slab &slab : b.slabs)
        for (unsigned i = slab_fibers; i-- > 0;) begin_anew(b, slab.fibers[i]);
    return false;
}

// Thread loops do not note which thread they run. To name the one that failed, the block runs once more, on fibers: the
// launch has failed already, so that nobody can use what its blocks have written.
static void name_thread(Block &b, Index at, const volatile bool *cancelled, std::string &error) {
    const Launch *fast = b.launch;
    Launch slow = *fast;
    slow.loops = nullptr;
    slow.shared = slow.fibers_shared;
    begin_launch(b, slow);
    std::string named;
    if (!run_on_fibers(b, at, cancelled, named) && !named.empty()) error = named;
    b.launch = fast;
}

static bool run_as_loops(Block &b, Index at, const volatile bool *cancelled, std::string &error) {
    blockIdx = at;
    b.cancelled = cancelled;
    b.started = b.threads;
    b.failed = false;
    b.signal = 0;
    b.error.clear();
    b.current = &b.loops;
    b.running = true;
    switch_context(b.home, b.loops.context);
    b.running = false;
    if (UNLIKELY(b.failed)) {
        pthread_sigmask(SIG_SETMASK, &b.signals, nullptr);
        prepare_loops(b);
        error = b.signal ? place(b, false) + ": " + describe_fault(b) : b.error;
        if (!error.empty()) name_thread(b, at, cancelled, error);
        return false;
    }
    if (LIKELY(!is_damaged(b.shared))) return true;
    error = place(b, false) + ": " + describe_damage(b.shared);
    return false;
}

bool run_block(Block &b, Index at, const volatile bool *cancelled, std::string &error) {
    return b.launch->loops ? run_as_loops(b, at, cancelled, error) : run_on_fibers(b, at, cancelled, error);
}

#ifdef LABKIT_CHECK
[[noreturn]] void leave_launch(const std::string &sentence) { fail_thread(*block, sentence); }

Switch park_lane() {
    Block &b = *block;
    Fiber *me = b.current;
    me->waits_at("check mode's log", "", 0);
    if (UNLIKELY(*b.cancelled)) leave(b);
    b.warps[me->thread / warp_size].parked.push(me);
    stopped(b, me->thread, true);
    return suspend(b, me);
}

// The stacks of the fibers, or the fibers themselves (for lanes that wait for each other), if the address is there.
bool in_stacks(uintptr_t address, Range &range) {
    constexpr size_t bytes = most_slabs * slab_fibers * stack_pitch;
    if (address - (uintptr_t)block->stacks < bytes) {
        range = {(uintptr_t)block->stacks, bytes, local_space, nullptr, nullptr, nullptr};
        return true;
    }
    for (Slab &slab : block->slabs) {
        uintptr_t fibers = (uintptr_t)slab.fibers.get();
        if (address - fibers >= slab_fibers * sizeof(Fiber)) continue;
        range = {fibers, slab_fibers * sizeof(Fiber), unwatched_space, nullptr, nullptr, nullptr};
        return true;
    }
    return false;
}
#endif

// Return the memory of each stack except for its first pages.
void trim_stacks(Block &b) {
    constexpr size_t keep = 4 * page;
    for (Slab &slab : b.slabs)
        for (unsigned i = 0; i < slab_fibers; i++) {
            char *low = slab.stacks + i * stack_pitch + guard_bytes;
            madvise(low, stack_bytes - keep, MADV_DONTNEED);
        }
    if (b.loops.top) madvise(b.loops.top - loops_bytes, loops_bytes - keep, MADV_DONTNEED);
}

// ---- Signals (run on the worker's alternate stack) --------------------------------------------------------

constexpr int protection_fault = 13, page_fault = 14;   // x86's exception numbers

static uintptr_t program_counter(void *context) {
#if defined(__x86_64__)
    return ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return ((ucontext_t *)context)->uc_mcontext.pc;
#else
    (void)context;
    return 0;
#endif
}

static void note_where_left([[maybe_unused]] Block &b, [[maybe_unused]] void *context) {
#ifdef LABKIT_CHECK
    b.left_at = program_counter(context);
#if defined(__x86_64__)
    b.left_stack = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    b.left_stack = ((ucontext_t *)context)->uc_mcontext.sp;
#endif
#endif
}

// Elsewhere it may be in a library's function that holds a lock.
void leave_if_cancelled(void *context) {
    if (!block || !block->running || !*block->cancelled) return;
    uintptr_t at = program_counter(context);
    if (at < block->launch->text_begin || at >= block->launch->text_end) return;
    note_where_left(*block, context);
    leave(*block);
}

bool leave_after_signal(int signal, siginfo_t *info, void *context) {
    Block *b = block;
    if (!b || !b->running) return false;
    if (signal == SIGFPE && finish_division(context)) return true;
    b->signal = signal;
    b->fault_address = (const char *)info->si_addr;
    b->access = Access::unknown;
#if defined(__x86_64__)
    auto &registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (registers[REG_TRAPNO] == page_fault)
        b->access = registers[REG_ERR] & 2 ? Access::write : Access::read;
    if (registers[REG_TRAPNO] == protection_fault) b->access = Access::impossible;
#endif
    note_where_left(*b, context);
    leave(*b);
}
