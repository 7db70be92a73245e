"""The ladder: op time over reference time, rung by rung."""

import math

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.numerals import ms, times
from labkit.draw import style
from labkit.draw.style import SMALL, Page, figure, log_ticks, wide, widest
from labkit.draw.tables import Measured, name_of
from labkit.spec.devices import Device
from labkit.spec.layers import Layer

_COLUMNS = ("label", "op_ms", "x_reference")
_TOP, _STEP, _FOOT, _GAP = 54, 27, 44, 22  # pixels: heading, a bar, under the bars, between panels
_UNITS = {"float32": "FP32", "float16": "FP16"}


@figure
def ladder(page: Page, table, layer: Layer | str | None = None, batch: int | None = None,
           device: Device | str | None = None, date: str | None = None, library: pd.DataFrame | None = None,
           highlight: str | None = None) -> None:
    """Op time over reference time, a row per rung: how far each kernel is from what the machine can do.

    Parameters
    ----------
    table : DataFrame or Recorded
        What `bench` or `recorded` returned: a row per rung, in the ladder's order, with ``label`` ("01 baseline"),
        ``op_ms`` and ``x_reference`` (op time over reference time). Of several layers each gets a panel.
    layer : Layer or str, optional
        Draw this layer only.
    batch : int, optional
        Draw this batch; by default the largest.
    device, date : str, optional
        What measured it, and when, where the table does not say so.
    library : DataFrame, optional
        The library's times on the same device, as `labkit.cudnn` gives them: drawn below the rungs, each with a
        dashed line up through them.
    highlight : str, optional
        Label of the rung in question; by default the last one.
    """
    data = Measured(table, _COLUMNS, "draw.ladder", device, date)
    batch, rows = data.only(layer, batch), data.rows
    if "layer" not in rows:
        rows = rows.assign(layer=name_of(layer) or "")
    layers, rungs = list(rows["layer"].unique()), list(rows["label"].unique())
    if library is not None:
        beside = Measured(library, _COLUMNS, "draw.ladder(library=)")
        beside.only(batch=batch)
        if data.device and beside.device and data.device != beside.device:
            devices = f"the library was measured on {beside.device}, the rungs on {data.device}"
            raise LabError(f"{devices}: no chart compares machines")
        rows = pd.concat([rows, beside.rows[beside.rows["layer"].isin(layers)]])
    twice = rows[rows.duplicated(["layer", "label"])]
    if len(twice):
        where = twice["layer"].iloc[0] or "the layer"
        raise LabError(f"draw.ladder got several rows of {twice['label'].iloc[0]} for {where}: it draws one each")
    units = rows["dtype"].map(_UNITS).fillna("FP32") if "dtype" in rows else "FP32"
    rows = rows.assign(unit=units, reference=rows["op_ms"] / rows["x_reference"])
    rows["said"] = [f"{ms(row.op_ms)}  {times(row.x_reference)}{'  FP16' if row.unit == 'FP16' else ''}"
                    for row in rows.itertuples()]
    labels, highlight = list(rows["label"].unique()), rungs[-1] if highlight is None else highlight
    across, head = min(2, len(layers)), 26 + 24 * (len(layers) > 1)
    tall = head + _STEP * len(labels) + _FOOT
    own = rows[rows["label"] == highlight]["x_reference"]
    spread = " to ".join(dict.fromkeys((times(own.min()), times(own.max()))))
    about = data.subtitle(layers[0] if len(layers) == 1 else "", f"batch {batch:,}" if batch else "")
    message = f"{highlight}: {spread} the reference time" if len(own) else "The ladder: op time over reference time"
    page.open(_TOP + math.ceil(len(layers) / across) * tall, message, about, data.note)
    about = f"{about.replace('   ·   ', ', ')}. {data.note}".strip()
    page.alt = f"Bar chart, op time over reference time, log scale. {about}"
    page.plain = "Figure: the ladder, op time over reference time for each rung"

    left = 22 + widest(labels, weight="bold")
    width = (page.width - left - 12 - _GAP * (across - 1)) / across
    room = widest(rows["said"], weight="bold") + 12
    low, reach = min(1.0, rows["x_reference"].min() / 1.1), max(rows["x_reference"].max(), 2.0) * 1.02
    right = low * (reach / low) ** (width / max(width - room, width / 3))
    decade = width / math.log10(right / low)  # pixels
    ticks = log_ticks(low, reach, (1, 2, 5) if decade > 180 else (1, 3) if decade > 90 else (1,))
    clear = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 1.5}
    for i, each in enumerate(layers):
        x, top = left + i % across * (width + _GAP), _TOP + i // across * tall + head
        ax = page.axes(x, top, x + width, top + _STEP * len(labels), "x", xlim=(low, right), yticks=[],
                       ylim=(len(labels) - 0.5, -0.5), xlabel="op time over reference (log scale)")
        ax.set_xticks(ticks, [f"{tick:,.10g}×" for tick in ticks])
        ax.grid(axis="x")
        ax.spines[:].set_visible(False)
        panel = rows[rows["layer"] == each].set_index("label")
        reference = panel.groupby("unit")["reference"].first()[::-1]
        words = f"reference {', FP16 '.join(map(ms, reference))}"
        if len(layers) > 1:
            page.text(x, top - 26, each, weight="bold")
        size = SMALL * min(1, width / wide(words, SMALL, "bold"))
        page.text(x, top - 5, words, size=size, color=style.GREEN, weight="bold")
        ax.axvline(1, color=style.GREEN, lw=2.2, clip_on=False, zorder=4)
        for row, label in enumerate(labels):
            weight, y = "bold" if label == highlight else "normal", top + (row + 0.5) * _STEP + 4
            ink, face = (style.MUTED,) * 2 if label not in rungs else (style.INK, style.PALE)
            if i % across == 0:
                page.text(left - 8, y, label, ha="right", weight=weight, color=ink)
            if label not in panel.index:
                page.small(x + decade * -math.log10(low) + 8, y, "not measured", bbox=clear)
                continue
            over, said = panel.loc[label, ["x_reference", "said"]]
            ax.barh(row, over - 1, left=1, height=0.62, color=style.BLUE if label == highlight else face)
            if label not in rungs:
                ax.plot([over, over], [-0.5, row - 0.31], color=style.MUTED, lw=1.2, ls=style.DASHED, zorder=2.5)
            page.text(x + decade * math.log10(max(1, over) / low) + 8, y, said, weight=weight, color=ink, bbox=clear)
        said = ", ".join(f"{label} {ms(row.op_ms)} ({times(row.x_reference)})" for label, row in panel.iterrows())
        known = ", ".join(f"{unit} units {ms(value)}" for unit, value in reference.items())
        page.alt += f" {each + ': ' if each else ''}{said}; reference time of the {known}."
