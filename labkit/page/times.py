"""Op times on a page: measured on a GPU; on the CPU engine the counts, since its times say nothing of a GPU's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from hostcuda.errors import EngineError
from hostcuda.tables import HTML
from labkit.base.errors import LabError
from labkit.base.tables import table
from labkit.evidence.profile import profile
from labkit.ladder.variants import Variant, as_variants
from labkit.measure.bench import bench
from labkit.measure.check import check
from labkit.records.recorded import Recorded, recorded
from labkit.spec.devices import device
from labkit.spec.layers import LENET86, Layer

RECORDED, BATCH = "H200", 10_000  # of the recorded times
COUNTS = {"global_load_requests": "load requests", "global_store_requests": "store requests"}


class Times(HTML):
    """The table of `times`.

    Attributes
    ----------
    op_ms : DataFrame
        Op times measured here, a row per label, a column per layer; NaN on the CPU engine.
    """

    def __init__(self, told: HTML, op_ms: pd.DataFrame):
        super().__init__(told.page, repr(told))
        self.op_ms = op_ms


def times(variants: Variant | int | Iterable[Variant | int], layers: Layer | Iterable[Layer] = LENET86,
          batch: int = 1000, counts: Mapping[str, str] = COUNTS) -> Times:
    """Compare variants, layer by layer, after a check of each: on a GPU their op times, measured here; without one
    what the CPU engine counts for one image. The last column has the op times that were recorded on an H200.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layers : Layer or iterable of Layer
    batch : int
        Images, of a measurement.
    counts : mapping of str to str
        Which counters are shown without a GPU, and their headings.

    Raises
    ------
    CheckFailed
        At the first variant with a wrong result.
    """
    chosen, here, known = as_variants(variants), device(), recorded(RECORDED)
    layers = [layers] if isinstance(layers, Layer) else [*layers]
    for each in chosen:
        check(each, layers, quiet=True)
    rows = pd.DataFrame([{"layer": layer.name, "label": each.label} for layer in layers for each in chosen])
    old = [_recorded_ms(known, each, layer) for layer in layers for each in chosen]
    if here.engine == "gpu":
        measured = bench(chosen, layers, batch, layer_time=False)
        rows = rows.merge(measured[["layer", "label", "op_ms"]])
        shown, caption = {"op_ms": "op time here (ms)"}, f"Measured here on {here.name}, {batch:,} images"
    else:
        counted = [_counts(chosen, layer).set_index("variant") for layer in layers]
        for name in (*counts, "estimated_ms"):
            rows[name] = [at.loc[each.label, name] for at in counted for each in chosen]
        rows["op_ms"] = float("nan")
        shown = {**counts, "estimated_ms": "estimated op time (ms)"}
        caption = "Counted here for one image. No GPU, so no time is measured: the estimate is computed from the counts"
    rows["recorded_ms"] = old
    told = table(rows, f"{caption}. Estimated and recorded op times: {BATCH:,} images, {known}", {
        "label": "variant", "layer": "layer", **shown, "recorded_ms": "recorded op time (ms)"})
    return Times(told, rows.pivot(index="label", columns="layer", values="op_ms"))


def _counts(chosen: list[Variant], layer: Layer) -> pd.DataFrame:
    """The counts with estimated times; NaN where there is no estimate, as on a processor whose code is not counted."""
    try:
        return profile(chosen, layer, estimate=RECORDED).counts
    except EngineError:
        return profile(chosen, layer).counts.assign(estimated_ms=float("nan"))


def _recorded_ms(known: Recorded, which: Variant, layer: Layer) -> float:
    """The recorded op time; NaN if there is none, as of a reader's own kernel."""
    try:
        return known.op_ms(which, layer, BATCH)
    except LabError:
        return float("nan")
