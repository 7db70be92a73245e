// The shared memory of a block, which is its worker's:
//
//   guard | ... margin, array, margin, array | guard | ... margin, dynamic shared memory | guard
//
// A guard is memory that cannot be accessed. The static arrays of a module end there, and so does the dynamic memory of a
// launch: an access past the last array faults. A margin has marks, which are looked at after each block: a write past the
// end of another array, or before the first, has changed them. Alignment may leave some bytes of margin before a guard, too.
// So the array that a kernel declares last, mostly its only one, has no margin behind it.
//
// For the compiler, __shared__ variables are thread-local (words.h). Its code finds such a variable by two words in the
// module's data: a function and its argument (a "TLS descriptor", x86-64 and aarch64), or the arguments of __tls_get_addr
// (clang on x86-64). The loader would place the variables on the heap. redirect_shared changes these words, so that each
// variable is at a distance of its own from the end of the worker's static memory. (For clang on x86-64 the variables are a
// group with one pair of words, and the code adds the offset of each. The linker keeps a list of these places (toolchain.py),
// and redirect_shared changes them, too. Without the list, the group ends at the guard, and there are no margins within it.)
#undef _FORTIFY_SOURCE
#include "runtime.h"
#include <algorithm>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr size_t margin = 128;            // the bytes of one row of banks, so that arrays keep their banks
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

// ---- Where the variables of a module are ------------------------------------------------------------------------------

// From the end of static shared memory to a variable of this worker, with the thread pointer subtracted.
extern "C" {
__thread intptr_t labkit_static_end __attribute__((tls_model("initial-exec"), visibility("hidden")));
void labkit_shared_descriptor();
void *__tls_get_addr(size_t *);
}

