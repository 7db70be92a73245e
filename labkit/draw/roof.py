"""The roofline: what a kernel reaches of what its arithmetic intensity permits."""

import math

from labkit.base.errors import LabError
from labkit.draw.style import BLUE, DPI, FAINT, INK, MUTED, PALE, PAPER, SMALL, canvas, log_ticks, percent
from labkit.draw.words import Measured
from labkit.spec.metrics import NAMES


def roofline(points, device=None, layer=None, batch=None, peaks=None, bandwidths=None, title=None, subtitle=None,
             path=None, times=None):  # fmt: skip
    """Arithmetic rate against arithmetic intensity, the rungs as points under the device's roof.

    Parameters
    ----------
    points : DataFrame, Recorded, Profile or iterable of (label, intensity, gflop_s)
        What `bench` or `recorded` returned: ``label``, ``layer``, ``batch``, ``dtype``, ``gflop_s``; the intensity
        is then the layer's own (`Layer.intensity`: everything moved once), or ``flop_per_byte`` where the table has
        that. Else triples: intensity [FLOP/B], rate [GFLOP/s]. Of a `Profile` of `labkit.profile` the bytes are what
        was counted: the DRAM's on a GPU; on the CPU engine each byte that a launch touches, once. An open mark stands
        where the bytes asked of the L1 cache would put the point: left of the roof, caches serve what memory could not.
    device : Device or str, optional
        Its measured ceilings are the roof and its theoretical FP32 peak a thin line. By default the table's device,
        where `data/devices.toml` lists it, else the one in use.
    layer : Layer or str, optional
    batch : int, optional
        Draw these rows of the table only; by default all layers, and the largest batch.
    peaks : mapping, optional
        Name to GFLOP/s in place of the device's, for example ``{"FP32 GEMM": 50.9e3, "FP32 peak": 66.9e3}``. The
        first is the roof, the others are thin lines.
    bandwidths : mapping, optional
        Name to GB/s in the same way.
    title, subtitle : str, optional
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.
    times : DataFrame or Recorded, optional
        What `bench` or `recorded` returned: how fast the variants of a `Profile` are.

    Raises
    ------
    LabError
        If there is no point, a column is missing, a table's layer is no preset's, or a profile's variant has no time.
    """
    device = device if device is None or hasattr(device, "ceilings") else _device(device)
    note, asked = "", []
    if hasattr(points, "columns") or hasattr(points, "table"):
        counted = hasattr(points, "sites")
        if counted:
            data, note = _of_profile(points, times)
        else:
            data = Measured(points, ["label", "gflop_s"], "draw.roofline")
        data.only("draw.roofline", layer=layer)
        if batch is None and "batch" in data.rows:
            batch = int(data.rows["batch"].max())
        data.only("draw.roofline", batch=batch)
        one = data.rows["layer"].iloc[0] if "layer" in data.rows and data.rows["layer"].nunique() == 1 else ""
        note = f"{note} {data.note}".strip()
        subtitle = data.subtitle(one, f"batch {batch:,}" if batch else "") if subtitle is None else subtitle
        device = device or (None if peaks and bandwidths else _device(data.device))
        points = _of_table(data.rows, one)
        asked = data.rows["flop_per_asked_byte"].tolist() if counted else []
    points = [(str(label), float(x), float(y)) for label, x, y in points]
    if not points:
        raise LabError("draw.roofline got no point: give at least one (label, intensity, gflop_s)")
    if not all(x > 0 and y > 0 for _, x, y in points):
        raise LabError(f"draw.roofline: intensity and rate have to be positive, got {points}")
    if not (peaks and bandwidths):
        device = device or _device("")
        ceilings = device.ceilings
        peaks = peaks or {"FP32 in practice": ceilings["reference_float32"] / 1e9, "FP32 peak": device.peak_flops / 1e9}
        bandwidths = bandwidths or {"memory in practice": ceilings["reference_bandwidth"] / 1e9}
    peak, bandwidth = next(iter(peaks.values())), next(iter(bandwidths.values()))
    ridge = peak / bandwidth

    def roof(x):
        return min(peak, x * bandwidth)

    with canvas(430, path=path) as page:
        label, x, y = points[-1]
        subtitle = getattr(device, "name", "") if subtitle is None else subtitle
        page.heading(title or f"{label} reaches {percent(y / roof(x))} of its roof", subtitle, note)
        left = 90 if max(peaks.values()) > 5e5 else 78  # room for 1,000,000 on the axis
        ax = page.axes(left, 64, page.width - 14, 380)
        low, high = min(ridge, *asked, *(x for _, x, _ in points)) / 5, max(ridge, *(x for _, x, _ in points)) * 6
        high = max(high, ridge * (ridge / low) ** 0.5)  # room for the names on the level part
        bottom = min(low * bandwidth, *(y for _, _, y in points)) / 1.8
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set(xlim=(low, high), ylim=(bottom, max(*peaks.values(), *(y for _, _, y in points)) * 2))
        axis = "FLOP per byte moved; open marks: per byte asked of the L1 cache" if asked else "FLOP per byte moved"
        ax.set(xlabel=f"arithmetic intensity ({axis}, log scale)", ylabel="GFLOP/s (log scale)")
        _ticks(ax)
        ax.plot([low, ridge, high], [low * bandwidth, peak, peak], color=INK, lw=2.2, zorder=3)
        ax.fill_between([low, ridge, high], [low * bandwidth, peak, peak], bottom, color="#f4f7fa", zorder=0)
        thin = {"color": MUTED, "lw": 1.2, "ls": (0, (4, 3)), "zorder": 2}
        for value in list(peaks.values())[1:]:
            ax.plot([value / bandwidth, high], [value, value], **thin)
        for value in list(bandwidths.values())[1:]:
            ax.plot([low, peak / value], [low * value, peak], **thin)
        _name_roof(ax, peaks, bandwidths, low, high, ridge)
        named = [text.get_window_extent() for text in ax.texts]
        for x, (_, moved, y) in zip(asked, points, strict=False):
            ax.plot([x, moved], [y, y], color=FAINT, lw=1, zorder=1)
            ax.plot(x, y, "o", ms=5, color=PAPER, mec=BLUE, mew=1.1, zorder=4)
        for i, (_, x, y) in enumerate(points):
            last = i == len(points) - 1
            ax.plot([x, x], [y, roof(x)], color=FAINT, lw=1, zorder=1)
            ax.plot(x, y, "o", ms=8 if last else 6.5, color=BLUE if last else PALE, mec=PAPER, mew=1.2, zorder=5)
        _name_points(ax, points, named, roof, asked)
        page.alt = f"Roofline, log scales: {bandwidth:,.0f} GB/s up to {ridge:.3g} FLOP per byte, "
        page.alt += f"then {peak:,.0f} GFLOP/s. "
        page.alt += ", ".join(f"{label}: {x:.3g} FLOP per byte, {y:,.0f} GFLOP/s, {percent(y / roof(x))} of its roof"
                              for label, x, y in points) + "."  # fmt: skip
        if asked:
            page.alt += " Open marks, bytes asked of the L1 cache: "
            page.alt += ", ".join(f"{x:.3g} FLOP per byte" for x in asked) + "."
        page.plain = "Figure: the roofline, with a point for each rung"


