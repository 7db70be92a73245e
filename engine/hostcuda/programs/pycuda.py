"""Stand in for PyCUDA, in a program that is run unchanged.

The engine takes the place of ``pycuda.driver``, ``pycuda.compiler`` and ``pycuda.autoinit``.
PyCUDA's other modules (``gpuarray``, ``elementwise``, ``reduction``, ...) are Python that works on
these; they are PyCUDA's own, from an installed PyCUDA or from its source package, which `fetch`
brings.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from hostcuda import files
from hostcuda import settings as paths
from hostcuda.api import compiler, driver
from hostcuda.api.memory import Order
from hostcuda.errors import EngineError

VERSION = "2026.1"
_SHA256 = "759516160628ba06f32ce7e563e3f5b9214691dc9528a03ea99ea1073f4e14ba"
_NEEDS = ("pytools>=2024.1", "mako>=1.3")  # packages that PyCUDA's Python modules import


def _find_cache() -> Path:
    """Return the folder for what `fetch` fetches; it need not exist."""
    return paths.cache_dir() / f"pycuda-{VERSION}"


def _find_source() -> Path | None:
    """Return the folder ``pycuda`` of PyCUDA's Python modules, fetched or installed, or None."""
    if (_find_cache() / "pycuda").is_dir():
        return _find_cache() / "pycuda"
    spec = importlib.util.find_spec("pycuda")
    return (
        Path(spec.submodule_search_locations[0])
        if spec and spec.submodule_search_locations
        else None
    )


def fetch() -> Path:
    """Fetch PyCUDA's source package and what its Python modules need, with pip, into the cache.

    Returns the folder. Raises EngineError if pip cannot fetch them, or if the package has another
    checksum.
    """
    # in the cache, so that the finished folder only has to be renamed
    with tempfile.TemporaryDirectory(dir=files.private(paths.cache_dir())) as place:
        folder, new = Path(place), Path(place, "new")
        _run_pip(
            "download", "--no-deps", "--no-binary", "pycuda", "--dest", folder, f"pycuda=={VERSION}"
        )
        (package,) = folder.glob("pycuda-*.tar.gz")
        if hashlib.sha256(package.read_bytes()).hexdigest() != _SHA256:
            raise EngineError(
                f"{package.name} is not the package that hostcuda knows: its checksum differs"
            )
        _run_pip("install", "--target", new, *_NEEDS)
        with tarfile.open(package) as archive:
            for member in archive.getmembers():
                # the path without its first folder, "pycuda-2025.1"
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                # not "..": nothing is written outside of the folder
                is_needed = path.parts[:1] in (("pycuda",), ("LICENSE",)) and ".." not in path.parts
                if is_needed and member.isfile() and (content := archive.extractfile(member)):
                    files.write(new / path, content.read())
        shutil.rmtree(_find_cache(), ignore_errors=True)
        new.rename(_find_cache())
    return _find_cache()


def _run_pip(*arguments: str | Path) -> None:
    """Run pip in a process of its own; EngineError with the end of its messages if it fails."""
    command = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        *map(str, arguments),
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise EngineError(
            f"pip cannot fetch PyCUDA {VERSION} or what it needs: {result.stderr.strip()[-500:]}"
        )


