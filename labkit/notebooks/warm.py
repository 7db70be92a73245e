"""Fork the kernels of a report from this process, which has imported what notebooks import.

``python -P -m labkit.notebooks.warm`` reads requests from its standard input, one per line of JSON, and answers each
with a line: `labkit.notebooks.kernels` is the other side. It starts no thread and no engine, so that a fork is a whole
process. It ends when its input ends, and then its kernels end, too.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import re
import signal
import threading
from pathlib import Path

import numpy as np

import labkit
from labkit.base import kept, turns

# Modules that pages need besides the names of labkit.
MODULES = (
    "ipykernel.ipkernel", "ipykernel.kernelapp", "matplotlib.pyplot", "PIL.PngImagePlugin", "labkit.page.cells",
    "labkit.page.overview", "labkit.measure.rounding", "labkit.measure.streams",
)
CPU_ENGINE = ("hostcuda.driver", "hostcuda.compiler", "hostcuda.activity", "hostcuda.checking")
_CLOCK = re.compile(r"\b(perf_counter|time_since|time_till|timeit)\b")  # a cell that measures by itself


def main() -> None:
    """Answer requests; in a fork, become a kernel."""
    with os.fdopen(os.dup(0)) as requests, os.fdopen(os.dup(1), "w", buffering=1) as answers:
        os.dup2(2, 1)  # what is printed is no answer
        _import()
        print("{}", file=answers)
        request = _serve(requests, answers)
    if request:
        _be_a_kernel(**request)


def _import() -> None:
    os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")  # as a kernel does, but too late
    # PyCUDA is left to the kernels: CUDA does not survive a fork.
    for name in (*MODULES, *(CPU_ENGINE if os.environ.get("HOSTCUDA_ENGINE") == "cpu" else ())):
        importlib.import_module(name)
    for package in (labkit, labkit.draw):
        for name in package.__all__:
            getattr(package, name)
    gc.collect()
    gc.freeze()


def _serve(requests, answers) -> dict | None:
    """Fork a kernel for each ``{"fork": …}``, and answer to ``{"poll": pid}`` whether a kernel has ended.

    Returns None at the end, and in a fork the request's arguments.
    """
    for line in requests:
        request = json.loads(line)
        if "fork" in request:
            assert threading.active_count() == 1  # a fork has no other threads, but the locks that they hold
            pid = os.fork()
            if pid == 0:
                return request["fork"]
            answer = {"pid": pid}
        else:
            pid, status = os.waitpid(request["poll"], os.WNOHANG)
            answer = {"status": os.waitstatus_to_exitcode(status) if pid else None}
        print(json.dumps(answer), file=answers)
    return None


def _be_a_kernel(argv: list[str], cwd: str, messages: str, folder: str, state: str) -> None:
    """Run a kernel in this process to its end."""
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # PR_SET_PDEATHSIG: the kernel ends with its parent
    for name, flags, *streams in ((os.devnull, os.O_RDONLY, 0), (messages, os.O_WRONLY | os.O_APPEND, 1, 2)):
        for stream in streams:
            os.dup2(os.open(name, flags), stream)
    os.chdir(cwd)
    np.random.seed()  # noqa: NPY002 - pages may use it, and all kernels would draw the same; `random` seeds itself
    turn = turns.Turns(Path(folder))
    app = IPKernelApp.instance(parent_handle=os.getppid())
    with turn.together():
        app.initialize(argv)
        labkit.load_ipython_extension(app.shell)  # `import labkit` does so, and has been executed before the fork
    _take_turns(app.shell.events, turn)
    kept.join(kept.Kept(state, Path(folder)))
    app.start()


def _take_turns(events, turn: turns.Turns) -> None:
    """Run cells while no other kernel measures; cells that read a clock themselves run alone."""
    turns.join(turn)
    cell = contextlib.ExitStack()

    def begin(info):
        cell.enter_context(turn.together())
        if _CLOCK.search(info.raw_cell):
            cell.enter_context(turn.alone())

    events.register("pre_run_cell", begin)
    events.register("post_run_cell", lambda result: cell.close())


if __name__ == "__main__":
    main()
