"""Write what was measured into `data/`: the tables that `labkit.recorded` reads."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from hostcuda import files
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.records import results, store, sweeps
from labkit.records.training import KEY
from labkit.spec.devices import device, slug

STREAMS = ["device", "label", "layer", "batch", "dtype", "pinned", "streams", "order", "chunk", "sizes"]
TIMELINES = ["device", "label", "layer", "batch", "pinned", "streams", "order", "chunk_images"]


def merge_rows(path: Path, table: pd.DataFrame, key: list[str] | None, order: list[str] | None = None, digits: int = 6,
               read: Callable[[Path], pd.DataFrame] = store.read_as_stored) -> Path:
    """Merge rows into a device's CSV, which is written whole or not at all; return the file.

    A new row replaces all old ones with the same values in the columns `key`; None replaces the whole file. The rows
    are as `store.remove_numbers` gives them; columns that the file lacks are appended. They are sorted by `order`;
    without it, new rows come last. A number that is not an integer gets `digits` significant digits. `read` reads the
    file.
    """
    with files.locked(path):
        if key and path.is_file():
            old, new = read(path), pd.MultiIndex.from_frame(table[key])
            table = pd.concat([old[~pd.MultiIndex.from_frame(old[key]).isin(new)], table], ignore_index=True)
        if order:
            table = table.sort_values(order, kind="stable")
        return manifest.write(path, table.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n"))


def record_times(table: pd.DataFrame, folder: Path | str | None = None, date: str | None = None) -> Path:
    """Merge measurements, as `bench` returns them, into the device's file, and return the file.

    A new row replaces that with the same `results.KEY`. Other columns than `results.COLUMNS` are left out. `folder` is
    in place of `data/`, `date` (ISO) in place of today. Raises LabError if the table is empty, lacks a column of
    `results.KEY`, mixes devices or has an unknown rung; if the file cannot be written.
    """
    if table.empty:
        raise LabError("an empty table: there is nothing to record")
    new = table.copy()
    new.attrs = {}
    new["layer"] = new["layer"].fillna("") if "layer" in new else ""
    network = new["layer"].map(lambda name: name.rpartition(" layer ")[0])
    new["network"] = new["network"].fillna(network) if "network" in new else network
    missing = [name for name in (*results.KEY, "rung") if name not in new]
    if missing:
        raise LabError(f"a table without {', '.join(missing)} cannot be recorded; it has {', '.join(table.columns)}")
    names = new["device"].unique()
    if len(names) != 1:
        raise LabError(f"one file holds one device's results, but the table has {', '.join(map(str, names))}")
    here = device()
    new["date"] = date or datetime.date.today().isoformat()
    if "software" not in new:
        new["software"] = here.software if here.name == names[0] else ""
    path = Path(folder or data_dir()) / "results" / f"{slug(names[0])}.csv"
    new = results.set_types(store.remove_numbers(new)).drop_duplicates(results.KEY, keep="last")
    return merge_rows(path, new, results.KEY, order=results.ORDER, read=results.read_stored)


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
    return record_times(table.rename(columns=results.COURSE).assign(**columns | as_rung), folder)


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
    stamped = store.remove_numbers(table)
    stamped.insert(0, "date", datetime.date.today().isoformat())
    stamped.insert(1, "device", here.name)
    order = by if order is None else list(order)
    return merge_rows(Path(folder) / f"{here.slug}.csv", stamped, by or None, order, digits=10)


def record_streams(table: pd.DataFrame, timelines: pd.DataFrame, folder: Path | str | None = None) -> Path:
    """Merge measurements of the device in use into its two files, and return the file of the times.

    A new row replaces that of the same configuration. `table` is as `bench_streams` returns it, `timelines` as
    `Pipeline.timeline`, with the columns `TIMELINES` except the device; `folder` is in place of `data/`.
    """
    here, folder = device(), Path(folder or data_dir()) / "streams"
    about = {"device": here.name, "date": datetime.date.today().isoformat(), "software": here.software}
    for part, rows, key in (("", table, STREAMS), ("timelines", timelines, TIMELINES)):
        merge_rows(folder / part / f"{here.slug}.csv", store.remove_numbers(rows).assign(**about), key)
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
    rows = sweeps.set_types(store.remove_numbers(table)).drop_duplicates(sweeps.KEY, keep="last")
    order = ["layer", "batch", "rung", "label"]
    return merge_rows(path, rows, sweeps.KEY, order, digits=5, read=sweeps.read_stored)


def record_training(kind: str, experiment: str, rows: Iterable[dict], dataset: str = "none",
                    folder: Path | str | None = None) -> Path:
    """Write a part of the recording of the device in use in place of the same part of its file; return the file.

    `kind` is "kernel", "epoch", "accuracy", "launch", "contention" or "graph"; `experiment` is that of
    `labkit.Lenet28`, or the pattern of a contention; `rows` are the figures of the kind, see data/training/README.md.
    `folder` is in place of `data/`.
    """
    here = device()
    about = {"device": here.name, "date": datetime.date.today().isoformat(), "software": here.software}
    table = pd.DataFrame([{"kind": kind, "dataset": dataset, "experiment": experiment, **row, **about} for row in rows])
    return merge_rows(Path(folder or data_dir()) / "training" / f"{here.slug}.csv", table, KEY)
