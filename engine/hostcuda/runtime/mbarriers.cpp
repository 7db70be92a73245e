// Barriers in shared memory with phases (include/hostcuda/mbarrier.h; PTX: mbarrier).
//
// The state is kept here, by address, and is that of PTX: arrivals that a phase expects and that have come, bytes that are
// expected and not yet copied, and the number of the phase, whose lowest bit is its parity. A phase ends when nobody and no
// byte is missing. A thread that waits sleeps. `try_wait` and `test_wait` may come back before the end of the phase: they do
// so when no other thread can run, once for all that has been done in the block, so that a thread that only looks ahead goes
// on, and one that repeats them in a loop is part of a deadlock.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <string.h>

#define HOSTCUDA_PLACE const char *what, const char *file, int line

namespace {

constexpr unsigned most_arrivals = (1 << 20) - 1;
constexpr long most_bytes = (1 << 20) - 1;

// The word in the memory of the kernel; also the spinning threads' digest of it changes with the state (spins.cpp).
uint64_t word_of(const Mbarrier &m) {
    return 0xb6ull << 56 | (uint64_t)(m.phase.number & 0xff) << 48 | (uint64_t)(m.phase.arrived & 0xffffff) << 24
           | ((uint64_t)(m.expected_bytes - m.copied_bytes) & 0xffffff);
}

void store_word(Mbarrier &m) {
    m.word = word_of(m);
    memcpy(m.at, &m.word, sizeof m.word);
}

void note_line(std::vector<Mbarrier::Line> &lines, const Place &place, unsigned count) {
    for (Mbarrier::Line &line : lines)
        if (line.place.is(place.file, place.line)) {
            line.count += count;
            return;
        }
    lines.push_back({place, count});
}

// Somebody has arrived, or bytes were counted. The block may be another one of the cluster.
void settle(Block &b, Mbarrier &m) {
    b.done++;
    bool ends = m.phase.arrived == m.phase.expected && m.expected_bytes == m.copied_bytes;
    if (ends) {
        unsigned expected = m.phase.expected;
        m.phase = {m.next_expected, 0, m.phase.number + 1};
        m.expected_bytes = m.copied_bytes = 0;
        m.arrivals.clear();
        m.expectations.clear();
        m.copies.clear();
        watch_mbarrier_phase(m.number, expected);
        // Now, and not when they go on: the next phase may have ended by then, which they have not waited for.
        if (checking)
            for (const Fiber *f = b.sleeping.head; f; f = f->next)
                if (f->wait->mbarrier == &m) watch_mbarrier_waited(m.number, of_cluster(b, f->thread.number));
    }
    store_word(m);
    if (ends) wake(b);
}

void expect(Mbarrier &m, long bytes, const Place &place) {
    (bytes < 0 ? m.copied_bytes : m.expected_bytes) += bytes < 0 ? -bytes : bytes;
    note_line(m.expectations, place, 1);
    long missing = m.expected_bytes - m.copied_bytes;
    if (missing > most_bytes || missing < -most_bytes)
        hostcuda::fail("%s at %s:%d: %ld bytes are outstanding, and an mbarrier counts to %ld", place.what, place.file, place.line, missing,
                       most_bytes);
}

}  // namespace

// The block in whose shared memory it is: of the cluster.
Block &block_of(Block &b, void *at) {
    Block *owner = has_others(b) ? owner_of(b, at) : &b;
    return owner ? *owner : b;
}

Mbarrier &find_mbarrier(Block &b, void *at, const Place &place) {
    auto found = b.asynchronous.mbarriers.find(at);
    if (found == b.asynchronous.mbarriers.end() || found->second.ended) {
        std::string where = name_shared(b.shared, (const char *)at, 8);
        hostcuda::fail("%s at %s:%d uses %s, where no thread of the block has made an mbarrier (mbarrier.init)", place.what, place.file,
                       place.line, where.empty() ? "an address outside of the block's shared memory" : where.c_str());
    }
    Mbarrier &m = found->second;
    if (memcmp(m.at, &m.word, sizeof m.word))
        hostcuda::fail("%s at %s:%d: something has written over the mbarrier, %s", place.what, place.file, place.line,
                       name_shared(b.shared, m.at, 8).c_str());
    return m;
}

void begin_mbarriers(Block &b) {
    const Asynchronous &used = b.asynchronous;
    if (LIKELY(used.mbarriers.empty() && used.bulk_groups.empty() && used.product_groups.empty() && !used.fenced_warps
               && used.registers.empty())) return;
    b.asynchronous = {};
    b.idle_turns = 0;
}

void count_copied(Block &b, Mbarrier &m, long bytes, const Place &) {
    m.copied_bytes += bytes;
    settle(b, m);
}

bool time_out(Block &b) {
    Queue<Fiber> asleep;
    asleep.take_all(b.sleeping);
    bool goes_on = false;
    while (asleep.head) {
        Fiber *fiber = asleep.pop();
        Wait &wait = *fiber->wait;
        bool now = wait.tries && wait.tried != b.done;
        if (now) wait.timed_out = goes_on = true, wait.tried = b.done;
        (now ? b.ready : b.sleeping).push(fiber);
    }
    return goes_on;
}

