// The engine in WebAssembly: what fibers.cpp, shared.cpp, memory.cpp, heap.cpp, module.cpp, pool.cpp, spins.cpp and signals.cpp
// are elsewhere.
//
// A module of kernels is linked with the runtime: one WebAssembly module, with a memory of its own. There is one worker, and a
// launch returns when it has ended. JavaScript (wasm/js/instance.mjs) calls the functions hc_*, and provides two.
#include "fibers.h"
#include "parts.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TO_JS extern "C" EXPORT
#define FROM_JS(name) extern "C" __attribute__((import_module("hostcuda"), import_name(#name)))
#define OF_BINARYEN(name) extern "C" __attribute__((import_module("asyncify"), import_name(#name)))

FROM_JS(enter) void js_enter();            // calls hc_run; returns when that has ended, has left or has trapped
FROM_JS(leave) void js_leave();            // throws

extern "C" uintptr_t hostcuda_site;
uintptr_t hostcuda_site;                   // the place in the kernel's code that called the runtime last (wasm/ir.py)

// ---- Text -------------------------------------------------------------------------------------------------------------

static std::string last_error, described;

std::string format(const char *pattern, ...) {
    char text[1200];
    va_list values;
    va_start(values, pattern);
    vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    return text;
}

double now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

TO_JS const char *hc_error() { return last_error.c_str(); }

// The C++ library has no exceptions here; thread loops and kernels throw none.
extern "C" void *__cxa_allocate_exception(size_t) { hostcuda::fail("an exception was thrown"); }
extern "C" void __cxa_throw(void *, void *, void (*)(void *)) { hostcuda::fail("an exception was thrown"); }

// ---- Contexts ---------------------------------------------------------------------------------------------------------

OF_BINARYEN(start_unwind) void asyncify_start_unwind(void *);
OF_BINARYEN(stop_unwind) void asyncify_stop_unwind();
OF_BINARYEN(start_rewind) void asyncify_start_rewind(void *);
OF_BINARYEN(stop_rewind) void asyncify_stop_rewind();

asm(".globaltype __stack_pointer, i32\n");
static inline __attribute__((always_inline)) void *stack_pointer() {
    void *p;
    asm volatile("global.get __stack_pointer\n\tlocal.set %0" : "=r"(p));
    return p;
}
static inline __attribute__((always_inline)) void set_stack_pointer(void *p) {
    asm volatile("local.get %0\n\tglobal.set __stack_pointer" : : "r"(p));
}

constexpr size_t saved_bytes = 16 << 10, c_stack_bytes = 48 << 10, fiber_bytes = saved_bytes + c_stack_bytes;
constexpr uint64_t canary = 0x6b63617473666f65;   // at the end of each stack

static struct {
    Context *next;             // that runs next
    bool inside, rewinding, unwinding;
} contexts;

static uint64_t &end_of(const Context &context) { return *(uint64_t *)context.end; }

namespace hostcuda {

// The locals are saved from `top - fiber_bytes` upwards; the stack grows from `top` downwards.
void make_context(Context &context, char *top, size_t, void (*entry)()) {
    context = {top - fiber_bytes, top - c_stack_bytes, top, entry, false};
    end_of(context) = canary;
}

__attribute__((noinline)) void switch_context(Context *from, Context *to) {
    if (contexts.rewinding) {
        contexts.rewinding = false;
        asyncify_stop_rewind();
        return;
    }
    if (from == to) return;
    contexts.next = to;
    if (!contexts.inside) {
        contexts.inside = true;
        js_enter();
        contexts.inside = false;
        return;
    }
    if (!to->entry) {                       // the block has ended, or is left
        if (from->entry) from->started = false;
        js_leave();
    }
    contexts.unwinding = true;
    from->stack = stack_pointer();
    asyncify_start_unwind(from);
}

}  // namespace hostcuda

// Run one context after the other, until one leaves.
TO_JS void hc_run() {
    for (;;) {
        Context &context = *contexts.next;
        set_stack_pointer(context.stack);
        if (context.started) {
            contexts.rewinding = true;
            asyncify_start_rewind(&context);
        } else {
            context.next = (char *)context.end - saved_bytes;
        }
        context.started = true;
        context.entry();
        contexts.unwinding = false;
        asyncify_stop_unwind();
        if (end_of(context) != canary) {
            block->signal = SIGSEGV;
            block->fault_address = (const char *)context.end;
            leave(*block);
        }
    }
}

