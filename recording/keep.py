"""Write what was measured into `data/`: the tables that `labkit.recorded` reads."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.records import store, sweeps
from labkit.records.results import COURSE, record
from labkit.records.training import KEY
from labkit.spec.devices import device, slug

STREAMS = ["device", "label", "layer", "batch", "dtype", "pinned", "streams", "order", "chunk", "sizes"]
TIMELINES = ["device", "label", "layer", "batch", "pinned", "streams", "order", "chunk_images"]


def record_course(table: pd.DataFrame, network, folder: Path | str | None = None, **as_rung) -> Path:
    """Merge a course table of a network on the device in use; `Recorded.course` returns it.

    `table` is as `Network.course_table` returns it. `as_rung` has rung, label, options in place of the variants', for
    the rung that is not a kernel (12).
    """
    here, variants = device(), list(dict.fromkeys(network.conv))
    options = [conv.options_on(layer) for conv, layer in zip(network.conv, network.layers, strict=True)]
    columns = {
        "rung": max(conv.rung.number for conv in variants),
        "label": " + ".join(conv.label for conv in variants),
        "options": " + ".join(dict.fromkeys(options)),
        "network": network.layers[0].network,
        "layer": "",
        "dtype": variants[-1].io_dtype.name,
        "engine": here.engine,
        "device": here.name,
    }
    return record(table.rename(columns=COURSE).assign(**columns | as_rung), folder)


def record_evidence(
    table: pd.DataFrame, folder: Path | str, by: Iterable[str] = (), order: Iterable[str] | None = None
) -> Path:
    """Write counters or findings of the GPU in use, with the date and the device's name in front; return the file.

    `folder` gets `<device>.csv`. Only the rows of the file with the same values in the columns `by` are replaced; by
    default the whole file is. It is sorted by `order`, by default as `by`, and is written whole or not at all.
    Raises LabError if the table is empty, or the engine is not a GPU.
    """
    here, by = device(), list(by)
    if here.engine != "gpu":
        raise LabError(f"evidence is recorded on a GPU; the engine here is the CPU's ({here.name})")
    if table.empty:
        raise LabError("an empty table: there is nothing to record")
    stamped = store.named(table)
    stamped.insert(0, "date", datetime.date.today().isoformat())
    stamped.insert(1, "device", here.name)
    order = by if order is None else list(order)
    return store.merge(Path(folder) / f"{here.slug}.csv", stamped, by or None, order, digits=10)


def record_streams(table: pd.DataFrame, timelines: pd.DataFrame, folder: Path | str | None = None) -> Path:
    """Merge measurements of the device in use into its two files, and return the file of the times.

    A new row replaces that of the same configuration. `table` is as `bench_streams` returns it, `timelines` as
    `Pipeline.timeline`, with the columns `TIMELINES` except the device; `folder` is in place of `data/`.
    """
    here, folder = device(), Path(folder or data_dir()) / "streams"
    about = {"device": here.name, "date": datetime.date.today().isoformat(), "software": here.software}
    for part, rows, key in (("", table, STREAMS), ("timelines", timelines, TIMELINES)):
        store.merge(folder / part / f"{here.slug}.csv", store.named(rows).assign(**about), key)
    return folder / f"{here.slug}.csv"


def record_sweep(table: pd.DataFrame, folder: Path | str | None = None) -> Path:
    """Merge a sweep of one device, as `sweep` returns it, into its file; a new row replaces that of the same point.

    `folder` is in place of `data/`. Raises LabError if the table is empty or mixes devices; if the file cannot be
    written.
    """
    names = table["device"].unique()
    if len(names) != 1:
        raise LabError(f"one file holds one device's sweeps; this table has {', '.join(map(str, names)) or 'no rows'}")
    path = Path(folder or data_dir()) / "sweeps" / f"{slug(names[0])}.csv"
    rows = sweeps.set_types(store.named(table)).drop_duplicates(sweeps.KEY, keep="last")
    order = ["layer", "batch", "rung", "label"]
    return store.merge(path, rows, sweeps.KEY, order, digits=5, read=sweeps.read_stored)


def record_training(kind: str, experiment: str, rows: Iterable[dict], dataset: str = "none",
                    folder: Path | str | None = None) -> Path:
    """Write a part of the recording of the device in use in place of the same part of its file; return the file.

    `kind` is "kernel", "epoch", "accuracy", "launch" or "contention"; `experiment` is that of `labkit.Lenet28`, or the
    pattern of a contention; `rows` are the figures of the kind, see data/training/README.md. `folder` is in place of
    `data/`.
    """
    here = device()
    about = {"device": here.name, "date": datetime.date.today().isoformat(), "software": here.software}
    table = pd.DataFrame([{"kind": kind, "dataset": dataset, "experiment": experiment, **row, **about} for row in rows])
    return store.merge(Path(folder or data_dir()) / "training" / f"{here.slug}.csv", table, KEY)
