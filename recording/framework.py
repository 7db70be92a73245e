"""The forward pass of lenet86 in PyTorch, part by part, on the host's CPU and on the GPU, for data/framework/.

Report 002 profiled its network in MXNet. PyTorch, which is maintained, stands in for it. It needs an NVIDIA GPU and
PyTorch, which nothing else in the lab needs. The weights are the lab's, and the result is compared with NumPy's. The
precision is float32 without TF32. Each part is timed by itself, after a warm-up: on the GPU between two events, on the
CPU on the host's clock. `whole` is the time of all parts on the host's clock, with a wait after each part; on the GPU
it includes the copies.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.networks.images import dataset
from labkit.networks.lenet86 import load_weights
from labkit.networks.reference.lenet86 import forward_numpy
from labkit.spec.devices import slug
from recording.cudnn import describe_software
from recording.keep import merge_rows
from recording.options import Dry

BATCHES = (100, 1000, 10_000)
REPEAT = {"cpu": 3, "cuda": 20}
CHECKED_IMAGES = 4
ERROR = 1e-4  # the largest difference between two probabilities


def build_parts(torch, weights: dict, place: str) -> dict[str, Callable]:
    """Return the parts of the forward pass in order, as functions of one tensor. `place`: PyTorch's "cpu" or "cuda"."""
    f = torch.nn.functional
    w = {name: torch.from_numpy(array).to(place) for name, array in weights.items()}
    return {
        "conv 1": lambda x: f.conv2d(x, w["conv1"]),
        "relu, pool 1": lambda x: f.max_pool2d(f.relu(x), 2, 2),
        "conv 2": lambda x: f.conv2d(x, w["conv2"]),
        "relu, pool 2": lambda x: f.max_pool2d(f.relu(x), 4, 4, ceil_mode=True),
        "fully connected": lambda x: torch.softmax(
            f.relu(x.flatten(1) @ w["fc1"] + w["fc1_bias"]) @ w["fc2"] + w["fc2_bias"], 1
        ),
    }


def run_forward(torch, images: np.ndarray, network: dict, place: str) -> tuple[dict[str, float], np.ndarray]:
    """Run one forward pass; return the times of its parts and of the whole [ms], and the probabilities [B, 10]."""
    on_gpu = place == "cuda"
    spent: dict[str, float] = {}

    def timed(name: str, part: Callable, x):
        if on_gpu:
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            y = part(x)
            end.record()
            end.synchronize()
            spent[name] = start.elapsed_time(end)
            return y
        start = time.perf_counter()
        y = part(x)
        spent[name] = 1e3 * (time.perf_counter() - start)
        return y

    x = torch.from_numpy(images)
    begin = time.perf_counter()
    if on_gpu:
        x = timed("copy in", lambda tensor: tensor.to(place), x)
    for name, part in network.items():
        x = timed(name, part, x)
    if on_gpu:
        x = timed("copy out", lambda tensor: tensor.cpu(), x)
    spent["whole"] = 1e3 * (time.perf_counter() - begin)
    return spent, x.numpy()


def measure_parts(torch, images: np.ndarray, weights: dict, place: str, repeat: int) -> list[dict]:
    """Return a row per part: median, least and largest time of `repeat` passes after a warm-up.

    Raises
    ------
    LabError
        If the probabilities differ from NumPy's.
    """
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    network = build_parts(torch, weights, place)
    _, probabilities = run_forward(torch, images, network, place)  # the autotuner of cuDNN chooses
    error = np.max(np.abs(probabilities[:CHECKED_IMAGES] - forward_numpy(images[:CHECKED_IMAGES], weights)))
    if not error <= ERROR:
        raise LabError(f"PyTorch's forward pass of lenet86 on {place}: a probability differs from NumPy's by "
                       f"{error:.1e}; the limit is {ERROR:.0e}. Do other settings of PyTorch change it?")
    times = pd.DataFrame([run_forward(torch, images, network, place)[0] for _ in range(repeat)])
    return [{"network": "lenet86", "batch": len(images), "place": "gpu" if place == "cuda" else place, "part": part,
             "median_ms": np.median(ms), "min_ms": ms.min(), "max_ms": ms.max(), "repeat": repeat}
            for part, ms in times.items()]


def measure_all(torch, batches=BATCHES) -> pd.DataFrame:
    """Measure every case; return a row per batch, place and part."""
    weights, test = load_weights("digits"), dataset("digits", split="test", size=86)
    images = np.ascontiguousarray(test.images[np.arange(max(batches)) % len(test)])
    table = pd.DataFrame([row for batch in batches for place, repeat in REPEAT.items()
                          for row in measure_parts(torch, images[:batch], weights, place, repeat)])
    table.insert(0, "date", datetime.date.today().isoformat())
    table.insert(1, "device", torch.cuda.get_device_name(0))
    table.insert(2, "software", f"{describe_software(torch)}, {torch.get_num_threads()} threads on the CPU")
    return table


def framework(dry: Dry = False) -> None:
    """Measure the network in PyTorch: data/framework/."""
    try:
        import torch  # nothing else in the lab needs it
    except ModuleNotFoundError:
        raise LabError("the network in a framework is PyTorch's: https://pytorch.org/get-started/locally") from None
    if not torch.cuda.is_available():
        raise LabError("this needs an NVIDIA GPU that PyTorch can use; torch.cuda.is_available() is False")
    with torch.no_grad():
        table = measure_all(torch)
    print(table.pivot(index="part", columns=["place", "batch"], values="median_ms").to_string(float_format="%.3g"))
    if not dry:
        print(f"\nkept in {write_table(table)}")


def write_table(table: pd.DataFrame, folder: Path | None = None) -> Path:
    """Write the table in place of the device's file."""
    path = (folder or data_dir() / "framework") / f"{slug(table['device'].iloc[0])}.csv"
    return merge_rows(path, table, None, digits=5)
