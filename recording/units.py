"""The counted work of the kernels whose busy units Nsight Compute recorded: data/units/work.csv.

No GPU is needed. `tests/evidence/test_units.py` compares the busiest unit by the counts with Nsight
Compute's.
"""

import pandas as pd

from labkit.base.paths import data_dir
from labkit.evidence.units import count_work
from labkit.ladder.variants import Variant, variants
from labkit.records import store
from labkit.spec.layers import Layer
from recording import options
from recording.keep import merge_rows

PATH = data_dir() / "units" / "work.csv"
RUNGS = range(1, 10)  # 10 and 11 compute with products of matrices alone


def list_counted() -> list[tuple[Variant, Layer]]:
    """Return (variant, layer) for the kernels whose counters of busy units are recorded, to compare with counts."""
    by_label = {variant.label: variant for number in RUNGS for variant in variants(number)}
    layers = {layer.name: layer for layer in options.LAYERS}
    counted = store.read(data_dir() / "counters" / "nvidia-h200.csv")
    # NaN: a row without the counters of busy units
    pairs = counted.loc[counted["idc__requests.sum"].notna(), ["label", "layer"]]
    return [
        (by_label[label], layers[layer])
        for label, layer in pairs.drop_duplicates().itertuples(index=False)
        if label in by_label  # others are kernels of rungs that are not in RUNGS
    ]


def units() -> None:
    """Count what kernels ask of a GPU's units: data/units/.

    These are the kernels of 01 to 09 whose counters are recorded. It takes 10 minutes and no GPU.
    """
    for variant, layer in list_counted():
        # without the text why no unit can be named as the busiest
        rows = pd.DataFrame(count_work(variant, layer)).drop(columns="why_none")
        rows.insert(0, "layer", layer.name)
        rows.insert(0, "label", variant.label)
        merge_rows(PATH, store.remove_rung_numbers(rows), ["label", "layer", "kernel"])
        print(f"{variant.label}, {layer.name}", flush=True)
