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
// CUDA's printf has no %n, which would write to an address unseen.
static void require_no_count(const char *pattern) {
    for (const char *at = strchr(pattern, '%'); at; at = strchr(at, '%')) {
        at += 1 + strspn(at + 1, "-+ #'$*.0123456789hlLqjztZI");
        if (*at == 'n') fail("printf has no %%n: remove it");
        if (*at) at++;
    }
}

EXPORT int print(const char *pattern, ...) {
    char text[2048];
    require_no_count(pattern);
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
    return length;
}
}  // namespace hostcuda

EXPORT size_t hc_printf_take(char *text, size_t bytes) {
    Lock lock(print_mutex);
    size_t count = printed.size() < bytes ? printed.size() : bytes;
    memcpy(text, printed.data(), count);
    printed.erase(0, count);
    return count;
}
