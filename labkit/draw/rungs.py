"""The ladder: time over reference, rung by rung."""

import math

from labkit.base.errors import LabError
from labkit.base.numerals import ms, times
from labkit.draw.style import BLUE, GREEN, INK, MUTED, PALE, PAPER, SMALL, canvas, log_ticks
from labkit.draw.words import Measured, layer_name

TOP, HEAD, STEP, FOOT, GAP = 54, 26, 27, 44, 22  # pixels: heading, over the bars, a bar, under them, between panels


def ladder(table, layer=None, batch=None, device=None, date=None, library=None, highlight=None, title=None, path=None):
    """Time over reference, a row a rung: how far each kernel is from what the machine can do.

    Parameters
    ----------
    table : DataFrame or Recorded
        What `bench` or `recorded` returned: a row a rung, in the ladder's order, with ``label`` ("01 baseline"),
        ``op_ms`` and ``x_reference`` (op time over reference). Where it holds several layers, and no `layer` is asked for,
        each gets a panel of its own; where it holds several batches, and no `batch` is asked for, the largest is
        drawn.
    layer : Layer or str, optional
        Draw this layer only.
    batch : int, optional
        Draw this batch only.
    device, date : str, optional
        What measured it, and when, where the table does not say so.
    library : DataFrame, optional
        The library's times on the same device, as `labkit.library` gives them: drawn below the rungs, each with a
        dashed line up through them.
    highlight : str, optional
        Label of the rung in question; by default the last one.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If columns or rows are missing, if a rung has several rows for a layer and batch, or if the library's times
        are another device's.
    """
    who = "draw.ladder"
    data = Measured(table, ["label", "op_ms", "x_reference"], who, device, date)
    data.only(who, layer=layer)
    if batch is None and "batch" in data.rows:
        batch = int(data.rows["batch"].max())
    rows = data.only(who, batch=batch).rows
    layers = list(dict.fromkeys(rows["layer"])) if "layer" in rows else [layer_name(layer) or ""]
    if library is not None:
        library = _library(library, batch, data.device)
    rungs = list(dict.fromkeys(rows["label"]))
    others = [] if library is None else [name for name in dict.fromkeys(library["label"]) if name not in rungs]
    highlight = rungs[-1] if highlight is None else highlight
    panels = [_Panel(each, rows, library) for each in layers]

    across = min(2, len(panels))
    head = HEAD + (24 if len(panels) > 1 else 0)
    panel_height = head + STEP * len(rungs + others) + FOOT
    with canvas(TOP + math.ceil(len(panels) / across) * panel_height, path=path) as page:
        where = layers[0] if len(layers) == 1 else ""
        subtitle = data.subtitle(where, f"batch {batch:,}" if batch else "")
        page.heading(title or _message(panels, highlight), subtitle, data.note)
        left = 22 + max(page.text_width(label, weight="bold") for label in rungs + others)
        width = (page.width - left - 12 - GAP * (across - 1)) / across
        limits = _limits(page, panels, width)
        for i, panel in enumerate(panels):
            x, y = left + i % across * (width + GAP), TOP + i // across * panel_height
            if len(panels) > 1:
                page.text(x, y + 24, panel.layer, weight="bold")
            frame = page.axes(x, y + head, x + width, y + panel_height - FOOT)
            panel.draw(frame, rungs, others, highlight, width, limits, named=i % across == 0)
        about = ["Bar chart, op time over reference, log scale.", subtitle.replace("   ·   ", ", ") + ".", data.note]
        page.alt = " ".join(filter(None, [*about, *(panel.words() for panel in panels)]))
        page.plain = "Figure: the ladder, op time over reference for each rung"


