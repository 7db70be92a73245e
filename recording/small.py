"""Small batches: what a call takes and what a pass of a CUDA graph, for data/small/.

The ladder's fastest kernels, cuDNN, and a kernel that does nothing are measured in one interleaved run per layer and
batch. "call" is a call after the L2 cache was overwritten, as in `recording.versus`. "graph" is a pass of a CUDA graph
of PASSES passes: nothing is overwritten, and no pass waits for the host. The ladder's kernels have three more batches:
FEW images, an image per multiprocessor, and two. FEW and an image per multiprocessor show what the way of an
image through a device takes whose blocks have one each, the step to two what a block takes for one more.
"""

import functools
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace

import numpy as np
import pandas as pd

import hostcuda
from hostcuda.graphs import Graph
from labkit.base.numerals import format_digits
from labkit.measure.bench import quartiles, time_run
from labkit.spec import devices
from recording import jobs, versus
from recording.cudnn import CHECKED_IMAGES as FEW
from recording.gpu import describe_torch, make_l2_flush, require_gpu, require_torch, time_torch
from recording.keep import record_table, stamp
from recording.libraries import Given, list_cudnn
from recording.options import LAYERS, Dry, Folder, Layers, Repeat, choose_layers

BATCH, PASSES = 100, 50
AGAIN = versus.AGAIN
NOTHING = "an empty kernel"
WAYS = ("call", "graph")
# The data type, the products of the bound, and whose rows are below it.
GROUPS: dict[str, tuple[str, str, Callable[[str], bool]]] = {
    "half": ("float16", "", lambda label: label.startswith("10 ") or label.endswith("FP16")),
    "float": (
        "float32",
        "3×FP16",
        lambda label: label[:3] in ("07 ", "11 ") or label.endswith(("TF32", "FP32")),
    ),
}


def _launch_nothing() -> Callable:
    """Return a function that launches a kernel without instructions, with a block per multiprocessor.

    Its arguments are those of a contestant's `run`: i, the input, which it does not need, and a stream.
    """
    module = hostcuda.compiler.SourceModule("__global__ void nothing(int) {}")
    kernel, (blocks, _) = module.get_function("nothing"), devices.read_launch_limits()
    return lambda i, stream=None: kernel(
        np.int32(0), grid=(blocks, 1, 1), block=(256, 1, 1), stream=stream
    )


def _record_graph(
    stack: ExitStack, torch, flush: Callable, stream, run: Callable
) -> Callable[[], float]:
    """Return a function that replays a graph of PASSES calls of `run` and returns the time of one [ms].

    `run` is that of a contestant: run(0) computes the first input. `stream` is a stream of hostcuda
    for kernels of the ladder, which take one; a false value for others, whose graph PyTorch
    records. `stack` closes the graph.
    """
    if stream:
        graph = Graph(lambda: [run(0, stream) for _ in range(PASSES)], stream)
        stack.enter_context(closing(graph))

        def replay():
            """Launch the graph; return the time of one of its passes [ms]."""
            flush()  # keeps the device busy until the graph is in the queue
            return time_run(graph.launch, stream) / PASSES

        return replay
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(PASSES):
            run(0)
    return lambda: time_torch(torch, graph.replay, flush) / PASSES


