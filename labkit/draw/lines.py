"""Charts of lines: the cost of reads of constant memory, resident warps, and the errors of sums."""

import itertools
from collections.abc import Mapping

import numpy as np
import pandas as pd

from hostcuda.limits import MULTIPROCESSOR
from hostcuda.limits import occupancy as share_of_warps
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.measured import require_columns
from labkit.draw.style import (
    SMALL,
    Page,
    log_ticks,
    name_ends,
    on_new_page,
    percent,
    set_ticks,
    widest,
)

_HALF_ULP = 2.0**-11  # the unit roundoff of half: half a unit in its last place


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def constant_divergence(page: Page, series: Mapping[str, Mapping[int, float]]) -> None:
    """Draw the op time over the number of different elements of the mask that a warp asks for at once.

    The op time is that of a kernel alone. Constant memory serves one element at a time.

    Parameters
    ----------
    series : mapping of str to mapping of int to float
        Kind of memory -> elements asked for at once -> milliseconds. The last kind is highlighted.
    """
    table = pd.DataFrame(
        {name: dict(values) for name, values in series.items() if values}
    ).sort_index()
    if not len(table):
        raise LabError("draw.constant_divergence got no measurement: give each series at least one")
    last = table[table.columns[-1]].dropna()
    few, many = last.index[0], last.index[-1]  # elements
    top = table.max().max() * 1.08  # ms, the end of the axis
    page.open(
        342,
        f"{last.name}: {last[many] / last[few]:.2g} times as long with {many} elements as with {few}",
    )
    page.small(12, 66, "op time (ms)")
    right = page.width - 18 - widest(table.columns, weight="bold")
    ax = page.axes(
        62,
        80,
        right,
        290,
        xlim=(0, table.index[-1] + 0.4),
        ylim=(0, top),
        xlabel="different mask elements that a warp asks for at once",
    )
    set_ticks(ax.xaxis, table.index)
    set_ticks(ax.yaxis, (tick for tick in ax.get_yticks() if tick <= top))
    colors = {name: style.BLUE if name == last.name else style.PALE for name in table}
    page.alt = "Line chart, op time (ms) over the mask elements that a warp asks for at once."
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = "Figure: time over the number of mask elements that a warp asks for at once"
    for name, color in colors.items():
        values = table[name].dropna()
        ax.plot(values.index, values, color=color, marker="o", ms=6)
        page.alt += (
            f" {name}: {', '.join(f'{value:.3g} with {key}' for key, value in values.items())}."
        )
    ends = {
        name: (table[name].dropna().iloc[-1], style.INK if name != last.name else style.BLUE)
        for name in table
    }
    name_ends(page, ax, right, ends, [last.name])


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def occupancy(page: Page, registers: Mapping[str, int], threads: int = 256) -> None:
    """Draw how many warps a multiprocessor of an H200 has room for, over the registers per thread.

    Parameters
    ----------
    registers : mapping of str to int
        Label -> registers per thread: one point on the staircase per label.
    threads : int
        Threads per block.
    """
    if not registers or any(not 1 <= used <= 255 for used in registers.values()):
        raise LabError(f"draw.occupancy: a thread has 1 to 255 registers; got {registers}")
    arch, counts = "sm_90", range(16, 256)  # an H200's; the registers that the axis shows
    limits = MULTIPROCESSOR[arch]
    most = limits["warps"]
    # registers per thread -> share of the multiprocessor's warps; 0: bytes of shared memory
    share = {
        used: share_of_warps(threads, used, 0, limits) for used in {*counts, *registers.values()}
    }
    # the most registers with which there are as many warps as with the fewest
    full = max(used for used in counts if share[used] == share[16])
    points: dict[int, list[str]] = {}  # registers -> labels
    for label, used in registers.items():
        points.setdefault(int(used), []).append(label)
    page.open(
        340,
        f"Up to {full} registers per thread, {percent(share[16])} of the warps can be resident",
        f"{arch}   ·   blocks of {threads} threads   ·   {limits['registers']:,} registers and {most} warps per "
        "multiprocessor",
    )
    page.small(12, 66, "resident warps")
    ax = page.axes(
        52,
        80,
        page.width - 20,
        290,
        xlim=(14, 256),
        ylim=(0, most * 1.1),
        xlabel="registers per thread",
    )
    ax.step(list(counts), [most * share[used] for used in counts], where="mid", color=style.PALE)
    set_ticks(ax.xaxis, [16, 32, 64, 96, 128, 160, 192, 224, 255])
    set_ticks(ax.yaxis, range(0, most + 1, 16))
    page.alt = f"Staircase, resident warps over registers per thread, {arch}."
    # a list on the page names the points: they lie too close for names beside them
    for row, (used, labels) in enumerate(sorted(points.items())):
        ax.plot(used, most * share[used], "o", ms=7, color=style.BLUE, mew=1.2, zorder=5)
        clear = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 2}
        page.text(312, 108 + 18 * row, f"{used}", ha="right", weight="bold", bbox=clear)
        page.text(324, 108 + 18 * row, ";  ".join(labels), bbox=clear)
        page.alt += (
            f" {'; '.join(labels)}: {used} registers, {percent(share[used])} of {most} warps."
        )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def running_sum(page: Page, terms: int = 4096, part: int = 16) -> None:
    """Draw the sum of ones in half precision (float16), one after the other and in parts, beside the true sum.

    A half cannot represent 2,049: from 2,048 on, adding 1 changes nothing.

    Parameters
    ----------
    terms : int
        How many ones.
    part : int
        How many ones are summed in half precision, before a float adds this part.
    """
    if terms < 1 or part < 1:
        raise LabError(f"draw.running_sum: {terms} terms in parts of {part}; at least one of each")
    # 0: all ones are summed in half
    halves, levels, exact = sum_ones(terms, 0), sum_ones(terms, part), np.arange(1, terms + 1)
    stop = int(halves.max())
    message = (
        f"Counting in half stops at {stop:,}"
        if stop < terms
        else f"Half counts to {terms:,} without an error"
    )
    page.open(
        330,
        message,
        f"ones summed one by one   ·   in two levels: {part} in half, then the parts in float",
    )
    ax = page.axes(
        72, 66, page.width - 150, 282, xlim=(0, terms), ylim=(0, terms * 1.04), xlabel="ones summed"
    )
    ax.plot(exact, exact, color=style.ORANGE, lw=5, alpha=0.55, solid_capstyle="butt")
    ax.plot(exact, levels, color=style.BLUE, lw=1.8)
    ax.plot(exact, halves, color=style.INK, lw=2.2, ls=(0, (5, 2)))
    for axis in (ax.xaxis, ax.yaxis):
        set_ticks(axis, np.linspace(0, terms, 5).astype(int).tolist())
    ends = {
        "true sum": (exact[-1], style.ORANGE),
        "two levels": (levels[-1], style.BLUE),
        "half": (halves[-1], style.INK),
    }
    name_ends(page, ax, page.width - 150, ends, bold=ends)
    page.alt = (
        f"{terms:,} ones, summed one by one. The sum in half ends at {halves[-1]:,.0f}, that in two levels, "
        f"parts of {part} in half and the parts in float, at {levels[-1]:,.0f}; the true sum is {terms:,}."
    )


