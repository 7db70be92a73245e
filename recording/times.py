"""The times of the ladder and of the network, for data/results/: every kernel checked, then measured.

Kernels are compiled side by side. Those of a layer and batch are measured in one interleaved run,
each rung's own kernel twice: what its two times differ by is noise. They are kept as soon as they
are measured.
"""

import itertools
import time
from collections.abc import Iterable, Sequence
from typing import Annotated

import pandas as pd
from typer import Option

from hostcuda.errors import EngineError
from labkit import LabError, Layer, Network, bench, check, dataset, device, recorded, variant
from labkit.ladder.variants import Variant, can_compute, solutions, variants
from labkit.measure.check import TEST_SHAPES
from recording import jobs
from recording.keep import record_course, record_times
from recording.options import Batches, Dry, Layers, Repeat, Rungs, choose_layers, choose_rungs

BATCHES = {"gpu": (100, 1000, 10_000), "cpu": (10,)}  # images, by the engine


def list_unrecorded(
    kernels: Iterable[Variant], layers: Iterable[Layer], batches: Iterable[int]
) -> list[Variant]:
    """Return the kernels that have no time on this device for a layer and a batch, with the source that they have now.

    A layer counts only for kernels that can compute it.
    """
    try:
        table = recorded(device().name).table
    except EngineError:  # nothing yet
        return list(kernels)
    # code: the source's digest
    columns = ["label", "code", "layer", "batch"]
    measured = {*table.dropna(subset="op_ms")[columns].itertuples(index=False, name=None)}
    pairs = [*itertools.product(layers, batches)]
    return [
        kernel
        for kernel in kernels
        if any(
            (kernel.label, kernel.code, layer.name, batch) not in measured
            and can_compute(kernel, layer)
            for layer, batch in pairs
        )
    ]


def check_kernels(kernels: Iterable[Variant], shapes: Sequence) -> list[Variant]:
    """Check kernels on (layer, batch) pairs; return those that are right, and print the errors of the others."""
    passed = []
    for kernel in kernels:
        try:
            check(kernel, shapes)
            passed.append(kernel)
        except Exception as error:  # the others are still worth a measurement
            print(f"FAILED {kernel.label}: {type(error).__name__}: {error}", flush=True)
    return passed


