// Check mode: checks and counts every load and store of a kernel.
//
// Kernels are compiled with -fsanitize=thread and linked with the functions below instead of the sanitizer's. To check,
// each access calls one of them with its address; the return address identifies the access in the code. Before the access
// is made, the function looks up the allocation that contains the address, and ends the launch if there is none.
//
// To count, no call is made: instrument.py has inserted the logging into the code. A piece of straight-line code writes its
// number and the addresses of its accesses to the log of its lane. When all lanes of a warp have reached a barrier or
// ended, their logs are matched: lanes at the same piece run it together, as instructions of the warp. If they are at
// several pieces, the first one in the order of the control flow runs first. An invalid address is found only then.
//
// A warp instruction becomes the requests that the hardware would make: distinct 32-byte sectors of global memory,
// wavefronts over 32 banks of shared memory, distinct addresses of constant memory. Their number depends on the differences
// between the lanes' addresses, which are mostly the same as the last time; then the number is known already.
//
// Blocks run one after the other here, but in any order on a GPU. Accesses of two blocks to the same bytes of global memory
// are a race unless the first block could have signalled the second. In CUDA's memory model that takes all of this: after
// its access the first block makes a fence (__threadfence) and then a strong write, atomic or volatile; the second makes a
// strong read before its access. Whether both use the same flag, and in which thread, is not checked: every order that
// the model defines is accepted, and some others are, too. Atomic and volatile accesses do not race with each other. Two
// cases that are races in the model are not reported, because correct programs have them: stores of a value that is there
// already (a flag that many threads set; also within a block, and in shared memory), and a plain read of a word before an
// atomic operation on it (the first read of a loop around atomicCAS).
//
// A load from the address of the same thread's latest store, without a barrier between, is checked but not counted: a GPU's
// compiler keeps that value in a register, even if the host's does not.
#ifdef LABKIT_CHECK
#include "check.h"
#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

extern "C" void labkit_log_full(uint64_t **);

namespace {

constexpr unsigned warp_size = 32, most_warps = 32;
constexpr size_t log_entries = 1 << 11;              // a lane's log
constexpr size_t log_room = 280;                     // after it: a piece with more accesses is split
constexpr size_t log_pitch = log_entries + log_room; // an odd number of cache lines, because 32 logs are read in parallel
constexpr unsigned site_bits = 16, most_sites = 1 << site_bits;

enum Operation { load, store, atomic };

// For checking: one access in the code to one memory space.
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

struct Tally {
    uint64_t requests = 0, units = 0, ideal = 0, bytes = 0;   // units: sectors, wavefronts, addresses
};

// For counting: one access in the code.
struct Access {
    uint32_t pc = 0;
    Operation operation = load;
    unsigned size = 0;
    bool keep = false;                               // volatile or longer than a register: it is always counted
    bool used = false;                               // the result of an atomic operation is used
    Space space = unwatched_space;                   // of the range of its last address: [low, high)
    uintptr_t low = 1, high = 0;
    Range *range = nullptr;
    uint64_t touched_base = 0;                       // the bytes of its last access
    uint32_t touched_version = 0;
    Tally tally[4];                                  // by space
};

// The differences of the lanes' addresses to the first lane's, and the counts that follow from them.
struct Pattern {
    int64_t least = 0, most = 0;
    uint64_t odd = 0;                                // the bits set in any of them
    uint32_t version = 0;                            // a new number after each change; 0: not used yet
    uint32_t twin_version = 0;                       // the version of an equal pattern of a store
    uint8_t units[32];                               // by the first address modulo 32; 0: not counted yet
    uint8_t ideal = 0, lanes = 0;
    bool runs_known = false;
    Space space = unwatched_space;                   // of the units
    struct Run { int64_t offset; size_t bytes; };
    std::vector<Run> runs;                           // of consecutive bytes
};

constexpr unsigned chunk = 8;                        // log entries that are compared at once

// A piece as the same lanes ran it the last time.
struct Variant {
    uint32_t mask = 0;
    std::unique_ptr<Pattern[]> patterns;             // one per access
    struct alignas(64) Chunk { uint64_t of[warp_size][chunk]; };
    std::unique_ptr<Chunk[]> delta;                  // the lanes' entries relative to the leader's; entry 0 is the piece's number
    uint64_t &at(unsigned entry, unsigned lane) { return delta[entry / chunk].of[lane][entry % chunk]; }
};

struct Piece {
    uint64_t key = 0;                                // its position in the order of the pieces
    unsigned first = 0, count = 0;                   // its accesses
    unsigned next = 0;                               // another piece with the same return address
    unsigned youngest = 0;
    std::unique_ptr<Variant> variants[4];
};

// The pieces and accesses of a module's code, for counting.
struct Code {
    std::vector<Piece> pieces;
    std::vector<Access> accesses;
    std::vector<std::pair<uint32_t, unsigned>> places;   // (offset in the code, number) of the pieces in its tables
    std::vector<unsigned> piece_at;                  // offset of a return address in the code -> piece; 0: none yet
};

struct Lane {
    uint64_t *next = nullptr, *end = nullptr;        // entries: a piece's number, then its addresses
    uint64_t *begin = nullptr;
    unsigned thread = 0;
};

// The last stores of a warp's lanes.
struct Stored {
    uintptr_t address[warp_size] = {};
    uintptr_t low = 0, high = 0;                     // around all of them
    uint32_t lanes = 0;                              // that have stored
    uint32_t version = 0, mask = 0;                  // pattern and lanes of the last store
    uintptr_t base = 0;
};

struct Finding {
    const char *tool;
    std::string kind, message;
    uint32_t pc, other_pc;
    Index block, thread, other_thread;
    bool has_other;
    uintptr_t address;
    size_t size;
    bool has_buffer;
    uintptr_t base;
    size_t bytes;
    long offset, missed_by;
    uint64_t count;
    const char *file;                                // the place, if `pc` is 0
    int line;
    unsigned look;                                   // the site of a plain load that races with an atomic operation, or 0
    std::vector<uint32_t> callers;                   // of the place, if it may be outside the user's source
};

// The last accesses to a byte of shared memory: a write, and later reads by up to two threads.
struct Touch {
    uint32_t epoch = 0, clock = 0;
    uint16_t thread = 0, site = 0;
};
struct Cell {
    Touch write, read[2];
    bool atomic = false;
};

}  // namespace

// The same for two bytes of global memory, also between blocks.
struct GlobalTouch : Touch {
    uint32_t fences_and_kind = 0;                    // number of fences before it in the launch; bit fields would be slow
    uint32_t fences() const { return fences_and_kind >> 3; }
    bool strong() const { return fences_and_kind & 4; }   // atomic or volatile
    bool atomic() const { return fences_and_kind & 2; }
    bool writes() const { return fences_and_kind & 1; }
};
struct GlobalCell {
    GlobalTouch write, read;                         // the last ones
    GlobalTouch hidden;                              // by the last ones: a read by an earlier block, or a plain write before an atomic one
};

namespace {

struct State {
    const Launch *launch = nullptr;
    WatchedModule *module = nullptr;
    uintptr_t text_begin = 0, text_bytes = 0;
    std::map<WatchedModule *, std::vector<Site>> sites_of;
    std::map<WatchedModule *, Code> codes;
    std::vector<Site> *all_sites = nullptr;
    Site *sites = nullptr;
    unsigned *site_at = nullptr;
    Code *code = nullptr;

    std::vector<Range> ranges;                       // sorted by address
    Range stacks{0, 0, local_space, nullptr, nullptr, nullptr};
    std::map<uintptr_t, Range> heap;                 // allocated by kernels

    Lane lanes[most_warps * warp_size];
    uint64_t *logs = nullptr, *together_begin = nullptr;
    uint64_t *own_words[3] = {};
    uint64_t **words = own_words;                    // of the running thread: its log's next entry and its end
    uint32_t versions = 0;
    Stored stored[most_warps];
    uint32_t parked[most_warps] = {};                // lanes with a full log
    unsigned waiting[most_warps];                    // lanes at a barrier, or with a full log
    int buffer_of[most_warps];
    std::vector<int> free_buffers;
    unsigned threads = 0;
    Index block{};

    uint64_t launches = 0, blocks = 0, barriers = 0;
    std::vector<Finding> findings;
    std::vector<uint32_t> cancelled_at;              // the place and its callers
    std::vector<std::string> unchecked;              // sentences

    // Accesses that the last lane to arrive makes for all lanes that have converged, and these lanes.
    uintptr_t together = 0;
    unsigned together_lanes = 0, together_warp = 0, together_piece = 0;
    struct Common { unsigned piece; Space space; uintptr_t address; };
    std::vector<Common> together_log;

