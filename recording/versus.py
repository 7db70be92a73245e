"""The fastest kernels of the ladder and the libraries, interleaved in one run, for data/versus/.

Every contestant computes one of two inputs in turn. It is checked before and after; in between,
each round times each contestant once, in random order, after the L2 cache was overwritten. The last of
ours in half and in float take part twice: what their two times differ by is noise. The largest batches
come first, and the file grows with each. `recording.libraries` says which libraries these are. One that
is not installed, fails, or is wrong is left out, and the output says so; a wrong kernel of the ladder ends the run.
"""

import functools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from itertools import product
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

import hostcuda
from labkit import LabError, Layer, conv_float64, variant
from labkit.base.numerals import format_digits
from labkit.ladder.variants import Variant
from labkit.measure.bench import quartiles
from labkit.measure.compare import tolerance
from labkit.spec.reference import error_scale
from recording import jobs
from recording.cudnn import BATCHES, CHECKED_IMAGES
from recording.gpu import describe_torch, make_l2_flush, require_gpu, require_torch, time_torch
from recording.keep import record_table, stamp
from recording.libraries import LIBRARIES, Contestant, Given
from recording.options import Batches, Dry, Folder, Layers, Repeat, choose_layers

OURS = ((7, None), (10, None), (10, "warpgroups"), (11, None), (11, "warpgroups"))  # rung, its step
AGAIN = ", again"  # what the label of a kernel ends with when it takes part a second time
INPUTS, REPEAT, WARM_UP = 2, 50, 3


def list_kernels() -> list[Variant]:
    """Return the kernels of the lab that are compared with the libraries."""
    return [variant(number, **({"step": step} if step else {})) for number, step in OURS]


def list_own(
    stack: ExitStack, layer: Layer, inputs: list[np.ndarray], k: np.ndarray
) -> Iterator[Contestant]:
    """Yield the lab's kernels as contestants: `run(i)` computes input i from arrays that are on the device already.

    `stack` frees these arrays. The output has the type of the kernel, float or half.
    """
    for kernel in list_kernels():  # defaults of arguments bind what changes with the kernel
        dtype, batch = kernel.io_dtype, len(inputs[0])
        plans = [stack.enter_context(kernel.plan(layer, batch)) for _ in inputs]
        for plan, x in zip(plans, inputs, strict=True):
            plan.load(x.astype(dtype), k.astype(dtype))

        def result(i, plans=plans, dtype=dtype):
            """Return the first images of the output for input i."""
            y = np.empty((CHECKED_IMAGES, *layer.y_shape(1)[1:]), dtype)
            hostcuda.driver.memcpy_dtoh(y, plans[i].y)
            return y

        yield Contestant(
            label=kernel.label,
            layout="NCHW",
            run=lambda i, stream=None, plans=plans: plans[i].run(stream),
            result=result,
            half=dtype == np.float16,
            # `scale`: the sum of |x| |k| of each output
            allowed=lambda scale, kernel=kernel: tolerance(kernel.rounding, scale, layer.terms),
        )


def _list_libraries(given: Given, names: Sequence[str]) -> Iterator[Contestant]:
    """Yield the contestants of those LIBRARIES that work here, and print why others are left out."""
    for name in names:
        try:
            yield from LIBRARIES[name](given)
        except Exception as error:  # the others are still worth a measurement
            _print_left_out(name, f"{type(error).__name__}: {str(error).strip()[:400]}")


@functools.cache  # the same reason is printed once, not with each layer and batch
def _print_left_out(name: str, reason: str) -> None:
    """Print why a library or a contestant is left out, at the first call with this reason."""
    print(f"{name} is left out: {reason}", flush=True)


def select_correct(contestants: list[Contestant], given: Given, when: str) -> list[Contestant]:
    """Run the contestants on all inputs; return those whose results are right, and print why others are left out.

    `when` is a word of the message, "before" or "after" the timed runs. Raises LabError if one of
    the lab's own kernels is wrong: then nothing is recorded.
    """
    references, passed = {}, []
    for is_half in (False, True):
        dtype = np.float16 if is_half else np.float32
        rounded = [(x[:CHECKED_IMAGES].astype(dtype), given.k.astype(dtype)) for x in given.inputs]
        # of each input: the output in float64, and the sums of |x| |k| that bound its error
        references[is_half] = [(conv_float64(*pair), error_scale(*pair)) for pair in rounded]
    for contestant in contestants:
        try:
            for i, (y, scale) in enumerate(references[contestant.half]):
                contestant.run(i)
                if not (np.abs(contestant.result(i) - y) <= contestant.allowed(scale)).all():
                    description = f"{contestant.label}, {contestant.layout}, on {given.layer}"
                    raise LabError(f"{description}: wrong {when} the timed runs")
            passed.append(contestant)
        except Exception as error:
            is_own = contestant.label[0].isdigit()  # "10 speed of light"
            if is_own:
                raise
            _print_left_out(contestant.label, f"{type(error).__name__}: {str(error).strip()[:400]}")
    return passed


