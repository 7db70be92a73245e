// Threads that repeat a loop until another thread acts.
//
// Threads of a block run one at a time on a worker. One that only reads memory until another thread writes there, as
// `while (flag == 0);` with a volatile flag, would never let that one run. So the pool sends a signal to a worker that has been
// busy for long, and its handler suspends the thread as if it had called hostcuda::yield(), on the stack of its fiber: what
// the signal has interrupted is restored when the fiber continues and the handler returns.
//
// It does so only where the kernel's own code is interrupted, and does not change the lists of fibers itself (fiber.h). A
// thread that computes is left alone, so that the order of threads depends on time only if they wait for each other: it has
// to be found twice in the same state, that is with the same registers and the same stack, or to run for a second.
//
// A block that waits for memory that nobody writes, or whose loop has a condition that stays true, is stuck. That is so if
// each of its threads that can run is found again and again in states in which it has been before, while no device memory
// changes. The pool ends a launch if all workers are stuck and the host waits for them: no time alone makes it do that.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <algorithm>
#include <string.h>
#include <ucontext.h>

// ---- Whether a block makes progress -------------------------------------------------------------------------

constexpr double learn_s = 1, quiet_s = 2;      // states are noted for that long, then all have to be known
constexpr double quiet_with_clock_s = 30;       // a loop may end because time passes, which is in no state
constexpr size_t most_states = 1 << 14, most_memory = (size_t)4 << 30;

static void learn_anew(Spinning &s) {
    s.known.clear();
    s.stuck = false;
    s.quiet_since = now();
}

void begin_spinning(Spinning &s) {
    s.fiber = nullptr;
    s.found = s.stuck = false;
    s.looks = 0;
    s.patience = 100;
    if (UNLIKELY(!s.known.empty())) s.known.clear();
}

bool has_spun(const Block &b) { return b.spinning.found; }
bool is_stuck(const Block &b) { return b.spinning.stuck; }

std::string describe_stuck(const Block &b) {
    const Index &at = b.spinning.block, &thread = b.spinning.thread_of;
    return format("kernel %s, block (%u,%u,%u), thread (%u,%u,%u): it repeats a loop in which nothing changes any more: its "
                  "condition stays true, or it waits for memory that nobody writes%s",
                  b.launch->kernel, at.x, at.y, at.z, thread.x, thread.y, thread.z,
                  checking ? "" : " (hostcuda sanitize names the line)");
}

// Called by another thread.
void look_for_progress(Block &b) {
    if (!b.spinning.looks) b.spinning.looks = 2 * max_threads;
}

static bool reads_clock(const Launch &launch) {
    auto has = [&](const char *bytes, size_t count) {
        return memmem((const void *)launch.base, launch.text_end - launch.base, bytes, count) != nullptr;
    };
#if defined(__x86_64__)
    if (has("\x0f\x31", 2)) return true;                   // rdtsc
#endif
    return has("clock_gettime", 14);
}

// Of what threads share, and how many have come how far.
static bool digest_memory(Block &b, uint64_t &digest) {
    const hostcuda::Turn &turn = hostcuda_turn;
    const unsigned counts[] = {b.started, b.live, b.converged, turn.arrived, turn.votes};
    digest = digest_of(counts, sizeof counts, 0);
    digest = digest_of(b.phases, sizeof b.phases, digest);
    for (const auto &array : b.shared.arrays) digest = digest_of(array.low, array.bytes, digest);
    digest = digest_of((const void *)b.launch->data_begin, b.launch->data_end - b.launch->data_begin, digest);
    return add_device_memory(digest, most_memory);
}

void look_at(Block &b, Fiber &fiber) {
    Spinning &s = b.spinning;
    s.looks = s.looks - 1;
    double start = now(), haste = pauses ? 0.1 : 1;        // a pause does no harm
    if (!fiber.wait) return;                               // thread loops
    if (s.known.empty()) learn_anew(s), s.next_memory = 0;
    if (start > s.next_memory) {
        uint64_t memory;
        bool known = digest_memory(b, memory);
        if (!known || memory != s.memory) learn_anew(s);
        s.memory = memory;
        double end = now();
        s.next_memory = end + std::max(0.05, 10 * (end - start));
        if (!known) return;
    }
    auto low = (const char *)(fiber.wait->stack ? fiber.wait->stack : (uintptr_t)fiber.context.stack);
    uint64_t state = fiber.thread.number + (fiber.wait->stack ? fiber.wait->registers : 0);
    if (low < fiber.top && low >= fiber.top - stack_bytes) state = digest_of(low, fiber.top - low, state);
    auto place = std::lower_bound(s.known.begin(), s.known.end(), state);
    if (place == s.known.end() || *place != state) {
        if (s.known.size() == most_states) return learn_anew(s);
        s.known.insert(place, state);
        if (start - s.quiet_since > learn_s * haste) s.quiet_since = start;
        s.stuck = false;
        return;
    }
    s.block = blockIdx;
    s.thread_of = fiber.thread.index;
    double quiet = start - s.quiet_since;
    s.stuck = quiet > quiet_s * haste && (quiet > quiet_with_clock_s || !reads_clock(*b.launch));
}

