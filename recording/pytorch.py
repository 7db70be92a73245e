"""PyTorch's forward pass of lenet86: as baselines of `labkit.bench_network`, and part by part, for data/framework/.

As baselines its calls are measured one by one; on the device also as a CUDA graph, from the host
also in chunks on streams. Part by part it stands in for report 002's profile of MXNet, which is not
maintained.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from labkit import LabError, dataset
from labkit.networks.benchmark import DEVICE, HOST, Entry, Images, count_passes
from labkit.networks.fused import CHUNK, SIZE, STREAMS
from labkit.networks.images import cycle
from labkit.networks.lenet86 import load_weights
from labkit.networks.reference.lenet86 import forward_numpy
from recording.cudnn import BATCHES, CHECKED_IMAGES
from recording.gpu import describe_torch, require_torch, time_torch
from recording.keep import record_table, stamp
from recording.options import Dry

# PyTorch's modes, and the data type of each
MODES = {"fp32": "float32", "tf32": "float32", "fp16": "float16"}
# TF32 and half have mantissas of equal length, so the bound of half is that of both.
_BOUND = {"fp32": "float32", "tf32": "float16", "fp16": "float16"}
COMPILED = ("tf32", "fp16"), ("float32", "uint8 86x86")  # modes and pixels that PyTorch compiles
# With rows of 1296 floats, padded to 1312, PyTorch 2.11's autotuner fails, and its default mode
# computes wrong ones. For convolutions it has ATen's kernels, cuDNN's, alone.
COMPILERS = (
    {"comprehensive_padding": False, "max_autotune": True, "max_autotune_conv_backends": "ATEN"},
    {"comprehensive_padding": False},
)
REPEAT = {"cpu": 3, "cuda": 20}  # PyTorch's name of the processor -> timed passes of the parts
ERROR = 1e-4  # the largest difference between two probabilities


def list_cases(torch, compiled: bool, images: Images) -> Iterator[Entry]:
    """Yield PyTorch's cases in three modes and each form of the images; cuDNN's autotuner chooses at their first call.

    A case computes the forward pass in one way; the modes are FP32, TF32 and FP16. If `compiled`, the modes and
    forms in COMPILED, a tuple of modes and one of forms, are also compiled by torch.compile.
    """
    torch.backends.cudnn.benchmark = True
    # `source`: height and width of images of bytes, None for float32. `white`: the byte that stands
    # for 1.
    for pixels, (array, source, white) in images.forms.items():
        pinned = torch.from_numpy(array).pin_memory()
        for mode in MODES:
            forward, place = build_forward(torch, images.weights, mode, source, white)
            # bytes are converted in the pass, floats before it is timed
            x = pinned if source else place(pinned)
            runs = _PyTorchForward(torch, mode, pixels, pinned, x.to("cuda"))
            yield from runs.list_eager(forward)
            yield from runs.list_fastest(forward, ", graph", ", streams")  # suffixes of the labels
            if compiled and mode in COMPILED[0] and pixels in COMPILED[1]:
                yield from runs.list_compiled(forward, images)


@dataclass
class _PyTorchForward:
    """PyTorch's forward pass in one mode.

    `forward`, an argument of the methods, maps images on the GPU to outputs.
    """

    torch: object  # PyTorch's module
    mode: str  # a key of MODES
    pixels: str  # the form of the images: "float32", "uint8 86x86" or "uint8 8x8"
    pinned: object  # the images in page-locked host memory
    x: object  # the images on the GPU

    def make_entry(self, suffix: str, where: str, *functions: Callable) -> Entry:
        """Return the entry labeled "PyTorch fp32" and a suffix, with images on the DEVICE or from the HOST (`where`).

        `functions` are three functions: run one pass, or a graph of several; return the results of
        the images whose numbers are given; spoil the last results, so that old ones cannot pass a
        check. For a graph two values follow: its stream (None: the default one) and its number of passes.
        """
        name = f"PyTorch {self.mode}{suffix}"
        return Entry(name, MODES[self.mode], where, self.pixels, _BOUND[self.mode], *functions)

    def call(self, forward: Callable, x):
        """Return forward(x), with TF32 allowed in its mode only: other cases, run in between, change the settings."""
        cudnn, matmul = self.torch.backends.cudnn, self.torch.backends.cuda.matmul
        cudnn.allow_tf32 = matmul.allow_tf32 = self.mode == "tf32"
        with self.torch.no_grad():
            return forward(x)

    def list_eager(self, forward: Callable) -> Iterator[Entry]:
        """Yield the cases without a graph, one with images on the device and one from the host, which copies first."""
        last = {}  # "y": the results of the last pass

        def run():
            """Compute the images on the device."""
            last["y"] = self.call(forward, self.x)

        def run_from_host():
            """Copy the images to the device, compute them, and copy the results back."""
            last["y"] = self.call(forward, self.pinned.to("cuda", non_blocking=True)).cpu()

        def read_results(some):
            """Return the results of the images with these numbers, as float32 on the host."""
            return last["y"].float().cpu().numpy()[some]

        # "": no suffix. `last.clear` spoils the results: to read them without a new pass is an error.
        yield self.make_entry("", DEVICE, run, read_results, last.clear)
        yield self.make_entry("", HOST, run_from_host, read_results, last.clear)

    def list_compiled(self, forward: Callable, images: Images) -> list[Entry]:
        """Return the cases of `list_fastest` with the first of COMPILERS that works; print why others fail.

        COMPILERS are dicts of options for torch.compile, in order of preference. Returns [] if all fail.
        """
        self.torch._dynamo.config.recompile_limit = 64  # a function counts once per shape
        for options in COMPILERS:
            try:
                compiled = self.torch.compile(forward, dynamic=False, options=options)
                cases = list(self.list_fastest(compiled, ", compiled", ", compiled"))
                for case in cases:
                    case.run()  # compiles the chunks' shape, too
                    # "once compiled" are words of the message; the results of the run above are checked
                    images.check(case, "once compiled", run_first=False)
                return cases
            except Exception as error:  # the others are still worth a measurement
                print(
                    f"PyTorch {self.mode}, {self.pixels}: torch.compile fails with {', '.join(options)}: "
                    f"{type(error).__name__}: {str(error).strip()[:300]}",
                    flush=True,
                )
        return []

    def list_fastest(self, forward: Callable, on_device: str, from_host: str) -> Iterator[Entry]:
        """Yield a graph on the device, and from the host chunks whose copies overlap with other chunks' kernels.

        `on_device` and `from_host` are the suffixes of the labels.
        """
        torch, B = self.torch, len(self.pinned)
        self.call(forward, self.x)  # outside of the graph: the autotuner chooses
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count_passes(B)):
                y = self.call(forward, self.x)
        yield self.make_entry(
            on_device,
            DEVICE,
            graph.replay,
            lambda some: y.float().cpu().numpy()[some],
            lambda: y.fill_(float("nan")),
            None,  # the default stream
            count_passes(B),
        )
        streams = [torch.cuda.Stream() for _ in range(STREAMS)]
        out = torch.empty((B, 10), pin_memory=True)  # the probabilities, in host memory

        def run_chunks():
            """Compute all images in chunks that take turns on the streams, and wait."""
            # not strict: `cycle` does not end
            for first, stream in zip(range(0, B, CHUNK), itertools.cycle(streams), strict=False):
                chunk = slice(first, first + CHUNK)
                with torch.cuda.stream(stream):
                    x = self.pinned[chunk].to("cuda", non_blocking=True)
                    out[chunk].copy_(self.call(forward, x), non_blocking=True)
            torch.cuda.synchronize()

        yield self.make_entry(
            from_host,
            HOST,
            run_chunks,
            lambda some: out.numpy()[some],
            lambda: out.fill_(float("nan")),
        )


def build_parts(torch, w: dict) -> dict[str, Callable]:
    """Return the parts of the forward pass in order: a name, such as "conv 1", to a function of one tensor.

    `w` are the weights as tensors, by the names "conv1", "conv2", "fc1", "fc1_bias", "fc2", "fc2_bias".
    """
    f = torch.nn.functional
    # ceil_mode: 34 rows make 9 windows of 4, the last of them with 2 rows
    # float(): halves become floats before the softmax
    return {
        "conv 1": lambda x: f.conv2d(x, w["conv1"]),
        "relu, pool 1": lambda x: f.max_pool2d(f.relu(x), 2, 2),
        "conv 2": lambda x: f.conv2d(x, w["conv2"]),
        "relu, pool 2": lambda x: f.max_pool2d(f.relu(x), 4, 4, ceil_mode=True),
        "fully connected": lambda x: torch.softmax(
            (f.relu(x.flatten(1) @ w["fc1"] + w["fc1_bias"]) @ w["fc2"] + w["fc2_bias"]).float(), 1
        ),
    }


def build_forward(torch, weights: dict, mode: str, source: tuple[int, int] | None, white: float):
    """Return two functions: the forward pass of images on the GPU, and one that converts floats for it.

    `mode` is a key of MODES. `source` is None for images of floats; for images of bytes it has
    their height and width, and the byte `white` stands for 1. The second function gives floats the
    mode's type and layout.
    """
    dtype = torch.float16 if mode == "fp16" else torch.float32
    # the layout that is faster in this mode
    order = torch.channels_last if mode == "fp16" else torch.contiguous_format
    parts = build_parts(
        torch,
        {
            name: torch.from_numpy(array).to(
                "cuda", dtype, **({"memory_format": order} if array.ndim == 4 else {})
            )
            for name, array in weights.items()
        },
    ).values()

    def place(x):
        """Return floats on the GPU in the mode's type and layout."""
        return x.to(dtype, memory_format=order)

    def forward(x):
        """Return the probabilities [B, 10] of images on the GPU: float32 [B, 1, 86, 86], or bytes [B, *source]."""
        # bytes become numbers from 0 to 1, of the network's size; None adds the axis of the channel
        if source == (SIZE, SIZE):
            x = x[:, None].to(dtype) / white
        elif source:
            interpolate = torch.nn.functional.interpolate
            x = interpolate(x[:, None].float() / white, size=(SIZE, SIZE), mode="bilinear")
        x = place(x)
        for part in parts:
            x = part(x)
        return x

    return forward, place


