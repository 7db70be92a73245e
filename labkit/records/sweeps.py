"""Tables of sweeps: a row a point, a column an option; those worth keeping are in `data/sweeps/`, a CSV a device.

    swept = labkit.recorded_sweep("H200")
    best_options(swept, labkit.LENET86[0])  # {"rows": 10, "maps": 4, ...}

What sweeps is `labkit.measure.sweep`. Rung 07 has its default sizes from here, so nothing here needs the ladder.
"""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.records.results import merge, one_of
from labkit.spec.devices import slug
from labkit.spec.layers import PRESETS, Layer

COLUMNS = (
    "date", "device", "engine", "software", "rung", "label", "options", "code", "layer", "batch", "dtype", "op_ms",
    "op_min_ms", "op_max_ms", "x_reference", "repeat", "registers", "local_bytes", "shared_bytes", "threads", "reason",
)  # fmt: skip
_LAYERS = [at for preset in PRESETS.values() for at in preset]  # in the order of the tables
_COUNTED = ("repeat", "registers", "local_bytes", "shared_bytes", "threads")
KEY = ["device", "label", "layer", "batch"]  # a later measurement of the same replaces
RECORD_OF_DEFAULTS = "nvidia-h200"  # the sweep that the default sizes of rung 07 come from


def as_table(rows: list[dict]) -> pd.DataFrame:
    """Rows as a table of a sweep: `COLUMNS`, and one for each option."""
    frame = pd.DataFrame(rows).reindex(columns=COLUMNS)
    for name in ("code", "reason"):  # no code: of an older record, or of a combination that is no variant
        frame[name] = frame[name].astype(object).fillna("")
    return with_options(frame)


def with_options(frame: pd.DataFrame) -> pd.DataFrame:
    """A column for each option that the column "options" names: of sweeps, and of recorded results for a heat map."""
    frame = frame.copy()
    chosen = [_words(text) for text in frame["options"].astype(object).fillna("")]
    for name in dict.fromkeys(name for each in chosen for name in each):
        values = [int(each[name]) if each.get(name, "").isdigit() else each.get(name) for each in chosen]
        frame[name] = pd.Series(values, frame.index, dtype=object).infer_objects()
    return frame


def options(text: str) -> dict:
    """The options in "rows=8 block=32x8": integers, pairs of them, or words."""
    return {name: _value(value) for name, value in _words(text).items()}


def _words(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split())}


def _value(text: str):
    numbers = text.split("x")
    if not all(part.isdigit() for part in numbers):
        return text
    return int(text) if len(numbers) == 1 else tuple(map(int, numbers))


def sweeps_dir() -> Path:
    """The folder of recorded sweeps."""
    return data_dir() / "sweeps"


def record_sweep(table: pd.DataFrame, folder: Path | str | None = None) -> Path:
    """Merge a sweep of one device into its file in `data/sweeps/`, replacing older rows of the same points.

    Raises
    ------
    LabError
        If the table is empty or mixes devices; if the file cannot be written.
    """
    names = table["device"].unique()
    if len(names) != 1:
        raise LabError(f"one file holds one device's sweeps; this table has {', '.join(map(str, names)) or 'no rows'}")
    path = Path(folder or sweeps_dir()) / f"{slug(names[0])}.csv"
    rows = _typed(table).drop_duplicates(KEY, keep="last")
    return merge(path, rows, KEY, order=["layer", "batch", "rung", "label"], digits=5,
                 read=lambda path: _typed(_read(path)))  # fmt: skip


def _read(path: Path) -> pd.DataFrame:
    return pd.read_csv(path, keep_default_na=False, na_values=[""], dtype={"code": str})


def _typed(table: pd.DataFrame) -> pd.DataFrame:
    """All columns, in their order; what is counted as integers, though some have none."""
    return table.reindex(columns=COLUMNS).astype(dict.fromkeys(_COUNTED, "Int64"))


def recorded_sweep(name: str, folder: Path | str | None = None) -> pd.DataFrame:
    """The recorded sweeps of a device, by its name or a part of it, as `sweep` returns them.

    Raises
    ------
    LabError
        If there are none, or several devices go by that name.
    """
    path = one_of(Path(folder or sweeps_dir()), name)
    order = {at.name: i for i, at in enumerate(_LAYERS)}
    rows = _read(path).sort_values("layer", key=lambda names: names.map(order), kind="stable")  # one's own come last
    frame = as_table(rows.to_dict("records"))
    frame.attrs["note"] = f"{frame['device'].iloc[0]}, {frame['date'].max()}."
    return frame


def best_options(source: str | pd.DataFrame, layer: Layer, batch: int | None = None, number: int = 7) -> dict:
    """The options of the fastest variant of a rung on a layer; its sub-steps do not count.

    For the parameters and the errors see `labkit.best`.
    """
    table = recorded_sweep(source) if isinstance(source, str) else source
    rows = table[(table["rung"] == number) & (table["layer"] == layer.name) & table["op_ms"].notna()]
    rows = rows[~rows["options"].str.contains("step=")]
    rows = rows[rows["batch"] == (rows["batch"].max() if batch is None else batch)]
    if rows.empty:
        swept = ", ".join(table["layer"].unique())
        raise LabError(f"no swept time of rung {number} on {layer}, batch {batch or 'any'}; swept were {swept}")
    return options(rows["options"].iloc[rows["op_ms"].argmin()])


@functools.cache
def best_on_record(C: int, H: int, W: int, M: int, K: int) -> dict:
    """The options of rung 07 that were fastest on a layer of these sizes, by the recorded sweep; {} if none was."""
    path = sweeps_dir() / f"{RECORD_OF_DEFAULTS}.csv"
    if not path.is_file():
        return {}
    table = recorded_sweep(RECORD_OF_DEFAULTS)
    swept = set(table.loc[table["rung"] == 7, "layer"])
    for at in _LAYERS:
        if at.name in swept and (at.C, at.H, at.W, at.M, at.K) == (C, H, W, M, K):
            return best_options(table, at)
    return {}
