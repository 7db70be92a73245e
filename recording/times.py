"""The times of the ladder and of the network, for data/results/: every kernel checked, then measured.

Kernels are compiled side by side. Those of a layer and batch are measured in one interleaved run, each rung's own
kernel twice: what its two times differ by is noise. They are kept as soon as they are measured.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Annotated

import pandas as pd
from typer import Option

from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.ladder.variants import Variant, solutions, variant, variants
from labkit.measure.bench import bench
from labkit.measure.check import TEST_SHAPES, check
from labkit.networks.images import dataset
from labkit.networks.lenet86 import Network
from labkit.records.recorded import recorded
from labkit.spec.devices import device
from labkit.spec.layers import Layer
from recording import jobs
from recording.keep import record_course, record_times
from recording.options import Batches, Dry, Layers, Repeat, Rungs, choose_layers, chosen

BATCHES = {"gpu": (100, 1000, 10_000), "cpu": (10,)}


def list_unrecorded(kernels: Iterable[Variant]) -> list[Variant]:
    """Return the kernels that were not measured on this device with the source that they have now."""
    try:
        table = recorded(device().name).table
    except EngineError:  # nothing yet
        return list(kernels)
    recorded_sources = set(table[["label", "code"]].itertuples(index=False, name=None))
    return [kernel for kernel in kernels if (kernel.label, kernel.code) not in recorded_sources]


def check_kernels(kernels: Iterable[Variant], shapes: Sequence) -> list[Variant]:
    """Check kernels; return those that are right, and print the errors of the others."""
    passed = []
    for kernel in kernels:
        try:
            check(kernel, shapes)
            passed.append(kernel)
        except Exception as error:  # the others are still worth a measurement
            print(f"FAILED {kernel.label}: {type(error).__name__}: {error}", flush=True)
    return passed


def bench_all(kernels: Sequence[Variant], layer: Layer, batch: int, **options) -> list[pd.DataFrame]:
    """Return the tables of `bench`: one, or several if a kernel cannot be measured; its error is printed."""
    try:
        return [bench(kernels, layer, batch, **options)]
    except EngineError as error:
        if len(kernels) == 1:
            print(f"FAILED {kernels[0].label} on {layer.name}, batch {batch}: {error}", flush=True)
            return []
    halves = kernels[: len(kernels) // 2], kernels[len(kernels) // 2 :]
    return [table for half in halves for table in bench_all(half, layer, batch, **options)]


def can_launch(kernel: Variant, layer: Layer) -> bool:
    """Return whether a kernel can run on a layer on this device; print the error if it cannot."""
    try:
        with kernel.plan(layer, 1):
            return True
    except EngineError as error:
        print(f"FAILED {kernel.label} on {layer.name}: {error}", flush=True)
        return False


def measure_kernels(own: Sequence[Variant], beside: Sequence[Variant], layers: Iterable[Layer], batches: Sequence[int],
                    keep: bool, repeat: int | None = None) -> list[pd.DataFrame]:
    """Measure kernels, and keep the times of each layer and batch at once.

    Those of `own` are measured with each batch, twice: `op_again_ms` is the second time. Those of `beside` are measured
    with the largest batch.
    """
    tables = []
    for layer in layers:
        launchable = [kernel for kernel in beside if can_launch(kernel, layer)]
        for batch in batches:
            start = time.perf_counter()
            several = [*own, *own, *(launchable if batch == max(batches) else ())]
            first = bench_all(own, layer, batch, repeat=1) if own else ()  # for the layer times alone
            layer_ms = {row.label: row.layer_ms for table in first for row in table.itertuples()}
            for table in bench_all(several, layer, batch, repeat=repeat, layer_time=False) if several else ():
                again = table[table.duplicated("label")].set_index("label")["op_ms"]
                table = table.drop_duplicates("label")
                table = table.assign(op_again_ms=table["label"].map(again), layer_ms=table["label"].map(layer_ms))
                tables.append(table)
                if keep:
                    record_times(table)
            print(f"{layer.name}, batch {batch}: {time.perf_counter() - start:.1f} s", flush=True)
    return tables


def measure_network(several: Iterable[Variant], batches: Sequence[int], keep: bool) -> None:
    """Measure the course's table of lenet86 with each kernel inside, on the embedded images."""
    digits = dataset("digits", split="test", size=86)
    for kernel in several:
        network = Network(conv=kernel)
        table = network.course_table(digits.images, digits.labels, batches)
        if keep:
            record_course(table, network)


def summarize(tables: list[pd.DataFrame]) -> str:
    """Return two tables as text: op times [ms] by layer and batch; op over reference time at the largest batch."""
    table = pd.concat(tables, ignore_index=True)
    op_ms = table.pivot_table(index="label", columns=["layer", "batch"], values="op_ms", sort=False)
    largest = table[table["batch"] == table["batch"].max()]
    over = largest.pivot_table(index="label", columns="layer", values="x_reference", sort=False)
    return "\n".join([
        f"op time [ms], {table['device'].iloc[0]}", op_ms.to_string(float_format="{:.4g}".format),
        f"\nop time over reference, batch {largest['batch'].iloc[0]}", over.to_string(float_format="{:.1f}".format),
    ])


def times(
    rungs: Rungs = None,
    missing: Annotated[bool, Option("--missing", help="Only what is new or has changed.")] = False,
    compared: Annotated[bool, Option("--compared", help="Without the rungs' own kernels.")] = False,
    network: Annotated[
        bool, Option("--network", help="Only the network's times and accuracies: after a training of its weights.")
    ] = False,
    check_only: Annotated[bool, Option("--check", help="Measure nothing.")] = False,
    layer: Layers = None,
    batch: Batches = None,
    repeat: Repeat = None,
    dry: Dry = False,
) -> None:
    """Check and measure kernels: data/results/.

    The kernels are those of rungs, their sub-steps, and what their pages compare with them: at the largest batch.
    """
    start, here = time.perf_counter(), device()
    print(here.name, f"({here.engine} engine)")
    own = [] if compared else [variant(rung.number) for rung in chosen(rungs)]
    if network:
        measure_network(own, batch or BATCHES[here.engine], not dry)
        return
    beside = [other for rung in chosen(rungs) for other in (*variants(rung.number)[1:], *solutions(rung.number))]
    if missing:
        own, beside = list_unrecorded(own), list_unrecorded(beside)
    # The tests check the compared kernels on the test shapes; here they are checked on the measured layers.
    layers = choose_layers(layer)
    measured = [(layer, 2) for layer in layers]
    shapes = {**dict.fromkeys(beside, measured), **dict.fromkeys(own, (*TEST_SHAPES, *measured))}
    jobs.compile_all(jobs.make_job(kernel, layer) for kernel, several in shapes.items() for layer, _ in several)
    print(f"{len(shapes)} kernels compiled, {time.perf_counter() - start:.0f} s", flush=True)
    own, beside = (check_kernels(several, shapes[several[0]]) if several else [] for several in (own, beside))
    print(f"checked, {time.perf_counter() - start:.0f} s", flush=True)
    if not check_only:
        batches = batch or BATCHES[here.engine]
        tables = measure_kernels(own, beside, layers, batches, not dry, repeat)
        measure_network(own, batches, not dry)
        if tables:
            print(f"{time.perf_counter() - start:.0f} s in all\n\n{summarize(tables)}")
    failed = [kernel.label for kernel in shapes if kernel not in own + beside]
    if failed:
        raise LabError(f"these kernels failed: {', '.join(failed)}")
