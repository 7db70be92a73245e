// What may still run on a GPU. Here each operation is over before the next one begins; on a GPU, operations of two streams run at
// the same time, and the host goes on, unless something orders them. Vector clocks say what does: the order of a stream, events,
// the default stream, and the calls by which the host waits. What an operation accesses is kept until the host has waited for it,
// and reported where another operation or the host accesses the same bytes without an order, and one of the two writes.
//
// Of a launch, racecheck's cells tell the bytes. Two that access them atomically or as volatile variables do not race, and neither
// do two that signal by such a variable and make fences. A byte to which both write is reported if the second one changes it. Of
// the host of a whole program the accesses are seen; if it reads as a volatile variable what a launch has written, it may wait for
// that launch.
#ifdef HOSTCUDA_CHECK
#include "lock.h"
#include "parts.h"
#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string.h>

namespace check {

volatile bool runs_ahead = false, depends = false;

namespace {

constexpr size_t most_kept = 64 << 20, most_uses = 1000, most_spans = 1 << 16;   // bytes of an allocation; in all; of a use

struct Span {
    uintptr_t low, end;
};

// A launch that programmatic ones may follow.
struct Chained {
    uint64_t number;                                 // of its operation
    unsigned place;                                  // in its chain
    std::string kernel;
    bool programmatic = false, lets_begin = false, waits = false, waits_late = false;   // late: after it has let others begin
    std::vector<std::shared_ptr<Chained>> running, still_running;   // what may run when it begins, and when it has waited
    std::vector<Span> written, read;                 // sorted
};

struct Stream {
    bool non_blocking = false;
    Clock clock;                                     // of its last operation
    uint64_t last = ~0ull;                           // the number of that
    std::shared_ptr<Chained> chain;                  // its last launch
};

struct Queued {                                      // an operation
    uint64_t number;
    int stream;
    Clock clock;                                     // per stream, the operations that are before it, and it
    std::string what;
    bool kernel, fences = false;
    Place place;
    uint64_t before = ~0ull;                         // the number of the operation before it in its stream
};

// Bytes that an operation accesses in one way.
struct Use {
    std::shared_ptr<Queued> by;
    std::vector<Span> spans;                         // sorted
    bool writes, strong, of_host;                    // strong: atomic or volatile; of_host: the host can access it
};

Mutex mutex;
std::vector<Stream> streams(1);                      // by number; 0 is the default stream
Clock of_host;                                       // what the host has waited for
std::map<uint64_t, std::shared_ptr<Queued>> queued;  // launches that have not ended
std::list<Use> uses;
std::vector<std::pair<Span, std::string>> before;    // what others may write at the same time, when the launch began
std::set<std::string> told;
std::shared_ptr<Chained> chained;                    // the launch that runs
thread_local bool launching = false;                 // the host calls a launch, which waits only here

void join(Clock &clock, const Clock &other) {
    if (clock.size() < other.size()) clock.resize(other.size());
    for (size_t i = 0; i < other.size(); i++) clock[i] = std::max(clock[i], other[i]);
}

bool is_before(const Queued &operation, const Clock &clock) {
    return (size_t)operation.stream < clock.size() && operation.clock[operation.stream] <= clock[operation.stream];
}

// The host has waited: what is over is not looked at any more.
void forget() {
    uses.remove_if([](const Use &use) { return is_before(*use.by, of_host); });
    runs_ahead = std::any_of(uses.begin(), uses.end(), [](const Use &use) { return use.of_host; });
}

bool may_meet(const Use &a, const Use &b) {
    return (a.writes || b.writes) && !(a.strong && b.strong) && !is_before(*a.by, b.by->clock) && !is_before(*b.by, a.by->clock);
}

// Call a function for the bytes that are in both, until it returns true.
template <class Visit> bool visit_common(const std::vector<Span> &a, const std::vector<Span> &b, Visit visit) {
    for (auto i = a.begin(), j = b.begin(); i != a.end() && j != b.end(); i->end < j->end ? ++i : ++j) {
        uintptr_t low = std::max(i->low, j->low), end = std::min(i->end, j->end);
        if (low < end && visit(low, end)) return true;
    }
    return false;
}

// Whether some of these bytes are not as they were before the launch. Of what was not kept nothing is known.
bool have_changed(uintptr_t low, uintptr_t end) {
    for (auto &[span, bytes] : before)
        for (uintptr_t at = std::max(low, span.low); at < std::min(end, span.end); at++)
            if (*(const char *)at != bytes[at - span.low]) return true;
    return false;
}

// Whether one launch may wait for a variable that the other one sets: one with these uses, and an earlier one.
bool may_signal(const std::vector<Use> &more, const Queued &other) {
    for (const Use &a : more)
        for (const Use &b : uses)
            if (b.by.get() == &other && a.by->fences && other.fences && a.strong && b.strong && (a.writes || b.writes) &&
                visit_common(a.spans, b.spans, [](uintptr_t, uintptr_t) { return true; }))
                return true;
    return false;
}

std::string describe(const Queued &operation) {
    bool of_default = !operation.stream, apart = streams[operation.stream].non_blocking;
    return format("%s%s in %s", operation.kernel ? "kernel " : "", operation.what.c_str(),
                  of_default ? "the default stream" : apart ? "a non-blocking stream" : "a stream");
}

const char *verb_of(const Use &use) { return use.by->what.rfind("cudaFree", 0) == 0 ? "frees" : use.writes ? "writes" : "reads"; }

void report_race(const Use &a, const Use &b, uintptr_t address, size_t bytes) {
    const Use &first = a.by->number < b.by->number ? a : b, &last = &first == &a ? b : a;
    std::string places = json_of(last.by->place) + ",\"first\":{" + json_of(first.by->place) + "}";
    if (!told.insert(places + last.by->what + first.by->what).second) return;
    std::string where = describe_address((void *)address);
    where = where.compare(0, 5, "byte ") ? "memory of the host" : where.substr(0, where.rfind(" at 0x"));
    std::string message = format("%s %s what %s %s: %s. Nothing orders the two, so on a GPU they may run at the same time: record an event "
                                 "after the first (cudaEventRecord) and let the other stream wait for it (cudaStreamWaitEvent)",
                                 describe(*last.by).c_str(), verb_of(last), describe(*first.by).c_str(), verb_of(first), where.c_str());
    add_record(format("{\"copy\":%s,\"tool\":\"racecheck\",\"kind\":\"race between streams\",%s,\"address\":%zu,\"size\":%zu,\"message\":%s}",
                      quoted(last.by->what).c_str(), places.c_str(), (size_t)address, bytes, quoted(message).c_str()));
}

void report_access(const Queued &operation, bool writes, uintptr_t address, size_t bytes, bool reads, void *from) {
    std::string message = format("the host %s what %s%s %s: on a GPU that may not be over yet, because no call, such as "
                                 "cudaDeviceSynchronize, has waited for it", reads ? "reads" : "writes", operation.kernel ? "kernel " : "",
                                 operation.what.c_str(), writes ? "writes" : "reads");
    add_record(format("{\"copy\":\"host code\",\"tool\":\"racecheck\",\"kind\":\"race\",%s,\"address\":%zu,\"size\":%zu,\"message\":%s,"
                      "\"remedy\":\"wait for it before this access, with cudaDeviceSynchronize or with its stream or event\"}",
                      json_of(find_place("", from)).c_str(), (size_t)address, bytes, quoted(message).c_str()));
}

// Keep what an operation accesses, in one or several ways, and report what races with it.
void keep(std::vector<Use> &more) {
    for (const Use &use : more)
        for (const Use &other : uses) {
            if (!may_meet(use, other)) continue;
            visit_common(use.spans, other.spans, [&](uintptr_t low, uintptr_t end) {
                if (use.writes && other.writes && use.by->kernel && !have_changed(low, end)) return false;
                if (!may_signal(more, *other.by)) report_race(use, other, low, end - low);
                return true;
            });
        }
    uses.splice(uses.end(), std::list<Use>(more.begin(), more.end()));
    while (uses.size() > most_uses) uses.pop_front();
    forget();
}

// Begin a launch of a chain: what may still run then, because each lets those behind it begin before its end.
void begin_chained(const Queued &launch) {
    Stream &stream = streams[launch.stream];
    std::shared_ptr<Chained> before = stream.chain;
    stream.chain = chained = std::make_shared<Chained>(Chained{launch.number, before ? before->place + 1 : 0, launch.what, running.launch->programmatic});
    if (!before || before->number != launch.before || !chained->programmatic) return;
    chained->still_running = before->waits ? before->still_running : before->running;
    chained->running = before->waits && !before->waits_late ? before->still_running : before->running;
    before->running.clear();
    before->still_running.clear();
    if (before->lets_begin) chained->running.push_back(before);
    depends = !chained->running.empty() || !chained->still_running.empty();
}

void end_chained() {
    depends = false;
    if (!chained || !(chained->programmatic || chained->lets_begin)) return;
    bool is_cut = false;
    visit_followed([&](const Range &range) {
        for (size_t i = 0; i < range.bytes; i += range.step) {
            unsigned ways = accesses_of(range, i);
            uintptr_t low = range.low + i, end = range.low + std::min(i + range.step, range.bytes);
            for (bool writes : {true, false}) {
                std::vector<Span> &spans = writes ? chained->written : chained->read;
                if (!(ways & (writes ? 3 : 12))) continue;
                if (!spans.empty() && spans.back().end == low) spans.back().end = end;
                else if (spans.size() < most_spans) spans.push_back({low, end});
                else is_cut = true;
            }
        }
    });
    if (is_cut)
        add_unchecked(format("its accesses are in more than %zu separate pieces of memory, so that early accesses of the launches behind it to the "
                             "other pieces are not found", most_spans));
}

bool has_bytes(const std::vector<Span> &spans, uintptr_t address, size_t bytes) {
    auto span = std::upper_bound(spans.begin(), spans.end(), address, [](uintptr_t at, const Span &s) { return at < s.end; });
    return span != spans.end() && span->low < address + bytes;
}

}  // namespace

std::string access_too_early(uintptr_t address, size_t bytes, bool writes, bool waited) {
    for (const auto &other : waited ? chained->still_running : chained->running) {
        bool is_written = has_bytes(other->written, address, bytes);
        if (!is_written && !(writes && has_bytes(other->read, address, bytes))) continue;
        unsigned distance = chained->place - other->place;
        std::string where = distance == 1 ? "the launch before" : format("%u launches before", distance);
        return format("which kernel %s, %s, %s", other->kernel.c_str(), where.c_str(), is_written ? "writes" : "reads")
               + (waited ? ": a launch between does not wait for the one before it, so that its own end, for which this one waits, does not mean "
                                "that all before it has ended. Such waits are not transitive"
                              : ", before the thread waits for that launch: a programmatic launch begins when the one before it lets it, and not when that "
                                "has ended");
    }
    return "";
}

void note_grid_wait() {
    if (chained) chained->waits = true;
}

void note_dependents(bool waited) {
    if (!chained) return;
    chained->lets_begin = true;
    chained->waits_late |= !waited;
}

void run_ahead(uintptr_t address, size_t bytes, bool reads, bool strong, void *from) {
    Lock lock(mutex);
    bool changes = false;
    for (auto next = uses.begin(); next != uses.end();) {
        auto use = next++;
        if (!use->of_host || (reads ? !use->writes : strong)) continue;
        auto span = std::upper_bound(use->spans.begin(), use->spans.end(), address, [](uintptr_t at, const Span &s) { return at < s.end; });
        if (span == use->spans.end() || span->low >= address + bytes) continue;
        if (strong) join(of_host, use->by->clock);
        else report_access(*use->by, use->writes, address, bytes, reads, from), uses.erase(use);
        changes = true;
    }
    if (changes) forget();
}

void begin_ahead() {
    Lock lock(mutex);
    before.clear();
    auto launch = queued.find(running.launch->number);
    chained = nullptr;
    if (!running.racecheck || launch == queued.end()) return;
    begin_chained(*launch->second);
    size_t left = most_kept;
    for (const Use &use : uses)
        for (const Span &span : use.spans) {         // the host's end of a copy may be gone
            size_t bytes = span.end - span.low;
            if (!use.writes || is_before(*use.by, launch->second->clock) || (use.of_host && !use.by->kernel) || bytes > left) break;
            before.push_back({span, std::string((const char *)span.low, bytes)});
            left -= bytes;
        }
}

void end_ahead(bool fences) {
    Lock lock(mutex);
    auto launch = queued.find(running.launch->number);
    if (launch == queued.end()) return;
    launch->second->fences = fences;
    end_chained();
    std::vector<Use> more;
    visit_followed([&](const Range &range) {
        if (range.bytes > most_kept || (streams.size() == 1 && !range.of_host)) return;
        size_t first = more.size();
        for (bool writes : {true, false})
            for (bool strong : {false, true}) more.push_back({launch->second, {}, writes, strong, range.of_host});
        for (size_t i = 0; i < range.bytes; i += range.step)
            if (unsigned ways = accesses_of(range, i))
                for (unsigned way = 0; way < 4; way++) {
                    std::vector<Span> &spans = more[first + way].spans;
                    uintptr_t low = range.low + i, end = range.low + std::min(i + range.step, range.bytes);
                    if (!(ways >> way & 1) || spans.size() > most_spans) continue;
                    if (!spans.empty() && spans.back().end == low) spans.back().end = end;
                    else spans.push_back({low, end});
                }
    });
    more.erase(std::remove_if(more.begin(), more.end(), [](const Use &use) { return use.spans.empty(); }), more.end());
    keep(more);
    queued.erase(launch);
    before.clear();
}

void note_call(const char *call) { launching = !strncmp(call, "launch", 6); }

}  // namespace check

