"""What `recording.versus` measures beside the ladder's fastest kernels: cuDNN, torch.compile, Triton, cuTile, CUTLASS.

Each function yields contestants that compute the inputs of a `Given`. cuDNN chooses among all plans
that it has. That takes long: once `SECONDS` are over, it chooses among PyTorch's ten, and
torch.compile compiles nothing more. The kernels of the others are in implicit_gemm.py,
implicit_gemm_cutile.py and .cu. Each runs with the fastest of its sizes, which are searched one after
the other until none of them gains; Triton's search ends after `SECONDS`, too.
"""

import ctypes
import functools
import importlib
import itertools
import math
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hostcuda import temporary
from labkit import LabError, Layer
from recording.cudnn import CHECKED_IMAGES, LAYOUTS, MODES
from recording.gpu import copy_to_gpu, find_memory_format, make_wait, time_torch

# limits for a whole run, to choose plans, to compile and to search
SECONDS = {"cudnn": 40, "compile": 240, "triton": 420}
PLANS = 10  # the number that PyTorch tries by default
EXACT = {**MODES, "3xtf32": MODES["fp32"]}  # mode -> the largest error, relative to sum |x| |k|
COMPILED = ("fp16", "tf32")  # in NHWC, the faster layout of both on three of the four layers
# mode -> the precision of Triton's products
PRECISIONS = {"tf32": "tf32", "3xtf32": "tf32x3", "fp16": "ieee"}
# The sizes that are tried, each axis from the value that the search begins with.
# pixels, terms, warps, stages
TILES = ((128, 64, 256, 32), (32, 16, 64, 128), (4, 2, 8), (3, 1, 2, 4))
# pixels, terms; cuTile chooses the warps and the stages
CUTILE_TILES = ((128, 64, 256), (32, 16, 64))
CUTLASS_MODES = {"fp16": 0, "tf32": 1, "3xtf32": 2}  # as in implicit_gemm.cu
CUTLASS_PIXELS = (128, 256)


@dataclass
class Contestant:
    """One entry of the comparison: `run(i)` computes input i, `result(i)` returns the first images of its y."""

    label: str  # "cuDNN FP32"
    layout: str  # "NCHW" or "NHWC"
    run: Callable[[int], object]
    result: Callable[[int], np.ndarray]
    half: bool  # whether the inputs and the mask are of half precision
    allowed: Callable[[np.ndarray], np.ndarray]  # maps sum |x| |k| to the largest error
    how: str = ""  # the choices that the fastest was taken from


def _label(name: str, mode: str) -> str:
    """Return the label of a library's contestant in a mode: "cuDNN FP32", "Triton 3×TF32"."""
    return f"{name} {mode.upper().replace('X', '×')}"


