"""Counters of the memory accesses of each variant's launches, with or without a GPU, under the same names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

import hostcuda.profile
from hostcuda.estimate import Estimate, card, estimated
from hostcuda.profile import watch
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.evidence.work import scale_work
from labkit.ladder.variants import Variant, as_variants
from labkit.spec import devices
from labkit.spec.layers import Layer

BATCH = 10_000  # images of an estimate
_COUNTED_IMAGES = (
    2  # images whose accesses are counted for it; counts are proportional to their number
)


@dataclass(repr=False)
class VariantProfile(hostcuda.profile.Profile):
    """The counters of variants on one layer.

    `value` and `ratio` take a variant's label, or a rung's number, ``value("global_sectors", 3)``:
    among several variants of the rung it means the one with default options.

    Attributes
    ----------
    table : DataFrame
        As that of `hostcuda.profile.Profile`, with the columns ``variant`` and ``rung`` in front.
    sites, note, ended
        As there; `sites` has the column ``variant``, too.
    layer : Layer
        What the variants computed.
    batch : int
        Images.
    estimates : dict of str to Estimate
        If requested, the estimated times of `BATCH` images, by the variants' labels.
    """

    layer: Layer | None = None
    batch: int | None = None
    estimates: dict[str, Estimate] = field(default_factory=dict)

    by: ClassVar[str] = "variant"

    @property
    def counts(self) -> pd.DataFrame:
        """The counters under readable names: a row per variant, the sums or means over its launches."""
        counts = super().counts
        if len(counts):
            counts.insert(1, "rung", list(self.table.groupby(self.by, sort=False)["rung"].first()))
        if self.estimates:
            counts["estimated"] = [self.estimates[label].time for label in counts[self.by]]
        return counts

    def _find_rows(self, counts: pd.DataFrame, which: int | str) -> pd.DataFrame:
        """Return the rows of a variant, by its label, or by its rung's number: see the class."""
        if isinstance(which, str):
            return super()._find_rows(counts, which)
        rows = counts[counts["rung"] == which]
        # A label with a comma has options: "04 tiling, tile=32".
        return rows if len(rows) < 2 else rows[~rows["variant"].str.contains(",")]


def profile(
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | None = None,
    batch: int = 1,
    engine: str | None = None,
    timeout: float | None = 600,
    estimate: str | None = None,
) -> VariantProfile:
    """Count the memory accesses of variants on one layer, in a process of their own.

    Registers, spills and occupancy follow from the compiler alone: see
    `labkit.evidence.resources.resources`.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer
    batch : int
        Images. Requests and sectors are proportional to it, so one image is enough to compare
        kernels.
    engine : {"cpu", "gpu"}, optional
        By default the engine in use; "cpu" counts on the CPU engine even if there is a GPU.
    timeout : float, optional
        Seconds.
    estimate : str, optional
        A part of a card's name, such as "H200": estimate the op time of `BATCH` images there, see
        `labkit.estimate`. Only the CPU engine's counts can be used for it.

    Raises
    ------
    EngineError
        If a variant does not support the layer, the batch is not a positive integer, or the process
        failed; the message has its last output.
    CompileError
        If a variant does not compile.
    """
    on = card(estimate) if estimate else None  # an unknown card is refused before minutes of work
    # `result.table` has a row per launch, `runs` a dict per variant with the number of its
    # launches, in the same order.
    result, runs = child.watch_variants(
        watch,
        variants,
        layer,
        batch,
        engine="cpu" if on else engine,
        timeout=timeout,
        nvcc=False,
        estimate=on is not None,
    )
    result.ended.require("profiling")
    # of each launch, the run of its variant
    owners = [run for run in runs for _ in range(run["launches"])]
    if len(owners) != len(result.table):
        raise LabError(
            f"{len(owners)} launches were made, but {len(result.table)} counted: they cannot be matched. "
            f"{result.note}"
        )
    estimates = {}
    if on:
        # the kind of estimate, "fine" or "coarse", and the work of each launch
        kind, works = result.works
        for variant in as_variants(variants):
            own = [
                work
                for work, owner in zip(works, owners, strict=True)
                if owner["label"] == variant.label
            ]
            of_batch = scale_work(
                variant, layer, own, batch, BATCH, devices.device(on.name).memory_bytes
            )
            estimates[variant.label] = estimated(of_batch, kind, on)
    result = VariantProfile(**vars(result), layer=layer, batch=batch, estimates=estimates)
    result.table.insert(0, "variant", [owner["label"] for owner in owners])
    result.table.insert(1, "rung", [owner["rung"] for owner in owners])
    if len(result.sites):
        result.sites.insert(
            0, "variant", [owners[launch]["label"] for launch in result.sites["launch"]]
        )
    return result


def estimate(variant: Variant | int, layer: Layer | None = None, device: str = "H200") -> Estimate:
    """Estimate a variant's op time for `BATCH` images on a GPU that need not be there.

    Parameters
    ----------
    variant : Variant or rung number
        Your own kernel, too: what a ``%%kernel`` cell returns.
    layer : Layer
    device : str
        A part of the card's name. Times must have been recorded on it: see `hostcuda.estimate`.

    Returns
    -------
    Estimate
        As text, the interval of the time, or why there is none, and the busiest unit;
        `labkit.draw.units` draws how busy the units are. It is computed from counts, not measured:
        compare kernels with it, and measure on the GPU.

    Raises
    ------
    LabError
        The variant does not support the layer, or the CPU engine cannot run it.
    EngineError
        No times of this card were recorded, or the process that counts failed; the message has its
        last output.
    CompileError
        The variant does not compile.
    """
    (chosen,) = as_variants([variant])
    if chosen.library or chosen.architecture_specific:
        raise LabError(
            f"no estimate of {chosen.label}: the CPU engine cannot run it, so its accesses are not counted"
        )
    return profile(chosen, layer, _COUNTED_IMAGES, estimate=device).estimates[chosen.label]
