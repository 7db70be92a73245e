"""Pictures of memory accesses: what a warp asks for, and what the memory moves for it."""

import numpy as np

from labkit.base.errors import LabError
from labkit.draw.style import BLUE, FAINT, MUTED, PALE, PAPER, SMALL, canvas, percent, rect


def sectors(addresses, size=4, title=None, subtitle="", path=None):
    """A warp's memory access, lane by lane, and the 32-byte sectors that it touches.

    Parameters
    ----------
    addresses : array of int, at most 32, or mapping of str to such arrays
        Byte address of each lane; a negative one marks a lane that takes no part. A mapping draws a panel each, to
        compare two mappings of threads to data.
    size : int
        Bytes that a lane reads or writes there.
    title : str, optional
        In place of the message.
    subtitle : str
        Whose access it is.
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If there are more lanes than a warp has, or none that takes part.
    """
    panels = addresses if isinstance(addresses, dict) else {"": addresses}
    drawn = {name: _Access(values, size) for name, values in panels.items()}
    counts = [len(access.sectors) for access in drawn.values()]
    with canvas(62 + 154 * len(panels), path=path) as page:
        spread = " against ".join(str(n) for n in dict.fromkeys(counts))
        page.heading(title or f"One request of a warp, {spread} sector{'s' if counts != [1] else ''} moved", subtitle)
        ax = page.paper()
        for i, (name, access) in enumerate(drawn.items()):
            _draw_access(page, ax, 58 + 154 * i, name, access)
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
    path : str or path-like, optional
        Save to this .png or .svg file, and show nothing.

    Raises
    ------
    LabError
        If the block has no threads.
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
        count = f"{len(self.sectors)} sector{'s' if len(self.sectors) > 1 else ''}"
        return f"{count}, {len(self.bytes):,} of {moved:,} bytes used ({percent(len(self.bytes) / moved)})"


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
        rect(ax, x, sectors_y, w, tall, "#eef1f4")
        used = access.bytes[access.bytes // 32 == sector] % 32
        for run in np.split(used, np.flatnonzero(np.diff(used) > 1) + 1):
            rect(ax, x + w * run[0] / 32, sectors_y, w * len(run) / 32, tall, BLUE)
        if w > 60:
            for word in range(1, 8):
                ax.plot([x + w * word / 8] * 2, [sectors_y, sectors_y + tall], color=PAPER, lw=0.8)
        rect(ax, x, sectors_y, w, tall, "none", MUTED, 1)
        x += w
    for lane in range(32):
        active = lane < len(access.addresses) and access.addresses[lane] >= 0
        cx = left + (lane + 0.5) * pitch
        rect(
            ax, left + lane * pitch + 1, lanes_y, pitch - 2, 18, BLUE if active else PAPER, BLUE if active else FAINT, 1
        )
        ax.text(cx, lanes_y + 12.5, str(lane), ha="center", size=6.6, color=PAPER if active else MUTED)
        if active:
            address = int(access.addresses[lane])
            to = place[address // 32] + w * (address % 32 + access.size / 2) / 32
            ax.plot([cx, to], [lanes_y + 20, sectors_y - 2], color=PALE, lw=0.9, zorder=0.5)
    ax.text(
        left,
        sectors_y + tall + 15,
        "sectors of 32 bytes" + (", gaps left out" if jumps.any() else ""),
        size=SMALL,
        color=MUTED,
    )
