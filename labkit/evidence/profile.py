"""Counters of the memory accesses of each variant's launches, with or without a GPU, under the same names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

import pandas as pd

import hostcuda.profile
from hostcuda.profile import watch
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer


@dataclass(repr=False)
class Profile(hostcuda.profile.Profile):
    """The counters of variants on one layer.

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
    """

    layer: Layer | None = None
    batch: int | None = None

    by: ClassVar[str] = "variant"

    @property
    def counts(self) -> pd.DataFrame:
        """The counters under readable names: a row per variant, the sums or means over its launches."""
        counts = super().counts
        if len(counts):
            counts.insert(1, "rung", list(self.table.groupby(self.by, sort=False)["rung"].first()))
        return counts

    def value(self, name: str, which: int | str | None = None) -> float:
        """One figure: ``value("global_sectors", 3)`` is that of rung 03, summed over its launches.

        Parameters
        ----------
        name : str
            A column of `counts`, or Nsight Compute's name.
        which : int or str, optional
            A rung's number, which among several variants of the rung means the one with default options; or a variant's
            label. It may be omitted if there is only one row.

        Raises
        ------
        EngineError
            If there is no such counter, no such row, or more than one; the message lists those there are.
        """
        return super().value(name, which)

    def ratio(self, name: str, a: int | str, b: int | str) -> float:
        """The counter of a over that of b: ``ratio("global_sectors", 3, 4) >= 8`` means that 03 requests at least 8
        times as many sectors as 04. Infinite if that of b is zero."""
        return super().ratio(name, a, b)

    def _rows(self, counts: pd.DataFrame, which: int | str) -> pd.DataFrame:
        if isinstance(which, str):
            return super()._rows(counts, which)
        rows = counts[counts["rung"] == which]
        # Not its sub-steps: the rung with default options.
        return rows if len(rows) < 2 else rows[~rows["variant"].str.contains(",")]


def profile(variants: Variant | int | Iterable[Variant | int], layer: Layer, batch: int = 1, engine: str | None = None,
            timeout: float | None = 600, nvcc: bool = False) -> Profile:
    """Count the memory accesses of variants on one layer, in a process of their own.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer
    batch : int
        Images. Requests and sectors are proportional to it, so one image is enough to compare kernels.
    engine : {"cpu", "gpu"}, optional
        By default the engine in use; "cpu" counts on the CPU engine even if there is a GPU.
    timeout : float, optional
        Seconds.
    nvcc : bool
        Add registers, spills and occupancy to the CPU engine's counts, if nvcc is installed. It takes about a second
        per kernel; `labkit.resources` has them, too.

    Raises
    ------
    EngineError
        If a variant does not support the layer, the batch is not a positive integer, or the process failed; the message
        has its last output.
    CompileError
        If a variant does not compile.
    """
    found, ran = child.watched(watch, variants, layer, batch, engine=engine, timeout=timeout, nvcc=nvcc)
    found.ended.require("profiling")
    owners = [each for each in ran for _ in range(each["launches"])]
    if len(owners) != len(found.table):
        raise LabError(
            f"{len(owners)} launches were made, but {len(found.table)} counted: they cannot be matched. {found.note}"
        )
    found = Profile(found.table, found.sites, found.note, found.ended, layer, batch)
    found.table.insert(0, "variant", [each["label"] for each in owners])
    found.table.insert(1, "rung", [each["rung"] for each in owners])
    if len(found.sites):
        found.sites.insert(0, "variant", [owners[launch]["label"] for launch in found.sites["launch"]])
    return found
