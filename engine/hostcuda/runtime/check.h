// Check mode: what the runtime tells it, and asks of it, if compiled with HOSTCUDA_CHECK; otherwise nothing. Such a runtime has
// one worker, which runs a launch from its first block to its last.
#pragma once
#include <string>
#include <vector>
#include "runtime.h"

// As in layout.py; of the engine's space are the tables of check mode in a module, which no access may reach.
enum Space { global_space, shared_space, constant_space, local_space, unwatched_space, engine_space };

// A range of addresses: an allocation, a variable, the stacks.
struct Range {
    uintptr_t low;
    size_t bytes;
    Space space;
    const char *name;          // a variable's, or null
    uint64_t *touched;         // one bit per byte, for global ranges that the launch has accessed
    uint8_t *written;          // one byte per byte: the size of the store that has set it, or 0; null: not known, and not reported
    uint32_t *loaded = nullptr;           // per sector of global ranges: the number of the last block that has loaded it
    struct GlobalCell *cells = nullptr;   // the last accesses in this launch; null until racecheck needs it
    struct GlobalTouch *beside = nullptr; // accesses that the last ones hide; null until there is one
    uint8_t step = 2;          // bytes of a cell
    bool keeps_words = false;  // there was too little memory for cells of one byte
    bool stored = false;       // in this launch, as racecheck has seen
    bool has_more = false;     // accesses of one place, in Order::more_global
    bool of_host = false;      // the host of a whole program can access it
    bool unchecked = false;    // there was too little memory for these
    bool freed = false;        // by a kernel, in this launch
    uint8_t rank = 0;          // of shared memory: of its block in the cluster
    bool is_index = false;     // threadIdx, blockIdx, blockDim or gridDim
    size_t zone = 0;           // bytes before and after it that are mapped and belong to nothing
};

// What check mode needs of a module; it exists as long as the module.
struct WatchedModule {
    std::string path;
    uintptr_t base = 0;
    std::vector<Range> variables;                   // constants, __device__ variables, and what is not the kernel's
    std::vector<unsigned> site_at;                  // offset of a return address in the code -> site; 0: none yet
    uint64_t **log = nullptr;                       // inserted by instrument.py: variables and tables
    const char *pieces = nullptr, *accesses = nullptr;
    size_t pieces_bytes = 0, accesses_bytes = 0;
};

using Clock = std::vector<uint32_t>;   // per stream, a number of operations

#ifdef HOSTCUDA_CHECK
#define WATCH(...) __VA_ARGS__;
#define WATCH_FALSE(...) __VA_ARGS__;
#else
#define WATCH(...) inline __VA_ARGS__ {}
#define WATCH_FALSE(...) inline __VA_ARGS__ { return false; }
#endif

