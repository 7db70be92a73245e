"""The figures of pages 05 and 06: windows become columns, the index back, how full the tiles are, kernel by kernel."""

import numpy as np

from labkit.base.errors import LabError
from labkit.base.numerals import ms
from labkit.draw.style import (
    AMBER,
    BLUE,
    FAINT,
    GREEN,
    INK,
    MUTED,
    ORANGE,
    PALE,
    PAPER,
    SKY,
    SMALL,
    TINT,
    WARM,
    arrow,
    canvas,
    caption,
    cells,
    percent,
    rect,
)
from labkit.draw.words import Measured


def im2col(H=5, W=5, K=3, window=(1, 1), element=(2, 2), title=None, path=None):
    """How im2col turns a convolution into a matrix product: windows become columns, masks rows. One small channel.

    Parameters
    ----------
    H, W, K : int
        Of the input and the mask; small enough to be read, at most 30 outputs and 16 elements a window.
    window : pair of int
        The output (h, w) whose window is followed into its column.
    element : pair of int
        The input (row, column) that is followed to all its places.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the sizes make no convolution or too large a figure, or the window or element lie outside.
    """
    Ho, Wo = H - K + 1, W - K + 1
    if K < 1 or Ho < 1 or Wo < 1 or Ho * Wo > 30 or K * K > 16:
        raise LabError(
            f"draw.im2col: {H}×{W} and K = {K} make {max(Ho, 0)}×{max(Wo, 0)} outputs of windows of {K}×{K}; a figure "
            "that can be read has 1 to 30 outputs and at most 16 elements a window"
        )
    if not (0 <= window[0] < Ho and 0 <= window[1] < Wo):
        raise LabError(f"draw.im2col: there is no window {window}; the outputs are {Ho}×{Wo}")
    if not (0 <= element[0] < H and 0 <= element[1] < W):
        raise LabError(f"draw.im2col: there is no input {element}; the input is {H}×{W}")
    u = np.lib.stride_tricks.sliding_window_view(np.arange(H * W).reshape(H, W), (K, K))
    u = u.transpose(2, 3, 0, 1).reshape(K * K, Ho * Wo)
    column, followed = window[0] * Wo + window[1], element[0] * W + element[1]
    copies = np.argwhere(u == followed)
    maps = 2  # of the mask: enough to see what a row is
    cell = min(26.0, 300 / (Ho * Wo), 300 / (K * K))
    x0, x1, top = 26, 26 + max(K * K * cell + 108, W * cell + 150), 104
    k_top = top + max(K * K * cell, (H + 1) * cell) + 44
    with canvas(k_top + maps * cell + 52, path=path) as page:
        here = f"input {followed} stands in " + (f"{len(copies)} of them" if len(copies) > 1 else "one")
        page.heading(
            title or f"Every window becomes a column; {here}",
            f"one channel of {H}×{W}, K = {K}   ·   x has {H * W} elements, u has {K * K} × {Ho * Wo} = {u.size}",
        )
        ax = page.paper()
        # x, with the window and the element
        caption(page, ax, x0, top - 14, "x", f"{H}×{W}")
        rect(ax, x0, top, W * cell, H * cell, PAPER)
        rect(ax, x0 + window[1] * cell, top + window[0] * cell, K * cell, K * cell, TINT)
        rect(ax, x0 + element[1] * cell, top + element[0] * cell, cell, cell, ORANGE)
        cells(ax, x0, top, H, W, cell, "none")
        _numbers(ax, x0, top, cell, np.arange(H * W).reshape(H, W), followed)
        rect(ax, x0 + window[1] * cell, top + window[0] * cell, K * cell, K * cell, "none", BLUE, 2.6, zorder=3)
        below = top + H * cell + 18
        ax.text(x0, below, f"window ({window[0]}, {window[1]})", size=SMALL, color=BLUE, weight="bold")
        # u, with the column and all copies of the element
        caption(page, ax, x1, top - 14, "u", f"{K * K} × {Ho * Wo}: a column a window, a row a place")
        rect(ax, x1 + column * cell, top, cell, K * K * cell, TINT)
        for row, n in copies:
            rect(ax, x1 + n * cell, top + row * cell, cell, cell, ORANGE)
        cells(ax, x1, top, K * K, Ho * Wo, cell, "none")
        _numbers(ax, x1, top, cell, u, followed)
        rect(ax, x1 + column * cell, top, cell, K * K * cell, "none", BLUE, 2.6, zorder=3)
        for row in range(K * K):
            ax.text(x1 - 8, top + (row + 0.5) * cell + 4, f"({row // K}, {row % K})", ha="right", size=7, color=MUTED)
        ax.text(x1 - 8, top - 14, "(p, q)", ha="right", size=7, color=MUTED)
        arrow(ax, x0 + W * cell + 22, x1 - 48, top + 1.5 * cell, MUTED, 1.4)
        middle = (x0 + W * cell + 22 + x1 - 48) / 2
        ax.text(middle, top + 1.5 * cell - 9, "im2col", ha="center", size=SMALL, color=MUTED)
        # y = k u, below: rows beside rows, columns under columns
        caption(page, ax, x0, k_top - 12, "k", f"{maps} maps × {K * K}")
        rect(ax, x0, k_top, K * K * cell, cell, "#e2f2ec")
        cells(ax, x0, k_top, maps, K * K, cell, "none")
        rect(ax, x0, k_top, K * K * cell, cell, "none", GREEN, 2.6, zorder=3)
        caption(page, ax, x1, k_top - 12, "y = k u", f"{maps} maps × {Ho * Wo} outputs")
        rect(ax, x1 + column * cell, k_top, cell, cell, BLUE)
        cells(ax, x1, k_top, maps, Ho * Wo, cell, "none")
        ax.text((x0 + K * K * cell + x1) / 2, k_top + cell / 2 + 7, "× u =", ha="center", size=13, color=MUTED)
        ax.text(x0, k_top + maps * cell + 24, f"Row of k times column of u: {K * K} products, one output.", size=SMALL)
        across = page.text_width(f"Row of k times column of u: {K * K} products, one output.", SMALL) + 40
        rect(ax, x0 + across, k_top + maps * cell + 15, 10, 10, ORANGE)
        said = f"input {followed}: {len(copies)} " + ("copies" if len(copies) > 1 else "copy")
        ax.text(x0 + across + 17, k_top + maps * cell + 24, said, size=SMALL, color=AMBER, weight="bold")
        places = ", ".join(f"row {row} column {n}" for row, n in copies.tolist())
        page.alt = (
            f"An input of {H}×{W} and the matrix u of {K * K}×{Ho * Wo} that im2col makes of it. The window of output "
            f"{tuple(window)} is column {column} of u. Input {followed} stands in {len(copies)} "
            f"place{'s' * (len(copies) > 1)}: {places}. Below, a row of k times that column is output {column} of a "
            "map."
        )


