"""The fastest kernels of the ladder and their opponents, interleaved in one run, for data/versus/.

Every contestant computes one of two inputs in turn. It is checked before and after; in between, each round times each
contestant once, in random order, after four times the size of the L2 cache was written. The last of ours in half takes
part twice: what its two times differ by is noise. The largest batches come first, and the file grows with each.
`recording.opponents` says who the opponents are. One that is not installed, fails, or is wrong is left out, and the
output says so; a wrong kernel of the ladder ends the run.
"""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

import hostcuda
from labkit.base.errors import LabError
from labkit.base.numerals import three
from labkit.base.paths import data_dir
from labkit.ladder.variants import variant
from labkit.measure.bench import quartiles
from labkit.measure.compare import tolerance
from labkit.spec.devices import device
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64, error_scale
from recording import jobs
from recording.cudnn import BATCHES, describe_software
from recording.keep import merge_rows
from recording.opponents import CHECKED, OPPONENTS, PLANS, Contestant, Given
from recording.options import Batches, Dry, Folder, Layers, Repeat, choose_layers

OURS = tuple((number, step) for number, step in ((7, None), (10, None), (10, "warpgroups"), (11, None),
                                                 (11, "warpgroups")))
AGAIN = ", again"  # what the label of a kernel ends with when it takes part a second time
INPUTS, REPEAT, WARM_UP = 2, 20, 3
TOLD = {
    "torch.compile": "torch.compile chooses among cuDNN and kernels of its own (max-autotune).",
    "Triton": "Triton: an implicit matrix product of ours, with the fastest of three tiles.",
    "cuTile": "cuTile: the same, with the fastest of three tiles.",
    "CUTLASS": "CUTLASS: its implicit matrix product for few channels, with the faster of two tiles. "
               "3×TF32 takes three products for one, as 11 does.",
}


def _list_kernels():
    return [variant(number, **({"step": step} if step else {})) for number, step in OURS]


def _list_own(stack: ExitStack, layer: Layer, inputs: list[np.ndarray], k: np.ndarray) -> Iterator[Contestant]:
    """Yield the ladder's kernels as contestants, each with a plan per input that holds x and k."""
    for kernel in _list_kernels():
        dtype, batch = kernel.io_dtype, len(inputs[0])
        plans = [stack.enter_context(kernel.plan(layer, batch)) for _ in inputs]
        for plan, x in zip(plans, inputs, strict=True):
            plan.load(x.astype(dtype), k.astype(dtype))

        def result(i, plans=plans, dtype=dtype):
            y = np.empty((CHECKED, *layer.y_shape(1)[1:]), dtype)
            hostcuda.driver.memcpy_dtoh(y, plans[i].y)
            return y

        yield Contestant(kernel.label, "NCHW", lambda i, plans=plans: plans[i].run(), result, dtype == np.float16,
                         lambda scale, kernel=kernel: tolerance(kernel.rounding, scale, layer.terms))


def _list_opponents(given: Given, names: Sequence[str], printed_lines: set[str]) -> Iterator[Contestant]:
    """Yield the contestants of those OPPONENTS that work here. A line of `printed_lines` is not printed again."""
    for name in names:
        try:
            yield from OPPONENTS[name](given)
        except Exception as error:  # the others are still worth a measurement
            _leave_out(name, error, printed_lines)


def _leave_out(name: str, error: Exception, printed_lines: set[str]) -> None:
    line = f"{name} is left out: {type(error).__name__}: {str(error).strip()[:400]}"
    if line not in printed_lines:
        print(line, flush=True)
        printed_lines.add(line)


