"""The counted work of the kernels whose busy units Nsight Compute recorded: data/units/work.csv.

No GPU is needed. `tests/evidence/test_units.py` compares the busiest unit by the counts with Nsight
Compute's.
"""

import pandas as pd

from labkit.base.paths import data_dir
from labkit.evidence.units import count_work
from labkit.ladder.rungs import LADDER
from labkit.records import store
from recording.counters import list_jobs
from recording.keep import merge_rows

PATH = data_dir() / "units" / "work.csv"
RUNGS = range(1, 10)  # 10 and 11 compute with products of matrices alone


def units() -> None:
    """Count what the kernels of 01 to 09 ask of a GPU's units, in data/units/: 10 minutes, without a GPU."""
    wanted = [job for rung in LADDER if rung.number in RUNGS for job in list_jobs(rung)]
    for job in wanted:
        rows = pd.DataFrame(count_work(job.variant, job.layer)).drop(columns="why_none")
        rows.insert(0, "layer", job.layer.name)
        rows.insert(0, "label", job.variant.label)
        merge_rows(PATH, store.remove_numbers(rows), ["label", "layer", "kernel"])
        print(f"{job.variant.label}, {job.layer.name}", flush=True)