def _numbers(ax, x, y, cell, numbers, followed):
    """The elements by number; the followed one in bold."""
    size = min(SMALL, cell * 0.34)
    for i, row in enumerate(numbers.tolist()):
        for j, number in enumerate(row):
            bold = number == followed
            ax.text(x + (j + 0.5) * cell, y + (i + 0.5) * cell, str(number), ha="center", va="center", size=size,
                    color=INK if bold else MUTED, weight="bold" if bold else "normal", zorder=4)  # fmt: skip


def fused_index(layer, row, column, title=None, path=None):
    """From an element of u back to the element of x: the index arithmetic of the fused kernel, with its numbers.

    Parameters
    ----------
    layer : Layer
    row, column : int
        Of u, [C K K, Ho Wo].
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If u has no such element.
    """
    K, pixels = layer.K, layer.Ho * layer.Wo
    if not (0 <= row < layer.terms and 0 <= column < pixels):
        size = f"{layer.terms:,} × {pixels:,} elements"
        raise LabError(f"draw.fused_index: u of {layer} has {size}; ({row}, {column}) is none")
    c, p, q = row // (K * K), row // K % K, row % K
    h, w = divmod(column, layer.Wo)
    side = 190.0 / max(layer.H, layer.W)  # pixels an input
    x0, top = 470, 96
    with canvas(top + max(layer.H * side, 190) + 62, path=path) as page:
        page.heading(
            title or "Two divisions with remainder lead from u back to x",
            f"{layer.name}   ·   element ({row}, {column:,}) of u, [{layer.terms} × {pixels:,}]",
        )
        ax = page.paper()
        lines = [
            (BLUE, "row", f"{row} = ({c} · {K} + {p}) · {K} + {q}", f"channel c = {c}, place (p, q) = ({p}, {q})",
             f"K = {K} is known to the compiler"),
            (AMBER, "column", f"{column:,} = {h} · {layer.Wo} + {w}", f"window (h, w) = ({h}, {w})",
             "once a thread: its column stays the same"),
            (GREEN, "x", f"[{c}, {h} + {p}, {w} + {q}] = [{c}, {h + p}, {w + q}]",
             f"offset ({c} · {layer.H} + {h + p}) · {layer.W} + {w + q} = {(c * layer.H + h + p) * layer.W + w + q:,}",
             "the element that u would have held a copy of"),
        ]  # fmt: skip
        for i, (color, name, sum_, meaning, remark) in enumerate(lines):
            y = top + 10 + i * 72
            ax.text(26, y, name, weight="bold", color=color)
            ax.text(96, y, sum_, family="DejaVu Sans Mono", size=9.6)
            ax.text(96, y + 19, meaning)
            ax.text(96, y + 37, remark, size=SMALL, color=MUTED)
        width, height = layer.W * side, layer.H * side
        caption(page, ax, x0, top - 14, f"x, channel {c}", f"{layer.H}×{layer.W}")
        rect(ax, x0, top, width, height, "#f6f8fa", FAINT, 1)
        rect(ax, x0 + w * side, top + h * side, K * side, K * side, WARM, ORANGE, 2)
        spot = max(side, 5)
        rect(ax, x0 + (w + q) * side, top + (h + p) * side, spot, spot, GREEN, zorder=4)
        ax.text(x0, top + height + 20, f"window ({h}, {w})", size=SMALL, color=AMBER, weight="bold")
        ax.text(x0 + 130, top + height + 20, f"element ({h + p}, {w + q})", size=SMALL, color=GREEN, weight="bold")
        page.alt = (
            f"{layer.name}: row {row} of u is channel {c}, place ({p}, {q}) of the window; column {column} is the "
            f"window ({h}, {w}); so the element is x[{c}, {h + p}, {w + q}]."
        )


