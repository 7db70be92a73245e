// One thread, followed from statement to statement (the tool "step"). stops.py has inserted a call before each statement; for the
// chosen thread it keeps the bytes of the frame. hooks.cpp tells of its accesses to memory.
//
// Memory that a variable gets is filled with a pattern: the frame when its function begins, a variable of a block when the block
// begins, shared memory when a block of threads begins. Who follows the thread twice, with two patterns, sees which values have
// been set.
#ifdef HOSTCUDA_CHECK
#include "parts.h"
#include <string.h>
#include <sys/mman.h>

namespace check {
namespace {

enum Kind : uint32_t { statement, entered, began };  // a stop: keep the frame; fill new memory of a function; fill variables of a block

// As stepping.py writes it: what to do at a return address. Offsets are from the frame pointer.
struct Stop {
    uint32_t place;
    Kind kind;
    int32_t low;
    uint32_t bytes;
};

struct Event {
    uint32_t place, kind, bytes, space;              // kind: 0: a statement; else 1 + the operation
    uint64_t where;                                  // frame pointer, or address
    uint64_t base, range_bytes;                      // of the allocation
    const char *name;                                // of the variable, or null
};

constexpr size_t log_bytes = 64 << 20;

struct Steps {
    bool on = false, began = false, ended = false;   // in this launch; its block; it and another block has begun
    unsigned char pattern = 0;
    Index block{}, index{};
    unsigned thread = 0;                             // its number in the block
    int launches_before = 0;
    std::vector<Stop> stops;                         // by place
    std::vector<const Stop *> stop_at;               // offset in the code -> the first of its stops, or null
    const Stop **first_at = nullptr, *last = nullptr;   // of these two
    char *log = nullptr;
    size_t used = 0;
    Event *pending[64];                              // stores of the running statement: their values are known at its end
    unsigned pending_count = 0;
} steps;

// The followed code may be using any register. What runs between its statements leaves those of vectors alone, calls no function of a
// library, and restores the others.
#if defined(__x86_64__) && !defined(__clang__)
#define PLAIN __attribute__((target("general-regs-only")))
#define RESTORES __attribute__((no_caller_saved_registers))
#else                                                // no code calls it there: stepping.py says so
#define PLAIN
#define RESTORES
#endif

PLAIN void copy(void *to, const void *from, size_t bytes) {
#ifdef __x86_64__
    asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
#endif
}

PLAIN void fill(void *to, size_t bytes) {
#ifdef __x86_64__
    asm volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(steps.pattern) : "memory");
#endif
}

PLAIN Event *add(const Event &event, const void *data) {
    size_t size = sizeof event + (event.bytes + 7) / 8 * 8;
    if (steps.used + size > log_bytes) return nullptr;
    Event *at = (Event *)(steps.log + steps.used);
    copy(at, &event, sizeof event);
    copy(at + 1, data, event.bytes);
    steps.used += size;
    return at;
}

PLAIN void settle_stores() {
    for (unsigned i = 0; i < steps.pending_count; i++)
        copy(steps.pending[i] + 1, (void *)steps.pending[i]->where, steps.pending[i]->bytes);
    steps.pending_count = 0;
}

PLAIN bool is_followed() {
    const Index &at = running.block, &block = steps.block;
    return steps.on && running.thread % block_stride == steps.thread && at.x == block.x && at.y == block.y && at.z == block.z && !running.together;
}

}  // namespace

void begin_steps() {
    const Index &size = running.launch->block, &at = steps.index;
    steps.on = !steps.stops.empty() && steps.launches_before-- == 0 && at.x < size.x && at.y < size.y && at.z < size.z;
    steps.thread = at.x + size.x * (at.y + size.y * at.z);
    steps.pending_count = 0;
    steps.began = steps.ended = false;
    if (!steps.on) return;
    if (!steps.log) steps.log = (char *)mmap(nullptr, log_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (steps.log == MAP_FAILED) steps.log = nullptr, steps.on = false;
    steps.stop_at.assign(running.text_bytes, nullptr);
    for (size_t i = steps.stops.size(); i-- > 0;) {
        uintptr_t at = running.module->base + steps.stops[i].place - running.text_begin;
        if (at < running.text_bytes) steps.stop_at[at] = &steps.stops[i];
    }
    steps.first_at = steps.stop_at.data();
    steps.last = steps.stops.data() + steps.stops.size();
}

void step_block(bool returns) {
    if (!steps.on) return;
    const Index &at = running.block, &block = steps.block;
    bool here = at.x == block.x && at.y == block.y && at.z == block.z;
    if (here && !returns) fill_shared_memory(steps.pattern);
    steps.ended = steps.began && !here && !running.launch->cooperative && running.blocks == 1;
    steps.began |= here;
}

void step_away() { settle_stores(); }

void note_step(uintptr_t at, uintptr_t address, unsigned bytes, Operation operation) {
    if (steps.ended) leave_launch("the thread was followed to its end");
    if (!is_followed()) return;
    if (steps.pending_count == sizeof steps.pending / sizeof *steps.pending) settle_stores();
    const Range *range = find(address);
    if (!range || range->space == unwatched_space || range->space == local_space) return;
    Event event{(uint32_t)(running.text_begin + at - running.module->base), 1u + operation, bytes, range->space,
                address, range->low, range->bytes, range->name};
    Event *added = add(event, (void *)address);
    if (!added || operation == load) return;
    for (unsigned i = 0; i < steps.pending_count; i++)   // a statement that stores twice in one place
        if (const Event &other = *steps.pending[i]; address - other.where < other.bytes || other.where - address < bytes) settle_stores();
    steps.pending[steps.pending_count++] = added;
}

}  // namespace check

using namespace check;

extern "C" {
// In the launch that comes after so many others.
EXPORT void hc_step(const unsigned block[3], const unsigned thread[3], int launches_before, unsigned pattern, const void *stops, size_t count) {
    steps.block = {block[0], block[1], block[2]};
    steps.index = {thread[0], thread[1], thread[2]};
    steps.used = 0;
    steps.launches_before = launches_before;
    steps.pattern = (unsigned char)pattern;
    steps.stops.assign((const Stop *)stops, (const Stop *)stops + count);
}

// The log of the last launch that was followed; returns its bytes.
EXPORT size_t hc_step_log(const char **log) {
    *log = steps.log;
    return steps.used;
}

// Called before each statement.
EXPORT PLAIN RESTORES void hostcuda_step() {
    if (!is_followed()) return;
    settle_stores();
    uintptr_t at = (uintptr_t)__builtin_return_address(0) - running.text_begin;
    if (at >= running.text_bytes) return;
    uintptr_t *own = (uintptr_t *)__builtin_frame_address(0);   // the caller's frame pointer, the return address, its flags
    const Stop *stop = steps.first_at[at];
    for (; stop && stop < steps.last && stop->place == (uint32_t)(running.text_begin + at - running.module->base); stop++) {
        char *low = stop->kind == entered ? (char *)(own + 3) : (char *)own[0] + stop->low;
        if (stop->kind != statement) {
            fill(low, stop->bytes);
        } else {
            Event event{stop->place, 0, stop->bytes, 0, own[0], 0, 0, nullptr};
            add(event, low);
        }
    }
}
}
#endif
