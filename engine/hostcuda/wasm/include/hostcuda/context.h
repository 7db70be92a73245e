// Switching stacks in WebAssembly, which has no stack that a program can switch.
//
// Binaryen's pass `asyncify` makes of each function that may wait one that can save its local variables and return, and that
// goes on there when it is called again. The runtime calls it (wasm/runtime/platform.cpp).
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace hostcuda {

struct Context {
    void *next, *end;           // the pass's own: of the memory for local variables
    void *stack;                // for what has an address
    void (*entry)();            // null: of the worker itself
    bool started;
};

// Stop here, store the place in `from`, and continue at `to`. Returns after a switch back to `from`.
void switch_context(Context *from, Context *to);

// Make `context` start at entry(), which never returns, on the stack below `top`.
void make_context(Context &context, char *top, size_t bytes, void (*entry)());

static inline void prefetch(const Context &) {}

// The context that stops and the one that continues; they may be the same. As one number it is returned in a register: in
// memory, it would be read after the runtime has changed to the next thread.
struct Switch {
    uint64_t both;

    Switch() = default;
    Switch(Context *from, Context *to) : both((uint64_t)(uintptr_t)from << 32 | (uintptr_t)to) {}
};

static inline __attribute__((always_inline)) void follow(Switch s) {
    switch_context((Context *)(uintptr_t)(s.both >> 32), (Context *)(uintptr_t)s.both);
}

}  // namespace hostcuda
