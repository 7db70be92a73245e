// Switching stacks.
//
// A Context is the place where a fiber stopped: stack pointer, frame pointer, next instruction. The assembler below
// declares all other registers as overwritten, so the compiler saves those that are live, and only those.
//
// The switch is inlined into the kernel. In a function, its return would go to the call of another thread, which the
// processor mispredicts (with two barriers in a loop: always). Inlined, each barrier has its own jump, whose target is
// nearly always the same as before: a barrier costs a few nanoseconds per thread.
//
// For x86-64 and aarch64 it is written in assembler, for other processors it uses the C library's ucontext.
#pragma once
#include <stddef.h>
#include <stdint.h>

#if defined(__x86_64__) || defined(__aarch64__)

namespace hostcuda {

struct Context {
    void *stack, *frame, *resume;
};

// Stop here, store the place in `from`, and continue at `to`. Returns after a switch back to `from`.
static inline __attribute__((always_inline)) void switch_context(Context *from, Context *to) {
#if defined(__x86_64__)
    Context *save = from, *load = to;
    asm volatile(
        "leaq 1f(%%rip), %%rax\n\t"
        "movq %%rsp, 0(%%rdi)\n\t"
        "movq %%rbp, 8(%%rdi)\n\t"
        "movq %%rax, 16(%%rdi)\n\t"
        "movq 0(%%rsi), %%rsp\n\t"
        "movq 8(%%rsi), %%rbp\n\t"
        "jmpq *16(%%rsi)\n"
        "1:"
        : "+D"(save), "+S"(load)
        :
        : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0",
          "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11",
          "xmm12", "xmm13", "xmm14", "xmm15",
#ifdef __AVX512F__
          "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24", "xmm25",
          "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k0", "k1", "k2", "k3", "k4", "k5",
          "k6", "k7",
#endif
          "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "memory", "cc");
#else
    register Context *save asm("x0") = from;
    register Context *load asm("x1") = to;
    asm volatile(
        "adr x9, 1f\n\t"
        "mov x10, sp\n\t"
        "stp x10, x29, [x0]\n\t"
        "str x9, [x0, #16]\n\t"
        "ldp x10, x29, [x1]\n\t"
        "ldr x9, [x1, #16]\n\t"
        "mov sp, x10\n\t"
        "br x9\n"
        "1:"
        : "+r"(save), "+r"(load)
        :
        : "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
          "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x30",
          "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14",
          "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24", "v25", "v26", "v27",
          "v28", "v29", "v30", "v31",
#ifdef __ARM_FEATURE_SVE
          "p0", "p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8", "p9", "p10", "p11", "p12", "p13", "p14", "p15",
#endif
          "memory", "cc");
#endif
}

// Make `context` start at entry(), which never returns, on the stack below `top`.
static inline void make_context(Context &context, char *top, size_t, void (*entry)()) {
    top = (char *)((uintptr_t)top & ~(uintptr_t)15);
#if defined(__x86_64__)
    top -= 8;               // as after a call, with room for a return address
    *(void **)top = nullptr;
#endif
    context = {top, nullptr, (void *)entry};
}

// Prefetch the first line of its stack into the cache.
static inline void prefetch(const Context &context) { __builtin_prefetch(context.stack); }

}  // namespace hostcuda

#else

#include <ucontext.h>

namespace hostcuda {

struct Context {
    ucontext_t place;
};

static inline void switch_context(Context *from, Context *to) { swapcontext(&from->place, &to->place); }

static inline void make_context(Context &context, char *top, size_t bytes, void (*entry)()) {
    getcontext(&context.place);
    context.place.uc_stack.ss_sp = top - bytes;
    context.place.uc_stack.ss_size = bytes;
    makecontext(&context.place, entry, 0);
}

static inline void prefetch(const Context &) {}

}  // namespace hostcuda

#endif

namespace hostcuda {

// The context that stops and the one that continues; they may be the same.
struct Switch {
    Context *from, *to;
};

// The runtime has already made the thread at `to` the current one: nothing may be noted here before the switch. For a
// reference, clang checks the alignment, and check mode notes the branches of that check.
static inline __attribute__((always_inline)) void follow(Switch s) { switch_context(s.from, s.to); }

}  // namespace hostcuda
