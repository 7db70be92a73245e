"""Layer times of chunks on streams on the GPU in use, for data/streams/ and its timelines/.

New rows replace those of the same kernel, layer, batch and configuration. The files are written
after each layer.
"""

import time
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

from labkit import Layer, Network, Pipeline, check, dataset, variant
from labkit.ladder.rungs import PAGES
from labkit.ladder.variants import Variant
from labkit.measure.bench import compute_rates
from labkit.measure.pipeline import host_arrays
from labkit.measure.streams import bench_cases
from labkit.records.store import label
from labkit.spec.layers import layer as find_layer
from recording import jobs
from recording.gpu import require_gpu
from recording.keep import record_course, record_streams, record_times
from recording.options import LAYERS, Folder

# the rung in all configurations, and those in few
KERNEL, COMPARED = ("tuning", ("fusion", "tensor_cores"))
BATCH = 10_000
CHUNKS = [100, 200, 500, 1000, 2000, 5000, 10_000]
STREAMS = [1, 2, 3, 8]
GROWING = (40, 80, 160, 320, 640, 1280, 2560, 4920)  # sizes of chunks
# chunks at the course's smaller batches
SMALL = {100: [10, 25, 50, 100], 1000: [50, 100, 250, 500, 1000]}
RUNG, LABEL = PAGES["streams"], label("streams")
SHOWN = [
    "label",
    "batch",
    "pinned",
    "streams",
    "order",
    "chunk",
    "sizes",
    "layer_ms",
    "steady_ms",
    "in_ms",
    "kernel_ms",
    "out_ms",
    "overlap",
]


def make_case(
    chunk: int | tuple[int, ...], streams: int, pinned: bool = True, order: str = "depth"
) -> dict:
    """Return a configuration of a pipeline as a dict, as `bench_cases` takes it.

    `chunk`: images per chunk, or the sizes of all chunks. `pinned`: from page-locked memory.
    `order`: "depth" (all steps of a chunk, then the next chunk) or "breadth" (a step of all chunks).
    """
    return {"chunk": chunk, "streams": streams, "pinned": pinned, "order": order}


FEW = [make_case(chunk, streams) for chunk in (500, 1000) for streams in (1, 2)]
FULL = [
    *(
        make_case(chunk, streams)
        for chunk in CHUNKS
        for streams in STREAMS
        if chunk < BATCH or streams == 1
    ),
    *(make_case(chunk, 3, order="breadth") for chunk in (100, 1000)),
    *(make_case(GROWING, streams) for streams in (2, 3)),
    *(make_case(1000, streams, False) for streams in STREAMS),
    *(make_case(chunk, 3, False) for chunk in (100, 500, 5000, 10_000)),
    *(make_case(chunk, 3, False, "breadth") for chunk in (100, 1000)),
]


def measure_configurations(variant: Variant, layer: Layer) -> pd.DataFrame:
    """Measure a kernel in pipelines of many configurations on one layer; return a row per configuration.

    A pipeline copies chunks of images to the GPU, computes them and copies the outputs back, on several streams.
    The largest batch has all configurations (FULL). Smaller batches have a few sizes of chunks (SMALL)
    on one and two streams, and from ordinary memory only the whole batch as one chunk.
    """
    tables = [bench_cases(variant, layer, BATCH, FULL)]
    for batch, chunks in SMALL.items():
        cases = [make_case(chunk, streams) for chunk in chunks for streams in (1, 2)] + [
            make_case(batch, 1, pinned=False)
        ]
        tables.append(bench_cases(variant, layer, batch, cases))
    return pd.concat(tables, ignore_index=True)