// A kernel has trapped: as the signal of that number.
TO_JS void hc_trapped(int signal) {
    block->failed = true;
    block->signal = signal;
    block->access = Access::unknown;
    block->fault_address = nullptr;
}

// ---- Fibers -----------------------------------------------------------------------------------------------------------

bool add_fibers(Block &b) {
    char *stacks = (char *)aligned_alloc(64, slab_fibers * fiber_bytes);
    if (!stacks) return false;
    Fiber *fibers = new Fiber[slab_fibers]();
    Wait *waits = new Wait[slab_fibers]();
    for (unsigned i = slab_fibers; i-- > 0;) {
        fibers[i].top = stacks + (i + 1) * fiber_bytes;
        fibers[i].wait = &waits[i];
        begin_anew(b, fibers[i]);
    }
    b.slabs.push_back({stacks, fibers, waits});
    return true;
}

// Thread loops do not wait; they have a large stack for the variables of all threads.
void prepare_loops(Block &b) {
    constexpr size_t bytes = 16 << 20;
    if (!b.loops.top) b.loops.top = (char *)aligned_alloc(64, bytes) + bytes;
    b.loops.context = {b.loops.top - bytes, b.loops.top - bytes, b.loops.top, loops_main, false};
    end_of(b.loops.context) = canary;
}

void begin_spinning(Spinning &) {}
void look_at(Block &, Fiber &) {}
void after_signal(const Block &) {}
size_t places_left(const Block &, uintptr_t *places, size_t) {
    places[0] = hostcuda_site;
    return hostcuda_site != 0;
}
bool in_stack_of_another(uintptr_t) { return false; }

bool in_stacks(uintptr_t address, Range &range) {
    for (Slab &slab : block->slabs)
        for (auto [low, bytes, space] : {std::tuple{(uintptr_t)slab.stacks, slab_fibers * fiber_bytes, local_space},
                                         std::tuple{(uintptr_t)slab.waits, slab_fibers * sizeof(Wait), unwatched_space}})
            if (address - low < bytes) return range = {low, bytes, space, nullptr, nullptr, nullptr}, true;
    return false;
}

// ---- Device memory ----------------------------------------------------------------------------------------------------

constexpr size_t red_zone = checking ? 1 << 20 : 4096;   // a large one finds far overruns
constexpr size_t marked = 256;                           // bytes of a red zone that are filled and checked
constexpr unsigned char red = 0xa5;

struct Allocation {
    char *base;
    size_t bytes;
    uint8_t *written;          // one byte per byte: it was written; null without initcheck
};
static std::vector<Allocation> allocations;

char *map_memory(size_t bytes) { return (char *)calloc(bytes, 1); }
void *allocate_for_host(size_t bytes) { return malloc(bytes); }
void *calloc_if_there(size_t count, size_t bytes) { return calloc(count, bytes); }
int hc_mem_info(size_t *free_bytes, size_t *total) {
    *free_bytes = *total = 1 << 30;
    return HC_OK;
}

TO_JS char *hc_alloc(size_t bytes) {
    char *whole = (char *)aligned_alloc(256, round_up(bytes + 2 * red_zone, 256));
    if (!whole) return nullptr;
    char *base = whole + red_zone;
    memset(base - marked, red, marked);
    memset(base, 0xff, bytes);
    memset(base + bytes, red, marked);
    allocations.push_back({base, bytes, watches("initcheck") ? (uint8_t *)calloc(bytes, 1) : nullptr});
    return base;
}

// Writes just outside of an allocation have changed its marks.
static std::string damage() {
    for (Allocation &a : allocations)
        for (size_t i = 0; i < marked; i++) {
            bool before = (unsigned char)a.base[-1 - (ptrdiff_t)i] != red;
            if (!before && (unsigned char)a.base[a.bytes + i] == red) continue;
            memset(a.base - marked, red, marked);
            memset(a.base + a.bytes, red, marked);
            std::string away = i ? format("%zu bytes ", i + before) : "just ";
            return format("a write %s%s an allocation of %zu bytes: %s? A check names the line", away.c_str(),
                          before ? "before" : "past the end of", a.bytes,
                          before ? "is an index negative" : "is a guard such as `if (i < n)` missing");
        }
    return "";
}

