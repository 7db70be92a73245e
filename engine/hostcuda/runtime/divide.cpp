// The quotient of the least integer and -1.
//
// It does not fit, so x86 raises the signal of a division by zero; a GPU gives the least integer, and 0 as the remainder
// (as AArch64 does). This file finishes the instruction as a GPU would.
#include "runtime.h"
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

#if defined(__x86_64__)

namespace {

// The registers in the order of the instruction set's numbers.
const int registers[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                         REG_R8, REG_R9, REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};

int32_t displacement(const uint8_t *at, int bytes) {
    int32_t value = 0;
    memcpy(&value, at, bytes);
    return bytes == 1 ? (int8_t)value : value;
}

}  // namespace

// Continue behind an idiv of 32 or 64 bits whose divisor is -1. False: it is another fault.
bool finish_division(void *context) {
    auto &value = ((ucontext_t *)context)->uc_mcontext.gregs;
    auto at = (const uint8_t *)value[REG_RIP];
    bool local = *at == 0x64;                        // relative to the thread pointer, as __shared__ variables are
    at += local;
    uint8_t rex = (*at & 0xf0) == 0x40 ? *at++ : 0;
    if (*at++ != 0xf7) return false;
    uint8_t mode = *at >> 6, operation = *at >> 3 & 7, place = *at & 7;
    at++;
    if (operation != 7) return false;
    bool wide = rex & 8;
    auto of = [&](int number, uint8_t extension) { return value[registers[number | (rex & extension ? 8 : 0)]]; };

    int64_t divisor;
    if (mode == 3) {
        divisor = of(place, 1);
    } else {
        int bytes = mode == 1 ? 1 : mode == 2 ? 4 : 0;
        int64_t address = 0;
        bool relative = false;
        if (place == 4) {                            // base + index * scale
            uint8_t scale = *at >> 6, index = *at >> 3 & 7, base = *at & 7;
            at++;
            if (index != 4 || rex & 2) address = of(index, 2) << scale;
            if (base == 5 && mode == 0) bytes = 4;
            else address += of(base, 1);
        } else if (place == 5 && mode == 0) {
            bytes = 4;
            relative = true;
        } else {
            address = of(place, 1);
        }
        address += displacement(at, bytes);
        at += bytes;
        if (relative) address += (int64_t)at;
        if (local) address += (int64_t)__builtin_thread_pointer();
        if (wide) memcpy(&divisor, (const void *)address, 8);
        else divisor = displacement((const uint8_t *)address, 4);
    }
    if ((wide ? divisor : (int32_t)divisor) != -1) return false;
    value[REG_RAX] = wide ? INT64_MIN : (int64_t)(uint32_t)INT32_MIN;
    value[REG_RDX] = 0;
    value[REG_RIP] = (int64_t)at;
    return true;
}

#else

bool finish_division(void *) { return false; }

#endif
