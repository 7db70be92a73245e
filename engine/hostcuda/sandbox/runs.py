"""Run a command in the sandbox, or as another user in a container, under limits."""

from __future__ import annotations

import contextlib
import functools
import os
import re
import selectors
import shlex
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcuda import processes
from hostcuda.errors import EngineError
from hostcuda.sandbox import seccomp
from hostcuda.settings import HOME, variable

MIB = 1 << 20
RESERVED = 4 << 30  # bytes of address space that the engine reserves and does not use
_POLL_S = 0.05  # between two looks at a command
# The users who run commands that root starts: a limit on processes does not bind root, and counts
# all of a user's.
_NOBODY, _USERS = 65534, range(60001, 61001)
# a mapping, in /proc/PID/maps, of a file that was removed; group 1: its inode
_NAMELESS = re.compile(
    r"(?m)^\S+ \S+ \S+ \S+ ([1-9]\d*) +(?!/memfd:|/dev/|/SYSV|/i915).*\(deleted\)$"
)
# the cache inside belongs to the command, what is in it does not
_CACHE, _MADE = "/tmp/hostcuda", "/tmp/hostcuda-made"


@dataclass(frozen=True)
class View:
    """What a command sees beside the system, Python and the engine.

    Attributes
    ----------
    readable : tuple of Path
        Files and folders, at the same paths inside.
    hidden : tuple of Path
        Folders in those that are empty inside.
    python_path : str
        Its ``PYTHONPATH``.
    """

    readable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    python_path: str = str(HOME)


PLAIN = View()


@dataclass(frozen=True)
class Limits:
    """What a command may use in the sandbox.

    Attributes
    ----------
    seconds : float
        Time from the start of the command to its end.
    processor_seconds : int
        Processor time of all processes together.
    memory : int
        Bytes of memory of all processes together.
    processes : int
        Processes and threads of one user at a time.
    file, scratch : int
        Bytes of one file, and of all files in the scratch folder and all that are open or mapped
        without a name; the private ``/tmp`` can hold as many.
    files : int
        Files and folders in the scratch folder.
    open_files : int
        Open files of each process.
    output : int
        Bytes that are kept of each of the two outputs.
    """

    seconds: float = 300.0
    processor_seconds: int = 120
    memory: int = 768 * MIB
    processes: int = 128
    file: int = 128 * MIB
    scratch: int = 256 * MIB
    files: int = 10_000
    open_files: int = 256
    output: int = 64 * 1024


@dataclass(frozen=True)
class SandboxEnded:
    """How a command ended.

    Attributes
    ----------
    status : int or None
        The exit status, negative for a signal; None if a limit stopped it.
    problem : str
        What went wrong, as the end of a sentence ("took longer than 60 s"); empty after status 0.
    seconds : float
    peak_memory : int
        The most bytes of memory that were seen in use. A peak between two samples, 0.05 s apart, is
        missed.
    stdout, stderr : str
        The beginning of what it printed.
    """

    status: int | None
    problem: str
    seconds: float
    peak_memory: int
    stdout: str
    stderr: str


def in_container() -> bool:
    """Return whether a container serves as the sandbox, in place of bubblewrap."""
    return variable("SANDBOX")[1] == "container"  # [1]: the value


# ------------------------------------------------------------------ Its file system and environment
def _make_environment(check: str, view: View) -> dict[str, str]:
    """Return the environment of a command, with these tools of check mode; it has little of this process's own."""
    inherited = {name: os.environ[name] for name in ("CXX", "LANG", "LC_ALL") if name in os.environ}
    return inherited | {
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
        ),
        "PYTHONPATH": view.python_path,
        "PYTHONDONTWRITEBYTECODE": "1",
        **processes.ONE_THREAD,
        **processes.OWN_MODULES,
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_CHECK": check,
        "HOSTCUDA_CACHE_DIR": _CACHE,
    }


@functools.cache
def precompile(check: str, options: tuple[str, ...] = ()) -> tuple[Path, ...]:
    """Compile what the engine needs for these tools of check mode and nvcc options; return the files' paths.

    A program in the sandbox gets these files, and need not compile them. `check` has the tools
    separated by commas. The files are in this process's cache; what is there is not compiled again.
    EngineError if they do not compile.
    """
    program = "import sys; from hostcuda import checking; print(*checking.engine_files(sys.argv[1:]), sep='\\n')"
    child = subprocess.run(
        [sys.executable, "-c", program, *options],
        env={**os.environ, "PYTHONPATH": str(HOME), "HOSTCUDA_CHECK": check},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        preexec_fn=processes.make_parent_guard(),  # it ends when this process does
    )
    if child.returncode:
        last = (child.stderr.strip().splitlines() or [""])[-1]
        raise EngineError(f"the CPU engine cannot be prepared for the sandbox: {last}")
    paths = tuple(Path(line).resolve() for line in child.stdout.splitlines())
    if in_container():  # there the sandboxed command, another user, reads them
        for folder in {path.parent for path in paths}:
            folder.chmod(0o755)
    return paths


