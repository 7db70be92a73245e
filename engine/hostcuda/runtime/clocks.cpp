// What orders the accesses of two threads of a block, apart from its barriers: vector clocks.
//
// Each thread has a time, which grows whenever others may learn of its accesses. Per warp a table has what each lane knows of the
// others. From the first mbarrier, bulk copy or fence of proxies of a launch on, there is also a clock per thread with what it
// knows of all threads (`all`): an arrival at an mbarrier adds it to that of the phase, and who has waited for the phase knows it.
// Beside it are two more (`fenced`): of all that, what was also behind a fence.proxy.async, for shared and for global memory.
// That fence may be anywhere between the access and the copy or product that reads: in the thread that has written, or in the one
// that begins the copy, after a barrier. A barrier of the block makes everything known, so that clocks are only needed since the
// last one; what is fenced has to be known from the beginning of the block on.
//
// A barrier of some threads (a named barrier, a tile of several warps, a stage of a pipeline) orders only those that take part:
// each releases what it knows when it arrives, and who waits acquires, when the phase ends, what was released for this phase. A
// phase at which all threads of the block have met is a barrier of the block.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <algorithm>
#include <string.h>
#include <unordered_map>

namespace check {

uint32_t clocks[most_threads / warp_size][warp_size][warp_size];
bool wide = false;

namespace {

using Times = std::vector<uint32_t>;                 // by column: the threads of the block or the cluster, then the mbarriers

struct Knowledge {
    Times all, fenced[2];                            // fenced: [0] in shared, [1] in global memory
    bool begun = false;                              // all blocks of the cluster have
    uint64_t version = 0;                            // threads with the same one know the same, but for their own warps; 0: nobody else
};

struct {
    std::vector<Knowledge> threads, open, ended;         // by column; open, ended: per mbarrier, the current phase and the last one
    Times published;                                 // per mbarrier
    // Per block of the cluster, what all its threads know since its last barrier.
    struct OfBlock {
        Times at_barrier, fenced_at_barrier[2];
        bool fences = false;                         // since then
        bool begun = false;
    };
    std::vector<OfBlock> blocks;
    std::vector<bool> releases;                      // by column: threads whose next arrival at the barrier of the cluster does
    Knowledge cluster_open, cluster_ended;           // the current phase of the barrier of the cluster, and the last one
    // Of a cluster: flags written by hand, by their word; and by column the accesses of which a thread has known that made a fence.
    std::unordered_map<uintptr_t, Knowledge> flags;
    Times before_fences;
    struct OfPhase {
        Knowledge open, ended;
        std::vector<unsigned> waiting;               // the threads that have arrived in this phase and wait for its end
    };
    std::unordered_map<const void *, OfPhase> phases;   // by address of the barrier
    uint64_t versions = 0;
} order_of_threads;

unsigned column_of(unsigned thread) {
    unsigned threads = running.blocks * running.threads, warpgroups = 65536 - first_product_agent;
    if (thread >= first_product_agent) return threads + thread - first_product_agent;
    if (thread >= first_agent) return threads + warpgroups + thread - first_agent;
    return rank_of(thread) * running.threads + thread % block_stride;
}

Knowledge &known_to(unsigned thread) { return order_of_threads.threads[column_of(thread)]; }
auto &of_block(unsigned thread) { return order_of_threads.blocks[rank_of(thread)]; }

uint32_t time_in(const Times &times, unsigned column) { return column < times.size() ? times[column] : 0; }

void join(Times &to, const Times &from) {
    if (to.size() < from.size()) to.resize(from.size());
    for (size_t i = 0; i < from.size(); i++) to[i] = std::max(to[i], from[i]);
}

void raise(Times &times, unsigned column, uint32_t time) {
    if (times.size() <= column) times.resize(column + 1);
    times[column] = std::max(times[column], time);
}

void begin_block() {
    order_of_threads.threads.assign(running.blocks * running.threads, {});
    order_of_threads.open.clear();
    order_of_threads.ended.clear();
    order_of_threads.published.clear();
    order_of_threads.blocks.assign(running.blocks, {});
    order_of_threads.cluster_open = order_of_threads.cluster_ended = {};
    order_of_threads.flags.clear();
    order_of_threads.before_fences.clear();
    order_of_threads.releases.assign(running.blocks > 1 ? running.blocks * running.threads : 0, false);
}

// What all threads of the block have done so far is from now on apart from what they do.
void note_times() {
    unsigned first = running.rank * block_stride;
    Times &times = of_block(first).at_barrier;
    for (unsigned thread = first; thread < first + running.threads; thread++) {
        raise(times, column_of(thread), own_clock(thread)++);
        if (running.blocks == 1) continue;
        join(times, known_to(thread).all);
        of_block(first).begun |= known_to(thread).begun;
    }
}

// Make room for an mbarrier, also where a block of a cooperative launch has come back.
void has_agent(unsigned number) {
    auto &all = order_of_threads;
    if (all.open.size() <= number) all.open.resize(number + 1), all.ended.resize(number + 1), all.published.resize(number + 1);
}

void widen() {
    if (wide) return;
    wide = true;
    begin_block();
    note_times();
}

// The columns of the threads of its warp.
struct Columns {
    unsigned first, count;
};
Columns columns_of_warp(unsigned thread) {
    unsigned first = thread / warp_size * warp_size;
    return {column_of(first), std::min(warp_size, running.threads - first % block_stride)};
}

// Add what a thread knows of its own warp.
void add_warp(Times &times, unsigned thread) {
    auto [first, count] = columns_of_warp(thread);
    if (times.size() < first + count) times.resize(first + count);
    for (unsigned lane = 0; lane < count; lane++)
        times[first + lane] = std::max(times[first + lane], clocks[thread / warp_size][thread % warp_size][lane]);
}

// With what it knows of its own warp.
Times &all_of(unsigned thread) {
    Times &times = known_to(thread).all;
    add_warp(times, thread);
    return times;
}

// But for what a thread knows of its own warp.
void add_others(Knowledge &phase, unsigned thread) {
    join(phase.all, known_to(thread).all);
    if (running.blocks > 1) join(phase.all, of_block(thread).at_barrier);
    for (bool global : {false, true}) {
        join(phase.fenced[global], known_to(thread).fenced[global]);
        if (running.blocks > 1) join(phase.fenced[global], of_block(thread).fenced_at_barrier[global]);
    }
    phase.begun |= known_to(thread).begun | of_block(thread).begun;
}

void release(Knowledge &phase, unsigned thread) {
    add_others(phase, thread);
    add_warp(phase.all, thread);
    own_clock(thread)++;
}

// A thread learns from others of its own warp.
void learn_of_warp(const Times &times, unsigned thread) {
    auto [first, count] = columns_of_warp(thread);
    for (unsigned lane = 0; lane < count; lane++) {
        uint32_t &its = clocks[thread / warp_size][thread % warp_size][lane];
        its = std::max(its, time_in(times, first + lane));
    }
}

void acquire(const Knowledge &phase, unsigned thread) {
    Knowledge &known = known_to(thread);
    known.begun |= phase.begun;
    known.version = 0;
    join(known.all, phase.all);
    for (bool global : {false, true}) {
        join(known.fenced[global], phase.fenced[global]);
        of_block(thread).fences |= !known.fenced[global].empty();
    }
    learn_of_warp(known.all, thread);
}

}  // namespace

bool knows_of(unsigned thread, unsigned other, uint32_t clock) {
    if (!wide) return false;
    unsigned column = column_of(other);
    return time_in(known_to(thread).all, column) >= clock || (running.blocks > 1 && time_in(of_block(thread).at_barrier, column) >= clock);
}

bool is_fenced(unsigned thread, unsigned other, uint32_t clock, bool global) {
    if (!wide) return false;
    unsigned column = column_of(other);
    return std::max(time_in(known_to(thread).fenced[global], column), time_in(of_block(thread).fenced_at_barrier[global], column)) >= clock;
}

void begin_clocks() { wide = false; }

void begin_block_clocks() {
    unsigned warps = running.blocks * most_warps;
    memset(clocks, 0, warps * sizeof clocks[0]);
    for (unsigned warp = 0; warp < warps; warp++)
        for (unsigned lane = 0; lane < warp_size; lane++) clocks[warp][lane][lane] = 1;
    order_of_threads.phases.clear();                 // also those of a block that was abandoned
    wide |= running.blocks > 1;
    if (wide) begin_block();
}

void pass_barrier() {
    if (!wide) return;
    note_times();
    unsigned first = running.rank * block_stride;
    auto &block = of_block(first);
    if (!block.fences) return;
    for (unsigned thread = first; thread < first + running.threads; thread++)
        for (bool global : {false, true}) {
            Times &its = known_to(thread).fenced[global];
            join(block.fenced_at_barrier[global], its), its.clear();
            known_to(thread).version = 0;
        }
    block.fences = false;
}

void join_lanes(unsigned warp, unsigned lanes) {
    uint32_t joined[warp_size] = {};
    Knowledge known;
    for (uint32_t left = lanes; left; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        for (unsigned l = 0; l < warp_size; l++) joined[l] = std::max(joined[l], clocks[warp][lane][l]);
        if (!wide) continue;
        const Knowledge &its = known_to(warp * warp_size + lane);
        if (its.version && its.version == known.version) continue;
        known.version = left == lanes ? its.version : 0;
        join(known.all, its.all);
        known.begun |= its.begun;
        for (bool global : {false, true}) join(known.fenced[global], its.fenced[global]);
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        memcpy(clocks[warp][lane], joined, sizeof joined);
        clocks[warp][lane][lane]++;
        if (wide) known_to(warp * warp_size + lane) = known;
    }
}

void fence_proxies(unsigned thread, bool shared, bool global) {
    widen();
    for (bool which : {false, true}) {
        if (!(which ? global : shared)) continue;
        join(known_to(thread).fenced[which], all_of(thread));
        join(known_to(thread).fenced[which], of_block(thread).at_barrier);
    }
    known_to(thread).version = 0;
    of_block(thread).fences = true;
    own_clock(thread)++;
}

void make_agent(unsigned number) {
    widen();
    has_agent(number);
    order_of_threads.open[number] = order_of_threads.ended[number] = {};
}

void release_to(unsigned number, unsigned thread) {
    has_agent(number);
    release(order_of_threads.open[number], thread);
}

void end_phase(unsigned number) {
    has_agent(number);
    order_of_threads.ended[number] = order_of_threads.open[number];
}

void acquire_from(unsigned number, unsigned thread) {
    has_agent(number);
    acquire(order_of_threads.ended[number], thread);
}

void arrive_at_phase(const void *barrier, unsigned thread) {
    widen();
    release(order_of_threads.phases[barrier].open, thread);
}

void meet_at_phase(const void *barrier, unsigned thread, unsigned count) {
    if (count < running.threads) widen();
    order_of_threads.phases[barrier].waiting.push_back(thread);
    own_clock(thread)++;
}

bool end_barrier_phase(const void *barrier) {
    auto &phase = order_of_threads.phases[barrier];
    std::vector<unsigned> waiting;
    waiting.swap(phase.waiting);
    if (waiting.size() == running.threads) return false;
    widen();
    uint64_t added = 0;
    for (unsigned thread : waiting) {
        uint64_t version = known_to(thread).version;
        if (!version || version != added) add_others(phase.open, thread), added = version;
        own_clock(thread)--;                         // that of its arrival, since which it has done nothing
        add_warp(phase.open.all, thread);
        own_clock(thread)++;
    }
    phase.ended = std::move(phase.open);
    phase.ended.version = ++order_of_threads.versions;
    phase.open = {};
    for (unsigned thread : waiting) {                // which has released all that it knows
        known_to(thread) = phase.ended;
        of_block(thread).fences |= !phase.ended.fenced[0].empty() || !phase.ended.fenced[1].empty();
        learn_of_warp(phase.ended.all, thread);
    }
    return true;
}

void acquire_from_phase(const void *barrier, unsigned thread) { acquire(order_of_threads.phases[barrier].ended, thread); }

uint32_t publish(unsigned number) {
    has_agent(number);
    uint32_t time = ++order_of_threads.published[number];
    raise(order_of_threads.open[number].all, column_of(first_agent + number), time);
    return time;
}

uint32_t read_by_products(unsigned agent, unsigned first_thread) {
    widen();
    uint32_t time = ++own_clock(first_thread);
    for (unsigned thread = first_thread; thread < first_thread + 128; thread++) {
        raise(known_to(thread).all, column_of(agent), time);
        known_to(thread).version = 0;
    }
    return time;
}

void fence_for_cluster(unsigned thread) { order_of_threads.releases[column_of(thread)] = true; }

void arrive_at_cluster(unsigned thread, bool releases) {
    unsigned column = column_of(thread);
    if (releases || order_of_threads.releases[column]) release(order_of_threads.cluster_open, thread);
    order_of_threads.releases[column] = false;
}

void end_cluster_phase() { order_of_threads.cluster_ended = order_of_threads.cluster_open; }

void acquire_from_cluster(unsigned thread) {
    acquire(order_of_threads.cluster_ended, thread);
    known_to(thread).begun = true;
}

void fence_for_flags(unsigned thread) {
    join(order_of_threads.before_fences, all_of(thread));
    join(order_of_threads.before_fences, of_block(thread).at_barrier);
    own_clock(thread)++;
}

void raise_flag(uintptr_t address, unsigned thread) {
    if (order_of_threads.before_fences.empty()) return;
    Knowledge now;
    release(now, thread);
    for (Times *times : {&now.all, &now.fenced[0], &now.fenced[1]})
        for (size_t column = 0; column < times->size(); column++)
            (*times)[column] = std::min((*times)[column], time_in(order_of_threads.before_fences, column));
    Knowledge &flag = order_of_threads.flags[address / 4];
    join(flag.all, now.all);
    for (bool global : {false, true}) join(flag.fenced[global], now.fenced[global]);
    flag.begun |= now.begun;
}

void heed_flag(uintptr_t address, unsigned thread) {
    if (auto flag = order_of_threads.flags.find(address / 4); flag != order_of_threads.flags.end()) acquire(flag->second, thread);
}

bool knows_begun(unsigned thread, unsigned rank) {
    unsigned first = rank * running.threads;
    if (known_to(thread).begun || of_block(thread).begun) return true;
    for (const Times *times : {&known_to(thread).all, &of_block(thread).at_barrier})
        for (size_t column = first; column < std::min<size_t>(times->size(), first + running.threads); column++)
            if ((*times)[column]) return true;
    return false;
}

bool is_known_in(unsigned rank, unsigned thread, uint32_t clock) {
    unsigned column = column_of(thread), first = rank * running.threads;
    bool known = time_in(order_of_threads.blocks[rank].at_barrier, column) >= clock;
    for (unsigned i = first; i < first + running.threads && !known; i++) known = time_in(order_of_threads.threads[i].all, column) >= clock;
    return known;
}

}  // namespace check
#endif
