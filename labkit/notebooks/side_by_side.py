"""Execute many notebooks in parallel, except those for which nothing has changed since their last execution."""

from __future__ import annotations

import contextlib
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed

import hostcuda
from hostcuda import temporary
from hostcuda.errors import EngineError
from labkit.base.paths import private_cache
from labkit.base.results_cache import ResultsCache, state
from labkit.notebooks import execute
from labkit.notebooks.execute import Notebook, Progress


def run(
    notebooks: Iterable[Notebook], progress: Progress, fresh: bool = False
) -> Iterator[Notebook]:
    """Execute notebooks; yield each when it has run.

    Without a GPU, one per core at a time, at most four: none of them shows a time of this processor
    as a result. On a GPU one after the other, because most of them measure. Unless `fresh`, a
    notebook of the series that has run before gets its outputs from then, if neither its code nor
    anything that it depends on has changed.
    """
    notebooks = [*notebooks]
    if not notebooks:
        return
    with contextlib.ExitStack() as stack:
        try:
            folder = private_cache()
        except EngineError:  # it cannot be written: nothing is kept
            folder = stack.enter_context(temporary.folder())
        # outputs of earlier runs, valid as long as `state()`, a digest of labkit and the machine,
        # is the same
        store = ResultsCache(state(), folder)
        store.trim()  # removes what nobody has read for a month
        device, others = _ask_device(), []  # others: those to execute
        for notebook in notebooks:
            if fresh or not _recall(store, notebook, device):
                others.append(notebook)
            else:
                progress.start(notebook)
                yield notebook

        def execute_one(notebook: Notebook) -> Notebook:
            """Execute a notebook in a thread, keep its outputs, and return it."""
            progress.start(notebook)
            execute.run(notebook, progress)
            _keep(store, notebook, device)
            return notebook

        pool = ThreadPoolExecutor(
            1 if hostcuda.engine() == "gpu" else min(4, len(os.sched_getaffinity(0)))
        )
        futures = [pool.submit(execute_one, notebook) for notebook in others]
        try:
            for future in as_completed(futures):
                yield future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            # Ctrl-C: cells of other notebooks still run
            while not all(future.done() for future in futures):
                execute.end_kernels()
                time.sleep(0.1)


def _make_key(notebook: Notebook) -> tuple:
    """Return the key of a notebook's outputs: its name and code.

    () if it is not the lab's: it may read any file.
    """
    if not execute.has_series() or notebook.path not in execute.list_notebooks():
        return ()
    cells = execute.list_code_cells(notebook)
    return ("outputs", notebook.name, *((cell.source, cell.metadata.get("tags")) for cell in cells))


def _keep(store: ResultsCache, notebook: Notebook, device: str) -> None:
    """Store the outputs of an execution on this device, unless it failed or the notebook is not the lab's."""
    if not notebook.failure and (key := _make_key(notebook)):
        outputs = [
            (cell.outputs, cell.execution_count) for cell in execute.list_code_cells(notebook)
        ]
        now = datetime.datetime.now().strftime("%Y-%m-%d %H:%M")
        store.put((outputs, notebook.produced, notebook.seconds, now), *key, device)


def _recall(store: ResultsCache, notebook: Notebook, device: str) -> bool:
    """Give a notebook the outputs that `_keep` has stored, if nothing has changed since; return whether it did."""
    key = _make_key(notebook)
    record = store.get(*key, device) if key else None
    if record is None:
        return False
    # "labkit": engine, device, date
    outputs, notebook.nb.metadata["labkit"], notebook.seconds, notebook.since = record
    for cell, (cell_outputs, count) in zip(execute.list_code_cells(notebook), outputs, strict=True):
        cell.outputs, cell.execution_count = cell_outputs, count
    return True


def _ask_device() -> str:
    """Return "cpu", or the GPU's name and software, asked in a child: a context here would take memory from kernels."""
    if hostcuda.engine() == "cpu":
        return "cpu"
    question = "import labkit; device = labkit.device(); print(device.name, device.software)"
    command = [sys.executable, "-c", question]
    return subprocess.run(
        command, env=execute.make_environment(), capture_output=True, text=True, check=True
    ).stdout
