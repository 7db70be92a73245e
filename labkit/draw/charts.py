"""Charts of what was measured: where the time goes, the ladder, the roofline, op times over the batch."""

import math

from labkit.draw.style import (
    AMBER,
    BLUE,
    CYCLE,
    DPI,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PALE,
    PAPER,
    SMALL,
    canvas,
    percent,
)
from labkit.errors import LabError


def time(trace, title=None, subtitle="", path=None):
    """Where the time goes: kernels and copies on the device, API calls on the host.

    Parameters
    ----------
    trace : pandas.DataFrame
        A row a kernel, copy or API call, with the columns ``kind`` ("kernel", "copy" or "api"), ``name``,
        ``calls`` and ``total_ms``: `Trace.summary()` will do. Shares, and the rows that make up 90 %, are of the
        device's time and of the API calls' time apart, because the two run side by side.
    title, subtitle : str
        The title is by default the message: what takes most.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.
    """
    _need(trace, ["kind", "name", "calls", "total_ms"], "draw.time")
    device = _busiest(trace[trace["kind"].isin(["kernel", "copy"])])
    api = _busiest(trace[trace["kind"] == "api"])
    groups = [(where, rows) for where, rows in (("On the device", device), ("API calls on the host", api)) if rows]
    if not groups:
        raise LabError('draw.time got no row with kind "kernel", "copy" or "api": trace something first')

    step, head, top = 25, 42, 62
    height = top + sum(head + step * len(rows) + 14 for _, rows in groups) + 24
    with canvas(height, path=path) as page:
        first_where, first = groups[0]
        what = "of the device’s time" if first_where == "On the device" else "of the time in API calls"
        page.heading(title or f"{_elide(first[0]['name'], 34)} takes {percent(first[0]['share'])} {what}", subtitle)
        names = [row["name"] for _, rows in groups for row in rows]
        mono = {"family": "DejaVu Sans Mono", "size": SMALL}
        names_end = 24 + min(250, max(_mono_width(_elide(name, 34)) for name in names))
        bars_end, columns = page.width - 222, (page.width - 158, page.width - 76, page.width - 14)
        words = []
        for where, rows in groups:
            total = sum(row["total_ms"] for row in rows)
            vital = sum(row["vital"] for row in rows)
            count = sum(row["members"] for row in rows)
            page.text(12, top + 24, where, weight="bold")
            page.text(
                12 + page.text_width(where + "  ", weight="bold"),
                top + 24,
                f"{vital} of {count} take 90 % of {_ms(total)}" if count > 1 else f"{_ms(total)} in all",
                color=MUTED,
            )
            for x, name in zip(columns, ("share", "time", "calls"), strict=True):
                page.text(x, top + 24, name, color=MUTED, size=SMALL, ha="right")
            top += head - 6
            ax = page.axes(names_end + 12, top, bars_end, top + step * len(rows))
            ax.set(xlim=(0, 1), ylim=(len(rows) - 0.5, -0.5), yticks=[], xticks=[])
            ax.spines[:].set_visible(False)
            ax.axvline(0, color=FAINT, lw=1)
            for i, row in enumerate(rows):
                color = BLUE if row["vital"] else FAINT
                ax.barh(i, row["share"], height=0.62, color=color)
                y = top + (i + 0.5) * step + 4
                page.text(
                    names_end,
                    y,
                    _elide(row["name"], 34),
                    ha="right",
                    color=INK if row["vital"] else MUTED,
                    **mono,
                )
                cells = (percent(row["share"]), _ms(row["total_ms"]), f"{row['calls']:,}")
                for x, cell in zip(columns, cells, strict=True):
                    page.text(x, y, cell, ha="right", size=SMALL, color=INK if row["vital"] else MUTED)
            if len(rows) > 1:
                ax.axvline(0.9, color=ORANGE, lw=1.2, ls=(0, (4, 3)))
                ax.annotate(
                    "90 %",
                    (0.9, -0.5),
                    (0, 3),
                    textcoords="offset points",
                    ha="center",
                    size=SMALL,
                    color=AMBER,
                )
                ax.plot(
                    [row["cumulative"] for row in rows],
                    range(len(rows)),
                    color=INK,
                    lw=1.2,
                    marker="o",
                    ms=4,
                    mfc=PAPER,
                    mec=INK,
                    clip_on=False,
                )
            top += step * len(rows) + 20
            words.append(
                f"{where}: "
                + ", ".join(f"{row['name']} {percent(row['share'])} ({_ms(row['total_ms'])})" for row in rows)
                + "."
            )
        page.text(
            names_end + 12,
            height - 14,
            "bar: share of the group     line with rings: cumulative share",
            color=MUTED,
            size=SMALL,
        )
        page.alt = "Bar chart, where the time goes. " + " ".join(words)
        page.plain = "Figure: where the time goes, kernels and API calls"


