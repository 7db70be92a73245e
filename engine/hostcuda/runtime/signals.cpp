// Signals that are errors of a kernel. Their handlers run on the worker's alternate stack.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <ucontext.h>

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

static uintptr_t stack_pointer(void *context) {
#if defined(__x86_64__)
    return ((ucontext_t *)context)->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    return ((ucontext_t *)context)->uc_mcontext.sp;
#else
    (void)context;
    return 0;
#endif
}

static Access access_of(void *context) {
#if defined(__x86_64__)
    constexpr int protection_fault = 13, page_fault = 14;   // exception numbers
    auto &registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    if (registers[REG_TRAPNO] == page_fault) return registers[REG_ERR] & 2 ? Access::write : Access::read;
    if (registers[REG_TRAPNO] == protection_fault) return Access::impossible;
#else
    (void)context;
#endif
    return Access::unknown;
}

[[noreturn]] static void leave_from(Block &b, void *context) {
    b.left_at = program_counter(context);
    b.left_stack = stack_pointer(context);
    leave(b);
}

// Elsewhere it may be in a library's function that holds a lock.
void leave_if_cancelled(void *context) {
    if (!in_kernel() || !*block->cancelled) return;
    uintptr_t at = program_counter(context);
    if (at >= block->launch->text_begin && at < block->launch->text_end) leave_from(*block, context);
    watch_leaves();                                        // check mode's functions take most of the time
}

// Of its own code, which holds no lock of a library; and of the device's memory, which no library accesses with a lock.
void tell_of_host_fault(int signal, const siginfo_t *info, void *context) {
    Access access = access_of(context);
    auto address = (const char *)info->si_addr;
    const char *does = access == Access::read ? "reads" : access == Access::write ? "writes" : "accesses";
    uintptr_t at = program_counter(context);
    bool own = at >= host_code.begin && at < host_code.end && info->si_code > 0;
    std::string sentence = signal == SIGSEGV ? describe_hidden(address, does) : "";
    if (sentence.empty() && own && signal == SIGFPE) sentence = "the host divides an integer by zero";
    if (own && signal == SIGILL) sentence = "the host comes to what has no defined result, such as a division by zero or a null pointer";
    if (sentence.empty() && own && (signal == SIGSEGV || signal == SIGBUS))
        sentence = access == Access::impossible ? "the host uses a pointer to an address that does not exist"
                                                : format("the host %s %p, %s", does, (const void *)address, describe_address(address).c_str());
    if (sentence.empty() || !host_code.tell) return;
    host_code.faulted = own ? at + 1 : 0;
    host_code.tell(sentence.c_str());
}

bool leave_after_signal(int signal, siginfo_t *info, void *context) {
    if (!in_kernel()) return false;
    if (signal == SIGFPE && finish_division(context)) return true;
    block->signal = signal;
    block->fault_address = (const char *)info->si_addr;
    block->access = access_of(context);
    leave_from(*block, context);
}
