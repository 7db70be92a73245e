// Lanes of a warp that wait for each other: by a mask that they all give, or all that reach the same place.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <string.h>

// Check mode: whose accesses follow, and lanes that the mask names but that have ended.
static void tell_of_meeting(Block &b, Warp &w, const Meeting &meeting, void *from) {
    unsigned before = (&w - b.warps) * warp_size, lanes = b.threads - before;
    unsigned absent = meeting.mask & ~meeting.arrived & (lanes < warp_size ? (1u << lanes) - 1 : ~0u);
    const auto &[what, file, line] = meeting.place;
    if (absent) {
        const Fiber *someone = meeting.waiting.head ? meeting.waiting.head : hostcuda_turn.current;
        watch_absent(what, file, line, someone->thread.index, absent);
    }
    bool of_matrices = strstr(what, "matrix") || strstr(what, "mma");
    watch_meeting(&w - b.warps, meeting.arrived, from, !meeting.combine, of_matrices);
}

// Inlined where the last lane arrives.
static inline __attribute__((always_inline)) void end(Block &b, Warp &w, Meeting *meeting, void *from) {
    Meeting **link = &w.meetings;
    while (*link != meeting) link = &(*link)->next;
    *link = meeting->next;
    if (checking) tell_of_meeting(b, w, *meeting, from);
    if (meeting->combine && meeting->arrived) combine_all(meeting->combine, meeting->lanes, meeting->arrived);
    watch_met();
    b.ready.take_all(meeting->waiting);
}

void end_meeting(Block &b, Warp &w, Meeting *meeting) { end(b, w, meeting, nullptr); }

// The converged lanes of a warp that are at this place.
static unsigned lanes_at(const Warp &w, const Place &place) {
    unsigned mask = 0;
    for (Fiber *f = w.converged.head; f; f = f->next)
        if (f->wait->place.is(place.file, place.line)) mask |= 1u << f->thread.number % warp_size;
    return mask;
}

// Of lanes that all wait to print, those to print first, so that the others meet them behind a branch: the first in the code, but
// of a loop the ones that are still in an earlier iteration.
static unsigned lanes_to_print(Block &b, const Warp &w) {
    auto is_ahead = [&](const Fiber *f) {
        int at = f->wait->place.line;
        if (at > b.printed[f->thread.number]) return false;
        for (Fiber *g = w.converged.head; g; g = g->next) {
            int last = b.printed[g->thread.number];
            if (at <= last && g->wait->place.line > last) return true;
        }
        return false;
    };
    unsigned mask = 0;
    int first = 0;
    for (Fiber *f = w.converged.head; f; f = f->next) {
        int at = f->wait->place.line;
        if ((mask && at > first) || is_ahead(f)) continue;
        if (at != first) mask = 0;
        first = at;
        mask |= 1u << f->thread.number % warp_size;
    }
    return mask;
}

// They are ready, in the order of their numbers.
static void resume_lanes(Block &b, Warp &w, unsigned mask) {
    Fiber *lanes[warp_size];
    Queue<Fiber> all;
    all.take_all(w.converged);
    while (all.head) {
        Fiber *fiber = all.pop();
        unsigned lane = fiber->thread.number % warp_size;
        if (mask >> lane & 1) lanes[lane] = fiber;
        else w.converged.push(fiber);
    }
    for (unsigned left = mask; left; left &= left - 1) {
        Fiber *fiber = lanes[__builtin_ctz(left)];
        fiber->wait->mask = mask;
        b.ready.push(fiber);
        b.converged--;
    }
}

void resolve_converged(Block &b) {
    b.yields = 0;
    constexpr unsigned most_passes = 1000;                 // lanes in a loop may wait for those that are passed over
    for (Warp &w : b.warps) {
        bool print = w.converged.head && w.passes++ < most_passes;
        for (Fiber *f = w.converged.head; f; f = f->next) print &= !f->wait->place.file;
        if (print) {
            resume_lanes(b, w, lanes_to_print(b, w));
            continue;
        }
        w.passes = 0;
        while (w.converged.head) resume_lanes(b, w, lanes_at(w, w.converged.head->wait->place));
    }
}

