"""How full the tiles of a warp-wide matrix product are."""

from labkit.base.errors import LabError
from labkit.draw.style import AMBER, BLUE, FAINT, INK, MUTED, SMALL, TINT, WIDTH, canvas, percent, rect
from labkit.ladder.rungs.tensor_cores import WMMA_SHAPES

SHAPES = tuple(sorted(WMMA_SHAPES))


def fill(maps, shape):
    """How many tiles of `shape` (maps, pixels, depth) cover `maps` maps, and the share of their rows that is used."""
    tiles = -(-maps // shape[0])
    return tiles, maps / (tiles * shape[0])


def wmma_fill(maps=(4, 12, 16, 24), shapes=SHAPES, title=None, path=None):
    """How full the tiles of each WMMA shape are, and how often the inputs are read, by the number of maps.

    Parameters
    ----------
    maps : sequence of int
        Output maps of the layers, a column each.
    shapes : sequence of (int, int, int)
        Maps, pixels and depth of a WMMA, a row each.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there is nothing to draw, or a number of maps is none.
    """
    maps, shapes = list(maps), [tuple(shape) for shape in shapes]
    if not maps or not shapes or min(maps) < 1:
        raise LabError(f"draw.wmma_fill: maps = {maps}, shapes = {shapes}; at least one of each, and maps of 1 or more")
    rows = [max(fill(m, shape)[0] for m in maps) * shape[0] for shape in shapes]
    unit = min(4.0, 128 / max(rows))  # pixels a map
    tops = [100 + sum(rows[:i]) * unit + 54 * i for i in range(len(rows) + 1)]
    left = 138
    pitch = (WIDTH - left - 14) / len(maps)
    with canvas(tops[-1] - 10, path=path) as page:
        low = min((fill(m, shape)[1], m, shape) for m in maps for shape in shapes)
        page.heading(
            title or f"With {low[1]} maps a {'×'.join(map(str, low[2]))} tile is {percent(low[0])} full",
            "blue: maps of the layer   ·   hatched: rows of zeros   ·   each further tile reads all inputs again",
        )
        ax = page.paper()
        for j, m in enumerate(maps):
            ax.text(left + j * pitch, 84, f"{m} maps", weight="bold")
        words = []
        for i, shape in enumerate(shapes):
            top = tops[i]
            ax.text(14, top + 12, "×".join(map(str, shape)), weight="bold")
            ax.text(14, top + 28, f"{shape[0]} maps", size=SMALL, color=MUTED)
            ax.text(14, top + 43, f"of {shape[1]} pixels", size=SMALL, color=MUTED)
            wide = min(shape[1] * unit, pitch - 16)
            for j, m in enumerate(maps):
                tiles, share = fill(m, shape)
                x = left + j * pitch
                for tile in range(tiles):
                    y, used = top + tile * shape[0] * unit, min(shape[0], m - tile * shape[0])
                    rect(ax, x, y, wide, shape[0] * unit, TINT, FAINT, 0.8, hatch="////")
                    rect(ax, x, y, wide, used * unit, BLUE)
                    rect(ax, x, y, wide, shape[0] * unit, "none", INK, 1.0, zorder=3)
                below = top + tiles * shape[0] * unit + 15
                full = percent(share) + " full"
                ax.text(x, below, full, size=SMALL, weight="bold", color=INK if share > 0.5 else AMBER)
                if tiles > 1:
                    ax.text(x, below + 15, f"inputs read {tiles} times", size=SMALL, color=MUTED)
                count = f"{tiles} tile{'s' * (tiles > 1)}"
                words.append(f"{m} maps in tiles of {'×'.join(map(str, shape))}: {count}, {full}")
        page.alt = f"How full the tiles of a WMMA are. {'. '.join(words)}."
