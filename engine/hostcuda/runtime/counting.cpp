// The requests of a warp's instructions.
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
// A load from the address of the same thread's latest store, without a barrier between, is checked but not counted: a GPU's
// compiler keeps that value in a register, even if the host's does not.
//
// For hostcuda.units there are counts besides: how often warps run each piece, the passes that an access to global memory
// needs over the banks of the L1 cache and the lines that it is in, and the sectors that a block loads for the first time.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <algorithm>
#include <map>
#include <memory>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" void hostcuda_log_full(uint64_t **);

namespace check {
namespace {

constexpr size_t log_entries = 1 << 11;              // a lane's log
constexpr size_t log_room = 280;                     // after it: a piece with more accesses is split
constexpr size_t log_pitch = log_entries + log_room; // an odd number of cache lines, because 32 logs are read in parallel

struct Tally {
    uint64_t requests = 0, units = 0, ideal = 0, bytes = 0;   // units: sectors, wavefronts, addresses
    uint64_t passes = 0, lines = 0, loaded = 0;      // of global memory: passes over 32 banks, lines, sectors new to the block
    uint64_t broadcast = 0;                          // requests in which the lanes have at most two addresses
    uint64_t groups = 0;                             // loads from shared memory, of which neighbours count as one: `joins`
};

// For counting: one access in the code.
struct Access {
    uint32_t pc = 0;
    Operation operation = load;
    unsigned size = 0, multiple = 0;                 // of which its address has to be one
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
    uint8_t units[32], passes[32];                   // by the first address modulo 32; no units: not counted yet
    uint8_t lines[128] = {};                         // by the first address modulo 128; 0: not counted yet
    uint8_t ideal = 0, lanes = 0;
    bool broadcast = false;
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
    uint64_t plays = 0;                              // how often warps have run it
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
    uint64_t *grown = nullptr;                       // where lanes cannot wait: a longer log, and its entries
    size_t entries = 0;
};

// The last stores of a warp's lanes.
struct Stored {
    uintptr_t address[warp_size] = {};
    uintptr_t low = 0, high = 0;                     // around all of them
    uint32_t lanes = 0;                              // that have stored
    uint32_t version = 0, mask = 0;                  // pattern and lanes of the last store
    uintptr_t base = 0;
};

// The 16 bytes that a warp's latest loads from shared memory are in, with the words of 4 bytes that they have read.
struct Quads {
    struct Quad { uintptr_t number = 0; unsigned read = 0; } quads[8];
    unsigned oldest = 0;
};

struct Logs {
    std::map<WatchedModule *, Code> codes;
    Code *code = nullptr;
    Lane lanes[most_warps * warp_size];
    uint64_t *memory = nullptr, *together_begin = nullptr;
    uint64_t *own_words[3] = {};
    uint64_t **words = own_words;                    // of the running thread: its log's next entry and its end
    uint32_t versions = 0;
    Stored stored[most_warps];
    Quads quads[most_warps];
    uint32_t parked[most_warps] = {};                // lanes with a full log
    unsigned waiting[most_warps];                    // lanes at a barrier, or with a full log
    int buffer_of[most_warps];
    std::vector<int> free_buffers;
    size_t grown = 0;                                // entries of logs that were made longer
    bool lost = false;                               // a log was too long
    uint32_t block = 0;                              // the number of the running one, from 1
    uint64_t instructions[most_warps] = {};          // of the running block's warps: requests to global and shared memory
    uint64_t busiest = 0;                            // the most of any warp of the launch
    uint8_t shared_use[most_warps] = {};             // of the running block's warps: 1 loads from shared memory, 2 stores to it
    uint64_t two_way = 0;                            // warps of the launch that do both

