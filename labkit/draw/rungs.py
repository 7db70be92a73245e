"""The ladder: op times and reference times, rung by rung, and each rung's gain or loss against the one before."""

import math

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.numerals import ms, times
from labkit.draw import style
from labkit.draw.measured import Measured
from labkit.draw.style import SMALL, Page, log_ticks, on_new_page, set_ticks, wide, widest

_COLUMNS = ("op_ms", "x_reference")  # what a table needs besides those of `Measured`
# pixels: heading and key, a bar, under the bars, between panels
_TOP, _STEP, _FOOT, _GAP = (76, 27, 44, 22)
_UNITS = {"float32": "FP32", "float16": "FP16"}
_SAME = 1.02  # two times with a smaller ratio are called the same


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def ladder(
    page: Page,
    table: pd.DataFrame,
    device: str = "",
    date: str = "",
    library: pd.DataFrame | None = None,
    highlight: str | None = None,
) -> None:
    """Draw op times on a logarithmic scale, a row per rung: how far each kernel is from what the machine can do.

    The ladder's rungs are numbered versions of a convolution; the op time is the time of their
    kernels alone. The green line of a row is the reference time in its kernel's precision: that of
    moving all bytes once, or of all products, at the device's reference rates. A ring marks the time
    of the row above, the last one of the same data type if there is one: the line to it is blue for
    time saved, orange for time lost.

    Parameters
    ----------
    table : DataFrame
        A result of `bench` or `recorded`: a row per rung, in the ladder's order, with ``label``
        ("01 baseline"), ``layer``, ``batch``, ``op_ms`` and ``x_reference`` (op time over reference
        time). Each layer gets a panel; of several batches the largest is drawn.
    device, date : str, optional
        What measured it, and when, if the table does not say so.
    library : DataFrame, optional
        The library's times on the same device, as `Recorded.cudnn` gives them: drawn below the
        rungs, in grey.
    highlight : str, optional
        Label of the rung in question; by default the last one.
    """
    data = Measured(table, _COLUMNS, "draw.ladder", device, date)
    batch, rows = data.keep_largest_batch(), data.rows
    layers, rungs = list(rows["layer"].unique()), list(rows["label"].unique())
    if library is not None:  # further rows of the same form, as if they were rungs
        rows = pd.concat([rows, _read_library(library, layers, batch, data.device)])
    rows = _compare_rows(rows, rungs)
    labels, highlight = list(rows["label"].unique()), rungs[-1] if highlight is None else highlight
    # panels in a line; pixels above a panel's rows
    across, head = (min(2, len(layers)), 26 + 24 * (len(layers) > 1))
    tall = head + _STEP * len(labels) + _FOOT
    subtitle = data.subtitle(layers[0] if len(layers) == 1 else "", f"batch {batch:,}")
    message = _write_verdict(highlight, rows[rows["label"] == highlight])
    page.open(_TOP + math.ceil(len(layers) / across) * tall, message, subtitle, data.note)
    _draw_key(page, compared=len(rungs) > 1)
    # the dots of the subtitle become commas, for readers who hear the text
    about = f"{subtitle.replace('   ·   ', ', ')}. {data.note}".strip()
    page.alt = f"Dot chart, op time, log scale. {message}. {about}"
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: the ladder, op time over reference time for each rung"
    left = 22 + widest(labels, weight="bold")
    width = (page.width - left - 12 - _GAP * (across - 1)) / across
    # room on the right for the times, which `_compare_rows` has added as texts
    room = widest(rows["text"], weight="bold") + 14
    for i, name in enumerate(layers):
        x, y = left + i % across * (width + _GAP), _TOP + i // across * tall + head
        if len(layers) > 1:
            page.text(x, y - 26, name, weight="bold")
        panel = rows[rows["layer"] == name].set_index("label")
        words = _draw_panel(
            page, panel, x, y, width, room, labels, rungs, highlight, is_first=i % across == 0
        )
        page.alt += f" {name}: {words}"