def _with_limits(command: Sequence[str], limits: Limits) -> list[str]:
    """Return the command line that runs a command under the limits of its processes."""
    return [
        "prlimit",
        f"--cpu={limits.processor_seconds}:{limits.processor_seconds + 1}",  # SIGXCPU, then SIGKILL
        f"--as={limits.memory + RESERVED}",  # address space
        f"--fsize={limits.file}",
        f"--nofile={limits.open_files}",
        "--core=0",
        "--",
        *command,
    ]


def _in_bubblewrap(
    command: Sequence[str], scratch: Path, view: View, cached: Sequence[Path], limits: Limits
) -> list[str]:
    """Return the command line that runs a command in bubblewrap: it can write to `scratch`, and see the `view`.

    `cached` are compiled files of the engine, which the cache inside gets links to.
    """
    line = [
        "bwrap",
        "--die-with-parent",
        "--new-session",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-net",
    ]
    line += [
        "--unshare-uts",
        "--unshare-cgroup-try",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "--remount-ro",
        "/dev",
    ]
    line += ["--perms", "1777", "--size", str(limits.scratch), "--tmpfs", "/tmp"]
    line += ["--perms", "0755", "--dir", _MADE, *processes.bind_system()]
    line += ["--perms", "0755", "--dir", "/etc"]
    for name in ("alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d"):
        line += ["--ro-bind-try", f"/etc/{name}", f"/etc/{name}"]
    visible = [
        Path(path) for path in (sys.base_prefix, sys.prefix, HOME / "hostcuda", *view.readable)
    ]
    visible = [path for path in visible if not path.is_relative_to("/usr")]
    for folder in dict.fromkeys(
        folder for path in (*visible, scratch) for folder in reversed(path.parents[:-1])
    ):
        # bubblewrap would make them for their owner alone
        line += ["--perms", "0755", "--dir", str(folder)]
    for path in visible:
        line += ["--ro-bind", str(path), str(path)]
    for path in view.hidden:
        line += ["--tmpfs", str(path), "--remount-ro", str(path)]
    for path in cached:
        line += ["--ro-bind", str(path), f"{_MADE}/{path.name}"]
    line += ["--bind", str(scratch), str(scratch), "--chdir", str(scratch)]
    command = _with_filter(command, [f"{_MADE}/{path.name}" for path in cached], _CACHE, limits)
    if os.geteuid() == 0:
        command = _as_user(scratch.stat().st_uid or _NOBODY, command)
    else:
        line += ["--unshare-user", "--cap-drop", "ALL"]
    return [*line, "--remount-ro", "/", "--", *command]


def _with_filter(
    command: Sequence[str], cached: Sequence[Path | str], cache: str, limits: Limits
) -> list[str]:
    """Return the command line that runs a command under the filter of system calls and all limits.

    It first makes the folder `cache` with links to the engine's compiled files `cached`, if there
    are any.
    """
    if cached:
        links, place = shlex.join(map(str, cached)), shlex.quote(str(cache))
        link_and_run = f'mkdir -m 700 {place} && ln -s {links} {place} && exec "$@"'
        command = ["sh", "-c", link_and_run, "sh", *command]
    if seccomp.find_library():
        command = [sys.executable, "-I", "-S", seccomp.__file__, *command]
    return ["prlimit", f"--nproc={limits.processes}", "--", *_with_limits(command, limits)]


def _as_user(user: int, command: Sequence[str]) -> list[str]:
    """Return the command line by which root runs a command as a user, by number, without any privilege."""
    # --pdeathsig: the command ends when this process does
    ids = [f"--reuid={user}", f"--regid={user}", "--clear-groups", "--pdeathsig=KILL"]
    return [
        "setpriv",
        *ids,
        "--inh-caps=-all",
        "--bounding-set=-all",
        "--no-new-privs",
        "--",
        *command,
    ]


