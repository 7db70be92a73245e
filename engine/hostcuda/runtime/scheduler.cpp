// Which thread of a block runs next, barriers, and running a block from its first thread to its last.
//
// A thread runs until it waits, ends, repeats an atomic operation (hostcuda::maybe_yield), or is found to repeat a loop
// (spins.cpp). The next fiber is chosen from, in this order:
//
//   ready      fibers whose threads can continue, in order of arrival
//   unstarted  threads that have not started
//   converged  lanes at a warp function without a mask, which continue when their warps have no other lanes to run
//   (none)     every thread waits for another: a deadlock, which ends the launch
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <exception>
#include <sched.h>
#include <string.h>
#include <unistd.h>

// ---- Check mode: lanes whose logs are full wait for their warp ------------------------------------------------

static void resume_parked(Block &b, Warp &w) {
    Queue<Fiber> parked;
    parked.take_all(w.parked);
    while (parked.head) {
        Fiber *fiber = parked.pop();
        (watch_resumes(fiber->thread.number) ? b.ready : w.parked).push(fiber);
    }
}

void stopped(Block &b, unsigned thread, bool waits) {
    Warp &w = b.warps[thread / warp_size];
    if (watch_stop(thread, w.live, waits)) resume_parked(b, w);
}

// Nothing else can run: they continue without the other lanes of their warps.
static bool resume_all_parked(Block &b) {
    for (Warp &w : b.warps) {
        if (!w.parked.head) continue;
        watch_match(&w - b.warps, w.live);
        resume_parked(b, w);
    }
    return b.ready.head != nullptr;
}

#ifdef HOSTCUDA_CHECK
Switch park_lane() {
    Block &b = *block;
    if (UNLIKELY(*b.cancelled)) leave(b);
    complete_lists(b);
    Fiber *me = hostcuda_turn.current, *next = detach(b, me);
    me->wait->place = {"check mode's log", "", 0};
    b.warps[me->thread.number / warp_size].parked.push(me);
    stopped(b, me->thread.number, true);
    if (!next && b.ready.head == me && !me->next && b.started < b.threads) {   // it may wait for a thread that has not started
        next = take_fiber(b);
        next->next = me;
    }
    return change(me, next ? next : next_fiber(b));
}
#endif

// ---- Threads ------------------------------------------------------------------------------------------------

__attribute__((noinline)) Fiber *find_work(Block &b) {
    if (b.started < b.threads && (b.started % warp_size != 0 || !b.converged)) {
        Fiber *fiber = take_fiber(b);
        if (b.free) hostcuda::prefetch(b.free->context);
        fiber->next = nullptr;
        b.ready.tail = &fiber->next;
        return fiber;
    }
    if (b.converged) {
        resolve_converged(b);
        return b.ready.head;
    }
    if (checking && resume_all_parked(b)) return b.ready.head;
    Fiber *first = b.barrier.head ? b.barrier.head : b.sleeping.head;
    for (Warp &w : b.warps)
        if (!first && w.meetings) first = w.meetings->waiting.head;
    fail_diverged(b, first, format("deadlock, all %u threads wait: ", b.live).c_str());
}

static void release_barrier(Block &b);

// A thread has ended: threads that waited only for it can continue.
static __attribute__((noinline)) void release_waiting(Block &b, Warp &w) {
    if (hostcuda_turn.arrived && hostcuda_turn.arrived == b.live) release_barrier(b);
    complete_lists(b);
    for (Meeting *m = w.meetings, *next; m; m = next) {
        next = m->next;
        if (m->arrived == (m->mask & w.live)) end_meeting(b, w, m);
    }
}

void fiber_main() {
    Block &b = *block;
    Fiber *me = hostcuda_turn.current;
    for (;;) {
        try {
            do {
                hostcuda_turn.thread = me->thread = {b.next, b.started++};
                if (++b.next.x == blockDim.x) {
                    b.next.x = 0;
                    if (++b.next.y == blockDim.y) {
                        b.next.y = 0;
                        ++b.next.z;
                    }
                }
                hostcuda_spins = 0;
                watch_thread(me->thread.number);
                b.call(b.arguments);
                --b.live;
                Warp &w = b.warps[me->thread.number / warp_size];
                w.live &= ~(1u << me->thread.number % warp_size);
                if (checking) stopped(b, me->thread.number, false);
                if (UNLIKELY(hostcuda_turn.arrived || w.meetings)) release_waiting(b, w);
            } while (b.started < b.threads && !me->next && !b.converged);
        } catch (const std::exception &e) {
            fail_thread(b, "memcheck", "exception", "an exception left the kernel: %s", e.what());
        } catch (...) {
            fail_thread(b, "memcheck", "exception", "an exception left the kernel");
        }
        complete_lists(b);
        Fiber *next = detach(b, me);
        me->next = b.free;
        b.free = me;
        follow(b.live ? change(me, next ? next : next_fiber(b)) : Switch{&me->context, &b.home});
    }
}

