"""Execute many notebooks in parallel, except those for which nothing has changed since their last execution."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

import hostcuda
from hostcuda import temporary
from hostcuda.errors import EngineError
from labkit.base.kept import Kept, state
from labkit.base.paths import private_cache
from labkit.base.turns import Turns
from labkit.notebooks import execute, kernels
from labkit.notebooks.execute import Notebook, Progress

# The most notebooks at a time: each may fill gigabytes of a GPU's memory, and all wait for one that measures.
MOST = {"gpu": 2, "cpu": 4}


def run(notebooks: Iterable[Notebook], progress: Progress, fresh: bool = False) -> Iterator[Notebook]:
    """Execute notebooks, one per core at a time; yield each when it has run.

    Cells that measure have the machine alone, see `labkit.base.turns`: they wait also while the caller works on a
    notebook that was yielded. Unless `fresh`, a notebook of the series that has run before gets its outputs from then,
    if neither its code nor anything that it depends on has changed. Without notebooks, nothing is started.
    """
    notebooks = [*notebooks]
    if not notebooks:
        return
    with contextlib.ExitStack() as stack:
        try:
            folder = private_cache()
        except EngineError:  # it cannot be written: nothing is kept
            folder = stack.enter_context(temporary.folder())
        store = Kept(state(), folder)
        store.trim()
        device, others = _ask_device(), []
        for notebook in notebooks:
            if fresh or not _recall(store, notebook, device):
                others.append(notebook)
            else:
                progress.start(notebook)
                yield notebook

        def one(notebook: Notebook, warm: kernels.Warm | None = None) -> Notebook:
            progress.start(notebook)
            execute.run(notebook, progress, warm)
            _keep(store, notebook, device)
            return notebook

        turn = _join_turns(folder)
        if turn is None or not others:
            yield from map(one, others)
            return
        pool = ThreadPoolExecutor(min(MOST[hostcuda.engine()], len(os.sched_getaffinity(0))))
        stack.callback(pool.shutdown, cancel_futures=True)
        environment = {**execute.environment(), "HOSTCUDA_ENGINE": hostcuda.engine()}
        # Ends first, also after Ctrl-C: without their kernels, the threads of the pool end, too.
        with turn.together():  # its imports would disturb what another report measures
            warm = stack.enter_context(contextlib.closing(kernels.Warm(environment, folder, store.state)))
        for future in as_completed([pool.submit(one, notebook, warm) for notebook in others]):
            with turn.together():
                yield future.result()


def _join_turns(folder: Path) -> Turns | None:
    """Return this process's part in the lock, or None where notebooks have to run one after the other."""
    try:
        return Turns(folder) if kernels.AVAILABLE else None
    except OSError:  # a file system without locks
        return None


def _key(notebook: Notebook) -> tuple:
    """Return the key under which a series' notebook is kept; () for others, which may read any file."""
    if not execute.has_series() or notebook.path not in (*execute.series(), *execute.closer_looks()):
        return ()
    return ("outputs", notebook.name, *((cell.source, cell.metadata.get("tags")) for cell in execute.code(notebook)))


def _keep(kept: Kept, notebook: Notebook, device: str) -> None:
    if not notebook.failure and (name := _key(notebook)):
        outputs = [(cell.outputs, cell.execution_count) for cell in execute.code(notebook)]
        now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
        kept.put((outputs, notebook.produced, notebook.seconds, now), *name, device)


def _recall(kept: Kept, notebook: Notebook, device: str) -> bool:
    """Give a notebook the outputs of its last execution, if nothing has changed since; return whether it did."""
    name = _key(notebook)
    record = kept.get(*name, device) if name else None
    if record is None:
        return False
    outputs, notebook.nb.metadata["labkit"], notebook.seconds, notebook.since = record
    for cell, outcome in zip(execute.code(notebook), outputs, strict=True):
        cell.outputs, cell.execution_count = outcome
    return True


def _ask_device() -> str:
    """Return the GPU in use, asked in another process: a context here would take memory from the kernels."""
    if hostcuda.engine() == "cpu":
        return "cpu"
    question = "import labkit; device = labkit.device(); print(device.name, device.software)"
    command = [sys.executable, "-c", question]
    return subprocess.run(command, env=execute.environment(), capture_output=True, text=True, check=True).stdout
