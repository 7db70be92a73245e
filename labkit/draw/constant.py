"""Pictures of constant memory: what fits into it, and what it does with a warp that asks for several words."""

import numpy as np

from labkit.base.errors import LabError
from labkit.base.limits import CONSTANT_BYTES
from labkit.draw.style import AMBER, BLUE, GREEN, INK, MUTED, ORANGE, PALE, PAPER, SMALL, canvas, percent, rect


def constant_budget(layers, size=4, title=None, path=None):
    """The masks of layers against the constant memory of a device.

    Parameters
    ----------
    layers : sequence of Layer
        A bar each; one whose mask does not fit is marked.
    size : int
        Bytes of an element.
    title : str, optional
        In place of the message.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there is no layer.
    """
    layers = list(layers)
    if not layers:
        raise LabError("draw.constant_budget got no layer: give at least one")
    masks = [size * layer.M * layer.C * layer.K**2 for layer in layers]
    over = [each for each in masks if each > CONSTANT_BYTES]
    with canvas(88 + 30 * len(layers) + 12, path=path) as page:
        fit = f"{len(masks) - len(over)} of {len(masks)} masks fit" if over else (
            f"All {len(masks)} masks fit" if len(masks) > 1 else "The mask fits")  # fmt: skip
        page.heading(title or f"{fit} into constant memory", f"M·C·K·K elements of {size} bytes against 64 KB")
        ax = page.paper()
        formulas = [f"{layer.M}·{layer.C}·{layer.K}·{layer.K}" for layer in layers]
        names = 14 + max(page.text_width(layer.name) for layer in layers)
        left = names + 26 + max(page.text_width(text, SMALL) for text in formulas)
        room = page.width - left - 160
        scale = room / max(CONSTANT_BYTES, *masks)
        words = []
        for i, (layer, formula, mask) in enumerate(zip(layers, formulas, masks, strict=True)):
            y = 82 + 30 * i
            fits = mask <= CONSTANT_BYTES
            ax.text(names, y + 15, layer.name, ha="right")
            ax.text(names + 14, y + 15, formula, size=SMALL, color=MUTED)
            rect(ax, left, y + 2, max(1.5, mask * scale), 18, BLUE if fits else ORANGE)
            share = f"{mask:,} bytes, {percent(mask / CONSTANT_BYTES)}"
            ax.text(page.width - 12, y + 15, share, ha="right", size=SMALL, color=INK if fits else AMBER,
                    weight="normal" if fits else "bold")  # fmt: skip
            words.append(f"{layer.name}: {formula} elements, {share}{'' if fits else ', too many'}.")
        x = left + CONSTANT_BYTES * scale
        ax.plot([x, x], [76, 82 + 30 * len(layers)], color=GREEN, lw=2.2, zorder=4)
        ax.text(x, 70, f"{CONSTANT_BYTES:,} bytes", ha="center", size=SMALL, color=GREEN, weight="bold")
        page.alt = f"Bar chart, masks against the {CONSTANT_BYTES:,} bytes of constant memory. {' '.join(words)}"


def constant_reads(elements, title=None, subtitle="", path=None):
    """A warp's read of constant memory, turn by turn: each turn serves the lanes that asked for one element.

    Parameters
    ----------
    elements : array of int, at most 32, or mapping of str to such arrays
        Which element of the __constant__ array each lane reads; a negative one marks a lane that takes no part. A
        mapping draws a panel each.
    title, subtitle : str, optional
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there are more lanes than a warp has, or none that takes part.
    """
    panels = elements if isinstance(elements, dict) else {"": elements}
    drawn = {name: _turns(values) for name, values in panels.items()}
    counts = list(dict.fromkeys(len(turns) for turns in drawn.values()))
    row, head = 14, 46
    with canvas(58 + sum(head + row * len(turns) + 16 for turns in drawn.values()), path=path) as page:
        several = " against ".join(map(str, counts))
        page.heading(title or f"One read of a warp, {several} turn{'s' * (counts != [1])}", subtitle)
        ax = page.paper()
        left, right = 76, page.width - 108
        pitch, top, said = (right - left) / 32, 56, []
        for name, turns in drawn.items():
            words = _said(turns)
            ax.text(12, top + 16, name, weight="bold")
            where = 12 + (page.text_width(name + "   ", weight="bold") if name else 0)
            ax.text(where, top + 16, words, color=MUTED)
            for lane in range(32):
                ax.text(left + (lane + 0.5) * pitch, top + 37, str(lane), ha="center", size=6.4, color=MUTED)
            ax.text(left - 10, top + 37, "lane", ha="right", size=SMALL, color=MUTED)
            for turn, (element, lanes) in enumerate(turns.items()):
                y = top + head - 4 + row * turn
                if turn < 4 or turn == len(turns) - 1:
                    ax.text(left - 10, y + 10, f"turn {turn + 1}", ha="right", size=SMALL, color=MUTED)
                rect(ax, left, y + 1, right - left, row - 2, "#eef1f4")
                for lane in lanes:
                    color = BLUE if turn == 0 else ORANGE
                    rect(ax, left + lane * pitch + 1, y + 1, pitch - 2, row - 2, color, zorder=2)
                ax.text(right + 8, y + 10, f"mask[{element}]", size=6.8, color=INK, family="DejaVu Sans Mono")
            top += head + row * len(turns) + 16
            said.append(f"{name + ': ' if name else ''}{words}.")
        page.alt = "Lanes of a warp that read constant memory, and the turns that it takes. " + " ".join(said)


