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

// Let the other blocks of the cluster run, until this one's ready fibers are resumed, which are those from `ready` on.
static Fiber *give_way(Block &b, Fiber *ready) {
    complete_lists(b);
    b.turns = 0;
    b.loops.next = ready;
    if (!ready) b.ready.tail = &b.loops.next;
    return &b.loops;
}

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
    if (UNLIKELY(has_others(b)) && !b.stuck) return give_way(b, nullptr);
    if (land_copies(b) || time_out(b)) return b.ready.head;
    Fiber *first = b.barrier.head ? b.barrier.head : b.sleeping.head;
    for (Warp &w : b.warps)
        if (!first && w.meetings) first = w.meetings->waiting.head;
    for (Fiber *f = b.sleeping.head; f; f = f->next)
        if (f->wait->mbarrier) first = f;                  // others may wait only for these
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
                if (UNLIKELY(b.cluster->barrier.arrived)) leave_cluster(b, me->thread.number);
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

Switch sleep(Block &b, Fiber *me, const hostcuda::Phase &phase, unsigned number, const Place &place, const Mbarrier *mbarrier) {
    complete_lists(b);
    Fiber *next = detach(b, me);
    me->wait->place = place;
    me->wait->phase = &phase;
    me->wait->mbarrier = mbarrier;
    me->wait->number = number;
    if (!mbarrier) me->wait->tries = false;
    b.sleeping.push(me);
    return change(me, next ? next : next_fiber(b));
}

void wake(Block &b) {
    Queue<Fiber> asleep;
    asleep.take_all(b.sleeping);
    while (asleep.head) {
        Fiber *fiber = asleep.pop();
        (fiber->wait->phase->number != fiber->wait->number ? b.ready : b.sleeping).push(fiber);
    }
}

static void complete(Block &b, hostcuda::Phase &phase) {
    phase.arrived = 0;
    phase.number++;
    // Those with a number of PTX are barriers of teams, which have a counter of their own.
    auto is_below = [&](unsigned number) { return &phase >= b.phases && &phase < b.phases + number; };
    watch_phase(&phase, phase.expected, is_below(hostcuda::first_tile_phase));
    if (checking && !is_below(hostcuda::block_arrival))    // who waits there has not just arrived
        for (const Fiber *f = b.sleeping.head; f; f = f->next)
            if (f->wait->phase == &phase) watch_phase_waited(&phase, of_cluster(b, f->thread.number));
    wake(b);
}

