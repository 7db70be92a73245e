// A process that outlives its hand-in, to change results afterwards.
#include <csignal>
#include <fcntl.h>
#include <unistd.h>

static bool reached()
{
    for (int i = 0; i < 20; ++i)
        if (!fork()) {
            setsid();
            signal(SIGTERM, SIG_IGN);
            if (fork()) _exit(0);
            for (int fd = 0; fd < 3; ++fd) close(fd);
            for (;;) {
                const int file = open("stays", O_CREAT | O_WRONLY | O_APPEND, 0666);
                if (write(file, "x", 1) != 1) _exit(1);
                close(file);
                usleep(20000);
            }
        }
    usleep(100000);
    return false;  // the file says it, later
}
