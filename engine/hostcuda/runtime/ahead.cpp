// What the host of a whole program accesses while the device may still work on it: managed memory that a kernel uses, and
// page-locked memory of an asynchronous copy. Here each operation is over before the host goes on; on a GPU it may not be. So
// memory is noted when an operation is queued, until the host calls a function that may wait.
#ifdef HOSTCUDA_CHECK
#include "lock.h"
#include "parts.h"
#include <algorithm>
#include <list>
#include <string.h>
#if __has_include(<execinfo.h>)
#include <dlfcn.h>
#include <execinfo.h>
#endif

namespace check {

volatile bool runs_ahead = false;

namespace {

// Memory of an operation. That of a copy to the device may be read.
struct Queued {
    uintptr_t low;
    std::vector<bool> used;                          // each byte; empty: all of them
    size_t bytes;
    bool readable;
    std::string what;
};
std::list<Queued> queued;
std::vector<std::pair<char *, std::string>> before;  // managed memory when the launch began
Mutex mutex;

constexpr size_t most_kept = 64 << 20;               // bytes of managed memory

void report_access(const Queued &operation, uintptr_t address, size_t bytes, bool reads, void *from) {
    std::string module, callers;
#if __has_include(<execinfo.h>)
    void *frames[24];
    bool inside = false;
    for (int i = 0, count = backtrace(frames, 24); i < count; i++) {
        Dl_info info;
        inside |= frames[i] == from;
        if (!inside) continue;                       // in this library
        if (!dladdr(frames[i], &info) || (!module.empty() && module != info.dli_fname)) break;
        module = info.dli_fname;
        callers += format("%s%zu", callers.empty() ? "" : ",", (size_t)((char *)frames[i] - (char *)info.dli_fbase));
    }
#endif
    std::string message = format("the host %s what %s: on a GPU that may not be over yet, because no call, such as "
                                 "cudaDeviceSynchronize, has waited for it", reads ? "reads" : "writes", operation.what.c_str());
    add_record(format("{\"copy\":\"host code\",\"tool\":\"racecheck\",\"kind\":\"race\",\"module\":%s,\"callers\":[%s],\"file\":\"\",\"line\":0,"
                      "\"address\":%zu,\"size\":%zu,\"message\":%s}", quoted(module).c_str(), callers.c_str(), (size_t)address, bytes,
                      quoted(message).c_str()));
}

}  // namespace

void run_ahead(uintptr_t address, size_t bytes, bool reads, void *from) {
    Lock lock(mutex);
    for (auto next = queued.begin(); next != queued.end();) {
        auto operation = next++;
        if (reads && operation->readable) continue;
        uintptr_t begin = std::max(address, operation->low), end = std::min(address + bytes, operation->low + operation->bytes);
        bool meets = begin < end && operation->used.empty();
        for (; begin < end && !operation->used.empty() && !meets; begin++) meets = operation->used[begin - operation->low];
        if (!meets) continue;
        report_access(*operation, address, bytes, reads, from);
        queued.erase(operation);
    }
    runs_ahead = !queued.empty();
}

void begin_ahead() {
    before.clear();
    if (!running.racecheck) return;
    visit_managed([](char *base, size_t bytes) {
        if (bytes <= most_kept) before.push_back({base, std::string(base, bytes)});
    });
}

void end_ahead() {
    Lock lock(mutex);
    for (auto &[base, old] : before) {
        const Range *range = find((uintptr_t)base);
        if (!range) continue;                        // freed
        for (bool writes : {true, false}) {
            std::vector<bool> used(old.size());
            for (size_t i = 0; i < old.size(); i++) used[i] = writes ? base[i] != old[i] : is_read(*range, i);
            if (std::find(used.begin(), used.end(), true) == used.end()) continue;
            std::string what = format("kernel %s %s", running.launch->kernel, writes ? "writes" : "reads");
            queued.push_back({(uintptr_t)base, used, old.size(), !writes, what});
        }
    }
    before.clear();
    runs_ahead = !queued.empty();
}

void wait_ahead() {
    Lock lock(mutex);
    queued.clear();
    runs_ahead = false;
}

}  // namespace check

using namespace check;

// An asynchronous copy of page-locked memory: to the device, of which the host may read the source; else from it. 0 bytes: it waits.
extern "C" EXPORT void hc_copy_queued(void *host, size_t bytes, int to_device) {
    if (!bytes) return wait_ahead();
    Lock lock(mutex);
    queued.push_back({(uintptr_t)host, {}, bytes, (bool)to_device, to_device ? "cudaMemcpyAsync reads" : "cudaMemcpyAsync writes"});
    runs_ahead = true;
}
#endif