// The host has written there.
TO_JS void hc_written(const char *at, size_t bytes) {
    for (Allocation &a : allocations)
        if (a.written && at >= a.base && at < a.base + a.bytes) memset(a.written + (at - a.base), 1, bytes);
}

std::string describe_address(const void *) { return "which is outside of all memory"; }

#ifdef HOSTCUDA_CHECK
void visit_allocations(void (*visit)(const char *base, size_t bytes, uint8_t *written, size_t zone, bool of_host)) {
    for (Allocation &a : allocations) visit(a.base, a.bytes, a.written, 0, false);
}
bool is_host_memory(const void *, size_t, bool) { return false; }
void visit_mapped(void (*)(const char *, size_t)) {}
bool was_freed(const void *, uintptr_t &, size_t &) { return false; }
volatile bool paused = false;
void pause_kernel(const volatile bool *) {}   // a page has no host that goes on
void let_kernel_run() {}

namespace check {   // the tool "step" needs registers
void begin_steps() {}
void step_block(bool) {}
void step_away() {}
void note_step(uintptr_t, uintptr_t, unsigned, Operation) {}
}  // namespace check
#endif

// ---- Shared memory ----------------------------------------------------------------------------------------------------

extern "C" {
extern char __start_hc_shared[] __attribute__((weak)), __stop_hc_shared[] __attribute__((weak));
// In check mode, the variables of the kernels' source (wasm/ir.py).
extern const hc_variable hostcuda_variables[] __attribute__((weak));
extern const size_t hostcuda_variable_count __attribute__((weak)), hostcuda_site_count __attribute__((weak));
}

static char *dynamic_memory;
static size_t launched_bytes;      // of it, that the launch has

void *fill_shared(SharedMemory &memory, const hc_static &shared, size_t dynamic_bytes) {
    memory.static_end = __stop_hc_shared;
    if (shared.bytes) memset(__start_hc_shared, 0xff, shared.bytes);
    memory.arrays.clear();                       // those of check mode: without it their names are not known
    for (int i = 0; i < shared.count; i++)
        memory.arrays.push_back({shared.arrays[i].name, memory.static_end + shared.arrays[i].place, shared.arrays[i].bytes});
    if (!dynamic_memory) dynamic_memory = (char *)aligned_alloc(256, shared_limit + 2 * red_zone);
    char *base = dynamic_memory + red_zone;
    memset(base - marked, red, marked);
    memset(base, 0xff, dynamic_bytes);
    memset(base + dynamic_bytes, red, marked);
    launched_bytes = dynamic_bytes;
    return base;
}
void use_shared(const SharedMemory &) {}

// Only dynamic memory has margins here.
static bool is_red(const char *margin) {
    return std::all_of(margin, margin + marked, [](char byte) { return (unsigned char)byte == red; });
}
bool is_damaged(const SharedMemory &) {
    const char *base = dynamic_memory + red_zone;
    return launched_bytes && !(is_red(base - marked) && is_red(base + launched_bytes));
}
std::string describe_damage(const SharedMemory &) {
    const char *base = dynamic_memory + red_zone, *low = is_red(base - marked) ? base + launched_bytes : base - marked;
    const char *high = low + marked;
    while ((unsigned char)*low == red) low++;
    while ((unsigned char)high[-1] == red) high--;
    return format("a write to bytes %td to %td of dynamic shared memory, of which the launch has %zu bytes", low - base,
                  high - 1 - base, launched_bytes);
}
std::string describe_shared(const SharedMemory &, const char *) { return ""; }
std::string name_shared(const SharedMemory &memory, const char *address, size_t bytes) {
    std::string element = name_element(memory, address, bytes);
    return element.empty() ? "shared memory" : element;
}

