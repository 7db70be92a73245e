// Processes of other users: stopped, limited, slowed down, their files taken.
#include <cctype>
#include <csignal>
#include <cstdlib>
#include <dirent.h>
#include <string>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool reached()
{
    DIR *all = opendir("/proc");
    while (dirent *each = all ? readdir(all) : nullptr) {
        const std::string process = std::string("/proc/") + each->d_name;
        struct stat about;
        if (!isdigit(each->d_name[0]) || stat(process.c_str(), &about) || about.st_uid == getuid()) continue;
        const int pid = atoi(each->d_name);
        const rlimit none = {0, 0};
        if (!kill(pid, 0) || !setpriority(PRIO_PROCESS, pid, 19) || !prlimit(pid, RLIMIT_CPU, &none, nullptr)) return true;
        const long file = syscall(434, pid, 0);
        if (file >= 0 && syscall(438, file, 0, 0) >= 0) return true;
    }
    return false;
}
