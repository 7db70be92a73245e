"""Pictures of ideas: the network, the convolution, its threads and blocks, a tile, a warp's memory accesses.

All of them are arithmetic on the sizes given, so they look the same on every machine.
"""

import numpy as np

from labkit.draw.style import (
    AMBER,
    BLUE,
    FAINT,
    GREEN,
    HAIR,
    INK,
    MUTED,
    NORMAL,
    ORANGE,
    PAPER,
    SKY,
    SMALL,
    WIDTH,
    canvas,
)
from labkit.errors import LabError

TINT = "#dce8f5"  # blue, as a ground
WARM = "#fbe3c0"  # orange, as a ground

# What follows the last convolution: (name, kind, maps, side, multiply-adds).
_TAILS = {
    "lenet86": [("max-pool", "4×4", 16, 9, 0), ("FC", "1296→32", 32, 1, 1296 * 32), ("FC", "32→10", 10, 1, 320)],
    "lenet28": [("filter", "4×4, stride 4", 6, 6, 6 * 36 * 16), ("FC", "216→10", 10, 1, 2160)],
}


def network(preset, times=None, image=None, title=None, path=None):
    """The network as a row of feature maps, with the share of each step in the multiply-adds, and in the time.

    Parameters
    ----------
    preset : Preset
        LENET86, LENET72 or LENET28; any sequence of layers, each fed by the one before through a pooling.
    times : mapping of str to float, optional
        Step to milliseconds, for example ``{"conv1": 4.97, "conv2": 18.9, "everything else": 3.1}``: a second bar.
    image : array, shape [H, W], optional
        Drawn on the input.
    """
    layers = list(preset)
    name = getattr(preset, "name", "the network")
    stages, steps = [(layers[0].C, layers[0].H)], []
    for i, layer in enumerate(layers):
        steps.append((f"conv{i + 1}", f"{layer.K}×{layer.K}", layer.macs(1), layer.K))
        stages.append((layer.M, layer.Ho))
        if i + 1 < len(layers):
            window = round(layer.Ho / layers[i + 1].H)
            steps.append(("max-pool", f"{window}×{window}", 0, window))
            stages.append((layers[i + 1].C, layers[i + 1].H))
    for step, detail, maps, side, macs in _TAILS.get(name, []):
        steps.append((step, detail, macs, 0))
        stages.append((maps, side))
    total = sum(macs for _, _, macs, _ in steps)
    convolved = sum(layer.macs(1) for layer in layers)
    shares = {step: macs for step, _, macs, _ in steps if step.startswith("conv")}
    if total > convolved:
        shares["everything else"] = total - convolved

    bars = [("multiply-adds", shares, f"{_si(total)} an image")]
    if times:
        bars.append(("time", dict(times), f"{sum(times.values()):.3g} ms"))
    top, middle = 62, 140
    height = 258 + 52 * len(bars)
    with canvas(height, path=path) as page:
        count = "two convolutions" if len(layers) == 2 else "convolution"
        page.heading(title or f"{name}: {_share(convolved, total)} of the multiply-adds are in its {count}")
        ax = page.paper()
        sizes = [_card(maps, side) for maps, side in stages]
        spare = page.width - 2 * 26 - sum(w + d for w, d in sizes)
        gap = min(92, spare / len(steps))
        x = 26 + (spare - gap * len(steps)) / 2
        ends = []
        for i, ((maps, side), (w, d)) in enumerate(zip(stages, sizes, strict=True)):
            last = i == len(stages) - 1
            _maps(ax, x, middle, maps, side, w, d, image if i == 0 else None)
            shape = f"{maps}×{side}×{side}" if side > 1 else f"{maps}"
            ax.text(x + (w + d) / 2, 214, shape, ha="center", weight="bold", size=SMALL)
            under = "input" if i == 0 else "softmax" if last and name in _TAILS else ""
            ax.text(x + (w + d) / 2, 230, under, ha="center", size=SMALL, color=MUTED)
            ends.append((x, x + w + d, w, d))
            x += w + d + gap
        for (step, detail, macs, window), left, right, (_, side) in zip(steps, ends, ends[1:], stages, strict=False):
            x0, x1 = left[1] + 7, right[0] - 8
            is_conv = step.startswith("conv")
            color = BLUE if is_conv else MUTED
            _arrow(ax, x0, x1, middle, color, 2 if is_conv else 1.2)
            mid = (x0 + x1) / 2
            ax.text(mid, top + 12, step, ha="center", size=SMALL, color=color, weight="bold")
            ax.text(mid, top + 28, detail, ha="center", size=SMALL, color=color)
            if window:
                cell = left[2] * window / side
                _rect(ax, left[0] + 3, middle - left[2] / 2 + left[3] / 2 + 3, cell, cell, "none", ORANGE, 1.4)
        y = 250
        words = []
        for what, parts, amount in bars:
            words.append(f"{what}: " + ", ".join(f"{k} {_share(v, sum(parts.values()))}" for k, v in parts.items()))
            _stacked(page, ax, y, what, parts, amount)
            y += 52
        page.alt = (
            f"{name} as a row of feature maps: {stages[0][0]}×{stages[0][1]}×{stages[0][1]}"
            + "".join(
                f", {step} {detail} to {maps}" + (f"×{side}×{side}" if side > 1 else "")
                for (step, detail, _, _), (maps, side) in zip(steps, stages[1:], strict=True)
            )
            + f". Shares of the {'; of the '.join(words)}."
        )
        if times:
            page.plain = f"Figure: {name} as a row of feature maps, with each step's share of the work"