// The function of a descriptor: it changes no register but that of its result.
#if defined(__x86_64__)
asm(R"(
    .text
    .type labkit_shared_descriptor, @function
    .hidden labkit_shared_descriptor
labkit_shared_descriptor:
    pushq %rcx
    movq labkit_static_end@gottpoff(%rip), %rcx
    movq 8(%rax), %rax
    addq %fs:(%rcx), %rax
    popq %rcx
    ret
    .size labkit_shared_descriptor, . - labkit_shared_descriptor
)");
constexpr unsigned descriptor = R_X86_64_TLSDESC, arguments = R_X86_64_DTPMOD64;
#elif defined(__aarch64__)
asm(R"(
    .text
    .type labkit_shared_descriptor, %function
    .hidden labkit_shared_descriptor
labkit_shared_descriptor:
    stp x1, x2, [sp, #-16]!
    adrp x1, :gottprel:labkit_static_end
    ldr x1, [x1, #:gottprel_lo12:labkit_static_end]
    mrs x2, tpidr_el0
    ldr x0, [x0, #8]
    ldr x1, [x2, x1]
    add x0, x0, x1
    ldp x1, x2, [sp], #16
    ret
    .size labkit_shared_descriptor, . - labkit_shared_descriptor
)");
constexpr unsigned descriptor = R_AARCH64_TLSDESC, arguments = R_AARCH64_TLS_DTPMOD;
#else
#error "the CPU engine knows the thread-local variables of x86-64 and aarch64 only"
#endif

// Modules call it for __tls_get_addr. Number 0 is no module's: redirect_shared has put it there.
extern "C" EXPORT void *__wrap___tls_get_addr(size_t *place) {
    return place[0] ? __tls_get_addr(place) : (char *)__builtin_thread_pointer() + labkit_static_end + place[1];
}

// Whether a kernel declares the variable: _ZZ4convPfE4tile is in _Z4convPf, _ZZ4convE4tile in the extern "C" conv, and more
// Zs stand for functions within.
static bool declares(const std::string &kernel, const std::string &variable) {
    std::string function = (kernel.compare(0, 2, "_Z") ? std::to_string(kernel.size()) + kernel : kernel.substr(2)) + "E";
    size_t start = variable.find_first_not_of('Z', 1);
    return start != std::string::npos && start > 2 && !variable.compare(start, function.size(), function);
}

// The arrays of each kernel end at the guard, in the same memory, because a worker runs one kernel at a time. Those that
// several kernels may use are before them. In a group all are where the compiler has put them.
std::vector<StaticShared> place_static(StaticShared &module, const std::vector<std::string> &kernels) {
    std::sort(module.arrays.begin(), module.arrays.end(),
              [](const SharedArray &a, const SharedArray &b) { return a.offset < b.offset; });
    std::vector<SharedArray *> shared;
    std::vector<std::vector<SharedArray *>> of(kernels.size());
    size_t segment = round_up(module.segment_bytes, module.alignment);
    for (SharedArray &array : module.arrays) {
        size_t n = 0;
        while (n < kernels.size() && !declares(kernels[n], array.symbol)) n++;
        (n < kernels.size() ? of[n] : shared).push_back(&array);
    }
    auto place = [&](const std::vector<SharedArray *> &arrays, size_t used) {
        for (auto each = arrays.rbegin(); each != arrays.rend(); ++each) {
            SharedArray &array = **each;
            size_t align = array.offset & -array.offset;
            if (!align || align > module.alignment) align = module.alignment;
            while (align < 16 && align < array.bytes) align *= 2;   // at least that of a float4, as on a GPU
            used = round_up(used + array.bytes, align);
            array.place = -(intptr_t)used;
            used += margin;
        }
        if (!module.grouped || arrays.empty()) return used;
        for (SharedArray *array : arrays) array->place = (intptr_t)(array->offset - segment);
        return segment + margin;
    };
    std::vector<StaticShared> parts(kernels.size(), module);
    for (size_t n = 0; n < kernels.size(); n++) {
        parts[n].bytes = place(of[n], 0);
        if (parts[n].bytes > module.bytes) module.bytes = parts[n].bytes;
    }
    size_t all = place(shared, module.bytes);
    for (size_t n = 0; n < kernels.size(); n++) {
        StaticShared &part = parts[n];
        part.arrays.clear();
        for (SharedArray *array : shared) part.arrays.push_back(*array);
        for (SharedArray *array : of[n]) part.arrays.push_back(*array);
        if (!shared.empty()) part.bytes = all;
        if (module.grouped) part.arrays = module.arrays, part.bytes = segment + margin;
        for (SharedArray *array : of[n]) part.own += array->bytes;
        for (SharedArray *array : shared)
            if (!array->hidden && array->symbol.compare(0, 3, "_ZZ")) part.common += array->bytes;
    }
    return parts;
}

// Call visit(relocation, offset of the variable in the segment or of the group) for the words by which a module finds variables.
template <class Visit> static bool each_relocation(const char *image, uintptr_t base, Visit visit) {
    auto header = (const ElfW(Ehdr) *)image;
    auto sections = (const ElfW(Shdr) *)(image + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) &section = sections[i];
        if (section.sh_type != SHT_RELA || !(section.sh_flags & SHF_ALLOC)) continue;
        auto symbols = (const ElfW(Sym) *)(image + sections[section.sh_link].sh_offset);
        auto relocations = (const ElfW(Rela) *)(image + section.sh_offset);
        for (size_t n = 0; n < section.sh_size / sizeof *relocations; n++) {
            const ElfW(Rela) &relocation = relocations[n];
            unsigned type = ELF64_R_TYPE(relocation.r_info), number = ELF64_R_SYM(relocation.r_info);
            if (type != descriptor && type != arguments) continue;
            if (number && symbols[number].st_shndx == SHN_UNDEF) continue;   // a variable of another library
            auto words = (size_t *)(base + relocation.r_offset);
            size_t offset = type == arguments ? words[1] : relocation.r_addend + (number ? symbols[number].st_value : 0);
            if (!visit(type, words, offset)) return false;
        }
    }
    return true;
}

// Call visit(place in the code, offset of the variable in the segment, addend) for the offsets that the code adds.
template <class Visit> static bool each_offset(const char *image, uintptr_t base, Visit visit) {
#if defined(__x86_64__)
    auto header = (const ElfW(Ehdr) *)image;
    auto sections = (const ElfW(Shdr) *)(image + header->e_shoff);
    for (int i = 0; i < header->e_shnum; i++) {
        const ElfW(Shdr) &section = sections[i];
        if (section.sh_type != SHT_RELA || (section.sh_flags & SHF_ALLOC)) continue;
        if (!(sections[section.sh_info].sh_flags & SHF_EXECINSTR)) continue;
        auto symbols = (const ElfW(Sym) *)(image + sections[section.sh_link].sh_offset);
        auto relocations = (const ElfW(Rela) *)(image + section.sh_offset);
        for (size_t n = 0; n < section.sh_size / sizeof *relocations; n++) {
            const ElfW(Rela) &relocation = relocations[n];
            if (ELF64_R_TYPE(relocation.r_info) != R_X86_64_DTPOFF32) continue;
            const ElfW(Sym) &symbol = symbols[ELF64_R_SYM(relocation.r_info)];
            if (!visit((char *)base + relocation.r_offset, symbol.st_value, relocation.r_addend)) return false;
        }
    }
#endif
    return true;
}

bool is_grouped(const char *image, uintptr_t base) {
    return !each_relocation(image, base, [](unsigned type, size_t *, size_t) { return type != arguments; }) &&
           each_offset(image, base, [](char *, size_t, ptrdiff_t) { return false; });
}

// Make the code of a module writable, or executable again.
static bool protect_code(const char *image, uintptr_t base, int protection) {
    auto header = (const ElfW(Ehdr) *)image;
    auto segments = (const ElfW(Phdr) *)(image + header->e_phoff);
    uintptr_t page = sysconf(_SC_PAGESIZE);
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type != PT_LOAD || !(segments[i].p_flags & PF_X)) continue;
        uintptr_t low = (base + segments[i].p_vaddr) & -page;
        if (mprotect((void *)low, base + segments[i].p_vaddr + segments[i].p_memsz - low, protection)) return false;
    }
    return true;
}

