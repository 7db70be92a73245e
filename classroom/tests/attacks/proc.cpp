// Processes of other users through /proc: their memory, variables, files and namespaces; switches of the machine.
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

static bool reached()
{
    for (const char *path : {"/proc/kcore", "/proc/kmsg", "/proc/1/root/etc/shadow"})
        if (open(path, O_RDONLY) >= 0) return true;
    for (const char *path : {"/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/vm/overcommit_memory"})
        if (open(path, O_WRONLY) >= 0) return true;
    DIR *all = opendir("/proc");
    while (dirent *each = all ? readdir(all) : nullptr) {
        const std::string process = std::string("/proc/") + each->d_name;
        struct stat about;
        if (!isdigit(each->d_name[0]) || stat(process.c_str(), &about) || about.st_uid == getuid()) continue;
        for (const char *file : {"/environ", "/mem", "/maps", "/fd/0", "/cwd/.", "/root/."})
            if (open((process + file).c_str(), O_RDONLY) >= 0) return true;
    }
    return false;
}
