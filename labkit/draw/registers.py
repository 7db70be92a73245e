"""Pictures of registers: what a warp executes for one product, and how many warps the register file has room for."""

from labkit.base.errors import LabError
from labkit.draw.style import BLUE, FAINT, INK, MUTED, ORANGE, PALE, PAPER, RUST, SKY, SMALL, canvas, percent, rect

_COLORS = (BLUE, SKY, ORANGE, PALE, RUST, FAINT)


def instructions(mixes, unit="instructions a product", highlight=None, title=None, subtitle="", path=None):
    """What kernels execute, a stacked bar each.

    Parameters
    ----------
    mixes : mapping of str to mapping of str to float
        Label -> kind of instruction -> how many; at most six kinds, in the order of the bars.
    unit : str
        Of the numbers.
    highlight : str, optional
        Label of the kernel in question; by default the last one.
    title, subtitle : str, optional
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there is nothing to draw, or there are more kinds than colours.
    """
    mixes = {label: dict(mix) for label, mix in mixes.items()}
    kinds = list(dict.fromkeys(kind for mix in mixes.values() for kind in mix))
    if not kinds or len(kinds) > len(_COLORS):
        raise LabError(f"draw.instructions: {len(kinds)} kinds of instructions; it draws 1 to {len(_COLORS)}")
    if any(not value >= 0 for mix in mixes.values() for value in mix.values()):
        raise LabError(f"draw.instructions: a count is negative or not a number in {mixes}")
    color = dict(zip(kinds, _COLORS, strict=False))
    totals = {label: sum(mix.values()) for label, mix in mixes.items()}
    highlight = list(mixes)[-1] if highlight is None else highlight
    with canvas(92 + 30 * len(mixes) + 10, path=path) as page:
        first, last = next(iter(totals.values())), totals[highlight]
        page.heading(title or f"{highlight}: {last:.3g} {unit}, {next(iter(mixes))} {first:.3g}", subtitle)
        ax = page.paper()
        left = 26 + max(page.text_width(label, weight="bold") for label in mixes)
        scale = (page.width - left - 70) / max(totals.values())
        x = left
        for kind in kinds:
            rect(ax, x, 64, 11, 11, color[kind])
            ax.text(x + 16, 74, kind, size=SMALL, color=MUTED)
            x += page.text_width(kind, SMALL) + 34
        words = []
        for i, (label, mix) in enumerate(mixes.items()):
            y, x, weight = 88 + 30 * i, left, "bold" if label == highlight else "normal"
            ax.text(left - 12, y + 16, label, ha="right", weight=weight)
            for kind in kinds:
                value, width = mix.get(kind, 0), mix.get(kind, 0) * scale
                rect(ax, x, y + 2, width, 20, color[kind], PAPER, 0.8)
                if width > 34:
                    ink = PAPER if color[kind] in (BLUE, RUST) else INK
                    ax.text(x + width / 2, y + 16, f"{value:.2f}", ha="center", size=SMALL, color=ink)
                x += width
            ax.text(x + 8, y + 16, f"{totals[label]:.2f}", weight=weight)
            parts = ", ".join(f"{kind} {mix[kind]:.2f}" for kind in kinds if kind in mix)
            words.append(f"{label}: {totals[label]:.2f}, of these {parts}.")
        page.alt = f"Bar chart, {unit}. {' '.join(words)}"
        page.plain = f"Figure: {unit}, kind by kind"


def occupancy(registers, threads=256, shared=0, arch="sm_90", title=None, path=None):
    """How many warps a multiprocessor has room for, over the registers of a thread.

    Parameters
    ----------
    registers : mapping of str to int
        Label -> registers of a thread: a point on the staircase each.
    threads : int
        Of a block.
    shared : int
        Bytes of a block.
    arch : str
        One of `labkit.base.limits.MULTIPROCESSOR`: the H200 is sm_90.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there is no kernel, a number of registers is none that a thread can have, or `arch` is not known.
    """
    from labkit.base.limits import MULTIPROCESSOR
    from labkit.evidence import launches

    if arch not in MULTIPROCESSOR:
        raise LabError(f"draw.occupancy: arch = {arch!r}; it is one of {', '.join(MULTIPROCESSOR)}")
    if not registers or any(not 1 <= count <= 255 for count in registers.values()):
        raise LabError(f"draw.occupancy: kernels with 1 to 255 registers a thread, please; got {registers}")
    most, limits = MULTIPROCESSOR[arch]["warps"], MULTIPROCESSOR[arch]
    counts = range(16, 256)
    share = {count: launches.occupancy(threads, count, shared, limits) for count in {*counts, *registers.values()}}
    full = max((count for count in counts if share[count] == share[16]), default=16)
    points: dict[int, list[str]] = {}
    for label, count in registers.items():
        points.setdefault(int(count), []).append(label)
    with canvas(340, path=path) as page:
        page.heading(
            title or f"Up to {full} registers a thread, {percent(share[16])} of the warps have room",
            f"{arch}   ·   blocks of {threads} threads   ·   {limits['registers']:,} registers and {most} warps a "
            "multiprocessor",
        )  # fmt: skip
        page.text(12, 66, "resident warps", size=SMALL, color=MUTED)
        ax = page.axes(52, 80, page.width - 20, 290)
        ax.step(list(counts), [most * share[count] for count in counts], where="mid", color=PALE)
        ax.set(xlim=(14, 256), ylim=(0, most * 1.1), xlabel="registers of a thread")
        ticks = [16, 32, 64, 96, 128, 160, 192, 224, 255]
        ax.set_xticks(ticks, [str(tick) for tick in ticks])
        ax.set_yticks(range(0, most + 1, 16))
        ax.grid(axis="y")
        ax.spines["left"].set_visible(False)
        words = []
        for row, (count, labels) in enumerate(sorted(points.items())):  # named in a list: the points lie too close
            ax.plot(count, most * share[count], "o", ms=7, color=BLUE, mec=PAPER, mew=1.2, zorder=5)
            y, clear = 108 + 18 * row, {"facecolor": PAPER, "edgecolor": "none", "pad": 2}
            page.text(312, y, f"{count}", ha="right", weight="bold", bbox=clear)
            page.text(324, y, ";  ".join(labels), bbox=clear)
            words.append(f"{'; '.join(labels)}: {count} registers, {percent(share[count])} of {most} warps.")
        page.alt = f"Staircase, resident warps over registers a thread, {arch}. {' '.join(words)}"