class _Finder:
    """The last finder of `sys.meta_path`: it says how to get PyCUDA's own modules where no other has found them."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        """Raise ModuleNotFoundError for a module of PyCUDA, which no other finder has found; else return None."""
        if name.startswith("pycuda."):
            raise ModuleNotFoundError(
                f"{name} is one of PyCUDA's own Python modules: `hostcuda pycuda` fetches them "
                "for the CPU engine",
                name=name,
            )


class _Pool:
    """A pool of device memory, which gives each block back at once."""

    active_blocks = held_blocks = active_bytes = managed_bytes = 0

    @staticmethod
    def allocate(size: int) -> driver.DeviceAllocation:
        """Allocate `size` bytes of device memory; LogicError for 0 bytes."""
        return driver.mem_alloc(int(size))

    def free_held(self) -> None:
        """Do nothing: no memory is held."""

    stop_holding = free_held
    bin_number = alloc_size = staticmethod(lambda size: max(1, int(size)))  # a bin per size


class _PageLockedPool(_Pool):
    """A pool of page-locked host arrays, which gives each back at once."""

    @staticmethod
    def allocate(shape: int | tuple[int, ...], dtype: DTypeLike, order: Order = "C") -> np.ndarray:
        """Return a new page-locked array, which nothing has set."""
        return driver.pagelocked_empty(shape, dtype, order)


# The end of PyCUDA's reduction assumes that the lanes of a warp run in step, which CUDA no longer
# promises.
_IN_STEP = re.compile(r"smem\[tid\] = (REDUCE\(smem\[tid\], smem\[tid \+ \d+\]\));")
_SYNCHRONIZED = (
    r"{ out_type hostcuda_both = \1; __syncwarp(); smem[tid] = hostcuda_both; __syncwarp(); }"
)


class _SourceModule(compiler.SourceModule):
    """The engine's class, which finds PyCUDA's own headers, too."""

    def __init__(
        self,
        source: object,
        nvcc: str = "nvcc",
        options: list[str] | None = None,
        keep: bool = False,
        no_extern_c: bool = False,
        arch: str | None = None,
        code: str | None = None,
        cache_dir: str | Path | bool | None = None,
        include_dirs: Iterable[str | Path] | None = None,
        cuda_libdir: str | None = None,
    ):
        """Compile and load a source; `cuda_libdir` has no effect, and for the others see the class."""
        source = _IN_STEP.sub(_SYNCHRONIZED, str(source))  # with barriers in PyCUDA's reduction
        folder = _find_source()
        # PyCUDA's own headers
        include_dirs = [*(include_dirs or ()), *([folder / "cuda"] if folder else ())]
        super().__init__(
            source, nvcc, options, keep, no_extern_c, arch, code, cache_dir, include_dirs
        )


class _DynamicModule:
    """PyCUDA's module of several sources.

    They are compiled as one text, each with line numbers of its own.
    """

    def __init__(
        self,
        nvcc: str = "nvcc",
        link_options: object = None,
        *,
        message_handler: object = None,
        log_verbose: bool = False,
        **arguments: Any,
    ):
        """Begin without a source; `arguments` are for `_SourceModule`, and the others have no effect."""
        self._arguments, self._sources, self._options = (arguments, [], [])

    def add_source(
        self, source: object, nvcc_options: Iterable[str] | None = None, name: str = "kernel.ptx"
    ) -> _DynamicModule:
        """Add a source, and return this object; its options apply to the whole module.

        In messages the first source with the name "kernel.ptx" is "kernel-0.cu", the next one "kernel-1.cu".
        """
        self._sources.append(f'#line 1 "{Path(name).stem}-{len(self._sources)}.cu"\n{source}\n')
        self._options += nvcc_options or ()
        return self

    def add_stdlib(self, libname: str) -> _DynamicModule:
        """Do nothing, and return this object: the engine has the device's runtime."""
        return self

    def link(self) -> _DynamicModule:
        """Compile and load the sources that were added; return this object, which has their kernels."""
        self.module = _SourceModule(
            "".join(self._sources), options=self._options, **self._arguments
        )
        self.get_function, self.get_global = self.module.get_function, self.module.get_global
        return self


def _make_driver_extension() -> types.ModuleType:
    """Return a stand-in for ``pycuda._driver``, PyCUDA's compiled part: what its Python modules use of it."""
    return _make_module(
        "_driver",
        DeviceMemoryPool=_Pool,
        PageLockedMemoryPool=_PageLockedPool,
        PageLockedAllocator=_PageLockedPool,
        bitlog2=lambda value: int(value).bit_length() - 1,
        # Of cuRAND's generators only those without tables (None); (3, 2, 0) is the first version
        # that PyCUDA supports.
        get_curand_version=lambda: (3, 2, 0),
        _get_direction_vectors=None,
        direction_vector_set=types.SimpleNamespace(
            VECTOR_32=101, SCRAMBLED_VECTOR_32=102, VECTOR_64=103, SCRAMBLED_VECTOR_64=104
        ),
    )


def _make_module(name: str, **contents: object) -> types.ModuleType:
    """Return a new module ``pycuda.NAME`` with these contents; it is not yet in `sys.modules`."""
    module = types.ModuleType(f"pycuda.{name}")
    vars(module).update(contents)
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    return module


def install() -> None:
    """Start the engine and let this process import it as PyCUDA: change `sys.modules`, `sys.path`, `sys.meta_path`."""
    package: Any = types.ModuleType("pycuda")
    folder = _find_source()
    # PyCUDA's other modules, such as gpuarray, are found there
    package.__path__ = [str(folder)] if folder else []
    package.VERSION = tuple(map(int, VERSION.split(".")))
    package.VERSION_STATUS, package.VERSION_TEXT = "", VERSION
    package.__spec__ = importlib.machinery.ModuleSpec("pycuda", None, is_package=True)
    context = driver.Device(0).make_context()
    contents = {
        "driver": _make_module(
            "driver", **{name: getattr(driver, name) for name in driver.__all__}
        ),
        "_driver": _make_driver_extension(),  # in place of PyCUDA's compiled part
        "compiler": _make_module(
            "compiler",
            **{
                **vars(compiler),
                "SourceModule": _SourceModule,
                "DynamicSourceModule": _SourceModule,
                "DynamicModule": _DynamicModule,
            },
        ),
        "autoinit": _make_module("autoinit", context=context, device=driver.Device(0)),
        "autoprimaryctx": _make_module("autoprimaryctx", context=context, device=driver.Device(0)),
    }
    sys.modules["pycuda"] = package
    for name, module in contents.items():
        setattr(package, name, module)
        sys.modules[f"pycuda.{name}"] = module
    if _find_cache().is_dir():
        # for pytools and mako, which `fetch` has installed there
        sys.path.append(str(_find_cache()))
    # it says how to get a module of PyCUDA that was not found
    sys.meta_path.append(_Finder)