namespace hostcuda {

EXPORT unsigned lane_id() { return hostcuda_turn.thread.number % warp_size; }

// The thread before does not wait in the same meeting, or this one is the last.
static __attribute__((noinline)) Switch meet(unsigned mask, void *mine, void (*combine)(void *const *, unsigned),
                                             const Place &place, void *from) {
    Block &b = *block;
    Turn &turn = hostcuda_turn;
    Fiber *me = turn.current;
    unsigned lane = me->thread.number % warp_size, warp = me->thread.number / warp_size;
    Warp &w = b.warps[warp];
    if (UNLIKELY(!(mask >> lane & 1))) {
        fail_thread(b, "synccheck", "caller outside its mask",
                    "%s at %s:%d with mask 0x%08x, which does not name the calling lane %u", place.what, place.file, place.line, mask, lane);
    }
    Meeting *meeting = w.meetings;
    // Half a warp that votes by __any_sync, and half by __ballot_sync, do not meet, although both are counted in one way.
    auto other = [&](const Place &its) { return combine && its.what != place.what && strcmp(its.what, place.what); };
    while (meeting && (meeting->mask != mask || meeting->combine != combine || other(meeting->place))) meeting = meeting->next;
    if (!meeting) {
        meeting = &me->wait->meeting;
        meeting->warp = warp;
        meeting->mask = mask;
        meeting->arrived = 0;
        meeting->combine = combine;
        meeting->place = place;
        meeting->mixed = false;
        meeting->waiting.clear();
        memset(meeting->lanes, 0, sizeof meeting->lanes);
        meeting->next = w.meetings;
        w.meetings = meeting;
    }
    meeting->lanes[lane] = mine;
    meeting->arrived |= 1u << lane;
    meeting->awaited = mask & w.live;
    complete_lists(b);
    if (meeting->arrived == meeting->awaited) {
        bool in_order = !combine && meeting != &me->wait->meeting;
        end(b, w, meeting, from);
        if (!in_order) return {&me->context, &me->context};
        // After __syncwarp the lanes go on in the order in which they came. Then s[i] += s[i + 16] reads the old value, as in
        // step; it is a race, but a common one.
        Fiber *next = me->next;                            // they are ready
        b.ready.push(me);
        return change(me, next);
    }
    if (UNLIKELY(!meeting->mixed && !meeting->place.is(place.file, place.line))) {
        note_places(meeting->waiting, meeting->place);
        meeting->mixed = true;
    }
    Fiber *next = detach(b, me);
    meeting->waiting.push(me);
    if (!next) next = next_fiber(b);
    if (UNLIKELY(meeting->mixed)) {
        me->wait->place = place;
    } else {
        turn.meeting = meeting;
        turn.last = me;
        me->next = next;
    }
    return change(me, next);
}

EXPORT Switch meet(unsigned mask, void *mine, void (*combine)(void *const *, unsigned), const char *what,
                   const char *file, int line) noexcept {
    Turn &turn = hostcuda_turn;
    Fiber *me = turn.current, *next = me->next;
    Meeting *meeting = turn.meeting;
    unsigned lane = turn.thread.number % warp_size, bit = 1u << lane;
    if (LIKELY(!checking && next && meeting && meeting->place.is(file, line) && meeting->mask == mask && meeting->combine == combine
               && meeting->warp == turn.thread.number / warp_size && meeting->awaited & bit
               && (meeting->arrived | bit) != meeting->awaited)) {
        meeting->arrived |= bit;
        meeting->lanes[lane] = mine;
        turn.last = me;
        return follow_last(turn, me, next);
    }
    return meet(mask, mine, combine, {what, file, line}, HOSTCUDA_CALLER);
}

EXPORT Switch gather(const char *file, int line) noexcept {
    Block &b = *block;
    complete_lists(b);
    Fiber *me = hostcuda_turn.current, *next = detach(b, me);
    me->wait->place = {"a warp function without mask", file, line};
    b.warps[me->thread.number / warp_size].converged.push(me);
    b.converged++;
    return change(me, next ? next : next_fiber(b));
}

EXPORT unsigned gathered() { return hostcuda_turn.current->wait->mask; }

Switch gather_to_print(int statement) noexcept {
    if (UNLIKELY(*block->cancelled)) leave(*block);
    return gather(nullptr, statement);
}

void note_printed(int statement) {
    block->prints = true;
    block->printed[hostcuda_turn.thread.number] = statement;
}

}  // namespace hostcuda