def measure_batch(given: Given, repeat: int, libraries: bool) -> pd.DataFrame:
    """Return a row per contestant and way, "call" or "graph": median, quartiles, least and largest time [ms].

    The contestants are the ladder's kernels, an empty kernel and, if `libraries`, cuDNN; each is
    timed `repeat` times. `given` has their layer, inputs and mask. If cuDNN is wrong it has no row;
    raises LabError if a kernel of the ladder is wrong before or after timing.
    """
    torch, layer = given.torch, given.layer
    flush, _ = make_l2_flush(torch)  # overwrites the L2 cache before each timed run
    with ExitStack() as stack:
        own = list(versus.list_own(stack, layer, given.inputs, given.k))
        # the last one in half and in float takes part twice: the two times tell how well times repeat
        repeated = {kernel.half: kernel for kernel in own}.values()
        contestants = [*own, *(replace(kernel, label=kernel.label + AGAIN) for kernel in repeated)]
        contestants += list_cudnn(given) if libraries else []
        contestants = versus.select_correct(contestants, given, "before")
        # by label and layout; NOTHING is the label of the empty kernel
        # run(0) computes the first input.
        runs = {(NOTHING, "NCHW"): _launch_nothing()}
        runs |= {
            (contestant.label, contestant.layout): contestant.run for contestant in contestants
        }
        # One stream for all graphs: the calls are on the default stream, which waits for every
        # other stream.
        # `ways`: (label, layout, "call" or "graph") -> function that returns a time [ms]
        ways, stream = {}, hostcuda.driver.Stream()
        for (label, layout), run in runs.items():
            call = functools.partial(time_torch, torch, functools.partial(run, 0), flush)
            # a kernel of the ladder, "07 tuning", takes a stream; the others get False: PyTorch has its own
            is_own = label == NOTHING or label[0].isdigit()
            ways[label, layout, "call"] = call
            ways[label, layout, "graph"] = _record_graph(
                stack, torch, flush, is_own and stream, run
            )
        times, rng = np.empty((len(ways), repeat)), np.random.default_rng(0)
        # passes below 0 warm up: the time of pass 0 replaces theirs
        for pass_number in range(-versus.WARM_UP, repeat):
            for n in rng.permutation(len(ways)):
                measure_ms = list(ways.values())[n]
                times[n, max(pass_number, 0)] = measure_ms()
        passed = versus.select_correct(contestants, given, "after")
    correct = {(NOTHING, "NCHW"), *((contestant.label, contestant.layout) for contestant in passed)}
    columns = {
        "network": layer.network,
        "layer": int(layer.name[-1]),  # 1 of "lenet86 layer 1"
        "batch": len(given.inputs[0]),
    }
    return pd.DataFrame(
        [
            {
                **columns,
                "label": label,
                "layout": layout,
                "way": way,
                **quartiles(ms),
                "repeat": repeat,
            }
            for (label, layout, way), ms in zip(ways, times, strict=True)
            if (label, layout) in correct
        ]
    )


def _format_medians(medians: pd.Series, *keys: tuple) -> str:
    """Return the median of calls and that of graphs in microseconds, "9.6 · 5.4": for each the least of these keys.

    `medians` [ms] is indexed by a key (network, layer, batch, label, layout) and the way.
    """
    return " · ".join(
        format_digits(1e3 * min(medians[(*key, way)] for key in keys)) for way in WAYS
    )


