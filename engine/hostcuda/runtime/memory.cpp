// Device memory: ordinary memory with red zones and a fill pattern, so that errors are found.
//
// An allocation is between two red zones and is filled with 0xFF bytes: NaN as float, -1 as int. The red zones are checked
// after each kernel that has its address as an argument, and when it is freed. Around them are guards, memory that cannot be
// accessed: a loop that writes on and on beyond an array faults there, before it reaches what belongs to others. Up to 16 MB
// the pattern is written. Larger allocations are mapped, page by page, to one 16 MB file of 0xFF bytes, copy on write: they
// also read as 0xFF, but use memory only where they are written.
#include "check.h"
#include "lock.h"
#include "runtime.h"
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <map>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr size_t red_zone = checking ? 1 << 20 : 256;   // mapped, but used only next to the allocation; a large one finds far overruns
constexpr size_t marked = 256;         // bytes of a red zone that are filled and checked
constexpr size_t most_guarded = 8192;  // allocations at a time: each needs two of the 65530 mappings of a process
constexpr size_t filled_limit = 16 << 20, huge_page = 2 << 20;
constexpr size_t hidden_bytes = checking ? 16 << 20 : 64 << 10, most_hidden = 16, most_hides = 1000;   // of an allocation; allocations; times
constexpr unsigned char red = 0xa5, poison = 0xff;

struct Allocation {
    size_t bytes;
    char *mapping;           // null: not an allocation of this file (a module's symbol)
    size_t mapping_bytes;
    const void *owner;
    uint8_t *written;        // one byte per byte: the size of the store that has set it, or 0; null without initcheck
    bool of_device = false;  // the host of a whole program must not access it
};

Mutex mutex;
std::map<const char *, Allocation> allocations;
struct Freed { const char *base; size_t bytes; char *mapping; size_t mapping_bytes; };
std::vector<Freed> freed;            // the latest, and some older ones: for messages; their addresses stay reserved
std::map<const char *, Allocation> mapped;   // the host's page-locked memory, which kernels may use
size_t limit, used;
bool hidden;                 // the allocations that are of the device cannot be accessed

// A number in a system file: a line of /proc/meminfo, or the content of a control group's file; else `otherwise`.
size_t read_number(const char *path, const char *line, size_t otherwise) {
    FILE *file = fopen(path, "r");
    if (!file) return otherwise;
    char text[200];
    size_t value = otherwise;
    while (fgets(text, sizeof text, file)) {
        if (strncmp(text, line, strlen(line))) continue;
        if (sscanf(text + strlen(line), "%zu", &value) != 1) value = otherwise;
        break;
    }
    fclose(file);
    return value;
}

size_t available_bytes() {
    size_t available = read_number("/proc/meminfo", "MemAvailable:", 2 << 20) * 1024;
    size_t allowed = read_number("/sys/fs/cgroup/memory.max", "", SIZE_MAX);
    size_t taken = read_number("/sys/fs/cgroup/memory.current", "", 0);
    if (allowed != SIZE_MAX && allowed > taken && allowed - taken < available) available = allowed - taken;
    return available;
}

size_t current_limit() {
    if (!limit) limit = available_bytes() / (watches("initcheck") ? 4 : 2);   // for which each byte needs another one
    return limit;
}

// A file of `filled_limit` poison bytes, made on first use; -1 if the system has no such files.
int poison_file() {
    static int file = [] {
        int made = memfd_create("hostcuda-poison", MFD_CLOEXEC);
        if (made < 0 || ftruncate(made, filled_limit) != 0) return -1;
        void *bytes = mmap(nullptr, filled_limit, PROT_WRITE, MAP_SHARED, made, 0);
        if (bytes == MAP_FAILED) return -1;
        memset(bytes, poison, filled_limit);
        munmap(bytes, filled_limit);
        return made;
    }();
    return file;
}

void fill_with_poison(char *mapping, size_t bytes) {
    if (bytes > filled_limit && poison_file() >= 0) {
        for (size_t at = 0; at < bytes; at += filled_limit) {
            size_t piece = bytes - at < filled_limit ? bytes - at : filled_limit;
            // If this fails (too many mappings), the rest is zero.
            if (mmap(mapping + at, piece, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                     poison_file(), 0) == MAP_FAILED)
                return;
        }
    } else if (bytes <= filled_limit) {
        if (bytes >= huge_page) madvise(mapping, bytes, MADV_HUGEPAGE);
        memset(mapping, poison, bytes);
    }
}

