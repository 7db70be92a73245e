"""Recorded times: what the lab measured, one CSV a device.

A recorded time is evidence with a place and a date. A page asks for it by the device's name and shows it
beside whatever the device at hand measures.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from labkit.base import files
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.spec.devices import device, slug
from labkit.spec.layers import Layer

COLUMNS = (
    "date", "device", "engine", "software", "rung", "label", "options", "code", "network", "layer", "batch",
    "dtype", "op_ms", "op_min_ms", "op_max_ms", "layer_ms", "gflop_s", "gb_s", "x_reference", "images_s", "repeat",
    "kernels_ms", "op1_ms", "op2_ms", "layer1_ms", "layer2_ms", "total_s", "accuracy", "distinct",
)  # fmt: skip
KEY = ["device", "engine", "label", "network", "layer", "batch", "dtype"]  # a later measurement of the same replaces
# How `course_table` names its columns, and how they are stored: rows of a whole network, without a layer.
_COURSE = {
    "batch": "batch",
    "op time 1 ms": "op1_ms",
    "op time 2 ms": "op2_ms",
    "layer time 1 ms": "layer1_ms",
    "layer time 2 ms": "layer2_ms",
    "total s": "total_s",
    "accuracy": "accuracy",
    "distinct images": "distinct",
}
OWN = r", (?:own source|[^,]+\.cu)"  # in a label: a kernel in a rung's place, an exercise's solution or a reader's
_TEXT = ("date", "device", "engine", "software", "label", "options", "code", "network", "layer", "dtype",
         "kernels_ms")  # fmt: skip


def results_dir() -> Path:
    """The folder of recorded results."""
    return data_dir() / "results"


def record(table: pd.DataFrame, folder: Path | str | None = None, date: str | None = None) -> Path:
    """Merge measurements into the device's file, replacing older ones of the same variant, layer and batch.

    Parameters
    ----------
    table : DataFrame
        As `bench` returns it; whatever is not one of `COLUMNS` is left out. For the course's table of a whole
        network see `record_course`.
    folder : path, optional
        In place of `data/results`.
    date : str, optional
        ISO date; today by default.

    Returns
    -------
    Path
        The file, written whole or not at all.

    Raises
    ------
    LabError
        If the table is empty, lacks a column of `KEY`, or mixes devices; if the file cannot be written.
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
    path = Path(folder or results_dir()) / f"{slug(names[0])}.csv"
    new = _typed(new).drop_duplicates(KEY, keep="last")
    return merge(path, new, KEY, order=["network", "layer", "batch", "rung", "label"], read=_read)


def record_course(table: pd.DataFrame, network, folder: Path | str | None = None, **as_rung) -> Path:
    """Merge a `course_table` of a network on the device in use; `Recorded.course` gives it back.

    Parameters
    ----------
    table : DataFrame
        As `labkit.course_table` returns it.
    network : labkit.network.lenet86.Network
        Whose figures they are.
    folder : path, optional
        As for `record`.
    **as_rung
        rung, label, options in place of the variants', for a rung that is no kernel (10).
    """
    here, variants = device(), list(dict.fromkeys(network.conv))
    of = {
        "rung": max(each.rung.number for each in variants),
        "label": " + ".join(each.label for each in variants),
        "options": " + ".join(each.options_text for each in variants),
        "network": network.layers[0].network,
        "layer": "",
        "dtype": variants[-1].io_dtype.name,
        "engine": here.engine,
        "device": here.name,
    }
    return record(table.rename(columns=_COURSE).assign(**of | as_rung), folder)


def record_evidence(table: pd.DataFrame, folder: Path | str, by: list[str] | None = None) -> Path:
    """Write what was found out on the GPU at hand, in place of what its file held: counters, findings, instructions.

    Parameters
    ----------
    table : DataFrame
        Any columns; the date and the device's name go in front.
    folder : path
        It gets `<device>.csv`, as `data/counters` has it.
    by : list of str, optional
        Columns: only the file's rows with the same values there are replaced, such as those of the same rungs.

    Returns
    -------
    Path
        The file, written whole or not at all.

    Raises
    ------
    LabError
        If the table is empty, or the engine is not a GPU: evidence of one is recorded on it.
    """
    here = device()
    if here.engine != "gpu":
        raise LabError(f"evidence is recorded on a GPU; the engine here is the CPU's ({here.name})")
    if table.empty:
        raise LabError("an empty table: there is nothing to record")
    stamped = table.copy()
    stamped.insert(0, "date", datetime.date.today().isoformat())
    stamped.insert(1, "device", here.name)
    path = Path(folder) / f"{slug(here.name)}.csv"
    return merge(path, stamped, by, order=by, digits=10)


