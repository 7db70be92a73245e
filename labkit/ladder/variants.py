"""Variants: a rung with chosen options, one of its sub-steps, or a reader's own source in its place.

>>> tiled = variant("tiling", tile=32)
>>> with tiled.plan(LENET86[1], batch=100) as plan:
...     plan.load(x, k)
...     plan.run()
...     y = plan.result()
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import hostcuda
from hostcuda.errors import EngineError
from hostcuda.source import code_only, constant_arrays, has_dynamic_shared, headers, kernel_names
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.ladder import cublas
from labkit.ladder import source as kernel_files
from labkit.ladder.buffers import DeviceBuffer
from labkit.ladder.messages import find_lacking
from labkit.ladder.options import format_option, join_options
from labkit.ladder.plan import Launch, LayerKernel, Plan
from labkit.ladder.rung import Rounding, Rung, Scope
from labkit.ladder.rungs import LADDER, PAGES, rung
from labkit.spec.devices import Device, device
from labkit.spec.layers import Layer, as_layer

NO_SOLUTIONS = "this edition of the lab has no solutions: lab.grade gives a hint after each attempt"
ON_CPU = "HOSTCUDA_ENGINE=cpu"
WGMMA = (9, 0)  # the one compute capability that has wgmma instructions, products of four warps
_modules: dict = {}  # compiled in this process, by `_make_module_key`


class Variant:
    """A rung with chosen options, or with a reader's own kernel in its place. Made by `variant`.

    Attributes
    ----------
    rung : Rung
    options : mapping
        All options of the rung, the defaults included.
    source : str
        The text of the kernel file.
    path : Path or None
        The file that it was read from.
    own : bool
        Whether the source is a reader's own.
    calls : tuple of Call
        The calls of the rung that it launches.
    kernels : tuple of str
        The kernel of each call.
    constant : str or None
        The __constant__ array that gets the mask.
    dynamic_shared : bool
        Whether the launch gives the size of the shared memory.
    rounding : Rounding
        How the kernels round, for the checker.
    io_dtype : dtype
        The type of x, k and y on the device.
    mask_dtype : dtype
        The type of the mask in a __constant__ array: the host converts it, once for all batches.
    """

    def __init__(self, rung: Rung, options: dict, text: str, path: Path | None, own: bool):
        """Find out what a kernel file has: its kernels, its constant array, its dynamic shared memory.

        Raises LabError if the text lacks a kernel that the rung calls; for a reader's own text also if
        a kernel has its parameters in another order.
        """
        self.rung, self.source, self.path, self.own = rung, text, path, own
        self.options = MappingProxyType(options)
        # a step may leave calls out
        self.calls = tuple(call for call in rung.calls if call.used(Scope(**options)))
        code = code_only(text)
        place = kernel_files.Place(self.file_name, self.rung.label, self.rung.number)
        self.kernels = kernel_files.choose_kernels(
            kernel_names(code), tuple(call.kernel for call in self.calls), place
        )
        if own:
            kernel_files.require_order(code, self.kernels, self.list_passed(), place)
        self.constant = rung.constant
        arrays = constant_arrays(code)
        # another name for the mask's array, or no such array
        if (own or self.step) and rung.constant not in arrays:
            self.constant = arrays[0] if len(arrays) == 1 else None
        self.dynamic_shared = has_dynamic_shared(code)
        self.rounding: Rounding = rung.rounding(self.options)
        self.io_dtype: np.dtype = self.rounding.storage
        self.mask_dtype: np.dtype = self.rounding.operands or self.io_dtype

    def list_passed(self) -> list[list[str]]:
        """Return the arguments of each kernel call by name: three pointers, such as x, k, y, then B, C, H, W, M, K."""
        return [[*call.buffers, *"BCHWMK"] for call in self.calls]

    @functools.cached_property
    def label(self) -> str:
        """The variant as tables and plots write it: "01 baseline", "03 registers, sum", "04 tiling, tile=32"."""
        # those that are not the default; the sub-step stands before them, without "step="
        options = [
            f"{name}={format_option(value)}"
            for name, value in self.options.items()
            if name != "step" and value != self.rung.options[name].default
        ]
        step_name = [self.step] if self.step else []
        own_name = [self.path.name if self.path else "own source"] if self.own else []
        return ", ".join([self.rung.label, *step_name, *own_name, *options])

    @property
    def options_text(self) -> str:
        """The chosen options as sweeps write them: "block=16x16"."""
        return join_options(self.options)

    def scope(self, layer: Layer | str) -> Scope:
        """Return the layer's sizes and the options as attributes of one object: the launches depend on them.

        No limit is checked: `on` does that.
        """
        return self.rung.scope(as_layer(layer), self.options)

    @property
    def step(self) -> str | None:
        """The sub-step in place of the rung, if one was chosen."""
        return self.options.get("step")

    @property
    def library(self) -> bool:
        """Whether cuBLAS computes a part of it: that needs an NVIDIA GPU."""
        return any(call.library(Scope(**self.options)) for call in self.calls)

    @property
    def file_name(self) -> str:
        """The name of the source in compiler messages and diffs."""
        return self.path.name if self.path else f"{self.rung.number:02d}_own.cu"

    @property
    def headers(self) -> list[str]:
        """The texts of all headers that the source includes, also through other headers; they are read each time."""
        return [*headers(self.source, *kernel_files.header_folders(self.path)).values()]

    @property
    def identity(self) -> str:
        """A digest of all that makes a variant what it is: two with the same one are equal.

        It is of the rung's name, its measured sizes (`Rung.recorded`), the options, the source and headers.
        """
        contents = [
            self.rung.name,
            dict(self.options),
            self.rung.recorded(self.options),
            self.source,
            *self.headers,
        ]
        text = json.dumps(contents, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @functools.cached_property
    def code(self) -> str:
        """A short digest of the source, its headers, and the rung's measured sizes (`Rung.recorded`).

        Variants with different kernels have different digests: beside a recorded time it says which kernel
        that was.
        """
        return kernel_files.digest(
            self.source + "".join(self.headers) + self.rung.recorded(self.options)
        )

    def __eq__(self, other) -> bool:
        return isinstance(other, Variant) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash((self.source, self.options_text))  # without the headers, which may change

    def __reduce__(self):
        """Return what `pickle` stores: a rung holds functions, which cannot be pickled, and is found by its name."""
        return _restore, (self.rung.name, dict(self.options), self.source, self.path, self.own)

    def __repr__(self) -> str:
        return f"<Variant {self.label}>"

    def on(self, layer: Layer | str) -> LayerKernel:
        """Return the variant on a layer; LabError unless it can compute that layer on the device in use.

        The message says what instructions the device lacks, or what of the layer exceeds a limit:
        see `LayerKernel`.
        """
        self._require_instructions()
        return LayerKernel(self, layer)

    def supports(self, layer: Layer | str) -> None:
        """Raise LabError unless this variant can compute `layer` on the device in use."""
        self.on(layer)

    def launches(self, layer: Layer | str, images: int = 1) -> tuple[Launch, ...]:
        """Return the launches that compute `images` images of `layer`: the name, grid and block of each kernel.

        Nothing is launched. Raises LabError if the variant cannot compute them.
        """
        return self.on(layer).launches(images)

    def plan(
        self,
        layer: Layer | str,
        batch: int | None = None,
        x: DeviceBuffer | None = None,
        y: DeviceBuffer | None = None,
        k: DeviceBuffer | None = None,
        module: Any = None,
    ) -> Plan:
        """Return the variant made ready for `batch` images of `layer`: compiled, with its buffers and launches.

        x, y and k are device buffers of the caller, by default new ones; `module` are kernels that are
        compiled already.
        """
        return self.on(layer).plan(batch, x, y, k, module)

    def defines(self, layer: Layer | str) -> dict[str, int]:
        """Return the compile-time parameters for `layer`, {"FIXED_K": 7, …}; no limit is checked."""
        return self.rung.defines(self.scope(layer))

    def compile(self, defines: dict[str, int], quick: bool = False) -> Any:
        """Return the module compiled with these compile-time parameters; it is compiled once per process.

        With `quick` the CPU engine optimizes less, which compiles in half of the time. Raises
        LabError if the device lacks instructions that the kernel needs, or
        hostcuda.driver.CompileError with the compiler's message, which names the kernel file and
        the line.
        """
        key = self._make_module_key(defines, quick)
        if key not in _modules:
            self._require_instructions()
            hostcuda.ensure_context()
            with self._name_missing_instruction(), warnings.catch_warnings():
                # "wgmma is serialized": ptxas warns of it, in the lab's kernels only for shapes
                # that the tests have.
                if self.path and self.path.is_relative_to(PACKAGE):
                    warnings.filterwarnings(
                        "ignore", "(?s).*Potential Performance Loss", UserWarning
                    )
                _modules[key] = hostcuda.compiler.SourceModule(
                    **self.compiler_arguments(defines, quick)
                )
        return _modules[key]

    def precompile(
        self, *all_defines: dict[str, int], quick: bool = False, tools: Sequence[str] = ()
    ) -> None:
        """Compile with each of these compile-time parameters, in parallel, into the engine's cache on disk.

        `compile` finds the results there; with `tools` of check mode, a child process under these
        tools does, on the CPU engine. With `quick` the CPU engine optimizes less. Equal parameters
        are compiled once. Any number of threads may call this. Raises as `compile` does.
        """
        self._require_instructions()
        jobs = {
            tuple(defines.items()): defines
            for defines in all_defines
            # `_modules` are compiled in this process already; none of them is for tools
            if tools or self._make_module_key(defines, quick) not in _modules
        }.values()

        def compile_one(defines: dict[str, int]) -> None:
            """Compile with some compile-time parameters."""
            if tools:
                self.compile_checked(defines, tools)
            else:
                hostcuda.compiler.compile(**self.compiler_arguments(defines, quick))

        # "or 1", also without jobs: a pool has at least one thread
        with ThreadPoolExecutor(min(len(jobs), os.cpu_count() or 1) or 1) as pool:
            for future in [pool.submit(compile_one, job) for job in jobs]:
                with self._name_missing_instruction():
                    future.result()

    def compile_checked(self, defines: dict[str, int], tools: Sequence[str]) -> Path:
        """Compile with these compile-time parameters for a child process with `tools` of check mode, on the CPU engine.

        The child finds it in the engine's cache. Return the path of the shared library there;
        raises as `compile` does.
        """
        from hostcuda import checking  # here, because it loads the engine

        return checking.precompile(tools, **self.compiler_arguments(defines))

    @property
    def missing(self) -> str:
        """A message, if the GPU in use lacks instructions of this kernel of the lab, with what to take instead; or "".

        It is "" on the CPU engine, which runs every kernel, and for a reader's own kernel.
        """
        gpu, needed = device(), self.rung.min_capability
        capability = gpu.compute_capability
        # a reader's own kernel may need less than the rung's
        from_lab = self.path and self.path.is_relative_to(PACKAGE)
        if capability and from_lab and capability < needed:
            return (
                f"{self.label} needs compute capability {needed[0]}.{needed[1]}; the {gpu.name} has "
                f"{capability[0]}.{capability[1]}: take {self._suggest_older_rung()}, or {ON_CPU}"
            )
        # a sub-step with wgmma, whose rung itself does without
        if capability and from_lab and self.architecture_specific and capability != WGMMA:
            return f"{self.label} {describe_missing_wgmma(gpu)}: take {self.rung.label} itself, or {ON_CPU}"
        return ""

    def _suggest_older_rung(self):
        """Return the label of the last rung before this one, in the same precision, that the GPU in use runs."""
        earlier = [rung for rung in LADDER if rung.number < self.rung.number]
        older = [
            rung.label
            for rung in earlier
            if rung.min_capability <= (device().compute_capability or (0, 0))
            and variant(rung.number).io_dtype == self.io_dtype
        ]
        return (older or ["another rung"])[-1]

    def _name_missing_instruction(self):
        """Return `name_missing_instruction` for this variant, which compiles in its `with` block."""
        return name_missing_instruction(
            self.label, lambda: f"take {self._suggest_older_rung()}, or {ON_CPU}"
        )

    def _require_instructions(self):
        """Raise LabError, with the sentence of `missing`, if the GPU in use lacks instructions of the lab's kernel."""
        if missing := self.missing:
            raise LabError(missing)

    def _make_module_key(self, defines, quick):
        """Return the key of a compiled module in `_modules`: all that the compiler's result depends on."""
        return self.source, self.path, *self.headers, tuple(defines.items()), quick

    def compiler_arguments(self, defines: dict[str, int], quick: bool = False) -> dict:
        """Return the keyword arguments of `SourceModule` for the source; `defines` becomes options -Dname=value.

        With `quick` the CPU engine optimizes less, which compiles in half of the time: for what runs
        for milliseconds anyway. On a GPU it has no effect.
        """
        options = [f"-D{name}={value}" for name, value in defines.items()]
        if quick and device().engine == "cpu":
            options += ["-Xptxas", "-O1"]  # the engine reads this option of nvcc
        file = self.path or self.file_name
        return {
            **kernel_files.module_arguments(self.source, file, *options),
            "arch": self._choose_arch(),
        }

    @property
    def architecture_specific(self) -> bool:
        """Whether the source uses wgmma, instructions of "sm_90a" alone: it tests nvcc's macro of "sm_90a"."""
        return any("__CUDA_ARCH_FEAT_SM90_ALL" in text for text in (self.source, *self.headers))

    def _choose_arch(self):
        """Return the device's architecture, for nvcc: "sm_90", or "sm_90a" with its own instructions; None on a CPU."""
        capability = device().compute_capability
        if not capability:
            return None
        return "sm_{}{}".format(*capability) + (
            "a" if self.architecture_specific and capability == WGMMA else ""
        )