// The allocation that contains `address`, or end(); the mutex is held.
std::map<const char *, Allocation>::iterator holder(const char *address) {
    auto after = allocations.upper_bound(address);
    if (after == allocations.begin()) return allocations.end();
    auto it = std::prev(after);
    return address < it->first + it->second.bytes || address == it->first ? it : allocations.end();
}

// The latest allocation that was at `address` and has been freed, or null; the mutex is held.
const Freed *last_freed(const char *address) {
    for (size_t i = freed.size(); i-- > 0;)
        if (address >= freed[i].base && address < freed[i].base + freed[i].bytes) return &freed[i];
    return nullptr;
}

}  // namespace

EXPORT int hc_mem_limit(size_t bytes) {
    Lock lock(mutex);
    limit = bytes;
    return HC_OK;
}

EXPORT int hc_mem_info(size_t *free_bytes, size_t *total_bytes) {
    Lock lock(mutex);
    size_t total = current_limit();
    *total_bytes = total;
    *free_bytes = used < total ? total - used : 0;
    return HC_OK;
}

EXPORT int hc_mem_alloc(size_t bytes, void **address) {
    if (!bytes) return set_error(HC_INVALID, "an allocation of 0 bytes");
    Lock lock(mutex);
    size_t total = current_limit();
    if (bytes > total || used > total - bytes)
        return set_error(HC_OUT_OF_MEMORY, "out of device memory: %zu bytes requested, %zu of %zu bytes are free",
                         bytes, total > used ? total - used : 0, total);
    used += bytes;
    bool guarded = allocations.size() < most_guarded;
    lock.unlock();

    size_t inside = round_up(red_zone + bytes + red_zone, page), mapped = guard_bytes + inside + guard_bytes;
    char *mapping = map_memory(mapped);
    if (!mapping) {
        int reason = errno;
        lock.lock();
        used -= bytes;
        return set_error(HC_OUT_OF_MEMORY, "the system cannot allocate %zu bytes: %s", bytes, strerror(reason));
    }
    char *low = mapping + guard_bytes, *begin = low + red_zone;
    if (guarded)
        for (char *each : {mapping, low + inside}) mprotect(each, guard_bytes, PROT_NONE);
    constexpr size_t untouched = red_zone / page * page;
    fill_with_poison(low + untouched, inside - 2 * untouched);
    memset(begin - marked, red, marked);
    memset(begin + bytes, red, marked);

    lock.lock();
    uint8_t *written = watches("initcheck") ? (uint8_t *)calloc_if_there(bytes, 1) : nullptr;
    allocations[begin] = {bytes, mapping, mapped, nullptr, written};
    *address = begin;
    return HC_OK;
}

EXPORT void hc_heap_limit(size_t bytes) { __atomic_store_n(&heap_limit, bytes, __ATOMIC_RELAXED); }

void *calloc_if_there(size_t count, size_t bytes) {
    constexpr size_t worth_asking = 64 << 20;
    if (count * bytes > worth_asking && count * bytes > available_bytes() / 2) return nullptr;
    return calloc(count, bytes);
}

// What was written into the red zones of an allocation, which are restored; "" if nothing was.
static std::string take_damage(char *begin, size_t bytes) {
    static const std::string intact(marked, (char)red);
    char *end = begin + bytes, *before = begin - marked;
    auto is_damaged = [](const char *zone) { return memcmp(zone, intact.data(), marked) != 0; };
    auto is_red = [](char byte) { return (unsigned char)byte == red; };
    std::string text;
    if (UNLIKELY(is_damaged(end))) {
        size_t reach = marked;
        while (is_red(end[reach - 1])) reach--;
        text = format("wrote up to %zu bytes past the end of an allocation of %zu bytes: is a guard such as `if (i < n)` "
                      "missing? hostcuda sanitize names the line", reach, bytes);
    } else if (UNLIKELY(is_damaged(before))) {
        size_t at = 0;
        while (is_red(before[at])) at++;
        text = format("wrote up to %zu bytes before an allocation of %zu bytes: is an index negative? hostcuda sanitize names "
                      "the line", marked - at, bytes);
    }
    if (UNLIKELY(!text.empty())) {
        memset(end, red, marked);
        memset(before, red, marked);
    }
    return text;
}

