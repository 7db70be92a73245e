// Races, and reads of memory that no thread has written.
//
// Each byte of shared memory, and each two bytes of global memory, have a record of their last accesses; so has each byte of an
// allocation of which a kernel accesses single bytes. Those of two threads
// are ordered if a barrier is between them, or an operation of their warp that orders accesses (vector clocks).
//
// Blocks run one after the other here, but in any order on a GPU. Accesses of two blocks to the same bytes of global memory
// are a race unless the first block could have signalled the second. In CUDA's memory model that takes all of this: after
// its access the first block makes a fence (__threadfence) and then a strong write, atomic or volatile; the second makes a
// strong read before its access. Whether both use the same flag, and in which thread, is not checked: every order that
// the model defines is accepted, and some others are, too. Atomic and volatile accesses do not race with each other. Two
// cases that are races in the model are not reported, because correct programs have them: stores of a value that is there
// already (a flag that many threads set; also within a block, and in shared memory), and a plain read of a word before an
// atomic operation on it (the first read of a loop around atomicCAS). One case that is none in the model is reported: a volatile
// variable that threads read and write anew in one statement, in a launch without fences. It is a counter that is no atomic one.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <algorithm>
#include <map>
#include <stdlib.h>
#include <string.h>
#include <unordered_map>

// The last accesses to two bytes of global memory, or to one, also by other blocks.
struct GlobalTouch : check::Touch {
    uint32_t fences_and_kind = 0;                    // number of fences before it in the launch; bit fields would be slow
    uint32_t fences() const { return fences_and_kind >> 4; }
    bool of_block() const { return fences_and_kind & 8; }   // an atomic operation whose scope is the block
    bool strong() const { return fences_and_kind & 4; }   // atomic or volatile
    bool atomic() const { return fences_and_kind & 2; }
    bool writes() const { return fences_and_kind & 1; }
};
struct GlobalCell {
    GlobalTouch write, read;                         // the last ones
    GlobalTouch hidden;                              // by the last ones: a read by an earlier block, or a plain write before an atomic one
};

namespace check {
namespace {

// The last accesses to a byte of shared memory: a write or update, and later reads by up to two threads. As long as plain accesses
// of whole words are the only ones to a word, the cell of its first byte stands for all four (`split_word`).
constexpr size_t word_bytes = 4;
struct Cell {
    Touch write, read[2];
    bool atomic = false;
    bool of_word = true;                             // of the first byte of a word; the cells of the others are then not up to date
    uint16_t copies = 0;                             // in the background, for which their threads have not waited
    uint16_t sources = 0;                            // bulk copies that may still read it
    bool has_more = false, has_updates = false;      // accesses in Order::more; some of them update it
};

// A copy to shared memory in the background.
struct Copy {
    uintptr_t address;
    size_t bytes;
    size_t group;                                    // of its thread's copies: which commit it belongs to
    uint64_t read;                                   // bytes of shared memory, by its thread before it began
};

// What a thread reads of shared memory since its block has made copies, to tell which of its copies overlap with work.
struct Reads {
    struct Waited { size_t bytes; uint64_t read; };  // of a copy, and of shared memory while it was under way

    uint64_t bytes = 0, stage = 0, most = 0;         // all, since the last barrier, and the most between two barriers
    uint32_t at = 0;                                 // stage_now() when `stage` was read
    std::vector<Waited> waited;                      // the copies for which it has waited

