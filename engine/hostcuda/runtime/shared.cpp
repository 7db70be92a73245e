// The shared memory of a block, which is its worker's:
//
//   guard | ... margin, array, margin, array | guard | ... margin, dynamic shared memory | guard
//
// A guard is memory that cannot be accessed. The static arrays of a module end there, and so does the dynamic memory of a
// launch: an access past the last array faults. A margin has marks, which are looked at after each block: a write past the
// end of another array, or before the first, has changed them. Alignment may leave some bytes of margin before a guard, too.
// So the array that a kernel declares last, mostly its only one, has no margin behind it.
//
// hostcuda/runtime/layout.py chooses the place of each array, and redirect_shared changes how the compiled code finds it.
#undef _FORTIFY_SOURCE
#include "runtime.h"
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr size_t margin = 128;            // as in layout.py
constexpr size_t most_marked = 256;       // of a margin that is longer
constexpr uint16_t mark = 0xfffd;         // NaN in every format, like uninitialized memory, but with other bits

struct Marks {
    uint16_t of[most_marked / 2 + 1] = {};
    constexpr Marks() { for (uint16_t &each : of) each = mark; }
};
constexpr Marks all_marks;

// The marks from that address on.
const char *marks(const char *at) { return (const char *)all_marks.of + (uintptr_t)at % 2; }

}  // namespace

// ---- How compiled code finds its variables ------------------------------------------------------------------------------

// From the end of static shared memory to a variable of this worker, with the thread pointer subtracted.
extern "C" {
__thread intptr_t hostcuda_static_end __attribute__((tls_model("initial-exec"), visibility("hidden")));
void hostcuda_shared_descriptor();
void *__tls_get_addr(size_t *);
}

