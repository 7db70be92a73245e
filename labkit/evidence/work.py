"""The work of a variant's kernels for a batch, from what was counted for a few images: see `hostcuda.estimate`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hostcuda.estimate.work import merged
from labkit.ladder.plan import images_per_launch
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer


def for_batch(
    variant: Variant, layer: Layer, found: Sequence[Mapping], images: int, batch: int, memory: int
) -> list[dict]:
    """The work of each kernel for a batch, all its launches together, from that for a few images.

    `memory` are the bytes of free memory: of intermediate results there is a chunk at a time.
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
