"""Charts of chunks and streams: when which step ran, and what the size of a chunk costs."""

from collections.abc import Mapping

from labkit.base.errors import LabError
from labkit.base.numerals import ms
from labkit.draw.style import AMBER, BLUE, CYCLE, HAIR, INK, MUTED, ORANGE, PAPER, SKY, SMALL, canvas, percent, rect
from labkit.draw.words import need

COLORS = {"copy in": SKY, "kernel": ORANGE, "copy out": BLUE}
NAMES = {"copy in": "copies in", "kernel": "kernels", "copy out": "copies out"}
STEPS = tuple(NAMES)  # as labkit.measure.pipeline has them, which needs pandas
_BAR, _LANE = 11, 38  # pixels: a step's bar; a stream's lane holds three, one under the other
_LEFT, _RIGHT = 120, 16
_GAP, _THIN = 0.5, 1.5  # pixels: between two bars; the least width of one
_COLUMNS = ["stream", "what", "chunk", "start_ms", "end_ms"]


def gantt(timeline, title=None, subtitle="", floor_ms=None, path=None):
    """Copies and kernels of each stream over the time, and how busy each kind was.

    A step too short to be seen is drawn as a thin line.

    Parameters
    ----------
    timeline : DataFrame, or mapping of str to DataFrame
        As `Pipeline.timeline` and `schedule` give it: a row a chunk and step, with ``stream``, ``what``, ``chunk``,
        ``start_ms`` and ``end_ms``. Several are drawn one under the other over one axis, named by the keys.
    title : str, optional
        In place of the message: which kind is the busiest.
    subtitle : str
        What was run, and on what.
    floor_ms : float, optional
        A time to mark: the link's floor.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If a column is missing or there is nothing to draw.
    """
    several = timeline if isinstance(timeline, Mapping) else {"": timeline}
    for each in several.values():
        need(each, _COLUMNS, "draw.gantt")
    if not several or not all(len(each) for each in several.values()):
        raise LabError("draw.gantt got no timeline with a step in it: run a pipeline with events first")
    several = {name: each.assign(**{c: each[c] - each["start_ms"].min() for c in ("end_ms", "start_ms")})
               for name, each in several.items()}  # fmt: skip
    note = next((each.attrs["note"] for each in several.values() if each.attrs.get("note")), "")
    end = max([*(each["end_ms"].max() for each in several.values()), floor_ms or 0])
    heights = [24 * bool(name) + _LANE * each["stream"].nunique() + 3 * 22 + 34 for name, each in several.items()]
    with canvas(86 + sum(heights) + 22, path=path) as page:
        page.heading(title or _message(several), subtitle, note)
        _legend(page, 66)
        top, words = 84, []
        for (name, each), height in zip(several.items(), heights, strict=True):
            words.append(_panel(page, top, name, each, end, floor_ms, last=name == list(several)[-1]))
            top += height
        page.alt = f"Gantt chart of copies and kernels. {' '.join(words)}"
        if floor_ms:
            page.alt += f" Marked: the link’s floor, {ms(floor_ms)}."
        page.plain = "Figure: Gantt chart of the copies and kernels on each stream"


def _message(several):
    from labkit.measure.pipeline import busy_ms, span_ms

    each = list(several.values())[-1]
    busy, span = busy_ms(each), span_ms(each)
    what = busy.idxmax()
    where = "the multiprocessors" if what == "kernel" else "the link"
    return f"{NAMES[what].capitalize()} keep {where} busy for {percent(busy[what] / span)} of the time"


def _legend(page, y):
    x = _LEFT
    for what in STEPS:
        ax = page.axes(x, y - 9, x + 14, y + 1)
        ax.axis("off")
        rect(ax, 0, 0, 1, 1, COLORS[what])
        page.text(x + 20, y, what, size=SMALL, color=MUTED)
        x += 20 + page.text_width(what, SMALL) + 22
    page.text(x, y, "one under the other in a stream’s lane; numbered by chunk", size=SMALL, color=MUTED)