def describe_missing_wgmma(gpu: Device) -> str:
    """Return the end of the sentence that a kernel needs wgmma, products of four warps, and that `gpu` has none.

    "multiplies with wgmma, which only compute capability 9.0 has; the NVIDIA A100 has 8.0"
    """
    return (
        "multiplies with wgmma, which only compute capability {}.{} has; the {} has {}.{}".format(
            # (0, 0) is never shown: callers ask only for a GPU, which has a capability
            *WGMMA,
            gpu.name,
            *(gpu.compute_capability or (0, 0)),
        )
    )


@contextmanager
def name_missing_instruction(label: str, suggest: Callable[[], str]) -> Iterator[None]:
    """Turn a CompileError into a LabError of one sentence if the GPU in use lacks an instruction.

    `label` names the kernel, `suggest` returns what to do.
    """
    try:
        yield
    except hostcuda.driver.CompileError as error:
        gpu = device()
        if gpu.compute_capability and (
            instruction := find_lacking(f"{error.stderr}\n{error.stdout}")
        ):
            raise LabError(
                "{} uses {}; the {} has {}.{}: {}".format(
                    label, instruction, gpu.name, *gpu.compute_capability, suggest()
                )
            ) from None
        raise


def _restore(name, options, text, path, own) -> Variant:
    """Return the variant that `pickle` stored: that of the rung `name`, with the arguments of `Variant`."""
    return Variant(rung(name), options, text, path, own)


