"""Sweep many variants over several layers: check and time each point, and go on where it stopped.

    table = labkit.sweep({"rung": 7, "rows": (5, 8, 10), "maps": (2, 4)}, labkit.LENET86,
    batch=1000) labkit.draw.heatmap(table, "rows", "maps")

Each finished point is written at once, as a line of JSON in a file. If a sweep is stopped, the next
call continues with the points that are missing. `labkit.ladder.tables` has the columns of the
table.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import hostcuda
from hostcuda import files
from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.base.paths import private_cache
from labkit.base.progress import show_progress
from labkit.ladder.options import format_option
from labkit.ladder.rungs import rung
from labkit.ladder.tables import sweep_table
from labkit.ladder.variants import Variant, variant
from labkit.measure.bench import BATCH, as_list, keep_inputs, measure
from labkit.measure.check import check
from labkit.spec.devices import device
from labkit.spec.layers import Layer, as_layers


def sweep(
    variants: Variant | Iterable[Variant] | Mapping[str, Any],
    layers: Layer | str | Iterable[Layer | str],
    batch: int | None = None,
    path: Path | str | None = None,
    repeat: int | None = None,
) -> pd.DataFrame:
    """Check and time every variant on every layer, except for the points that are finished already.

    Threads compile ahead, and this process times the points one after the other.

    Parameters
    ----------
    variants : Variant, iterable of Variant, or mapping
        A mapping is a grid: ``{"rung": 7, "rows": (5, 8, 10), "maps": [2, 4]}`` stands for all
        combinations of the values in its lists; ``[(32, 8), (16, 16)]`` is a list of two blocks.
    layers : Layer, its name, or iterable of these
    batch : int, optional
        Images; by default the same as for `labkit.bench`.
    path : path, optional
        The file of finished points, instead of ``sweeps/<device>.jsonl`` in
        `labkit.base.paths.cache_dir()`. Several processes may write to it.
    repeat : int, optional
        Timed runs per point; by default as many as fit into half a second, from 3 to 50.

    Returns
    -------
    DataFrame
        A row per point, layer by layer: `labkit.ladder.tables.SWEEP`, and a column for each option
        of the variants (pairs as text, "32x8"). `code` is `Variant.code`. `op_ms` is the median op
        time, measured as by `labkit.bench`. `registers` and `local_bytes` (spills, and arrays that
        do not fit into registers) are per thread, `shared_bytes` and `threads` per block, each the
        largest of several kernels; registers are known only on a GPU. A point that cannot run has
        no time, and `reason` says why: a limit of the device, too many registers, a wrong result.
        ``attrs["measured"]`` and ``attrs["resumed"]`` count the points; ``attrs["note"]`` says so
        if these are not GPU times.

    Raises
    ------
    LabError
        For an unknown rung or option, an empty sweep, an invalid batch, or a kernel after which the
        device does not respond. Finished points are kept in every case.
    """
    # `refused`: a row, with the reason, per combination of the grid that is no variant
    accepted, refused = _list_variants(variants)
    layers = as_layers(layers)
    if not (accepted or refused) or not layers:
        raise LabError("an empty sweep: give at least one variant and one layer")
    if batch is not None:
        layers[0].x_shape(batch)  # refuses an invalid batch
    in_use = device()
    batch = BATCH[in_use.engine] if batch is None else batch
    points = [
        _Point(one_variant, one_layer, batch, repeat)
        for one_layer in layers
        for one_variant in accepted
    ]
    finished = _FinishedPoints(
        Path(path or private_cache() / "sweeps" / f"{in_use.slug}.jsonl"), in_use.name
    )
    rows = finished.read()
    missing = [point for point in dict.fromkeys(points) if point.key not in rows]
    with show_progress(len(missing), "sweeping") as progress, keep_inputs():
        for point, row in _measure_all(missing):
            # whether the device does not respond any more: no column of the table
            lost = row.pop("lost")
            rows[point.key] = row
            finished.append(point.key, row)
            if lost:  # the driver fails every later call
                raise LabError(
                    f"after {row['label']} on {point.layer}, {in_use.name} does not respond: "
                    f"{row['reason']}. The point is recorded in {finished.path}: call again in a new "
                    "process to continue with the next one"
                )
            progress.update()
    # Two variants with the same kernel have one key: it is measured once, and each gets its row
    # with its own label.
    measured = [
        {
            **rows[point.key],
            "label": point.variant.label,
            "code": point.variant.code,
            "layer": point.layer.name,
        }
        for point in points
    ]
    common = {
        "device": in_use.name,
        "engine": in_use.engine,
        "software": in_use.software,
        "batch": batch,
    }
    refused = [
        {**row, **common, "layer": one_layer.name} for one_layer in layers for row in refused
    ]
    table = sweep_table([*measured, *refused])
    table.attrs.update(
        note=in_use.note, measured=len(missing), resumed=len(set(points)) - len(missing)
    )
    return table


def _list_variants(
    variants: Variant | Iterable[Variant] | Mapping[str, Any],
) -> tuple[list[Variant], list[dict]]:
    """Return the variants of a sweep, and a row, with the reason, for each combination of a grid that is no variant."""
    if not isinstance(variants, Mapping):
        return as_list(variants), []
    grid = {str(name): as_list(value) for name, value in variants.items()}
    if "rung" not in grid:
        raise LabError(
            f"a grid needs a rung: {{'rung': 7, ...}}; this one has {', '.join(grid) or 'nothing'}"
        )
    first_rung, *other_rungs = grid.pop("rung")
    base = rung(first_rung)
    unknown = [name for name in grid if name not in base.options]
    if other_rungs or unknown:
        mistake = f"{1 + len(other_rungs)} rungs" if other_rungs else f"no option {unknown[0]!r}"
        raise LabError(
            f"a grid of {base.label} with {mistake}: one rung, and options of {', '.join(base.options)}"
        )
    accepted, refused = [], []
    for values in itertools.product(*grid.values()):
        options = dict(zip(grid, values, strict=True))
        try:
            accepted.append(variant(first_rung, **options))
        except EngineError as error:
            text = " ".join(f"{name}={format_option(value)}" for name, value in options.items())
            # As a variant would write it: "07 tuning, rows=8, maps=4" and, in "options", "rows=8
            # maps=4".
            refused.append(
                {
                    "rung": base.number,
                    "label": f"{base.label}, {text.replace(' ', ', ')}",
                    "options": text,
                    "reason": str(error),
                }
            )
    return accepted, refused


@dataclass(frozen=True)
class _Point:
    """What one row of a sweep measures: a variant on a layer, with a batch and a number of timed runs (or None)."""

    variant: Variant
    layer: Layer
    batch: int
    repeat: int | None

    @property
    def key(self) -> str:
        """The point's key in the file: the kernel, the sizes that it is compiled with, the layer, the batch.

        `repeat` is not in it: a point that is finished is not measured again for more runs.
        """
        shape = f"{self.layer.C}x{self.layer.H}x{self.layer.W} {self.layer.M}x{self.layer.K}"
        sizes = " ".join(
            f"{name}={value}" for name, value in self.variant.defines(self.layer).items()
        )
        return f"{self.variant.identity} {shape} B={self.batch} {sizes}".strip()


def _measure_all(points: list[_Point]) -> Iterator[tuple[_Point, dict]]:
    """Measure one point after the other, while threads compile the next ones; yield (point, its row)."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compilations = [pool.submit(_compile, point) for point in points]
        try:
            if points and device().engine == "cpu":
                # otherwise the compiler and the kernels would share this processor
                wait(compilations)
            for point, compilation in zip(points, compilations, strict=True):
                # waits; `_compile` raises nothing that the measurement would not
                compilation.result()
                yield point, _measure(point)
        finally:
            pool.shutdown(cancel_futures=True)