def _card(maps, side):
    """Width of a stage's cards and how far the stack reaches behind them, in pixels."""
    if side == 1:
        return 9, 0
    return 12 + 52 * (side / 86) ** 0.8, 3.5 * (min(maps, 8) - 1)


def _maps(ax, x, middle, maps, side, w, d, image):
    """A stack of feature maps, the front one at the lower left; a vector as a column of cells."""
    if side == 1:
        h = 9 * min(maps, 10) if maps <= 10 else 112
        _rect(ax, x, middle - h / 2, w, h, TINT, BLUE, 1)
        cells = min(maps, 32)
        for i in range(1, cells):
            ax.plot([x, x + w], [middle - h / 2 + i * h / cells] * 2, color=BLUE, lw=0.5)
        return
    shown = min(maps, 8)
    for i in reversed(range(shown)):
        shift = d * i / max(1, shown - 1)
        _rect(ax, x + shift, middle - w / 2 + d / 2 - shift, w, w, TINT, BLUE, 1)
    if image is not None:
        y = middle - w / 2 + d / 2
        ax.imshow(image, cmap="gray_r", extent=(x + 1, x + w - 1, y + w - 1, y + 1), zorder=2, aspect="auto")


def _stacked(page, ax, y, what, parts, amount):
    """One bar of 100 %, its parts named inside where they fit and behind it where they do not."""
    total = sum(parts.values())
    left, right = 26, page.width - 130
    ax.text(left, y + 2, what, size=SMALL, weight="bold")
    ax.text(left + page.text_width(what + "  ", SMALL, "bold"), y + 2, amount, size=SMALL, color=MUTED)
    x, outside = left, []
    for i, (part, value) in enumerate(parts.items()):
        w = (right - left) * value / total
        dark = part.startswith("conv")
        color = (BLUE, "#4f86c2")[i % 2] if dark else FAINT
        _rect(ax, x, y + 9, max(w, 1), 22, color, PAPER, 1)
        label = f"{part}  {_share(value, total)}"
        if page.text_width(label, SMALL) + 12 < w:
            ax.text(x + w / 2, y + 24.5, label, ha="center", size=SMALL, color=PAPER if dark else INK)
        else:
            outside.append(label)
        x += w
    ax.text(right + 8, y + 24.5, ", ".join(outside), size=SMALL, color=MUTED)