namespace hostcuda {

EXPORT void make_mbarrier(void *at, unsigned expected, HOSTCUDA_PLACE) {
    Block &b = *block;
    if ((uintptr_t)at % 8) fail("%s at %s:%d: the address of an mbarrier is a multiple of 8 bytes", what, file, line);
    if (space_of(at) != 's') fail("%s at %s:%d: an mbarrier is in shared memory, and this address is not", what, file, line);
    if (!expected || expected > most_arrivals)
        fail("%s at %s:%d: an mbarrier expects 1 to %u arrivals, not %u", what, file, line, most_arrivals, expected);
    Mbarrier &m = b.asynchronous.mbarriers[at];
    bool is_new = !m.at;
    unsigned blocks = b.in_cluster.blocks, rank = b.in_cluster.rank;
    for (Fiber *f = b.sleeping.head; f; f = f->next)
        if (f->wait->mbarrier == &m)
            fail("%s at %s:%d makes an mbarrier anew for which a thread waits (%s at %s:%d)", what, file, line, f->wait->place.what,
                 f->wait->place.file, f->wait->place.line);
    m = Mbarrier{{expected, 0, 0}, (char *)at, is_new ? b.asynchronous.mbarriers_made++ * blocks + rank : m.number, expected, 0, 0, 0, {}, {}, {}};
    watch_mbarrier_made(m.number, what, file, line);
    store_word(m);
}

EXPORT void end_mbarrier(void *at, HOSTCUDA_PLACE) {
    Block &b = *block;
    Mbarrier &m = find_mbarrier(b, at, {what, file, line});
    for (const BulkCopy &copy : b.asynchronous.copies)
        if (copy.mbarrier == &m)
            fail("%s at %s:%d ends an mbarrier that counts the bytes of a copy under way (%s at %s:%d)", what, file, line, copy.place.what,
                 copy.place.file, copy.place.line);
    for (Fiber *f = b.sleeping.head; f; f = f->next)
        if (f->wait->mbarrier == &m)
            fail("%s at %s:%d ends an mbarrier for which a thread waits (%s at %s:%d)", what, file, line, f->wait->place.what,
                 f->wait->place.file, f->wait->place.line);
    m.ended = true;
}

EXPORT unsigned long long arrive_at_mbarrier(void *at, unsigned count, long bytes, Arrival how, HOSTCUDA_PLACE) {
    Block &b = block_of(*block, at);
    Place place{what, file, line};
    if (UNLIKELY(!b.live)) return 0;               // that block has ended: check mode has told of it
    Mbarrier &m = find_mbarrier(b, at, place);
    unsigned missing = m.phase.expected - m.phase.arrived;
    unsigned long long phase = m.phase.number | (unsigned long long)missing << 32;
    if (bytes) expect(m, bytes, place);
    if (count > missing || (count && how == Arrival::incomplete && count == missing)) {
        std::string bytes_missing = m.expected_bytes != m.copied_bytes
                                        ? format(", and the phase waits for %ld bytes", m.expected_bytes - m.copied_bytes) : "";
        fail("%s at %s:%d: %u too many arrive at the mbarrier in %s, which expects %u in a phase and has %u%s: on a GPU the launch fails", what,
             file, line, count - missing + (how == Arrival::incomplete), name_shared(b.shared, m.at, 8).c_str(), m.phase.expected,
             m.phase.arrived, bytes_missing.c_str());
    }
    if (how == Arrival::drop) m.next_expected -= count;
    m.phase.arrived += count;
    if (count) note_line(m.arrivals, place, count);
    if (count && how != Arrival::relaxed) watch_mbarrier_arrival(m.number);   // a relaxed one orders nothing
    settle(b, m);
    return phase;
}

EXPORT Switch wait_at_mbarrier(void *at, unsigned long long phase, int parity, bool tries, HOSTCUDA_PLACE) noexcept {
    Block &b = *block;
    Fiber *me = hostcuda_turn.current;
    if (UNLIKELY(*b.cancelled)) leave(b);
    if (&block_of(b, at) != &b) fail("%s at %s:%d waits at the mbarrier of another block, which only threads of that block can", what, file, line);
    Mbarrier &m = find_mbarrier(b, at, {what, file, line});
    me->wait->timed_out = false;
    me->wait->mbarrier = &m;
    bool ended = parity < 0 ? m.phase.number != (unsigned)phase : (int)(m.phase.number & 1) != parity;
    if (ended) {
        watch_mbarrier_waited(m.number, of_cluster(b, me->thread.number));
        return {&me->context, &me->context};
    }
    me->wait->parity = parity;
    me->wait->tries = tries;
    return sleep(b, me, m.phase, m.phase.number, {what, file, line}, &m);
}

EXPORT bool mbarrier_waited() { return !hostcuda_turn.current->wait->timed_out; }

EXPORT void complete_copies_at(void *at, HOSTCUDA_PLACE) { watch_copies_at(find_mbarrier(*block, at, {what, file, line}).number); }

}  // namespace hostcuda
