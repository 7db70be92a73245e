"""Heat maps: what a sweep found, a cell a pair of options, a panel a layer."""

import math

from labkit.base.errors import LabError
from labkit.base.numerals import three
from labkit.draw.style import BLUE, FAINT, HAIR, INK, MUTED, ORANGE, PAPER, SMALL, canvas, rect

_STEP = 26  # height of a row of cells
_FADE = math.log(4)  # four times the best is as pale as it gets
_WORDS = {"op_ms": "op time (ms)", "x_reference": "op time over reference", "registers": "registers of a thread",
          "local_bytes": "bytes of local memory of a thread", "threads": "threads of a block"}  # fmt: skip


def heatmap(sweep, x, y, value="op_ms", title=None, path=None):
    """A figure of a sweep: a panel a layer, columns and rows two of its options, in each cell the fastest point.

    Parameters
    ----------
    sweep : DataFrame
        As `labkit.sweep` or `labkit.recorded_sweep` returns it, of one device and batch.
    x, y : str
        Columns of it, such as options: "rows", "maps", "block".
    value : str
        The column whose values the cells show. Where other options were swept, too, a cell stands for the fastest of
        its points, whatever the value shown.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If a column is missing, no point has a time, or the sweep mixes batches or devices.
    """
    missing = [name for name in (x, y, value) if name not in sweep]
    if missing:
        raise LabError(f"draw.heatmap: the sweep has no column {missing[0]!r}; it has {', '.join(sweep.columns)}")
    for name in ("device", "batch"):
        if sweep[name].nunique() > 1:
            several = ", ".join(map(str, sweep[name].unique()))
            raise LabError(f"draw.heatmap: the sweep has several of {name} ({several}): select one of them first")
    if not sweep["op_ms"].notna().any():
        raise LabError("draw.heatmap: no point of this sweep has a time; its column 'reason' says why")
    panels = [_Panel(rows, name, x, y, value) for name, rows in sweep.groupby("layer", sort=False)]
    lines = [panels[i : i + 2] for i in range(0, len(panels), 2)]
    heights = [max(each.height for each in line) for line in lines]
    with canvas(58 + sum(heights) + 26, path=path) as page:
        first = sweep.iloc[0]
        fixed = "" if all(each.alone for each in panels) else ", the fastest of all other options"
        page.heading(
            title or _message(panels),
            f"{_WORDS.get(value, value)}, {y} down, {x} across{fixed}; {first['device']}, batch {first['batch']:,}",
            sweep.attrs.get("note", "") if first["engine"] == "cpu" else "",
        )
        top, wide = 58, page.width / max(map(len, lines))
        for line, height in zip(lines, heights, strict=True):
            for i, panel in enumerate(line):
                panel.draw(page, i * wide, top, wide)
            top += height
        hatched = any(panel.tried - set(panel.cells) for panel in panels)
        legend = "Framed: the fastest. Darker is faster." + " Hatched: cannot run." * hatched
        page.text(12, top + 12, legend, size=SMALL, color=MUTED)
        page.alt = f"Heat maps, {_WORDS.get(value, value)} by {y} and {x}. " + " ".join(map(_Panel.words, panels))
        page.plain = f"Figure: heat maps of a sweep, {y} against {x}, a panel a layer"


def _message(panels):
    spread = max(panel.worst / panel.best for panel in panels)
    places = {panel.best_cell for panel in panels}
    if len(places) == 1:
        agree = "the same choice is best on every layer"
    else:
        own = len(places) == len(panels)
        agree = "each layer has a best choice of its own" if own else "no choice is best on every layer"
    return f"Up to {spread:.3g} times between the cells" + (f"; {agree}" if len(panels) > 1 else "")


