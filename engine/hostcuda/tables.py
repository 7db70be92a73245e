"""Tables: HTML for a notebook, the same in plain text for a terminal."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hostcuda.errors import EngineError

if TYPE_CHECKING:
    import pandas as pd


def escape_controls(text: str, kept: str = "") -> str:
    r"""Return a text whose invalid bytes, control characters and invisible letters are escaped, as in "\x1b".

    So a text of others, such as a file's name, cannot command a terminal. Letters of `kept` stay as
    they are.
    """
    if text.isprintable():
        return text
    return "".join(
        letter
        if letter.isprintable() or letter in kept
        # Python keeps an invalid byte 0x9f of a file's name as \udc9f; [1:-1]: without quotation marks
        else ascii(letter)[1:-1].replace(r"\udc", r"\x")
        for letter in text
    )


class HTML:
    """A piece of a page: HTML for the notebook, and the same in plain text for a terminal."""

    def __init__(self, page: str, plain: str):
        self.page, self.plain = page, plain

    def _repr_html_(self) -> str:
        return self.page

    def __repr__(self) -> str:
        return self.plain


def format_digits(value: float) -> str:
    """Return a number as text with three digits, and all of those before the point: "80.0", "0.123", "1,234"."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))  # behind the point; negative for 1,234
    # rounding adds one before the point: 9.999 is 10.0
    if abs(round(value, digits)) >= 10 ** (3 - digits):
        digits -= 1
    return f"{value:,.{max(0, digits)}f}"


def cell(name: str, value: Any) -> str:
    """Return a column's value as text: an integer in full, another number with three digits, "–" for a missing one."""
    # imported here, because it loads slowly, and each process that runs a kernel imports this module
    import pandas as pd

    del name  # other functions that are given to `table` as its `form` use it
    if pd.api.types.is_scalar(value) and pd.isna(value):
        return "–"
    if isinstance(value, (str, bool)) or not hasattr(value, "__float__"):
        return str(value)
    return f"{value:,.0f}" if float(value).is_integer() else format_digits(value)


def table(
    frame: pd.DataFrame,
    caption: str,
    columns: Mapping[str, str],
    form: Callable[[str, object], str] = cell,
) -> HTML:
    """Make a table for a page: in a notebook it is shown as HTML, in a terminal as plain text.

    Parameters
    ----------
    frame : DataFrame
    caption : str
        Shown above the table, with ``frame.attrs["note"]`` if there is one.
    columns : mapping
        Maps names of columns to headings, in the order of the table; other columns are omitted.
    form : function
        Returns the text of a cell for a column's name and a value of that column.

    Raises
    ------
    EngineError
        A column is missing.
    """
    note = frame.attrs.get("note", "")
    if missing := [name for name in columns if name not in frame.columns]:
        raise EngineError(
            f"no column {missing[0]!r} in this table; it has {', '.join(map(str, frame.columns))}"
        )
    import pandas as pd  # here, as in `cell`, because it loads slowly

    texts = pd.DataFrame(
        {heading: [form(name, v) for v in frame[name]] for name, heading in columns.items()}
    )
    full = html.escape(caption) + (
        f'<div class="lab-note">{html.escape(note)}</div>' if note else ""
    )
    are_numbers = [pd.api.types.is_numeric_dtype(frame[name]) for name in columns]
    rows = "".join(
        _format_row(cells, are_numbers, "td") for cells in texts.itertuples(index=False, name=None)
    )
    page = (
        f'<table class="lab-table"><caption style="text-align:left">{full}</caption>'
        f"<thead>{_format_row(texts.columns, are_numbers, 'th')}</thead><tbody>{rows}</tbody></table>"
    )
    lines = [line for line in (caption, note, texts.to_string(index=False)) if line]
    return HTML(page, "\n".join(lines))


def _format_row(cells: Iterable, are_numbers: Iterable[bool], tag: str) -> str:
    """Return a row of HTML with the elements `tag` ("td", "th"); `are_numbers` says which columns hold numbers."""
    # Text is to the left, which JupyterLab would put to the right; the class "figure" is for the
    # page's style sheet.
    sides = (
        ' class="figure"' if is_number else ' style="text-align:left"' for is_number in are_numbers
    )
    filled = (
        f"<{tag}{side}>{html.escape(str(text))}</{tag}>"
        for side, text in zip(sides, cells, strict=True)
    )
    return "<tr>" + "".join(filled) + "</tr>"
