// Root in a user namespace of its own, or the namespaces of others: then mounts, and the way out.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool reached()
{
    if (!unshare(CLONE_NEWUSER) || !unshare(CLONE_NEWNS) || !mount("none", "/tmp", "tmpfs", 0, "")) return true;
    unsigned long how[11] = {CLONE_NEWUSER, 0, 0, 0, 17};
    const long flags[] = {CLONE_NEWUSER | 17, CLONE_NEWNET | 17};
    for (const long each : flags)
        if (const long child = syscall(SYS_clone, each, 0, 0, 0, 0); child >= 0) return child ? true : (_exit(0), true);
    if (const long child = syscall(435, how, sizeof how); child >= 0) return child ? true : (_exit(0), true);
    for (const char *path : {"/proc/1/ns/net", "/proc/1/ns/mnt", "/proc/1/ns/user"})
        if (const int there = open(path, O_RDONLY); there >= 0 && !setns(there, 0)) return true;
    return !chroot("/tmp");
}
