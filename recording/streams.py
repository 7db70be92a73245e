"""Layer times of chunks on streams on the GPU in use, for data/streams/ and its timelines/.

New rows replace those of the same kernel, layer, batch and configuration. The files are written after each layer.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

from labkit.base.errors import LabError
from labkit.ladder.rungs import PAGES
from labkit.ladder.variants import Variant, variant
from labkit.measure.bench import compute_rates
from labkit.measure.check import check
from labkit.measure.pipeline import Pipeline, host_arrays
from labkit.measure.streams import bench_cases
from labkit.networks.images import dataset
from labkit.networks.lenet86 import Network
from labkit.records.store import label
from labkit.spec.devices import device
from labkit.spec.layers import PRESETS, Layer, layer
from recording import jobs
from recording.keep import record_course, record_streams, record_times
from recording.options import Folder, chosen

BATCH = 10_000
CHUNKS = [100, 200, 500, 1000, 2000, 5000, 10_000]
STREAMS = [1, 2, 3, 8]
GROWING = (40, 80, 160, 320, 640, 1280, 2560, 4920)
SMALL = {100: [10, 25, 50, 100], 1000: [50, 100, 250, 500, 1000]}  # chunks at the course's smaller batches
RUNG, LABEL = PAGES["streams"], label("streams")
SHOWN = ["label", "batch", "pinned", "streams", "order", "chunk", "sizes", "layer_ms", "steady_ms", "in_ms",
         "kernel_ms", "out_ms", "overlap"]


def case(chunk, streams: int, pinned: bool = True, order: str = "depth") -> dict:
    """Return a configuration of a pipeline."""
    return {"chunk": chunk, "streams": streams, "pinned": pinned, "order": order}


FEW = [case(chunk, streams) for chunk in (500, 1000) for streams in (1, 2)]
FULL = [
    *(case(chunk, streams) for chunk in CHUNKS for streams in STREAMS if chunk < BATCH or streams == 1),
    *(case(chunk, 3, order="breadth") for chunk in (100, 1000)),
    *(case(GROWING, streams) for streams in (2, 3)),
    *(case(1000, streams, False) for streams in STREAMS),
    *(case(chunk, 3, False) for chunk in (100, 500, 5000, 10_000)),
    *(case(chunk, 3, False, "breadth") for chunk in (100, 1000)),
]


def measure_configurations(variant: Variant, layer: Layer) -> pd.DataFrame:
    """Measure all configurations of one layer, at the largest batch and below."""
    tables = [bench_cases(variant, layer, BATCH, FULL)]
    for batch, chunks in SMALL.items():
        cases = [case(chunk, streams) for chunk in chunks for streams in (1, 2)] + [case(batch, 1, False)]
        tables.append(bench_cases(variant, layer, batch, cases))
    return pd.concat(tables, ignore_index=True)


def select_ladder_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Return a sweep's rows for the ladder as `bench` would write them, one per layer and batch.

    They are for 500 images per chunk (ten chunks of a smaller batch), on the fewest streams that overlap.
    """
    chunk = (table["batch"] // 10).clip(upper=500)
    best = table[table["pinned"] & (table["sizes"] == "equal") & (table["chunk"] == chunk) & (table["streams"] > 1)]
    best = best[best["order"] == "depth"].sort_values("streams").drop_duplicates(["layer", "batch"])
    return pd.DataFrame([{"rung": RUNG, "label": LABEL, "layer": row.layer, "batch": row.batch, "dtype": row.dtype,
                          "options": f"{row.label}; chunk={row.chunk} streams={row.streams} {row.order}",
                          "op_ms": row.kernel_ms, "layer_ms": row.layer_ms, "engine": row.engine, "device": row.device,
                          **compute_rates(layer(row.layer), row.batch, row.dtype, row.kernel_ms, row.device)}
                         for row in best.itertuples()])


def measure_network(variants: Sequence[Variant], folder: Path | None) -> None:
    """Record the course's table of lenet86 with its convolutions in pipelines."""
    digits = dataset("digits", split="test", size=86)
    network = Network(conv=variants, streams={"chunk": 500, "streams": 2})
    table = network.course_table(digits.images, digits.labels, (100, 1000, 10_000))
    print(table.to_string(index=False))
    inside = " + ".join(dict.fromkeys(variant.label for variant in variants))
    options = f"{inside}; chunk=500 streams=2 depth"
    record_course(table, network, folder, rung=RUNG, label=LABEL, options=options)


def measure_timelines(variant: Variant, layer: Layer) -> pd.DataFrame:
    """Return when each step ran, in ten chunks: on one stream, on two, and on three from ordinary memory."""
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
                         "streams": streams, "order": "depth", "chunk_images": BATCH // 10}
                parts.append(pipeline.timeline.assign(**about))
    return pd.concat(parts, ignore_index=True)


def streams(
    network: Annotated[list[str] | None, Option(help="lenet86, lenet72; may be repeated.")] = None,
    inside: Annotated[tuple[str, str], Option(help="The rungs of layers 1 and of layers 2.")] = ("tuning", "tuning"),
    beside: Annotated[list[str] | None, Option(help="Rungs in few configurations; may be repeated.")] = None,
    brief: Annotated[bool, Option("--brief", help="All in few configurations: less than a minute.")] = False,
    out: Folder = None,
) -> None:
    """Measure layers in chunks on streams: data/streams/."""
    names = network or ["lenet86", "lenet72"]
    if unknown := [name for name in names if name not in PRESETS]:
        raise LabError(f"there is no network {unknown[0]!r}; there are {', '.join(PRESETS)}")
    networks = [PRESETS[name] for name in names]
    own_kernels, others = ([variant(chosen_rung.number) for chosen_rung in chosen(names)]
                           for names in (list(inside), beside or ["fusion", "tensor_cores"]))
    begin, here = time.perf_counter(), device()
    if here.engine != "gpu":
        raise LabError(f"streams are recorded on a GPU; the engine here is the CPU's ({here.name})")
    several, layers = dict.fromkeys([*own_kernels, *others]), [layer for network in networks for layer in network]
    jobs.compile_all(jobs.make_job(kernel, layer) for kernel in several for layer in layers)
    for kernel in several:
        check(kernel, layers)
    for number, at in enumerate(layers):
        kernel = own_kernels[number % 2]
        swept = bench_cases(kernel, at, BATCH, FEW) if brief else measure_configurations(kernel, at)
        if not brief:
            record_times(select_ladder_rows(swept), out)
        few = [bench_cases(other, at, BATCH, FEW) for other in others if other != kernel]
        table = pd.concat([swept, *few], ignore_index=True)
        path = record_streams(table, measure_timelines(kernel, at), out)
        print(f"{at.name}: recorded in {path}, {time.perf_counter() - begin:.1f} s")
        print(table[SHOWN].round(3).to_string(index=False), flush=True)
        host = table[["batch", "pin_ms", "register_ms", "stage_ms"]]
        print("page-locking, registering, staging [ms]", host.drop_duplicates().to_dict("records"))
    measure_network(own_kernels, out)
    print(f"{time.perf_counter() - begin:.1f} s in all")