@dataclass
class Given:
    """What every contestant computes: a layer, with inputs and a mask in host memory."""

    torch: object  # PyTorch's module
    layer: Layer
    inputs: list[np.ndarray]  # several x, which are computed in turns
    k: np.ndarray
    # seconds spent so far on choices, by the names of SECONDS; the layers of a run share it
    spent: Counter = field(default_factory=Counter)
    # a contestant's label -> the sizes that it takes instead of a search
    sizes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    # (dtype, layout) -> the inputs and the mask as GPU tensors
    _copies: dict = field(default_factory=dict)

    def copy_to_gpu(self, mode: str, layout: str) -> tuple:
        """Return (list of inputs, mask) as GPU tensors in the mode's type and the layout, copied at first use."""
        dtype = self.torch.float16 if mode == "fp16" else self.torch.float32
        if (dtype, layout) not in self._copies:
            self._copies[dtype, layout] = [
                copy_to_gpu(self.torch, array, dtype, layout) for array in (*self.inputs, self.k)
            ]
        *inputs, k = self._copies[dtype, layout]  # the mask is the last one
        return inputs, k

    def make_output(self, mode: str, layout: str):
        """Return an empty GPU tensor for y, in the mode's type and the layout."""
        return self.torch.empty(
            self.layer.y_shape(len(self.inputs[0])),
            dtype=self.copy_to_gpu(mode, layout)[1].dtype,
            device="cuda",
            memory_format=find_memory_format(self.torch, layout),
        )

    def make_conv(
        self, name: str, mode: str, layout: str, function: Callable
    ) -> Callable[[int], object]:
        """Return conv(i), which calls `function(input i, mask)` in a mode of PyTorch.

        It has been called once, for i = 0: in that call PyTorch chooses or compiles a kernel. The
        seconds of that call are added to `spent` under `name`, a key of `SECONDS`, which has their limits.
        """
        inputs, k = self.copy_to_gpu(mode, layout)

        def conv(i):
            """Return the output of input i; the option of TF32 is set in each call, as others change it."""
            self.torch.backends.cudnn.allow_tf32 = mode == "tf32"
            return function(inputs[i], k)

        began = time.perf_counter()
        conv(0)
        self.torch.cuda.synchronize()
        self.spent[name] += time.perf_counter() - began
        return conv

    def make_contestant(
        self, name: str, mode: str, layout: str, run: Callable, y=None, how: str = ""
    ) -> Contestant:
        """Return a contestant whose `run(i)` convolves input i: it returns the output, or writes it into `y` if given.

        `mode` is a key of EXACT, which has the error that is allowed in it. The label is "cuDNN
        FP32" or, for the mode 3xtf32, "Triton 3×TF32". `how` says how the kernel was chosen.
        """

        def result(i):
            """Return the first images of the output of input i, or of the last run, as float32 on the host."""
            return (run(i) if y is None else y)[:CHECKED_IMAGES].float().cpu().numpy()

        return Contestant(
            label=_label(name, mode),
            layout=layout,
            run=run,
            result=result,
            half=mode == "fp16",
            # `scale`: the sum of |x| |k| of each output
            allowed=lambda scale: EXACT[mode] * scale,
            how=how,
        )

    def make_fastest(
        self,
        name: str,
        mode: str,
        layout: str,
        conv: Callable,
        axes: Sequence[Sequence],
        y,
        how: str,
    ) -> Contestant:
        """Search the fastest tile for a kernel; return a contestant that calls `conv(i, tile)` with it.

        `conv` writes the convolution of input i into `y`. A tile is a tuple: a value of each of the
        `axes`. The search begins with their first values, and takes the fastest of one axis after the
        other until none changes, or the seconds that SECONDS has for `name` are over. If the label is in
        `sizes`, that tile is taken. Tiles that fail are left out; if all do, it raises LabError, with why.
        `how` is a text with {} for each number of the tile: "{} pixels, {} terms".
        """
        label = _label(name, mode)
        if label in self.sizes:  # {"Triton FP32": (64, 32, 4, 2)}
            axes = [(size,) for size in self.sizes[label]]
        times, first_error, began = {}, None, time.perf_counter()
        wait = make_wait(self.torch)
        # seconds that are left for this search; a name that SECONDS does not have has no limit
        limit = SECONDS.get(name.lower(), math.inf) - self.spent[name.lower()]

        def measure(tile):
            """Return the tile's time [ms], the least of three; infinite if it fails or no time is left for it."""
            nonlocal first_error
            # the very first tile is measured in any case: one is needed
            if tile not in times and (not times or time.perf_counter() - began < limit):
                try:
                    conv(0, tile)
                    times[tile] = min(
                        time_torch(self.torch, functools.partial(conv, 0, tile), wait)
                        for _ in range(3)
                    )
                except Exception as error:  # a tile that needs more than the device has
                    times[tile], first_error = math.inf, first_error or error
            return times.get(tile, math.inf)

        best, before = tuple(axis[0] for axis in axes), None
        while best != before:
            before = best
            for place, axis in enumerate(axes):
                # the best tile with each value of this axis; `best` comes first: it stays if none is faster
                along_axis = [(*best[:place], value, *best[place + 1 :]) for value in axis]
                best = min((best, *along_axis), key=measure)
        if name.lower() in SECONDS:
            self.spent[name.lower()] += time.perf_counter() - began
        if times[best] == math.inf:
            raise LabError(f"no tile size works: {first_error}")
        how = f"{how.format(*best)}, the fastest of {len(times)} searched"
        return self.make_contestant(name, mode, layout, functools.partial(conv, tile=best), y, how)


