// Bulk copies: begun by a thread, and made later (include/hostcuda/mbarrier.h).
//
// A GPU may make such a copy at any time until it is waited for. Here it is made as late as that allows: one that an mbarrier
// counts when all threads wait and one of them for this mbarrier, one of a group when its thread waits for the group. What it
// writes is filled with a pattern when it begins, so that who reads it too early, or writes to its source too early, gets a
// wrong result also without check mode.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <algorithm>
#include <string.h>

namespace {

constexpr int unset = 0xff;   // NaN as a float, -1 as an integer

void read_source(BulkCopy &copy) {
    if (copy.is_read) return;
    for (const hostcuda::Piece &piece : copy.pieces) {
        if (piece.from) copy.kept.insert(copy.kept.end(), piece.from, piece.from + piece.bytes);
        else copy.kept.insert(copy.kept.end(), piece.bytes, 0);
    }
    copy.is_read = true;
    watch_bulk_read(copy.watched, copy.thread);
}

void land(Block &b, BulkCopy &copy) {
    read_source(copy);
    const char *from = copy.kept.data();
    long bytes = 0;
    for (const hostcuda::Piece &piece : copy.pieces) {
        if (copy.combine) copy.combine(piece.to, from, piece.bytes);
        else memcpy(piece.to, from, piece.bytes);
        from += piece.bytes;
        bytes += piece.bytes;
    }
    watch_bulk_landed(copy.watched, copy.thread, copy.mbarrier ? (int)copy.mbarrier->number : -1);
    if (copy.mbarrier) count_copied(b, *copy.mbarrier, bytes, copy.place);
}

// Make the copies that `chosen` chooses, the last one first: no order among them is promised.
template <class Chosen> bool land_all(Block &b, Chosen chosen) {
    std::vector<BulkCopy> now;
    auto rest = std::stable_partition(b.asynchronous.copies.begin(), b.asynchronous.copies.end(), [&](const BulkCopy &copy) { return !chosen(copy); });
    std::move(rest, b.asynchronous.copies.end(), std::back_inserter(now));
    b.asynchronous.copies.erase(rest, b.asynchronous.copies.end());
    for (auto copy = now.rbegin(); copy != now.rend(); ++copy) land(b, *copy);
    return !now.empty();
}

unsigned &groups_of(Block &b, unsigned thread) {
    if (b.asynchronous.bulk_groups.empty()) b.asynchronous.bulk_groups.assign(max_threads, 0);
    return b.asynchronous.bulk_groups[thread % max_threads];
}

}  // namespace

bool land_copies(Block &b) {
    if (b.asynchronous.copies.empty()) return false;
    for (Fiber *f = b.sleeping.head; f; f = f->next) {
        const Mbarrier *awaited = f->wait->mbarrier;
        uint64_t done = b.done;
        if (!awaited || !land_all(b, [=](const BulkCopy &copy) { return copy.mbarrier == awaited; })) continue;
        // Of the fibers that sleep, those that wake are in another list now.
        if (awaited->phase.number != f->wait->number) return true;
        if (b.done != done) return land_copies(b);
    }
    return false;
}

#ifdef HOSTCUDA_CHECK
bool computes_products = false;

void note_products(Block &b) { computes_products = !b.asynchronous.products.empty(); }

bool is_sum_of_product(uintptr_t address, const char *&file, int &line) {
    for (const Product &product : block->asynchronous.products)
        if (std::binary_search(product.sums.begin(), product.sums.end(), address)) {
            file = product.place.file;
            line = product.place.line;
            return true;
        }
    return false;
}
#else
void note_products(Block &) {}
#endif

static void drop_products(Block &b) {
    for (const Product &product : b.asynchronous.products) watch_bulk_dropped(product.watched);
    b.asynchronous.products.clear();
    note_products(b);
}

static void drop_copies(Block &b) {
    drop_products(b);
    for (const BulkCopy &copy : b.asynchronous.copies) watch_bulk_dropped(copy.watched);
    b.asynchronous.copies.clear();
}

