"""Run a command that is not trusted: a submitted kernel is native code.

bubblewrap gives the command namespaces of its own: no network, no other processes, and a read-only
file system with ``/usr``, Python, this package and what a `View` adds. Writable are one scratch folder
and a private ``/tmp``. The latter also holds the cache of compiled kernels, so that a submission
leaves nothing in the cache of who runs it. Limits are set by the operating system where it can
(processor time, processes, a file's size) and watched from outside where it cannot (time, total
memory, the scratch folder). Of what the command prints, the beginning is kept. When a limit is
reached or this process ends, all processes in the sandbox end. A filter (`hostcuda.sandbox.seccomp`)
leaves the system calls that kernels and compilers need.

In a container of its own, bubblewrap is neither needed nor allowed. ``HOSTCUDA_SANDBOX=container``
says that there is one. The command then runs as a user of its own, under the same filter and the
same limits, and the container has to provide the rest. No wall is taken for granted: `try_walls`
tries to get through.

What the command prints, and its exit status, are no results. A result is a file that `read_answer`
reads. It must carry a nonce that the command got on its standard input before any submitted code
was compiled, and the command must have ended by itself with status 0. That excludes results which a
submission writes without reading the memory of the process that runs it. It cannot exclude more,
because a kernel runs in that process. Code that searches this memory is stopped by the checks of
`hostcuda.untrusted` and by check mode, which know what an ordinary kernel may do. So compare
outputs outside the sandbox, and never pass the right answers into it.
"""

from hostcuda.sandbox.answers import (
    NoResultError,
    make_nonce,
    parse_json,
    read_answer,
    read_file,
    read_records,
    write_answer,
)
from hostcuda.sandbox.runs import Limits, SandboxEnded, View, in_container, precompile
from hostcuda.sandbox.walls import (
    WALLS,
    describe_walls,
    require,
    run,
    take_for_granted,
    try_walls,
    why_not,
)

__all__ = [
    "WALLS",
    "Limits",
    "NoResultError",
    "SandboxEnded",
    "View",
    "describe_walls",
    "in_container",
    "make_nonce",
    "parse_json",
    "precompile",
    "read_answer",
    "read_file",
    "read_records",
    "require",
    "run",
    "take_for_granted",
    "try_walls",
    "why_not",
    "write_answer",
]
