"""What a warp asks of a memory at once: sectors of global memory, banks of shared memory, words of constant memory."""

from collections.abc import Mapping

import numpy as np

from hostcuda.limits import BANKS, SECTOR, WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import SMALL, Page, count, figure, percent, widest
from labkit.spec.layers import Layer

_EMPTY = "#eef1f4"  # the ground of what is not used
_HIGH = 172  # pixels of a panel of sectors


def _panels(given, who: str, what: str) -> dict[str, dict[int, int]]:
    """Name -> lane -> value, of one array or a mapping of them; lanes with a negative value take no part."""
    panels = {}
    for name, values in (given if isinstance(given, Mapping) else {"": given}).items():
        values = np.asarray(values)
        if values.ndim != 1 or not 1 <= len(values) <= WARP or values.dtype.kind not in "iu":
            raise LabError(f"{who}: a warp has {WARP} lanes; got {values.dtype} {what} of shape {values.shape}")
        panels[name] = {lane: value for lane, value in enumerate(values.tolist()) if value >= 0}
        if not panels[name]:
            raise LabError(f"{who}: no lane takes part (all {what} are negative)")
    return panels


def _against(counts, word) -> str:
    """ "4 against 32 sectors"."""
    return f"{' against '.join(dict.fromkeys(map(str, counts)))} {word}{'s' * (list(counts) != [1])}"


def _alt(about, panels, said) -> str:
    each = (f"{name + ': ' if name else ''}{words}." for name, words in zip(panels, said, strict=True))
    return " ".join([about, *each])


@figure
def sectors(page: Page, addresses, size: int = 4) -> None:
    """A warp's memory access, lane by lane, and the 32-byte sectors that it touches.

    Parameters
    ----------
    addresses : array of int, at most 32, or mapping of str to such arrays
        Byte address of each lane; a negative one marks a lane that takes no part. A mapping draws a panel each, to
        compare two mappings of threads to data.
    size : int
        Bytes that a lane reads or writes there.
    """
    _sectors(page, addresses, size)


@figure
def coalescing(page: Page, layer: Layer, block: tuple[int, int] = (16, 16)) -> None:
    """A warp that reads the layer's input along a row, and one that reads it down a column: sectors for each.

    Parameters
    ----------
    layer : Layer
    block : tuple of int
        Threads in x and y; the warp is the block's first.
    """
    lanes = np.arange(min(WARP, block[0] * block[1]))
    y, x = lanes // block[0], lanes % block[0]
    along = {"threadIdx.x along w": (y * layer.W + x) * 4, "threadIdx.x along h": (x * layer.W + y) * 4}
    _sectors(page, along, 4, f"{layer.name}   ·   first warp of a block of {block[0]}×{block[1]}   ·   an image row is "
             f"{layer.W * 4} bytes")