def _select_correct(contestants: list[Contestant], given: Given, when: str, printed: set[str]) -> list[Contestant]:
    """Return the contestants whose results of both inputs are right.

    Raises
    ------
    LabError
        If a kernel of the ladder is wrong.
    """
    layer, passed = given.layer, []
    for is_half in (False, True):
        references = []
        for x in given.inputs:
            images, mask = (array.astype(np.float16) if is_half else array for array in (x[:CHECKED], given.k))
            references.append((conv_float64(images, mask), error_scale(images, mask)))
        for contestant in contestants:
            if contestant.half != is_half:
                continue
            try:
                for i, (y, scale) in enumerate(references):
                    contestant.run(i)
                    if not (np.abs(contestant.result(i) - y) <= contestant.allowed(scale)).all():
                        description = f"{contestant.label}, {contestant.layout}"
                        raise LabError(f"{description}, on {layer}: wrong {when} the timed runs")
                passed.append(contestant)
            except Exception as error:
                if contestant.label[0].isdigit():
                    raise
                _leave_out(contestant.label, error, printed)
    return [contestant for contestant in contestants if contestant in passed]


def measure_all(given: Given, repeat: int, opponents: Sequence[str], printed_lines: set[str]) -> pd.DataFrame:
    """Return a row per contestant: median, quartiles, least and largest of `repeat` times in milliseconds.

    Raises
    ------
    LabError
        If a result of the ladder's kernels is wrong, before or after the timed runs.
    """
    torch, layer = given.torch, given.layer
    l2_flush = torch.empty(2 * torch.cuda.get_device_properties(0).L2_cache_size, dtype=torch.uint8, device="cuda")
    with ExitStack() as stack:
        own = list(_list_own(stack, layer, given.inputs, given.k))
        repeated = [replace(kernel, label=kernel.label + AGAIN) for kernel in own if kernel.half][-1:]
        contestants = [*own, *repeated, *_list_opponents(given, opponents, printed_lines)]
        contestants = _select_correct(contestants, given, "before", printed_lines)
        times, rng = np.empty((len(contestants), repeat)), np.random.default_rng(0)
        for pass_number in range(-WARM_UP, repeat):
            for n in rng.permutation(len(contestants)):
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                l2_flush.zero_()
                l2_flush.zero_()  # long enough for the launches to be in the queue when it ends
                start.record()
                contestants[n].run(pass_number % INPUTS)
                end.record()
                end.synchronize()
                times[n, max(pass_number, 0)] = start.elapsed_time(end)  # those of the warm-up are overwritten
        passed = _select_correct(contestants, given, "after", printed_lines)
    columns = {"network": layer.network, "layer": int(layer.name[-1]), "batch": len(given.inputs[0])}
    rows = [{**columns, "label": contestant.label, "layout": contestant.layout, "how": contestant.how,
             **quartiles(ms), "repeat": repeat}
            for contestant, ms in zip(contestants, times, strict=True) if contestant in passed]
    return pd.DataFrame(rows)


def summarize(table: pd.DataFrame) -> str:
    """Return a table as text: the best layout of each contestant, in milliseconds."""
    best = table.groupby(["label", "network", "layer", "batch"], sort=False)["median_ms"].min()
    return best.unstack(["network", "layer", "batch"]).to_string(float_format="{:.4g}".format)


def _join_numbers(batches: Sequence[int], between: str = " and ") -> str:
    return between.join(f"{batch:,}" for batch in batches)


def _describe_plans(table: pd.DataFrame, batches: Sequence[int]) -> str:
    """Return a phrase that says among how many plans cuDNN chose."""
    library = table[table["label"].str.startswith("cuDNN")]
    how = library["how"] if "how" in library else pd.Series(f"{PLANS} plans", library.index)
    full = [batch for batch in batches if (how[library["batch"] == batch] == "all plans").all()]
    if len(full) == len(batches):
        return " and the fastest of all its plans"
    return f" and the fastest of {PLANS} plans" + (f" (of all with {_join_numbers(full)} images)" if full else "")