bool redirect_shared(const StaticShared &shared, const char *image, uintptr_t base, std::string &error) {
    bool by_code = !each_offset(image, base, [](char *, size_t, ptrdiff_t) { return false; });
    if (by_code) {   // it adds them to what __tls_get_addr returns
        bool changed = protect_code(image, base, PROT_READ | PROT_WRITE) &&
                       each_offset(image, base, [&](char *place, size_t offset, ptrdiff_t addend) {
            for (const SharedArray &array : shared.arrays) {
                if (offset - array.offset >= array.bytes) continue;
                int32_t distance = (int32_t)(array.place + (ptrdiff_t)(offset - array.offset) + addend);
                memcpy(place, &distance, sizeof distance);
                return true;
            }
            return false;
        });
        if (!changed || !protect_code(image, base, PROT_READ | PROT_EXEC)) {
            error = "the offsets of its __shared__ variables cannot be changed";
            return false;
        }
    }
    return each_relocation(image, base, [&](unsigned type, size_t *words, size_t offset) {
        if (by_code && type == arguments) {
            words[0] = words[1] = 0;
            return true;
        }
        for (const SharedArray &array : shared.arrays) {
            if (offset - array.offset >= array.bytes) continue;
            words[0] = type == arguments ? 0 : (size_t)labkit_shared_descriptor;
            words[1] = (size_t)array.place + offset - array.offset;
            return true;
        }
        error = format("no __shared__ variable is at byte %zu of the thread-local segment", offset);
        return false;
    });
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
    labkit_static_end = memory.static_end - (char *)__builtin_thread_pointer();
    return true;
}

void unmap_shared(SharedMemory &memory) { munmap(memory.mapping, memory.bytes); }

// Shared memory is not initialized on a GPU; here each launch fills it with NaN.
void *fill_shared(SharedMemory &memory, const StaticShared &shared, size_t dynamic_bytes) {
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
    for (const SharedArray &array : shared.arrays) {
        char *at = end + array.place;
        mark_margin(low, at, !memory.arrays.empty(), true);
        add(array.name.c_str(), at, array.bytes);
        if (array.offset < shared.initialized) memcpy(at, shared.image + array.offset, array.bytes);
        low = at + array.bytes;
    }
    mark_margin(low, end, true, false);
    char *dynamic = memory.dynamic_end - round_up(dynamic_bytes, 256);
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