    // Accesses that the last lane to arrive makes for all lanes that have converged.
    unsigned together_piece = 0;
    struct Common { unsigned piece; Space space; uintptr_t address; };
    std::vector<Common> together_log;
} logs;
Lane *lane = &logs.lanes[0];

// ---- Requests -----------------------------------------------------------------------------------------------------------

// Mark these bytes as accessed.
void touch(Range *range, uintptr_t address, size_t bytes) {
    if (UNLIKELY(!range->touched)) range->touched = (uint64_t *)calloc_if_there(range->bytes / 64 + 2, 8);
    if (UNLIKELY(!range->touched)) return without_memory("profile", *range);
    uint64_t *words = range->touched - range->low / 64;
    for (uintptr_t end = address + bytes; address < end;) {
        uintptr_t stop = (address | 63) + 1 < end ? (address | 63) + 1 : end;
        words[address / 64] |= (~0ull >> (64 - (stop - address))) << address % 64;
        address = stop;
    }
}

// The sectors of these bytes that the block had not loaded yet.
unsigned newly_loaded(Range *range, uintptr_t address, size_t bytes) {
    if (UNLIKELY(!range->loaded)) range->loaded = (uint32_t *)calloc_if_there(range->bytes / 32 + 2, sizeof *range->loaded);
    if (UNLIKELY(!range->loaded)) return without_memory("profile", *range), 0;
    uint32_t *blocks = range->loaded - range->low / 32;
    unsigned count = 0;
    for (uintptr_t sector = address / 32; sector <= (address + bytes - 1) / 32; sector++)
        if (blocks[sector] != logs.block) blocks[sector] = logs.block, count++;
    return count;
}

unsigned distinct(uint64_t *values, unsigned count) {
    std::sort(values, values + count);
    return (unsigned)(std::unique(values, values + count) - values);
}

// Sectors of 32 bytes, or lines of 128. Accesses are aligned and at most 16 bytes long, so each is in one sector. Lanes outside the mask have
// the address of a lane inside it.
unsigned count_parts(const uintptr_t *address, size_t bytes) {
    uintptr_t least = address[0], most = address[0];
    for (unsigned l = 1; l < warp_size; l++) {
        least = address[l] < least ? address[l] : least;
        most = address[l] > most ? address[l] : most;
    }
    least /= bytes;
    if (most / bytes - least < 64) {
        uint64_t set = 0;
        for (unsigned l = 0; l < warp_size; l++) set |= 1ull << (address[l] / bytes - least);
        return __builtin_popcountll(set);
    }
    uint64_t parts[warp_size];
    for (unsigned l = 0; l < warp_size; l++) parts[l] = address[l] / bytes;
    return distinct(parts, warp_size);
}
unsigned count_sectors(const uintptr_t *address) { return count_parts(address, 32); }
unsigned count_lines(const uintptr_t *address) { return count_parts(address, 128); }

// Whether the lanes have at most two addresses: such a load is one of a table's rows, which a row of threads reads together.
bool broadcasts(const uintptr_t *address) {
    uintptr_t other = address[0];
    for (unsigned l = 1; l < warp_size; l++) {
        if (address[l] == address[0] || address[l] == other) continue;
        if (other != address[0]) return false;
        other = address[l];
    }
    return true;
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
    std::copy(address, address + warp_size, values);
    return distinct(values, warp_size);
}

// Whether a compiler can join this load of a warp with one just before it: both are in the same 16 bytes, read other words of
// them, and each has one address for all lanes. Other loads may be between them, but from at most seven other 16 bytes.
bool joins(Quads &latest, uintptr_t address, unsigned size) {
    unsigned read = ((1u << (size + 3) / 4) - 1) << address / 4 % 4;
    for (Quads::Quad &quad : latest.quads) {
        if (quad.number != address / 16) continue;
        bool is_other = !(quad.read & read);
        quad.read = is_other ? quad.read | read : read;
        return is_other;
    }
    latest.quads[latest.oldest] = {address / 16, read};
    latest.oldest = (latest.oldest + 1) % 8;
    return false;
}

// Count a single request.
void count(Access &a, Space space, const uintptr_t *lanes, uint32_t mask) {
    Tally &tally = a.tally[space];
    tally.requests++;
    if (space == local_space) return;
    uintptr_t address[warp_size];
    for (unsigned l = 0; l < warp_size; l++) address[l] = lanes[mask >> l & 1 ? l : __builtin_ctz(mask)];
    unsigned ideal, units = measure(space, a, address, mask, ideal);
    tally.units += units;
    tally.ideal += ideal;
    tally.broadcast += broadcasts(address);
    if (UNLIKELY(running.follows)) note_request(a.pc, space, a.operation, a.size, address, mask, units);
    tally.bytes += (uint64_t)__builtin_popcount(mask) * a.size;
    tally.groups++;
    if (space != global_space) return;
    tally.passes += count_passes(a.size, a.operation, address, mask, ideal);
    tally.lines += count_lines(address);
    for (uint32_t left = mask; left; left &= left - 1) {
        uintptr_t at = address[__builtin_ctz(left)];
        Range *range = find(at);
        touch(range, at, a.size);
        if (a.operation == load) tally.loaded += newly_loaded(range, at, a.size);
    }
}

// A request of this warp. The loads and stores of a fragment, which all its lanes make together, are not among them.
inline void note_work(unsigned warp, Space space, Operation operation) {
    if (space != global_space && space != shared_space) return;
    logs.busiest = std::max(logs.busiest, ++logs.instructions[warp]);
    if (space == global_space || logs.shared_use[warp] == 3) return;
    logs.shared_use[warp] |= operation == load ? 1 : operation == store ? 2 : 3;
    logs.two_way += logs.shared_use[warp] == 3;
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

// ---- Pieces -------------------------------------------------------------------------------------------------------------

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
        if (a.operation == load && !a.keep) lanes = not_stored(logs.stored[warp], address, lanes);
        else note_stored(logs.stored[warp], address, lanes, a.keep || a.operation == atomic);
        if (!lanes) continue;
        count(a, space, address, lanes);
        note_work(warp, space, a.operation);
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
    p.version = ++logs.versions;
    p.twin_version = 0;
    memset(p.units, 0, sizeof p.units);
    memset(p.lines, 0, sizeof p.lines);
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
    if (UNLIKELY((base | p.odd) & (a.multiple - 1)) && a.space != local_space) {   // there the host's compiler merges stores
        for (uint32_t left = v.mask; left; left &= left - 1) {
            unsigned l = __builtin_ctz(left);
            if (uintptr_t at = base + v.at(entry, l); at & (a.multiple - 1))
                refuse(a.pc, a.operation, at, a.size, true, warp * warp_size + l);
        }
    }
    Stored &stored = logs.stored[warp];
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
            note_work(warp, a.space, a.operation);
            return count(a, a.space, address, lanes);
        }
    }
    note_work(warp, a.space, a.operation);
    Tally &tally = a.tally[a.space];
    tally.requests++;
    if (a.space == local_space) return;
    if (UNLIKELY(p.space != a.space)) memset(p.units, 0, sizeof p.units), p.space = a.space;
    uint8_t &units = p.units[base % 32];
    if (UNLIKELY(!units)) {
        addresses(address);
        unsigned ideal, any;
        units = measure(a.space, a, address, v.mask, ideal);
        p.ideal = ideal;
        p.broadcast = broadcasts(address);
        p.passes[base % 32] = a.space == global_space ? count_passes(a.size, a.operation, address, v.mask, any) : 0;
    }
    tally.units += units;
    tally.ideal += p.ideal;
    tally.broadcast += p.broadcast;
    tally.bytes += p.lanes * a.size;
    if (a.space == shared_space && a.operation == load)
        tally.groups += p.least || p.most || !joins(logs.quads[warp], base, a.size);
    if (a.space == global_space) {
        uint8_t &lines = p.lines[base % 128];
        if (UNLIKELY(!lines)) addresses(address), lines = count_lines(address);
        tally.passes += p.passes[base % 32];
        tally.lines += lines;
    }
    if (UNLIKELY(running.follows)) addresses(address), note_request(a.pc, a.space, a.operation, a.size, address, v.mask, units);
    if (a.space != global_space || (a.touched_base == base && a.touched_version == p.version)) return;
    if (UNLIKELY(!p.runs_known)) learn_runs(v, p, entry, a.size);
    for (const auto &run : p.runs) {
        touch(a.range, base + run.offset, run.bytes);
        if (a.operation == load) tally.loaded += newly_loaded(a.range, base + run.offset, run.bytes);
    }
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
    Piece &piece = logs.code->pieces[*own];
    Variant &v = variant_for(piece, mask);
    Access *accesses = &logs.code->accesses[piece.first] - 1;   // entry 1 is the first
    for (unsigned begin = 0; begin <= piece.count; begin += chunk) {
        const uint64_t(*delta)[chunk] = v.delta[begin / chunk].of;
        Entries base = *(const Entries *)(own + begin), other = {};
        for (unsigned l = 0; l < warp_size; l++)
            other |= (*(const Entries *)(rows[l] + begin) - base) ^ *(const Entries *)delta[l];
        if (begin == 0) {
            if (other[0]) return false;
            piece.plays++;
        }
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
    Lane *lanes = &logs.lanes[warp * warp_size];
    const uint64_t *rows[warp_size], *apart[warp_size];
    uint32_t left = 0;
    for (unsigned l = 0; l < warp_size; l++) {
        rows[l] = lanes[l].begin;
        if (rows[l] != lanes[l].next) left |= 1u << l;
    }
    const std::vector<Piece> &pieces = logs.code->pieces;
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
    bool room = !logs.parked[warp];
    for (unsigned l = 0; l < warp_size; l++) {
        size_t kept = left >> l & 1 ? lanes[l].next - rows[l] : 0;
        memmove(lanes[l].begin, rows[l], kept * sizeof *rows[l]);
        lanes[l].next = lanes[l].begin + kept;
        room |= logs.parked[warp] >> l & 1 && has_room(lanes[l]);
    }
    if (!room) match(warp, 0);                       // otherwise they would wait for each other endlessly
}

void give_buffer(unsigned warp) {
    if (logs.free_buffers.empty()) leave_launch("check mode ran out of logs");
    int buffer = logs.buffer_of[warp] = logs.free_buffers.back();
    logs.free_buffers.pop_back();
    for (unsigned l = 0; l < warp_size; l++) {
        Lane &mine = logs.lanes[warp * warp_size + l];
        mine.begin = mine.next = mine.grown ? mine.grown : logs.memory + (buffer * warp_size + l) * log_pitch;
        mine.end = mine.begin + (mine.grown ? mine.entries : log_entries);
        mine.thread = warp * warp_size + l;
    }
}

// Make the log of the running thread the one that the code writes.
void take_log() {
    logs.words[0] = lane->next;
    logs.words[1] = lane->end;
}

// Make the log of the running thread, which cannot wait for the others, longer; or forget it, and fail at the end.
void grow_log() {
    constexpr size_t most_grown = 32 << 20;          // entries of all lanes
    lane->next = logs.words[0];
    size_t used = lane->next - lane->begin, entries = 2 * (lane->grown ? lane->entries : log_entries);
    auto longer = logs.grown + entries > most_grown ? nullptr : (uint64_t *)malloc((entries + log_room) * sizeof *lane->begin);
    if (longer) {
        std::copy(lane->begin, lane->next, longer);
        free(lane->grown);
        logs.grown += entries - (lane->grown ? lane->entries : 0);
        lane->grown = lane->begin = longer;
        lane->entries = entries;
        lane->end = longer + entries;
        lane->next = longer + used;
    } else {
        logs.lost = true;
        lane->next = lane->begin;
    }
    take_log();
}

void match_warp(unsigned warp, uint32_t more) {
    if (logs.buffer_of[warp] < 0) return;
    running.counted_warp = warp;
    lane->next = logs.words[0];
    if (logs.lost) leave_launch("a thread makes more accesses than check mode has memory for: take fewer");
    if (running.counts) match(warp, more);
    take_log();
    for (unsigned l = 0; l < warp_size; l++)
        if (logs.lanes[warp * warp_size + l].next != logs.lanes[warp * warp_size + l].begin) return;
    logs.free_buffers.push_back(logs.buffer_of[warp]);
    logs.buffer_of[warp] = -1;
}

// The tables of instrument.py in a module's code. Piece 0 and access 0 are unused, also without tables.
Code &code_of(WatchedModule &module) {
    Code &code = logs.codes[&module];
    if (!code.piece_at.empty()) return code;
    code.piece_at.assign(running.text_bytes, 0);
    struct AccessRow { int32_t where; uint8_t operation, size, keep, multiple; };
    struct PieceRow { int32_t where; uint32_t first, count; };
    auto pc = [&](const char *table, int32_t where) { return (uint32_t)((uintptr_t)table + where - module.base); };
    auto rows = (const AccessRow *)module.accesses;
    for (size_t i = 0; i < module.accesses_bytes / sizeof *rows; i++) {
        Access a;
        a.pc = pc(module.accesses, rows[i].where);
        a.operation = (Operation)rows[i].operation;
        a.size = rows[i].size;
        a.multiple = rows[i].multiple;
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

}  // namespace

unsigned dynamic_piece(uintptr_t at, Operation operation, unsigned size, bool keep) {
    Code &code = *logs.code;
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
    uint32_t pc = (uint32_t)(running.text_begin + at - running.module->base);
    auto after = std::upper_bound(code.places.begin(), code.places.end(), std::make_pair(pc, ~0u));
    piece.key = (uint64_t)(after == code.places.begin() ? 0 : std::prev(after)->second) << 32 | pc;
    piece.first = code.accesses.size();
    piece.next = head;
    if (size) {
        Access a;
        a.pc = pc;
        a.operation = operation;
        a.size = a.multiple = size;
        a.keep = keep;
        a.used = operation == atomic && !keep;       // known for those of atomic.h
        code.accesses.push_back(a);
        piece.count = 1;
    }
    head = code.pieces.size();
    code.pieces.push_back(std::move(piece));
    return head;
}

void note(unsigned piece, uintptr_t address, unsigned addresses) {
    if (UNLIKELY(logs.words[0] > logs.words[1])) hostcuda_log_full(logs.words);
    uint64_t *next = logs.words[0];
    next[0] = piece;
    next[1] = address;
    logs.words[0] = next + 1 + addresses;
}

void note_together(uintptr_t address, unsigned size, Operation operation, bool keep) {
    if (running.together == 1) return;
    unsigned &piece = logs.together_piece;          // mostly the same as before
    auto fits = [&](const Access &a) { return a.operation == operation && a.size == size && a.keep == keep; };
    if (!piece || !fits(logs.code->accesses[logs.code->pieces[piece].first]))
        piece = dynamic_piece(running.together - running.text_begin, operation, size, keep);
    Access &a = logs.code->accesses[logs.code->pieces[piece].first];
    if ((address < a.low || address + size > a.high) && !settle(a, address, address + size))
        refuse(a.pc, operation, address, size, false);
    if (a.space != unwatched_space && a.space != local_space) logs.together_log.push_back({piece, a.space, address});
}

uint64_t note_atomic(uintptr_t at, unsigned size, bool used) {
    uint64_t place = logs.code->pieces[dynamic_piece(at, atomic, size, true)].first;
    if (used) note_used(place);
    return place;
}

void note_used(uint64_t atomic) { logs.code->accesses[atomic].used = true; }

// ---- A launch -----------------------------------------------------------------------------------------------------------

void begin_counting() {
    WatchedModule &module = *running.module;
    if (module.site_at.empty()) logs.codes.erase(&module);   // an unloaded module may have had the same address
    logs.code = &code_of(module);
    for (Access &a : logs.code->accesses) {
        a.low = 1;
        a.high = a.touched_version = 0;
        for (Tally &tally : a.tally) tally = Tally();
    }
    for (Piece &piece : logs.code->pieces) piece.plays = 0;
    logs.block = 0;
    logs.busiest = logs.two_way = 0;
    logs.lost = false;
    logs.words = module.log ? module.log : logs.own_words;
    logs.together_log.clear();
    if (!logs.memory) {
        logs.memory = (uint64_t *)map_memory((most_warps * warp_size + 1) * log_pitch * 8);
        if (!logs.memory) leave_launch("there is no memory for check mode's logs");
    }
    logs.together_begin = logs.memory + most_warps * warp_size * log_pitch;
    lane = &logs.lanes[0];
    for (int &buffer : logs.buffer_of) buffer = -1;
    memset(logs.parked, 0, sizeof logs.parked);
    logs.free_buffers.clear();
    for (int i = most_warps; i-- > 0;) logs.free_buffers.push_back(i);
}

void count_block() {
    memset(logs.waiting, 0, sizeof logs.waiting);
    memset(logs.parked, 0, sizeof logs.parked);
    unsigned warps = (running.threads + warp_size - 1) / warp_size;
    for (unsigned warp = 0; warp < warps; warp++) logs.stored[warp] = Stored(), logs.quads[warp] = Quads();
    for (Access &a : logs.code->accesses) a.touched_version = 0;   // the block's first access to its bytes
    std::fill(logs.instructions, logs.instructions + most_warps, 0);
    std::fill(logs.shared_use, logs.shared_use + most_warps, 0);
    logs.block++;
}

void count_thread(unsigned thread) {
    lane->next = logs.words[0];
    unsigned warp = thread / warp_size;
    if (UNLIKELY(logs.buffer_of[warp] < 0)) give_buffer(warp);
    lane = &logs.lanes[thread];
    take_log();
}

void count_meeting() {
    logs.together_piece = 0;
    lane->next = logs.words[0];
    logs.words[0] = logs.together_begin;
    logs.words[1] = logs.together_begin + log_entries;
}

void end_counting() { logs.words[0] = logs.words[1] = logs.words[2]; }

std::string counts_text() {
    static const char *const spaces[] = {"global", "shared", "constant", "local"}, *const operations[] = {"ld", "st", "atom", "red"};
    std::string text;
    for (const Access &a : logs.code->accesses)
        for (Space space : {global_space, shared_space, constant_space, local_space}) {
            const Tally &n = a.tally[space];
            if (!n.requests) continue;
            unsigned operation = a.operation == atomic && !a.used && space == global_space ? 3 : a.operation;
            text += format("%s{\"pc\":%u,\"space\":\"%s\",\"op\":\"%s\",\"size\":%u,\"requests\":%zu,\"units\":%zu,"
                           "\"ideal\":%zu,\"bytes\":%zu,\"passes\":%zu,\"lines\":%zu,\"loaded\":%zu,\"broadcast\":%zu,\"groups\":%zu%s}",
                           text.empty() ? "" : ",", a.pc, spaces[space], operations[operation], a.size, (size_t)n.requests,
                           (size_t)n.units, (size_t)n.ideal, (size_t)n.bytes, (size_t)n.passes, (size_t)n.lines,
                           (size_t)n.loaded, (size_t)n.broadcast, (size_t)n.groups, worst_text(a.pc, space, a.operation).c_str());
        }
    return text;
}

uint64_t busiest_warp() { return logs.busiest; }
uint64_t two_way_warps() { return logs.two_way; }

std::string plays_text() {
    std::string text;
    for (size_t i = 0; i < logs.code->pieces.size(); i++)
        if (uint64_t plays = logs.code->pieces[i].plays) text += format("%s[%zu,%zu]", text.empty() ? "" : ",", i, (size_t)plays);
    return text;
}

}  // namespace check

using namespace check;

// ---- Called by the runtime, and by compiled kernels -------------------------------------------------------------------

bool watch_stop(unsigned thread, unsigned live, bool barrier) {
    settle_again();
    unsigned warp = thread / warp_size;
    logs.waiting[warp] += barrier;
    if (logs.waiting[warp] != (unsigned)__builtin_popcount(live)) return false;
    match_warp(warp, logs.parked[warp]);
    if (!logs.parked[warp]) logs.stored[warp] = Stored(), logs.quads[warp] = Quads();
    return true;
}

void watch_match(unsigned warp, unsigned live) { match_warp(warp, live); }

bool watch_resumes(unsigned thread) {
    if (!has_room(logs.lanes[thread])) return false;
    logs.waiting[thread / warp_size]--;
    logs.parked[thread / warp_size] &= ~(1u << thread % warp_size);
    return true;
}

void watch_barrier_released() {
    order_barrier();
    for (unsigned &count : logs.waiting) {
        if (count) count_block_barrier();
        count = 0;
    }
}

// The accesses made for all lanes: each lane gets an equal share of each site's, in the order of the lanes.
void watch_met() {
    take_log();
    running.together = 0;
    running.counted_warp = running.together_warp;
    auto &log = logs.together_log;
    auto before = [](const Logs::Common &a, const Logs::Common &b) {
        return a.piece != b.piece ? a.piece < b.piece : a.space < b.space;
    };
    std::stable_sort(log.begin(), log.end(), before);
    unsigned lanes = __builtin_popcount(running.together_lanes);
    for (size_t begin = 0, end; begin < log.size(); begin = end) {
        for (end = begin; end < log.size() && !before(log[begin], log[end]); end++) {}
        size_t share = (end - begin) / lanes;
        for (size_t n = 0; n < share; n++) {
            uintptr_t address[warp_size];
            size_t at = begin + n;
            for (uint32_t left = running.together_lanes; left; left &= left - 1, at += share)
                address[__builtin_ctz(left)] = log[at].address;
            Access &a = logs.code->accesses[logs.code->pieces[log[begin].piece].first];
            count(a, log[begin].space, address, running.together_lanes);
        }
    }
    log.clear();
}

// The log of the running thread is full. Outside a launch it belongs to no thread.
extern "C" EXPORT void hostcuda_log_full(uint64_t **words) {
    if (words != logs.words || !running.text_bytes) {
        words[0] = words[2];
    } else if (running.together) {
        words[0] = logs.together_begin;              // the function's own accesses are not the kernel's
    } else if (HOSTCUDA_WAITS_IN_HOOKS) {
        logs.parked[running.thread % block_stride / warp_size] |= 1u << running.thread % warp_size;
        hostcuda::follow(park_lane());
    } else {
        grow_log();
    }
}
#endif
