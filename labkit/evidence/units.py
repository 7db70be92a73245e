"""The units of a GPU that a variant's kernels keep busy, by their counts: no GPU is needed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hostcuda.profile import recorded
from hostcuda.units import Units, card, merge, works
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer, as_layer

BATCH = 10_000  # images whose work is compared
_COUNTED_IMAGES = 2  # those that are counted: all but the weights is proportional to their number


def units(variant: Variant | int, layer: Layer | str | None = None, device: str = "H200") -> Units:
    """Name the unit of a GPU that each kernel of a variant keeps busiest on `BATCH` images.

    Parameters
    ----------
    variant : Variant or rung number
        Your own kernel, too: what a ``%%kernel`` cell returns.
    layer : Layer or its name
        It has to be given: without one, a LabError says what a layer is.
    device : str
        A part of the card's name, one of `hostcuda.units.CARDS`. The GPU need not be there.

    Returns
    -------
    Units
        As text, the busiest unit of each kernel, or why none is named; `labkit.draw.units` draws
        how busy the units are. It is computed from counts and says nothing about the time.

    Raises
    ------
    LabError
        The variant does not support the layer, or the CPU engine cannot run it.
    EngineError
        The card is not known, or the process that counts failed; the message has its last output.
    CompileError
        The variant does not compile.
    """
    (chosen,) = as_variants([variant])
    gpu = card(device)  # an unknown card is refused before minutes of work
    return Units.from_works(count_work(chosen, as_layer(layer)), gpu)


def count_work(variant: Variant, layer: Layer) -> list[dict]:
    """Count what a variant's kernels ask of a GPU's units on `BATCH` images.

    Returns a dict per kernel: ``kernel``, ``why_none`` (why no unit can be named, or ""), and totals
    of accesses and instructions under the names of `hostcuda.units.works`. Raises LabError for a
    variant that the CPU engine cannot run.
    """
    if variant.library or variant.architecture_specific:
        raise LabError(
            f"no counts of {variant.label}: the CPU engine cannot run it. Take another variant"
        )
    # The work of each launch, from the engine's records. A few images are counted, for their time:
    # all work but the weights is proportional to the number of images.
    counted, _ = child.watch_variants(
        "counting", _count_launches, variant, layer, _COUNTED_IMAGES, engine="cpu", timeout=600
    )
    return scale_work(variant, layer, counted, _COUNTED_IMAGES, BATCH)


def _count_launches(
    command: Sequence[str], engine: str, timeout: float, capture: bool
) -> list[dict]:
    """Run a command on the CPU engine; return what each launch asks of the units, by `hostcuda.units.works`."""
    del engine  # it is "cpu"
    records, _, ended = recorded(command, timeout, capture)
    ended.require("counting")
    return works(records)


def scale_work(
    variant: Variant, layer: Layer, launch_works: Sequence[Mapping], images: int, batch: int
) -> list[dict]:
    """Return the work of each kernel for `batch` images, all its launches together, from that for a few images.

    `launch_works` has a dict per launch of a run with `images` images: {"kernel": "conv", "unique_bytes":
    4096, ...}, the name and counts. The result has such a dict per kernel. "unique_bytes" are the
    different bytes that it accesses. The weights are left out of them: a larger batch does not
    multiply them.
    """
    # in constant memory they are no part of the bytes
    weights = 0 if variant.constant else math.prod(layer.k_shape) * variant.io_dtype.itemsize
    by_kernel: dict[str, list[dict]] = {}
    for work in launch_works:
        # at least 0: of several kernels one may not read the weights
        net = {**work, "unique_bytes": max(work["unique_bytes"] - weights, 0)}
        by_kernel.setdefault(work["kernel"], []).append(net)
    return [
        {
            name: value if isinstance(value, str) else value * batch / images
            for name, value in merge(group).items()  # the launches of a kernel, added up
            if name != "launches"  # how many were added up: no work
        }
        for group in by_kernel.values()
    ]