// Thread loops run all threads of a block on one large stack.
void loops_main() {
    Block &b = *block;
    for (;;) {
        try {
            b.launch->loops(b.arguments);
        } catch (...) {
            fail_block(b, "an exception left the kernel");
        }
        switch_context(&b.loops.context, &b.home);
    }
}

// ---- Called by kernels: barriers ----------------------------------------------------------------------------

static void release_barrier(Block &b) {
    complete_lists(b);
    if (UNLIKELY(b.mixed)) {
        for (Fiber *f = b.barrier.head; f; f = f->next)
            if (f->wait->place.line != b.place.line || strcmp(f->wait->place.file, b.place.file))
                fail_diverged(b, f, "its threads wait at different ones: ");
    }
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (checking) report_absent(b);
    hostcuda_votes = hostcuda_turn.votes;
    hostcuda_voters = hostcuda_turn.arrived;
    hostcuda_turn.votes = hostcuda_turn.arrived = 0;
    hostcuda_turn.last = nullptr;
    watch_barrier_released();
    b.ready.take_all(b.barrier);
}

// The fiber before this one does not wait at the same place of the barrier.
static __attribute__((noinline)) void begin_list(Block &b, Fiber *me, const Place &place) {
    complete_lists(b);
    b.barrier.push(me);
    if (hostcuda_turn.arrived == 0) {
        b.place = place;
        b.mixed = false;
    } else if (!b.mixed && !b.place.is(place.file, place.line)) {
        note_places(b.barrier, b.place);
        b.mixed = true;
    }
    if (b.mixed) {
        me->wait->place = place;
    } else {
        hostcuda_turn.file = place.file;
        hostcuda_turn.line = place.line;
    }
}

namespace hostcuda {
EXPORT Switch arrive(int predicate, const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Turn &turn = hostcuda_turn;
    Fiber *me = turn.current, *next = detach(b, me);
    if (turn.file != file || turn.line != line) begin_list(b, me, {what, file, line});
    turn.last = me;
    turn.arrived++;
    turn.votes += predicate != 0;
    if (checking) stopped(b, me->thread.number, true);
    if (turn.arrived == b.live) release_barrier(b);
    if (!next) next = next_fiber(b);
    if (turn.file) me->next = next;
    return change(me, next);
}
}  // namespace hostcuda

// ---- Called by kernels: barriers of some threads ------------------------------------------------------------

static Switch sleep(Block &b, Fiber *me, const hostcuda::Phase &phase, unsigned number, const Place &place) {
    complete_lists(b);
    Fiber *next = detach(b, me);
    me->wait->place = place;
    me->wait->phase = &phase;
    me->wait->number = number;
    b.sleeping.push(me);
    return change(me, next ? next : next_fiber(b));
}

static void complete(Block &b, hostcuda::Phase &phase) {
    phase.arrived = 0;
    phase.number++;
    watch_phase(phase.expected);
    Queue<Fiber> asleep;
    asleep.take_all(b.sleeping);
    while (asleep.head) {
        Fiber *fiber = asleep.pop();
        (fiber->wait->phase->number != fiber->wait->number ? b.ready : b.sleeping).push(fiber);
    }
}

namespace hostcuda {

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
    Fiber *me = hostcuda_turn.current;
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (phase.number != number) return {&me->context, &me->context};
    return sleep(b, me, phase, number, {what, file, line});
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
    Fiber *me = hostcuda_turn.current;
    Phase &phase = b.phases[number];
    b.phases_used = true;
    b.slots[me->thread.number] = mine;
    if (++phase.arrived < count) return sleep(b, me, phase, phase.number, {what, file, line});
    if (combine) combine_all(combine, b.slots + first, count);
    complete(b, phase);
    return {&me->context, &me->context};
}

EXPORT Switch let_others_run() noexcept {
    Block &b = *block;
    if (UNLIKELY(*b.cancelled)) leave(b);
    Fiber *me = hostcuda_turn.current;
#ifdef HOSTCUDA_CHECK
    pause_kernel(b.cancelled);
#endif
    b.spinning.turns++;
    if (UNLIKELY(b.spinning.looks)) look_at(b, me->next ? *me->next : *me);
    if (b.converged && !me->next && b.started == b.threads) resolve_converged(b);
    if (b.started == b.threads && !me->next) {
        sched_yield();                                     // the thread may wait for another block
        return {&me->context, &me->context};
    }
    complete_lists(b);
    Fiber *next = detach(b, me);
    b.ready.push(me);
    if (!next) next = b.ready.head;
    if (b.started < b.threads) {                           // these run before ready ones, which may all be spinning
        Fiber *fiber = take_fiber(b);
        fiber->next = next;
        next = fiber;
    }
    return change(me, next);
}

}  // namespace hostcuda