def merge(path: Path, table: pd.DataFrame, key: list[str] | None, order=None, digits=6, read=pd.read_csv) -> Path:
    """Merge rows into a device's CSV: all its rows go that have the values of a new one in the columns `key`.

    Parameters
    ----------
    path : Path
    table : DataFrame
        The new rows. Columns that the file has not come behind those that it has.
    key : list of str or None
        Columns; None: the whole file goes.
    order : list of str, optional
        Columns to sort by; without, new rows come last.
    digits : int
        Of a number that is no integer.
    read : callable
        What makes a table of the file.

    Returns
    -------
    Path
        The file, written whole or not at all.
    """
    if key and path.is_file():
        old, new = read(path), pd.MultiIndex.from_frame(table[key])
        table = pd.concat([old[~pd.MultiIndex.from_frame(old[key]).isin(new)], table], ignore_index=True)
    if order:
        table = table.sort_values(order, kind="stable")
    return files.write(path, table.to_csv(index=False, float_format=f"%.{digits}g", lineterminator="\n"))


def recorded(name: str, folder: Path | str | None = None) -> Recorded:
    """The recorded results of a device, by its name or a part of it: `recorded("H200")`.

    Raises
    ------
    LabError
        If there are none, or several devices go by that name; the message lists those recorded.
    """
    path = one_of(Path(folder or results_dir()), name)
    return Recorded(_read(path), path)


@dataclass(frozen=True, repr=False)
class Recorded:
    """A device's recorded results: `table` with the columns `COLUMNS`, read from `path`."""

    table: pd.DataFrame
    path: Path

    @property
    def device(self) -> str:
        """The device's full name."""
        return str(self.table["device"].iloc[0])

    @property
    def date(self) -> str:
        """The date of the latest measurement, ISO."""
        return str(self.table["date"].max())

    @property
    def ceilings(self) -> Mapping[str, float]:
        """The device's measured rates, [B/s] and [FLOP/s]: `Device.ceilings`."""
        return device(self.device).ceilings

    def course(self, rung: int, network: str = "lenet86") -> pd.DataFrame:
        """The course's table of a network with a rung inside: the columns of `course_table`, a row a batch.

        Raises
        ------
        LabError
            If none was recorded.
        """
        rows = self.select(rung=rung, layer="", network=network).sort_values("batch")
        course = rows[list(_COURSE.values())].set_axis(list(_COURSE), axis=1).reset_index(drop=True)
        return course.astype({"distinct images": int})

    def select(self, rung=None, layer=None, batch=None, network=None, label=None, dtype=None) -> pd.DataFrame:
        """The rows that match everything given.

        Parameters
        ----------
        rung : int, optional
            The rung's own kernel with its default options, if that was recorded; `label` selects any other.
        layer : Layer or str, optional
            "" for figures of a whole network.
        batch : int, optional
        network, label, dtype : str, optional
            An exercise's solution or a reader's kernel is found by its label alone.

        Raises
        ------
        LabError
            If there is no such row; the message lists what was recorded.
        """
        rows = self.table
        layer = layer.name if isinstance(layer, Layer) else layer
        wanted = {"rung": rung, "layer": layer, "batch": batch, "network": network, "label": label, "dtype": dtype}
        wanted = {name: value for name, value in wanted.items() if value is not None}
        for name, value in wanted.items():
            rows = rows[rows[name] == value]
        if label is None:
            rows = rows[~rows["label"].str.contains(OWN)]
            plain = rows[~rows["label"].str.contains(",")]
            rows = rows if rung is None or plain.empty else plain
        if rows.empty:
            there = "; ".join(
                f"{name}: {', '.join(str(each) for each in self.table[name].unique() if each != '')}" for name in wanted
            )
            raise LabError(f"{self} has nothing for {_words(wanted)}. It has {there}")
        return rows

    def ladder(self, rung: int, network: str = "lenet86", batch: int = 10_000) -> pd.DataFrame:
        """The ladder up to a rung: the rungs' own kernels with their default options, a row a rung and layer.

        Raises
        ------
        LabError
            If nothing was recorded for that network and batch.
        """
        rows = self.select(network=network, batch=batch)
        return rows[(rows["rung"] <= rung) & (rows["layer"] != "") & ~rows["label"].str.contains(",")]

    def value(self, column: str, rung: int | None = None, layer=None, batch: int | None = None, **more) -> float:
        """One figure, for example `value("op_ms", rung=4, layer=LENET86[1], batch=1000)`.

        Parameters
        ----------
        column : str
        rung, layer, batch, **more
            As `select` takes them. Without a batch, the largest that was recorded.

        Raises
        ------
        LabError
            If there is no such figure, or more than one.
        """
        rows = self.select(rung=rung, layer=layer, batch=batch, **more)
        if batch is None:
            rows = rows[rows["batch"] == rows["batch"].max()]
        given = _words({"rung": rung, "layer": layer, "batch": batch, **more})
        if column not in rows:
            raise LabError(f"no column {column!r} in the results; there are {', '.join(rows.columns)}")
        if len(rows) > 1:
            found = "; ".join(f"{row.label}, {row.layer or row.network}, {row.dtype}" for row in rows.itertuples())
            raise LabError(f"{self} has {len(rows)} rows for {given}: {found}. Say which")
        value = rows[column].iloc[0]
        if pd.isna(value):
            raise LabError(f"{self} has no {column} for {given}")
        return float(value)

    def ratio(self, column: str, rung_a: int, rung_b: int, layer=None, batch: int | None = None, **more) -> float:
        """`column` of rung a over that of rung b: `ratio("op_ms", 4, 3, ...) > 1` says that 04 takes longer
        than 03.

        Without a batch, the largest that was recorded for both.
        """
        if batch is None:
            a, b = (set(self.select(rung, layer, **more)["batch"]) for rung in (rung_a, rung_b))
            batch = max(a & b, default=None)
        return self.value(column, rung_a, layer, batch, **more) / self.value(column, rung_b, layer, batch, **more)

    def __repr__(self) -> str:
        return f"{self.device}, recorded {self.date}"