    void add(unsigned size, uint32_t now) {
        if (at != now) at = now, stage = 0;
        bytes += size;
        most = std::max(most, stage += size);
    }
};

// A bulk copy that is under way: its accesses, and the bytes of shared memory that they use.
struct BulkTouch {
    std::vector<std::pair<uintptr_t, size_t>> reads, writes;
    Touch read, write;
    const char *name;                                // "a bulk copy"
    size_t in_shared = 0;                            // bytes that it writes to shared memory
};

// What an update of a byte of shared memory hides: a plain write before it, or else an update by another thread.
struct Hidden : Touch {
    bool atomic = false;
};

// An access to shared memory that later ones hide.
struct Earlier : Touch {
    bool updates = false;
};

// A store of the running thread to bytes that another thread has stored.
struct Again {
    unsigned site, thread;
    GlobalTouch other;                               // of shared memory only what is a Touch
    uintptr_t address;
    uint16_t bytes;
    bool copies;                                     // it is a part of a copy, which is made after the last part's call
    unsigned read;                                   // the site where the thread has read the volatile variable just before, or 0
    char before[16];
};

struct Order {
    // Where each thread may signal for itself, accesses of which a later one may not know, and which the last ones hide: reads, and
    // updates, one of each warp. By address: of a byte of shared memory, or a word; of a cell of global memory.
    std::unordered_map<uintptr_t, std::vector<Earlier>> more;
    std::unordered_map<uintptr_t, std::vector<GlobalTouch>> more_global;
    // Shared memory, of which each block of a cluster has two parts: static, dynamic.
    unsigned parts = 2;
    uintptr_t shared_low[2 * most_blocks] = {}, shared_bytes[2 * most_blocks] = {};
    std::vector<Cell> cells[2 * most_blocks];        // one per byte of shared memory, and up to a multiple of a word
    std::vector<Hidden> hidden[2 * most_blocks];     // the same, or empty until there is one
    std::vector<Finding> undecided;                  // races in global memory, until the end of the launch
    std::vector<Again> again;
    std::vector<Copy> copies[most_threads];   // per thread, those that it has not waited for
    size_t groups[most_threads] = {};      // per thread, how often it has committed its copies
    bool copying = false;                            // some of this block have been made
    Reads reads[most_threads];             // per thread
    std::vector<uint32_t> first_epoch;               // of each block
    std::vector<uint32_t> published;                 // per block: its accesses before this number of fences are published
    uint32_t fences = 0;                             // in this launch
    bool acquired = false;                           // this block has made a strong read, so it may see what others have published
    // Per thread the last epoch with what orders accesses of a block without a barrier: a fence and a volatile access, a flag, or an
    // operation of a lock (atomicCAS, atomicExch); in global memory also a fence and an atomic operation. Without a fence a lock
    // orders those that use it.
    uint32_t ordering[most_threads] = {}, fenced[most_threads] = {}, flagged[most_threads] = {};
    uint32_t locked[most_threads] = {};
    uint32_t flagged_since[most_threads] = {};       // the thread's own clock when its flagged[] became that of this epoch
    // Threads that meet at addresses, of locks and flags, in this epoch: each has a link to another one of its group, or itself.
    struct { uint32_t epoch = 0; uint16_t thread = 0; } links[most_threads], last_at[1024];   // addresses may share an entry
    uintptr_t looked_at = 0;                         // of the last volatile read, if its thread has not written since, or read it again
    unsigned looker = 0, look_site = 0;
    uint32_t updated[most_threads] = {};           // an atomic operation on global memory
    uint32_t counted[most_threads] = {};   // the result of an atomic operation: the thread may know that others have made theirs
    uint32_t epoch = 0, last_epoch = 0;              // a new one begins with each barrier and each block; the last one of any block
    uint32_t block_epoch = 0;                        // in which the block has begun, or the first one of its cluster
    // Of a cluster: the epochs of its blocks while others run; which have ended; and per block the last accesses of threads of other
    // blocks to its shared memory, and the threads that know that it has begun.
    unsigned running_rank = 0;
    uint32_t epochs[most_blocks] = {};
    uint32_t phases[most_blocks] = {};               // per block of the cluster: ended phases of barriers of some of its threads
    bool has_named = false;                          // there was a named one in this launch
    bool ended[most_blocks] = {};
    std::vector<Touch> visits[most_blocks];
    std::vector<bool> welcome[most_blocks];
    std::unordered_map<uintptr_t, Touch> flags;      // the last atomic or volatile write to a word of another block
    struct Sent { Touch begun, landed; };
    std::vector<Sent> sent[most_blocks];             // copies from its shared memory to another block
    uint32_t grid_epoch = 1;                         // the first one since all blocks have met
    uint32_t exchanged[most_threads / warp_size] = {};   // per warp the last epoch in which lanes have met without an order of their accesses
    std::map<unsigned, BulkTouch> bulk;              // by number
    BulkTouch next_bulk;
    struct Tile { size_t bytes; unsigned swizzle; };   // the bits of addresses that it changes
    std::map<uintptr_t, Tile> tiles;                 // that tensor copies have written, by address
    unsigned bulk_begun = 0;
    size_t bulk_bytes = 0;                           // that the copies in `bulk` write to shared memory
    std::vector<Touch> waits;                        // by threads of this block, for the launches before it
    const char *bulk_reader = nullptr;               // the access is that of "a bulk copy"
    Touch latest;                                    // the last access that was examined
    struct { unsigned copy; uintptr_t low, end; Runs runs; } unset{};   // what the last copy that was asked for reads, and nothing has set
} order;

// The rank of the block of an access, or of the mbarrier that an agent stands for.
unsigned rank_of_access(const Touch &touch) {
    if (touch.thread < first_agent) return rank_of(touch.thread);
    if (touch.thread >= first_product_agent) return rank_of((touch.thread - first_product_agent) * 128);
    return (touch.thread - first_agent) % running.blocks;
}

// An access by a thread of another block of the cluster.
bool is_neighbours(const Touch &touch) { return UNLIKELY(running.blocks > 1) && touch.epoch >= order.block_epoch && rank_of_access(touch) != running.rank; }

void begin_epoch() { order.epoch = ++order.last_epoch; }
// Between two barriers of the block or of some of its threads it stays the same.
uint32_t stage_now() { return order.epoch + order.phases[running.rank]; }
uint32_t epoch_of(unsigned rank) { return rank == running.rank ? order.epoch : order.epochs[rank]; }
unsigned part_of(uintptr_t address) {
    unsigned own = 2 * running.rank;
    if (address - order.shared_low[own] < order.shared_bytes[own]) return own;
    if (LIKELY(order.parts == 2) || address - order.shared_low[own + 1] < order.shared_bytes[own + 1]) return own + 1;
    for (unsigned part = 0; part < order.parts; part++)
        if (address - order.shared_low[part] < order.shared_bytes[part]) return part;
    return own + 1;
}

// The cell that holds what is known of a byte.
const Cell &cell_of(unsigned part, size_t at) {
    const Cell &first = order.cells[part][at / word_bytes * word_bytes];
    return first.of_word ? first : order.cells[part][at];
}

// Give each byte of a word a cell of its own; return that of this byte.
Cell &split_word(unsigned part, size_t at) {
    Cell *first = &order.cells[part][at / word_bytes * word_bytes];
    if (first->of_word) {
        first->of_word = false;
        std::fill(first + 1, first + word_bytes, *first);
        if (UNLIKELY(first->has_more)) {
            uintptr_t address = order.shared_low[part] + at / word_bytes * word_bytes;
            const std::vector<Earlier> more = order.more[address];
            for (size_t i = 1; i < word_bytes; i++) order.more[address + i] = more;
        }
    }
    return order.cells[part][at];
}

// Whether the other access is ordered before this one, or is by the same thread.
bool ordered(const Touch &other, unsigned thread) {
    if (is_neighbours(other)) return knows_of(thread, other.thread, other.clock);
    if (other.epoch != order.epoch || other.thread == thread) return true;
    unsigned warp = thread / warp_size;
    if (other.thread / warp_size != warp) return UNLIKELY(wide) && knows_of(thread, other.thread, other.clock);
    return clocks[warp][thread % warp_size][other.thread % warp_size] >= other.clock;
}

#define PUT "put a barrier that all threads of the block reach, __syncthreads()"
#define BARRIER PUT ", "
#define MEET "let the thread whose access comes first arrive at a named barrier behind it (bar.arrive or bar.sync), and let the other thread " \
             "wait at this barrier in front of its own access (bar.sync)"
// A remedy with a barrier between the two accesses: for threads of one warp, of a kernel with named barriers, or of any other.
#define WITH_BARRIER(before, after) (one_warp          ? before PUT " (within one warp __syncwarp() is enough), between the two accesses" after \
                                     : order.has_named ? before MEET after                                                                    \
                                                       : before BARRIER "between the two accesses" after)
#define ATOMIC "an atomic operation such as atomicAdd"

// What prevents a race of two threads, in one sentence.
const char *remedy_of(unsigned site, unsigned other, bool of_blocks, bool one_warp = false) {
    Operation a = places.sites[site].operation, b = places.sites[other].operation;
    if (a == store && b == store)
        return of_blocks ? "if each block has elements of its own, correct the index; if not, let one block write the element, or combine the "
                           "values with " ATOMIC
                         : WITH_BARRIER("if each thread has an element of its own, correct the index; if not, let one thread write the element, "
                                        "combine the values with " ATOMIC ", or ", "");
    if (a == atomic || b == atomic)
        return of_blocks ? "make the second access in another kernel launch, or both with atomic operations" : WITH_BARRIER("", "");
    return of_blocks ? "make the second access in another kernel launch, which begins when this one has ended, or, if the blocks update the "
                       "element together, use " ATOMIC
                     : WITH_BARRIER("", ", or, if the threads update the element together, use " ATOMIC);
}

// An element, for messages.
std::string named_element(uintptr_t address, size_t size) {
    const Range *range = find(address);
    return range ? element_of(*range, (address - range->low) / size * size, size) : "dynamic shared memory";
}

#define WAIT_AT_ITS_MBARRIER "let its mbarrier expect its bytes (mbarrier.arrive.expect_tx), and wait there for the end of that phase " \
                             "(mbarrier.try_wait.parity) in front of the "
// A bulk copy is one of the two: it has been made, and its bytes are not known to the thread; or it begins too early.
__attribute__((noinline)) void race_of_bulk_copy(unsigned site, unsigned thread, const Touch &other, uintptr_t address, size_t size) {
    if (count_again("race", site, other)) return;
    bool stores = places.sites[site].operation != load, by_agent = other.thread >= first_agent;
    std::string text = "thread " + name_of(thread) + (order.bulk_reader ? format(" begins %s that ", order.bulk_reader) : " ");
    text += std::string(stores ? "writes " : "reads ") + named_element(address, size);
    if (other.thread >= first_product_agent) {
        text += ", which a wgmma of another warpgroup, or one for which the thread's own has not waited, reads";
    } else if (by_agent) text += ", which a bulk copy has written, and the thread has not waited at the mbarrier of that copy for the end of a "
                                 "phase that counts these bytes";
    else text += format(", which thread %s %s, and nothing orders the two: no barrier, and no arrival of that thread, after its access, at "
                        "an mbarrier for which this thread has waited", name_of(other.thread).c_str(),
                        places.sites[other.site].operation == load ? "reads" : "writes");
    report(findings(), "racecheck", "race", places.sites[site].pc, thread, &other, address, size, text,
           other.thread >= first_product_agent
               ? "let a thread of that warpgroup arrive at an mbarrier behind wgmma.wait_group, and let the thread wait there before it begins the copy"
           : by_agent ? (stores ? WAIT_AT_ITS_MBARRIER "write" : WAIT_AT_ITS_MBARRIER "read")
                    : "let each thread arrive at an mbarrier, or reach a barrier, when it has made its accesses, and let the thread wait there "
                      "before it begins the copy");
}

// An access to bytes that a bulk copy still writes, or a write of bytes that it still reads.
// False: both only update it.
__attribute__((noinline)) bool races_under_way(unsigned site, unsigned thread, uintptr_t address, size_t size) {
    bool stores = places.sites[site].operation != load;
    for (const auto &[number, copy] : order.bulk)
        for (bool reads : {false, true})
            for (auto [low, bytes] : reads ? copy.reads : copy.writes) {
                if (address - low >= bytes || (reads && !stores)) continue;
                const Touch &other = reads ? copy.read : copy.write;
                if (!reads && places.sites[site].operation == atomic && places.sites[other.site].operation == atomic) continue;
                if (count_again("race with a copy", site, other)) return true;
                report(findings(), "racecheck", "race with a copy", places.sites[site].pc, thread, &other, address, size,
                       format("thread %s has begun %s that %s %s, and thread %s%s %s it before that is waited for",
                              name_of(other.thread).c_str(), copy.name, reads ? "reads" : "writes", named_element(address, size).c_str(),
                              name_of(thread).c_str(), order.bulk_reader ? format(" begins %s that", order.bulk_reader).c_str() : "", stores ? "writes" : "reads"),
                       reads && !strcmp(copy.name, "a wgmma")
                           ? "let each warp commit its products (wgmma.commit_group) and wait for them (wgmma.wait_group), and then " BARRIER
                             "or an mbarrier, in front of the write"
                       : reads ? "let the thread that has begun the copy commit it (cp.async.bulk.commit_group) and wait until it is read "
                                 "(cp.async.bulk.wait_group.read), and then " BARRIER "in front of the write"
                       : stores ? WAIT_AT_ITS_MBARRIER "write" : WAIT_AT_ITS_MBARRIER "read");
                return true;
            }
    return false;
}

// Of two blocks of the cluster.
__attribute__((noinline)) void race_of_neighbours(unsigned site, unsigned thread, const Touch &other, uintptr_t address, size_t size) {
    auto does = [](unsigned of) { return places.sites[of].operation == load ? "reads" : places.sites[of].operation == store ? "writes" : "updates"; };
    report(findings(), "racecheck", "race", places.sites[site].pc, thread, &other, address, size,
           format("thread %s %s %s, and thread %s of block (%u,%u,%u) %s it, without a barrier of the cluster between, and without an arrival "
                  "at an mbarrier for which the other one has waited: __syncthreads() orders the threads of one block only", name_of(other.thread).c_str(),
                  does(other.site), named_element(address, size).c_str(), name_of(thread).c_str(), running.block.x, running.block.y, running.block.z,
                  does(site)),
           "put a barrier that all threads of the cluster reach, cluster.sync() or barrier.cluster.arrive and barrier.cluster.wait, between the "
           "two accesses");
}

// Memory of a block that may not have begun, or may have ended.
void report_visit(const char *kind, const Touch &visit, uintptr_t address, unsigned rank, const char *why, const char *remedy) {
    const Site &site = places.sites[visit.site];
    Index of = block_with(rank), before = running.block;
    std::string text = format("%s shared memory of block (%u,%u,%u) of its cluster, and %s",
                              site.operation == load ? "reads" : site.operation == store ? "writes" : "updates", of.x, of.y, of.z, why);
    running.block = block_with(rank_of(visit.thread));
    Index thread = index_of(visit.thread);
    report(findings(), "racecheck", kind, site.pc, visit.thread, nullptr, address, site.size,
           format("thread (%u,%u,%u) of block (%u,%u,%u) %s", thread.x, thread.y, thread.z, running.block.x, running.block.y, running.block.z,
                  text.c_str()), remedy);
    running.block = before;
}

#define END_TOGETHER "let all threads of the cluster meet behind their last access to the shared memory of others, with cluster.sync(), before any ends"

// An access to shared memory of another block of the cluster.
__attribute__((noinline)) void visit_neighbour(const Touch &now, uintptr_t address, unsigned rank) {
    if (order.ended[rank])
        report_visit("ended block", now, address, rank, "that block has ended: its memory is no more", END_TOGETHER);
    std::vector<bool> &welcome = order.welcome[rank];
    if (welcome.empty()) welcome.assign(running.blocks * block_stride, false);
    if (!welcome[now.thread] && !knows_begun(now.thread, rank))
        report_visit("unstarted block", now, address, rank, "nothing tells that this block has begun, before which its memory does not exist",
                     "let all threads of the cluster meet, with cluster.sync(), before the first access to shared memory of others");
    welcome[now.thread] = true;
    if (order.bulk_reader) return;                   // who waits for the copy knows of it
    std::vector<Touch> &visits = order.visits[rank];
    if (visits.empty()) visits.assign(running.blocks * block_stride, Touch());
    visits[now.thread] = now;
}

// The block itself reads a flag: whoever has set it has not done so behind its end.
__attribute__((noinline)) void see_flag(uintptr_t address) {
    auto flag = order.flags.find(address);
    if (flag == order.flags.end()) return;
    Touch none, &visit = order.visits[running.rank].empty() ? none : order.visits[running.rank][flag->second.thread];
    if (visit.epoch == flag->second.epoch && visit.clock == flag->second.clock) visit = {};
    order.flags.erase(flag);
}

void race(unsigned site, unsigned thread, const Touch &other, uintptr_t address, size_t size, const char *both) {
    if (UNLIKELY(order.bulk_reader || other.thread >= first_agent)) return race_of_bulk_copy(site, thread, other, address, size);
    if (is_neighbours(other)) return race_of_neighbours(site, thread, other, address, size);
    Index a = index_of(thread), b = index_of(other.thread);
    const Range *range = find(address);
    bool one_warp = thread / warp_size == other.thread / warp_size;
    report(findings(), "racecheck", "race", places.sites[site].pc, thread, &other, address, size,
           format("threads (%u,%u,%u) and (%u,%u,%u) of a block %s %s without a barrier%s between%s", b.x, b.y, b.z, a.x,
                  a.y, a.z, both, range ? element_of(*range, (address - range->low) / size * size, size).c_str() : "dynamic shared memory",
                  one_warp ? " or a __syncwarp" : "",
                  one_warp && order.exchanged[thread / warp_size] == order.epoch ? " (a shuffle or vote orders no memory)" : ""),
           remedy_of(site, other.site, false, one_warp));
}

// An access to bytes that another thread, or this one, still copies.
__attribute__((noinline)) void race_with_copy(unsigned site, unsigned thread, const Touch &copy, uintptr_t address, size_t size) {
    Index a = index_of(thread), b = index_of(copy.thread);
    const Range *range = find(address);
    report(findings(), "racecheck", "race with a copy", places.sites[site].pc, thread, &copy, address, size,
           format("thread (%u,%u,%u) of a block copies to %s in the background, and thread (%u,%u,%u) %s it before thread "
                  "(%u,%u,%u) has waited for the copy", b.x, b.y, b.z,
                  range ? element_of(*range, (address - range->low) / size * size, size).c_str() : "dynamic shared memory",
                  a.x, a.y, a.z, places.sites[site].operation == load ? "reads" : "writes", b.x, b.y, b.z),
           order.has_named
               ? "let the copying thread wait for its copies (__pipeline_wait_prior, cp.async.wait_group), and then arrive at a named barrier at which "
                 "the other thread waits in front of its access"
           : places.sites[site].operation == load
               ? "let the copying thread wait for its copies (__pipeline_wait_prior, cp.async.wait_group), and then " BARRIER "in front of the read"
               : "let the copying thread wait for its copies (__pipeline_wait_prior, cp.async.wait_group), and then " BARRIER "in front of the write");
}

// The block of an access: its number, in the worker's order.
size_t block_of(const Touch &touch) {
    auto after = std::upper_bound(order.first_epoch.begin(), order.first_epoch.end(), touch.epoch);
    return (after - order.first_epoch.begin() - 1) * running.blocks + rank_of_access(touch);
}

Index block_index(size_t number) {
    const Index &grid = running.launch->grid, &size = running.launch->cluster;
    unsigned cluster = number / running.blocks, rank = number % running.blocks, columns = grid.x / size.x, rows = grid.y / size.y;
    return {cluster % columns * size.x + rank % size.x, cluster / columns % rows * size.y + rank / size.x % size.y,
            cluster / columns / rows * size.z + rank / size.x / size.y};
}

// In this launch, by another block, and since all blocks have met.
bool of_another(const GlobalTouch &touch) {
    return touch.epoch >= order.grid_epoch && (touch.epoch < order.block_epoch || is_neighbours(touch));
}

// In global memory: of two blocks unordered() tells.
bool ordered_in_block(const GlobalTouch &other, unsigned thread) { return is_neighbours(other) || ordered(other, thread); }

// Whether another block made the access, and nothing orders it before this block.
bool unordered(const GlobalTouch &other, bool strong) {
    return of_another(other) && !(other.strong() && strong && !other.of_block() && !running.of_block)
           && !(order.acquired && other.fences() < order.published[block_of(other)])
           && !(is_neighbours(other) && knows_of(running.thread, other.thread, other.clock));
}

// Of a plain load that races with an atomic operation: its thread may only look whether to make one, too.
void note_look(Finding &finding, unsigned site, unsigned other) {
    Operation a = places.sites[site].operation, b = places.sites[other].operation;
    if (a == load && b == atomic) finding.look = site;
    if (a == atomic && b == load) finding.look = other;
}

// Both threads read a volatile variable and write it anew.
__attribute__((noinline)) void lose_update(unsigned index, unsigned thread, const Touch &other, uintptr_t address, unsigned read) {
    size_t before = findings().size();
    report(findings(), "racecheck", "lost update", places.sites[index].pc, thread, &other, address, places.sites[index].size,
           "threads read a volatile variable and write it anew, and others do so between: volatile is not atomic, so the update of "
           "one is lost. Use atomicAdd, or another atomic operation");
    if (findings().size() > before) findings().back().read_pc = places.sites[read].pc;
}

__attribute__((noinline)) void race_of_blocks(unsigned index, unsigned thread, const GlobalTouch &other, uintptr_t address) {
    const Site &site = places.sites[index], &other_site = places.sites[other.site];
    for (Finding &f : order.undecided)
        if (f.pc == site.pc && f.other_pc == other_site.pc && f.kind == "race between blocks") {
            f.count++;
            return;
        }
    auto does = [](Operation operation) { return operation == load ? "reads" : operation == store ? "writes" : "updates"; };
    Index a = block_index(block_of(other)), b = running.block;
    std::string sentence = format(
        "blocks (%u,%u,%u), which %s, and (%u,%u,%u), which %s, use %s, in one launch, whose blocks run in any order",
        a.x, a.y, a.z, does(other_site.operation), b.x, b.y, b.z, does(site.operation),
        element_of(*site.range, (address - site.range->low) / site.size * site.size, site.size).c_str());
    bool of_block = running.of_block || other.of_block();
    if (of_block)
        sentence += ". The scope of the atomic operation is its block: another block does not see it as one operation";
    else if (order.acquired)
        sentence += format("; after its access (%u,%u,%u) makes no __threadfence() followed by an atomic operation that signals it",
                           a.x, a.y, a.z);
    size_t before = order.undecided.size();
    report(order.undecided, "racecheck", "race between blocks", site.pc, thread, &other, address, site.size, sentence,
           of_block ? "use the operation of the device's scope: atomicAdd for atomicAdd_block, cuda::thread_scope_device" : remedy_of(index, other.site, true));
    if (order.undecided.size() > before) note_look(order.undecided.back(), index, other.site);
}

__attribute__((noinline)) void race_in_global(unsigned index, unsigned thread, const Touch &other, uintptr_t address) {
    const Site &site = places.sites[index];
    Index a = index_of(other.thread), b = index_of(thread);
    size_t before = order.undecided.size(), offset = address - site.range->low;
    report(order.undecided, "racecheck", "race", site.pc, thread, &other, address, site.size,
           format("threads (%u,%u,%u) and (%u,%u,%u) of a block use %s, without a barrier between, and at least one "
                  "writes", a.x, a.y, a.z, b.x, b.y, b.z, element_of(*site.range, offset / site.size * site.size, site.size).c_str()),
           remedy_of(index, other.site, false));
    if (order.undecided.size() > before) note_look(order.undecided.back(), index, other.site);
}

// A store to bytes (one bit each) that another thread has stored.
__attribute__((noinline)) void store_again(unsigned site, unsigned thread, const GlobalTouch &other, uintptr_t address, unsigned size,
                                           uint16_t bytes, unsigned read = 0) {
    Again again{site, thread, other, address, bytes, running.copy_bytes != 0, read, {}};
    memcpy(again.before, (const void *)address, size);
    order.again.push_back(again);
}

// Those stores are races that have changed the value stored by another thread. The calls above are made before the store:
// it has been made when its thread makes its next store, and a copy when the thread waits or has ended (`all`).
__attribute__((noinline)) void settle(bool all) {
    std::vector<Again> later;
    for (const Again &s : order.again) {
        unsigned i = 0;
        if (s.copies && !all) {
            later.push_back(s);
            continue;
        }
        while (i < 16 && !(s.bytes >> i & 1 && ((const char *)s.address)[i] != s.before[i])) i++;
        if (i == 16) continue;
        const Site &site = places.sites[s.site];
        if (s.read) lose_update(s.site, s.thread, s.other, s.address, s.read);
        else if (site.space == shared_space) race(s.site, s.thread, s.other, s.address + i, site.size, "both write");
        else if (s.other.epoch < order.block_epoch || is_neighbours(s.other)) race_of_blocks(s.site, s.thread, s.other, s.address);
        else race_in_global(s.site, s.thread, s.other, s.address + i);
    }
    order.again.swap(later);
}

// The address of the first byte of an access that is not set and no padding of the struct that the access copies, or a part of it;
// 0: there is none. `size_at` gives for an address in the range of memory the size of the store that has set it, or 0.
template <class Sizes>
__attribute__((noinline)) uintptr_t find_unset(uintptr_t address, unsigned size, uintptr_t low, size_t bytes, Sizes size_at) {
    uintptr_t begin = running.copy_bytes ? running.copy_low : address, end = running.copy_bytes ? begin + running.copy_bytes : address + size;
    if (begin < low) begin = low;
    if (end > low + bytes) end = low + bytes;
    auto &whole = order.unset;
    if (!running.copy_bytes || whole.copy != running.copies || whole.low != begin || whole.end != end) {   // once for the parts of a copy
        std::vector<uint8_t> sizes;
        for (uintptr_t at = begin; at < end; at++) sizes.push_back(size_at(at));
        whole = {running.copies, begin, end, list_unset(sizes.data(), sizes.size(), begin)};
    }
    auto run = std::partition_point(whole.runs.begin(), whole.runs.end(), [=](const auto &each) { return begin + each.second <= address; });
    return run == whole.runs.end() || begin + run->first >= address + size ? 0 : std::max(address, (uintptr_t)(begin + run->first));
}

// A thread that has made a fence and a volatile access may have set, or seen, a flag.
void note_flag(uint32_t *what, unsigned thread) {
    if (what == order.flagged && what[thread] != order.epoch) order.flagged_since[thread] = ++own_clock(thread);
    what[thread] = order.epoch;
    if (order.fenced[thread] == order.epoch && order.flagged[thread] == order.epoch) order.ordering[thread] = order.epoch;
}

unsigned leader(unsigned thread) {
    auto &link = order.links[thread];
    uint32_t epoch = epoch_of(rank_of(thread));
    if (link.epoch != epoch) link = {epoch, (uint16_t)thread};
    return link.thread == thread ? thread : leader(link.thread);
}

// A thread accesses a word that may be a lock or a flag: whoever has done so before may have let it go on.
void meet(unsigned thread, uintptr_t address) {
    auto &last = order.last_at[address / 4 % 1024];
    if (last.epoch == epoch_of(rank_of(last.thread)) && last.thread != thread) {
        unsigned mine = leader(thread);
        order.links[mine].thread = leader(last.thread);
    }
    last = {order.epoch, (uint16_t)thread};
}

// Whether one of two threads of a block, that of an access and that of another one, may wait for the other in a way that is not checked.
bool excused(Operation operation, unsigned thread, const Touch &other, bool global) {
    if (other.thread >= first_agent) return false;
    auto in = [](const uint32_t *what, unsigned of) { return what[of] == epoch_of(rank_of(of)); };
    for (unsigned of : {thread, (unsigned)other.thread})
        if (in(order.ordering, of) || (global && in(order.updated, of) && in(order.fenced, of))) return true;
    if (!in(order.locked, thread) && !in(order.locked, other.thread)) return false;
    // A lock that is set to 0 before its thread has used a lock or a flag is not released, but made: others have to know of that.
    bool makes = operation == atomic && !global && places.sites[other.site].operation == store
                 && !(in(order.flagged, other.thread) && other.clock >= order.flagged_since[other.thread]);
    if (makes) return false;
    return operation == atomic || places.sites[other.site].operation == atomic || leader(thread) == leader(other.thread);
}

// The access `last` by another thread is about to be replaced: whether to keep it beside those of two warps, or else threads.
bool worth_keeping(const Touch &last, const Touch &kept, unsigned thread) {
    return last.epoch == order.epoch && last.thread != thread && (kept.epoch != order.epoch || kept.thread / warp_size == thread / warp_size);
}

// An update of shared memory hides the last write or update.
__attribute__((noinline)) void keep_hidden(unsigned part, size_t at, const Cell &cell, unsigned thread) {
    auto &all = order.hidden[part];
    if (all.empty()) all.resize(order.shared_bytes[part]);
    Hidden &kept = all[at];
    if (cell.atomic && !((kept.atomic || kept.epoch != order.epoch) && worth_keeping(cell.write, kept, thread))) return;
    static_cast<Touch &>(kept) = cell.write;
    kept.atomic = cell.atomic;
}

// Whether a plain access comes after updates of which the thread may know that all have been made.
bool knows(unsigned thread, bool of_update) { return of_update && order.counted[thread] == order.epoch; }

unsigned warp_of(const Touch &touch) { return touch.thread < first_agent ? touch.thread / warp_size : touch.thread; }
template <class Each, class Is> void drop(std::vector<Each> &from, Is is) { from.erase(std::remove_if(from.begin(), from.end(), is), from.end()); }

// Where mbarriers, barriers of some threads or clusters order threads, each may signal for itself: keep a reader of each warp of whose
// read the next one does not know, and of two lanes where one warp reads.
__attribute__((noinline)) void keep_reader(Cell &cell, uintptr_t address, const Touch &now) {
    auto is_over = [&](const Touch &read) {
        return !read.epoch || (read.epoch != order.epoch && !is_neighbours(read)) || read.thread == now.thread
               || (now.thread < first_agent && ordered(read, now.thread));
    };
    for (Touch &read : cell.read)
        if (is_over(read)) {
            read = now;
            return;
        }
    auto of_same_warp = [&](const Touch &read) { return warp_of(read) == warp_of(now); };
    bool first_has = of_same_warp(cell.read[0]), last_has = of_same_warp(cell.read[1]);
    if (first_has || last_has) {                     // its last one
        cell.read[last_has] = now;
        return;
    }
    if (warp_of(cell.read[0]) == warp_of(cell.read[1])) {
        cell.read[1] = now;
        return;
    }
    std::vector<Earlier> &more = order.more[address];
    drop(more, [&](const Earlier &each) { return !each.updates && (is_over(each) || of_same_warp(each)); });
    more.push_back({now});
    cell.has_more = true;
}

// Likewise of updates: of a byte of shared memory, by the thread, which hides that of another one.
__attribute__((noinline)) void keep_update(Cell &cell, uintptr_t address, unsigned thread) {
    if (ordered(cell.write, thread)) return;
    std::vector<Earlier> &more = order.more[address];
    drop(more, [&](const Earlier &each) { return each.updates && (ordered(each, thread) || warp_of(each) == warp_of(cell.write)); });
    more.push_back({cell.write, true});
    cell.has_more = cell.has_updates = true;
}

// Likewise in global memory, of which an access by the thread hides another one.
__attribute__((noinline)) void keep_global(Range &range, uintptr_t address, const GlobalTouch &last, unsigned thread) {
    if (ordered_in_block(last, thread)) return;
    std::vector<GlobalTouch> &more = order.more_global[address];
    drop(more, [&](const GlobalTouch &each) {
        return each.epoch != order.epoch || (each.writes() == last.writes() && (ordered(each, thread) || warp_of(each) == warp_of(last)));
    });
    more.push_back(last);
    range.has_more = true;
}

// The one of them that races with an access by the thread, or null.
__attribute__((noinline)) const Touch *find_more(uintptr_t address, Operation operation, unsigned thread) {
    auto found = order.more.find(address);
    if (found == order.more.end()) return nullptr;
    for (const Earlier &each : found->second)
        if ((each.updates ? operation != atomic && !knows(thread, true) : operation != load) && !ordered(each, thread)
            && !excused(operation, thread, each, false)) return &each;
    return nullptr;
}

__attribute__((noinline)) const GlobalTouch *find_more_global(uintptr_t address, Operation operation, bool strong, unsigned thread) {
    auto found = order.more_global.find(address);
    if (found == order.more_global.end()) return nullptr;
    for (const GlobalTouch &each : found->second)
        if (each.epoch == order.epoch && (operation != load || each.writes()) && !(each.strong() && strong) && !knows(thread, each.atomic())
            && !ordered_in_block(each, thread) && !excused(operation, thread, each, true)) return &each;
    return nullptr;
}

// Keep an access by another thread of the block that the next one hides: a read before a read, an update before an update.
__attribute__((noinline)) void keep_beside(Range &range, size_t at, const GlobalTouch &last, unsigned thread) {
    if (!range.beside) range.beside = (GlobalTouch *)calloc(range.bytes / range.step + 1, sizeof(GlobalTouch));
    if (!range.beside) without_memory("racecheck", range);
    else if (worth_keeping(last, range.beside[at], thread)) range.beside[at] = last;
}

// Give each byte of a range a record of its own. False: there is too little memory.
__attribute__((noinline)) bool split(Range &range) {
    if (range.keeps_words) return false;
    auto cells = (GlobalCell *)calloc_if_there(range.bytes, sizeof(GlobalCell));
    range.keeps_words = !cells;
    if (!cells) return false;
    auto beside = range.beside ? (GlobalTouch *)calloc(range.bytes, sizeof(GlobalTouch)) : nullptr;
    for (size_t i = 0; range.cells && i < range.bytes; i++) {
        if (range.cells[i / 2].write.epoch || range.cells[i / 2].read.epoch) cells[i] = range.cells[i / 2];
        if (beside) beside[i] = range.beside[i / 2];
    }
    free(range.cells);
    free(range.beside);
    range.cells = cells;
    range.beside = beside;
    range.step = 1;
    return true;
}

// Whether the thread, or one whose wait is before what it does, has waited for the launches before it.
bool has_waited(unsigned thread) {
    return std::any_of(order.waits.begin(), order.waits.end(), [=](const Touch &wait) { return ordered(wait, thread); });
}

__attribute__((noinline)) void check_dependency(const Site &site, uintptr_t address, unsigned size, unsigned thread) {
    std::string why = access_too_early(address, size, site.operation != load, has_waited(thread));
    if (why.empty()) return;
    report(findings(), "racecheck", "early access", site.pc, thread, nullptr, address, size,
           format("thread %s %s %s, %s", name_of(thread).c_str(), site.operation == load ? "reads" : site.operation == store ? "writes" : "updates",
                  element_of(*site.range, (address - site.range->low) / size * size, size).c_str(), why.c_str()),
           "let each kernel of a chain of programmatic launches wait for the one before it (griddepcontrol.wait, "
           "cudaGridDependencySynchronize()), in front of what needs the results of earlier ones");
}

// A thread that may hold a lock is not checked against its own block until the next barrier. `read`: the site where the thread
// has read the same volatile variable just before, or 0.
void examine_global(const Site &site, unsigned index, uintptr_t address, unsigned size, unsigned thread, bool strong, unsigned read) {
    Range &range = *site.range;
    if (UNLIKELY(size == 1 && range.step == 2) && !split(range)) return;
    if (UNLIKELY(!range.cells)) {
        if (range.unchecked) return;
        range.cells = (GlobalCell *)calloc_if_there(range.bytes / 2 + 1, sizeof(GlobalCell));
        if (!range.cells) return without_memory("racecheck", range);
    }
    if (site.operation == atomic) order.updated[thread] = order.epoch;
    bool writes = site.operation != load;
    if (writes) range.stored = true;
    const bool updates = site.operation == atomic, stored_before = range.stored;
    GlobalTouch now;
    now.epoch = order.epoch;
    now.clock = own_clock(thread);
    now.thread = thread;
    now.site = index;
    now.fences_and_kind = order.fences << 4 | running.of_block << 3 | strong << 2 | (site.operation == atomic) << 1 | writes;
    bool told = false;
    GlobalTouch stored;                              // by another thread, a plain store like this one
    uint16_t again = 0, lost_bits = 0;               // its bytes
    const unsigned step = range.step, shift = step - 1, bits = (1 << step) - 1;
    size_t first = (address - range.low) >> shift;
    GlobalCell *cells = range.cells + first;
    auto keep = [&](unsigned i, const GlobalTouch &last) {
        if (UNLIKELY(wide)) keep_global(range, address + i, last, thread);
        else keep_beside(range, first + (i >> shift), last, thread);
    };
    for (unsigned i = 0; i < size; i += step) {
        GlobalCell &cell = cells[i >> shift];
        bool own_read = cell.read.epoch >= order.block_epoch && !is_neighbours(cell.read);
        if (UNLIKELY(updates) && own_read && cell.read.thread == thread) places.sites[cell.read.site].looks = true;
        if (writes || cell.write.epoch) {            // otherwise no thread has written there
            bool both_store = site.operation == store && !cell.write.atomic();
            const Touch *other = nullptr;
            const GlobalTouch *elsewhere = nullptr;
            if (!(cell.write.strong() && strong) && !ordered_in_block(cell.write, thread)) other = &cell.write;
            else if (writes && !(cell.read.strong() && strong) && !ordered_in_block(cell.read, thread)) other = &cell.read;
            else if (cell.hidden.epoch == order.epoch && cell.hidden.writes() && !ordered_in_block(cell.hidden, thread)) other = &cell.hidden;
            else if (UNLIKELY(range.beside)) {
                const GlobalTouch &beside = range.beside[first + (i >> shift)];
                if (beside.epoch == order.epoch && (writes || beside.writes()) && !(beside.strong() && strong)
                    && !knows(thread, beside.atomic()) && !ordered_in_block(beside, thread)) other = &beside;
            }
            if (UNLIKELY(range.has_more) && !other) other = find_more_global(address + i, site.operation, strong, thread);
            if (other && !excused(site.operation, thread, *other, true)) {
                if (other != &cell.write || !both_store) return race_in_global(index, thread, *other, address + i);
                stored = cell.write, again |= bits << i;
            }
            bool lost = UNLIKELY(read) && cell.write.strong() && !cell.write.atomic() && !order.fences;
            if (lost && (of_another(cell.write) || !ordered_in_block(cell.write, thread))) stored = cell.write, lost_bits |= bits << i;
            bool saw = own_read && cell.read.strong() && cell.write.strong();   // this block has read the written value
            if (!saw && unordered(cell.write, strong)) {
                if (both_store) stored = cell.write, again |= bits << i;
                else elsewhere = &cell.write;
            }
            if (!elsewhere && writes && unordered(cell.read, strong)) elsewhere = &cell.read;
            if (!elsewhere && (writes || cell.hidden.writes()) && unordered(cell.hidden, strong)) elsewhere = &cell.hidden;
            if (elsewhere && !told) race_of_blocks(index, thread, *elsewhere, address), told = true;
            if (now.atomic() && cell.write.epoch >= order.block_epoch && !cell.write.strong()) cell.hidden = cell.write;
            if (now.atomic() && cell.write.atomic() && cell.write.epoch == order.epoch && cell.write.thread != thread) keep(i, cell.write);
        }
        if (writes) {
            if (UNLIKELY(range.has_more) && !now.atomic()) order.more_global.erase(address + i);   // they are before it
            cell.write = now;
        } else {
            bool keeps = UNLIKELY(stored_before) && cell.hidden.writes() && cell.hidden.epoch == order.epoch;
            if (!own_read && cell.read.epoch && !keeps) cell.hidden = cell.read;
            if (UNLIKELY(stored_before) && cell.read.epoch == order.epoch && cell.read.thread != thread) keep(i, cell.read);
            cell.read = now;
        }
    }
    if ((again || lost_bits) && !told) store_again(index, thread, stored, address, size, again | lost_bits, again ? 0 : read);
}

// A thread reads a byte or a word. Keep readers of two warps, or else of two threads: a later write must be ordered after them.
inline void note_reader(Cell &cell, const Touch &now) {
    Touch &first = cell.read[0];
    bool same = first.epoch == now.epoch && first.thread / warp_size == now.thread / warp_size;
    if (first.epoch != now.epoch) first = now, cell.read[1] = Touch();
    else if (first.thread == now.thread) first = now;
    else if (!same || cell.read[1].epoch != now.epoch || cell.read[1].thread / warp_size == now.thread / warp_size) cell.read[1] = now;
}

// The most frequent access: a thread reads a word of shared memory that was written before the last barrier, or by itself, in a launch
// where nothing but barriers orders accesses. False: it is another one, or may be, and nothing is noted.
inline bool examine_read_word(unsigned index, uintptr_t address, unsigned thread) {
    if (order.parts > 2 || wide || order.copying || order.bulk_reader) return false;
    const unsigned part = part_of(address);
    const size_t at = address - order.shared_low[part];
    if (at % word_bytes || !order.hidden[part].empty()) return false;
    Cell &cell = order.cells[part][at];
    const Touch &write = cell.write;
    if (!cell.of_word || write.epoch < order.block_epoch || (write.epoch == order.epoch && write.thread != thread)) return false;
    note_reader(cell, {order.epoch, running.racecheck ? own_clock(thread) : 0, (uint16_t)thread, (uint16_t)index});
    return true;
}

// Likewise in a launch where each thread may signal for itself, if the thread knows of the last write.
__attribute__((noinline)) bool examine_known_word(unsigned index, uintptr_t address, unsigned thread) {
    if (order.parts > 2 || order.copying || order.bulk_reader) return false;
    const unsigned part = part_of(address);
    const size_t at = address - order.shared_low[part];
    if (at % word_bytes || !order.hidden[part].empty()) return false;
    Cell &cell = order.cells[part][at];
    if (!cell.of_word || cell.has_updates || cell.write.epoch < order.block_epoch || !ordered(cell.write, thread)) return false;
    keep_reader(cell, address, {order.epoch, running.racecheck ? own_clock(thread) : 0, (uint16_t)thread, (uint16_t)index});
    return true;
}

// A read of shared memory, of which the block has not written every byte.
__attribute__((noinline, cold)) void report_unset(unsigned index, uintptr_t address, unsigned size, unsigned thread, unsigned part) {
    const Site &site = places.sites[index];
    auto size_at = [=](uintptr_t at) -> uint8_t {
        const Touch &write = cell_of(part, at - order.shared_low[part]).write;
        return write.epoch < order.block_epoch ? 0 : places.sites[write.site].size;
    };
    if (find_unset(address, size, order.shared_low[part], order.shared_bytes[part], size_at))
        report(findings(), "initcheck", "uninitialized", site.pc, thread, nullptr, address, size,
               format("read of uninitialized shared memory, at %s: no thread of this block has written it",
                      element_of(*site.range, address - site.range->low, size).c_str()));
}

// The latest access, to shared memory, is a race at that byte, and racecheck keeps nothing of the other bytes. But a write sets bytes
// that nothing has set, whether it is a race or not; and a read still `looks` for such bytes.
__attribute__((noinline, cold)) void end_with_race(unsigned from, uintptr_t address, unsigned size, bool looks) {
    const Touch &now = order.latest;
    const Operation operation = places.sites[now.site].operation;
    const unsigned part = part_of(address);
    for (unsigned i = from; i < size; i++) {
        const size_t at = address + i - order.shared_low[part];
        if (cell_of(part, at).write.epoch >= order.block_epoch) continue;
        if (looks) report_unset(now.site, address, size, now.thread, part), looks = false;
        if (operation == load) continue;
        Cell &cell = split_word(part, at);
        cell.write = now;
        cell.atomic = operation == atomic;
    }
}

// Likewise, and what `both` accesses do is to be reported; null: the other one is a copy in the background. (A function of its own, which
// is called last, keeps registers free for accesses without a race.)
__attribute__((noinline, cold)) void race_at(unsigned from, const Touch &other, uintptr_t address, unsigned size, bool looks, const char *both) {
    const unsigned site = order.latest.site, thread = order.latest.thread;
    if (both) race(site, thread, other, address + from, size, both);
    else race_with_copy(site, thread, other, address + from, size);
    end_with_race(from, address, size, looks);
}

__attribute__((noinline)) void examine_any(unsigned index, uintptr_t address, unsigned size, unsigned thread, bool reads, bool strong) {
    const Site &site = places.sites[index];
    Operation operation = site.operation;
    if (UNLIKELY(!order.again.empty()) && operation != load) settle(false);   // of *to = *from, the store may be told before the load
    if (strong && operation != atomic) note_flag(order.flagged, thread);
    if (UNLIKELY(running.blocks > 1) && strong && running.racecheck) {
        if (operation != store) heed_flag(address, thread);
        if (operation != load) raise_flag(address, thread);
    }
    unsigned read = 0;
    if (strong) {
        meet(thread, address);
        bool again = order.looked_at == address && order.looker == thread;
        if (again && operation == store) read = order.look_site;
        order.looked_at = operation == load && !again ? address : 0;
        order.looker = thread;
        order.look_site = index;
    } else if (operation == store) {
        order.looked_at = 0;
    }
    if (site.space == global_space) {
        if (running.racecheck) {
            if (UNLIKELY(depends)) check_dependency(site, address, size, thread);
            examine_global(site, index, address, size, thread, strong, read);
            if (strong && operation != load) order.published[order.published.size() - running.blocks + running.rank] = order.fences;
            if (strong && operation != store) order.acquired = true;
        }
        if (!running.initcheck) return;
        Range *range = site.range;
        if (!range->written) return;
        uint8_t *written = range->written + (address - range->low);
        auto size_at = [=](uintptr_t at) { return range->written[at - range->low]; };
        if (reads && memchr(written, 0, size) && find_unset(address, size, range->low, range->bytes, size_at))
            report(findings(), "initcheck", "uninitialized", site.pc, thread, nullptr, address, size,
                   format("read of uninitialized global memory, at %s", element_of(*range, address - range->low, size).c_str()));
        if (operation != load) memset(written, size, size);
        return;
    }
    if (site.space != shared_space) return;
    if (UNLIKELY(order.copying) && operation != store) order.reads[thread].add(size, stage_now());
    unsigned part = part_of(address);
    const size_t at = address - order.shared_low[part];
    if (UNLIKELY(order.bulk_bytes) && operation == load) {
        const Touch &write = cell_of(part, at).write;
        if (write.epoch >= order.block_epoch && write.thread >= first_agent) note_bytes_ahead(order.bulk_bytes);
    }
    const uint32_t clock = running.racecheck ? own_clock(thread) : 0;
    const Touch now{order.epoch, clock, (uint16_t)thread, (uint16_t)index};
    order.latest = {order.epoch, clock, (uint16_t)thread, (uint16_t)index};   // a copy of `now` would wait for its parts
    const Hidden *hidden = order.hidden[part].empty() ? nullptr : &order.hidden[part][at];
    bool visits = UNLIKELY(part / 2 != running.rank);
    if (visits && running.racecheck) visit_neighbour(now, address, part / 2);
    if (UNLIKELY(running.blocks > 1) && strong && running.racecheck) {
        if (visits && operation != load) order.flags[address] = now;
        else if (!visits && operation != store) see_flag(address);
    }
    bool looks = running.initcheck && reads;         // for unset bytes, the first of which is reported
    GlobalTouch stored;
    uint16_t again = 0;
    Cell *cells = &order.cells[part][at];
    const bool of_words = at % word_bytes == 0 && size % word_bytes == 0 && operation != atomic && !hidden;
    for (unsigned i = 0; !of_words && i < size; i++) split_word(part, at + i);
    for (unsigned i = 0, step; i < size; i += step) {
        Cell &cell = cells[i];
        step = of_words && cell.of_word ? word_bytes : 1;
        bool unwritten = cell.write.epoch < order.block_epoch;
        if (UNLIKELY(looks && unwritten)) report_unset(index, address, size, thread, part), looks = false;
        if (running.racecheck) {
            bool of_bulk = UNLIKELY(cell.copies | cell.sources) && !order.bulk.empty() && (cell.copies || operation != load);
            if (of_bulk && races_under_way(index, thread, address + i, size)) return end_with_race(i, address, size, looks);
            if (UNLIKELY(cell.copies) && !of_bulk)
                return race_at(i, cell.write, address, size, looks, nullptr);
            bool both_atomic = operation == atomic && cell.atomic;
            if (!unwritten && !both_atomic && !ordered(cell.write, thread) && !excused(operation, thread, cell.write, false)) {
                if (operation != store || cell.atomic)
                    return race_at(i, cell.write, address, size, looks, operation == load ? "write and read" : "both write");
                static_cast<Touch &>(stored) = cell.write, again |= ((1 << step) - 1) << i;
            }
            if (UNLIKELY(hidden)) {
                const Hidden &other = hidden[i];
                if (other.epoch == order.epoch && !(operation == atomic && other.atomic) && !knows(thread, other.atomic)
                    && !ordered(other, thread) && !excused(operation, thread, other, false))
                    return race_at(i, other, address, size, looks, operation == load ? "write and read" : "both write");
            }
            if (operation != load) {
                const Touch *found = nullptr;
                auto look = [&](const Touch &read) {
                    if (read.epoch && !ordered(read, thread) && !excused(operation, thread, read, false)) found = &read;
                };
                for (const Touch &read : cell.read) look(read);
                if (found) return race_at(i, *found, address, size, looks, "read and write");
            }
            if (UNLIKELY(cell.has_more) && (cell.has_updates || operation != load)) {
                if (const Touch *found = find_more(address + i, operation, thread))
                    return race_at(i, *found, address, size, looks,
                                places.sites[found->site].operation == load ? "read and write" : operation == load ? "write and read" : "both write");
                if (operation == store) order.more.erase(address + i), cell.has_more = cell.has_updates = false;   // they are before it
            }
        }
        if (UNLIKELY(operation == atomic) && cell.write.epoch == order.epoch && !cell.copies) {   // a copy's access counts from its end
            keep_hidden(part, address + i - order.shared_low[part], cell, thread);
            if (wide && cell.atomic) keep_update(cell, address + i, thread);
        }
        if (operation != load) {
            cell.write = now;
            cell.atomic = operation == atomic;
        } else if (UNLIKELY(wide)) {
            keep_reader(cell, address + i, now);
        } else {
            note_reader(cell, now);
        }
    }
    if (again) store_again(index, thread, stored, address, size, again);
}

}  // namespace

