#!/usr/bin/env python3
"""Check every kernel on the engine at hand, then measure the ladder and the network, for data/results/.

    python -m labkit.recording.times             check, measure, and keep the times in data/results/<device>.csv
    python -m labkit.recording.times --dry       keep nothing
    python -m labkit.recording.times --check     check alone
    python -m labkit.recording.times --missing   what was never measured, or whose source has changed since

The recorded times of a page are made here. Kernels are compiled side by side and once. Each layer's and batch's
times are kept when they are measured; the table comes last.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pandas as pd

import labkit
from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import solutions
from labkit.measure.check import TEST_SHAPES
from labkit.records.results import record, record_course

BATCHES = {"gpu": (100, 1000, 10000), "cpu": (10,)}
PRESETS = (*labkit.LENET86, *labkit.LENET72, *labkit.LENET28)


def compared(number: int) -> list:
    """What a rung's page compares with it, and its exercises' solutions."""
    return [*labkit.variants(number)[1:], *solutions(number)]


def missing(variants) -> list:
    """Those that were not measured here with the source that they have."""
    try:
        table = labkit.recorded(labkit.device().name).table
    except labkit.LabError:  # nothing yet
        return variants
    measured = set(table[["label", "code"]].itertuples(index=False, name=None))
    return [each for each in variants if (each.label, each.code) not in measured]


def check(variants, shapes) -> list[str]:
    """Check all variants; the labels of those that failed."""
    failed = []
    for variant in variants:
        try:
            labkit.check(variant, shapes)
        except Exception as error:  # whatever it is, the other rungs are worth knowing about
            failed.append(variant.label)
            print(f"FAIL {variant.label}: {type(error).__name__}: {error}")
    return failed


def measure(variants, batches, repeat, keep, **more) -> pd.DataFrame:
    """Bench all variants on the layers of lenet86 and lenet72, and keep each table as soon as there is one."""
    tables = []
    for layer in (*labkit.LENET86, *labkit.LENET72):
        for batch in batches:
            start = time.perf_counter()
            tables.append(labkit.bench(variants, layer, batch, repeat, **more))
            if keep:
                record(tables[-1])
            print(f"{layer.name}, batch {batch}: measured in {time.perf_counter() - start:.1f} s", flush=True)
    return pd.concat(tables, ignore_index=True)


def run_network(variants, batches, keep: bool) -> None:
    """The course's table of lenet86 with each variant inside, on the embedded images."""
    digits = labkit.dataset("digits", split="test", size=86)
    for variant in variants:
        network = labkit.Network(conv=variant)
        table = network.course_table(digits.images, digits.labels, batches)
        if keep:
            record_course(table, network)


def summary(table: pd.DataFrame) -> str:
    """Op time in milliseconds, a row per rung, a column per layer and batch; op time over reference at the largest batch."""
    times = table.pivot_table(index="label", columns=["layer", "batch"], values="op_ms", sort=False)
    largest = table[table["batch"] == table["batch"].max()]
    over = largest.pivot_table(index="label", columns="layer", values="x_reference", sort=False)
    return "\n".join([
        f"op time [ms], {table['device'].iloc[0]}",
        times.to_string(float_format="{:.4g}".format),
        f"\nop time over reference, batch {largest['batch'].iloc[0]}",
        over.to_string(float_format="{:.1f}".format),
    ])  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--check", action="store_true", help="check alone, measure nothing")
    parser.add_argument("--dry", action="store_true", help="keep nothing in data/results/")
    parser.add_argument("--batches", type=int, nargs="+", help="images (100 1000 10000 on a GPU, 10 on a CPU)")
    parser.add_argument("--rungs", type=int, nargs="+", default=[each.number for each in LADDER])
    parser.add_argument("--compared", action="store_true", help="only what stands beside the rungs on their pages")
    parser.add_argument("--missing", action="store_true", help="only what is new or has changed")
    parser.add_argument("--repeat", type=int, help="timed runs of each (by default what fits into half a second)")
    chosen = parser.parse_args()

    start = time.perf_counter()
    here = labkit.device()
    print(here.name, f"({here.engine} engine)")
    rungs = [] if chosen.compared else [labkit.variant(number) for number in chosen.rungs]
    beside = [each for number in chosen.rungs for each in compared(number)]
    if chosen.missing:
        rungs, beside = missing(rungs), missing(beside)
        if not (rungs or beside):
            print("nothing is missing")
            return 0
    presets = [(layer, 2) for layer in PRESETS]
    every = [*TEST_SHAPES, *presets]  # what stands beside a rung is checked on these by the tests, here on the presets
    cases = [*((each, layer) for each in rungs for layer, _ in every),
             *((each, layer) for each in beside for layer in PRESETS)]  # fmt: skip
    jobs = {(each, *each.defines(layer).items()): layer for each, layer in cases}
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # a source that does not compile will say so when it is checked
        futures = [pool.submit(variant.precompile, layer) for (variant, *_), layer in jobs.items()]
    print(f"{len(futures)} modules compiled in {time.perf_counter() - start:.1f} s", flush=True)

    failed = [*check(rungs, every), *check(beside, presets)]
    print(f"checked, {time.perf_counter() - start:.1f} s since the start", flush=True)
    if not chosen.check:
        rungs = [variant for variant in rungs if variant.label not in failed]
        beside = [variant for variant in beside if variant.label not in failed]
        batches = chosen.batches or BATCHES[here.engine]
        keep = not chosen.dry
        tables = [measure(rungs, batches, chosen.repeat, keep)] if rungs else []
        run_network(rungs, batches, keep)
        if beside:  # the op time at the largest batch alone: device time is dear
            tables.append(measure(beside, [max(batches)], chosen.repeat or 5, keep, layer_time=False))
        if tables:
            print(f"{time.perf_counter() - start:.1f} s in all\n\n{summary(pd.concat(tables, ignore_index=True))}")
    if failed:
        print("\nFAILED: " + ", ".join(failed))
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
