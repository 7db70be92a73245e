#!/usr/bin/env python3
"""Measure the layers with chunks and streams on the GPU at hand, for data/streams/.

    python -m labkit.recording.streams            data/streams/<device>.csv and data/streams/timelines/<device>.csv
    python -m labkit.recording.streams --out DIR  the same in DIR
    python -m labkit.recording.streams --brief    few configurations, without the sweep: less than a minute

Rows replace older ones of the same variant, layer, batch and configuration; the files are written after each layer.
"""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd

import labkit
from labkit.ladder.rungs import PAGES
from labkit.measure.bench import rates
from labkit.measure.pipeline import Pipeline, busy_ms, host_arrays
from labkit.measure.streams import bench_cases
from labkit.records.results import record, record_course
from labkit.records.store import label
from labkit.records.streams import record_streams
from labkit.spec.layers import layer as preset_layer

BATCH = 10_000
RUNG = PAGES["streams"]
CHUNKS = [100, 200, 500, 1000, 2000, 5000, 10000]
STREAMS = [1, 2, 3, 8]
GROWING = (40, 80, 160, 320, 640, 1280, 2560, 4920)
SMALL = {100: [10, 25, 50, 100], 1000: [50, 100, 250, 500, 1000]}  # chunks at the course's smaller batches
PRESETS = {"lenet86": labkit.LENET86, "lenet72": labkit.LENET72}


def case(chunk, streams, pinned=True, order="depth") -> dict:
    """A configuration."""
    return {"chunk": chunk, "streams": streams, "pinned": pinned, "order": order}


def sweep(variant, layer, full: bool) -> pd.DataFrame:
    """All configurations of one layer, at the largest batch and below; a few for a variant that stands beside."""
    if not full:
        cases = [case(chunk, streams) for chunk in (500, 1000) for streams in (1, 2)]
        return bench_cases(variant, layer, BATCH, cases)
    cases = [case(chunk, streams) for chunk in CHUNKS for streams in STREAMS if chunk < BATCH or streams == 1]
    cases += [case(chunk, 3, order="breadth") for chunk in (100, 1000)]
    cases += [case(GROWING, streams) for streams in (2, 3)]
    cases += [case(1000, streams, False) for streams in STREAMS]
    cases += [case(chunk, 3, False) for chunk in (100, 500, 5000, 10000)]
    cases += [case(chunk, 3, False, "breadth") for chunk in (100, 1000)]
    tables = [bench_cases(variant, layer, BATCH, cases)]
    for batch, chunks in SMALL.items():
        cases = [case(chunk, streams) for chunk in chunks for streams in (1, 2)] + [case(batch, 1, False)]
        tables.append(bench_cases(variant, layer, batch, cases))
    return pd.concat(tables, ignore_index=True)


