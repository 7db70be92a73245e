"""relu(x + b) in PyTorch, from its own operations and from kernels of one's own, for data/experiments/.

And what timers say of the same kernel: with and without synchronization, on another stream, in L2.
"""

import time
from pathlib import Path

import numpy as np
import pandas as pd

from labkit import LENET86
from labkit.base.errors import CheckFailed, LabError
from labkit.exercises.exercise import by_name
from recording.gpu import describe_torch, make_l2_flush, require_gpu, require_torch, time_torch
from recording.keep import record_table, stamp
from recording.options import Folder

SOURCE = Path(__file__).with_name("bias_relu.cu")
BATCHES, REPEAT = (100, 10_000), 20
SHAPE = LENET86[0].M, LENET86[0].Ho, LENET86[0].Wo  # what layer 1 of lenet86 hands on


def list_operations(torch) -> dict:
    """Return relu(x + b) in several ways, by name, as functions of x and b.

    They are PyTorch's operations, these compiled by torch.compile, and our kernels with two ways to
    compute the gradient of b. x is a tensor [B, M, H, W], b [M]. Raises LabError if there is no ninja.
    """
    from torch.utils.cpp_extension import is_ninja_available

    from recording.bias_relu import build  # it imports PyTorch

    if not is_ninja_available():
        raise LabError("PyTorch builds extensions with ninja: pip install ninja")

    def eager(x, b):
        """Compute it from PyTorch's own operations."""
        return torch.relu(x + b.view(1, -1, 1, 1))

    exercise = by_name("17a")
    return {
        "PyTorch": eager,
        "torch.compile": torch.compile(eager, dynamic=False),
        "ours, an addition per pixel": build(exercise.start, "bias_relu_atomics"),
        "ours, an addition per warp": build(exercise.solution, "bias_relu_warps"),
    }


def check(torch, operations: dict, x, b, dy) -> None:
    """Compare results and gradients of all operations with those of PyTorch in float64; CheckFailed if one is wrong."""
    inputs = [tensor.double().requires_grad_() for tensor in (x, b)]
    exact = torch.relu(inputs[0] + inputs[1].view(1, -1, 1, 1))
    exact.backward(dy.double())
    # A float has an error of up to 6e-8 of its size: the bounds below allow several roundings.
    # The gradient of b sums dy over images and pixels: its error may be in proportion to the sum of |dy|.
    size = dy.abs().double().sum(dim=(0, 2, 3))
    for name, run in operations.items():
        ours = [tensor.clone().requires_grad_() for tensor in (x, b)]
        y = run(*ours)
        y.backward(dy)
        for what, got, expected, bound in (
            ("y", y, exact, 1e-6 * (1 + exact.abs())),
            ("dx", ours[0].grad, inputs[0].grad, 1e-6 * (1 + dy.abs())),
            ("db", ours[1].grad, inputs[1].grad, 1e-5 * size),
        ):
            if not bool(((got.double() - expected).abs() <= bound).all()):
                raise CheckFailed(f"{name}: {what} is wrong")


def measure_operations(torch, batch: int) -> list[dict]:
    """Check and time relu(x + b) in PyTorch in several ways (`list_operations`), one after the other in each round.

    Returns two rows per way: kernel (its name), x (`batch`, the number of images), ms (the median),
    and series, "forward" or "forward and gradient". Raises CheckFailed if a way is wrong.
    """
    operations, shape = list_operations(torch), (batch, *SHAPE)
    x, b, dy = (torch.randn(size, device="cuda") for size in (shape, SHAPE[0], shape))
    check(torch, operations, x[:100], b, dy[:100])  # of the first 100 images
    flush, _ = make_l2_flush(torch)
    # copies of x and b that PyTorch computes gradients of
    needed = [tensor.clone().requires_grad_() for tensor in (x, b)]
    times = {}
    for repeat in range(REPEAT + 3):  # the first three warm up
        for name, run in operations.items():
            with torch.no_grad():
                forward = time_torch(torch, lambda run=run: run(x, b), flush)
            both = time_torch(
                torch, lambda run=run: torch.autograd.grad(run(*needed), needed, dy), flush
            )
            if repeat >= 3:
                times.setdefault((name, "forward"), []).append(forward)
                times.setdefault((name, "forward and gradient"), []).append(both)
    return [
        {"experiment": "pytorch", "kernel": name, "x": batch, "ms": np.median(ms), "series": series}
        for (name, series), ms in times.items()
    ]


def measure_timers(torch, batch: int) -> list[dict]:
    """Time the same run of our kernel in several ways, right and wrong ones, to compare the timers.

    Returns a row per timer: kernel (the timer's name), x (`batch`, the number of images), ms (median).
    """
    run = list_operations(torch)["ours, an addition per warp"]
    x, b = torch.randn((batch, *SHAPE), device="cuda"), torch.randn(SHAPE[0], device="cuda")
    side, (flush, _) = torch.cuda.Stream(), make_l2_flush(torch)

    def run_beside() -> None:
        """Launch on a stream that is not the one of the events."""
        with torch.cuda.stream(side):
            run(x, b)

    def time_host(wait: bool) -> float:
        """Return the time of a launch on the host's clock [ms], up to the end of the kernel if `wait`."""
        torch.cuda.synchronize()
        start = time.perf_counter()
        run(x, b)
        if wait:
            torch.cuda.synchronize()
        return 1e3 * (time.perf_counter() - start)

    timers = {
        "host clock, no synchronization": lambda: time_host(wait=False),
        "host clock, then synchronize": lambda: time_host(wait=True),
        "events": lambda: time_torch(torch, lambda: run(x, b)),
        "events, L2 emptied before": lambda: time_torch(torch, lambda: run(x, b), flush),
        "events, kernel on another stream": lambda: time_torch(torch, run_beside),
    }
    times = {name: [] for name in timers}
    with torch.no_grad():
        for repeat in range(REPEAT + 3):  # the first three warm up
            for name, measure in timers.items():
                ms = measure()
                torch.cuda.synchronize()
                if repeat >= 3:
                    times[name].append(ms)
    return [
        {"experiment": "timers", "kernel": name, "x": batch, "ms": np.median(ms)}
        for name, ms in times.items()
    ]


def extension(out: Folder = None) -> None:
    """Measure our kernel in PyTorch: data/experiments/.

    The kernel of exercise 17a, relu(x + b), is an extension of PyTorch. It is compared with PyTorch's
    own ways, and timed by several timers.
    """
    require_gpu("extensions of PyTorch are measured on a GPU")
    torch = require_torch()
    torch.manual_seed(17)
    rows = [
        row
        for measure in (measure_operations, measure_timers)
        for batch in BATCHES
        for row in measure(torch, batch)
    ]
    table = stamp(pd.DataFrame(rows), describe_torch(torch))
    file = record_table(table, "experiments", out, key=["device", "experiment"])
    print(f"{table.to_string()}\n\nkept in {file}")
