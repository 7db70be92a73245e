"""Recorded times, in `data/results/`: the measurements of `bench` and `Network.course_table`, a row each."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.records import store

COLUMNS = (
    "date",
    "device",
    "engine",
    "software",
    "rung",
    "label",
    "options",
    "code",
    "network",
    "layer",
    "batch",
    "dtype",
    "op_ms",
    "op_min_ms",
    "op_q1_ms",
    "op_q3_ms",
    "op_max_ms",
    "op_again_ms",
    "layer_ms",
    "gflop_s",
    "gb_s",
    "x_reference",
    "images_s",
    "repeat",
    "kernels_ms",
    "op1_ms",
    "op2_ms",
    "layer1_ms",
    "layer2_ms",
    "total_s",
    "accuracy",
    "distinct",
)
# a later row with the same values replaces
KEY = ["device", "engine", "label", "network", "layer", "batch", "dtype"]
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
# in a label: a kernel in place of a rung's, an exercise's solution or a reader's
OWN = r", (?:own source|[^,]+\.cu)"
ORDER = ["network", "layer", "batch", "rung", "label"]
_TEXT = (
    "date",
    "device",
    "engine",
    "software",
    "rung",
    "label",
    "options",
    "code",
    "network",
    "layer",
    "dtype",
    "kernels_ms",
)


def read(path: Path) -> pd.DataFrame:
    """Return the measured times of a CSV file in the ladder's order, with rungs by number in place of name.

    A rung is a kernel of the ladder. Files have its name, "tuning", because its number may change.
    """
    return store.add_rung_numbers(read_stored(path), path).sort_values(
        ORDER, kind="stable", ignore_index=True
    )


def read_stored(path: Path) -> pd.DataFrame:
    """Return the measured times of a CSV file, with rungs by name as it has them; LabError if it is damaged."""
    table = store.read_as_stored(path, dtype=dict.fromkeys(_TEXT, str))
    try:
        # raises KeyError; a file of an older version may lack any other column
        table[[*KEY, "rung"]]
        return set_types(table)
    except (ValueError, KeyError) as error:
        raise LabError(f"{path} is not a table of results: {error}. Restore it with git") from None


def set_types(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with the columns `COLUMNS`, as text or numbers; those that it lacks are empty.

    ValueError if a number cannot be read.
    """
    table = table.reindex(columns=list(COLUMNS))
    for name in COLUMNS:
        column = table[name]
        table[name] = (
            column.astype(object).fillna("").astype(str) if name in _TEXT else pd.to_numeric(column)
        )
    return table.astype({"batch": int})
