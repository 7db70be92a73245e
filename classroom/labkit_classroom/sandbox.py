"""Run a command that is not trusted: a submitted kernel is native code.

bubblewrap gives the command namespaces of its own: no network, no other processes, and a read-only
file system with ``/usr``, Python, this package and the lab without its solutions in it. Writable
are one scratch folder and a private ``/tmp``. The latter also holds the cache of compiled kernels,
so that a submission leaves nothing in the grader's own cache. Limits are set by the operating
system where it can (processor time, processes, a file's size) and watched from outside where it
cannot (time, total memory, the scratch folder). When a limit is reached or this process ends, all
processes in the sandbox end. A filter (`labkit_classroom.seccomp`) leaves the system calls that
kernels and compilers need.

In a container of its own, bubblewrap is neither needed nor allowed. ``LABKIT_SANDBOX=container``
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
import re
import secrets
import selectors
import shutil
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hostcuda import processes, temporary
from hostcuda.settings import HOME
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE, PYTHONPATH, SERIES
from labkit.exercises.exercise import ATTEMPT_S, FILE_BYTES
from labkit.ladder.source import NVCC_OPTIONS
from labkit_classroom import probe, seccomp

MIB = 1 << 20
_RESERVED = 4 << 30  # bytes of address space that the engine reserves and does not use
_HERE = Path(__file__).resolve().parent
_POLL_S, _MOST_VALUES = 0.05, 1_000_000  # between two looks at a command; of the JSON of a result
# The users who run commands that root starts: a limit on processes does not bind root, and counts
# all of a user's.
_NOBODY, _USERS = 65534, range(60001, 61001)
# the cache inside belongs to the command, what is in it does not
_CACHE, _MADE = (
    "/tmp/labkit",
    "/tmp/labkit-made",
)


@dataclass(frozen=True)
class Limits:
    """What a command may use in the sandbox.

    Attributes
    ----------
    seconds : float
        Time from the start of the command to its end.
    processor_seconds : int
        Processor time of each process.
    memory : int
        Bytes of memory of all processes together.
    processes : int
        Processes and threads of one user at a time.
    file, scratch : int
        Bytes of one file, and of all files in the scratch folder; the private ``/tmp`` can hold as
        many.
    open_files : int
        Open files of each process.
    output : int
        Bytes that are kept of each of the two outputs.
    """

    seconds: float = ATTEMPT_S
    processor_seconds: int = 120
    memory: int = 768 * MIB
    processes: int = 128
    file: int = FILE_BYTES
    scratch: int = 256 * MIB
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


class NoResultError(LabError):
    """By its own fault a command has no result: it reached a limit, crashed, or replaced the file of the result."""


# Whether there is a sandbox

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


def in_container() -> bool:
    """Return whether a container serves as the sandbox, in place of bubblewrap."""
    return os.environ.get("LABKIT_SANDBOX") == "container"


@functools.cache
def why_not() -> str:
    """Return in one sentence why no command can be run in a sandbox here, or "".

    The first call tries it.
    """
    if sys.platform != "linux":
        return f"the sandbox needs Linux, and this is {sys.platform}"
    bubblewrap = () if in_container() else (("bwrap", "bubblewrap"),)
    for name, package in (*bubblewrap, ("prlimit", "util-linux"), ("setpriv", "util-linux")):
        if not shutil.which(name):
            return f"{package} is missing: sudo apt install {package}"
    if in_container() and os.geteuid():
        return "in a container the grader has to be root, so that it can run kernels as other users"
    with temporary.folder() as folder:
        trial = _run([sys.executable, "-I", "-c", ""], folder)
    if trial.problem:
        reason = (trial.stderr.strip().splitlines() or [trial.problem])[-1]
        if in_container():
            return f"this container does not let commands run as other users ({reason})"
        return (
            f"bubblewrap is installed but does not work here ({reason}): allow user namespaces, in a container with "
            "--privileged or --security-opt seccomp=unconfined, or make an image: labkit autograder --image"
        )
    for wall, hole in try_walls().items():
        if hole and wall != "calls":
            return f"the wall around the {WALLS[wall]} is missing: {hole}"
    return ""


@functools.cache
def try_walls() -> dict[str, str]:
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
        PACKAGE,
        _HERE,
        SERIES.parent,
    )
    unwritable = [*map(str, (*Path("/").glob("*/"), *places))]
    hidden = [SERIES]  # the solutions
    if in_container():
        hidden += [Path.cwd()] * (Path.cwd() != Path("/"))  # with what is handed in, and grades
    else:
        unwritable.remove("/tmp")  # a private one
    limits = Limits(seconds=20, processes=16)
    name = f"labkit-{make_nonce()}"
    with temporary.folder() as folder, temporary.folder() as other, contextlib.ExitStack() as stack:
        server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        unnamed = stack.enter_context(socket.socket(socket.AF_UNIX))
        unnamed.bind("\0" + name)
        unnamed.listen()
        (other / "handed-in.cu").write_text("another student's")
        # With this process's number goes its start time: in the sandbox another process may have
        # the same number.
        started = Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]
        # wall -> the arguments of probe.py's function that tries to get through, as
        # probe_network(…)
        attempts = {
            "network": [server.getsockname()[1], name],
            "files": [[*map(str, (*hidden, other / "handed-in.cu"))], unwritable],
            "processes": [os.getpid(), started, limits.processes],
            "memory": [limits.memory + _RESERVED + (1 << 30)],
            "calls": [],  # 1 GiB too much
        }
        child = _run(
            [sys.executable, "-I", "-S", probe.__file__],
            folder,
            stdin=json.dumps(attempts),
            limits=limits,
        )
        hog = "import time; kept = b'1' * (128 << 20); time.sleep(2)"
        trial = _run(
            [sys.executable, "-I", "-S", "-c", hog],
            folder,
            limits=Limits(seconds=20, memory=64 * MIB),
        )
    # The probe prints a dict: wall -> phrases for what it could do, such as "reaches 127.0.0.1";
    # none if it stands.
    holes = (
        json.loads(child.stdout)
        if not child.problem
        else {wall: [f"the probe {child.problem}"] for wall in WALLS}
    )
    if "of memory" not in trial.problem:
        holes["memory"].append("uses more than it may")
    remedies = {wall: f": {_HOW_TO_WALL[wall]}" if wall in _HOW_TO_WALL else "" for wall in WALLS}
    return {
        wall: f"a kernel {', '.join(holes[wall])}{remedies[wall]}" if holes[wall] else ""
        for wall in WALLS
    }


def describe_walls() -> str:
    """Return a sentence that says which walls, such as those around network and files, stand here, and which do not."""
    holes = try_walls()
    by = "the container" if in_container() else "bubblewrap"
    missing = [f"; missing: {WALLS[wall]} ({hole})" for wall, hole in holes.items() if hole]
    return f"Walls that stand ({by}): {', '.join(WALLS[wall] for wall in holes if not holes[wall])}{''.join(missing)}"


def available() -> bool:
    """Return whether commands can be run in a sandbox here."""
    return not why_not()


def require(unsafe: bool = False) -> None:
    """Raise LabError, which says why, if there is no sandbox, unless the user does without (`unsafe`)."""
    if not unsafe and (reason := why_not()):
        raise LabError(
            f"kernels that others have written are not run without a sandbox: {reason}. With --unsafe they run as "
            "you, and can read, change and send all that you can"
        )


# ------------------------------------------------------------------ Its file system and environment
def _make_environment(check: str) -> dict[str, str]:
    """Return the environment of a command, with these tools of check mode; it has little of this process's own."""
    inherited = {name: os.environ[name] for name in ("CXX", "LANG", "LC_ALL") if name in os.environ}
    return inherited | {
        "PATH": os.pathsep.join(
            [str(Path(sys.executable).parent), "/usr/local/bin", "/usr/bin", "/bin"]
        ),
        "PYTHONPATH": PYTHONPATH,
        "PYTHONDONTWRITEBYTECODE": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "HOSTCUDA_ENGINE": "cpu",
        "HOSTCUDA_CHECK": check,
        "HOSTCUDA_CACHE_DIR": _CACHE,
    }


