// What orders the accesses of two threads of a block, apart from its barriers: vector clocks.
//
// Each thread has a time, which grows whenever others may learn of its accesses. Per warp a table has what each lane knows of the
// others. From the first mbarrier, bulk copy or fence of proxies of a launch on, there is also a clock per thread with what it
// knows of all threads (`all`): an arrival at an mbarrier adds it to that of the phase, and who has waited for the phase knows it.
// Beside it are two more (`fenced`): of all that, what was also behind a fence.proxy.async, for shared and for global memory.
// That fence may be anywhere between the access and the copy or product that reads: in the thread that has written, or in the one
// that begins the copy, after a barrier. A barrier of the block makes everything known, so that clocks are only needed since the
// last one; what is fenced has to be known from the beginning of the block on.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <algorithm>
#include <string.h>

namespace check {

uint32_t clocks[most_warps][warp_size][warp_size];
bool wide = false;

namespace {

using Times = std::vector<uint32_t>;                 // by column: the threads of the block, then the mbarriers

struct Knowledge {
    Times all, fenced[2];                            // fenced: [0] in shared, [1] in global memory
};

struct {
    std::vector<Knowledge> threads, open, ended;         // open, ended: per mbarrier, the current phase and the last one
    Times published;                                 // per mbarrier
    Times at_barrier, fenced_at_barrier[2];
    bool fences = false;                             // since the last barrier
} order_of_threads;

unsigned column_of(unsigned thread) { return thread < first_agent ? thread : running.threads + thread - first_agent; }

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
    order_of_threads.threads.assign(running.threads, {});
    order_of_threads.open.clear();
    order_of_threads.ended.clear();
    order_of_threads.published.clear();
    order_of_threads.at_barrier.clear();
    for (Times &times : order_of_threads.fenced_at_barrier) times.clear();
    order_of_threads.fences = false;
}

// What all threads have done so far is from now on apart from what they do.
void note_times() {
    order_of_threads.at_barrier.resize(running.threads);
    for (unsigned thread = 0; thread < running.threads; thread++) order_of_threads.at_barrier[thread] = own_clock(thread)++;
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

// With what it knows of its own warp.
Times &all_of(unsigned thread) {
    Times &times = order_of_threads.threads[thread].all;
    unsigned first = thread / warp_size * warp_size;
    for (unsigned lane = 0; lane < warp_size && first + lane < running.threads; lane++)
        raise(times, first + lane, clocks[thread / warp_size][thread % warp_size][lane]);
    return times;
}

}  // namespace

bool knows_of(unsigned thread, unsigned other, uint32_t clock) { return wide && time_in(order_of_threads.threads[thread].all, column_of(other)) >= clock; }

bool is_fenced(unsigned thread, unsigned other, uint32_t clock, bool global) {
    if (!wide) return false;
    unsigned column = column_of(other);
    return std::max(time_in(order_of_threads.threads[thread].fenced[global], column), time_in(order_of_threads.fenced_at_barrier[global], column)) >= clock;
}

void begin_clocks() { wide = false; }

void begin_block_clocks() {
    memset(clocks, 0, sizeof clocks);
    for (auto &warp : clocks)
        for (unsigned lane = 0; lane < warp_size; lane++) warp[lane][lane] = 1;
    if (wide) begin_block();
}

void pass_barrier() {
    if (!wide) return;
    note_times();
    if (!order_of_threads.fences) return;
    for (Knowledge &known : order_of_threads.threads)
        for (bool global : {false, true}) join(order_of_threads.fenced_at_barrier[global], known.fenced[global]), known.fenced[global].clear();
    order_of_threads.fences = false;
}

void join_lanes(unsigned warp, unsigned lanes) {
    uint32_t joined[warp_size] = {};
    Knowledge known;
    for (uint32_t left = lanes; left; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        for (unsigned l = 0; l < warp_size; l++) joined[l] = std::max(joined[l], clocks[warp][lane][l]);
        if (!wide) continue;
        const Knowledge &its = order_of_threads.threads[warp * warp_size + lane];
        join(known.all, its.all);
        for (bool global : {false, true}) join(known.fenced[global], its.fenced[global]);
    }
    for (uint32_t left = lanes; left; left &= left - 1) {
        unsigned lane = __builtin_ctz(left);
        memcpy(clocks[warp][lane], joined, sizeof joined);
        clocks[warp][lane][lane]++;
        if (wide) order_of_threads.threads[warp * warp_size + lane] = known;
    }
}

void fence_proxies(unsigned thread, bool shared, bool global) {
    widen();
    for (bool which : {false, true}) {
        if (!(which ? global : shared)) continue;
        join(order_of_threads.threads[thread].fenced[which], all_of(thread));
        join(order_of_threads.threads[thread].fenced[which], order_of_threads.at_barrier);
    }
    order_of_threads.fences = true;
    own_clock(thread)++;
}

void make_agent(unsigned number) {
    widen();
    has_agent(number);
    order_of_threads.open[number] = order_of_threads.ended[number] = {};
}

void release_to(unsigned number, unsigned thread) {
    has_agent(number);
    Knowledge &phase = order_of_threads.open[number];
    join(phase.all, all_of(thread));
    for (bool global : {false, true}) join(phase.fenced[global], order_of_threads.threads[thread].fenced[global]);
    own_clock(thread)++;
}

void end_phase(unsigned number) {
    has_agent(number);
    order_of_threads.ended[number] = order_of_threads.open[number];
}

void acquire_from(unsigned number, unsigned thread) {
    has_agent(number);
    const Knowledge &phase = order_of_threads.ended[number];
    Knowledge &known = order_of_threads.threads[thread];
    join(known.all, phase.all);
    for (bool global : {false, true}) {
        join(known.fenced[global], phase.fenced[global]);
        order_of_threads.fences |= !known.fenced[global].empty();
    }
    unsigned first = thread / warp_size * warp_size;
    for (unsigned lane = 0; lane < warp_size && first + lane < running.threads; lane++) {
        uint32_t &its = clocks[thread / warp_size][thread % warp_size][lane];
        its = std::max(its, time_in(known.all, first + lane));
    }
}

uint32_t publish(unsigned number) {
    has_agent(number);
    uint32_t time = ++order_of_threads.published[number];
    raise(order_of_threads.open[number].all, running.threads + number, time);
    return time;
}

}  // namespace check
#endif