def _device(name):
    """The device of this name: listed, or else the one in use, if that is its name or none was said."""
    from labkit.spec.devices import device

    try:
        return device(name or None)
    except LabError:
        if device().name != name:
            raise
        return device()


def _of_profile(profile, times):
    """The times of a profile's variants, in its order, with operations per byte moved and per byte asked of L1."""
    if times is None or profile.layer is None:
        raise LabError("draw.roofline: a profile counts bytes, and labkit.profile's knows its layer; how long its "
                       "variants take comes from a table, as times=recorded(\"H200\") or times=bench(...)")  # fmt: skip
    counts = profile.counts.set_index("variant")
    each = profile.table.groupby("variant", sort=False).sum(numeric_only=True)
    if "dram_bytes" in counts:
        moved, said = counts["dram_bytes"], "Bytes: of the DRAM, counted by ncu."
    elif NAMES["unique_bytes"] in each:
        moved, said = each[NAMES["unique_bytes"]], "Bytes: what each launch touches, once; counted on the CPU engine."
    else:
        raise LabError(f"draw.roofline: this profile has no bytes. {profile.note}")
    data = Measured(times, ["label", "layer", "gflop_s"], "draw.roofline").only("draw.roofline", layer=profile.layer)
    missing = [label for label in counts.index if label not in set(data.rows["label"])]
    if missing:
        raise LabError(f"draw.roofline: the times of {', '.join(missing)} are not in the table, which has those of "
                       f"{', '.join(data.rows['label'].unique())}")  # fmt: skip
    rows = data.rows[data.rows["label"].isin(counts.index)]
    order = rows["label"].map(list(counts.index).index)
    rows = rows.iloc[order.argsort(kind="stable")]
    flops = profile.layer.flops(profile.batch)
    data.rows = rows.assign(flop_per_byte=flops / rows["label"].map(moved),
                            flop_per_asked_byte=flops / rows["label"].map(32 * counts["global_sectors"]))  # fmt: skip
    return data, said


