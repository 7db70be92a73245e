// The parts of check mode, as they see each other.
//
//   check.cpp        a launch: what the runtime tells of it, passed on to the parts
//   hooks.cpp        what compiled kernels call
//   allocations.cpp  in which allocation an access is; memory that kernels allocate
//   counting.cpp     the requests of a warp's instructions, from the logs of its lanes
//   requests.cpp     the single requests of one warp
//   steps.cpp        one thread, from statement to statement
//   clocks.cpp       what orders the accesses of two threads between barriers of the block
//   races.cpp        races, and reads of memory that was not written
//   copies.cpp       copies to the host of what was not set
//   ahead.cpp        what may still run when another operation or the host goes on
//   records.cpp      findings, and the record of a launch as JSON
#pragma once
#include "check.h"
#include <functional>
#include <string>
#include <vector>

namespace check {

constexpr unsigned warp_size = 32, most_warps = 32;
// A thread of a cluster has a number: that of its thread in the block, and the rank of the block times block_stride.
constexpr unsigned block_stride = most_warps * warp_size, most_blocks = 16, most_threads = block_stride * most_blocks;

enum Operation { load, store, atomic };
enum Follow { no_requests, worst_requests, one_warp };   // requests.cpp

// ---- check.cpp --------------------------------------------------------------------------------------------

// The launch that runs, and the thread.
struct Running {
    const Launch *launch = nullptr;
    WatchedModule *module = nullptr;
    // Of the worker that runs the launch. In other threads, such as those that a host begins, they stay 0: their accesses are
    // no kernel's.
    static HOSTCUDA_OF_WORKER uintptr_t text_bytes;  // 0 outside of a launch
    static HOSTCUDA_OF_WORKER volatile uintptr_t checked_bytes;   // the same, or 0 if the launch was cancelled
    static HOSTCUDA_OF_WORKER uintptr_t copy_low;    // the accesses are the parts of a copy of so many bytes, before it is made
    static HOSTCUDA_OF_WORKER size_t copy_bytes;
    static HOSTCUDA_OF_WORKER unsigned copies;       // so many have begun
    uintptr_t text_begin = 0;
    Index block{};
    unsigned thread = 0, threads = 0;                // of the cluster; of the block
    unsigned rank = 0, blocks = 1;                   // of the block in its cluster, which has so many
    unsigned volatile_reads = 0;                     // of the thread, since it has begun or was let run again
    bool counts = false, checks = false, racecheck = false, initcheck = false, examines = false, steps = false;
    uintptr_t unset_local = 0;                       // the local variable that was read last, if it has the pattern of unset ones
    unsigned unset_thread = 0;                       // the thread that has read it
    bool of_block = false;                           // the access is an atomic operation whose scope is the block
    // Accesses that the last lane to arrive makes for all lanes that have converged: their place, or 1, and these lanes.
    uintptr_t together = 0;
    unsigned together_lanes = 0, together_warp = 0;
    Follow follows = no_requests, will_follow = no_requests;   // in this launch, and in the next one
    unsigned counted_warp = 0;                       // whose requests are counted
    std::string failure;                             // the first bad address of the launch
    bool leaves = false;                             // the block is left because of one
    unsigned left_blocks = 0;
};
extern Running running;

inline unsigned rank_of(unsigned thread) { return thread / block_stride; }   // of no agent
Index index_of(unsigned thread);
Index block_with(unsigned rank);                     // blockIdx of that block of the cluster
std::string name_of(unsigned thread);                // (1,0,0), or (1,0,0) of block (2,0,0) if it is in another one of the cluster
inline bool in_kernel(void *from) { return (uintptr_t)from - running.text_begin < running.text_bytes; }

// ---- allocations.cpp --------------------------------------------------------------------------------------

// One access in the code to one memory space.
struct Site {
    uintptr_t low = 0;                               // the last address was in [low, low + span]
    size_t span = 0;
    Range *range = nullptr;
    uint32_t pc = 0;                                 // return address, from the module's base
    unsigned next = 0;                               // the same access to another memory space
    Space space = unwatched_space;
    Operation operation = load;
    unsigned size = 0;
    bool looks = false;                              // a plain load before an atomic operation of the same thread on the same address
};

// The sites of the module: by number, and the first one at each offset of a return address in the code.
struct Places {
    Site *sites = nullptr;
    unsigned *site_at = nullptr;
};
extern Places places;

void begin_allocations(char *dynamic_shared, char *static_end);
void add_shared(unsigned rank, char *dynamic_shared, char *static_end);   // of another block of the cluster
size_t end_allocations();                            // returns the bytes of global memory that the launch has accessed
Range *find(uintptr_t address);                      // null: none contains it
Range *find_any(uintptr_t address);                  // also the stacks
// The slow path: the first access of a site, or the first one to another range. Returns its number, or 0 after an access around
// an allocation, which was reported: memory that belongs to nothing takes it.
unsigned locate(uintptr_t at, uintptr_t address, unsigned size, Operation operation);
// No allocation contains [address, address + size): report the nearest one, and end the launch.
[[noreturn]] void refuse(uint32_t pc, Operation operation, uintptr_t address, size_t size, bool misaligned,
                         unsigned thread = running.thread);
// An index is beyond a local array: report it with the message, which has the array's type in quotes, and end the launch.
[[noreturn]] void overrun(uint32_t pc, const std::string &message);
void visit_followed(const std::function<void(const Range &)> &visit);   // what the launch has accessed, as racecheck has seen
int argument_in(const Range &);                      // 1 + the offset of the argument that points into it; 0: none does
std::string named(const Range &);                    // for messages: name and size
std::string element_of(const Range &, long offset, size_t size);   // for messages: where an access of this size is
// There is not enough memory for the records of a range: report it once.
void without_memory(const char *tool, Range &range);
void fill_shared_memory(unsigned char pattern);

// ---- counting.cpp -----------------------------------------------------------------------------------------

void begin_counting();
void count_block();
void count_thread(unsigned thread);                  // this thread runs from now on, and writes to its log
void count_meeting();                                // from now on, one lane makes the accesses for all converged lanes
void end_counting();
std::string counts_text();                           // the sites of the launch, for its record
uint64_t busiest_warp();                             // the memory instructions of the warp with the most
uint64_t two_way_warps();                            // the warps that store to shared memory and load from it
std::string plays_text();                            // how often warps have run each piece that they have run
// The piece of one access that a hook makes for the code at that return address.
unsigned dynamic_piece(uintptr_t at, Operation operation, unsigned size, bool keep);
void note(unsigned piece, uintptr_t address, unsigned addresses);   // write one piece to the log
// An access that one lane makes for all converged lanes, at the place of their call.
void note_together(uintptr_t address, unsigned size, Operation operation, bool keep);
uint64_t note_atomic(uintptr_t at, unsigned size, bool used);   // returns what note_used takes
void note_used(uint64_t atomic);                     // the result of this atomic operation is used

// ---- requests.cpp -----------------------------------------------------------------------------------------

void begin_requests();
void note_request(uint32_t pc, Space, Operation, unsigned size, const uintptr_t *address, uint32_t mask, unsigned units);
std::string worst_text(uint32_t pc, Space, Operation);   // for the record of a site
std::string requests_text();

// ---- steps.cpp --------------------------------------------------------------------------------------------

void begin_steps();
void step_block(bool returns);                       // a block begins or, if it `returns`, goes on after others
void step_away();                                    // another thread runs from now on, or none
void note_step(uintptr_t at, uintptr_t address, unsigned bytes, Operation operation);

// ---- clocks.cpp -------------------------------------------------------------------------------------------

// [warp][lane][other]: the last time of lane `other` of the warp that is ordered before `lane`.
extern uint32_t clocks[most_threads / warp_size][warp_size][warp_size];
inline uint32_t &own_clock(unsigned thread) { return clocks[thread / warp_size][thread % warp_size][thread % warp_size]; }
// What copies that an mbarrier counts have written is known to who waits there: of each mbarrier as if a thread of its own had
// written it, with this number and more.
constexpr unsigned first_agent = most_threads;
// An mbarrier, a bulk copy, a fence of proxies, or a barrier of some threads was used in the launch.
extern bool wide;
bool knows_of(unsigned thread, unsigned other, uint32_t clock);   // of two warps, or of a thread and an mbarrier, since the last barrier
// Whether a fence of proxies is between that access and what the thread does now, for shared or global memory.
bool is_fenced(unsigned thread, unsigned other, uint32_t clock, bool global);
void begin_clocks();                                 // a launch
void begin_block_clocks();
void pass_barrier();                                 // of the block
void join_lanes(unsigned warp, unsigned lanes);      // all earlier accesses of each are before all later ones of any of them
void fence_proxies(unsigned thread, bool shared, bool global);
void make_agent(unsigned number);                    // of the mbarrier with this number
void release_to(unsigned number, unsigned thread);
void end_phase(unsigned number);
void acquire_from(unsigned number, unsigned thread);
// A barrier of some threads: a thread arrives and goes on; or arrives, as one of so many, and waits. Then the phase ends. False:
// all threads of the block have met there.
void arrive_at_phase(const void *barrier, unsigned thread);
void meet_at_phase(const void *barrier, unsigned thread, unsigned count);
bool end_barrier_phase(const void *barrier);
void acquire_from_phase(const void *barrier, unsigned thread);   // it has waited for the last phase
uint32_t publish(unsigned number);                   // a copy is written: returns the time
// What the products of a warpgroup have read is known to all its threads, and as if a thread of its own had read it, too.
constexpr unsigned first_product_agent = 65536 - most_blocks * block_stride / 128, most_agents = first_product_agent - first_agent;
uint32_t read_by_products(unsigned agent, unsigned first_thread);   // the number of the agent, and the warpgroup's first thread: returns the time
// Of a cluster: the barrier of its blocks; whether a thread knows that a block has begun; and what all threads of a block know.
void fence_for_cluster(unsigned thread);             // its next arrival releases
void arrive_at_cluster(unsigned thread, bool releases);
void end_cluster_phase();
void acquire_from_cluster(unsigned thread);
// A flag written by hand, of any word: who reads it (atomic or volatile) knows what fences have been made for before it was written.
void fence_for_flags(unsigned thread);
void raise_flag(uintptr_t address, unsigned thread);
void heed_flag(uintptr_t address, unsigned thread);
bool knows_begun(unsigned thread, unsigned rank);
bool is_known_in(unsigned rank, unsigned thread, uint32_t clock);   // to some thread of that block: what the thread has done at that time

// ---- races.cpp --------------------------------------------------------------------------------------------

// The last access to some bytes. The thread may be an agent.
struct Touch {
    uint32_t epoch = 0, clock = 0;
    uint16_t thread = 0, site = 0;
};

void begin_races(char *dynamic_shared, char *static_end);
void order_block();                                  // a block begins, or the first one of a cluster
void order_enter(unsigned rank);                     // that block of the cluster runs from now on
void order_ended();                                  // the block of the cluster has ended
void add_races(unsigned rank, char *dynamic_shared, char *static_end);   // shared memory of another block of the cluster
void order_barrier();
void order_phase(const void *barrier, bool is_named);   // of a barrier of some threads; named: of PTX, with a number
void order_grid();                                   // all blocks have met: later accesses are after all earlier ones
// What threads of the running block have stored to its shared memory, before the block gives way to another one.
void keep_written(std::vector<uint16_t> &sites);
void restore_written(const std::vector<uint16_t> &sites);
void note_exchange(unsigned warp);                   // lanes of it have met, which orders nothing
void settle_again();                                 // the running thread waits or has ended
void end_races();
void examine(unsigned site, uintptr_t address, unsigned size, unsigned thread, bool reads, bool strong);
// Copies in the background: a thread begins them, commits those since the last commit as a group, and waits for all groups but
// the last ones.
void begin_copy(unsigned thread, uintptr_t address, size_t bytes);
void commit_copies(unsigned thread);
void await_copies(unsigned thread, size_t prior);
void publish_copies(unsigned thread, unsigned number);   // all are made, for those who wait at the mbarrier with this number
// Bulk copies: their accesses have just been examined. Those that are read, then those that are written, which makes a number.
void note_bulk_reads(unsigned thread, uintptr_t address, size_t bytes, uint32_t pc);
void note_bulk_write(uintptr_t address, size_t bytes);
void mark_bulk(const char *reader);                  // the accesses from now on are those of "a bulk copy"; null: of the thread
unsigned begin_bulk_copy();
// What tensor copies write; `swizzle`: the bits of addresses that it changes.
void note_tile(uintptr_t address, size_t bytes, unsigned swizzle, const char *file, int line);
void compare_stores(uintptr_t address, size_t bytes, unsigned swizzle, const char *file, int line);   // what a product reads, with the stores that have written it
void compare_tile(unsigned thread, uintptr_t address, unsigned swizzle, uint32_t pc);   // with that of a product that reads it
void end_bulk_reads(unsigned copy, unsigned thread);
void end_product(unsigned product, unsigned warpgroup);
void end_bulk_copy(unsigned copy, unsigned thread, int number);   // -1: its thread has waited
void wait_for_grids(unsigned thread);                // of a programmatic launch: the thread waits for those before it
void launch_dependents(unsigned thread);             // the thread lets those behind it begin
void read_texel(uintptr_t at, uintptr_t address);    // through a texture or a surface, by the code at that return address
void note_lock(unsigned thread);                     // the thread has made an operation of a lock
void note_result(unsigned thread);                   // the thread uses the result of an atomic operation
void note_fence(unsigned thread);
void order_all(bool acquires);                       // a fence, also of other threads; an atomic operation of the host acquires

bool has_fenced();                                   // the launch
// How the launch that ends has accessed a byte, one bit each: plain writes, strong ones, plain reads, strong ones.
unsigned accesses_of(const Range &range, size_t offset);

// ---- copies.cpp -------------------------------------------------------------------------------------------

// The runs of these bytes, first and end, that nothing has set and that are no padding. `sizes` has of each byte of a whole
// object, or several, the size of the store that has set it, or 0.
typedef std::vector<std::pair<size_t, size_t>> Runs;
Runs list_unset(const uint8_t *sizes, size_t bytes, uintptr_t address);
extern size_t widest_padding;                        // up to this alignment, structs of the modules have some (mode.py)
constexpr size_t of_unions = 1 << 16;                // the same, if they have unions

// Where the host has made a call: its file and line in Python, else return addresses.
struct Place {
    std::string call, file;
    int line = 0, count = 0;
    void *callers[24];
};
extern thread_local Place next_place;                // of a copy, a fill or a launch
Place find_place(const char *call, void *from);      // of the call that returns there
std::string json_of(const Place &);                  // its members
extern volatile bool follows_host;                   // the host has copied what was not set
void follow_host(uintptr_t address, size_t bytes, bool reads);
void follow_host_copy(uintptr_t to, uintptr_t from, size_t bytes);
void end_host_block(uintptr_t address);              // the host frees the memory at this address

// ---- ahead.cpp --------------------------------------------------------------------------------------------

extern volatile bool runs_ahead;                     // the device may still work on memory that the host can access
void run_ahead(uintptr_t address, size_t bytes, bool reads, bool strong, void *from);   // the host accesses memory
void begin_ahead();                                  // a launch
void end_ahead(bool fences);                         // `fences`: it has made some
// Programmatic launches: the launch may begin before others of its stream have ended. Which of them has written these bytes, or, if it
// `writes`, has accessed them, and may still run: a sentence, or "". `waited`: the thread has waited for the launch before.
extern volatile bool depends;                        // on some
std::string access_too_early(uintptr_t address, size_t bytes, bool writes, bool waited);
void note_grid_wait();                               // a thread of the launch waits
void note_dependents(bool waited);                   // a thread lets those behind it begin, and has waited itself
void note_call(const char *call);                    // the host of a whole program calls this function of the API

// ---- records.cpp ------------------------------------------------------------------------------------------

// Of what is legal, and may be a mistake: one note of a kind per place.
void add_note(const char *kind, const char *file, int line, uint32_t pc, const std::string &message);

struct Finding {
    const char *tool;
    std::string kind, message;
    const char *remedy;                              // of a race: what orders the two accesses, or null
    uint32_t pc, other_pc;
    Index block, thread, other_thread;
    bool has_other, one_warp;                        // of a race of two threads: both are of one warp
    Operation operation, other_operation;            // if there is another access
    uintptr_t address;
    size_t size;
    bool has_buffer;
    uintptr_t base;
    size_t bytes;
    const char *name;                                // of the variable, or null
    long offset, missed_by;
    int argument;                                    // 1 + the offset of the argument that points there; 0: not known
    uint64_t count;
    const char *file;                                // the place, if `pc` is 0
    int line;
    uint32_t read_pc;                                // of a lost update: where the thread has read the variable
    unsigned look;                                   // the site of a plain load that races with an atomic operation, or 0
    std::vector<uint32_t> callers;                   // of the place, if it may be outside the user's source
};

void begin_record();
void end_record(bool whole, const std::string &error, size_t unique_bytes);
std::vector<Finding> &findings();
// Add a finding, or count it if there is one of the same kind at the same places.
void report(std::vector<Finding> &, const char *tool, const char *kind, uint32_t pc, unsigned thread, const Touch *other, uintptr_t address, size_t size,
            const std::string &message, const char *remedy = nullptr);
// Count a finding of the launch that there is already, without making its sentence; false: there is none.
bool count_again(const char *kind, unsigned site, const Touch &other);
std::string quoted(const std::string &text);         // for JSON
bool is_strict();                                     // what is legal, and may be a mistake, counts as one (hostcuda sanitize --strict)
void add_record(const std::string &text);            // a line of JSON that Python takes
void add_unchecked(const std::string &sentence);
void count_barrier();                                // a warp's, of the block, and those with a number of PTX
void count_block_barrier();                          // of __syncthreads() and the like: of the whole block, for a warp
void count_named_arrival();
void count_matrices();                               // a warp's operation on matrices
void count_exchange();                               // a warp's shuffle, vote, match or reduction
void count_counter();                                // an atomic operation on an allocation of one value has returned it
void note_integer(uint64_t value);                   // which an atomic operation has returned
void count_copy(size_t bytes);                       // to shared memory, in the background
void count_overlapped_copy(size_t bytes);            // while it was under way its thread has read a stage of shared memory
void note_bytes_ahead(size_t bytes);                 // of bulk copies, while a thread reads what an earlier one has copied
void record_block();
void unrecord_block();                               // the block of the last record_block was not run to its end

}  // namespace check
