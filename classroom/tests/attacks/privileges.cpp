// Root again: by its number, by programs that run as root, by a capability.
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static bool reached()
{
    if (!setuid(0) || !setresuid(0, 0, 0) || !setgid(0)) return true;
    if (!prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, 21, 0, 0) || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1) return true;
    return system("su -c true 2>/dev/null </dev/null") == 0 || system("sudo -n true 2>/dev/null") == 0
        || !chown("/tmp", getuid(), getgid()) || open("/etc/shadow", O_RDONLY) >= 0;
}
