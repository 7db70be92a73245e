// The fibers of a block: taken, put back, abandoned. Their stacks are fibers.cpp's, or those of wasm/runtime/platform.cpp.
#include "fibers.h"
#include <errno.h>
#include <string.h>

Fiber *take_fiber(Block &b) {
    if (UNLIKELY(!b.free) && !add_fibers(b))
        fail_block(b, "no memory for the stacks of %u waiting threads: %s", b.started, strerror(errno));
    Fiber *fiber = b.free;
    b.free = fiber->next;
    if (checking) fiber->thread.number = ~0u;
    return fiber;
}

void abandon_threads(Block &b) {
    b.ready.clear();
    b.barrier.clear();
    b.sleeping.clear();
    b.at_grid.clear();
    for (Warp &w : b.warps) {
        w.meetings = nullptr;
        w.converged.clear();
        w.parked.clear();
    }
    b.free = nullptr;
    for (Slab &slab : b.slabs)
        for (unsigned i = slab_fibers; i-- > 0;) begin_anew(b, slab.fibers[i]);
}