def sum_ones(terms: int, part: int) -> np.ndarray:
    """Return the running sum of `terms` ones, added in half precision (float16): an array of that length.

    After each `part` ones, their sum is added to a float and begins anew; with `part` 0, all are
    summed in half precision.
    """
    sums, in_half, in_float = np.empty(terms), np.float16(0), np.float32(0)
    for i in range(terms):
        in_half = np.float16(in_half + np.float16(1))
        sums[i] = in_float + np.float32(in_half)
        if part and (i + 1) % part == 0:
            in_float, in_half = in_float + np.float32(in_half), np.float16(0)
    return sums


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def rounding(page: Page, table: pd.DataFrame) -> None:
    """Draw errors over the length of the sum, a colour per variant: the largest measured; dashed, the bound.

    Parameters
    ----------
    table : DataFrame
        As `rounding_errors` returns it: ``label``, ``terms`` (products per sum), ``largest`` (error
        over the sum of the absolute products) and ``bound`` (the largest that the checker of results
        allows).
    """
    require_columns(table, ["label", "terms", "largest", "bound"], "draw.rounding")
    lengths = sorted(int(terms) for terms in table["terms"].unique())
    if len(lengths) < 2:
        raise LabError("draw.rounding: errors over the length of the sum need two lengths or more")
    lines = {label: rows.sort_values("terms") for label, rows in table.groupby("label", sort=False)}
    # by how much the error is larger at the greatest length than at the least
    growth = {
        label: rows["largest"].iloc[-1] / rows["largest"].iloc[0] for label, rows in lines.items()
    }
    worst = max(growth, key=growth.get)
    ends = {}  # label -> (last error, colour), for the names on the right of the axes
    right = style.WIDTH - 22 - widest(lines, SMALL, "bold")  # edge of the axes
    page.open(
        400,
        f"From {lengths[0]:,} to {lengths[-1]:,} products: {worst} is off by {growth[worst]:.2g} times more",
        "largest error as a part of Σ|x||k|, in halves’ unit roundoff 2⁻¹¹   ·   dashed: the checker’s bound",
    )
    ax = page.axes(64, 66, right, 350, log="xy", xlabel="products per sum (log scale)")
    page.alt = (
        "Line chart, largest rounding error in units of 2⁻¹¹ of what was summed, over its length."
    )
    # a notebook's text output: without numbers, so that it is the same in each run
    page.plain = (
        "Figure: the largest rounding error over the length of the sum, a line for each variant"
    )
    colors = itertools.cycle((*style.CYCLE, style.GREEN, style.MUTED))
    for (label, rows), color in zip(lines.items(), colors, strict=False):
        largest = (rows["largest"] / _HALF_ULP).tolist()
        ax.plot(rows["terms"], rows["bound"] / _HALF_ULP, color=color, lw=1.1, ls=style.DASHED)
        ax.plot(rows["terms"], largest, color=color, marker="o", ms=6)
        ends[label] = largest[-1], color
        page.alt += f" {label}: {largest[0]:.2g} of {lengths[0]:,} products, {largest[-1]:.2g} of {lengths[-1]:,}."
    ax.set_xlim(lengths[0] / 1.15, lengths[-1] * 1.15)
    set_ticks(ax.xaxis, lengths)
    set_ticks(ax.yaxis, log_ticks(*ax.get_ylim(), (1,)))  # at the powers of ten
    name_ends(page, ax, right, ends, bold=ends)