def counters(name: str, rung: int | None = None, label: str | None = None, network: str = "lenet86") -> pd.DataFrame:
    """Nsight Compute's counters of the ladder's kernels, recorded on a device by labkit/recording/counters.py.

    Parameters
    ----------
    name : str
        Of the device, or a part of it: "H200".
    rung : int, optional
        The rung's own kernel with its default options; `label` selects any other.
    label : str, optional
        Of a variant: "03 registers, sum".
    network : str
        Of its layers. Every kernel was watched on lenet86, those of 03 and 04 on lenet72, too.

    Returns
    -------
    DataFrame
        A row a layer and kernel: date, device, rung, label, layer, batch (images of the launch), kernel, and a
        column a metric under Nsight Compute's name.

    Raises
    ------
    LabError
        If there are none; the message says what was recorded.
    """
    path = one_of(data_dir() / "counters", name)
    table = pd.read_csv(path)
    rows = table[table["layer"].str.startswith(f"{network} ")]
    rows = rows if rung is None else rows[rows["rung"] == rung]
    if label is not None:
        rows = rows[rows["label"] == label]
    elif rung is not None:
        rows = rows[~rows["label"].str.contains(",")]
    if rows.empty:
        known = "; ".join(table["label"].unique())
        wanted = label or ("any kernel" if rung is None else f"rung {rung}")
        raise LabError(f"{path.name} has no counters of {wanted} on {network}; it has those of {known}")
    return rows.reset_index(drop=True)


def one_of(folder: Path, name: str) -> Path:
    """The CSV of the one device in `folder` that goes by a name."""
    found = {path: path.stem for path in sorted(folder.glob("*.csv"))}
    chosen = [path for path, stem in found.items() if stem == slug(name)]
    chosen = chosen or [path for path, stem in found.items() if slug(name) in stem]
    if len(chosen) != 1:
        known = ", ".join(found.values()) or "none"
        raise LabError(f"{len(chosen)} recorded devices go by the name {name!r}; {folder} has results of: {known}")
    return chosen[0]


def _read(path: Path) -> pd.DataFrame:
    try:
        table = pd.read_csv(path, dtype=dict.fromkeys(_TEXT, str))
        table[[*KEY, "rung"]]  # a file of an older version may lack any other column
        return _typed(table)
    except (ValueError, KeyError) as error:
        raise LabError(f"{path} is no table of results: {error}. Restore it with git") from None


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """All columns, in their order, text as text and numbers as numbers, so that a file and a fresh table agree."""
    table = table.reindex(columns=list(COLUMNS))
    for name in COLUMNS:
        column = table[name]
        table[name] = column.astype(object).fillna("").astype(str) if name in _TEXT else pd.to_numeric(column)
    return table.astype({"rung": int, "batch": int})


def _words(wanted: dict) -> str:
    said = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None)
    return said or "that"
