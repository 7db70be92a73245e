// Check mode: checks and counts every load and store of a kernel. This file tells its parts (parts.h) of the launch that runs.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <algorithm>
#include <stdlib.h>
#include <string.h>

namespace check {

Running running;
HOSTCUDA_OF_WORKER uintptr_t Running::text_bytes = 0, Running::copy_low = 0;
HOSTCUDA_OF_WORKER volatile uintptr_t Running::checked_bytes = 0;
HOSTCUDA_OF_WORKER size_t Running::copy_bytes = 0;
HOSTCUDA_OF_WORKER unsigned Running::copies = 0;

Index index_of(unsigned thread) {
    const Index &size = running.launch->block;
    thread %= block_stride;
    return {thread % size.x, thread / size.x % size.y, thread / size.x / size.y};
}

std::string name_of(unsigned thread) {
    Index index = index_of(thread);
    std::string text = format("(%u,%u,%u)", index.x, index.y, index.z);
    if (rank_of(thread) == running.rank) return text;
    Index block = block_with(rank_of(thread));
    return text + format(" of block (%u,%u,%u)", block.x, block.y, block.z);
}

Index block_with(unsigned rank) {
    const Index &size = running.launch->cluster, &at = running.block;
    return {at.x / size.x * size.x + rank % size.x, at.y / size.y * size.y + rank / size.x % size.y, at.z / size.z * size.z + rank / size.x / size.y};
}

}  // namespace check

using namespace check;

bool watches(const char *tool) {
    static const std::string tools = getenv("HOSTCUDA_CHECK") ? getenv("HOSTCUDA_CHECK") : "";
    return tools.find(tool) != std::string::npos;
}

void watch_variable(WatchedModule &module, const hc_variable &v) {
    auto is = [&](const char *name) { return v.space == engine_space && !strcmp(v.name, name); };
    if (is("hostcuda_pieces")) module.pieces = (const char *)v.at, module.pieces_bytes = v.bytes;
    else if (is("hostcuda_accesses")) module.accesses = (const char *)v.at, module.accesses_bytes = v.bytes;
    else if (is("hostcuda_log")) module.log = (uint64_t **)v.at;
    else if (is("hostcuda_padding")) widest_padding = std::max<size_t>(widest_padding, *(const uint32_t *)v.at);
    else module.variables.push_back({(uintptr_t)v.at, v.bytes, (Space)v.space, v.name, nullptr, nullptr});
}

void watch_launch(const Launch &launch, char *dynamic_shared, char *static_end) {
    running.thread = running.together = running.left_blocks = 0;
    running.failure.clear();
    running.launch = &launch;
    running.module = launch.module;
    running.rank = 0;
    running.blocks = launch.cluster.x * launch.cluster.y * launch.cluster.z;
    running.text_begin = launch.text_begin;
    running.text_bytes = running.checked_bytes = launch.text_end - launch.text_begin;
    running.racecheck = watches("racecheck");
    running.initcheck = watches("initcheck");
    running.examines = running.racecheck || running.initcheck;
    running.counts = watches("profile");
    running.steps = watches("step");
    running.checks = running.examines || running.steps || watches("memcheck") || watches("synccheck");
    begin_record();
    running.follows = running.will_follow;
    begin_requests();
    begin_counting();
    begin_allocations(dynamic_shared, static_end);
    begin_races(dynamic_shared, static_end);
    begin_ahead();
    begin_steps();
}

void watch_block(Index at, unsigned threads) {
    running.leaves = false;
    running.block = at;
    running.threads = threads;
    record_block();
    if (running.blocks == 1) order_block();
    count_block();
    step_block(false);
}

void watch_block_leaves(std::vector<uint16_t> &written) {
    settle_again();
    step_away();
    keep_written(written);
}

void watch_block_returns(Index at, const std::vector<uint16_t> &written) {
    running.block = at;
    order_block();
    restore_written(written);
    count_block();
    step_block(true);
}

void watch_grid_met() { order_grid(); }

void watch_cluster_block(unsigned rank, char *dynamic_shared, char *static_end) {
    if (!rank) return;
    add_shared(rank, dynamic_shared, static_end);
    add_races(rank, dynamic_shared, static_end);
}

