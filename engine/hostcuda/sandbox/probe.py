"""Look for holes in the sandbox, from its inside: ``python probe.py`` reads what to try, and prints what worked.

`hostcuda.sandbox.try_walls` runs it. It imports nothing of the engine. Nothing that it tries
does any harm.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

_FORBIDDEN = (errno.ENOSYS, errno.EPERM)
# Numbers from 424 on are the same on every processor.
_CALLS = {
    "io_uring_setup": 425,
    "open_tree": 428,
    "fsopen": 430,
    "pidfd_getfd": 438,
    "landlock_create_ruleset": 444,
}


def probe_network(port: int, name: str) -> Iterator[str]:
    """Try to reach addresses that a sandbox has to block; yield "reaches ADDRESS" for each one that can be reached.

    They are another machine (IPv4 and IPv6), the server at a TCP `port` of this one, and that at
    the abstract Unix socket `name`.
    """
    tries = [
        # other machines: addresses that are reserved for examples
        (socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 9)),
        (socket.AF_INET6, socket.SOCK_DGRAM, ("2001:db8::1", 9)),
        (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", port)),
        (socket.AF_UNIX, socket.SOCK_STREAM, "\0" + name),
    ]
    for family, kind, address in tries:
        with contextlib.suppress(OSError), socket.socket(family, kind) as connection:
            connection.settimeout(2)
            connection.connect(address)  # for datagrams this only looks up the route
            # an abstract name begins with a 0 byte, and is written with an @
            yield f"reaches {address if isinstance(address, str) else address[0]}".replace(
                "\0", "@"
            )


def probe_files(hidden: list[str], unwritable: list[str]) -> Iterator[str]:
    """Try to read and to write what a sandbox has to protect; yield a sentence for each attempt that succeeds.

    It is "reads PATH" for a path of `hidden` that can be read, and "writes to FOLDER" for a folder of
    `unwritable` in which a file can be made.
    """
    for path in hidden:
        with contextlib.suppress(OSError):
            if os.path.isdir(path):
                is_hidden = not os.listdir(path)  # a folder with nothing in it is hidden
            else:
                open(path, "rb").close()  # OSError if it cannot be read
                is_hidden = False
            if not is_hidden:
                yield f"reads {path}"
    for folder in unwritable:
        path = os.path.join(folder, f"hostcuda-probe-{os.getpid()}")
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            os.unlink(path)
            yield f"writes to {folder}"


def probe_processes(pid: int, started: str, most: int) -> Iterator[str]:
    """Try what a sandbox has to prevent: to signal or read the parent process, to start more than `most` processes.

    Yields a sentence for each attempt that succeeds: "signals the process that runs it". The parent
    is the process `pid`, whose start time in /proc/PID/stat is `started`: in the sandbox another
    process may have its number.
    """
    parent = Path(f"/proc/{pid}")
    with contextlib.suppress(OSError):
        # the start time is field 22 of proc(5); the name, in brackets, is field 2
        if parent.joinpath("stat").read_text().rpartition(")")[2].split()[19] == started:
            for what, attempt in (
                ("signals", lambda: os.kill(pid, 0)),  # 0: no signal, only whether one may be sent
                ("reads the memory of", lambda: open(parent / "mem", "rb").close()),
                ("reads the variables of", parent.joinpath("environ").read_bytes),
            ):
                with contextlib.suppress(OSError):
                    attempt()
                    yield f"{what} the process that runs it"
    children = []
    with contextlib.suppress(OSError):
        while len(children) < most:
            children.append(os.fork())
            if not children[-1]:  # in the child
                signal.pause()
                os._exit(0)
        yield f"starts more than {most} processes"
    for child in children:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def probe_memory(most: int) -> Iterator[str]:
    """Try to reserve `most` bytes of address space, which a sandbox has to refuse; yield "reserves N GB" on success."""
    with contextlib.suppress(OSError):
        mmap.mmap(-1, most).close()
        yield f"reserves {most >> 30} GB"


def probe_calls() -> Iterator[str]:
    """Try the system calls that a sandbox has to block; yield "calls NAME" for each one that is possible.

    With these arguments the calls have no effect.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    attempts = {name: (libc.syscall, number, 0, 0, 0, 0, 0) for name, number in _CALLS.items()}
    attempts |= {
        "unshare": (libc.unshare, 0),
        "setns": (libc.setns, -1, 0),
        "ptrace": (libc.ptrace, 16, 0, 0, 0),  # 16: PTRACE_ATTACH, to no process
        "mount": (libc.mount, None, b"/", None, 0, None),
        "socket": (libc.socket, 1, 1, 0),  # AF_UNIX, SOCK_STREAM
    }
    for name, (call, *arguments) in attempts.items():
        # possible: it succeeds, or fails for another reason than a filter's
        if call(*arguments) != -1 or ctypes.get_errno() not in _FORBIDDEN:
            yield f"calls {name}"


if __name__ == "__main__":
    attempts = json.load(sys.stdin)
    holes = {
        wall: list(globals()[f"probe_{wall}"](*arguments)) for wall, arguments in attempts.items()
    }
    print(json.dumps(holes))