std::string take_damage_by(const char *kernel, const std::vector<char> &arguments) {
    std::string found;
    for (size_t at = 0; at + sizeof(char *) <= arguments.size(); at += sizeof(char *)) {
        const char *address;
        memcpy(&address, &arguments[at], sizeof address);
        if ((uintptr_t)address < page) continue;
        Lock lock(mutex);
        auto it = holder(address);
        if (it == allocations.end() || !it->second.mapping) continue;
        std::string damage = take_damage((char *)it->first, it->second.bytes);
        if (UNLIKELY(!damage.empty() && found.empty())) found = format("kernel %s %s", kernel, damage.c_str());
    }
    return found;
}

EXPORT int hc_mem_free(void *address) {
    if (!address) return HC_OK;
    wait_for_device();
    Lock lock(mutex);
    auto it = allocations.find((const char *)address);
    if (it == allocations.end() || !it->second.mapping) {
        for (const Freed &gone : freed)
            if (gone.base == address)
                return set_error(HC_INVALID, "%p was freed before (an allocation of %zu bytes)", address, gone.bytes);
        return set_error(HC_INVALID, "%p is not the start of an allocation", address);
    }
    Allocation allocation = it->second;
    allocations.erase(it);
    used -= allocation.bytes;
    std::string damage = take_damage((char *)address, allocation.bytes);
    free(allocation.written);
    // The addresses stay reserved, so that a later use of them is found: in check mode for good, else until 256 others are freed.
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
    mmap(allocation.mapping, allocation.mapping_bytes, PROT_NONE, flags, -1, 0);
    freed.push_back({(const char *)address, allocation.bytes, allocation.mapping, allocation.mapping_bytes});
    if (freed.size() > 512) {
        if (!checking)
            for (auto old = freed.begin(); old != freed.end() - 256; ++old) munmap(old->mapping, old->mapping_bytes);
        freed.erase(freed.begin(), freed.end() - 256);
    }
    return damage.empty() ? (int)HC_OK : set_error(HC_INVALID, "a kernel %s", damage.c_str());
}

// Between two calls of a whole program's host, what cudaMalloc gave cannot be accessed, as on a GPU. A change of a mapping takes
// a few microseconds: so only the beginnings of some allocations are hidden, and no more after a thousand times.
void hide_memory(bool hide) {
    Lock lock(mutex);
    static size_t hides = 0;
    if (hidden == hide || (hide && hides++ >= most_hides)) return;
    hidden = hide;
    size_t count = 0;
    for (auto &[base, allocation] : allocations) {
        if (!allocation.of_device) continue;
        uintptr_t begin = (uintptr_t)base / page * page, end = round_up((uintptr_t)base + allocation.bytes, page);
        mprotect((void *)begin, end - begin < hidden_bytes ? end - begin : hidden_bytes, hide ? PROT_NONE : PROT_READ | PROT_WRITE);
        if (++count == most_hidden) break;
    }
}

EXPORT void hc_mem_of_device(const void *address) {
    Lock lock(mutex);
    if (auto it = allocations.find((const char *)address); it != allocations.end()) it->second.of_device = true;
}

static std::string describe_access(const char *address, const char *does) {
    Lock lock(mutex);
    auto it = holder(address);
    if (it == allocations.end() || !it->second.of_device) return "";
    return format("the host %s byte %td of an allocation of %zu bytes from cudaMalloc, which only kernels and copies can access: on a "
                  "GPU, too, this is a segmentation fault. Copy the data with cudaMemcpy", does, address - it->first, it->second.bytes);
}

// After a fault outside of a kernel, in its handler.
std::string describe_hidden(const char *address, const char *does) {
    return hidden ? describe_access(address, does) : "";   // else a function of this file may be interrupted
}

EXPORT void hc_write_result(const void *address) {
    std::string text = describe_access((const char *)address, "writes");
    if (text.empty() || !host_code.tell) return;
    host_code.tell(text.c_str());
    signal(SIGSEGV, SIG_DFL);
    raise(SIGSEGV);
}

EXPORT void hc_mem_mapped(const void *address, size_t bytes) {
    Lock lock(mutex);
    if (bytes) mapped[(const char *)address].bytes = bytes;
    else mapped.erase((const char *)address);
}

