// More processes than there may be, each in a session of its own.
#include <csignal>
#include <unistd.h>

static bool reached()
{
    for (int i = 0; i < 2000; ++i) {
        const int child = fork();
        if (child < 0) return false;
        if (!child) { setsid(), fork(), pause(), _exit(0); }
    }
    return true;
}
