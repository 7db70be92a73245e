// What compiled kernels call.
//
// Kernels are compiled with -fsanitize=thread and linked with the functions below instead of the sanitizer's. To check,
// each access calls one of them with its address; the return address identifies the access in the code.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <math.h>
#include <string.h>

#define FROM HOSTCUDA_CALLER

namespace check {
namespace {

// Whether the code itself writes the log.
inline bool logged() { return running.module && running.module->log; }

bool keeps_returns = false;   // the module has frame pointers (hc_keep_returns)

// Leave a launch whose thread writes over an address to which one of its functions returns, or beyond all of them.
__attribute__((noinline)) void keep_returns(uint32_t pc, Operation operation, uintptr_t address, unsigned size) {
    auto frame = (uintptr_t *)__builtin_frame_address(0);   // frame[0]: the caller's; frame[1]: where it goes on
    while (!in_kernel((void *)frame[1])) frame = (uintptr_t *)frame[0];   // this file's functions
    bool more;
    do {
        frame = (uintptr_t *)frame[0];               // of a function of the module
        more = in_kernel((void *)frame[1]) && frame[0] > (uintptr_t)frame;
        if (address + size > (uintptr_t)frame && (address < (uintptr_t)(frame + 2) || !more))
            overrun(pc, format("a write of %u bytes beyond the local variables of its function", size));
    } while (more);
}

// The lane that stands for those that have converged.
inline unsigned thread_together() { return running.rank * block_stride + running.together_warp * warp_size + __builtin_ctz(running.together_lanes); }

// A register of the sums of products that its warp has not waited for (bulk.cpp).
__attribute__((noinline)) void note_sum(const Site &site, Operation operation, uintptr_t address, unsigned size) {
    const char *place = nullptr;
    int line = 0;
    if (!is_sum_of_product(address, place, line) || !watches("racecheck")) return;
    report(findings(), "racecheck", "race with a product", site.pc, running.thread, nullptr, address, size,
           format("a register of the sums of a wgmma (line %d) is %s before the warp has waited for it: the product is computed later", line,
                  operation == load ? "read" : "written"),
           "put wgmma.commit_group behind the products, and wgmma.wait_group in front of the first use of their sums");
}

// Of a variable in the local memory of another thread: the address means another one on a GPU.
__attribute__((noinline)) void check_local(const Site &site, Operation operation, uintptr_t address, unsigned size) {
    if (UNLIKELY(computes_products)) note_sum(site, operation, address, size);
    bool another = in_stack_of_another(address);
    if (another && watches("memcheck"))
        report(findings(), "memcheck", "local memory of another thread", site.pc, running.thread, nullptr, address, size,
               "a local variable of another thread: each thread has its own local memory, in which the address means something else");
    if (LIKELY(!keeps_returns || operation == load)) return;
    if (another) refuse(site.pc, operation, address, size, false);
    keep_returns(site.pc, operation, address, size);
}

// An access that one lane makes for all; the lane that it belongs to is not known.
__attribute__((noinline)) void check_together(uintptr_t address, unsigned size, Operation operation, bool reads) {
    if (running.together == 1) return;
    unsigned index = locate(running.together - running.text_begin, address, size, operation);
    const Site &site = places.sites[index];
    if (site.space == unwatched_space || site.space == local_space || !running.examines) return;
    examine(index, address, size, thread_together(), reads, false);
}

// The access is not in a kernel, or the launch was cancelled.
__attribute__((noinline)) void not_checked(uintptr_t at, uintptr_t address, unsigned size, bool reads, bool strong) {
    if (at < running.text_bytes) leave_cancelled();
    if (runs_ahead) run_ahead(address, size, reads, strong, (void *)(at + running.text_begin));
    if (follows_host && !running.copy_bytes) follow_host(address, size, reads);
}

// An array of the thread is updated, as in sums[i] += x: its element is read, and then written before another one is read. If it
// still has the pattern with which the compiler fills variables without a value (toolchain.FILL), nothing has set it.
template <Operation operation> void update_local(const Site &site, uintptr_t address, unsigned size) {
    constexpr unsigned char pattern = 0xfe;
    static const char unset[16] = {(char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern,
                                   (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern, (char)pattern};
    if (operation == load) {
        running.unset_local = !running.copy_bytes && size <= 8 && !memcmp((const void *)address, unset, size) ? address : 0;
        running.unset_thread = running.thread;
    } else if (UNLIKELY(running.unset_local)) {
        if (running.unset_local == address && running.unset_thread == running.thread)
            report(findings(), "initcheck", "uninitialized variable", site.pc, running.thread, nullptr, address, size,
                   "an element of a local array is updated, and nothing has set it: give the array a value where it is declared, as in "
                   "float sums[4] = {}");
        running.unset_local = 0;
    }
}

template <Operation operation, bool keep = false, bool reads = operation != store, bool strong = operation == atomic>
inline __attribute__((always_inline)) void access(void *pointer, unsigned size, void *from, bool logged = false) {
    uintptr_t at = (uintptr_t)from - running.text_begin, address = (uintptr_t)pointer;
    if (UNLIKELY(at >= running.checked_bytes)) return not_checked(at, address, size, reads, strong || operation == atomic);
    if (running.counts && !logged) {
        if (running.together) note_together(address, size, operation, keep);
        else note(dynamic_piece(at, operation, size, keep), address, 1);
    }
    if (!running.checks) return;
    if (UNLIKELY(running.steps)) note_step(at, address, size, operation);
    if (UNLIKELY(running.together)) return check_together(address, size, operation, reads);
    unsigned index = places.site_at[at];
    const Site *site = &places.sites[index];
    if (UNLIKELY(address - site->low > site->span || !index)) {
        index = locate(at, address, size, operation);
        if (!index) return;
        site = &places.sites[index];
    }
    if (UNLIKELY(address & (size - 1)) && site->space < local_space) refuse(site->pc, operation, address, size, true);
    if (UNLIKELY(site->space >= local_space)) {
        if (site->space != local_space) return;
        check_local(*site, operation, address, size);
        if (running.initcheck && size >= 4) update_local<operation>(*site, address, size);
    } else if (running.examines) {
        examine(index, address, size, running.thread, reads, strong);
    }
}

// Longer than a register: accesses of 16 bytes and smaller ones for the rest, as a GPU's compiler makes them.
template <Operation operation, bool strong = false> void access_range(char *address, size_t bytes, void *from, bool logged = false) {
    size_t step = 16;
    while ((uintptr_t)address % step || bytes % step) step /= 2;
    running.copy_low = (uintptr_t)address;
    running.copy_bytes = bytes;
    running.copies++;
    for (size_t at = 0; at < bytes; at += step) access<operation, true, operation != store, strong>(address + at, step, from, logged);
    running.copy_bytes = 0;
}

// For copies of structs, and for what the kernel copies itself, the compilers call the C library, here __tsan_mem*. Of a
// struct g++ tells before, with the functions _range: that is one access, not two.
struct Told {
    const void *start;
    size_t bytes;
};
thread_local Told told_load, told_store;

template <Operation operation> void copied(const void *start, size_t bytes, void *from) {
    Told &told = operation == load ? told_load : told_store;
    if (told.start != start || told.bytes != bytes) access_range<operation>((char *)start, bytes, from);
    told = {};
}

// The results of a function at addresses: those that are not local variables, which a GPU has in registers.
template <class... T> void stored(void *from, T *...results) {
    Range stacks;
    ((in_stacks((uintptr_t)results, stacks) ? void() : copied<store>(results, sizeof *results, from)), ...);
}

// A thread may read until another one writes there (spins.cpp).
void maybe_yield(void *from) {
    constexpr unsigned many = 512;                   // the lane's log is not full before
    if (UNLIKELY(paused) && !in_kernel(from)) {
        static unsigned reads = 0;
        if (++reads % many == 0) let_kernel_run();
        return;
    }
    if (++running.volatile_reads < many || !in_kernel(from) || running.together) return;
    running.volatile_reads = 0;
    hostcuda::follow(hostcuda::let_others_run());
}

void check_only(void *pointer, unsigned size, void *from) {
    uintptr_t at = (uintptr_t)from - running.text_begin;
    if (at < running.text_bytes && running.checks) locate(at, (uintptr_t)pointer, size, load);
    if (at >= running.text_bytes && runs_ahead) run_ahead((uintptr_t)pointer, size, true, true, from);
    if (at >= running.text_bytes && UNLIKELY(paused)) maybe_yield(from);
}

}  // namespace
}  // namespace check

using namespace check;

namespace hostcuda {
EXPORT void missing_source(int lane, int source) {
    if (!watches("synccheck") || running.together < 2) return;
    unsigned thread = running.rank * block_stride + running.together_warp * warp_size + lane;
    report(findings(), "synccheck", "absent lane", (uint32_t)(running.together - running.module->base), thread, nullptr, 0, 0,
           format("a shuffle reads from lane %d, which does not execute it: its value is undefined", source));
}
}  // namespace hostcuda

extern "C" {
EXPORT void hc_keep_returns() { keeps_returns = true; }
#define HOOKS(size)                                                                                              \
    EXPORT void __tsan_read##size(void *p) { access<load>(p, size, FROM, logged()); }                            \
    EXPORT void __tsan_write##size(void *p) { access<store>(p, size, FROM, logged()); }                          \
    EXPORT void __tsan_volatile_read##size(void *p) {                                                            \
        maybe_yield(FROM);                                                                                       \
        access<load, true, true, true>(p, size, FROM, logged());                                                 \
    }                                                                                                            \
    EXPORT void __tsan_volatile_write##size(void *p) { access<store, true, false, true>(p, size, FROM, logged()); } \
    EXPORT void __tsan_unaligned_read##size(void *p) { access_range<load>((char *)p, size, FROM); }              \
    EXPORT void __tsan_unaligned_write##size(void *p) { access_range<store>((char *)p, size, FROM); }            \
    EXPORT void __tsan_unaligned_volatile_read##size(void *p) { access_range<load, true>((char *)p, size, FROM); }     \
    EXPORT void __tsan_unaligned_volatile_write##size(void *p) { access_range<store, true>((char *)p, size, FROM); }
HOOKS(1) HOOKS(2) HOOKS(4) HOOKS(8) HOOKS(16)
// Of a struct of 16 bytes that need not be at a multiple of 16 (check/instrument.py).
EXPORT void __tsan_loose_read16(void *p) { access_range<load>((char *)p, 16, FROM, logged()); }
EXPORT void __tsan_loose_write16(void *p) { access_range<store>((char *)p, 16, FROM, logged()); }
EXPORT void __tsan_read_range(void *p, size_t bytes) {
    access_range<load>((char *)p, bytes, FROM);
    told_load = {p, bytes};
}
EXPORT void __tsan_write_range(void *p, size_t bytes) {
    access_range<store>((char *)p, bytes, FROM);
    told_store = {p, bytes};
}
EXPORT void *__tsan_memcpy(void *to, const void *from, size_t bytes) {
    if (UNLIKELY(follows_host) && !in_kernel(FROM)) follow_host_copy((uintptr_t)to, (uintptr_t)from, bytes);
    copied<load>(from, bytes, FROM);
    copied<store>(to, bytes, FROM);
    return memmove(to, from, bytes);
}
EXPORT void *__tsan_memmove(void *to, const void *from, size_t bytes) {
    if (UNLIKELY(follows_host) && !in_kernel(FROM)) follow_host_copy((uintptr_t)to, (uintptr_t)from, bytes);
    copied<load>(from, bytes, FROM);
    copied<store>(to, bytes, FROM);
    return memmove(to, from, bytes);
}
EXPORT void *__tsan_memset(void *to, int value, size_t bytes) {
    copied<store>(to, bytes, FROM);
    return memset(to, value, bytes);
}
// Functions of the C library with results at addresses.
EXPORT float __tsan_frexpf(float x, int *exponent) { return stored(FROM, exponent), frexpf(x, exponent); }
EXPORT double __tsan_frexp(double x, int *exponent) { return stored(FROM, exponent), frexp(x, exponent); }
EXPORT float __tsan_modff(float x, float *whole) { return stored(FROM, whole), modff(x, whole); }
EXPORT double __tsan_modf(double x, double *whole) { return stored(FROM, whole), modf(x, whole); }
EXPORT float __tsan_remquof(float x, float y, int *quotient) { return stored(FROM, quotient), remquof(x, y, quotient); }
EXPORT double __tsan_remquo(double x, double y, int *quotient) { return stored(FROM, quotient), remquo(x, y, quotient); }
EXPORT void __tsan_sincosf(float x, float *sine, float *cosine) { stored(FROM, sine, cosine), sincosf(x, sine, cosine); }
EXPORT void __tsan_sincos(double x, double *sine, double *cosine) { stored(FROM, sine, cosine), sincos(x, sine, cosine); }
// -fsanitize=alignment: a pointer that is not aligned for its type. Called before the access. And, without an alignment,
// -fsanitize=object-size: a pointer out of the variable that it is derived from.
struct Mismatch {
    const char *file;
    uint32_t line, column;
    const void *type;
    uint8_t log_alignment, kind;                     // kind 1: a store
};
EXPORT void __ubsan_handle_type_mismatch_v1(Mismatch *what, uintptr_t address) {
    uintptr_t at = (uintptr_t)FROM - running.text_begin;
    if (at >= running.text_bytes || !address) return;  // null: reported at the access
    if (!what->log_alignment)
        overrun((uint32_t)(running.text_begin + at - running.module->base),
                "an address is outside of the variable that it is derived from");
    else refuse((uint32_t)(running.text_begin + at - running.module->base), what->kind == 1 ? store : load, address,
           (size_t)1 << what->log_alignment, true);
}
// -fsanitize=bounds: an index beyond its array, which is local unless the line is 0 (bounds.py).
struct OutOfBounds {
    const char *file;
    uint32_t line, column;
    const struct { uint16_t kind, bits; char name[1]; } *array, *index;   // bits: whether it is signed, 2 log2 of the size
};
EXPORT void __ubsan_handle_out_of_bounds(OutOfBounds *what, intptr_t value) {
    uintptr_t at = (uintptr_t)FROM - running.text_begin;
    if (at >= running.text_bytes || !what->line) return;
    int64_t index = value;
    unsigned unused = 64 - (1u << (what->index->bits >> 1));
    if (what->index->bits & 1) index = (int64_t)((uint64_t)index << unused) >> unused;
    overrun((uint32_t)(running.text_begin + at - running.module->base),
            format("index %ld is outside of %s array, %s", (long)index, keeps_returns ? "its" : "a local", what->array->name));
}
EXPORT void hostcuda_reads(void *p, size_t bytes) { access_range<load>((char *)p, bytes, FROM); }
EXPORT void hostcuda_writes(void *p, size_t bytes) { access_range<store>((char *)p, bytes, FROM); }
// Copies of a thread in the background (async.h).
EXPORT void hostcuda_copy_begins(const void *to, size_t bytes) { begin_copy(running.thread, (uintptr_t)to, bytes); }
EXPORT void hostcuda_copies_committed() { commit_copies(running.thread); }
EXPORT void hostcuda_copies_awaited(size_t prior) { await_copies(running.thread, prior); }
// A barrier in the kernel's memory (mbarrier.h) is made, or a thread uses it. These accesses are not counted.
EXPORT void hostcuda_barrier_made(void *p) { access<store>(p, 8, FROM, true); }
EXPORT void hostcuda_barrier_used(void *p) { access<load>(p, 8, FROM, true); }
EXPORT void hostcuda_barrier_counts(void *p) {
    mark_bulk("a bulk copy");
    access<load>(p, 8, FROM, true);
    mark_bulk(nullptr);
}
EXPORT void hostcuda_cluster_fence() {
    if (running.racecheck && running.blocks > 1) fence_for_cluster(running.thread);
}
// Programmatic launches.
EXPORT void hostcuda_grid_wait() {
    if (running.racecheck) wait_for_grids(running.thread);
}
EXPORT void hostcuda_grid_launch_dependents() {
    if (running.racecheck) launch_dependents(running.thread);
}
// Bulk copies (mbarrier.h). They are not counted, because they make no requests of a warp.
EXPORT void hostcuda_bulk_reads(const hostcuda::Piece *pieces, unsigned count, const char *reader) {
    mark_bulk(reader);
    bool together = running.together > 1;
    unsigned thread = together ? thread_together() : running.thread;
    uint32_t pc = (uint32_t)((together ? running.together : (uintptr_t)FROM) - running.module->base);
    for (unsigned i = 0; i < count; i++) {
        if (!pieces[i].from) continue;
        access_range<load>((char *)pieces[i].from, pieces[i].bytes, FROM, true);
        note_bulk_reads(thread, (uintptr_t)pieces[i].from, pieces[i].bytes, pc);
    }
    mark_bulk(nullptr);
}
EXPORT unsigned hostcuda_bulk_writes(const hostcuda::Piece *pieces, unsigned count, bool combines, const char *writer) {
    mark_bulk(writer);
    for (unsigned i = 0; i < count; i++) {
        if (combines) access_range<atomic, true>(pieces[i].to, pieces[i].bytes, FROM, true);
        else access_range<store>(pieces[i].to, pieces[i].bytes, FROM, true);
        note_bulk_write((uintptr_t)pieces[i].to, pieces[i].bytes);
    }
    mark_bulk(nullptr);
    return begin_bulk_copy();
}
EXPORT void hostcuda_tile_copied(const void *to, size_t bytes, unsigned swizzle, const char *file, int line) {
    note_tile((uintptr_t)to, bytes, swizzle, file, line);
}
EXPORT void hostcuda_box_outside(const char *what, const char *file, int line) {
    add_note("box outside", file, line, 0, format("%s: the whole box is outside of the tensor, so a load writes zeros and a store nothing. Are the coordinates in "
                                   "order? The first is along the dimension whose elements lie side by side", what));
}
EXPORT void hostcuda_tile_used(const void *from, size_t bytes, unsigned swizzle, const char *file, int line) {
    bool together = running.together > 1;
    unsigned thread = together ? thread_together() : running.thread;
    compare_tile(thread, (uintptr_t)from, swizzle, (uint32_t)((together ? running.together : (uintptr_t)FROM) - running.module->base));
    compare_stores((uintptr_t)from, bytes, swizzle, file, line);
}
EXPORT void hostcuda_proxy_fence(bool shared, bool global) {
    if (running.racecheck) fence_proxies(running.thread, shared, global);
}
// Textures and surfaces (texture.h), at the place in the kernel that has called its functions.
EXPORT void hostcuda_texel_read(void *p, size_t bytes, void *from) {
    access<load>(p, bytes, from, true);
    if (running.racecheck && in_kernel(from)) read_texel((uintptr_t)from - running.text_begin, (uintptr_t)p);
}
EXPORT void hostcuda_texel_written(void *p, size_t bytes, void *from) { access<store>(p, bytes, from, true); }
EXPORT void __sanitizer_cov_trace_pc() {
    uintptr_t at = (uintptr_t)FROM - running.text_begin;
    if (at < running.text_bytes && running.counts && !running.together && !logged()) note(dynamic_piece(at, load, 0, false), 0, 0);
}
// CUDA's atomic functions (atomic.h): start, end, and use of the old value.
struct Old {
    uint64_t value, place;
};
EXPORT Old hostcuda_atomic_begin(void *p, size_t bytes, bool reads, bool always_atom, bool of_block) {
    uintptr_t at = (uintptr_t)FROM - running.text_begin;
    running.of_block = of_block;
    if (always_atom && at < running.text_bytes) note_lock(running.thread);
    if (reads) access<atomic, true, true>(p, bytes, FROM);
    else access<atomic, true, false>(p, bytes, FROM);
    running.of_block = false;
    Old old{0, 0};
    memcpy(&old.value, p, bytes);
    if (running.counts && at < running.text_bytes) {
        const Range *range = find((uintptr_t)p);
        old.place = note_atomic(at, bytes, always_atom) | (uint64_t)(range && range->space == global_space && range->bytes == bytes) << 62;
    }
    return old;
}
EXPORT void hostcuda_atomic_end(void *p, uint64_t value, size_t bytes) { memcpy(p, &value, bytes); }
EXPORT uint64_t hostcuda_atomic_result(uint64_t value, uint64_t place) {
    note_result(running.thread);
    if (place >> 63) note_integer(value);
    if (place >> 62 & 1) count_counter();
    place &= ~0ull >> 2;
    if (place) note_used(place);
    return value;
}
EXPORT void __tsan_init() {}
EXPORT void __tsan_func_entry(void *) {}
EXPORT void __tsan_func_exit() {}
EXPORT void __tsan_vptr_update(void **p, void *) { access<store>(p, sizeof *p, FROM); }
EXPORT void __tsan_vptr_read(void **) {}
EXPORT void __tsan_atomic_thread_fence(int) {
    order_all(false);
    if (in_kernel(FROM)) note_fence(running.thread);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
EXPORT void __tsan_atomic_signal_fence(int) {
    if (in_kernel(FROM)) note_fence(running.thread);
}

// Each atomic operation of the host is a fence, too; for the thread's own block unless its order is relaxed.
static void order_host(int order, void *from) {
    order_all(true);
    if (order != __ATOMIC_RELAXED && in_kernel(from)) note_fence(running.thread);
}
// The load before a compare-and-swap loop belongs to it and is not counted; only the successful swap is counted.
#define FETCH(bits, T, name, builtin, reads)                                                                     \
    EXPORT T __tsan_atomic##bits##_##name(volatile T *p, T value, int order) {                                         \
        order_host(order, FROM);                                                                                         \
        access<atomic, false, reads>((void *)p, sizeof(T), FROM);                                                \
        return builtin(p, value, __ATOMIC_SEQ_CST);                                                              \
    }
#define EXCHANGE(bits, T, name)                                                                                  \
    EXPORT int __tsan_atomic##bits##_compare_exchange_##name(volatile T *p, T *expected, T value, int order, int) {    \
        order_host(order, FROM);                                                                                         \
        access<atomic>((void *)p, sizeof(T), FROM);                                                              \
        return __atomic_compare_exchange_n(p, expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);       \
    }
#define ATOMICS(bits, T)                                                                                         \
    EXPORT T __tsan_atomic##bits##_load(const volatile T *p, int order) {                                              \
        order_host(order, FROM);                                                                                         \
        check_only((void *)p, sizeof(T), FROM);                                                                  \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                                             \
    }                                                                                                            \
    EXPORT void __tsan_atomic##bits##_store(volatile T *p, T value, int order) {                                       \
        order_host(order, FROM);                                                                                         \
        access<atomic, false, false>((void *)p, sizeof(T), FROM);                                                \
        __atomic_store_n(p, value, __ATOMIC_SEQ_CST);                                                            \
    }                                                                                                            \
    FETCH(bits, T, exchange, __atomic_exchange_n, false)                                                         \
    FETCH(bits, T, fetch_add, __atomic_fetch_add, true)                                                          \
    FETCH(bits, T, fetch_sub, __atomic_fetch_sub, true)                                                          \
    FETCH(bits, T, fetch_and, __atomic_fetch_and, true)                                                          \
    FETCH(bits, T, fetch_or, __atomic_fetch_or, true)                                                            \
    FETCH(bits, T, fetch_xor, __atomic_fetch_xor, true)                                                          \
    FETCH(bits, T, fetch_nand, __atomic_fetch_nand, true)                                                        \
    EXCHANGE(bits, T, strong) EXCHANGE(bits, T, weak)                                                            \
    EXPORT T __tsan_atomic##bits##_compare_exchange_val(volatile T *p, T expected, T value, int order, int) {          \
        order_host(order, FROM);                                                                                         \
        access<atomic>((void *)p, sizeof(T), FROM);                                                              \
        __atomic_compare_exchange_n(p, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);             \
        return expected;                                                                                         \
    }

ATOMICS(8, uint8_t) ATOMICS(16, uint16_t) ATOMICS(32, uint32_t) ATOMICS(64, uint64_t)
}
#endif
