"""Runs a PyCUDA program, unchanged: ``python -m hostcuda.programs.pycuda PROGRAM.py [ARGUMENT ...]``.

What a program imports as ``pycuda.driver``, ``pycuda.compiler`` and ``pycuda.autoinit`` is the engine. PyCUDA's other
modules (``gpuarray``, ``elementwise``, ``reduction``, ...) are Python that works on these; they are PyCUDA's own, from
an installed PyCUDA or from its source package, which `fetch` brings.
"""

import hashlib
import importlib.machinery
import importlib.util
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tempfile
import types
from pathlib import Path, PurePosixPath

from hostcuda import files
from hostcuda import settings as paths
from hostcuda.api import compiler, driver
from hostcuda.errors import EngineError

VERSION = "2026.1"
_SHA256 = "759516160628ba06f32ce7e563e3f5b9214691dc9528a03ea99ea1073f4e14ba"
_NEEDS = ("pytools>=2024.1", "mako>=1.3")  # of PyCUDA's Python modules


# ---------------------------------------------------------------------------------------------------------------------
# PyCUDA's own modules


def _kept():
    return paths.cache_dir() / f"pycuda-{VERSION}"


def _source():
    """The folder of PyCUDA's Python modules, or None."""
    if (_kept() / "pycuda").is_dir():
        return _kept() / "pycuda"
    spec = importlib.util.find_spec("pycuda")
    return Path(spec.submodule_search_locations[0]) if spec and spec.submodule_search_locations else None


def fetch() -> Path:
    """Fetch PyCUDA's source package and what its Python modules need, with pip, into the cache.

    Returns the folder. Raises EngineError if pip cannot fetch them, or the package is not the one that is known here.
    """
    with tempfile.TemporaryDirectory(dir=files.private(paths.cache_dir())) as place:
        folder, new = Path(place), Path(place, "new")
        _pip("download", "--no-deps", "--no-binary", "pycuda", "--dest", folder, f"pycuda=={VERSION}")
        (package,) = folder.glob("pycuda-*.tar.gz")
        if hashlib.sha256(package.read_bytes()).hexdigest() != _SHA256:
            raise EngineError(f"{package.name} is not the package that hostcuda knows: its checksum differs")
        _pip("install", "--target", new, *_NEEDS)
        with tarfile.open(package) as archive:
            for member in archive.getmembers():
                path = PurePosixPath(*PurePosixPath(member.name).parts[1:])
                wanted = path.parts[:1] in (("pycuda",), ("LICENSE",)) and ".." not in path.parts
                if member.isfile() and wanted:
                    files.write(new / path, archive.extractfile(member).read())
        shutil.rmtree(_kept(), ignore_errors=True)
        new.rename(_kept())
    return _kept()


def _pip(*arguments):
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise EngineError(f"pip cannot fetch PyCUDA {VERSION} or what it needs: {done.stderr.strip()[-500:]}")


