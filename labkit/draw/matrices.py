"""Illustrations of index arithmetic: windows become columns, the index back, what a thread or a lane holds."""

from collections.abc import Mapping, Sequence

import numpy as np

from hostcuda.limits import WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import SMALL, Page, count, on_new_page, percent, wide
from labkit.spec.layers import Layer, as_layer

# in `squares`: inputs in a row of a window; outputs along a square; maps of a product
WIDE, SIDE, MAPS = (8, 2, 4)


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def im2col(
    page: Page,
    H: int = 5,
    W: int = 5,
    K: int = 3,
    window: tuple[int, int] = (1, 1),
    element: tuple[int, int] = (2, 2),
) -> None:
    """Draw how im2col turns a convolution of one channel into a matrix product: windows become columns, masks rows.

    Parameters
    ----------
    H, W, K : int
        Sizes of the input and the mask; small enough to be read, at most 30 outputs and 16 elements
        per window.
    window : pair of int
        The output (h, w) whose window is followed into its column.
    element : pair of int
        The input (row, column) that is followed to all its places.
    """
    Ho, Wo, size = H - K + 1, W - K + 1, K * K
    if K < 1 or Ho < 1 or Wo < 1 or Ho * Wo > 30 or size > 16:
        raise LabError(
            f"draw.im2col: {H}×{W} and K = {K} make {max(Ho, 0)}×{max(Wo, 0)} outputs of windows of {K}×{K}"
            "; a figure that can be read has 1 to 30 outputs and at most 16 elements per window"
        )
    if not (0 <= window[0] < Ho and 0 <= window[1] < Wo):
        raise LabError(f"draw.im2col: there is no window {window}; the outputs are {Ho}×{Wo}")
    if not (0 <= element[0] < H and 0 <= element[1] < W):
        raise LabError(f"draw.im2col: there is no input {element}; the input is {H}×{W}")
    x = np.arange(H * W).reshape(H, W)  # the inputs' numbers in place of their values
    # the windows, [Ho, Wo, K, K]; then a row per place in the window and a column per output
    u = (
        np.lib.stride_tricks.sliding_window_view(x, (K, K))
        .transpose(2, 3, 0, 1)
        .reshape(size, Ho * Wo)
    )
    column, followed = window[0] * Wo + window[1], element[0] * W + element[1]
    copies, maps = np.argwhere(u == followed).tolist(), 2  # two maps of the mask show what a row is
    cell = min(26.0, 300 / (Ho * Wo), 300 / size)
    # left edges of x and k, of u and y; top of x and u
    x0, x1, top = 26, 26 + max(size * cell + 108, W * cell + 150), 104
    low = top + max(size * cell, (H + 1) * cell) + 44  # top of k and y
    n, below = len(copies), low + maps * cell + 24
    places_text = f"{n} of them" if n > 1 else "one"
    page.open(
        low + maps * cell + 52,
        f"Every window becomes a column; input {followed} is in {places_text}",
        f"one channel of {H}×{W}, K = {K}   ·   x has {H * W} elements, u has {size} × {Ho * Wo} = {u.size}",
    )

    def draw_elements(left: float, numbers: np.ndarray, places: list) -> None:
        """Draw a matrix of the inputs' numbers from x = `left`, those at the places (i, j) in orange."""
        for i, j in places:
            page.rect(left + j * cell, top + i * cell, cell, cell, style.ORANGE)
        page.cells(left, top, *numbers.shape, cell)
        for (i, j), element_number in np.ndenumerate(numbers):
            look = ("bold", style.INK) if element_number == followed else ("normal", style.MUTED)
            page.text(
                left + (j + 0.5) * cell,
                top + (i + 0.5) * cell,
                str(element_number),
                ha="center",
                va="center",
                size=min(SMALL, cell * 0.34),
                weight=look[0],
                color=look[1],
                zorder=4,
            )

    def highlight(
        x: float, y: float, w: float, h: float, color: str = style.BLUE, face: str = style.TINT
    ) -> None:
        """Draw a rectangle behind the cells, and its outline above them."""
        page.rect(x, y, w, h, face, zorder=0.5)
        page.frame(x, y, w, h, color, 2.6)

    page.caption(x0, top - 14, "x", f"{H}×{W}")
    highlight(x0 + window[1] * cell, top + window[0] * cell, K * cell, K * cell)
    draw_elements(x0, x, [element])
    page.small(
        x0, top + H * cell + 18, f"window ({window[0]}, {window[1]})", style.BLUE, weight="bold"
    )
    page.caption(x1, top - 14, "u", f"{size} × {Ho * Wo}: one column per window, one row per place")
    highlight(x1 + column * cell, top, cell, size * cell)
    draw_elements(x1, u, copies)
    # on the left of u: a heading, then the place in the window of each row
    for row in range(-1, size):
        y, place = (
            (top + (row + 0.5) * cell + 4, f"({row // K}, {row % K})")
            if row >= 0
            else (top - 14, "(p, q)")
        )
        page.text(x1 - 8, y, place, ha="right", size=7, color=style.MUTED)
    start, end = x0 + W * cell + 22, x1 - 48
    page.arrow(start, end, top + 1.5 * cell, style.MUTED, 1.4)
    page.small((start + end) / 2, top + 1.5 * cell - 9, "im2col", ha="center")
    # y = k u, below: rows beside rows, columns under columns
    page.caption(x0, low - 12, "k", f"{maps} maps × {size}")
    highlight(x0, low, size * cell, cell, style.GREEN, style.MINT)
    page.cells(x0, low, maps, size, cell)
    page.caption(x1, low - 12, "y = k u", f"{maps} maps × {Ho * Wo} outputs")
    page.rect(x1 + column * cell, low, cell, cell, style.BLUE)
    page.cells(x1, low, maps, Ho * Wo, cell)
    page.text(
        (x0 + size * cell + x1) / 2,
        low + cell / 2 + 7,
        "× u =",
        ha="center",
        size=13,
        color=style.MUTED,
    )
    words = f"Row of k times column of u: {count(size, 'product')}, one output."
    page.small(x0, below, words, style.INK)
    page.rect(x0 + wide(words, SMALL) + 40, below - 9, 10, 10, style.ORANGE)
    copies_text = f"{n} cop{'ies' if n > 1 else 'y'}"
    page.small(
        x0 + wide(words, SMALL) + 57,
        below,
        f"input {followed}: {copies_text}",
        style.AMBER,
        weight="bold",
    )
    places = ", ".join(f"row {i} column {j}" for i, j in copies)
    page.alt = (
        f"An input of {H}×{W} and the matrix u of {size}×{Ho * Wo} that im2col makes of it. The window of "
        f"output {tuple(window)} is column {column} of u. Input {followed} is in {count(n, 'place')}: "
        f"{places}. Below, a row of k times that column is output {column} of a map."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def fused_index(page: Page, layer: Layer | str, row: int, column: int) -> None:
    """Draw the fused kernel's index arithmetic, with its numbers: from an element of u back to that of x.

    u is the matrix that im2col would copy from the input x; this kernel computes where each of its
    elements is in x instead.

    Parameters
    ----------
    layer : Layer or its name
    row, column : int
        An element of u, [C K K, Ho Wo].
    """
    layer = as_layer(layer)
    K, pixels = layer.K, layer.Ho * layer.Wo  # pixels: of an output map; `layer.terms`: C K K
    if not (0 <= row < layer.terms and 0 <= column < pixels):
        size = f"{layer.terms:,} × {pixels:,} elements"
        raise LabError(f"draw.fused_index: u of {layer} has {size}; ({row}, {column}) is none")
    c, p, q = row // (K * K), row // K % K, row % K
    h, w = divmod(column, layer.Wo)
    side, x0, top = 190.0 / max(layer.H, layer.W), 470, 96  # side: pixels per input
    width, height = layer.W * side, layer.H * side
    page.open(
        top + max(height, 190) + 62,
        "Divisions with remainder lead from u back to x",
        f"{layer.name}   ·   element ({row}, {column:,}) of u, [{layer.terms} × {pixels:,}]",
    )
    offset = (c * layer.H + h + p) * layer.W + w + q  # of the element in x, [C, H, W]
    for i, (color, name, formula, meaning, remark) in enumerate(
        (
            (
                style.BLUE,
                "row",
                f"{row} = ({c} · {K} + {p}) · {K} + {q}",
                f"channel c = {c}, place (p, q) = ({p}, {q})",
                f"K = {K} is known to the compiler",
            ),
            (
                style.AMBER,
                "column",
                f"{column:,} = {h} · {layer.Wo} + {w}",
                f"window (h, w) = ({h}, {w})",
                "once per thread: its column stays the same",
            ),
            (
                style.GREEN,
                "x",
                f"[{c}, {h} + {p}, {w} + {q}] = [{c}, {h + p}, {w + q}]",
                f"offset ({c} · {layer.H} + {h + p}) · {layer.W} + {w + q} = {offset:,}",
                "the element that u would have held a copy of",
            ),
        )
    ):
        y = top + 10 + i * 72
        page.text(26, y, name, weight="bold", color=color)
        page.text(96, y, formula, family=style.MONO, size=9.6)
        page.text(96, y + 19, meaning)
        page.small(96, y + 37, remark)
    page.caption(x0, top - 14, f"x, channel {c}", f"{layer.H}×{layer.W}")
    page.rect(x0, top, width, height, style.FOG, style.FAINT, 1)
    page.rect(x0 + w * side, top + h * side, K * side, K * side, style.WARM, style.ORANGE, 2)
    size = max(side, 5)  # an input of fewer than 5 pixels would not be seen
    page.rect(x0 + (w + q) * side, top + (h + p) * side, size, size, style.GREEN, zorder=4)
    page.small(x0, top + height + 20, f"window ({h}, {w})", style.AMBER, weight="bold")
    page.small(
        x0 + 130, top + height + 20, f"element ({h + p}, {w + q})", style.GREEN, weight="bold"
    )
    page.alt = (
        f"{layer.name}: row {row} of u is channel {c}, place ({p}, {q}) of the window; column {column} is the "
        f"window ({h}, {w}); so the element is x[{c}, {h + p}, {w + q}]."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def outputs_per_thread(page: Page, rows: int, maps: int, K: int) -> None:
    """Draw a thread at one column of the mask: which input meets which weight, and in which sum.

    The thread computes several outputs, so each number that it has loaded serves several products.

    Parameters
    ----------
    rows, maps : int
        Outputs of the thread in a column, and in how many maps; at most 20 and 8.
    K : int
        Side of the mask, at most 7.
    """
    if not (1 <= rows <= 20 and 1 <= maps <= 8 and 1 <= K <= 7):
        raise LabError(
            f"draw.outputs_per_thread: rows, maps, K = {rows}, {maps}, {K}: at most 20, 8 and 7, at least 1"
        )
    inputs, products = rows + K - 1, rows * maps * K
    loads, left, top = inputs + maps * K, 96, 138
    # the side of a cell, in pixels; 24: for the other maps, behind
    cell = min(30, 268 / rows, (style.WIDTH - 26 - left - 24 * (maps > 1)) / inputs)
    page.open(
        top + rows * cell + 84 + 20 * (maps > 1),
        f"{loads} numbers loaded for {products:,} products: {products / loads:.3g} products per number",
        f"one thread, {count(rows, 'row')} in {count(maps, 'map')}, at one of the {K} columns of the mask   ·   "
        "in a cell: which weight",
    )
    # the input and the weight that are highlighted; below, q is any input, r any output
    i, p = min(K - 1 + rows // 2, inputs - 1), K // 2
    page.caption(left, 86, f"{inputs} inputs of a column of x", "each loaded once, into a register")
    for back in reversed(range(min(maps, 4))):  # the other maps lie behind
        x, y = left + 6 * back, top + 6 * back
        page.rect(x, y, inputs * cell, rows * cell, style.PAPER, style.FAINT, 1)
    for r, q in np.ndindex(rows, inputs):  # input q meets weight q - r in the sum of output r
        if 0 <= q - r < K:
            face = style.ORANGE if q == i else style.PALE if q - r == p else style.TINT
            page.rect(left + q * cell, top + r * cell, cell, cell, face, style.PAPER, 1)
            page.text(
                left + (q + 0.5) * cell,
                top + (r + 0.5) * cell + 3,
                f"{q - r}",
                ha="center",
                size=min(SMALL, cell * 0.42),
            )
    for q in range(inputs):
        page.small(
            left + (q + 0.5) * cell,
            top - 10,
            str(q),
            style.AMBER if q == i else style.MUTED,
            ha="center",
            weight="bold" if q == i else "normal",
        )
    page.small(left - 10, top - 10, "input", ha="right")
    for r in range(0, rows, 1 if cell > 13 else 2):
        page.small(left - 10, top + (r + 0.5) * cell + 4, f"sum[{r}]", style.INK, ha="right")
    served = sum(0 <= i - r < K for r in range(rows))
    y = top + rows * cell + 24 + 20 * (maps > 1)
    for n, (face, words) in enumerate(
        (
            (
                style.ORANGE,
                f"input {i} is used for {count(served, 'sum')}"
                + f" in each of {maps} maps" * (maps > 1),
            ),
            (style.PALE, f"weight {p}, loaded once per map, is used for {count(rows, 'sum')}"),
            (
                style.TINT,
                f"sum[r] += input[r + p] * weight[p], for all {K} weights p of the column",
            ),
        )
    ):
        page.rect(left, y + 18 * n - 9, 10, 10, face)
        page.small(left + 16, y + 18 * n, words, style.INK)
    page.alt = (
        f"A thread at one column of the mask: {count(rows, 'sum')} in a column, {inputs} inputs and {K} "
        f"weights per map. Input r + p times weight p goes to sum r. Input {i} is used for "
        f"{count(served, 'sum')}, weight {p} for {count(rows, 'sum')}, in each of {count(maps, 'map')}; "
        f"{loads} numbers loaded for {products} products."
    )


def place_weights(K: int) -> np.ndarray:
    """Return where the left operand of a product on tensor cores has a weight, and no zero: [16, terms] of bool.

    Four outputs share a window of inputs that is larger than the mask; around the mask are zeros.
    Row 8 w + 2 m + h is output (h, w) of a square of 2 × 2 in map m of 4; its terms are the inputs
    of the window that the square shares, row after row, 8 in each. The mask is K × K.
    """
    high = (K + SIDE) // 2 * 2  # rows of a window: K + 1, made even, since a product takes two
    # axes: column of the output (2), map (4), row of the output (2), row and column (8) of the input
    where = np.zeros((SIDE, MAPS, SIDE, high, WIDE), bool)
    for w, h in np.ndindex(SIDE, SIDE):
        where[w, :, h, h : h + K, w : w + K] = True  # output (h, w) moves the mask by (h, w)
    return where.reshape(SIDE * MAPS * SIDE, high * WIDE)


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def squares(page: Page, K: int = 7, lane: int = 5) -> None:
    """Draw where the mask lies in a window for each output of a square, and the operand a that this makes.

    The square is 2 × 2 outputs, which share a window of inputs. The operand a of a tensor core's
    product is 16 × 16: a row per output (of 4 maps), a column per input of two rows of the window.
    Such a product is a k-step; further ones take the other rows.

    Parameters
    ----------
    K : int
        Side of the mask, at most 7.
    lane : int
        The lane whose registers are marked.
    """
    if not (1 <= K <= WIDE - 1 and 0 <= lane < WARP):
        raise LabError(
            f"draw.squares: K, lane = {K}, {lane}: K from 1 to {WIDE - 1}, lane from 0 to {WARP - 1}"
        )
    where = place_weights(K)
    high = where.shape[1] // WIDE  # rows of a window
    # in pixels: sides of a cell in the windows and in a; left edges of the two parts; their top
    small, cell, x0, x1, top = (13, 16, 24, 468, 116)
    page.open(
        top + 17 * cell + 40,
        "Four outputs use the same inputs: each has its weights among zeros",
        f"K = {K}   ·   blue: weights, white: zeros   ·   orange: what lane {lane} holds",
    )
    page.caption(x0, top - 36, "A square", "the mask in its window")
    page.caption(x1 - 84, top - 36, "a, in k-step 0", "rows 0 and 1 of the window")

    def draw_weights(x: float, y: float, weights: np.ndarray, cell: float) -> None:
        """Draw a matrix of bool from its upper left corner (x, y) on, True in blue."""
        for i, j in np.argwhere(weights):
            page.rect(x + j * cell, y + i * cell, cell, cell, style.BLUE)
        page.cells(x, y, *weights.shape, cell)

    for i, name in enumerate(("upper left", "upper right", "lower left", "lower right")):
        # Output i is in row h and column w of the square. Register a[i] holds row h of the window
        # (columns 8 h to 8 h + 7 of a), for the outputs of column w (rows 8 w to 8 w + 7 of a).
        h, w = divmod(i, 2)
        x, y = x0 + w * (WIDE * small + 50), top + h * (WIDE * small + 48)
        page.caption(x, y - 6, name)
        draw_weights(x, y, where[8 * w + h].reshape(high, WIDE), small)
        x, y = x1 + h * (WIDE * cell + 12), top + w * (WIDE * cell + 12)
        page.caption(x, y + (WIDE * cell + 18 if w else -6), f"a[{i}]", f"row {h}")
        draw_weights(x, y, where[8 * w : 8 * w + 8, 8 * h : 8 * h + 8], cell)
        # of a register, lane 4 r + c holds elements 2 c and 2 c + 1 of row r
        page.frame(x + lane % 4 * 2 * cell, y + lane // 4 * cell, 2 * cell, cell, style.ORANGE, 2.6)
        # Row 8 w + 2 m + h of the operand is the output (h, w) of map m.
        side = ("left", "right")[w]
        outputs = "\n".join(
            f"map {row // 2}, {('upper', 'lower')[row % 2]} {side}" for row in range(8)
        )
        # once for both registers of these rows (h = 0 and 1)
        page.small(x1 - 8, y + 12, outputs * (1 - h), ha="right")
    page.alt = (
        f"For each output of a square, the mask of {K} by {K} lies at the output's row and column in a window of "
        f"{high} by {WIDE} inputs, among zeros: {percent(where.mean())} of the terms are weights. Beside it the "
        "operand a of k-step 0, 16 by 16. Its rows: the left outputs of maps 0 to 3, upper and lower, then the right "
        "ones. Its columns: row 0 of the window, then row 1. "
        f"Lane {lane} holds two terms per quarter: a[0] upper left, a[1] lower left, a[2] upper right, a[3]."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def stack(page: Page, down: int = 2, tall: int = 4) -> None:
    """Draw windows stacked in an image, for K = 7: which rows of the image each k-step of each window takes.

    A k-step is one product of tensor cores: it takes two rows of a window, of eight numbers or four words each.
    Lane l of a warp holds word l % 4 of both rows, in the registers b[0] and b[1] of its operand.

    Parameters
    ----------
    down : int
        Rows of outputs that share a window: 2, or 1 with two channels, whose last rows share a
        k-step.
    tall : int
        Windows, at most 7.
    """
    if down not in (1, 2) or not 1 <= tall <= 7:
        raise LabError(f"draw.stack: down, tall = {down}, {tall}: down is 1 or 2, tall from 1 to 7")
    channels, high = 3 - down, 6 + down  # high: rows of a window, K + down - 1
    # pixels: height and width of a cell; top of the first row
    cell, broad, top = 16, 26 * down, 124 - 20 * down
    rows = high + down * (tall - 1)  # of the image
    # Numbers of the cells, -1 for none. Columns: the lanes of four words, a gap, and for each
    # window the k-step that takes the row.
    numbers = np.full((channels, rows, 5 + tall), -1)
    numbers[:, :, :4] = range(4)
    # two rows per k-step; rows from 6: the last step
    last_step = 3 * channels
    for channel, row, window in np.ndindex(channels, high, tall):
        numbers[channel, down * window + row, 5 + window] = (
            3 * channel + row // 2 if row < 6 else last_step
        )
    if down == 1:
        message = "Seven rows are three k-steps and a half: two channels share the last"
        marked = numbers == last_step
    else:
        message = f"Two rows, b[0] and b[1], are loaded once for {count(min(tall, 4), 'window')}"
        marked = np.zeros(numbers.shape, bool)
        # two rows in the middle: an even one, with which a k-step begins, and the next
        marked[:, (rows - 1) // 4 * 2 + np.arange(2)] = True
    page.open(
        top + rows * cell + 14,
        message,
        f"{count(tall, 'window')} of {high} rows   ·   orange: what is shared",
    )
    for channel in range(channels):
        x = 74 + 352 * channel
        page.caption(x, top - 30, f"Channel {channel}" * (down == 1))
        page.small(x, top - 10, "lane of each word")
        page.small(x + 5 * broad, top - 10, f"k-step, in window 0{f' to {tall - 1}' * (tall > 1)}")
        page.small(x - 10, top + 12, "\n".join(f"row {row}" for row in range(rows)), ha="right")
        shared = marked[channel]
        _draw_numbers(
            page, x, top, numbers[channel, :, :4], shared[:, :4], broad, cell, [style.HAIR]
        )
        blues = [style.TINT, style.PALE]  # of neighbouring k-steps
        _draw_numbers(
            page, x + 5 * broad, top, numbers[channel, :, 5:], shared[:, 5:], broad, cell, blues
        )
        if down == 2:
            for i, row in enumerate(np.flatnonzero(shared.all(axis=1))):
                page.small(
                    x + 4.5 * broad, top + row * cell + 12, f"b[{i}]", style.INK, ha="center"
                )
    page.alt = (
        f"Rows of an image, each of four words, for lanes 0 to 3. Window 0 has rows 0 to {high - 1}; a further "
        f"one begins {count(down, 'row')} below the one before. Two rows make a k-step. {message}."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def lanes(page: Page, matrices: Mapping[str, np.ndarray], lane: int = 5) -> None:
    """Draw matrices that a warp holds in its registers: in each cell the lane that has the element.

    Parameters
    ----------
    matrices : mapping of str to array of int
        Name -> matrix of lanes: element [i, j] is the lane that holds it.
    lane : int
        The lane whose elements are orange. The other elements have one of four colours, by the
        lane's number modulo 4.
    """
    refusal = (
        "draw.lanes: give matrices of lanes, {name: integers in rows and columns}, of at most 256 elements each and "
        "48 columns together"
    )
    if not isinstance(matrices, Mapping):
        raise LabError(f"{refusal}; got {type(matrices).__name__}")
    panels = {name: np.asarray(matrix) for name, matrix in matrices.items()}
    for name, panel in panels.items():
        if panel.ndim != 2 or not 1 <= panel.size <= 256 or panel.dtype.kind not in "iu":
            raise LabError(f"{refusal}; {name} has shape {panel.shape} and type {panel.dtype}")
    columns = sum(panel.shape[1] for panel in panels.values())
    if not 1 <= columns <= 48:
        raise LabError(f"{refusal}; got {columns} columns")
    cell = min(24, (style.WIDTH - 24 * (len(panels) + 1)) / columns)
    page.open(
        112 + cell * max(map(len, panels.values())),
        f"Who has which element: lane {lane} has the orange ones",
    )
    x, places = 24, []
    for name, panel in panels.items():
        page.caption(x, 76, name)
        _draw_numbers(page, x, 88, panel, panel == lane, cell, cell)
        places.append(f"{name}: {', '.join(f'({i}, {j})' for i, j in np.argwhere(panel == lane))}")
        x += panel.shape[1] * cell + 24
    page.alt = (
        f"Matrices with the lane of each element. Lane {lane} has these: {'; '.join(places)}."
    )


# In the fragment of a tensor core, four lanes share a row: a colour for each.
_FOUR_LANES = (style.TINT, style.PALE, style.WARM, style.HAIR)


def _draw_numbers(
    page: Page,
    x: float,
    y: float,
    numbers: np.ndarray,
    marked: np.ndarray,
    w: float,
    h: float,
    faces: Sequence[str] = _FOUR_LANES,
) -> None:
    """Draw a matrix of integers in cells of w × h, orange where `marked` is True; negative ones leave a cell empty.

    The other cells take their colour from `faces`, by the number modulo how many these are.
    """
    for (i, j), number in np.ndenumerate(numbers):
        if number >= 0:
            face = style.ORANGE if marked[i, j] else faces[number % len(faces)]
            page.rect(x + j * w, y + i * h, w, h, face, style.PAPER, 1)
            page.small(
                x + (j + 0.5) * w, y + (i + 0.5) * h + 4, str(number), style.INK, ha="center"
            )


def locate_sums(lane: int) -> list[tuple[int, int, int]]:
    """Return the outputs whose sums a lane holds in d[0] to d[3] of a product: (map, row, column) of each.

    The product is one of tensor cores (mma.m16n8k16), and d are the lane's registers of its result. A
    row of the product is an output of a square of 2 × 2, as `place_weights` orders them; its eight
    columns are squares side by side. So an output's row is 0 or 1, its column 0 to 15.
    """
    sums = []
    for register in range(4):
        # a lane's part of d, as PTX fixes it (mma.m16n8k16)
        row, square = lane // 4 + register // 2 * 8, lane % 4 * 2 + register % 2
        w, m, h = np.unravel_index(row, (SIDE, MAPS, SIDE))  # row = 8 w + 2 m + h
        sums.append((int(m), int(h), SIDE * square + int(w)))
    return sums


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def pool(page: Page, lane: int = 0) -> None:
    """Draw how two lanes compute the maxima of two squares of 2 × 2 outputs by one exchange.

    The sums are where a product on tensor cores leaves them: `locate_sums`.

    Parameters
    ----------
    lane : int
        One of the two lanes; the other is lane ^ 4.
    """
    if not 0 <= lane < WARP:
        raise LabError(f"draw.pool: lane {lane}; a warp's lanes are 0 to {WARP - 1}")
    # A lane's first row of the product is lane // 4, whose lowest bit is the row in the square: so bit 2 of
    # the lane's number tells the upper row of a square from the lower one.
    upper, lower = lane & ~4, lane | 4
    pair = {upper: style.ORANGE, lower: style.SKY}
    m, _, first = locate_sums(upper)[0]  # the map of both lanes, and their first column
    squares = first // SIDE, first // SIDE + 1
    # in pixels: sides of a cell in the tile, its left edge and top; of an output, and its left edge
    cell, x0, top, side, x1 = (20, 104, 124, 46, 372)
    page.open(
        top + 16 * cell + 30,
        f"Lanes {upper} and {lower} have two squares together; one exchange is enough",
        "one product of tensor cores, after its last step   ·   numbers in the cells: lanes",
    )
    # on the left: all sums of the product, each with the lane that holds it
    page.caption(x0 - 78, top - 40, "The sums", "16 outputs × 8 squares")
    for column in range(8):
        page.small(x0 + (column + 0.5) * cell, top - 8, str(column), ha="center")
    page.small(x0 - 8, top - 8, "square", ha="right")
    for holder in range(WARP):
        for register, (row_map, h, column) in enumerate(locate_sums(holder)):
            square, w = divmod(column, SIDE)
            row = 8 * w + 2 * row_map + h
            x, y = x0 + square * cell, top + row * cell
            page.rect(x, y, cell, cell, pair.get(holder, style.EMPTY), style.PAPER, 1)
            look = ("bold", style.INK) if holder in pair else ("normal", style.MUTED)
            page.small(
                x + cell / 2, y + cell / 2 + 4, str(holder), look[1], ha="center", weight=look[0]
            )
            if square == 0 and not register % 2:  # once per row, left of its first cell
                words = f"map {row_map}  ({h}, {w})"
                shown = style.INK if row_map == m else style.MUTED
                page.small(x0 - 8, y + cell / 2 + 4, words, shown, ha="right")
    page.small(x0 - 78, top + 16 * cell + 18, "(h, w): row and column in the square", style.MUTED)

    # on the right: the eight sums of the two lanes, where they lie in the map
    page.caption(
        x1, top - 40, f"Map {m}, squares {squares[0]} and {squares[1]}", "in the two lanes"
    )
    gap = 36  # between the squares
    for h, holder in enumerate(pair):
        for register, (_, row, column) in enumerate(locate_sums(holder)):
            assert row == h, "a lane has one row of its squares"
            square, w = divmod(column - first, SIDE)
            x, y = x1 + square * (2 * side + gap) + w * side, top + 8 + h * side
            page.rect(x, y, side, side, pair[holder], style.PAPER, 1.5)
            page.small(x + side / 2, y + side / 2 + 4, f"d[{register}]", style.INK, ha="center")
        page.small(
            x1 + 4 * side + gap + 10,
            top + 8 + (h + 0.5) * side + 4,
            f"lane {holder}",
            style.INK,
            weight="bold",
        )
    for n, square in enumerate(squares):
        left = x1 + n * (2 * side + gap)
        page.frame(left, top + 8, 2 * side, 2 * side, style.INK, 1.6)
        page.small(left + side, top - 2, f"square {square}", style.INK, ha="center")

    # below: what each lane has after the maximum of its own sums, and what it does with it
    y = top + 8 + 2 * side + 54
    middles = [x1 + side + n * (2 * side + gap) for n in range(2)]
    page.caption(x1, y - 22, "1", "each lane: of each square, the maximum of its sums")
    high, wide_box = 26, 2 * side - 12
    for h, holder in enumerate(pair):
        for n, middle in enumerate(middles):
            keeps = n == h  # the upper lane keeps its left maximum, the lower its right one
            box = (middle - wide_box / 2, y - 6 + h * (high + 26), wide_box, high)
            page.rect(*box, pair[holder], style.INK if keeps else "none", 1.6 if keeps else 0)
            page.small(
                middle,
                box[1] + high / 2 + 4,
                ("left", "right")[n] + (": keep" if keeps else ": give"),
                style.INK,
                ha="center",
                weight="bold" if keeps else "normal",
            )
        page.small(
            x1 + 4 * side + gap + 10,
            y - 6 + h * (high + 26) + high / 2 + 4,
            f"lane {holder}",
            style.INK,
            weight="bold",
        )
    start = y - 6 + high
    page.arrow(middles[0], middles[0], start + 26, style.INK, 1.6, start + 1)  # left goes up
    page.arrow(middles[1], middles[1], start, style.INK, 1.6, start + 25)  # right goes down
    page.text(
        (middles[0] + middles[1]) / 2,
        start + 17,
        "2  one shuffle",
        ha="center",
        weight="bold",
    )
    end = start + 26 + high
    stores = f"lane {upper} stores square {squares[0]}, lane {lower} square {squares[1]}"
    page.caption(x1, end + 26, "3", stores)
    held = [
        ", ".join(f"d[{i}] ({h}, {w})" for i, (_, h, w) in enumerate(locate_sums(holder)))
        for holder in pair
    ]
    page.alt = (
        f"The 16 × 8 sums of a product, with the lane that holds each. Of map {m}, squares {squares[0]} and "
        f"{squares[1]}, as (row, column) of the map's tile: lane {upper} holds {held[0]}; lane {lower} holds "
        f"{held[1]}. Each lane takes the maximum of its two sums of each square. Lane {upper} keeps that of square "
        f"{squares[0]} and gives the other, lane {lower} keeps that of square {squares[1]} and gives the other. "
        f"Then lane {upper} stores square {squares[0]}, lane {lower} square {squares[1]}."
    )
