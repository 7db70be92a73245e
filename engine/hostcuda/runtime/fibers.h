// A block of threads on one worker, as the files that run it share it.
//
//   fibers.cpp     the stacks of a block's threads, and where a thread was when it left the launch
//   slabs.cpp      which of them are free
//   scheduler.cpp  which thread runs next; barriers; running a block
//   warps.cpp      lanes of a warp that wait for each other
//   spins.cpp      threads that repeat a loop until another thread acts
//   mbarriers.cpp  barriers in shared memory with phases
//   bulk.cpp       copies that are made later, for which mbarriers or their threads wait
//   clusters.cpp   blocks that run together, as their kernels see each other
//   faults.cpp     leaving a launch: why, and for which thread
//   signals.cpp    signals that are errors of a kernel
//
// The threads of a block run on fibers (stacks). One fiber runs threads 0, 1, 2, ... to their ends in a loop. When a thread
// must wait, at a barrier or for the other lanes of its warp, its fiber is suspended with it, and another fiber continues:
// one whose thread can continue, or else a new one with the next thread. So a kernel without barriers uses one fiber, and a
// barrier costs one switch per thread. No lock and no atomic operation is needed, because all threads of a block are on one
// worker.
#pragma once
#include "check.h"
#include "runtime.h"
#include <hostcuda/cluster_place.h>
#include <algorithm>
#include <map>

using hostcuda::Context;
using hostcuda::Fiber;
using hostcuda::Meeting;
using hostcuda::Place;
using hostcuda::Queue;
using hostcuda::Switch;
using hostcuda::switch_context;
using hostcuda::Wait;

constexpr unsigned warp_size = 32, warpgroup_size = 128, max_threads = 1024;
constexpr size_t stack_bytes = 512 << 10;   // in CUDA, too, a thread has at most 512 KB
// The colours need one more page, and an odd number of pages avoids conflicts of stacks in the caches and the TLB.
constexpr size_t stack_pitch = stack_bytes + guard_bytes + page;
constexpr size_t loops_bytes = 64 << 20;    // of the stack for thread loops: the variables of all threads of a block
constexpr unsigned slab_fibers = 32, most_slabs = max_threads / slab_fibers + 1;

struct Mbarrier;

struct alignas(64) hostcuda::Wait {
    Meeting meeting;           // if its thread is the first to arrive
    Place place;               // not set if it is that of the barrier or of the meeting
    unsigned mask;             // the result of warp_converged
    unsigned number;           // if it sleeps: of the phase that has to end
    const Phase *phase;
    const ::Mbarrier *mbarrier;   // that of the phase, or null; and the parity that is waited for, or -1
    int parity;
    bool tries, timed_out;     // it may go on without the end of the phase, and does
    uint64_t tried;            // how much the block had done when it did so last
    uintptr_t stack;           // if a signal has suspended it: where, else 0; and a digest of its registers
    uint64_t registers;
};

enum class Access { unknown, read, write, impossible };   // the access that faulted

// Whether threads repeat a loop until another thread acts (spins.cpp).
struct Spinning {
    // A thread that has not been suspended for some time.
    static constexpr unsigned most = 16;
    Fiber *fiber;
    unsigned thread, count, patience;
    unsigned turns, known_turns;   // in which a thread has let others run; those at the last signal
    uint64_t states[most];     // the last ones in which a signal has found it
    volatile bool found;       // some thread of the block
    volatile unsigned pending; // ticks until a signal that has not arrived is sent again

    // The whole block.
    volatile unsigned looks;   // the next threads to look at
    volatile bool stuck;
    Index block, thread_of;
    double quiet_since, next_memory;
    uint64_t memory;
    std::vector<uint64_t> known;   // states of threads, sorted
};

// Fibers are made in groups, with their stacks in one mapping.
struct Slab {
    char *stacks;
    Fiber *fibers;
    Wait *waits;
};

// A barrier in shared memory (mbarriers.cpp). A phase ends when all have arrived and no byte is expected any more.
struct Mbarrier {
    struct Line {                              // where threads have arrived, or expected bytes, or copies were begun
        Place place;
        unsigned count;
    };
    hostcuda::Phase phase;
    char *at;
    unsigned number;                           // of the mbarriers of all blocks of the cluster
    unsigned next_expected;                    // arrivals in the next phases
    long expected_bytes, copied_bytes;         // in this phase
    uint64_t word;                             // what its memory has
    std::vector<Line> arrivals, expectations, copies;   // in this phase
    bool ended = false;                        // by mbarrier.inval: it stays, as does its number, for another one at its address
};