def to_markdown(table: pd.DataFrame) -> str:
    """Return the times of `measure_batch` as two tables in Markdown for docs/results.md.

    The first has BATCH images: a row per contestant, a column per layer, "9.6 · 5.4", a call and a
    pass of a graph in microseconds; cuDNN's are those of its faster layout. The rows *bound* are
    what an empty kernel takes, and the reference time of an image per multiprocessor. The second
    has the passes of the ladder's kernels with other batches: "5.2 · 5.6 · 2.2" is that of FEW
    images, of an image per multiprocessor, and what a second image per multiprocessor adds.
    """
    gpu = devices.device(table["device"].iloc[0])
    # the batch with an image per multiprocessor; another one has two
    one_each = int(min(set(table["batch"]) - {BATCH, FEW}))
    layers = [
        layer
        for layer in LAYERS
        if ((table["network"] == layer.network) & (table["layer"] == int(layer.name[-1]))).any()
    ]
    keys = ["network", "layer", "batch", "label", "layout", "way"]
    medians = table.set_index(keys)["median_ms"].sort_index()

    def list_keys(layer, label, batch=BATCH):
        """Return a contestant's keys (network, layer, batch, label, layout), one per layout."""
        key = (layer.network, int(layer.name[-1]), batch, label)
        layouts = medians.loc[key].index.get_level_values("layout").unique()
        return [(*key, layout) for layout in layouts]

    def write_bound(layer, dtype, products):
        """Return a cell of a row *bound*, for a call and for a pass of a graph."""
        work = layer.bytes(one_each, dtype), layer.flops(one_each)
        reference_ms = 1e3 * gpu.reference_s(*work, dtype, products)
        nothing = list_keys(layer, NOTHING)[0]
        # 1e3: µs
        return " · ".join(
            format_digits(1e3 * (medians[(*nothing, way)] + reference_ms)) for way in WAYS
        )

    first, labels = table.iloc[0], table["label"].unique()
    heading = [
        "| | " + " | ".join(layer.name for layer in layers) + " |",
        "|---|" + "---:|" * len(layers),
    ]
    lines = [
        f"Times for {BATCH} images in microseconds, {first['device']}, {first['date']}, "
        f"PyTorch{first['software'].partition('PyTorch')[2]}.",
        "",
        "*First number:* the time of one call of the kernel. Before the call, the L2 cache was filled with other data.",
        "",
        f"*Second number:* the time of a [CUDA graph](glossary.md#cuda-graph) with {PASSES} calls of the kernel, "
        f"divided by {PASSES}.",
        "",
        f"*Run:* the kernels of a layer were measured alternately in one run. Each number is the median of "
        f"{first['repeat']} measurements. cuDNN's times are those of the faster of two layouts.",
        "",
        "*Bound:* an estimate of the shortest possible time if each multiprocessor computes whole images. The GPU has "
        f"{one_each} multiprocessors, so {BATCH} images take as long as {one_each}. The bound is the reference time of "
        f"{one_each} images, plus the time of an empty kernel.",
        "",
        *heading,
    ]
    for title, (dtype, products, is_in_group) in GROUPS.items():
        bounds = (write_bound(layer, dtype, products) for layer in layers)
        lines.append(f"| *bound in {title}* | {' | '.join(bounds)} |")
        for label in labels:
            if is_in_group(label) and AGAIN not in label:
                cells = (_format_medians(medians, *list_keys(layer, label)) for layer in layers)
                lines.append(f"| {label} | {' | '.join(cells)} |")
    nothing = (_format_medians(medians, *list_keys(layer, NOTHING)) for layer in layers)
    lines += [
        f"| {NOTHING} | {' | '.join(nothing)} |",
        "",
        f"The next table has times of one call in a CUDA graph, in microseconds. The first number is for {FEW} images, "
        f"and the second number for {one_each} images. The third number is the time for {2 * one_each} images minus "
        f"the time for {one_each} images.",
        "",
        *heading,
    ]
    for label in labels:
        if label[0].isdigit() and AGAIN not in label:
            cells = []
            for layer in layers:
                # 1e3: µs
                few, one, two = (
                    1e3 * medians[(*list_keys(layer, label, batch)[0], "graph")]
                    for batch in (FEW, one_each, 2 * one_each)
                )
                cells.append(" · ".join(map(format_digits, (few, one, two - one))))
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def small(repeat: Repeat = None, only: Layers = None, dry: Dry = False, out: Folder = None) -> None:
    """Measure small batches: data/small/.

    The lab's fastest kernels and cuDNN compute a few images per launch. They are timed one call at a
    time, and as CUDA graphs of many calls. The table is written after each layer and batch.
    """
    here = require_gpu(
        "small batches are measured on an NVIDIA GPU that PyCUDA and PyTorch can use"
    )
    torch, layers = require_torch(), choose_layers(only)
    hostcuda.ensure_context()
    jobs.compile_all(
        jobs.make_job(kernel, layer) for kernel in versus.list_kernels() for layer in layers
    )
    multiprocessors, _ = devices.read_launch_limits()
    spent, tables = Counter(), []
    # the last two batches have one and two images per multiprocessor
    for B in (BATCH, FEW, multiprocessors, 2 * multiprocessors):
        for layer in layers:
            rng = np.random.default_rng(7)
            inputs = [rng.random(layer.x_shape(B), dtype=np.float32)]
            # masks from -0.25 to 0.75: of both signs, so that sums also cancel
            k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
            # one input, in place of each of the several that `versus` has
            given = Given(torch, layer, inputs * versus.INPUTS, k, spent)
            tables.append(measure_batch(given, repeat or versus.REPEAT, libraries=B == BATCH))
            torch.cuda.empty_cache()
            print(f"{layer.name}, {B} images: measured", flush=True)
            table = stamp(
                pd.concat(tables, ignore_index=True), f"{here.software}, {describe_torch(torch)}"
            )
            if not dry:
                record_table(table, "small", out)
    medians = table.set_index(["label", "layout", "way", "network", "layer", "batch"])["median_ms"]
    print(
        (1e3 * medians.unstack(["network", "layer", "batch"])).to_string(
            float_format="{:.4g}".format
        )
    )