EXPORT int hc_mem_range(const void *address, void **base, size_t *bytes) {
    Lock lock(mutex);
    auto it = holder((const char *)address);
    if (it == allocations.end()) return set_error(HC_NOT_FOUND, "%p is not in device memory", address);
    *base = (void *)it->first;
    *bytes = it->second.bytes;
    return HC_OK;
}

EXPORT int hc_mem_written(const void *address, size_t bytes, uint8_t *sizes) {
    Lock lock(mutex);
    auto it = holder((const char *)address);
    size_t offset = it == allocations.end() ? 0 : (const char *)address - it->first;
    if (it == allocations.end() || !it->second.written || bytes > it->second.bytes - offset)
        return set_error(HC_NOT_FOUND, "initcheck does not watch %p", address);
    memcpy(sizes, it->second.written + offset, bytes);
    return HC_OK;
}

// The pages are made ready for the access, which a copy would do anyway.
bool is_host_memory(const void *address, size_t bytes, bool writes) {
    constexpr int populate_read = 22, populate_write = 23;   // of madvise, since Linux 5.14
    uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    if (begin < page || end < begin) return false;
    begin = begin / page * page;
    end = round_up(end, page);
    static const bool populates = [] {
        void *one = map_memory(page);
        bool can = one && madvise(one, page, populate_write) == 0 && mprotect(one, page, PROT_NONE) == 0 && madvise(one, page, populate_read) != 0;
        if (one) munmap(one, page);
        return can;                        // qemu-user accepts all advice
    }();
    if (populates) return madvise((void *)begin, end - begin, writes ? populate_write : populate_read) == 0;
    unsigned char present[256];            // else: whether something is mapped there
    for (; begin < end; begin += sizeof present * page) {
        size_t rest = end - begin, most = sizeof present * page;
        if (mincore((void *)begin, rest < most ? rest : most, present) != 0) return false;
    }
    return true;
}

// A program's host code gets the C library's blocks, because the C++ library frees some of them. They are zeroed: in a
// process of the program's own the large ones would be, and here they would hold what Python has left.
// At a block's very end it says its size, behind what the program asked for.
namespace {
constexpr uint64_t of_host = 0x6c61626b69742b32;   // exclusive or with the block's address
struct End {
    uint64_t state, bytes;
};
}

void *allocate_for_host(size_t bytes) {
    char *block = bytes < SIZE_MAX / 2 ? (char *)calloc(1, bytes + sizeof(End)) : nullptr;
    if (block) ((End *)(block + malloc_usable_size(block)))[-1] = {of_host ^ (uint64_t)block, bytes};
    return block;
}

EXPORT size_t hc_host_block(const void *block) {
    if ((uintptr_t)block % 16 || !is_host_memory((const uint64_t *)block - 1, sizeof(uint64_t), false)) return 0;
    uint64_t chunk = ((const uint64_t *)block)[-1];    // the C library's word: malloc_usable_size, for what may be no block
    auto end = (const End *)((const char *)block + (chunk & ~7ull) - (chunk & 2 ? 16 : 8)) - 1;
    return is_host_memory(end, sizeof *end, false) && end->state == (of_host ^ (uint64_t)block) ? end->bytes : 0;
}

EXPORT int hc_on_stack(const void *address) {
    pthread_attr_t attributes;
    void *low = nullptr;
    size_t bytes = 0;
    if (pthread_getattr_np(pthread_self(), &attributes)) return 0;
    pthread_attr_getstack(&attributes, &low, &bytes);
    pthread_attr_destroy(&attributes);
    return address >= low && (const char *)address < (const char *)low + bytes;
}

EXPORT int hc_host_memory(const void *address, size_t bytes, int writes) {
    return is_host_memory(address, bytes, writes) ? HC_OK : set_error(HC_INVALID, "%p is no memory of the host", address);
}

void add_symbol_range(const void *address, size_t bytes, const void *owner) {
    Lock lock(mutex);
    Allocation symbol{};
    symbol.bytes = bytes;
    symbol.owner = owner;
    allocations[(const char *)address] = symbol;
}

void remove_symbol_ranges(const void *owner) {
    Lock lock(mutex);
    for (auto it = allocations.begin(); it != allocations.end();)
        it = it->second.owner == owner ? allocations.erase(it) : std::next(it);
}

