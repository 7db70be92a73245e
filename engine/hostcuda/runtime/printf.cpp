// printf of kernels. What they print stays here until Python takes it. Where calls of the runtime can wait, which they cannot in a
// browser, the lanes of a warp that have converged print statement by statement, as on a GPU.
#include "fibers.h"
#include "lock.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static Mutex print_mutex;
static std::string printed;
constexpr size_t print_limit = 1 << 20;       // as in CUDA, lines are lost beyond it; here those in the middle
constexpr size_t beginning = print_limit / 4;  // of it, at least, stay
static size_t gap, left_out;                   // where lines are missing, and how many bytes

static size_t end_of_line(size_t at) {
    size_t line = printed.find('\n', at);
    return line == std::string::npos ? printed.size() : line + 1;
}

namespace hostcuda {
// The number of arguments, which CUDA's printf returns. It has no %n, which would write to an address unseen.
static int count_arguments(const char *pattern) {
    int count = 0;
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at, '%')) {
        for (at++; *at && strchr("-+ #'$*.0123456789hlLqjztZI", *at); at++) count += *at == '*';
        if (*at == 'n') fail("printf has no %%n: remove it");
        count += *at && *at != '%';
        if (*at) at++;
    }
    return count;
}

EXPORT int print(int statement, const char *pattern, ...) {
    if (HOSTCUDA_WAITS_IN_HOOKS && in_kernel() && hostcuda_turn.current != &block->loops) {
        follow(gather_to_print(statement));
        note_printed(statement);
    }
    char text[2048];
    const int count = count_arguments(pattern);
    va_list values;
    va_start(values, pattern);
    int length = vsnprintf(text, sizeof text, pattern, values);
    va_end(values);
    if (length < 0) return length;
    if ((size_t)length >= sizeof text) length = sizeof text - 1;
    Lock lock(print_mutex);
    if (printed.size() + length > print_limit) {
        if (!left_out) gap = end_of_line(beginning);
        size_t count = end_of_line(gap + print_limit / 4) - gap;
        printed.erase(gap, count);
        left_out += count;
    }
    printed.append(text, length);
    return count;
}
}  // namespace hostcuda

EXPORT size_t hc_printf_take(char *text, size_t bytes) {
    Lock lock(print_mutex);
    if (left_out)
        printed.insert(gap, "[" + std::to_string(left_out) + " bytes of printf are missing here: its buffer holds 1 MB]\n");
    left_out = 0;
    size_t count = printed.size() < bytes ? printed.size() : bytes;
    memcpy(text, printed.data(), count);
    printed.erase(0, count);
    return count;
}
