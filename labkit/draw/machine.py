"""How a GPU is built and why it needs many threads: grid, block and thread, memories, hidden latency, a shuffle."""

from collections.abc import Mapping, Sequence

from hostcuda.limits import MAX_THREADS, MULTIPROCESSOR, WARP
from labkit.base.errors import LabError
from labkit.draw import style
from labkit.draw.style import Page, count, on_new_page, percent, wide
from labkit.spec.devices import device


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def threads(page: Page, n: int = 1000, threads: int = 256, block: int = 2, thread: int = 5) -> None:
    """Draw grid, block and thread: how a thread finds the element that it computes.

    Parameters
    ----------
    n : int
        Elements, with one thread each.
    threads : int
        Threads per block, more than 8.
    block, thread : int
        The block and the thread to follow; the thread is one of its block's first 8.
    """
    if not 8 < threads <= MAX_THREADS or n < 1:
        raise LabError(
            f"draw.threads: {n} elements in blocks of {threads}; a block has 9 to {MAX_THREADS}"
        )
    blocks, i = -(-n // threads), block * threads + thread  # i: the element
    if not (0 <= block < blocks <= 8 and 0 <= thread < 8 and i < n):
        raise LabError(
            f"draw.threads: thread {thread} of block {block}, of {count(blocks, 'block')}: a figure "
            "has at most 8 blocks, and follows one of a block's first 8 threads, with an element"
        )
    idle = blocks * threads - n  # threads without an element
    page.open(
        356,
        f"Thread {thread} of block {block} computes element {i}",
        f"{n:,} elements   ·   {count(blocks, 'block')} of {threads} threads   ·   one thread per element",
    )
    left, right = 26, page.width - 26
    # widths in pixels: of a block, and of a thread or element, of which 13 are drawn
    wide_block, cell = (right - left) / blocks, (right - left) / 13
    page.caption(left, 84, "grid", f"{count(blocks, 'block')}: gridDim.x = {blocks}")
    for b in range(blocks):
        x, first = left + b * wide_block, b * threads
        page.rect(x, 94, wide_block, 44, style.BLUE if b == block else style.TINT, style.PAPER, 2)
        ink = style.PAPER if b == block else style.INK
        page.text(x + wide_block / 2, 113, f"block {b}", ha="center", weight="bold", color=ink)
        page.small(
            x + wide_block / 2, 130, f"{first} to {min(first + threads, n) - 1}", ink, ha="center"
        )
    if idle:
        w = max(idle / threads * wide_block, 4)
        page.rect(right - w, 94, w, 44, style.WARM, style.ORANGE, 0, hatch="//////", zorder=2)
        page.small(
            right,
            84,
            f"{count(idle, 'thread')} without an element",
            style.AMBER,
            ha="right",
            weight="bold",
        )
    # dashed lines from the block in the grid to the same block, drawn large below
    for near, far in ((left + block * wide_block, left), (left + (block + 1) * wide_block, right)):
        page.line([near, far], [138, 196], style.BLUE, 1, ls=style.DASHED)
    clear, name = {"facecolor": style.PAPER, "edgecolor": "none", "pad": 2}, f"block {block}"
    page.text(left, 180, name, weight="bold", bbox=clear)
    page.text(
        left + wide(f"{name}  ", weight="bold"),
        180,
        f"{threads} threads: blockIdx.x = {block}, blockDim.x = {threads}",
        color=style.MUTED,
        bbox=clear,
    )
    # the first 8 threads of the block, a gap, the last 4
    numbers = [*range(8), None, *range(threads - 4, threads)]
    for k, t in enumerate(numbers):
        x, followed = left + k * cell, t == thread
        page.rect(
            x,
            196,
            cell,
            34,
            style.ORANGE if followed else style.TINT if t is not None else style.PAPER,
            style.PAPER,
            2,
        )
        page.small(
            x + cell / 2,
            217,
            "…" if t is None else str(t),
            style.INK,
            ha="center",
            weight="bold" if followed else "normal",
        )
    x = left + (thread + 0.5) * cell
    page.line([x, x], [230, 262], style.ORANGE, 2)
    page.small(x + 8, 250, f"threadIdx.x = {thread}", style.AMBER, weight="bold")
    page.text(right, 256, "the arrays", ha="right", weight="bold")
    for k in range(13):  # the elements of the block's first 13 threads
        element, followed = i - thread + k, k == thread
        page.rect(
            left + k * cell,
            266,
            cell,
            26,
            style.ORANGE if followed else style.PAPER,
            style.FAINT,
            1,
        )
        page.small(
            left + (k + 0.5) * cell,
            283,
            str(element) if element < n else "",
            style.INK,
            ha="center",
            weight="bold" if followed else "normal",
        )
    page.text(
        left,
        326,
        f"i = blockIdx.x · blockDim.x + threadIdx.x = {block} · {threads} + {thread} = {i}",
        family=style.MONO,
        size=10,
    )
    page.alt = (
        f"A grid of {count(blocks, 'block')} with {threads} threads each covers {n:,} elements. Thread "
        f"{thread} of block {block} computes element {block} times {threads} plus {thread}, which is {i}. "
        f"{count(idle, 'thread')} of the last block have no element."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def memories(page: Page) -> None:
    """Draw the memories of an H200: who shares each, how large it is, and how long a load from it waits."""
    gpu, limits = device("H200"), MULTIPROCESSOR["sm_90"]
    registers = limits["registers"] * 4 // 1024  # of 4 bytes each, in KB
    # bytes per second -> TB/s of device memory, and GB/s of the link to the host
    rate, link = gpu.ceilings["reference_bandwidth"] / 1e12, gpu.ceilings["to_device_pinned"] / 1e9
    rows = (  # name, shared by, size, wait
        ("registers", "one thread", f"{registers} KB per multiprocessor", "not at all"),
        (
            "shared memory, L1",
            "the threads of a block",
            "256 KB per multiprocessor",
            "tens of cycles",
        ),
        ("L2 cache", "all threads", "60 MB", "hundreds of cycles"),
        ("device memory", "all threads, and the host", f"140 GB, {rate:.3g} TB/s", "hundreds more"),
        ("host memory", "the host", f"link: {link:.3g} GB/s", "for a copy"),
    )
    left, top, high = 26, 104, 44
    page.open(
        top + high * len(rows) + 12,
        "The farther a memory, the more threads share it, the longer a load waits",
        f"NVIDIA H200, {gpu.multiprocessors} multiprocessors   ·   the rates are those that programs reach",
    )
    columns = (left + 254, left + 432, left + 606)
    for x, text in zip(columns, ("shared by", "size and rate", "a load waits"), strict=True):
        page.small(x, top - 12, text, weight="bold")
    faces = (style.BLUE, style.STEEL, style.PALE, style.TINT, style.WARM)
    for i, (row, face) in enumerate(zip(rows, faces, strict=True)):
        y = top + i * high
        page.rect(left, y, 150 + 22 * i, high - 8, face)
        page.text(left + 10, y + 22, row[0], weight="bold", color=style.ink_on(face))
        for x, text in zip(columns, row[1:], strict=True):
            page.small(x, y + 22, text, style.INK)
    page.alt = "The memories of an NVIDIA H200, from near to far. " + " ".join(
        f"{name[0].upper()}{name[1:]}: shared by {who}; {size}; a load waits: {wait}."
        for name, who, size, wait in rows
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def block_memory(page: Page, sizes: Mapping[str, int]) -> None:
    """Draw what the shared memory of a block holds, layer by layer, in the kernel that computes the whole network.

    Parameters
    ----------
    sizes : mapping of str to int
        The bytes of the parts image, maps and features; `labkit.networks.fused.BLOCK_BYTES` has
        them in half precision. The height of a part in the figure is in proportion to its bytes.
    """
    # What happens to each part in the four steps, "" for nothing. The maps are those of convolution 1; the
    # features are those of convolution 2, of eight images, which are classified together.
    uses = {
        "image": ("written", "read", "", "sums"),
        "maps": ("", "written", "read", ""),
        "features": ("kept", "kept", "written", "read"),
    }
    looks = {"written": style.ORANGE, "read": style.SKY, "kept": style.EMPTY, "sums": style.SAND}
    words = {
        ("features", "kept"): "kept: the images before",
        ("features", "written"): "written: one of 8 places",
        ("image", "sums"): "partial sums",
    }
    steps = (
        ("fetch", "pixels from", "device memory"),
        ("convolve, pool", "convolution 1,", "2 × 2 maxima"),
        ("convolve, pool", "convolution 2,", "4 × 4 maxima"),
        ("classify", "every eighth image:", "y to device memory"),
    )
    # pixels: left and top edge of the memory, width of a step, gap between parts, height of all parts
    left, top, wide_step, gap, high = 128, 128, 148, 8, 150
    scale = high / sum(sizes[part] for part in uses)  # pixels per byte
    page.open(
        top + high + 2 * gap + 34,
        "A layer writes where the next one reads: no map leaves the chip",
        "shared memory of one block, over time, bytes with padding   ·   dashed: a barrier",
    )
    for n, (name, *details) in enumerate(steps):
        x = left + n * wide_step + 6
        page.text(x, top - 48, name, weight="bold")
        page.small(x, top - 32, "\n".join(details))
        edge = left + n * wide_step  # the first barrier: before the fetch
        page.line((edge, edge), (top - 60, top + high + 2 * gap + 6), style.MUTED, 1.4, ls="--")
    y, told = float(top), []
    for part, states in uses.items():
        part_high = scale * sizes[part]
        page.text(left - 12, y + part_high / 2, part, ha="right", weight="bold")
        page.small(left - 12, y + part_high / 2 + 15, f"{sizes[part]:,} bytes", ha="right")
        for n, state in enumerate(states):
            box = (left + n * wide_step + 3, y, wide_step - 6, part_high)
            if state:
                page.rect(*box, looks[state])
                page.small(
                    box[0] + box[2] / 2,
                    y + part_high / 2 + 4,
                    words.get((part, state), state),
                    style.INK,
                    ha="center",
                )
            else:
                page.frame(*box, style.FAINT, 1)
        named = [words.get((part, state), state or "unused") for state in states]
        told.append(f"{part}, {sizes[part]:,} bytes: {'; '.join(named)}.")
        y += part_high + gap
    page.small(left + 3, y + 14, "empty frame: not used in this step")
    names = ", ".join(" ".join((name, *details)) for name, *details in steps)
    page.alt = (
        f"The shared memory of a block in four steps with a barrier before each ({names}). "
        + " ".join(told)
    )


def simulate_issue(warps: int, work: int, latency: int, cycles: int) -> list[list[str]]:
    """Return each warp's state in each cycle, as states[warp][cycle].

    A state is "issues", "waits" for its load, or "ready" while another one issues. Each warp issues
    `work` instructions, the last of which is a load; the next one needs its word, `latency` cycles
    later, and so on. The scheduler takes the warp that has been ready for longest.
    """
    # of each warp: the cycle from which it can issue; the instructions up to and with its next load
    ready_at, remaining = [0] * warps, [work] * warps
    states: list[list[str]] = [[] for _ in range(warps)]
    for cycle in range(cycles):
        ready = [warp for warp in range(warps) if ready_at[warp] <= cycle]
        chosen = min(ready, key=lambda warp: (ready_at[warp], warp), default=None)
        for warp in range(warps):
            states[warp].append(
                "issues" if warp == chosen else "ready" if warp in ready else "waits"
            )
        if chosen is not None:
            remaining[chosen] -= 1
            if remaining[chosen] == 0:
                ready_at[chosen], remaining[chosen] = cycle + 1 + latency, work
    return states


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def hiding(page: Page, warps: Sequence[int] = (1, 4, 9), work: int = 3, latency: int = 24) -> None:
    """Draw how a scheduler hides the latency of loads: while a warp waits, it issues instructions of others.

    Parameters
    ----------
    warps : sequence of int
        Resident warps of the scheduler: a panel for each number, at most 16.
    work : int
        Instructions that a warp issues until it needs a loaded word.
    latency : int
        Cycles that a warp waits for a loaded word.
    """
    warps, cycles = list(warps), 60  # the cycles that are drawn
    if not warps or min(warps) < 1 or max(warps) > 16 or work < 1 or latency < 1:
        raise LabError(
            f"draw.hiding: {warps} warps, {work} instructions, {latency} cycles: 1 to 16 warps, and at "
            "least one of the others"
        )
    left, right, step = 108, style.WIDTH - 26, 13
    pitch, texts = (right - left) / cycles, []
    top, period = 96, work + latency  # the share is taken over many periods, without the beginning
    # panel -> warp -> its state in each cycle: more cycles than are drawn
    runs = [simulate_issue(number, work, latency, max(cycles, 40 * period)) for number in warps]
    shares = [
        # over the last 20 periods, of 40 or more
        sum(states[-20 * period :].count("issues") for states in run) / (20 * period)
        for run in runs
    ]
    page.open(
        top + sum(number * step + 74 for number in warps) - 8,
        f"With {count(warps[-1], 'warp')} the scheduler is busy in {percent(shares[-1])} of the cycles, "
        f"with {count(warps[0], 'warp')} in {percent(shares[0])}",
        f"one scheduler, {cycles} cycles   ·   {count(work, 'instruction')}, the last one a load that takes "
        f"{latency} cycles",
    )
    page.legend(
        left,
        74,
        {
            "issues an instruction": style.BLUE,
            "waits for its load": style.WARM,
            "is ready, another warp issues": style.SKY,
        },
    )
    faces = {"issues": style.BLUE, "waits": style.WARM, "ready": style.SKY}
    for number, share, run in zip(warps, shares, runs, strict=True):
        drawn = [states[:cycles] for states in run]
        texts.append(f"{count(number, 'warp')}: {percent(share)} of the issue slots are used")
        page.caption(
            26, top + 14, count(number, "warp"), f"{percent(share)} of the issue slots are used"
        )
        top += 24
        for warp, states in enumerate(drawn):
            y = top + warp * step
            if number < 10 or warp % 2 == 0:  # of many warps, every second has a name
                page.small(left - 8, y + 10, f"warp {warp}", ha="right")
            for cycle, state in enumerate(states):
                page.rect(left + cycle * pitch, y, pitch, step - 2, faces[state])
        top += number * step + 6
        page.small(left - 8, top + 11, "scheduler", style.INK, ha="right", weight="bold")
        # cycle by cycle, the states of all warps
        for cycle, states in enumerate(zip(*drawn, strict=True)):
            page.rect(
                left + cycle * pitch,
                top,
                pitch,
                14,
                style.INK if "issues" in states else style.EMPTY,
            )
        top += 44
    page.alt = (
        f"A scheduler over {cycles} cycles. Each warp issues {count(work, 'instruction')}, the last of which "
        f"is a load, and waits {latency} cycles for its word. {'. '.join(texts)}."
    )


@on_new_page  # makes `page` (in CSS pixels), then shows or saves it: callers give the rest
def shuffle(page: Page, lanes: int = 16) -> None:
    """Draw a sum over a warp's lanes by shuffles: in each step a lane adds the sum of the lane `offset` further on.

    Parameters
    ----------
    lanes : int
        A power of two, from 2 to 32.
    """
    if lanes not in (2, 4, 8, 16, 32):
        raise LabError(
            f"draw.shuffle: {lanes} lanes; a warp's are halved in each step: 2, 4, 8, 16 or 32"
        )
    steps, left, top, high = lanes.bit_length() - 1, 118, 92, 58  # log2(lanes); pixels
    pitch = (style.WIDTH - 26 - left) / lanes
    size = min(pitch - 6, 26)
    page.open(
        top + steps * high + 62,
        f"{count(steps, 'shuffle')} instead of {lanes} atomic additions to one address",
        "each number: of how many lanes the register holds the sum"
        + f"   ·   drawn for {lanes} of a warp's {WARP} lanes" * (lanes < WARP),
    )

    xs = [left + (lane + 0.5) * pitch for lane in range(lanes)]  # the middle of each lane
    page.small(left - 12, top - 16, "lane", ha="right")
    for lane, x in enumerate(xs):
        page.small(x, top - 16, str(lane), ha="center")
    for row in range(steps + 1):  # the registers before the first step and after each
        # the lanes whose sums are still needed: half as many after each step
        y, needed, offset = top + row * high, lanes >> row, lanes >> row + 1
        for lane, x in enumerate(xs):
            useful = lane < needed
            page.rect(
                x - size / 2,
                y - size / 2 + 8,
                size,
                size,
                style.BLUE if useful else style.EMPTY,
                zorder=2,
            )
            page.small(
                x,
                y + 12,
                str(1 << row) if useful else "",
                style.PAPER,
                ha="center",
                weight="bold",
                zorder=4,
            )
        if row < steps:
            y += 8 + size / 2
            below = y + high - size  # the upper edges of the next row
            # A lane of the first `offset` ones, and the lane whose sum it adds, `offset` further on. The
            # lanes behind these are not needed any more.
            for x, other_x in zip(xs[:offset], xs[offset:], strict=False):
                page.line([x, x], [y, below], style.BLUE, 1.6)
                page.line([other_x, x], [y, below], style.ORANGE, 1.6)
            page.small(
                left - 12,
                y + (high - size) / 2 + 4,
                f"offset {offset}",
                style.AMBER,
                ha="right",
                weight="bold",
            )
    page.text(
        26,
        top + steps * high + 46,
        "sum += __shfl_down_sync(0xffffffff, sum, offset);",
        family=style.MONO,
    )
    page.alt = (
        f"{lanes} lanes of a warp add their values in {count(steps, 'step')}. In a step each lane of the first "
        f"half adds the value of the lane that is offset further on; the offsets are "
        f"{', '.join(str(lanes >> row + 1) for row in range(steps))}. In the end lane 0 has the sum of all."
    )