def run_forward(
    torch, images: np.ndarray, parts: dict[str, Callable], place: str
) -> tuple[dict, np.ndarray]:
    """Run one forward pass; return the time of each part and of the whole [ms], and the probabilities [B, 10].

    `parts` are those of `build_parts`, on the device `place`: PyTorch's "cpu" or "cuda". On the GPU
    a part is timed between two events, on the CPU on the host's clock. "whole" is the time of all
    parts on the host's clock, with a wait after each part; on the GPU it includes the copies.
    """
    if place == "cuda":
        parts = {"copy in": lambda x: x.to(place), **parts, "copy out": lambda x: x.cpu()}
    spent_ms, x, begin = {}, torch.from_numpy(images), time.perf_counter()

    def run(part: Callable) -> None:
        """Replace x by what a part makes of it."""
        nonlocal x
        x = part(x)

    # "cuda": `time_torch` waits for the second event
    for name, part in parts.items():
        if place == "cuda":
            spent_ms[name] = time_torch(torch, lambda part=part: run(part))
        else:
            start = time.perf_counter()
            run(part)
            spent_ms[name] = 1e3 * (time.perf_counter() - start)
    spent_ms["whole"] = 1e3 * (time.perf_counter() - begin)
    return spent_ms, x.numpy()


def measure_parts(
    torch, images: np.ndarray, weights: dict[str, np.ndarray], place: str, repeat: int
) -> list[dict]:
    """Return a row, a dict, per part of the forward pass: median, least and largest time of `repeat` passes [ms].

    A pass before them warms up. The last row is the whole pass. `images` are float32 [B, 1, 86, 86];
    `place` is PyTorch's "cpu" or "cuda". Sets PyTorch's options of precision. Raises LabError if the
    probabilities differ from NumPy's.
    """
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    parts = build_parts(
        torch, {name: torch.from_numpy(array).to(place) for name, array in weights.items()}
    )
    _, probabilities = run_forward(torch, images, parts, place)  # the autotuner of cuDNN chooses
    error = np.max(
        np.abs(probabilities[:CHECKED_IMAGES] - forward_numpy(images[:CHECKED_IMAGES], weights))
    )
    if not error <= ERROR:  # true for NaN, too
        raise LabError(
            f"PyTorch's forward pass of lenet86 on {place}: a probability differs from NumPy's by "
            f"{error:.1e}; the limit is {ERROR:.0e}. Do other settings of PyTorch change it?"
        )
    times = pd.DataFrame([run_forward(torch, images, parts, place)[0] for _ in range(repeat)])
    return [
        {
            "network": "lenet86",
            "batch": len(images),
            "place": "gpu" if place == "cuda" else place,
            "part": part,
            "median_ms": np.median(ms),
            "min_ms": ms.min(),
            "max_ms": ms.max(),
            "repeat": repeat,
        }
        for part, ms in times.items()
    ]