    bool counts = false, checks = false, racecheck = false, initcheck = false, examines = false;
    uintptr_t shared_low[2] = {}, shared_bytes[2] = {};   // static, dynamic
    std::vector<Cell> cells[2];                      // one per byte of shared memory
    std::vector<Finding> between_blocks;
    struct Again { unsigned site, thread; Touch other; uintptr_t address; uint16_t bytes; char before[16]; };
    std::vector<Again> again;                        // stores of the running thread to bytes that another thread has stored
    std::vector<uint32_t> first_epoch;               // of each block
    std::vector<uint32_t> published;                 // per block: its accesses before this number of fences are published
    uint32_t fences = 0;                             // in this launch
    bool acquired = false;                           // this block has made a strong read, so it may see what others have published
    uint32_t locking[most_warps * warp_size] = {};   // per thread the last epoch with an atomic operation on global memory
    // The same for what orders accesses of a block without a barrier: the operations of a lock (atomicCAS, atomicExch), or a
    // fence and a volatile access, a flag.
    uint32_t ordering[most_warps * warp_size] = {}, fenced[most_warps * warp_size] = {}, flagged[most_warps * warp_size] = {};
    uint32_t epoch = 0, block_epoch = 0;             // a new one begins with each barrier and each block
    uint32_t clocks[most_warps][warp_size][warp_size];   // [warp][lane][other]: the last time of `other` that is ordered before `lane`
};

State state;
Lane *lane = &state.lanes[0];

std::mutex taking;
std::string finished;                                // records as lines of JSON, until Python reads them

Index index_of(unsigned thread) {
    const Index &size = state.launch->block;
    return {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}

// ---- Addresses ----------------------------------------------------------------------------------------------------------

Range *find(uintptr_t address) {
    auto after = std::upper_bound(state.ranges.begin(), state.ranges.end(), address,
                                  [](uintptr_t a, const Range &r) { return a < r.low; });
    if (after != state.ranges.begin())
        if (Range *range = &*std::prev(after); address - range->low < range->bytes) return range;
    auto block = state.heap.upper_bound(address);
    if (block == state.heap.begin()) return nullptr;
    Range *range = &std::prev(block)->second;
    return address - range->low < range->bytes ? range : nullptr;
}

const char *word(Operation operation) {
    return operation == load ? "read" : operation == store ? "write" : "atomic update";
}

// For messages: name and size.
std::string named(const Range &r) {
    if (!r.name && r.space == shared_space) return format("the %zu bytes of dynamic shared memory of the launch", r.bytes);
    if (!r.name) return format("an allocation of %zu bytes", r.bytes);
    const char *what = r.space == shared_space ? "__shared__ array" : r.space == constant_space ? "__constant__" : "variable";
    return format("the %s %s of %zu bytes", what, r.name, r.bytes);
}

// No allocation contains [address, address + size): report the nearest one, and end the launch.
[[noreturn]] void refuse(uint32_t pc, Operation operation, uintptr_t address, size_t size, bool misaligned,
                         unsigned thread = lane->thread) {
    Finding f{};
    f.tool = "memcheck";
    f.pc = pc;
    f.block = state.block;
    f.thread = threadIdx = index_of(thread);
    f.address = address;
    f.size = size;
    f.count = 1;
    std::string what = format("%s of %zu bytes", word(operation), size);
    const Range *best = nullptr;
    size_t distance = (size_t)1 << 40;
    auto consider = [&](const Range &r) {
        if (r.space == unwatched_space || r.space == local_space) return;
        size_t away = address + size <= r.low ? r.low - address : address >= r.low + r.bytes ? address + size - r.low - r.bytes : 0;
        if (!r.bytes && away > 256 * 1024) return;  // a launch without dynamic shared memory: none of its addresses
        if (away < distance) distance = away, best = &r;
    };
    for (const Range &r : state.ranges) consider(r);
    for (const auto &block : state.heap) consider(block.second);
    bool freed = best && best->freed && !distance;
    if (freed) f.base = best->low, f.bytes = best->bytes;
    if (misaligned) {
        f.kind = "misaligned";
        f.message = format("misaligned %s at %p, which is not a multiple of %zu", what.c_str(), (void *)address, size);
    } else if (address < 4096) {
        f.kind = "null pointer";
        f.message = format("%s at address %zu: a null pointer", what.c_str(), (size_t)address);
        best = nullptr;
    } else if (freed || was_freed((void *)address, f.base, f.bytes)) {
        f.kind = "freed memory";
        f.has_buffer = true;
        f.offset = (long)(address - f.base);
        f.message = format("%s at byte %ld of an allocation of %zu bytes that has been freed", what.c_str(), f.offset, f.bytes);
        best = nullptr;
    } else {
        f.kind = "out of bounds";
    }
    if (best && (misaligned || distance < (size_t)1 << 30)) {
        f.has_buffer = true;
        f.base = best->low;
        f.bytes = best->bytes;
        f.offset = (long)(address - best->low);
        f.missed_by = misaligned ? 0 : f.offset < 0 ? f.offset : f.offset + (long)size - (long)f.bytes;
        std::string buffer = named(*best);
        if (!misaligned && f.missed_by < 0)
            f.message = format("%s %ld bytes before %s", what.c_str(), -f.missed_by, buffer.c_str());
        else if (!misaligned)
            f.message = format("%s at byte %ld of %s: %ld bytes beyond its end", what.c_str(), f.offset, buffer.c_str(), f.missed_by);
    } else if (f.message.empty()) {
        f.message = format("%s at %p, not near any allocation", what.c_str(), (void *)address);
    }
    std::string sentence = f.message;
    if (watches("memcheck")) state.findings.push_back(f);
    leave_launch(sentence);
}

// An index beyond a local array of that type, which is in quotes: report it, and end the launch.
[[noreturn]] void overrun(uint32_t pc, std::string type, int64_t index) {
    Finding f{};
    f.tool = "memcheck";
    f.kind = "out of bounds";
    f.pc = pc;
    f.block = state.block;
    f.thread = threadIdx;
    f.count = 1;
    f.message = format("index %ld is outside of a local array, %s", (long)index, type.c_str());
    if (watches("memcheck")) state.findings.push_back(f);
    leave_launch(f.message);
}

unsigned new_site(uintptr_t at, Operation operation, unsigned size, Space space) {
    std::vector<Site> &sites = *state.all_sites;
    if (sites.size() == most_sites) leave_launch("check mode handles at most 65535 places that access memory in a module");
    Site site;
    site.pc = (uint32_t)(state.text_begin + at - state.module->base);
    site.operation = operation;
    site.size = size;
    site.space = space;
    site.next = state.site_at[at];
    sites.push_back(site);
    state.sites = sites.data();
    return state.site_at[at] = sites.size() - 1;
}

// The slow path: the first access of a site, or the first one to another range.
__attribute__((noinline)) unsigned locate(uintptr_t at, uintptr_t address, unsigned size, Operation operation) {
    Range *range = find(address);
    if (!range && in_stacks(address, state.stacks)) range = &state.stacks;
    uint32_t pc = (uint32_t)(state.text_begin + at - state.module->base);
    if (!range || range->freed || address - range->low + size > range->bytes) refuse(pc, operation, address, size, false);
    unsigned index = state.site_at[at];
    auto fits = [&](const Site &s) { return s.space == range->space && s.operation == operation && s.size == size; };
    while (index && !fits(state.sites[index])) index = state.sites[index].next;
    if (!index) {
        index = new_site(at, operation, size, range->space);
    } else if (index != state.site_at[at]) {         // to the front of its list
        unsigned *link = &state.site_at[at];
        while (*link != index) link = &state.sites[*link].next;
        *link = state.sites[index].next;
        state.sites[index].next = state.site_at[at];
        state.site_at[at] = index;
    }
    Site &site = state.sites[index];
    site.low = range->low;
    site.span = range->bytes - size;
    site.range = range;
    return index;
}

// ---- Requests -----------------------------------------------------------------------------------------------------------

// There is not enough memory for the records of a range: report it once.
__attribute__((noinline)) void without_memory(const char *tool, Range &range) {
    if (!range.unchecked) state.unchecked.push_back(format("%s had too little memory for %s: not checked", tool, named(range).c_str()));
    range.unchecked = true;
}

// Mark these bytes as accessed.
void touch(Range *range, uintptr_t address, size_t bytes) {
    if (UNLIKELY(!range->touched)) range->touched = (uint64_t *)calloc(range->bytes / 64 + 2, 8);
    if (UNLIKELY(!range->touched)) return without_memory("profile", *range);
    uint64_t *words = range->touched - range->low / 64;
    for (uintptr_t end = address + bytes; address < end;) {
        uintptr_t stop = (address | 63) + 1 < end ? (address | 63) + 1 : end;
        words[address / 64] |= (~0ull >> (64 - (stop - address))) << address % 64;
        address = stop;
    }
}

unsigned distinct(uint64_t *values, unsigned count) {
    std::sort(values, values + count);
    return (unsigned)(std::unique(values, values + count) - values);
}

// Sectors of 32 bytes. Accesses are aligned and at most 16 bytes long, so each is in one sector. Lanes outside the mask have
// the address of a lane inside it.
unsigned count_sectors(const uintptr_t *address) {
    uintptr_t least = address[0], most = address[0];
    for (unsigned l = 1; l < warp_size; l++) {
        least = address[l] < least ? address[l] : least;
        most = address[l] > most ? address[l] : most;
    }
    least /= 32;
    if (most / 32 - least < 64) {
        uint64_t set = 0;
        for (unsigned l = 0; l < warp_size; l++) set |= 1ull << (address[l] / 32 - least);
        return __builtin_popcountll(set);
    }
    uint64_t sectors[warp_size];
    for (unsigned l = 0; l < warp_size; l++) sectors[l] = address[l] / 32;
    return distinct(sectors, warp_size);
}

// For an atomic operation: lanes with the same address run one after the other, the n-th of each in the n-th pass, and the
// sectors of each pass are counted.
unsigned count_atomic_sectors(const uintptr_t *address, uint32_t mask) {
    uint64_t sectors[warp_size];
    unsigned count = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = __builtin_ctz(left), pass = 0;
        for (uint32_t before = mask & ((1u << l) - 1); before; before &= before - 1)
            pass += address[__builtin_ctz(before)] == address[l];
        sectors[count++] = (uint64_t)pass << 58 | address[l] / 32;
    }
    return distinct(sectors, count);
}

// Whether every lane reads the same as its neighbour (or as the lane after that), or one of the two reads nothing.
bool neighbours_agree(const uintptr_t *address, uint32_t mask) {
    for (unsigned away : {1, 2}) {
        bool agree = true;
        for (uint32_t left = mask; left && agree; left &= left - 1) {
            unsigned l = __builtin_ctz(left);
            agree = !(mask >> (l ^ away) & 1) || address[l] == address[l ^ away];
        }
        if (agree) return true;
    }
    return false;
}

// 32 banks of 4 bytes: a bank serves one word per wavefront, to any number of lanes. Accesses of 8 or 16 bytes per lane are
// served for half or a quarter of a warp at a time, with at least `ideal` wavefronts; for twice as many lanes at a time if
// neighbours load the same (measured on an H200).
unsigned count_passes(unsigned size, Operation operation, const uintptr_t *address, uint32_t mask, unsigned &ideal) {
    unsigned group = size <= 4 ? 32 : size == 8 ? 16 : 8, words = size <= 4 ? 1 : size / 4, passes = 0;
    if (words > 1 && operation == load && neighbours_agree(address, mask)) group *= 2;
    ideal = 0;
    for (unsigned first = 0; first < warp_size; first += group) {
        uint32_t left = group == 32 ? mask : mask >> first & ((1u << group) - 1);
        if (!left) continue;
        uint64_t held[32][32];
        uint8_t depth[32] = {};
        unsigned deepest = 0;
        for (; left; left &= left - 1) {
            uint64_t w = address[first + __builtin_ctz(left)] / 4;
            for (unsigned i = 0; i < words; i++, w++) {
                unsigned bank = w % 32, d = 0;
                while (d < depth[bank] && held[bank][d] != w) d++;
                if (d == depth[bank]) {
                    held[bank][d] = w;
                    depth[bank] = d + 1;
                    if (d + 1 > deepest) deepest = d + 1;
                }
            }
        }
        passes += deepest;
        ideal++;
    }
    return passes;
}

// The units of a request in this memory space.
unsigned measure(Space space, const Access &a, const uintptr_t *address, uint32_t mask, unsigned &ideal) {
    if (space == shared_space) return count_passes(a.size, a.operation, address, mask, ideal);
    ideal = 1;
    if (space == global_space) return a.operation == atomic ? count_atomic_sectors(address, mask) : count_sectors(address);
    uint64_t values[warp_size];
    memcpy(values, address, sizeof values);
    return distinct(values, warp_size);
}

// Count a single request.
void count(Access &a, Space space, const uintptr_t *lanes, uint32_t mask) {
    Tally &tally = a.tally[space];
    tally.requests++;
    if (space == local_space) return;
    uintptr_t address[warp_size];
    for (unsigned l = 0; l < warp_size; l++) address[l] = lanes[mask >> l & 1 ? l : __builtin_ctz(mask)];
    unsigned ideal;
    tally.units += measure(space, a, address, mask, ideal);
    tally.ideal += ideal;
    tally.bytes += (uint64_t)__builtin_popcount(mask) * a.size;
    if (space == global_space)
        for (uint32_t left = mask; left; left &= left - 1) {
            uintptr_t at = address[__builtin_ctz(left)];
            touch(find(at), at, a.size);
        }
}

// ---- Values in registers ----------------------------------------------------------------------------------------------

// These lanes have stored, or (address 0) their stored values must be read from memory again.
void note_stored(Stored &stored, const uintptr_t *address, uint32_t mask, bool forget) {
    stored.version = 0;
    if (forget && !stored.lanes) return;
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = __builtin_ctz(left);
        uintptr_t at = stored.address[l] = forget ? 0 : address[l];
        low = at < low ? at : low;
        high = at > high ? at : high;
    }
    if (forget) {
        stored.lanes &= ~mask;
        return;
    }
    bool all = !(stored.lanes & ~mask);
    stored.low = all || low < stored.low ? low : stored.low;
    stored.high = all || high > stored.high ? high : stored.high;
    stored.lanes |= mask;
}

