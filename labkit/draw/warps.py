"""A warp's request to a memory: sectors of global memory, banks of shared memory, words of constant memory."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from hostcuda.limits import BANKS, SECTOR, WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import SMALL, Page, count, on_new_page, percent, widest
from labkit.spec.layers import Layer, as_layer

HIGH = 172  # pixels of a panel of sectors


def _require_panels(given: object, figure_name: str, what: str) -> dict[str, dict[int, int]]:
    """Return one array, or a mapping of arrays, as panels: name -> lane -> value, without the negative values.

    LabError, which names the figure and `what` the values are, unless an array has 1 to 32
    integers, one of them >= 0.
    """
    panels = {}
    for name, values in (given if isinstance(given, Mapping) else {"": given}).items():
        values = np.asarray(values)
        # (un)signed integers
        if values.ndim != 1 or not 1 <= len(values) <= WARP or values.dtype.kind not in "iu":
            raise LabError(
                f"{figure_name}: a warp has {WARP} lanes; got {values.dtype} {what} of shape {values.shape}"
            )
        panels[name] = {lane: value for lane, value in enumerate(values.tolist()) if value >= 0}
        if not panels[name]:
            raise LabError(f"{figure_name}: no lane takes part (all {what} are negative)")
    return panels


def _write_counts(counts: Iterable[int], noun: str) -> str:
    """Return the different ones of several counts as text: "4 sectors or 32"."""
    first, *others = dict.fromkeys(counts)
    return " or ".join([f"{first} {noun}{'s' * (first != 1)}", *map(str, others)])


def _write_alt(about: str, names: Iterable[str], texts: Iterable[str]) -> str:
    """Return the alternative text of a figure: `about`, then a sentence for the name and the text of each panel."""
    sentences = (
        f"{name + ': ' if name else ''}{words}." for name, words in zip(names, texts, strict=True)
    )
    return " ".join([about, *sentences])


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def sectors(page: Page, addresses: ArrayLike | Mapping[str, ArrayLike], size: int = 4) -> None:
    """Draw a warp's memory access, lane by lane, and the 32-byte sectors that it touches.

    Parameters
    ----------
    addresses : array of int, at most 32, or mapping of str to such arrays
        Byte address of each lane; a negative one marks a lane that takes no part. A mapping draws a
        panel per array, to compare two mappings of threads to data.
    size : int
        Bytes that a lane reads or writes there.
    """
    _draw_panels(page, addresses, size)


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def coalescing(page: Page, layer: Layer | str, block: tuple[int, int] = (16, 16)) -> None:
    """Draw the sectors of a warp that reads the layer's input along a row, and of one that reads it down a column.

    Parameters
    ----------
    layer : Layer or its name
    block : tuple of int
        Threads in x and y; the warp is the block's first.
    """
    layer = as_layer(layer)
    lanes = np.arange(min(WARP, block[0] * block[1]))
    y, x = lanes // block[0], lanes % block[0]
    # The addresses of the lanes' inputs, of 4 bytes each.
    along = {
        "threadIdx.x along w": (y * layer.W + x) * 4,
        "threadIdx.x along h": (x * layer.W + y) * 4,
    }
    _draw_panels(
        page,
        along,
        4,
        f"{layer.name}   ·   first warp of a block of {block[0]}×{block[1]}   ·   an image "
        f"row is {layer.W * 4} bytes",
    )


def _draw_panels(page: Page, addresses: object, size: int, subtitle: str = "") -> None:
    """Draw a panel of lanes and sectors for each array of `addresses`.

    `addresses` has up to 32 addresses, one per lane, or maps names to such arrays; `size` is the
    number of bytes per lane.
    """
    panels = _require_panels(addresses, "draw.sectors", "addresses")
    moved = [len(bytes_used(lanes, size)[1]) for lanes in panels.values()]
    page.open(
        62 + HIGH * len(panels),
        f"One request of a warp moves {_write_counts(moved, 'sector')}",
        subtitle,
    )
    texts = [
        draw_sector_panel(page, 58 + HIGH * i, *panel, size)
        for i, panel in enumerate(panels.items())
    ]
    page.alt = _write_alt(
        "A warp's 32 lanes and the 32-byte sectors of memory that they touch.", panels, texts
    )


def bytes_used(lanes: Mapping[int, int], size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two sorted arrays: the addresses of the bytes, and the numbers of the sectors, that the lanes touch.

    `lanes` maps a lane to the address of its `size` bytes; the number of a sector is its address /
    32.
    """
    used = np.unique(np.add.outer([*lanes.values()], np.arange(size)))
    return used, np.unique(used // SECTOR)


def draw_sectors(
    page: Page,
    left: float,
    right: float,
    y: float,
    height: float,
    used: np.ndarray,
    max_width: float = 150,
    centered: bool = True,
) -> tuple[dict[int, float], float]:
    """Draw sectors in a row as boxes with the bytes at the addresses `used` in blue, between `left` and `right`.

    The gap between two is wide where memory is left out. Return a dict, from the number of a sector
    (its address / 32) to the left edge of its box, and the width of a box, at most `max_width`; all
    in CSS pixels.
    """
    sectors = np.unique(used // SECTOR)
    # from each sector to the one before it: 1 if they are neighbours in memory, 0 for the first
    distance, n = np.diff(sectors, prepend=sectors[0]), len(sectors)
    wide_gap, gap = (18, 5) if n <= 12 else (5, 3)  # pixels
    # the sum of the gaps to the left of each box
    gaps = np.cumsum(np.select([distance > 1, distance == 1], [wide_gap, gap]))
    w = min(max_width, (right - left - gaps[-1]) / n)
    margin = (right - left - w * n - gaps[-1]) / 2 if centered else 0
    place = dict(
        zip(sectors.tolist(), (left + margin + gaps + w * np.arange(n)).tolist(), strict=True)
    )
    for sector, x in place.items():
        page.rect(x, y, w, height, style.EMPTY)
        inside = used[used // SECTOR == sector] % SECTOR
        # runs of neighbouring bytes
        for run in np.split(inside, np.flatnonzero(np.diff(inside) > 1) + 1):
            page.rect(x + w * run[0] / SECTOR, y, w * len(run) / SECTOR, height, style.BLUE)
        # lines between the eight words, if there is room for them
        for word in range(1, 8 if w > 60 else 1):
            page.line([x + w * word / 8] * 2, [y, y + height], style.PAPER, 0.8)
        page.frame(x, y, w, height, style.INK, min(1.6, w / 10))
    return place, w


def draw_sector_panel(
    page: Page, top: float, name: str, lanes: Mapping[int, int], size: int
) -> str:
    """Draw a warp's lanes and the sectors that they touch; return the request in words: "4 sectors, 128 of …".

    `lanes` maps a lane to the address of its `size` bytes.
    """
    left, right, y = 26, page.width - 26, top + 100  # y: the top of the sectors
    used, moved = bytes_used(lanes, size)
    pitch, total = (right - left) / WARP, SECTOR * len(moved)
    words = f"{count(len(moved), 'sector')}, {len(used):,} of {total:,} bytes used ({percent(len(used) / total)})"
    page.caption(left, top + 18, name)
    page.text(right, top + 18, words, ha="right", color=style.MUTED)
    place, w = draw_sectors(page, left, right, y, 24, used)  # sector -> left edge; width of a box
    numbered = bool(widest(place, SMALL) < w)  # whether the sectors' numbers fit
    for sector, x in place.items():
        page.small(x + w / 2, y + 39, str(sector) * numbered, style.INK, ha="center")
    for lane in range(WARP):
        x, face = left + lane * pitch, style.BLUE if lane in lanes else style.PAPER
        page.rect(
            x + 1, top + 30, pitch - 2, 18, face, style.BLUE if lane in lanes else style.FAINT, 1
        )
        page.text(
            x + pitch / 2,
            top + 42.5,
            str(lane),
            ha="center",
            size=6.6,
            color=style.PAPER if lane in lanes else style.MUTED,
        )
        if lane in lanes:
            to = place[lanes[lane] // SECTOR] + w * (lanes[lane] % SECTOR + size / 2) / SECTOR
            page.line([x + pitch / 2, to], [top + 50, y - 2], style.PALE, 0.9, zorder=0.5)
    apart = np.diff(moved)
    below = "each box is a sector of 32 bytes" + ", numbered" * numbered
    if (apart > 1).any():  # 1: the next sector in memory
        below += f" · {'wider ' * (1 in apart)}gaps: memory left out"
    page.small(left, y + 57, below)
    return words


@dataclass(frozen=True)
class Turns:
    """A request that a memory serves turn by turn, and its panel: a line per turn, a column per lane or bank."""

    column: str  # what a column is: "lane" or "bank"
    line: str  # what a line is: "turn" of constant memory, or "wavefront"
    step: float  # pixels of a line
    # group -> turn -> column -> text; turns after a group's first are conflicts
    groups: list[list[dict[int, str]]]
    words: str  # the request in words, for the caption
    notes: Sequence[str] = ()  # beside the lines, one each

    @property
    def number(self) -> int:
        """The number of turns: a line of the panel for each."""
        return sum(map(len, self.groups))

    @property
    def height(self) -> float:
        """The height of the panel [pixels]: of its lines, and of the caption and the columns' numbers above them."""
        return 62 + self.step * self.number


def draw_turns(page: Page, top: float, name: str, request: Turns) -> None:
    """Draw a request turn by turn from y = `top`: the lanes or banks that each serves, in orange for a conflict."""
    left, right, step = 92, page.width - (108 if request.notes else 14), request.step
    pitch = (right - left) / 32
    page.caption(12, top + 16, name, request.words)
    page.small(left - 10, top + 37, request.column, ha="right")
    for i in range(32):
        page.text(
            left + (i + 0.5) * pitch, top + 37, str(i), ha="center", size=6.4, color=style.MUTED
        )
    page.cells(
        left,
        top + 42,
        request.number,
        32,
        pitch,
        style.EMPTY,
        style.PAPER,
        high=step,
        lw=2,
        zorder=3,
    )
    # the first turn of a group is needed, the others are conflicts
    turns = [(turn, bool(i)) for group in request.groups for i, turn in enumerate(group)]
    for i, (turn, is_conflict) in enumerate(turns):  # turn: column -> text in its cell
        y = top + 42 + step * i
        if i < 3 or i == len(turns) - 1:  # only these lines get a label
            page.small(left - 10, y + step / 2 + 4, f"{request.line} {i + 1}", ha="right")
        for column, text in turn.items():
            page.rect(
                left + column * pitch,
                y,
                pitch,
                step,
                style.ORANGE if is_conflict else style.BLUE,
                zorder=2,
            )
            page.text(
                left + (column + 0.5) * pitch,
                y + step / 2 + 3,
                text,
                ha="center",
                size=6.4,
                zorder=4,
                color=style.INK if is_conflict else style.PAPER,
            )
        for note in request.notes[i : i + 1]:  # none, if there are no notes
            page.text(right + 8, y + step / 2 + 3, note, size=6.8, family=style.MONO)


def _draw_requests(
    page: Page, kind: str, requests: Mapping[str, Turns], about: str, top: int, below: int
) -> None:
    """Draw a panel per request, by its name, with `top` pixels above and `below` pixels below all of them.

    `kind` is "access" or "read", for the title; `about` begins the alternative text.
    """
    counts = [request.number for request in requests.values()]
    line = next(iter(requests.values())).line
    page.open(
        top + below + sum(request.height for request in requests.values()),
        f"One {kind} of a warp takes {_write_counts(counts, line)}",
    )
    page.alt = _write_alt(about, requests, [request.words for request in requests.values()])
    for name, request in requests.items():
        draw_turns(page, top, name, request)
        top += request.height


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def banks(page: Page, words: ArrayLike | Mapping[str, ArrayLike], size: int = 4) -> None:
    """Draw a warp's access to shared memory as a map of the banks: which lanes meet in one, in how many wavefronts.

    Parameters
    ----------
    words : array of int, at most 32, or mapping of str to such arrays
        Which 4-byte word of shared memory each lane touches; a negative one marks a lane that takes
        no part. A mapping draws a panel per array.
    size : int
        Bytes that a lane loads from that word on: 4, 8 or 16.
    """
    panels = _require_panels(words, "draw.banks", "words")
    requests = {
        name: shared_turns({lane: 4 * word for lane, word in lanes.items()}, size)
        for name, lanes in panels.items()
    }
    _draw_requests(
        page, "access", requests, "A map of the 32 banks of shared memory.", top=58, below=4
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def constant_reads(page: Page, elements: ArrayLike | Mapping[str, ArrayLike]) -> None:
    """Draw a warp's read of constant memory, turn by turn: each turn serves the lanes that asked for one element.

    Parameters
    ----------
    elements : array of int, at most 32, or mapping of str to such arrays
        Which element of the __constant__ array each lane reads; a negative one marks a lane that
        takes no part. A mapping draws a panel per array.
    """
    panels = _require_panels(elements, "draw.constant_reads", "elements")
    requests = {name: constant_turns(lanes, "mask[{}]".format) for name, lanes in panels.items()}
    about = "Lanes of a warp that read constant memory, and the turns that it takes."
    _draw_requests(page, "read", requests, about, top=56, below=2)


def constant_turns(lanes: Mapping[int, int], write: Callable[[int], str]) -> Turns:
    """Return the turns of a read of constant memory: one serves the lanes that ask for one element.

    `lanes` maps a lane to its element, or to the element's address; `write` returns the name of
    such an element, "mask[3]".
    """
    turns = {  # element -> the lanes that ask for it
        element: [lane for lane in lanes if lanes[lane] == element]
        for element in dict.fromkeys(lanes.values())
    }
    sizes = [*map(len, turns.values())]
    words = f"{len(sizes)} turns of {'up to ' * (len({*sizes}) > 1)}{count(max(sizes), 'lane')}"
    if len(sizes) == 1:
        words = f"1 turn serves {'all 32' if sizes == [WARP] else sizes[0]} lanes"
    # a turn: lane -> text in its box, here none
    texts = [dict.fromkeys(served, "") for served in turns.values()]
    return Turns(
        column="lane", line="turn", step=14, groups=[texts], words=words, notes=[*map(write, turns)]
    )


def shared_turns(lanes: Mapping[int, int], size: int = 4, load: bool = True) -> Turns:
    """Return a warp's request to shared memory as a panel to draw: its wavefronts, and what they are in words.

    A wavefront is one turn, in which each of the 32 banks serves one word of 4 bytes. `lanes` maps
    a lane to the address of its `size` bytes; `load` says whether the request is a load.
    """
    groups = list_wavefronts(lanes, size, load)
    total = sum(map(len, groups))
    more = total - len(groups)  # each group needs one wavefront
    conflicts = f"{more} of them conflicts" if more else "no conflict"
    used = len({bank for fronts in groups for front in fronts for bank in front})
    words = f"{count(total, 'wavefront')}, {conflicts}, {used} of {BANKS} banks used"
    return Turns(column="bank", line="wavefront", step=20, groups=groups, words=words)


def list_wavefronts(lanes: Mapping[int, int], size: int, load: bool) -> list[list[dict[int, str]]]:
    """Return the wavefronts of a request to shared memory: a list per group of lanes, with a dict per wavefront.

    The dict maps each bank that is busy to a text: the lane that it serves, "5", or how many lanes,
    "3×". A group are lanes that are served together: its first wavefront is needed, the others are
    conflicts. A bank serves one word of 4 bytes per wavefront, to any number of lanes. Accesses of
    8 or 16 bytes per lane are served for half or a quarter of a warp at a time; for twice as many
    lanes if all neighbours load the same (measured on an H200, and counted so by the engine).

    `lanes` maps a lane to the address of its `size` bytes; `load` is whether the request is a load.
    """
    words = max(1, size // 4)  # per lane
    group = WARP // words  # lanes that are served together
    # Neighbours: lanes whose numbers differ by 1 or by 2. A lane that takes no part equals any
    # other.
    alike = (all(lanes.get(lane ^ away, at) == at for lane, at in lanes.items()) for away in (1, 2))
    if words > 1 and load and any(alike):
        group *= 2
    groups = []
    for first in range(0, WARP, group):
        queues: dict[int, dict[int, list[int]]] = {}  # bank -> word -> the lanes that share it
        for lane in range(first, min(first + group, WARP)):
            if lane not in lanes:
                continue
            start = lanes[lane] // 4  # the number of its first word
            for word in range(start, start + words):
                queues.setdefault(word % BANKS, {}).setdefault(word, []).append(lane)
        texts = {
            bank: [
                str(served[0]) if len(served) == 1 else f"{len(served)}×"
                for served in queue.values()
            ]
            for bank, queue in queues.items()
        }
        # Wavefront i serves the i-th word of each bank's queue; the longest queue says how many there are.
        longest = max(map(len, texts.values()), default=0)
        groups.append(
            [
                {bank: queue[i] for bank, queue in texts.items() if i < len(queue)}
                for i in range(longest)
            ]
        )
    return [fronts for fronts in groups if fronts]
