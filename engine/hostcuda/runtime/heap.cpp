// Memory that kernels allocate, in run mode; check mode has its own.
//
// A header before the block says whether it is one and its size, and marked bytes follow it. So a wrong free and a small
// overrun end the launch; the C library would end the process.
#ifndef HOSTCUDA_CHECK
#include "runtime.h"
#include <new>
#include <stdlib.h>
#include <string.h>

namespace {

struct alignas(16) Header {
    uint64_t overwritten[2];               // by the C library, when the block is free
    uint64_t state, bytes;
};
constexpr uint64_t allocated = 0x6c61626b69742b31, released = 0x6c61626b69742d30;   // exclusive or with the block's address
constexpr size_t heap_margin = 64;
constexpr unsigned char fence = 0xa5;

// The last blocks that were freed, up to a megabyte each. They go back to the C library when as many others have been
// freed, so that their headers can still be read when one is freed twice.
Header *quarantine[64];
unsigned released_blocks;

void *allocate(size_t bytes) {
    if (!take_from_heap(bytes)) return nullptr;           // as on a GPU
    auto header = (Header *)malloc(sizeof(Header) + bytes + heap_margin);
    if (!header) return give_to_heap(bytes), nullptr;
    char *block = (char *)(header + 1);
    header->state = allocated ^ (uint64_t)block;
    header->bytes = bytes;
    memset(block + bytes, fence, heap_margin);
    return block;
}

void release(void *block, bool may_be_anothers) {
    if (!block) return;
    Header *header = (Header *)block - 1;
    uint64_t state = header->state ^ (uint64_t)block;
    if (state == allocated) {
        const unsigned char *end = (const unsigned char *)block + header->bytes;
        for (size_t i = 0; i < heap_margin; i++)
            if (end[i] != fence) hostcuda::fail("a write past the end of the %zu bytes that malloc or new returned", (size_t)header->bytes);
        header->state = released ^ (uint64_t)block;
        give_to_heap(header->bytes);
        if (header->bytes <= 1 << 20) {
            unsigned place = __atomic_fetch_add(&released_blocks, 1, __ATOMIC_RELAXED) % 64;
            header = __atomic_exchange_n(&quarantine[place], header, __ATOMIC_ACQ_REL);
        }
        free(header);
    } else if (may_be_anothers && state != released) {
        free(block);
    } else {
        hostcuda::fail("free of %p, which %s", block, state == released ? "was freed before" : "is not the start of an allocation of a kernel");
    }
}

}  // namespace

// The C++ library, too, allocates memory that a kernel's code deletes.
extern "C" {
EXPORT void *__wrap_malloc(size_t bytes) { return in_kernel() ? allocate(bytes) : allocate_for_host(bytes); }
EXPORT void *__wrap__Znwm(size_t bytes) {
    void *block = __wrap_malloc(bytes);
    return block || in_kernel() ? block : ::operator new(bytes);   // which throws
}
EXPORT void *__wrap__Znam(size_t bytes) { return __wrap__Znwm(bytes); }
EXPORT void __wrap_free(void *p) { release(p, !in_kernel()); }
EXPORT void __wrap__ZdlPv(void *p) { release(p, true); }
EXPORT void __wrap__ZdaPv(void *p) { release(p, true); }
EXPORT void __wrap__ZdlPvm(void *p, size_t) { release(p, true); }
EXPORT void __wrap__ZdaPvm(void *p, size_t) { release(p, true); }
}
#endif
