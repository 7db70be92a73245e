"""The roofline: a kernel's rate beside the rate that its arithmetic intensity permits."""

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.transforms import Bbox

from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.measured import Measured
from labkit.draw.style import SMALL, Page, log_ticks, on_new_page, percent, set_ticks, wide
from labkit.spec import devices, layers
from labkit.spec.devices import Device
from labkit.spec.layers import Layer


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def roofline(
    page: Page,
    points: pd.DataFrame | Iterable[tuple[str, float, float]],
    device: Device | str | None = None,
    layer: Layer | str | None = None,
    peaks: Mapping[str, float] | None = None,
    bandwidths: Mapping[str, float] | None = None,
) -> None:
    """Draw arithmetic rate against arithmetic intensity, the rungs as points under the device's roof.

    The roof is the highest rate at an intensity: what device memory delivers, or what the arithmetic
    units compute. Reference rates are those that programs reach in practice.

    Parameters
    ----------
    points : DataFrame or iterable of (label, intensity, gflop_s)
        A result of `bench` or `recorded`: ``label``, ``layer``, ``batch``, ``dtype``, ``gflop_s``.
        Its largest batch is drawn; the intensity is the layer's own (`Layer.intensity`: everything
        moved once). Or triples: label, intensity [FLOP/B], rate [GFLOP/s].
    device : Device or str, optional
        Its reference rates are the roof and its theoretical FP32 peak a thin line. By default the
        table's device if `data/devices.toml` lists it, else the one in use.
    layer : Layer or str, optional
        Draw its rows of the table only.
    peaks : mapping, optional
        Name to GFLOP/s in place of the device's, for example ``{"FP32 GEMM": 50.9e3, "FP32 peak":
        66.9e3}``. The first is the roof, the others are thin lines.
    bandwidths : mapping, optional
        Name to GB/s in the same way.
    """
    note, subtitle = "", ""
    if isinstance(points, pd.DataFrame):
        data = Measured(points, ["gflop_s"], "draw.roofline")
        if layer is not None:
            data.keep("layer", getattr(layer, "name", layer))
        batch, rows, note = data.keep_largest_batch(), data.rows, data.note
        # the layer's name, if there is only one
        one = rows["layer"].iloc[0] if rows["layer"].nunique() == 1 else ""
        subtitle, device = data.subtitle(one, f"batch {batch:,}"), device or data.device
        points = _list_points(rows, name_layers=not one)
    points = [(str(label), float(x), float(y)) for label, x, y in points]
    if not points:
        raise LabError("draw.roofline got no point: give at least one (label, intensity, gflop_s)")
    if not all(x > 0 and y > 0 for _, x, y in points):
        raise LabError(f"draw.roofline: intensity and rate have to be positive, got {points}")
    if not (peaks and bandwidths):
        device = _find_device(device)
        rates, subtitle = device.ceilings, subtitle or device.name  # rates in FLOP/s and B/s
        peaks = peaks or {
            "FP32 reference": rates["reference_float32"] / 1e9,
            "FP32 peak": device.peak_flops / 1e9,
        }
        bandwidths = bandwidths or {"memory reference": rates["reference_bandwidth"] / 1e9}
    # the first of each are the roof
    peak, *others = peaks.values()
    bandwidth, *slower = bandwidths.values()
    ridge = peak / bandwidth  # the intensity at which the roof becomes level
    label, x, y = points[-1]  # of the title
    _, xs, ys = zip(*points, strict=True)

    def roof(x):
        """Return the rate [GFLOP/s] that the roof permits at an intensity x [FLOP/B]."""
        return min(peak, x * bandwidth)

    page.open(430, f"{label} reaches {percent(y / roof(x))} of its roof", subtitle, note)
    low, high = min(ridge, *xs) / 5, max(ridge, *xs) * 6  # the ends of the x axis
    high = max(high, ridge * (ridge / low) ** 0.5)  # room for the names on the level part
    bottom = min(low * bandwidth, *ys) / 1.8
    left = 90 if max(peaks.values()) > 5e5 else 78  # room for 1,000,000 on the axis
    ax = page.axes(
        left,
        64,
        page.width - 14,
        380,
        log="xy",
        xlim=(low, high),
        ylim=(bottom, max(*peaks.values(), *ys) * 2),
        ylabel="GFLOP/s (log scale)",
        xlabel="arithmetic intensity (FLOP per byte moved, log scale)",
    )
    for axis, digits in ((ax.xaxis, (1, 2, 5)), (ax.yaxis, (1,))):
        ticks = log_ticks(*axis.get_view_interval(), digits)
        set_ticks(
            axis, ticks if len(ticks) > 1 else log_ticks(*axis.get_view_interval(), (1, 2, 5))
        )
    ax.grid(axis="both")
    ax.spines[:].set_visible(False)
    ax.plot([low, ridge, high], [low * bandwidth, peak, peak], color=style.INK, lw=2.2, zorder=3)
    ax.fill_between(
        [low, ridge, high], [low * bandwidth, peak, peak], bottom, color=style.MIST, zorder=0
    )
    # level lines, from the roof's slope on; then slanted ones, up to its level part
    for rate in others:
        ax.plot(
            [rate / bandwidth, high],
            [rate, rate],
            color=style.MUTED,
            lw=1.2,
            ls=style.DASHED,
            zorder=2,
        )
    for rate in slower:
        ax.plot(
            [low, peak / rate],
            [low * rate, peak],
            color=style.MUTED,
            lw=1.2,
            ls=style.DASHED,
            zorder=2,
        )
    _name_roof(ax, peaks, bandwidths, low, high, ridge)
    for point in points:
        last = point is points[-1]  # the one of the title
        _, x, y = point
        ax.plot([x, x], [y, roof(x)], color=style.FAINT, lw=1, zorder=1)
        ax.plot(
            x,
            y,
            "o",
            ms=8 if last else 6.5,
            color=style.BLUE if last else style.PALE,
            mew=1.2,
            zorder=5,
        )
    _name_points(page, ax, points, [(x, roof(x)) for x in np.geomspace(low, high, 301)])
    texts = ", ".join(
        f"{label}: {x:.3g} FLOP per byte, {y:,.0f} GFLOP/s, {percent(y / roof(x))} of its roof"
        for label, x, y in points
    )
    page.alt = (
        f"Roofline, log scales: {bandwidth:,.0f} GB/s up to {ridge:.3g} FLOP per byte, then {peak:,.0f} "
        f"GFLOP/s. {texts}."
    )
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: the roofline, with a point for each rung"


