"""The ladder: one convolution, one idea a rung, and everything that is needed to run each of them.

The rungs are data, see `labkit.ladder.rungs`. A `Variant` is a rung with chosen options, one of its sub-steps, or a
reader's own source in its place. A `Plan` is a variant made ready for one layer and one batch: compiled, with its
buffers.

    tiled = variant(4, tile=32)
    with tiled.plan(LENET86[1], batch=100) as plan:
        plan.load(x, k)
        plan.run()
        y = plan.result()
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import json
import os
import re
import textwrap
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, SimpleNamespace

import numpy as np

from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder.rungs import (
    CONSTANT_BYTES,
    LADDER,
    MAX_GRID,
    MAX_OFFSET,
    MAX_THREADS,
    SHARED_BYTES,
    Rounding,
    Rung,
    less_shared,
    rung,
    scope,
    short,
)
from labkit.spec.layers import Layer

MAX_SCRATCH_BYTES = 2**30  # of a plan's buffers between kernels; more images than fit are computed in chunks

SIGNATURE = "PPPiiiiii"  # x, k, y, B, C, H, W, M, K: every kernel of the ladder
NVCC_OPTIONS = ("-std=c++17", "-O3")

__all__ = [
    "LADDER", "Launch", "Plan", "Rounding", "Rung", "Variant",
    "diff", "rung", "show", "solution", "solutions", "variant", "variants",
]  # fmt: skip


def digest(source: str) -> str:
    """Eight hexadecimal digits of a CUDA source, its comments left out."""
    code = re.sub(r"[ \t]*//.*", "", source)
    return hashlib.sha256(code.encode()).hexdigest()[:8]


# --------------------------------------------------------------------------------------------------- variants
@dataclass(frozen=True)
class Launch:
    """One kernel launch of a plan: the call's geometry with the numbers filled in."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int  # bytes a block

    @property
    def threads(self) -> int:
        """Threads of the whole grid."""
        return int(np.prod(self.grid, dtype=object) * np.prod(self.block, dtype=object))