def to_markdown(table: pd.DataFrame) -> str:
    """Return the best layout's times of each contestant in Markdown for docs/results.md: milliseconds per batch."""
    table = table[~table["label"].str.endswith(AGAIN)]
    best = table.groupby(["label", "network", "layer", "batch"], sort=False)["median_ms"].min().reset_index()
    best["half"] = best["label"].str.match("10 |.*FP16")
    least = best.groupby(["half", "network", "layer", "batch"])["median_ms"].transform("min")
    texts = best["median_ms"].map(three)
    texts = texts.where(best["median_ms"] > least, "**" + texts + "**")
    keys = best[["label", "network", "layer", "batch"]].itertuples(index=False, name=None)
    cells = dict(zip(keys, texts, strict=True))
    batches = sorted(int(size) for size in table["batch"].unique())
    layers = list(table[["network", "layer"]].drop_duplicates().itertuples(index=False, name=None))
    first = table.iloc[0]
    lines = [
        f"Op time in milliseconds with {_join_numbers(batches, ' · ')} images, {first['device']}, {first['date']}, one "
        f"interleaved run: medians of {first['repeat']} times, of cuDNN the faster of two layouts"
        f"{_describe_plans(table, batches)}, every contestant checked before and after "
        f"(PyTorch{first['software'].partition('PyTorch')[2]}). Bold: the fastest in float and in half. "
        "10 and FP16 read and write halves, the others floats, which TF32 rounds."
        + "".join(f" {text}" for name, text in TOLD.items() if table["label"].str.startswith(name).any()),
        "",
        "| | " + " | ".join(f"{network} layer {layer}" for network, layer in layers) + " |",
        "|---|" + "---:|" * len(layers),
    ]
    for label in best["label"].unique():
        row = [" · ".join(cells.get((label, *layer, batch), "–") for batch in batches) for layer in layers]
        lines.append(f"| {label} | {' | '.join(row)} |")
    return "\n".join(lines)


def versus(
    repeat: Repeat = None,
    batch: Batches = None,
    only: Layers = None,
    without: Annotated[list[str] | None, Option(help=f"One of {', '.join(OPPONENTS)}; may be repeated.")] = None,
    dry: Dry = False,
    out: Folder = None,
) -> None:
    """Measure ours and others in one run: data/versus/."""
    try:
        import torch  # nothing else in the lab needs it
    except ModuleNotFoundError:
        raise LabError("cuDNN is measured through PyTorch: https://pytorch.org/get-started/locally") from None
    here = device()
    if here.engine != "gpu" or not torch.cuda.is_available():
        raise LabError(f"this comparison needs an NVIDIA GPU that PyCUDA and PyTorch can use; here is {here.name}")
    if unknown := set(without or ()) - set(OPPONENTS):
        raise LabError(f"--without {', '.join(sorted(unknown))}: it is one of {', '.join(OPPONENTS)}")
    layers, batches = choose_layers(only), sorted(batch or BATCHES)
    hostcuda.ensure_context()
    jobs.compile_all(jobs.make_job(kernel, layer) for kernel in _list_kernels() for layer in layers)
    names = [name for name in OPPONENTS if name not in (without or ())]
    printed, spent, tables = set(), Counter(), {}
    for B in reversed(batches):
        for layer in layers:
            rng = np.random.default_rng(7)
            inputs = [rng.random(layer.x_shape(B), dtype=np.float32) for _ in range(INPUTS)]
            k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
            tables[layer, B] = measure_all(Given(torch, layer, inputs, k, spent), repeat or REPEAT, names, printed)
            torch.cuda.empty_cache()
            so_far = ", ".join(f"{name} {seconds:.0f} s" for name, seconds in spent.items())
            print(f"{layer.name}, {B} images: measured; so far {so_far}", flush=True)
            table = pd.concat([tables[key] for key in ((layer, B) for layer in layers for B in batches)
                               if key in tables], ignore_index=True)
            table.insert(0, "date", datetime.date.today().isoformat())
            table.insert(1, "device", here.name)
            table.insert(2, "software", f"{here.software}, {describe_software(torch)}")
            if not dry:
                path = Path(out or data_dir()) / "versus" / f"{here.slug}.csv"
                merge_rows(path, table, ["network", "layer", "batch"] if only else None, digits=5)
    print(f"\n{summarize(table)}")
    if not dry:
        print(f"\nkept in {path}; `python -m recording pictures` puts it into docs/results.md")
