"""The figure of page 07: what a thread keeps in registers, and how often it uses it."""

from labkit.base.errors import LabError
from labkit.draw.style import AMBER, BLUE, MUTED, ORANGE, PALE, PAPER, SMALL, TINT, WARM, canvas, cells, rect

_SPREAD = 7  # columns of a map that are drawn


def outputs_per_thread(rows, maps, K, title=None, path=None):
    """A thread of rung 07 at one column of the mask: the inputs and mask elements it loads, the sums that use them.

    Parameters
    ----------
    rows, maps : int
        Outputs below each other, and maps; at most 20 and 8.
    K : int
        Side of the mask, at most 7.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there are more or fewer of them than can be drawn.
    """
    if not (1 <= rows <= 20 and 1 <= maps <= 8 and 1 <= K <= 7):
        raise LabError(f"draw.outputs_per_thread: rows, maps, K = {rows}, {maps}, {K}: at most 20, 8 and 7, at least 1")
    inputs, products = rows + K - 1, rows * maps * K
    loads = inputs + maps * K
    cell = min(18, 250 / inputs)
    top = 112
    with canvas(top + inputs * cell + 48, path=path) as page:
        page.heading(
            title or f"{loads} numbers loaded, {products:,} products: each serves {products / loads:.3g} of them",
            f"one thread, {rows} {_s(rows, 'row')} in {maps} {_s(maps, 'map')}, at one of the {K} columns of the mask",
        )
        ax = page.paper()
        left = 24
        cells(ax, left, top, inputs, _SPREAD, cell, PAPER)
        rect(ax, left + 2 * cell, top, cell, inputs * cell, BLUE)
        cells(ax, left + 2 * cell, top, inputs, 1, cell, "none", edge=PAPER)
        _above(page, left, top, f"{inputs} inputs", "below each other, in registers")
        masks = left + _SPREAD * cell + max(60, 190 - _SPREAD * cell)
        for m in range(maps):
            x = masks + m * (cell + 6)
            cells(ax, x, top, K, 1, cell, WARM, edge=ORANGE)
        _above(page, masks, top, f"{maps} × {K} mask elements", "from shared memory, maps at once")
        sums = masks + max(maps * (cell + 6) + 50, 236)
        step = min(3 * cell + 8, (page.width - 24 - sums - 3 * cell) / max(maps - 1, 1))
        for m in range(maps):
            x = sums + m * step
            cells(ax, x, top, rows, 3, cell, TINT, edge=PALE)
            rect(ax, x + cell, top, cell, rows * cell, BLUE)
            cells(ax, x + cell, top, rows, 1, cell, "none", edge=PAPER)
        _above(page, sums, top, f"{maps} × {rows} sums", "in registers to the end")
        bottom = top + inputs * cell + 22
        page.text(24, bottom, "Every mask element meets every window of the column:", size=SMALL, color=MUTED)
        served = f"{min(K, rows)} {_s(min(K, rows), 'row')} and {maps} {_s(maps, 'map')}"
        words = f"an input serves up to {served}, a mask element {rows} {_s(rows, 'row')}."
        page.text(24, bottom + 16, words, size=SMALL, color=AMBER)
        page.alt = (
            f"A thread of rung 07 at one column of the mask: {inputs} inputs below each other in registers, {maps} "
            f"times {K} mask elements from shared memory, {maps} times {rows} sums in registers; {loads} numbers "
            f"loaded for {products} products."
        )


def _above(page, x, top, what, where):
    page.text(x, top - 28, what, weight="bold")
    page.text(x, top - 12, where, size=SMALL, color=MUTED)


def _s(count, word):
    return word if count == 1 else f"{word}s"
