"""Charts of chunks and streams: when each step ran, and the layer time by the size of a chunk."""

from collections.abc import Mapping

import pandas as pd
from matplotlib.ticker import MaxNLocator

from labkit.base.errors import LabError
from labkit.base.numerals import ms
from labkit.draw import style
from labkit.draw.measured import require_columns
from labkit.draw.style import SMALL, Page, count, ink_on, on_new_page, percent, set_ticks
from labkit.measure.pipeline import STEPS, busy_ms, overlap, span_ms

_COLORS = dict(zip(STEPS, (style.SKY, style.ORANGE, style.BLUE), strict=True))
_PLURALS = {"copy in": "copies in", "kernel": "kernels", "copy out": "copies out"}
_BAR, _LANE = 11, 38  # pixels: a step's bar; a stream's lane holds three, one under the other
_LEFT, _RIGHT = 120, 16
_GAP, _THIN = 0.5, 1.5  # pixels: between two bars; the least width of one


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def gantt(
    page: Page,
    timeline: pd.DataFrame | Mapping[str, pd.DataFrame],
    reference_ms: float | None = None,
) -> None:
    """Draw copies and kernels of each stream over the time, and how busy each kind was.

    A batch is cut into chunks of images; each chunk takes three steps in a stream. A step too short
    to be seen is drawn as a thin line.

    Parameters
    ----------
    timeline : DataFrame, or mapping of str to DataFrame
        As `Pipeline.timeline` and `schedule` give it: a row per chunk and step, with ``stream``,
        ``what`` ("copy in", "kernel" or "copy out"), ``chunk``, ``start_ms`` and ``end_ms``. Several
        are drawn one under the other over one axis, named by the keys.
    reference_ms : float, optional
        A time to mark: what the link between host and GPU needs for the copies.
    """
    # name -> timeline, "" for a single one; below, each begins at 0 ms
    several = dict(timeline) if isinstance(timeline, Mapping) else {"": timeline}
    if not several:
        raise LabError("draw.gantt got no timeline: run a pipeline with events first")
    for name, rows in several.items():
        require_columns(rows, ["stream", "what", "chunk", "start_ms", "end_ms"], "draw.gantt")
        start = rows["start_ms"].min()
        several[name] = rows.assign(
            start_ms=rows["start_ms"] - start, end_ms=rows["end_ms"] - start
        )
    # that these are no GPU's times, if so
    note = next((rows.attrs["note"] for rows in several.values() if rows.attrs.get("note")), "")
    end = max(reference_ms or 0, *(rows["end_ms"].max() for rows in several.values())) * 1.005
    heights = [
        24 * bool(name) + _LANE * rows["stream"].nunique() + 100 for name, rows in several.items()
    ]
    last = list(several.values())[-1]  # the title is about the last timeline
    what = busy_ms(last).idxmax()  # the kind of step that is busy longest
    where = "the multiprocessors" if what == "kernel" else "the link"
    share = percent(busy_ms(last)[what] / span_ms(last))
    page.open(
        108 + sum(heights),
        f"{_PLURALS[what].capitalize()} keep {where} busy for {share} of the time",
        "",
        note,
    )
    x, _ = page.legend(_LEFT, 66, _COLORS)
    page.small(x, 66, "one under the other in a stream’s lane; numbered by chunk")
    page.alt = "Gantt chart of copies and kernels."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: Gantt chart of the copies and kernels on each stream"
    top, ticks = 84, _round_ticks(0, end)
    for (name, rows), height in zip(several.items(), heights, strict=True):
        bottom = top + height - 26
        words = _draw_panel(page, top, bottom, name, rows, end, ticks, reference_ms)
        page.alt += f" {name + ': ' if name else ''}{words}"
        top += height
    marked = f"the link’s reference time, {ms(reference_ms)}" if reference_ms else ""
    set_ticks(page.fig.axes[-1].xaxis, ticks)  # the axes of the last panel get numbers
    page.small(
        page.width - _RIGHT,
        bottom + 34,
        "milliseconds" + f"   ·   dashed: {marked}" * bool(marked),
        ha="right",
    )
    page.alt += f" Marked: {marked}." * bool(marked)


def _round_ticks(low: float, high: float) -> list[float]:
    """Return about eight round numbers from low to high, as ticks of an axis."""
    return [
        tick
        for tick in MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(low, high)
        if low <= tick <= high
    ]