// The lanes whose load does not read a value that is still in a register.
uint32_t not_stored(const Stored &stored, const uintptr_t *address, uint32_t mask) {
    uint32_t same = 0;
    for (unsigned l = 0; l < warp_size; l++) same |= (uint32_t)(address[l] == stored.address[l]) << l;
    return mask & ~(same & stored.lanes);
}

// ---- Pieces ---------------------------------------------------------------------------------------------------------------

Range *find_any(uintptr_t address) {
    Range *range = find(address);
    if (!range && in_stacks(address, state.stacks)) range = &state.stacks;
    return range;
}

// Keep the range of an access if it contains all of [low, high).
bool settle(Access &a, uintptr_t low, uintptr_t high) {
    Range *range = find_any(low);
    if (!range || high - range->low > range->bytes) return false;
    a.low = range->low;
    a.high = range->low + range->bytes;
    a.range = range;
    a.space = range->space;
    return true;
}

// Lanes in several ranges, or in none.
__attribute__((noinline)) void count_scattered(Access &a, const uintptr_t *address, uint32_t mask, unsigned warp) {
    uint32_t in[5] = {};
    for (uint32_t left = mask; left; left &= left - 1) {
        unsigned l = __builtin_ctz(left);
        Range *range = find_any(address[l]);
        if (!range || address[l] - range->low + a.size > range->bytes)
            refuse(a.pc, a.operation, address[l], a.size, false, warp * warp_size + l);
        in[range->space] |= 1u << l;
    }
    for (Space space : {global_space, shared_space, constant_space, local_space}) {
        uint32_t lanes = in[space];
        if (!lanes) continue;
        if (a.operation == load && !a.keep) lanes = not_stored(state.stored[warp], address, lanes);
        else note_stored(state.stored[warp], address, lanes, a.keep || a.operation == atomic);
        if (lanes) count(a, space, address, lanes);
    }
}

// Record the differences of the lanes' addresses.
void learn(Variant &v, Pattern &p, unsigned entry, unsigned size, const uint64_t *const *rows, unsigned leader) {
    uint64_t base = rows[leader][entry];
    p.least = p.most = 0;
    p.odd = 0;
    for (unsigned l = 0; l < warp_size; l++) {
        int64_t d = rows[l][entry] - base;
        v.at(entry, l) = d;
        p.least = d < p.least ? d : p.least;
        p.most = d > p.most ? d : p.most;
        p.odd |= d;
    }
    p.odd &= size - 1;
    p.version = ++state.versions;
    p.twin_version = 0;
    memset(p.units, 0, sizeof p.units);
    p.lanes = __builtin_popcount(v.mask);
    p.runs_known = false;
}

void learn_runs(Variant &v, Pattern &p, unsigned entry, unsigned size) {
    p.runs.clear();
    for (uint32_t left = v.mask; left; left &= left - 1) {
        int64_t d = v.at(entry, __builtin_ctz(left));
        if (!p.runs.empty()) {
            auto &last = p.runs.back();
            if (d >= last.offset && d <= last.offset + (int64_t)last.bytes) {
                size_t bytes = d - last.offset + size;
                last.bytes = bytes > last.bytes ? bytes : last.bytes;
                continue;
            }
        }
        p.runs.push_back({d, size});
    }
    p.runs_known = true;
}

// One instruction of a warp.
inline void count_access(Access &a, Variant &v, Pattern &p, unsigned entry, uintptr_t base, unsigned warp) {
    uintptr_t low = base + p.least, high = base + p.most + a.size;
    auto addresses = [&](uintptr_t *address) {
        for (unsigned l = 0; l < warp_size; l++) address[l] = base + v.at(entry, l);
    };
    uintptr_t address[warp_size];
    if (UNLIKELY(low < a.low || high > a.high) && !settle(a, low, high)) {
        addresses(address);
        return count_scattered(a, address, v.mask, warp);
    }
    if (a.space == unwatched_space) return;
    if (UNLIKELY((base | p.odd) & (a.size - 1)) && a.space != local_space) {   // there the host's compiler merges stores
        for (uint32_t left = v.mask; left; left &= left - 1) {
            unsigned l = __builtin_ctz(left);
            if (uintptr_t at = base + v.at(entry, l); at & (a.size - 1))
                refuse(a.pc, a.operation, at, a.size, true, warp * warp_size + l);
        }
    }
    Stored &stored = state.stored[warp];
    if (a.operation != load || a.keep) {
        bool forget = a.keep || a.operation == atomic;
        bool again = stored.version == p.version && stored.base == base && stored.mask == v.mask;
        if (!again && (!forget || stored.lanes)) {
            addresses(address);
            note_stored(stored, address, v.mask, forget);
            if (!forget) stored.version = p.version, stored.base = base, stored.mask = v.mask;
        }
    } else if (stored.lanes && low <= stored.high && high > stored.low) {
        uint32_t lanes;
        if (stored.version && p.twin_version == stored.version && !(v.mask & ~stored.mask)) {
            lanes = base == stored.base ? 0 : v.mask;
        } else {
            addresses(address);
            lanes = not_stored(stored, address, v.mask);
            if (!lanes && stored.version && base == stored.base) p.twin_version = stored.version;
        }
        if (!lanes) return;
        if (lanes != v.mask) {
            addresses(address);
            return count(a, a.space, address, lanes);
        }
    }
    Tally &tally = a.tally[a.space];
    tally.requests++;
    if (a.space == local_space) return;
    if (UNLIKELY(p.space != a.space)) memset(p.units, 0, sizeof p.units), p.space = a.space;
    uint8_t &units = p.units[base % 32];
    if (UNLIKELY(!units)) {
        addresses(address);
        unsigned ideal;
        units = measure(a.space, a, address, v.mask, ideal);
        p.ideal = ideal;
    }
    tally.units += units;
    tally.ideal += p.ideal;
    tally.bytes += p.lanes * a.size;
    if (a.space != global_space || (a.touched_base == base && a.touched_version == p.version)) return;
    if (UNLIKELY(!p.runs_known)) learn_runs(v, p, entry, a.size);
    for (const auto &run : p.runs) touch(a.range, base + run.offset, run.bytes);
    a.touched_base = base;
    a.touched_version = p.version;
}

Variant &variant_for(Piece &piece, uint32_t mask) {
    for (auto &v : piece.variants)
        if (v && v->mask == mask) return *v;
    auto &v = piece.variants[piece.youngest = (piece.youngest + 1) % 4];
    if (!v) {
        v.reset(new Variant);
        v->patterns.reset(new Pattern[piece.count]);
        v->delta.reset(new Variant::Chunk[piece.count / chunk + 1]);
    }
    v->mask = mask;
    memset(v->delta.get(), 0x55, (piece.count / chunk + 1) * sizeof(Variant::Chunk));   // no difference matches: all are recorded anew
    for (unsigned l = 0; l < warp_size; l++) v->at(0, l) = 0;
    return *v;
}

typedef uint64_t Entries __attribute__((vector_size(8 * chunk), aligned(8), may_alias));

// Run one piece for the lanes in the mask, whose entries are at `rows`; lanes outside it have those of the leader. Returns
// false, and does nothing, if the lanes are at different pieces.
bool play(const uint64_t *const *rows, uint32_t mask, unsigned leader, unsigned warp) {
    const uint64_t *own = rows[leader];
    Piece &piece = state.code->pieces[*own];
    Variant &v = variant_for(piece, mask);
    Access *accesses = &state.code->accesses[piece.first] - 1;   // entry 1 is the first
    for (unsigned begin = 0; begin <= piece.count; begin += chunk) {
        const uint64_t(*delta)[chunk] = v.delta[begin / chunk].of;
        Entries base = *(const Entries *)(own + begin), other = {};
        for (unsigned l = 0; l < warp_size; l++)
            other |= (*(const Entries *)(rows[l] + begin) - base) ^ *(const Entries *)delta[l];
        if (begin == 0 && other[0]) return false;
        unsigned end = begin + chunk <= piece.count ? begin + chunk : piece.count + 1;
        for (unsigned entry = begin ? begin : 1; entry < end; entry++) {
            Access &a = accesses[entry];
            Pattern &p = v.patterns[entry - 1];
            if (UNLIKELY(other[entry - begin])) learn(v, p, entry, a.size, rows, leader);
            count_access(a, v, p, entry, own[entry], warp);
        }
    }
    return true;
}