def measure_all(torch, batches=BATCHES) -> pd.DataFrame:
    """Time PyTorch's forward pass of the network; return a row per batch, place (CPU or GPU) and part of the pass.

    The rows have date, device and software, too.
    """
    weights = load_weights("digits")
    # the test images, repeated until they are enough for the largest batch
    images = np.ascontiguousarray(
        cycle(dataset("digits", split="test", size=86), max(batches)).images
    )
    table = pd.DataFrame(
        [
            row
            for batch in batches
            for place, repeat in REPEAT.items()  # "cpu" and "cuda", each with its number of passes
            for row in measure_parts(torch, images[:batch], weights, place, repeat)
        ]
    )
    software = f"{describe_torch(torch)}, {torch.get_num_threads()} threads on the CPU"
    return stamp(table, software, torch.cuda.get_device_name(0))


def framework(dry: Dry = False) -> None:
    """Measure the network in PyTorch: data/framework/.

    Each part of the forward pass, on the CPU and on the GPU, in float32 without TF32.
    """
    torch = require_torch()
    with torch.no_grad():
        table = measure_all(torch)
    print(
        table.pivot(index="part", columns=["place", "batch"], values="median_ms").to_string(
            float_format="%.3g"
        )
    )
    if not dry:
        print(f"\nkept in {record_table(table, 'framework')}")