def _read_library(
    library: pd.DataFrame, layers: list[str], batch: int, device: str
) -> pd.DataFrame:
    """Return the library's rows for these layers and this batch; LabError if they are of another device."""
    others = Measured(library, _COLUMNS, "draw.ladder(library=)")
    others.keep("batch", batch)
    if device and others.device and device != others.device:
        devices = f"the library was measured on {others.device}, the rungs on {device}"
        raise LabError(f"{devices}: no chart compares machines")
    return others.rows[others.rows["layer"].isin(layers)]


def _compare_rows(rows: pd.DataFrame, rungs: list[str]) -> pd.DataFrame:
    """Return the rows with five more columns; LabError if a layer has two rows with the same label.

    ``unit`` ("FP32"), ``reference`` (the reference time, ms), ``text`` (the times); and of rows
    whose label is in `rungs`, the rung above: ``above`` (its op time, ms), ``before`` (its label).
    """
    repeated = rows[rows.duplicated(["layer", "label"])]
    if len(repeated):
        label, layer = repeated[["label", "layer"]].iloc[0]
        raise LabError(
            f"draw.ladder got several rows of {label} for {layer}: give it one row per rung and layer"
        )
    units = rows["dtype"].map(_UNITS).fillna("FP32") if "dtype" in rows else "FP32"
    rows = rows.assign(unit=units, reference=rows["op_ms"] / rows["x_reference"])
    rows["text"] = [
        f"{ms(row.op_ms)}  {times(row.x_reference)}{'  FP16' if row.unit == 'FP16' else ''}"
        for row in rows.itertuples()
    ]
    own = rows[rows["label"].isin(rungs)]
    # The row before in the same layer; rather one with the same data type, if there is one.
    before, alike = (
        own.groupby(keys)[["op_ms", "label"]].shift() for keys in (["layer"], ["layer", "unit"])
    )
    rows[["above", "before"]] = alike.fillna(before)
    return rows


def _draw_key(page: Page, compared: bool) -> None:
    """Draw the chart's key: the green line of a reference time and, if rungs are compared, time saved and time lost."""
    page.line([22, 22], [58, 72], style.GREEN, 2.2)
    page.small(30, 69, "reference time in the kernel's precision")
    saved = (270, style.BLUE, "time saved (ring: row above, same precision)")
    lost = (620, style.ORANGE, "time lost")
    for x, color, words in (saved, lost) if compared else ():
        page.line([x, x + 26], [65, 65], color, 2.4)
        page.line([x + 26], [65], color, 1.4, marker="o", ms=6, mfc=style.PAPER, mec=color)
        page.line([x], [65], color, marker="o", ms=7)
        page.small(x + 38, 69, words)