@functools.cache
def precompile(check: str) -> tuple[Path, ...]:
    """Return the paths of the engine's compiled files for these tools of check mode, in this process's cache."""
    program = "import sys; from hostcuda import checking; print(*checking.engine_files(sys.argv[1:]), sep='\\n')"
    child = subprocess.run(
        [sys.executable, "-c", program, *NVCC_OPTIONS],
        env={**os.environ, "PYTHONPATH": PYTHONPATH, "HOSTCUDA_CHECK": check},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    if child.returncode:
        last = (child.stderr.strip().splitlines() or [""])[-1]
        raise LabError(f"the CPU engine cannot be prepared for the sandbox: {last}")
    paths = tuple(Path(line).resolve() for line in child.stdout.splitlines())
    if in_container():  # the command reads them there
        for folder in {path.parent for path in paths}:
            folder.chmod(0o755)
    return paths


def _with_limits(command: Sequence[str], limits: Limits) -> list[str]:
    """Return the command line that runs a command under the limits of its processes."""
    return [
        "prlimit",
        f"--cpu={limits.processor_seconds}:{limits.processor_seconds + 1}",  # SIGXCPU, then SIGKILL
        f"--as={limits.memory + _RESERVED}",  # address space
        f"--fsize={limits.file}",
        f"--nofile={limits.open_files}",
        "--core=0",
        "--",
        *command,
    ]


def _in_bubblewrap(
    command: Sequence[str],
    scratch: Path,
    readable: Iterable[Path],
    cached: Sequence[Path],
    limits: Limits,
) -> list[str]:
    """Return the command line that runs a command in bubblewrap: it can write to `scratch`, and read `readable`.

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
        Path(path)
        for path in (sys.base_prefix, sys.prefix, PACKAGE, _HERE, HOME / "hostcuda", *readable)
    ]
    visible = [path for path in visible if not path.is_relative_to("/usr")]
    for folder in dict.fromkeys(
        folder for path in (*visible, scratch) for folder in reversed(path.parents[:-1])
    ):
        line += [
            "--perms",
            "0755",
            "--dir",
            str(folder),
        ]  # bubblewrap would make them for their owner alone
    for path in visible:
        line += ["--ro-bind", str(path), str(path)]
    line += ["--tmpfs", str(SERIES), "--remount-ro", str(SERIES)]  # the solutions
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
        link_and_run = (
            f'mkdir -m 700 {cache} && ln -s {" ".join(map(str, cached))} {cache} && exec "$@"'
        )
        command = ["sh", "-c", link_and_run, "sh", *command]
    if seccomp.find_library():
        command = [sys.executable, "-I", "-S", seccomp.__file__, *command]
    return ["prlimit", f"--nproc={limits.processes}", "--", *_with_limits(command, limits)]


def _as_user(user: int, command: Sequence[str]) -> list[str]:
    """Return the command line by which root runs a command as a user, by number, without any privilege."""
    ids = [
        f"--reuid={user}",
        f"--regid={user}",
        "--clear-groups",
        "--pdeathsig=KILL",
    ]  # it ends with the grader
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
def run(
    command: Sequence[str],
    scratch: Path,
    *,
    readable: Iterable[Path] = (),
    check: str | None = None,
    environment: Mapping[str, str] | None = None,
    stdin: str = "",
    limits: Limits | None = None,
    unsafe: bool = False,
) -> SandboxEnded:
    """Run a command in the sandbox to its end or to a limit.

    LabError if there is no sandbox and `unsafe` is False, or the CPU engine cannot be compiled.

    Parameters
    ----------
    command : sequence of str
    scratch : Path
        A folder of this command alone, with the same path inside: the one place where it can leave
        files. Where root runs this, the folder is given to the user of `_USERS` that runs the
        command.
    readable : iterable of Path
        What else it can read, at the same paths.
    check : str, optional
        The command uses the CPU engine with these tools of check mode, as in ``HOSTCUDA_CHECK``;
        empty for none. The engine's own compiled files are then provided, and need not be compiled
        inside.
    environment : mapping, optional
        Added to its environment, which otherwise has nothing of this process's.
    stdin : str
        What it reads, for example a nonce.
    limits : Limits, optional
    unsafe : bool
        Run it without bubblewrap, under the limits only, where there is none.
    """
    require(unsafe)
    return _run(command, scratch, readable, check, environment, stdin, limits, available())


def _run(
    command, scratch, readable=(), check=None, environment=None, stdin="", limits=None, walled=True
):
    """Run a command as `run` does, without asking whether there is a sandbox; under limits alone if not `walled`."""
    limits = limits or Limits()
    scratch = Path(scratch).resolve()
    variables = _make_environment(check or "")
    scratch_variables = {
        "HOME": str(scratch),
        "TMPDIR": str(scratch),
        "HOSTCUDA_CACHE_DIR": str(scratch / "cache"),
    }
    user = None
    if walled:
        cached = () if check is None else precompile(check)
        if os.geteuid() == 0:
            # another one in each process that grades
            user = _USERS[threading.get_native_id() % len(_USERS)]
            os.chown(scratch, user, user)
        if in_container():
            variables |= scratch_variables
            line = _as_user(
                user, _with_filter(command, cached, scratch_variables["HOSTCUDA_CACHE_DIR"], limits)
            )
        else:
            line = _in_bubblewrap(command, scratch, map(Path, readable), cached, limits)
    else:
        line = _with_limits(command, limits)
        variables |= scratch_variables
    began = time.monotonic()
    process = subprocess.Popen(
        line,
        env={**variables, **(environment or {})},
        cwd=scratch,
        start_new_session=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process.stdout, process.stderr:
        try:
            # a pipe: what was read cannot be read again
            with (
                contextlib.suppress(BrokenPipeError),
                process.stdin,
            ):
                process.stdin.write(stdin.encode())
            problem, peak, texts = _watch(
                process, scratch, limits, began, user if in_container() else None
            )
        finally:
            _kill(process)
            if in_container() and user:  # what has left the session
                subprocess.run(
                    _as_user(user, ["sh", "-c", "kill -KILL -1"]), stderr=subprocess.DEVNULL
                )
    seconds = time.monotonic() - began
    status = None if problem else process.returncode
    if status is not None and status > 128:  # bubblewrap's status for a signal
        status = 128 - status
    return SandboxEnded(status, problem or _describe_status(status, limits), seconds, peak, *texts)


def _watch(
    process: subprocess.Popen, scratch: Path, limits: Limits, began: float, user: int | None
) -> tuple[str, int, list[str]]:
    """Read a command's outputs until it ends, or kill it when it exceeds a limit.

    Return the limit's sentence or "", the peak of its memory in bytes, and its two outputs. `began`
    is the time of its start. In a container, a `user` has all its processes.
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
            memory = (
                processes.measure_memory(process.pid)
                if user is None
                else _measure_user_memory(user)
            )
            peak = max(peak, memory)
            if now - began > limits.seconds:
                problem = f"took longer than {limits.seconds:g} s"
            elif memory > limits.memory:
                problem = f"used more than {limits.memory // MIB} MB of memory"
            elif _holds_more(scratch, limits.scratch):
                problem = f"wrote more than {limits.scratch // MIB} MB of files"
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


def _measure_user_memory(user: int) -> int:
    """Return the bytes of memory of all processes of a user: some may have outlived their parents."""
    total = 0
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            owned = re.search(rf"^Uid:\s+{user}\s", (process / "status").read_text(), re.M)
            total += processes.resident_bytes(process) if owned else 0
    return total


def _holds_more(folder: Path, most: int) -> bool:
    """Return whether the files of a folder take more than `most` bytes on disk; each counts at least 4096."""
    total = 0
    for place, folders, files in os.walk(folder):
        for name in folders + files:
            with contextlib.suppress(OSError):
                # blocks of 512 bytes
                total += max(4096, 512 * os.lstat(os.path.join(place, name)).st_blocks)
            if total > most:
                return True
    return False


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


# ------------------------------------------------------------------------------------------ Results
def make_nonce() -> str:
    """Return a random word that nobody can guess."""
    return secrets.token_hex(16)


def parse_json(data: bytes, most: int) -> object:
    """Return the value of an untrusted JSON text.

    ValueError if it is no JSON, or may have more than `most` values.
    """
    # before it is parsed: before each value stands one of these
    if sum(map(data.count, (b"{", b"[", b","))) > most:
        raise ValueError(f"it has more than {most:,} values")
    return json.loads(data)


def read_answer(ended: SandboxEnded, path: Path, word: str, most: int = 64 * MIB) -> dict:
    """Return the result that a command has left, read outside the sandbox.

    Parameters
    ----------
    ended : SandboxEnded
        It must have ended by itself with status 0.
    path : Path
        A file of JSON that `labkit.exercises.grader.write_answer` wrote: ``nonce``, and ``record``,
        a dict.
    word : str
        The nonce that the command was given.
    most : int
        Bytes; a longer file is not read.

    Raises
    ------
    NoResultError
        The command did not come to its end, there is no such file, it is not a plain file, or the
        nonce is wrong.
    LabError
        It ended with an exit status other than 0, or something killed it: that need not be its own
        fault.
    """
    if ended.problem:
        own_fault = ended.status is None or (ended.status < 0 and ended.status != -signal.SIGKILL)
        raise (NoResultError if own_fault else LabError)(
            f"there is no result: the program {ended.problem}"
        )
    try:
        # A link would be followed with the rights of this process, and a pipe would be waited for.
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            data = (
                file.read(most + 1)
                if stat.S_ISREG(status.st_mode) and status.st_nlink == 1
                else b""
            )
        values = parse_json(data, _MOST_VALUES) if len(data) <= most else None
    except (OSError, ValueError, RecursionError):
        values = None
    claimed = str(values.get("nonce")) if isinstance(values, dict) else ""
    right = secrets.compare_digest(claimed.encode("utf-8", "replace"), word.encode())
    if not right or not isinstance(values.get("record"), dict):
        raise NoResultError(
            "there is no result: the program ended before it could write one, or another one was put "
            "there"
        )
    return values["record"]
