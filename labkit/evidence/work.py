"""The work of a variant's kernels for a batch, from the counts of a few images: see `hostcuda.estimate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hostcuda.estimate.work import merged
from labkit.ladder.plan import images_per_launch
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer


def scale_work(
    variant: Variant, layer: Layer, works: Sequence[Mapping], images: int, batch: int, memory: int
) -> list[dict]:
    """Return the work of each kernel for a batch, all its launches together, from that for a few images.

    `memory` are the bytes of free memory: they limit the images per launch of a kernel with intermediate results.
    """
    shape = variant.scope(layer)
    most = images_per_launch(batch, variant.rung.scratch(shape), memory, variant.rung.images(shape))
    launched: dict[str, list[int]] = {}
    for first in range(0, batch, most):
        for launch in variant.geometry(layer, min(most, batch - first)):
            launched.setdefault(launch.kernel, []).append(math.prod(launch.grid))
    rows = []
    for kernel, grids in launched.items():
        own = [work for work in works if work["kernel"] == kernel]
        net = [work | {"unique_bytes": max(work["unique_bytes"] - _count_bytes(variant, layer), 0)} for work in own]
        rows.append(merged(net, batch / images) | {"kernel": kernel, "launches": len(grids), "blocks": sum(grids)})
    return rows


def _count_bytes(variant: Variant, layer: Layer) -> int:
    """Count the bytes of the weights in global memory, which a larger batch does not multiply."""
    return 0 if variant.constant else math.prod(layer.k_shape) * variant.io_dtype.itemsize
