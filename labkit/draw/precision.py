"""Pictures of rounding: a sum that stops growing, and errors over the length of a sum beside their bounds."""

import numpy as np

from labkit.base.errors import LabError
from labkit.draw.style import BLUE, CYCLE, GREEN, INK, MUTED, ORANGE, PAPER, READABLE, SMALL, canvas

_HALF_ULP = 2.0**-11  # the unit roundoff of half: half a unit in its last place


def running_sum(terms=4096, part=16, title=None, path=None):
    """Ones counted in half, one after the other and in parts, beside the true sum.

    Parameters
    ----------
    terms : int
        Ones.
    part : int
        How many a part sums in half before a float takes it.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there are no terms, or a part has none.
    """
    if terms < 1 or part < 1:
        raise LabError(f"draw.running_sum: {terms} terms in parts of {part}; at least one of each")
    halves, levels = counted(terms, 0), counted(terms, part)
    count = np.arange(1, terms + 1)
    with canvas(330, path=path) as page:
        stop = int(halves.max())
        lost = stop < terms
        page.heading(
            title or (f"Counting in half stops at {stop:,}" if lost else f"Half counts to {terms:,} without an error"),
            f"ones summed one by one   ·   in two levels: {part} in half, then the parts in float",
        )
        ax = page.axes(72, 66, page.width - 150, 282)
        ax.plot(count, count, color=ORANGE, lw=5, alpha=0.55, solid_capstyle="butt")
        ax.plot(count, levels, color=BLUE, lw=1.8)
        ax.plot(count, halves, color=INK, lw=2.2, ls=(0, (5, 2)))
        ax.set(xlim=(0, terms), ylim=(0, terms * 1.04), xlabel="ones summed")
        ticks = [int(tick) for tick in np.linspace(0, terms, 5)]
        ax.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        ax.set_yticks(ticks, [f"{tick:,}" for tick in ticks], color=MUTED, size=SMALL)
        ax.grid(axis="y")
        ends = {"true sum": (terms, READABLE[ORANGE]), "two levels": (levels[-1], BLUE), "half": (halves[-1], INK)}
        at = {name: 282 - value / (terms * 1.04) * 216 for name, (value, _) in ends.items()}
        at["two levels"] = max(at["two levels"], at["true sum"] + 16)
        at["half"] = max(at["half"], at["two levels"] + 16)
        for name, (_, color) in ends.items():
            page.text(page.width - 142, at[name] + 4, name, size=SMALL, weight="bold", color=color)
        page.alt = (
            f"{terms:,} ones, summed one by one. The sum in half ends at {halves[-1]:,.0f}, that in two levels, "
            f"parts of {part} in half and the parts in float, at {levels[-1]:,.0f}; the true sum is {terms:,}."
        )


def counted(terms, part):
    """The running sum of `terms` ones in half; with a `part`, of so many in half and of the parts in float."""
    sums, sum_, whole = np.empty(terms), np.float16(0), np.float32(0)
    for i in range(terms):
        sum_ = np.float16(sum_ + np.float16(1))
        sums[i] = whole + np.float32(sum_)
        if part and (i + 1) % part == 0:
            whole, sum_ = whole + np.float32(sum_), np.float16(0)
    return sums


def rounding(table, title=None, path=None):
    """Errors over the length of the sum, a colour a variant: the largest measured, and the bound as a dashed line.

    Parameters
    ----------
    table : DataFrame
        As `labkit.rounding_errors` returns it.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the table lacks a column, or has fewer than two lengths.
    """
    missing = [name for name in ("label", "terms", "largest", "bound") if name not in table]
    if missing:
        raise LabError(f"draw.rounding: no column {missing[0]!r}; labkit.rounding_errors makes the table")
    lengths = sorted(int(terms) for terms in table["terms"].unique())
    if len(lengths) < 2:
        raise LabError("draw.rounding: errors over the length of the sum need two lengths or more")
    labels = list(dict.fromkeys(table["label"]))
    lines = {label: table[table["label"] == label].sort_values("terms") for label in labels}
    growth = {label: each["largest"].iloc[-1] / each["largest"].iloc[0] for label, each in lines.items()}
    worst = max(growth, key=growth.get)
    with canvas(400, path=path) as page:
        span = f"From {lengths[0]:,} to {lengths[-1]:,} products"
        page.heading(
            title or f"{span}: {worst} is off by {growth[worst]:.2g} times more",
            "largest error as a part of Σ|x||k|, in halves’ unit roundoff 2⁻¹¹   ·   dashed: the checker’s bound",
        )
        names = max(page.text_width(label, SMALL, "bold") for label in labels) + 22
        ax = page.axes(64, 66, page.width - names, 350)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ends = []
        for i, (label, each) in enumerate(lines.items()):
            color = (*CYCLE, GREEN, MUTED)[i % 7]
            x, y = each["terms"].tolist(), (each["largest"] / _HALF_ULP).tolist()
            ax.plot(x, (each["bound"] / _HALF_ULP).tolist(), color=color, lw=1.1, ls=(0, (4, 3)))
            ax.plot(x, y, color=color, marker="o", ms=6, mec=PAPER, mew=1)
            ends.append((label, y[-1], READABLE.get(color, color)))
        ax.set(xlim=(lengths[0] / 1.15, lengths[-1] * 1.15), xlabel="products a sum (log scale)")
        ax.set_xticks(lengths, [f"{terms:,}" for terms in lengths])
        low, high = ax.get_ylim()
        decades = [10.0**e for e in range(int(np.ceil(np.log10(low))), int(np.floor(np.log10(high))) + 1)]
        ax.set_yticks(decades, [f"{tick:,.4g}" for tick in decades], color=MUTED, size=SMALL)
        ax.minorticks_off()
        ax.grid(axis="y")
        ax.spines["left"].set_visible(False)

        def height(value):
            return 350 - (np.log(value) - np.log(low)) / (np.log(high) - np.log(low)) * 284

        taken = -np.inf
        for label, value, color in sorted(ends, key=lambda end: -end[1]):
            taken = max(height(value), taken + 15)
            page.text(page.width - names + 8, taken + 4, label, size=SMALL, weight="bold", color=color)
        said = "; ".join(
            f"{label}: {each['largest'].iloc[0] / _HALF_ULP:.2g} of {lengths[0]:,} products, "
            f"{each['largest'].iloc[-1] / _HALF_ULP:.2g} of {lengths[-1]:,}" for label, each in lines.items()
        )  # fmt: skip
        page.alt = f"Line chart, largest rounding error in units of 2⁻¹¹ of what was summed, over its length. {said}."
        page.plain = "Figure: the largest rounding error over the length of the sum, a line for each variant"