def list_cudnn(given: Given) -> Iterator[Contestant]:
    """Yield cuDNN in three modes and two layouts, with plans that PyTorch's autotuner chooses.

    It chooses among all plans, or among PLANS when the seconds for cuDNN are spent.
    """
    torch = given.torch
    torch.backends.cudnn.benchmark = True
    for mode, layout in itertools.product(MODES, LAYOUTS):
        has_time = given.spent["cudnn"] < SECONDS["cudnn"]
        torch.backends.cudnn.benchmark_limit = 0 if has_time else PLANS  # 0: no limit
        conv = given.make_conv("cudnn", mode, layout, torch.nn.functional.conv2d)
        yield given.make_contestant(
            "cuDNN", mode, layout, conv, how="all plans" if has_time else f"{PLANS} plans"
        )


def list_compiled(given: Given) -> Iterator[Contestant]:
    """Yield a contestant per mode of COMPILED: PyTorch's compiler, which chooses among cuDNN and its Triton kernels.

    The modes that are left when its seconds are over are not yielded.
    """
    torch = given.torch
    torch._dynamo.reset()  # forgets what it compiled for another layer
    options = {
        "max_autotune": True,
        "coordinate_descent_tuning": True,
        "max_autotune_conv_backends": "ATEN,TRITON",  # else it has only cuDNN to choose
    }
    for mode in COMPILED:
        if given.spent["compile"] > SECONDS["compile"]:
            return
        function = torch.compile(
            lambda x, k: torch.nn.functional.conv2d(x, k), dynamic=False, options=options
        )
        conv = given.make_conv("compile", mode, "NHWC", function)
        how = f"max-autotune: {_name_longest_kernel(torch, functools.partial(conv, 0))}"
        yield given.make_contestant("torch.compile", mode, "NHWC", conv, how=how)


def _name_longest_kernel(torch, run: Callable[[], object]) -> str:
    """Return the name of the kernel that takes the most time of a run, by PyTorch's profiler.

    It goes into a cell of a CSV: it has no commas, and at most 80 letters.
    """
    cuda = torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=[cuda]) as profile:
        run()
        torch.cuda.synchronize()
    longest = max(profile.key_averages(), key=lambda row: row.self_device_time_total)
    return longest.key.replace(",", "")[:80]


def size_product(given: Given) -> tuple[int, int]:
    """Return the implicit product's rows (all output pixels) and columns (the maps, padded to a power of 2 from 16)."""
    layer = given.layer
    pixels = len(given.inputs[0]) * layer.Ho * layer.Wo
    return pixels, max(16, 1 << (layer.M - 1).bit_length())  # 16: the least of tl.dot


