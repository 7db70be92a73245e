// Threads that repeat a loop until another thread acts.
//
// Threads of a block run one at a time on a worker. One that only reads memory until another thread writes there, as
// `while (flag == 0);` with a volatile flag, would never let that one run. So the pool sends a signal to a worker that has been
// busy for long, and its handler suspends the thread as if it had called labkit::yield(), on the stack of its fiber: what
// the signal has interrupted is restored when the fiber continues and the handler returns.
//
// It does so only where the kernel's own code is interrupted, and does not change the lists of fibers itself (fiber.h). A
// thread that computes is left alone, so that the order of threads depends on time only if they wait for each other: it has
// to be found twice in the same state, that is with the same registers and the same stack.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <ucontext.h>

bool has_spun(const Block &b) { return b.spinning.found; }

#if defined(__x86_64__) || defined(__aarch64__)

namespace {

struct Interrupted {
    uintptr_t at, stack;
    uint64_t registers;        // a digest of them

    Interrupted(void *context) {
        auto &machine = ((ucontext_t *)context)->uc_mcontext;
#if defined(__x86_64__)
        at = machine.gregs[REG_RIP];
        stack = machine.gregs[REG_RSP];
        registers = machine.gregs[REG_EFL];
        for (int i = 0; i <= REG_RIP; i++) add(registers, machine.gregs[i]);
#else
        at = machine.pc;
        stack = machine.sp;
        registers = machine.pstate ^ at;
        for (uint64_t each : machine.regs) add(registers, each);
#endif
    }
    static void add(uint64_t &digest, uint64_t word) {
        digest = (digest ^ word) * 0x9e3779b97f4a7c15;
        digest ^= digest >> 29;
    }
};

// Whether this thread was found in the same state before.
bool repeats(Spinning &s, const Interrupted &now, const labkit::Turn &turn) {
    constexpr uintptr_t most_bytes = 16 << 10;
    uint64_t state = now.registers;
    uintptr_t low = now.stack & ~(uintptr_t)7, top = (uintptr_t)turn.current->top;
    if (top - low > most_bytes) top = low + most_bytes;
    for (auto word = (const uint64_t *)low; word < (const uint64_t *)top; word++) Interrupted::add(state, *word);
    if (s.fiber != turn.current || s.thread != turn.thread.number) {
        s.fiber = turn.current;
        s.thread = turn.thread.number;
        s.count = 0;
    }
    for (unsigned i = 0; i < s.count && i < s.most; i++)
        if (s.states[i] == state) return true;
    s.states[s.count++ % s.most] = state;
    return false;
}

}  // namespace

void let_others_run_after_signal(void *context) {
    if (!in_kernel()) return;
    Block &b = *block;
    labkit::Turn &turn = labkit_turn;
    Fiber *me = turn.current;
    Interrupted now(context);
    uintptr_t top = (uintptr_t)me->top;
    bool in_its_code = now.at - b.launch->text_begin < b.launch->text_end - b.launch->text_begin;
    bool on_its_stack = now.stack < top && now.stack >= top - stack_bytes;
    if (!in_its_code || !on_its_stack || me == &b.loops || me == turn.last || !repeats(b.spinning, now, turn)) return;
    b.spinning.found = true;
    labkit::Context kept = me->context;   // it may have been interrupted within a switch
    labkit::follow(labkit::let_others_run());
    me->context = kept;
}

#else

void let_others_run_after_signal(void *) {}

#endif
