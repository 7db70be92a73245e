// Inside the runtime: what its files share. abi.h is what Python sees, include/labkit/*.h what kernels see.
//
//   block.cpp   a block of threads on one worker: fibers, barriers, warps, printf
//   pool.cpp    streams, events, the workers that run what is ready, faults
//   memory.cpp  device memory: red zones, poison, limit, whose address is it
//   module.cpp  loading compiled kernels, finding kernels and symbols
//   check.cpp   check mode: watches every access of a kernel (compiled in by LABKIT_CHECK alone)
//
// A worker is a thread of the operating system. It takes blocks of ready kernels and runs the threads of a
// block one after the other: a kernel without barriers is a plain loop. A thread that has to wait keeps its
// stack, and the worker goes on with the next thread on another one (a fiber).
#pragma once
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string>
#include "abi.h"
#include "../include/labkit/context.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define EXPORT __attribute__((visibility("default")))

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
// Set what lk_error returns; gives the status back.
int set_error(int status, const char *pattern, ...) __attribute__((format(printf, 2, 3)));
char *map_memory(size_t bytes);   // zeros, backed by memory where touched; null if there is none
double now();                     // seconds on CLOCK_MONOTONIC

// ---- block.cpp --------------------------------------------------------------------------------------------

struct Index { unsigned x, y, z; };

// What the blocks of a launch have in common.
struct Launch {
    const char *kernel;                    // its name
    void (*call)(const char *arguments);   // run the current thread
    const char *arguments;
    Index grid, block;
    size_t dynamic_shared;
    uintptr_t text_begin, text_end;        // the module's code
    // Its thread-local segment, the static shared memory: which one, and how much of it the file fills.
    size_t tls_number, tls_initialized, tls_bytes;
    double *block_seconds;                 // what a block took when last measured; 0 at first
#ifdef LABKIT_CHECK
    struct WatchedModule *module;
    size_t arguments_bytes;
#endif
};

constexpr size_t shared_limit = 256 << 10;   // of dynamic shared memory

struct Block;
Block *new_block();                                        // a worker's room for one block at a time
void delete_block(Block *);
void begin_launch(Block &, const Launch &);                // prepare this worker for blocks of that launch
// False: the launch failed, and why, or it was cancelled meanwhile.
bool run_block(Block &, Index at, const volatile bool *cancelled, std::string &error);
void trim_stacks(Block &);                                 // give back memory that deep stacks took

// In a signal handler of a worker: if a kernel ran, leave its launch. They return if none ran.
void leave_after_signal(int signal, siginfo_t *, void *context);
void leave_if_cancelled(void *context);                    // and only out of the kernel's own code

// ---- memory.cpp -------------------------------------------------------------------------------------------

// __device__ and __constant__ variables of a module count as device memory, too.
void add_symbol_range(const void *address, size_t bytes, const void *owner);
void remove_symbol_ranges(const void *owner);
bool in_device_memory(const void *address, size_t bytes, std::string &why_not);
std::string describe_address(const void *address);         // "12 bytes past the end of the allocation of ..."

// ---- pool.cpp ---------------------------------------------------------------------------------------------

int wait_for_device();                                     // until everything queued has run

// ---- module.cpp -------------------------------------------------------------------------------------------

// Fill in what the module knows; the answer is how many bytes of arguments the kernel takes.
int describe_launch(lk_kernel *, Launch &);
