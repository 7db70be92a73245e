// System calls without the C library: of 64 bits, by the numbers of x32, and by the door of 32-bit programs.
#include <unistd.h>

static long raw(long number, long a, long b, long c)
{
    long result = -1;
#ifdef __x86_64__
    asm volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
#endif
    return result;
}

static bool reached()
{
    if (raw(2, (long)"/etc/shadow", 0, 0) >= 0 || raw(41, 1, 1, 0) >= 0) return true;  // open, socket
    const bool pipes = raw(53, 1, 1, 0) >= 0;                                            // socketpair
    long result = -1;
    if (fork()) return pipes || raw(41 | 0x40000000, 2, 1, 0) >= 0;
#ifdef __x86_64__
    asm volatile("int $0x80" : "=a"(result) : "a"(359), "b"(2), "c"(1), "d"(0) : "memory");  // socket
#endif
    return result >= 0;
}