def time_in_turns(
    torch, contestants: Sequence[Contestant], repeat: int, flush: Callable[[], object]
) -> np.ndarray:
    """Return the times [ms] of contestants, shape [contestants, repeat]: each runs once per round, in random order.

    `flush` is called before each run, to empty the L2 cache. Each round computes one of the INPUTS
    inputs, in turn.
    """
    times, rng = np.empty((len(contestants), repeat)), np.random.default_rng(0)
    # Passes below 0 warm up: the time of pass 0 overwrites theirs.
    for pass_number in range(-WARM_UP, repeat):
        for n in rng.permutation(len(contestants)):
            times[n, max(pass_number, 0)] = time_torch(
                torch,
                functools.partial(contestants[n].run, pass_number % INPUTS),
                flush,
            )
    return times


def measure_all(given: Given, repeat: int, libraries: Sequence[str]) -> pd.DataFrame:
    """Time the lab's kernels and the libraries in random order; return a row per contestant.

    A row has the median, the quartiles, the least and the largest of `repeat` times in
    milliseconds. `libraries` are keys of LIBRARIES. A library with a wrong result has no row; LabError
    if one of the lab's kernels is wrong before or after timing. Two kernels take part twice, with a row
    each, which shows the noise (`find_noise`).
    """
    torch, layer = given.torch, given.layer
    flush, _ = make_l2_flush(torch)
    with ExitStack() as stack:
        own = list(list_own(stack, layer, given.inputs, given.k))
        last = {kernel.half: kernel for kernel in own}.values()  # the last in half and in float
        repeated = [replace(kernel, label=kernel.label + AGAIN) for kernel in last]
        contestants = [*own, *repeated, *_list_libraries(given, libraries)]
        contestants = select_correct(contestants, given, "before")
        times = time_in_turns(torch, contestants, repeat, flush)
        passed = select_correct(contestants, given, "after")
    columns = {
        "network": layer.network,
        "layer": int(layer.name[-1]),  # 1 of "lenet86 layer 1"
        "batch": len(given.inputs[0]),
    }
    return pd.DataFrame(
        [
            {
                **columns,
                "label": contestant.label,
                "layout": contestant.layout,
                "how": contestant.how,
                **quartiles(ms),  # min_ms, q1_ms, median_ms, q3_ms, max_ms
                "repeat": repeat,
            }
            for contestant, ms in zip(contestants, times, strict=True)
            if contestant in passed
        ]
    )


def find_noise(table: pd.DataFrame) -> float:
    """Return the largest relative difference between two medians of a kernel that took part twice; 0 if none did."""
    again = table["label"].str.endswith(AGAIN)
    keys = ["label", "network", "layer", "batch"]
    names = table["label"].str.removesuffix(AGAIN)
    pairs = table[~again].merge(table[again].assign(label=names), on=keys, suffixes=("", "_again"))
    return (
        float((pairs["median_ms_again"] / pairs["median_ms"] - 1).abs().max())
        if len(pairs)
        else 0.0
    )


