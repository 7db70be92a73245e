"""Charts of training: kernels beside the published ones, accuracies, epochs of mini-batches, contention."""

from collections.abc import Mapping
from itertools import cycle

import pandas as pd
from matplotlib.ticker import MaxNLocator

from labkit.base.errors import LabError
from labkit.base.numerals import format_digits
from labkit.draw import style
from labkit.draw.measured import require_columns
from labkit.draw.style import SMALL, Page, log_ticks, name_ends, on_new_page, set_ticks, widest

_ROW, _BAR = 36, 11  # pixels: two bars with space, one bar


def _write_ratio(ratio: float) -> str:
    """Return a ratio with two significant digits, as text: "1.3", "320", "1,200"."""
    return f"{float(f'{ratio:.2g}'):,.10g}"


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def kernel_times(page: Page, table: pd.DataFrame, device: str = "") -> None:
    """Draw the measured time of kernels, each beside a time that was published for it, on another GPU.

    Parameters
    ----------
    table : DataFrame
        A row per bar or pair of bars: ``kernel`` (its heading; each has a scale of its own), ``label``,
        ``us`` (microseconds) and ``published_us``, NaN if nothing was published.
    device : str
        The device that `us` was measured on.
    """
    require_columns(table, ["kernel", "label", "us", "published_us"], "draw.kernel_times")
    groups = dict(iter(table.groupby("kernel", sort=False)))
    # the title names the kernel whose slowest and fastest measured time differ most
    worst = max(groups, key=lambda name: groups[name]["us"].max() / groups[name]["us"].min())
    rows = groups[worst].sort_values("us")
    ratio = rows["us"].iloc[-1] / rows["us"].iloc[0]
    page.open(
        96 + sum(40 + _ROW * len(rows) for rows in groups.values()),
        f"{worst}: {rows['label'].iloc[-1]} take {_write_ratio(ratio)} times as long as {rows['label'].iloc[0]}",
        "microseconds per launch, one image   ·   each kernel with a scale of its own",
    )
    page.legend(26, 70, {device or "measured": style.BLUE, "published, on another GPU": style.PALE})
    left, top = 30 + widest(table["label"]), 84
    page.alt = "Bar chart, microseconds per launch."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: the time of kernels beside the published ones"
    for name, rows in groups.items():
        page.text(26, top + 18, name, weight="bold")
        top += 30
        scale = (page.width - left - 90) / rows[["us", "published_us"]].max(axis=None)
        page.line([left, left], [top, top + _ROW * len(rows)], style.FAINT)
        for row in rows.itertuples():
            page.text(left - 10, top + 21, row.label, ha="right")
            published = (
                ""
                if pd.isna(row.published_us)
                else f", published {format_digits(row.published_us)}"
            )
            page.alt += f" {name}, {row.label}: {format_digits(row.us)}{published}."
            for i, (value, color) in enumerate(
                ((row.us, style.BLUE), (row.published_us, style.PALE))
            ):
                if not pd.isna(value):
                    # two bars, one under the other; a single one in the middle
                    y = top + 5 + (_BAR + 2) * i + (_BAR + 2) / 2 * pd.isna(row.published_us)
                    page.rect(left, y, value * scale, _BAR, color)
                    page.small(
                        left + value * scale + 6,
                        y + 9,
                        format_digits(value),
                        style.INK if i == 0 else style.MUTED,
                    )
            top += _ROW
        top += 10


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def accuracies(page: Page, curves: Mapping[str, pd.Series]) -> None:
    """Draw the accuracy over epochs, a line per training.

    Parameters
    ----------
    curves : mapping of str to Series
        Accuracies, 0 to 1, indexed by epochs. The first line is thick, and its name bold.
    """
    if not curves or any(len(curve) < 2 for curve in curves.values()):
        raise LabError("draw.accuracies: each line needs two accuracies or more")
    best = max(curves, key=lambda name: curves[name].iloc[-1])
    most = max(curve.index.max() for curve in curves.values())
    page.open(350, f"{best}: {curves[best].iloc[-1]:.1%} in the end", "accuracy on held-out images")
    right = page.width - 18 - widest(curves, SMALL, "bold")
    # The axis begins at a multiple of 10 %. The first accuracy of a line is not counted: it may be
    # near 0.
    low = int(min(100 * curve.iloc[1:].min() for curve in curves.values()) // 10 * 10)
    ax = page.axes(52, 80, right - 8, 302, ylim=(low, 100), xlabel="epochs")
    set_ticks(ax.yaxis, range(low, 101, 10 if low > 40 else 20))
    set_ticks(ax.xaxis, MaxNLocator(8, integer=True).tick_values(0, most))
    ax.set_xlim(0, most)
    page.small(12, 66, "%")
    page.alt = "Line chart, accuracy over epochs."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: accuracy over epochs"
    ends = {}  # a line's name -> its last value and its colour, for `name_ends`
    # behind the last of the five colours, the first comes again
    for (name, curve), color in zip(curves.items(), cycle(style.CYCLE), strict=False):
        ax.plot(curve.index, 100 * curve, color=color, lw=2.6 if not ends else 1.8)
        ends[name] = 100 * curve.iloc[-1], color
        first, last = (f"{curve.iloc[i]:.1%} at {curve.index[i]:.3g}" for i in (0, -1))
        page.alt += f" {name}: {first}, {last}."
    name_ends(page, ax, right, ends, [next(iter(curves))])


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def epoch_times(
    page: Page,
    lines: Mapping[str, pd.Series],
    levels: Mapping[str, float] | None = None,
    device: str = "",
) -> None:
    """Draw the time of an epoch over the images per step, on logarithmic scales.

    Parameters
    ----------
    lines : mapping of str to Series
        Name -> seconds, indexed by the batch, the images per step. The first line is that of the
        title, its name is bold.
    levels : mapping of str to float, optional
        Name -> seconds of trainings with one image per step: horizontal lines.
    device : str
        What measured it: a part of the subtitle.
    """
    levels = dict(levels or {})
    if not lines or any(len(line) < 2 for line in lines.values()):
        raise LabError("draw.epoch_times: each line needs two batches or more")
    name, line = next(iter(lines.items()))
    gain = _write_ratio(line.iloc[0] / line.min())
    page.open(
        360,
        f"Steps of {line.idxmin():,} images: an epoch {gain} times as fast as with {line.index[0]}",
        style.join_parts("seconds per epoch, both scales logarithmic", device),
    )
    right = page.width - 18 - widest([*lines, *levels], SMALL, "bold")
    ax = page.axes(62, 66, right - 8, 312, log="xy", xlabel="images per step")
    page.alt = "Line chart, seconds per epoch."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: the time of an epoch over the images per step"
    ends = {}  # a line's name -> its last value and its colour, for `name_ends`
    # behind the last of the five colours, the first comes again
    for (label, seconds), color in zip(lines.items(), cycle(style.CYCLE), strict=False):
        ax.plot(seconds.index, seconds, color=color, marker="o", ms=5)
        ends[label] = seconds.iloc[-1], color
        page.alt += f" {label}: {', '.join(f'{value:.3g} s with {batch:,}' for batch, value in seconds.items())}."
    for label, value in levels.items():
        ax.axhline(value, color=style.MUTED, lw=1.1, ls=style.DASHED)
        ends[label] = value, style.MUTED
        page.alt += f" {label}: {value:.3g} s."
    low, high = ax.get_ylim()
    ax.set_ylim(low / 1.2, max(high, *levels.values()) * 1.2 if levels else high)
    # (1,): ticks at 1, 10, 100 ..., none at 2 or 5
    set_ticks(ax.xaxis, log_ticks(*ax.get_xlim(), (1,)))
    set_ticks(ax.yaxis, log_ticks(*ax.get_ylim(), (1,)))
    name_ends(page, ax, right, ends, [name])


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def contention(page: Page, table: pd.DataFrame, device: str = "") -> None:
    """Draw the time of atomic additions over the number of threads that add to one address, on logarithmic scales.

    Parameters
    ----------
    table : DataFrame
        Microseconds: a row per number of threads per address, a column per line of the chart, by
        its name. The first name is bold.
    device : str
        What measured it: a part of the subtitle.
    """
    if len(table) < 2 or not len(table.columns):
        raise LabError("draw.contention needs two numbers of threads per address or more")
    growth = table.iloc[-1] / table.iloc[0]
    page.open(
        350,
        f"{table.index[-1]:,} threads per address: {_write_ratio(growth.max())} times as long as with "
        f"{table.index[0]}",
        style.join_parts("the same number of additions", "both scales logarithmic", device),
    )
    page.small(12, 66, "time (µs)")
    right = page.width - 18 - widest(table.columns, SMALL, "bold")
    ax = page.axes(72, 76, right - 8, 302, log="xy", xlabel="threads per address")
    page.alt = "Line chart, time over the threads per address."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: what additions to one address cost"
    ends = {}  # a line's name -> its last value and its colour, for `name_ends`
    # behind the last of the five colours, the first comes again
    for (name, line), color in zip(table.items(), cycle(style.CYCLE), strict=False):
        ax.plot(line.index, line, color=color, marker="o", ms=5)
        ends[name] = line.iloc[-1], color
        page.alt += (
            f" {name}: {', '.join(f'{us:.3g} with {threads:,}' for threads, us in line.items())}."
        )
    set_ticks(ax.xaxis, log_ticks(*ax.get_xlim(), (1,)))  # at the powers of ten
    set_ticks(ax.yaxis, log_ticks(*ax.get_ylim(), (1, 2, 5)))  # and at 2 and 5 times these
    name_ends(page, ax, right, ends, table.columns[:1])