void examine(unsigned index, uintptr_t address, unsigned size, unsigned thread, bool reads, bool strong) {
    const Site &site = places.sites[index];
    if (LIKELY(site.operation == load && !strong)) {
        if (site.space == constant_space) return;
        if (LIKELY(site.space == shared_space && size == word_bytes)
            && (examine_read_word(index, address, thread) || (UNLIKELY(wide) && examine_known_word(index, address, thread)))) return;
    }
    examine_any(index, address, size, thread, reads, strong);
}

void read_texel(uintptr_t at, uintptr_t address) {
    const Site &site = places.sites[places.site_at[at]];
    if (site.space != global_space || !site.range->cells) return;
    const Range &range = *site.range;
    const GlobalTouch &write = range.cells[(address - range.low) >> (range.step - 1)].write;
    if (write.epoch)
        report(findings(), "racecheck", "stale texture", site.pc, running.thread, &write, address, site.size,
               format("a texture or surface is read at %s, which this launch has written: the caches of textures do not see writes of the "
                      "same launch, even by the same thread", element_of(range, address - range.low, site.size).c_str()),
               "read it in another launch, or by a pointer to the memory");
}

// ---- Copies in the background ----------------------------------------------------------------------------------------------

// Call a function for the record of each byte of a copy that is in shared memory.
template <class Visit> static void visit_bytes(const Copy &copy, Visit visit) {
    for (unsigned part = 0; part < order.parts; part++) {
        size_t at = copy.address - order.shared_low[part];
        if (at < order.shared_bytes[part])
            for (size_t i = at; i < at + copy.bytes && i < order.shared_bytes[part]; i++) {
                if constexpr (std::is_invocable_v<Visit, Cell &>) visit(split_word(part, i));
                else visit(split_word(part, i), order.shared_low[part] + i);
            }
    }
}