def _draw_panel(
    page: Page,
    panel: pd.DataFrame,
    x: float,
    y0: float,
    width: float,
    room: float,
    labels: list[str],
    rungs: list[str],
    highlight: str,
    is_first: bool,
) -> str:
    """Draw the panel of a layer, with its upper left corner at (x, y0), and return it in words.

    `panel` has the layer's rows of `_compare_rows`, indexed by label. A line is drawn for each of
    `labels`, some of them `rungs`; if `is_first`, their names stand on the left. The times as text
    take `room` pixels of the `width`.
    """
    drawn = panel[["op_ms", "above", "reference"]]
    # the ends of what is drawn, in ms
    low, reach = (drawn.min(axis=None) / 1.25, drawn.max(axis=None) * 1.1)
    # The axis goes on to `right`, so that the texts have room; at least a third of it is for what
    # is drawn.
    right = low * (reach / low) ** (width / max(width - room, width / 3))
    decade = width / math.log10(right / low)  # pixels of a factor of ten
    ticks = log_ticks(low, reach, (1, 2, 5) if decade > 180 else (1, 3) if decade > 90 else (1,))
    ax = page.axes(
        x,
        y0,
        x + width,
        y0 + _STEP * len(labels),
        log="x",
        xlim=(low, right),
        yticks=[],
        ylim=(len(labels) - 0.5, -0.5),
        xlabel="op time (ms, log scale)",
    )
    set_ticks(ax.xaxis, ticks)
    ax.grid(axis="x")
    ax.spines[:].set_visible(False)
    reference = panel.groupby("unit")["reference"].first()[::-1]  # FP32 first
    words = f"reference {', FP16 '.join(map(ms, reference))}"
    size = SMALL * min(1, width / wide(words, SMALL, "bold"))
    page.text(x, y0 - 5, words, size=size, color=style.GREEN, weight="bold")
    clear = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.5}
    for row, label in enumerate(labels):
        weight, y = "bold" if label == highlight else "normal", y0 + (row + 0.5) * _STEP + 4
        ink, dot = (style.MUTED,) * 2 if label not in rungs else (style.INK, style.BLUE)
        if is_first:
            page.text(x - 8, y, label, ha="right", weight=weight, color=ink)
        if label not in panel.index:
            page.small(x + 8, y, "not measured", bbox=clear)
            continue
        time, before, best, text = panel.loc[label, ["op_ms", "above", "reference", "text"]]
        ax.plot(
            [best, best],
            [row - 0.5, row + 0.5],
            color=style.GREEN,
            lw=2.2,
            zorder=2,
            solid_capstyle="butt",
        )
        # 2 % apart, or more
        if not time / _SAME <= before <= time * _SAME and not math.isnan(before):
            color = style.ORANGE if time > before else style.BLUE
            ax.plot([before, time], [row, row], color=color, lw=2.4, zorder=3)
            ax.plot([before], [row], "o", ms=6, mfc=style.PAPER, mec=color, mew=1.4, zorder=3)
        ax.plot([time], [row], "o", ms=9 if label == highlight else 7, color=dot, zorder=4)
        end = max(time, best, 0 if math.isnan(before) else before)
        page.text(
            x + decade * math.log10(end / low) + 9, y, text, weight=weight, color=ink, bbox=clear
        )
    times_text = ", ".join(
        f"{label} {ms(row.op_ms)} ({times(row.x_reference)})" for label, row in panel.iterrows()
    )
    references = ", ".join(f"{unit} units {ms(value)}" for unit, value in reference.items())
    return f"{times_text}; reference time of the {references}."


def _write_verdict(label: str, rows: pd.DataFrame) -> str:
    """Return as a title a rung's gain over the one before, and over the reference time, from its row of each layer."""
    if not len(rows):
        return "The ladder: op time over reference time"
    reference = f"{_write_spread(rows['x_reference'])}× the reference time"
    gain = (rows["above"] / rows["op_ms"]).dropna()
    if not len(gain):
        return f"{label}: {reference}"
    before = rows["before"].dropna().iloc[0]
    # layers with a difference of 2 % or more
    faster, slower = ((gain > _SAME).sum(), (gain < 1 / _SAME).sum())
    if faster == len(gain):
        verdict = f"{_write_spread(gain)} times as fast as {before}"
    elif slower == len(gain):
        verdict = f"takes {_write_spread(1 / gain)} times as long as {before}"
    elif not faster + slower:
        verdict = f"as fast as {before}"
    else:
        (first, count), *others = (
            (word, n) for word, n in (("faster", faster), ("slower", slower)) if n
        )
        verdict = f"{first} than {before} on {count} of {len(gain)} layers"
        verdict += "".join(f", {word} on {n}" for word, n in others)
    return f"{label}: {verdict}; {reference}"


def _write_spread(values: pd.Series) -> str:
    """Return the smallest and the largest of several factors as text, "1.32 to 2.58"; one number if both are equal."""
    return " to ".join(dict.fromkeys(f"{value:.3g}" for value in (values.min(), values.max())))
