// Declarations shared by the runtime's files. Python uses abi.h, kernels use include/hostcuda/*.h.
//
// The files have an order: each calls those above it in this list, and those of its own line.
//
//   system.cpp   memory, the time and the text of messages, from the system
//   worker.cpp   the variables of a worker
//   half.cpp     half floats
//   divide.cpp   the quotient of the least integer and -1
//   shared.cpp   the shared memory of a block: its place, guards and marks around it
//   memory.cpp   device memory: red zones, fill pattern, limit, the allocation of an address
//   fibers.cpp   the stacks of a block's threads; from here on fibers.h, a block of threads on one worker
//   faults.cpp   leaving a launch: why, and for which thread
//   slabs.cpp    which stacks are free
//   signals.cpp  signals that are errors of a kernel
//   heap.cpp     memory that kernels allocate (check mode has its own)
//   warps.cpp, spins.cpp, mbarriers.cpp, bulk.cpp, clusters.cpp, scheduler.cpp   which thread of a block runs next
//   printf.cpp   printf of kernels
//   parts.h      its files: check mode, which checks and counts every access of a kernel (only with HOSTCUDA_CHECK)
//   module.cpp   loading compiled kernels, finding kernels and symbols
//   pool.cpp     streams, events, workers, signals
//
// Down the list lead only: what a file tells check mode and asks of it (check.h), wait_for_device of pool.cpp, there also
// pause_kernel and let_kernel_run, by which a kernel in check mode and its host take turns, and fiber_main and loops_main of
// scheduler.cpp, where a stack begins.
//
// A worker is a thread of the operating system. It takes blocks of active kernels and runs the threads of a block one after
// the other: a kernel without barriers is a loop. A thread that must wait keeps its stack (a fiber), and the worker
// continues with the next thread on another one.
#pragma once
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string>
#include <vector>
#include "abi.h"
#include <hostcuda/fiber.h>
#include <hostcuda/phase.h>
#include <hostcuda/platform.h>

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define EXPORT __attribute__((visibility("default")))

// ---- system.cpp -------------------------------------------------------------------------------------------

std::string format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
// Set the result of hc_error; return the status.
int set_error(int status, const char *pattern, ...) __attribute__((format(printf, 2, 3)));
char *map_memory(size_t bytes);   // zeros, backed by memory where accessed; null if there is none
uint64_t digest_of(const void *memory, size_t bytes, uint64_t before);
double now();                     // seconds on CLOCK_MONOTONIC
void guard(char *address, size_t bytes);   // make accesses to this memory fault, if the system can

constexpr size_t page = 4096;
constexpr size_t guard_bytes = 512 << 10;   // around stacks and shared memory: arrays do not reach beyond it
inline size_t round_up(size_t value, size_t unit) { return (value + unit - 1) / unit * unit; }

#ifdef HOSTCUDA_CHECK
constexpr bool checking = true;
#else
constexpr bool checking = false;
#endif

namespace hostcuda {
// The running kernel has failed: leave its launch.
[[noreturn]] void fail(const char *pattern, ...) __attribute__((format(printf, 1, 2)));
char space_of(const void *address);        // 's'hared, 'l'ocal or 'g'lobal, as the running block sees it
}

using hostcuda::Index;

// ---- worker.cpp -------------------------------------------------------------------------------------------

// Variables that kernels use, of each worker.
#define WORD HOSTCUDA_OF_WORKER
extern "C" {
extern WORD Index blockIdx, blockDim, gridDim;
extern WORD void *hostcuda_dynamic_shared;
extern WORD char *hostcuda_shared_end;
extern WORD bool hostcuda_unfit;   // thread loops have found that the block needs fibers (loops.h)
extern WORD unsigned hostcuda_spins;
extern WORD int hostcuda_votes, hostcuda_voters;
extern WORD hostcuda::Turn hostcuda_turn;
}

// ---- Blocks (fibers.h) ------------------------------------------------------------------------------------