def select_ladder_rows(table: pd.DataFrame) -> pd.DataFrame:
    """Select from the table of `bench_cases` one row per layer and batch for the ladder, as `bench` would write it.

    It is the one with 500 images per chunk (or ten chunks, if the batch is small), on the fewest
    streams that overlap, at least two.
    """
    chunk = (table["batch"] // 10).clip(upper=500)
    best = table[
        table["pinned"]
        & (table["sizes"] == "equal")
        & (table["chunk"] == chunk)
        & (table["streams"] > 1)
    ]
    best = best[best["order"] == "depth"].sort_values("streams").drop_duplicates(["layer", "batch"])
    return pd.DataFrame(
        [
            {
                "rung": RUNG,
                "label": LABEL,
                "layer": row.layer,
                "batch": row.batch,
                "dtype": row.dtype,
                "options": f"{row.label}; chunk={row.chunk} streams={row.streams} {row.order}",
                "op_ms": row.kernel_ms,
                "layer_ms": row.layer_ms,
                "engine": row.engine,
                "device": row.device,
                **compute_rates(
                    find_layer(row.layer), row.batch, row.dtype, row.kernel_ms, row.device
                ),
            }
            for row in best.itertuples()
        ]
    )


def measure_timelines(variant: Variant, layer: Layer) -> pd.DataFrame:
    """Run a kernel in a pipeline of ten chunks; return when each copy and each launch ran, a row for each.

    A pipeline copies in, computes and copies out chunk by chunk, in turns on its streams.
    The pipelines have one stream, two streams, and three streams with copies from ordinary memory.
    """
    tables = []
    for pinned, counts in ((True, (1, 2)), (False, (3,))):
        host = host_arrays(layer, BATCH, variant.io_dtype, pinned)  # x and y in host memory
        host[0].fill(1)  # what is computed does not matter here
        k = np.ones(layer.k_shape, np.float32)
        for streams in counts:
            with Pipeline(
                variant, layer, BATCH, BATCH // 10, streams, pinned, host=host
            ) as pipeline:
                for _ in range(3):  # the timeline is that of the last run
                    pipeline.run(k=k)
                columns = {
                    "label": variant.label,
                    "layer": layer.name,
                    "batch": BATCH,
                    "pinned": pinned,
                    "streams": streams,
                    "order": "depth",
                    "chunk_images": BATCH // 10,
                }
                tables.append(pipeline.timeline.assign(**columns))
    return pd.concat(tables, ignore_index=True)


def streams(
    brief: Annotated[
        bool, Option("--brief", help="All in few configurations: less than a minute.")
    ] = False,
    out: Folder = None,
) -> None:
    """Measure layers in chunks on streams: data/streams/.

    The images are copied to the GPU in chunks, so that copies and kernels overlap. Recorded are the
    times of many sizes of chunks and numbers of streams, and when each step ran.
    """
    begin = time.perf_counter()
    require_gpu("streams are recorded on a GPU")
    kernel, compared = variant(KERNEL), [variant(name) for name in COMPARED]
    kernels = (kernel, *compared)
    jobs.compile_all(jobs.make_job(each, layer) for each in kernels for layer in LAYERS)
    for each in kernels:
        check(each, LAYERS)
    for layer in LAYERS:
        swept = (
            bench_cases(kernel, layer, BATCH, FEW)
            if brief
            else measure_configurations(kernel, layer)
        )
        if not brief:
            record_times(select_ladder_rows(swept), out)  # those of page 12, streams
        table = pd.concat(
            [swept, *(bench_cases(other, layer, BATCH, FEW) for other in compared)],
            ignore_index=True,
        )
        path = record_streams(table, measure_timelines(kernel, layer), out)
        print(f"{layer.name}: recorded in {path}, {time.perf_counter() - begin:.1f} s")
        print(table[SHOWN].round(3).to_string(index=False), flush=True)
        # measured once per batch, not per chunk
        host = table[["batch", "pin_ms", "register_ms", "stage_ms"]]
        print("page-locking, registering, staging [ms]", host.drop_duplicates().to_dict("records"))
    # the whole network, with its convolutions in pipelines
    digits = dataset("digits", split="test", size=86)
    network = Network(conv=kernel, streams={"chunk": 500, "streams": 2})
    table = network.course_table(digits.images, digits.labels, (100, 1000, 10_000))
    print(table.to_string(index=False))
    record_course(
        table,
        network,
        out,
        rung=RUNG,
        label=LABEL,
        options=f"{kernel.label}; chunk=500 streams=2 depth",
    )
    print(f"{time.perf_counter() - begin:.1f} s in all")