void watch_cluster_begins() {
    const Index &size = running.launch->block;
    running.threads = size.x * size.y * size.z;
    running.rank = 0;
    order_block();
}

void watch_block_enters(Index at, unsigned rank) {
    settle_again();
    step_away();
    running.block = at;
    running.rank = rank;
    order_enter(rank);
    count_block();
    step_block(true);
}

void watch_block_ended() {
    if (running.racecheck) order_ended();
}

void watch_cluster_arrival(bool releases) {
    if (running.racecheck && running.blocks > 1) arrive_at_cluster(running.thread, releases);
}

void watch_cluster_waited() {
    if (running.racecheck && running.blocks > 1) acquire_from_cluster(running.thread);
}

void watch_cluster_phase() {
    if (running.blocks == 1) order_barrier();
    else if (running.racecheck) end_cluster_phase();
}

void watch_thread(unsigned thread) {
    settle_again();
    step_away();
    running.thread = running.rank * block_stride + thread;
    running.volatile_reads = 0;
    count_thread(thread);
}

bool watch_goes_on() {
    constexpr unsigned most_left = 64;               // then there is little new to learn
    if (!running.leaves || running.counts || running.steps) return false;
    running.leaves = false;
    running.together = 0;
    unrecord_block();
    return ++running.left_blocks < most_left;
}

void watch_failure(std::string &error) {
    if (!running.failure.empty()) error = running.failure;
}

void watch_leaves() { running.checked_bytes = 0; }

void watch_pause(bool begins) { running.text_bytes = running.checked_bytes = begins ? 0 : running.launch->text_end - running.launch->text_begin; }

void watch_phase_arrival(const void *barrier) {
    if (running.racecheck) arrive_at_phase(barrier, running.thread);
}

void watch_phase_meeting(const void *barrier, unsigned count) {
    if (running.racecheck) meet_at_phase(barrier, running.thread, count);
}

void watch_phase_waited(const void *barrier, unsigned thread) {
    if (running.racecheck) acquire_from_phase(barrier, thread);
}

void watch_phase(const void *barrier, unsigned threads, bool has_number) {
    if (running.racecheck) order_phase(barrier, has_number);
    for (unsigned warp = 0; !has_number && warp < threads; warp += warp_size) count_barrier();
}

void watch_named_arrival() { count_named_arrival(); }

void watch_mbarrier_made(unsigned number, const char *what, const char *file, int line) {
    if (!running.racecheck) return;
    if (number >= most_agents)
        leave_launch(format("%s at %s:%d: racecheck follows %u mbarriers of a block or a cluster, and no more: run it without this tool", what, file, line, most_agents));
    make_agent(number);
}

void watch_mbarrier_arrival(unsigned number) {
    if (running.racecheck) release_to(number, running.thread);
}

void watch_mbarrier_phase(unsigned number, unsigned threads) {
    if (running.racecheck) end_phase(number);
    for (unsigned warp = 0; warp < threads; warp += warp_size) count_barrier();
}

void watch_mbarrier_waited(unsigned number, unsigned thread) {
    if (running.racecheck) acquire_from(number, thread);
}

void watch_copies_at(unsigned number) { publish_copies(running.thread, number); }

void watch_bulk_read(unsigned copy, unsigned thread) { end_bulk_reads(copy, thread); }

void watch_bulk_landed(unsigned copy, unsigned thread, int mbarrier) { end_bulk_copy(copy, thread, mbarrier); }

void watch_product(unsigned product, unsigned warpgroup) { end_product(product, warpgroup); }

void watch_bulk_dropped(unsigned copy) { end_bulk_copy(copy, 0, -1); }

void watch_meeting(unsigned warp, unsigned lanes, void *from, bool orders, bool of_matrices) {
    running.together = from ? (uintptr_t)from : 1;
    running.together_lanes = lanes;
    running.together_warp = warp;
    count_meeting();
    if (running.racecheck && orders) join_lanes(running.rank * most_warps + warp, lanes);
    else note_exchange(running.rank * most_warps + warp);
    if (of_matrices) count_matrices();
    else if (!orders) count_exchange();
}

void watch_end(bool whole, const std::string &error) {
    step_away();
    end_races();
    end_ahead(has_fenced());
    end_record(whole, error, end_allocations());
    running.text_bytes = running.checked_bytes = 0;
    end_counting();
}
#endif