void begin_copy(unsigned thread, uintptr_t address, size_t bytes) {
    if (!running.racecheck) return;
    order.copying = true;
    order.copies[thread].push_back({address, bytes, order.groups[thread], order.reads[thread].bytes});
    size_t in_shared = 0;
    visit_bytes(order.copies[thread].back(), [&](Cell &cell) {
        cell.copies++;
        // The copy's store was a race with an access before it, so it is not noted yet.
        if (order.latest.thread == thread && (cell.write.thread != thread || cell.write.epoch != order.latest.epoch))
            cell.write = order.latest, cell.atomic = false;
        in_shared++;
    });
    count_copy(in_shared);
}

void commit_copies(unsigned thread) { order.groups[thread]++; }

// What a copy writes is written when its thread has waited for it, at the latest.
void await_copies(unsigned thread, size_t prior) {
    std::vector<Copy> &copies = order.copies[thread];
    auto copy = copies.begin();
    for (; copy != copies.end() && copy->group + prior < order.groups[thread]; ++copy) {
        order.reads[thread].waited.push_back({copy->bytes, order.reads[thread].bytes - copy->read});
        visit_bytes(*copy, [=](Cell &cell) {
            if (cell.copies) cell.copies--;
            if (cell.write.thread != thread) return;
            cell.write.epoch = order.epoch;
            cell.write.clock = own_clock(thread);
        });
    }
    copies.erase(copies.begin(), copy);
}

