"""A variant on one layer, `LayerKernel`, and a plan: that kernel made ready for one batch, with its buffers."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

import hostcuda
from hostcuda.limits import CONSTANT_BYTES, MAX_GRID, MAX_THREADS, SHARED_BYTES
from labkit.base.errors import LabError
from labkit.ladder import cublas
from labkit.ladder.buffers import Buffers, Closing, DeviceBuffer
from labkit.ladder.options import format_option, join_options
from labkit.ladder.rung import Scope, tiles
from labkit.spec.devices import read_launch_limits
from labkit.spec.layers import Layer, as_layer

if TYPE_CHECKING:
    from labkit.ladder.variants import Variant

SIGNATURE = "PPPiiiiii"  # x, k, y, B, C, H, W, M, K: every kernel of the ladder
# images of a plan by default: its run takes milliseconds on either engine
BATCH = {"gpu": 10_000, "cpu": 10}
MAX_OFFSET = 2**31 - 1  # the kernels count inside one image with 32-bit integers
# of a plan's buffers between kernels; more images than fit are computed in chunks
MAX_SCRATCH_BYTES = 2**30
_masks: dict[int, bytes] = {}  # address of a __constant__ array -> digest of the mask in it
# held from the copy into such an array to the launch of the kernels that read it
_constant_lock = threading.RLock()


def images_per_launch(batch: int, scratch: int, free: int, limit: int | None = None) -> int:
    """Return how many images one launch computes, so that the launches of a batch have nearly equal sizes.

    It is at most the grid's size in z, `limit` (if it is not None), and what fits into the scratch
    buffer. That buffer takes `scratch` bytes per image, and at most `MAX_SCRATCH_BYTES` and a
    quarter of the `free` bytes of device memory; with `scratch` = 0 there is none.
    """
    limit = min(batch, limit or batch, MAX_GRID[2])
    if scratch:
        limit = max(1, min(limit, min(MAX_SCRATCH_BYTES, free // 4) // scratch))
    # the fewest launches, and then the fewest images with which so many are enough
    launches = tiles(batch, limit)  # batch / limit, rounded up
    return tiles(batch, launches)


def draw_inputs(x: np.ndarray, layer: Layer, rng: np.random.Generator) -> np.ndarray:
    """Fill x [B, C, H, W] with random images, 0 to 1; return random masks k, -0.25 to 0.75, of the same data type."""
    # 1000 images at a time: no second array of all images in float32
    for images in np.array_split(x, tiles(len(x), 1000)):
        images[...] = rng.random(images.shape, dtype=np.float32)
    # - 0.25: of both signs
    return (rng.random(layer.k_shape, dtype=np.float32) - np.float32(0.25)).astype(x.dtype)


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a plan: the geometry of a call with the numbers filled in."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # bytes per block

    @property
    def threads(self) -> int:
        """Threads of the whole grid."""
        # dtype=object: Python's integers, which do not overflow
        return int(np.prod(self.grid, dtype=object) * np.prod(self.block, dtype=object))


@dataclass(frozen=True)
class PreparedLaunch(Launch):
    """A launch with all that PyCUDA needs: ``function(*arguments, grid=…, block=…, shared=dynamic_shared)``."""

    function: Any  # of the module, prepared; cuBLAS's product in place of a kernel
    arguments: tuple  # addresses of x, k and y as np.intp, then B, C, H, W, M and K as np.int32
    # bytes per block that the launch asks for, beside those that the kernel declares
    dynamic_shared: int


class LayerKernel:
    """A variant on one layer, which it can compute: its sizes and its launches. Made by `Variant.on`.

    Attributes
    ----------
    variant : Variant
    layer : Layer
    scope : Scope
        What the launches depend on, see `Rung.scope`.
    defines : dict of str to int
        The compile-time parameters.

    Raises
    ------
    LabError
        With the limit and the number, if the mask exceeds constant memory, a block shared memory,
        or the grid or the layer the limits of the rung; if one image is too large for 32-bit
        offsets; if the step or the layer allows another value of an option only.
    """

    def __init__(self, variant: Variant, layer: Layer | str):
        """Compute the sizes, and check in this order the options, the sizes, and the limits of the device."""
        self.variant, self.layer = variant, as_layer(layer)
        self.scope = variant.rung.scope(self.layer, variant.options)
        self._require_options()
        self._require_sizes()
        self._require_launchable()
        self.defines = variant.rung.defines(self.scope)

    @property
    def options_text(self) -> str:
        """The options as text, "block=16x16 tile=16", with the values that the rung chooses for the layer."""
        return join_options({name: getattr(self.scope, name) for name in self.variant.options})

    def launches(self, images: int) -> tuple[Launch, ...]:
        """Return a launch per kernel for `images` images: its name, grid, block and shared memory. Nothing is launched.

        Raises LabError if `images` is not a number of images.
        """
        # `x_shape` raises the LabError
        s = Scope(**vars(self.scope), B=self.layer.x_shape(images)[0])
        return tuple(
            Launch(kernel, call.grid(s), call.block(s), call.shared(s))
            for kernel, call in zip(self.variant.kernels, self.variant.calls, strict=True)
        )

    def module(self, quick: bool = False) -> Any:
        """Return the compiled module, a SourceModule; it is compiled once per process.

        With `quick` the CPU engine optimizes it less, which takes half of the time. Raises as
        `Variant.compile` does.
        """
        return self.variant.compile(self.defines, quick)

    def plan(
        self,
        batch: int | None = None,
        x: DeviceBuffer | None = None,
        y: DeviceBuffer | None = None,
        k: DeviceBuffer | None = None,
        module: Any = None,
    ) -> Plan:
        """Return the kernel made ready for `batch` images: compiled, with its buffers and launches.

        x, y and k are device buffers of the caller, by default new ones; `module` are kernels that are
        compiled already.
        """
        return Plan(self, batch, x, y, k, module)

    def _require_options(self):
        """Raise LabError if the layer decides an option that the reader chose, or if the rung cannot compute it."""
        label = self.variant.label
        for name, value in self.variant.options.items():
            if value is not None and (actual := getattr(self.scope, name)) != value:
                raise LabError(
                    f"{label}: {name} is {format_option(actual)} for {self.layer}; leave "
                    f"{name}={format_option(value)} out"
                )
        if reason := self.variant.rung.limit(self.scope):
            raise LabError(
                f"{label} cannot compute {self.layer}: {reason}; take a rung that can, such as 7"
            )

    def _require_sizes(self):
        """Raise LabError if the mask exceeds constant memory, or an array of one image 32-bit offsets."""
        variant, layer, s = self.variant, self.layer, self.scope
        mask_bytes = layer.M * s.depth * variant.mask_dtype.itemsize
        if variant.constant and mask_bytes > CONSTANT_BYTES:
            raise LabError(
                f"{variant.label} keeps the mask in constant memory, {CONSTANT_BYTES:,} bytes; the mask of "
                f"{layer} has {mask_bytes:,}: take a rung that does not, such as 1 or 6"
            )
        for array, size in (
            ("input", layer.C * layer.H * layer.W),
            ("output", layer.M * s.pixels),
            ("mask", layer.M * s.depth),
            ("unrolled", variant.rung.scratch(s) // 4),
        ):
            if size > MAX_OFFSET:
                raise LabError(
                    f"{variant.label} counts inside one image with 32-bit integers, up to {MAX_OFFSET:,}; the "
                    f"{array} of {layer} has {size:,} elements"
                )

    def _require_launchable(self):
        """Raise LabError if the launch of one image exceeds the device's limits of a block or a grid."""
        variant, layer = self.variant, self.layer
        for launch, call in zip(self.launches(1), variant.calls, strict=True):
            threads = int(np.prod(launch.block))
            if threads > MAX_THREADS:
                raise LabError(
                    f"{variant.label}: {threads} threads in a block; the limit is {MAX_THREADS}"
                )
            if (shared := launch.shared + call.static) > (limit := self._find_shared_limit()):
                raise LabError(
                    f"{variant.label} needs {shared:,} bytes of shared memory per block for {layer}; the limit "
                    f"is {limit:,}: {self._suggest_less_shared()}"
                )
            for axis, size, limit in zip("xyz", launch.grid, MAX_GRID, strict=True):
                if size > limit:
                    raise LabError(
                        f"{variant.label}: {launch.kernel} for {layer} takes {size:,} blocks in {axis}; the "
                        f"limit of a grid is {limit:,}"
                    )

    def _find_shared_limit(self) -> int:
        """Return how many bytes of shared memory a block can have: if dynamic, as many as it can opt in to."""
        _, shared_opt_in = read_launch_limits()
        return shared_opt_in if self.variant.dynamic_shared else SHARED_BYTES

    def _suggest_less_shared(self) -> str:
        """Return the end of an error message: the options to make smaller so that a block fits, or another rung."""
        variant = self.variant

        def shared_bytes(**changes):
            """Return the bytes per block of the largest kernel, with these options changed."""
            s = variant.rung.scope(self.layer, {**variant.options, **changes})
            return max(call.shared(s) + call.static for call in variant.calls)

        # Of each option the value that needs least; `least` holds the candidates.
        smallest = {
            name: min(option.least, key=lambda value: shared_bytes(**{name: value}))
            for name, option in variant.rung.options.items()
            if option.least
        }
        remedies = {
            name: value
            for name, value in smallest.items()
            if shared_bytes(**{name: value}) < shared_bytes()
        }
        if shared_bytes(**remedies) > self._find_shared_limit():
            return "take a rung that needs less, such as 1"
        return f"take a smaller {' or '.join(remedies)}"