def _sectors(page, addresses, size, about=""):
    panels = _panels(addresses, "draw.sectors", "addresses")
    used = {name: np.unique(np.add.outer([*lanes.values()], np.arange(size))) for name, lanes in panels.items()}
    moved = {name: np.unique(found // SECTOR) for name, found in used.items()}
    message = f"One request of a warp, {_against([len(each) for each in moved.values()], 'sector')} moved"
    page.open(62 + _HIGH * len(panels), message, about)
    left, right, said = 26, page.width - 26, []
    pitch = (right - left) / WARP
    for i, (name, lanes) in enumerate(panels.items()):
        top, n, total = 58 + _HIGH * i, len(moved[name]), SECTOR * len(moved[name])
        bytes_used = f"{len(used[name]):,} of {total:,} bytes used ({percent(len(used[name]) / total)})"
        said.append(f"{count(n, 'sector')}, {bytes_used}")
        page.caption(left, top + 18, name)
        page.text(right, top + 18, said[-1], ha="right", color=style.MUTED)
        # Sectors side by side, a little apart, and further apart where memory in between is left out.
        apart = np.diff(moved[name], prepend=moved[name][0])
        before = np.cumsum(np.select([apart > 1, apart == 1], [18, 5] if n <= 12 else [5, 3]))
        w = min(150.0, (right - left - before[-1]) / n)
        xs = left + (right - left - w * n - before[-1]) / 2 + before + w * np.arange(n)
        place, y = dict(zip(moved[name].tolist(), xs, strict=True)), top + 100
        numbered = bool(widest(place, SMALL) < w)
        for sector, x in place.items():
            page.rect(x, y, w, 24, _EMPTY)
            inside = used[name][used[name] // SECTOR == sector] % SECTOR
            for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):
                page.rect(x + w * run[0] / SECTOR, y, w * len(run) / SECTOR, 24, style.BLUE)
            for word in range(1, 8 if w > 60 else 1):
                page.line([x + w * word / 8] * 2, [y, y + 24], style.PAPER, 0.8)
            page.frame(x, y, w, 24, style.INK, 1.6)
            page.small(x + w / 2, y + 39, str(sector) * numbered, style.INK, ha="center")
        for lane in range(WARP):
            x, face = left + lane * pitch, style.BLUE if lane in lanes else style.PAPER
            page.rect(x + 1, top + 30, pitch - 2, 18, face, style.BLUE if lane in lanes else style.FAINT, 1)
            page.text(x + pitch / 2, top + 42.5, str(lane), ha="center", size=6.6,
                      color=style.PAPER if lane in lanes else style.MUTED)
            if lane in lanes:
                to = place[lanes[lane] // SECTOR] + w * (lanes[lane] % SECTOR + size / 2) / SECTOR
                page.line([x + pitch / 2, to], [top + 50, y - 2], style.PALE, 0.9, zorder=0.5)
        below = "each box is a sector of 32 bytes" + ", numbered" * numbered
        if (apart > 1).any():
            below += f" · {'wider ' * (1 in apart)}gaps: memory left out"
        page.small(left, y + 57, below)
    page.alt = _alt("A warp's 32 lanes and the 32-byte sectors of memory that they touch.", panels, said)


def _turns(page, top, name, said, across, down, step, turns, notes=()) -> float:
    """A line per turn: which lanes or banks are served in it, with a text in each; returns where the panel ends."""
    left, right = 92, page.width - (108 if notes else 14)
    pitch = (right - left) / 32
    page.caption(12, top + 16, name, said)
    page.small(left - 10, top + 37, across, ha="right")
    for i in range(32):
        page.text(left + (i + 0.5) * pitch, top + 37, str(i), ha="center", size=6.4, color=style.MUTED)
    page.cells(left, top + 42, len(turns), 32, pitch, _EMPTY, style.PAPER, high=step, lw=2, zorder=3)
    for i, turn in enumerate(turns):
        y = top + 42 + step * i
        if i < 3 or i == len(turns) - 1:
            page.small(left - 10, y + step / 2 + 4, f"{down} {i + 1}", ha="right")
        for at, text in turn.items():
            page.rect(left + at * pitch, y, pitch, step, style.ORANGE if i else style.BLUE, zorder=2)
            page.text(left + (at + 0.5) * pitch, y + step / 2 + 3, text, ha="center", size=6.4, zorder=4,
                      color=style.INK if i else style.PAPER)
        for note in notes[i : i + 1]:
            page.text(right + 8, y + step / 2 + 3, note, size=6.8, family=style.MONO)
    return top + 62 + step * len(turns)


@figure
def banks(page: Page, words) -> None:
    """A warp's access to shared memory as a map of the banks: which lanes meet in one, and in how many wavefronts.

    Parameters
    ----------
    words : array of int, at most 32, or mapping of str to such arrays
        Which 4-byte word of shared memory each lane touches; a negative one marks a lane that takes no part. A
        mapping draws a panel each.
    """
    panels, fronts, said = _panels(words, "draw.banks", "words"), {}, []
    for name, lanes in panels.items():
        queues: dict[int, list[str]] = {}  # bank -> for each of its words the lanes that share it; a wavefront each
        for word in dict.fromkeys(lanes.values()):
            sharing = [lane for lane in lanes if lanes[lane] == word]
            queues.setdefault(word % BANKS, []).append(str(sharing[0]) if len(sharing) == 1 else f"{len(sharing)}×")
        longest = max(map(len, queues.values()))
        fronts[name] = [{bank: texts[i] for bank, texts in queues.items() if i < len(texts)} for i in range(longest)]
        conflicts = f"{longest - 1} of them conflicts" if longest > 1 else "no conflict"
        said.append(f"{count(longest, 'wavefront')}, {conflicts}, {len(queues)} of {BANKS} banks used")
    top = 58
    page.open(62 + sum(62 + 20 * len(each) for each in fronts.values()),
              f"One access of a warp, {_against([len(each) for each in fronts.values()], 'wavefront')}")
    for (name, each), text in zip(fronts.items(), said, strict=True):
        top = _turns(page, top, name, text, "bank", "wavefront", 20, each)
    page.alt = _alt("A map of the 32 banks of shared memory.", panels, said)


@figure
def constant_reads(page: Page, elements) -> None:
    """A warp's read of constant memory, turn by turn: each turn serves the lanes that asked for one element.

    Parameters
    ----------
    elements : array of int, at most 32, or mapping of str to such arrays
        Which element of the __constant__ array each lane reads; a negative one marks a lane that takes no part. A
        mapping draws a panel each.
    """
    panels, turns, said = _panels(elements, "draw.constant_reads", "elements"), {}, []
    for name, lanes in panels.items():
        asked = dict.fromkeys(lanes.values())
        turns[name] = {element: [lane for lane in lanes if lanes[lane] == element] for element in asked}
        sizes = {len(served) for served in turns[name].values()}
        if len(asked) == 1:
            said.append(f"1 turn serves {'all 32' if len(lanes) == 32 else len(lanes)} lanes")
        else:
            said.append(f"{len(asked)} turns of {'up to ' * (len(sizes) > 1)}{count(max(sizes), 'lane')}")
    top = 56
    page.open(58 + sum(62 + 14 * len(each) for each in turns.values()),
              f"One read of a warp, {_against([len(each) for each in turns.values()], 'turn')}")
    for (name, each), text in zip(turns.items(), said, strict=True):
        served = [dict.fromkeys(lanes, "") for lanes in each.values()]
        top = _turns(page, top, name, text, "lane", "turn", 14, served, [f"mask[{element}]" for element in each])
    page.alt = _alt("Lanes of a warp that read constant memory, and the turns that it takes.", panels, said)
