// printf of kernels. What they print stays here until Python takes it.
#include "lock.h"
#include "runtime.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static Mutex print_mutex;
static std::string printed;
constexpr size_t print_limit = 1 << 20;   // as in CUDA, the oldest lines are lost beyond it

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

EXPORT int print(const char *pattern, ...) {
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
        size_t line = printed.find('\n', print_limit / 4);
        printed.erase(0, line == std::string::npos ? printed.size() : line + 1);
    }
    printed.append(text, length);
    return count;
}
}  // namespace hostcuda

EXPORT size_t hc_printf_take(char *text, size_t bytes) {
    Lock lock(print_mutex);
    size_t count = printed.size() < bytes ? printed.size() : bytes;
    memcpy(text, printed.data(), count);
    printed.erase(0, count);
    return count;
}