class Plan(Closing):
    """A variant on a layer made ready for one batch: compiled, buffers allocated, launches prepared.

    Parameters
    ----------
    kernel : LayerKernel
    batch : int, optional
        Images, at least 1; by default `BATCH` of the engine.
    x, y, k : device pointer, optional
        Buffers of the caller to read from and write to, in `variant.io_dtype`. By default the plan
        allocates its own. Plans that share `k` share the mask: one of them loads it.
    module : SourceModule, optional
        The compiled kernels; by default the variant's own, `LayerKernel.module`.

    Attributes
    ----------
    kernel, variant, layer, batch
        What the plan is for.
    x, k, y : device pointers
        x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo].
    buffers : dict of str to int
        The address of each buffer that a kernel may get: x, k, y, u (between the kernels) and a
        (the mask, arranged); 0 if the variant has none.
    scratch_bytes : int
        The size of the buffer between the kernels.
    images : int
        Images per launch: less than the batch where the grid (65535) or the scratch buffer sets a
        limit.
    launches : tuple of PreparedLaunch
        In the order in which they run.

    Raises
    ------
    LabError
        If the batch is not a positive integer; if the variant needs cuBLAS and there is none; if
        its kernel lacks ``extern "C"`` or has other parameters than the ladder's.
    hostcuda.driver.MemoryError
        If the device has too little memory.
    """

    def __init__(
        self,
        kernel: LayerKernel,
        batch: int | None = None,
        x: DeviceBuffer | None = None,
        y: DeviceBuffer | None = None,
        k: DeviceBuffer | None = None,
        module: Any = None,
    ):
        """Compile, allocate and prepare; what was allocated is freed if one of these fails."""
        self.kernel, self.variant, self.layer = kernel, kernel.variant, kernel.layer
        batch = BATCH[hostcuda.engine()] if batch is None else batch
        self.batch = self.layer.x_shape(batch)[0]  # raises if it is not a number of images
        if self.variant.library:
            # raises LabError if there is none; and the first run takes no longer than the next
            cublas.prepare()
        module = module or kernel.module()
        self._buffers = Buffers()
        try:
            self._allocate(module, x, y, k)
            self._prepare_launches(module)
        except BaseException:
            self.close()
            raise

    def _allocate(self, module, x, y, k):
        """Set `x`, `k` and `y`, the caller's buffers or new ones for None, and `buffers`, `images`, `scratch_bytes`."""
        variant, layer, dtype = self.variant, self.layer, self.variant.io_dtype
        new, s = self._buffers.new, self.kernel.scope
        self.x = new(layer.x_shape(self.batch), dtype) if x is None else x
        self.k = new(layer.k_shape, dtype) if k is None else k
        self.y = new(layer.y_shape(self.batch), dtype) if y is None else y
        self._constant = self._find_constant(module)
        self._mask = None  # digest of the mask that was loaded
        same_type = self._constant is None or variant.mask_dtype == dtype
        # what the array is filled from
        self._factors = self.k if same_type else new(layer.k_shape, variant.mask_dtype)

        scratch, arranged = variant.rung.scratch(s), variant.rung.arranged(s)
        free = hostcuda.driver.mem_get_info()[0]
        self.images = images_per_launch(self.batch, scratch, free, variant.rung.images(s))
        self.scratch_bytes = scratch * self.images
        # u: intermediate results; a: weights in another order; 0 if the rung has none
        u = int(new(self.scratch_bytes, np.uint8)) if scratch else 0
        a = int(new(arranged, np.uint8)) if arranged else 0
        self.buffers = {"x": int(self.x), "k": int(self.k), "y": int(self.y), "u": u, "a": a}

    def _prepare_launches(self, module):
        """Set `launches`, with all arguments, and `functions`: kernel name to prepared function of the module.

        A batch of more than `images` is computed in parts: the kernels of one part, then those of
        the next one.
        """
        variant, layer = self.variant, self.layer
        itemsize = variant.io_dtype.itemsize
        self.functions = {name: self._find_function(module, name) for name in variant.kernels}
        x_bytes = itemsize * layer.C * layer.H * layer.W  # per image
        y_bytes = itemsize * layer.M * layer.Ho * layer.Wo
        launches = []
        for start in range(0, self.batch, self.images):
            images = min(self.images, self.batch - start)
            addresses = {
                **self.buffers,
                "x": int(self.x) + start * x_bytes,
                "y": int(self.y) + start * y_bytes,
            }
            sizes = [
                np.int32(size) for size in (images, layer.C, layer.H, layer.W, layer.M, layer.K)
            ]
            # one for each call
            for launch, call in zip(self.kernel.launches(images), variant.calls, strict=True):
                arguments = (*(np.intp(addresses[name]) for name in call.buffers), *sizes)
                # else the kernel declares all of it
                dynamic = launch.shared if variant.dynamic_shared else 0
                # cuBLAS's product has the same method, `prepared_async_call`, and the same
                # arguments as the kernel.
                function = (
                    cublas.GEMM
                    if call.library(self.kernel.scope)
                    else self.functions[launch.kernel]
                )
                if dynamic > SHARED_BYTES:  # a kernel has to opt in to more than 48 KB
                    attribute = hostcuda.driver.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                    function.set_attribute(attribute, dynamic)
                launches.append(
                    PreparedLaunch(
                        **vars(launch),
                        function=function,
                        arguments=arguments,
                        dynamic_shared=dynamic,
                    )
                )
        self.launches = tuple(launches)

    def _find_function(self, module, name):
        """Return a kernel of the module, prepared for the ladder's nine arguments; LabError if it does not fit them."""
        try:
            return module.get_function(name).prepare(SIGNATURE)
        except hostcuda.driver.LogicError:
            why = f'there is no kernel {name!r} as C names it: write extern "C" in front of its __global__'
        except TypeError as error:
            why = f"{error}; a kernel of the ladder has nine: pointers x, k and y, then int B, C, H, W, M, K"
        raise LabError(f"{self.variant.label}: {why}")

    def _find_constant(self, module):
        """Return the address of the module's __constant__ array for the mask, or None; LabError if it is too small."""
        if not self.variant.constant:
            return None
        address, size = module.get_global(self.variant.constant)
        needed = int(np.prod(self.layer.k_shape)) * self.variant.mask_dtype.itemsize
        if needed > size:
            raise LabError(
                f"{self.variant.label}: the __constant__ array {self.variant.constant} has {size:,} bytes, "
                f"the mask of {self.layer} {needed:,}: make the array larger"
            )
        return int(address)

    def load(self, x: np.ndarray | None = None, k: np.ndarray | None = None) -> None:
        """Copy inputs to the device, cast to `variant.io_dtype`.

        Raises LabError if a shape is not that of the plan.

        Parameters
        ----------
        x : array [B,C,H,W], optional
            Images. Without them, those on the device remain.
        k : array [M,C,K,K], optional
            Masks. Without them, those on the device remain. Masks are also copied to the
            __constant__ array, if the variant has one. Plans of the same module share that array:
            `run` copies again if another plan, perhaps of another thread, has loaded another mask
            since.
        """
        if x is not None:
            hostcuda.driver.memcpy_htod(
                self.x, self._require_input("x", x, self.layer.x_shape(self.batch))
            )
        if k is not None:
            k = self._require_input("k", k, self.layer.k_shape)
            hostcuda.driver.memcpy_htod(self.k, k)
            if self._constant is not None:
                # The mask in the type of the __constant__ array. `run` copies it from `_factors`,
                # which is `self.k` if the types are the same.
                factors = k.astype(self.variant.mask_dtype, copy=False)
                if self._factors is not self.k:
                    hostcuda.driver.memcpy_htod(self._factors, factors)
                with _constant_lock:  # `run` compares the digests to notice another plan's mask
                    hostcuda.driver.memcpy_htod(self._constant, factors)
                    self._mask = _masks[self._constant] = hashlib.sha256(factors.tobytes()).digest()

    def load_random(self) -> Plan:
        """Copy random images, 0 to 1, and masks of both signs, -0.25 to 0.75, to the device; return this plan.

        Every call copies the same numbers.
        """
        x = np.empty(self.layer.x_shape(self.batch), self.variant.io_dtype)
        k = draw_inputs(x, self.layer, np.random.default_rng(1))  # fills x, too
        self.load(x, k)
        return self

    def _require_input(self, name, array, shape):
        """Return an array in C order and `variant.io_dtype`; LabError, with its name, if it has another shape."""
        array = np.ascontiguousarray(array, self.variant.io_dtype)
        if array.shape != shape:
            raise LabError(
                f"{name} has the shape {array.shape}; {self.layer}, batch {self.batch}, needs {shape}"
            )
        return array

    def run(self, stream: Any = None, mark: Callable[[], None] | None = None) -> None:
        """Launch all kernels of the plan, which together compute the layer, and return before they have finished.

        Parameters
        ----------
        stream : hostcuda.driver.Stream, optional
        mark : callable, optional
            Called before each launch and after the last one, for example to time them separately.
        """
        # plans of a module share the mask's __constant__ array
        with nullcontext() if self._constant is None else _constant_lock:
            # `_masks`: address of such an array -> digest of the mask in it. None: this plan has loaded none
            if self._constant is not None and self._mask not in (None, _masks.get(self._constant)):
                # Another plan of the module has loaded its mask there since.
                size = int(np.prod(self.layer.k_shape)) * self.variant.mask_dtype.itemsize
                hostcuda.driver.memcpy_dtod_async(self._constant, self._factors, size, stream)
                _masks[self._constant] = self._mask
            for launch in self.launches:
                if mark:
                    mark()
                launch.function.prepared_async_call(
                    launch.grid,
                    launch.block,
                    stream,
                    *launch.arguments,
                    shared_size=launch.dynamic_shared,
                )
            if mark:
                mark()

    def time(self, start: Any, stop: Any) -> float:
        """Launch the kernels between two events, wait for them, and return the time between the events [ms].

        Parameters
        ----------
        start, stop : hostcuda.driver.Event
        """
        start.record()
        self.run()
        stop.record()
        stop.synchronize()
        return stop.time_since(start)

    def result(self) -> np.ndarray:
        """Return y [B,M,Ho,Wo] in `variant.io_dtype`, copied back after waiting for the kernels."""
        y = np.empty(self.layer.y_shape(self.batch), self.variant.io_dtype)
        hostcuda.driver.memcpy_dtoh(y, self.y)
        return y

    def close(self) -> None:
        """Free the plan's own buffers; a second call does nothing."""
        self.launches = ()
        self._buffers.close()

    def __repr__(self) -> str:
        launches = f"{len(self.launches)} launch{'es' * (len(self.launches) != 1)}"
        return f"<Plan {self.variant.label}, {self.layer.name}, batch {self.batch}, {launches}>"
