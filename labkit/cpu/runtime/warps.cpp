// Lanes of a warp that wait for each other: by a mask that they all give, or all that reach the same place.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <string.h>

// Check mode: whose accesses follow, and lanes that the mask names but that have ended.
static void tell_of_meeting(Block &b, Warp &w, const Meeting &meeting, void *from) {
    unsigned before = (&w - b.warps) * warp_size, lanes = b.threads - before;
    unsigned absent = meeting.mask & ~meeting.arrived & (lanes < warp_size ? (1u << lanes) - 1 : ~0u);
    Fiber *someone = meeting.waiting.head ? meeting.waiting.head : b.current;
    if (absent) {
        Index who = meeting.waiting.head ? someone->index : threadIdx;
        watch_absent(someone->what, someone->file, someone->line, who, absent);
    }
    bool of_matrices = strstr(someone->what, "matrix") || strstr(someone->what, "mma");
    watch_meeting(&w - b.warps, meeting.arrived, from, !of_matrices);
}

// Inlined where the last lane arrives.
static inline __attribute__((always_inline)) void end(Block &b, Warp &w, Meeting *meeting, void *from) {
    Meeting **link = &w.meetings;
    while (*link != meeting) link = &(*link)->next;
    *link = meeting->next;
    if (checking) tell_of_meeting(b, w, *meeting, from);
    if (meeting->combine && meeting->arrived) meeting->combine(meeting->lanes, meeting->arrived);
    watch_met();
    b.ready.take_all(meeting->waiting);
}

void end_meeting(Block &b, Warp &w, Meeting *meeting) { end(b, w, meeting, nullptr); }

void resolve_converged(Block &b) {
    for (Warp &w : b.warps) {
        for (Fiber *f = w.converged.head; f; f = f->next) f->mask = 0;
        for (Fiber *f = w.converged.head; f; f = f->next) {
            if (f->mask) continue;
            unsigned mask = 0;
            for (Fiber *g = f; g; g = g->next)
                if (g->line == f->line && g->file == f->file) mask |= 1u << g->thread % warp_size;
            for (Fiber *g = f; g; g = g->next)
                if (g->line == f->line && g->file == f->file) g->mask = mask;
        }
        b.ready.take_all(w.converged);
    }
    b.converged = 0;
}

namespace labkit {

EXPORT unsigned lane_id() { return block->current->thread % warp_size; }

EXPORT Switch meet(unsigned mask, void *mine, void (*combine)(void *const *, unsigned), const char *what,
                   const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    Warp &w = b.warps[me->thread / warp_size];
    unsigned lane = me->thread % warp_size;
    if (UNLIKELY(!(mask >> lane & 1))) {
        fail_thread(b, "synccheck", "caller outside its mask",
                    "%s at %s:%d with mask 0x%08x, which does not name the calling lane %u", what, file, line, mask, lane);
    }
    Meeting *meeting = w.meetings;
    while (meeting && (meeting->mask != mask || meeting->combine != combine)) meeting = meeting->next;
    if (!meeting) {
        meeting = &me->meeting;
        meeting->mask = mask;
        meeting->arrived = 0;
        meeting->combine = combine;
        meeting->waiting.clear();
        memset(meeting->lanes, 0, sizeof meeting->lanes);
        meeting->next = w.meetings;
        w.meetings = meeting;
    }
    meeting->lanes[lane] = mine;
    meeting->arrived |= 1u << lane;
    if (checking) me->waits_at(what, file, line);
    if (meeting->arrived == (mask & w.live)) {
        bool in_order = !combine && meeting != &me->meeting;
        end(b, w, meeting, __builtin_return_address(0));
        if (!in_order) return {&me->context, &me->context};
        // After __syncwarp the lanes go on in the order in which they came. Then s[i] += s[i + 16] reads the old value, as in
        // step; it is a race, but a common one.
        b.ready.push(me);
        return suspend(b, me);
    }
    me->waits_at(what, file, line);
    meeting->waiting.push(me);
    return suspend(b, me);
}

EXPORT Switch gather(const char *file, int line) noexcept {
    Block &b = *block;
    Fiber *me = b.current;
    me->waits_at("a warp function without mask", file, line);
    b.warps[me->thread / warp_size].converged.push(me);
    b.converged++;
    return suspend(b, me);
}

EXPORT unsigned gathered() { return block->current->mask; }

}  // namespace labkit
