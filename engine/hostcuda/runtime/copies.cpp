// Copies to the host of memory that nothing has set: initcheck outside of kernels.
//
// Each byte of device memory has the size of the store that has set it, or 0. A copy of which nothing was set is reported. The host
// of a whole program is compiled like its kernels, so its accesses are seen: a copy of which a part was set is reported, too, if
// the host reads a byte that was not. Otherwise it is a note, for the host may use the rest alone: the border of a stencil, the
// rest of a queue. The host of a Python program is not seen. With HOSTCUDA_STRICT=1 each of these notes is a finding.
#ifdef HOSTCUDA_CHECK
#include "lock.h"
#include "parts.h"
#include <algorithm>
#include <list>
#include <stdlib.h>
#include <string.h>
#if __has_include(<execinfo.h>)
#include <dlfcn.h>
#include <execinfo.h>
#endif

namespace check {

volatile bool follows_host = false;
size_t widest_padding = 0;
thread_local Place next_place;

namespace {

enum State : uint8_t { set = 0, unset = 1 };

// A copy with unset bytes.
struct HostCopy {
    uintptr_t low;
    std::vector<uint8_t> state;                      // of each byte
    bool used;                                       // the host has read a byte that was not set
    Place place;
    std::string message;
};
std::list<HostCopy> copies;
std::vector<Place> places_of_copies(1);              // by number, for those that are queued
Mutex copying;

// In the order in which they were made, the mutex is held.
void decide(std::list<HostCopy>::iterator copy) {
    bool has_set = std::count(copy->state.begin(), copy->state.end(), set), any = std::count(copy->state.begin(), copy->state.end(), unset);
    bool is_note = !copy->used && has_set && !is_strict();
    if (copy->used || any)
        add_record(format("{\"copy\":%s,%s,\"address\":%zu,\"size\":%zu,\"message\":%s%s}", quoted(copy->place.call).c_str(),
                          json_of(copy->place).c_str(), (size_t)copy->low, copy->state.size(), quoted(copy->message).c_str(),
                          is_note ? ",\"note\":true" : ""));
    copies.erase(copy);
    follows_host = !copies.empty();
}

template <class Visit> void visit_copies(uintptr_t address, size_t bytes, Visit visit) {
    for (auto next = copies.begin(); next != copies.end();) {
        auto copy = next++;
        uintptr_t begin = std::max(address, copy->low), end = std::min(address + bytes, copy->low + copy->state.size());
        if (begin < end) visit(copy, begin - copy->low, end - copy->low);
    }
}

}  // namespace

Place find_place(const char *call, void *from) {
    Place place;
    place.call = call;
#if __has_include(<execinfo.h>)
    place.count = backtrace(place.callers, sizeof place.callers / sizeof *place.callers);
    void **end = place.callers + place.count, **first = std::find(place.callers, end, from);
    place.count = std::copy(first, end, place.callers) - place.callers;
#endif
    return place;
}

std::string json_of(const Place &place) {
    std::string module, callers;
#if __has_include(<execinfo.h>)
    for (int i = 0; i < place.count; i++) {
        Dl_info info;
        if (!dladdr(place.callers[i], &info) || (!module.empty() && module != info.dli_fname)) break;
        module = info.dli_fname;
        callers += format("%s%zu", callers.empty() ? "" : ",", (size_t)((char *)place.callers[i] - (char *)info.dli_fbase));
    }
#endif
    return format("\"module\":%s,\"callers\":[%s],\"file\":%s,\"line\":%d", quoted(module).c_str(), callers.c_str(),
                  quoted(place.file).c_str(), place.line);
}

Runs list_unset(const uint8_t *sizes, size_t bytes, uintptr_t address) {
    auto next_hole = [=](size_t at) {
        auto hole = at < bytes ? (const uint8_t *)memchr(sizes + at, 0, bytes - at) : nullptr;
        return hole ? hole - sizes : bytes;
    };
    Runs runs;
    size_t begin = next_hole(0), widest = begin < bytes ? *std::max_element(sizes, sizes + bytes) : 0;
    for (size_t end = begin; begin < bytes; begin = next_hole(end)) {
        for (end = begin; end < bytes && !sizes[end];) end++;
        // Padding is behind a member, and the next member or struct begins at a multiple of its alignment.
        size_t unit = widest && (address + end) % widest == 0 ? widest : end < bytes ? sizes[end] : 1;
        if (widest_padding && (widest_padding >= of_unions || (address + end) % widest_padding == 0)) unit = std::max(unit, widest_padding);
        if (!begin || end - begin >= unit) runs.push_back({begin, end});
    }
    return runs;
}

void follow_host(uintptr_t address, size_t bytes, bool reads) {
    Lock lock(copying);
    visit_copies(address, bytes, [&](auto copy, size_t begin, size_t end) {
        for (size_t i = begin; i < end; i++) {
            uint8_t &state = copy->state[i];
            if (!reads) state = set;
            else if (state == unset) copy->used = true;
        }
    });
}

void follow_host_copy(uintptr_t to, uintptr_t from, size_t bytes) {
    Lock lock(copying);
    std::list<HostCopy> more;
    visit_copies(from, bytes, [&](auto copy, size_t begin, size_t end) {
        HostCopy part{to + (copy->low + begin - from), {copy->state.begin() + begin, copy->state.begin() + end}, false, copy->place, copy->message};
        std::fill(copy->state.begin() + begin, copy->state.begin() + end, set);   // judged where they are from now on
        more.push_back(part);
    });
    copies.splice(copies.end(), more);
}

void end_host_block(uintptr_t address) {
    Lock lock(copying);
    visit_copies(address, 1, [](auto copy, size_t, size_t) { decide(copy); });
}

}  // namespace check