// ---- A warp's logs --------------------------------------------------------------------------------------------------------

// A lane that is far ahead of others waits for them.
bool has_room(const Lane &lane) { return lane.next - lane.begin <= (ptrdiff_t)log_entries / 2; }

// Match the logs of a warp's lanes. The lanes in `more` have not ended; when one of them reaches the end of its log, its next
// piece is not known, so pieces of others that must wait for it stay in their logs.
void match(unsigned warp, uint32_t more) {
    Lane *lanes = &state.lanes[warp * warp_size];
    const uint64_t *rows[warp_size], *apart[warp_size];
    uint32_t left = 0;
    for (unsigned l = 0; l < warp_size; l++) {
        rows[l] = lanes[l].begin;
        if (rows[l] != lanes[l].next) left |= 1u << l;
    }
    const std::vector<Piece> &pieces = state.code->pieces;
    bool stopped = (more & ~left) != 0;
    while (left && !stopped) {
        unsigned leader = __builtin_ctz(left);
        size_t common = SIZE_MAX;
        for (unsigned l = 0; l < warp_size; l++) {
            if (!(left >> l & 1)) {
                rows[l] = rows[leader];
            } else if (size_t n = lanes[l].next - rows[l]; n < common) {
                common = n;
            }
        }
        // All lanes are at the same piece.
        while (common && play(rows, left, leader, warp)) {
            size_t entries = pieces[*rows[leader]].count + 1;
            for (unsigned l = 0; l < warp_size; l++) rows[l] += entries;
            common -= entries;
        }
        uint32_t ended = 0;
        if (common) {
            // The first piece, in the order of the pieces, of those at which lanes are.
            uint64_t first = UINT64_MAX, number = 0;
            uint32_t mask = 0;
            for (uint32_t rest = left; rest; rest &= rest - 1) {
                unsigned l = __builtin_ctz(rest);
                uint64_t key = pieces[*rows[l]].key;
                if (key > first || (key == first && *rows[l] != number)) continue;
                if (key < first) mask = 0, first = key, number = *rows[l];
                mask |= 1u << l;
            }
            leader = __builtin_ctz(mask);
            for (unsigned l = 0; l < warp_size; l++) apart[l] = rows[mask >> l & 1 ? l : leader];
            play(apart, mask, leader, warp);
            size_t entries = pieces[number].count + 1;
            for (uint32_t rest = mask; rest; rest &= rest - 1) {
                unsigned l = __builtin_ctz(rest);
                rows[l] += entries;
                if (rows[l] == lanes[l].next) ended |= 1u << l;
            }
        } else {
            for (uint32_t rest = left; rest; rest &= rest - 1) {
                unsigned l = __builtin_ctz(rest);
                if (rows[l] == lanes[l].next) ended |= 1u << l;
            }
        }
        left &= ~ended;
        stopped = (ended & more) != 0;
    }
    bool room = !state.parked[warp];
    for (unsigned l = 0; l < warp_size; l++) {
        size_t kept = left >> l & 1 ? lanes[l].next - rows[l] : 0;
        memmove(lanes[l].begin, rows[l], kept * sizeof *rows[l]);
        lanes[l].next = lanes[l].begin + kept;
        room |= state.parked[warp] >> l & 1 && has_room(lanes[l]);
    }
    if (!room) match(warp, 0);                       // otherwise they would wait for each other endlessly
}

void give_buffer(unsigned warp) {
    if (state.free_buffers.empty()) leave_launch("check mode ran out of logs");
    int buffer = state.buffer_of[warp] = state.free_buffers.back();
    state.free_buffers.pop_back();
    for (unsigned l = 0; l < warp_size; l++) {
        Lane &mine = state.lanes[warp * warp_size + l];
        mine.begin = mine.next = state.logs + (buffer * warp_size + l) * log_pitch;
        mine.end = mine.begin + log_entries;
        mine.thread = warp * warp_size + l;
    }
}

// ---- Shared memory: races, uninitialized memory ---------------------------------------------------------------------

void report(const char *tool, const char *kind, uint32_t pc, unsigned thread, const Touch *other, uintptr_t address, size_t size,
            const std::string &message) {
    uint32_t other_pc = other ? state.sites[other->site].pc : 0;
    for (Finding &f : state.findings)
        if (f.kind == kind && ((f.pc == pc && f.other_pc == other_pc) || (f.pc == other_pc && f.other_pc == pc))) {
            f.count++;
            return;
        }
    Finding f{};
    f.tool = tool;
    f.kind = kind;
    f.message = message;
    f.pc = pc;
    f.block = state.block;
    f.thread = index_of(thread);
    f.address = address;
    f.size = size;
    f.count = 1;
    if (other) {
        f.has_other = true;
        f.other_pc = other_pc;
        f.other_thread = index_of(other->thread);
    }
    if (const Range *range = find(address)) {
        f.has_buffer = true;
        f.base = range->low;
        f.bytes = range->bytes;
        f.offset = (long)(address - range->low);
    }
    state.findings.push_back(f);
}

// Whether the other access is ordered before this one, or is by the same thread.
bool ordered(const Touch &other, unsigned thread) {
    if (other.epoch != state.epoch || other.thread == thread) return true;
    unsigned warp = thread / warp_size;
    return other.thread / warp_size == warp && state.clocks[warp][thread % warp_size][other.thread % warp_size] >= other.clock;
}

void race(unsigned site, unsigned thread, const Touch &other, uintptr_t address, size_t size, const char *both) {
    Index a = index_of(thread), b = index_of(other.thread);
    const Range *range = find(address);
    bool one_warp = thread / warp_size == other.thread / warp_size;
    report("racecheck", "race", state.sites[site].pc, thread, &other, address, size,
           format("threads (%u,%u,%u) and (%u,%u,%u) of a block %s byte %zu of %s without a barrier%s between", b.x, b.y, b.z, a.x,
                  a.y, a.z, both, range ? (size_t)(address - range->low) : 0,
                  range && range->name ? format("the __shared__ array %s", range->name).c_str() : "dynamic shared memory",
                  one_warp ? " or a __syncwarp" : ""));
}

// The block of an access: its number, in the worker's order.
size_t block_of(const Touch &touch) {
    auto after = std::upper_bound(state.first_epoch.begin(), state.first_epoch.end(), touch.epoch);
    return after - state.first_epoch.begin() - 1;
}

Index block_index(size_t number) {
    const Index &grid = state.launch->grid;
    return {(unsigned)(number % grid.x), (unsigned)(number / grid.x % grid.y), (unsigned)(number / grid.x / grid.y)};
}

// In this launch, by another block.
bool of_another(const GlobalTouch &touch) { return touch.epoch && touch.epoch < state.block_epoch; }

// Whether another block made the access, and nothing orders it before this block.
bool unordered(const GlobalTouch &other, bool strong) {
    return of_another(other) && !(other.strong() && strong)
           && !(state.acquired && other.fences() < state.published[block_of(other)]);
}

__attribute__((noinline)) void race_of_blocks(unsigned index, unsigned thread, const Touch &other, uintptr_t address) {
    const Site &site = state.sites[index], &other_site = state.sites[other.site];
    for (Finding &f : state.between_blocks)
        if (f.pc == site.pc && f.other_pc == other_site.pc) {
            f.count++;
            return;
        }
    auto does = [](Operation operation) { return operation == load ? "reads" : operation == store ? "writes" : "updates"; };
    Index a = block_index(block_of(other)), b = state.block;
    std::string sentence = format(
        "blocks (%u,%u,%u), which %s, and (%u,%u,%u), which %s, use the same bytes of global memory in one launch, whose "
        "blocks run in any order", a.x, a.y, a.z, does(other_site.operation), b.x, b.y, b.z, does(site.operation));
    if (state.acquired)
        sentence += format("; after its access (%u,%u,%u) makes no __threadfence() followed by an atomic operation that signals it",
                           a.x, a.y, a.z);
    state.findings.swap(state.between_blocks);
    report("racecheck", "race between blocks", site.pc, thread, &other, address, site.size, sentence);
    if (site.operation == load && other_site.operation == atomic) state.findings.back().look = index;
    if (site.operation == atomic && other_site.operation == load) state.findings.back().look = other.site;
    state.findings.swap(state.between_blocks);
}

__attribute__((noinline)) void race_in_global(unsigned index, unsigned thread, const Touch &other, uintptr_t address) {
    const Site &site = state.sites[index];
    Index a = index_of(other.thread), b = index_of(thread);
    report("racecheck", "race", site.pc, thread, &other, address, site.size,
           format("threads (%u,%u,%u) and (%u,%u,%u) of a block use byte %zu of %s without a barrier between, and at least one "
                  "writes", a.x, a.y, a.z, b.x, b.y, b.z, (size_t)(address - site.range->low), named(*site.range).c_str()));
}

// A store to bytes (one bit each) that another thread has stored.
__attribute__((noinline)) void store_again(unsigned site, unsigned thread, const Touch &other, uintptr_t address, unsigned size,
                                           uint16_t bytes) {
    State::Again again{site, thread, other, address, bytes, {}};
    memcpy(again.before, (const void *)address, size);
    state.again.push_back(again);
}

// The running thread waits or has ended: those of its stores are races that have changed the value stored by another thread.
// (The calls above are made before the store.)
__attribute__((noinline)) void settle_again() {
    for (const State::Again &s : state.again) {
        unsigned i = 0;
        while (i < 16 && !(s.bytes >> i & 1 && ((const char *)s.address)[i] != s.before[i])) i++;
        if (i == 16) continue;
        const Site &site = state.sites[s.site];
        if (site.space == shared_space) race(s.site, s.thread, s.other, s.address + i, site.size, "both write");
        else if (s.other.epoch < state.block_epoch) race_of_blocks(s.site, s.thread, s.other, s.address);
        else race_in_global(s.site, s.thread, s.other, s.address + i);
    }
    state.again.clear();
}

// A thread that has made a fence and a volatile access may have set, or seen, a flag.
void note_flag(uint32_t *what, unsigned thread) {
    what[thread] = state.epoch;
    if (state.fenced[thread] == state.epoch && state.flagged[thread] == state.epoch) state.ordering[thread] = state.epoch;
}