bool in_device_memory(const void *address, size_t bytes, std::string &why_not) {
    {
        Lock lock(mutex);
        auto it = holder((const char *)address);
        if (it != allocations.end()) {
            size_t left = it->first + it->second.bytes - (const char *)address;
            if (bytes <= left) return true;
            why_not = format("%zu bytes at offset %zu of an allocation of %zu bytes: %zu too many", bytes,
                             (size_t)((const char *)address - it->first), it->second.bytes, bytes - left);
            return false;
        }
    }
    why_not = format("%p is not device memory: %s", address, describe_address(address).c_str());
    return false;
}

bool add_device_memory(uint64_t &digest, size_t most_bytes) {
    Lock lock(mutex);
    size_t bytes = 0;
    for (auto &[base, allocation] : allocations) bytes += allocation.bytes;
    if (bytes > most_bytes) return false;
    for (auto &[base, allocation] : allocations) digest = digest_of(base, allocation.bytes, digest);
    return true;
}

std::string describe_address(const void *address) {
    const char *at = (const char *)address;
    if ((uintptr_t)at < page) return "a null pointer";
    Lock lock(mutex);
    auto it = holder(at);
    if (it != allocations.end())
        return format("byte %td of the allocation of %zu bytes at %p", at - it->first, it->second.bytes,
                      (const void *)it->first);
    constexpr size_t near = 1 << 30;
    auto after = allocations.lower_bound(at);
    std::string nearest = "not near any allocation";
    size_t distance = near;
    if (after != allocations.end() && (size_t)(after->first - at) < distance) {
        distance = after->first - at;
        nearest = format("%zu bytes before the allocation of %zu bytes at %p", distance, after->second.bytes,
                         (const void *)after->first);
    }
    if (after != allocations.begin()) {
        auto before = std::prev(after);
        const char *end = before->first + before->second.bytes;
        if ((size_t)(at - end) < distance) {
            distance = at - end;
            nearest = format("%td bytes past the end of the allocation of %zu bytes at %p", at - end,
                             before->second.bytes, (const void *)before->first);
        }
    }
    if (distance <= guard_bytes) return nearest;
    const Freed *gone = last_freed(at);
    return gone ? format("byte %td of an allocation of %zu bytes that has been freed", at - gone->base, gone->bytes) : nearest;
}

#ifdef HOSTCUDA_CHECK
void visit_allocations(void (*visit)(const char *base, size_t bytes, uint8_t *written, size_t zone, bool of_host)) {
    Lock lock(mutex);
    for (auto &[base, allocation] : allocations)
        if (allocation.mapping) visit(base, allocation.bytes, allocation.written, red_zone, host_code.tell && !allocation.of_device);
}

void visit_mapped(void (*visit)(const char *base, size_t bytes)) {
    Lock lock(mutex);
    for (auto &[base, allocation] : mapped) visit(base, allocation.bytes);
}

void note_written(const void *address, size_t bytes) {
    Lock lock(mutex);
    auto it = holder((const char *)address);
    if (it == allocations.end() || !it->second.written) return;
    size_t offset = (const char *)address - it->first, left = it->second.bytes - offset;
    memset(it->second.written + offset, 1, bytes < left ? bytes : left);
}

void note_copied(char *to, const char *from, size_t bytes) {
    Lock lock(mutex);
    auto source = holder(from), target = holder(to);
    if (target == allocations.end() || !target->second.written) return;
    uint8_t *sizes = target->second.written + (to - target->first);
    if (source == allocations.end() || !source->second.written) memset(sizes, 1, bytes);
    else memmove(sizes, source->second.written + (from - source->first), bytes);
}

void note_to_host(uint32_t number, char *to, const char *from, size_t bytes) {
    Lock lock(mutex);
    auto it = holder(from);
    if (it == allocations.end() || !it->second.written) return;
    size_t offset = from - it->first;
    std::string source = format("an allocation of %zu bytes", it->second.bytes);
    watch_copied(number, to, bytes, from, it->second.written + offset, source, offset);
}

bool was_freed(const void *address, uintptr_t &base, size_t &bytes) {
    Lock lock(mutex);
    const Freed *gone = last_freed((const char *)address);
    if (gone) base = (uintptr_t)gone->base, bytes = gone->bytes;
    return gone;
}
#endif