class _Panel:
    """The cells of one layer."""

    def __init__(self, rows, layer, x, y, value):
        self.layer, self.x, self.y, self.value = layer, x, y, value
        self.columns, self.lines = _sorted(rows[x]), _sorted(rows[y])
        timed = rows[rows["op_ms"].notna()]
        fastest = timed.loc[timed.groupby([x, y])["op_ms"].idxmin()] if len(timed) else timed
        self.cells = {(row[x], row[y]): (row["op_ms"], row[value]) for _, row in fastest.iterrows()}
        self.tried = set(zip(rows[x], rows[y], strict=True))
        self.alone = not rows.duplicated([x, y]).any()
        self.best_cell = min(self.cells, key=self.cells.get, default=None)
        self.whole = all(_is_whole(value) for _, value in self.cells.values())
        times = [op_ms for op_ms, _ in self.cells.values()]
        self.best, self.worst = min(times, default=1), max(times, default=1)

    @property
    def height(self):
        return 46 + _STEP * len(self.lines) + 12

    def draw(self, page, left, top, width):
        page.text(left + 12, top + 16, self.layer, weight="bold")
        names = left + 12 + max(page.text_width(str(each), SMALL) for each in self.lines) + 8
        cell = (left + width - 14 - names) / len(self.columns)
        ax = page.axes(left, top + 24, left + width, top + 24 + 18 + _STEP * len(self.lines))
        ax.set(xlim=(left, left + width), ylim=(18 + _STEP * len(self.lines), 0))
        ax.axis("off")
        size = self._size(page, map(str, self.columns), cell)
        for i, column in enumerate(self.columns):
            page.text(names + (i + 0.5) * cell, top + 36, str(column), ha="center", size=size, color=MUTED)
        size = self._size(page, (self.said(value) for _, value in self.cells.values()), cell)
        for j, line in enumerate(self.lines):
            y = 18 + j * _STEP
            page.text(names - 8, top + 24 + y + _STEP / 2 + 4, str(line), ha="right", size=SMALL)
            for i, column in enumerate(self.columns):
                box = (names + i * cell + 1, y + 1, cell - 2, _STEP - 2)
                if (column, line) not in self.cells:
                    if (column, line) in self.tried:
                        rect(ax, *box, PAPER, edge=FAINT, hatch="////")
                    continue
                op_ms, value = self.cells[column, line]
                strength = 1 - min(math.log(op_ms / self.best) / _FADE, 1)
                rect(ax, *box, _blend(HAIR, BLUE, strength))
                page.text(box[0] + box[2] / 2, top + 24 + y + _STEP / 2 + 4, self.said(value), ha="center", size=size,
                          color=PAPER if strength > 0.78 else INK)  # fmt: skip
                if (column, line) == self.best_cell:
                    rect(ax, *box, "none", edge=ORANGE, lw=2.5, zorder=3)

    def said(self, value):
        """What a cell says: a count as it is, anything measured in three digits."""
        if isinstance(value, str):
            return value
        if value != value:
            return "–"
        return f"{value:.0f}" if self.whole else three(value)

    @staticmethod
    def _size(page, texts, width):
        """The size at which all of them fit into cells of that width."""
        widest = max((page.text_width(each, SMALL) for each in texts), default=1)
        return SMALL * min(1, 0.86 * width / widest)

    def words(self):
        if self.best_cell is None:
            return f"{self.layer}: nothing runs."
        column, line = self.best_cell
        at = {cell: value for cell, (_, value) in self.cells.items()}
        cells = ", ".join(f"{self.y} {b} {self.x} {a}: {self.said(v)}" for (a, b), v in at.items())
        return f"{self.layer}, fastest at {self.y} {line}, {self.x} {column}. {cells}."


def _sorted(values):
    """The different values in order; "160x1" by its numbers."""
    def order(value):
        parts = str(value).split("x")
        return (0, [float(part) for part in parts]) if all(map(_number, parts)) else (1, [str(value)])

    return sorted(values.dropna().unique(), key=order)


def _number(text):
    return text.replace(".", "", 1).isdigit()


def _is_whole(value):
    return isinstance(value, str) or value != value or float(value).is_integer()


def _blend(pale, dark, share):
    a, b = ([int(c[i : i + 2], 16) for i in (1, 3, 5)] for c in (pale, dark))
    return "#" + "".join(f"{round(p + (d - p) * share):02x}" for p, d in zip(a, b, strict=True))
