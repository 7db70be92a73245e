"""The time that variants would take on a GPU, estimated from the CPU engine's counts of a few images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hostcuda import temporary
from hostcuda.estimate import Estimate, card, estimated, works
from hostcuda.estimate.work import merged
from hostcuda.profile import recorded
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.ladder.plan import images_per_launch
from labkit.ladder.variants import Variant, as_variants
from labkit.spec import devices
from labkit.spec.layers import Layer

BATCH = 10_000
COUNTED = 2  # images: counts are proportional to their number


def estimate(variant: Variant | int, layer: Layer, device: str = "H200", batch: int = BATCH) -> Estimate:
    """Estimate a variant's op time on a GPU that need not be there.

    Parameters
    ----------
    variant : Variant or rung number
        Your own kernel, too: what a ``%%kernel`` cell returns.
    layer : Layer
    device : str
        A part of the card's name. Times must have been recorded on it: see `hostcuda.estimate`.
    batch : int
        Images.

    Returns
    -------
    Estimate
        In its text the time with its interval and the busiest unit; in a notebook a figure of the time that each unit
        needs. It is an estimate from counts, not a measurement: compare kernels with it, and measure on the GPU.

    Raises
    ------
    LabError
        The variant does not support the layer, or the batch is not a positive integer.
    EngineError
        No times of this card were recorded, or the process that counts failed; the message has its last output.
    CompileError
        The variant does not compile.
    """
    (chosen,) = as_variants([variant])
    if chosen.library or chosen.architecture_specific:
        raise LabError(f"no estimate of {chosen.label}: the CPU engine cannot run it, so its accesses are not counted")
    on = card(device)
    kind, found = counted(chosen, layer, COUNTED)
    return estimated(for_batch(chosen, layer, found, COUNTED, batch, devices.device(on.name).memory_bytes), kind, on)


def counted(variant: Variant, layer: Layer, batch: int) -> tuple[str, list[dict]]:
    """The work of a variant's launches on some images, as `hostcuda.estimate.works` returns it."""
    with temporary.folder() as folder:
        records, modules, ended = recorded(child.plans(folder, variant, layer, batch))
        child.ran(folder)
        ended.require("counting")
        return works(records, modules)


def for_batch(
    variant: Variant, layer: Layer, found: Sequence[Mapping], images: int, batch: int, memory: int
) -> list[dict]:
    """The work of each kernel for a batch, all its launches together, from that for a few images.

    Parameters
    ----------
    memory : int
        Bytes of free memory: of intermediate results there is a chunk at a time.
    """
    shape = variant.scope(layer)
    most = images_per_launch(batch, variant.rung.scratch(shape), memory, variant.rung.images(shape))
    launched: dict[str, list[int]] = {}
    for first in range(0, batch, most):
        for launch in variant.geometry(layer, min(most, batch - first)):
            launched.setdefault(launch.kernel, []).append(math.prod(launch.grid))
    rows = []
    for kernel, grids in launched.items():
        own = [each for each in found if each["kernel"] == kernel]
        less = [each | {"unique_bytes": max(each["unique_bytes"] - _weights(variant, layer), 0)} for each in own]
        rows.append(merged(less, batch / images) | {"kernel": kernel, "launches": len(grids), "blocks": sum(grids)})
    return rows


def _weights(variant: Variant, layer: Layer) -> int:
    """Bytes of the weights in global memory, which a larger batch does not multiply."""
    return 0 if variant.constant else math.prod(layer.k_shape) * variant.io_dtype.itemsize
