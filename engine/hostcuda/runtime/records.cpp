// What check mode has found in a launch, and its record as a line of JSON, which Python takes.
#ifdef HOSTCUDA_CHECK
#include "lock.h"
#include "parts.h"
#include <algorithm>
#include <string.h>

namespace check {
namespace {

struct Note {                                        // what is legal, and may be a mistake
    const char *kind, *file;
    int line;
    uint32_t pc;                                     // or 0: its place, if it has no file
    std::string message;
};

struct Records {
    uint64_t launches = 0, blocks = 0, barriers = 0, block_barriers = 0, named_arrivals = 0, matrices = 0, exchanges = 0, largest_result = 0, counter_results = 0, copied_bytes = 0, overlapped_bytes = 0, bytes_ahead = 0;
    std::vector<Finding> findings;
    std::vector<Note> notes;
    std::vector<uint32_t> cancelled_at;              // the place and its callers
    std::vector<std::string> unchecked;              // sentences
} records;

Mutex taking;
std::string finished;                                // until Python takes it

std::string bracketed(Index i) { return format("[%u,%u,%u]", i.x, i.y, i.z); }

std::string list(const std::vector<uint32_t> &numbers) {
    std::string text;
    for (uint32_t n : numbers) text += format("%s%u", text.empty() ? "" : ",", n);
    return "[" + text + "]";
}

std::string text_of(const Finding &f) {
    std::string text = format("{\"tool\":\"%s\",\"kind\":%s,\"pc\":%u,\"block\":%s,\"thread\":%s,\"address\":%zu,\"size\":%zu,"
                              "\"count\":%zu,\"message\":%s", f.tool, quoted(f.kind).c_str(), f.pc, bracketed(f.block).c_str(),
                              bracketed(f.thread).c_str(), (size_t)f.address, f.size, (size_t)f.count, quoted(f.message).c_str());
    if (f.file) text += format(",\"file\":%s,\"line\":%d", quoted(f.file).c_str(), f.line);
    if (!f.callers.empty()) text += ",\"callers\":" + list(f.callers);
    static const char *const operations[] = {"ld", "st", "atom"};
    if (f.has_other)
        text += format(",\"op\":\"%s\",\"other_op\":\"%s\",\"other_pc\":%u,\"other_thread\":%s", operations[f.operation],
                       operations[f.other_operation], f.other_pc, bracketed(f.other_thread).c_str());
    if (f.read_pc) text += format(",\"read_pc\":%u", f.read_pc);
    if (f.remedy) text += format(",\"remedy\":%s", quoted(f.remedy).c_str());
    if (f.argument) {
        uintptr_t pointer;
        memcpy(&pointer, running.launch->arguments + f.argument - 1, sizeof pointer);
        text += format(",\"argument\":%d,\"argument_at\":%ld", f.argument - 1, (long)(pointer - f.base));
    }
    if (f.has_buffer)
        text += format(",\"buffer\":{\"base\":%zu,\"bytes\":%zu,\"name\":\"%s\",\"offset\":%ld,\"missed_by\":%ld}",
                       (size_t)f.base, f.bytes, f.name ? f.name : "", f.offset, f.missed_by);
    return text + "}";
}

std::vector<uint32_t> in_module(const uintptr_t *places, size_t count) {
    std::vector<uint32_t> result;
    for (size_t i = 0; i < count; i++) result.push_back((uint32_t)(places[i] - running.module->base));
    return result;
}

void report_place(const char *kind, const char *file, int line, Index thread, const std::string &sentence, const char *remedy = nullptr,
                  const char *tool = "synccheck") {
    if (!watches(tool)) return;
    for (Finding &f : records.findings)
        if (f.file == file && f.line == line && f.kind == kind) {
            f.count++;
            return;
        }
    Finding f{};
    f.tool = tool;
    f.kind = kind;
    f.message = sentence;
    f.file = file;
    f.line = line;
    f.block = running.block;
    f.thread = thread;
    f.count = 1;
    f.remedy = remedy;
    records.findings.push_back(f);
}

}  // namespace

std::vector<Finding> &findings() { return records.findings; }

std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        if ((unsigned char)c < 32) result += format("\\u%04x", c);
        else result += c;
    }
    return result + "\"";
}

