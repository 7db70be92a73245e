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
    """Return the work of each kernel for `batch` images, all its launches together, from that for a few images.

    `works` are dicts of `hostcuda.estimate.works`, one per launch of a run with `images` images;
    the result has one per kernel. `memory`, the free bytes, limits the images per launch of a
    kernel with intermediate results.
    """
    shape = variant.scope(layer)
    # `scratch`: bytes of intermediate results per image; `images`: the most that a launch of the
    # rung takes, or None.
    most = images_per_launch(batch, variant.rung.scratch(shape), memory, variant.rung.images(shape))
    blocks: dict[str, list[int]] = {}  # kernel -> blocks of each of its launches
    for first in range(0, batch, most):
        for launch in variant.geometry(layer, min(most, batch - first)):
            blocks.setdefault(launch.kernel, []).append(math.prod(launch.grid))
    # Bytes of the weights in global memory. They are left out, because a larger batch does not
    # multiply them.
    weights = 0 if variant.constant else math.prod(layer.k_shape) * variant.io_dtype.itemsize
    rows = []
    for (
        kernel,
        grids,
    ) in (
        blocks.items()
    ):  # `merged` adds up the counts of the kernel's launches, times batch / images
        net = [
            work | {"unique_bytes": max(work["unique_bytes"] - weights, 0)}
            for work in works
            if work["kernel"] == kernel
        ]
        rows.append(
            merged(net, batch / images)
            | {"kernel": kernel, "launches": len(grids), "blocks": sum(grids)}
        )
    return rows
