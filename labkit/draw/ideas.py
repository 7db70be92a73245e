"""Pictures of ideas: the network, the convolution, its threads and blocks, a tile.

All of them are arithmetic on the sizes given, so they look the same on every machine.
"""

import numpy as np

from labkit.base.errors import LabError
from labkit.base.limits import MAX_THREADS
from labkit.draw.style import (
    AMBER,
    BLUE,
    FAINT,
    GREEN,
    HAIR,
    INK,
    MUTED,
    ORANGE,
    PAPER,
    SKY,
    SMALL,
    TINT,
    WARM,
    WIDTH,
    arrow,
    canvas,
    caption,
    cells,
    percent,
    rect,
)

# What a preset's network has around its convolutions: the activation, and the steps after the last convolution,
# each (name, detail, maps, side, window, multiply-adds).
_NETWORKS = {
    "lenet86": (
        "ReLU",
        [
            ("max-pool", "4×4", 16, 9, 4, 0),
            ("FC", "1296→32", 32, 1, 0, 1296 * 32),
            ("FC", "32→10", 10, 1, 0, 32 * 10),
        ],
    ),
    "lenet28": (
        "sigmoid",
        [("filter", "4×4, stride 4", 6, 6, 4, 6 * 6 * 6 * 4 * 4), ("FC", "216→10", 10, 1, 0, 216 * 10)],
    ),
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
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If `path` is neither .png nor .svg.
    """
    layers = list(preset)
    name = getattr(preset, "name", "the network")
    activation, tail = _NETWORKS.get(name, ("", []))
    stages, steps = [(layers[0].C, layers[0].H)], []
    for i, layer in enumerate(layers):
        detail = f"{layer.K}×{layer.K}" + (f", {activation}" if activation else "")
        steps.append((f"conv{i + 1}", detail, layer.K, layer.macs(1)))
        stages.append((layer.M, layer.Ho))
        if i + 1 < len(layers):
            window = round(layer.Ho / layers[i + 1].H)
            steps.append(("max-pool", f"{window}×{window}", window, 0))
            stages.append((layers[i + 1].C, layers[i + 1].H))
    for step, detail, maps, side, window, macs in tail:
        steps.append((step, detail, window, macs))
        stages.append((maps, side))
    total = sum(macs for *_, macs in steps)
    convolved = sum(layer.macs(1) for layer in layers)
    shares = {step: macs for step, *_, macs in steps if step.startswith("conv")}
    if total > convolved:
        shares["everything else"] = total - convolved
    bars = [("multiply-adds", shares, f"{_si(total)} an image")]
    if times:
        bars.append(("time", dict(times), f"{sum(times.values()):.3g} ms"))

    middle = 152
    with canvas(264 + 54 * len(bars), path=path) as page:
        count = {1: "convolution", 2: "two convolutions"}.get(len(layers), f"{len(layers)} convolutions")
        if total > convolved:
            message = f"{name}: {percent(convolved / total)} of the multiply-adds are in its {count}"
        else:
            message = f"{name}: {count}, {_si(total)} multiply-adds an image"
        page.heading(
            title or message,
            "one image through the network   ·   orange: what one value of the next map is made of",
        )
        ax = page.paper()
        sizes = [_card(*stage) for stage in stages]
        spare = page.width - 2 * 32 - sum(w + d for w, d in sizes)
        gap = min(104, spare / len(steps))
        x = 32 + (spare - gap * len(steps)) / 2
        lefts = []
        for i, ((maps, side), (w, d)) in enumerate(zip(stages, sizes, strict=True)):
            _maps(ax, x, middle, maps, side, w, d, image if i == 0 else None)
            shape = f"{maps}×{side}×{side}" if side > 1 else f"{maps}"
            ax.text(x + (w + d) / 2, 226, shape, ha="center", weight="bold", size=SMALL)
            under = "input" if i == 0 else "softmax" if i == len(steps) and tail else ""
            ax.text(x + (w + d) / 2, 242, under, ha="center", size=SMALL, color=MUTED)
            lefts.append(x)
            x += w + d + gap
        for i, (step, detail, window, _) in enumerate(steps):
            w, d = sizes[i]
            start, end = lefts[i] + w + d + 7, lefts[i + 1] - 8
            conv = step.startswith("conv")
            color = BLUE if conv else MUTED
            arrow(ax, start, end, middle, color, 2 if conv else 1.2)
            ax.text((start + end) / 2, 80, step, ha="center", size=SMALL, color=color, weight="bold")
            ax.text((start + end) / 2, 96, detail, ha="center", size=SMALL, color=color)
            if window:
                cell = max(4, w * window / stages[i][1])
                rect(ax, lefts[i] + 4, middle - w / 2 + d / 2 + 4, cell, cell, "none", ORANGE, 1.6, zorder=3)
        words = []
        for i, (what, parts, amount) in enumerate(bars):
            whole = sum(parts.values())
            words.append(f"{what}: " + ", ".join(f"{part} {percent(value / whole)}" for part, value in parts.items()))
            _stacked(page, ax, 264 + 54 * i, what, parts, amount)
        row = "".join(
            f", {step} {detail} to {maps}" + (f"×{side}×{side}" if side > 1 else "")
            for (step, detail, *_), (maps, side) in zip(steps, stages[1:], strict=True)
        )
        page.alt = f"{name} as a row of feature maps: input {stages[0][0]}×{stages[0][1]}×{stages[0][1]}{row}. "
        page.alt += f"Shares of the {'; of the '.join(words)}."
        if times:
            page.plain = f"Figure: {name} as a row of feature maps, with each step's share of the work"


def _card(maps, side):
    """Width of a stage's front card and how far the stack reaches behind it, in pixels."""
    if side == 1:
        return 9, 0
    return 12 + 52 * (side / 86) ** 0.8, 3.5 * (min(maps, 8) - 1)


def _maps(ax, x, middle, maps, side, w, d, image):
    """A stack of feature maps, the front one at the lower left; a vector as a column of cells."""
    if side == 1:
        h = 9 * min(maps, 12)
        rect(ax, x, middle - h / 2, w, h, TINT, BLUE, 1)
        for i in range(1, min(maps, 36)):
            ax.plot([x, x + w], [middle - h / 2 + i * h / min(maps, 36)] * 2, color=BLUE, lw=0.5)
        return
    shown = min(maps, 8)
    for i in reversed(range(shown)):
        shift = d * i / max(1, shown - 1)
        rect(ax, x + shift, middle - w / 2 + d / 2 - shift, w, w, TINT, BLUE, 1)
    if image is not None:
        y = middle - w / 2 + d / 2
        _picture(ax, image, x + 1, y + 1, w - 2)


def _picture(ax, image, x, y, side):
    """An image, dark on light, in a square of the paper."""
    peak = np.max(image) or 1
    box = (x, x + side, y + side, y)
    frame = ax.get_xlim(), ax.get_ylim()
    ax.imshow(image / peak, cmap="gray_r", vmin=0, vmax=1, extent=box, aspect="auto", interpolation="nearest", zorder=2)
    ax.set(xlim=frame[0], ylim=frame[1])


def _stacked(page, ax, y, what, parts, amount):
    """One bar of 100 %, its parts named inside where they fit and behind it where they do not."""
    total = sum(parts.values())
    named = {part: f"{part}  {percent(value / total)}" for part, value in parts.items()}
    left, right = 26, page.width - 26
    # A part too small for its name is named behind the bar, which in turn makes the bar shorter.
    behind = [p for p in parts if page.text_width(named[p], SMALL) + 14 > (right - left) * 0.8 * parts[p] / total]
    note = ",  ".join(named[part] for part in behind)
    if note:
        right -= page.text_width(note, SMALL) + 10
    ax.text(left, y + 2, what, size=SMALL, weight="bold")
    ax.text(left + page.text_width(what + "  ", SMALL, "bold"), y + 2, amount, size=SMALL, color=MUTED)
    x = left
    for i, (part, value) in enumerate(parts.items()):
        w = (right - left) * value / total
        conv = part.startswith("conv")
        rect(ax, x, y + 10, max(w, 1), 22, (BLUE, "#4f86c2")[i % 2] if conv else FAINT, PAPER, 1)
        if part not in behind:
            color = PAPER if conv else INK
            ax.text(x + w / 2, y + 25.5, named[part], ha="center", size=SMALL, color=color)
        x += w
    ax.text(right + 8, y + 25.5, note, size=SMALL, color=MUTED)


def images(pictures, labels, predictions=None, names=None, columns=10, title=None, path=None):
    """A strip of images with their labels; wrong predictions are framed and spelled out.

    Parameters
    ----------
    pictures : array, shape [N, H, W] or [N, 1, H, W]
    labels : sequence of int, length N
    predictions : sequence of int, length N, optional
    names : sequence of str, optional
        A word for each class.
    columns : int
        Images side by side.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there is no image, or not as many labels and predictions.
    """
    pictures = np.asarray(pictures, dtype=np.float32)
    if pictures.ndim == 4:
        pictures = pictures[:, 0]
    given = {"labels": len(labels)} | ({"predictions": len(predictions)} if predictions is not None else {})
    if pictures.ndim != 3 or not len(pictures) or any(n != len(pictures) for n in given.values()):
        raise LabError(f"draw.images got pictures of shape {pictures.shape} and {given}: one of each an image, please")
    word = (lambda i: str(names[int(i)])) if names is not None else (lambda i: str(int(i)))
    count = len(pictures)
    wrong = [] if predictions is None else [i for i in range(count) if predictions[i] != labels[i]]
    columns = min(columns, count)
    rows = -(-count // columns)
    pitch = (WIDTH - 24 + 8) / max(columns, 7)
    side = pitch - 8
    with canvas(66 + rows * (side + 26) + 4, path=path) as page:
        if predictions is None:
            message, note = "What the network gets to see", f"{count} images, each with its label"
        else:
            right = f"{count - len(wrong)} of these {count}" if wrong else f"All {count}"
            message = f"{right} are read correctly"
            note = "each with its label" + ("   ·   framed: label → what the network read instead" if wrong else "")
        page.heading(title or message, note)
        ax = page.paper()
        for i in range(count):
            x, y = 12 + i % columns * pitch, 66 + i // columns * (side + 26)
            _picture(ax, pictures[i], x, y, side)
            text, color, weight = word(labels[i]), INK, "normal"
            if i in wrong:
                text, color, weight = f"{text} → {word(predictions[i])}", AMBER, "bold"
            size = SMALL * min(1, (pitch - 2) / page.text_width(text, SMALL, weight))
            rect(ax, x, y, side, side, "none", ORANGE if i in wrong else HAIR, 2.5 if i in wrong else 1, zorder=3)
            ax.text(x + side / 2, y + side + 15, text, ha="center", size=size, color=color, weight=weight)
        page.alt = f"{count} images. Labels: {', '.join(word(i) for i in labels)}."
        if predictions is not None:
            page.alt += f" Read as: {', '.join(word(i) for i in predictions)}; {len(wrong)} wrong."


def convolution(layer, title=None, path=None):
    """One output of a layer: the K × K window that it reads, the mask, and what its neighbour reads as well.

    Parameters
    ----------
    layer : Layer
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If `path` is neither .png nor .svg.
    """
    K, C, M = layer.K, layer.C, layer.M
    shared = C * K * (K - 1)
    outputs, inputs = M * layer.Ho * layer.Wo, C * layer.H * layer.W
    rows, columns, r, c = K + 3, K + 5, 1, 2  # the part of the image that is drawn; the window's place in it
    cell = min(22.0, 210 / rows)
    h = 4 if rows > 4 else rows  # rows of the output that are drawn
    y = 104
    top = y + r * cell  # the windows' upper edge
    middle = top + K * cell / 2
    oy = middle - (r + 0.5) * cell
    with canvas(max(y + rows * cell, top + K * cell + 40, oy + h * cell + 42) + 50, path=path) as page:
        page.heading(
            title or f"Neighbouring threads read {shared} of the same {layer.terms} inputs",
            f"{layer.name}   ·   a thread computes one output from {'' if C == 1 else f'{C} × '}{K}×{K} inputs",
        )
        ax = page.paper()
        size = f"{M}×{layer.Ho}×{layer.Wo}"
        named = page.text_width("output y  ", weight="bold") + page.text_width(size)
        wide = (columns + K) * cell + max(7 * cell, named)
        gap = min(120, (page.width - 52 - wide) / 2)
        x0 = 26
        x1 = x0 + columns * cell + gap
        x2 = x1 + K * cell + gap

        caption(page, ax, x0, y - 14, "input x", f"{C}×{layer.H}×{layer.W}, a corner")
        rect(ax, x0 + c * cell, top, cell, K * cell, "#bcd3ec")
        rect(ax, x0 + (c + 1) * cell, top, (K - 1) * cell, K * cell, "#e6dfd6")
        rect(ax, x0 + (c + K) * cell, top, cell, K * cell, "#f9d39a")
        cells(ax, x0, y, rows, columns, cell, "none")
        rect(ax, x0 + c * cell, top, K * cell, K * cell, "none", BLUE, 2.5, zorder=3)
        rect(ax, x0 + (c + 1) * cell, top + 4, K * cell - 2, K * cell - 8, "none", ORANGE, 2.5, zorder=3)
        if K > 1:
            ax.text(x0 + (c + 1 + (K - 1) / 2) * cell, top + K * cell / 2, f"{K}×{K - 1} shared" if K > 4 else "shared",
                    ha="center", va="center", size=SMALL, zorder=4,
                    bbox={"facecolor": "#e6dfd6", "edgecolor": "none", "pad": 2})  # fmt: skip

        caption(page, ax, x1, y - 14, "mask k", f"{M}×{C}×{K}×{K}")
        cells(ax, x1, top, K, K, cell, "#e3f3ee", "#9fd0c1")
        rect(ax, x1, top, K * cell, K * cell, "none", GREEN, 2, zorder=3)
        ax.text(x1 - gap / 2, middle, "×", ha="center", va="center", size=17, color=MUTED)
        ax.text(x1, top + K * cell + 20, "the same for all", size=SMALL, color=MUTED)
        ax.text(x1, top + K * cell + 36, "threads of a map", size=SMALL, color=MUTED)

        arrow(ax, x1 + K * cell + 14, x2 - 16, middle, MUTED, 1.4)
        ax.text(x2 - gap / 2 - 1, middle - 9, "Σ", ha="center", size=14, color=MUTED)
        caption(page, ax, x2, y - 14, "output y", size)
        cells(ax, x2, oy, h, 7, cell, PAPER)
        for i, (color, name, ink) in enumerate(((BLUE, "thread (h, w)", BLUE), (ORANGE, "thread (h, w+1)", AMBER))):
            rect(ax, x2 + (c + i) * cell, oy + r * cell, cell, cell, color, PAPER, 1, zorder=3)
            rect(ax, x2, oy + h * cell + 11 + 18 * i, 10, 10, color)
            ax.text(x2 + 16, oy + h * cell + 20 + 18 * i, name, size=SMALL, color=ink, weight="bold")

        text = f"An image has {inputs:,} inputs. Its {outputs:,} threads ask for {outputs * layer.terms:,}: each input "
        text += f"{outputs * layer.terms / inputs:.0f} times."
        ax.text(26, page.height - 14, text)
        page.alt = (
            f"{layer.name}: a thread multiplies a window of {'' if C == 1 else f'{C} times '}{K}×{K} inputs with the "
            f"mask and sums the {layer.terms} products into one output. The thread beside it reads a window one column "
            f"further, {shared} of the same {layer.terms} inputs. {text}"
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
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the block is larger than a GPU's.
    """
    bx, by = block[0], block[1]
    if bx < 1 or by < 1 or bx * by > MAX_THREADS:
        raise LabError(f"draw.grid: a block of {bx}×{by} has {bx * by} threads; a GPU takes 1 to {MAX_THREADS}")
    nx, ny = -(-layer.Wo // bx), -(-layer.Ho // by)
    launched, wanted = nx * bx * ny * by, layer.Ho * layer.Wo
    idle = launched - wanted
    if idle:
        message = f"{percent(idle / launched)} of the threads have no output to compute"
    else:
        message = f"Every thread has an output: {layer.Wo}×{layer.Ho} is a multiple of {bx}×{by}"
    blocks = nx * ny * layer.M
    total = f"{nx} × {ny} blocks × {layer.M} maps"
    total += f" × {batch:,} images = {blocks * batch:,} blocks" if batch else f" = {blocks:,} blocks an image"

    scale = 236 / max(nx * bx, ny * by)
    full_w, full_h = nx * bx * scale, ny * by * scale
    cell = 176 / max(bx, by)
    x0, x1, x2, y = 26, 26 + max(full_w + 78, 180), 590, 104
    with canvas(y + max(full_h, by * cell + 40, 200) + 58, path=path) as page:
        page.heading(title or message, f"{layer.name}   ·   blocks of {bx}×{by} threads   ·   a thread an output")
        ax = page.paper()
        caption(page, ax, x0, y - 14, "output map", f"{layer.Ho}×{layer.Wo}")
        if idle:
            rect(ax, x0, y, full_w, full_h, WARM, ORANGE, 0, hatch="////")
        w, h = layer.Wo * scale, layer.Ho * scale
        rect(ax, x0, y, w, h, TINT)
        for i in range(nx + 1):
            ax.plot([x0 + i * bx * scale] * 2, [y, y + full_h], color=BLUE, lw=0.9)
        for i in range(ny + 1):
            ax.plot([x0, x0 + full_w], [y + i * by * scale] * 2, color=BLUE, lw=0.9)
        rect(ax, x0, y, w, h, "none", INK, 2, zorder=3)
        # The last block of the first row that lies in the map is the one drawn large.
        px = x0 + max(0, layer.Wo // bx - 1) * bx * scale
        rect(ax, px, y, bx * scale, by * scale, BLUE, PAPER, 1, zorder=3)
        if idle:
            text = f"idle: {idle:,} of {launched:,} threads"
            rect(ax, x0, y + full_h + 11, 10, 10, WARM, ORANGE, 0, hatch="//////")
            ax.text(x0 + 16, y + full_h + 20, text, color=AMBER, size=SMALL, weight="bold")
        else:
            ax.text(x0, y + full_h + 20, f"{launched:,} threads, none idle", color=MUTED, size=SMALL)

        for near, far in ((y, y), (y + by * scale, y + by * cell)):
            ax.plot([px + bx * scale, x1], [near, far], color=INK, lw=0.9, ls=(0, (3, 3)), zorder=4)
        caption(page, ax, x1, y - 14, "block", f"{bx * by} threads")
        warp = np.arange(bx * by).reshape(by, bx) // 32
        shades = np.array([[0x1F, 0x64, 0xAD], [0x9D, 0xB9, 0xD9]], np.uint8)[warp % 2]
        box = (x1, x1 + bx * cell, y + by * cell, y)
        ax.imshow(shades, extent=box, aspect="auto", interpolation="nearest", zorder=2)
        ax.set(xlim=(0, page.width), ylim=(page.height, 0))
        if cell >= 4:
            cells(ax, x1, y, by, bx, cell, "none", PAPER, zorder=3)
        warps = int(warp.max()) + 1
        ax.text(x1, y + by * cell + 20, f"{warps} warp{'s' if warps > 1 else ''}, in alternating shades:", size=SMALL)
        if 32 % bx == 0:
            rows = 32 // bx
            shape = f"{rows} rows of {bx}" if rows > 1 else "a row of 32"
        else:
            shape = "32 of a row" if bx % 32 == 0 else "32 threads, row after row"
        ax.text(x1, y + by * cell + 36, shape, size=SMALL, color=MUTED)

        caption(page, ax, x2, y - 14, "maps and images", "")
        behind = min(layer.M, 5) - 1
        for i in reversed(range(behind + 1)):
            rect(ax, x2 + 9 * i, y + 9 * (behind - i), 84, 84, TINT, BLUE, 1)
        below = y + 84 + 9 * behind
        ax.text(x2, below + 20, f"{layer.M} maps an image", size=SMALL)
        if batch:
            ax.text(x2, below + 36, f"{batch:,} images", size=SMALL)
        ax.text(26, page.height - 14, f"{total}, {bx * by} threads each")
        page.alt = (
            f"{layer.name}: blocks of {bx}×{by} threads cover an output map of {layer.Ho}×{layer.Wo}, {nx} across and "
            f"{ny} down. {percent(idle / launched)} of the threads lie outside of the map. {total}."
        )


def tile(T=16, K=7, title=None, path=None):
    """What a block with shared memory loads for T × T outputs: the tile and its halo, in passes of T × T threads.

    Parameters
    ----------
    T : int
        Side of the output tile and of the block.
    K : int
        Side of the mask.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the block is larger than a GPU's.
    """
    if T < 1 or K < 1 or T * T > MAX_THREADS:
        raise LabError(f"draw.tile: T = {T}, K = {K}; T is 1 to 32 (a block has at most {MAX_THREADS} threads) and K "
                       "at least 1")  # fmt: skip
    side = T + K - 1
    asked, loaded = T * T * K * K, side * side
    corners = [(i, j) for i in range(0, side, T) for j in range(0, side, T)]
    shades = (BLUE, "#5e93cb", SKY, "#cfe2f4")
    cell = min(13.0, 276 / side)
    x0, y, tall = 26, 104, max(side * cell, 66)
    with canvas(y + tall + 56, path=path) as page:
        page.heading(
            title or f"Load {loaded:,} inputs once instead of asking for {asked:,}",
            f"a tile of {T}×{T} outputs, one channel, K = {K}   ·   {asked / loaded:.1f} times fewer loads",
        )
        ax = page.paper()
        for n, (i, j) in enumerate(corners):
            h, w = min(T, side - i) * cell, min(T, side - j) * cell
            color = shades[min(n, 3)]
            rect(ax, x0 + j * cell, y + i * cell, w, h, color)
            if min(h, w) > 22 and len(corners) <= 9:
                ax.text(x0 + j * cell + w / 2, y + i * cell + h / 2, str(n + 1), ha="center", va="center", zorder=4,
                        weight="bold", color=PAPER if n < 2 else INK,
                        bbox={"facecolor": color, "edgecolor": "none", "pad": 2.5})  # fmt: skip
        cells(ax, x0, y, side, side, cell, "none", PAPER)
        rect(ax, x0, y, K * cell, K * cell, "none", ORANGE, 3, zorder=3)

        size = f"{T} + {K} − 1 = {side} wide, {loaded * 4:,} bytes shared"
        caption(page, ax, x0, y - 14, "input tile", size)
        x1 = x0 + max(side * cell + 130, page.text_width("input tile  ", weight="bold") + page.text_width(size) + 40)
        across = y + max(T * cell / 2, 25)
        arrow(ax, x0 + side * cell + 18, x1 - 18, across, MUTED, 1.4)
        middle = (x0 + side * cell + x1) / 2
        ax.text(middle, across - 10, f"{K * K} products", ha="center", size=SMALL, color=MUTED)
        ax.text(middle, across + 19, "an output", ha="center", size=SMALL, color=MUTED)
        caption(page, ax, x1, y - 14, "output tile", f"{T}×{T}, a thread each")
        cells(ax, x1, y, T, T, cell, TINT, PAPER)
        rect(ax, x1, y, cell, cell, ORANGE, PAPER, 1, zorder=3)
        below = y + tall + 20
        rect(ax, x0 + 1, below - 9, 10, 10, "none", ORANGE, 2)
        ax.text(x0 + 18, below, f"the window of one output, {K}×{K}", size=SMALL, color=AMBER, weight="bold")
        passes = f"{len(corners)} passes" if len(corners) > 1 else "one pass"
        many = f"The block’s {T * T} threads load the tile in {passes}"
        ax.text(x0, below + 20, many + (", numbered; 2 to 4 are the halo." if len(corners) == 4 else "."), size=SMALL)
        page.alt = (
            f"A tile of {T}×{T} outputs needs {side}×{side} = {loaded:,} inputs a channel, halo included. {many}; "
            f"without the tile its outputs would ask for {asked:,}."
        )


def _si(count):
    return f"{count / 1e6:.2f} million" if count >= 1e6 else f"{count:,}"
