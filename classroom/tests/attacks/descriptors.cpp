// Files that whoever started this has left open, and a way up from a folder that is open.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool reached()
{
    for (int fd = 3; fd < 1024; ++fd)
        if (struct stat about; !fstat(fd, &about)) return true;
    const int here = open(".", O_RDONLY | O_DIRECTORY);
    if (openat(here, "../../../../../../etc/shadow", O_RDONLY) >= 0) return true;
    char handle[1 << 10] = {};
    *(unsigned *)handle = 128;
    int mount = 0;
    return syscall(SYS_name_to_handle_at, here, "", handle, &mount, 0x1000) >= 0
        && syscall(SYS_open_by_handle_at, here, handle, O_RDONLY) >= 0;
}