// A copy that is under way (bulk.cpp).
struct BulkCopy {
    unsigned thread, watched;                  // `thread`: as of_cluster(); `watched`: its number in check mode
    std::vector<hostcuda::Piece> pieces;
    Mbarrier *mbarrier;                        // or null: it belongs to a group of its thread
    unsigned group;
    void (*combine)(char *, const char *, size_t);
    std::vector<char> kept;                    // its bytes, once its source is read
    bool is_read;
    Place place;
    Index index;                               // threadIdx
};

// A product of a warp that is not computed yet (bulk.cpp).
struct Product {
    void (*run)(void *);
    std::vector<char> record;
    std::vector<uintptr_t> sums;               // check mode: the addresses of the registers of its sums, sorted
    unsigned thread, watched, group;
    Place place;
    Index index;                               // of the thread
};

// What a block has of these.
struct Asynchronous {
    std::map<void *, Mbarrier> mbarriers;      // of this block, by address
    unsigned mbarriers_made = 0;
    std::vector<BulkCopy> copies;              // under way, in the order of their begin
    std::vector<unsigned> bulk_groups;         // per thread, those that it has committed; empty: none has
    std::vector<Product> products;             // of all warps, in the order of their begin
    std::vector<unsigned> product_groups;      // per warp, as bulk_groups
    std::vector<unsigned> products_left;       // per warp that waits: how many of its last groups it does not wait for
    unsigned fenced_warps = 0;                 // those that have executed wgmma.fence, a bit each
    struct Registers { unsigned count, set_to; Place place; };   // `set_to`: by the last setmaxnreg, which may wait; 0: by none
    std::vector<Registers> registers;          // per thread; empty: none has executed setmaxnreg
    long registers_left = 0;                   // of those that threads have given
    hostcuda::Phase registers_given{};         // its number grows when they do
};

// The registers of a thread when a kernel begins that uses setmaxnreg: nvcc gives it as many as __launch_bounds__ allow.
inline unsigned registers_of(const Launch &launch) { return std::min(65536 / launch.bounds / 8 * 8, 256u); }

// Blocks that run together, each on stacks and shared memory of its own; or one block alone.
struct Cluster {
    std::vector<Block *> blocks;               // by rank
    hostcuda::Phase barrier{};                 // of all their threads
    unsigned gone = 0;                         // threads that have arrived there and ended
};

struct Lines {
    unsigned first = 1, last = 0;              // none
};

struct Warp {
    unsigned live;             // lanes that have not ended
    Meeting *meetings;
    Queue<Fiber> converged;
    unsigned passes;           // how often only those that print first were resumed
    Queue<Fiber> parked;              // check mode: their logs are full
};

struct Block {
    // Used at the start, the end and the barriers of every thread.
    Queue<Fiber> ready;                        // while a fiber runs, its next is the first one, not the head
    unsigned started, threads, live;
    unsigned converged;                        // lanes in the warps' converged queues
    alignas(16) Index next;                    // threadIdx of the next thread to start; aligned, or g++ 12 loads it and `started`
                                               // as two vectors, each right after a part of it was stored: 16 ns per thread
    void (*call)(const char *);
    const char *arguments;
    unsigned yields;                           // how often threads have let others run since such lanes were resumed

    // The barrier: waiting threads, and the place of the first one.
    Queue<Fiber> barrier;
    Queue<Fiber> sleeping;                     // threads that wait for a phase
    Queue<Fiber> at_grid;                      // threads that wait for the other blocks of a cooperative launch
    unsigned count_at_grid;
    Place place;
    bool mixed;                                // they are not all at the same place
    unsigned absent;                           // check mode: ended threads that a finding or a note has named
    std::vector<Lines> returned;               // check mode: per thread, of the function that it has left last by an early return

