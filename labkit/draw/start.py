"""Illustrations of the first pages: images, the network, one output of a convolution, its threads and blocks."""

from collections.abc import Mapping, Sequence

import numpy as np

from hostcuda.limits import MAX_THREADS, WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import SMALL, Page, count, ink_on, on_new_page, percent, wide
from labkit.spec.layers import Layer, as_layer

# The rest of a preset's network: the activation; and the steps after the last convolution, each
# (name, detail, side of the window, multiply-adds, maps and side of what it makes).
_NETWORKS = {
    "lenet86": (
        ", ReLU",
        [
            ("max-pool", "4×4", 4, 0, 16, 9),
            ("FC", "1296→32", 0, 1296 * 32, 32, 1),
            ("FC", "32→10", 0, 32 * 10, 10, 1),
        ],
    ),
    "lenet28": (
        ", sigmoid",
        [
            ("filter", "4×4, stride 4", 4, 6 * 6 * 6 * 4 * 4, 6, 6),
            ("FC", "216→10", 0, 216 * 10, 10, 1),
        ],
    ),
}


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def network(
    page: Page,
    preset: Sequence[Layer],
    times: Mapping[str, float] | None = None,
    image: np.ndarray | None = None,
) -> None:
    """Draw the network as a row of feature maps, with the share of each step in the multiply-adds, and in the time.

    Parameters
    ----------
    preset : Preset
        LENET86, LENET72 or LENET28; any sequence of layers, each fed by the one before through a
        pooling.
    times : mapping of str to float, optional
        Step to milliseconds, for example ``{"conv1": 4.97, "conv2": 18.9, "everything else":
        3.1}``: a second bar.
    image : array, shape [H, W], optional
        Drawn on the input.
    """
    layers, name = list(preset), getattr(preset, "name", "the network")  # a list has no name
    activation, tail = _NETWORKS.get(name, ("", []))
    # Stages: (maps, side). The steps between them: (name, detail, side of the window, multiply-adds of
    # 1 image).
    stages, steps = [(layers[0].C, layers[0].H)], []
    for i, layer in enumerate(layers):
        steps.append((f"conv{i + 1}", f"{layer.K}×{layer.K}{activation}", layer.K, layer.macs(1)))
        stages.append((layer.M, layer.Ho))
        for following in layers[i + 1 : i + 2]:  # the next layer, if there is one
            window = round(layer.Ho / following.H)
            steps.append(("max-pool", f"{window}×{window}", window, 0))
            stages.append((following.C, following.H))
    # `tail`: steps after the last convolution: the four entries of a step, then the two of the stage that it makes
    steps += [step[:4] for step in tail]
    stages += [step[4:] for step in tail]
    total, convolved = sum(macs for *_, macs in steps), sum(layer.macs(1) for layer in layers)
    shares = {step: macs for step, *_, macs in steps if step.startswith("conv")}
    shares |= {"everything else": total - convolved} if total > convolved else {}
    many = {1: "convolution", 2: "two convolutions"}.get(len(layers), f"{len(layers)} convolutions")
    # of multiply-adds
    amount = f"{total / 1e6:.2f} million per image" if total >= 1e6 else f"{total:,} per image"
    page.open(
        318 + 54 * bool(times),
        f"{name}: {percent(convolved / total)} of the multiply-adds are in its {many}"
        if total > convolved
        else f"{name}: {many}, {amount.replace(' per', ' multiply-adds per')}",
        "one image through the network   ·   orange: what one value of the next map is made of",
    )
    # A stage's front map (a side of 86 has 64 pixels; the power 0.8 keeps small ones visible), and how
    # far the stack reaches behind it. A stage of single numbers is a column 9 pixels wide.
    sizes = [
        (12 + 52 * (side / 86) ** 0.8, 3.5 * (min(maps, 8) - 1)) if side > 1 else (9, 0)
        for maps, side in stages
    ]
    # pixels: what the stages leave for the arrows between them; y of the middle of the row
    spare, middle = page.width - 64 - sum(map(sum, sizes)), 152
    gap = min(104, spare / len(steps))
    x, page.alt = 32 + (spare - gap * len(steps)) / 2, f"{name} as a row of feature maps: "
    # w, d: the width of a map and the depth of the stack, in pixels
    for i, ((maps, side), (w, d)) in enumerate(zip(stages, sizes, strict=True)):
        shape = f"{maps}×{side}×{side}" if side > 1 else f"{maps}"
        _draw_maps(page, x, middle, maps, side, w, d)
        page.small(x + (w + d) / 2, 226, shape, style.INK, ha="center", weight="bold")
        # below the shape: "input", or the activation of the network's output
        last = "sigmoid" if name == "lenet28" else "softmax"
        under = last if i == len(steps) and tail else "" if i else "input"
        page.small(x + (w + d) / 2, 242, under, ha="center")
        if image is not None and i == 0:
            page.picture(x + 1, middle - w / 2 + d / 2 + 1, w - 2, w - 2, image)
        page.alt += f", {steps[i - 1][0]} {steps[i - 1][1]} to {shape}" if i else f"input {shape}"
        if i < len(steps):
            step, detail, window, _ = steps[i]
            start, end, conv = x + w + d + 7, x + w + d + gap - 8, step.startswith("conv")
            color = style.BLUE if conv else style.MUTED
            page.arrow(start, end, middle, color, 2 if conv else 1.2)
            page.small((start + end) / 2, 80, step, color, ha="center", weight="bold")
            page.small((start + end) / 2, 96, detail, color, ha="center")
            if window:  # what one value of the next map is made of; 0 for a fully connected layer
                cell = max(4, w * window / side)
                page.frame(x + 4, middle - w / 2 + d / 2 + 4, cell, cell, style.ORANGE, 1.6)
        x += w + d + gap
    bars = [_draw_shares(page, 264, "multiply-adds", shares, amount, above=bool(times))]
    if times:
        whole = f"{sum(times.values()):.3g} ms"
        bars.append(_draw_shares(page, 318, "time", times, whole, above=True))
        # measured times differ from run to run: a notebook's text output is without numbers
        page.plain = f"Figure: {name} as a row of feature maps, with each step's share of the work"
    page.alt += f". Shares of the {'; of the '.join(bars)}."


