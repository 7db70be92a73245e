"""The sandbox's filter of system calls: ``python seccomp.py COMMAND...`` runs a command under it.

A command may make the calls that a compiler, Python and a kernel need. Every other call fails as if
Linux lacked it: sockets, namespaces, mounts, tracing, io_uring, BPF, keys, and what later versions
add. The rules are compiled and loaded by libseccomp. They cannot be removed, and all that the
command starts inherits them.

This file imports nothing of the engine: it runs before the command, in its place.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import sys

_LIBRARY = "libseccomp.so.2"
# ENOSYS: the C library then tries what came before
_ALLOW, _FAIL = (0x7FFF0000, 0x00050000 | errno.ENOSYS)
# libseccomp's SCMP_FLTATR_ACT_BADARCH: what becomes of x32 calls, and those of 32-bit code
_BAD_ARCHITECTURE = 2
_MASKED_EQUAL, _EQUAL = 7, 4  # libseccomp's SCMP_CMP_MASKED_EQ and SCMP_CMP_EQ
_NEW = 0x7E020000  # the flags by which clone makes namespaces
# TCGETS TIOCGWINSZ FIONREAD FIONBIO FIONCLEX FIOCLEX
_IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)

# clone3 is missing: its flags are in memory, where no filter sees them. The C library falls back to
# clone.
ALLOWED = """
access alarm arch_prctl brk capget capset chdir chmod clock_getres clock_gettime clock_nanosleep close close_range
copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_wait eventfd2 execve exit
exit_group faccessat faccessat2 fadvise64 fallocate fchdir fchmod fchmodat fchown fchownat fcntl fdatasync flock fork
fstat fstatfs fsync ftruncate futex getcwd getdents getdents64 getegid geteuid getgid getgroups getitimer getpgid
getpgrp getpid getppid getpriority getrandom getresgid getresuid getrlimit getrusage getsid gettid gettimeofday getuid
kill link linkat lseek lstat madvise membarrier mincore mkdir mkdirat mlock mmap mprotect mremap msync munlock munmap
nanosleep newfstatat open openat pause pipe pipe2 poll ppoll prctl pread64 preadv prlimit64 pselect6 pwrite64 pwritev
read readlink readlinkat readv rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait sched_get_priority_max
sched_get_priority_min sched_getaffinity sched_getparam sched_getscheduler sched_setaffinity sched_yield select
sendfile set_robust_list set_tid_address setgid setgroups setitimer setpgid setpriority setresgid setresuid setrlimit
setsid setuid sigaltstack stat statfs statx symlink symlinkat sysinfo tgkill time times tkill truncate umask uname
unlink unlinkat utime utimensat vfork wait4 waitid write writev
"""


class _Comparison(ctypes.Structure):
    """libseccomp's struct scmp_arg_cmp: a condition on one argument of a call, by its number from 0."""

    _fields_ = (
        ("argument", ctypes.c_uint),
        ("operator", ctypes.c_int),
        ("a", ctypes.c_uint64),
        ("b", ctypes.c_uint64),
    )


def find_library() -> ctypes.CDLL | None:
    """Return the library that filters system calls, libseccomp, or None if it is not installed."""
    with contextlib.suppress(OSError):
        seccomp = ctypes.CDLL(_LIBRARY)
        # a pointer; by default ctypes takes a result for an int
        seccomp.seccomp_init.restype = ctypes.c_void_p
        return seccomp
    return None


def load() -> None:
    """Forbid this process, and all that it starts, all system calls except for those in ALLOWED, for ever.

    OSError if the filter cannot be loaded.
    """
    seccomp = find_library()
    rules = ctypes.c_void_p(seccomp.seccomp_init(_FAIL) if seccomp else None)
    if not rules:
        raise OSError(f"{_LIBRARY} is missing or fails")
    # By default, a call of another processor's kind ends its thread, for which other threads may wait
    # for ever. Let it fail instead.
    status = seccomp.seccomp_attr_set(rules, _BAD_ARCHITECTURE, ctypes.c_uint32(_FAIL))
    _require(status, "calls of other processors")

    def allow(name: str, *comparisons: _Comparison) -> None:
        """Add a rule that allows a system call, by its name, if its arguments pass all comparisons."""
        number = seccomp.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:  # this processor has it
            status = seccomp.seccomp_rule_add_array(
                rules,
                ctypes.c_uint32(_ALLOW),
                number,
                len(comparisons),
                (_Comparison * len(comparisons))(*comparisons),
            )
            _require(status, name)

    for name in ALLOWED.split():
        allow(name)
    # "clone" starts processes and threads: only without flags that make a namespace, which is
    # (argument 0) & _NEW == 0
    allow("clone", _Comparison(0, _MASKED_EQUAL, _NEW, 0))
    for request in _IOCTLS:  # argument 1 of ioctl
        allow("ioctl", _Comparison(1, _EQUAL, request))
    _require(seccomp.seccomp_load(rules), "the filter")


def _require(status: int, what: str) -> None:
    """Raise an OSError about `what` if a function of libseccomp returned a status other than 0, a negative errno."""
    if status:
        raise OSError(-status, f"{what}: {os.strerror(-status)}")


if __name__ == "__main__":
    load()
    os.execvp(sys.argv[1], sys.argv[1:])