void end_copies(Block &b) {
    if (b.failed) return drop_copies(b);
    for (Product &product : b.asynchronous.products)
        watch_unawaited(product.place.what, product.place.file, product.place.line, product.index,
                        "the block ends before the warp has waited for its product, whose sums nobody has seen",
                        "put wgmma.commit_group behind the products, and wgmma.wait_group in front of what uses their sums");
    drop_products(b);
    const Asynchronous::Registers *set;
    if (std::string partial = describe_partial(b, set); !partial.empty()) {
        unsigned thread = set - b.asynchronous.registers.data();
        watch_partial(set->place.file, set->place.line, {thread % blockDim.x, thread / blockDim.x % blockDim.y, thread / blockDim.x / blockDim.y}, partial);
    }
    for (BulkCopy &copy : b.asynchronous.copies) {
        bool is_committed = !copy.mbarrier && copy.group < groups_of(b, copy.thread);
        if (copy.is_read) continue;
        watch_unawaited(copy.place.what, copy.place.file, copy.place.line, copy.index,
                        copy.mbarrier   ? "the block ends before any thread has waited at the mbarrier of the copy, which then writes to "
                                          "shared memory of another block"
                        : is_committed ? "the block ends before the thread that has begun the copy has waited for it: its source, in shared "
                                         "memory, may be gone when it is read"
                                       : "the copy is in no group, because no commit_group follows it in its thread, and the block ends "
                                         "before it is waited for: its source, in shared memory, may be gone when it is read",
                        copy.mbarrier ? "let a thread wait for the phase that counts the copy before the block ends"
                                      : "before the thread ends, put cp.async.bulk.commit_group and cp.async.bulk.wait_group.read 0");
    }
    land_all(b, [](const BulkCopy &) { return true; });
}

