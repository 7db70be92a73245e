"""A program in a process of its own, so that its faults do not affect this process.

`program` gives the command that runs a program on an engine; `run` starts a command and reports how
it ended.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import hostcuda
from hostcuda.errors import EngineError, Interrupted
from hostcuda.programs.imports import imports
from hostcuda.settings import HOME

# For a program whose libraries, such as NumPy's, are to start no threads.
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1")
# For a program of the engine or the lab: it takes no module from the folder in which it works.
OWN_MODULES = {"PYTHONSAFEPATH": "1"}


def own_program(module: str, *arguments: str) -> list[str]:
    """Return the command that runs a module of the engine or the lab as a program.

    With Python's option -P it does not import modules from the working folder, such as a user's own
    ``random.py`` there. Programs that it starts may import them, because -P is not passed on.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


def split_python(command: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the command of a Python program into Python with its option -P, if it is there, and the rest.

    ["python", "-P", "-m", "x"] becomes (["python", "-P"], ["-m", "x"]).
    """
    words = 2 if command[1] == "-P" else 1
    return list(command[:words]), list(command[words:])


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes
    ----------
    status : int or None
        The exit status, negative for a signal: that of SIGINT after Ctrl-C. None if the time limit
        stopped it.
    seconds : float
    output : str
        What it printed, if that was captured.
    """

    status: int | None
    seconds: float
    output: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped the program."""
        return self.status == -signal.SIGINT

    @property
    def stopped(self) -> bool:
        """Whether a time limit or Ctrl-C stopped the program before its end."""
        return self.status is None or self.interrupted

    @property
    def problem(self) -> str:
        """What went wrong, as the end of a sentence: "failed with exit status 1"; "" if nothing did."""
        if self.status is None:
            return f"did not end within {self.seconds:.0f} s and was stopped"
        if self.interrupted:
            return f"was interrupted after {self.seconds:.1f} s and stopped"
        if self.status < 0:
            with contextlib.suppress(ValueError):  # a signal that has no name in Python
                return (
                    f"was ended by {signal.Signals(-self.status).name} after {self.seconds:.1f} s"
                )
        return f"failed with exit status {self.status}" if self.status else ""

    @property
    def last_lines(self) -> str:
        """The last 12 lines of what the program printed."""
        return "\n".join(self.output.strip().splitlines()[-12:])

    def require(self, what: str, note: str = "") -> None:
        """Raise an error unless the program came to its end with exit status 0.

        Parameters
        ----------
        what : str
            What was attempted, for the message: "profiling".
        note : str
            A remark of the tool that ran the program.

        Raises
        ------
        EngineError
            It failed; the message has its last output.
        Interrupted
            Ctrl-C stopped it.
        """
        if self.interrupted:
            raise Interrupted(f"{what} was stopped")
        if self.problem:
            raise EngineError(f"{what} {self.problem}. {note}".rstrip() + f"\n{self.last_lines}")


def engine(name: str | None) -> str:
    """Check the name of an engine and return it; for None, return the engine that `hostcuda` chooses.

    EngineError if there is no such engine, or no GPU.
    """
    if name not in (None, "cpu", "gpu"):
        raise EngineError(f"engine = {name!r}: it must be cpu or gpu")
    if name == "gpu" and (missing := hostcuda.why_no_gpu()):
        raise EngineError(
            f"there is no GPU to use: {missing}. The CPU engine counts and checks without one."
        )
    return name or hostcuda.engine()


def split_options(text: str) -> list[str]:
    """Return the words of a compiler's options, split as a shell does; raise an EngineError if it cannot be."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise EngineError(f"the options {text!r} cannot be read: {error}") from None


def program(
    script: str,
    arguments: Sequence[str],
    on: str,
    options: Sequence[str] = (),
    seconds: float | None = None,
) -> list[str]:
    """Return the command that runs a program: in Python, or in CUDA C++ with its host code.

    EngineError if there is no such file, if it is neither in Python nor in CUDA C++, or if nvcc
    does not compile it.

    Parameters
    ----------
    script : str
        Its path. A ``.cu`` file or one in C++ is compiled, for a GPU by nvcc. A Python program that
        imports PyCUDA, CuPy or cuda.core gets the CPU engine under that name.
    arguments : sequence of str
    on : {"cpu", "gpu"}
        The engine.
    options : sequence of str
        nvcc's options, for a ``.cu`` file.
    seconds : float, optional
        Time limit of the ``main`` of a ``.cu`` file on the CPU engine; its compilation does not
        count. Without effect for other programs.
    """
    path = Path(script).expanduser()
    if not path.is_file():
        raise EngineError(
            # a word with a dash may also have been meant as an option
            f"there is no {'option or ' if script.startswith('-') else ''}program {script}: give the path of a "
            "Python script that uses hostcuda, or of a .cu file with a main"
        )
    if path.suffix == ".ipynb":
        raise EngineError(
            f"{script} is a notebook, not a program: give a Python script that launches the kernels"
        )
    if path.suffix not in (".py", "", *_COMPILED):
        raise EngineError(
            f"{script} is no program: give a Python script (.py), or CUDA C++ (.cu, .cpp) with a main"
        )
    if path.suffix not in _COMPILED:
        if on == "cpu" and imports(path.read_text(errors="replace"), _PACKAGES):
            return own_program("hostcuda.programs.python", str(path), *arguments)
        return [sys.executable, str(path), *arguments]
    if on == "cpu":
        words = [f"--options={shlex.join(options)}"] if options else []
        words += [f"--seconds={seconds:g}"] if seconds else []
        return own_program("hostcuda.programs.program", *words, str(path), *arguments)
    return [_compile(path, options), *arguments]


_made: set[str] = set()  # the files that nvcc has made


def is_compiled(command: Sequence[str]) -> bool:
    """Return whether a command, as `program` returns it, starts a file that nvcc has made, and not Python."""
    return command[0] in _made


_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
# for which the engine stands in
_PACKAGES = r"pycuda|cupy|cuda\.core|cuda\s+import\s+core"


def _compile(path: Path, options: Sequence[str]) -> str:
    """Compile a program with nvcc for this machine's GPU; return the path of the file, kept until this process ends."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise EngineError(
            f"nvcc, which compiles {path.name} for the GPU, is not on the path: install the CUDA toolkit"
        )
    folder = Path(tempfile.mkdtemp(prefix="hostcuda-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    out = folder / path.stem
    _made.add(str(out))
    command = [nvcc, "-arch=native", "-lineinfo", *options, "-o", str(out), str(path)]
    result = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if result.returncode:
        raise EngineError(
            f"nvcc does not compile {path}:\n{result.stderr.strip() or result.stdout.strip()}"
        )
    return str(out)


def run(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float | None = None,
    capture: bool = False,
    memory: int | None = None,
) -> Ended:
    """Run a program to its end, to the time limit, to Ctrl-C, or to the end of this process; return how it ended.

    Parameters
    ----------
    command : sequence of str
    environment : mapping
        Variables to set beside those of this process, which the program gets, too.
    timeout : float, optional
        Seconds after which the program and its child processes are stopped, as they are by Ctrl-C:
        first with SIGINT, so that the results up to then are kept, then with SIGKILL. EngineError
        if it is not positive.
    capture : bool
        Keep what it prints instead of printing it.
    memory : int, optional
        Bytes of the program and its child processes together: more, and they are killed.
    """
    if timeout is not None and not 0 < timeout < threading.TIMEOUT_MAX:
        raise EngineError(
            f"a time limit of {timeout:g} s: give a positive number of seconds, or none"
        )
    # the program can import the engine (HOME), and the packages that this process can
    path = os.pathsep.join(
        filter(None, [str(HOME), *_find_added_folders(), os.environ.get("PYTHONPATH")])
    )
    # the bytes that may be printed, as the option --output-limit says
    limit = None if capture else os.environ.get("HOSTCUDA_OUTPUT_LIMIT")
    # The program writes to this process's own outputs; with `capture`, into one text; with a limit, to
    # threads that copy.
    captured = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.STDOUT,
        "text": True,
        "errors": "replace",
    }
    limited = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    began = time.monotonic()
    # in a session of its own, so that a signal reaches its child processes, too
    process = subprocess.Popen(
        command,
        env={**os.environ, "PYTHONPATH": path, **environment},
        start_new_session=True,
        stdin=subprocess.DEVNULL if capture else None,
        preexec_fn=make_parent_guard(),
        **(captured if capture else limited if limit else {}),  # {}: this process's own outputs
    )
    copiers = (
        [
            threading.Thread(target=_copy_output, args=(stream, file, int(limit)))
            for stream, file in ((process.stdout, 1), (process.stderr, 2))  # file descriptors
        ]
        if limit
        else []
    )
    for copier in copiers:
        copier.start()
    if copiers:  # the copiers read the streams, not communicate()
        process.stdout = process.stderr = None
    done = threading.Event()  # tells the thread that watches the memory to end
    if memory:
        threading.Thread(target=_bound_memory, args=(process, memory, done), daemon=True).start()
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stop:
        _signal(process, signal.SIGINT)
        # a second Ctrl-C does not wait
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):
            process.communicate(timeout=_GRACE)  # seconds that it gets to write its results
        _signal(process, signal.SIGKILL)  # to its child processes, too
        output = process.communicate()[0]  # what it had printed until then
        # None: the time limit
        status = -signal.SIGINT if isinstance(stop, KeyboardInterrupt) else None
    except BaseException:
        _signal(process, signal.SIGKILL)
        process.wait()
        raise
    finally:
        done.set()
    for copier in copiers:
        copier.join()
    return Ended(status, time.monotonic() - began, output or "")


_RESIDENT = re.compile(r"^Rss(?:Anon|Shmem):\s*(\d+)", re.MULTILINE)  # of /proc/PID/status, in KiB


def list_descendants(pid: int) -> list[Path]:
    """Return the folders in ``/proc`` of the process `pid` and its descendants, without those that have ended."""
    folders, waiting = [], [pid]
    while waiting:
        process = Path(f"/proc/{waiting.pop()}")
        with contextlib.suppress(OSError):  # it has just ended
            for task in (process / "task").iterdir():
                waiting += (task / "children").read_text().split()
            folders.append(process)
    return folders


def measure_memory(pid: int) -> int:
    """Return how many bytes of memory the process `pid` and its descendants use, without the files that they map."""
    return sum(map(resident_bytes, list_descendants(pid)))


def resident_bytes(process: Path) -> int:
    """Return how many bytes of memory a process uses, without the files that it maps; 0 if it has ended.

    `process` is its folder in ``/proc``.
    """
    with contextlib.suppress(OSError):
        status = (process / "status").read_text()
        return sum(1024 * int(kilobytes) for kilobytes in _RESIDENT.findall(status))
    return 0


def processor_seconds(process: Path) -> float:
    """Return the processor time in seconds of a process and of its children that have ended; 0 if it has ended.

    `process` is its folder in ``/proc``.
    """
    with contextlib.suppress(OSError):
        # utime, stime, cutime and cstime are fields 14 to 17 of proc(5); the name ends field 2
        fields = (process / "stat").read_text().rpartition(")")[2].split()
        # the list begins with field 3; the times are in ticks of the clock
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0.0


def bind_system() -> list[str]:
    """Return bubblewrap's options that show the system's programs and libraries, read-only, in a sandbox."""
    line = ["--ro-bind", "/usr", "/usr"]
    # most of these are links to folders in /usr
    for path in map(Path, ("/bin", "/sbin", "/lib", "/lib32", "/lib64")):
        if path.is_symlink():
            line += ["--symlink", os.readlink(path), str(path)]
        elif path.is_dir():
            line += ["--ro-bind", str(path), str(path)]
    return line


def _bound_memory(process: subprocess.Popen, most: int, done: threading.Event) -> None:
    """Kill a program and its child processes if they use more than `most` bytes; return once `done` is set."""
    while not done.wait(0.1):
        if measure_memory(process.pid) > most:
            _signal(process, signal.SIGKILL)


def _copy_output(pipe: BinaryIO, file: int, most: int) -> None:
    """Copy at most `most` bytes from a program's pipe to a file descriptor; count the rest and print its size."""
    count = 0
    while data := os.read(pipe.fileno(), 1 << 16):
        left = memoryview(data)[: max(0, most - count)]
        while left:
            left = left[os.write(file, left) :]
        count += len(data)
    if count > most:
        print(
            f"\nhostcuda: {count - most:,} more bytes were not printed (--output-limit {most})",
            file=sys.stderr,
        )


def _find_added_folders() -> list[str]:
    """Return the folders on `sys.path` that are not Python's own: a program's packages may come from there."""
    python = (sys.prefix, sys.base_prefix)
    return [
        folder
        for folder in sys.path
        if folder and not folder.startswith(python) and folder != os.getcwd()
    ]


def make_parent_guard(
    parent: int | None = None, which: signal.Signals = signal.SIGKILL
) -> Callable[[], None] | None:
    """Return a function for a new process to call first, so that it gets the signal `which` when its parent ends.

    None on other systems than Linux. `parent` is the parent's process id; None: this process.
    """
    if sys.platform != "linux":
        return None
    parent = parent or os.getpid()
    prctl, set_parent_death_signal = ctypes.CDLL(None).prctl, 1  # 1: PR_SET_PDEATHSIG

    def request_signal():
        prctl(set_parent_death_signal, int(which))
        if os.getppid() != parent:  # the parent has ended already
            os.kill(os.getpid(), which)

    return request_signal


_GRACE = 3.0  # seconds from SIGINT to SIGKILL


def _signal(process: subprocess.Popen, which: signal.Signals) -> None:
    """Send a signal to a program and its child processes, which are one process group, if they still run."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, which)


def lines(path: Path) -> list[dict]:
    """Return the records of a file with an object of JSON per line; skip incomplete lines.

    Without such a file the list is empty.
    """
    records = []
    if path.is_file():
        for line in path.read_text(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
    return records
