"""cuDNN on the layers of lenet86 and lenet72, measured through PyTorch, for data/cudnn/.

It needs an NVIDIA GPU and PyTorch, which nothing else in the lab needs. Each convolution is measured in three modes
(fp32 without TF32; tf32, which PyTorch allows by default for convolutions; fp16) and in two layouts of x, k and y
(NCHW; NHWC, which PyTorch calls channels-last). The autotuner of cuDNN (`torch.backends.cudnn.benchmark`) chooses an
algorithm at the first call. The result is compared with the reference; the limit of fp32 is one that TF32 exceeds.
After a warm-up each run is timed between two events. Before each run the L2 cache is emptied: twice its size is
written.
"""

import datetime
import time
from pathlib import Path

import numpy as np
import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.spec.devices import slug
from labkit.spec.layers import LENET72, LENET86, Layer
from labkit.spec.reference import conv_float64, error_scale
from recording.keep import merge_rows
from recording.options import Dry

BATCHES = (100, 1000, 10_000)
MODES = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3}  # mode -> the largest error, relative to sum |x| |k|
LAYOUTS = ("NCHW", "NHWC")
REPEAT = 20
WARM_UP_MS = 50
CHECKED_IMAGES = 4


def measure_case(torch, layer: Layer, x: np.ndarray, k: np.ndarray, mode: str, layout: str) -> dict:
    """Check and time cuDNN's convolution of x and k in one mode and layout; return a row of the table.

    Raises
    ------
    LabError
        If the result is wrong, or less exact than the mode allows.
    """
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    dtype = torch.float16 if mode == "fp16" else torch.float32
    order = torch.contiguous_format if layout == "NCHW" else torch.channels_last
    # Not `contiguous`: with one channel it confuses the two layouts, and leaves the strides.
    on_gpu = [torch.from_numpy(array).to("cuda", dtype, memory_format=order) for array in (x, k)]
    flushed = 2 * torch.cuda.get_device_properties(0).L2_cache_size
    buffer = torch.empty(flushed, dtype=torch.uint8, device="cuda")

    def run() -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        buffer.zero_()
        start.record()
        torch.nn.functional.conv2d(*on_gpu)
        end.record()
        end.synchronize()
        return start.elapsed_time(end)

    y = torch.nn.functional.conv2d(*on_gpu)  # the autotuner chooses
    _check(y[:CHECKED_IMAGES].float().cpu().numpy(), layer, x[:CHECKED_IMAGES], k, mode, layout)
    del y
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_UP_MS / 1e3:
        run()
    times = [run() for _ in range(REPEAT)]
    return {
        "network": layer.network, "layer": int(layer.name[-1]), "batch": len(x), "mode": mode, "layout": layout,
        "median_ms": np.median(times), "min_ms": min(times), "max_ms": max(times), "repeat": REPEAT,
        "warm_up_ms": WARM_UP_MS, "l2_flush_mib": flushed / 2**20,
    }


def _check(y, layer, x, k, mode, layout) -> None:
    if mode == "fp16":
        x, k = x.astype(np.float16), k.astype(np.float16)
    error = np.max(np.abs(y - conv_float64(x, k)) / error_scale(x, k))
    if not error <= MODES[mode]:
        raise LabError(f"cuDNN on {layer} in {mode}, {layout}: the error is {error:.1e} of sum |x| |k|; the limit is "
                       f"{MODES[mode]:.0e}. Do other settings of PyTorch change the precision?")


def describe_software(torch) -> str:
    """Return the versions in use as a text: "PyTorch 2.11.0, cuDNN 9.19.0, CUDA 13.0"."""
    version = torch.backends.cudnn.version()
    return (f"PyTorch {torch.__version__}, cuDNN {version // 10_000}.{version // 100 % 100}.{version % 100}, "
            f"CUDA {torch.version.cuda}")


def measure_all(torch, layers=(*LENET86, *LENET72), batches=BATCHES) -> pd.DataFrame:
    """Measure every case; return a row per layer, batch, mode and layout."""
    rng = np.random.default_rng(2)
    rows = []
    for layer in layers:
        start = time.perf_counter()
        x = rng.random(layer.x_shape(max(batches)), dtype=np.float32)
        k = rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)
        rows += [measure_case(torch, layer, x[:batch], k, mode, layout)
                 for batch in batches for mode in MODES for layout in LAYOUTS]
        print(f"{layer.name}: {time.perf_counter() - start:.1f} s", flush=True)
    table = pd.DataFrame(rows)
    table.insert(0, "date", datetime.date.today().isoformat())
    table.insert(1, "device", torch.cuda.get_device_name(0))
    table.insert(2, "software", describe_software(torch))
    return table


def summarize(table: pd.DataFrame) -> str:
    """Return a table as text: the best layout of each mode, in milliseconds."""
    best = table.loc[table.groupby(["network", "layer", "batch", "mode"])["median_ms"].idxmin()]
    best = best.assign(best=[f"{row.median_ms:.4g} {row.layout}" for row in best.itertuples()])
    shown = best.pivot(index=["network", "layer", "batch"], columns="mode", values="best")[list(MODES)]
    return f"Op time [ms], {table['device'].iloc[0]}, {table['software'].iloc[0]}\n{shown.to_string()}"


def cudnn(dry: Dry = False) -> None:
    """Measure cuDNN through PyTorch: data/cudnn/."""
    try:
        import torch  # nothing else in the lab needs it
    except ModuleNotFoundError:
        raise LabError("cuDNN is measured through PyTorch: https://pytorch.org/get-started/locally") from None
    if not torch.cuda.is_available():
        raise LabError("cuDNN needs an NVIDIA GPU that PyTorch can use; torch.cuda.is_available() is False")
    table = measure_all(torch)
    print(f"\n{summarize(table)}")
    if not dry:
        print(f"\nkept in {write_table(table)}")


def write_table(table: pd.DataFrame, folder: Path | None = None) -> Path:
    """Write the table in place of the device's file."""
    path = (folder or data_dir() / "cudnn") / f"{slug(table['device'].iloc[0])}.csv"
    return merge_rows(path, table, None, digits=5)
