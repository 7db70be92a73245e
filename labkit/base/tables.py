"""Tables and other pieces of a page: HTML for a notebook, the same in plain text for a terminal."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.numerals import three, times

# How a column is shown: (ending of its name, format, unit in the heading). The first match wins.
_FORMATS = (
    ("_ms", three, " (ms)"),
    ("_s", three, " (s)"),
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


class HTML:
    """A piece of a page: HTML for the notebook, the same in plain text for a terminal."""

    def __init__(self, page: str, plain: str):
        self.page, self.plain = page, plain

    def _repr_html_(self) -> str:
        return self.page

    def __repr__(self) -> str:
        return self.plain


def table(frame: pd.DataFrame, caption: str = "", columns: Mapping[str, str] | None = None) -> HTML:
    """A table for a page: rounded figures, with their units in the headings.

    Parameters
    ----------
    frame : DataFrame
        Columns are formatted by the end of their name: ``_ms``, ``_s``, ``share`` … A named index is a column, too.
    caption : str
        Shown above the table, with ``frame.attrs["note"]`` if there is one.
    columns : mapping, optional
        Column name -> heading, in the order of the table; other columns are omitted.
    """
    note = frame.attrs.get("note", "")
    if levels := [name for name in frame.index.names if name and name not in frame.columns]:
        frame = frame.reset_index(levels)
    chosen = dict(columns) if columns else {name: _heading(name) for name in frame.columns}
    missing = [name for name in chosen if name not in frame.columns]
    if missing:
        raise LabError(f"no column {missing[0]!r} in this table; it has {', '.join(map(str, frame.columns))}")
    shown = pd.DataFrame({heading: [_cell(name, v) for v in frame[name]] for name, heading in chosen.items()})
    full = html.escape(caption) + (f'<div class="lab-note">{html.escape(note)}</div>' if note else "")
    figures = [pd.api.types.is_numeric_dtype(frame[name]) for name in chosen]
    rows = "".join(_row(cells, figures, "td") for cells in shown.itertuples(index=False, name=None))
    page = (
        f'<table class="lab-table"><caption style="text-align:left">{full}</caption>'
        f"<thead>{_row(shown.columns, figures, 'th')}</thead><tbody>{rows}</tbody></table>"
    )
    lines = [line for line in (caption, note, shown.to_string(index=False)) if line]
    return HTML(page, "\n".join(lines))


def _row(cells: Iterable, figures: Iterable[bool], tag: str) -> str:
    """A row of HTML; figures are aligned right."""
    sides = (' class="figure"' if figure else ' style="text-align:left"' for figure in figures)  # JupyterLab: right
    filled = (f"<{tag}{m}>{html.escape(str(c))}</{tag}>" for m, c in zip(sides, cells, strict=True))
    return "<tr>" + "".join(filled) + "</tr>"


def _heading(name: str) -> str:
    """A column's name as a heading, with its unit."""
    if name in _HEADINGS:
        return _HEADINGS[name]
    for ending, _, unit in _FORMATS:
        if unit and _plain(name).endswith(ending):
            return _plain(name).removesuffix(ending).replace("_", " ") + unit
    return name.replace("_", " ")


def _plain(name: str) -> str:
    return name.replace(" ", "_")


def _cell(name: str, value) -> str:
    """A value as text, in the format of its column."""
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "–"
    if isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        return str(value)
    for ending, form, _ in _FORMATS:
        if _plain(name).endswith(ending) and name not in ("gflop_s", "gb_s", "images_s"):
            return form(value)
    return f"{value:,.0f}" if float(value).is_integer() else three(value)
