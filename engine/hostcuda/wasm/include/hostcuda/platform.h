// What depends on the system that kernels are compiled for: WebAssembly, where one worker runs all blocks.
#pragma once
#include <stdint.h>

#define HOSTCUDA_OF_WORKER

// All of a module are in one section (wasm/runtime/platform.cpp).
#define __shared__ static __attribute__((used, section("hc_shared")))

// There are no return addresses. wasm/ir.py numbers the places in a kernel's code that call the runtime, and sets this
// variable to their number. A hook cannot wait, because a kernel's functions are made for that only where they must be.
extern "C" __attribute__((visibility("default"))) uintptr_t hostcuda_site;
#define HOSTCUDA_CALLER ((void *)hostcuda_site)
#define HOSTCUDA_WAITS_IN_HOOKS false

#define HOSTCUDA_NOEXCEPT
#define HOSTCUDA_LINE int

// WebAssembly rounds to nearest only, and its C library names no other mode.
#define FE_TOWARDZERO 0
#define FE_UPWARD 0
#define FE_DOWNWARD 0
