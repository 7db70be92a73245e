"""cuBLAS's matrix product instead of the kernel `gemm` of rung 05: a binding through ctypes.

It uses the current context and PyCUDA's streams. The handle's math mode is pedantic: products are
computed in FP32, not rounded to TF32 for the tensor cores.
"""

from __future__ import annotations

import atexit
import ctypes
import functools
import importlib.util
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hostcuda
from hostcuda.errors import EngineError
from labkit.base.errors import LabError

_NO_TRANSPOSE = 0  # CUBLAS_OP_N
_PEDANTIC = 2  # CUBLAS_PEDANTIC_MATH
_ONE, _ZERO = ctypes.c_float(1), ctypes.c_float(0)


def missing() -> str | None:
    """Return None if cuBLAS can multiply here, else a sentence that says why not."""
    if hostcuda.engine() != "gpu":
        return "cuBLAS needs an NVIDIA GPU, and this is the CPU engine"
    try:
        _library()
    except EngineError as error:
        return str(error)
    return None


def product(
    grid: tuple[int, int, int],
    block: tuple[int, int, int],
    stream: Any,
    u: int,
    k: int,
    y: int,
    B: int,
    C: int,
    H: int,
    W: int,
    M: int,
    K: int,
    shared_size: int = 0,
) -> None:
    """Compute y = k u for each of B images, with the arguments of the prepared kernel `gemm`.

    u [B, C K K, Ho Wo], k [M, C K K] and y [B, M, Ho Wo] are addresses on the device, of float32 in
    row-major order. `stream` is PyCUDA's, or None for the default stream. `grid`, `block` and
    `shared_size` have no effect: cuBLAS chooses its own. Raises LabError if cuBLAS reports an error.
    """
    # ctypes takes no numbers of NumPy
    u, k, y, B, C, H, W, M, K = map(int, (u, k, y, B, C, H, W, M, K))
    pixels, depth = (H - K + 1) * (W - K + 1), C * K * K
    library, handle = _handle()
    _check(
        library.cublasSetStream_v2(handle, ctypes.c_void_p(stream.handle if stream else None)),
        "cublasSetStream",
    )
    # cuBLAS's matrices are column-major. A column-major [pixels, depth] matrix is u in row-major
    # order, so the call computes the transposed product y' = u' k'. A stride of 0 gives every image
    # the same k. The factor `_ZERO` of y makes it overwrite y.
    status = library.cublasSgemmStridedBatched(
        handle,
        _NO_TRANSPOSE,
        _NO_TRANSPOSE,
        pixels,
        M,
        depth,
        ctypes.byref(_ONE),
        ctypes.c_void_p(u),
        pixels,
        ctypes.c_longlong(depth * pixels),
        ctypes.c_void_p(k),
        depth,
        ctypes.c_longlong(0),
        ctypes.byref(_ZERO),
        ctypes.c_void_p(y),
        pixels,
        ctypes.c_longlong(M * pixels),
        B,
    )
    _check(status, "cublasSgemmStridedBatched")


# A plan launches it in place of a kernel, by the method of PyCUDA's functions that it calls for
# every launch.
GEMM = SimpleNamespace(prepared_async_call=product)


@functools.cache
def prepare() -> None:
    """Load cuBLAS and make its handle, once per process, so that the first product takes no longer than the next.

    Raises LabError if there is no GPU or no library, or it does not start.
    """
    if reason := missing():
        raise LabError(f'{reason}: omit gemm="cublas" to use the rung\'s own kernel')
    _handle()


@functools.cache
def _handle():
    """Return (cuBLAS as a ctypes library, its handle for this process); the first call makes the handle."""
    hostcuda.ensure_context()
    library, handle = _library(), ctypes.c_void_p()
    _check(library.cublasCreate_v2(ctypes.byref(handle)), "cublasCreate")
    # registered after the context, so destroyed before it
    atexit.register(library.cublasDestroy_v2, handle)
    _check(library.cublasSetMathMode(handle, _PEDANTIC), "cublasSetMathMode")
    return library, handle


@functools.cache
def _library():
    """Return cuBLAS as a ctypes library, the first candidate that loads; LabError, with the reasons, if none does."""
    failures = []
    for path in _candidates():
        try:
            companion = Path(path).parent / Path(path).name.replace("cublas", "cublasLt")
            if companion.is_file():  # the folder of a wheel is not on the loader's path
                ctypes.CDLL(str(companion), ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(path))
        except OSError as error:
            failures.append(f"{path}: {error}")
    reason = "; ".join(failures) or "neither in the CUDA toolkit nor in a wheel"
    raise LabError(
        "cuBLAS cannot be loaded: install the CUDA toolkit (libcublas.so), or for CUDA 13 `pip install "
        f"nvidia-cublas` ({reason})"
    )


def _candidates():
    """Yield the paths and names of libcublas to try: in CUDA toolkits, in NVIDIA's wheels, on the loader's path."""
    folders = []
    nvcc = shutil.which("nvcc")
    homes = [
        os.environ.get("CUDA_HOME"),
        os.environ.get("CUDA_PATH"),
        nvcc and Path(nvcc).resolve().parent.parent,
    ]
    for home in [*filter(None, homes), "/usr/local/cuda"]:
        folders += [Path(home) / "lib64", *Path(home).glob("targets/*/lib"), Path(home) / "lib"]
    wheels = importlib.util.find_spec("nvidia")
    for place in (wheels.submodule_search_locations or ()) if wheels else ():
        folders += Path(place).glob("*/lib")  # nvidia/cublas/lib up to CUDA 12, nvidia/cu13/lib
    for folder in folders:
        yield from sorted(folder.glob("libcublas.so*"))
    yield from ("libcublas.so.13", "libcublas.so.12", "libcublas.so")


def _check(status: int, call: str) -> None:
    """Raise LabError, with the name of the call and cuBLAS's text, if its status is not 0."""
    if status:
        library = _library()
        library.cublasGetStatusString.restype = ctypes.c_char_p
        raise LabError(f"{call} failed: {library.cublasGetStatusString(status).decode()}")
