"""Write what was measured into `data/`: the tables that `labkit.recorded` reads."""

import datetime
from collections.abc import Callable, Iterable
from pathlib import Path

import pandas as pd

from hostcuda import files
from labkit import LabError, Network
from labkit.base import manifest
from labkit.base.paths import data_dir
from labkit.records import results, store, sweeps
from labkit.records.training import KEY
from labkit.spec import devices
from labkit.spec.devices import slug
from recording.gpu import require_gpu

# Columns whose values tell rows apart: a new row replaces the old ones with the same values.
STREAMS = [
    "device",
    "label",
    "layer",
    "batch",
    "dtype",
    "pinned",
    "streams",
    "order",
    "chunk",
    "sizes",
]
TIMELINES = ["device", "label", "layer", "batch", "pinned", "streams", "order", "chunk_images"]


def merge_rows(
    path: Path,
    table: pd.DataFrame,
    key: list[str] | None,
    order: list[str] | None = None,
    digits: int = 6,
    read: Callable[[Path], pd.DataFrame] = store.read_as_stored,
) -> Path:
    """Merge rows into a device's CSV, which is written whole or not at all, and renew its digest; return the file.

    A new row replaces all old ones with the same values in the columns `key`; None replaces the
    whole file. New columns are appended. Rows are sorted by `order`, else new ones come last. A
    float gets `digits` significant digits. `read` reads the old file. Labels must not have the
    number of a rung ("tuning, rows=4"): `store.remove_rung_numbers` removes it.
    """
    with files.locked(path):
        if key and path.is_file():
            old, new_keys = read(path), pd.MultiIndex.from_frame(table[key])
            # the old rows whose values in `key` are not among the new ones, then the new rows
            table = pd.concat(
                [old[~pd.MultiIndex.from_frame(old[key]).isin(new_keys)], table], ignore_index=True
            )
        if order:
            table = table.sort_values(order, kind="stable")
        return manifest.write(
            path, table.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n")
        )


def stamp(table: pd.DataFrame, software: str = "", device_name: str = "") -> pd.DataFrame:
    """Return a table with the columns date (today), device (by default the one in use) and software (if not "").

    Those that the table did not have become its first columns.
    """
    columns = {
        "date": datetime.date.today().isoformat(),
        "device": device_name or devices.device().name,
    }
    columns |= {"software": software} if software else {}
    return table.assign(**columns)[[*(name for name in columns if name not in table), *table]]


def record_table(
    table: pd.DataFrame,
    folder: str,
    out: Path | str | None = None,
    key: list[str] | None = None,
    order: list[str] | None = None,
    digits: int = 5,
    read: Callable = store.read_as_stored,
) -> Path:
    """Merge rows of one device into its file, such as data/versus/nvidia-h200.csv, and return the file.

    `folder` is the folder in data/, here "versus"; `out` replaces data/. The file is named after
    the column "device". The other parameters are those of `merge_rows`. Raises LabError if the
    table is empty or mixes devices.
    """
    names = table["device"].unique()
    if len(names) != 1:
        has = ", ".join(map(str, names)) or "no rows"
        raise LabError(f"one file holds one device's results, but the table has {has}")
    return merge_rows(
        Path(out or data_dir()) / folder / f"{slug(names[0])}.csv", table, key, order, digits, read
    )


def record_times(
    table: pd.DataFrame, folder: Path | str | None = None, date: str | None = None
) -> Path:
    """Merge measurements, as `bench` returns them, into the device's file, and return the file.

    Columns other than `results.COLUMNS` are left out. `folder` is in place of `data/`, `date` (ISO)
    in place of today. Raises LabError if the table is empty, lacks a column of `results.KEY`, mixes
    devices or has an unknown rung.
    """
    if table.empty:
        raise LabError("an empty table: there is nothing to record")
    new = table.copy()
    new.attrs = {}  # the note of `bench`: `data/` has none
    new["layer"] = new["layer"].fillna("") if "layer" in new else ""
    # "lenet86 layer 1": "lenet86"
    network = new["layer"].map(lambda name: name.rpartition(" layer ")[0])
    new["network"] = new["network"].fillna(network) if "network" in new else network
    missing = [name for name in (*results.KEY, "rung") if name not in new]
    if missing:
        raise LabError(
            f"a table without {', '.join(missing)} cannot be recorded; it has {', '.join(table.columns)}"
        )
    here = devices.device()
    new["date"] = date or datetime.date.today().isoformat()
    if "software" not in new:  # that of another device is not known here
        new["software"] = here.software if here.name == new["device"].iloc[0] else ""
    new = results.set_types(store.remove_rung_numbers(new)).drop_duplicates(
        results.KEY, keep="last"
    )
    return record_table(
        new, "results", folder, results.KEY, results.ORDER, digits=6, read=results.read_stored
    )


