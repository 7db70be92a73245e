"""Counters of the memory accesses of each variant's launches, with or without a GPU, under the same names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

import pandas as pd

import hostcuda.profile
from hostcuda.profile import watch
from hostcuda.waste import Waste, find_waste
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.ladder.variants import Variant, as_variants
from labkit.spec.layers import Layer, as_layer


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
    own : dict of str to Variant
        The reader's own kernels, by their labels.
    """

    layer: Layer | None = None
    batch: int | None = None
    own: Mapping[str, Variant] = field(default_factory=dict)

    by: ClassVar[str] = "variant"

    @property
    def counts(self) -> pd.DataFrame:
        """The counters under readable names: a row per variant, with its rung, the sums or means over its launches."""
        counts = super().counts
        # `by` is "variant". All launches of a variant, a row each in `table`, have one rung.
        if len(counts):
            counts.insert(1, "rung", list(self.table.groupby(self.by, sort=False)["rung"].first()))
        return counts

    def waste(self, label: str) -> Waste | None:
        """Return the largest waste of a variant, given by its label; None if `find_waste` finds less than a quarter.

        A line of code wastes the sectors, wavefronts and constant requests that it makes beyond what
        its bytes need. The quarter is of all that the variant's launches made.
        """
        launches = []
        for row in self.table[self.table["variant"] == label].to_dict("records"):
            # The rows of this launch, one per place in the code that accesses memory. A table
            # without any row has no columns either.
            sites = (
                self.sites[self.sites["launch"] == row["launch"]] if len(self.sites) else self.sites
            )
            launches.append(
                {"block": row["block"], "sites": [*map(_drop_missing, sites.to_dict("records"))]}
            )
        # the text, in which the lines are looked up, only of a reader's own kernel
        own = self.own.get(label)
        return find_waste(launches, own.source if own else "")

    def describe_waste(self) -> str:
        """Return a sentence, with the line of code, on each of the reader's own kernels that wastes much; or "".

        The lab's own kernels are left out: what they waste is what their pages ask the reader to
        predict and to remove.
        """
        texts = []
        for label, variant in self.own.items():
            if waste := self.waste(label):
                # no line, 0: the shape of the launch wastes it
                code = (
                    variant.source.splitlines()[waste.line - 1 : waste.line] if waste.line else []
                )
                place = f", line {waste.line}" if waste.line else ""
                texts.append(f"slow: {label}{place}: {waste.says}: {waste.remedy}")
                texts += [f"    {line.strip()}" for line in code]
        return "\n".join(texts)

    def _find_rows(self, counts: pd.DataFrame, which: int | str) -> pd.DataFrame:
        """Return the rows of a variant, by its label, or by its rung's number: see the class."""
        if isinstance(which, str):
            return super()._find_rows(counts, which)
        rows = counts[counts["rung"] == which]
        # A label with a comma has options: "04 tiling, tile=32".
        return rows if len(rows) < 2 else rows[~rows["variant"].str.contains(",")]


def profile(
    variants: Variant | int | Iterable[Variant | int],
    layer: Layer | str | None = None,
    batch: int = 1,
    engine: str | None = None,
    timeout: float | None = 600,
) -> VariantProfile:
    """Count the memory accesses of variants on one layer, in a process of their own.

    Registers, spills and occupancy follow from the compiler alone: see
    `labkit.evidence.resources.resources`.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layer : Layer or its name
        It has to be given: without one, a LabError says what a layer is.
    batch : int
        Images. Requests and sectors are proportional to it, so one image is enough to compare
        kernels.
    engine : {"cpu", "gpu"}, optional
        By default the engine in use; "cpu" counts on the CPU engine even if there is a GPU.
    timeout : float, optional
        Seconds.

    Raises
    ------
    LabError
        If a variant does not support the layer, or the batch is not a positive integer.
    EngineError
        If the process failed; the message has its last output.
    CompileError
        If a variant does not compile.
    """
    # `result.table` has a row per launch, `runs` a dict per variant with the number of its
    # launches, in the same order. `nvcc=False`: nvcc would only add registers and occupancy.
    chosen = as_variants(variants)
    result, runs = child.watch_variants(
        "counting", watch, chosen, layer, batch, engine=engine, timeout=timeout, nvcc=False
    )
    result.ended.require("profiling")
    # of each launch, the run of its variant
    owners = [run for run in runs for _ in range(run["launches"])]
    if len(owners) != len(result.table):
        raise LabError(
            f"{len(owners)} launches were made, but {len(result.table)} counted: they cannot be matched. "
            f"{result.note}"
        )
    own = {variant.label: variant for variant in chosen if variant.own}
    result = VariantProfile(**vars(result), layer=as_layer(layer), batch=batch, own=own)
    result.table.insert(0, "variant", [owner["label"] for owner in owners])
    result.table.insert(1, "rung", [owner["rung"] for owner in owners])
    if len(result.sites):
        result.sites.insert(
            0, "variant", [owners[launch]["label"] for launch in result.sites["launch"]]
        )
    return result


def _drop_missing(row: Mapping) -> dict:
    """Return a row of a table without its NaN: what the engine did not count for this access."""
    return {
        name: value for name, value in row.items() if value == value
    }  # NaN is not equal to itself