// A copy overlaps with work if its thread reads while it is under way, but for an eighth, as much as between any two barriers:
// a read before the wait is no stage. So this is known when the block has ended.
static void count_overlaps() {
    if (order.copying)
        for (const Reads &reads : order.reads)
            for (auto [bytes, read] : reads.waited)
                if (read && read >= reads.most - reads.most / 8) count_overlapped_copy(bytes);
}

// Nobody waits any more for those of the block before.
static void forget_copies() {
    if (!order.copying) return;
    for (Reads &reads : order.reads) reads = {};
    for (std::vector<Copy> &copies : order.copies) {
        for (const Copy &copy : copies) visit_bytes(copy, [](Cell &cell) { cell.copies = 0; });
        copies.clear();
    }
    memset(order.groups, 0, sizeof order.groups);
    order.copying = false;
}

void publish_copies(unsigned thread, unsigned number) {
    if (!running.racecheck) return;
    uint32_t time = publish(number);
    for (const Copy &copy : order.copies[thread])
        visit_bytes(copy, [=](Cell &cell) {
            if (cell.copies) cell.copies--;
            if (cell.write.thread != thread) return;
            cell.write = {order.epoch, time, (uint16_t)(first_agent + number), cell.write.site};
        });
    order.copies[thread].clear();
}

