// Leaving a launch that failed, and what the error says.
#undef _FORTIFY_SOURCE
#include "fibers.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static std::string triple(Index i) { return format("(%u,%u,%u)", i.x, i.y, i.z); }

[[noreturn]] void leave(Block &b) {
    b.failed = true;
    if (checking && !b.left_stack) b.left_stack = (uintptr_t)__builtin_frame_address(0);
    switch_context(&b.nowhere, &b.home);
    __builtin_unreachable();
}

// "kernel f, block (0,0,0)", and the thread if it caused the error
static std::string place(Block &b, bool with_thread) {
    std::string text = std::string("kernel ") + b.launch->kernel + ", block " + triple(blockIdx);
    return with_thread ? text + ", thread " + triple(hostcuda_turn.thread.index) : text;
}

[[noreturn]] static void fail(Block &b, bool with_thread, const char *pattern, va_list values) {
    char text[4000];
    vsnprintf(text, sizeof text, pattern, values);
    b.error = place(b, with_thread) + ": " + text;
    leave(b);
}

[[noreturn]] void fail_block(Block &b, const char *pattern, ...) {
    va_list values;
    va_start(values, pattern);
    fail(b, false, pattern, values);
}

[[noreturn]] void fail_thread(Block &b, const char *tool, const char *kind, const char *pattern, ...) {
    if (kind) b.tool = tool, b.kind = kind;
    va_list values;
    va_start(values, pattern);
    fail(b, true, pattern, values);
}

namespace hostcuda {
[[noreturn]] EXPORT void fail(const char *pattern, ...) {
    char text[1000];
    va_list values;
    va_start(values, pattern);
    vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    if (in_kernel()) {
        const char *kind = !strncmp(text, "assertion", 9) ? "assertion" : !strncmp(text, "__trap", 6) ? "trap" : "fault";
        fail_thread(*block, "memcheck", kind, "%s", text);
    }
    fprintf(stderr, "%s (outside a kernel)\n", text);
    abort();
}
}  // namespace hostcuda

// Calls of kernels (toolchain.py).
extern "C" {
[[noreturn]] EXPORT void __wrap_abort() { hostcuda::fail("abort() was called"); }
[[noreturn]] EXPORT void __wrap__ZSt9terminatev() { hostcuda::fail("std::terminate() was called"); }
[[noreturn]] EXPORT void __wrap_exit(int) { hostcuda::fail("exit() was called: leave a kernel with return, or end the launch with __trap()"); }
[[noreturn]] EXPORT void __wrap__exit(int status) { __wrap_exit(status); }
[[noreturn]] EXPORT void __wrap__Exit(int status) { __wrap_exit(status); }
[[noreturn]] EXPORT void __wrap_quick_exit(int status) { __wrap_exit(status); }
}

bool in_kernel() { return block && block->running; }

// ---- Threads that wait for each other -----------------------------------------------------------------------

// " (a.cu:7, a.cu:9)" for the lines, "" for none.
static std::string at_lines(const std::vector<Mbarrier::Line> &lines) {
    std::string text;
    for (const Mbarrier::Line &line : lines) {
        if (text.find(format("%s:%d", line.place.file, line.place.line)) != text.npos) continue;
        text += format("%s%s:%d", text.empty() ? "" : ", ", line.place.file, line.place.line);
    }
    return text.empty() ? "" : " (" + text + ")";
}

// ", for the end of a phase with parity 1 of the mbarrier in full[0]: its current phase ... has 0 of 1 arrivals; ..."
static std::string missing_at(Block &b, const Wait &wait) {
    const Mbarrier &m = *wait.mbarrier;
    std::string text = wait.parity < 0 ? ", for the phase" : format(", for the end of a phase with parity %d", wait.parity);
    text += format(" of the mbarrier in %s: its current phase is number %u, with parity %u, and has %u of %u arrivals%s",
                   name_shared(b.shared, m.at, 8).c_str(), m.phase.number, m.phase.number & 1, m.phase.arrived, m.phase.expected,
                   at_lines(m.arrivals).c_str());
    if (!m.expected_bytes && !m.copied_bytes) return text;
    long missing = m.expected_bytes - m.copied_bytes;
    text += format("; %ld bytes are expected%s and %ld are copied%s", m.expected_bytes, at_lines(m.expectations).c_str(), m.copied_bytes,
                   at_lines(m.copies).c_str());
    return missing ? text + format(": %ld %s", labs(missing), missing > 0 ? "too few" : "too many") : text;
}