def _fill(layer, tile):
    """Of the rows, the depth and the columns of all tiles, the share that exists; and `useful`, their product."""
    sizes = {"rows": layer.M, "depth": layer.terms, "columns": layer.Ho * layer.Wo}
    shares = {name: size / (-(-size // tile) * tile) for name, size in sizes.items()}
    return {**shares, "useful": shares["rows"] * shares["depth"] * shares["columns"]}


def gemm_tiles(layer, tile=16, title=None, path=None):
    """The three matrices of the product, cut into tiles, and what of the tiles exists.

    Parameters
    ----------
    layer : Layer
    tile : int
        Side of the square tiles: a block computes one of y.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the tile is not positive.
    """
    if not (isinstance(tile, int) and tile > 0):
        raise LabError(f"draw.gemm_tiles: tile = {tile!r}; the side of a tile is a positive integer")
    M, depth, pixels = layer.M, layer.terms, layer.Ho * layer.Wo
    share = _fill(layer, tile)
    row_tiles, steps, across = (-(-size // tile) for size in (M, depth, pixels))
    shown = min(across, 4)  # tiles side by side, the rest as dots
    tall, deep, wide, broad = 76 if row_tiles == 1 else 46, min(46.0, 170 / steps), min(60.0, 240 / steps), 66.0
    thin = 1.6 if deep > 8 else 0.5
    k_left, u_top = 40, 98
    u_left, y_top = k_left + steps * wide + 60, u_top + steps * deep + 46
    with canvas(y_top + row_tiles * tall + 58, path=path) as page:
        page.heading(
            title or f"{percent(share['useful'])} of the multiply-adds are of use",
            f"{layer.name}, tiles of {tile}×{tile}   ·   "
            f"y [{M} × {pixels:,}] = k [{M} × {depth}] u [{depth} × {pixels:,}]",
        )
        ax = page.paper()
        step, row, col = wide / tile, tall / tile, broad / tile

        def matrix(x, y, name, size, rows, columns, padded_rows, padded_columns, dy, dx, color):
            caption(page, ax, x, y - 12, name, size)
            rect(ax, x, y, padded_columns * dx, padded_rows * dy, PAPER, FAINT, 0.8, hatch="////")
            rect(ax, x, y, columns * dx, rows * dy, color)
            for i in range(0, padded_rows + 1, tile):
                ax.plot([x, x + padded_columns * dx], [y + i * dy] * 2, color=PAPER, lw=thin, zorder=3)
            for j in range(0, padded_columns + 1, tile):
                ax.plot([x + j * dx] * 2, [y, y + padded_rows * dy], color=PAPER, lw=thin, zorder=3)
            rect(ax, x, y, padded_columns * dx, padded_rows * dy, "none", MUTED, 1, zorder=4)

        seen = min(pixels, shown * tile)
        down = deep / tile
        matrix(u_left, u_top, "u", f"{depth} × {pixels:,}", depth, seen, steps * tile, shown * tile, down, col, TINT)
        matrix(k_left, y_top, "k", f"{M} × {depth}", M, depth, row_tiles * tile, steps * tile, row, step, "#cfe8df")
        matrix(u_left, y_top, "y", f"{M} × {pixels:,}", M, seen, row_tiles * tile, shown * tile, row, col, PALE)
        # the block of one tile of y: the row of tiles of k and the column of tiles of u that it walks along
        rect(ax, u_left, y_top, broad, tall, "none", BLUE, 2.6, zorder=5)
        rect(ax, u_left, u_top, broad, steps * deep, "none", BLUE, 1.6, zorder=5, linestyle=(0, (4, 2)))
        rect(ax, k_left, y_top, steps * wide, tall, "none", BLUE, 1.6, zorder=5, linestyle=(0, (4, 2)))
        end = u_left + shown * broad
        if across > shown:
            for y in (u_top + steps * deep / 2, y_top + row_tiles * tall / 2):
                ax.text(end + 10, y, "…", size=13, color=MUTED, va="center")
            ax.text(end + 30, u_top + 14, f"{across:,} tiles across", size=SMALL, color=MUTED)
        columns = across * tile
        for i, (what, size, whole) in enumerate((("rows", M, row_tiles * tile), ("depth", depth, steps * tile),
                                                 ("columns", pixels, columns))):  # fmt: skip
            y = u_top + 24 + 25 * i
            ax.text(k_left, y, what, weight="bold")
            ax.text(k_left + 78, y, f"{size:,} of {whole:,}")
            ax.text(k_left + 250, y, percent(size / whole), ha="right")
        ax.text(k_left, u_top + 99, "of use", weight="bold", color=BLUE)
        ax.text(k_left + 250, u_top + 99, percent(share["useful"]), ha="right", weight="bold", color=BLUE)
        ax.plot([k_left, k_left + 250], [u_top + 82] * 2, color=FAINT, lw=1)
        below = y_top + row_tiles * tall + 24
        rect(ax, k_left + 1, below - 9, 10, 10, "none", BLUE, 2)
        words = f"a block’s tile of y: {steps} steps along k and down u"
        ax.text(k_left + 18, below, words, size=SMALL)
        right = k_left + 18 + page.text_width(words, SMALL) + 24
        rect(ax, right, below - 9, 16, 10, PAPER, FAINT, 0.8, hatch="////")
        ax.text(right + 24, below, "does not exist: filled with zeros and multiplied", size=SMALL)
        page.alt = (
            f"{layer.name} as a matrix product in tiles of {tile}×{tile}: y of {M}×{pixels:,} takes "
            f"{row_tiles}×{across:,} tiles, {steps} steps each. Of the tiles' rows {M} of {row_tiles * tile} exist, of "
            f"the depth {depth} of {steps * tile}; {percent(share['useful'])} of the multiply-adds are of use."
        )


def kernels(table, device=None, date=None, title=None, path=None):
    """The op time of variants with several kernels, kernel by kernel: a bar a variant and layer.

    Parameters
    ----------
    table : DataFrame
        As `kernel_times` returns it: ``label``, ``layer``, ``kernel``, ``op_ms``; of one batch.
    device, date : str, optional
        What measured it, and when, where the table does not say so.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If columns or rows are missing, or the table holds several batches.
    """
    data = Measured(table, ["label", "layer", "kernel", "op_ms"], "draw.kernels", device, date)
    rows, batches = data.rows, data.rows["batch"].unique() if "batch" in data.rows else ()
    if len(batches) > 1:
        raise LabError(f"draw.kernels got batches {', '.join(map(str, batches))}: it draws one; take its rows")
    layers, labels = list(dict.fromkeys(rows["layer"])), list(dict.fromkeys(rows["label"]))
    names = list(dict.fromkeys(rows["kernel"]))
    colors = {name: (ORANGE, BLUE, SKY, GREEN)[i % 4] for i, name in enumerate(names)}
    times = rows.pivot_table(index=["layer", "label"], columns="kernel", values="op_ms", sort=False)[names]
    step, head, top = 25, 36, 80
    height = top + sum(head + step * len(times.loc[layer]) for layer in layers) + 16
    with canvas(height, path=path) as page:
        share = times[names[0]] / times.sum(axis=1)
        low, high = percent(share.min()), percent(share.max())
        page.heading(
            title or f"{names[0]} takes {low if low == high else f'{low} to {high}'} of the op time",
            data.subtitle(f"batch {batches[0]:,}" if len(batches) else ""),
            data.note,
        )
        x = 26
        paper = page.paper()
        for name in names:
            rect(paper, x, 59, 11, 11, colors[name])
            page.text(x + 17, 69, name, size=SMALL)
            x += 17 + page.text_width(name, SMALL) + 24
        left = 36 + max(page.text_width(label) for label in labels)
        room = page.text_width("000.0 ms", weight="bold") + 32
        room += page.text_width(f"{max(names, key=len)} 0.000 ms", SMALL)
        scale = (page.width - left - room) / times.sum(axis=1).max()
        y = top
        for layer in layers:
            page.text(26, y + 24, layer, weight="bold")
            y += head
            for label, row in times.loc[layer].iterrows():
                page.text(left - 10, y + 14, label, ha="right")
                x, narrow = left, []
                for name in names:
                    width, inside = row[name] * scale, ms(row[name])
                    rect(paper, x, y + 1, width, step - 7, colors[name])
                    if width > page.text_width(inside, SMALL) + 8:
                        color = PAPER if colors[name] in (BLUE, GREEN) else INK
                        page.text(x + width / 2, y + 14, inside, size=SMALL, ha="center", color=color)
                    else:
                        narrow.append(f"{name} {inside}")
                    x += width
                page.text(x + 8, y + 14, ms(row.sum()), weight="bold")
                after = x + 18 + page.text_width(ms(row.sum()), weight="bold")
                page.text(after, y + 14, ", ".join(narrow), size=SMALL, color=MUTED)
                y += step
        said = [f"{layer}, {label}: " + ", ".join(f"{name} {ms(row[name])}" for name in names)
                for (layer, label), row in times.iterrows()]  # fmt: skip
        page.alt = f"Bar chart, op time kernel by kernel. {'; '.join(said)}. {data.note}".strip()
        page.plain = "Figure: op time kernel by kernel"