// ---- Bulk copies -----------------------------------------------------------------------------------------------------------

template <class Visit> static void visit_cells(const std::vector<std::pair<uintptr_t, size_t>> &pieces, Visit visit) {
    if (!running.examines) return;                   // there are none: accesses are only counted
    for (auto [address, bytes] : pieces) visit_bytes({address, bytes, 0, 0}, visit);
}

// What is read was written by ordinary stores, and no fence of proxies is between.
static __attribute__((noinline)) void report_unfenced(unsigned thread, const Touch &write, uintptr_t address, uint32_t pc, bool global) {
    size_t size = places.sites[write.site].size;
    report(findings(), "racecheck", "missing proxy fence", pc, thread, &write, address, size,
           format("thread %s has written %s, and thread %s begins %s that reads it by the asynchronous proxy, without a fence.proxy.async "
                  "between: it may read what was there before", name_of(write.thread).c_str(), named_element(address, size).c_str(),
                  name_of(thread).c_str(), order.bulk_reader),
           global ? "put fence.proxy.async or fence.proxy.async.global behind the write, in the thread that has written and in front of the "
                    "barrier; a barrier alone does not order the two proxies"
                  : "put fence.proxy.async.shared::cta behind the write, in the thread that has written and in front of the barrier; a barrier "
                    "alone does not order the two proxies");
}

