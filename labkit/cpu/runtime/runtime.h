// Declarations shared by the runtime's files. Python uses abi.h, kernels use include/labkit/*.h.
//
//   block.cpp   a block of threads on one worker: fibers, barriers, warps, printf
//   pool.cpp    streams, events, workers, faults
//   memory.cpp  device memory: red zones, fill pattern, limit, the allocation of an address
//   module.cpp  loading compiled kernels, finding kernels and symbols
//   check.cpp   check mode: checks and counts every access of a kernel (only with LABKIT_CHECK)
//
// A worker is a thread of the operating system. It takes blocks of active kernels and runs the threads of a block one after
// the other: a kernel without barriers is a loop. A thread that must wait keeps its stack (a fiber), and the worker
// continues with the next thread on another one.
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
// Set the result of lk_error; return the status.
int set_error(int status, const char *pattern, ...) __attribute__((format(printf, 2, 3)));
char *map_memory(size_t bytes);   // zeros, backed by memory where accessed; null if there is none
double now();                     // seconds on CLOCK_MONOTONIC

// ---- block.cpp --------------------------------------------------------------------------------------------

struct Index { unsigned x, y, z; };

// Common to all blocks of a launch.
struct Launch {
    const char *kernel;                    // its name
    void (*call)(const char *arguments);   // run the current thread
    const char *arguments;
    Index grid, block;
    size_t dynamic_shared;
    uintptr_t text_begin, text_end;        // the module's code
    // Its thread-local segment, which is the static shared memory: number, bytes initialized by the file, bytes.
    size_t tls_number, tls_initialized, tls_bytes;
    double *block_seconds;                 // last measured time of a block; 0 at first
#ifdef LABKIT_CHECK
    struct WatchedModule *module;
    size_t arguments_bytes;
#endif
};

constexpr size_t shared_limit = 256 << 10;   // of dynamic shared memory

struct Block;
Block *new_block();                                        // a worker's memory for one block at a time
void delete_block(Block *);
void begin_launch(Block &, const Launch &);                // prepare this worker for blocks of that launch
// False: the launch failed, and `error` says why, or it was cancelled.
bool run_block(Block &, Index at, const volatile bool *cancelled, std::string &error);
void trim_stacks(Block &);                                 // return the memory of deep stacks

// In a signal handler of a worker: leave the launch of the running kernel; return if there is none.
void leave_after_signal(int signal, siginfo_t *, void *context);
void leave_if_cancelled(void *context);                    // only from the kernel's own code

// ---- memory.cpp -------------------------------------------------------------------------------------------

// __device__ and __constant__ variables of a module are device memory, too.
void add_symbol_range(const void *address, size_t bytes, const void *owner);
void remove_symbol_ranges(const void *owner);
bool in_device_memory(const void *address, size_t bytes, std::string &why_not);
std::string describe_address(const void *address);         // "12 bytes past the end of the allocation of ..."

// ---- pool.cpp ---------------------------------------------------------------------------------------------

int wait_for_device();                                     // until all queued work is done

// ---- module.cpp -------------------------------------------------------------------------------------------

// Fill in the module's fields; return the number of bytes of the kernel's arguments.
int describe_launch(lk_kernel *, Launch &);