WATCH(void watch_variable(WatchedModule &, const hc_variable &))
WATCH(void watch_launch(const Launch &, char *dynamic_shared, char *static_end))
WATCH(void watch_block(Index at, unsigned threads))
// Of a cooperative launch: the block waits for the others, and goes on; `written` has what was stored to its shared memory. And all
// blocks have met.
WATCH(void watch_block_leaves(std::vector<uint16_t> &written))
WATCH(void watch_block_returns(Index at, const std::vector<uint16_t> &written))
WATCH(void watch_grid_met())
WATCH(void watch_thread(unsigned thread))                             // this thread runs from now on
WATCH_FALSE(bool watch_stop(unsigned thread, unsigned live, bool barrier))   // it waits (or has ended); true: so do all lanes of its warp
WATCH(void watch_match(unsigned warp, unsigned live))                 // match its logs, also if other lanes still run
WATCH_FALSE(bool watch_resumes(unsigned thread))                      // after waiting for that; true: it continues
WATCH(void watch_barrier_released())
// A barrier of some threads: the running thread arrives and goes on; or arrives, as one of so many, and waits. A phase of it ends.
// A thread has waited for that.
WATCH(void watch_phase_arrival(const void *barrier))
WATCH(void watch_phase_meeting(const void *barrier, unsigned count))
WATCH(void watch_phase(const void *barrier, unsigned threads, bool has_number))
WATCH(void watch_named_arrival())                                     // the thread arrives at a barrier with a number of PTX
WATCH(void watch_phase_waited(const void *barrier, unsigned thread))
// These lanes of a warp have converged. Accesses until watch_met() are made for all of them, at the place in the code with
// that return address. Only __syncwarp orders their accesses to memory; what exchanges values waits for the lanes alone.
WATCH(void watch_meeting(unsigned warp, unsigned lanes, void *from, bool orders, bool of_matrices))
WATCH(void watch_met())
WATCH(void watch_end(bool whole, const std::string &error))           // of the launch
// The launch was abandoned there: return addresses of the running thread, the innermost first.
WATCH(void watch_fault(const char *tool, const char *kind, const std::string &sentence, const uintptr_t *places, size_t count))
WATCH_FALSE(bool watch_goes_on())                                     // a block was left because of a bad address: the others go on
WATCH(void watch_failure(std::string &error))                         // the first bad address of the launch, if there is one
WATCH(void watch_leaves())                                            // in a signal handler: leave the launch at the next access
WATCH(void watch_cancelled(const uintptr_t *places, size_t count))
WATCH(void watch_absent(const char *what, const char *file, int line, Index thread, unsigned lanes))   // lanes in the mask have ended
WATCH(void watch_divergence(const char *what, const char *file, int line, Index thread, const std::string &sentence))    // of barriers
WATCH(void watch_returned(const char *file, int line, Index thread, const std::string &sentence))   // before a barrier, by `return`
WATCH(void watch_unawaited(const char *what, const char *file, int line, Index thread, const char *sentence, const char *remedy))
WATCH(void watch_partial(const char *file, int line, Index thread, const std::string &sentence))   // setmaxnreg by a part of a warpgroup
// Barriers with phases, by their numbers in the block (mbarriers.cpp), and bulk copies, by what hostcuda_bulk_writes has returned.
WATCH(void watch_mbarrier_made(unsigned number, const char *what, const char *file, int line))
WATCH(void watch_mbarrier_arrival(unsigned number))
WATCH(void watch_mbarrier_phase(unsigned number, unsigned threads))   // it ends, after so many arrivals
WATCH(void watch_mbarrier_waited(unsigned number, unsigned thread))   // it knows of the end of the last phase
WATCH(void watch_copies_at(unsigned number))                          // the thread's copies by cp.async are made, for who waits there
// Of a cluster: a block, before the launch's first one begins; some blocks begin as one; another one of them runs, and has ended; a
// thread arrives at their barrier, some have waited, and all are there.
WATCH(void watch_cluster_block(unsigned rank, char *dynamic_shared, char *static_end))
WATCH(void watch_cluster_begins())
WATCH(void watch_block_enters(Index at, unsigned rank))
WATCH(void watch_block_ended())
WATCH(void watch_cluster_arrival(bool releases))
WATCH(void watch_cluster_waited())
WATCH(void watch_cluster_phase())
WATCH(void watch_bulk_read(unsigned copy, unsigned thread))           // its source may change
WATCH(void watch_bulk_landed(unsigned copy, unsigned thread, int mbarrier))   // -1: its thread waits for it
WATCH(void watch_bulk_dropped(unsigned copy))
WATCH(void watch_product(unsigned product, unsigned warpgroup))       // its warpgroup has waited for it
WATCH(void watch_unfenced_product(const char *what, const char *file, int line, Index thread))   // its warp has made no wgmma.fence
WATCH(void note_written(const void *address, size_t bytes))           // by the host
// Streams and what is queued in them (ahead.cpp). An event's record has a clock, for which operations or the host wait.
WATCH(void watch_stream(int number, bool non_blocking))
WATCH(void watch_queued(uint64_t number, int stream, const char *kernel, Clock *recorded, const Clock *awaited))
WATCH(void watch_memory(uint64_t number, int stream, const char *to, const char *from, size_t bytes, bool to_host, bool from_host))
WATCH(void watch_pause(bool begins))                                  // the kernel waits for the host, whose accesses are not its own
WATCH(void watch_waited(int stream))                                  // the host has waited for its operations, or for all (-1)
WATCH(void watch_reached(const Clock &))
WATCH(void watch_over())                                              // the program ends
WATCH_FALSE(uint32_t watch_copy())                                    // the host calls a copy: returns the number of the call
// A copy within device memory, or of all to the host: what was not set is not set in the copy either, and reported on the host.
WATCH(void note_copied(char *to, const char *from, size_t bytes))
WATCH(void note_to_host(uint32_t number, char *to, const char *from, size_t bytes))

WATCH_FALSE(bool watches(const char *tool))                           // whether this tool is on

#undef WATCH
#undef WATCH_FALSE

#ifdef HOSTCUDA_CHECK
// What check mode calls: of faults.cpp, scheduler.cpp, fibers.cpp and memory.cpp.
[[noreturn]] void leave_launch(const std::string &sentence);
[[noreturn]] void leave_cancelled();                            // a launch that was cancelled
namespace hostcuda { Switch let_others_run() noexcept; }
hostcuda::Switch park_lane();                                     // the lane's log is full: let the others continue
bool in_stacks(uintptr_t address, Range &stacks);
void visit_allocations(void (*visit)(const char *base, size_t bytes, uint8_t *written, size_t zone, bool of_host));
bool in_stack_of_another(uintptr_t address);                      // than the running thread
extern bool computes_products;                                    // some product of the block is not computed yet
bool is_sum_of_product(uintptr_t address, const char *&file, int &line);   // the address is of one of its sums; where it is begun
void visit_mapped(void (*visit)(const char *base, size_t bytes));   // page-locked memory of the host
void watch_copied(uint32_t number, const void *to, size_t bytes, const char *from, const uint8_t *sizes, const std::string &source, size_t offset);
bool was_freed(const void *address, uintptr_t &base, size_t &bytes);
// A kernel may wait in a loop for what the host writes. Here the host waits for each launch, so such a kernel is paused.
extern volatile bool pauses;                                      // if it is found to wait, it shall be paused
void pause_kernel(const volatile bool *cancelled);                // called by it
void let_kernel_run();                                            // called by the host, in a loop that may wait for the kernel
extern volatile bool paused;
#else
constexpr bool pauses = false;
#endif