class _Finder:
    """Says how to get PyCUDA's own modules where they are missing. It is asked last."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.startswith("pycuda."):
            raise ModuleNotFoundError(
                f"{name} is one of PyCUDA's own Python modules: `hostcuda pycuda` fetches them for the CPU engine",
                name=name,
            )


# ---------------------------------------------------------------------------------------------------------------------
# What the engine's modules lack


class _Pool:
    """A pool of device memory, which gives each block back at once."""

    active_blocks = held_blocks = active_bytes = managed_bytes = 0

    @staticmethod
    def allocate(size):
        """Allocate device memory."""
        return driver.mem_alloc(int(size))

    @staticmethod
    def bin_number(size):
        """Return the bin of PyCUDA's pools for a size: its highest bit's place, and the four bits below."""
        place = max(size.bit_length() - 1, 0)
        return place << 4 | (size << 4 >> place) & 15

    @staticmethod
    def alloc_size(bin_number):
        """Return the largest size in a bin."""
        return (((17 + (bin_number & 15)) << (bin_number >> 4)) - 1) >> 4

    def free_held(self):
        """Without effect: nothing is held."""

    stop_holding = free_held


class _PageLockedPool(_Pool):
    @staticmethod
    def allocate(shape, dtype, order="C"):
        """Allocate a page-locked array."""
        return driver.pagelocked_empty(shape, dtype, order)


# The end of PyCUDA's reduction assumes that the lanes of a warp run in step, which CUDA no longer promises.
_IN_STEP = re.compile(r"smem\[tid\] = (REDUCE\(smem\[tid\], smem\[tid \+ \d+\]\));")
_SYNCHRONIZED = r"{ out_type hostcuda_both = \1; __syncwarp(); smem[tid] = hostcuda_both; __syncwarp(); }"


class _SourceModule(compiler.SourceModule):
    """The engine's, which finds PyCUDA's own headers, too."""

    def __init__(self, source, nvcc="nvcc", options=None, keep=False, no_extern_c=False, arch=None, code=None,
                 cache_dir=None, include_dirs=None, cuda_libdir=None):
        folder, source = _source(), _IN_STEP.sub(_SYNCHRONIZED, str(source))
        own = [folder / "cuda"] if folder else []
        super().__init__(source, nvcc, options, keep, no_extern_c, arch, code, cache_dir, [*(include_dirs or ()), *own])


class _DynamicModule:
    """PyCUDA's module of several sources. They are compiled as one text, each with lines of its own."""

    def __init__(self, nvcc="nvcc", link_options=None, *, message_handler=None, log_verbose=False, **how):
        self._how, self._sources, self._options = how, [], []

    def add_source(self, source, nvcc_options=None, name="kernel.ptx"):
        """Add a source, with options that are those of the whole module."""
        self._sources.append(f'#line 1 "{Path(name).stem}-{len(self._sources)}.cu"\n{source}\n')
        self._options += nvcc_options or ()
        return self

    def add_stdlib(self, libname):
        """Without effect: the engine has the device's runtime."""
        return self

    def link(self):
        """Compile what was added."""
        self.module = _SourceModule("".join(self._sources), options=self._options, **self._how)
        self.get_function, self.get_global = self.module.get_function, self.module.get_global
        return self


def _driver():
    names = {name: getattr(driver, name) for name in driver.__all__}
    return _module("driver", **names)


def _memory():
    return _module(
        "_driver", DeviceMemoryPool=_Pool, PageLockedMemoryPool=_PageLockedPool, PageLockedAllocator=_PageLockedPool,
        bitlog2=lambda value: int(value).bit_length() - 1,
        # Of cuRAND's generators those without tables; (3, 2, 0) is the first version that PyCUDA supports.
        get_curand_version=lambda: (3, 2, 0), _get_direction_vectors=None, direction_vector_set=types.SimpleNamespace(
            VECTOR_32=101, SCRAMBLED_VECTOR_32=102, VECTOR_64=103, SCRAMBLED_VECTOR_64=104),
    )


def _module(name, **contents):
    module = types.ModuleType(f"pycuda.{name}")
    vars(module).update(contents)
    module.__spec__ = importlib.machinery.ModuleSpec(module.__name__, None)
    return module


def install() -> None:
    """Let this process import the engine as PyCUDA."""
    package, folder = types.ModuleType("pycuda"), _source()
    package.__path__ = [str(folder)] if folder else []
    package.VERSION = tuple(map(int, VERSION.split(".")))
    package.VERSION_STATUS, package.VERSION_TEXT = "", VERSION
    package.__spec__ = importlib.machinery.ModuleSpec("pycuda", None, is_package=True)
    context = driver.Device(0).make_context()
    contents = {
        "driver": _driver(),
        "_driver": _memory(),
        "compiler": _module("compiler", **{**vars(compiler), "SourceModule": _SourceModule,
                                           "DynamicSourceModule": _SourceModule, "DynamicModule": _DynamicModule}),
        "autoinit": _module("autoinit", context=context, device=driver.Device(0)),
        "autoprimaryctx": _module("autoprimaryctx", context=context, device=driver.Device(0)),
    }
    sys.modules["pycuda"] = package
    for name, module in contents.items():
        setattr(package, name, module)
        sys.modules[f"pycuda.{name}"] = module
    if _kept().is_dir():
        sys.path.append(str(_kept()))
    sys.meta_path.append(_Finder)


def main(arguments: list[str]) -> None:
    """Run a program in Python as ``__main__``; its arguments follow its path."""
    install()
    sys.argv[:] = arguments
    sys.path[0] = str(Path(arguments[0]).resolve().parent)
    runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main(sys.argv[1:])