void add_record(const std::string &text) {
    Lock lock(taking);
    finished += text + "\n";
}

bool count_again(const char *kind, unsigned site, const Touch &other) {
    uint32_t pc = places.sites[site].pc, other_pc = places.sites[other.site].pc;
    for (Finding &f : records.findings)
        if (f.pc == pc && f.other_pc == other_pc && f.kind == kind) {
            f.count++;
            return true;
        }
    return false;
}

void report(std::vector<Finding> &findings, const char *tool, const char *kind, uint32_t pc, unsigned thread, const Touch *other,
            uintptr_t address, size_t size, const std::string &message, const char *remedy) {
    uint32_t other_pc = other ? places.sites[other->site].pc : 0;
    bool one_warp = other && !strcmp(kind, "race") && thread / warp_size == other->thread / warp_size;
    Finding *known = nullptr;
    for (Finding &f : findings)
        if (f.kind == kind && ((f.pc == pc && f.other_pc == other_pc) || (f.pc == other_pc && f.other_pc == pc))) {
            f.count++;
            if (one_warp || !f.one_warp) return;
            known = &f;                              // a race of two warps is easier to understand, and replaces it
            break;
        }
    Finding f{};
    f.tool = tool;
    f.kind = kind;
    f.message = message;
    f.pc = pc;
    f.block = running.block;
    f.thread = index_of(thread);
    f.address = address;
    f.size = size;
    f.count = known ? known->count : 1;
    f.look = known ? known->look : 0;
    f.one_warp = one_warp;
    f.remedy = remedy;
    if (other) {
        f.has_other = true;
        f.other_pc = other_pc;
        f.operation = places.sites[places.site_at[running.module->base + pc - running.text_begin]].operation;
        f.other_operation = places.sites[other->site].operation;
        f.other_thread = index_of(other->thread < first_agent ? other->thread : thread);
    }
    if (const Range *range = find(address)) {
        f.has_buffer = true;
        f.base = range->low;
        f.bytes = range->bytes;
        f.name = range->name;
        f.offset = (long)(address - range->low);
        f.argument = argument_in(*range);
    }
    if (known) *known = f;
    else findings.push_back(f);
}

// Of the races on an array, those of two warps come first.
static void put_races_of_warps_first(std::vector<Finding> &findings) {
    for (auto late = findings.begin(); late != findings.end(); ++late) {
        if (late->kind != "race" || late->one_warp || !late->has_buffer) continue;
        auto early = std::find_if(findings.begin(), late, [=](const Finding &f) { return f.one_warp && f.base == late->base; });
        std::rotate(early, late, late + (early != late));
    }
}

void add_unchecked(const std::string &sentence) { records.unchecked.push_back(sentence); }

void count_barrier() { records.barriers++; }
void count_block_barrier() { records.barriers++, records.block_barriers++; }

void count_named_arrival() { records.named_arrivals++; }

void count_matrices() { records.matrices++; }

void count_exchange() { records.exchanges++; }

void note_integer(uint64_t value) { records.largest_result = std::max(records.largest_result, value); }

void count_counter() { records.counter_results++; }

void count_copy(size_t bytes) { records.copied_bytes += bytes; }

void count_overlapped_copy(size_t bytes) { records.overlapped_bytes += bytes; }

void note_bytes_ahead(size_t bytes) { records.bytes_ahead = std::max<uint64_t>(records.bytes_ahead, bytes); }

void record_block() { records.blocks++; }

void unrecord_block() { records.blocks--; }

void begin_record() {
    records.findings.clear();
    records.notes.clear();
    records.cancelled_at.clear();
    records.unchecked.clear();
    records.blocks = records.barriers = records.block_barriers = records.named_arrivals = records.matrices = records.exchanges = records.largest_result = 0;
    records.counter_results = records.copied_bytes = records.overlapped_bytes = records.bytes_ahead = 0;
}