def _turns(elements):
    """Element -> lanes that read it, in the order of the turns."""
    elements = np.asarray(elements)
    if elements.ndim != 1 or not 1 <= len(elements) <= 32 or elements.dtype.kind not in "iu":
        raise LabError(
            f"draw.constant_reads: a warp has 32 lanes; got {elements.dtype} elements of shape {elements.shape}"
        )
    turns: dict[int, list[int]] = {}
    for lane, element in enumerate(elements.tolist()):
        if element >= 0:
            turns.setdefault(element, []).append(lane)
    if not turns:
        raise LabError("draw.constant_reads: no lane takes part (all elements are negative)")
    return turns


def _said(turns):
    active = sum(map(len, turns.values()))
    if len(turns) == 1:
        return f"1 turn serves {'all 32' if active == 32 else active} lanes"
    sizes = {len(lanes) for lanes in turns.values()}
    most = max(sizes)
    return f"{len(turns)} turns of {'up to ' * (len(sizes) > 1)}{most} lane{'s' * (most > 1)}"


def constant_divergence(series, unit="op time (ms)", title=None, subtitle="", path=None):
    """What a read costs, over the number of elements that a warp asks for at once.

    Parameters
    ----------
    series : mapping of str to mapping of int to float
        Of each kind of memory: elements asked for at once -> measurement. The last is highlighted.
    unit : str
        Of the measurements.
    title, subtitle : str, optional
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there is nothing to draw.
    """
    series = {name: dict(sorted(values.items())) for name, values in series.items() if values}
    if not series:
        raise LabError("draw.constant_divergence got no measurement: give each series at least one")
    last = list(series)[-1]
    with canvas(342, path=path) as page:
        first, end = (series[last][key] for key in (min(series[last]), max(series[last])))
        span = f"{max(series[last])} elements as with {min(series[last])}"
        page.heading(title or f"{last}: {end / first:.2g} times as long with {span}", subtitle)
        names = 18 + max(page.text_width(name, weight="bold") for name in series)
        page.text(12, 66, unit, size=SMALL, color=MUTED)
        ax = page.axes(62, 80, page.width - names - 8, 290)
        steps = sorted({key for values in series.values() for key in values})
        top = max(value for values in series.values() for value in values.values())
        ax.set(xlim=(0, steps[-1] + 0.4), ylim=(0, top * 1.08))
        ax.set_xlabel("different mask elements that a warp asks for at once")
        ax.set_xticks(steps, [str(step) for step in steps])
        ax.set_yticks([tick for tick in ax.get_yticks() if tick <= top * 1.08])
        ax.grid(axis="y")
        ax.spines["left"].set_visible(False)
        ends = sorted((values[max(values)], name) for name, values in series.items())
        heights, words = {}, []
        for value, name in ends:  # names at the right ends, pushed apart where the lines end close together
            heights[name] = max([value, *(height + top * 0.08 for height in heights.values())])
        for name, values in series.items():
            color = BLUE if name == last else PALE
            ax.plot(list(values), list(values.values()), color=color, marker="o", ms=6, mec=PAPER, mew=1)
            ax.annotate(name, (max(values), heights[name]), (10, 0), textcoords="offset points", va="center",
                        weight="bold" if name == last else "normal", color=BLUE if name == last else INK,
                        annotation_clip=False)  # fmt: skip
            words.append(f"{name}: " + ", ".join(f"{value:.3g} with {key}" for key, value in values.items()) + ".")
        page.alt = f"Line chart, {unit} over the mask elements that a warp asks for at once. {' '.join(words)}"
        page.plain = "Figure: time over the number of mask elements that a warp asks for at once"
