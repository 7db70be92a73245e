// Disks, memory and terminals: existing ones, and one made here.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static bool reached()
{
    for (const char *path : {"/dev/mem", "/dev/kmsg", "/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/kvm", "/dev/fuse"})
        if (open(path, O_RDWR) >= 0) return true;
    if (!mknod("disk", S_IFBLK | 0600, makedev(8, 0)) || !mknod("/tmp/disk", S_IFCHR | 0600, makedev(1, 1))) return true;
    char typed = '\n';
    for (int fd = 0; fd < 3; ++fd)
        if (!ioctl(fd, TIOCSTI, &typed)) return true;
    return false;
}