void note_bulk_reads(unsigned thread, uintptr_t address, size_t bytes, uint32_t pc) {
    if (!running.racecheck) return;
    order.next_bulk.reads.push_back({address, bytes});
    order.next_bulk.read = order.latest;
    order.next_bulk.name = order.bulk_reader;
    auto check = [&](const Touch &write, uintptr_t at, bool global) {
        if (write.epoch < order.block_epoch || write.thread >= first_agent || is_fenced(thread, write.thread, write.clock, global)) return true;
        report_unfenced(thread, write, at, pc, global);
        return false;
    };
    for (unsigned part = 0; part < order.parts; part++) {
        size_t first = address - order.shared_low[part];
        if (first >= order.shared_bytes[part]) continue;
        for (size_t i = first; i < first + bytes && i < order.shared_bytes[part]; i++)
            if (!check(cell_of(part, i).write, order.shared_low[part] + i, false)) return;
        return;
    }
    const Range *range = find(address);
    if (!range || range->space != global_space || !range->cells) return;
    for (size_t i = 0; i < bytes; i += range->step)
        if (const Touch &write = range->cells[(address + i - range->low) / range->step].write; write.epoch && !check(write, address + i, true)) return;
}

void mark_bulk(const char *reader) { order.bulk_reader = reader; }

// "the swizzle of 128 bytes", by the bits of addresses that it changes.
static std::string name_swizzle(unsigned bits) { return bits ? format("the swizzle of %u bytes", bits + 16) : "no swizzle"; }

// How threads go through lines of 128 bytes. Counts the pairs of lines, less than 1,024 bytes apart, that a swizzle turns
// differently, and of which the same threads have used the first bytes of all pieces of 16 bytes: `plain`, if this is so of the
// pieces in the same places, and `swizzled`, if of those that the swizzle puts there. A pair of which both are true is not counted.
struct Ways {
    unsigned plain = 0, swizzled = 0;
};
template <class ThreadAt> static Ways compare_lines(uintptr_t low, size_t bytes, unsigned swizzle, ThreadAt thread_at) {
    Ways ways;
    for (uintptr_t a = low; a + 128 <= low + bytes; a += 128)
        for (uintptr_t b = a + 128; b + 128 <= low + bytes && b < a + 1024; b += 128) {
            uintptr_t turn_a = a >> 3 & swizzle, turn_b = b >> 3 & swizzle;
            bool plain = turn_a != turn_b, swizzled = plain;
            for (uintptr_t piece = 0; piece < 128 && (plain || swizzled); piece += 16) {
                auto same = [&](uintptr_t first, uintptr_t second) { return thread_at(first) >= 0 && thread_at(first) == thread_at(second); };
                plain &= same(a + piece, b + piece);
                swizzled &= same(a + (piece ^ turn_a), b + (piece ^ turn_b));
            }
            ways.plain += plain && !swizzled;
            ways.swizzled += swizzled && !plain;
        }
    return ways;
}

static const Cell *cell_at(uintptr_t address) {
    for (unsigned part = 0; part < order.parts; part++)
        if (address - order.shared_low[part] < order.shared_bytes[part]) return &cell_of(part, address - order.shared_low[part]);
    return nullptr;
}

void compare_stores(uintptr_t address, size_t bytes, unsigned swizzle, const char *file, int line) {
    if (!running.racecheck) return;
    auto writer = [](uintptr_t at) {
        const Cell *cell = cell_at(at);
        return cell && cell->write.epoch >= order.block_epoch && cell->write.thread < first_agent ? cell->write.thread : -1;
    };
    for (unsigned bits : {0x70, 0x30, 0x10}) {
        if (swizzle && bits != swizzle) continue;
        Ways ways = compare_lines(address / 128 * 128, std::min<size_t>(bytes, 16 * 128), bits, writer);
        if (swizzle ? !ways.plain || ways.swizzled : !ways.swizzled || ways.plain) continue;
        add_note("order of stores", file, line, 0, format("a wgmma reads with %s what ordinary stores have put there as for %s: the elements change places, unless they "
                                       "were in that order before", name_swizzle(swizzle).c_str(), name_swizzle(swizzle ? 0 : bits).c_str()));
        return;
    }
}

// Tiles of the last block whose readers have used their places as if the copy had left them in order.
static void compare_readers() {
    auto reader = [](uintptr_t at) {
        const Cell *cell = cell_at(at);
        bool is_read = cell && cell->write.thread >= first_agent && cell->read[0].epoch >= order.block_epoch && cell->read[0].thread < first_agent;
        return is_read ? cell->read[0].thread : -1;
    };
    for (const auto &[address, tile] : order.tiles) {
        Ways ways = compare_lines(address, tile.bytes, tile.swizzle, reader);
        if (!ways.plain || ways.swizzled) continue;
        uintptr_t at = address;
        while (reader(at) < 0) at += 16;
        add_note("order of reads", "", 0, places.sites[cell_at(at)->read[0].site].pc,
                 format("threads read a tile, which a tensor copy has written with %s, as if it had none: its pieces of 16 bytes are in other places, by "
                        "bits of their addresses", name_swizzle(tile.swizzle).c_str()));
    }
}

void note_tile(uintptr_t address, size_t bytes, unsigned swizzle, const char *file, int line) {
    if (!running.racecheck) return;
    if (size_t pattern = 8 * (swizzle + 16), at = address % pattern; swizzle && at)
        add_note("target in a pattern", file, line, 0, format("the copy's target is at byte %zu of the pattern of %s, which begins anew at each multiple of %zu bytes of shared "
                                       "memory: what is where depends on the address, and not on the place in the tile alone",
                                       at, name_swizzle(swizzle).c_str(), pattern));
    for (auto tile = order.tiles.begin(); tile != order.tiles.end();)
        tile = tile->first < address + bytes && address < tile->first + tile->second.bytes ? order.tiles.erase(tile) : std::next(tile);
    order.tiles[address] = {bytes, swizzle};
}

void compare_tile(unsigned thread, uintptr_t address, unsigned swizzle, uint32_t pc) {
    if (!running.racecheck) return;
    auto tile = order.tiles.upper_bound(address);
    if (tile == order.tiles.begin() || address >= (--tile)->first + tile->second.bytes || tile->second.swizzle == swizzle) return;
    for (unsigned part = 0; part < order.parts; part++) {
        size_t at = address - order.shared_low[part];
        if (at >= order.shared_bytes[part]) continue;
        const Touch &write = cell_of(part, at).write;
        if (write.epoch < order.block_epoch || write.thread < first_agent) return;   // other stores have written there since
        report(findings(), "racecheck", "other swizzle", pc, thread, &write, address, 16,
               format("a wgmma reads with %s what a tensor copy has written with %s", name_swizzle(swizzle).c_str(), name_swizzle(tile->second.swizzle).c_str()),
               "let the descriptor (bits 62 and 63) have the swizzle of the tensor map");
    }
}

void note_bulk_write(uintptr_t address, size_t bytes) {
    if (!order.next_bulk.name) order.next_bulk.name = order.bulk_reader;
    order.next_bulk.writes.push_back({address, bytes});
    order.next_bulk.write = order.latest;
}