std::string describe_partial(const Block &b, const Asynchronous::Registers *&first) {
    const auto &registers = b.asynchronous.registers;
    for (size_t begin = 0; begin < registers.size(); begin += warpgroup_size) {
        auto group = registers.begin() + begin, end = group + std::min<size_t>(warpgroup_size, registers.size() - begin);
        auto set = std::find_if(group, end, [](const auto &each) { return each.set_to; });
        if (set == end) continue;
        long count = std::count_if(group, end, [=](const auto &each) { return each.set_to == set->set_to; });
        if (count == end - group) continue;
        first = &*set;
        bool may_come = false;                       // another thread may wait in front of its setmaxnreg
        for (auto other = group; other != end; ++other) {
            size_t thread = other - registers.begin();
            may_come |= !other->set_to && b.warps[thread / warp_size].live >> thread % warp_size & 1;
        }
        return format("%ld of the %ld threads of warpgroup %zu set %u registers (%s at %s:%d), and the others %s: a whole warpgroup has to",
                      count, end - group, begin / warpgroup_size, set->set_to, set->place.what, set->place.file, set->place.line,
                      may_come ? "have not done so yet" : "do not");
    }
    return "";
}

// "thread (0,0,0) and 31 more at __syncthreads (a.cu:7); thread ..." for all waiting threads.
static std::string who_waits(Block &b) {
    struct Site { Place place; Index first; unsigned count; const hostcuda::Phase *phase; const Wait *wait; };
    std::vector<Site> sites;
    auto add = [&](Queue<Fiber> &queue, bool of_phases = false) {
        for (Fiber *f = queue.head; f; f = f->next) {
            const Place &at = f->wait->place;
            Site *site = nullptr;
            for (Site &s : sites)
                if (s.place.line == at.line && !strcmp(s.place.what, at.what) && !strcmp(s.place.file, at.file)
                    && (!of_phases || (s.wait->mbarrier == f->wait->mbarrier && s.wait->phase == f->wait->phase)))
                    site = &s;
            if (site) site->count++;
            else sites.push_back({at, f->thread.index, 1, of_phases ? f->wait->phase : nullptr, f->wait});
        }
    };
    if (!b.mixed) note_places(b.barrier, b.place);
    add(b.barrier);
    add(b.sleeping, true);
    for (Warp &w : b.warps)
        for (Meeting *m = w.meetings; m; m = m->next) {
            if (!m->mixed) note_places(m->waiting, m->place);
            add(m->waiting);
        }
    std::string text;
    for (Site &s : sites) {
        if (!text.empty()) text += "; ";
        text += "thread " + triple(s.first);
        if (s.count > 1) text += format(" and %u more", s.count - 1);
        text += format(" at %s", s.place.what);
        if (s.phase && !strcmp(s.place.what, "bar.sync")) text += format(" %d", (int)(s.phase - b.phases));    // its number
        text += format(" (%s:%d)", s.place.file, s.place.line);
        if (s.phase && s.wait->mbarrier) text += missing_at(b, *s.wait);
        else if (s.phase == &b.asynchronous.registers_given) {
            const Asynchronous::Registers *set;
            std::string partial = describe_partial(b, set);
            text += format(", and too few registers are left: a thread has %u at first, and more only when other warps have given theirs "
                           "(setmaxnreg.dec)%s%s", registers_of(*b.launch), partial.empty() ? "" : "; ", partial.c_str());
        }
        else if (s.phase && s.phase->expected) text += format(", which expects %u and has %u", s.phase->expected, s.phase->arrived);
        if (&s == &sites[3] && sites.size() > 5)
            return text + format("; %zu more places", sites.size() - 4);
    }
    return text;
}

[[noreturn]] void fail_diverged(Block &b, Fiber *at, const char *how) {
    std::string sentence = how + who_waits(b);
    for (Block *other : b.cluster->blocks)
        if (other != &b)
            sentence += format("; in block %s of the cluster ", triple(other->at).c_str()) + (other->live ? who_waits(*other) : "all have ended");
    if (at) watch_divergence(at->wait->place.what, at->wait->place.file, at->wait->place.line, at->thread.index, sentence);
    fail_block(b, "%s%s", strncmp(how, "deadlock", 8) ? "divergent barrier, " : "", sentence.c_str());
}

