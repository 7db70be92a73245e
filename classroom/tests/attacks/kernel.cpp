// Doors of the Linux kernel that exploits come through, and that no kernel of CUDA needs.
#include <sys/syscall.h>
#include <unistd.h>

static bool reached()
{
    char nothing[256] = {};
    const long calls[][4] = {
        {SYS_bpf, 0, (long)nothing, 72}, {SYS_perf_event_open, (long)nothing, 0, -1}, {SYS_userfaultfd, 1, 0, 0},
        {SYS_personality, 0x40000, 0, 0}, {SYS_keyctl, 0, -3, 1}, {SYS_fanotify_init, 0, 0, 0}, {SYS_kcmp, 1, 1, 0},
        {SYS_inotify_init1, 0, 0, 0}, {SYS_init_module, (long)nothing, 1, (long)nothing}, {SYS_splice, 0, 0, 1},
        {SYS_move_pages, 0, 0, 0}, {SYS_signalfd4, -1, (long)nothing, 8}, {SYS_memfd_create, (long)nothing, 0, 0},
#ifdef SYS_modify_ldt
        {SYS_modify_ldt, 0, (long)nothing, 16},
#endif
    };
    for (const auto &call : calls)
        if (syscall(call[0], call[1], call[2], call[3], 0, 0) >= 0) return true;
    return false;
}