def _compile(point: _Point) -> None:
    """Compile a point's kernels into the engine's disk cache.

    An error is ignored: measuring the point reports it.
    """
    with suppress(LabError, hostcuda.driver.Error):
        point.variant.precompile(point.variant.on(point.layer).defines)


def _measure(point: _Point) -> dict:
    """Measure a point; return its row, a dict with the columns of `labkit.ladder.tables.SWEEP` and "lost".

    Instead of a time, a point that fails has its error as the "reason"; "lost" is whether the
    device is out of use.
    """
    in_use = device()
    row = {
        "date": datetime.date.today().isoformat(),
        "device": in_use.name,
        "engine": in_use.engine,
        "software": in_use.software,
        "rung": point.variant.rung.number,
        "label": point.variant.label,
        "options": point.variant.options_text,
        "layer": point.layer.name,
        "batch": point.batch,
        "dtype": point.variant.io_dtype.name,
        "reason": "",
        "lost": False,
    }
    try:
        point.variant.precompile(point.variant.on(point.layer).defines)
        return row | _measure_columns(point)
    except (EngineError, hostcuda.driver.Error) as error:
        return row | {"reason": str(error).strip() or type(error).__name__, "lost": not _responds()}


def _measure_columns(point: _Point) -> dict:
    """Check a point and time it; return the measured columns of its row, a dict.

    Raises what the check raises.
    """
    check(point.variant, [(point.layer, min(point.batch, 2))], quiet=True)
    table = measure(point.variant, point.layer, point.batch, point.repeat, layer_time=False)
    times = table.iloc[0].to_dict()
    with point.variant.plan(point.layer, 1) as plan:
        functions, launches = plan.functions.values(), plan.launches
        on_gpu = times["engine"] == "gpu"
        return {
            **{
                name: times[name]
                for name in ("op_ms", "op_min_ms", "op_max_ms", "x_reference", "repeat")
            },
            "registers": max(function.num_regs for function in functions) if on_gpu else None,
            "local_bytes": max(function.local_size_bytes for function in functions)
            if on_gpu
            else None,
            "shared_bytes": max(launch.shared for launch in launches),
            "threads": max(
                launch.block[0] * launch.block[1] * launch.block[2] for launch in launches
            ),
        }


def _responds() -> bool:
    """Return whether the device still works: after a fault, a GPU's context does not."""
    try:
        hostcuda.driver.Context.synchronize()
        hostcuda.driver.mem_alloc(4).free()
    except hostcuda.driver.Error:
        return False
    return True


class _FinishedPoints:
    """The file of finished points: one line of JSON per point, from any number of devices."""

    def __init__(self, path: Path, device_name: str):
        self.path, self.device = path, device_name
        # creates it; raises EngineError now, not after the first point
        files.require_writable(path.parent)

    def read(self) -> dict[str, dict]:
        """Return the rows of this device's points by their keys.

        An incomplete or damaged line is ignored: that point is measured again.
        """
        rows = {}
        for line in self.path.read_bytes().splitlines() if self.path.is_file() else ():
            try:
                entry = json.loads(line)
                if entry["row"]["device"] == self.device:
                    rows[entry["key"]] = entry["row"]
            except (ValueError, KeyError, TypeError):
                continue
        return rows

    def append(self, key: str, row: dict) -> None:
        """Add a point's row as one line; it is on the disk when this returns.

        Several processes may append.
        """
        line = json.dumps({"key": key, "row": row}) + "\n"
        with files.locked(self.path), open(self.path, "ab+", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            if size:
                file.seek(-1, os.SEEK_END)
                # after an incomplete line, start a new one
                line = line if file.read(1) == b"\n" else "\n" + line
            file.write(line.encode())
            os.fsync(file.fileno())
