"""Heat maps of a sweep: a cell per pair of options, a panel per layer."""

import math

import pandas as pd
from matplotlib.colors import LinearSegmentedColormap

from labkit.base.errors import LabError
from labkit.base.numerals import format_digits
from labkit.draw import style
from labkit.draw.style import SMALL, Page, ink_on, on_new_page, widest

_STEP = 26  # pixels: the height of a row of cells
_FADE = math.log(4)  # four times the best time is as pale as it gets
_COLORS = LinearSegmentedColormap.from_list("pale to blue", [style.HAIR, style.BLUE])
_WORDS = {
    "op_ms": "op time (ms)",
    "x_reference": "op time over reference time",
    "registers": "registers per thread",
    "local_bytes": "bytes of local memory per thread",
    "threads": "threads per block",
}


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def heatmap(page: Page, sweep: pd.DataFrame, x: str, y: str, value: str = "op_ms") -> None:
    """Draw a sweep: a panel per layer, two of its options as columns and rows, in each cell the fastest point.

    A sweep measures a kernel with many values of its options; a point is one choice of them on a layer.

    Parameters
    ----------
    sweep : DataFrame
        A row per point, as `labkit.sweep` or `Recorded.sweep` returns it, of one device and batch.
    x, y : str
        Columns of the sweep, such as options: "rows", "maps", "block".
    value : str
        The column whose values the cells show: of the fastest point, if other options were swept,
        too.
    """
    if missing := [name for name in (x, y, value) if name not in sweep]:
        raise LabError(
            f"draw.heatmap: the sweep has no column {missing[0]!r}; it has {', '.join(sweep.columns)}"
        )
    for name in ("device", "batch"):
        if sweep[name].nunique() > 1:
            several = ", ".join(map(str, sweep[name].unique()))
            raise LabError(
                f"draw.heatmap: the sweep has several of {name} ({several}): select one of them first"
            )
    if not sweep["op_ms"].notna().any():
        raise LabError(
            "draw.heatmap: no point of this sweep has a time; its column 'reason' says why"
        )
    panels = [
        (layer, rows, _select_fastest(rows, x, y))
        for layer, rows in sweep.groupby("layer", sort=False)
    ]
    across = min(2, len(panels))  # panels side by side
    lines = [rows[y].nunique() for _, rows, _ in panels]  # of cells, per panel
    # pixels: the height of each two panels that stand side by side
    heights = [58 + _STEP * max(lines[i : i + 2]) for i in range(0, len(panels), 2)]
    first, unit = sweep.iloc[0], _WORDS.get(value, value)
    fixed = ", the fastest of all other options" if sweep.duplicated(["layer", x, y]).any() else ""
    page.open(
        84 + sum(heights),
        _write_message([best for _, _, best in panels]),
        f"{unit}{fixed}; {first['device']}, batch {first['batch']:,}",
        sweep.attrs.get("note", "") if first["engine"] == "cpu" else "",
    )  # the note: these are not GPU times
    page.alt = f"Heat maps, {unit} by {y} and {x}."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = f"Figure: heat maps of a sweep, {y} against {x}"
    for i, (layer, rows, best) in enumerate(panels):
        left = i % 2 * page.width / across
        wide = page.width / across
        top = 58 + sum(heights[: i // 2])
        page.text(left + 12, top + 16, layer, weight="bold")
        page.small(left + wide - 14, top + 16, f"{y} ↓   {x} →", ha="right")
        words = _draw_panel(page, left, top, wide, rows, best, x, y, value)
        cells = ", ".join(
            f"{y} {line} {x} {column}: {text}" for (column, line), text in words.items()
        )
        # the index of `best`: the values of x and y
        column, line = best["op_ms"].idxmin() if len(best) else ("", "")
        fastest = f"{layer}, fastest at {y} {line}, {x} {column}. {cells}."
        page.alt += f" {fastest}" if len(best) else f" {layer}: nothing runs."
    hatched = (
        " Hatched: cannot run."
        if sweep.groupby(["layer", x, y])["op_ms"].max().isna().any()
        else ""
    )
    page.small(12, 70 + sum(heights), f"Framed: the fastest. Bluer is faster.{hatched}")


def _draw_panel(
    page: Page,
    left: float,
    top: float,
    wide: float,
    rows: pd.DataFrame,
    best: pd.DataFrame,
    x: str,
    y: str,
    value: str,
) -> dict[tuple, str]:
    """Draw a layer's cells, `wide` pixels with the names of its rows; return their texts by their values of (x, y).

    `rows` are all points, `best` those of `_select_fastest`: a cell without one is hatched, because
    nothing runs there.
    """
    columns, lines, times = _sort_values(rows[x]), _sort_values(rows[y]), best["op_ms"]
    names = left + 20 + widest(lines, SMALL)
    cell = (left + wide - 14 - names) / len(columns)
    # v != v: only NaN is not equal to itself
    integers = all(isinstance(v, str) or v != v or float(v).is_integer() for v in best[value])
    words = {at: _write_cell(v, integers) for at, v in best[value].items()}
    size, head = (
        SMALL * min(1, 0.86 * cell / widest([" ", *texts], SMALL))
        for texts in (words.values(), columns)
    )
    for n, column in enumerate(columns):
        page.text(
            names + (n + 0.5) * cell,
            top + 36,
            str(column),
            ha="center",
            size=head,
            color=style.MUTED,
        )
    for m, line in enumerate(lines):
        page.small(names - 8, top + 59 + m * _STEP, str(line), style.INK, ha="right")
    for column, line in dict.fromkeys(zip(rows[x], rows[y], strict=True)):
        box = (
            names + columns.index(column) * cell + 1,
            top + 43 + lines.index(line) * _STEP,
            cell - 2,
            _STEP - 2,
        )
        if (column, line) not in best.index:
            page.rect(*box, style.PAPER, style.FAINT, hatch="////")
            continue
        # 1: blue, the best time; 0: pale
        face = _COLORS(1 - math.log(times[column, line] / times.min()) / _FADE)
        page.rect(*box, face)
        page.text(
            box[0] + box[2] / 2,
            box[1] + 16,
            words[column, line],
            ha="center",
            size=size,
            color=ink_on(face),
        )
        if (column, line) == times.idxmin():
            page.frame(*box, style.ORANGE, 2.5)
    return words


def _select_fastest(rows: pd.DataFrame, x: str, y: str) -> pd.DataFrame:
    """Return the fastest row, if any has a time, of each pair of values in the columns x and y, indexed by the pair."""
    timed = rows[rows["op_ms"].notna()]
    return timed.loc[timed.groupby([x, y])["op_ms"].idxmin()].set_index([x, y], drop=False)


def _write_message(tables: list[pd.DataFrame]) -> str:
    """Return a title: the largest ratio of ``op_ms`` within a layer's table, and whether the best cells agree."""
    tables = [best["op_ms"] for best in tables if len(best)]
    spread = max(times.max() / times.min() for times in tables)
    places = {times.idxmin() for times in tables}
    agree = (
        "the same choice is best on every layer"
        if len(places) == 1
        else (
            "each layer has a best choice of its own"
            if len(places) == len(tables)
            else "no choice is best on every layer"
        )
    )
    return f"Up to {spread:.3g} times between the cells" + (f"; {agree}" if len(tables) > 1 else "")


def _write_cell(value: str | float, integers: bool) -> str:
    """Return a cell's text: a count in full if all cells are `integers`, else three digits; a dash for NaN."""
    if isinstance(value, str):
        return value
    if value != value:  # NaN
        return "–"
    return f"{value:.0f}" if integers else format_digits(value)


def _sort_values(values: pd.Series) -> list:
    """Return the different values of an option in order: numbers before words, "32x8" before "160x1"."""
    return sorted(
        values.dropna().unique(),
        key=lambda value: [
            (0, float(piece), "") if piece.replace(".", "", 1).isdecimal() else (1, 0, piece)
            for piece in str(value).split("x")
        ],
    )
