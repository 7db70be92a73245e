"""Tables of the lab's figures, with their units: HTML for a notebook, the same in plain text for a terminal."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from hostcuda import tables
from hostcuda.tables import HTML
from labkit.base.numerals import format_digits, times

# How a column is shown: (ending of its name, format, unit in the heading). The first match wins.
_FORMATS = (
    ("_ms", format_digits, " (ms)"),
    ("_s", format_digits, " (s)"),
    ("share", lambda v: f"{v:.1%}", ""),
    ("cumulative", lambda v: f"{v:.1%}", ""),
    ("x_reference", times, ""),
    ("accuracy", lambda v: f"{v:.4f}", ""),
)
_HEADINGS = {
    "x_reference": "time over reference",
    "gflop_s": "GFLOP/s",
    "gb_s": "GB/s",
    "images_s": "images/s",
    "op_ms": "op time (ms)",
    "layer_ms": "layer time (ms)",
    "total_s": "total (s)",
}


def table(frame: pd.DataFrame, caption: str = "", columns: Mapping[str, str] | None = None) -> HTML:
    """Return a table, as HTML for a notebook and as plain text for `print`: rounded numbers, units in the headings.

    Parameters
    ----------
    frame : DataFrame
        Columns are formatted by the end of their name: ``_ms``, ``_s``, ``share`` … A named index
        is a column, too.
    caption : str
        Shown above the table, with ``frame.attrs["note"]`` if there is one.
    columns : mapping, optional
        Column name -> heading, in the order of the table; other columns are omitted.
    """
    if levels := [name for name in frame.index.names if name and name not in frame.columns]:
        frame = frame.reset_index(levels)
    chosen = dict(columns) if columns else {name: _write_heading(name) for name in frame.columns}
    return tables.table(frame, caption, chosen, _write_cell)


def _write_heading(name: str) -> str:
    """Return the heading of a column, with its unit: by `_HEADINGS`, else "copy (ms)" for a column "copy_ms"."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    words = name.replace("_", " ")
    for ending, _, unit in _FORMATS:
        if unit and words.endswith(ending.replace("_", " ")):
            return words.removesuffix(ending.replace("_", " ")) + unit
    return words


def _write_cell(name: str, value: Any) -> str:
    """Return a value as text; the end of its column's name, such as "_ms", chooses one of `_FORMATS`.

    Texts, missing values ("–") and columns with other names are formatted by
    `hostcuda.tables.cell`.
    """
    plain = tables.cell(name, value)
    if plain == "–" or isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        return plain
    for ending, form, _ in _FORMATS:
        if name.replace(" ", "_").endswith(ending) and name not in ("gflop_s", "gb_s", "images_s"):
            return form(value)
    return plain
