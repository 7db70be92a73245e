"""Sweeps: many variants on several layers, each checked and timed; kept point by point, resumed, spread over executors.

    table = labkit.sweep({"rung": 7, "rows": (5, 8, 10), "maps": (2, 4)}, labkit.LENET86, batch=1000)
    labkit.draw.heatmap(table, "rows", "maps")

A finished point is one line of a file in JSON, written the moment it is known: whatever ends a sweep, the next call
begins where it stopped. `labkit.ladder.tables` has the columns of the table.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import BrokenExecutor, Executor, ThreadPoolExecutor, as_completed, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from tqdm import tqdm

from labkit import cuda
from labkit.base import files
from labkit.base.errors import LabError
from labkit.base.paths import cache_dir
from labkit.ladder.options import short
from labkit.ladder.rungs import rung
from labkit.ladder.tables import sweep_table
from labkit.ladder.variants import Variant, variant
from labkit.measure.bench import BATCH, as_list, inputs_kept, measure
from labkit.measure.check import check
from labkit.spec.devices import device, slug
from labkit.spec.layers import Layer


# -------------------------------------------------------------------------------------------------------- sweeping
def sweep(
    variants: Variant | Iterable[Variant] | Mapping[str, object],
    layers: Layer | Iterable[Layer],
    batch: int | None = None,
    executor: Executor | None = None,
    path: Path | str | None = None,
    repeat: int | None = None,
) -> pd.DataFrame:
    """Check and time every variant on every layer, but for the points that are finished already.

    Parameters
    ----------
    variants : Variant, iterable of Variant, or mapping
        A mapping is a grid: ``{"rung": 7, "rows": (5, 8, 10), "maps": [2, 4]}`` stands for every combination of what is
        in its lists; ``[(32, 8), (16, 16)]`` is a list of two blocks.
    layers : Layer or iterable of Layer
    batch : int, optional
        Images; by default what `labkit.bench` takes.
    executor : concurrent.futures.Executor, optional
        Where the points are compiled, checked and timed: a `ProcessPoolExecutor`, Dask's ``client.get_executor()``,
        ipyparallel's or mpi4py's, on any machines that have the lab. Its workers must have the same kind of device,
        and each one of its own (a process a GPU, told by ``CUDA_VISIBLE_DEVICES``): two that share one disturb each
        other's times. Without an executor, threads compile ahead and the points are timed here, one after the other.
    path : path, optional
        The file of finished points, in place of ``sweeps/<device>.jsonl`` in `labkit.base.paths.cache_dir()`. This process
        alone writes to it.
    repeat : int, optional
        Timed runs of a point; by default as many as fit into half a second, from 3 to 50.

    Returns
    -------
    DataFrame
        A row a point, layer by layer: `labkit.ladder.tables.SWEEP`, and a column for each option that any of the variants
        has (pairs as text, "32x8"). `code` is `Variant.code`, `op_ms` the median op time, measured as `labkit.bench`
        does. `registers` and `local_bytes` (spills, and arrays that do not fit into registers) are those of a thread,
        `shared_bytes` and `threads` those of a block, the largest of several kernels; registers are known on a GPU
        alone. A point that cannot run has no time, and `reason` says why: a limit of the device, too many registers, a
        wrong result.
        ``attrs["measured"]`` and ``attrs["resumed"]`` count the points; ``attrs["note"]`` says so where these are not
        GPU times.

    Raises
    ------
    LabError
        For an unknown rung or option, an empty sweep, a batch that is none, workers of different devices, a kernel
        after which the device does not answer, or a broken executor. What was finished is kept in every case.
    """
    chosen, refused = _combinations(variants)
    layers = as_list(layers)
    if not (chosen or refused) or not layers:
        raise LabError("an empty sweep: give at least one variant and one layer")
    if batch is not None:
        layers[0].x_shape(batch)  # refuses a batch that is none
    here = _device_of(executor)
    batch = BATCH[here["engine"]] if batch is None else batch
    points = [_Point(each, at, batch, repeat) for at in layers for each in chosen]
    kept = _Kept(Path(path or cache_dir() / "sweeps" / f"{slug(here['device'])}.jsonl"), here["device"])
    rows = kept.read()
    todo = [point for point in dict.fromkeys(points) if point.key not in rows]
    # On standard output: notebooks show the other one in red.
    bar = tqdm(total=len(todo), desc="sweeping", delay=2, leave=False, file=sys.stdout)
    with bar as progress, inputs_kept():
        for point, row in _measured_with(executor, todo) if executor else _measured_here(todo):
            if row["device"] != here["device"]:
                raise LabError(
                    f"{row['device']} measured a point of a sweep of {here['device']}: give an executor whose workers "
                    "have the same device, or the times cannot be compared"
                )
            lost = row.pop("lost")
            rows[point.key] = row
            kept.append(point.key, row)
            if lost:
                raise LabError(
                    f"{row['label']} on {point.layer} left {row['device']} without an answer: {row['reason']}. That is "
                    f"noted in {kept.path}: begin again in a new process, and the sweep goes on behind this point"
                )
            progress.update()
    # A point of two variants that are one kernel is measured once, and has a row of each.
    measured = [{**rows[point.key], "label": point.variant.label, "code": point.variant.code, "layer": point.layer.name}
                for point in points]  # fmt: skip
    refused = [{**each, **here, "layer": at.name, "batch": batch} for at in layers for each in refused]
    table = sweep_table([*measured, *refused])
    table.attrs.update(note=here["note"], measured=len(todo), resumed=len(set(points)) - len(todo))
    return table


def _combinations(variants) -> tuple[list[Variant], list[dict]]:
    """The variants of a sweep; and of a grid the combinations that are none, as rows with the reason."""
    if isinstance(variants, Variant):
        return [variants], []
    if not isinstance(variants, Mapping):
        return list(variants), []
    grid = {name: value if isinstance(value, list | tuple) else [value] for name, value in variants.items()}
    if "rung" not in grid:
        raise LabError(f"a grid names its rung: {{'rung': 7, ...}}; this one has {', '.join(grid) or 'nothing'}")
    number, *more = grid.pop("rung")
    known = rung(number).options
    if more or (strange := [name for name in grid if name not in known]):
        what = f"{1 + len(more)} rungs" if more else f"no option {strange[0]!r}"
        raise LabError(f"a grid of {rung(number).label} with {what}: one rung, and options of {', '.join(known)}")
    made, refused = [], []
    for values in itertools.product(*grid.values()):
        options = dict(zip(grid, values, strict=True))
        try:
            made.append(variant(number, **options))
        except LabError as error:
            chosen = " ".join(f"{name}={short(value)}" for name, value in options.items())
            refused.append({"rung": number, "label": f"{rung(number).label}, {chosen.replace(' ', ', ')}",
                            "options": chosen, "reason": str(error)})  # fmt: skip
    return made, refused


@dataclass(frozen=True)
class _Point:
    """One variant on one layer, to be measured somewhere."""

    variant: Variant
    layer: Layer
    batch: int
    repeat: int | None

    @property
    def key(self) -> str:
        """What the file of finished points knows it by: the kernel, what it is compiled with, the layer, the batch."""
        at, defines = self.layer, self.variant.defines(self.layer)  # rung 07's defaults come from a record
        sizes = " ".join(f"{name}={value}" for name, value in defines.items())
        return f"{self.variant.identity} {at.C}x{at.H}x{at.W} {at.M}x{at.K} B={self.batch} {sizes}".strip()


# ------------------------------------------------------------------------------------------------------- measuring
def _device_of(executor) -> dict:
    """The device that measures: this process's, or a worker's."""
    return executor.submit(_device_here).result() if executor else _device_here()


def _device_here() -> dict:
    with _context():
        here = device()
        return {"device": here.name, "engine": here.engine, "software": here.software, "note": here.note}


def _measured_here(todo: list[_Point]):
    """The points and their rows, one after the other; threads compile ahead of them."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiled = [pool.submit(_compile, point) for point in todo]
        try:
            if todo and device().engine == "cpu":
                wait(compiled)  # the compiler and the kernels would share this processor
            for point, ready in zip(todo, compiled, strict=True):
                ready.result()
                yield point, _measure(point)
        finally:
            pool.shutdown(cancel_futures=True)