class Variant:
    """A rung with chosen options, or with a reader's own kernel in its place. Made by `variant`.

    Attributes
    ----------
    rung : Rung
    options : mapping
        All options of the rung, the defaults included.
    source : str
        The kernel file's text.
    path : Path or None
        Where it was read from.
    own : bool
        Whether the source is a reader's own.
    label : str
        For tables and plots: "01 baseline", "03 registers, sum", "04 tiling, tile=32".
    """

    def __init__(self, rung: Rung, options: dict, source: str, path: Path | None, own: bool):
        self.rung = rung
        self.options = MappingProxyType(options)
        self.source = source
        self.path = path
        self.own = own
        code = _code_only(source)
        self.kernels = _kernel_names(code, rung, self.file_name)
        self.constant = _constant_symbol(code, rung, own or bool(self.step))
        self._dynamic_shared = bool(re.search(r"\bextern\b[^;]*\b__shared__\b", code))

    @property
    def label(self) -> str:
        chosen = [f"{name}={short(value)}" for name, value in self.options.items()
                  if name != "step" and value != self.rung.options[name].default]  # fmt: skip
        step = [self.step] if self.step else []
        own = [self.path.name if self.path else "own source"] if self.own else []
        return ", ".join([self.rung.label, *step, *own, *chosen])

    @property
    def options_text(self) -> str:
        """The options as results name them: "block=16x16"."""
        return " ".join(f"{name}={short(value)}" for name, value in self.options.items() if value is not None)

    @property
    def step(self) -> str | None:
        """The sub-step in the rung's place, if one was chosen."""
        return self.options.get("step")

    @property
    def library(self) -> bool:
        """Whether cuBLAS computes a part of it: that takes an NVIDIA GPU."""
        return any(call.library(SimpleNamespace(**self.options)) for call in self.rung.calls)

    @property
    def file_name(self) -> str:
        """The name that compiler messages and diffs give the source."""
        return self.path.name if self.path else f"{self.rung.number:02d}_own.cu"

    @property
    def io_dtype(self) -> np.dtype:
        """Of x, k and y on the device."""
        return self.rounding.storage

    @property
    def rounding(self) -> Rounding:
        """How it rounds, for the checker."""
        return self.rung.rounding(self.options)

    @property
    def headers(self) -> list[str]:
        """The text of the headers beside `path` that the source includes, and they include, as they are now."""
        return [*_headers(self.source, self.path.parent).values()] if self.path else []

    @property
    def identity(self) -> str:
        """A digest of the source, its headers and the options: the same kernel, the same identity."""
        text = json.dumps([self.rung.number, dict(self.options), self.source, *self.headers], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @functools.cached_property
    def code(self) -> str:
        """`digest` of the source: what was measured of another is not this kernel's."""
        return digest(self.source)

    def __eq__(self, other) -> bool:
        return isinstance(other, Variant) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash((self.source, self.options_text))  # not of the headers: they may change

    def __reduce__(self):  # a rung holds functions, so it travels to another process by its number
        return _restored, (self.rung.number, dict(self.options), self.source, self.path, self.own)

    def __repr__(self) -> str:
        return f"<Variant {self.label}>"

    def launches(self, layer: Layer, images: int = 1) -> tuple[Launch, ...]:
        """The launches that compute `images` images of `layer`, as data.

        Raises
        ------
        LabError
            As `supports` does.
        """
        self.supports(layer)
        return self._launches(layer, images)

    def _launches(self, layer, images):
        s = scope(layer, images, self.options)
        return tuple(
            Launch(kernel, step.grid(s), step.block(s), step.shared(s))
            for kernel, step in zip(self.kernels, self.rung.calls, strict=True)
        )

    def defines(self, layer: Layer) -> dict[str, int]:
        """The compile-time parameters for `layer`."""
        return self.rung.defines(scope(layer, 1, self.options))

    def supports(self, layer: Layer) -> None:
        """Check that this variant can compute `layer`.

        Raises
        ------
        LabError
            Naming the limit and the number, if the mask exceeds constant memory, a tile shared memory,
            the grid or the layer the rung's limits, or one image is too large for 32-bit offsets.
        """
        if self.constant and self.rung.constant:
            size = int(np.prod(layer.k_shape)) * self.io_dtype.itemsize
            if size > CONSTANT_BYTES:
                raise LabError(
                    f"{self.label} keeps the mask in constant memory, {CONSTANT_BYTES:,} bytes; the mask of "
                    f"{layer} has {size:,}: take a rung that does not, such as 1 or 6"
                )
        s = scope(layer, 1, self.options)
        if why := self.rung.limit(s):
            raise LabError(f"{self.label} cannot compute {layer}: {why}; take a rung that can, such as 7")
        for what, size in (("input", layer.C * layer.H * layer.W), ("output", layer.M * s.pixels),
                           ("mask", layer.M * s.depth), ("unrolled", self.rung.scratch(s) // 4)):  # fmt: skip
            if size > MAX_OFFSET:
                raise LabError(
                    f"{self.label} counts inside one image with 32-bit integers, up to {MAX_OFFSET:,}; "
                    f"the {what} of {layer} has {size:,} elements"
                )
        for launch in self._launches(layer, 1):
            threads = int(np.prod(launch.block))
            if threads > MAX_THREADS:
                raise LabError(f"{self.label}: {threads} threads in a block; the limit is {MAX_THREADS}")
            if launch.shared > SHARED_BYTES:
                raise LabError(
                    f"{self.label} needs {launch.shared:,} bytes of shared memory a block for {layer}; the "
                    f"limit is {SHARED_BYTES:,}: {less_shared(self.rung, layer, self.options)}"
                )
            for axis, size, limit in zip("xyz", launch.grid, MAX_GRID, strict=True):
                if size > limit:
                    raise LabError(
                        f"{self.label}: {launch.kernel} for {layer} takes {size:,} blocks in {axis}; "
                        f"the limit of a grid is {limit:,}"
                    )

    def module(self, layer: Layer):
        """The compiled module for `layer`; compiled once a process.

        Raises
        ------
        labkit.cuda.driver.CompileError
            With the compiler's message, which names the kernel file and the line.
        """
        return _module(self, self.defines(layer))

    def precompile(self, *layers: Layer) -> None:
        """Compile for `layers` into the engine's cache on disk, side by side; `module` finds them there.

        Compilers are slow and machines have many cores: any number of threads may do this at once.

        Raises
        ------
        labkit.cuda.driver.CompileError
            As `module` does.
        """
        from labkit.cuda import compiler
        from labkit.spec.devices import device

        capability = device().compute_capability
        arch = "sm_{}{}".format(*capability) if capability else None
        defines = {tuple(each.items()): each for each in map(self.defines, layers) if _key(self, each) not in _modules}
        with ThreadPoolExecutor(min(len(defines), os.cpu_count()) or 1) as pool:
            jobs = [pool.submit(compiler.compile, **_compiler_arguments(self, each), arch=arch)
                    for each in defines.values()]  # fmt: skip
        for job in jobs:
            job.result()

    def plan(self, layer: Layer, batch: int, x=None, y=None, k=None) -> Plan:
        """Make it ready for `batch` images of `layer`; see `Plan`."""
        return Plan(self, layer, batch, x, y, k)


def _restored(number, options, source, path, own) -> Variant:
    return Variant(rung(number), options, source, path, own)


def variant(number: int, source: str | Path | None = None, **options) -> Variant:
    """A rung with chosen options.

    Parameters
    ----------
    number : int
        Of the rung.
    source : str or Path, optional
        A reader's own kernel in place of the rung's: its text, or the path of a .cu file. It gets the rung's
        arguments and launch geometry. A single kernel may have any name; if it declares one `__constant__`
        array, that gets the mask; if it declares `extern __shared__`, it gets the rung's shared memory.
    **options
        Of the rung, such as `block=(32, 8)` for 01 or `tile=32` for 04; `step="sum"` for a sub-step of 03.

    Raises
    ------
    LabError
        For an unknown rung, an unknown option or a value outside its limits, with the valid ones.
    """
    if number == 12:
        raise LabError("12 streams has no kernel of its own: labkit.Pipeline runs those of any other rung on streams")
    chosen = rung(number)
    values = {name: option.default for name, option in chosen.options.items()}
    for name, value in options.items():
        if name not in values:
            known = "; ".join(f"{n}={short(o.default)} ({o.about})" for n, o in chosen.options.items())
            raise LabError(f"{chosen.label} has no option {name!r}; it has {known}")
        values[name] = chosen.options[name].validate(name, value)
    if source is None:
        file = chosen.step_file(values["step"]) if values.get("step") else chosen.file
        return Variant(chosen, values, file.read_text(), file, own=False)
    path = _as_path(source)
    return Variant(chosen, values, _text(path) if path else str(source), path, own=True)


def as_variants(several) -> list[Variant]:
    """Variants, from one or several, given as themselves or as rung numbers."""
    several = list(several) if isinstance(several, Iterable) else [several]
    if not several:
        raise LabError("no variant was given")
    return [variant(each) if isinstance(each, int) else each for each in several]


def variants(number: int) -> list[Variant]:
    """All that a rung's page compares and this machine can run: the rung, its sub-steps in order, its options
    `compared`. What cuBLAS computes is left out where there is none."""
    chosen = rung(number)
    several = [{}, *({"step": step} for step in chosen.steps), *chosen.compared]
    found = [variant(number, **options) for options in several]
    if any(each.library for each in found):
        from labkit.cuda import cublas

        if cublas.missing():
            return [each for each in found if not each.library]
    return found


def solution(exercise: str, **options) -> Variant:
    """The kernel that solves an exercise, in the place of its rung: ``solution("04a")``.

    Parameters
    ----------
    exercise : str
    **options
        Of the rung; those that the solution is written for, unless they are chosen.

    Raises
    ------
    LabError
        If there is none; the message lists those there are.
    """
    files = _solution_files()
    if exercise not in files:
        raise LabError(f"no kernel solves an exercise {exercise!r}; there are solutions of {', '.join(files)}")
    number = int(exercise[:2])
    return variant(number, files[exercise], **{**rung(number).solved.get(exercise, {}), **options})


def solutions(number: int | None = None) -> list[Variant]:
    """The kernels that solve exercises: all of them, or those of one rung."""
    return [solution(exercise) for exercise in _solution_files() if number in (None, int(exercise[:2]))]


def _solution_files() -> dict[str, Path]:
    folder = cuda_src() / "solutions"
    return {f"{each.number:02d}{path.name[0]}": path
            for each in LADDER for path in sorted((folder / each.name).glob("[ab]_*.cu"))}


def _as_path(source) -> Path | None:
    """The path, if `source` is one rather than the text of a kernel."""
    if not isinstance(source, Path) and ("\n" in source or "(" in source):
        return None
    path = Path(source).expanduser()
    if not path.is_file():
        raise LabError(f"there is no kernel file {path}; give the path of a .cu file or the kernel's text")
    return path.resolve()


# ------------------------------------------------------------------------------------------- reading a source
_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">\n]+)[">]', re.M)
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.S)
_KERNEL = re.compile(
    r"\b__global__\s(?:[^;{}()]|__launch_bounds__\s*\([^)]*\))*?\bvoid\s+"
    r"(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\("
)
_CONSTANT = re.compile(r"__constant__\s+(?:\w+\s+)*?(\w+)\s*\[")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = 1 + error.object[: error.start].count(b"\n")
        raise LabError(f"{path}, line {line}: {error.object[error.start]:#x} is no UTF-8; save it as UTF-8") from None


def _headers(source: str, *folders: Path, found: dict[Path, str] | None = None) -> dict[Path, str]:
    """The files of `folders` that a source includes, and those that they include from there or from beside them."""
    found = {} if found is None else found
    for name in _INCLUDE.findall(source):
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path and path.resolve() not in found:
            text = found[path.resolve()] = path.read_text(encoding="utf-8", errors="surrogateescape")
            _headers(text, path.parent, folders[-1], found=found)
    return found


def _code_only(source: str) -> str:
    """The source with its comments and strings blanked."""
    return _COMMENT_OR_STRING.sub(lambda found: '""' if found[0].startswith('"') else " ", source)


def _kernel_names(code, rung, file_name) -> tuple[str, ...]:
    """The kernel of each call: the rung's names; or, for a rung of one call, the only kernel there is."""
    wanted = tuple(call.kernel for call in rung.calls)
    found = tuple(dict.fromkeys(_KERNEL.findall(code)))
    if len(wanted) == 1 and len(found) == 1:
        return found
    if set(wanted) <= set(found):
        return wanted
    raise LabError(
        f"{file_name} takes the place of {rung.label} and has to define {' and '.join(wanted)}; it defines "
        + (", ".join(found) or "no __global__ void function")
    )


def _constant_symbol(code, rung, own) -> str | None:
    found = _CONSTANT.findall(code)
    if not own or rung.constant in found:
        return rung.constant
    return found[0] if len(found) == 1 else None


def _compiler_arguments(variant: Variant, defines: dict[str, int]) -> dict:
    name = str(variant.path or variant.file_name).replace("\\", "/")
    return {
        "source": f'#line 1 "{name}"\n{variant.source}',
        "options": [*NVCC_OPTIONS, *(f"-D{name}={value}" for name, value in defines.items())],
        "no_extern_c": True,
        "include_dirs": [str(variant.path.parent)] if variant.path else [],
    }


_modules: dict = {}
_masks: dict[int, bytes] = {}  # address of a __constant__ array -> digest of the mask in it


def _key(variant: Variant, defines: dict[str, int]) -> tuple:
    return variant.source, variant.path, *variant.headers, tuple(defines.items())


def _module(variant: Variant, defines: dict[str, int]):
    key = _key(variant, defines)
    if key not in _modules:
        from labkit.cuda import ensure_context
        from labkit.cuda.compiler import SourceModule

        ensure_context()
        _modules[key] = SourceModule(**_compiler_arguments(variant, defines))
    return _modules[key]


def _product():
    from labkit.cuda import cublas

    cublas.prepare()
    return cublas.product


# ------------------------------------------------------------------------------------------------------ plans
def images_per_launch(batch: int, scratch: int, free: int) -> int:
    """As many as the grid and the scratch buffer have room for, in chunks of nearly equal size.

    Parameters
    ----------
    batch : int
        Images.
    scratch : int
        Bytes of the buffer between the kernels, an image.
    free : int
        Bytes of free device memory.
    """
    most = min(batch, MAX_GRID[2])
    if scratch:
        most = max(1, min(most, min(MAX_SCRATCH_BYTES, free // 4) // scratch))
    chunks = -(-batch // most)
    return -(-batch // chunks)


class Plan:
    """A variant made ready for one layer and one batch: compiled, buffers allocated, launches written down.

    Parameters
    ----------
    variant : Variant
    layer : Layer
    batch : int
        Images, at least 1.
    x, y, k : device pointer, optional
        Buffers of the caller to read from and write to, in `variant.io_dtype`; else the plan has its own. Plans
        that share `k` share the mask: one of them loads it.

    Attributes
    ----------
    x, k, y : device pointers
        x [B,C,H,W], k [M,C,K,K], y [B,M,Ho,Wo].
    scratch_bytes : int
        Of the buffer between the kernels of 05.
    images : int
        Images a launch: less than the batch where the grid (65535) or the scratch buffer sets a limit.
    launches : tuple of Launch
        In order.

    Raises
    ------
    LabError
        If the batch is no positive integer, the variant does not support the layer, or wants cuBLAS where there
        is none; if its kernel lacks ``extern "C"`` or takes other arguments than the ladder's.
    labkit.cuda.driver.MemoryError
        If the device's memory does not suffice.
    """

    def __init__(self, variant: Variant, layer: Layer, batch: int, x=None, y=None, k=None):
        variant.supports(layer)
        layer.x_shape(batch)  # refuses a batch that is none
        from labkit.cuda import driver

        self.variant, self.layer, self.batch = variant, layer, int(batch)
        self._driver = driver
        product = _product() if variant.library else None
        module = variant.module(layer)
        self._owned = []
        try:
            self._set_up(module, product, x, y, k)
        except BaseException:
            self.close()
            raise

    def _set_up(self, module, product, x, y, k):
        """Allocate the buffers, write the launches down."""
        variant, layer, size = self.variant, self.layer, self.variant.io_dtype.itemsize
        self.x = self._allocate(size * int(np.prod(layer.x_shape(self.batch), dtype=np.int64))) if x is None else x
        self.k = self._allocate(size * int(np.prod(layer.k_shape))) if k is None else k
        self.y = self._allocate(size * int(np.prod(layer.y_shape(self.batch), dtype=np.int64))) if y is None else y
        self._constant = self._constant_address(module)
        self._mask = None  # digest of the mask it was loaded with

        scratch = variant.rung.scratch(scope(layer, 1, variant.options))
        self.images = images_per_launch(self.batch, scratch, self._driver.mem_get_info()[0])
        self.scratch_bytes = scratch * self.images
        scratch_buffer = self._allocate(self.scratch_bytes) if scratch else None
        arranged = variant.rung.arranged(scope(layer, 1, variant.options))
        arranged_mask = self._allocate(arranged) if arranged else None

        self.functions = functions = {name: self._function(module, name) for name in variant.kernels}
        options = SimpleNamespace(**variant.options)
        x_step = size * layer.C * layer.H * layer.W  # bytes an image
        y_step = size * layer.M * layer.Ho * layer.Wo
        launches, self._calls = [], []
        for first in range(0, self.batch, self.images):
            images = min(self.images, self.batch - first)
            where = {
                "x": int(self.x) + first * x_step,
                "k": int(self.k),
                "y": int(self.y) + first * y_step,
                "u": int(scratch_buffer) if scratch else 0,
                "a": int(arranged_mask) if arranged else 0,
            }
            sizes = (images, layer.C, layer.H, layer.W, layer.M, layer.K)
            for launch, step in zip(variant._launches(layer, images), variant.rung.calls, strict=True):
                pointers = (where[name] for name in step.buffers)
                dynamic = launch.shared if variant._dynamic_shared else 0
                launches.append(launch)
                call = product if step.library(options) else functions[launch.kernel].prepared_async_call
                self._calls.append((call, launch.grid, launch.block, (*pointers, *sizes), dynamic))
        self.launches = tuple(launches)

    def _function(self, module, name):
        try:
            return module.get_function(name).prepare(SIGNATURE)
        except self._driver.LogicError:
            why = f'there is no kernel {name!r} as C names it: write extern "C" in front of its __global__'
        except TypeError as error:
            why = f"{error}; a kernel of the ladder takes nine: pointers x, k and y, then int B, C, H, W, M and K"
        raise LabError(f"{self.variant.label}: {why}")

    def _allocate(self, size):
        buffer = self._driver.mem_alloc(size)
        self._owned.append(buffer)
        return buffer

    def _constant_address(self, module):
        """Where the mask goes in constant memory, as an address, or None."""
        if not self.variant.constant:
            return None
        address, size = module.get_global(self.variant.constant)
        needed = int(np.prod(self.layer.k_shape)) * self.variant.io_dtype.itemsize
        if needed > size:
            raise LabError(
                f"{self.variant.label}: the __constant__ array {self.variant.constant} has {size:,} bytes, "
                f"the mask of {self.layer} {needed:,}: make the array larger"
            )
        return int(address)

    def load(self, x: np.ndarray | None = None, k: np.ndarray | None = None) -> None:
        """Copy inputs to the device, cast to `variant.io_dtype`.

        Parameters
        ----------
        x : array [B,C,H,W], optional
        k : array [M,C,K,K], optional
            Also copied to the __constant__ array, if the variant has one. Plans of the same module share that
            array: `run` copies again where another plan has loaded another mask since.

        Raises
        ------
        LabError
            If a shape is not the plan's.
        """
        if x is not None:
            self._driver.memcpy_htod(self.x, self._as_input("x", x, self.layer.x_shape(self.batch)))
        if k is not None:
            k = self._as_input("k", k, self.layer.k_shape)
            self._driver.memcpy_htod(self.k, k)
            if self._constant is not None:
                self._driver.memcpy_htod(self._constant, k)
                self._mask = _masks[self._constant] = hashlib.sha256(k).digest()

    def _as_input(self, name, array, shape):
        array = np.ascontiguousarray(array, self.variant.io_dtype)
        if array.shape != shape:
            raise LabError(f"{name} has the shape {array.shape}; {self.layer}, batch {self.batch}, needs {shape}")
        return array

    def run(self, stream=None, mark: Callable[[], None] | None = None) -> None:
        """The op: launch the kernels. Returns before they have finished.

        `mark`, if given, is called before each launch and after the last: to time them apart, say.
        """
        if self._mask is not None and _masks[self._constant] != self._mask:
            size = int(np.prod(self.layer.k_shape)) * self.variant.io_dtype.itemsize
            self._driver.memcpy_dtod_async(self._constant, self.k, size, stream)
            _masks[self._constant] = self._mask
        for call, grid, block, arguments, shared in self._calls:
            if mark:
                mark()
            call(grid, block, stream, *arguments, shared_size=shared)
        if mark:
            mark()

    def result(self) -> np.ndarray:
        """Wait, and copy y back: array [B,M,Ho,Wo] in `variant.io_dtype`."""
        y = np.empty(self.layer.y_shape(self.batch), self.variant.io_dtype)
        self._driver.memcpy_dtoh(y, self.y)
        return y

    def close(self) -> None:
        """Free the plan's own buffers; a second call does nothing."""
        self._calls = ()
        while self._owned:
            self._owned.pop().free()

    def __enter__(self) -> Plan:
        return self

    def __exit__(self, *exception) -> None:
        self.close()

    def __repr__(self) -> str:
        launches = f"{len(self.launches)} launch{'es' * (len(self.launches) != 1)}"
        return f"<Plan {self.variant.label}, {self.layer.name}, batch {self.batch}, {launches}>"


# ------------------------------------------------------------------------------------------ what a page shows
def diff(a: int | Variant, b: int | Variant):
    """What changed from one rung's kernel to another's, their opening comments left out.

    Parameters
    ----------
    a, b : int or Variant
        Rung numbers, or variants (a reader's own kernel, say).

    Returns
    -------
    labkit.page.listing.Diff
        Shown in colour by a notebook; its text is a unified diff; `.changed_lines` counts.
    """
    from labkit.page.listing import Diff

    sides = [each if isinstance(each, Variant) else variant(each) for each in (a, b)]
    return Diff(*(part for v in sides for part in (v.label, v.file_name, v.source)))


def show(which: int | Variant | Callable):
    """A rung's kernel file, a variant's source, or a Python function of the lab, with its colours in a notebook."""
    from labkit.page.listing import Listing

    if callable(which):
        return Listing(which.__name__, textwrap.dedent(inspect.getsource(which)), "python")
    chosen = which if isinstance(which, Variant) else variant(which)
    return Listing(chosen.file_name, chosen.source)
