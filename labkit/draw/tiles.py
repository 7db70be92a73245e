"""Illustrations of tiles: in shared memory, over a layer, of a matrix product, of a tensor core's product."""

from collections.abc import Sequence

import numpy as np

from hostcuda.limits import BANKS, MAX_THREADS, WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.start import draw_cover
from labkit.draw.style import SMALL, Page, count, on_new_page, percent, wide
from labkit.ladder.rungs.tensor_cores import WMMA_SHAPES
from labkit.spec.layers import Layer, as_layer


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def tile(page: Page, T: int = 16, K: int = 7) -> None:
    """Draw what a block with shared memory loads for T × T outputs: the tile and its halo, in passes of T × T threads.

    The halo is the inputs beyond the tile, below it and to its right, that the windows of its last outputs
    need. In a pass each thread loads one input.

    Parameters
    ----------
    T : int
        Side of the output tile and of the block.
    K : int
        Side of the mask.
    """
    if T < 1 or K < 1 or T * T > MAX_THREADS:
        raise LabError(
            f"draw.tile: T = {T}, K = {K}; T is 1 to 32 (a block has at most {MAX_THREADS} threads) and K "
            "at least 1"
        )
    side = T + K - 1
    # inputs that the outputs ask for, each window on its own; inputs of the tile; pixels of a cell
    asked, loaded, cell = T * T * K * K, side * side, min(13.0, 276 / side)
    # of the passes: row and column of the first input
    corners = [(i, j) for i in range(0, side, T) for j in range(0, side, T)]
    x0, y, tall = 26, 104, max(side * cell, 66)
    page.open(
        y + tall + 56,
        f"Load {loaded:,} inputs once instead of asking for {asked:,}",
        f"a tile of {T}×{T} outputs, one channel, K = {K}   ·   {asked / loaded:.1f} times fewer loads",
    )
    page.rect(x0, y, side * cell, side * cell, style.HALO)
    page.rect(x0, y, T * cell, T * cell, style.BLUE)  # the halo is below it and to its right
    page.cells(x0, y, side, side, cell, edge=style.PAPER)
    for n, (i, j) in enumerate(corners):
        # of what a pass loads, in pixels: a pass at the edge loads less
        h, w = min(T, side - i) * cell, min(T, side - j) * cell
        page.frame(x0 + j * cell, y + i * cell, w, h, style.INK, 1)
        if min(h, w) > 22 and len(corners) <= 9:  # room for the number of the pass
            page.text(
                x0 + j * cell + w / 2,
                y + i * cell + h / 2,
                str(n + 1),
                ha="center",
                va="center",
                zorder=4,
                weight="bold",
                bbox={"facecolor": style.PAPER, "edgecolor": "none", "pad": 2.5},
            )
    page.frame(x0, y, K * cell, K * cell, style.ORANGE, 3)  # the window of the first output
    page.rect(x0, y, cell, cell, style.ORANGE, style.PAPER, 1, zorder=3)
    size = f"{T} + {K} − 1 = {side} wide, {loaded * 4:,} bytes shared"
    page.caption(x0, y - 14, "input tile", size)
    x1 = x0 + max(side * cell + 130, wide("input tile  ", weight="bold") + wide(size) + 40)
    across, middle = y + max(T * cell / 2, 25), (x0 + side * cell + x1) / 2
    page.arrow(x0 + side * cell + 18, x1 - 18, across, style.MUTED, 1.4)
    page.small(middle, across - 10, f"{K * K} products", ha="center")
    page.small(middle, across + 19, "per output", ha="center")
    page.caption(x1, y - 14, "output tile", f"{T}×{T}, one thread each")
    page.cells(x1, y, T, T, cell, style.TINT, style.PAPER)
    page.rect(x1, y, cell, cell, style.ORANGE, style.PAPER, 1, zorder=3)
    page.frame(x0 + 1, y + tall + 11, 10, 10, style.ORANGE)
    page.small(
        x0 + 18, y + tall + 20, f"the window of one output, {K}×{K}", style.AMBER, weight="bold"
    )
    key = x0 + 40 + wide(f"the window of one output, {K}×{K}", weight="bold")
    for face, what in ((style.BLUE, "the tile"), (style.HALO, "the halo")):
        page.rect(key, y + tall + 11, 10, 10, face)
        page.small(key + 17, y + tall + 20, what, style.INK)
        key += 40 + wide(what)
    passes = f"{len(corners)} passes" if len(corners) > 1 else "one pass"
    many = f"The block’s {T * T} threads load the tile in {passes}"
    page.small(
        x0, y + tall + 40, f"{many}{', numbered' if 1 < len(corners) <= 9 else ''}.", style.INK
    )
    page.alt = (
        f"A tile of {T}×{T} outputs needs {side}×{side} = {loaded:,} inputs per channel, halo included. "
        f"{many}; without the tile its outputs would ask for {asked:,}."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def tilings(page: Page, layer: Layer | str) -> None:
    """Draw an output map under tiles of several widths: tails, halos, shared memory and bank conflicts of each.

    Parameters
    ----------
    layer : Layer or its name
    """
    layer = as_layer(layer)
    widths = (8, 16, 27, 32)  # sides of square tiles, in outputs, of one thread each
    rows = [compute_costs(layer, width) for width in widths]
    idle = [row["idle"] for row in rows]
    message = (
        f"{percent(max(idle))} of the threads idle under tiles of {widths[idle.index(max(idle))]}"
    )
    message += f", {percent(min(idle))} under tiles of {widths[idle.index(min(idle))]}"
    left, y, pitch = 200, 92, (style.WIDTH - 200) / len(widths)
    # the largest side of a map that tiles cover, in outputs: whole tiles reach beyond the map
    reach = max(width * -(-max(layer.Wo, layer.Ho) // width) for width in widths)
    scale = min(128.0, pitch - 16) / reach
    lines = {
        "threads without an output": [percent(row["idle"]) for row in rows],
        "inputs loaded per input needed": [f"{row['loaded']:.2f}" for row in rows],
        "shared memory per block": [f"{row['bytes']:,} B" for row in rows],
        "wavefronts per shared load": [f"{row['wavefronts']:.2f}" for row in rows],
    }
    page.open(
        y + reach * scale + 34 + 21 * len(lines),
        message,
        f"{layer.name}   ·   an output map of {layer.Ho}×{layer.Wo}, K = {layer.K}",
    )
    page.alt = f"{layer.name}, an output map of {layer.Ho}×{layer.Wo} under square tiles."
    for i, (width, row) in enumerate(zip(widths, rows, strict=True)):
        page.caption(left + i * pitch, y - 12, f"tile {width}", f"{row['down']}×{row['across']}")
        draw_cover(page, left + i * pitch, y, layer, width, width, scale, 0.7)
        for n, (name, values) in enumerate(lines.items()):
            # the first line, which the title is about, in amber
            ink, weight = (style.INK, "normal") if n else (style.AMBER, "bold")
            baseline = y + reach * scale + 28 + 21 * n
            page.small(12, baseline, "" if i else name, style.MUTED if n else style.AMBER)
            page.small(left + i * pitch, baseline, values[i], ink, weight=weight)
        texts = ", ".join(f"{name} {values[i]}" for name, values in lines.items())
        page.alt += f" Tiles of {width}: {row['down']} down, {row['across']} across; {texts}."


def compute_costs(layer: Layer, width: int) -> dict[str, float]:
    """Return the costs of tiles of width × width outputs on a layer.

    The keys: across, down (tiles), idle (share of the threads without an output), loaded (inputs loaded
    per input of the image), bytes (shared memory per block, for one channel), wavefronts (of a warp's load
    from shared memory, in the mean, with the tile's rows one after another).
    """
    across, down = -(-layer.Wo // width), -(-layer.Ho // width)
    side = width + layer.K - 1  # of an input tile
    # columns and rows of the image that the tiles load, those of a halo each time
    columns = sum(min(side, layer.W - width * i) for i in range(across))
    rows = sum(min(side, layer.H - width * i) for i in range(down))
    return {
        "across": across,
        "down": down,
        "bytes": 4 * side**2,
        "idle": 1 - layer.Wo * layer.Ho / (across * down * width**2),
        "loaded": columns * rows / (layer.W * layer.H),
        "wavefronts": float(np.mean(count_wavefronts(width, side))),
    }


def count_wavefronts(width: int, distance: int) -> list[int]:
    """Return the wavefronts of each warp of width × width threads, where thread (x, y) loads word y · distance + x.

    The words are of 4 bytes, in shared memory. In a wavefront each of its 32 banks serves one word.
    """
    threads = np.arange(width**2)
    # the words of a warp are all different, so lanes that meet in a bank take a wavefront each
    words = threads // width * distance + threads % width
    return [
        int(np.bincount(words[first : first + WARP] % BANKS).max())
        for first in range(0, width**2, WARP)
    ]


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def gemm_tiles(page: Page, layer: Layer | str, tile: int = 16) -> None:
    """Draw a layer as the matrix product y = k u, cut into tiles: which part of the tiles exists.

    k has a row of weights per map; u has a window of inputs per column, as im2col makes it.

    Parameters
    ----------
    layer : Layer or its name
    tile : int
        Side of the square tiles, in elements: a block computes one tile of y.
    """
    layer = as_layer(layer)
    if not (isinstance(tile, int) and tile > 0):
        raise LabError(
            f"draw.gemm_tiles: tile = {tile!r}; the side of a tile is a positive integer"
        )
    M, depth, pixels = layer.M, layer.terms, layer.Ho * layer.Wo
    down, steps, across = (-(-size // tile) for size in (M, depth, pixels))  # in tiles
    useful = M * depth * pixels / (down * steps * across * tile**3)
    visible = min(across, 4)  # tiles side by side, the rest as dots
    # pixels
    tall, broad = 76 if down == 1 else 46, 66.0  # height and width of a tile of y
    deep = min(46.0, 170 / steps)  # height of a tile of u, as wide as one of y
    slim = min(60.0, 240 / steps)  # width of a tile of k, as high as one of y
    x0, y0 = 40, 98  # left edge of k, top of u; then left edge of u and y, top of k and y
    x1, y1 = x0 + steps * slim + 60, y0 + steps * deep + 46
    below, end = y1 + down * tall + 24, x1 + visible * broad
    page.open(
        below + 34,
        f"{percent(useful)} of the multiply-adds are useful",
        f"{layer.name}, tiles of {tile}×{tile}"
        f"   ·   y [{M} × {pixels:,}] = k [{M} × {depth}] u [{depth} × {pixels:,}]",
    )
    columns_drawn = min(pixels, visible * tile)
    # Each matrix: its corner, name and size; the rows and columns that exist; its tiles down and
    # across; their size.
    for x, y, name, size, rows, columns, n, m, high, w, face in (
        (
            x1,
            y0,
            "u",
            f"{depth} × {pixels:,}",
            depth,
            columns_drawn,
            steps,
            visible,
            deep,
            broad,
            style.TINT,
        ),
        (x0, y1, "k", f"{M} × {depth}", M, depth, down, steps, tall, slim, style.MOSS),
        (
            x1,
            y1,
            "y",
            f"{M} × {pixels:,}",
            M,
            columns_drawn,
            down,
            visible,
            tall,
            broad,
            style.PALE,
        ),
    ):
        page.caption(x, y - 12, name, size)
        page.rect(x, y, m * w, n * high, style.PAPER, style.FAINT, 0.8, hatch="////")
        page.rect(x, y, columns * w / tile, rows * high / tile, face)
        page.cells(
            x, y, n, m, w, edge=style.PAPER, high=high, lw=1.6 if deep > 8 else 0.5, zorder=3
        )
        page.frame(x, y, m * w, n * high, style.MUTED, 1)
    # the block of one tile of y: the row of tiles of k and the column of tiles of u that it walks
    # along
    page.frame(x1, y1, broad, tall, style.BLUE, 2.6)
    page.frame(x1, y0, broad, steps * deep, style.BLUE, 1.6, linestyle=(0, (4, 2)))
    page.frame(x0, y1, steps * slim, tall, style.BLUE, 1.6, linestyle=(0, (4, 2)))
    if across > visible:
        for y in (y0 + steps * deep / 2, y1 + down * tall / 2):
            page.text(end + 10, y, "…", size=13, color=style.MUTED, va="center")
        page.small(end + 30, y0 + 14, f"{across:,} tiles across")
    sides = {
        "rows": (M, down * tile),
        "depth": (depth, steps * tile),
        "columns": (pixels, across * tile),
    }
    for i, (what, (size, covered)) in enumerate(sides.items()):
        page.text(x0, y0 + 24 + 25 * i, what, weight="bold")
        page.text(x0 + 78, y0 + 24 + 25 * i, f"{size:,} of {covered:,}")
        page.text(x0 + 250, y0 + 24 + 25 * i, percent(size / covered), ha="right")
    page.line([x0, x0 + 250], [y0 + 82] * 2, style.FAINT)
    page.text(x0, y0 + 99, "useful", weight="bold", color=style.BLUE)
    page.text(x0 + 250, y0 + 99, percent(useful), ha="right", weight="bold", color=style.BLUE)
    words = f"a block’s tile of y: {steps} steps along k and down u"
    page.frame(x0 + 1, below - 9, 10, 10, style.BLUE)
    page.small(x0 + 18, below, words, style.INK)
    right = x0 + 42 + wide(words, SMALL)
    page.rect(right, below - 9, 16, 10, style.PAPER, style.FAINT, 0.8, hatch="////")
    page.small(right + 24, below, "does not exist: filled with zeros and multiplied", style.INK)
    page.alt = (
        f"{layer.name} as a matrix product in tiles of {tile}×{tile}: y of {M}×{pixels:,} takes {down}×"
        f"{across:,} tiles, {steps} steps each. Of the tiles' rows {M} of {down * tile} exist, of the depth "
        f"{depth} of {steps * tile}; {percent(useful)} of the multiply-adds are useful."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def wmma_fill(page: Page, maps: Sequence[int]) -> None:
    """Draw how full the tiles of each WMMA shape are, and how often the inputs are read, by the number of maps.

    WMMA, CUDA's warp matrix product on tensor cores, has tiles of fixed shapes: maps that are missing are
    rows of zeros.

    Parameters
    ----------
    maps : sequence of int
        Output maps of the layers, one column per number.
    """
    maps = list(maps)
    # "16×16×16": maps, pixels, depth
    shapes = {"×".join(map(str, shape)): shape for shape in sorted(WMMA_SHAPES)}
    if not maps or min(maps) < 1:
        raise LabError(f"draw.wmma_fill: maps = {maps}; at least one, of 1 or more")
    # how high each shape's part of the figure is, in maps: the most tiles, with their rows of zeros
    heights = [max(count_tiles(m, shape)[0] for m in maps) * shape[0] for shape in shapes.values()]
    unit, left, top = min(4.0, 128 / max(heights)), 138, 100  # unit: pixels per map
    pitch = (style.WIDTH - left - 14) / len(maps)
    # the emptiest tile, for the title
    share, few, name = min(
        (count_tiles(m, shape)[1], m, name) for m in maps for name, shape in shapes.items()
    )
    page.open(
        90 + sum(heights) * unit + 54 * len(heights),
        f"With {count(few, 'map')} a {name} tile is {percent(share)} full",
        "blue: maps of the layer   ·   hatched: rows of zeros   ·   each further tile reads all inputs again",
    )
    page.alt = "How full the tiles of a WMMA are."
    for j, m in enumerate(maps):
        page.text(left + j * pitch, 84, f"{m} maps", weight="bold")
    for (name, shape), height in zip(shapes.items(), heights, strict=True):
        page.text(14, top + 12, name, weight="bold")
        page.small(14, top + 28, f"{shape[0]} maps\nof {shape[1]} pixels")
        across, high = min(shape[1] * unit, pitch - 16), shape[0] * unit
        for j, m in enumerate(maps):
            (tiles, share), x = count_tiles(m, shape), left + j * pitch
            for n in range(tiles):
                page.rect(
                    x, top + n * high, across, high, style.TINT, style.FAINT, 0.8, hatch="////"
                )
                page.rect(
                    x, top + n * high, across, min(shape[0], m - n * shape[0]) * unit, style.BLUE
                )
                page.frame(x, top + n * high, across, high, style.INK, 1)
            below, full = top + tiles * high + 15, f"{percent(share)} full"
            page.small(x, below, full, style.INK if share > 0.5 else style.AMBER, weight="bold")
            page.small(x, below + 15, f"inputs read {tiles} times" if tiles > 1 else "")
            page.alt += f" {m} maps in tiles of {name}: {count(tiles, 'tile')}, {full}."
        top += height * unit + 54


def count_tiles(maps: int, shape: tuple[int, int, int]) -> tuple[int, float]:
    """Return how many tiles of `shape` (maps, pixels, depth) cover `maps` maps, and the used share of their rows."""
    tiles = -(-maps // shape[0])
    return tiles, maps / (tiles * shape[0])
