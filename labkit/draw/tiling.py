"""Pictures of tiles: how tiles of several widths cover a layer, and what each width costs."""

import numpy as np

from labkit.base.errors import LabError
from labkit.base.limits import MAX_THREADS
from labkit.draw.evidence import BANKS
from labkit.draw.style import AMBER, BLUE, INK, MUTED, ORANGE, SMALL, TINT, WARM, WIDTH, canvas, percent, rect


def tilings(layer, widths=(8, 16, 27, 32), title=None, path=None):
    """The same output map under tiles of several widths: tails, halos, shared memory and bank conflicts of each.

    Parameters
    ----------
    layer : Layer
    widths : sequence of int
        Sides of square tiles, a thread an output.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If a width makes no block of a GPU.
    """
    bad = [width for width in widths if not 1 <= width <= 32]
    if bad or not len(widths):
        raise LabError(f"draw.tilings: tiles of {bad or 'no'} width; a block has 1 to {MAX_THREADS} threads, "
                       "so 1 to 32 it is")  # fmt: skip
    rows = [costs(layer, width) for width in widths]
    idle = [row["idle"] for row in rows]
    best, worst = widths[int(np.argmin(idle))], widths[int(np.argmax(idle))]
    message = f"{percent(max(idle))} of the threads idle under tiles of {worst}"
    if max(idle) > min(idle):
        message += f", {percent(min(idle))} under tiles of {best}"
    left, y = 200, 92
    pitch = (WIDTH - left) / len(widths)
    reach = max(width * -(-max(layer.Wo, layer.Ho) // width) for width in widths)
    scale = min(128.0, pitch - 16) / reach
    lines = {
        "threads without an output": [percent(row["idle"]) for row in rows],
        "inputs loaded, for one needed": [f"{row['loaded']:.2f}" for row in rows],
        "shared memory of a block": [f"{row['bytes']:,} B" for row in rows],
        "wavefronts of a shared load": [f"{row['wavefronts']:.2f}" for row in rows],
    }
    with canvas(y + reach * scale + 34 + 21 * len(lines), path=path) as page:
        page.heading(title or message, f"{layer.name}   ·   an output map of {layer.Ho}×{layer.Wo}, K = {layer.K}")
        ax = page.paper()
        for i, (width, row) in enumerate(zip(widths, rows, strict=True)):
            x = left + i * pitch
            ax.text(x, y - 12, f"tile {width}", weight="bold")
            name = page.text_width(f"tile {width}  ", weight="bold")
            ax.text(x + name, y - 12, f"{row['down']}×{row['across']}", color=MUTED)
            w, h = row["across"] * width * scale, row["down"] * width * scale
            if row["idle"]:
                rect(ax, x, y, w, h, WARM, ORANGE, 0, hatch="//////")
            rect(ax, x, y, layer.Wo * scale, layer.Ho * scale, TINT)
            for n in range(row["across"] + 1):
                ax.plot([x + n * width * scale] * 2, [y, y + h], color=BLUE, lw=0.7)
            for n in range(row["down"] + 1):
                ax.plot([x, x + w], [y + n * width * scale] * 2, color=BLUE, lw=0.7)
            rect(ax, x, y, layer.Wo * scale, layer.Ho * scale, "none", INK, 1.6, zorder=3)
        top = y + reach * scale + 28
        for n, (name, values) in enumerate(lines.items()):
            ax.text(12, top + 21 * n, name, size=SMALL, color=AMBER if n == 0 else MUTED)
            for i, value in enumerate(values):
                ax.text(left + i * pitch, top + 21 * n, value, size=SMALL, color=AMBER if n == 0 else INK,
                        weight="bold" if n == 0 else "normal")  # fmt: skip
        said = (
            f"Tiles of {width}: {row['down']} down, {row['across']} across; "
            + ", ".join(f"{name} {values[i]}" for name, values in lines.items())
            for i, (width, row) in enumerate(zip(widths, rows, strict=True))
        )
        page.alt = f"{layer.name}, an output map of {layer.Ho}×{layer.Wo} under square tiles. {'. '.join(said)}."


def costs(layer, width: int) -> dict:
    """What tiles of a width cost on a layer, by arithmetic.

    Parameters
    ----------
    layer : Layer
    width : int
        Side of the square tile; a block has width² threads.

    Returns
    -------
    dict
        across, down (tiles), idle (share of the threads without an output), loaded (inputs loaded over inputs there
        are, halo included, what lies outside of the image not), bytes (shared memory of a block), wavefronts (mean of
        a warp's shared load, where the tile's rows lie next to each other).
    """
    across, down, side = -(-layer.Wo // width), -(-layer.Ho // width), width + layer.K - 1
    columns = sum(min(side, layer.W - width * i) for i in range(across))
    rows = sum(min(side, layer.H - width * i) for i in range(down))
    return {
        "across": across,
        "down": down,
        "idle": 1 - layer.Wo * layer.Ho / (across * down * width**2),
        "loaded": columns * rows / (layer.W * layer.H),
        "bytes": 4 * side**2,
        "wavefronts": float(np.mean(wavefronts(width, side))),
    }


def wavefronts(width: int, distance: int) -> list[int]:
    """Of each warp of a block of width × width threads: the turns that it takes to read a word each, thread (x, y) the
    word y · distance + x of shared memory."""
    threads = np.arange(width**2)
    words = threads // width * distance + threads % width  # no two alike, so each lane of a bank takes a turn
    return [int(np.bincount(words[first : first + 32] % BANKS).max()) for first in range(0, width**2, 32)]