// The function of a descriptor: it changes no register but that of its result.
#if defined(__x86_64__)
asm(R"(
    .text
    .type hostcuda_shared_descriptor, @function
    .hidden hostcuda_shared_descriptor
hostcuda_shared_descriptor:
    pushq %rcx
    movq hostcuda_static_end@gottpoff(%rip), %rcx
    movq 8(%rax), %rax
    addq %fs:(%rcx), %rax
    popq %rcx
    ret
    .size hostcuda_shared_descriptor, . - hostcuda_shared_descriptor
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .type hostcuda_shared_descriptor, %function
    .hidden hostcuda_shared_descriptor
hostcuda_shared_descriptor:
    stp x1, x2, [sp, #-16]!
    adrp x1, :gottprel:hostcuda_static_end
    ldr x1, [x1, #:gottprel_lo12:hostcuda_static_end]
    mrs x2, tpidr_el0
    ldr x0, [x0, #8]
    ldr x1, [x2, x1]
    add x0, x0, x1
    ldp x1, x2, [sp], #16
    ret
    .size hostcuda_shared_descriptor, . - hostcuda_shared_descriptor
)");
#else
#error "the CPU engine knows the thread-local variables of x86-64 and aarch64 only"
#endif

// Modules call it for __tls_get_addr. Number 0 is no module's: redirect_shared has put it there.
extern "C" EXPORT void *__wrap___tls_get_addr(size_t *place) {
    return place[0] ? __tls_get_addr(place) : (char *)__builtin_thread_pointer() + hostcuda_static_end + place[1];
}

bool redirect_shared(const hc_patch *patches, int count, uintptr_t text_begin, uintptr_t text_end) {
    uintptr_t low = text_begin & -(uintptr_t)sysconf(_SC_PAGESIZE);
    bool in_code = false;
    for (int i = 0; i < count; i++) {
        const hc_patch &patch = patches[i];
        auto words = (size_t *)patch.at;
        if (patch.kind == HC_CODE) {
            if (!in_code && mprotect((void *)low, text_end - low, PROT_READ | PROT_WRITE)) return false;
            in_code = true;
            int32_t distance = (int32_t)patch.value;
            memcpy(patch.at, &distance, sizeof distance);
        } else {
            words[0] = patch.kind == HC_DESCRIPTOR ? (size_t)hostcuda_shared_descriptor : 0;
            words[1] = patch.value;
        }
    }
    return !in_code || !mprotect((void *)low, text_end - low, PROT_READ | PROT_EXEC);
}

// ---- A worker's memory ------------------------------------------------------------------------------------------------

bool map_shared(SharedMemory &memory) {
    memory.bytes = guard_bytes + static_limit + guard_bytes + shared_limit + guard_bytes;
    memory.mapping = map_memory(memory.bytes);
    if (!memory.mapping) return false;
    madvise(memory.mapping, memory.bytes, MADV_NOHUGEPAGE);
    memory.static_end = memory.mapping + guard_bytes + static_limit;
    memory.dynamic_end = memory.static_end + guard_bytes + shared_limit;
    for (char *low : {memory.mapping, memory.static_end, memory.dynamic_end}) guard(low, guard_bytes);
    use_shared(memory);
    return true;
}

void use_shared(const SharedMemory &memory) { hostcuda_static_end = memory.static_end - (char *)__builtin_thread_pointer(); }

void unmap_shared(SharedMemory &memory) {
    if (memory.mapping) munmap(memory.mapping, memory.bytes);
}

// Shared memory is not initialized on a GPU; here each launch fills it with NaN.
void *fill_shared(SharedMemory &memory, const hc_static &shared, size_t dynamic_bytes) {
    memory.arrays.clear();
    memory.margins.clear();
    auto add = [&](const char *name, char *at, size_t bytes) {
        memset(at, 0xff, bytes);
        memory.arrays.push_back({name, at, bytes});
    };
    // Marks from low to high, between the last array, if `before`, and the next one, if `after`; of many bytes the outer ones.
    auto mark_margin = [&](char *low, char *high, bool before, bool after) {
        auto add_marks = [&](char *at, size_t bytes, bool before, bool after) {
            int next = (int)memory.arrays.size();
            memcpy(at, marks(at), bytes);
            memory.margins.push_back({at, bytes, before ? next - 1 : -1, after ? next : -1});
        };
        size_t bytes = high - low;
        if (bytes && bytes <= most_marked) return add_marks(low, bytes, before, after);
        if (bytes && before) add_marks(low, most_marked / 2, true, false);
        if (bytes && after) add_marks(high - most_marked / 2, most_marked / 2, false, true);
    };
    char *end = memory.static_end, *low = end - shared.bytes;
    for (int i = 0; i < shared.count; i++) {
        const hc_array &array = shared.arrays[i];
        char *at = end + array.place;
        mark_margin(low, at, !memory.arrays.empty(), true);
        add(array.name, at, array.bytes);
        if (array.image) memcpy(at, array.image, array.bytes);
        low = at + array.bytes;
    }
    mark_margin(low, end, true, false);
    // as patterns of swizzles need it (wgmma.h), where there is room for one
    char *dynamic = memory.dynamic_end - round_up(dynamic_bytes, dynamic_bytes < 1024 ? 256 : 1024);
    if (!dynamic_bytes) return dynamic;
    if (dynamic_bytes + margin <= shared_limit) mark_margin(dynamic - margin, dynamic, false, true);
    add(nullptr, dynamic, dynamic_bytes);
    mark_margin(dynamic + dynamic_bytes, memory.dynamic_end, true, false);
    return dynamic;
}

typedef uint64_t Bytes32 __attribute__((vector_size(32), aligned(1), may_alias));

// After every block: a call of memcmp would take as long as a barrier.
bool is_damaged(const SharedMemory &memory) {
    Bytes32 changed = {};
    for (const SharedMemory::Margin &m : memory.margins) {
        const char *marked = marks(m.low);
        auto look_at = [&](size_t at) { changed |= *(const Bytes32 *)(m.low + at) ^ *(const Bytes32 *)(marked + at); };
        if (m.bytes < 32) {
            if (UNLIKELY(memcmp(m.low, marked, m.bytes) != 0)) return true;
            continue;
        }
        for (size_t at = 0; at < m.bytes - 32; at += 32) look_at(at);
        look_at(m.bytes - 32);
    }
    return (changed[0] | changed[1] | changed[2] | changed[3]) != 0;
}

// ---- Messages ---------------------------------------------------------------------------------------------------------

static std::string named(const SharedMemory::Array &array) {
    return array.name ? format("the __shared__ array %s, which has %zu bytes", array.name, array.bytes)
                      : format("dynamic shared memory, of which the launch has %zu bytes", array.bytes);
}

std::string describe_damage(const SharedMemory &memory) {
    for (const SharedMemory::Margin &m : memory.margins) {
        const char *marked = marks(m.low);
        size_t from = 0, to = m.bytes;
        while (from < to && m.low[from] == marked[from]) from++;
        if (from == to) continue;
        while (m.low[to - 1] == marked[to - 1]) to--;
        bool past = m.after < 0 || (m.before >= 0 && from <= m.bytes - to);
        const SharedMemory::Array &array = memory.arrays[past ? m.before : m.after];
        return format("a write to bytes %td to %td of %s", m.low + from - array.low, m.low + to - 1 - array.low,
                      named(array).c_str());
    }
    return "";
}

std::string describe_shared(const SharedMemory &memory, const char *address) {
    if (address < memory.mapping || address >= memory.mapping + memory.bytes) return "";
    if (memory.arrays.empty()) return "shared memory, of which the launch has none";
    const SharedMemory::Array *nearest = &memory.arrays[0];
    for (const SharedMemory::Array &array : memory.arrays)
        if (array.low <= address) nearest = &array;
    return format("byte %td of %s", address - nearest->low, named(*nearest).c_str());
}

std::string name_shared(const SharedMemory &memory, const char *address, size_t bytes) {
    std::string element = name_element(memory, address, bytes);
    return element.empty() ? describe_shared(memory, address) : element;
}
