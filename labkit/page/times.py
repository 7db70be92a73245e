"""Show op times on a page: measured on a GPU; on the CPU engine counts, because its times are not a GPU's."""

from collections.abc import Iterable, Mapping

import pandas as pd

from hostcuda.tables import HTML
from labkit.base.errors import LabError
from labkit.base.tables import table
from labkit.evidence.profile import profile
from labkit.ladder.variants import Variant, as_variants
from labkit.measure.bench import bench
from labkit.measure.check import check
from labkit.records.recorded import Recorded, recorded
from labkit.spec.devices import device
from labkit.spec.layers import LENET86, Layer, as_layers

RECORDED, BATCH = "H200", 10_000  # the device and the batch of the recorded times
IMAGES = 1000  # of a measurement here
COUNTS = {"global_load_requests": "load requests", "global_store_requests": "store requests"}


class Times(HTML):
    """The table of `times`.

    Attributes
    ----------
    op_ms : DataFrame
        Op times measured here, a row per label and a column per layer; NaN on the CPU engine.
    """

    def __init__(self, page: HTML, op_ms: pd.DataFrame):
        super().__init__(page.page, repr(page))
        self.op_ms = op_ms


def times(
    variants: Variant | int | Iterable[Variant | int],
    layers: Layer | str | Iterable[Layer | str] = LENET86,
    counts: Mapping[str, str] = COUNTS,
) -> Times:
    """Check variants, and return a table that compares them, layer by layer.

    On a GPU the table has op times measured here; without one, counts for one image. Its last
    column has the op times recorded on an H200. Of a reader's own kernel none is recorded.

    Parameters
    ----------
    variants : Variant, rung number, or iterable of these
    layers : Layer, its name, or iterable of these
    counts : mapping of str to str
        The counters that are shown without a GPU, with their headings.

    Raises
    ------
    CheckFailed
        At the first variant with a wrong result.
    """
    chosen, here, records = as_variants(variants), device(), recorded(RECORDED)
    layers = as_layers(layers)
    for variant in chosen:
        check(variant, layers, quiet=True)
    rows = pd.DataFrame(
        [{"layer": layer.name, "label": variant.label} for layer in layers for variant in chosen]
    )
    recorded_ms = [
        _find_recorded_ms(records, variant, layer) for layer in layers for variant in chosen
    ]
    if here.engine == "gpu":
        measured = bench(chosen, layers, IMAGES, layer_time=False)
        # the rows stay in their order, which is that of `recorded_ms`
        rows = rows.merge(measured[["layer", "label", "op_ms"]])
        columns = {"op_ms": "op time here (ms)"}
        caption = f"Measured here on {here.name}, {IMAGES:,} images"
    else:
        # Of each layer the counts: a row per variant, by its label, and a column per counter.
        tables = [profile(chosen, layer).counts.set_index("variant") for layer in layers]
        for name in counts:
            rows[name] = [
                counted.loc[variant.label, name] for counted in tables for variant in chosen
            ]
        rows["op_ms"] = float("nan")
        columns = dict(counts)
        caption = "Counted here for one image. No GPU, so no time is measured"
    rows["recorded_ms"] = recorded_ms
    caption = f"{caption}. Recorded op times: {BATCH:,} images, {records}"
    page = table(
        rows,
        caption,
        {"label": "variant", "layer": "layer", **columns, "recorded_ms": "recorded op time (ms)"},
    )
    return Times(page, rows.pivot(index="label", columns="layer", values="op_ms"))


def _find_recorded_ms(records: Recorded, which: Variant, layer: Layer) -> float:
    """Return the op time [ms] recorded for `BATCH` images; NaN if there is none, as for a reader's own kernel."""
    try:
        return records.op_ms(which, layer, BATCH)
    except LabError:
        return float("nan")
