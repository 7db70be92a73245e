"""Nsight Compute's counters of the ladder's kernels, for data/counters/.

Every rung on 1000 images of lenet86; 03, 04, 10, 11 and the steps warpgroups also on lenet72; 07
with its unrolling.
"""

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress

import pandas as pd

from hostcuda import processes, temporary
from hostcuda.errors import EngineError
from hostcuda.gpu import nsight
from hostcuda.metrics import COUNTED, FETCHED, MEASURED, RECORDED, STALLED, STALLS
from labkit import LENET72, LENET86, LabError, device
from labkit.base.paths import data_dir
from labkit.ladder.rung import Rung
from labkit.ladder.variants import variants
from labkit.records.sweeps import read_sweep
from recording import jobs
from recording.gpu import require_gpu
from recording.keep import record_evidence
from recording.options import Rungs, choose_rungs
from recording.sweep import vary_unrolling

BATCH = 1000
WAITS = tuple(map(STALLED.format, STALLS))
METRICS = (*COUNTED.values(), *MEASURED.values(), *RECORDED.values(), *WAITS)
FETCHING = (*FETCHED.values(), MEASURED["instructions"], RECORDED["cycles"], *WAITS)
BOTH = ("registers", "tiling")  # on both networks: tiling gains on one and loses on the other
TEAMS = ("teams", "no_teams", "background")  # steps that page 11 (teams) compares on both networks


def list_jobs(rung: Rung) -> list[jobs.Job]:
    """Return the jobs of which `profile_rung` records ncu's counters: the variants of a rung on each layer.

    Libraries are left out. The layers are those of lenet86; a few variants, which pages compare on
    both networks, also have those of lenet72. A job computes BATCH images, or as many as one launch
    of the rung takes.
    """
    # if the rung has the step "warpgroups": its variant without options, and that step
    labels_on_both = (rung.label, f"{rung.label}, warpgroups") if "warpgroups" in rung.steps else ()
    listed = []
    for variant in variants(rung.number):
        if variant.library:
            continue
        on_both = rung.name in BOTH or variant.label in labels_on_both or variant.step in TEAMS
        for layer in (*LENET86, *LENET72) if on_both else LENET86:
            with suppress(LabError):
                variant.supports(layer)  # raises it if the variant cannot run there
                # `images`: of one launch, or None if it takes any number; `scope`: the layer's
                # sizes and the variant's options, on which that depends
                listed.append(
                    jobs.make_job(variant, layer, rung.images(variant.scope(layer)) or BATCH)
                )
    return listed


def list_unrolled(rung: Rung) -> list[jobs.Job]:
    """Return jobs for rung 07 ("tuning") with loops unrolled more or less, on the second layer of each network.

    Returns none for other rungs, or if no sweep of this device is recorded: the sizes vary from its
    fastest ones.
    """
    if rung.name != "tuning":
        return []
    try:
        swept = read_sweep(device().name)
    except EngineError:
        return []
    return [
        jobs.make_job(variant, layer, BATCH)
        for layer in (LENET86[1], LENET72[1])
        for variant in vary_unrolling(layer, swept[swept["layer"] == layer.name])
    ]


def run_ncu(
    command: Sequence[str], metrics: Iterable[str], options: Sequence[str] = ()
) -> list[dict]:
    """Run a program under ncu; return a dict per launch: kernel, and ncu's counters by their metric names.

    ncu repeats each kernel until all metrics are counted, empties the caches before, and leaves the clocks
    alone. `options` are more options of ncu. Raises LabError if it cannot profile.
    """
    with temporary.folder() as folder:
        log = folder / "ncu.csv"
        ncu, *rest = nsight.ncu_command(command, log, metrics)
        # {}: no more environment variables
        ended = processes.run([ncu, *options, *rest], {}, capture=True)
        text = log.read_text() if log.is_file() else ""
    if ended.problem:
        raise LabError(f"ncu {ended.problem}: {(text + ended.output).strip()[-600:]}")
    return nsight.read_ncu(text, metrics)


def count_launches(
    counted_jobs: Sequence[jobs.Job], metrics: Iterable[str]
) -> list[tuple[jobs.Job, dict, dict]]:
    """Return, for each launch, its job, what the job's `run` returned, and the dict of `run_ncu`.

    The second is {"launches": 12, "images": 2}; the third has "kernel" and ncu's counters. Raises
    LabError if ncu cannot profile, or counted more or fewer launches than the jobs made.
    """
    with jobs.write_program(counted_jobs) as (command, find_owners):
        rows = run_ncu(command, metrics)
        return [(*owner, row) for owner, row in zip(find_owners(len(rows)), rows, strict=True)]


def profile_rung(rung: Rung) -> pd.DataFrame:
    """Count with Nsight Compute (ncu) what the kernels of a rung do; return a row per variant, layer and kernel.

    The columns are rung, label, layer, batch, kernel, and ncu's counters by their names. The variants of
    `list_unrolled` are counted with other counters: they get rows of their own.
    """
    rows = {}
    # FETCHING: ncu's counters of the fetching of instructions, which unrolling increases
    for listed, metrics in ((list_jobs(rung), METRICS), (list_unrolled(rung), FETCHING)):
        for job, result, row in count_launches(listed, metrics) if listed else ():
            columns = {
                "rung": rung.number,
                "label": job.program,
                "layer": job.shape,
                "batch": result["images"],
                "kernel": row["kernel"],
            }
            # If a variant computes in chunks, the first chunk is kept. `metrics` keeps the two lists of
            # jobs apart: a variant may be in both.
            rows.setdefault(
                (job.program, job.shape, row["kernel"], metrics),
                columns | {name: row[name] for name in metrics if name in row},
            )
    return pd.DataFrame(rows.values())


def counters(rungs: Rungs = None) -> None:
    """Count with Nsight Compute: data/counters/.

    Each kernel runs on 1000 images. The counters of a rung are kept before those of the next.
    """
    wanted_rungs, start = choose_rungs(rungs), time.perf_counter()
    require_gpu("counters are recorded on a GPU")
    jobs.compile_all(
        job for rung in wanted_rungs for job in (*list_jobs(rung), *list_unrolled(rung))
    )
    print(f"compiled, {time.perf_counter() - start:.0f} s", flush=True)
    for rung in wanted_rungs:
        if not (table := profile_rung(rung)).empty:  # this GPU may run none of its kernels
            path = record_evidence(table, data_dir() / "counters", ["rung"])
            print(
                f"{rung.label}: {len(table)} rows in {path}, {time.perf_counter() - start:.0f} s",
                flush=True,
            )
