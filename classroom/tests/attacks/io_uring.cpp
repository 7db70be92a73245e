// A ring opens files and sockets in the kernel, with no call that a filter sees.
#include <sys/syscall.h>
#include <unistd.h>

static bool reached()
{
    char parameters[256] = {};
    return syscall(425, 8, parameters) >= 0;
}