namespace hostcuda {
EXPORT char space_of(const void *address) {
    auto at = (const char *)address;
    bool fixed = at >= __start_hc_shared && at < __stop_hc_shared;
    bool dynamic = dynamic_memory && at >= dynamic_memory && at < dynamic_memory + shared_limit + 2 * red_zone;
    for (const Slab &slab : block->slabs)
        if (at >= slab.stacks && at < slab.stacks + slab_fibers * fiber_bytes) return 'l';
    return fixed || dynamic ? 's' : 'g';
}
}  // namespace hostcuda

// ---- Kernels ----------------------------------------------------------------------------------------------------------

namespace hostcuda {
static std::vector<const Kernel *> &kernels() {
    static std::vector<const Kernel *> all;
    return all;
}
EXPORT void add_kernel(const Kernel *kernel) { kernels().push_back(kernel); }
}  // namespace hostcuda

// A list in JSON: name, bytes of the arguments, most threads, whether it runs as thread loops and why not, parameters.
TO_JS const char *hc_kernels() {
    described = "[";
    for (auto *k : hostcuda::kernels()) {
        described += format("%s{\"name\":\"%s\",\"bytes\":%d,\"threads\":%d,\"loops\":%s,\"why\":\"%s\",\"parameters\":[",
                            described.size() > 1 ? "," : "", k->name, k->packed_bytes, k->max_threads, k->loops ? "true" : "false",
                            k->why_fibers ? k->why_fibers : "");
        for (int i = 0; i < k->parameter_count; i++)
            described += format("%s[\"%c\",%d,%d]", i ? "," : "", k->parameters[i].kind, k->parameters[i].size, k->parameters[i].offset);
        described += "]}";
    }
    described += "]";
    return described.c_str();
}

// ---- Launches ---------------------------------------------------------------------------------------------------------

static WatchedModule watched;
static std::vector<hc_array> arrays;
static hc_static shared_memory;
static const volatile bool never = false;

static void prepare() {
    if (block) return;
    block = new Block();
    for (Warp &w : block->warps) w.meetings = nullptr;
    if (!add_fibers(*block)) abort();
    size_t count = &hostcuda_variable_count ? hostcuda_variable_count : 0;
    for (const hc_variable *v = hostcuda_variables; v < hostcuda_variables + count; v++)
        if (v->space == shared_space) arrays.push_back({v->name, nullptr, v->bytes, (char *)v->at - __stop_hc_shared, 0});
        else watch_variable(watched, *v);
    shared_memory = {arrays.data(), (int)arrays.size(), size_t(__stop_hc_shared - __start_hc_shared)};
}

// Whether it ended well; hc_error says what failed.
TO_JS bool hc_launch_and_wait(int number, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                                size_t dynamic_shared, const char *arguments) {
    prepare();
    const hostcuda::Kernel &k = *hostcuda::kernels()[number];
    Launch launch{};
    launch.kernel = k.name;
    if (k.cluster.x * k.cluster.y * k.cluster.z != 1) {
        last_error = std::string("kernel ") + k.name + ": clusters of several blocks are not available in a browser";
        return false;
    }
    launch.cluster = {1, 1, 1};
    launch.call = k.call;
    launch.loops = fits_loops(k.blocks, gx, bx, by * bz) ? k.loops : nullptr;
    launch.arguments = arguments;
    launch.arguments_bytes = k.packed_bytes;
    launch.grid = {gx, gy, gz};
    launch.block = {bx, by, bz};
    launch.dynamic_shared = dynamic_shared;
    launch.module = &watched;
    launch.text_end = &hostcuda_site_count ? hostcuda_site_count : 0;
    launch.shared = launch.fibers_shared = &shared_memory;
    begin_launch(*block, launch);
    bool good = true;
    for (unsigned z = 0; z < gz && good; z++)
        for (unsigned y = 0; y < gy && good; y++)
            for (unsigned x = 0; x < gx && good; x++) good = run_block(*block, {x, y, z}, &never);
    std::string error = good ? "" : error_of(*block), damaged = damage();   // which restores the marks
    watch_failure(error);
    good = error.empty();
    last_error = good ? damaged : error;
    if (good && !last_error.empty()) last_error = std::string("kernel ") + k.name + ": " + last_error;
    watch_end(good, good ? "" : last_error);
    return last_error.empty();
}

alignas(256) static char argument_bytes[4096];
TO_JS char *hc_arguments() { return argument_bytes; }
