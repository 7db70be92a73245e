"""Recorded sweeps, in `data/sweeps/`. `labkit.measure.sweep` makes them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.tables import SWEEP, as_options, sweep_table
from labkit.ladder.variants import Variant, variant
from labkit.records import store
from labkit.spec.layers import PRESETS, Layer

# in the order of the tables
_LAYERS = [layer.name for preset in PRESETS.values() for layer in preset]
_ORDER = dict(zip(_LAYERS, range(len(_LAYERS)), strict=True))
_INTEGERS = ("repeat", "registers", "local_bytes", "shared_bytes", "threads")
KEY = ["device", "label", "layer", "batch"]  # a later row with the same values replaces


def read_sweep(name: str, folder: Path | str | None = None) -> pd.DataFrame:
    """Return the sweeps of a device, by its name or a part of it, in the form of `labkit.sweep`; LabError if none."""
    path = store.find_file(Path(folder or data_dir()) / "sweeps", name)
    # rungs by number; `path` is for its message
    rows = store.add_rung_numbers(read_stored(path), path)
    rows = rows.sort_values(
        "layer", key=lambda names: names.map(_ORDER), kind="stable", ignore_index=True
    )
    # adds a column per option: "rows=4 block=32x8" becomes rows and block
    frame = sweep_table(rows)
    frame.attrs["note"] = f"{frame['device'].iloc[0]}, {frame['date'].max()}."
    return frame


def best(table: pd.DataFrame, layer: Layer) -> Variant:
    """Return a sweep's fastest variant of rung 07 on a layer, at the largest batch; LabError if there is none.

    Sub-steps of the rung, with the option step, are not among them: they have another source.
    """
    rows = table[(table["rung"] == 7) & (table["layer"] == layer.name) & table["op_ms"].notna()]
    rows = rows[~rows["options"].str.contains("step=")]  # "rows=4, step=…" is a sub-step
    rows = rows[rows["batch"] == rows["batch"].max()]
    if rows.empty:
        raise LabError(
            f"no swept time of rung 7 on {layer}; swept were {', '.join(table['layer'].unique())}"
        )
    # of a text "rows=4 block=32x8"
    return variant(7, **as_options(rows["options"].iloc[rows["op_ms"].argmin()]))


def read_stored(path: Path) -> pd.DataFrame:
    """Return the table of a CSV file of sweeps as it has it; LabError if it is damaged."""
    # only an empty field is missing: a text such as "None" stays a text
    table = store.read_as_stored(path, keep_default_na=False, na_values=[""], dtype={"code": str})
    try:
        return set_types(table)
    except (ValueError, TypeError) as error:
        raise LabError(f"{path} is not a table of a sweep: {error}. Restore it with git") from None


def set_types(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns `SWEEP`, in their order, and counts as integers even where some are missing."""
    return table.reindex(columns=SWEEP).astype(dict.fromkeys(_INTEGERS, "Int64"))