def ladder_rows(table) -> pd.DataFrame:
    """Of a sweep the pipelines of 500 images a chunk, of a smaller batch ten chunks, on as few streams as overlap, as
    `bench` would write them: rung 12."""
    chunk = (table["batch"] // 10).clip(upper=500)
    best = table[table["pinned"] & (table["sizes"] == "equal") & (table["chunk"] == chunk) & (table["streams"] > 1)]
    best = best[best["order"] == "depth"].sort_values("streams").drop_duplicates(["layer", "batch"])
    rows = []
    for row in best.itertuples():
        rows.append({
            "rung": RUNG, "label": label(RUNG), "layer": row.layer, "batch": row.batch, "dtype": row.dtype,
            "options": f"{row.label}; chunk={row.chunk} streams={row.streams} {row.order}",
            "op_ms": row.kernel_ms, "layer_ms": row.layer_ms, "engine": row.engine, "device": row.device,
            **rates(preset_layer(row.layer), row.batch, row.dtype, row.kernel_ms, row.device),
        })  # fmt: skip
    return pd.DataFrame(rows)


def run_network(variants, folder) -> None:
    """The course's table of lenet86, its convolutions in pipelines."""
    digits = labkit.dataset("digits", split="test", size=86)
    network = labkit.Network(conv=variants, streams={"chunk": 500, "streams": 2})
    table = network.course_table(digits.images, digits.labels, (100, 1000, 10000))
    print(table.to_string(index=False))
    inside = " + ".join(dict.fromkeys(each.label for each in variants))
    record_course(table, network, folder, rung=RUNG, label=label(RUNG), options=f"{inside}; chunk=500 streams=2 depth")


def timelines(variant, layer) -> pd.DataFrame:
    """What a chart of one run shows, in ten chunks: one stream, two, and three from ordinary memory."""
    parts = []
    for pinned, counts in ((True, (1, 2)), (False, (3,))):
        host = host_arrays(layer, BATCH, variant.io_dtype, pinned)
        host[0].fill(1)
        k = np.ones(layer.k_shape, np.float32)
        for streams in counts:
            with Pipeline(variant, layer, BATCH, BATCH // 10, streams, pinned, host=host) as pipeline:
                for _ in range(3):
                    pipeline.run(k=k)
                about = {"label": variant.label, "layer": layer.name, "batch": BATCH, "pinned": pinned,
                         "streams": streams, "order": "depth", "chunk_images": BATCH // 10}  # fmt: skip
                parts.append(pipeline.timeline.assign(**about))
                if pinned and streams == 2:
                    compare_with_cupti(pipeline, k)
    return pd.concat(parts, ignore_index=True)


def compare_with_cupti(pipeline, k) -> None:
    """The events' busy times beside those of NVIDIA's tracing interface, for the same run."""
    try:
        with labkit.trace() as trace:
            pipeline.run(k=k)
    except labkit.LabError as error:
        print(f"no comparison with CUPTI: {error}")
        return
    events, records = busy_ms(pipeline.timeline), trace.records
    large = records[(records["kind"] == "kernel") | (records["bytes"] > 1e5)]
    names = {"HtoD": "copy in", "DtoH": "copy out"}
    kinds = large["name"].map(names).fillna("kernel").where(large["kind"] != "api")
    for what, group in large.groupby(kinds):
        line = pd.DataFrame({"what": what, "start_ms": group["start_ms"],
                             "end_ms": group["start_ms"] + group["duration_ms"]})  # fmt: skip
        print(f"  {what}: events {events[what]:.3f} ms, CUPTI {busy_ms(line)[what]:.3f} ms, {len(group)} records")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=Path, help="folder in place of data/")
    parser.add_argument("--rungs", type=int, nargs=2, default=(7, 7), metavar=("ONE", "TWO"),
                        help="whose kernel computes layers 1 and layers 2")  # fmt: skip
    parser.add_argument("--beside", type=int, nargs="*", default=(6, 9), help="rungs measured in few configurations")
    parser.add_argument("--networks", nargs="+", choices=PRESETS, default=list(PRESETS))
    parser.add_argument("--brief", action="store_true", help="few configurations of every rung, no sweep")
    chosen = parser.parse_args()

    begin = time.perf_counter()
    here = labkit.device()
    if here.engine != "gpu":
        print(f"{here.name} is no GPU: nothing to record")
        return 1
    main_variants = [labkit.variant(number) for number in chosen.rungs]
    beside = [labkit.variant(number) for number in chosen.beside]
    variants = list(dict.fromkeys([*main_variants, *beside]))
    layers = [layer for name in chosen.networks for layer in PRESETS[name]]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        jobs = [pool.submit(variant.precompile, each) for variant in variants for each in layers]
        for job in jobs:
            job.result()
    for variant in variants:
        labkit.check(variant, layers)
    for number, layer in enumerate(layers):
        variant = main_variants[number % 2]
        start = time.perf_counter()
        swept = sweep(variant, layer, not chosen.brief)
        if not chosen.brief:
            record(ladder_rows(swept), chosen.out)
        few = [sweep(each, layer, False) for each in beside if each != variant]
        table = pd.concat([swept, *few], ignore_index=True)
        path = record_streams(table, timelines(variant, layer), chosen.out)
        print(f"{layer.name}: {time.perf_counter() - start:.1f} s, {time.perf_counter() - begin:.1f} s in all")
        shown = ["label", "batch", "pinned", "streams", "order", "chunk", "sizes", "layer_ms", "steady_ms",
                 "in_ms", "kernel_ms", "out_ms", "overlap"]  # fmt: skip
        print(table[shown].round(3).to_string(index=False), flush=True)
        print("page-locking, staging [ms]", table[["batch", "pin_ms", "stage_ms"]].drop_duplicates().to_dict("records"))
    run_network(main_variants, chosen.out)
    print(f"recorded in {path}, {time.perf_counter() - begin:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
