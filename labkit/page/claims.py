"""What a notebook page says: which engine it runs on, a prediction, a table, a claim that is checked."""

from __future__ import annotations

import html
from collections.abc import Mapping

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.numerals import three, times

_NOT_GPU = (
    "Times measured on this page are this computer's, <b>not a GPU's</b>. Results, counts and accuracies are "
    "the same on both engines; GPU times are the recorded ones, labelled with their device and date."
)
_GPU = "Times measured on this page are this GPU's; recorded ones are labelled with their device and date."

# How a column reads: (ending of its name, format, heading's unit). The first match wins.
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


class ClaimFailed(LabError, AssertionError):
    """A sentence of a page that the figures do not bear out."""


class HTML:
    """A piece of a page: HTML for the notebook, the same in plain text for a terminal."""

    def __init__(self, page: str, plain: str):
        self.page, self.plain = page, plain

    def _repr_html_(self) -> str:
        return self.page

    def __repr__(self) -> str:
        return self.plain


def setup() -> HTML:
    """Start the engine and say which one it is, and what its times mean.

    Raises
    ------
    LabError
        ``LABKIT_ENGINE`` asks for an engine that this machine cannot give.
    """
    from labkit.cuda import ensure_context
    from labkit.spec.devices import device

    ensure_context()
    here = device()
    note = _GPU if here.engine == "gpu" else _NOT_GPU
    name = "GPU" if here.engine == "gpu" else "CPU engine"
    colour = "46,160,67" if here.engine == "gpu" else "232,150,30"  # half-transparent: for light and dark pages
    style = f"padding:.6em 1em;border-left:4px solid rgb({colour});background:rgba({colour},.14)"
    page = f'<div class="lab-engine" style="{style}"><b>{name}: {html.escape(here.name)}.</b> {note}</div>'
    plain = note.replace("<b>", "").replace("</b>", "")
    return HTML(page, f"{name}: {here.name}. {plain}")


def table(frame: pd.DataFrame, caption: str = "", columns: Mapping[str, str] | None = None) -> HTML:
    """A table as the pages print it: figures rounded for reading, units in the heading.

    Parameters
    ----------
    frame : DataFrame
        Columns ending in ``_ms``, ``_s``, ``share`` … are formatted by their name.
    caption : str
        Stands over the table. ``frame.attrs["note"]``, if there is one, is added.
    columns : mapping, optional
        Column name to heading, in the order wanted; the other columns are left out.
    """
    chosen = dict(columns) if columns else {name: _heading(name) for name in frame.columns}
    missing = [name for name in chosen if name not in frame.columns]
    if missing:
        raise LabError(f"no column {missing[0]!r} in this table; it has {', '.join(map(str, frame.columns))}")
    shown = pd.DataFrame({heading: [_cell(name, v) for v in frame[name]] for name, heading in chosen.items()})
    note = frame.attrs.get("note", "")
    full = html.escape(caption) + (f'<div class="lab-note">{html.escape(note)}</div>' if note else "")
    figures = [pd.api.types.is_numeric_dtype(frame[name]) for name in chosen]
    rows = "".join(_row(cells, figures, "td") for cells in shown.itertuples(index=False, name=None))
    page = (
        f'<table class="lab-table"><caption style="text-align:left">{full}</caption>'
        f"<thead>{_row(shown.columns, figures, 'th')}</thead><tbody>{rows}</tbody></table>"
    )
    lines = [line for line in (caption, note, shown.to_string(index=False)) if line]
    return HTML(page, "\n".join(lines))


def _row(cells, figures, tag: str) -> str:
    sides = (' class="figure"' if figure else ' style="text-align:left"' for figure in figures)  # JupyterLab: right
    filled = (f"<{tag}{m}>{html.escape(str(c))}</{tag}>" for m, c in zip(sides, cells, strict=True))
    return "<tr>" + "".join(filled) + "</tr>"


def _heading(name: str) -> str:
    if name in _HEADINGS:
        return _HEADINGS[name]
    for ending, _, unit in _FORMATS:
        if unit and _plain(name).endswith(ending):
            return _plain(name).removesuffix(ending).replace("_", " ") + unit
    return name.replace("_", " ")


def _plain(name: str) -> str:
    return name.replace(" ", "_")


def _cell(name: str, value) -> str:
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "–"
    if isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        return str(value)
    for ending, form, _ in _FORMATS:
        if _plain(name).endswith(ending) and name not in ("gflop_s", "gb_s", "images_s"):
            return form(value)
    return f"{value:,.0f}" if float(value).is_integer() else three(value)


class Prediction:
    """Numbers written down before the measurement, to be held against it afterwards."""

    def __init__(self, **expected: float):
        self.expected = expected

    def against(self, **measured: float) -> HTML:
        """The predictions beside what was measured, and their ratio; of a predicted 0 there is none.

        Parameters
        ----------
        **measured
            The same names as were predicted.

        Raises
        ------
        LabError
            A name that was not predicted.
        """
        unknown = set(measured) - set(self.expected)
        if unknown:
            raise LabError(f"{unknown.pop()!r} was not predicted; predicted were {', '.join(self.expected)}")
        rows = [
            {"quantity": name.replace("_", " "), "predicted": self.expected[name], "measured": value,
             "measured over predicted": value / self.expected[name] if self.expected[name] else float("nan")}
            for name, value in measured.items()
        ]
        return table(pd.DataFrame(rows), "The prediction against the measurement")


def predict(**expected: float) -> Prediction:
    """Write down what you expect, as ``name=number``; hold it against the measurement with ``.against()``."""
    return Prediction(**expected)


def claim(text: str, holds: bool, here: bool | None = None) -> None:
    """State something that the figures must bear out.

    Parameters
    ----------
    text : str
        The sentence. A claim about time names its device.
    holds : bool
        Whether the recorded or counted figures bear it out.
    here : bool, optional
        Whether the device at hand agrees. It is said, and never fails: another GPU may well differ. On the
        CPU engine nothing is said, because its times decide nothing about GPUs.

    Raises
    ------
    ClaimFailed
        `holds` is false.
    """
    if not holds:
        raise ClaimFailed(f"not so: {text}")
    print(f"✓ {text}")
    if here is not None:
        from labkit.spec.devices import device

        if device().engine == "gpu":
            print(f"  {device().name}, measured here: {'agrees' if here else 'does not agree'}")
