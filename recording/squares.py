"""The idea of rung 10, squares of outputs that share a window, in Triton and in CUDA C++, for data/experiments/.

It tells what of the distance between Triton's kernel and ours is the algorithm, and what the tool.
All kernels compute layer 2 of lenet86 in half, in random order in one run; rung 10 takes part twice.
"""

import functools
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pandas as pd

from labkit import LENET86, conv_float64
from labkit.base.errors import CheckFailed
from recording.gpu import describe_torch, make_l2_flush, require_gpu, require_torch
from recording.keep import record_table, stamp
from recording.libraries import TILES, Contestant, Given, list_triton, size_product
from recording.options import Folder
from recording.versus import AGAIN, INPUTS, REPEAT, list_own, select_correct, time_in_turns

LAYER, BATCH = LENET86[1], 10_000
# of a pool: by how much it may differ from 1 plus itself in float64, a few roundings to half
_POOL_ERROR = 2.0**-9


def make_squares(given: Given, pool: bool) -> Contestant:
    """Return the contestant in Triton, in half, that computes the convolution as an implicit matrix product.

    A row of its matrix stands for a square of 2 x 2 outputs. With `pool` it writes the largest output of
    each square, or 0 if that is larger.
    """
    from recording.implicit_gemm_squares import convolution  # it imports Triton

    layer, (inputs, k) = given.layer, given.copy_to_gpu("fp16", "NCHW")
    pixels, maps = size_product(given)
    squares = pixels // 4  # `pixels` counts the output pixels of all images
    y = given.make_output("fp16", "NCHW")
    if pool:
        y = y[:, :, : layer.Ho // 2, : layer.Wo // 2].contiguous()

    def conv(i, tile):
        """Write the output of input i into y; a tile has a size (squares per block), terms, warps and stages."""
        size, terms, warps, stages = tile
        sizes = (layer.C, layer.H, layer.W, layer.M, layer.K, size, terms, maps)
        grid = (-(-squares // size),)  # rounded up
        # "ieee": how floats would be multiplied; these are halves
        convolution[grid](
            inputs[i], k, y, squares, *sizes, "ieee", pool, num_warps=warps, num_stages=stages
        )

    name = "Triton, squares and their pool" if pool else "Triton, squares"
    how = "{} squares, {} terms, {} warps, {} stages"
    return given.make_fastest(name, "fp16", "NCHW", conv, TILES, y, how)


def check_pool(contestant: Contestant, given: Given) -> None:
    """Compare a contestant's pool of each input with that in float64; CheckFailed if it is wrong."""
    for i, x in enumerate(given.inputs):
        contestant.run(i)
        pool = contestant.result(i)
        # `pool` is of the first images only; the contestant reads halves
        rounded = (x[: len(pool)].astype(np.float16), given.k.astype(np.float16))
        outputs = np.maximum(conv_float64(*rounded), 0)
        # axes 3 and 5: the rows and the columns of a square
        expected = outputs.reshape(*pool.shape[:3], 2, pool.shape[3], 2).max(axis=(3, 5))
        if not (np.abs(pool - expected) <= _POOL_ERROR * (1 + expected)).all():
            raise CheckFailed(f"{contestant.label}: the pool is wrong")


def squares(out: Folder = None) -> None:
    """Measure one idea in two tools: data/experiments/.

    The convolution in Triton with a row per output, with a row per square of outputs, and this with
    its pool; and rung 10, which has the idea in CUDA C++.
    """
    here = require_gpu("this comparison needs an NVIDIA GPU that PyCUDA and PyTorch can use")
    torch = require_torch()
    random = np.random.default_rng(7)
    inputs = [random.random(LAYER.x_shape(BATCH), dtype=np.float32) for _ in range(INPUTS)]
    # masks from -0.25 to 0.75: of both signs, so that sums also cancel
    k = random.random(LAYER.k_shape, dtype=np.float32) - np.float32(0.25)
    given = Given(torch, LAYER, inputs, k)
    flush, _ = make_l2_flush(torch)
    with ExitStack() as stack:
        # rung 10's own kernel, "10 speed of light": a comma begins the name of a step
        ours = next(
            each
            for each in list_own(stack, LAYER, inputs, k)
            if each.label.startswith("10 ") and "," not in each.label
        )
        convolutions = [
            ours,
            replace(ours, label=ours.label + AGAIN),  # twice: the times tell how well they repeat
            *list_triton(given, ["fp16"]),
            make_squares(given, pool=False),
        ]
        pool = make_squares(given, pool=True)
        # check("before") or check("after") returns those that are right
        check = functools.partial(select_correct, convolutions, given)
        if len(before := check("before")) != len(convolutions):
            raise CheckFailed("a kernel is wrong: nothing is timed")
        check_pool(pool, given)
        contestants = [*before, pool]
        times = time_in_turns(torch, contestants, REPEAT, flush)
        if len(check("after")) != len(convolutions):
            raise CheckFailed("a kernel is wrong after the timed runs: nothing is kept")
        check_pool(pool, given)
    rows = [
        {
            "experiment": "squares",
            "kernel": contestant.label,
            "x": BATCH,
            "ms": np.median(ms),
            "series": contestant.how,
        }
        for contestant, ms in zip(contestants, times, strict=True)
    ]
    table = stamp(pd.DataFrame(rows), f"{here.software}, {describe_torch(torch)}")
    file = record_table(table, "experiments", out, key=["device", "experiment"])
    print(f"{table.to_string()}\n\nkept in {file}")