def _draw_maps(
    page: Page, x: float, middle: float, maps: int, side: int, w: float, depth: float
) -> None:
    """Draw maps, w pixels wide, one behind the other, to `depth` pixels right and up; a vector (side 1) as cells."""
    if side == 1:
        rows, high = min(maps, 36), 9 * min(maps, 12)
        page.cells(
            x, middle - high / 2, rows, 1, w, style.TINT, style.BLUE, high=high / rows, lw=0.5
        )
        page.frame(x, middle - high / 2, w, high, style.BLUE, 1)
        return
    for i in reversed(range(min(maps, 8))):  # from behind; at most eight are drawn
        shift = depth * i / max(1, min(maps, 8) - 1)
        page.rect(x + shift, middle - w / 2 + depth / 2 - shift, w, w, style.TINT, style.BLUE, 1)


def _draw_shares(
    page: Page, y: float, what: str, parts: Mapping[str, float], amount: str, above: bool
) -> str:
    """Draw a bar of 100 %, its parts (name -> amount) named inside if they fit, else behind it; return it in words.

    Above it are `what` the parts are of, "multiply-adds", and the total as a text, `amount`. With
    `above` the parts that do not fit are named there, too: two such bars have the same length.
    """
    total, left, right = sum(parts.values()), 26, page.width - 26
    names = {part: f"{part}  {percent(value / total)}" for part, value in parts.items()}
    # A part too small for its name is named behind the bar. That makes the bar shorter, which 0.8
    # allows for.
    behind = [
        p for p in parts if wide(names[p], SMALL) + 14 > (right - left) * 0.8 * parts[p] / total
    ]
    note = ",  ".join(names[part] for part in behind)
    right -= wide(note, SMALL) + 10 if note and not above else 0
    page.small(left, y + 2, what, style.INK, weight="bold")
    page.small(left + wide(what + "  ", SMALL, "bold"), y + 2, amount)
    x = left
    for part, value in parts.items():
        w = (right - left) * value / total
        face = style.FAINT
        if part.startswith("conv"):  # the same colour in both bars, whatever stands before it
            face = style.STEEL if part[-1] in "02468" else style.BLUE
        page.rect(x, y + 10, max(w, 1), 22, face, style.PAPER, 1)
        page.small(
            x + w / 2, y + 25.5, "" if part in behind else names[part], ink_on(face), ha="center"
        )
        x += w
    if above:
        page.small(right, y + 2, note, ha="right")
    else:
        page.small(right + 8, y + 25.5, note)
    return f"{what}: " + ", ".join(
        f"{part} {percent(value / total)}" for part, value in parts.items()
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def images(
    page: Page,
    pictures: np.ndarray,
    labels: Sequence[int],
    predictions: Sequence[int] | None = None,
) -> None:
    """Draw a strip of images with their labels; wrong predictions are framed and spelled out.

    Parameters
    ----------
    pictures : array, shape [N, H, W] or [N, 1, H, W]
    labels : sequence of int, length N
    predictions : sequence of int, length N, optional
        What a network read in each image.
    """
    pictures = np.asarray(pictures, dtype=np.float32)
    pictures = pictures[:, 0] if pictures.ndim == 4 else pictures
    counts = {"labels": len(labels)} | (
        {"predictions": len(predictions)} if predictions is not None else {}
    )
    if pictures.ndim != 3 or not len(pictures) or any(n != len(pictures) for n in counts.values()):
        raise LabError(
            f"draw.images got pictures of shape {pictures.shape}, {counts}: one each per image"
        )
    n, answers = len(pictures), labels if predictions is None else predictions
    words, others = ([str(int(i)) for i in classes] for classes in (labels, answers))  # "7"
    wrong = [word != other for word, other in zip(words, others, strict=True)]
    message, note = "What the network gets to see", f"{n} images, each with its label"
    if predictions is not None:
        message = (
            f"{n - sum(wrong)} of these {n} are read correctly"
            if any(wrong)
            else f"All {n} are read correctly"
        )
        note = "each with its label" + "   ·   framed: label → what the network read instead" * any(
            wrong
        )
    columns = min(10, n)
    # pixels from one image to the next: at most as for seven columns, so that few images are not too large
    pitch = (style.WIDTH - 16) / max(columns, 7)
    side = pitch - 8
    page.open(70 + -(-n // columns) * (side + 26), message, note)
    for i, (picture, text) in enumerate(zip(pictures, words, strict=True)):
        x, y, edge = 12 + i % columns * pitch, 66 + i // columns * (side + 26), (style.HAIR, 1)
        look = {"color": style.INK, "weight": "normal"}
        if wrong[i]:
            text = f"{text} → {others[i]}"
            look, edge = {"color": style.AMBER, "weight": "bold"}, (style.ORANGE, 2.5)
        page.picture(x, y, side, side, picture)
        page.frame(x, y, side, side, *edge)
        size = SMALL * min(1, (pitch - 2) / wide(text, SMALL, look["weight"]))
        page.text(x + side / 2, y + side + 15, text, ha="center", size=size, **look)
    page.alt = f"{n} images. Labels: {', '.join(words)}."
    if predictions is not None:
        page.alt += f" Read as: {', '.join(others)}; {sum(wrong)} wrong."


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def convolution(page: Page, layer: Layer | str) -> None:
    """Draw an output of a layer: the K × K window that it reads, the mask, and what its neighbour reads as well.

    Parameters
    ----------
    layer : Layer or its name
    """
    layer = as_layer(layer)
    K, C, M = layer.K, layer.C, layer.M
    shared, window = C * K * (K - 1), f"{'' if C == 1 else f'{C} × '}{K}×{K}"
    outputs, inputs = M * layer.Ho * layer.Wo, C * layer.H * layer.W
    # rows, columns: the part of the image that is drawn; r, c: the window's place in it
    rows, columns, r, c = K + 3, K + 5, 1, 2
    h = min(4, rows)  # rows of the output that are drawn
    cell, y = min(22.0, 210 / rows), 104  # pixels: side of a cell, top of the input
    top = y + r * cell  # the windows' upper edge
    middle = top + K * cell / 2
    # the output's upper edge: its row r is at the middle of the window
    oy = middle - (r + 0.5) * cell
    height = max(y + rows * cell, top + K * cell + 40, oy + h * cell + 42) + 50
    page.open(
        height,
        f"Neighbouring threads read {shared} of the same {layer.terms} inputs",
        f"{layer.name}   ·   a thread computes one output from {window} inputs",
    )
    size = f"{M}×{layer.Ho}×{layer.Wo}"
    across = (columns + K) * cell + max(7 * cell, wide("output y  ", weight="bold") + wide(size))
    gap = min(120, (page.width - 52 - across) / 2)
    x0, x1 = 26, 26 + columns * cell + gap
    x2, first = x1 + K * cell + gap, x0 + c * cell

    page.caption(x0, y - 14, "input x", f"{C}×{layer.H}×{layer.W}, a corner")
    # first column, number of columns, colour: those of one window only, of both, of the other only
    for column, width, face in (
        (0, 1, style.OVERLAP),
        (1, K - 1, style.STONE),
        (K, 1, style.SAND),
    ):
        page.rect(first + column * cell, top, width * cell, K * cell, face)
    page.cells(x0, y, rows, columns, cell)
    page.frame(first, top, K * cell, K * cell, style.BLUE, 2.5)
    page.frame(first + cell, top + 4, K * cell - 2, K * cell - 8, style.ORANGE, 2.5)
    if K > 1:
        page.small(
            first + (K + 1) / 2 * cell,
            middle,
            f"{K}×{K - 1} shared" if K > 4 else "shared",
            style.INK,
            ha="center",
            va="center",
            zorder=4,
            bbox={"facecolor": style.STONE, "edgecolor": "none", "pad": 2},
        )

    page.caption(x1, y - 14, "mask k", f"{M}×{C}×{K}×{K}")
    page.cells(x1, top, K, K, cell, style.LEAF, style.SAGE)
    page.frame(x1, top, K * cell, K * cell, style.GREEN)
    page.text(x1 - gap / 2, middle, "×", ha="center", va="center", size=17, color=style.MUTED)
    page.small(x1, top + K * cell + 20, "the same for all\nthreads of a map")

    page.arrow(x1 + K * cell + 14, x2 - 16, middle, style.MUTED, 1.4)
    page.text(x2 - gap / 2 - 1, middle - 9, "Σ", ha="center", size=14, color=style.MUTED)
    page.caption(x2, y - 14, "output y", size)
    page.cells(x2, oy, h, 7, cell, style.PAPER)
    threads = (
        (style.BLUE, "thread (h, w)", style.BLUE),
        (style.ORANGE, "thread (h, w+1)", style.AMBER),
    )
    for i, (face, name, ink) in enumerate(threads):
        page.rect(x2 + (c + i) * cell, oy + r * cell, cell, cell, face, style.PAPER, 1, zorder=3)
        page.rect(x2, oy + h * cell + 11 + 18 * i, 10, 10, face)
        page.small(x2 + 16, oy + h * cell + 20 + 18 * i, name, ink, weight="bold")
    text = (
        f"An image has {inputs:,} inputs. Its {outputs:,} threads ask for {outputs * layer.terms:,}: each input "
        f"{outputs * layer.terms / inputs:.0f} times."
    )
    page.text(26, height - 14, text)
    page.alt = (
        f"{layer.name}: a thread multiplies a window of {window.replace(' ×', ' times')} inputs with the mask "
        f"and sums the {layer.terms} products into one output. The thread beside it reads a window one column "
        f"further, {shared} of the same {layer.terms} inputs. {text}"
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def grid(
    page: Page, layer: Layer | str, block: tuple[int, int] = (16, 16), batch: int | None = None
) -> None:
    """Draw how blocks and threads cover a layer's output, and the share of threads without an output.

    Parameters
    ----------
    layer : Layer or its name
    block : tuple of int
        Threads in x (along w) and in y (along h).
    batch : int, optional
        Images, for the count of blocks.
    """
    layer = as_layer(layer)
    bx, by = block[:2]
    if bx < 1 or by < 1 or bx * by > MAX_THREADS:
        raise LabError(
            f"draw.grid: a block of {bx}×{by} has {bx * by} threads; a GPU takes 1 to {MAX_THREADS}"
        )
    nx, ny = -(-layer.Wo // bx), -(-layer.Ho // by)
    launched, blocks = nx * bx * ny * by, nx * ny * layer.M
    idle = launched - layer.Ho * layer.Wo
    total = f"{nx} × {ny} blocks × {layer.M} maps"
    total += (
        f" × {batch:,} images = {blocks * batch:,} blocks"
        if batch
        else f" = {blocks:,} blocks per image"
    )
    # pixels per thread: in the grid, in the large block
    scale, cell = 236 / max(nx * bx, ny * by), 176 / max(bx, by)
    # height of the grid; left edges of grid, block and maps; their top
    high, x0, x1, x2, y = ny * by * scale, 26, 26 + max(nx * bx * scale + 78, 180), 590, 104
    height = y + max(high, by * cell + 40, 200) + 58
    page.open(
        height,
        f"{percent(idle / launched)} of the threads have no output to compute"
        if idle
        else f"Every thread has an output: {layer.Wo}×{layer.Ho} is a multiple of {bx}×{by}",
        f"{layer.name}   ·   blocks of {bx}×{by} threads   ·   one thread per output",
    )

    page.caption(x0, y - 14, "output map", f"{layer.Ho}×{layer.Wo}")
    draw_cover(page, x0, y, layer, bx, by, scale, 0.9)
    # the last block of the first row that lies wholly in the map is the one drawn large; px: its left edge
    px = x0 + max(0, layer.Wo // bx - 1) * bx * scale
    page.rect(px, y, bx * scale, by * scale, style.BLUE, style.PAPER, 1, zorder=3)
    if idle:
        page.rect(x0, y + high + 11, 10, 10, style.WARM, style.ORANGE, 0, hatch="//////")
        page.small(
            x0 + 16,
            y + high + 20,
            f"idle: {idle:,} of {launched:,} threads",
            style.AMBER,
            weight="bold",
        )
    else:
        page.small(x0, y + high + 20, f"{launched:,} threads, none idle")
    # dashed lines from the corners of this block to those of the large one
    for near, far in ((y, y), (y + by * scale, y + by * cell)):
        page.line([px + bx * scale, x1], [near, far], style.INK, 0.9, ls=(0, (3, 3)), zorder=4)

    page.caption(x1, y - 14, "block", f"{bx * by} threads")
    warps = np.arange(bx * by).reshape(by, bx) // WARP
    shades = np.array([[*bytes.fromhex(color[1:])] for color in (style.BLUE, style.PALE)], np.uint8)
    page.picture(x1, y, bx * cell, by * cell, shades[warps % 2])
    if cell >= 4:
        page.cells(x1, y, by, bx, cell, edge=style.PAPER, zorder=3)
    page.small(
        x1,
        y + by * cell + 20,
        f"{count(warps.max() + 1, 'warp')}, in alternating shades:",
        style.INK,
    )
    in_rows = f"{WARP // bx} rows of {bx}" if bx < WARP else f"a row of {WARP}"
    page.small(
        x1,
        y + by * cell + 36,
        in_rows
        if WARP % bx == 0
        else f"{WARP} of a row"
        if bx % WARP == 0
        else f"{WARP} threads, row after row",
    )

    page.caption(x2, y - 14, "maps and images")
    behind = min(layer.M, 5) - 1
    for i in reversed(range(behind + 1)):
        page.rect(x2 + 9 * i, y + 9 * (behind - i), 84, 84, style.TINT, style.BLUE, 1)
    images_ = f"\n{batch:,} images" if batch else ""
    page.small(x2, y + 104 + 9 * behind, f"{layer.M} maps per image{images_}", style.INK)
    page.text(26, height - 14, f"{total}, {bx * by} threads each")
    page.alt = (
        f"{layer.name}: blocks of {bx}×{by} threads cover an output map of {layer.Ho}×{layer.Wo}, {nx} across "
        f"and {ny} down. {percent(idle / launched)} of the threads lie outside of the map. {total}."
    )


def draw_cover(
    page: Page, x: float, y: float, layer: Layer, bx: int, by: int, scale: float, lw: float
) -> None:
    """Draw an output map under blocks or tiles of bx × by, hatched outside of the map.

    Its upper left corner is (x, y); `scale` is in pixels per output; `lw`, the width of the blocks' edges, is
    in points.
    """
    # blocks across and down; width and height of the map, in pixels
    nx, ny, w, h = -(-layer.Wo // bx), -(-layer.Ho // by), layer.Wo * scale, layer.Ho * scale
    if (nx * bx, ny * by) != (layer.Wo, layer.Ho):
        page.rect(x, y, nx * bx * scale, ny * by * scale, style.WARM, style.ORANGE, 0, hatch="////")
    page.rect(x, y, w, h, style.TINT)
    page.cells(x, y, ny, nx, bx * scale, edge=style.BLUE, high=by * scale, lw=lw)
    page.frame(x, y, w, h, style.INK)
