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

__all__ = ["fetch", "install"]

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


def _driver():
    names = {name: getattr(driver, name) for name in driver.__all__}
    return _module("driver", **names)


def _memory():
    return _module(
        "_driver", DeviceMemoryPool=_Pool, PageLockedMemoryPool=_PageLockedPool, PageLockedAllocator=_PageLockedPool,
        bitlog2=lambda value: int(value).bit_length() - 1,
        # Of cuRAND's generators those without tables; (3, 2, 0) is the first version that PyCUDA supports.
        get_curand_version=lambda: (3, 2, 0), direction_vector_set=types.SimpleNamespace(), _get_direction_vectors=None,
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
                                           "DynamicSourceModule": _SourceModule}),
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
