"""A launch on many images, counted on a few of them, where that is exact.

The kernels of the ladder give each block one image, ``blockIdx.z``, and the images of a launch are independent. Say a
kernel's source uses ``blockIdx.z`` for nothing but a whole number of images' offset to its pointers to x, u and y, and
neither the number of images nor ``gridDim.z``. Then, of two blocks that differ in ``blockIdx.z`` alone, every thread
takes the same way through the code, because no rung lets its data decide on that or on an address, and every address
in x, u and y differs by that offset, every other address not at all. What a warp's instruction costs is a function of
its lanes' addresses relative to each other and of where the first one lies in its sector of 32 bytes (or of its
alignment, which is less). So images whose offsets are equal modulo 32 bytes cost the same: with the least P for which
P images of each of x, u and y are a multiple of 32 bytes, P images stand for every P that follow, and what remains of
the launch costs what the first images of these do. Distinct bytes add up likewise, but those of the mask, which all
images share, are counted once.

`period` checks this on a kernel's text, and gives nothing for a reader's own source, whose data may decide.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from labkit.ladder.plan import images_per_launch
from labkit.ladder.rung import scope
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer

SECTOR = 32  # bytes
UNIQUE = "lab__unique_bytes_global.sum"

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_HEAD = re.compile(r"\bint\s+B\b|\bconst\s+int\s+b\s*=\s*blockIdx\s*\.\s*z\s*;|\(size_t\)\s*b\s*\*")
_OTHER_USE = re.compile(r"\b[bB]\b|\bblockIdx\s*\.\s*z\b|\bgridDim\s*\.\s*z\b|\b(?:blockIdx|gridDim)\s*(?!\s*\.)")


def _image_bytes(variant: Variant, layer: Layer) -> tuple[int, int, int]:
    """Of one image in x, y and u."""
    size = variant.io_dtype.itemsize
    scratch = variant.rung.scratch(scope(layer, 1, variant.options))
    return size * layer.C * layer.H * layer.W, size * layer.M * layer.Ho * layer.Wo, scratch


def period(variant: Variant, layer: Layer) -> int | None:
    """After how many images a launch costs the same again; None where that is not known.

    Parameters
    ----------
    variant : Variant
    layer : Layer
    """
    code = _HEAD.sub(" ", _COMMENT.sub(" ", variant.source))
    if variant.own or variant.library or _OTHER_USE.search(code):
        return None
    one, two = ([(call.grid[:2], call.block, call.shared) for call in variant.launches(layer, n)] for n in (1, 2))
    if one != two:
        return None
    return math.lcm(*(SECTOR // math.gcd(SECTOR, size) for size in _image_bytes(variant, layer)))


@dataclass(frozen=True)
class Part:
    """Images of a launch that are counted, and how many times they stand for as many.

    Attributes
    ----------
    offset : int
        Images before the first, modulo the period: where it lies to the sectors.
    images, times : int
    """

    offset: int
    images: int
    times: int


def parts(variant: Variant, layer: Layer, batch: int, free: int) -> list[list[Part]] | None:
    """For each chunk of images that a plan launches its kernels on, what of it to count; None: all of everything.

    Parameters
    ----------
    variant : Variant
    layer : Layer
    batch : int
    free : int
        Bytes of free device memory.
    """
    every = period(variant, layer)
    if every is None or batch < 2 * every:
        return None
    x, y, scratch = _image_bytes(variant, layer)
    chunk = images_per_launch(batch, scratch, max(0, free - batch * (x + y)))
    found = []
    for first in range(0, batch, chunk):
        images = min(chunk, batch - first)
        times, rest = divmod(images, every)
        offset = first % every
        if times < 2:
            found.append([Part(offset, images, 1)])
        else:
            found.append([Part(offset, every, times)] + [Part(offset, rest, 1)] * (rest > 0))
    return found


def run(variant: Variant, layer: Layer, chunks: Sequence[Sequence[Part]], x, k) -> dict:
    """Launch the kernels once for each different part.

    Parameters
    ----------
    variant : Variant
    layer : Layer
    chunks
        What `parts` gave.
    x : array [B,C,H,W]
        At least as many images as any part has.
    k : array [M,C,K,K]

    Returns
    -------
    dict
        What `combine` has to know: ``made`` (launches), and of each chunk ``images``, the ``grids`` of its launches,
        and its ``parts``, each as number of the first launch, times, images, address of the mask.
    """
    from labkit.cuda import driver

    sizes = _image_bytes(variant, layer)[:2]
    most = max(part.offset + part.images for chunk in chunks for part in chunk)
    buffers = [driver.mem_alloc(most * size) for size in sizes]
    made, first = 0, {}
    for part in (part for chunk in chunks for part in chunk):
        if (part.offset, part.images) in first:
            continue
        at = [int(buffer) + part.offset * size for buffer, size in zip(buffers, sizes, strict=True)]
        with variant.plan(layer, part.images, x=at[0], y=at[1]) as plan:
            plan.load(x[: part.images], k)
            plan.run()
            driver.Context.synchronize()
            first[part.offset, part.images] = (made, int(plan.k))
            made += len(plan.launches)
    for buffer in buffers:
        buffer.free()
    rows = []
    for chunk in chunks:
        images = sum(part.times * part.images for part in chunk)
        of = [(*first[part.offset, part.images], part.times, part.images) for part in chunk]
        rows.append({"images": images, "grids": [call.grid for call in variant.launches(layer, images)],
                     "parts": [(number, times, counted, mask) for number, mask, times, counted in of]})  # fmt: skip
    return {"made": made, "chunks": rows}


def combine(records: Sequence[dict], ran: Iterable[dict]) -> list[dict]:
    """The records of the launches that were asked for, from those of the launches that were made.

    Parameters
    ----------
    records : sequence of dict
        What check mode wrote, one a launch.
    ran : iterable of dict
        Of each variant, in order: what `run` gave, or ``launches``, the number of launches of which all was counted.
    """
    found, at = [], 0
    for each in ran:
        if "chunks" not in each:
            found += records[at : at + each["launches"]]
            at += each["launches"]
            continue
        for chunk in each["chunks"]:
            for call, grid in enumerate(chunk["grids"]):
                of = [(records[at + number + call], times, images, mask)
                      for number, times, images, mask in chunk["parts"]]  # fmt: skip
                found.append(_combined(of, grid, chunk["images"]))
        at += each["made"]
    return found


_SITE = ("file", "line", "space", "op", "size")  # what tells a site from others; the rest are its counts


def _combined(of, grid, images):
    """One record from those of a launch's parts."""
    first = of[0][0]
    if len(of) == 1 and of[0][1] == 1:
        return first
    counts = {name: sum(times * record["counts"][name] for record, times, *_ in of) for name in first["counts"]}
    masks = [sum(each["touched"] for each in record["buffers"] if each["address"] == mask) for record, _, _, mask in of]
    counts[UNIQUE] -= sum(times * mask for (_, times, *_), mask in zip(of, masks, strict=True)) - max(masks)
    sites = {}
    for record, times, *_ in of:
        for site in record["sites"]:
            whole = sites.setdefault(tuple(site[name] for name in _SITE), {name: site[name] for name in _SITE})
            for name in site.keys() - _SITE:
                whole[name] = whole.get(name, 0) + times * site[name]
    counted = sum(number for _, _, number, _ in of)
    return {
        **first, "grid": grid, "blocks": math.prod(grid), "counts": counts, "sites": list(sites.values()),
        "blocks_watched": sum(record["blocks_watched"] for record, *_ in of),
        "source": f"CPU engine, counted {counted:,} of {images:,} images: the others are translations",
    }  # fmt: skip