// Whether one of the two threads may wait for the other, in a way that is not checked.
bool excused(unsigned thread, unsigned other) {
    return state.ordering[thread] == state.epoch || state.ordering[other] == state.epoch;
}

// A thread that uses atomics may hold a lock: until the next barrier it is not checked against its own block.
void examine_global(const Site &site, unsigned index, uintptr_t address, unsigned size, unsigned thread, bool strong) {
    Range &range = *site.range;
    if (UNLIKELY(!range.cells)) {
        if (range.unchecked) return;
        range.cells = (GlobalCell *)calloc(range.bytes / 2 + 1, sizeof(GlobalCell));
        if (!range.cells) return without_memory("racecheck", range);
    }
    if (site.operation == atomic) state.locking[thread] = state.epoch;
    bool judged = state.locking[thread] != state.epoch, writes = site.operation != load;
    GlobalTouch now;
    now.epoch = state.epoch;
    now.clock = state.clocks[thread / warp_size][thread % warp_size][thread % warp_size];
    now.thread = thread;
    now.site = index;
    now.fences_and_kind = state.fences << 3 | strong << 2 | (site.operation == atomic) << 1 | writes;
    bool told = false;
    Touch stored;                                    // by another thread, a plain store like this one
    uint16_t again = 0;                              // its bytes
    GlobalCell *cells = range.cells + (address - range.low) / 2;
    for (unsigned i = 0; i < size; i += 2) {
        GlobalCell &cell = cells[i / 2];
        bool own_read = cell.read.epoch >= state.block_epoch;
        if (writes || cell.write.epoch) {            // otherwise no thread has written there
            bool both_store = site.operation == store && !cell.write.atomic();
            const Touch *other = nullptr, *elsewhere = nullptr;
            if (!(cell.write.strong() && strong) && !ordered(cell.write, thread)) other = &cell.write;
            else if (writes && !(cell.read.strong() && strong) && !ordered(cell.read, thread)) other = &cell.read;
            if (other && judged && state.locking[other->thread] != state.epoch && !excused(thread, other->thread)) {
                if (other != &cell.write || !both_store) return race_in_global(index, thread, *other, address + i);
                stored = *other, again |= 3 << i;
            }
            bool saw = own_read && cell.read.strong() && cell.write.strong();   // this block has read the written value
            if (!saw && unordered(cell.write, strong)) {
                if (both_store) stored = cell.write, again |= 3 << i;
                else elsewhere = &cell.write;
            }
            if (!elsewhere && writes && unordered(cell.read, strong)) elsewhere = &cell.read;
            if (!elsewhere && (writes || cell.hidden.writes()) && unordered(cell.hidden, strong)) elsewhere = &cell.hidden;
            if (elsewhere && !told) race_of_blocks(index, thread, *elsewhere, address), told = true;
            if (now.atomic() && own_read && cell.read.thread == thread) state.sites[cell.read.site].looks = true;
            if (now.atomic() && cell.write.epoch >= state.block_epoch && !cell.write.strong()) cell.hidden = cell.write;
        }
        if (writes) {
            cell.write = now;
        } else {
            if (!own_read && cell.read.epoch) cell.hidden = cell.read;
            cell.read = now;
        }
    }
    if (again && !told) store_again(index, thread, stored, address, size, again);
}

__attribute__((noinline)) void examine(unsigned index, uintptr_t address, unsigned size, unsigned thread, bool reads,
                                       bool strong) {
    const Site &site = state.sites[index];
    Operation operation = site.operation;
    if (strong && operation != atomic) note_flag(state.flagged, thread);
    if (site.space == global_space) {
        if (state.racecheck) {
            if (size > 1) examine_global(site, index, address, size, thread, strong);
            if (strong && operation != load) state.published.back() = state.fences;
            if (strong && operation != store) state.acquired = true;
        }
        if (!state.initcheck) return;
        Range *range = site.range;
        if (!range->written) return;
        uint8_t *written = range->written + (address - range->low);
        if (reads && memchr(written, 0, size))
            report("initcheck", "uninitialized", site.pc, thread, nullptr, address, size,
                   format("read of %u bytes of uninitialized global memory, at byte %zu of an allocation of %zu bytes",
                          size, (size_t)(address - range->low), range->bytes));
        if (operation != load) memset(written, 1, size);
        return;
    }
    if (site.space != shared_space) return;
    unsigned part = address - state.shared_low[0] < state.shared_bytes[0] ? 0 : 1;
    Cell *cells = &state.cells[part][address - state.shared_low[part]];
    Touch now;
    now.epoch = state.epoch;
    now.thread = thread;
    now.site = index;
    if (state.racecheck) now.clock = state.clocks[thread / warp_size][thread % warp_size][thread % warp_size];
    bool reported = false;
    Touch stored;
    uint16_t again = 0;
    for (unsigned i = 0; i < size; i++) {
        Cell &cell = cells[i];
        bool unwritten = cell.write.epoch < state.block_epoch;
        if (state.initcheck && reads && unwritten && !reported) {
            report("initcheck", "uninitialized", site.pc, thread, nullptr, address + i, size,
                   format("read of %u bytes of uninitialized shared memory: no thread of this block has written them", size));
            reported = true;
        }
        if (state.racecheck) {
            bool both_atomic = operation == atomic && cell.atomic;
            if (!unwritten && !both_atomic && !ordered(cell.write, thread) && !excused(thread, cell.write.thread)) {
                if (operation != store || cell.atomic)
                    return race(index, thread, cell.write, address + i, size, operation == load ? "write and read" : "both write");
                stored = cell.write, again |= 1 << i;
            }
            if (operation != load)
                for (const Touch &read : cell.read)
                    if (read.epoch && !ordered(read, thread) && !excused(thread, read.thread))
                        return race(index, thread, read, address + i, size, "read and write");
        }
        if (operation != load) {
            cell.write = now;
            cell.atomic = operation == atomic;
        } else {
            // Keep readers of two warps, or else of two threads: a later write must be ordered after them.
            Touch &first = cell.read[0];
            bool same = first.epoch == state.epoch && first.thread / warp_size == thread / warp_size;
            if (first.epoch != state.epoch) cell.read[0] = now, cell.read[1] = Touch();
            else if (first.thread == thread) first = now;
            else if (!same || cell.read[1].epoch != state.epoch
                     || cell.read[1].thread / warp_size == thread / warp_size) cell.read[1] = now;
        }
    }
    if (again) store_again(index, thread, stored, address, size, again);
}

void missing_lane(unsigned reader, int source) {
    if (!watches("synccheck") || state.together < 2) return;
    unsigned thread = state.together_warp * warp_size + reader;
    report("synccheck", "absent lane", (uint32_t)(state.together - state.module->base), thread, nullptr, 0, 0,
           format("a shuffle reads from lane %d, which does not execute it: its value is undefined", source));
}

}  // namespace

namespace labkit {
EXPORT void missing_source(int lane, int source) { missing_lane(lane, source); }
}  // namespace labkit

namespace {

// ---- The hooks ------------------------------------------------------------------------------------------------------------

// The piece of one access that a function below makes for the code at that return address.
unsigned dynamic_piece(uintptr_t at, Operation operation, unsigned size, bool keep) {
    Code &code = *state.code;
    unsigned &head = code.piece_at[at];
    for (unsigned i = head; i; i = code.pieces[i].next) {
        const Piece &p = code.pieces[i];
        if (!p.count) {
            if (!size) return i;
        } else if (const Access &a = code.accesses[p.first]; a.operation == operation && a.size == size && a.keep == keep) {
            return i;
        }
    }
    Piece piece;
    uint32_t pc = (uint32_t)(state.text_begin + at - state.module->base);
    auto after = std::upper_bound(code.places.begin(), code.places.end(), std::make_pair(pc, ~0u));
    piece.key = (uint64_t)(after == code.places.begin() ? 0 : std::prev(after)->second) << 32 | pc;
    piece.first = code.accesses.size();
    piece.next = head;
    if (size) {
        Access a;
        a.pc = pc;
        a.operation = operation;
        a.size = size;
        a.keep = keep;
        a.used = operation == atomic && !keep;       // known for those of atomic.h
        code.accesses.push_back(a);
        piece.count = 1;
    }
    head = code.pieces.size();
    code.pieces.push_back(std::move(piece));
    return head;
}

// Write one piece to the log.
inline void note(unsigned piece, uintptr_t address, unsigned addresses) {
    if (UNLIKELY(state.words[0] > state.words[1])) labkit_log_full(state.words);
    uint64_t *next = state.words[0];
    next[0] = piece;
    next[1] = address;
    state.words[0] = next + 1 + addresses;
}

// Whether the code itself writes the log.
inline bool logged() { return state.module && state.module->log; }

// An access that one lane makes for all converged lanes, at the place of their call.
void note_together(uintptr_t address, unsigned size, Operation operation, bool keep) {
    if (state.together == 1) return;
    unsigned &piece = state.together_piece;          // mostly the same as before
    auto fits = [&](const Access &a) { return a.operation == operation && a.size == size && a.keep == keep; };
    if (!piece || !fits(state.code->accesses[state.code->pieces[piece].first]))
        piece = dynamic_piece(state.together - state.text_begin, operation, size, keep);
    Access &a = state.code->accesses[state.code->pieces[piece].first];
    if ((address < a.low || address + size > a.high) && !settle(a, address, address + size))
        refuse(a.pc, operation, address, size, false);
    if (a.space != unwatched_space && a.space != local_space) state.together_log.push_back({piece, a.space, address});
}

// An access that one lane makes for all; the lane that it belongs to is not known.
__attribute__((noinline)) void check_together(uintptr_t address, unsigned size, Operation operation, bool reads) {
    if (state.together == 1) return;
    unsigned index = locate(state.together - state.text_begin, address, size, operation);
    const Site &site = state.sites[index];
    if (site.space == unwatched_space || site.space == local_space || !state.examines) return;
    examine(index, address, size, state.together_warp * warp_size + __builtin_ctz(state.together_lanes), reads, false);
}

template <Operation operation, bool keep = false, bool reads = operation != store, bool strong = operation == atomic>
inline __attribute__((always_inline)) void access(void *pointer, unsigned size, void *from, bool logged = false) {
    uintptr_t at = (uintptr_t)from - state.text_begin, address = (uintptr_t)pointer;
    if (UNLIKELY(at >= state.text_bytes)) return;
    if (state.counts && !logged) {
        if (state.together) note_together(address, size, operation, keep);
        else note(dynamic_piece(at, operation, size, keep), address, 1);
    }
    if (!state.checks) return;
    if (UNLIKELY(state.together)) return check_together(address, size, operation, reads);
    unsigned index = state.site_at[at];
    const Site *site = &state.sites[index];
    if (UNLIKELY(address - site->low > site->span || !index)) {
        index = locate(at, address, size, operation);
        site = &state.sites[index];
    }
    if (UNLIKELY(address & (size - 1)) && site->space != local_space)
        refuse(site->pc, operation, address, size, true);
    if (state.examines && site->space != unwatched_space) examine(index, address, size, lane->thread, reads, strong);
}

// Longer than a register: accesses of 16 bytes and smaller ones for the rest, as a GPU's compiler makes them.
template <Operation operation, bool strong = false> void access_range(char *address, size_t bytes, void *from) {
    size_t step = 16;
    while ((uintptr_t)address % step || bytes % step) step /= 2;
    for (size_t at = 0; at < bytes; at += step) access<operation, true, operation != store, strong>(address + at, step, from);
}

// For copies of structs, and for what the kernel copies itself, the compilers call the C library, here __tsan_mem*. Of a
// struct g++ tells before, with the functions _range: that is one access, not two.
struct Told {
    const void *start;
    size_t bytes;
};
thread_local Told told_load, told_store;

template <Operation operation> void copied(const void *start, size_t bytes, void *from) {
    Told &told = operation == load ? told_load : told_store;
    if (told.start != start || told.bytes != bytes) access_range<operation>((char *)start, bytes, from);
    told = {};
}

// ---- Memory that kernels allocate -----------------------------------------------------------------------------------------

constexpr size_t heap_margin = 256;                  // on both sides of an allocation, so that overruns are found

bool in_kernel(void *from) { return (uintptr_t)from - state.text_begin < state.text_bytes; }

void *allocate(size_t bytes, void *from) {
    if (!in_kernel(from)) return malloc(bytes);
    char *block = bytes < SIZE_MAX / 2 ? (char *)malloc(bytes + 2 * heap_margin) : nullptr;
    if (!block) return nullptr;                      // as on a GPU
    uintptr_t low = (uintptr_t)memset(block + heap_margin, 0xff, bytes);
    auto written = state.initcheck ? (uint8_t *)calloc(bytes, 1) : nullptr;
    state.heap.insert({low, Range{low, bytes, global_space, nullptr, nullptr, written}});
    return (void *)low;
}

void release(void *p, void *from) {
    if (!in_kernel(from)) return free(p);
    if (!p) return;
    auto block = state.heap.find((uintptr_t)p);
    if (block == state.heap.end()) labkit::fail("free of %p, which is not the start of an allocation of a kernel", p);
    if (block->second.freed) labkit::fail("free of %p, which was freed before", p);
    block->second.freed = true;
    for (Site &site : *state.all_sites)
        if (site.range == &block->second) site.low = site.span = 0;
}

void discard(Range &block) {
    free(block.written);
    free((char *)block.low - heap_margin);
}

}  // namespace