void end_record(bool whole, const std::string &error, size_t unique_bytes) {
    const Launch &launch = *running.launch;
    put_races_of_warps_first(records.findings);
    uint64_t blocks = (uint64_t)launch.grid.x * launch.grid.y * launch.grid.z;
    std::string text = format("{\"index\":%zu,\"kernel\":%s,\"module\":%s,\"grid\":%s,\"block\":%s,\"shared\":%zu,"
                              "\"blocks\":%zu,\"blocks_watched\":%zu,\"whole\":%s,\"barriers\":%zu,\"block_barriers\":%zu,\"named_barriers\":%zu,\"matrices\":%zu,\"exchanges\":%zu,\"largest_result\":%zu,\"counter_results\":%zu,"
                              "\"unique_bytes\":%zu,\"busiest_warp\":%zu,\"two_way_warps\":%zu",
                              (size_t)records.launches++, quoted(launch.kernel).c_str(), quoted(running.module->path).c_str(),
                              bracketed(launch.grid).c_str(), bracketed(launch.block).c_str(), launch.dynamic_shared, (size_t)blocks,
                              (size_t)records.blocks, whole ? "true" : "false", (size_t)records.barriers, (size_t)records.block_barriers, (size_t)(records.named_arrivals + warp_size - 1) / warp_size, (size_t)records.matrices, (size_t)records.exchanges,
                              (size_t)records.largest_result, (size_t)records.counter_results, unique_bytes, (size_t)busiest_warp(), (size_t)two_way_warps());
    if (running.racecheck)                           // else not known
        text += format(",\"copied_bytes\":%zu,\"overlapped_bytes\":%zu,\"bytes_ahead\":%zu", (size_t)records.copied_bytes,
                       (size_t)records.overlapped_bytes, (size_t)records.bytes_ahead);
    text += ",\"error\":" + quoted(error) + ",\"callers\":" + list(records.cancelled_at);
    text += ",\"sites\":[" + counts_text() + "],\"plays\":[" + plays_text();
    text += "],\"requests\":[" + requests_text() + "],\"unchecked\":[";
    for (const std::string &each : records.unchecked) text += (&each == &records.unchecked[0] ? "" : ",") + quoted(each);
    text += "],\"findings\":[";
    for (const Finding &f : records.findings) text += (&f == &records.findings[0] ? "" : ",") + text_of(f);
    text += "],\"notes\":[";
    for (const Note &n : records.notes)
        text += format("%s{\"kind\":%s,\"file\":%s,\"line\":%d,\"pc\":%u,\"message\":%s}", &n == &records.notes[0] ? "" : ",",
                       quoted(n.kind).c_str(), quoted(n.file).c_str(), n.line, n.pc, quoted(n.message).c_str());
    add_record(text + "]}");
}

void add_note(const char *kind, const char *file, int line, uint32_t pc, const std::string &message) {
    for (const Note &note : records.notes)
        if (!strcmp(note.kind, kind) && note.file == file && note.line == line && note.pc == pc) return;
    records.notes.push_back({kind, file, line, pc, message});
}

bool is_strict() {
    static const char *const strict = getenv("HOSTCUDA_STRICT");
    return strict && !strcmp(strict, "1");
}

}  // namespace check

using namespace check;

void watch_divergence(const char *what, const char *file, int line, Index thread, const std::string &sentence) {
    bool of_block = !strncmp(what, "__syncthreads", 13), of_warp = what[0] == '_';
    if (sentence.find(" of the mbarrier in ") != sentence.npos) {
        static constexpr char kind[] = "deadlock, ";
        report_place("deadlock", file, line, thread, sentence.substr(sentence.rfind(kind, 0) ? 0 : strlen(kind)),
                     "a phase ends when as many have arrived as mbarrier.init says and every expected byte is copied; a wait passes while the "
                     "phase before the current one has its parity: compare both with what the sentence counts");
        return;
    }
    report_place("divergent barrier", file, line, thread, sentence,
                 !of_block && of_warp ? "let all lanes that the mask names call the same function, with the same mask"
                 : !strncmp(what, "grid", 4) ? "let all threads of all blocks reach the same grid.sync(): move it out of the branch or loop"
                 : !of_block ? "let as many threads arrive as the barrier expects, or give it their number; one that goes away calls arrive_and_drop()"
                 : "let all threads of the block reach the same __syncthreads(): move it out of the branch or loop");
}