def variant(which: int | str, source: str | Path | None = None, **options: Any) -> Variant:
    """Return a rung with chosen options.

    Parameters
    ----------
    which : int or str
        The number or the name of the rung.
    source : str or Path, optional
        A reader's own kernel in place of the rung's: its text, or the path of a .cu file. It gets
        the rung's arguments and launch geometry. A single kernel may have any name; if it declares
        one `__constant__` array, that gets the mask; if it declares `extern __shared__`, it gets
        the rung's shared memory.
    **options
        Options of the rung, such as `block=(32, 8)` for 01 or `tile=32` for 04; `step="sum"` for a
        sub-step of 03.

    Raises
    ------
    LabError
        For an unknown rung, an unknown option or a value outside its limits; the message lists the
        valid ones.
    """
    if which in ("streams", PAGES["streams"]):
        raise LabError(
            "12 streams has no kernel of its own: labkit.Pipeline runs those of any other rung on streams"
        )
    chosen_rung = rung(which)
    values: dict[str, Any] = {name: option.default for name, option in chosen_rung.options.items()}
    for name, value in options.items():
        if name not in values:
            valid = "; ".join(
                f"{valid_name}={format_option(option.default)} ({option.about})"
                for valid_name, option in chosen_rung.options.items()
            )
            raise LabError(f"{chosen_rung.label} has no option {name!r}; it has {valid}")
        values[name] = chosen_rung.options[name].validate(name, value)
    if source is None:
        file = chosen_rung.step_file(values["step"]) if values.get("step") else chosen_rung.file
        return Variant(chosen_rung, values, file.read_text(), file, own=False)
    path = kernel_files.as_path(source)
    return Variant(
        chosen_rung, values, kernel_files.read(path) if path else str(source), path, own=True
    )