// ---- Suspending a thread ------------------------------------------------------------------------------------

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

struct Interrupted {
    uintptr_t at, stack;
    uint64_t registers;        // a digest: they are the same all along a loop that only waits

    Interrupted(void *context) {
        auto &machine = ((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
        at = machine.gregs[REG_RIP];
        stack = machine.gregs[REG_RSP];
        registers = digest_of(machine.gregs, sizeof *machine.gregs * REG_RIP, 0);
        // Those for numbers in floating point and for vectors: the kernel says behind the first 512 bytes how many there are.
        const char *others = (const char *)machine.fpregs;
        uint32_t has[2] = {};
        if (others) memcpy(has, others + 464, sizeof has);
        if (others) registers = digest_of(others, has[0] == 0x46505853 ? has[1] : 512, registers);
#else
        at = machine.pc;
        stack = machine.sp;
        registers = digest_of(machine.regs, sizeof machine.regs, 0);
#endif
    }
};

// Whether this thread was found in the same state before, or has run for long.
bool repeats(Spinning &s, const Interrupted &now, const hostcuda::Turn &turn) {
    constexpr size_t below = 128;   // what a function may use below its stack
    size_t bytes = (uintptr_t)turn.current->top - now.stack + below, most_bytes = 16 << 10;
    uint64_t state = digest_of((const void *)(now.stack - below), std::min(bytes, most_bytes), now.registers);
    if (s.fiber != turn.current || s.thread != turn.thread.number) {
        s.fiber = turn.current;
        s.thread = turn.thread.number;
        s.count = 0;
    }
    for (unsigned i = 0; i < s.count && i < s.most; i++)
        if (s.states[i] == state) return s.found = true;
    s.states[s.count++ % s.most] = state;
    if (s.count < s.patience) return false;
    s.patience = s.patience / 2 + 1;
    return true;
}

}  // namespace

bool expects_signal(Block &b) {
    constexpr unsigned most_ticks = 20;   // some systems lose a signal to a thread that makes no calls of the system
    unsigned pending = checking ? 2 : b.spinning.pending;
    b.spinning.pending = pending > 1 ? pending - 1 : most_ticks;
    return pending < 2;
}

void let_others_run_after_signal(int signal, void *context) {
    if (block) block->spinning.pending = 0;
    if (!in_kernel()) return;
    Block &b = *block;
    hostcuda::Turn &turn = hostcuda_turn;
    Fiber *me = turn.current;
    Interrupted now(context);
    uintptr_t top = (uintptr_t)me->top;
    bool in_its_code = now.at - b.launch->text_begin < b.launch->text_end - b.launch->text_begin;
    bool on_its_stack = now.stack < top && now.stack >= top - stack_bytes;
    if (!in_its_code || !on_its_stack || me == &b.loops || me == turn.last) return;
    bool let_others = b.spinning.turns != b.spinning.known_turns;   // by itself: its states stay few if no signal adds to them
    b.spinning.known_turns = b.spinning.turns;
    if (let_others || (!b.spinning.found && !repeats(b.spinning, now, turn))) return;
    b.spinning.known_turns++;
    hostcuda::Context kept = me->context;   // it may have been interrupted within a switch
    me->wait->stack = now.stack;
    me->wait->registers = now.registers;
    sigset_t others;
    sigemptyset(&others);
    sigaddset(&others, signal);
    pthread_sigmask(SIG_UNBLOCK, &others, nullptr);
    hostcuda::follow(hostcuda::let_others_run());
    me->wait->stack = 0;
    me->context = kept;
}

#else

bool expects_signal(Block &) { return false; }
void let_others_run_after_signal(int, void *) {}

#endif
