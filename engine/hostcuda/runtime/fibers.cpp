// The stacks of a block's threads: mapped in groups, with guards between, and kept for the next blocks.
//
// A launch that fails is left by switching to the worker's own stack; the stacks of the fibers are then reused from their
// tops.
#include "fibers.h"
#include <new>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

bool add_fibers(Block &b) {
    size_t bytes = slab_fibers * stack_pitch;
    char *slab;
    if (checking) {
        if (!b.stacks) b.stacks = map_memory(most_slabs * bytes);
        slab = b.stacks && b.slabs.size() < most_slabs ? b.stacks + b.slabs.size() * bytes : nullptr;
    } else {
        slab = map_memory(bytes);
    }
    if (!slab) return false;
    madvise(slab, bytes, MADV_NOHUGEPAGE);
    Fiber *fibers = new Fiber[slab_fibers]();
    Wait *waits = new Wait[slab_fibers]();
    for (unsigned i = slab_fibers; i-- > 0;) {
        char *low = slab + i * stack_pitch;
        guard(low, guard_bytes);
        // Stacks that start at the same offset in a page use the same cache lines, so they start at 64 different
        // offsets.
        unsigned colour = (b.slabs.size() * slab_fibers + i) * 5 % 64;
        fibers[i].top = low + stack_pitch - colour * 64;
        fibers[i].wait = &waits[i];
        begin_anew(b, fibers[i]);
    }
    b.slabs.push_back({slab, fibers, waits});
    return true;
}

void prepare_loops(Block &b) { hostcuda::make_context(b.loops.context, b.loops.top, loops_bytes, loops_main); }

Block *new_block() {
    Block *b = new (std::nothrow) Block();
    char *loops = nullptr;
    try {
        if (b && map_shared(b->shared) && add_fibers(*b)) loops = map_memory(guard_bytes + loops_bytes);
    } catch (const std::bad_alloc &) {
    }
    if (!loops) {
        if (b) delete_block(b);
        return nullptr;
    }
    guard(loops, guard_bytes);
    b->loops.top = loops + guard_bytes + loops_bytes;
    prepare_loops(*b);
    for (Warp &w : b->warps) w.meetings = nullptr;
    pthread_sigmask(SIG_SETMASK, nullptr, &b->signals);
    block = b;
    return b;
}

void delete_block(Block *b) {
    for (Block *other : b->others) delete_block(other);
    for (Slab &slab : b->slabs) {
        munmap(slab.stacks, slab_fibers * stack_pitch);
        delete[] slab.fibers;
        delete[] slab.waits;
    }
    if (b->loops.top) munmap(b->loops.top - loops_bytes - guard_bytes, guard_bytes + loops_bytes);
    unmap_shared(b->shared);
    block = nullptr;
    delete b;
}

// Return the memory of each stack except for its first pages.
void trim_stacks(Block &b) {
    constexpr size_t keep = 4 * page;
    for (Block *other : b.others) trim_stacks(*other);
    for (Slab &slab : b.slabs)
        for (unsigned i = 0; i < slab_fibers; i++) {
            char *low = slab.stacks + i * stack_pitch + guard_bytes;
            madvise(low, stack_bytes - keep, MADV_DONTNEED);
        }
    if (b.loops.top) madvise(b.loops.top - loops_bytes, loops_bytes - keep, MADV_DONTNEED);
}

// Values on the thread's stack that point into the kernel's code are return addresses, the innermost first.
size_t places_left(const Block &b, uintptr_t *places, size_t most) {
    uintptr_t begin = b.launch->text_begin, size = b.launch->text_end - begin;
    size_t count = 0;
    if (b.left_at - begin < size) places[count++] = b.left_at + 1;   // not a return address but the faulting instruction
    uintptr_t lowest = (uintptr_t)hostcuda_turn.current->top - stack_bytes;
    auto word = (const uintptr_t *)((b.left_stack > lowest ? b.left_stack : lowest) & ~(uintptr_t)7);
    for (; word < (const uintptr_t *)hostcuda_turn.current->top && count < most; word++)
        if (*word - begin < size) places[count++] = *word;
    return count;
}

void after_signal(const Block &b) { pthread_sigmask(SIG_SETMASK, &b.signals, nullptr); }

namespace hostcuda {

EXPORT char space_of(const void *address) {
    auto at = (const char *)address;
    const SharedMemory &shared = block->shared;
    if (at >= shared.mapping && at < shared.mapping + shared.bytes) return 's';
    for (const Slab &slab : block->slabs)
        if (at >= slab.stacks && at < slab.stacks + slab_fibers * stack_pitch) return 'l';
    return 'g';
}

}  // namespace hostcuda

#ifdef HOSTCUDA_CHECK
// The stacks of the fibers, or what their threads wait for (lanes of a warp: for each other), if the address is there.
bool in_stacks(uintptr_t address, Range &range) {
    constexpr size_t bytes = most_slabs * slab_fibers * stack_pitch;
    if (address - (uintptr_t)block->stacks < bytes) {
        range = {(uintptr_t)block->stacks, bytes, local_space, nullptr, nullptr, nullptr};
        return true;
    }
    for (Slab &slab : block->slabs) {
        uintptr_t waits = (uintptr_t)slab.waits;
        if (address - waits >= slab_fibers * sizeof(Wait)) continue;
        range = {waits, slab_fibers * sizeof(Wait), unwatched_space, nullptr, nullptr, nullptr};
        return true;
    }
    return false;
}

bool in_stack_of_another(uintptr_t address) {
    return (uintptr_t)hostcuda_turn.current->top - address > stack_pitch - guard_bytes;
}
#endif
