"""Recorded times, in `data/results/`: the measurements of `bench` and `Network.course_table`, a row each."""

from __future__ import annotations

import datetime
from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.records import store
from labkit.spec.devices import device, slug

COLUMNS = (
    "date", "device", "engine", "software", "rung", "label", "options", "code", "network", "layer", "batch",
    "dtype", "op_ms", "op_min_ms", "op_max_ms", "layer_ms", "gflop_s", "gb_s", "x_reference", "images_s", "repeat",
    "kernels_ms", "op1_ms", "op2_ms", "layer1_ms", "layer2_ms", "total_s", "accuracy", "distinct",
)
KEY = ["device", "engine", "label", "network", "layer", "batch", "dtype"]  # a later row with the same values replaces
# The columns of a course table, and how they are stored: rows of a whole network, without a layer.
COURSE = {
    "batch": "batch",
    "op time 1 ms": "op1_ms",
    "op time 2 ms": "op2_ms",
    "layer time 1 ms": "layer1_ms",
    "layer time 2 ms": "layer2_ms",
    "total s": "total_s",
    "accuracy": "accuracy",
    "distinct images": "distinct",
}
OWN = r", (?:own source|[^,]+\.cu)"  # in a label: a kernel in place of a rung's, an exercise's solution or a reader's
_ORDER = ["network", "layer", "batch", "rung", "label"]
_TEXT = ("date", "device", "engine", "software", "rung", "label", "options", "code", "network", "layer", "dtype",
         "kernels_ms")


def record(table: pd.DataFrame, folder: Path | str | None = None, date: str | None = None) -> Path:
    """Merge measurements, as `bench` returns them, into the device's file, and return the file.

    A new row replaces that with the same `KEY`. Other columns than `COLUMNS` are left out. `folder` is in place of
    `data/`, `date` (ISO) in place of today. The file is written whole or not at all. Raises LabError if the table is
    empty, lacks a column of `KEY`, mixes devices or has an unknown rung; if the file cannot be written.
    """
    if table.empty:
        raise LabError("an empty table: there is nothing to record")
    new = table.copy()
    new.attrs = {}
    new["layer"] = new["layer"].fillna("") if "layer" in new else ""
    network = new["layer"].map(lambda name: name.rpartition(" layer ")[0])
    new["network"] = new["network"].fillna(network) if "network" in new else network
    missing = [name for name in (*KEY, "rung") if name not in new]
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
    new = _set_types(store.named(new)).drop_duplicates(KEY, keep="last")
    return store.merge(path, new, KEY, order=_ORDER, read=_read_stored)


def read(path: Path) -> pd.DataFrame:
    """Return the results of a file, in the ladder's order."""
    return store.numbered(_read_stored(path), path).sort_values(_ORDER, kind="stable", ignore_index=True)


def _read_stored(path: Path) -> pd.DataFrame:
    table = store.stored(path, dtype=dict.fromkeys(_TEXT, str))
    try:
        table[[*KEY, "rung"]]  # a file of an older version may lack any other column
        return _set_types(table)
    except (ValueError, KeyError) as error:
        raise LabError(f"{path} is not a table of results: {error}. Restore it with git") from None


def _set_types(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with all columns in their order, as text or numbers, so that a file and a new table agree."""
    table = table.reindex(columns=list(COLUMNS))
    for name in COLUMNS:
        column = table[name]
        table[name] = column.astype(object).fillna("").astype(str) if name in _TEXT else pd.to_numeric(column)
    return table.astype({"batch": int})