class _Panel:
    """One layer's part of the ladder: milliseconds and times over the floor for each label."""

    def __init__(self, layer, rows, library):
        self.layer, self.ms, self.over, self.precision, floors = layer, {}, {}, {}, []
        for row in [*_of(layer, rows), *_of(layer, library)]:
            label = row["label"]
            if label in self.ms:
                raise LabError(f"draw.ladder got several rows of {label} for {layer or 'the layer'}: one each, please")
            self.ms[label], self.over[label] = float(row["op_ms"]), float(row["x_reference"])
            self.precision[label] = row.get("dtype", "")
            floors.append(self.ms[label] / self.over[label])
        # Half precision has a floor of its own; where several meet, the smaller is that of FP16.
        low, high = min(floors), max(floors)
        self.floor = f"floor {ms(high)}" + ("" if high < 1.01 * low else f", in FP16 {ms(low)}")

    def value(self, label):
        half = "  FP16" if self.precision[label] == "float16" else ""
        return f"{ms(self.ms[label])}  {times(self.over[label])}{half}"

    def words(self):
        """The panel as a sentence."""
        rows = ", ".join(f"{label} {ms(self.ms[label])} ({times(self.over[label])})" for label in self.ms)
        return f"{self.layer + ': ' if self.layer else ''}{rows}; {self.floor}."

    def draw(self, ax, rungs, others, highlight, width, limits, named):
        labels = rungs + others
        _scale(ax, limits, width)
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.set_yticks(range(len(labels)), labels if named else [""] * len(labels))
        for text, label in zip(ax.get_yticklabels(), labels, strict=True):
            text.set(weight="bold" if label == highlight else "normal", color=MUTED if label in others else INK)
        ax.tick_params(pad=6)
        ax.spines[:].set_visible(False)
        ax.grid(axis="x")
        clear = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        beside = {"textcoords": "offset points", "va": "center", "zorder": 5, "bbox": clear}
        for y, label in enumerate(labels):
            weight, ink = "bold" if label == highlight else "normal", MUTED if label in others else INK
            if label not in self.ms:
                ax.annotate("not measured", (1, y), (6, 0), size=SMALL, color=MUTED, **beside)
                continue
            over = self.over[label]
            color = MUTED if label in others else BLUE if label == highlight else PALE
            ax.barh(y, over - 1, left=1, height=0.62, color=color)
            if label in others:
                ax.plot([over, over], [-0.5, y - 0.31], color=MUTED, lw=1.2, ls=(0, (4, 3)), zorder=2.5)
            ax.annotate(self.value(label), (max(1, over), y), (6, -0.5), weight=weight, color=ink, **beside)
        ax.axvline(1, color=GREEN, lw=2.2, clip_on=False, zorder=4)
        ax.annotate(self.floor, (0, 1), (-1, 5), xycoords="axes fraction", textcoords="offset points", size=SMALL,
                    color=GREEN, weight="bold")  # fmt: skip


def _limits(page, panels, width):
    """One axis for all panels: from the floor (or below, if a time is) to where every bar's value still has room."""
    room = max(page.text_width(panel.value(label), weight="bold") for panel in panels for label in panel.ms) + 12
    seen = [over for panel in panels for over in panel.over.values()]
    low, reach = min(1.0, min(seen) / 1.1), max([*seen, 2.0]) * 1.02
    return low, reach, low * (reach / low) ** (width / max(width - room, width / 3))


def _scale(ax, limits, width):
    """The log axis, with round numbers up to the longest bar."""
    low, reach, right = limits
    ax.set_xscale("log")
    ax.set(xlim=(low, right), xlabel="op time over reference (log scale)")
    apart = width / math.log10(right / low)  # pixels a decade
    digits = (1, 2, 5) if apart > 180 else (1, 3) if apart > 90 else (1,)
    ticks = log_ticks(low, reach, digits)
    ax.set_xticks(ticks, [f"{tick:,.10g}×" for tick in ticks])
    ax.set_xticks([], minor=True)


def _message(panels, label):
    over = [panel.over[label] for panel in panels if label in panel.over]
    if not over:
        return "The ladder: op time over reference"
    if max(over) < 1:
        return f"{label}: {times(max(over))} its floor"
    spread = times(over[0]) if len(over) == 1 else f"{times(min(over))} to {times(max(over))}"
    return f"{label}: {spread} the time that the machine needs"


def _of(layer, rows):
    """The rows of one layer as dicts."""
    records = [] if rows is None else rows.to_dict("records")
    return [row for row in records if "layer" not in row or layer_name(row["layer"]) == layer]


def _library(table, batch, device):
    """The library's rows for this batch, if they are of the same machine."""
    table = Measured(table, ["label", "op_ms", "x_reference"], "draw.ladder(library=)")
    if device and table.device and table.device != device:
        raise LabError(f"the library was measured on {table.device}, the rungs on {device}: no chart compares machines")
    return table.only("draw.ladder(library=)", batch=batch).rows