def images(pictures, labels, predictions=None, names=None, columns=10, title=None, path=None):
    """A strip of images with their labels; wrong predictions are crossed and framed.

    Parameters
    ----------
    pictures : array, shape [N, H, W] or [N, 1, H, W]
    labels : sequence of int, length N
    predictions : sequence of int, length N, optional
    names : sequence of str, optional
        A word for each class.
    columns : int
        Images side by side.

    Raises
    ------
    LabError
        If the lengths differ or there is no image.
    """
    pictures = np.asarray(pictures, dtype=np.float32)
    if pictures.ndim == 4:
        pictures = pictures[:, 0]
    given = [len(labels)] + ([len(predictions)] if predictions is not None else [])
    if pictures.ndim != 3 or not len(pictures) or any(n != len(pictures) for n in given):
        raise LabError(
            f"draw.images got pictures {pictures.shape} with {given} labels and predictions: as many of each"
        )
    word = (lambda i: names[i]) if names is not None else str
    count, wrong = len(pictures), 0
    columns = min(columns, count)
    rows = -(-count // columns)
    side = min(88, (WIDTH - 24) / columns - 8)
    pitch = (WIDTH - 24) / columns if columns >= 8 else side + 12
    with canvas(64 + rows * (side + 26) + 4, path=path) as page:
        ax = page.paper()
        for i in range(count):
            x, y = 12 + i % columns * pitch, 64 + i // columns * (side + 26)
            peak = pictures[i].max() or 1
            ax.imshow(
                pictures[i] / peak,
                cmap="gray_r",
                vmin=0,
                vmax=1,
                extent=(x, x + side, y + side, y),
                aspect="auto",
                interpolation="nearest",
            )
            right = predictions is None or predictions[i] == labels[i]
            _rect(ax, x, y, side, side, "none", HAIR if right else ORANGE, 1 if right else 2.5)
            text, color = word(int(labels[i])), INK
            if not right:
                wrong += 1
                text, color = f"{text}, read as {word(int(predictions[i]))}", AMBER
                if page.text_width(text, SMALL, "bold") > pitch - 4:
                    text = f"{word(int(labels[i]))} → {word(int(predictions[i]))}"
            ax.text(
                x + side / 2,
                y + side + 15,
                text,
                ha="center",
                size=SMALL,
                color=color,
                weight="normal" if right else "bold",
            )
        ax.set(xlim=(0, page.width), ylim=(page.height, 0))
        if predictions is None:
            message, note = "What the network gets to see", f"{count} images and their labels"
        else:
            message = f"{count - wrong} of these {count} are read correctly"
            note = (
                "below each image: its label; framed: label → what the network read" if wrong else "with their labels"
            )
        page.heading(title or message, note)
        page.alt = f"{count} images. Labels: {', '.join(word(int(i)) for i in labels)}."
        if predictions is not None:
            page.alt += f" Read as: {', '.join(word(int(i)) for i in predictions)}; {wrong} wrong."


def convolution(layer, title=None, path=None):
    """One output pixel of a layer: the K × K window that it reads, the mask, and what its neighbour reads as well.

    Parameters
    ----------
    layer : Layer
    """
    K, C, M = layer.K, layer.C, layer.M
    terms, shared = C * K * K, C * K * (K - 1)
    rows, columns = K + 4, K + 6
    cell = min(18.0, 200 / rows)
    reads = M * layer.Ho * layer.Wo * terms
    inputs = C * layer.H * layer.W
    height = 330
    with canvas(height, path=path) as page:
        page.heading(
            title or f"Neighbouring threads read {shared} of the same {terms} inputs",
            f"{layer.name}   ·   one thread computes one output   ·   K = {K}",
        )
        ax = page.paper()
        y0 = 92 + (200 - rows * cell) / 2
        x0 = 26
        r, c = 1, 2  # where the first thread's window starts in the part of the image that is drawn
        _cells(ax, x0, y0, rows, columns, cell, PAPER)
        _rect(ax, x0 + c * cell, y0 + r * cell, K * cell, K * cell, TINT)
        _rect(ax, x0 + (c + K) * cell, y0 + r * cell, cell, K * cell, WARM)
        _cells(ax, x0, y0, rows, columns, cell, "none")
        _rect(ax, x0 + c * cell, y0 + r * cell, K * cell, K * cell, "none", BLUE, 2.5)
        _rect(ax, x0 + (c + 1) * cell + 3, y0 + r * cell + 3, K * cell - 3, K * cell - 6, "none", ORANGE, 2.5)
        below = y0 + rows * cell + 22
        ax.text(x0, 84, "input x", weight="bold", size=NORMAL)
        ax.text(x0 + page.text_width("input x  ", weight="bold"), 84, f"{C}×{layer.H}×{layer.W}, a corner", color=MUTED)
        ax.text(x0, below, "both threads", size=SMALL, color=INK)
        width = page.text_width("both threads", SMALL)
        ax.text(
            x0 + width,
            below,
            f" read {K}×{K - 1} = {K * (K - 1)} of {K * K}" + (" a channel" if C > 1 else ""),
            size=SMALL,
            color=MUTED,
        )

        x1 = x0 + columns * cell + 52
        _cells(ax, x1, y0 + r * cell, K, K, cell, "#e3f3ee", GREEN)
        _rect(ax, x1, y0 + r * cell, K * cell, K * cell, "none", GREEN, 2)
        ax.text(x1, 84, "mask k", weight="bold")
        ax.text(x1 + page.text_width("mask k  ", weight="bold"), 84, f"{M}×{C}×{K}×{K}", color=MUTED)
        ax.text(x1 - 26, y0 + (r + K / 2) * cell, "×", ha="center", va="center", size=18, color=MUTED)
        ax.text(x1, y0 + (r + K) * cell + 20, "the same for every", size=SMALL, color=MUTED)
        ax.text(x1, y0 + (r + K) * cell + 36, "output of a map", size=SMALL, color=MUTED)

        x2 = x1 + K * cell + 66
        out_rows, out_columns = rows - K + 1, columns - K + 1
        _arrow(ax, x1 + K * cell + 10, x2 - 12, y0 + (r + K / 2) * cell, MUTED, 1.4)
        ax.text((x1 + K * cell + x2) / 2 - 1, y0 + (r + K / 2) * cell - 8, "Σ", ha="center", size=13, color=MUTED)
        oy = y0 + (r + K / 2) * cell - out_rows * cell / 2
        _cells(ax, x2, oy, out_rows, out_columns, cell, PAPER)
        _rect(ax, x2 + c * cell, oy + r * cell, cell, cell, BLUE, BLUE, 1)
        _rect(ax, x2 + (c + 1) * cell, oy + r * cell, cell, cell, ORANGE, ORANGE, 1)
        ax.text(x2, 84, "output y", weight="bold")
        ax.text(x2 + page.text_width("output y  ", weight="bold"), 84, f"{M}×{layer.Ho}×{layer.Wo}", color=MUTED)
        ax.text(x2, oy - 26, "thread (h, w)", size=SMALL, color=BLUE, weight="bold")
        ax.text(x2, oy - 10, "thread (h, w+1)", size=SMALL, color=AMBER, weight="bold")

        y = height - 12
        ax.text(
            26,
            y,
            f"An image has {inputs:,} inputs; its {M * layer.Ho * layer.Wo:,} threads ask for {reads:,}: "
            f"each input {reads / inputs:.0f} times.",
            size=NORMAL,
        )
        page.alt = (
            f"{layer.name}: a thread multiplies a window of {'' if C == 1 else f'{C} times '}{K}×{K} inputs with the "
            f"mask and sums the {terms} products into one output. The thread beside it reads a window one column "
            f"further, {shared} of the same {terms} inputs. An image's {M * layer.Ho * layer.Wo:,} threads ask for "
            f"{reads:,} inputs, where there are {inputs:,}: each {reads / inputs:.0f} times."
        )


def grid(layer, block=(16, 16), batch=None, title=None, path=None):
    """How blocks and threads cover a layer's output, and the share of threads that have none to compute.

    Parameters
    ----------
    layer : Layer
    block : tuple of int
        Threads in x (along w) and in y (along h).
    batch : int, optional
        Images, for the count of blocks.
    """
    bx, by = block[0], block[1]
    if bx < 1 or by < 1 or bx * by > 1024:
        raise LabError(f"draw.grid: a block of {bx}×{by} has {bx * by} threads; a GPU takes 1 to 1024")
    nx, ny = -(-layer.Wo // bx), -(-layer.Ho // by)
    launched, wanted = nx * bx * ny * by, layer.Ho * layer.Wo
    idle = 1 - wanted / launched
    warps = -(-bx * by // 32)
    with canvas(400, path=path) as page:
        page.heading(
            title
            or (
                f"Every thread has an output: {layer.Wo}×{layer.Ho} is a multiple of {bx}×{by}"
                if not idle
                else f"{_share(launched - wanted, launched)} of the threads have no output to compute"
            ),
            f"{layer.name}   ·   blocks of {bx}×{by} threads, one thread an output",
        )
        ax = page.paper()
        # The output map under its blocks.
        scale = 236 / max(nx * bx, ny * by)
        x0, y0 = 26, 104
        w, h = layer.Wo * scale, layer.Ho * scale
        full_w, full_h = nx * bx * scale, ny * by * scale
        ax.text(x0, y0 - 12, "an output map", weight="bold")
        ax.text(x0 + page.text_width("an output map  ", weight="bold"), y0 - 12, f"{layer.Ho}×{layer.Wo}", color=MUTED)
        if idle:
            _rect(ax, x0, y0, full_w, full_h, WARM, ORANGE, 0, hatch="////")
        _rect(ax, x0, y0, w, h, TINT)
        for i in range(nx + 1):
            ax.plot([x0 + i * bx * scale] * 2, [y0, y0 + full_h], color=BLUE, lw=0.9)
        for i in range(ny + 1):
            ax.plot([x0, x0 + full_w], [y0 + i * by * scale] * 2, color=BLUE, lw=0.9)
        _rect(ax, x0, y0, w, h, "none", INK, 1.8)
        at = (min(1, nx - 1), 0)  # the block that is drawn large
        px, py = x0 + at[0] * bx * scale, y0
        _rect(ax, px, py, bx * scale, by * scale, BLUE, BLUE, 1)
        if idle:
            ax.text(
                x0,
                y0 + full_h + 20,
                f"idle: {launched - wanted:,} of {launched:,} threads",
                color=AMBER,
                size=SMALL,
                weight="bold",
            )
        else:
            ax.text(x0, y0 + full_h + 20, f"{launched:,} threads, none idle", color=MUTED, size=SMALL)

        # The block's threads, coloured by warp.
        side = 176
        cell = side / max(bx, by)
        x1, y1 = x0 + 236 + 74, y0
        for corner in ((py, y1), (py + by * scale, y1 + by * cell)):
            ax.plot([px + bx * scale, x1], corner, color=BLUE, lw=0.8, ls=(0, (3, 3)), zorder=1)
        ax.text(x1, y1 - 12, "a block", weight="bold")
        ax.text(
            x1 + page.text_width("a block  ", weight="bold"),
            y1 - 12,
            f"{bx * by} threads, {warps} warps of 32" if warps > 1 else f"{bx * by} threads, 1 warp",
            color=MUTED,
        )
        numbers = np.arange(bx * by).reshape(by, bx) // 32
        shades = np.array([[0x1F, 0x64, 0xAD], [0x9D, 0xB9, 0xD9]], np.uint8)[numbers % 2]
        ax.imshow(
            shades, extent=(x1, x1 + bx * cell, y1 + by * cell, y1), aspect="auto", interpolation="nearest", zorder=2
        )
        if cell >= 4:
            for i in range(bx + 1):
                ax.plot([x1 + i * cell] * 2, [y1, y1 + by * cell], color=PAPER, lw=0.6, zorder=3)
            for i in range(by + 1):
                ax.plot([x1, x1 + bx * cell], [y1 + i * cell] * 2, color=PAPER, lw=0.6, zorder=3)
        below = y1 + by * cell + 20
        row = f"{bx} outputs" if 32 % bx else f"{32 // bx} rows of {bx} outputs" if bx < 32 else "32 outputs of a row"
        ax.text(
            x1,
            below,
            f"a warp, in one shade: {row}"
            if 32 % bx == 0 or bx % 32 == 0
            else "a warp, in one shade: wraps at the row’s end",
            size=SMALL,
            color=MUTED,
        )

        # Maps and images.
        x2 = x1 + side + 62
        maps = min(layer.M, 5)
        for i in reversed(range(maps)):
            _rect(ax, x2 + 9 * i, y0 + 36 - 9 * i, 92, 92, TINT, BLUE, 1)
        ax.text(x2, y0 - 12, "maps and images", weight="bold")
        ax.text(x2, y0 + 148, f"× {layer.M} maps", size=NORMAL)
        if batch:
            ax.text(x2, y0 + 168, f"× {batch:,} images", size=NORMAL)
        blocks = nx * ny * layer.M
        total = f"{nx} × {ny} blocks × {layer.M} maps"
        total += f" × {batch:,} images = {blocks * batch:,} blocks" if batch else f" = {blocks:,} blocks an image"
        ax.text(26, page.height - 12, total + f" of {bx * by} threads", size=NORMAL)
        ax.set(xlim=(0, page.width), ylim=(page.height, 0))
        page.alt = (
            f"{layer.name}: blocks of {bx}×{by} threads cover an output map of {layer.Ho}×{layer.Wo} {nx} times across "
            f"and {ny} times down. {_share(launched - wanted, launched)} of the threads lie outside of the map. {total}."
        )


def tile(T=16, K=7, title=None, path=None):
    """What a block with shared memory loads: the inputs of T × T outputs, with their halo, in passes of T × T threads.

    Parameters
    ----------
    T : int
        Side of the output tile and of the block.
    K : int
        Side of the mask.
    """
    if T < 1 or K < 1 or T * T > 1024:
        raise LabError(f"draw.tile: T = {T}, K = {K}; T is 1 to 32 (a block has at most 1024 threads) and K at least 1")
    side = T + K - 1
    asked, loaded = T * T * K * K, side * side
    shades = (BLUE, "#5e93cb", SKY, "#cfe2f4")
    with canvas(400, path=path) as page:
        page.heading(
            title or f"Load {loaded:,} inputs once instead of asking for {asked:,}",
            f"a channel of a tile of {T}×{T} outputs, K = {K}   ·   {asked / loaded:.1f} times fewer loads",
        )
        ax = page.paper()
        cell = min(13.0, 270 / side)
        x0, y0 = 26, 104
        ax.text(x0, y0 - 12, "input tile", weight="bold")
        ax.text(
            x0 + page.text_width("input tile  ", weight="bold"),
            y0 - 12,
            f"(T+K−1)² = {side}×{side}, {loaded * 4:,} bytes of shared memory",
            color=MUTED,
        )
        passes = {}
        for i in range(0, side, T):
            for j in range(0, side, T):
                passes[i, j] = (min(T, side - i), min(T, side - j))
        for n, ((i, j), (h, w)) in enumerate(passes.items()):
            _rect(ax, x0 + j * cell, y0 + i * cell, w * cell, h * cell, shades[min(n, 3)])
        if cell >= 4:
            _cells(ax, x0, y0, side, side, cell, "none", PAPER)
        for n, ((i, j), (h, w)) in enumerate(passes.items()):
            if min(h, w) * cell > 22 and len(passes) <= 9:
                ax.text(
                    x0 + (j + w / 2) * cell,
                    y0 + (i + h / 2) * cell + 5,
                    str(n + 1),
                    ha="center",
                    weight="bold",
                    color=PAPER if n < 2 else INK,
                    size=NORMAL,
                )
        # One thread's window, at the tile's first output.
        _rect(ax, x0, y0, K * cell, K * cell, "none", ORANGE, 2.5)

        x1 = x0 + side * cell + 120
        oy = y0 + (side - T) * cell / 2
        _arrow(ax, x0 + side * cell + 14, x1 - 14, oy + T * cell / 2, MUTED, 1.4)
        ax.text(
            (x0 + side * cell + x1) / 2,
            oy + T * cell / 2 - 10,
            f"{K * K} products",
            ha="center",
            size=SMALL,
            color=MUTED,
        )
        ax.text((x0 + side * cell + x1) / 2, oy + T * cell / 2 + 18, "an output", ha="center", size=SMALL, color=MUTED)
        ax.text(x1, oy - 12, "output tile", weight="bold")
        ax.text(x1 + page.text_width("output tile  ", weight="bold"), oy - 12, f"{T}×{T}", color=MUTED)
        _rect(ax, x1, oy, T * cell, T * cell, TINT)
        if cell >= 4:
            _cells(ax, x1, oy, T, T, cell, "none", PAPER)
        _rect(ax, x1, oy, T * cell, T * cell, "none", BLUE, 1.2)
        _rect(ax, x1, oy, cell, cell, ORANGE, ORANGE, 1)
        y = y0 + side * cell + 26
        many = f"{len(passes)} passes of the block’s {T * T} threads, numbered" if len(passes) > 1 else "one pass"
        ax.text(x0, y, f"loaded in {many}", size=SMALL, color=MUTED)
        ax.text(x0, y + 18, f"the window of one output", size=SMALL, color=AMBER, weight="bold")
        page.alt = (
            f"A tile of {T}×{T} outputs needs {side}×{side} = {loaded:,} inputs a channel, halo included. The block's "
            f"{T * T} threads load them in {len(passes)} passes; read one by one, its outputs would ask for {asked:,}."
        )


def sectors(addresses, size=4, title=None, subtitle="", path=None):
    """A warp's memory access, lane by lane, and the 32-byte sectors that it touches.

    Parameters
    ----------
    addresses : array of int, at most 32, or mapping of str to such arrays
        Byte address of each lane; a negative one marks a lane that takes no part. A mapping draws a panel each, to
        compare two mappings of threads to data.
    size : int
        Bytes that a lane reads or writes there.
    """
    panels = addresses if isinstance(addresses, dict) else {"": addresses}
    drawn = {name: _Access(values, size) for name, values in panels.items()}
    counts = [len(access.sectors) for access in drawn.values()]
    with canvas(52 + 150 * len(panels), path=path) as page:
        spread = " against ".join(str(n) for n in dict.fromkeys(counts))
        page.heading(title or f"One request of a warp, {spread} sector{'s' if counts != [1] else ''} moved", subtitle)
        ax = page.paper()
        for i, (name, access) in enumerate(drawn.items()):
            _draw_access(page, ax, 60 + 150 * i, name, access)
        page.alt = "A warp's 32 lanes and the 32-byte sectors of memory that they touch. " + " ".join(
            f"{name + ': ' if name else ''}{access.words()}." for name, access in drawn.items()
        )


def coalescing(layer, block=(16, 16), path=None):
    """A warp that reads the layer's input along a row, and one that reads it down a column: sectors for each.

    Parameters
    ----------
    layer : Layer
    block : tuple of int
        Threads in x and y; the warp is the block's first.
    """
    bx, by = block[0], block[1]
    lanes = np.arange(min(32, bx * by))
    y, x = lanes // bx, lanes % bx
    sectors(
        {"threadIdx.x along w": (y * layer.W + x) * 4, "threadIdx.x along h": (x * layer.W + y) * 4},
        subtitle=f"{layer.name}   ·   first warp of a block of {bx}×{by}   ·   an image row is {layer.W * 4} bytes",
        path=path,
    )


class _Access:
    """The sectors behind a warp's addresses."""

    def __init__(self, addresses, size):
        addresses = np.asarray(addresses)
        if addresses.ndim != 1 or not 1 <= len(addresses) <= 32 or addresses.dtype.kind not in "iu":
            raise LabError(
                f"draw.sectors: a warp has 32 lanes; got {addresses.dtype} addresses of shape {addresses.shape}"
            )
        self.size = size
        self.addresses = addresses.astype(np.int64)
        active = self.addresses[self.addresses >= 0]
        if not len(active):
            raise LabError("draw.sectors: no lane takes part (all addresses are negative)")
        touched = (active[:, None] + np.arange(size)).ravel()
        self.bytes = np.unique(touched)
        self.sectors = np.unique(touched // 32)

    def words(self):
        moved = 32 * len(self.sectors)
        plural = "s" if len(self.sectors) > 1 else ""
        return f"{len(self.sectors)} sector{plural}, {len(self.bytes):,} of {moved:,} bytes used ({_share(len(self.bytes), moved)})"


def _draw_access(page, ax, top, name, access):
    left, right = 26, page.width - 26
    if name:
        ax.text(left, top + 18, name, weight="bold")
    ax.text(right, top + 18, access.words(), ha="right", color=MUTED)
    pitch = (right - left) / 32
    lanes_y, sectors_y, tall = top + 30, top + 100, 24
    # Sectors side by side, with a gap where memory in between is left out.
    jumps = np.diff(access.sectors) > 1
    n = len(access.sectors)
    gap = 12 if n <= 12 else 5
    w = min(150.0, (right - left - gap * jumps.sum()) / n)
    x = left + (right - left - w * n - gap * jumps.sum()) / 2
    place = {}
    for i, sector in enumerate(access.sectors):
        if i and jumps[i - 1]:
            x += gap
        place[int(sector)] = x
        _rect(ax, x, sectors_y, w, tall, "#eef1f4")
        used = access.bytes[access.bytes // 32 == sector] % 32
        for start in used:
            _rect(ax, x + w * start / 32, sectors_y, w / 32, tall, BLUE)
        if w > 60:
            for word in range(1, 8):
                ax.plot([x + w * word / 8] * 2, [sectors_y, sectors_y + tall], color=PAPER, lw=0.8)
        _rect(ax, x, sectors_y, w, tall, "none", MUTED, 1)
        x += w
    for lane in range(32):
        active = lane < len(access.addresses) and access.addresses[lane] >= 0
        cx = left + (lane + 0.5) * pitch
        _rect(
            ax, left + lane * pitch + 1, lanes_y, pitch - 2, 18, BLUE if active else PAPER, BLUE if active else FAINT, 1
        )
        ax.text(cx, lanes_y + 12.5, str(lane), ha="center", size=6.6, color=PAPER if active else MUTED)
        if active:
            address = int(access.addresses[lane])
            to = place[address // 32] + w * (address % 32 + access.size / 2) / 32
            ax.plot([cx, to], [lanes_y + 20, sectors_y - 2], color=PALE_LINE, lw=0.9, zorder=0.5)
    ax.text(
        left,
        sectors_y + tall + 15,
        "sectors of 32 bytes" + (", gaps left out" if jumps.any() else ""),
        size=SMALL,
        color=MUTED,
    )


PALE_LINE = "#9db9d9"


def _rect(ax, x, y, w, h, face, edge="none", lw=0.0, **options):
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), w, h, facecolor=face, edgecolor=edge, linewidth=lw, **options))


def _cells(ax, x, y, rows, columns, cell, face, edge=FAINT):
    """A grid of square cells."""
    if face != "none":
        _rect(ax, x, y, columns * cell, rows * cell, face)
    for i in range(columns + 1):
        ax.plot([x + i * cell] * 2, [y, y + rows * cell], color=edge, lw=0.7, solid_capstyle="butt", zorder=1.5)
    for i in range(rows + 1):
        ax.plot([x, x + columns * cell], [y + i * cell] * 2, color=edge, lw=0.7, solid_capstyle="butt", zorder=1.5)


def _arrow(ax, x0, x1, y, color, lw):
    ax.annotate(
        "", (x1, y), (x0, y), arrowprops={"arrowstyle": "-|>", "color": color, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    )


def _share(part, whole):
    percent = 100 * part / whole
    return f"{percent:.0f} %" if percent >= 9.95 or percent == 0 else f"{percent:.1f} %"


def _si(count):
    return f"{count / 1e6:.2f} million" if count >= 1e6 else f"{count:,}"