extern "C" {
#define FROM __builtin_return_address(0)
#define HOOKS(size)                                                                                              \
    EXPORT void __tsan_read##size(void *p) { access<load>(p, size, FROM, logged()); }                            \
    EXPORT void __tsan_write##size(void *p) { access<store>(p, size, FROM, logged()); }                          \
    EXPORT void __tsan_volatile_read##size(void *p) { access<load, true, true, true>(p, size, FROM, logged()); }   \
    EXPORT void __tsan_volatile_write##size(void *p) { access<store, true, false, true>(p, size, FROM, logged()); } \
    EXPORT void __tsan_unaligned_read##size(void *p) { access_range<load>((char *)p, size, FROM); }              \
    EXPORT void __tsan_unaligned_write##size(void *p) { access_range<store>((char *)p, size, FROM); }            \
    EXPORT void __tsan_unaligned_volatile_read##size(void *p) { access_range<load, true>((char *)p, size, FROM); }     \
    EXPORT void __tsan_unaligned_volatile_write##size(void *p) { access_range<store, true>((char *)p, size, FROM); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
EXPORT void __tsan_read_range(void *p, size_t bytes) {
    access_range<load>((char *)p, bytes, FROM);
    told_load = {p, bytes};
}
EXPORT void __tsan_write_range(void *p, size_t bytes) {
    access_range<store>((char *)p, bytes, FROM);
    told_store = {p, bytes};
}
EXPORT void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    copied<load>(from, bytes, FROM);
    copied<store>(to, bytes, FROM);
    return memmove(to, from, bytes);
}
EXPORT void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    copied<load>(from, bytes, FROM);
    copied<store>(to, bytes, FROM);
    return memmove(to, from, bytes);
}
EXPORT void *__tsan_memset(void *to, int value, size_t bytes) {
    copied<store>(to, bytes, FROM);
    return memset(to, value, bytes);
}
// -fsanitize=alignment: a pointer that is not aligned for its type. Called before the access.
struct Mismatch {
    const char *file;
    uint32_t line, column;
    const void *type;
    uint8_t log_alignment, kind;                     // kind 1: a store
};
EXPORT void __ubsan_handle_type_mismatch_v1(Mismatch *what, uintptr_t address) {
    uintptr_t at = (uintptr_t)FROM - state.text_begin;
    if (at >= state.text_bytes || !address) return;  // null: reported at the access
    refuse((uint32_t)(state.text_begin + at - state.module->base), what->kind == 1 ? store : load, address,
           (size_t)1 << what->log_alignment, true);
}
// -fsanitize=bounds: an index beyond its array, which is local unless the line is 0 (bounds.py).
struct OutOfBounds {
    const char *file;
    uint32_t line, column;
    const struct { uint16_t kind, bits; char name[1]; } *array, *index;   // bits: whether it is signed, 2 log2 of the size
};
EXPORT void __ubsan_handle_out_of_bounds(OutOfBounds *what, int64_t index) {
    uintptr_t at = (uintptr_t)FROM - state.text_begin;
    if (at >= state.text_bytes || !what->line) return;
    unsigned unused = 64 - (1u << (what->index->bits >> 1));
    if (what->index->bits & 1) index = (int64_t)((uint64_t)index << unused) >> unused;
    overrun((uint32_t)(state.text_begin + at - state.module->base), what->array->name, index);
}
EXPORT void labkit_reads(void *p, size_t bytes) { access_range<load>((char *)p, bytes, FROM); }
EXPORT void labkit_writes(void *p, size_t bytes) { access_range<store>((char *)p, bytes, FROM); }
EXPORT bool labkit_in_shared(const void *p) {
    const Range *range = find((uintptr_t)p);
    return range && range->space == shared_space;
}
EXPORT void __sanitizer_cov_trace_pc() {
    uintptr_t at = (uintptr_t)FROM - state.text_begin;
    if (at < state.text_bytes && state.counts && !state.together && !logged()) note(dynamic_piece(at, load, 0, false), 0, 0);
}
// The log of the running thread is full. Outside a launch it belongs to no thread.
EXPORT void labkit_log_full(uint64_t **words) {
    if (words != state.words || !state.text_bytes) {
        words[0] = words[2];
    } else if (state.together) {
        words[0] = state.together_begin;             // the function's own accesses are not the kernel's
    } else {
        state.parked[lane->thread / warp_size] |= 1u << lane->thread % warp_size;
        labkit::follow(park_lane());
    }
}
// CUDA's atomic functions (atomic.h): start, end, and use of the old value.
struct Old {
    uint64_t value, place;
};
EXPORT Old labkit_atomic_begin(void *p, size_t bytes, bool reads, bool always_atom) {
    uintptr_t at = (uintptr_t)FROM - state.text_begin;
    if (always_atom && at < state.text_bytes) state.ordering[lane->thread] = state.epoch;
    if (reads) access<atomic, true, true>(p, bytes, FROM);
    else access<atomic, true, false>(p, bytes, FROM);
    Old old{0, 0};
    memcpy(&old.value, p, bytes);
    if (state.counts && at < state.text_bytes) {
        old.place = state.code->pieces[dynamic_piece(at, atomic, bytes, true)].first;
        if (always_atom) state.code->accesses[old.place].used = true;
    }
    return old;
}
EXPORT void labkit_atomic_end(void *p, uint64_t value, size_t bytes) { memcpy(p, &value, bytes); }
EXPORT uint64_t labkit_atomic_result(uint64_t value, uint64_t place) {
    if (place) state.code->accesses[place].used = true;
    return value;
}
// malloc and free, new and delete: checkmode.py makes kernels call these. Memory that a kernel frees is kept until the end of
// the launch, because its accesses may not be counted yet, and to find later uses.
EXPORT void *__wrap_malloc(size_t bytes) { return allocate(bytes, FROM); }
EXPORT void *__wrap__Znwm(size_t bytes) { return allocate(bytes, FROM); }
EXPORT void *__wrap__Znam(size_t bytes) { return allocate(bytes, FROM); }
EXPORT void __wrap_free(void *p) { release(p, FROM); }
EXPORT void __wrap__ZdlPv(void *p) { release(p, FROM); }
EXPORT void __wrap__ZdaPv(void *p) { release(p, FROM); }
EXPORT void __wrap__ZdlPvm(void *p, size_t) { release(p, FROM); }
EXPORT void __wrap__ZdaPvm(void *p, size_t) { release(p, FROM); }
EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void *) {}
EXPORT void __tsan_func_exit() {}
EXPORT void __tsan_vptr_update(void **, void *) {}
EXPORT void __tsan_vptr_read(void **) {}
EXPORT void __tsan_atomic_thread_fence(int) {
    state.fences++;
    if (in_kernel(FROM)) note_flag(state.fenced, lane->thread);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_atomic_signal_fence(int) {
    if (in_kernel(FROM)) note_flag(state.fenced, lane->thread);
}

// Each atomic operation of the host is a fence, too.
static void order_all() {
    state.fences++;
    state.acquired = true;
}

// The load before a compare-and-swap loop belongs to it and is not counted; only the successful swap is counted.
#define FETCH(bits, T, name, builtin, reads)                                                                     \
    EXPORT T __tsan_atomic##bits##_##name(volatile T *p, T value, int) {                                         \
        order_all();                                                                                             \
        access<atomic, false, reads>((void *)p, sizeof(T), FROM);                                                \
        return builtin(p, value, __ATOMIC_SEQ_CST);                                                              \
    }