namespace hostcuda {

struct Kernel {   // as in include/hostcuda/launch.h
    const char *name;
    const void *function;
    void (*call)(const char *arguments);
    const hc_parameter *parameters;
    int parameter_count, packed_bytes;
    int max_threads;
    void (*loops)(const char *arguments);
    const void *loops_function;
    const char *why_fibers;
    int blocks;
    bool flushes;
    Index cluster;
};

}  // namespace hostcuda

// Common to all blocks of a launch.
struct Launch {
    const char *kernel;                    // its name
    void (*call)(const char *arguments);   // run the current thread
    void (*loops)(const char *arguments);  // run the current block as thread loops, or null
    const char *arguments;
    Index grid, block;
    size_t dynamic_shared;
    bool flushes;                          // subnormal numbers are zeros
    uintptr_t text_begin, text_end;        // the module's code
    uintptr_t base, data_begin, data_end;  // its first address, and its variables
    const hc_static *shared, *fibers_shared;   // the kernel's static shared memory, and that on fibers
    double *block_seconds;                 // last measured time of a block; 0 at first
    struct WatchedModule *module;          // check mode
    size_t arguments_bytes;
    uint64_t number;                       // of the operation
    bool cooperative;                      // its blocks may wait for each other: all of them are on one worker
    Index cluster;                         // blocks that run together, each on their worker
    unsigned bounds;                       // threads per block, from __launch_bounds__ if they are known, else 0
    bool programmatic;                     // it may begin before the launch before it in its stream has ended
};

// Whether the thread loops of a kernel are for such a launch; `blocks` is as in include/hostcuda/launch.h. By warp, each warp
// has to be in one row of threads. Groups are slower than fibers in rows of less than 8. And loops/rows.py takes it that
// indexes made of blockIdx.x do not overflow.
inline bool fits_loops(int blocks, unsigned grid, unsigned width, unsigned rows) {
    return grid <= 1 << 20 && (blocks != 1 || width % 32 == 0 || rows == 1) && (blocks != 2 || width >= 8);
}

struct Block;
Block *new_block();                                        // a worker's memory for one block at a time, or null: there is none
void delete_block(Block *);
void begin_launch(Block &, const Launch &);                // prepare this worker for blocks of that launch
// False: the launch failed, and error_of() says why, or it was cancelled.
bool run_block(Block &, Index at, const volatile bool *cancelled);
// The same for all blocks of a cooperative launch.
bool run_grid(Block &, const volatile bool *cancelled);
// The same for the blocks of a cluster, with its index among the clusters.
bool run_cluster(Block &, Index at, const volatile bool *cancelled);
const std::string &error_of(const Block &);
void trim_stacks(Block &);                                 // return the memory of deep stacks

bool in_kernel();                                          // the calling thread is a worker that runs one
// In a signal handler of a worker: leave the launch of the running kernel. True: it can go on. False: none is running.
bool leave_after_signal(int signal, siginfo_t *, void *context);
// The host code of a whole program; `tell` takes a sentence about its fault, `faulted` is behind the instruction.
struct HostCode {
    uintptr_t begin, end, faulted;
    void (*tell)(const char *sentence);
};
extern HostCode host_code;
void tell_of_host_fault(int signal, const siginfo_t *, void *context);
void leave_if_cancelled(void *context);                    // only from the kernel's own code
// If its thread repeats a loop until another thread acts (spins.cpp). Before each: whether to send it.
void let_others_run_after_signal(int signal, void *context);
bool expects_signal(Block &);
bool has_spun(const Block &);                              // a thread of this worker's block has done so
// Of a worker's block, by the pool: look whether it makes progress; whether it makes none, and what to say of it.
void look_for_progress(Block &);
bool is_stuck(const Block &);
std::string describe_stuck(const Block &);
bool finish_division(void *context);                       // of the least integer by -1 (divide.cpp)

// ---- shared.cpp -------------------------------------------------------------------------------------------

constexpr size_t shared_limit = 256 << 10;   // of dynamic shared memory
constexpr size_t static_limit = 64 << 20;    // of static shared memory; that of a kernel is checked by the caller

