"""A program in a process of its own, so that its faults do not affect this process.

`run` starts it and reports how it ended. This module, as ``python -m labkit.evidence.child``, is the program that runs
variants for `labkit.profile` and `labkit.sanitize`.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import pickle
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from labkit import cuda
from labkit.base.errors import Interrupted, LabError, type_of
from labkit.base.paths import PACKAGE
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer


@dataclass(frozen=True)
class Ended:
    """How a program ended.

    Attributes
    ----------
    status : int or None
        The exit status, negative for a signal: that of SIGINT after Ctrl-C. None if the time limit stopped it.
    seconds : float
    output : str
        What it printed, if that was captured.
    """

    status: int | None
    seconds: float
    output: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C stopped it."""
        return self.status == -signal.SIGINT

    @property
    def stopped(self) -> bool:
        """Whether it was stopped before its end."""
        return self.status is None or self.interrupted

    @property
    def problem(self) -> str:
        """What went wrong, or the empty string."""
        if self.status is None:
            return f"did not end within {self.seconds:.0f} s and was stopped"
        if self.interrupted:
            return f"was interrupted after {self.seconds:.1f} s and stopped"
        if self.status < 0:
            with contextlib.suppress(ValueError):
                return f"was ended by {signal.Signals(-self.status).name} after {self.seconds:.1f} s"
        return f"failed with exit status {self.status}" if self.status else ""

    @property
    def last_lines(self) -> str:
        """The end of what it printed."""
        return "\n".join(self.output.strip().splitlines()[-12:])

    def require(self, what: str, note: str = "") -> None:
        """Return if the program came to its end.

        Parameters
        ----------
        what : str
            That it did, for the message: "profiling".
        note : str
            What the tool around it says.

        Raises
        ------
        LabError
            It failed; the message has its last output.
        Interrupted
            Ctrl-C stopped it.
        """
        if self.interrupted:
            raise Interrupted(f"{what} was stopped")
        if self.problem:
            raise LabError(f"{what} {self.problem}. {note}".rstrip() + f"\n{self.last_lines}")


def engine(asked: str | None) -> str:
    """The engine asked for, or the one that `labkit.cuda` chooses.

    Raises
    ------
    LabError
        There is no such engine, or no GPU.
    """
    if asked not in (None, "cpu", "gpu"):
        raise LabError(f"engine = {asked!r}: it must be cpu or gpu")
    if asked == "gpu" and (missing := cuda.why_no_gpu()):
        raise LabError(f"there is no GPU to use: {missing}. The CPU engine counts and checks without one.")
    return asked or cuda.engine()


def program(script: str, arguments: Sequence[str], on: str, options: Sequence[str] = ()) -> list[str]:
    """The command that runs a program: in Python, or in CUDA C++ with its host code.

    Parameters
    ----------
    script : str
        Its path. A ``.cu`` file or one in C++ is compiled, for a GPU by nvcc. What imports PyCUDA gets the CPU engine
        under its name.
    arguments : sequence of str
    on : {"cpu", "gpu"}
        The engine.
    options : sequence of str
        nvcc's, for a ``.cu`` file.

    Raises
    ------
    LabError
        There is no such file, it is neither in Python nor in CUDA C++, or nvcc does not compile it.
    """
    path = Path(script).expanduser()
    if not path.is_file():
        raise LabError(f"there is no program {script}: give the path of a Python script that uses labkit.cuda, or of a "
                       ".cu file with a main")  # fmt: skip
    if path.suffix == ".ipynb":
        raise LabError(f"{script} is a notebook, not a program: give a Python script that launches the kernels")
    if path.suffix not in (".py", "", *_COMPILED):
        raise LabError(f"{script} is no program: give a Python script (.py), or CUDA C++ (.cu, .cpp) with a main")
    if path.suffix not in _COMPILED:
        of_pycuda = on == "cpu" and _PYCUDA.search(path.read_text(errors="replace"))
        return [sys.executable, *(["-m", "labkit.cpu.pycuda"] if of_pycuda else []), str(path), *arguments]
    if on == "cpu":
        given = [f"--options={shlex.join(options)}"] if options else []
        return [sys.executable, "-m", "labkit.cpu.program", *given, str(path), *arguments]
    return [_compiled(path, options), *arguments]


_made: set[str] = set()  # what nvcc has made


def is_compiled(command: Sequence[str]) -> bool:
    """Whether a command of `program` starts what nvcc has made, and not Python."""
    return command[0] in _made


_COMPILED = (".cu", ".cpp", ".cc", ".cxx", ".c")
_PYCUDA = re.compile(r"^\s*(?:import|from)\s+pycuda\b", re.MULTILINE)