void report_absent(Block &b) {
    unsigned ended = b.threads - b.live;
    if (ended <= b.absent) return;                         // told at an earlier barrier
    b.absent = ended;
    bool may_return = !strncmp(b.place.what, "__syncthreads", 13);   // grid.sync() is for all threads
    unsigned count[2]{}, first[2];                         // of those that took a branch around it, and of those that returned before it
    for (unsigned thread = 0; thread < b.threads; thread++) {
        if (b.warps[thread / warp_size].live >> thread % warp_size & 1) continue;
        bool returned = may_return && b.returned[thread].first <= (unsigned)b.place.line && (unsigned)b.place.line <= b.returned[thread].last;
        if (!count[returned]++) first[returned] = thread;
    }
    for (bool returned : {false, true}) {
        if (!count[returned]) continue;
        unsigned number = first[returned];
        std::string who = "thread " + triple({number % blockDim.x, number / blockDim.x % blockDim.y, number / blockDim.x / blockDim.y});
        if (count[returned] > 1) who += format(" and %u more", count[returned] - 1);
        Index waits = b.barrier.head->thread.index;
        if (returned) watch_returned(b.place.file, b.place.line, waits, who + " returned before this barrier: " + who_waits(b));
        else watch_divergence(b.place.what, b.place.file, b.place.line, waits, who + (may_return ? " ended without it, by a branch around it: " : " ended without it (by a return, or a branch around it): ")
                                  + who_waits(b));
    }
}

// ---- What has failed ----------------------------------------------------------------------------------------

// The address is in the guard of the current stack.
static bool has_overflowed(Block &b) {
    const char *low = hostcuda_turn.current->top - stack_bytes - page;
    return b.fault_address >= low - guard_bytes && b.fault_address < low + page;
}

// A function pointer that is null, or points to no code.
static bool is_call(Block &b) { return b.signal == SIGSEGV && b.left_at == (uintptr_t)b.fault_address; }

static const char *kind_of_fault(Block &b) {
    if (is_call(b) && b.left_at < page) return "null pointer";
    if (b.signal == SIGFPE) return "division by zero";
    if (b.signal == SIGILL) return "illegal instruction";
    if (b.signal == SIGABRT) return "fault";
    return has_overflowed(b) ? "stack overflow" : "out of bounds";
}

static std::string describe_fault(Block &b) {
    if (b.signal == SIGFPE) return "integer division by zero: it ends the launch here, while a GPU goes on with a number that has no meaning";
    if (b.signal == SIGABRT) return "the C or C++ library has called abort(), after a message on stderr";
    if (b.signal == SIGILL) return "an illegal instruction (a trap of the compiler?)";
    if (has_overflowed(b)) return format("stack overflow: its local arrays and calls need more than %zu KB", stack_bytes >> 10);
    if (is_call(b) && b.left_at < page) return "a call of a null function pointer";
    if (is_call(b)) return format("a call of a function pointer to %p, where no code is", (const void *)b.fault_address);
    if (b.access == Access::impossible || b.signal == SIGBUS)
        return "a misaligned address (that of a float4 must be a multiple of 16), or one that does not exist";
    const char *doing = b.access == Access::read    ? "a read of"
                        : b.access == Access::write ? "a write to"
                                                    : "an access to";
    const char *address = b.fault_address;
    if (std::string where = describe_shared(b.shared, address); !where.empty()) return format("%s %s", doing, where.c_str());
    return format("%s %p, %s", doing, (const void *)address, describe_address(address).c_str());
}

// Report to check mode where the launch was left.
static void tell_where_left(Block &b) {
    uintptr_t places[16];
    size_t count = places_left(b, places, 16);
    if (*b.cancelled && b.error.empty()) watch_cancelled(places, count);
    else if (b.kind) watch_fault(b.tool, b.kind, b.error.substr(b.error.find(": ") + 2), places, count);
}

void note_damage(Block &b) { b.error = place(b, false) + ": " + describe_damage(b.shared); }

void note_failure(Block &b, bool with_thread) {
    after_signal(b);
    if (b.signal) b.error = place(b, with_thread) + ": " + describe_fault(b);
    if (!checking) return;
    if (b.signal) b.tool = "memcheck", b.kind = kind_of_fault(b);
    tell_where_left(b);
    if (b.error.empty()) b.error = place(b, true) + " was stopped";
}

const std::string &error_of(const Block &b) { return b.error; }

#ifdef HOSTCUDA_CHECK
[[noreturn]] void leave_launch(const std::string &sentence) { fail_thread(*block, nullptr, nullptr, "%s", sentence.c_str()); }
[[noreturn]] void leave_cancelled() { leave(*block); }

namespace hostcuda {
EXPORT void returns_within(unsigned first, unsigned last) {
    if (block) block->returned[hostcuda_turn.thread.number] = {first, last};
}
}
#endif