# ------------------------------------------------------------------------------------------ Running
def run_untried(
    command: Sequence[str],
    scratch: Path,
    *,
    view: View = PLAIN,
    check: str | None = None,
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    limits: Limits | None = None,
    walled: bool = True,
) -> SandboxEnded:
    """Run a command in the sandbox to its end or to a limit, without asking whether there is one (`require`).

    EngineError if the CPU engine cannot be compiled.

    Parameters
    ----------
    command : sequence of str
    scratch : Path
        A folder of this command alone, with the same path inside: the one place where it can leave
        files. Where root runs this, the folder is given to the user of `_USERS` that runs the
        command.
    view : View
        What it sees beside the system, Python and the engine.
    check : str, optional
        The command uses the CPU engine with these tools of check mode, as in ``HOSTCUDA_CHECK`` ("":
        without tools). The engine's own compiled files are then provided, and need not be compiled
        inside. None: it does not use the engine.
    options : sequence of str
        The nvcc options of its kernels, for these files.
    environment : mapping, optional
        Added to its environment, which otherwise has only CXX, LANG and LC_ALL of this process's.
    stdin : str
        What it reads, for example a nonce.
    limits : Limits, optional
    walled : bool
        False: run it outside of the sandbox, where only the limits hold.
    """
    limits = limits or Limits()
    scratch = Path(scratch).resolve()
    variables = _make_environment(check or "", view)
    scratch_variables = {
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "HOSTCUDA_CACHE_DIR": str(scratch / "cache"),
    }
    # the user id that runs the command, and a context in which no other command gets this user
    user, taken = None, contextlib.nullcontext()
    if walled:
        cached = () if check is None else precompile(check, tuple(options))
        if os.geteuid() == 0:
            user, taken = _take_user()
            os.chown(scratch, user, user)
        if in_container():
            variables |= scratch_variables
            line = _as_user(
                user, _with_filter(command, cached, scratch_variables["HOSTCUDA_CACHE_DIR"], limits)
            )
        else:  # in bubblewrap /tmp is private: the home folder and the cache are there
            line = _in_bubblewrap(command, scratch, view, cached, limits)
    else:
        line = _with_limits(command, limits)
        variables |= scratch_variables
    began = time.monotonic()
    process = subprocess.Popen(
        line,
        env={**variables, **(environment or {})},
        cwd=scratch,
        start_new_session=True,  # so that `_kill` also ends its child processes
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with taken, process.stdout, process.stderr:
        try:
            # through a pipe, so that what was read (a nonce) cannot be read again
            with contextlib.suppress(BrokenPipeError), process.stdin:
                process.stdin.write(stdin.encode())
            # which limit was reached, if any; most bytes of memory; what it printed (stdout, stderr)
            problem, peak, texts = _watch(
                process, scratch, limits, began, user if in_container() else None
            )
        finally:
            _kill(process)
            if in_container() and user:  # also processes of this user that have left the session
                subprocess.run(
                    _as_user(user, ["sh", "-c", "kill -KILL -1"]), stderr=subprocess.DEVNULL
                )
    seconds = time.monotonic() - began
    status = None if problem else process.returncode
    if status is not None and status > 128:  # bubblewrap's status for a signal: 128 + its number
        status = 128 - status
    return SandboxEnded(status, problem or _describe_status(status, limits), seconds, peak, *texts)


def _watch(
    process: subprocess.Popen, scratch: Path, limits: Limits, began: float, user: int | None
) -> tuple[str, int, list[str]]:
    """Read a command's outputs until it ends, or kill it when it exceeds a limit.

    Return ("" or the end of a sentence about the limit, peak of its memory in bytes, its two outputs).
    `began` is the time of its start, by the monotonic clock. `user` is the number of the user who runs
    it in a container, and so has all its processes; None: they are its descendants.
    """
    texts = {process.stdout: bytearray(), process.stderr: bytearray()}
    problem, peak, next_look = "", 0, began
    with selectors.DefaultSelector() as selector:
        for pipe in texts:
            selector.register(pipe, selectors.EVENT_READ)

        def read(timeout: float) -> bool:
            """Read what the outputs have, waiting at most `timeout` seconds for any; return whether there was some."""
            ready = selector.select(timeout)
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                texts[key.fileobj] += data[: limits.output - len(texts[key.fileobj])]
                if not data:
                    selector.unregister(key.fileobj)
            return bool(ready)

        # WNOWAIT: the process stays a zombie, so that nobody else gets its number before it is
        # killed.
        while not problem and not os.waitid(
            os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
        ):
            read(_POLL_S if selector.get_map() else 0)
            if not selector.get_map():  # it has closed its outputs
                time.sleep(_POLL_S)
            now = time.monotonic()
            if now < next_look:
                continue
            next_look = now + _POLL_S
            alive = processes.list_descendants(process.pid) if user is None else _list_of_user(user)
            memory = sum(map(processes.resident_bytes, alive))
            peak = max(peak, memory)
            if now - began > limits.seconds:
                problem = f"took longer than {limits.seconds:g} s"
            elif memory > limits.memory:
                problem = f"used more than {limits.memory // MIB} MB of memory"
            elif sum(map(processes.processor_seconds, alive)) > limits.processor_seconds:
                problem = f"used more than {limits.processor_seconds} s of processor time"
            else:
                problem = _describe_excess(scratch, limits, _count_nameless(alive, limits))
        _kill(process)
        until = time.monotonic() + 1
        # what is left in the pipes
        while selector.get_map() and time.monotonic() < until and read(_POLL_S):
            pass
    return problem, peak, [text.decode("utf-8", "replace") for text in texts.values()]


def _kill(process: subprocess.Popen) -> None:
    """End the command's session; bubblewrap takes with it all that runs in the sandbox."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _list_of_user(user: int) -> list[Path]:
    """Return the folders in ``/proc`` of all processes of a user: some may have outlived their parents."""
    folders = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if re.search(rf"^Uid:\s+{user}\s", (process / "status").read_text(), re.M):
                folders.append(process)
    return folders


def _take_user() -> tuple[int, socket.socket]:
    """Return (user, socket): a number of `_USERS` that no other process uses, and what reserves it until it is closed.

    The socket's name, which has the number, is in no folder: the system frees it when this process
    ends. EngineError if all are in use.
    """
    first = threading.get_native_id()
    for user in (_USERS[(first + n) % len(_USERS)] for n in range(len(_USERS))):
        kept = socket.socket(socket.AF_UNIX)
        try:
            kept.bind(f"\0hostcuda-user-{user}")
            return user, kept
        except OSError:
            kept.close()
    raise EngineError(f"all {len(_USERS)} users for the sandbox have a command to run")


def _count_nameless(alive: Sequence[Path], limits: Limits) -> int:
    """Return the bytes on disk of files without a name that the processes `alive`, folders of ``/proc``, have open.

    The size of a file that is only mapped is not known: it counts as the largest one, `limits.file`.
    """
    sizes = {}
    for process in alive:
        with contextlib.suppress(OSError):  # it has just ended
            for link in (process / "fd").iterdir():
                with contextlib.suppress(OSError):
                    file = link.stat()
                    if stat.S_ISREG(file.st_mode) and not file.st_nlink:
                        sizes[file.st_ino] = 512 * file.st_blocks
        with contextlib.suppress(OSError):
            for mapped in _NAMELESS.finditer((process / "maps").read_text(errors="replace")):
                sizes.setdefault(int(mapped[1]), limits.file)
    return sum(sizes.values())


def _describe_excess(folder: Path, limits: Limits, total: int = 0) -> str:
    """Return which limit the files of a folder, and `total` bytes of other files, exceed on disk; "" if none.

    It is the end of a sentence: "wrote more than 256 MB of files".
    """
    count, places = 0, [os.fspath(folder)]
    if total > limits.scratch:
        return f"wrote more than {limits.scratch // MIB} MB of files"
    while places:
        try:
            with os.scandir(places.pop()) as entries:
                for entry in entries:
                    count += 1
                    with contextlib.suppress(FileNotFoundError):
                        # blocks of 512 bytes
                        total += 512 * entry.stat(follow_symlinks=False).st_blocks
                    if entry.is_dir(follow_symlinks=False):
                        places.append(entry.path)
                    if total > limits.scratch:
                        return f"wrote more than {limits.scratch // MIB} MB of files"
                    if count > limits.files:
                        return f"wrote more than {limits.files:,} files"
        except FileNotFoundError:  # it was removed meanwhile
            continue
        except OSError:  # closed to its owner, or its path is too long
            return "made a folder that cannot be read"
    return ""


def _describe_status(status: int | None, limits: Limits) -> str:
    """Return the problem that an exit status states, as the end of a sentence: "was ended by SIGSEGV"; or ""."""
    if status == -signal.SIGXCPU:
        return f"used more than {limits.processor_seconds} s of processor time"
    if status == -signal.SIGXFSZ:
        return f"wrote a file of more than {limits.file // MIB} MB"
    if status and status < 0:
        with contextlib.suppress(ValueError):
            return f"was ended by {signal.Signals(-status).name}"
    return f"ended with exit status {status}" if status else ""