    Warp warps[max_threads / warp_size];
    Fiber *free = nullptr;
    hostcuda::Phase phases[hostcuda::block_phases];   // of barriers that have a number, zero at the start of a block
    bool phases_used = true;
    void *slots[max_threads];                  // of the threads that meet there
    bool prints;                               // some thread has printed:
    int printed[max_threads];                  // the statement by which each has printed last, or 0
    Asynchronous asynchronous;
    Cluster *cluster = nullptr, alone;         // `alone`: of this block
    hostcuda::ClusterPlace in_cluster;
    std::vector<unsigned> cluster_arrivals;    // per thread 1 + the phase of the cluster's barrier at which it waits next, or 0
    std::vector<Block *> others;               // of this worker, for further blocks of a cluster
    // Of a block of several: its index and its variables while another one runs; whether all its threads wait for what does not come.
    Index at;
    hostcuda::Turn turn;
    char *dynamic_shared;
    bool stuck;
    unsigned turns = 0;                        // of threads that let others run, since another block has run
    uint64_t done = 0;                         // grows with each arrival, landed copy and ended phase
    unsigned idle_turns = 0;                   // threads have let others run since they last found nothing else to do
    Fiber loops{};                             // runs thread loops, all threads of a block; or gives way to the cluster's other blocks
    std::vector<Slab> slabs;                   // all fibers
    char *stacks = nullptr;                    // check mode: one range for all stacks
    SharedMemory shared;

    // The worker's own stack, and the reason for the return to it.
    Context home, nowhere;
    sigset_t signals;                          // blocked in this worker, except in a signal handler that was left
    const Launch *launch;
    const volatile bool *cancelled;
    volatile bool running = false;
    bool failed;
    int signal;
    const char *fault_address;
    Access access;
    std::string error;                         // empty: it was cancelled
    Spinning spinning;
    uintptr_t left_at, left_stack;             // check mode: instruction and stack pointer of the thread that left the launch
    const char *tool, *kind;                   // check mode: of the finding, if none was made yet
};

extern WORD Block *block;                     // of this worker (worker.cpp)

// ---- fibers.cpp -------------------------------------------------------------------------------------------

bool add_fibers(Block &);                      // a slab of free ones; false if there is no memory
void fiber_main();                             // where a new fiber begins, and the one for thread loops: scheduler.cpp
void loops_main();
// A fiber becomes free, and runs no thread.
inline void begin_anew(Block &b, Fiber &fiber) {
    hostcuda::make_context(fiber.context, fiber.top, stack_bytes, fiber_main);
    fiber.wait->stack = 0;
    fiber.next = b.free;
    b.free = &fiber;
}
void prepare_loops(Block &);                   // begin the fiber for thread loops anew
// Return addresses in the kernel's code of the thread that left its launch, at most so many; returns their number.
size_t places_left(const Block &, uintptr_t *places, size_t most);
void after_signal(const Block &);              // a handler may have been left

// ---- slabs.cpp --------------------------------------------------------------------------------------------

Fiber *take_fiber(Block &);                    // the ready fibers have to follow it
void abandon_threads(Block &);                 // of a launch that failed

// ---- scheduler.cpp ----------------------------------------------------------------------------------------

namespace hostcuda {
Switch let_others_run() noexcept;
// Of warps.cpp: wait until the warp has no other lanes to run that print first; the thread has printed.
// Statements are numbered from 1, in the order of the source.
Switch gather_to_print(int statement) noexcept;
void note_printed(int statement);
}
void begin_spinning(Spinning &);               // a block begins
void look_at(Block &, Fiber &);                // it is suspended, and could continue
Fiber *find_work(Block &);                     // the next fiber if none is ready
void stopped(Block &, unsigned thread, bool waits);   // check mode: a thread waits or has ended

// Until the phase with this number has ended; that of an mbarrier may be only tried.
Switch sleep(Block &, Fiber *me, const hostcuda::Phase &, unsigned number, const Place &, const Mbarrier * = nullptr);
void wake(Block &);                            // those whose phase has ended

// ---- mbarriers.cpp ----------------------------------------------------------------------------------------

// The mbarrier of the block at this address, or leave the launch.
Mbarrier &find_mbarrier(Block &, void *at, const Place &);
Block &block_of(Block &, void *at);            // the one of the cluster in whose shared memory it is
bool time_out(Block &);                        // let a thread go on that tries to wait; false: there is none
void begin_mbarriers(Block &);                 // a block begins
void count_copied(Block &, Mbarrier &, long bytes, const Place &);   // by a copy