// Since compute capability 7.0 a barrier waits for the threads that have not ended: it is legal, and may be a mistake.
void watch_returned(const char *file, int line, Index thread, const std::string &sentence) {
    static constexpr char remedy[] = "if the rest of the block needs what they would have done before it, put an if around that, not a return";
    if (is_strict()) return report_place("divergent barrier", file, line, thread, sentence, remedy);
    if (watches("synccheck")) add_note("return before a barrier", file, line, 0, sentence + ". A barrier waits for the threads that have not ended; " + remedy);
}

void watch_unawaited(const char *what, const char *file, int line, Index thread, const char *sentence, const char *remedy) {
    report_place("copy that is not awaited", file, line, thread, format("%s: %s", what, sentence), remedy);
}

void watch_partial(const char *file, int line, Index thread, const std::string &sentence) {
    report_place("partial warpgroup", file, line, thread, sentence,
                 "let all four warps of the warpgroup execute the same setmaxnreg: put it in front of the branches that part them");
}

void watch_unfenced_product(const char *what, const char *file, int line, Index thread) {
    report_place("missing wgmma.fence", file, line, thread,
                 format("%s: no wgmma.fence is between the writes of the registers of the sums and the product, which may read what was there "
                        "before; NVIDIA's assembler puts one there (note C7519), and the products are then computed one after the other", what),
                 "put wgmma.fence.sync.aligned in front of the first product, and wherever others than products have written to its registers");
}

namespace hostcuda {
// The registers of a product still have the pattern with which the compiler fills variables without a value (toolchain.FILL).
EXPORT void check_sums(const void *sums, size_t bytes, int lane, const char *what, const char *file, int line) {
    auto byte = (const unsigned char *)sums;
    if (std::any_of(byte, byte + bytes, [](unsigned char each) { return each != 0xfe; })) return;
    report_place("uninitialized variable", file, line, index_of(running.thread / 32 * 32 + lane),
                 format("%s adds to sums that nothing has set", what),
                 "set them to zero before the first product, by fill_fragment or where they are declared", "initcheck");
}
}

void watch_absent(const char *what, const char *file, int line, Index thread, unsigned lanes) {
    bool of_warp = what[0] == '_';                   // a vote leaves them out
    if (of_warp && strncmp(what, "__shfl", 6)) return;
    report_place("exited lanes", file, line, thread,
                 format("%s that ended without it (by a return, or a branch around it): 0x%08x",
                        of_warp ? format("%s names lanes in its mask", what).c_str()
                                : format("%s is for all members of its group, or of the warp, and there are lanes", what).c_str(), lanes));
}

void watch_fault(const char *tool, const char *kind, const std::string &sentence, const uintptr_t *places, size_t count) {
    if (!watches(tool)) return;
    Finding f{};
    f.tool = tool;
    f.kind = kind;
    f.message = sentence;
    f.callers = in_module(places, count);
    f.block = running.block;
    f.thread = hostcuda_turn.thread.index;
    f.count = 1;
    records.findings.push_back(f);
}

void watch_cancelled(const uintptr_t *places, size_t count) { records.cancelled_at = in_module(places, count); }

extern "C" EXPORT size_t hc_check_take(char *text, size_t bytes) {
    Lock lock(taking);
    size_t count = finished.size() < bytes ? finished.size() : bytes;
    memcpy(text, finished.data(), count);
    finished.erase(0, count);
    return count;
}
#endif
