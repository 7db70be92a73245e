"""PyTorch's forward pass of lenet86, as opponents of `labkit.bench_network`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from labkit.networks.benchmark import DEVICE, HOST, Entry, Images, count_passes
from labkit.networks.fused import CHUNK, SIZE, STREAMS

MODES = {"fp32": "float32", "tf32": "float32", "fp16": "float16"}  # PyTorch's modes, and the data type of each
# TF32 and half have mantissas of equal length, so the bound of half is that of both.
_BOUND = {"fp32": "float32", "tf32": "float16", "fp16": "float16"}
COMPILED = ("tf32", "fp16"), ("float32", "uint8 86x86")  # modes and pixels that PyTorch compiles
# With rows of 1296 floats, padded to 1312, PyTorch 2.11's autotuner fails, and its default mode computes wrong ones.
# For convolutions the autotuner chose cuDNN each time: `recording.versus`.
COMPILERS = ({"comprehensive_padding": False, "max_autotune": True, "max_autotune_conv_backends": "ATEN"},
             {"comprehensive_padding": False})


def list_cases(torch, compiled: bool, images: Images) -> Iterator[Entry]:
    """Yield PyTorch's cases in three modes, `compiled` by torch.compile, too; cuDNN's autotuner chooses at first."""
    torch.backends.cudnn.benchmark = True
    for pixels, (array, source, white) in images.forms.items():
        pinned = torch.from_numpy(array).pin_memory()
        for mode in MODES:
            forward, place = build_forward(torch, images.weights, mode, source, white)
            runs = _PyTorchForward(torch, mode, pixels, pinned, (pinned if source else place(pinned)).to("cuda"))
            yield from runs.eager(forward)
            yield from runs.fastest(forward, ", graph", ", streams")
            if compiled and mode in COMPILED[0] and pixels in COMPILED[1]:
                yield from runs.compiled(forward, images)


@dataclass
class _PyTorchForward:
    """PyTorch's forward pass in one mode, with its images in page-locked memory and on the GPU."""

    torch: object
    mode: str
    pixels: str
    pinned: object
    x: object

    def case(self, suffix: str, where: str, *functions: Callable) -> Entry:
        name = f"PyTorch {self.mode}{suffix}"
        return Entry(name, MODES[self.mode], where, self.pixels, _BOUND[self.mode], *functions)

    def call(self, forward, x):
        cudnn, matmul = self.torch.backends.cudnn, self.torch.backends.cuda.matmul
        cudnn.allow_tf32 = matmul.allow_tf32 = self.mode == "tf32"
        with self.torch.no_grad():
            return forward(x)

    def eager(self, forward) -> Iterator[Entry]:
        """Yield the cases whose calls run one by one; from the host after the copy."""
        last, results = {}, (lambda some: last["y"].float().cpu().numpy()[some],)
        yield self.case("", DEVICE, lambda: last.update(y=self.call(forward, self.x)), *results, last.clear)
        yield self.case("", HOST, lambda: last.update(
            y=self.call(forward, self.pinned.to("cuda", non_blocking=True)).cpu()), *results, last.clear)

    def compiled(self, forward, images: Images) -> list[Entry]:
        """Return the cases of `fastest` with torch.compile's first options that work; if all fail, print why."""
        self.torch._dynamo.config.recompile_limit = 64  # a function counts once per shape
        for how in COMPILERS:
            try:
                compiled = self.torch.compile(forward, dynamic=False, options=how)
                cases = list(self.fastest(compiled, ", compiled", ", compiled"))
                for case in cases:
                    case.run()  # compiles the chunks' shape, too
                    images.check(case, "once compiled", again=False)
                return cases
            except Exception as error:  # the others are still worth a measurement
                print(f"PyTorch {self.mode}, {self.pixels}: torch.compile fails with {', '.join(how)}: "
                      f"{type(error).__name__}: {str(error).strip()[:300]}", flush=True)
        return []

    def fastest(self, forward, on_device: str, from_host: str) -> Iterator[Entry]:
        """Yield a graph on the device, and from the host chunks whose copies overlap with other chunks' kernels."""
        torch, B = self.torch, len(self.pinned)
        self.call(forward, self.x)  # outside of the graph: the autotuner chooses
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(count_passes(B)):
                y = self.call(forward, self.x)
        yield self.case(on_device, DEVICE, graph.replay, lambda some: y.float().cpu().numpy()[some],
                        lambda: y.fill_(float("nan")), None, count_passes(B))
        lanes, out = [torch.cuda.Stream() for _ in range(STREAMS)], torch.empty((B, 10), pin_memory=True)

        def overlapped():
            for first, lane in zip(range(0, B, CHUNK), itertools.cycle(lanes), strict=False):
                part = slice(first, first + CHUNK)
                with torch.cuda.stream(lane):
                    chunk = self.pinned[part].to("cuda", non_blocking=True)
                    out[part].copy_(self.call(forward, chunk), non_blocking=True)
            torch.cuda.synchronize()

        yield self.case(from_host, HOST, overlapped, lambda some: out.numpy()[some], lambda: out.fill_(float("nan")))


def build_forward(torch, weights: dict, mode: str, source: tuple[int, int] | None, white: float):
    """Return the forward pass of a tensor on the GPU, and a function that gives floats the mode's type and layout."""
    f, dtype = torch.nn.functional, torch.float16 if mode == "fp16" else torch.float32
    order = torch.channels_last if mode == "fp16" else torch.contiguous_format  # the faster one of each
    w = {name: torch.from_numpy(array).to("cuda", dtype, **({"memory_format": order} if array.ndim == 4 else {}))
         for name, array in weights.items()}

    def place(x):
        return x.to(dtype, memory_format=order)

    def forward(x):
        if source == (SIZE, SIZE):
            x = x[:, None].to(dtype) / white
        elif source:
            x = f.interpolate(x[:, None].float() / white, size=(SIZE, SIZE), mode="bilinear")
        x = place(x)
        x = f.max_pool2d(f.relu(f.conv2d(x, w["conv1"])), 2, 2)
        x = f.max_pool2d(f.relu(f.conv2d(x, w["conv2"])), 4, 4, ceil_mode=True)
        x = f.relu(x.flatten(1) @ w["fc1"] + w["fc1_bias"])
        return torch.softmax((x @ w["fc2"] + w["fc2_bias"]).float(), 1)

    return forward, place
