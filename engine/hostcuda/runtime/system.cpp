// What the runtime's files ask of the system: memory, the time, the text of a message; and the error that Python reads.
#include "runtime.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

std::string format(const char *pattern, ...) {
    char text[1200];
    va_list values, again;
    va_start(values, pattern);
    va_copy(again, values);
    int length = vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    std::string result = text;
    if (length >= (int)sizeof text) {
        result.resize(length);
        vsnprintf(&result[0], length + 1, pattern, again);
    }
    va_end(again);
    return result;
}

static thread_local std::string last_error;   // the runtime's thread-local block must be small: see words.h

uint64_t digest_of(const void *memory, size_t bytes, uint64_t before) {
    constexpr uint64_t odd = 0x9e3779b97f4a7c15;
    uint64_t lanes[4] = {before, ~before, odd, bytes};   // at a time: a product takes a few cycles
    auto at = (const char *)memory;
    for (; bytes; bytes -= bytes < 32 ? bytes : 32, at += 32) {
        uint64_t words[4] = {};
        memcpy(words, at, bytes < 32 ? bytes : 32);
        for (int i = 0; i < 4; i++) lanes[i] = (lanes[i] ^ words[i]) * odd, lanes[i] ^= lanes[i] >> 32;
    }
    return ((lanes[0] * odd ^ lanes[1]) * odd ^ lanes[2]) * odd ^ lanes[3];
}

EXPORT const char *hc_error(void) { return last_error.c_str(); }

int set_error(int status, const char *pattern, ...) {
    char text[2000];
    va_list values;
    va_start(values, pattern);
    vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    last_error = text;
    return status;
}

char *map_memory(size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *mapping = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return mapping == MAP_FAILED ? nullptr : (char *)mapping;
}

double now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

// MADV_GUARD_INSTALL (Linux 6.13) does not split the mapping, as mprotect does. A process can have only 65530 mappings, so with
// very many stacks the last ones have no guard.
void guard(char *address, size_t bytes) {
    constexpr int madv_guard_install = 102, no_advice = 12345, most_split = 16000;
    static const bool understood = madvise(address, bytes, no_advice) != 0;   // qemu-user accepts all advice and does nothing
    static int split;
    if ((!understood || madvise(address, bytes, madv_guard_install) != 0) && __atomic_fetch_add(&split, 1, __ATOMIC_RELAXED) < most_split)
        (void)!mprotect(address, bytes, PROT_NONE);
}