#define EXCHANGE(bits, T, name)                                                                                  \
    EXPORT int __tsan_atomic##bits##_compare_exchange_##name(volatile T *p, T *expected, T value, int, int) {    \
        order_all();                                                                                             \
        access<atomic>((void *)p, sizeof(T), FROM);                                                              \
        return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
    }
#define ATOMICS(bits, T)                                                                                         \
    EXPORT T __tsan_atomic##bits##_load(const volatile T *p, int) {                                              \
        order_all();                                                                                             \
        check_only((void *)p, sizeof(T), FROM);                                                                  \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                            \
    EXPORT void __tsan_atomic##bits##_store(volatile T *p, T value, int) {                                       \
        order_all();                                                                                             \
        access<atomic, false, false>((void *)p, sizeof(T), FROM);                                                \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                            \
    FETCH(bits, T, exchange, __atomic_exchange_n, false)                                                         \
    FETCH(bits, T, fetch_add, __atomic_fetch_add, true)                                                          \
    FETCH(bits, T, fetch_sub, __atomic_fetch_sub, true)                                                          \
    FETCH(bits, T, fetch_and, __atomic_fetch_and, true)                                                          \
    FETCH(bits, T, fetch_or, __atomic_fetch_or, true)                                                            \
    FETCH(bits, T, fetch_xor, __atomic_fetch_xor, true)                                                          \
    FETCH(bits, T, fetch_nand, __atomic_fetch_nand, true)                                                        \
    EXCHANGE(bits, T, strong) EXCHANGE(bits, T, weak)                                                            \
    EXPORT T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T expected, T value, int, int) {          \
        order_all();                                                                                             \
        access<atomic>((void *)p, sizeof(T), FROM);                                                              \
        __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
        return expected;                                                                                         \
    }

static void check_only(void *pointer, unsigned size, void *from) {
    uintptr_t at = (uintptr_t)from - state.text_begin;
    if (at < state.text_bytes && state.checks) locate(at, (uintptr_t)pointer, size, load);
}

ATOMICS(8, uint8_t) ATOMICS(16, uint16_t) ATOMICS(32, uint32_t) ATOMICS(64, uint64_t)
}

// ---- Called by the runtime -------------------------------------------------------------------------------------------------

bool watches(const char *tool) {
    static const std::string tools = getenv("LABKIT_CHECK") ? getenv("LABKIT_CHECK") : "";
    return tools.find(tool) != std::string::npos;
}

// The tables of instrument.py in a module's code. Piece 0 and access 0 are unused, also without tables.
static Code &code_of(WatchedModule &module) {
    Code &code = state.codes[&module];
    if (!code.piece_at.empty()) return code;
    code.piece_at.assign(state.text_bytes, 0);
    struct AccessRow { int32_t where; uint8_t operation, size, keep, unused; };
    struct PieceRow { int32_t where; uint32_t first, count; };
    auto pc = [&](const char *table, int32_t where) { return (uint32_t)((uintptr_t)table + where - module.base); };
    auto rows = (const AccessRow *)module.accesses;
    for (size_t i = 0; i < module.accesses_bytes / sizeof *rows; i++) {
        Access a;
        a.pc = pc(module.accesses, rows[i].where);
        a.operation = (Operation)rows[i].operation;
        a.size = rows[i].size;
        a.keep = rows[i].keep;
        code.accesses.push_back(a);
    }
    auto pieces = (const PieceRow *)module.pieces;
    for (size_t i = 0; i < module.pieces_bytes / sizeof *pieces; i++) {
        Piece piece;
        uint32_t where = pc(module.pieces, pieces[i].where);
        piece.key = (uint64_t)i << 32 | where;       // in the order in which divergent lanes run them
        piece.first = pieces[i].first;
        piece.count = pieces[i].count;
        code.pieces.push_back(std::move(piece));
        code.places.push_back({where, (unsigned)i});
    }
    std::sort(code.places.begin(), code.places.end());
    if (code.pieces.empty()) code.pieces.emplace_back();
    if (code.accesses.empty()) code.accesses.emplace_back();
    return code;
}

void watch_variable(WatchedModule &module, const lk_variable &v) {
    auto is = [&](const char *name) { return v.name && !strcmp(v.name, name); };
    if (is("labkit_pieces")) module.pieces = (const char *)v.at, module.pieces_bytes = v.bytes;
    else if (is("labkit_accesses")) module.accesses = (const char *)v.at, module.accesses_bytes = v.bytes;
    else if (is("labkit_log")) module.log = (uint64_t **)v.at;
    else module.variables.push_back({(uintptr_t)v.at, v.bytes, (Space)v.space, v.name, nullptr, nullptr});
}

void watch_launch(const Launch &launch, char *dynamic_shared, char *static_end) {
    state.launch = &launch;
    state.module = launch.module;
    state.text_begin = launch.text_begin;
    state.text_bytes = launch.text_end - launch.text_begin;
    if (state.module->site_at.empty()) {
        state.module->site_at.assign(state.text_bytes, 0);
        state.sites_of[state.module].assign(1, Site());   // an unloaded module may have had the same address
        state.codes.erase(state.module);
    }
    state.all_sites = &state.sites_of[state.module];
    state.sites = state.all_sites->data();
    state.site_at = state.module->site_at.data();
    for (Site &site : *state.all_sites) site.low = site.span = site.looks = 0;
    state.code = &code_of(*state.module);
    for (Access &a : state.code->accesses) {
        a.low = 1;
        a.high = a.touched_version = 0;
        for (Tally &tally : a.tally) tally = Tally();
    }
    state.words = state.module->log ? state.module->log : state.own_words;
    state.ranges.clear();
    state.unchecked.clear();
    visit_allocations([](const char *base, size_t bytes, uint8_t *written, void *) {
        state.ranges.push_back({(uintptr_t)base, bytes, global_space, nullptr, nullptr, written});
    }, nullptr);
    if (watches("initcheck"))
        for (Range &range : state.ranges)
            if (!range.written)
                state.unchecked.push_back(format("initcheck had too little memory for %s: not checked", named(range).c_str()));
    visit_mapped([](const char *base, size_t bytes) {
        state.ranges.push_back({(uintptr_t)base, bytes, global_space, nullptr, nullptr, nullptr});
    });
    for (const Range &variable : state.module->variables) state.ranges.push_back(variable);
    for (int i = 0; i < launch.shared->count; i++) {
        const lk_array &s = launch.shared->arrays[i];
        state.ranges.push_back({(uintptr_t)static_end + s.place, s.bytes, s.hidden ? unwatched_space : shared_space, s.name,
                                nullptr, nullptr});
    }
    state.ranges.push_back({(uintptr_t)dynamic_shared, launch.dynamic_shared, shared_space, nullptr, nullptr, nullptr});
    auto unwatched = [](const void *address, size_t bytes) {
        state.ranges.push_back({(uintptr_t)address, bytes, unwatched_space, nullptr, nullptr, nullptr});
    };
    unwatched(launch.arguments, launch.arguments_bytes);
    for (const Index *index : {&threadIdx, &blockIdx, &blockDim, &gridDim}) unwatched(index, sizeof *index);
    unwatched(&labkit_dynamic_shared, sizeof labkit_dynamic_shared);
    unwatched(&labkit_spins, sizeof labkit_spins);
    unwatched(&labkit_votes, sizeof labkit_votes);
    unwatched(&labkit_voters, sizeof labkit_voters);
    std::sort(state.ranges.begin(), state.ranges.end(), [](const Range &a, const Range &b) { return a.low < b.low; });
    state.stacks.bytes = 0;
    state.together = 0;
    state.together_log.clear();
    state.racecheck = watches("racecheck");
    state.initcheck = watches("initcheck");
    state.examines = state.racecheck || state.initcheck;
    state.counts = watches("profile");
    state.checks = state.examines || watches("memcheck") || watches("synccheck");
    state.shared_low[0] = (uintptr_t)static_end - launch.shared->bytes;
    state.shared_bytes[0] = launch.shared->bytes;
    state.shared_low[1] = (uintptr_t)dynamic_shared;
    state.shared_bytes[1] = launch.dynamic_shared;
    if (state.examines)
        for (int part : {0, 1}) state.cells[part].assign(state.shared_bytes[part], Cell());
    state.epoch = 0;
    for (auto &each : {state.locking, state.ordering, state.fenced, state.flagged}) memset(each, 0, sizeof state.locking);
    state.findings.clear();
    state.cancelled_at.clear();
    state.between_blocks.clear();
    state.again.clear();
    state.first_epoch.clear();
    state.published.clear();
    state.fences = 0;
    state.blocks = state.barriers = 0;
    if (!state.logs) {
        state.logs = (uint64_t *)mmap(nullptr, (most_warps * warp_size + 1) * log_pitch * 8, PROT_READ | PROT_WRITE,
                                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (state.logs == MAP_FAILED) {
            perror("labkit: no memory for check mode's logs");
            abort();
        }
    }
    state.together_begin = state.logs + most_warps * warp_size * log_pitch;
    lane = &state.lanes[0];
    for (int &buffer : state.buffer_of) buffer = -1;
    memset(state.parked, 0, sizeof state.parked);
    state.free_buffers.clear();
    for (int i = most_warps; i-- > 0;) state.free_buffers.push_back(i);
}

static void reset_clocks() {
    memset(state.clocks, 0, sizeof state.clocks);
    for (auto &warp : state.clocks)
        for (unsigned l = 0; l < warp_size; l++) warp[l][l] = 1;
}

void watch_block(Index at, unsigned threads) {
    state.block = at;
    state.threads = threads;
    state.blocks++;
    state.block_epoch = ++state.epoch;
    state.first_epoch.push_back(state.epoch);
    state.published.push_back(0);
    state.acquired = false;
    if (state.racecheck) reset_clocks();
    memset(state.waiting, 0, sizeof state.waiting);
    memset(state.parked, 0, sizeof state.parked);
    for (unsigned warp = 0; warp * warp_size < threads; warp++) state.stored[warp] = Stored();
}

// Make the log of the running thread the one that the code writes.
static void take_log() {
    state.words[0] = lane->next;
    state.words[1] = lane->end;
}

void watch_thread(unsigned thread) {
    if (UNLIKELY(!state.again.empty())) settle_again();
    lane->next = state.words[0];
    unsigned warp = thread / warp_size;
    if (UNLIKELY(state.buffer_of[warp] < 0)) give_buffer(warp);
    lane = &state.lanes[thread];
    take_log();
}

static void match_warp(unsigned warp, uint32_t more);

bool watch_stop(unsigned thread, unsigned live, bool barrier) {
    if (UNLIKELY(!state.again.empty())) settle_again();
    unsigned warp = thread / warp_size;
    state.waiting[warp] += barrier;
    if (state.waiting[warp] != (unsigned)__builtin_popcount(live)) return false;
    match_warp(warp, state.parked[warp]);
    if (!state.parked[warp]) state.stored[warp] = Stored();
    return true;
}

static void match_warp(unsigned warp, uint32_t more) {
    if (state.buffer_of[warp] < 0) return;
    lane->next = state.words[0];
    if (state.counts) match(warp, more);
    take_log();
    for (unsigned l = 0; l < warp_size; l++)
        if (state.lanes[warp * warp_size + l].next != state.lanes[warp * warp_size + l].begin) return;
    state.free_buffers.push_back(state.buffer_of[warp]);
    state.buffer_of[warp] = -1;
}

void watch_match(unsigned warp, unsigned live) {
    match_warp(warp, live);
}

bool watch_resumes(unsigned thread) {
    if (!has_room(state.lanes[thread])) return false;
    state.waiting[thread / warp_size]--;
    state.parked[thread / warp_size] &= ~(1u << thread % warp_size);
    return true;
}

void watch_meeting(unsigned warp, unsigned lanes, void *from, bool orders) {
    state.together = from ? (uintptr_t)from : 1;
    state.together_lanes = lanes;
    state.together_warp = warp;
    state.together_piece = 0;
    lane->next = state.words[0];
    state.words[0] = state.together_begin;
    state.words[1] = state.together_begin + log_entries;
    if (!state.racecheck || !orders) return;
    // All earlier accesses of each are ordered before all later accesses of any of them.
    uint32_t joined[warp_size] = {};
    for (uint32_t left = lanes; left; left &= left - 1) {
        const uint32_t *known = state.clocks[warp][__builtin_ctz(left)];
        for (unsigned l = 0; l < warp_size; l++) joined[l] = known[l] > joined[l] ? known[l] : joined[l];
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        memcpy(state.clocks[warp][lane], joined, sizeof joined);
        state.clocks[warp][lane][lane]++;
    }
}

// The accesses made for all lanes: each lane gets an equal share of each site's, in the order of the lanes.
void watch_met() {
    take_log();
    state.together = 0;
    auto &log = state.together_log;
    auto before = [](const State::Common &a, const State::Common &b) {
        return a.piece != b.piece ? a.piece < b.piece : a.space < b.space;
    };
    std::stable_sort(log.begin(), log.end(), before);
    unsigned lanes = __builtin_popcount(state.together_lanes);
    for (size_t begin = 0, end; begin < log.size(); begin = end) {
        for (end = begin; end < log.size() && !before(log[begin], log[end]); end++) {}
        size_t share = (end - begin) / lanes;
        for (size_t n = 0; n < share; n++) {
            uintptr_t address[warp_size];
            size_t at = begin + n;
            for (uint32_t left = state.together_lanes; left; left &= left - 1, at += share)
                address[__builtin_ctz(left)] = log[at].address;
            Access &a = state.code->accesses[state.code->pieces[log[begin].piece].first];
            count(a, log[begin].space, address, state.together_lanes);
        }
    }
    log.clear();
}

static void report_place(const char *kind, const char *file, int line, Index thread, const std::string &sentence) {
    if (!watches("synccheck")) return;
    for (Finding &f : state.findings)
        if (f.file == file && f.line == line && f.kind == kind) {
            f.count++;
            return;
        }
    Finding f{};
    f.tool = "synccheck";
    f.kind = kind;
    f.message = sentence;
    f.file = file;
    f.line = line;
    f.block = state.block;
    f.thread = thread;
    f.count = 1;
    state.findings.push_back(f);
}

void watch_divergence(const char *file, int line, Index thread, const std::string &sentence) {
    report_place("divergent barrier", file, line, thread, sentence);
}

void watch_absent(const char *what, const char *file, int line, Index thread, unsigned lanes) {
    if (strncmp(what, "__shfl", 6)) return;
    report_place("exited lanes", file, line, thread,
                 format("%s names lanes in its mask that have ended: 0x%08x", what, lanes));
}

static std::vector<uint32_t> in_module(const uintptr_t *places, size_t count) {
    std::vector<uint32_t> result;
    for (size_t i = 0; i < count; i++) result.push_back((uint32_t)(places[i] - state.module->base));
    return result;
}

void watch_fault(const char *tool, const char *kind, const std::string &sentence, const uintptr_t *places, size_t count) {
    if (!watches(tool)) return;
    Finding f{};
    f.tool = tool;
    f.kind = kind;
    f.message = sentence;
    f.callers = in_module(places, count);
    f.block = state.block;
    f.thread = threadIdx;
    f.count = 1;
    state.findings.push_back(f);
}

void watch_cancelled(const uintptr_t *places, size_t count) { state.cancelled_at = in_module(places, count); }

void watch_phase() { state.epoch++; }

void watch_barrier_released() {
    state.epoch++;
    for (unsigned &count : state.waiting) {
        state.barriers += count != 0;
        count = 0;
    }
}

// ---- Records ----------------------------------------------------------------------------------------------------------------

namespace {

std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if ((unsigned char)c < 32) result += format("\\u%04x", c);
        else result += c;
    }
    return result + "\"";
}