def as_variants(
    items: Variant | int | str | Iterable[Variant | int | str],
) -> list[Variant]:
    """Return a list of variants, from one or several: variants, or numbers or names of rungs; else raise LabError."""
    items = list(items) if isinstance(items, Iterable) and not isinstance(items, str) else [items]
    if not items:
        raise LabError("no variant was given")
    items = [variant(item) if isinstance(item, (int, str)) else item for item in items]
    for item in items:
        if hasattr(item, "get_function"):  # a compiled module, such as the name in %%cuda NAME
            raise LabError(
                "a module of %%cuda has no launch of its own: put its kernel and your launches into a cell "
                "of %%program NAME.py, then `%hostcuda profile NAME.py` "
                "or `%hostcuda sanitize NAME.py`; lab.sanitize(NAME) repeats its last launch. What takes a rung's "
                "place belongs into a %%kernel cell"
            )
        if not hasattr(item, "supports"):  # a text or a layer, for example
            raise LabError(
                f"{item!r} is not a variant: take labkit.variant(1), or the number or name of a rung"
            )
    return items


def can_compute(kernel: Variant, layer: Layer) -> bool:
    """Return whether a variant can compute a layer on the device in use; `Variant.supports` raises if not."""
    try:
        kernel.supports(layer)
    except EngineError:
        return False
    return True


