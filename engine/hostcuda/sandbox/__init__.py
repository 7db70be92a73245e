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

from __future__ import annotations

import contextlib
import functools
import json
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hostcuda import temporary
from hostcuda.errors import EngineError
from hostcuda.sandbox import probe, runs
from hostcuda.sandbox.answers import (
    NoResultError,
    make_nonce,
    parse_json,
    read_answer,
    read_file,
    read_records,
    write_answer,
)
from hostcuda.sandbox.runs import MIB, PLAIN, Limits, SandboxEnded, View, in_container, precompile
from hostcuda.settings import HOME

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

# The walls, and what each protects. Without the last one it is still a sandbox.
WALLS = {
    "network": "network",
    "files": "file system",
    "processes": "processes",
    "memory": "memory",
    "calls": "system calls",
}
_HOW_TO_WALL = {
    "network": "sudo apt install libseccomp2",
    "files": "show the container nothing but the lab and what is handed in, with folders that only root can write",
    "calls": "sudo apt install libseccomp2",
}


_is_taken_for_granted = False


def take_for_granted() -> None:
    """Let `why_not` say without a trial that the sandbox works: another process on this machine has tried it.

    This holds for the rest of this process.
    """
    global _is_taken_for_granted
    _is_taken_for_granted = True


@functools.cache
def why_not(view: View = PLAIN) -> str:
    """Return in one sentence why no command can be run in a sandbox here, or "" if it can.

    The first call for a `view` (what a command sees of the machine) tries the sandbox and its walls. Of
    these, "calls", the filter of system calls, may be missing.
    """
    if _is_taken_for_granted:
        return ""
    if sys.platform != "linux":
        return f"the sandbox needs Linux, and this is {sys.platform}"
    bubblewrap = () if in_container() else (("bwrap", "bubblewrap"),)
    for name, package in (*bubblewrap, ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if not shutil.which(name):
            return f"{package} is missing: sudo apt install {package}"
    if in_container() and os.geteuid():
        return (
            "in a container this process has to be root, so that it can run kernels as other users"
        )
    with temporary.folder() as folder:
        # a program that does nothing
        trial = runs.run_untried([sys.executable, "-I", "-c", ""], folder, view=view)
    if trial.problem:
        # the last line of its messages, if it has any
        reason = (trial.stderr.strip().splitlines() or [trial.problem])[-1]
        if in_container():
            return f"this container does not let commands run as other users ({reason})"
        return (
            f"bubblewrap is installed but does not work here ({reason}): allow user namespaces, in a container with "
            "--privileged or --security-opt seccomp=unconfined; or set HOSTCUDA_SANDBOX=container in a container "
            "that has nothing else in it"
        )
    for wall, hole in try_walls(view).items():
        if hole and wall != "calls":
            return f"the wall around the {WALLS[wall]} is missing: {hole}"
    return ""


@functools.cache
def try_walls(view: View = PLAIN) -> dict[str, str]:
    """Return which walls stand between a command and the machine: a program in the sandbox tries to get through.

    Returns
    -------
    dict
        For each key of `WALLS` empty, if the wall stands; else what the program could do, and the
        remedy.
    """
    places = (
        "/",
        "/dev/shm",
        "/dev/mqueue",
        "/run/lock",
        "/var/tmp",
        sys.prefix,
        HOME / "hostcuda",
        *view.readable,
        *(path.parent for path in view.hidden),
    )
    unwritable = [*map(str, (*Path("/").glob("*/"), *places))]
    hidden = [*view.hidden]
    if in_container():
        if Path.cwd() != Path("/"):
            # the working folder has what others have handed in, and grades
            hidden.append(Path.cwd())
    else:
        unwritable.remove("/tmp")  # the command gets a private one
    limits = Limits(seconds=20, processes=16)
    name = f"hostcuda-{secrets.token_hex(16)}"
    with temporary.folder() as folder, temporary.folder() as other, contextlib.ExitStack() as stack:
        if in_container():
            unwritable.append(str(folder.parent))
        # two servers that the command must not reach: at a TCP port, and at an abstract Unix socket
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unnamed = stack.enter_context(socket.socket(socket.AF_UNIX))
        unnamed.bind("\0" + name)
        unnamed.listen()
        (other / "another.cu").write_text("somebody else's")
        # With this process's number goes its start time: in the sandbox another process may have
        # the same number.
        # It is field 22 of /proc/PID/stat, counted from 1; the name, in brackets, is field 2.
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        # wall -> the arguments of probe.py's function that tries to get through, as
        # probe_network(…)
        attempts = {
            "network": [server.getsockname()[1], name],
            "files": [[*map(str, (*hidden, other / "another.cu"))], unwritable],
            "processes": [os.getpid(), started, limits.processes],
            "memory": [limits.memory + runs.RESERVED + (1 << 30)],  # 1 GiB too much
            "calls": [],
        }
        child = runs.run_untried(
            [sys.executable, "-I", "-S", probe.__file__],
            folder,
            view=view,
            stdin=json.dumps(attempts),
            limits=limits,
        )
        # keeps 128 MiB for 2 s, twice its limit: the watcher, which looks every 0.05 s, has to stop it
        hog = "import time; kept = b'1' * (128 << 20); time.sleep(2)"
        trial = runs.run_untried(
            [sys.executable, "-I", "-S", "-c", hog],
            folder,
            view=view,
            limits=Limits(seconds=20, memory=64 * MIB),
        )
    # The probe prints a dict: wall -> phrases for what it could do, such as "reaches 127.0.0.1";
    # none if it stands.
    holes = (
        json.loads(child.stdout)
        if not child.problem
        else {wall: [f"the probe {child.problem}"] for wall in WALLS}
    )
    if "of memory" not in trial.problem:  # it was not stopped for this reason
        holes["memory"].append("uses more than it may")
    remedies = {wall: f": {_HOW_TO_WALL[wall]}" if wall in _HOW_TO_WALL else "" for wall in WALLS}
    return {
        wall: f"a kernel {', '.join(holes[wall])}{remedies[wall]}" if holes[wall] else ""
        for wall in WALLS
    }


def describe_walls(view: View = PLAIN) -> str:
    """Return a sentence that says which walls, such as those around network and files, stand here, and which do not."""
    holes = try_walls(view)
    by = "the container" if in_container() else "bubblewrap"
    missing = [f"; missing: {WALLS[wall]} ({hole})" for wall, hole in holes.items() if hole]
    return f"Walls that stand ({by}): {', '.join(WALLS[wall] for wall in holes if not holes[wall])}{''.join(missing)}"


def require(view: View = PLAIN, remedy: str = "") -> None:
    """Raise an EngineError, which says why and then the `remedy`, if there is no sandbox."""
    if reason := why_not(view):
        raise EngineError(
            f"code that others have written is not run without a sandbox: {reason}. {remedy}".rstrip(
                " ."
            )
        )


def run(
    command: Sequence[str],
    scratch: Path,
    *,
    view: View = PLAIN,
    unsafe: bool = False,
    remedy: str = "",
    **more: Any,
) -> SandboxEnded:
    """Run a command in the sandbox to its end or to a limit, and return how it ended.

    EngineError with the `remedy` if there is no sandbox here; an `unsafe` command then runs under the
    limits only. For the other parameters see `hostcuda.sandbox.runs.run_untried`.
    """
    if not unsafe:
        require(view, remedy)
    return runs.run_untried(command, scratch, view=view, walled=not why_not(view), **more)