unsigned begin_bulk_copy() {
    BulkTouch &copy = order.bulk[++order.bulk_begun] = std::move(order.next_bulk);
    order.next_bulk = {};
    if (!copy.name) copy.name = "a bulk copy";
    visit_cells(copy.reads, [](Cell &cell) { cell.sources++; });
    visit_cells(copy.writes, [&](Cell &cell) {
        cell.copies++;
        copy.in_shared++;
    });
    order.bulk_bytes += copy.in_shared;
    count_copy(copy.in_shared);
    return order.bulk_begun;
}

// As if its thread had read only now.
void end_bulk_reads(unsigned number, unsigned thread) {
    auto found = order.bulk.find(number);
    if (found == order.bulk.end()) return;
    BulkTouch &copy = found->second;
    Touch now = copy.read;
    now.epoch = epoch_of(rank_of_access(now));
    now.clock = own_clock(thread);
    visit_cells(copy.reads, [=](Cell &cell, uintptr_t address) {
        if (cell.sources) cell.sources--;
        keep_reader(cell, address, now);
    });
    copy.reads.clear();
}

void end_product(unsigned number, unsigned warpgroup) {
    auto found = order.bulk.find(number);
    if (found == order.bulk.end()) return;
    unsigned thread = running.rank * block_stride + warpgroup * 128, agent = first_product_agent + thread / 128;
    Touch now = found->second.read;
    const unsigned reader = now.thread;
    now.epoch = order.epoch;
    now.thread = agent;
    now.clock = read_by_products(agent, thread);
    visit_cells(found->second.reads, [=](Cell &cell, uintptr_t address) {
        if (cell.sources) cell.sources--;
        auto is_begin = [&](const Touch &read) { return read.epoch == now.epoch && read.thread == reader; };
        std::replace_if(cell.read, std::end(cell.read), is_begin, now);
        if (cell.has_more) {
            drop(order.more[address], [&](const Earlier &each) { return !each.updates && is_begin(each); });
        }
        keep_reader(cell, address, now);
    });
    order.bulk.erase(found);
}

void end_bulk_copy(unsigned number, unsigned thread, int mbarrier) {
    auto found = order.bulk.find(number);
    if (found == order.bulk.end()) return;
    bool is_sent = running.blocks > 1 && mbarrier >= 0 && !found->second.reads.empty() && rank_of_access(found->second.read) != running.rank;
    end_bulk_reads(number, thread);
    Touch now = found->second.write;
    now.epoch = order.epoch;
    now.thread = mbarrier < 0 ? thread : first_agent + mbarrier;
    now.clock = mbarrier < 0 ? own_clock(thread) : publish(mbarrier);
    visit_cells(found->second.writes, [=](Cell &cell) {
        if (cell.copies) cell.copies--;
        cell.write = now;
    });
    if (is_sent) order.sent[rank_of_access(found->second.read)].push_back({found->second.read, now});
    order.bulk_bytes -= found->second.in_shared;
    order.bulk.erase(found);
}

// ---- What orders accesses -------------------------------------------------------------------------------------------------

void settle_again() {
    if (UNLIKELY(!order.again.empty())) settle(true);
}

void wait_for_grids(unsigned thread) {
    note_grid_wait();
    order.waits.push_back({order.epoch, own_clock(thread), (uint16_t)thread, 0});
}

void launch_dependents(unsigned thread) { note_dependents(has_waited(thread)); }

void note_lock(unsigned thread) {
    order.locked[thread] = order.epoch;
    note_flag(order.flagged, thread);
}

void note_result(unsigned thread) { order.counted[thread] = order.epoch; }

void note_fence(unsigned thread) {
    note_flag(order.fenced, thread);
    if (UNLIKELY(running.blocks > 1) && running.racecheck) fence_for_flags(thread);
}

void order_all(bool acquires) {
    order.fences++;
    order.acquired |= acquires;
}

void order_barrier() {
    begin_epoch();
    pass_barrier();
}

void order_phase(const void *barrier, bool is_named) {
    if (!end_barrier_phase(barrier)) return order_barrier();
    order.phases[running.rank]++;
    order.has_named |= is_named;
}

void order_grid() {
    order.grid_epoch = order.last_epoch + 1;
    order.first_epoch.clear();
    order.published.clear();
}

void keep_written(std::vector<uint16_t> &sites) {
    sites.clear();
    for (unsigned part = 0; part < 2 * most_blocks; part++)
        for (size_t at = 0; at < order.cells[part].size(); at++) {
            const Touch &write = cell_of(part, at).write;
            sites.push_back(write.epoch >= order.block_epoch ? write.site : 0);
        }
}

void restore_written(const std::vector<uint16_t> &sites) {
    auto site = sites.begin();
    for (auto &cells : order.cells)
        for (Cell &cell : cells) {
            cell = Cell();
            cell.of_word = false;
            if (uint16_t of = *site++) cell.write.epoch = order.epoch, cell.write.site = of;
        }
    for (auto &each : order.hidden) each.clear();
    begin_epoch();                                   // they are before what follows, as before a barrier
}

void note_exchange(unsigned warp) { order.exchanged[warp] = order.epoch; }

void order_block() {
    begin_epoch();
    order.block_epoch = order.epoch;
    order.first_epoch.push_back(order.epoch);
    order.published.resize(order.first_epoch.size() * running.blocks);
    if (UNLIKELY(running.blocks > 1))
        for (unsigned rank = 0; rank < running.blocks; rank++) {
            order.epochs[rank] = rank ? ++order.last_epoch : order.epoch;
            order.ended[rank] = false;
            order.visits[rank].clear();
            order.welcome[rank].clear();
            order.sent[rank].clear();
        }
    order.flags.clear();
    order.more_global.clear();
    order.running_rank = 0;
    order.acquired = false;
    count_overlaps();
    forget_copies();
    order.waits.clear();
    if (running.racecheck) begin_block_clocks();
}

void order_enter(unsigned rank) {
    order.epochs[order.running_rank] = order.epoch;
    order.epoch = order.epochs[rank];
    order.running_rank = rank;
}

static bool reads_shared_of(unsigned rank, const BulkTouch &copy) {
    for (auto [address, bytes] : copy.reads)
        for (unsigned part : {2 * rank, 2 * rank + 1})
            if (address - order.shared_low[part] < order.shared_bytes[part]) return true;
    return false;
}

// A copy from this block to another one.
static void report_sent(const Touch &begun) {
    report(findings(), "racecheck", "ended block", places.sites[begun.site].pc, begun.thread, nullptr, 0, places.sites[begun.site].size,
           format("thread %s begins a bulk copy from the shared memory of its block to another one, and its block may have ended before that is read: "
                  "its threads have waited for nothing behind the end of the copy", name_of(begun.thread).c_str()), END_TOGETHER);
}

void order_ended() {
    settle_again();
    order.ended[running.rank] = true;
    for (const Touch &visit : order.visits[running.rank])
        if (visit.epoch && !is_known_in(running.rank, visit.thread, visit.clock))
            report_visit("ended block", visit, 0, running.rank, "that block may have ended by then: its threads have waited for nothing behind this access",
                         END_TOGETHER);
    for (const auto &[number, copy] : order.bulk)
        if (reads_shared_of(running.rank, copy)) report_sent(copy.read);
    for (const auto &[begun, landed] : order.sent[running.rank])
        if (!is_known_in(running.rank, landed.thread, landed.clock)) report_sent(begun);
}

void add_races(unsigned rank, char *dynamic_shared, char *static_end) {
    const Launch &launch = *running.launch;
    unsigned part = 2 * rank;
    order.shared_low[part] = (uintptr_t)static_end - launch.shared->bytes;
    order.shared_bytes[part] = launch.shared->bytes;
    order.shared_low[part + 1] = (uintptr_t)dynamic_shared;
    order.shared_bytes[part + 1] = launch.dynamic_shared;
    order.parts = part + 2;
    for (unsigned of : {part, part + 1})
        if (running.examines) order.cells[of].assign((order.shared_bytes[of] + word_bytes - 1) / word_bytes * word_bytes, Cell());
}

void begin_races(char *dynamic_shared, char *static_end) {
    forget_copies();                                 // of a launch that was abandoned
    begin_clocks();
    order.bulk.clear();
    order.bulk_bytes = 0;
    order.tiles.clear();
    order.more.clear();
    memset(order.phases, 0, sizeof order.phases);
    order.has_named = false;
    for (auto &each : order.cells) each.clear();
    for (auto &each : order.hidden) each.clear();
    add_races(0, dynamic_shared, static_end);
    order.epoch = order.last_epoch = 0;
    order.grid_epoch = 1;
    memset(order.exchanged, 0, sizeof order.exchanged);
    order.looked_at = 0;
    const unsigned threads = running.blocks * block_stride;
    for (unsigned thread = 0; thread < threads; thread++) order.links[thread] = {};
    for (auto &each : order.last_at) each = {};
    for (auto *each : {&order.ordering, &order.fenced, &order.flagged, &order.locked, &order.updated, &order.counted}) memset(each, 0, threads * sizeof **each);
    order.undecided.clear();
    order.again.clear();
    order.first_epoch.clear();
    order.published.clear();
    order.fences = 0;
}

void end_races() {
    count_overlaps();
    if (running.racecheck) compare_readers();
    for (const Finding &f : order.undecided)
        if (!f.look || !places.sites[f.look].looks) findings().push_back(f);
}

bool has_fenced() { return order.fences; }

unsigned accesses_of(const Range &range, size_t offset) {
    const GlobalCell &cell = range.cells[offset / range.step];
    return (cell.write.epoch ? 1 << cell.write.strong() : 0) | (cell.read.epoch ? 4 << cell.read.strong() : 0);
}

}  // namespace check
#endif