def ladder(
    table,
    layer=None,
    batch=None,
    device=None,
    date=None,
    library=None,
    published=None,
    highlight=None,
    title=None,
    path=None,
    ax=None,
):
    """Time over floor, a row a rung: how far each kernel is from what the machine can do.

    Parameters
    ----------
    table : pandas.DataFrame
        A row a rung, in the ladder's order: ``label`` ("01 baseline"), ``op_ms``, and ``x_floor`` (op time over
        floor) or ``floor_ms``. With a column ``layer``, and no `layer` asked for, each layer gets a panel of its
        own; with a column ``batch``, give `batch` where the table holds several.
    layer : Layer or str, optional
        Draw this layer only.
    batch : int, optional
        Draw this batch only.
    device : Device or str, optional
        What measured it: part of the subtitle.
    date : str, optional
        When it was measured: part of the subtitle.
    library : pandas.DataFrame, optional
        The library's rows, of the same columns: below the rungs, each with a dashed line up through them.
    published : pandas.DataFrame, optional
        Published figures of the same steps: ``label``, ``x_floor`` (over the floor of *their* GPU) and, for
        several panels, ``layer``: a ring in the rung's row.
    highlight : str, optional
        Label of the rung in question; by default the last one.

    Raises
    ------
    LabError
        If columns or rows are missing, if a rung has several rows, or if a time is under its floor.
    """
    label_of, layer = _layer_name, _layer_name(layer)
    rows = _chosen(table, "draw.ladder", layer, batch)
    library, published = _chosen(library, None, layer, batch), _chosen(published, None, layer, None)
    if "batch" in rows and rows["batch"].nunique() > 1:
        raise LabError(f"draw.ladder got the batches {sorted(rows['batch'].unique())}: pick one with batch=")
    batch = batch if batch is not None else (int(rows["batch"].iloc[0]) if "batch" in rows else None)
    layers = list(dict.fromkeys(map(label_of, rows["layer"]))) if "layer" in rows else [layer]
    if ax is not None and len(layers) > 1:
        raise LabError(f"draw.ladder(ax=) has room for one layer, the table holds {layers}: pick one with layer=")
    rungs, others = list(dict.fromkeys(rows["label"])), []
    if library is not None:
        others = [label for label in dict.fromkeys(library["label"]) if label not in rungs]
    highlight = rungs[-1] if highlight is None else highlight
    panels = [_Panel(name, rows, library, published) for name in layers]

    across = min(2, len(panels))
    head, step = (50 if len(panels) > 1 else 26), 27
    foot = 62 if any(panel.published for panel in panels) else 44
    panel_height = head + step * len(rungs + others) + foot
    height = 54 + math.ceil(len(panels) / across) * panel_height
    with canvas(height, path=path, ax=ax) as page:
        page.heading(
            title or _ladder_title(panels, highlight),
            _subtitle(
                layers[0] if len(layers) == 1 else "",
                f"batch {batch:,}" if batch else "",
                getattr(device, "name", device),
                date,
            ),
        )
        left = 22 + max(page.text_width(label, weight="bold") for label in rungs + others)
        gap = 22
        width = (page.width - left - 12 - gap * (across - 1)) / across
        for i, panel in enumerate(panels):
            x, y = left + (i % across) * (width + gap), 54 + (i // across) * panel_height
            if len(panels) > 1:
                page.text(x, y + 24, panel.layer, weight="bold")
            frame = page.axes(x, y + head, x + width, y + panel_height - foot)
            panel.draw(page, frame, rungs, others, highlight, width, named=i % across == 0)
        page.alt = "Bar chart, op time over the floor, log scale. " + " ".join(panel.words() for panel in panels)
        page.plain = "Figure: the ladder, op time over the floor for each rung"


class _Panel:
    """One layer's part of the ladder: milliseconds and times over the floor for each label."""

    def __init__(self, layer, rows, library, published):
        self.layer, self.ms, self.times, floors = layer, {}, {}, {}
        for row in [*_records(rows, layer), *_records(library, layer)]:
            label, ms = row["label"], float(row["op_ms"])
            if label in self.ms:
                raise LabError(f"draw.ladder got several rows for {label} of {layer}: one a label and layer, please")
            times = float(row["x_floor"]) if "x_floor" in row else ms / float(row["floor_ms"])
            if times < 1:
                raise LabError(
                    f"{label} of {layer} took {_ms(ms)}, {_times(times)} its floor: no kernel is faster "
                    "than its floor, so look for the mistake in the measurement (or in the floor)"
                )
            self.ms[label], self.times[label], floors[label] = ms, times, ms / times
        self.floors = (min(floors.values()), max(floors.values()))
        self.published = [(row["label"], float(row["x_floor"])) for row in _records(published, layer)]

    def floor(self):
        low, high = self.floors
        return f"floor {_ms(high)}" if high / low < 1.01 else f"floor {_ms(low)} to {_ms(high)}, by precision"

    def words(self):
        """The panel as a sentence."""
        rows = ", ".join(f"{label} {_ms(self.ms[label])} ({_times(self.times[label])})" for label in self.ms)
        rings = "".join(f", published {label} {_times(times)}" for label, times in self.published)
        return f"{self.layer + ': ' if self.layer else ''}{rows}{rings}; {self.floor()}."

    def value(self, label):
        return f"{_ms(self.ms[label])}  {_times(self.times[label])}"

    def draw(self, page, ax, rungs, others, highlight, width, named):
        labels = rungs + others
        room = max(page.text_width(self.value(label), weight="bold") for label in self.ms) + 12
        reach = max([*self.times.values(), *(times for _, times in self.published), 2.0])
        right = (reach * 1.02) ** (width / max(width - room, width / 3))
        ax.set_xscale("log")
        ax.set(xlim=(1, right), ylim=(len(labels) - 0.5, -0.5), xlabel="op time over floor (log scale)")
        every = ((1, 2, 5), (1, 3), (1,), (1,))[min(3, int(math.log10(right)))]
        ticks = [d * 10**e for e in range(math.ceil(math.log10(right))) for d in every if d * 10**e <= right]
        ax.set_xticks(ticks, [f"{tick:,}×" for tick in ticks])
        ax.set_xticks([], minor=True)
        ax.set_yticks(range(len(labels)), labels if named else [""] * len(labels))
        for text, label in zip(ax.get_yticklabels(), labels, strict=True):
            text.set(weight="bold" if label == highlight else "normal", color=MUTED if label in others else INK)
        ax.tick_params(pad=6)
        ax.spines[:].set_visible(False)
        ax.grid(axis="x")
        clear = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
        rings = {}
        for label, times in self.published:
            if label in labels:
                rings.setdefault(label, []).append(times)
        for y, label in enumerate(labels):
            if label not in self.times:
                ax.annotate(
                    "not measured",
                    (1, y),
                    (6, 0),
                    textcoords="offset points",
                    va="center",
                    color=MUTED,
                    size=SMALL,
                    bbox=clear,
                )
                continue
            times = self.times[label]
            color = MUTED if label in others else BLUE if label == highlight else PALE
            ax.barh(y, times - 1, left=1, height=0.62, color=color)
            if label in others:
                ax.plot([times, times], [-0.5, y - 0.31], color=MUTED, lw=1.2, ls=(0, (4, 3)), zorder=2.5)
            # The value follows its bar, unless a published ring is in the way.
            span = right ** (room / width)
            end = max([times, *(ring for ring in rings.get(label, ()) if times / 1.1 < ring < times * span)])
            ax.annotate(
                self.value(label),
                (end, y),
                (6 if end == times else 9, -0.5),
                textcoords="offset points",
                va="center",
                weight="bold" if label == highlight else "normal",
                zorder=5,
                bbox=clear,
                color=MUTED if label in others else INK,
            )
            for ring in rings.get(label, ()):
                ax.plot(ring, y, "o", ms=6.5, mfc=PAPER, mec=ORANGE, mew=1.8, zorder=6, clip_on=False)
        ax.axvline(1, color=GREEN, lw=2.2, clip_on=False, zorder=4)
        ax.annotate(
            self.floor(),
            (0, 1),
            (-1, 5),
            "axes fraction",
            "offset points",
            size=SMALL,
            color=GREEN,
            weight="bold",
        )
        if rings:
            ax.annotate(
                "○ as published, over the floor of its own GPU",
                (0.5, 0),
                (0, -42),
                "axes fraction",
                "offset points",
                size=SMALL,
                color=AMBER,
                ha="center",
            )


def _ladder_title(panels, label):
    times = [panel.times[label] for panel in panels if label in panel.times]
    if not times:
        return "The ladder: op time over floor"
    spread = f"{_times(min(times))} to {_times(max(times))}" if len(times) > 1 else _times(times[0])
    return f"{label}: {spread} the time that the machine needs"


def _layer_name(layer):
    return getattr(layer, "name", layer)


def _chosen(table, who, layer, batch):
    """The rows of `table` for a layer and a batch; with `who`, there have to be some."""
    if table is None:
        return None
    _need(table, ["label", "op_ms"] if who else ["label"], who or "draw.ladder")
    if "floor_ms" not in table and "x_floor" not in table:
        raise LabError("draw.ladder needs a column floor_ms or x_floor")
    rows = table
    if layer is not None and "layer" in rows:
        rows = rows[rows["layer"].map(_layer_name) == layer]
    if batch is not None and "batch" in rows:
        rows = rows[rows["batch"] == batch]
    if who and not len(rows):
        raise LabError(f"{who} found no row for layer={layer!r}, batch={batch!r}: see the table's layer and batch")
    return rows


def _records(rows, layer):
    """The rows of one layer as dicts."""
    records = [] if rows is None else rows.to_dict("records")
    return [row for row in records if "layer" not in row or layer is None or _layer_name(row["layer"]) == layer]


def roofline(points, device=None, peaks=None, bandwidths=None, title=None, subtitle="", path=None, ax=None):
    """Attainable arithmetic against arithmetic intensity, with the rungs as points under the roof.

    Parameters
    ----------
    points : iterable of (label, intensity, gflop_s)
        Intensity in FLOP per byte of memory traffic, rate in GFLOP/s; a DataFrame with the columns ``label``,
        ``flop_per_byte`` and ``gflop_s`` will do.
    device : Device, optional
        Names the subtitle. Where `peaks` and `bandwidths` are not given, its measured ceilings are the roof and
        its theoretical FP32 peak a thin line.
    peaks : mapping, optional
        Name to GFLOP/s, for example ``{"FP32, measured": 50.9e3, "FP32 peak": 66.9e3}``. The first is the roof,
        the others are thin lines.
    bandwidths : mapping, optional
        Name to GB/s, in the same way.
    """
    if hasattr(points, "columns"):
        _need(points, ["label", "flop_per_byte", "gflop_s"], "draw.roofline")
        points = points[["label", "flop_per_byte", "gflop_s"]].itertuples(index=False, name=None)
    points = [(str(label), float(x), float(y)) for label, x, y in points]
    if not points:
        raise LabError("draw.roofline got no point: give at least one (label, flop_per_byte, gflop_s)")
    if device is not None:
        ceilings = device.ceilings
        peaks = peaks or {
            "FP32, measured": ceilings["floor_float32"] / 1e9,
            "FP32 peak": device.peak_flops / 1e9,
        }
        bandwidths = bandwidths or {"memory, measured": ceilings["floor_bandwidth"] / 1e9}
    if not peaks or not bandwidths:
        raise LabError("draw.roofline needs a roof: give device=, or peaks= [GFLOP/s] and bandwidths= [GB/s]")
    peak, bandwidth = next(iter(peaks.values())), next(iter(bandwidths.values()))
    ridge = peak / bandwidth

    with canvas(440, path=path, ax=ax) as page:
        label, x, y = points[-1]
        page.heading(
            title or f"{label} reaches {percent(y / min(peak, x * bandwidth))} of its roof",
            subtitle or (getattr(device, "name", "") if device is not None else ""),
        )
        ax = page.axes(74, 64, page.width - 16, 392)
        low = min([ridge, *(x for _, x, _ in points)]) / 5
        high = max([ridge, *(x for _, x, _ in points)]) * 6
        bottom = min([y for _, _, y in points] + [low * bandwidth]) / 2
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set(xlim=(low, high), ylim=(bottom, max(peaks.values()) * 2.6))
        ax.grid(True)
        ax.spines[:].set_visible(False)
        ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        ax.tick_params(axis="y", labelcolor=MUTED, labelsize=SMALL)
        ax.set_xticks([d * 10.0**e for e in range(-3, 5) for d in (1, 2, 5) if low <= d * 10.0**e <= high])
        ax.minorticks_off()
        ax.set_xlabel("arithmetic intensity: FLOP per byte moved (log scale)")
        ax.set_ylabel("GFLOP/s (log scale)")
        ax.plot([low, ridge, high], [low * bandwidth, peak, peak], color=INK, lw=2.2, zorder=3)
        for i, value in enumerate(peaks.values()):
            if i:
                ax.plot([value / bandwidth, high], [value, value], color=MUTED, lw=1.2, ls=(0, (4, 3)))
        for i, value in enumerate(bandwidths.values()):
            if i:
                ax.plot([low, peak / value], [low * value, peak], color=MUTED, lw=1.2, ls=(0, (4, 3)))
        ax.fill_between([low, ridge, high], [low * bandwidth, peak, peak], bottom, color="#f4f7fa", zorder=0)
        # The slope on screen, for text along the memory roof.
        (x0, y0), (x1, y1) = ax.transData.transform([(low, low * bandwidth), (ridge, peak)])
        slope = math.degrees(math.atan2(y1 - y0, x1 - x0))
        memory = f"{next(iter(bandwidths))}: {bandwidth:,.0f} GB/s"
        ax.annotate(
            memory,
            ax.transData.inverted().transform(((x0 * 0.52 + x1 * 0.48), (y0 * 0.52 + y1 * 0.48))),
            (-4, 7),
            textcoords="offset points",
            rotation=slope,
            rotation_mode="anchor",
            ha="center",
            size=SMALL,
            color=INK,
        )
        for name, value in peaks.items():
            ax.annotate(
                f"{name}: {value:,.0f} GFLOP/s",
                (high, value),
                (-4, 4),
                textcoords="offset points",
                ha="right",
                size=SMALL,
                color=INK if value == peak else MUTED,
            )
        obstacles = [text.get_window_extent() for text in ax.texts]
        for i, (_, x, y) in enumerate(points):
            last = i == len(points) - 1
            roof = min(peak, x * bandwidth)
            ax.plot([x, x], [y, roof], color=FAINT, lw=1, zorder=1)
            ax.plot(x, y, "o", ms=8 if last else 6.5, color=BLUE if last else PALE, mec=PAPER, mew=1.2, zorder=5)
        _label_points(ax, points, obstacles, roof=lambda x: min(peak, x * bandwidth))
        page.alt = (
            f"Roofline, log scales. Roof: {bandwidth:,.0f} GB/s up to {ridge:.3g} FLOP per byte, then "
            f"{peak:,.0f} GFLOP/s. "
            + ", ".join(
                f"{label}: {x:.3g} FLOP per byte, {y:,.0f} GFLOP/s, {percent(y / min(peak, x * bandwidth))} of its roof"
                for label, x, y in points
            )
            + "."
        )
        page.plain = "Figure: the roofline, with a point for each rung"


def _label_points(ax, points, obstacles, roof):
    """Name each point beside it, right or left, moved down as far as needed where names would meet."""
    from matplotlib.transforms import Bbox

    scale = ax.figure.dpi / DPI
    spots = [ax.transData.transform((x, y)) for _, x, y in points]
    taken = list(obstacles) + [
        Bbox.from_extents(x - 5 * scale, y - 5 * scale, x + 5 * scale, y + 5 * scale) for x, y in spots
    ]
    frame = ax.get_window_extent()
    low, high = ax.get_xlim()
    edge = [ax.transData.transform((x, roof(x))) for x in (low * (high / low) ** (i / 300) for i in range(301))]

    def free(box):
        return (
            frame.x0 <= box.x0
            and box.x1 <= frame.x1
            and frame.y0 <= box.y0
            and not any(box.overlaps(other) for other in taken)
            and not any(box.contains(*point) for point in edge)
        )

    for i in sorted(range(len(points)), key=lambda i: -spots[i][1]):  # from the top, so that names keep their order
        (label, x, y), (px, py) = points[i], spots[i]
        weight = "bold" if i == len(points) - 1 else "normal"
        text = ax.annotate(label, (x, y), (0, 0), textcoords="offset points", size=SMALL, weight=weight, zorder=6)
        extent = text.get_window_extent()
        w, h = extent.width, 13 * scale
        boxes = []
        for drop in range(0, 260, 2):
            for side in (1, -1):
                gap = (9 if drop < 6 else 16) * scale
                left = px + gap if side == 1 else px - gap - w
                boxes.append(
                    (
                        drop + (10 if side == -1 else 0),
                        side,
                        Bbox.from_bounds(left, py - h / 2 - drop * scale, w, h),
                    )
                )
        boxes.sort(key=lambda item: item[0])
        _cost, side, box = next((item for item in boxes if free(item[2])), boxes[0])
        taken.append(box)
        points_per_pixel = 72 / ax.figure.dpi
        text.set_va("center")
        text.set_position(((box.x0 - px) * points_per_pixel, ((box.y0 + box.y1) / 2 - py) * points_per_pixel))
        if py - (box.y0 + box.y1) / 2 >= 5 * scale:
            near = (box.x0 - 3 * scale if side == 1 else box.x1 + 3 * scale, (box.y0 + box.y1) / 2)
            near = ax.transData.inverted().transform(near)
            ax.plot([x, near[0]], [y, near[1]], color=MUTED, lw=0.9, zorder=4)


def op_times(table, device=None, date=None, title=None, path=None):
    """Op time an image over the batch, a line a variant, a panel a layer: how many images fill the device.

    Parameters
    ----------
    table : pandas.DataFrame
        Columns ``label``, ``batch``, ``op_ms`` and, for several panels, ``layer``.
    """
    _need(table, ["label", "batch", "op_ms"], "draw.op_times")
    if not len(table):
        raise LabError("draw.op_times got an empty table: measure or load something first")
    layers = list(dict.fromkeys(_layer_name(value) for value in table["layer"])) if "layer" in table else [""]
    labels = list(dict.fromkeys(table["label"]))
    colors = {label: CYCLE[i % len(CYCLE)] for i, label in enumerate(labels)}
    batches = sorted(table["batch"].unique())
    across = min(2, len(layers))
    down = math.ceil(len(layers) / across)
    panel_height = 270
    with canvas(58 + down * panel_height, path=path) as page:
        page.heading(title or "Op time an image falls until the batch fills the device", _subtitle(device, date))
        gap = 70
        name_width = max(page.text_width(label, SMALL) for label in labels) + 16
        width = (page.width - 12 - across * name_width - (across - 1) * gap - 56) / across
        for i, layer in enumerate(layers):
            rows = table if not layer else table[table["layer"].map(_layer_name) == layer]
            x = 62 + (i % across) * (width + name_width + gap)
            y = 58 + (i // across) * panel_height
            ax = page.axes(x, y + 30, x + width, y + panel_height - 50)
            if layer:
                page.text(x - 50, y + 14, layer, weight="bold")
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.grid(axis="y")
            ax.spines["left"].set_visible(False)
            ends = []
            for label in labels:
                mine = rows[rows["label"] == label].sort_values("batch")
                if not len(mine):
                    continue
                values = [ms * 1000 / size for ms, size in zip(mine["op_ms"], mine["batch"], strict=True)]
                ax.plot(
                    mine["batch"],
                    values,
                    color=colors[label],
                    marker="o",
                    ms=5,
                    mec=PAPER,
                    mew=1,
                    clip_on=False,
                )
                ends.append((label, mine["batch"].iloc[-1], values[-1]))
            low, high = ax.get_ylim()
            ax.set(ylim=(low / 1.15, high * 1.15), xlim=(min(batches) / 1.3, max(batches) * 1.3))
            ax.set_xticks(batches, [f"{size:,}" for size in batches])
            ax.minorticks_off()
            ticks = _ticks(*ax.get_ylim())
            ax.set_yticks(ticks, [f"{tick:g}" for tick in ticks], color=MUTED, size=SMALL)
            ax.set_xlabel("batch (images, log scale)")
            if i % across == 0:
                ax.set_ylabel("op time an image (µs, log scale)")
            _end_labels(page, ax, ends, colors)
        page.alt = "Line chart, op time an image over the batch. " + " ".join(
            f"{_layer_name(getattr(row, 'layer', ''))} {row.label} at {row.batch}: {_ms(row.op_ms)}.".strip()
            for row in table.itertuples()
        )
        page.plain = "Figure: op time an image over the batch, a line for each variant"


def _end_labels(page, ax, ends, colors):
    """Name each line at its right end, pushed apart where lines end close together."""
    scale = ax.figure.dpi / DPI
    spots = sorted((ax.transData.transform((x, y)).tolist() + [label] for label, x, y in ends), key=lambda s: s[1])
    step, heights = 14 * scale, []
    for spot in spots:
        heights.append(max(spot[1], heights[-1] + step) if heights else spot[1])
    excess = max(0, (heights[-1] if heights else 0) - ax.get_window_extent().y1 - 4 * scale)
    for (x, y, label), height in zip(spots, heights, strict=True):
        ax.annotate(
            label,
            ax.transData.inverted().transform((x, y)),
            (8, (height - excess - y) * 0.72 / scale),
            textcoords="offset points",
            va="center",
            size=SMALL,
            color=AMBER if colors[label] == ORANGE else colors[label],
            weight="bold",
            annotation_clip=False,
        )


def _ticks(low, high):
    """Round numbers on a log axis: at least two, at most about six."""
    decades = range(math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1)
    for digits in (
        (1,),
        (1, 3),
        (1, 2, 5),
        (1, 1.5, 2, 3, 5, 7),
        (1, 1.2, 1.4, 1.7, 2, 2.5, 3, 3.5, 4, 5, 6, 7, 8, 9),
    ):
        ticks = [d * 10.0**e for e in decades for d in digits if low <= d * 10.0**e <= high]
        if len(ticks) >= 3:
            return ticks
    return ticks


def _busiest(rows):
    """Rows of one group, longest first, with their shares; short ones beyond the seventh are merged."""
    rows = sorted(
        (
            {"name": str(row.name_), "calls": int(row.calls), "total_ms": float(row.total_ms), "members": 1}
            for row in rows.rename(columns={"name": "name_"}).itertuples()
        ),
        key=lambda row: -row["total_ms"],
    )
    total = sum(row["total_ms"] for row in rows)
    if not total > 0:
        return []
    seen = 0.0
    for row in rows:
        row["vital"] = seen < 0.9 * total * (1 - 1e-9)
        seen += row["total_ms"]
    kept = max(7, sum(row["vital"] for row in rows))
    if len(rows) > kept + 1:
        rest = rows[kept:]
        rows = rows[:kept] + [
            {
                "name": f"{len(rest)} others",
                "calls": sum(row["calls"] for row in rest),
                "vital": False,
                "total_ms": sum(row["total_ms"] for row in rest),
                "members": len(rest),
            }
        ]
    seen = 0.0
    for row in rows:
        seen += row["total_ms"]
        row["share"], row["cumulative"] = row["total_ms"] / total, seen / total
    return rows


def _need(table, columns, who):
    missing = [column for column in columns if column not in table]
    if missing:
        raise LabError(f"{who} needs the columns {', '.join(columns)}; the table lacks {', '.join(missing)}")


def _subtitle(*parts):
    return "   ·   ".join(str(part) for part in parts if part)


def _elide(name, length):
    if len(name) <= length:
        return name
    return name[: length - 9] + "…" + name[-8:]


def _mono_width(name):
    return len(name) * 6.95  # DejaVu Sans Mono at SMALL points advances 0.602 em a letter


def _ms(ms):
    """Milliseconds to three digits, in the unit that suits."""
    if ms >= 9995:
        return f"{ms / 1000:.3g} s" if ms < 999500 else f"{ms / 1000:,.0f} s"
    if ms >= 0.0995:
        return f"{ms:,.0f} ms" if ms >= 99.95 else f"{_three(ms)} ms"
    return f"{_three(ms * 1000)} µs"


def _three(value):
    return f"{value:.3g}" if value >= 100 or value == 0 else f"{value:.{max(0, 2 - math.floor(math.log10(value)))}f}"


def _times(value):
    return f"{value:,.0f}×" if value >= 99.5 else f"{value:.1f}×" if value >= 9.95 else f"{value:.2f}×"
