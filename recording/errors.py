"""How exact the whole network is in float: the fused kernels, that of page 07 and PyTorch in FP32 against float64."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Annotated

import numpy as np
import pandas as pd
from typer import Option

import labkit as lab
from labkit.networks.fused import FusedNetwork
from labkit.networks.images import cycle
from labkit.networks.lenet86 import Network, load_weights
from labkit.networks.reference.lenet86 import forward_numpy
from labkit.spec.devices import device
from recording.pytorch import build_forward

CHUNK = 50  # images at a time in float64


def errors(images: Annotated[int, Option(help="Of each kind: digits and random bytes.")] = 500) -> None:
    """Print how exact the network is in float.

    For each way: the largest and the mean error of a probability, and how many answers are others.
    """
    print(device().note)
    print(measure_errors(images).to_string(index=False, float_format="{:.2e}".format))


def measure_errors(count: int) -> pd.DataFrame:
    """Compare the probabilities with those in float64; return a row per kind of images and way."""
    weights = {name: array.astype(np.float64) for name, array in load_weights("digits").items()}
    bytes_ = np.random.default_rng(0).integers(0, 256, (count, 1, 86, 86))
    kinds = {"digits": np.ascontiguousarray(cycle(lab.dataset(size=86), count).images),
             "random bytes": (bytes_ / np.float32(255)).astype(np.float32)}
    rows = []
    with ExitStack() as stack:
        ways = dict(_list_ways(stack))
        for kind, images in kinds.items():
            exact = np.concatenate([forward_numpy(images[i : i + CHUNK].astype(np.float64), weights)
                                    for i in range(0, count, CHUNK)])
            for way, forward in ways.items():
                given = forward(images)
                error = np.abs(given - exact)
                rows.append({"images": kind, "way": way, "largest": error.max(), "mean": error.mean(),
                             "other answers": int((given.argmax(1) != exact.argmax(1)).sum())})
    return pd.DataFrame(rows)


def _list_ways(stack: ExitStack) -> Iterator[tuple[str, Callable[[np.ndarray], np.ndarray]]]:
    """Yield the ways to compute the network in float that this machine has."""
    yield "page 07", Network().forward
    for step in (None, "warpgroups") if device().compute_capability in (None, (9, 0)) else (None,):
        yield f"fused, {step or 'page 13'}", stack.enter_context(FusedNetwork("digits", "float32", step)).forward
    try:
        import torch
    except ModuleNotFoundError:
        return
    if torch.cuda.is_available():
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        forward, place = build_forward(torch, load_weights("digits"), "fp32", None, 1.0)
        yield "PyTorch FP32", lambda images: forward(place(torch.from_numpy(images).to("cuda"))).cpu().numpy()