def _compiled(path: Path, options: Sequence[str]) -> str:
    """The file that nvcc makes of a program, for the GPU of this machine."""
    nvcc = shutil.which("nvcc")
    if nvcc is None:
        raise LabError(f"nvcc, which compiles {path.name} for the GPU, is not on the path: install the CUDA toolkit")
    folder = Path(tempfile.mkdtemp(prefix="labkit-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    out = folder / path.stem
    _made.add(str(out))
    command = [nvcc, "-arch=native", "-lineinfo", *options, "-o", str(out), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise LabError(f"nvcc does not compile {path}:\n{done.stderr.strip() or done.stdout.strip()}")
    return str(out)


def run(command: Sequence[str], environment: Mapping[str, str], timeout: float | None = None,
        capture: bool = False) -> Ended:  # fmt: skip
    """Run a program to its end, to the time limit, to Ctrl-C, or to the end of this process.

    Parameters
    ----------
    command : sequence of str
    environment : mapping
        Added to the environment of this process.
    timeout : float, optional
        Seconds after which the program and its child processes are stopped, as they are by Ctrl-C: first with SIGINT,
        so that the results up to then are kept, then with SIGKILL.
    capture : bool
        Keep what it prints instead of printing it.

    Raises
    ------
    LabError
        The time limit is not positive.
    """
    if timeout is not None and not timeout > 0:
        raise LabError(f"a time limit of {timeout:g} s: give a positive number of seconds, or none")
    path = os.pathsep.join(filter(None, [str(PACKAGE.parent), os.environ.get("PYTHONPATH")]))
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "errors": "replace"}
    began = time.monotonic()
    process = subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path, **environment}, start_new_session=True,
        stdin=subprocess.DEVNULL if capture else None, preexec_fn=_end_with_parent(), **(pipe if capture else {}),
    )  # fmt: skip
    try:
        output, _ = process.communicate(timeout=timeout)
        status = process.returncode
    except (subprocess.TimeoutExpired, KeyboardInterrupt) as stop:
        _signal(process, signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired, KeyboardInterrupt):  # a second Ctrl-C does not wait
            process.communicate(timeout=_GRACE)
        _signal(process, signal.SIGKILL)  # to its child processes, too
        output = process.communicate()[0]
        status = -signal.SIGINT if isinstance(stop, KeyboardInterrupt) else None
    except BaseException:
        _signal(process, signal.SIGKILL)
        process.wait()
        raise
    return Ended(status, time.monotonic() - began, output or "")


def _end_with_parent():
    """What a new process calls first, so that it is killed when this one ends, which alone knows its time limit."""
    if sys.platform != "linux":
        return None
    parent, prctl, set_parent_death_signal = os.getpid(), ctypes.CDLL(None).prctl, 1

    def ask():
        prctl(set_parent_death_signal, int(signal.SIGKILL))
        if os.getppid() != parent:  # it has ended already
            os.kill(os.getpid(), signal.SIGKILL)

    return ask


_GRACE = 3.0  # seconds from SIGINT to SIGKILL


def _signal(process: subprocess.Popen, which: signal.Signals) -> None:
    """Send a signal to the program and its child processes, which are one process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, which)


def plans(folder: Path, variants: Variant | int | Iterable[Variant | int], layer: Layer, batch: int) -> list[str]:
    """The command that runs each variant once on random images; it writes a line per variant to `folder`/ran.

    Raises
    ------
    LabError
        `layer` is not a layer, a variant does not support it, or the batch is not a positive integer.
    """
    if not isinstance(layer, Layer):
        raise LabError(f"layer is {type_of(layer)}: give one layer, such as lab.LENET86[0]")
    chosen = as_variants(variants)
    for each in chosen:
        each.launches(layer, batch)
    (folder / "job").write_bytes(pickle.dumps((chosen, layer, int(batch))))
    return [sys.executable, "-m", "labkit.evidence.child", str(folder)]


def ran(folder: Path) -> list[dict]:
    """Label, rung and number of launches of each variant that ran.

    Raises
    ------
    CompileError
        One did not compile.
    """
    if (folder / "refused").is_file():
        raise cuda.driver.CompileError(*json.loads((folder / "refused").read_text()))
    return lines(folder / "ran")


def lines(path: Path) -> list[dict]:
    """The records of a file of JSON lines; an incomplete last line is ignored."""
    records = []
    if path.is_file():
        for line in path.read_text(errors="replace").splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                records.append(json.loads(line))
    return records


def _main(folder: Path) -> None:
    cuda.ensure_context()
    variants, layer, batch = pickle.loads((folder / "job").read_bytes())
    rng = np.random.default_rng(2)
    x, k = rng.random(layer.x_shape(batch), np.float32), rng.random(layer.k_shape, np.float32)
    with open(folder / "ran", "w", buffering=1) as log:
        for variant in variants:
            try:
                plan = variant.plan(layer, batch)
            except cuda.driver.CompileError as error:
                (folder / "refused").write_text(json.dumps([error.msg, error.command_line, error.stdout, error.stderr]))
                return
            with plan:
                plan.load(x, k)
                cuda.driver.Context.synchronize()
                record = {"label": variant.label, "rung": variant.rung.number, "launches": len(plan.launches)}
                log.write(json.dumps(record) + "\n")  # before it runs, so that a fault is attributed to this variant
                plan.run()
                cuda.driver.Context.synchronize()


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