def record_course(
    table: pd.DataFrame, network: Network, folder: Path | str | None = None, **as_rung
) -> Path:
    """Merge the times of a network, as `Network.course_table` returns them, into the device's results.

    `table` has the times of both layers and of the whole network per batch. If the layers have
    different kernels, a row belongs to the later rung. `as_rung` has rung, label and options in
    place of the variants', for the rung that is not a kernel (12, streams). Returns the file.
    """
    here, variants = devices.device(), list(dict.fromkeys(network.conv))
    options = [
        conv.on(layer).options_text
        for conv, layer in zip(network.conv, network.layers, strict=True)
    ]
    columns = {
        "rung": max(conv.rung.number for conv in variants),
        "label": " + ".join(conv.label for conv in variants),
        "options": " + ".join(dict.fromkeys(options)),
        "network": network.layers[0].network,
        "layer": "",  # the whole network
        "dtype": variants[-1].io_dtype.name,  # of the last layer
        "engine": here.engine,
        "device": here.name,
    }
    # COURSE: name of a column in `table` -> its name in the results
    return record_times(table.rename(columns=results.COURSE).assign(**columns | as_rung), folder)


def record_evidence(
    table: pd.DataFrame,
    folder: Path | str,
    by: Iterable[str] = (),
    order: Iterable[str] | None = None,
) -> Path:
    """Write counters or findings of the GPU in use, with the date and the device's name in front; return the file.

    `folder` gets `<device>.csv`. Only the old rows with the same values in the columns `by` are
    replaced; by default all are. The file is sorted by `order`, else by `by`. Raises LabError if
    the table is empty or there is no GPU.
    """
    here, by = require_gpu("evidence is recorded on a GPU"), list(by)
    if table.empty:
        raise LabError("an empty table: there is nothing to record")
    order = by if order is None else list(order)
    return merge_rows(
        Path(folder) / f"{here.slug}.csv",
        stamp(store.remove_rung_numbers(table)),
        by,
        order,
        digits=10,
    )


def record_streams(
    table: pd.DataFrame, timelines: pd.DataFrame, folder: Path | str | None = None
) -> Path:
    """Merge measurements of the device in use into its two files, and return the file of the times.

    `table` is as `bench_streams` returns it, `timelines` as `Pipeline.timeline`, with the columns
    `TIMELINES` except the device; `folder` is in place of `data/`.
    """
    table, timelines = (
        stamp(store.remove_rung_numbers(rows), devices.device().software)
        for rows in (table, timelines)
    )
    # TIMELINES and STREAMS: the columns whose values say which old rows are replaced
    record_table(timelines, "streams/timelines", folder, TIMELINES, digits=6)
    return record_table(table, "streams", folder, STREAMS, digits=6)


def record_sweep(table: pd.DataFrame, folder: Path | str | None = None) -> Path:
    """Merge a sweep of one device, as `sweep` returns it, into its file in `data/` or `folder`, and return the file."""
    # of several rows with the same KEY, the last one counts
    rows = sweeps.set_types(store.remove_rung_numbers(table)).drop_duplicates(
        sweeps.KEY, keep="last"
    )
    return record_table(
        rows,
        "sweeps",
        folder,
        sweeps.KEY,
        ["layer", "batch", "rung", "label"],
        read=sweeps.read_stored,
    )


def record_training(
    kind: str,
    experiment: str,
    rows: Iterable[dict],
    dataset: str = "none",
    folder: Path | str | None = None,
) -> Path:
    """Replace a part of the training recorded on the device in use, in data/ or `folder`; return the file.

    The part is the rows with these values in the columns of KEY: device, kind, dataset, experiment.
    `kind` is "kernel", "epoch", "accuracy", "launch", "contention" or "graph"; `experiment` is that
    of `labkit.Lenet28`, or the pattern of a contention; `rows` have the columns of the kind, for
    "kernel" {"batch": 1, "kernel": "fp_c1", "us": 3.1}.
    """
    common = {"kind": kind, "dataset": dataset, "experiment": experiment}
    table = stamp(pd.DataFrame([{**common, **row} for row in rows]), devices.device().software)
    return record_table(table, "training", folder, KEY, digits=6)