std::string triple(Index i) { return format("[%u,%u,%u]", i.x, i.y, i.z); }

std::string list(const std::vector<uint32_t> &numbers) {
    std::string text;
    for (uint32_t n : numbers) text += format("%s%u", text.empty() ? "" : ",", n);
    return "[" + text + "]";
}

std::string text_of(const Finding &f) {
    std::string text = format("{\"tool\":\"%s\",\"kind\":%s,\"pc\":%u,\"block\":%s,\"thread\":%s,\"address\":%zu,\"size\":%zu,"
                              "\"count\":%zu,\"message\":%s", f.tool, quoted(f.kind).c_str(), f.pc, triple(f.block).c_str(),
                              triple(f.thread).c_str(), (size_t)f.address, f.size, (size_t)f.count, quoted(f.message).c_str());
    if (f.file) text += format(",\"file\":%s,\"line\":%d", quoted(f.file).c_str(), f.line);
    if (!f.callers.empty()) text += ",\"callers\":" + list(f.callers);
    if (f.has_other) text += format(",\"other_pc\":%u,\"other_thread\":%s", f.other_pc, triple(f.other_thread).c_str());
    if (f.has_buffer)
        text += format(",\"buffer\":{\"base\":%zu,\"bytes\":%zu,\"offset\":%ld,\"missed_by\":%ld}", (size_t)f.base, f.bytes,
                       f.offset, f.missed_by);
    return text + "}";
}

}  // namespace

void watch_end(bool whole, const std::string &error) {
    for (const Finding &f : state.between_blocks)
        if (!f.look || !state.sites[f.look].looks) state.findings.push_back(f);
    size_t unique_bytes = 0;
    auto finish = [&](Range &range) {
        free(range.cells);
        range.cells = nullptr;
        range.unchecked = false;
        if (!range.touched) return;
        for (size_t i = 0; i < range.bytes / 64 + 2; i++) unique_bytes += __builtin_popcountll(range.touched[i]);
        free(range.touched);
        range.touched = nullptr;
    };
    for (Range &range : state.ranges) finish(range);
    for (auto block = state.heap.begin(); block != state.heap.end();) {
        finish(block->second);
        bool freed = block->second.freed;
        if (freed) discard(block->second);
        block = freed ? state.heap.erase(block) : std::next(block);
    }
    const Launch &launch = *state.launch;
    uint64_t blocks = (uint64_t)launch.grid.x * launch.grid.y * launch.grid.z;
    std::string text = format("{\"index\":%zu,\"kernel\":%s,\"module\":%s,\"grid\":%s,\"block\":%s,\"shared\":%zu,"
                              "\"blocks\":%zu,\"blocks_watched\":%zu,\"whole\":%s,\"barriers\":%zu,\"unique_bytes\":%zu",
                              (size_t)state.launches++, quoted(launch.kernel).c_str(), quoted(state.module->path).c_str(),
                              triple(launch.grid).c_str(), triple(launch.block).c_str(), launch.dynamic_shared, (size_t)blocks,
                              (size_t)state.blocks, whole ? "true" : "false", (size_t)state.barriers, unique_bytes);
    text += ",\"error\":" + quoted(error) + ",\"callers\":"
            + list(state.cancelled_at) + ",\"sites\":[";
    static const char *const spaces[] = {"global", "shared", "constant", "local"}, *const operations[] = {"ld", "st", "atom", "red"};
    bool first = true;
    for (const Access &a : state.code->accesses)
        for (Space space : {global_space, shared_space, constant_space, local_space}) {
            const Tally &n = a.tally[space];
            if (!n.requests) continue;
            text += format("%s{\"pc\":%u,\"space\":\"%s\",\"op\":\"%s\",\"size\":%u,\"requests\":%zu,\"units\":%zu,"
                           "\"ideal\":%zu,\"bytes\":%zu}", first ? "" : ",", a.pc, spaces[space],
                           operations[a.operation == atomic && !a.used && space == global_space ? 3 : a.operation], a.size, (size_t)n.requests,
                           (size_t)n.units, (size_t)n.ideal, (size_t)n.bytes);
            first = false;
        }
    text += "],\"unchecked\":[";
    for (const std::string &each : state.unchecked) text += (&each == &state.unchecked[0] ? "" : ",") + quoted(each);
    text += "],\"findings\":[";
    for (const Finding &f : state.findings) text += (&f == &state.findings[0] ? "" : ",") + text_of(f);
    text += "]}\n";
    state.text_bytes = 0;
    state.words[0] = state.words[1] = state.words[2];
    std::lock_guard<std::mutex> lock(taking);
    finished += text;
}

extern "C" EXPORT size_t lk_check_take(char *text, size_t bytes) {
    std::lock_guard<std::mutex> lock(taking);
    size_t count = finished.size() < bytes ? finished.size() : bytes;
    memcpy(text, finished.data(), count);
    finished.erase(0, count);
    return count;
}
#endif