def variants(which: int | str) -> list[Variant]:
    """Return what a rung's page compares and this machine can run: the rung, its sub-steps, the options `compared`.

    Variants that need cuBLAS are left out if it is missing, and those with wgmma if the GPU does
    not have it.
    """
    chosen_rung = rung(which)
    # `compared` has options, {"gemm": "cublas"}; {} is the rung itself.
    options_to_compare = [
        {},
        *({"step": step} for step in chosen_rung.steps),
        *chosen_rung.compared,
    ]
    compared = [variant(which, **options) for options in options_to_compare]
    runnable = [
        candidate
        for candidate in compared
        if not (candidate.architecture_specific and candidate.missing)
    ]
    if any(candidate.library for candidate in runnable) and cublas.missing():
        return [candidate for candidate in runnable if not candidate.library]
    return runnable


def _find_solutions(chosen: Rung) -> dict[str, Path]:
    """Return the files of a rung's exercises by letter, without those whose kernel is not in the rung's place."""
    kernels = {call.kernel for call in chosen.calls}
    return {
        letter: path
        for letter, path in kernel_files.solution_files(chosen.name).items()
        if len(kernels) == 1 or kernels & {*kernel_names(code_only(kernel_files.read(path)))}
    }


def solution(which: int | str, exercise: str, **options: Any) -> Variant:
    """Return the kernel that solves an exercise of a rung, by its letter: ``solution("tiling", "a")``.

    `options` are the rung's, by default those that the solution is written for. Raises LabError if
    there is no solution; the message lists the exercises that have one, or says that this edition
    of the lab has none at all.
    """
    chosen_rung = rung(which)
    files = _find_solutions(chosen_rung)
    if exercise not in files:
        available = (
            f"; there are solutions of {', '.join(files)}"
            if files
            else ": no exercise of this rung has one"
        )
        raise LabError(
            f"there is no solution of exercise {exercise!r} of {chosen_rung.label}{available}"
        )
    all_options = variant(
        chosen_rung.name, **{**chosen_rung.solved.get(exercise, {}), **options}
    ).options  # validated
    path = files[exercise]
    text = kernel_files.select_view(kernel_files.read(path), skeleton=False)
    if not text:  # the students' edition: its files have nothing after #else
        raise LabError(NO_SOLUTIONS)
    return Variant(chosen_rung, dict(all_options), text, path, own=True)


def solutions(which: int | str | None = None) -> list[Variant]:
    """Return the kernels that solve exercises: all of them, or those of the rung with the number or name `which`.

    An edition without solutions has none.
    """
    rungs = LADDER if which is None else [rung(which)]
    return [
        solution(chosen.name, letter)
        for chosen in rungs
        for letter, path in _find_solutions(chosen).items()
        if kernel_files.select_view(kernel_files.read(path), skeleton=False)
    ]
