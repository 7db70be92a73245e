#!/usr/bin/env python3
"""Record Nsight Compute's counters of the ladder's kernels on the GPU at hand, for data/counters/.

    python -m labkit.recording.counters            all rungs, 1000 images of lenet86; 03 and 04 also of lenet72,
                                                 07 with all that the sweep tried of its unrolling on both layers 2
    python -m labkit.recording.counters --rungs 1

Needs `ncu` on the path and the permission to read counters. Clocks are left alone.
"""

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

import labkit
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.evidence import child, nsight
from labkit.ladder.rungs import LADDER
from labkit.recording.sweep import unroll
from labkit.records.store import record_evidence
from labkit.records.sweeps import read_sweep
from labkit.spec.metrics import COUNTED, FETCHED, MEASURED, RECORDED, STALLED, STALLS

BATCH = 1000
WAITS = tuple(map(STALLED.format, STALLS))
METRICS = (*COUNTED.values(), *MEASURED.values(), *RECORDED.values(), *WAITS)
FETCHING = (*FETCHED.values(), MEASURED["instructions"], RECORDED["cycles"], *WAITS)
BOTH = (3, 4)  # what tiling gains turns round from one network to the other: these rungs are watched on both


def kernels(numbers) -> list[tuple]:
    """The variants of rungs, each with a layer; a library's kernels are its own affair."""
    layers = {number: (*labkit.LENET86, *(labkit.LENET72 if number in BOTH else ())) for number in numbers}
    every = [variant for number in numbers for variant in labkit.variants(number) if not variant.library]
    return [(variant, layer) for variant in every for layer in layers[variant.rung.number]]


def unrolled(numbers) -> list[tuple]:
    """What the sweep on this device, if there was one, tried of 07's unrolling on the second layers."""
    if 7 not in numbers:
        return []
    try:
        swept = read_sweep(labkit.device().name)
    except LabError:
        return []
    return [(variant, layer) for layer in (labkit.LENET86[1], labkit.LENET72[1])
            for variant in unroll(layer, swept[swept["layer"] == layer.name])]  # fmt: skip


PARTS = {"kernels": (kernels, METRICS), "unrolled": (unrolled, FETCHING)}


def launch(cases) -> None:
    """What ncu watches: the kernels of each case, once. ncu itself flushes the caches and repeats them."""
    labkit.device()  # known from here on: the threads that compile have no context
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda case: case[0].precompile(case[1]), cases))
    rng = np.random.default_rng(0)
    inputs = {layer: (rng.random(layer.x_shape(BATCH), np.float32), rng.random(layer.k_shape, np.float32))
              for layer in (*labkit.LENET86, *labkit.LENET72)}  # fmt: skip
    for variant, layer in cases:
        with variant.plan(layer, BATCH) as plan:
            plan.load(*inputs[layer])
            plan.run()
            plan.result()


def measured(program, metrics) -> list[dict]:
    """What ncu counts of each launch of a program, as `nsight.read_ncu` gives it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "ncu.csv"
        ended = child.run(nsight.ncu_command(program, log, metrics), {}, capture=True)
        text = log.read_text() if log.is_file() else ""
    if ended.problem:
        raise LabError(f"ncu could not profile the kernels: {(text + ended.output).strip()[-600:]}")
    return nsight.read_ncu(text, metrics)


def profile(numbers) -> pd.DataFrame:
    """A row a variant, layer and kernel.

    Raises
    ------
    LabError
        If ncu cannot profile, or watched more or fewer launches than the plans of the variants have.
    """
    rows = []
    for part, (select, metrics) in PARTS.items():
        cases = select(numbers)
        program = [sys.executable, "-m", "labkit.recording.counters", "--launch", part, "--rungs", *map(str, numbers)]
        launches = measured(program, metrics) if cases else []
        plans = []
        for variant, layer in cases:
            with variant.plan(layer, BATCH) as plan:  # 05 computes in chunks: its scratch buffer is bounded
                plans.append((variant, layer, plan.images, len(plan.launches)))
        if len(launches) != (expected := sum(count for *_, count in plans)):
            raise LabError(f"ncu watched {len(launches)} launches of `{' '.join(program[1:])}`, whose plans make "
                           f"{expected}: nothing says whose counters these are")  # fmt: skip
        following = iter(launches)
        for variant, layer, images, count in plans:
            for row in list(islice(following, count))[: len(variant.kernels)]:
                rows.append({"rung": variant.rung.number, "label": variant.label, "layer": layer.name, "batch": images,
                             "kernel": row["kernel"],
                             **{metric: row[metric] for metric in metrics if metric in row}})  # fmt: skip
    return pd.DataFrame(rows)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rungs", type=int, nargs="+", default=[each.number for each in LADDER])
    parser.add_argument("--launch", choices=PARTS, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.launch:
        launch(PARTS[chosen.launch][0](chosen.rungs))
        return 0
    if labkit.device().engine != "gpu":
        raise SystemExit("counters are recorded on a GPU; this machine's engine is the CPU's")
    table = profile(chosen.rungs)
    print(f"recorded in {record_evidence(table, data_dir() / 'counters', by=['rung'])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