def to_markdown(table: pd.DataFrame) -> str:
    """Return the times of `measure_all`, of each contestant's faster layout, in Markdown for docs/results.md.

    A row per contestant, a column per layer: "0.12 · 1.2 · 12", milliseconds at each batch.
    """
    noise = find_noise(table)
    table = table[~table["label"].str.endswith(AGAIN)]
    best = (
        table.groupby(["label", "network", "layer", "batch"], sort=False)["median_ms"]
        .min()
        .reset_index()
    )
    # whether it computes in half precision: "10 speed of light", "cuDNN FP16"
    best["half"] = best["label"].str.match("10 |.*FP16")
    least = best.groupby(["half", "network", "layer", "batch"])["median_ms"].transform("min")
    texts = best["median_ms"].map(format_digits)
    # bold where it is the least
    texts = texts.where(best["median_ms"] > least, "**" + texts + "**")
    keys = best[["label", "network", "layer", "batch"]].itertuples(index=False, name=None)
    cells = dict(zip(keys, texts, strict=True))
    batches = sorted(int(size) for size in table["batch"].unique())
    layers = list(table[["network", "layer"]].drop_duplicates().itertuples(index=False, name=None))
    first, plans = table.iloc[0], table.loc[table["label"].str.startswith("cuDNN"), "how"].unique()
    lines = [
        f"Op time in milliseconds with {' · '.join(f'{batch:,}' for batch in batches)} images, {first['device']}, "
        f"{first['date']}, PyTorch{first['software'].partition('PyTorch')[2]}.",
        "",
        f"*Run:* all kernels were measured alternately in one run, {first['repeat']} times each. The table has the "
        "medians. All results were checked before and after the run.",
        "",
        *(
            [
                f"*Noise:* some kernels were measured twice in the run, {first['repeat']} times each. The two medians "
                f"of such a kernel differ by up to {100 * noise:.1f} %.",
                "",
            ]
            if noise
            else []
        ),
        f"*cuDNN* was measured in two data layouts, with {' or '.join(plans)}. The table has the shortest time.",
        "",
        "*Bold:* for each layer and number of images, two times are bold: the shortest for halves, and the shortest "
        "for floats.",
        "",
        "*Precision:* kernel 10 and the rows with FP16 read and write halves. All other rows read and write floats. "
        "The rows with TF32 round the inputs.",
        "",
        "| | " + " | ".join(f"{network} layer {layer}" for network, layer in layers) + " |",
        "|---|" + "---:|" * len(layers),
    ]
    for label in best["label"].unique():
        row = [
            " · ".join(cells.get((label, *layer, batch), "–") for batch in batches)
            for layer in layers
        ]
        lines.append(f"| {label} | {' | '.join(row)} |")
    return "\n".join(lines)


def versus(
    repeat: Repeat = None,
    batch: Batches = None,
    only: Layers = None,
    without: Annotated[
        list[str] | None, Option(help=f"One of {', '.join(LIBRARIES)}; may be repeated.")
    ] = None,
    dry: Dry = False,
    out: Folder = None,
) -> None:
    """Measure ours and others in one run: data/versus/.

    The lab's fastest kernels and the libraries (cuDNN, Triton and others) compute each layer, in
    random order. The table is written after each layer and batch.
    """
    here = require_gpu("this comparison needs an NVIDIA GPU that PyCUDA and PyTorch can use")
    torch = require_torch()
    if unknown := set(without or ()) - set(LIBRARIES):
        raise LabError(
            f"--without {', '.join(sorted(unknown))}: it is one of {', '.join(LIBRARIES)}"
        )
    layers, batches = choose_layers(only), sorted(batch or BATCHES)
    hostcuda.ensure_context()
    jobs.compile_all(jobs.make_job(kernel, layer) for kernel in list_kernels() for layer in layers)
    names = [name for name in LIBRARIES if name not in (without or ())]
    spent, tables = Counter(), {}  # spent: seconds of each library's searches so far
    for B in reversed(batches):  # the largest first: the searches' limits (SECONDS) are for a run
        for layer in layers:
            rng = np.random.default_rng(7)
            inputs = [rng.random(layer.x_shape(B), dtype=np.float32) for _ in range(INPUTS)]
            # masks from -0.25 to 0.75: of both signs, so that sums also cancel
            k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
            tables[layer, B] = measure_all(
                Given(torch, layer, inputs, k, spent), repeat or REPEAT, names
            )
            torch.cuda.empty_cache()
            so_far = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in spent.items())
            print(f"{layer.name}, {B} images: measured; so far {so_far}", flush=True)
            in_order = [tables[key] for key in product(layers, batches) if key in tables]
            table = stamp(
                pd.concat(in_order, ignore_index=True), f"{here.software}, {describe_torch(torch)}"
            )
            if not dry:
                # If all layers were measured, the file is replaced; if some, the others' rows stay.
                path = record_table(
                    table, "versus", out, ["network", "layer", "batch"] if only else None
                )
    # the fastest layout's time
    best = table.groupby(["label", "network", "layer", "batch"], sort=False)["median_ms"].min()
    print(
        f"\n{best.unstack(['network', 'layer', 'batch']).to_string(float_format='{:.4g}'.format)}"
    )
    if not dry:
        print(f"\nkept in {path}; `python -m recording pictures` puts it into docs/results.md")
