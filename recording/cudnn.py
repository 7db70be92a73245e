"""cuDNN on the layers of lenet86 and lenet72, measured through PyTorch, for data/cudnn/.

Each convolution is measured in three modes (fp32 without TF32; tf32, which PyTorch allows by
default for convolutions; fp16) and in two layouts of x, k and y (NCHW; NHWC, which PyTorch calls
channels-last). cuDNN's autotuner (`torch.backends.cudnn.benchmark`) chooses an algorithm at the
first call. The result is compared with the reference; TF32 exceeds the limit of fp32. After a
warm-up each run is timed between two events, with an empty L2 cache.
"""

import time

import numpy as np
import pandas as pd

from labkit import LabError, Layer, conv_float64
from labkit.ladder.plan import draw_inputs
from labkit.spec.reference import error_scale
from recording.gpu import copy_to_gpu, describe_torch, make_l2_flush, require_torch, time_torch
from recording.keep import record_table, stamp
from recording.options import LAYERS, Dry

BATCHES = (100, 1000, 10_000)
# mode -> the largest error, relative to sum |x| |k|
MODES = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 2e-3}
LAYOUTS = ("NCHW", "NHWC")
REPEAT = 20
WARM_UP_MS = 50
CHECKED_IMAGES = 4


def measure_case(torch, layer: Layer, x: np.ndarray, k: np.ndarray, mode: str, layout: str) -> dict:
    """Check and time cuDNN's convolution of x [B, C, H, W] and k [M, C, K, K]; return a row of the table as a dict.

    `mode` is a key of `MODES`, `layout` one of `LAYOUTS`. Sets PyTorch's options of cuDNN. Raises
    LabError if the result is wrong, or less exact than the mode allows.
    """
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = mode == "tf32"
    dtype = torch.float16 if mode == "fp16" else torch.float32
    on_gpu = [copy_to_gpu(torch, array, dtype, layout) for array in (x, k)]
    flush, flushed_bytes = make_l2_flush(torch)

    def run():
        """Return y, a tensor on the GPU."""
        return torch.nn.functional.conv2d(*on_gpu)

    y = run()  # the autotuner chooses
    _require_right(
        y[:CHECKED_IMAGES].float().cpu().numpy(), layer, x[:CHECKED_IMAGES], k, mode, layout
    )
    del y  # frees its memory before the runs
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_UP_MS / 1e3:
        time_torch(torch, run, flush)
    times = [time_torch(torch, run, flush) for _ in range(REPEAT)]
    return {
        "network": layer.network,
        "layer": int(layer.name[-1]),  # "lenet86 layer 1": 1
        "batch": len(x),
        "mode": mode,
        "layout": layout,
        "median_ms": np.median(times),
        "min_ms": min(times),
        "max_ms": max(times),
        "repeat": REPEAT,
        "warm_up_ms": WARM_UP_MS,
        "l2_flush_mib": flushed_bytes / 2**20,
    }


def _require_right(
    y: np.ndarray, layer: Layer, x: np.ndarray, k: np.ndarray, mode: str, layout: str
) -> None:
    """Raise LabError if y, cuDNN's convolution of x and k, has an error beyond the mode's limit."""
    if mode == "fp16":
        x, k = x.astype(np.float16), k.astype(np.float16)
    error = np.max(np.abs(y - conv_float64(x, k)) / error_scale(x, k))
    if not error <= MODES[mode]:
        raise LabError(
            f"cuDNN on {layer} in {mode}, {layout}: the error is {error:.1e} of sum |x| |k|; the limit is "
            f"{MODES[mode]:.0e}. Do other settings of PyTorch change the precision?"
        )


def measure_all(torch, layers=LAYERS, batches=BATCHES) -> pd.DataFrame:
    """Measure cuDNN on each layer, with each batch, mode and layout; return a row for each of these.

    The rows have date, device and software, too.
    """
    rng = np.random.default_rng(2)
    rows = []
    for layer in layers:
        start = time.perf_counter()
        # images of the largest batch; a smaller one takes the first of them
        x = np.empty(layer.x_shape(max(batches)), np.float32)
        k = draw_inputs(x, layer, rng)  # also fills x with random numbers
        rows += [
            measure_case(torch, layer, x[:batch], k, mode, layout)
            for batch in batches
            for mode in MODES
            for layout in LAYOUTS
        ]
        print(f"{layer.name}: {time.perf_counter() - start:.1f} s", flush=True)
    return stamp(pd.DataFrame(rows), describe_torch(torch), torch.cuda.get_device_name(0))


def cudnn(dry: Dry = False) -> None:
    """Measure cuDNN through PyTorch: data/cudnn/.

    It computes each layer with several batches, in three precisions and two layouts.
    """
    table = measure_all(require_torch())
    print(
        table.pivot(
            index=["network", "layer", "batch"], columns=["mode", "layout"], values="median_ms"
        ).to_string()
    )
    if not dry:
        print(f"\nkept in {record_table(table, 'cudnn')}")