using namespace check;

void watch_stream(int number, bool non_blocking) {
    Lock lock(mutex);
    if (streams.size() <= (size_t)number) streams.resize(number + 1);
    streams[number].non_blocking = non_blocking;
}

void watch_queued(uint64_t number, int stream, const char *kernel, Clock *recorded, const Clock *awaited) {
    if (!watches("racecheck")) return;
    Lock lock(mutex);
    Clock &clock = streams[stream].clock;
    join(clock, of_host);
    bool blocks = !streams[stream].non_blocking;
    for (size_t i = 0; i < streams.size() && blocks; i++)
        if ((!i || !stream) && !streams[i].non_blocking) join(clock, Clock(streams[i].clock));
    if (awaited) join(clock, *awaited);
    if (clock.size() <= (size_t)stream) clock.resize(stream + 1);
    clock[stream]++;
    if (recorded) *recorded = clock;
    if (kernel) queued[number] = std::make_shared<Queued>(Queued{number, stream, clock, kernel, true, false, next_place, streams[stream].last});
    streams[stream].last = number;
}

void watch_memory(uint64_t number, int stream, const char *to, const char *from, size_t bytes, bool to_host, bool from_host) {
    if (!watches("racecheck")) return;
    Lock lock(mutex);
    std::string what = next_place.call.empty() ? from ? "a copy" : "a fill" : next_place.call;
    auto operation = std::make_shared<Queued>(Queued{number, stream, streams[stream].clock, what, false, false, next_place});
    std::vector<Use> more;
    auto use = [&](const char *low, bool writes, bool of_host) {
        if (low && (of_host || streams.size() > 1))
            more.push_back({operation, {{(uintptr_t)low, (uintptr_t)low + bytes}}, writes, false, of_host});
    };
    use(to, true, to_host);
    use(from, false, from_host);
    keep(more);
}

void watch_waited(int stream) {
    if (launching) return;
    Lock lock(mutex);
    for (size_t i = 0; i < streams.size(); i++)
        if (stream < 0 || (size_t)stream == i || (!stream && !streams[i].non_blocking)) join(of_host, streams[i].clock);
    forget();
}

void watch_reached(const Clock &clock) {
    if (launching) return;
    Lock lock(mutex);
    join(of_host, clock);
    forget();
}
#endif
