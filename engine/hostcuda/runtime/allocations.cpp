// In which allocation an access is. Before each access that is checked, the allocation that contains its address is looked up,
// and the launch ends if there is none. A place in the code mostly accesses the same allocation as the last time.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <algorithm>
#include <map>
#include <numeric>
#include <stdlib.h>
#include <string.h>

namespace check {

Places places;

namespace {

constexpr unsigned site_bits = 16, most_sites = 1 << site_bits;

struct Known {
    std::map<WatchedModule *, std::vector<Site>> sites_of;
    std::vector<Site> *all_sites = nullptr;
    std::vector<Range> ranges;                       // sorted by address
    Range stacks{0, 0, local_space, nullptr, nullptr, nullptr};
    std::map<uintptr_t, Range> heap;                 // allocated by kernels
    size_t freed_bytes = 0;                          // of it, which are kept until the launch ends
} known;

void discard(Range &);

}  // namespace

Range *find(uintptr_t address) {
    auto after = std::upper_bound(known.ranges.begin(), known.ranges.end(), address,
                                  [](uintptr_t a, const Range &r) { return a < r.low; });
    if (after != known.ranges.begin())
        if (Range *range = &*std::prev(after); address - range->low < range->bytes) return range;
    auto block = known.heap.upper_bound(address);
    if (block == known.heap.begin()) return nullptr;
    Range *range = &std::prev(block)->second;
    return address - range->low < range->bytes ? range : nullptr;
}

Range *find_any(uintptr_t address) {
    Range *range = find(address);
    if (!range && in_stacks(address, known.stacks)) range = &known.stacks;
    return range;
}

static const char *word(Operation operation) {
    return operation == load ? "read" : operation == store ? "write" : "atomic update";
}

// For messages: what it is, without its size.
static std::string kind_of(const Range &r) {
    std::string where;
    if (r.space == shared_space && r.rank != running.rank) {
        Index block = block_with(r.rank);
        where = format(" of block (%u,%u,%u)", block.x, block.y, block.z);
    }
    if (!r.name) return r.space == shared_space ? "dynamic shared memory" + (where.empty() ? " of the launch" : where) : "an allocation";
    return format("the %s %s", r.space == shared_space ? "__shared__ array" : r.space == constant_space ? "__constant__" : "variable", r.name) + where;
}

std::string named(const Range &r) {
    if (!r.name && r.space == shared_space) return format("the %zu bytes of dynamic shared memory of the launch", r.bytes);
    return format("%s of %zu byte%s", kind_of(r).c_str(), r.bytes, r.bytes == 1 ? "" : "s");
}

// The elements of an access of `size` bytes are as large as itself, or as the largest that it and the array have whole numbers of.
std::string element_of(const Range &r, long offset, size_t size) {
    long unit = std::gcd(std::gcd(offset, (long)size), (long)r.bytes), at = offset / unit, count = r.bytes / unit;
    std::string elements = format("%ld elements of %ld byte%s", count, unit, unit == 1 ? "" : "s");
    std::string place = format("element %ld of %s", at, kind_of(r).c_str());
    long past = at + (long)size / unit - count, away = at < 0 ? -at : past;
    if (away <= 0) return format("%s of %s", place.c_str(), elements.c_str());
    std::string many = away == 1 ? "one" : format("%ld", away);
    return format("%s, %s %s its %s", place.c_str(), many.c_str(), at < 0 ? "before" : "past the end of", elements.c_str());
}

// Visit the words among the launch's arguments, with their offsets, until one is right. Returns 1 + its offset, or 0.
template <typename Visit> static int find_argument(Visit is_right) {
    const Launch &launch = *running.launch;
    for (size_t at = 0; at + sizeof(uintptr_t) <= launch.arguments_bytes; at += sizeof(uintptr_t)) {
        uintptr_t word;
        memcpy(&word, launch.arguments + at, sizeof word);
        if (is_right(word)) return (int)at + 1;
    }
    return 0;
}

int argument_in(const Range &range) {
    if (range.name || range.space != global_space) return 0;
    int first = find_argument([&](uintptr_t word) { return word == range.low; });
    return first ? first : find_argument([&](uintptr_t word) { return word - range.low < range.bytes; });
}

// An index of an array among the arguments that does not fit into 32 bits where the kernel computes it. Fills in the finding.
static bool has_wrapped(Finding &f, const char *what) {
    int64_t index = 0;
    const Range *range = nullptr;
    f.argument = find_argument([&](uintptr_t word) {
        intptr_t distance = (intptr_t)(f.address - word);
        index = distance / (intptr_t)f.size;
        bool far = index < -(1 << 24) ? index >= INT32_MIN : index >= (int64_t)UINT32_MAX - (1 << 24) && index <= UINT32_MAX;
        return far && distance % (intptr_t)f.size == 0 && (range = find(word)) && range->space == global_space;
    });
    if (!f.argument) return false;
    f.has_buffer = true;
    f.base = range->low;
    f.bytes = range->bytes;
    f.name = range->name;
    f.offset = (long)(f.address - f.base);
    f.missed_by = f.offset < 0 ? f.offset : f.offset + (long)f.size - (long)f.bytes;
    std::string why = index < 0 ? format("an int holds at most 2147483647, and %lld became %lld: compute the index as size_t",
                                         (long long)index + (1ll << 32), (long long)index)
                                : format("an unsigned number is not negative, and %lld became %lld: test it before the subtraction",
                                         (long long)index - (1ll << 32), (long long)index);
    f.message = format("%s at index %lld of %s: the index has wrapped in 32 bits (%s)", what, (long long)index, named(*range).c_str(), why.c_str());
    return true;
}

// An access through an argument that is a pointer to memory of the host. Fills in the finding.
static bool is_the_hosts(Finding &f, const char *what) {
    uintptr_t nearest = 0;
    size_t distance = (size_t)1 << 30;
    int argument = 0;
    find_argument([&](uintptr_t word) {
        argument++;
        size_t away = f.address > word ? f.address - word : word - f.address;
        if (away < distance) distance = away, nearest = word, f.argument = argument;
        argument += sizeof word - 1;
        return false;
    });
    auto zone = [&](const Range &r) { return nearest + r.zone >= r.low && nearest < r.low + r.bytes + r.zone; };
    if (!nearest || std::any_of(known.ranges.begin(), known.ranges.end(), zone) || !is_host_memory((void *)nearest, 1, false)) {
        f.argument = 0;
        return false;
    }
    f.kind = "host pointer";
    f.message = format("%s: a parameter was given a pointer to memory of the host. A GPU reports an illegal address: copy the data to "
                       "memory of cudaMalloc", what);
    return true;
}

// Whether a bad address was reported there: it is counted.
static bool was_reported(uint32_t pc, const std::string &kind) {
    for (Finding &f : findings())
        if (!strcmp(f.tool, "memcheck") && f.pc == pc && f.kind == kind) {
            f.count++;
            return true;
        }
    return false;
}

// Report a bad address once per place and kind, and remember the launch's first one.
static void add_finding(const Finding &f) {
    if (running.failure.empty())
        running.failure = format("kernel %s, block (%u,%u,%u), thread (%u,%u,%u): %s", running.launch->kernel, f.block.x, f.block.y, f.block.z,
                                 f.thread.x, f.thread.y, f.thread.z, f.message.c_str());
    if (watches("memcheck") && !was_reported(f.pc, f.kind)) findings().push_back(f);
}

static Finding bad_address(uint32_t pc, Operation operation, uintptr_t address, size_t size, bool misaligned, unsigned thread) {
    Finding f{};
    f.tool = "memcheck";
    f.pc = pc;
    f.block = running.block;
    f.thread = hostcuda_turn.thread.index = index_of(thread);
    f.address = address;
    f.size = size;
    f.count = 1;
    std::string what = format("%s of %zu byte%s", word(operation), size, size == 1 ? "" : "s");
    const Range *best = nullptr;
    size_t distance = SIZE_MAX;
    auto consider = [&](const Range &r) {
        if (r.space == unwatched_space || r.space == local_space) return;
        size_t away = address + size <= r.low ? r.low - address : address >= r.low + r.bytes ? address + size - r.low - r.bytes : 0;
        if (!r.bytes && away > 256 * 1024) return;  // a launch without dynamic shared memory: none of its addresses
        if (away < distance) distance = away, best = &r;
    };
    for (const Range &r : known.ranges) consider(r);
    for (const auto &block : known.heap) consider(block.second);
    bool freed = best && best->freed && !distance;
    if (freed) f.base = best->low, f.bytes = best->bytes;
    if (misaligned) {
        f.kind = "misaligned";
        f.message = best && !distance ? format("misaligned %s at %s: its address is not a multiple of %zu", what.c_str(),
                                               element_of(*best, address - best->low, size).c_str(), size)
                                      : format("misaligned %s at %p, which is not a multiple of %zu", what.c_str(), (void *)address, size);
    } else if (address < 4096) {
        f.kind = "null pointer";
        f.message = format("%s at address %zu: a null pointer", what.c_str(), (size_t)address);
        best = nullptr;
    } else if (freed || was_freed((void *)address, f.base, f.bytes)) {
        f.kind = "freed memory";
        f.has_buffer = true;
        f.offset = (long)(address - f.base);
        Range gone{f.base, f.bytes, global_space, nullptr, nullptr, nullptr};
        f.message = format("%s at %s, which has been freed", what.c_str(), element_of(gone, f.offset, size).c_str());
        best = nullptr;
    } else {
        f.kind = "out of bounds";
        // Then it is beyond the end of that; dynamic shared memory of a launch without any ends where it begins.
        bool has_shared = best && best->space == shared_space && (best->bytes || address >= best->low);
        if (!has_shared && (!best || distance > best->zone) && hostcuda::space_of((const void *)address) == 's') {
            f.message = format("%s in shared memory where this launch has none: a pointer to shared memory is valid only in the block "
                               "that made it", what.c_str());
            return f;
        }
        if ((!best || distance > best->zone) && (is_the_hosts(f, what.c_str()) || (distance > 1 << 24 && has_wrapped(f, what.c_str())))) return f;
    }
    if (best && (misaligned || distance < (size_t)1 << 30)) {
        f.has_buffer = true;
        f.base = best->low;
        f.bytes = best->bytes;
        f.name = best->name;
        f.argument = argument_in(*best);
        f.offset = (long)(address - best->low);
        f.missed_by = misaligned ? 0 : f.offset < 0 ? f.offset : f.offset + (long)size - (long)f.bytes;
        if (!misaligned) f.message = format("%s at %s", what.c_str(), element_of(*best, f.offset, size).c_str());
    } else if (f.message.empty()) {
        f.message = format("%s at %p, not near any allocation", what.c_str(), (void *)address);
    }
    return f;
}

[[noreturn]] void refuse(uint32_t pc, Operation operation, uintptr_t address, size_t size, bool misaligned, unsigned thread) {
    Finding f = bad_address(pc, operation, address, size, misaligned, thread);
    add_finding(f);
    running.leaves = true;
    leave_launch(f.message);
}

[[noreturn]] void overrun(uint32_t pc, const std::string &message) {
    Finding f{};
    f.tool = "memcheck";
    f.kind = "out of bounds";
    f.pc = pc;
    f.block = running.block;
    f.thread = hostcuda_turn.thread.index;
    f.count = 1;
    f.message = message;
    add_finding(f);
    running.leaves = true;
    leave_launch(f.message);
}

// Report an access outside of all allocations. False: the memory there takes it, and the thread can go on.
static bool must_leave(uint32_t pc, Operation operation, uintptr_t address, size_t size) {
    if (running.counts || running.steps || find(address) || find(address + size - 1)) return true;
    auto takes = [&](const Range &r) { return address + r.zone >= r.low && address + size <= r.low + r.bytes + r.zone; };
    if (std::none_of(known.ranges.begin(), known.ranges.end(), takes)) return true;
    if (running.failure.empty() || !was_reported(pc, "out of bounds")) add_finding(bad_address(pc, operation, address, size, false, running.thread));
    if (operation == load) memset((void *)address, 0, size);   // as an index, what is read is mostly valid: one cause, one finding
    return false;
}

static Finding constant_written(uint32_t pc, Operation operation, uintptr_t address, size_t size, const Range &range) {
    Finding f{};
    f.tool = "memcheck";
    f.kind = "constant memory";
    f.pc = pc;
    f.block = running.block;
    f.thread = index_of(running.thread);
    f.address = address;
    f.size = size;
    f.count = 1;
    f.message = range.space == constant_space
                    ? format("%s of %zu bytes at %s, through a pointer without const: a kernel cannot change constant memory. Fill it with "
                             "cudaMemcpyToSymbol, or declare it __device__", word(operation), size, element_of(range, address - range.low, size).c_str())
                    : format("%s of %zu bytes at %s, through a pointer without const: a kernel cannot change it. Copy it to a variable of "
                             "your own", word(operation), size, range.name);
    return f;
}


static unsigned new_site(uintptr_t at, Operation operation, unsigned size, Space space) {
    std::vector<Site> &sites = *known.all_sites;
    if (sites.size() == most_sites) leave_launch("check mode handles at most 65535 places that access memory in a module");
    Site site;
    site.pc = (uint32_t)(running.text_begin + at - running.module->base);
    site.operation = operation;
    site.size = size;
    site.space = space;
    site.next = places.site_at[at];
    sites.push_back(site);
    places.sites = sites.data();
    return places.site_at[at] = sites.size() - 1;
}

unsigned locate(uintptr_t at, uintptr_t address, unsigned size, Operation operation) {
    Range *range = find(address);
    if (!range && in_stacks(address, known.stacks)) range = &known.stacks;
    uint32_t pc = (uint32_t)(running.text_begin + at - running.module->base);
    if (!range || range->freed || address - range->low + size > range->bytes) {
        if (must_leave(pc, operation, address, size)) refuse(pc, operation, address, size, false);
        return 0;
    }
    // Through threadIdx and so on, too, threads could hand over values that no counter sees.
    if ((range->space == constant_space || range->is_index) && operation != load && watches("memcheck") && !was_reported(pc, "constant memory"))
        findings().push_back(constant_written(pc, operation, address, size, *range));
    unsigned index = places.site_at[at];
    auto fits = [&](const Site &s) { return s.space == range->space && s.operation == operation && s.size == size; };
    while (index && !fits(places.sites[index])) index = places.sites[index].next;
    if (!index) {
        index = new_site(at, operation, size, range->space);
    } else if (index != places.site_at[at]) {         // to the front of its list
        unsigned *link = &places.site_at[at];
        while (*link != index) link = &places.sites[*link].next;
        *link = places.sites[index].next;
        places.sites[index].next = places.site_at[at];
        places.site_at[at] = index;
    }
    Site &site = places.sites[index];
    site.low = range->low;
    site.span = range->bytes - size;
    site.range = range;
    return index;
}

void without_memory(const char *tool, Range &range) {
    if (!range.unchecked) add_unchecked(format("%s had too little memory for %s: not checked", tool, named(range).c_str()));
    range.unchecked = true;
}

void fill_shared_memory(unsigned char pattern) {
    for (Range &range : known.ranges)
        if (range.space == shared_space) memset((void *)range.low, pattern, range.bytes);
}

void begin_allocations(char *dynamic_shared, char *static_end) {
    WatchedModule &module = *running.module;
    if (module.site_at.empty()) {
        module.site_at.assign(running.text_bytes, 0);
        known.sites_of[&module].assign(1, Site());   // an unloaded module may have had the same address
    }
    known.all_sites = &known.sites_of[&module];
    places = {known.all_sites->data(), module.site_at.data()};
    for (Site &site : *known.all_sites) site.low = site.span = site.looks = 0;
    known.ranges.clear();
    auto add = [](const void *low, size_t bytes, Space space, const char *name = nullptr, uint8_t *written = nullptr) {
        known.ranges.push_back({(uintptr_t)low, bytes, space, name, nullptr, written});
    };
    visit_allocations([](const char *base, size_t bytes, uint8_t *written, size_t zone, bool of_host) {
        known.ranges.push_back({(uintptr_t)base, bytes, global_space, nullptr, nullptr, written});
        known.ranges.back().zone = zone;
        known.ranges.back().of_host = of_host;
    });
    if (running.initcheck)
        for (Range &range : known.ranges)
            if (!range.written) add_unchecked(format("initcheck had too little memory for %s: not checked", named(range).c_str()));
    visit_mapped([](const char *base, size_t bytes) {
        known.ranges.push_back({(uintptr_t)base, bytes, global_space, nullptr, nullptr, nullptr});
        known.ranges.back().of_host = true;
    });
    for (const Range &variable : module.variables) known.ranges.push_back(variable);
    const Launch &launch = *running.launch;
    for (int i = 0; i < launch.shared->count; i++) {
        const hc_array &s = launch.shared->arrays[i];
        add(static_end + s.place, s.bytes, s.hidden ? unwatched_space : shared_space, s.name);
    }
    add(dynamic_shared, launch.dynamic_shared, shared_space);
    add(launch.arguments, launch.arguments_bytes, unwatched_space);
    const std::pair<const Index *, const char *> indices[] = {
        {&hostcuda_turn.thread.index, "threadIdx"}, {&blockIdx, "blockIdx"}, {&blockDim, "blockDim"}, {&gridDim, "gridDim"}};
    for (auto [index, name] : indices) {
        add(index, sizeof *index, unwatched_space, name);
        known.ranges.back().is_index = true;
    }
    add(&hostcuda_dynamic_shared, sizeof hostcuda_dynamic_shared, unwatched_space);
    add(&hostcuda_shared_end, sizeof hostcuda_shared_end, unwatched_space);
    add(&hostcuda_spins, sizeof hostcuda_spins, unwatched_space);
    add(&hostcuda_votes, sizeof hostcuda_votes, unwatched_space);
    add(&hostcuda_voters, sizeof hostcuda_voters, unwatched_space);
    std::sort(known.ranges.begin(), known.ranges.end(), [](const Range &a, const Range &b) { return a.low < b.low; });
    known.stacks.bytes = 0;
}

static bool by_address(const Range &a, const Range &b) { return a.low < b.low; }

void add_shared(unsigned rank, char *dynamic_shared, char *static_end) {
    const Launch &launch = *running.launch;
    auto add = [=](const char *low, size_t bytes, Space space, const char *name) {
        known.ranges.push_back({(uintptr_t)low, bytes, space, name, nullptr, nullptr});
        known.ranges.back().rank = rank;
    };
    for (int i = 0; i < launch.shared->count; i++) {
        const hc_array &s = launch.shared->arrays[i];
        add(static_end + s.place, s.bytes, s.hidden ? unwatched_space : shared_space, s.name);
    }
    add(dynamic_shared, launch.dynamic_shared, shared_space, nullptr);
    std::sort(known.ranges.begin(), known.ranges.end(), by_address);
}

void visit_followed(const std::function<void(const Range &)> &visit) {
    for (const Range &range : known.ranges)
        if (range.cells) visit(range);
}

size_t end_allocations() {
    size_t unique_bytes = 0;
    auto finish = [&](Range &range) {
        free(range.cells);
        free(range.beside);
        range.cells = nullptr;
        range.beside = nullptr;
        range.step = 2;
        range.stored = range.has_more = false;
        range.unchecked = false;
        if (!range.touched) return;
        for (size_t i = 0; i < range.bytes / 64 + 2; i++) unique_bytes += __builtin_popcountll(range.touched[i]);
        free(range.touched);
        free(range.loaded);
        range.touched = nullptr;
        range.loaded = nullptr;
    };
    for (Range &range : known.ranges) finish(range);
    for (auto block = known.heap.begin(); block != known.heap.end();) {
        finish(block->second);
        bool freed = block->second.freed;
        if (freed) discard(block->second);
        block = freed ? known.heap.erase(block) : std::next(block);
    }
    known.freed_bytes = 0;
    return unique_bytes;
}

// ---- Memory that kernels allocate -------------------------------------------------------------------------

namespace {

constexpr size_t heap_margin = 256;                  // on both sides of an allocation, so that overruns are found

void *allocate(size_t bytes, void *from) {
    if (!in_kernel(from)) return allocate_for_host(bytes);
    if (!take_from_heap(bytes)) return nullptr;       // as on a GPU
    auto block = (char *)malloc(bytes + 2 * heap_margin);
    if (!block) return give_to_heap(bytes), nullptr;
    uintptr_t low = (uintptr_t)memset(block + heap_margin, 0xff, bytes);
    auto written = running.initcheck ? (uint8_t *)calloc(bytes, 1) : nullptr;
    known.heap.insert({low, Range{low, bytes, global_space, nullptr, nullptr, written}});
    return (void *)low;
}

void release(void *p, void *from) {
    if (!in_kernel(from)) {
        if (follows_host) end_host_block((uintptr_t)p);
        return free(p);
    }
    if (!p) return;
    auto block = known.heap.find((uintptr_t)p);
    if (block == known.heap.end()) hostcuda::fail("free of %p, which is not the start of an allocation of a kernel", p);
    if (block->second.freed) hostcuda::fail("free of %p, which was freed before", p);
    block->second.freed = true;
    give_to_heap(block->second.bytes);
    known.freed_bytes += block->second.bytes + 2 * heap_margin;
    size_t left, most;
    hc_mem_info(&left, &most);
    if (known.freed_bytes > most)
        leave_launch(format("check mode keeps what a kernel frees until the launch ends, and this one has freed more than %zu MB: use a "
                            "smaller grid", most >> 20));
    for (Site &site : *known.all_sites)
        if (site.range == &block->second) site.low = site.span = 0;
}

void discard(Range &block) {
    free(block.written);
    free((char *)block.low - heap_margin);
}

}  // namespace

}  // namespace check

using namespace check;

#define FROM HOSTCUDA_CALLER
extern "C" {
// malloc and free, new and delete: checkmode.py makes kernels call these. Memory that a kernel frees is kept until the end of
// the launch, because its accesses may not be counted yet, and to find later uses.
EXPORT void *__wrap_malloc(size_t bytes) { return allocate(bytes, FROM); }
EXPORT void *__wrap__Znwm(size_t bytes) { return allocate(bytes, FROM); }
EXPORT void *__wrap__Znam(size_t bytes) { return allocate(bytes, FROM); }
EXPORT void __wrap_free(void *p) { release(p, FROM); }
EXPORT void __wrap__ZdlPv(void *p) { release(p, FROM); }
EXPORT void __wrap__ZdaPv(void *p) { release(p, FROM); }
EXPORT void __wrap__ZdlPvm(void *p, size_t) { release(p, FROM); }
EXPORT void __wrap__ZdaPvm(void *p, size_t) { release(p, FROM); }
EXPORT bool hostcuda_in_shared(const void *p) {
    const Range *range = find((uintptr_t)p);
    return range && range->space == shared_space;
}
}
#endif