namespace hostcuda {

EXPORT void begin_phases(Phase &phase, unsigned expected) { phase = {expected, 0, 0}; }

EXPORT unsigned arrive_at(Phase &phase, unsigned count, const char *what, const char *file, int line) {
    unsigned number = phase.number;
    if (count > phase.expected - phase.arrived)
        fail("%s at %s:%d: %u threads arrive at a barrier that expects %u more", what, file, line, count, phase.expected - phase.arrived);
    phase.arrived += count;
    watch_phase_arrival(&phase);
    if (phase.arrived == phase.expected) complete(*block, phase);
    return number;
}

EXPORT Switch wait_for(const Phase &phase, unsigned number, const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = hostcuda_turn.current;
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (phase.number != number) {
        watch_phase_waited(&phase, of_cluster(b, me->thread.number));
        return {&me->context, &me->context};
    }
    return sleep(b, me, phase, number, {what, file, line});
}

EXPORT const Phase &block_phase(unsigned number) { return block->phases[number]; }

EXPORT unsigned arrive_at_number(unsigned number, unsigned expected, const char *what, const char *file, int line) {
    block->phases_used = true;
    block->phases[number].expected = expected;
    if (number < first_tile_phase) watch_named_arrival();
    return arrive_at(block->phases[number], 1, what, file, line);
}

EXPORT Switch meet_at(unsigned number, unsigned first, unsigned count, void *mine, void (*combine)(void *const *, unsigned),
                      const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = hostcuda_turn.current;
    Phase &phase = b.phases[number];
    b.phases_used = true;
    if (number < first_tile_phase) {
        phase.expected = count;
        watch_named_arrival();
    }
    b.slots[me->thread.number] = mine;
    watch_phase_meeting(&phase, count);
    if (++phase.arrived < count) return sleep(b, me, phase, phase.number, {what, file, line});
    if (combine) combine_all(combine, b.slots + first, count);
    complete(b, phase);
    return {&me->context, &me->context};
}

// All threads of the block have met at its barrier before.
EXPORT Switch wait_for_grid(const char *file, int line) noexcept {
    Block &b = *block;
    if (UNLIKELY(*b.cancelled)) leave(b);
    complete_lists(b);
    Fiber *me = hostcuda_turn.current, *next = detach(b, me);
    me->wait->place = {"grid.sync()", file, line};
    b.at_grid.push(me);
    if (++b.count_at_grid == b.live) return {&me->context, &b.home};
    return change(me, next ? next : next_fiber(b));
}

EXPORT bool is_cooperative() { return block->launch->cooperative; }

EXPORT Switch let_others_run() noexcept {
    Block &b = *block;
    if (UNLIKELY(*b.cancelled)) leave(b);
    Fiber *me = hostcuda_turn.current;
#ifdef HOSTCUDA_CHECK
    pause_kernel(b.cancelled);
#endif
    b.spinning.turns++;
    if (UNLIKELY(b.spinning.looks)) look_at(b, me->next ? *me->next : *me);
    if (b.converged && b.started == b.threads && (!me->next || ++b.yields > b.live)) {   // else those may wait for these for ever
        complete_lists(b);
        resolve_converged(b);
    }
    if (UNLIKELY(b.sleeping.head) && ++b.idle_turns > 4 * max_threads) {   // they may wait for one that sleeps
        b.idle_turns = 0;
        complete_lists(b);
        if (!land_copies(b)) time_out(b);
    }
    if (UNLIKELY(has_others(b)) && b.started == b.threads && (!me->next || ++b.turns > b.live)) {
        Fiber *next = give_way(b, detach(b, me));
        b.ready.push(me);
        return change(me, next);
    }
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

static void prepare(Block &b, const Launch &launch) {
    b.launch = &launch;
    b.call = launch.call;
    b.arguments = launch.arguments;
    b.threads = launch.block.x * launch.block.y * launch.block.z;
}

#if defined(__x86_64__) || defined(__aarch64__)
static void begin_cluster_launch(Block &, const Launch &);
static void end_cluster_launch(Block &);
#else                                          // a browser has no clusters of several blocks
static void begin_cluster_launch(Block &, const Launch &) {}
static void end_cluster_launch(Block &) {}
#endif

void begin_launch(Block &b, const Launch &launch) {
    if (b.alone.blocks.size() > 1) end_cluster_launch(b);
    hostcuda_dynamic_shared = fill_shared(b.shared, *launch.shared, launch.dynamic_shared);
    hostcuda_shared_end = b.shared.static_end;
    watch_launch(launch, (char *)hostcuda_dynamic_shared, b.shared.static_end);
    blockDim = launch.block;
    gridDim = launch.grid;
    prepare(b, launch);
    if (b.alone.blocks.empty()) b.alone.blocks.push_back(&b);
    b.cluster = &b.alone;
    b.in_cluster = {{1, 1, 1}, {0, 0, 0}, 0, 1};
    if (launch.cluster.x * launch.cluster.y * launch.cluster.z > 1) begin_cluster_launch(b, launch);
    if (launch.loops && !b.loops.top) prepare_loops(b);   // in a browser; new_block() has done so elsewhere
}

// Run this fiber, and the ready ones that follow it up to the end of their list, until the block has ended, has failed, or waits for
// the other ones.
static void run(Block &b, Fiber &fiber, Fiber **tail) {
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
    *tail = nullptr;
    b.ready.tail = tail;
    b.running = true;
    switch_context(&b.home, &fiber.context);
    b.running = false;
}

static bool is_whole(Block &b) {
    if (LIKELY(!is_damaged(b.shared))) return true;
    note_damage(b);
    return false;
}

static bool has_ended(Block &b) {
    if (UNLIKELY(has_copies(b)) && (b.failed || !b.at_grid.head)) end_copies(b);
    if (LIKELY(!b.failed)) return is_whole(b);
    note_failure(b, true);
    abandon_threads(b);
    return false;
}

static bool has_run(Block &b, Fiber &first, Fiber **tail) {
    run(b, first, tail);
    return has_ended(b);
}

// A block begins: the fiber that runs its threads.
static Fiber &begin_block(Block &b, Index at) {
    blockIdx = at;
    watch_block(at, b.threads);
    b.started = 0;
    b.live = b.threads;
    b.converged = b.yields = 0;
    b.absent = 0;
    if (checking) b.returned.assign(b.threads, {});
    b.next = {0, 0, 0};
    b.count_at_grid = 0;
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
    begin_mbarriers(b);
    Fiber &first = *b.free;
    b.free = first.next;
    return first;
}

static bool run_on_fibers(Block &b, Index at) {
    begin_cluster(b.alone);
    Fiber &first = begin_block(b, at);
    return has_run(b, first, &first.next);
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
    run(b, b.loops, &b.loops.next);
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

// ---- Cooperative launches -----------------------------------------------------------------------------------
//
// The blocks take turns on one worker: each runs until its threads wait at grid.sync(), and goes on when all blocks have come
// there. Meanwhile it is kept elsewhere, since all blocks have the same stacks and the same shared memory.

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

struct KeptThread {
    Fiber *fiber;
    hostcuda::Context context;
    hostcuda::Thread thread;
    Place place;
    size_t stack_bytes;
};

struct KeptBlock {
    Index at;
    unsigned live, absent, warps[max_threads / warp_size];
    std::vector<Lines> returned;
    hostcuda::Phase phases[hostcuda::block_phases];
    Asynchronous asynchronous;
    std::vector<KeptThread> threads;
    std::vector<char> stacks, shared;
    std::vector<uint16_t> written;             // check mode
};

// The shared memory of the launch: static and dynamic.
template <class Visit> void visit_shared(Block &b, Visit visit) {
    visit(b.shared.static_end - b.launch->shared->bytes, b.launch->shared->bytes);
    visit((char *)hostcuda_dynamic_shared, b.launch->dynamic_shared);
}

void keep_block(Block &b, Index at, KeptBlock &kept) {
    constexpr size_t below = 128;              // what a function may use below its stack
    kept.at = at;
    kept.live = b.live;
    kept.absent = b.absent;
    kept.returned = b.returned;
    for (unsigned i = 0; i < max_threads / warp_size; i++) kept.warps[i] = b.warps[i].live;
    memcpy(kept.phases, b.phases, sizeof b.phases);
    kept.asynchronous = std::move(b.asynchronous);
    b.asynchronous = {};
    kept.threads.clear();
    kept.stacks.clear();
    kept.shared.clear();
    while (b.at_grid.head) {
        Fiber *fiber = b.at_grid.pop();
        const char *low = (const char *)fiber->context.stack - below;
        kept.threads.push_back({fiber, fiber->context, fiber->thread, fiber->wait->place, (size_t)(fiber->top - low)});
        kept.stacks.insert(kept.stacks.end(), low, (const char *)fiber->top);
    }
    for (const KeptThread &each : kept.threads) begin_anew(b, *each.fiber);
    visit_shared(b, [&](const char *low, size_t bytes) { kept.shared.insert(kept.shared.end(), low, low + bytes); });
    watch_block_leaves(kept.written);
}

// Its threads go on. False: the launch failed.
bool resume_block(Block &b, KeptBlock &kept) {
    blockIdx = kept.at;
    watch_block_returns(kept.at, kept.written);
    b.started = b.threads;
    b.live = kept.live;
    b.absent = kept.absent;
    b.returned = kept.returned;
    b.converged = b.count_at_grid = 0;
    for (unsigned i = 0; i < max_threads / warp_size; i++) b.warps[i].live = kept.warps[i];
    memcpy(b.phases, kept.phases, sizeof b.phases);
    b.phases_used = true;
    b.asynchronous = std::move(kept.asynchronous);
    const char *shared = kept.shared.data(), *stack = kept.stacks.data();
    visit_shared(b, [&](char *low, size_t bytes) {
        memcpy(low, shared, bytes);
        shared += bytes;
    });
    for (const KeptThread &each : kept.threads) each.fiber->thread.number = ~0u;
    Queue<Fiber> threads;
    for (Fiber **link = &b.free; *link;) {     // they are no longer free
        if ((*link)->thread.number == ~0u) *link = (*link)->next;
        else link = &(*link)->next;
    }
    for (const KeptThread &each : kept.threads) {
        Fiber *fiber = each.fiber;
        fiber->context = each.context;
        fiber->thread = each.thread;
        fiber->wait->place = each.place;
        memcpy(fiber->top - each.stack_bytes, stack, each.stack_bytes);
        stack += each.stack_bytes;
        threads.push(fiber);
    }
    hostcuda_turn.thread = threads.head->thread;
    watch_thread(threads.head->thread.number);
    return has_run(b, *threads.head, threads.tail);
}

// Some blocks have ended, which the others wait for.
bool fail_grid(Block &b, const KeptBlock &kept, Index ended) {
    const KeptThread &first = kept.threads[0];
    blockIdx = kept.at;
    std::string sentence = format("deadlock: block (%u,%u,%u) waits at grid.sync() (%s:%d), and block (%u,%u,%u) has ended without it", kept.at.x,
                                  kept.at.y, kept.at.z, first.place.file, first.place.line, ended.x, ended.y, ended.z);
    watch_divergence(first.place.what, first.place.file, first.place.line, first.thread.index, sentence);
    b.error = format("kernel %s, %s", b.launch->kernel, sentence.c_str());
    return false;
}

}  // namespace

bool run_grid(Block &b, const volatile bool *cancelled) {
    b.cancelled = cancelled;
    Flush flush(b.launch->flushes);
    const Index &grid = b.launch->grid;
    size_t count = (size_t)grid.x * grid.y * grid.z;
    std::vector<KeptBlock> blocks;
    try {
        blocks.resize(count);
        for (bool first = true;; first = false) {
            const KeptBlock *waiting = nullptr;
            Index ended{};
            bool has_ended = false;
            for (size_t i = 0; i < count; i++) {
                Index at{(unsigned)(i % grid.x), (unsigned)(i / grid.x % grid.y), (unsigned)(i / grid.x / grid.y)};
                if (!(first ? run_on_fibers(b, at) : resume_block(b, blocks[i]))) return false;
                if (b.at_grid.head) keep_block(b, at, blocks[i]), waiting = &blocks[i];
                else ended = at, has_ended = true;
            }
            if (!waiting) return true;
            if (has_ended) return fail_grid(b, *waiting, ended);
            watch_grid_met();
        }
    } catch (const std::bad_alloc &) {
        b.error = format("kernel %s: no memory for the stacks of %zu blocks that wait for each other", b.launch->kernel, count);
        abandon_threads(b);
        return false;
    }
}

// ---- Clusters -----------------------------------------------------------------------------------------------
//
// The blocks of a cluster take turns on one worker, too. Each runs until all its threads wait, or only repeat a loop. As they
// have stacks and shared memory of their own, a turn changes a few variables. When all blocks wait, copies are made, and threads
// that only try to wait go on; if that helps none, it is a deadlock.

static void enter(Block &b) {
    if (block == &b) return;
    block->turn = hostcuda_turn;
    block = &b;
    hostcuda_turn = b.turn;
    use_shared(b.shared);
    hostcuda_shared_end = b.shared.static_end;
    hostcuda_dynamic_shared = b.dynamic_shared;
    blockIdx = b.at;
    watch_block_enters(b.at, b.in_cluster.rank);
    note_products(b);
}

// The fiber of a block that gives way to the others.
static void wait_for_turn() {
    Block &b = *block;
    for (;;) {
        switch_context(&b.loops.context, &b.home);
        Fiber *next = detach(b, &b.loops);
        if (!next) next = next_fiber(b);
        if (next != &b.loops) follow(change(&b.loops, next));
    }
}

// Without memory for all its blocks the cluster stays that of the first one.
static void begin_cluster_launch(Block &first, const Launch &launch) {
    const Index &size = launch.cluster;
    Cluster &c = first.alone;
    unsigned count = size.x * size.y * size.z;
    while (first.others.size() + 1 < count) {
        Block *more = new_block();
        block = &first;
        use_shared(first.shared);
        if (!more) return;
        first.others.push_back(more);
    }
    c.blocks.assign(1, &first);
    c.blocks.insert(c.blocks.end(), first.others.begin(), first.others.begin() + count - 1);
    for (unsigned rank = 0; rank < count; rank++) {
        Block &b = *c.blocks[rank];
        prepare(b, launch);
        b.cluster = &c;
        b.in_cluster = {size, {rank % size.x, rank / size.x % size.y, rank / size.x / size.y}, rank, count};
        b.dynamic_shared = (char *)(rank ? fill_shared(b.shared, *launch.shared, launch.dynamic_shared) : hostcuda_dynamic_shared);
        hostcuda::make_context(b.loops.context, b.loops.top, loops_bytes, wait_for_turn);
        b.loops.thread.number = ~0u;
        watch_cluster_block(rank, b.dynamic_shared, b.shared.static_end);
    }
}

static void end_cluster_launch(Block &first) {
    enter(first);
    for (Block *b : first.alone.blocks) {
        b->loops.thread.number = 0;
        prepare_loops(*b);
    }
    first.alone.blocks.assign(1, &first);
}

// Let a block run, from its begin or from where it has given way.
static void take_turn(Block &b, bool begins) {
    if (begins) {
        Fiber &fiber = begin_block(b, b.at);
        run(b, fiber, &fiber.next);
        return;
    }
    b.running = true;
    switch_context(&b.home, &b.loops.context);
    b.running = false;
}

static bool has_waiting(const Block &b) { return b.live && b.started; }

// All blocks of the cluster wait: let one go on, by a copy that is made, or because its thread only tries to wait.
static Block *find_block(Cluster &c) {
    for (auto act : {land_copies, time_out})
        for (Block *b : c.blocks) {
            if (!has_waiting(*b)) continue;
            enter(*b);
            bool acts = act(*b);
            for (Block *each : c.blocks)
                if (acts && has_waiting(*each) && each->loops.next) return each;
        }
    return nullptr;
}

// A block has ended: who reads there still finds nothing.
static void forget_shared(Block &b) {
    watch_block_ended();
    const hc_static &shared = *b.launch->shared;
    for (int i = 0; i < shared.count; i++)
        if (!shared.arrays[i].image) memset(b.shared.static_end + shared.arrays[i].place, 0xff, shared.arrays[i].bytes);
    memset(b.dynamic_shared, 0xff, b.launch->dynamic_shared);
}

bool run_cluster(Block &first, Index at, const volatile bool *cancelled) {
    Flush flush(first.launch->flushes);
    Cluster &c = first.alone;
    if (c.blocks.size() == 1) {
        first.error = format("kernel %s: no memory for the stacks of the blocks of a cluster", first.launch->kernel);
        return false;
    }
    const Index &size = first.in_cluster.size;
    begin_cluster(c);
    enter(first);
    watch_cluster_begins();
    for (Block *b : c.blocks) {
        const Index &in = b->in_cluster.at;
        b->at = {at.x * size.x + in.x, at.y * size.y + in.y, at.z * size.z + in.z};
        b->cancelled = cancelled;
        b->live = b->threads;
        b->started = 0;
        b->stuck = false;
        b->loops.next = nullptr;
        b->turn = {};
    }
    Block *failed = nullptr;
    size_t left = c.blocks.size(), rank = 0;
    for (size_t idle = 0; left && !failed; rank = (rank + 1) % c.blocks.size()) {
        Block *b = c.blocks[rank];
        bool begins = !b->started;
        if (!b->live || (!begins && !b->loops.next)) {
            if (++idle <= c.blocks.size()) continue;
            b = find_block(c);
            if (!b) {                              // a deadlock, of which the first block that waits tells
                for (size_t i = c.blocks.size(); i-- > 0;)
                    if (has_waiting(*c.blocks[i])) b = c.blocks[i];
                b->stuck = true;
            }
            rank = b->in_cluster.rank;
            begins = false;
        }
        idle = 0;
        enter(*b);
        take_turn(*b, begins);
        if (b->live && !b->failed) continue;
        left--;
        if (!has_ended(*b)) failed = b;
        else forget_shared(*b);
        b->live = 0;
        b->asynchronous = {};
    }
    for (Block *b : c.blocks) {
        if (!failed || b == failed || !has_waiting(*b)) continue;
        enter(*b);
        b->failed = true;
        if (has_copies(*b)) end_copies(*b);
        abandon_threads(*b);
    }
    if (failed && failed != &first) first.error = failed->error;
    enter(first);
    return !failed;
}

#endif
