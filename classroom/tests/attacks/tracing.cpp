// The memory of the parent process and of all others, as a debugger has it.
#include <cstdint>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static bool reached()
{
    for (int i = 0; i < 400; ++i) {
        const int pid = i ? i : getppid();
        if (pid == getpid()) continue;
        char word[8];
        iovec here = {word, 8}, there = {(void *)0x400000, 8};
        if (!ptrace(PTRACE_SEIZE, pid, 0, 0) || !ptrace(PTRACE_ATTACH, pid, 0, 0)) return true;
        if (process_vm_readv(pid, &here, 1, &there, 1, 0) > 0) return true;
    }
    return false;
}
