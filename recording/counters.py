"""Nsight Compute's counters of the ladder's kernels, for data/counters/.

Every rung on 1000 images of lenet86; 03, 04, 10, 11 and the steps warpgroups also on lenet72; 07 with its unrolling.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Annotated

import pandas as pd
from typer import Option

from hostcuda import processes, temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.metrics import COUNTED, FETCHED, MEASURED, RECORDED, STALLED, STALLS
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.rung import Rung
from labkit.ladder.variants import Variant, variants
from labkit.records.store import read
from labkit.records.sweeps import read_sweep
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86, Layer
from recording import jobs
from recording.keep import record_evidence
from recording.options import Rungs, chosen
from recording.sweep import vary_unrolling

BATCH = 1000
WAITS = tuple(map(STALLED.format, STALLS))
METRICS = (*COUNTED.values(), *MEASURED.values(), *RECORDED.values(), *WAITS)
FETCHING = (*FETCHED.values(), MEASURED["instructions"], RECORDED["cycles"], *WAITS)
BOTH = ("registers", "tiling")  # on both networks: tiling gains on one and loses on the other


def list_jobs(rung: Rung) -> list[jobs.Job]:
    """Return jobs for a rung's variants, libraries excluded, on their layers, with one launch's images at most."""
    both = (rung.label, f"{rung.label}, warpgroups") if "warpgroups" in rung.steps else ()
    candidates = [(variant, layer) for variant in variants(rung.number) if not variant.library
                  for layer in (*LENET86, *(LENET72 if rung.name in BOTH or variant.label in both else ()))]
    return [jobs.make_job(variant, layer, variant.rung.images(variant.scope(layer)) or BATCH)
            for variant, layer in candidates if _fits(variant, layer)]


def _fits(variant: Variant, layer: Layer) -> bool:
    with suppress(LabError):
        variant.supports(layer)
        return True
    return False


def list_uncounted(wanted_jobs: list[jobs.Job]) -> list[jobs.Job]:
    """Return the jobs whose program and shape have no counters of this device."""
    path = data_dir() / "counters" / f"{device().slug}.csv"
    counted = set(read(path)[["label", "layer"]].itertuples(index=False, name=None)) if path.is_file() else set()
    return [job for job in wanted_jobs if (job.program, job.shape) not in counted]


def list_unrolled(rung: Rung) -> list[jobs.Job]:
    """Return jobs for the unrolled sizes of 07 on the second layers, if this device has a sweep of them."""
    if rung.name != "tuning":
        return []
    try:
        swept = read_sweep(device().name)
    except EngineError:
        return []
    return [jobs.make_job(variant, layer, BATCH) for layer in (LENET86[1], LENET72[1])
            for variant in vary_unrolling(layer, swept[swept["layer"] == layer.name])]


def count_launches(counted_jobs: Sequence[jobs.Job], metrics: Iterable[str]) -> list[tuple[jobs.Job, dict, dict]]:
    """Return, for each launch, its job, what the job's `run` returned, and ncu's counters.

    ncu itself repeats each kernel and empties the caches. It leaves the clocks alone.

    Raises
    ------
    LabError
        If ncu cannot profile, or counted more or fewer launches than the jobs made.
    """
    with temporary.folder() as folder, jobs.write_program(counted_jobs) as (command, owners):
        log = folder / "ncu.csv"
        ended = processes.run(nsight.ncu_command(command, log, metrics), {}, capture=True)
        text = log.read_text() if log.is_file() else ""
        if ended.problem:
            raise LabError(f"ncu {ended.problem}: {(text + ended.output).strip()[-600:]}")
        rows = nsight.read_ncu(text, metrics)
        return [(*owner, row) for owner, row in zip(owners(len(rows)), rows, strict=True)]


def profile_rung(rung: Rung, missing: bool = False) -> pd.DataFrame:
    """Return a row per variant, layer and kernel of a rung; with `missing`, only of those without counters."""
    rows = {}
    for select, metrics in ((list_jobs, METRICS), (list_unrolled, FETCHING)):
        several = list_uncounted(select(rung)) if missing else select(rung)
        if several:
            for job, result, row in count_launches(several, metrics):
                counted = {name: row[name] for name in metrics if name in row}
                first = {"rung": rung.number, "label": job.program, "layer": job.shape, "batch": result["images"],
                         "kernel": row["kernel"]}
                # If a variant computes in chunks, the first chunk is kept.
                rows.setdefault((job.program, job.shape, row["kernel"], metrics), first | counted)
    return pd.DataFrame(rows.values())


def counters(
    rungs: Rungs = None,
    missing: Annotated[bool, Option("--missing", help="Only what has no counters yet.")] = False,
) -> None:
    """Count with Nsight Compute: data/counters/.

    Each kernel runs on 1000 images. The counters of a rung are kept before those of the next.
    """
    wanted_rungs, start = chosen(rungs), time.perf_counter()
    if device().engine != "gpu":
        raise LabError("counters are recorded on a GPU; the engine here is the CPU's")
    compiled = [job for rung in wanted_rungs for job in (*list_jobs(rung), *list_unrolled(rung))]
    jobs.compile_all(list_uncounted(compiled) if missing else compiled)
    print(f"compiled, {time.perf_counter() - start:.0f} s", flush=True)
    for rung in wanted_rungs:
        table = profile_rung(rung, missing)
        if table.empty:
            continue
        by = ["rung", "label", "layer"] if missing else ["rung"]
        path = record_evidence(table, data_dir() / "counters", by, order=["rung"])
        print(f"{rung.label}: {len(table)} rows in {path}, {time.perf_counter() - start:.0f} s", flush=True)