def bench_all(
    kernels: Sequence[Variant], layer: Layer, batch: int, **options
) -> list[pd.DataFrame]:
    """Return the table of `bench` with these options, in a list.

    If a kernel cannot be measured, each half of the kernels is measured by itself, and so on: there
    are several tables, without that kernel, whose error is printed.
    """
    try:
        return [bench(kernels, layer, batch, **options)]
    except EngineError as error:
        if len(kernels) == 1:
            print(f"FAILED {kernels[0].label} on {layer.name}, batch {batch}: {error}", flush=True)
            return []
    halves = kernels[: len(kernels) // 2], kernels[len(kernels) // 2 :]
    return [table for half in halves for table in bench_all(half, layer, batch, **options)]


def can_launch(kernel: Variant, layer: Layer) -> bool:
    """Return whether a kernel can run on a layer, with one image, on this device; print the error if it cannot."""
    try:
        with kernel.plan(layer, 1):
            return True
    except EngineError as error:
        print(f"FAILED {kernel.label} on {layer.name}: {error}", flush=True)
        return False


def measure_kernels(
    own: Sequence[Variant],
    compared: Sequence[Variant],
    layers: Iterable[Layer],
    batches: Sequence[int],
    keep: bool,
    repeat: int | None = None,
) -> list[pd.DataFrame]:
    """Measure kernels; return a table of `bench` per layer and batch, and write it to data/ at once if `keep`.

    The kernels in `own` are measured with each batch, twice: the second time is the column
    op_again_ms. Those in `compared` are measured with the largest batch only. `repeat` is the
    number of timed runs. Kernels that cannot run on a layer are left out, and their errors printed.
    """
    tables = []
    for layer in layers:
        launchable = [kernel for kernel in compared if can_launch(kernel, layer)]
        for batch in batches:
            start = time.perf_counter()
            # twice: what the two times of a kernel differ by is noise
            kernels = [*own, *own, *(launchable if batch == max(batches) else ())]
            # `repeat` is for op times: layer times have their own number of runs
            layer_time_tables = bench_all(own, layer, batch, repeat=1) if own else ()
            layer_ms = {
                row.label: row.layer_ms for table in layer_time_tables for row in table.itertuples()
            }
            for table in (
                bench_all(kernels, layer, batch, repeat=repeat, layer_time=False) if kernels else ()
            ):
                # the second rows of the kernels in `own`, whose labels occur twice
                again = table[table.duplicated("label")].set_index("label")["op_ms"]
                table = table.drop_duplicates("label")
                table = table.assign(
                    op_again_ms=table["label"].map(again), layer_ms=table["label"].map(layer_ms)
                )
                tables.append(table)
                if keep:
                    record_times(table)
            print(f"{layer.name}, batch {batch}: {time.perf_counter() - start:.1f} s", flush=True)
    return tables


def measure_network(kernels: Iterable[Variant], batches: Sequence[int], keep: bool) -> None:
    """Measure the network lenet86 with each of the kernels as its convolutions; write the times to data/ if `keep`.

    The images are the test images of the digits; each number in `batches` is a batch that is measured.
    """
    digits = dataset("digits", split="test", size=86)
    for kernel in kernels:
        network = Network(conv=kernel)
        table = network.course_table(digits.images, digits.labels, batches)
        if keep:
            record_course(table, network)


def times(
    rungs: Rungs = None,
    missing: Annotated[bool, Option("--missing", help="Only what is new or has changed.")] = False,
    network: Annotated[
        bool, Option("--network", help="Only the network, as after a training of its weights.")
    ] = False,
    check_only: Annotated[bool, Option("--check", help="Measure nothing.")] = False,
    layer: Layers = None,
    batch: Batches = None,
    repeat: Repeat = None,
    dry: Dry = False,
) -> None:
    """Check and measure kernels: data/results/.

    The kernels are those of the rungs, with all batches, and those that their pages compare with
    them, such as their sub-steps, with the largest batch only.
    """
    start, here = time.perf_counter(), device()
    print(here.name, f"({here.engine} engine)")
    own = [variant(rung.number) for rung in choose_rungs(rungs)]
    batches = batch or BATCHES[here.engine]
    if network:
        return measure_network(own, batches, not dry)
    # The first variant is the rung's own kernel.
    others = [
        other
        for rung in choose_rungs(rungs)
        for other in (*variants(rung.number)[1:], *solutions(rung.number))
    ]
    layers = choose_layers(layer)
    if missing:
        own = list_unrecorded(own, layers, batches)
        others = list_unrecorded(others, layers, [max(batches)])
    # The tests check the compared kernels on the test shapes; here they are checked on the measured
    # layers.
    measured = [(layer, 2) for layer in layers]  # with two images
    shapes = {**dict.fromkeys(others, measured), **dict.fromkeys(own, (*TEST_SHAPES, *measured))}
    jobs.compile_all(
        jobs.make_job(kernel, layer) for kernel, pairs in shapes.items() for layer, _ in pairs
    )
    print(f"{len(shapes)} kernels compiled, {time.perf_counter() - start:.0f} s", flush=True)
    # All of `own` have the same shapes, and all of `others`.
    own, others = (
        check_kernels(kernels, shapes[kernels[0]]) if kernels else [] for kernels in (own, others)
    )
    print(f"checked, {time.perf_counter() - start:.0f} s", flush=True)
    if not check_only:
        tables = measure_kernels(own, others, layers, batches, not dry, repeat)
        measure_network(own, batches, not dry)
        if tables:
            op_ms = pd.concat(tables).pivot_table(
                index="label", columns=["layer", "batch"], values="op_ms", sort=False
            )
            print(
                f"{time.perf_counter() - start:.0f} s in all\n\nop time [ms], {here.name}\n"
                f"{op_ms.to_string(float_format='{:.4g}'.format)}"
            )
    failed = [kernel.label for kernel in shapes if kernel not in own + others]
    if failed:
        raise LabError(f"these kernels failed: {', '.join(failed)}")
