// More than it may use: its own limits, a better place in the queue, memory that cannot be taken back.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

static bool reached()
{
    const int kinds[] = {RLIMIT_AS, RLIMIT_CPU, RLIMIT_NPROC, RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_CORE};
    for (const int kind : kinds) {
        rlimit now;
        if (getrlimit(kind, &now) || now.rlim_max == RLIM_INFINITY) return true;
        now.rlim_max += 1 << 20, now.rlim_cur = now.rlim_max;
        if (!setrlimit(kind, &now)) return true;
    }
    sched_param first = {};
    first.sched_priority = 1;
    if (!sched_setscheduler(0, SCHED_FIFO, &first) || !setpriority(PRIO_PROCESS, 0, -10)) return true;
    const int last = open("/proc/self/oom_score_adj", O_WRONLY);  // the last one that Linux ends
    if (last >= 0 && write(last, "-1000", 5) == 5) return true;
    return mmap(nullptr, 16l << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0) != MAP_FAILED
        || !mlockall(MCL_CURRENT | MCL_FUTURE);
}