def list_triton(given: Given, modes: Sequence[str] = tuple(PRECISIONS)) -> Iterator[Contestant]:
    """Yield a contestant per mode, keys of PRECISIONS: the convolution as an implicit matrix product in Triton.

    Raises ImportError if there is no Triton.
    """
    kernel = importlib.import_module("recording.implicit_gemm").convolution
    layer, (pixels, maps) = given.layer, size_product(given)
    for mode in modes:
        precision = PRECISIONS[mode]
        (inputs, k), y = given.copy_to_gpu(mode, "NCHW"), given.make_output(mode, "NCHW")

        # The defaults bind what changes with the mode: the function is called later.
        def conv(i, tile, inputs=inputs, k=k, y=y, precision=precision):
            """Write the convolution of input i into y, with a tile of TILES' sizes."""
            size, terms, warps, stages = tile
            # the number of programs, rounded up: each computes `size` pixels
            kernel[(-(-pixels // size),)](
                inputs[i],
                k,
                y,
                pixels,
                layer.C,
                layer.H,
                layer.W,
                layer.M,
                layer.K,
                size,
                terms,
                maps,
                precision,
                num_warps=warps,
                num_stages=stages,
            )

        yield given.make_fastest(
            "Triton", mode, "NCHW", conv, TILES, y, "{} pixels, {} terms, {} warps, {} stages"
        )


def list_cutile(given: Given) -> Iterator[Contestant]:
    """Yield a contestant: the convolution as an implicit matrix product, written in cuTile, in half precision.

    Raises ImportError if there is no cuTile.
    """
    launch = importlib.import_module("cuda.tile").launch
    kernel = importlib.import_module("recording.implicit_gemm_cutile").convolution
    layer, (pixels, maps) = given.layer, size_product(given)
    (inputs, k), y = given.copy_to_gpu("fp16", "NCHW"), given.make_output("fp16", "NCHW")
    sizes = layer.C, layer.H, layer.W, layer.M, layer.K

    def conv(i, tile):
        """Write the convolution of input i into y, with a tile of (pixels, terms)."""
        flat = (tensor.reshape(-1) for tensor in (inputs[i], k, y))
        launch(
            given.torch.cuda.current_stream(),
            (-(-pixels // tile[0]), 1, 1),  # the number of blocks, rounded up
            kernel,
            (*flat, *sizes, *tile, maps),
        )

    yield given.make_fastest("cuTile", "fp16", "NCHW", conv, CUTILE_TILES, y, "{} pixels, {} terms")


@functools.cache
def _load_cutlass() -> ctypes.CDLL:
    """Compile implicit_gemm.cu and load it; the variable CUTLASS names a checkout, or a library compiled before.

    Raises LabError if it names neither, or nvcc refuses the file.
    """
    where = Path(os.environ.get("CUTLASS", ""))
    if where.is_file():
        return ctypes.CDLL(str(where.resolve()))
    if not (where / "include" / "cutlass").is_dir():
        raise LabError(
            "the environment variable CUTLASS names no checkout of github.com/NVIDIA/cutlass"
        )
    with temporary.folder() as folder:
        command = [
            "nvcc",
            "-w",
            "-std=c++17",
            "-arch=native",
            f"-I{where / 'include'}",
            "-shared",
            "-Xcompiler",
            "-fPIC",
            "-o",
            str(folder / "cutlass.so"),
            str(Path(__file__).with_name("implicit_gemm.cu")),
        ]
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            raise LabError(
                f"nvcc refuses implicit_gemm.cu with this CUTLASS: {ended.stderr.strip()[-400:]}"
            )
        return ctypes.CDLL(str(folder / "cutlass.so"))


def list_cutlass(given: Given) -> Iterator[Contestant]:
    """Yield a contestant per mode: CUTLASS's implicit matrix product, with padded channels where that is faster.

    Padding is not part of the time: a network would store its layers' outputs so. Raises LabError
    if there is no CUTLASS.
    """
    library, layer, B, torch = _load_cutlass(), given.layer, len(given.inputs[0]), given.torch
    # `number`: how the compiled library, implicit_gemm.cu, calls the mode
    for mode, number in CUTLASS_MODES.items():
        (xs, k), y = given.copy_to_gpu(mode, "NHWC"), given.make_output(mode, "NHWC")
        most = 16 // y.element_size()  # channels that a thread can load at once: 16 bytes
        inputs = {}  # channels -> the inputs and the mask with so many, of which the last are zeros
        for channels in sorted({layer.C, math.ceil(layer.C / most) * most}):
            padding = (0, 0, 0, 0, 0, channels - layer.C)  # behind the channels of [B, C, H, W]
            inputs[channels] = [
                torch.nn.functional.pad(tensor, padding).contiguous(
                    memory_format=find_memory_format(torch, "NHWC")
                )
                for tensor in (*xs, k)
            ]

        # The defaults bind what changes with the mode: the function is called later.
        def conv(i, tile, mode=mode, number=number, inputs=inputs, y=y):
            """Write the convolution of input i into y, with a tile of (channels, pixels)."""
            channels, pixels = tile
            *xs, k = inputs[channels]
            sizes = [B, channels, layer.H, layer.W, layer.M, layer.K]
            addresses = (ctypes.c_void_p(tensor.data_ptr()) for tensor in (xs[i], k, y))
            status = library.convolve(number, pixels, *sizes, *addresses)
            if status:
                raise LabError(f"CUTLASS in {mode} on {layer.name}: status {status}")

        axes = tuple(inputs), CUTLASS_PIXELS
        yield given.make_fastest(
            "CUTLASS", mode, "NHWC", conv, axes, y, "{} channels, {} pixels, 32 maps"
        )


LIBRARIES = {
    "cudnn": list_cudnn,
    "compile": list_compiled,
    "triton": list_triton,
    "cutile": list_cutile,
    "cutlass": list_cutlass,
}