def _measured_with(executor: Executor, todo: list[_Point]):
    """The points and their rows as workers finish them."""
    futures = {executor.submit(_measure, point): point for point in todo}
    failed = None
    try:
        for future in as_completed(list(futures)):
            # Let go of a future when it is done: Dask computes again what is asked for and was lost with a worker.
            point = futures.pop(future)
            error = future.exception() if not future.cancelled() else LabError("it was cancelled")
            row = future.result() if error is None else None
            del future
            if error is None:
                yield point, row
            elif failed is None:  # the others may be well: keep what they bring
                failed = point, error
    finally:
        for future in futures:  # who gives up, leaves the workers nothing to do
            future.cancel()
    if failed:
        point, error = failed
        what = "the executor broke" if isinstance(error, BrokenExecutor) else "a worker failed"
        raise LabError(
            f"{what} at {point.variant.label} on {point.layer}: {type(error).__name__}: {error}. All points that were "
            "finished are kept: call again for the others"
        ) from error


def _compile(point: _Point) -> None:
    """Into the engine's cache on disk; what does not compile will say so when it is measured."""
    with suppress(LabError, cuda.driver.Error):
        point.variant.supports(point.layer)
        point.variant.precompile(point.layer)


_alone = threading.Lock()  # a process times one point at a time