def _panel(page, top, name, timeline, end, floor_ms, last):
    """One timeline; returns it in words."""
    from labkit.measure.pipeline import busy_ms, overlap, span_ms

    busy, span, at_once = busy_ms(timeline), span_ms(timeline), overlap(timeline)
    streams = sorted(timeline["stream"].unique())
    if name:
        page.text(12, top + 12, name, weight="bold")
        said = f"{ms(span)}   ·   overlap {at_once:.2f}"
        page.text(page.width - _RIGHT, top + 12, said, ha="right", size=SMALL, color=MUTED)
        top += 24
    height = _LANE * len(streams) + 3 * 22 + 8
    ax = page.axes(_LEFT, top, page.width - _RIGHT, top + height)
    ax.set(xlim=(0, end * 1.005), ylim=(height, 0), xticks=_ticks(end), yticks=[])
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="x", labelcolor=MUTED)
    ax.grid(axis="x")
    if not last:
        ax.tick_params(axis="x", labelbottom=False)
    scale = (page.width - _RIGHT - _LEFT) / (end * 1.005)  # pixels a millisecond
    for lane, stream in enumerate(streams):
        y = lane * _LANE + 2
        page.text(_LEFT - 10, top + y + _LANE / 2 + 3, f"stream {stream}", ha="right", size=SMALL)
        ax.axhline(y + _LANE - 3, color=HAIR, lw=1)
        for row, what in enumerate(STEPS):
            mine = timeline[(timeline["stream"] == stream) & (timeline["what"] == what)]
            _bars(ax, mine, y + row * _BAR, _BAR - _GAP, scale)
            for chunk, start, stop in mine[["chunk", "start_ms", "end_ms"]].itertuples(index=False):
                if (stop - start) * scale > 7 + 7 * len(str(chunk)):
                    ax.text((start + stop) / 2, y + (row + 0.5) * _BAR, str(chunk), ha="center", va="center",
                            size=6.2, color=PAPER if what == "copy out" else INK)  # fmt: skip
    for row, what in enumerate(STEPS):
        y = len(streams) * _LANE + 10 + row * 22
        said = f"{NAMES[what]} {percent(busy[what] / span)}"
        page.text(_LEFT - 10, top + y + 10, said, ha="right", size=SMALL, color=MUTED)
        _bars(ax, timeline[timeline["what"] == what], y, 14, scale)
    if floor_ms:
        ax.axvline(floor_ms, color=INK, lw=1.2, ls=(0, (4, 3)))
    if last:
        unit = "milliseconds" + (f"   ·   dashed: the link’s floor, {ms(floor_ms)}" if floor_ms else "")
        page.text(page.width - _RIGHT, top + height + 34, unit, ha="right", size=SMALL, color=MUTED)
    shares = ", ".join(f"{NAMES[what]} {ms(busy[what])} ({percent(busy[what] / span)})" for what in STEPS)
    count = f"{len(streams)} stream{'s' if len(streams) != 1 else ''}, {timeline['chunk'].nunique()} chunks"
    return f"{name + ': ' if name else ''}{count}, {ms(span)}, busy with {shares}; overlap {at_once:.2f}."


def _lines_legend(page, y, colors, marks):
    x = 58
    for name, color in colors.items():
        dashed = color == MUTED
        ax = page.axes(x, y - 9, x + 26, y + 1)
        ax.set(xlim=(0, 1), ylim=(0, 1))
        ax.axis("off")
        ax.plot([0, 1], [0.5, 0.5], color=color, lw=1.1 if dashed else 2, ls=(0, (2, 2)) if dashed else "-")
        ax.plot([0.5], [0.5], color=color, marker=marks.get(name, ""), ms=6, mec=PAPER, mew=1)
        page.text(x + 32, y, name, size=SMALL, color=MUTED)
        x += 32 + page.text_width(name, SMALL) + 22


def _ticks(end, begin=0):
    """Round numbers between the two."""
    from matplotlib.ticker import MaxNLocator

    return [tick for tick in MaxNLocator(8, steps=[1, 2, 5, 10]).tick_values(begin, end) if begin <= tick <= end]