def _list_points(rows: pd.DataFrame, name_layers: bool) -> list[tuple[str, float, float]]:
    """Return (label, intensity [FLOP/B], rate [GFLOP/s]) of rows of `bench`; `name_layers`: "04 tiling, layer 2"."""
    points = []
    for row in rows.to_dict("records"):
        label = f"{row['label']}, {row['layer'].partition(' ')[2]}" if name_layers else row["label"]
        intensity = layers.layer(row["layer"]).intensity(
            row.get("dtype", "float32"), int(row["batch"])
        )
        points.append((label, intensity, row["gflop_s"]))
    return points


def _find_device(name: Device | str | None) -> Device:
    """Return the listed device of this name, or the one in use if no name or its own is given; EngineError if none."""
    try:
        return devices.device(name or None)
    except EngineError:  # `data/devices.toml` does not list it
        if devices.device().name != name:
            raise
        return devices.device()


def _name_roof(
    ax,
    peaks: Mapping[str, float],
    bandwidths: Mapping[str, float],
    low: float,
    high: float,
    ridge: float,
) -> None:
    """Write the names of the ceilings along their lines, those of the roof, the first of each kind, in ink.

    The level `peaks` [GFLOP/s] are named at their right ends, at the intensity `high`; the slanted
    `bandwidths` [GB/s] between the intensities `low` and `ridge`, where the roof bends.
    """
    rates = [
        *((name, value, "GFLOP/s") for name, value in peaks.items()),
        *((name, value, "GB/s") for name, value in bandwidths.items()),
    ]
    for i, (name, value, unit) in enumerate(rates):
        first = i in (0, len(peaks))
        # place: a point of the line; offset: the name's distance from it, in points
        if unit == "GFLOP/s":
            place, offset, slope, side = (high, value), (-4, -12 if first else 4), 0, "right"
        else:
            (x0, y0), (x1, y1) = ax.transData.transform(
                [(low, low * value), (ridge, ridge * value)]
            )
            place = (math.sqrt(low * ridge), math.sqrt(low * ridge) * value)
            offset = (-4, 7 if first else -14)
            # degrees on the page
            slope, side = (math.degrees(math.atan2(y1 - y0, x1 - x0)), "center")
        ax.annotate(
            f"{name}: {value:,.0f} {unit}",
            place,
            offset,
            textcoords="offset points",
            size=SMALL,
            ha=side,
            rotation=slope,
            rotation_mode="anchor",
            color=style.INK if first else style.MUTED,
        )


def _name_points(
    page: Page, ax, points: Sequence[tuple[str, float, float]], lines: Sequence
) -> None:
    """Name each point (label, x, y) beside it, or lower where its name would cover a name, a point, one of `lines`."""
    spots, lines = page.locate(ax, [(x, y) for _, x, y in points]), page.locate(ax, lines)
    frame = ax.get_window_extent().transformed(page.pixels.inverted())
    occupied = [text.get_window_extent().transformed(page.pixels.inverted()) for text in ax.texts]
    occupied += [Bbox.from_extents(x - 5, y - 5, x + 5, y + 5) for x, y in spots]

    def is_free(box: Bbox) -> bool:
        """Return whether a box, in CSS pixels, lies on the axes and covers nothing."""
        padded = box.padded(2)  # so that no name touches a line or a name of the roof
        crossed = ((lines > padded.min) & (lines < padded.max)).all(axis=1).any()
        return (
            frame.xmin <= box.xmin
            and box.xmax <= frame.xmax
            and box.ymax <= frame.ymax
            and not crossed
            and not any(padded.overlaps(other) for other in occupied)
        )

    # from the top, so that names keep their order
    for i in sorted(range(len(points)), key=lambda i: spots[i][1]):
        (x, y), weight = spots[i], "bold" if i == len(points) - 1 else "normal"
        width, places = wide(points[i][0], SMALL, weight), []
        for drop in range(0, 260, 2):  # pixels below the point
            gap = 9 if drop < 6 else 16
            # the left side is worth a drop of 10 pixels
            for detour, left in ((0, x + gap), (10, x - gap - width)):
                places.append((drop + detour, Bbox.from_bounds(left, y + drop - 6.5, width, 13)))
        places.sort(key=lambda place: place[0])
        box = next((box for _, box in places if is_free(box)), places[0][1])
        occupied.append(box)
        middle = (box.ymin + box.ymax) / 2
        page.small(box.xmin, middle, points[i][0], style.INK, va="center_baseline", weight=weight)
        if middle - y >= 5:  # a line leads from the point to its name
            page.line(
                [x, box.xmin - 3 if box.xmin > x else box.xmax + 3], [y, middle], style.MUTED, 0.9
            )