// The shared memory of a worker.
struct SharedMemory {
    struct Array { const char *name; char *low; size_t bytes; };        // name: null for dynamic memory
    struct Margin { const char *low; size_t bytes; int before, after; };   // the arrays around it; -1: none

    char *mapping, *static_end, *dynamic_end;
    size_t bytes;                  // of the mapping
    std::vector<Array> arrays;     // of the launch, in the order of their addresses
    std::vector<Margin> margins;
};

bool redirect_shared(const hc_patch *, int count, uintptr_t text_begin, uintptr_t text_end);   // how a module finds its variables
bool map_shared(SharedMemory &);                           // for the calling worker
void use_shared(const SharedMemory &);                     // from here on: of several
void unmap_shared(SharedMemory &);
void *fill_shared(SharedMemory &, const hc_static &, size_t dynamic_bytes);   // for a launch; returns its dynamic memory
bool is_damaged(const SharedMemory &);                     // a margin has changed
std::string describe_damage(const SharedMemory &);         // "a write past the end of ..."
std::string describe_shared(const SharedMemory &, const char *address);   // "" if it is elsewhere
inline std::string name_element(const SharedMemory &memory, const char *address, size_t bytes) {
    for (const SharedMemory::Array &array : memory.arrays) {
        size_t at = address - array.low;
        if (array.name && at < array.bytes && at % bytes == 0) return array.bytes == bytes ? array.name : format("%s[%zu]", array.name, at / bytes);
    }
    return "";
}
std::string name_shared(const SharedMemory &, const char *address, size_t bytes);   // "full[2]": an element of that size, or as above

// ---- memory.cpp -------------------------------------------------------------------------------------------

// __device__ and __constant__ variables of a module are device memory, too.
void add_symbol_range(const void *address, size_t bytes, const void *owner);
void remove_symbol_ranges(const void *owner);
bool is_host_memory(const void *address, size_t bytes, bool writes);   // they can be accessed
bool in_device_memory(const void *address, size_t bytes, std::string &why_not);
void *allocate_for_host(size_t bytes);                     // by malloc or new of a whole program's host
void hide_memory(bool hide);                               // from the host of a whole program
std::string describe_hidden(const char *address, const char *does);   // what is wrong if the host "reads" or "writes" there; for a signal handler
// After a kernel: what it wrote around the allocations in its arguments, "" if nothing. Each write is told once.
std::string take_damage_by(const char *kernel, const std::vector<char> &arguments);
// A digest of all device memory is added to that one. False: there is too much.
bool add_device_memory(uint64_t &digest, size_t most_bytes);
std::string describe_address(const void *address);         // "12 bytes past the end of the allocation of ..."
// The heap of kernels: whether it has room for so many bytes, which are taken; and give them back. What heap.cpp and
// allocations.cpp need besides does not count.
inline size_t heap_limit = 8 << 20, heap_used = 0;
inline size_t heap_bytes(size_t bytes) { return round_up(bytes + !bytes, 16); }
inline void give_to_heap(size_t bytes) { __atomic_sub_fetch(&heap_used, heap_bytes(bytes), __ATOMIC_RELAXED); }
inline bool take_from_heap(size_t bytes) {
    if (bytes > SIZE_MAX / 2) return false;
    size_t used = __atomic_add_fetch(&heap_used, heap_bytes(bytes), __ATOMIC_RELAXED);
    if (used <= __atomic_load_n(&heap_limit, __ATOMIC_RELAXED)) return true;
    give_to_heap(bytes);
    return false;
}
// As calloc, but null if it would take more than half of what the machine has left: such memory is only found missing when it
// is used, and then the system ends some process.
void *calloc_if_there(size_t count, size_t bytes);

// ---- pool.cpp ---------------------------------------------------------------------------------------------

int wait_for_device();                                     // until all queued work is done

// ---- module.cpp -------------------------------------------------------------------------------------------

// Fill in the module's fields; return the number of bytes of the kernel's arguments.
int describe_launch(hc_kernel *, const unsigned grid[3], const unsigned block[3], Launch &);