def _bars(ax, rows, y, height, scale):
    """The steps as bars; `scale`: pixels a millisecond."""
    lengths = (rows["end_ms"] - rows["start_ms"] - _GAP / scale).clip(lower=_THIN / scale)
    ax.broken_barh(list(zip(rows["start_ms"], lengths, strict=True)), (y, height), facecolors=rows["what"].map(COLORS))


def chunk_sizes(table, floor_ms=None, predicted=None, title=None, subtitle="", path=None):
    """Layer time over the images a chunk, a line for each number of streams.

    Parameters
    ----------
    table : DataFrame
        As `bench_streams` returns it, of one layer and batch: ``chunk``, ``streams``, ``steady_ms``.
    floor_ms : float, optional
        The link's floor; what is within 15 % of it is shaded.
    predicted : mapping of int to float, optional
        Chunk to milliseconds, as arithmetic had it: a thin line.
    title, subtitle : str
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If a column is missing or there is nothing to draw.
    """
    need(table, ["chunk", "streams", "steady_ms"], "draw.chunk_sizes")
    if not len(table):
        raise LabError("draw.chunk_sizes got a table without a row: measure or load something first")
    best = table.loc[table["steady_ms"].idxmin()]
    counts = sorted(table["streams"].unique())
    names = {count: f"{count} stream{'s' if count != 1 else ''}" for count in counts}
    colors = dict(zip(names.values(), CYCLE * len(counts), strict=False))
    marks = dict(zip(names.values(), "os^Dv" * len(counts), strict=False))
    with canvas(380, path=path) as page:
        over = f", {best['steady_ms'] / floor_ms:.2f} times the floor" if floor_ms else ""
        message = f"Best with {int(best['chunk']):,} images a chunk: {ms(best['steady_ms'])}{over}"
        page.heading(title or message, subtitle, table.attrs.get("note", ""))
        _lines_legend(page, 68, colors | ({"arithmetic": MUTED} if predicted else {}), marks)
        ax = page.axes(58, 84, page.width - 24, 380 - 48)
        ax.set_xscale("log")
        words = []
        for count in counts:
            rows = table[table["streams"] == count].sort_values("chunk")
            name, sizes, values = names[count], rows["chunk"].tolist(), rows["steady_ms"].tolist()
            ax.plot(sizes, values, color=colors[name], marker=marks[name], ms=6, mec=PAPER, mew=1, clip_on=False)
            found = ", ".join(f"{ms(v)} at {n:,}" for n, v in zip(sizes, values, strict=True))
            words.append(f"{name}: {found}.")
        if predicted:
            sizes = sorted(predicted)
            ax.plot(sizes, [predicted[n] for n in sizes], color=MUTED, lw=1.1, ls=(0, (2, 2)))
            words.append("Arithmetic: " + ", ".join(f"{ms(predicted[n])} at {n:,}" for n in sizes) + ".")
        chunks = sorted(table["chunk"].unique())
        high = 1.03 * max(ax.get_ylim()[1], floor_ms or 0)
        low = floor_ms - 0.15 * (high - floor_ms) if floor_ms else 0  # room for the line's name
        ax.set(xlim=(chunks[0] / 1.15, chunks[-1] * 1.15), ylim=(low, high))
        ax.set_yticks(_ticks(high, low))
        ax.set_xticks(chunks, [f"{size:,}" for size in chunks])
        ax.minorticks_off()
        ax.grid(axis="y")
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", labelcolor=MUTED, labelsize=SMALL)
        ax.set(xlabel="images a chunk (log scale)", ylabel="layer time, buffers kept (ms)")
        if floor_ms:
            ax.axhspan(floor_ms, 1.15 * floor_ms, color=ORANGE, alpha=0.16, lw=0)
            ax.axhline(floor_ms, color=ORANGE, lw=1.6)
            ax.annotate(f"the link’s floor, {ms(floor_ms)}; shaded: up to 15 % more", (chunks[0], floor_ms), (0, -12),
                        textcoords="offset points", size=SMALL, color=AMBER)  # fmt: skip
        page.alt = f"Line chart, layer time over the images a chunk. {' '.join(words)}"
        if floor_ms:
            page.alt += f" The link’s floor is {ms(floor_ms)}."
        page.plain = "Figure: layer time over the images a chunk, a line for each number of streams"