// ---- clusters.cpp -----------------------------------------------------------------------------------------

Block *owner_of(Block &, const void *address); // the block of the cluster in whose shared memory it is, or null
void begin_cluster(Cluster &);
void leave_cluster(Block &, unsigned thread);  // it has ended, and some have arrived at the barrier of the cluster
inline bool has_others(const Block &b) { return b.in_cluster.blocks > 1; }
inline unsigned of_cluster(const Block &b, unsigned thread) { return b.in_cluster.rank * max_threads + thread; }

// ---- bulk.cpp ---------------------------------------------------------------------------------------------

bool land_copies(Block &);                     // make those for which threads sleep; true: a thread can go on
inline bool has_copies(const Block &b) {
    return !b.asynchronous.copies.empty() || !b.asynchronous.products.empty() || !b.asynchronous.registers.empty();
}
void note_products(Block &);                   // check mode: this block runs, or has more of them, or fewer
void end_copies(Block &);                      // a block ends or was left, with copies for which no thread has waited

// All threads in this list wait at the same place.
static inline void note_places(Queue<Fiber> &waiting, const Place &place) {
    for (Fiber *fiber = waiting.head; fiber; fiber = fiber->next) fiber->wait->place = place;
}

// Kernels lengthen the list of a barrier or a meeting by the fibers that follow its last one (fiber.h): set its end.
static inline __attribute__((always_inline)) void complete_lists(Block &b) {
    hostcuda::Turn &turn = hostcuda_turn;
    if (!turn.file && !turn.meeting) return;
    turn.last->next = nullptr;
    (turn.file ? b.barrier : turn.meeting->waiting).tail = &turn.last->next;
    turn.file = nullptr;
    turn.meeting = nullptr;
    turn.last = nullptr;
}

// The last thread to arrive combines the values of all: no signal suspends it.
static inline void combine_all(void (*combine)(void *const *, unsigned), void *const *slots, unsigned which) {
    Fiber *before = hostcuda_turn.last;
    hostcuda_turn.last = hostcuda_turn.current;
    combine(slots, which);
    hostcuda_turn.last = before;
}

// The current fiber is about to be put into a list: return the first ready one, which follows it, or null.
static inline __attribute__((always_inline)) Fiber *detach(Block &b, Fiber *me) {
    Fiber *next = me->next;
    if (!next) b.ready.clear();
    return next;
}

// The fiber that continues if detach() returned null.
static inline __attribute__((always_inline)) Fiber *next_fiber(Block &b) { return b.ready.head ? b.ready.head : find_work(b); }

// Suspend the current fiber. The ready ones follow the next one.
static inline __attribute__((always_inline)) Switch change(Fiber *me, Fiber *next) {
    if (next->next) hostcuda::prefetch(next->next->context);
    hostcuda_turn.current = next;
    hostcuda_turn.thread = next->thread;
    if (checking && next->thread.number != ~0u) watch_thread(next->thread.number);
    return {&me->context, &next->context};
}

// ---- warps.cpp --------------------------------------------------------------------------------------------

void end_meeting(Block &, Warp &, Meeting *);  // its lanes continue
void resolve_converged(Block &);               // resume all lanes at warp functions without a mask

// ---- faults.cpp -------------------------------------------------------------------------------------------

// Leave the launch by switching to the worker's own stack.
[[noreturn]] void leave(Block &);
// Leave it with this error, of the block or of its current thread. Check mode makes a finding of that tool and kind of it;
// null: there is one already.
[[noreturn]] void fail_block(Block &, const char *pattern, ...) __attribute__((format(printf, 2, 3)));
[[noreturn]] void fail_thread(Block &, const char *tool, const char *kind, const char *pattern, ...) __attribute__((format(printf, 4, 5)));
// The threads wait for each other at different places; `at` is one of them.
[[noreturn]] void fail_diverged(Block &, Fiber *at, const char *how);
void report_absent(Block &);                   // check mode: threads that have ended never reach the barrier of the others
std::string describe_partial(const Block &, const Asynchronous::Registers *&);   // setmaxnreg by a part of a warpgroup: of a thread of it
void note_damage(Block &);                     // the block has changed the margins of shared memory
void note_failure(Block &, bool with_thread);  // the launch was left