def _of_table(rows, one):
    """(label, intensity, GFLOP/s) of each row; the layer is named where there are several."""
    from labkit.spec.layers import layer

    for row in rows.to_dict("records"):
        label = row["label"] if one or "layer" not in row else f"{row['label']}, {row['layer'].partition(' ')[2]}"
        if "flop_per_byte" in row:
            intensity = row["flop_per_byte"]
        else:
            intensity = layer(row.get("layer", "")).intensity(row.get("dtype", "float32"), int(row.get("batch", 1000)))
        yield label, intensity, row["gflop_s"]


def _ticks(ax):
    """Round numbers on both axes, no minor ticks."""
    for axis, digits in ((ax.xaxis, (1, 2, 5)), (ax.yaxis, (1,))):
        low, high = axis.get_view_interval()
        ticks = log_ticks(low, high, digits)
        if len(ticks) < 2:
            ticks = log_ticks(low, high, (1, 2, 5))
        axis.set_ticks(ticks, [f"{tick:,.10g}" for tick in ticks])
    ax.minorticks_off()
    ax.grid(True)
    ax.spines[:].set_visible(False)
    ax.tick_params(axis="y", labelcolor=MUTED, labelsize=SMALL)


def _name_roof(ax, peaks, bandwidths, low, high, ridge):
    """The ceilings' names along their lines."""
    offset = {"textcoords": "offset points", "size": SMALL}
    for i, (name, value) in enumerate(peaks.items()):  # the roof's below its line, the others' above theirs
        color, rise = (MUTED, 4) if i else (INK, -12)
        ax.annotate(f"{name}: {value:,.0f} GFLOP/s", (high, value), (-4, rise), ha="right", color=color, **offset)
    for i, (name, value) in enumerate(bandwidths.items()):
        ends = ax.transData.transform([(low, low * value), (ridge, ridge * value)])
        slope = math.degrees(math.atan2(ends[1][1] - ends[0][1], ends[1][0] - ends[0][0]))
        middle = ax.transData.inverted().transform(ends.mean(axis=0))
        ax.annotate(f"{name}: {value:,.0f} GB/s", middle, (-4, 7 if i == 0 else -14), rotation=slope,
                    rotation_mode="anchor", ha="center", color=MUTED if i else INK, **offset)  # fmt: skip


def _name_points(ax, points, taken, roof, asked=()):
    """Name each point beside it, right or left, moved down as far as needed where names would meet, or the lines to the
    open marks at `asked`."""
    from matplotlib.transforms import Bbox

    scale = ax.figure.dpi / DPI
    spots = [ax.transData.transform((x, y)) for _, x, y in points]
    taken = taken + [Bbox.from_extents(x - 5 * scale, y - 5 * scale, x + 5 * scale, y + 5 * scale) for x, y in spots]
    frame = ax.get_window_extent()
    low, high = ax.get_xlim()
    edge = [ax.transData.transform((x, roof(x))) for x in (low * (high / low) ** (i / 300) for i in range(301))]
    for x, (_, moved, y) in zip(asked, points, strict=False):
        edge += [ax.transData.transform((x * (moved / x) ** (i / 100), y)) for i in range(100)]

    def free(box):
        inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0
        wide = box.padded(2 * scale)  # so that no name touches a line or a name of the roof
        crossed = any(wide.overlaps(other) for other in taken) or any(wide.contains(*at) for at in edge)
        return inside and not crossed

    for i in sorted(range(len(points)), key=lambda i: -spots[i][1]):  # from the top, so that names keep their order
        (label, x, y), (px, py) = points[i], spots[i]
        text = ax.annotate(label, (x, y), (0, 0), textcoords="offset points", va="center", size=SMALL, zorder=6,
                           weight="bold" if i == len(points) - 1 else "normal")  # fmt: skip
        w, h = text.get_window_extent().width, 13 * scale
        places = []
        for drop in range(0, 260, 2):
            gap = (9 if drop < 6 else 16) * scale
            for detour, left in ((0, px + gap), (10, px - gap - w)):
                places.append((drop + detour, Bbox.from_bounds(left, py - h / 2 - drop * scale, w, h)))
        places.sort(key=lambda place: place[0])
        box = next((box for _, box in places if free(box)), places[0][1])
        taken.append(box)
        middle = (box.y0 + box.y1) / 2
        text.set_position(((box.x0 - px) * 72 / ax.figure.dpi, (middle - py) * 72 / ax.figure.dpi))
        if py - middle >= 5 * scale:
            side = box.x0 - 3 * scale if box.x0 > px else box.x1 + 3 * scale
            near = ax.transData.inverted().transform((side, middle))
            ax.plot([x, near[0]], [y, near[1]], color=MUTED, lw=0.9, zorder=4)
