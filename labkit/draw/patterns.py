"""Patterns that threads compute together: the value of each place after each step, and where it came from."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise

from hostcuda.limits import WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import WIDTH, Page, count, figure, ink_on, widest

_HIGH, _GAP, _TOP = 26, 40, 62  # pixels: a cell, the way between two rows, the first row


@figure
def steps(page: Page, rows: Mapping[str, Sequence[object]], moves: Sequence[Sequence[tuple[int, int]]]) -> None:
    """Draw rows of cells, one under the other, with lines from each cell to those that use it in the next row.

    Parameters
    ----------
    rows : mapping of str to sequence
        A row's name, and the texts of its cells; None for a place that is not used any more. Shorter rows
        stand in the middle.
    moves : sequence of sequences of (int, int)
        For each row but the last: from which of its cells to which cell of the next row. A cell that several lead to
        has a colour of its own.
    """
    sizes = [len(cells) for cells in rows.values()]
    if not sizes or not all(1 <= size <= WARP for size in sizes) or len(moves) != len(sizes) - 1:
        raise LabError(f"draw.steps: give rows of 1 to {WARP} cells, and a list of moves from each to the next; got "
                       f"rows of {sizes} cells and {count(len(moves), 'list')} of moves")
    for (size, next_size), pairs in zip(pairwise(sizes), moves, strict=True):
        if not all(0 <= a < size and 0 <= b < next_size for a, b in pairs):
            raise LabError(f"draw.steps: a move leads beyond a row of {size} or of {next_size} cells")
    left = 34 + widest(rows)
    pitch = min(64, (WIDTH - 16 - left) / max(sizes))
    height = _TOP + len(sizes) * (_HIGH + _GAP) - _GAP + 16
    arrivals = [Counter(), *(Counter(b for _, b in pairs) for pairs in moves)]
    meets = any(times > 1 for places in arrivals for times in places.values())
    page.open(height, count(len(moves), "step"), "orange: a place where several values meet" * meets)
    begins = [left + (max(sizes) - size) * pitch / 2 for size in sizes]
    for i, (name, cells) in enumerate(rows.items()):
        y = _TOP + i * (_HIGH + _GAP)
        page.small(12, y + 17, name, style.INK)
        for at, text in enumerate(cells):
            x, face = begins[i] + at * pitch, style.ORANGE if arrivals[i][at] > 1 else style.TINT
            if text is None:
                page.rect(x + 1, y, pitch - 2, _HIGH, style.PAPER, style.HAIR, 1)
                continue
            page.rect(x + 1, y, pitch - 2, _HIGH, face)
            page.text(x + pitch / 2, y + 17, str(text), ha="center", color=ink_on(face), size=style.SMALL)
        for a, b in moves[i] if i < len(moves) else ():
            xs = begins[i] + (a + 0.5) * pitch, begins[i + 1] + (b + 0.5) * pitch
            color = style.BLUE if arrivals[i + 1][b] > 1 else style.PALE
            page.line(xs, [y + _HIGH, y + _HIGH + _GAP], color, 1.2, zorder=0.5)
    said = (f"{name}: {' '.join('-' if text is None else str(text) for text in cells)}" for name, cells in rows.items())
    page.alt = f"Rows of values, with lines from each to where it is used in the next row. {'; '.join(said)}."