using namespace check;

void watch_over() {
    Lock lock(copying);
    while (!copies.empty()) decide(copies.begin());
}

uint32_t watch_copy() {
    if (!watches("initcheck")) return 0;
    Lock lock(copying);
    places_of_copies.push_back(next_place);          // of each row of a rectangle
    return places_of_copies.size() - 1;
}

void watch_copied(uint32_t number, const void *to, size_t bytes, const char *from, const uint8_t *sizes, const std::string &source, size_t offset) {
    Runs runs = list_unset(sizes, bytes, (uintptr_t)from);
    Lock lock(copying);
    uintptr_t low = (uintptr_t)to;
    visit_copies(low, bytes, [](auto copy, size_t, size_t) { decide(copy); });
    if (runs.empty()) return;
    HostCopy copy{low, std::vector<uint8_t>(bytes), false, places_of_copies[number], ""};
    size_t widest = std::max<size_t>(1, *std::max_element(sizes, sizes + bytes)), count = 0;   // 1: nothing is set
    for (auto [begin, end] : runs) {
        std::fill(copy.state.begin() + begin, copy.state.begin() + end, unset);
        count += end - begin;
    }
    copy.message = format("the host copies %zu bytes, of which nothing has set %zu: the first is in element %zu, of %zu byte%s, of %s", bytes,
                          count, (offset + runs[0].first) / widest, widest, widest == 1 ? "" : "s", source.c_str());
    copies.push_back(copy);
    follows_host = true;
    if (!copy.place.file.empty()) decide(std::prev(copies.end()));   // a Python program's
}

extern "C" {
EXPORT void hc_copy_place(const char *call, const char *file, int line) {
    next_place = {};
    next_place.call = call;
    next_place.file = file;
    next_place.line = line;
}
// A whole program calls a function of CUDA's API. To allocate memory orders all that was queued before and after.
EXPORT void hostcuda_calls(const char *call) {
    auto begins = [&](const char *name) { return !strncmp(call, name, strlen(name)); };
    note_call(call);
    if (begins("cudaMalloc") || begins("cudaHost")) watch_waited(-1);
    if (begins("cudaMemcpy") || begins("cudaMemset") || begins("cudaFree") || begins("launch")) next_place = find_place(call, HOSTCUDA_CALLER);
}
}
#endif