def _draw_panel(
    page: Page,
    top: float,
    bottom: float,
    heading: str,
    timeline: pd.DataFrame,
    end: float,
    ticks: list[float],
    reference_ms: float | None,
) -> str:
    """Draw a timeline, a lane per stream and then one per kind of step, from 0 to `end` [ms]; return it in words."""
    # While each kind of step runs; from the first start to the last end; how many kinds run at a
    # time, in the mean.
    busy, span, at_once = busy_ms(timeline), span_ms(timeline), overlap(timeline)
    if heading:
        page.text(12, top + 12, heading, weight="bold")
        page.small(
            page.width - _RIGHT, top + 12, f"{ms(span)}   ·   overlap {at_once:.2f}", ha="right"
        )
        top += 24
    ax = page.axes(
        _LEFT, top, page.width - _RIGHT, bottom, xlim=(0, end), ylim=(bottom, top), yticks=[]
    )
    ax.set_xticks(ticks, [""] * len(ticks))
    ax.grid(axis="x")  # y is in CSS pixels of the page
    scale = (page.width - _RIGHT - _LEFT) / end  # pixels per millisecond
    streams = sorted(timeline["stream"].unique())
    lanes = {stream: top + i * _LANE + 2 for i, stream in enumerate(streams)}
    for stream, y in lanes.items():
        page.small(_LEFT - 10, y + _LANE / 2 + 3, f"stream {stream}", style.INK, ha="right")
        ax.axhline(y + _LANE - 3, color=style.HAIR, lw=1)
    texts = []
    for i, what in enumerate(STEPS):
        steps, color = timeline[timeline["what"] == what], _COLORS[what]
        y = top + len(streams) * _LANE + 10 + i * 22
        page.small(_LEFT - 10, y + 10, f"{_PLURALS[what]} {percent(busy[what] / span)}", ha="right")
        texts.append(f"{_PLURALS[what]} {ms(busy[what])} ({percent(busy[what] / span)})")
        _draw_steps(ax, steps, y, 14, scale, color)
        for stream, lane in lanes.items():
            _draw_steps(
                ax, steps[steps["stream"] == stream], lane + i * _BAR, _BAR - _GAP, scale, color
            )
        for row in steps.itertuples():
            # the chunk's number fits
            if (row.end_ms - row.start_ms) * scale > 7 + 7 * len(str(row.chunk)):
                ax.text(
                    (row.start_ms + row.end_ms) / 2,
                    lanes[row.stream] + (i + 0.5) * _BAR,
                    str(row.chunk),
                    ha="center",
                    va="center",
                    size=6.2,
                    color=ink_on(color),
                )
    if reference_ms:
        ax.axvline(reference_ms, color=style.INK, lw=1.2, ls=style.DASHED)
    counts = f"{count(len(streams), 'stream')}, {count(timeline['chunk'].nunique(), 'chunk')}"
    return f"{counts}, {ms(span)}, busy with {', '.join(texts)}; overlap {at_once:.2f}."


def _draw_steps(ax, rows: pd.DataFrame, y: float, height: float, scale: float, color: str) -> None:
    """Draw steps, from ``start_ms`` to ``end_ms``, as bars with a gap at the end; `scale`: pixels per millisecond."""
    lengths = (rows["end_ms"] - rows["start_ms"] - _GAP / scale).clip(lower=_THIN / scale)
    ax.broken_barh(list(zip(rows["start_ms"], lengths, strict=True)), (y, height), facecolors=color)


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def chunk_sizes(
    page: Page,
    table: pd.DataFrame,
    reference_ms: float | None = None,
    predicted: Mapping[int, float] | None = None,
) -> None:
    """Draw the layer time over the images per chunk, a line for each number of streams.

    The layer time is that of a batch with its copies from and to the host, which streams overlap with kernels.

    Parameters
    ----------
    table : DataFrame
        As `bench_streams` returns it, of one layer and batch: ``chunk`` (images), ``streams`` (their
        number), ``steady_ms`` (the time if the buffers are kept from one run to the next).
    reference_ms : float, optional
        The time that the link between host and GPU needs for the copies; times up to 15 % above it
        are shaded.
    predicted : mapping of int to float, optional
        Chunk to milliseconds, as computed beforehand: a thin line.
    """
    require_columns(table, ["chunk", "streams", "steady_ms"], "draw.chunk_sizes")
    best = table.loc[table["steady_ms"].idxmin()]
    ratio = (
        f", {best['steady_ms'] / reference_ms:.2f} times the reference time" if reference_ms else ""
    )
    page.open(
        380,
        f"Best with {int(best['chunk']):,} images per chunk: {ms(best['steady_ms'])}{ratio}",
        "",
        table.attrs.get("note", ""),
    )
    ax = page.axes(
        58,
        84,
        page.width - 24,
        332,
        log="x",
        xlabel="images per chunk (log scale)",
        ylabel="layer time, buffers kept (ms)",
    )
    page.alt = "Line chart, layer time over the images per chunk."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: layer time over the images per chunk, a line for each number of streams"
    lines = {
        count(n, "stream"): rows.sort_values("chunk").set_index("chunk")["steady_ms"]
        for n, rows in table.groupby("streams")
    }
    if predicted:
        lines["arithmetic"] = pd.Series(predicted).sort_index()
    for i, (name, values) in enumerate(lines.items()):
        look = {
            "color": style.CYCLE[i % 5],
            "marker": "os^Dv"[i % 5],
            "ms": 6,
            "clip_on": False,
            "zorder": 3,
        }
        thin = {"color": style.MUTED, "lw": 1.1, "ls": (0, (2, 2))}
        ax.plot(values.index, values, label=name, **(thin if name == "arithmetic" else look))
        page.alt += (
            f" {name}: {', '.join(f'{ms(value)} at {size:,}' for size, value in values.items())}."
        )
    ax.legend(
        loc="lower left", bbox_to_anchor=(0, 1.01), ncols=len(lines), borderaxespad=0, borderpad=0.2
    )
    chunks = sorted(table["chunk"].unique())
    high = 1.03 * max(ax.get_ylim()[1], reference_ms or 0)
    # room below the reference line for its name
    low = reference_ms - 0.15 * (high - reference_ms) if reference_ms else 0
    ax.set(xlim=(chunks[0] / 1.15, chunks[-1] * 1.15), ylim=(low, high))
    set_ticks(ax.xaxis, chunks)
    set_ticks(ax.yaxis, _round_ticks(low, high))
    if reference_ms:
        ax.axhspan(reference_ms, 1.15 * reference_ms, color=style.ORANGE, alpha=0.16, lw=0)
        ax.axhline(reference_ms, color=style.ORANGE, lw=1.6)
        mark = f"the link’s reference time, {ms(reference_ms)}"
        ax.annotate(
            f"{mark}; shaded: up to 15 % more",
            (chunks[0], reference_ms),
            (0, -12),
            textcoords="offset points",
            size=SMALL,
            color=style.AMBER,
        )
        page.alt += f" Marked: {mark}."