namespace hostcuda {

EXPORT void begin_bulk(const Piece *pieces, unsigned count, void *mbarrier, void (*combine)(char *, const char *, size_t),
                       unsigned watched, bool of_values, const char *what, const char *file, int line) {
    Block &mine = *block, &b = mbarrier ? block_of(mine, mbarrier) : mine;   // in which it is counted
    const Thread &thread = hostcuda_turn.thread;
    unsigned number = of_cluster(mine, thread.number);
    Place place{what, file, line};
    if (UNLIKELY(!b.live)) return watch_bulk_dropped(watched);   // that block has ended: check mode has told of it
    Mbarrier *m = mbarrier ? &find_mbarrier(b, mbarrier, place) : nullptr;
    if (m && has_others(b) && count && owner_of(b, pieces->to) != &b)
        fail("%s at %s:%d: its target and its mbarrier are in shared memory of two blocks", what, file, line);
    // A local variable may be gone when the copy is made.
    for (unsigned i = 0; i < count; i++)
        if (space_of(pieces[i].to) == 'l' || (!of_values && space_of(pieces[i].from) == 'l'))
            fail("%s at %s:%d: a bulk copy is between shared and global memory, and this address is a local variable's", what, file, line);
    if (m) m->copies.push_back({place, 1});
    b.asynchronous.copies.push_back({number, watched, {pieces, pieces + count}, m, m ? 0 : groups_of(b, number), combine, {}, false, place, thread.index});
    BulkCopy &copy = b.asynchronous.copies.back();
    if (of_values) read_source(copy);
    if (!combine)
        for (const Piece &piece : copy.pieces) memset(piece.to, unset, piece.bytes);
    b.done++;
}

EXPORT void commit_bulk() { groups_of(*block, hostcuda_turn.thread.number)++; }

EXPORT void await_bulk(unsigned prior, bool only_read) {
    Block &b = *block;
    unsigned thread = of_cluster(b, hostcuda_turn.thread.number), committed = groups_of(b, thread);
    auto awaited = [=](const BulkCopy &copy) { return copy.thread == thread && !copy.mbarrier && copy.group + prior < committed; };
    if (!only_read) land_all(b, awaited);
    else
        for (BulkCopy &copy : b.asynchronous.copies)
            if (awaited(copy)) read_source(copy);
}

// ---- Products of a warp ------------------------------------------------------------------------------------

static unsigned &product_groups_of(Block &b, unsigned warp) {
    if (b.asynchronous.product_groups.empty()) b.asynchronous.product_groups.assign(max_threads / warp_size, 0);
    return b.asynchronous.product_groups[warp];
}

static unsigned &products_left_of(Block &b, unsigned warp) {
    if (b.asynchronous.products_left.empty()) b.asynchronous.products_left.assign(max_threads / warp_size, 0);
    return b.asynchronous.products_left[warp];
}

EXPORT char *shared_of_bits(unsigned address) {
    bool is_dynamic = address < round_up(block->launch->dynamic_shared, 1024);
    return is_dynamic ? (char *)hostcuda_dynamic_shared + address : hostcuda_shared_end + (int)address - (1 << 18);
}

EXPORT void begin_product(void (*run)(void *), const void *record, size_t bytes, void *const *sums, unsigned count, unsigned watched,
                          const char *what, const char *file, int line) {
    Block &b = *block;
    const Thread &thread = hostcuda_turn.thread;
    unsigned warp = thread.number / warp_size;
    if (!(b.asynchronous.fenced_warps >> warp & 1)) watch_unfenced_product(what, file, line, thread.index);
    b.asynchronous.products.push_back({run, {(const char *)record, (const char *)record + bytes}, {}, thread.number, watched, product_groups_of(b, warp),
                          {what, file, line}, thread.index});
    std::vector<uintptr_t> &addresses = b.asynchronous.products.back().sums;
    for (unsigned i = 0; i < count; i++) addresses.push_back((uintptr_t)sums[i]);
    std::sort(addresses.begin(), addresses.end());
    note_products(b);
}

EXPORT void commit_products() { product_groups_of(*block, hostcuda_turn.thread.number / warp_size)++; }

// Compute the products of a warpgroup but those of each warp's last groups, for which it does not wait.
static void compute_products(Block &b, unsigned warpgroup) {
    std::vector<Product> rest;
    for (Product &product : b.asynchronous.products) {
        unsigned warp = product.thread / warp_size;
        if (product.thread / warpgroup_size != warpgroup || product.group + products_left_of(b, warp) >= product_groups_of(b, warp)) {
            rest.push_back(std::move(product));
            continue;
        }
        product.run(product.record.data());
        watch_product(product.watched, warpgroup);
    }
    b.asynchronous.products.swap(rest);
    note_products(b);
}

// The four warps wait for each other, as the hardware multiplies for all of them. So a thread of one may say for all that their
// operands are read. Of other accesses that orders none.
EXPORT Switch await_products(unsigned prior, const char *what, const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = hostcuda_turn.current;
    unsigned warpgroup = hostcuda_turn.thread.number / warpgroup_size;
    Phase &phase = b.phases[first_product_phase + warpgroup];
    b.phases_used = true;
    phase.expected = warpgroup_size;
    products_left_of(b, hostcuda_turn.thread.number / warp_size) = prior;
    if (++phase.arrived < warpgroup_size) return sleep(b, me, phase, phase.number, {what, file, line});
    compute_products(b, warpgroup);
    phase.arrived = 0;
    phase.number++;
    wake(b);
    return {&me->context, &me->context};
}

EXPORT bool change_registers(unsigned count, bool takes, const char *file, int line) {
    Block &b = *block;
    Asynchronous &its = b.asynchronous;
    if (!b.launch->bounds) return true;
    if (its.registers.empty()) its.registers.assign(b.threads, {registers_of(*b.launch), 0, {}});
    Asynchronous::Registers &mine = its.registers[hostcuda_turn.thread.number];
    mine.set_to = count;
    mine.place = {takes ? "setmaxnreg.inc" : "setmaxnreg.dec", file, line};
    long more = (long)count - mine.count;
    if (takes && more > its.registers_left) return false;
    its.registers_left -= more;
    mine.count = count;
    if (more < 0) its.registers_given.number++, wake(b);
    return true;
}

EXPORT Switch wait_for_registers(const char *file, int line) noexcept {
    const Phase &given = block->asynchronous.registers_given;
    return sleep(*block, hostcuda_turn.current, given, given.number, {"setmaxnreg.inc", file, line});
}

EXPORT void note_product_fence() { block->asynchronous.fenced_warps |= 1u << hostcuda_turn.thread.number / warp_size; }

}  // namespace hostcuda
