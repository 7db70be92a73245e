"""The table of docs/faq.md: which page runs on which card, by what the lab would launch or refuse there."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

from labkit.base.errors import LabError
from labkit.ladder.variants import ON_CPU, variant
from labkit.networks import fused
from labkit.spec import devices
from labkit.spec.devices import Device
from labkit.spec.layers import LENET72, LENET86
from recording.readme import replace_marked

LAYERS = (*LENET86, *LENET72)
# Cards of a compute capability with their multiprocessors, and the KB of shared memory that a block can have: CUDA C++
# Programming Guide, "Compute Capabilities", and NVIDIA's data sheets.
CARDS = {
    (7, 5): ({"RTX 2080 Ti": 68, "T4": 40}, 64),
    (8, 0): ({"A100": 108}, 163),
    (8, 6): ({"RTX 3090": 82, "A10": 72}, 99),
    (8, 9): ({"RTX 4090": 128, "L4": 58}, 99),
    (9, 0): ({"H100": 132, "H200": 132}, 227),
    (10, 0): ({"B200": 148}, 227),
    (12, 0): ({"RTX 5090": 170}, 99),
}
COLUMNS = ("cards", "compute capability", "00 to 07, 12, 14", "08", "09", "10", "11", "13", "closer looks 11 and 13")


def list_gpus() -> Iterator[Device]:
    """Yield each card as a device, with what decides over launches there."""
    for capability, (cards, kilobytes) in CARDS.items():
        for name, multiprocessors in cards.items():
            yield dataclasses.replace(devices.device("H200"), name=name, compute_capability=capability, measured=None,
                                      multiprocessors=multiprocessors, shared_opt_in=1024 * kilobytes)


def _count(count: Callable[[], Iterator[int]], what: str) -> str:
    """Return "yes" with the least and the largest count, or "no" and what the refusal tells to do."""
    try:
        counts = sorted({*count()})
    except LabError as refusal:
        return f"no: {str(refusal).rpartition(': ')[2].removesuffix(f', or {ON_CPU}')}"
    return "yes" + f", {' to '.join(map(str, counts[:: len(counts) - 1 or 1]))} {what}" * bool(counts)


def _count_blocks() -> Iterator[int]:
    for layer in LAYERS:
        variant(10).supports(layer)
        yield variant(10).scope(layer).blocks // devices.device().multiprocessors


def _count_images() -> Iterator[int]:
    for layer in LAYERS:
        variant(11).supports(layer)
        yield variant(11).scope(layer).images


def _count_blocks_of_network(step: str | None = None) -> Iterator[int]:
    fused.require_gpu(step)
    yield from map(fused.KERNELS[step].blocks, fused.PRECISIONS.values())


def _refuse_unsupported(number: int, **options: str) -> Iterator[int]:
    for layer in LAYERS:
        variant(number, **options).supports(layer)
    return iter(())


def make_table() -> str:
    """Return the table as Markdown."""
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for capability, (cards, _) in CARDS.items():
        with devices.assume(next(gpu for gpu in list_gpus() if gpu.compute_capability == capability)):
            cells = [", ".join(cards), "{}.{}".format(*capability), "yes", _count(lambda: _refuse_unsupported(8), ""),
                     _count(lambda: _refuse_unsupported(9), ""), _count(_count_blocks, "blocks"),
                     _count(_count_images, "images"), _count(_count_blocks_of_network, "blocks"),
                     _count(lambda: _refuse_unsupported(11, step="warpgroups"), "")]
        lines.append(f"| {' | '.join(cells)} |")
    note = ("Blocks that a multiprocessor holds at once, and images in a block's shared memory, by layer or data type. "
            "H100 and H200 were measured; for the other cards this follows from their attributes. "
            f"Where a page does not run, `{ON_CPU}` runs it on the processor.")
    return "\n".join([*lines, "", note])


def cards() -> None:
    """Put the table of cards and pages into docs/faq.md."""
    print("written" if replace_marked("cards", make_table()) else "was up to date")
