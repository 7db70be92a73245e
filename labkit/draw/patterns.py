"""Patterns that threads compute together: values step by step, teams of warps, what a tensor core reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from matplotlib.ticker import MaxNLocator

from hostcuda.limits import WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import WIDTH, Page, count, ink_on, on_new_page, widest

_HIGH, _GAP, _TOP = 26, 40, 62  # pixels: a cell, the way between two rows, the first row


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def steps(
    page: Page, rows: Mapping[str, Sequence[object]], moves: Sequence[Sequence[tuple[int, int]]]
) -> None:
    """Draw rows of cells, one under the other, with lines from each cell to those that use it in the next row.

    Parameters
    ----------
    rows : mapping of str to sequence
        A row's name, and the texts of its cells; None for a place that is not used any more.
        Shorter rows stand in the middle.
    moves : sequence of sequences of (int, int)
        For each row but the last: from which of its cells to which cell of the next row; orange if
        several lead there.
    """
    sizes = [len(cells) for cells in rows.values()]
    if not sizes or not all(1 <= size <= WARP for size in sizes) or len(moves) != len(sizes) - 1:
        raise LabError(
            f"draw.steps: give rows of 1 to {WARP} cells, and a list of moves from each to the next; got "
            f"rows of {sizes} cells and {count(len(moves), 'list')} of moves"
        )
    for (size, next_size), pairs in zip(pairwise(sizes), moves, strict=True):
        if not all(0 <= a < size and 0 <= b < next_size for a, b in pairs):
            raise LabError(
                f"draw.steps: a move leads beyond a row of {size} or of {next_size} cells"
            )
    # pixels: left edge of the widest row, width of a cell; _TOP: the first row, _HIGH: a cell, _GAP: between rows
    left = 34 + widest(rows)
    pitch = min(64, (WIDTH - 16 - left) / max(sizes))
    height = _TOP + len(sizes) * (_HIGH + _GAP) - _GAP + 16
    # per row: cell -> how many values arrive there
    arrivals = [Counter(), *(Counter(b for _, b in pairs) for pairs in moves)]
    meets = any(times > 1 for places in arrivals for times in places.values())
    page.open(
        height, count(len(moves), "step"), "orange: a place where several values meet" * meets
    )
    begins = [left + (max(sizes) - size) * pitch / 2 for size in sizes]
    for i, (name, cells) in enumerate(rows.items()):
        y = _TOP + i * (_HIGH + _GAP)
        page.small(12, y + 17, name, style.INK)
        for column, text in enumerate(cells):
            x = begins[i] + column * pitch
            face = style.ORANGE if arrivals[i][column] > 1 else style.TINT
            if text is None:
                page.rect(x + 1, y, pitch - 2, _HIGH, style.PAPER, style.HAIR, 1)
                continue
            page.rect(x + 1, y, pitch - 2, _HIGH, face)
            page.text(
                x + pitch / 2, y + 17, str(text), ha="center", color=ink_on(face), size=style.SMALL
            )
        for a, b in moves[i] if i < len(moves) else ():  # none from the last row
            xs = begins[i] + (a + 0.5) * pitch, begins[i + 1] + (b + 0.5) * pitch
            color = style.BLUE if arrivals[i + 1][b] > 1 else style.PALE
            page.line(xs, [y + _HIGH, y + _HIGH + _GAP], color, 1.2, zorder=0.5)
    alts = (
        f"{name}: {' '.join('-' if text is None else str(text) for text in cells)}"
        for name, cells in rows.items()
    )
    page.alt = f"Rows of values, with lines from each to where it is used in the next row. {'; '.join(alts)}."


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def teams(page: Page, fetch: float = 3, compute: float = 4, store: float = 2) -> None:
    """Draw when fetch, compute and store warps of a block work on which image, and the barriers where they meet.

    Images have two buffers, and so have maps: a team may be one image ahead of the next.

    Parameters
    ----------
    fetch, compute, store : float
        How long a team works on an image, in any unit.
    """
    needed = {"fetch": fetch, "compute": compute, "store": store}
    if not all(0 < time < 1e6 for time in needed.values()):  # infinity and NaN are refused, too
        raise LabError(f"draw.teams: give times above 0; got {needed}")
    # Bars: (team, image, start, end). Barriers: (team before it, time). `passed`: when each team
    # was done with its last image; the fourth entry stays 0, because the last team waits for none.
    bars, barriers, passed = [], [], [0.0] * 4
    for image in range(4):
        start = passed[0]
        for team, time in enumerate(needed.values()):
            bars.append((team, image, start, start + time))
            # The barrier to the next team: both are there. The next one begins with this image.
            start = passed[team] = max(start + time, passed[team + 1])
            barriers += [(team, start)] * (team < 2)  # no team follows the store warps
    slowest = max(needed, key=needed.get)
    page.open(
        316,
        f"The {slowest} warps set the pace: {needed[slowest]:g} per image, not {sum(needed.values()):g}",
        "time from left to right   ·   numbered by image   ·   thin lines: a team waits",
    )
    # pixels: the beginning of time, from one team to the next, the height of a bar
    left, lane, high = 128, 78, 30
    names = ("fetch warps", "compute warps", "store warps")
    scale = (page.width - left - 16) / passed[2]
    for i, name in enumerate(names):
        y = 76 + i * lane
        page.small(12, y + 19, name, style.INK, weight="bold")
        page.line([left, left + passed[2] * scale], [y + high / 2] * 2, style.HAIR)
    for team, image, start, end in bars:
        x = left + start * scale
        y = 76 + team * lane
        face = (style.SKY, style.BLUE, style.ORANGE)[team]
        page.rect(x + 1, y, (end - start) * scale - 2, high, face, zorder=2)
        page.text(
            x + (end - start) * scale / 2,
            y + 20,
            str(image),
            ha="center",
            color=ink_on(face),
            zorder=3,
        )
    for gap, moment in barriers:
        x, y = left + moment * scale, 76 + high + gap * lane
        page.arrow(x, x, y, style.INK, 1.4, y + lane - high, "<|-|>")
    for gap, name in enumerate(("IMAGE", "OUTPUT")):
        page.small(12, 76 + high + gap * lane + 30, f"barrier {name}")
    page.small(
        12,
        306,
        "An arrow is a barrier: both teams arrive, then both go on. This buffer is full, the other one "
        "is free.",
    )
    texts = "; ".join(
        f"{names[team]}, image {image}: {start:g} to {end:g}" for team, image, start, end in bars
    )
    page.alt = f"Timeline of three teams of warps, with barriers between neighbours where an image passes on. {texts}."


@dataclass
class _Tile:
    """The times of a tile of a ring: it is loaded from `start` to `loaded`, and read from `begin` to `done`.

    Its stage is full from `full` on: then the producer goes on to the next tile. It is empty again
    after `done`.
    """

    start: float
    loaded: float
    full: float
    begin: float
    done: float


def _hand_over(
    load: Sequence[float], read: float, stages: int, producer_waits: bool
) -> list[_Tile]:
    """Return the times of the tiles of a ring with this many `stages`.

    `load` has the time to load each tile, `read` is the time to read one. `producer_waits` says
    whether the producer waits at `full` until the consumers come, or goes on at once.
    """
    tiles: list[_Tile] = []
    for i, time in enumerate(load):
        start = tiles[-1].full if tiles else 0.0
        if i >= stages:  # the stage of an earlier tile, which has to be empty
            start = max(start, tiles[i - stages].done)
        loaded = start + time
        begin = max(loaded, tiles[-1].done if tiles else 0.0)
        tiles.append(_Tile(start, loaded, begin if producer_waits else loaded, begin, begin + read))
    return tiles


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def ring(
    page: Page,
    load: Sequence[float] = (1, 1, 1, 6, 1, 1),
    read: float = 2,
    rings: Mapping[str, tuple[int, str]] | None = None,
) -> None:
    """Draw when a producer loads and consumers read the tiles of a ring buffer, one panel per ring.

    Parameters
    ----------
    load : sequence of float
        How long the producer loads each tile, in any unit.
    read : float
        How long the consumers read a tile.
    rings : mapping of str to (int, str)
        A panel's name, the number of stages (tiles that the buffer has room for), and what the
        producer does when a tile is full: "bar.sync" (it waits for the consumers) or "bar.arrive" (it goes
        on). By default one stage with the first and three with the second.
    """
    rings = rings or {"one buffer": (1, "bar.sync"), "three stages": (3, "bar.arrive")}
    if not 1 <= len(load) <= WARP or not all(0 < time < 1e6 for time in (*load, read)):
        raise LabError(f"draw.ring: give 1 to {WARP} times above 0; got {[*load]} and {read}")
    for stages, at_full in rings.values():
        if stages < 1 or at_full not in ("bar.sync", "bar.arrive"):
            raise LabError(
                "draw.ring: a ring is its stages, 1 or more, and bar.sync or bar.arrive; got "
                f"{(stages, at_full)}"
            )
    # name -> its tiles, each with the times start, loaded, begin (of the reading) and done
    panels = {
        name: _hand_over(load, read, stages, producer_waits=at_full == "bar.sync")
        for name, (stages, at_full) in rings.items()
    }
    ends = {name: tiles[-1].done for name, tiles in panels.items()}
    page.open(
        64 + 118 * len(rings) + 34,  # the heading, the panels, the axis of the times
        f"{count(len(load), 'tile')}: "
        + ", ".join(f"{end:g}" for end in ends.values())
        + " units of time",
        "time from left to right   ·   numbered by tile   ·   thin lines: a team waits",
    )
    left, high = 100, 28
    scale = (page.width - left - 16) / max(ends.values())
    bottom = 64 + 118 * len(rings) - 6
    ticks = MaxNLocator(12, integer=True).tick_values(0, max(ends.values()))
    for tick in ticks[ticks <= max(ends.values())]:
        x = left + tick * scale
        page.line([x, x], [64 + 20, bottom], style.HAIR, 0.8)
        page.small(x, bottom + 16, f"{tick:g}", ha="center")
    page.small(12, bottom + 16, "units of time")
    for row, (name, tiles) in enumerate(panels.items()):
        top = 64 + 118 * row
        stages, at_full = rings[name]
        page.small(12, top + 14, name, style.INK, weight="bold")
        page.small(
            page.width - 16,
            top + 14,
            f"{count(stages, 'stage')}, {at_full} at full: {ends[name]:g}",
            ha="right",
        )
        rows = {
            "producer": (style.SKY, [(tile.start, tile.loaded) for tile in tiles]),
            "consumers": (style.BLUE, [(tile.begin, tile.done) for tile in tiles]),
        }
        for lane, (team, (face, bars)) in enumerate(rows.items()):
            y = top + 24 + lane * (high + 14)
            page.small(12, y + 18, team)
            page.line([left, left + bars[-1][1] * scale], [y + high / 2] * 2, style.HAIR)
            for i, (start, end) in enumerate(bars):
                page.rect(
                    left + start * scale + 1, y, (end - start) * scale - 2, high, face, zorder=2
                )
                x = left + (start + end) / 2 * scale
                page.text(x, y + 19, str(i), ha="center", color=ink_on(face), zorder=3)
        for tile in tiles:  # from where it is loaded to where it is read
            x, to = (left + moment * scale for moment in (tile.loaded, tile.begin))
            page.line([x - 1, to + 1], [top + 24 + high, top + 24 + high + 14], style.INK, 1.2)
    page.alt = "Timelines of a producer and consumers. " + " ".join(
        f"{name}: "
        + "; ".join(
            f"tile {i} is loaded from {tile.start:g} to {tile.loaded:g} and read from "
            f"{tile.begin:g} to {tile.done:g}"
            for i, tile in enumerate(tiles)
        )
        + "."
        for name, tiles in panels.items()
    )


_LAST_HALF, _FIRST_INFINITE = -24, 16  # powers of two: the smallest half; where halves are infinite


def split_bits(exponent: int) -> tuple[int, int, int]:
    """Return how many of a float's 24 bits its high part has, its low part, and neither, such as (11, 12, 1).

    The parts are two float16 numbers ("halves"), whose sum stands for the float on tensor cores.
    The float is at least half of 2^exponent, and below it. The high part has 11 bits. The low part
    has 11, and its sign is worth one more. Neither reaches below 2^-24. From 2^16 on the high part
    is infinite: no bit is left.
    """
    if exponent > _FIRST_INFINITE:
        return 0, 0, 24
    room = max(0, exponent - _LAST_HALF)  # bits from the first one down to 2^-24
    kept = min(23, room)
    high = min(11, room)
    return high, kept - high, 24 - kept


def _write_power(exponent: int) -> str:
    """Return a power of two as text, with a raised exponent."""
    return "2" + str(exponent).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def bits(page: Page, exponents: Sequence[int] = (14, 0, -8, -14, -20), scale: int = 0) -> None:
    """Draw floats that are split into two float16 numbers ("halves"): which bits each half has, and which are lost.

    Parameters
    ----------
    exponents : sequence of int
        A row per number: it is at least half of 2^exponent, and below it.
    scale : int
        Each number is multiplied by 2^scale before it is split.
    """
    if not exponents or not all(-40 <= exponent + scale <= 40 for exponent in exponents):
        raise LabError(f"draw.bits: give powers from -40 to 40; got {[*exponents]} and {scale}")
    powers = [exponent + scale for exponent in exponents]
    parts = [split_bits(power) for power in powers]
    fewest = min(high + low for high, low, _ in parts)  # bits that are kept
    top, pitch, left, right = 88, 30, 84, WIDTH - 84
    height = top + pitch * len(parts) + 40
    page.open(
        height,
        f"Of 24 bits the two halves keep {fewest} to {max(high + low for high, low, _ in parts)}"
        if fewest < 23
        else "Of 24 bits the two halves keep 23 of each number",
        "a square per bit, at its power of two"
        + f"   ·   each number times {_write_power(scale)}" * bool(scale),
    )
    low_part = "low part: at most 11 bits and the sign"
    page.legend(left, 66, {"high part": style.BLUE, low_part: style.SKY, "lost": style.WARM})
    # the powers of two at the ends of the axis (the line at `_LAST_HALF` is on it), the pixels per bit
    first, last = max(*powers, _LAST_HALF + 2), min(*powers, 0) - 24
    wide = (right - left) / (first - last)
    for row, (power, exponent, counts) in enumerate(zip(powers, exponents, parts, strict=True)):
        y = top + row * pitch
        page.text(left - 12, y + 15, f"near {_write_power(exponent)}", ha="right")
        faces = [
            face
            for face, many in zip((style.BLUE, style.SKY, style.WARM), counts, strict=True)
            for _ in range(many)
        ]
        for i, face in enumerate(faces):
            page.rect(left + (first - power + i) * wide + 0.5, y, wide - 1, 20, face)
        high, low, _ = counts
        text = f"{high + low} bits" if high else "infinite"
        page.text(page.width - 16, y + 15, text, ha="right", color=style.INK, weight="bold")
    x = left + (first - _LAST_HALF) * wide
    page.line([x, x], [top - 6, height - 30], style.RUST, 1.6, ls=style.DASHED)
    page.small(x, height - 14, f"halves end at {_write_power(_LAST_HALF)}", style.RUST, ha="center")
    page.alt = "The 24 bits of floats, split into two halves. " + " ".join(
        f"Near 2^{exponent}"
        + f", times 2^{scale}" * bool(scale)
        + (
            f": {high} bits in the high part, {low} in the low part, {lost} lost."
            if high
            else ": the high part is infinite."
        )
        for exponent, (high, low, lost) in zip(exponents, parts, strict=True)
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def descriptor(page: Page, columns: int = 16, at: int = 1024) -> None:
    """Draw the columns that a `wgmma` reads from shared memory, and the 64 bits that say where they are.

    Parameters
    ----------
    columns : int
        Of the product: 8 or 16.
    at : int
        Where they begin in shared memory, a multiple of 16 bytes.
    """
    # the address is a field of 14 bits, in units of 16 bytes
    if columns not in (8, 16) or at % 16 or not 0 <= at < 1 << 18:
        raise LabError(
            f"draw.descriptor: 8 or 16 columns at a multiple of 16 below 262,144; got {columns} at {at}"
        )
    page.open(
        432,
        "Eight columns of 16 bytes are a block; three numbers say where the blocks are",
        "shared memory, addresses downwards   ·   a row of cells: 16 bytes, eight terms of a column",
    )
    cell, high, blocks = 15, 12, columns // 8  # pixels: width and height of a cell
    for half, color in enumerate((style.BLUE, style.ORANGE)):
        for block in range(blocks):
            x, y = 120 + half * 330, 92 + block * 124
            page.cells(x, y, 8, 8, cell, style.TINT, style.HAIR, high=high)
            page.rect(x, y, 8 * cell, high, color, alpha=0.85)
            page.small(
                x - 8, y + 11, f"{at + 16 * (half * columns + 8 * block):,}", style.INK, ha="right"
            )
            page.small(x + 8 * cell + 8, y + 11, f"column {8 * block}", style.INK)
            page.small(x + 8 * cell + 8, y + 8 * high - 2, f"column {8 * block + 7}", style.INK)
        page.small(
            120 + half * 330, 82, f"terms {8 * half} to {8 * half + 7}", style.INK, weight="bold"
        )
    if blocks > 1:
        page.arrow(60, 60, 108, style.INK, 1.4, 216)
        page.small(12, 166, "NEXT")
    page.arrow(330, 440, 140, style.INK, 1.4)
    page.small(362, 132, "APART")
    # Name and value, the lowest bit, the bit after the highest. NEXT and APART are distances: from a block
    # to the next eight columns, and to the other terms of the same columns.
    fields = (
        ("swizzle: 0", 62, 64, style.HAIR),
        ("NEXT: 8", 32, 46, style.SKY),
        (f"APART: {columns}", 16, 30, style.ORANGE),
        (f"address: {at // 16}", 0, 14, style.BLUE),
    )
    left, wide_bit = 24, (page.width - 48) / 64
    page.small(
        left, 338, "the descriptor, bit 63 on the left; all three in units of 16 bytes", style.INK
    )
    page.cells(left, 362, 1, 64, wide_bit, style.TINT, style.HAIR, high=28)
    for name, low, end, color in fields:
        x, w = left + (64 - end) * wide_bit, (end - low) * wide_bit
        page.rect(x, 362, w, 28, color, zorder=2)
        page.small(
            x + w / 2 if w > 40 else x, 410, name, style.INK, ha="center" if w > 40 else "left"
        )
        page.small(x + w, 356, str(low), ha="right")
    page.alt = (
        f"Shared memory: blocks of eight columns with 16 bytes each, first those of terms 0 to 7, then those "
        f"of terms 8 to 15. The descriptor: bits 0 to 13 the address over 16, {at // 16}; bits 16 to 29 APART, "
        f"{columns}, from a block to the other terms of its columns; bits 32 to 45 NEXT, 8, from a block to "
        "the next eight columns; bits 62 and 63 the swizzle, 0."
    )