def _measure(point: _Point) -> dict:
    """The row of a point; runs in whatever process and thread an executor chooses."""
    with _context():
        here = _device_here()
        row = {
            "date": datetime.date.today().isoformat(), "device": here["device"], "engine": here["engine"],
            "software": here["software"], "rung": point.variant.rung.number, "label": point.variant.label,
            "options": point.variant.options_text, "layer": point.layer.name, "batch": point.batch,
            "dtype": point.variant.io_dtype.name, "reason": "", "lost": False,
        }  # fmt: skip
        try:
            point.variant.supports(point.layer)
            point.variant.precompile(point.layer)
            with _alone:
                return row | _timed(point)
        except (LabError, cuda.driver.Error) as error:
            return row | {"reason": str(error).strip() or type(error).__name__, "lost": not _answers()}


def _timed(point: _Point) -> dict:
    """What is measured of a point that runs, and is right."""
    check(point.variant, [(point.layer, min(point.batch, 2))], quiet=True)
    timed = measure(point.variant, point.layer, point.batch, point.repeat, layer_time=False)
    times = timed.iloc[0].to_dict()
    with point.variant.plan(point.layer, 1) as plan:
        functions, launches = plan.functions.values(), plan.launches
        on_gpu = times["engine"] == "gpu"
        return {
            **{name: times[name] for name in ("op_ms", "op_min_ms", "op_max_ms", "x_reference", "repeat")},
            "registers": max(each.num_regs for each in functions) if on_gpu else None,
            "local_bytes": max(each.local_size_bytes for each in functions) if on_gpu else None,
            "shared_bytes": max(each.shared for each in launches),
            "threads": max(each.block[0] * each.block[1] * each.block[2] for each in launches),
        }


@contextmanager
def _context():
    """The device's context, current in this thread: an executor's worker measures in whichever thread it has."""
    context = cuda.ensure_context()
    if cuda.engine() == "cpu" or isinstance(context, type):  # another library's, current already
        yield
        return
    context.push()
    try:
        yield
    finally:
        context.pop()


def _answers() -> bool:
    """Whether the device still works: a fault takes a GPU's context with it."""
    try:
        cuda.driver.Context.synchronize()
        cuda.driver.mem_alloc(4).free()
    except cuda.driver.Error:
        return False
    return True


# --------------------------------------------------------------------------------------------------- finished points
class _Kept:
    """The file of finished points: a line of JSON each, for any number of devices."""

    def __init__(self, path: Path, device_name: str):
        self.path, self.device = path, device_name
        files.require_writable(path.parent)

    def read(self) -> dict[str, dict]:
        """Key -> row of this device's points. Half a line, of a process that was killed, is no point."""
        rows = {}
        for line in self.path.read_text().splitlines() if self.path.is_file() else ():
            try:
                entry = json.loads(line)
                if entry["row"]["device"] == self.device:
                    rows[entry["key"]] = entry["row"]
            except (ValueError, KeyError, TypeError):
                continue
        return rows

    def append(self, key: str, row: dict) -> None:
        """Add a point: one write of a whole line, on the disk when this returns."""
        line = json.dumps({"key": key, "row": row}) + "\n"
        with open(self.path, "ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(-1, os.SEEK_END)
                line = line if file.read(1) == b"\n" else "\n" + line  # behind half a line, begin a new one
            file.write(line.encode())
            os.fsync(file.fileno())
