"""The figure of page 10: a window of the image as a column of a product, and which lane hands in which word."""

import numpy as np

from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import AMBER, BLUE, INK, MUTED, SMALL, WARM, canvas, caption, cells, percent, rect

WIDE, SIDE, MAPS = 8, 2, 4  # inputs in a row of a window; outputs along a square; maps of a product


def placed(K):
    """Where a product's rows have a weight: [16, terms] of bool; row 8 w + 2 m + h is output (h, w) of map m."""
    high = (K + SIDE) // 2 * 2  # rows of a window: K + 1 of them, made even
    where = np.zeros((SIDE, MAPS, SIDE, high, WIDE), bool)
    for w in range(SIDE):
        for h in range(SIDE):
            where[w, :, h, h : h + K, w : w + K] = True
    return where.reshape(SIDE * MAPS * SIDE, high * WIDE)


def squares(K=7, lane=1, title=None, path=None):
    """How rung 10 makes a product of a window: its words by lane, the mask in it, and the 16 rows of the product.

    Parameters
    ----------
    K : int
        Side of the mask, at most 7.
    lane : int
        Of the first square's four, the one whose words are marked: 0 to 3.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the mask is larger than a window allows, or the lane hands in nothing of the first square.
    """
    if not (1 <= K <= WIDE - 1 and 0 <= lane < WIDE // 2):
        raise LabError(f"draw.squares: K, lane = {K}, {lane}: K from 1 to {WIDE - 1}, lane from 0 to {WIDE // 2 - 1}")
    where = placed(K)
    rows, terms = where.shape
    high, steps = terms // WIDE, terms // 16
    cell, small, tiny = 20, 11, 9
    top = 98
    below = top + max(high * cell, high * small + 66) + 56
    with canvas(below + rows * tiny + 62, path=path) as page:
        page.heading(
            title
            or f"A column of a product is a window of {high} × {WIDE}; {percent(where.mean())} of the terms are of use",
            f"a square of 2 × 2 outputs in {MAPS} maps, K = {K}   ·   orange: what lane {lane} of the warp hands in",
        )
        ax = page.paper()

        left = 24
        caption(page, ax, left, top - 14, "A window", f"{high * WIDE // 2} words")
        rect(ax, left + 2 * lane * cell, top, 2 * cell, high * cell, WARM)
        cells(ax, left, top, high, WIDE, cell, "none")
        for row in range(high):
            for word in range(WIDE // 2):
                x, y = left + 2 * word * cell, top + row * cell
                rect(ax, x, y, 2 * cell, cell, "none", INK, 1.0, zorder=3)
                mine = word == lane
                ax.text(x + cell, y + 14, str(word), ha="center", size=SMALL, weight="bold" if mine else "normal",
                        color=AMBER if mine else MUTED)  # fmt: skip
        ax.text(left, top + high * cell + 16, "in each word: its lane", size=SMALL, color=MUTED)

        left = 252
        caption(page, ax, left, top - 14, "Its square", "where the mask lies for each of the four outputs")
        for i, (h, w) in enumerate(np.ndindex(SIDE, SIDE)):
            x, y = left + i * (WIDE * small + 36), top + 22
            ax.text(x, y - 6, f"row {h}, column {w}", size=SMALL, color=MUTED)
            rect(ax, x + w * small, y + h * small, K * small, K * small, BLUE)
            cells(ax, x, y, high, WIDE, small, "none")
        y = top + 22 + high * small + 20
        ax.text(left, y, f"blue: {K} × {K} weights, the others are zeros", size=SMALL, color=MUTED)
        ax.text(left, y + 16, "the mask moves by a column, the words stay where they are", size=SMALL, color=MUTED)

        left = 160
        ax.text(24, below - 14, f"Its {rows} rows", weight="bold")
        for step in range(steps):
            x, two = left + (step + 0.5) * 16 * tiny, f"inputs of rows {2 * step} and {2 * step + 1}"
            ax.text(x, below - 14, two, ha="center", size=SMALL, color=MUTED)
        for row in range(rows):
            y, ink = below + row * tiny, (BLUE, style.SKY)[row // 2 % 2]
            for at in np.flatnonzero(where[row]):
                rect(ax, left + at * tiny, y, tiny, tiny, ink)
            if row % 2 == 0:
                ax.text(left - 10, y + tiny + 4, f"map {row // 2 % MAPS}", ha="right", size=SMALL, color=MUTED)
        cells(ax, left, below, rows, terms, tiny, "none")
        for w in range(SIDE):
            y = below + w * rows // 2 * tiny
            ax.text(left - 60, y + rows // 4 * tiny + 4, f"column {w}", ha="right", size=SMALL)
            rect(ax, left, y, terms * tiny, rows // 2 * tiny, "none", INK, 1.0, zorder=3)
        bottom = below + rows * tiny + 6
        for word in range(terms // 2):
            x, mine = left + 2 * word * tiny, word % (WIDE // 2) == lane
            rect(ax, x, bottom, 2 * tiny, 16, WARM if mine else style.PAPER, style.ORANGE if mine else MUTED, 0.6)
            ax.text(x + tiny, bottom + 12, str(word % (WIDE // 2)), ha="center", size=SMALL,
                    weight="bold" if mine else "normal", color=AMBER if mine else MUTED)  # fmt: skip
        for step in range(1, steps):
            ax.plot(2 * [left + 16 * step * tiny], (below - 4, bottom + 20), color=INK, lw=1.4, zorder=4)
        ax.text(left - 10, bottom + 12, "lane of each word", ha="right", size=SMALL, color=MUTED)
        steps_of = f"{steps} step{'s' * (steps > 1)} of 16 terms, two rows of the window each"
        ax.text(left, bottom + 36, steps_of, size=SMALL, color=MUTED)
        page.alt = (
            f"A window of {high} by {WIDE} inputs, {high * WIDE // 2} words of two; word 0 to {WIDE // 2 - 1} of every "
            f"row is handed in by lane 0 to {WIDE // 2 - 1}. For each output of a square of 2 by 2 the mask of {K} by "
            f"{K} lies at the output's row and column, among zeros. Below, the product's {rows} rows, {MAPS} maps by 2 "
            f"by 2 outputs, over its {terms} terms, {steps_of}: {percent(where.mean())} of them weights."
        )