EXPORT void __nanosleep(unsigned nanoseconds) {
    Block &b = *block;
    bool alone = b.started == b.threads && !hostcuda_turn.current->next;
    follow(hostcuda::let_others_run());
    if (alone) usleep(nanoseconds < 1000000 ? nanoseconds / 1000 : 1000);
}

// ---- Called by workers --------------------------------------------------------------------------------------

void begin_launch(Block &b, const Launch &launch) {
    hostcuda_dynamic_shared = fill_shared(b.shared, *launch.shared, launch.dynamic_shared);
    watch_launch(launch, (char *)hostcuda_dynamic_shared, b.shared.static_end);
    blockDim = launch.block;
    gridDim = launch.grid;
    b.launch = &launch;
    b.call = launch.call;
    b.arguments = launch.arguments;
    b.threads = launch.block.x * launch.block.y * launch.block.z;
    if (launch.loops && !b.loops.top) prepare_loops(b);   // in a browser; new_block() has done so elsewhere
}

// Run this fiber until the block has ended or failed.
static void run(Block &b, Fiber &fiber) {
    b.failed = false;
    b.signal = 0;
    b.left_at = b.left_stack = 0;
    b.kind = nullptr;
    b.error.clear();
    hostcuda_turn.current = &fiber;
    hostcuda_turn.file = nullptr;
    hostcuda_turn.meeting = nullptr;
    hostcuda_turn.last = nullptr;
    hostcuda_turn.arrived = hostcuda_turn.votes = 0;
    begin_spinning(b.spinning);
    fiber.next = nullptr;
    b.ready.tail = &fiber.next;
    b.running = true;
    switch_context(&b.home, &fiber.context);
    b.running = false;
}

static bool is_whole(Block &b) {
    if (LIKELY(!is_damaged(b.shared))) return true;
    note_damage(b);
    return false;
}

static bool run_on_fibers(Block &b, Index at) {
    blockIdx = at;
    watch_block(at, b.threads);
    b.started = 0;
    b.live = b.threads;
    b.converged = 0;
    b.absent = 0;
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
    if (UNLIKELY(b.prints)) {
        memset(b.printed, 0, sizeof b.printed);
        b.prints = false;
    }
    Fiber &first = *b.free;
    b.free = first.next;
    run(b, first);
    if (LIKELY(!b.failed)) return is_whole(b);
    note_failure(b, true);
    abandon_threads(b);
    return false;
}

// Run a block of a launch that runs as thread loops on fibers.
static bool run_slowly(Block &b, Index at) {
    const Launch *fast = b.launch;
    Launch slow = *fast;
    slow.loops = nullptr;
    slow.shared = slow.fibers_shared;
    begin_launch(b, slow);
    bool whole = run_on_fibers(b, at);
    begin_launch(b, *fast);
    return whole;
}

// Thread loops do not note which thread they run. To name the one that failed, the block runs once more, on fibers: the
// launch has failed already, so that nobody can use what its blocks have written.
static void name_thread(Block &b, Index at) {
    std::string unnamed = std::move(b.error);
    if (run_slowly(b, at) || b.error.empty()) b.error = std::move(unnamed);
}

static bool run_as_loops(Block &b, Index at) {
    blockIdx = at;
    b.started = b.threads;
    run(b, b.loops);
    if (UNLIKELY(hostcuda_unfit)) {
        hostcuda_unfit = false;
        return run_slowly(b, at);
    }
    if (LIKELY(!b.failed)) return is_whole(b);
    note_failure(b, false);
    prepare_loops(b);
    if (!b.error.empty()) name_thread(b, at);
    return false;
}

// While it lives, subnormal numbers are zeros, as operands and as results.
struct Flush {
    unsigned long before = 0;
    const bool on;
    explicit Flush(bool on) : on(on) {
        if (!on) return;
#if defined(__x86_64__)
        before = __builtin_ia32_stmxcsr();
        __builtin_ia32_ldmxcsr(before | 0x8040);
#elif defined(__aarch64__)
        asm volatile("mrs %0, fpcr" : "=r"(before));
        asm volatile("msr fpcr, %0" : : "r"(before | 1 << 24));
#endif
    }
    ~Flush() {
        if (!on) return;
#if defined(__x86_64__)
        __builtin_ia32_ldmxcsr(before);
#elif defined(__aarch64__)
        asm volatile("msr fpcr, %0" : : "r"(before));
#endif
    }
};

bool run_block(Block &b, Index at, const volatile bool *cancelled) {
    b.cancelled = cancelled;
    Flush flush(b.launch->flushes);
    return b.launch->loops ? run_as_loops(b, at) : run_on_fibers(b, at);
}
