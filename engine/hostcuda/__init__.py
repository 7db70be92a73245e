"""Run CUDA C++ on any machine, behind PyCUDA's module names.

``import hostcuda.driver as cuda``, ``from hostcuda.compiler import SourceModule`` and ``import
hostcuda.autoinit`` work on any machine. On an NVIDIA GPU the first two *are* PyCUDA's modules;
without one they are the CPU engine's modules of the same names. The environment variable
``HOSTCUDA_ENGINE`` chooses: auto (the default: the GPU if PyCUDA imports and a device answers, else
the CPU), gpu, or cpu.

The engine is chosen on first use: when `engine` or `ensure_context` is called, or one of the
engine's modules (`driver`, `compiler`, `activity`) is imported or looked up here. ``import
hostcuda`` chooses nothing, so a program can import it at the top and write
``hostcuda.driver.Event()`` where it needs it. A context is made by an explicit call,
`ensure_context`, or by importing ``hostcuda.autoinit``.
"""

import atexit
import ctypes
import functools
import importlib
import os
import threading
from types import ModuleType
from typing import Any

from hostcuda import settings
from hostcuda.errors import EngineError

__all__ = ["engine", "ensure_context", "why_no_gpu"]
__version__ = "2.0.0"

_context = None  # the context that all threads share, once `ensure_context` has made it
_making = threading.Lock()  # held while `_context` is made
_thread = threading.local()  # its attribute `pushed`: this thread's `_PushedContext`


def why_no_gpu() -> str | None:
    """Return None if PyCUDA imports and a device answers, else a sentence: what is missing and what to do."""
    try:
        driver = importlib.import_module("pycuda.driver")
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("pycuda"):  # PyCUDA is there, but not what it needs
            return f"PyCUDA lacks the package {error.name!r}: pip install {error.name}"
        return (
            f"{'' if _driver_answers() else 'no NVIDIA driver answers here (libcuda.so.1), and '}PyCUDA is not "
            "installed: pip install pycuda (it needs the CUDA toolkit)"
        )
    except ImportError as error:
        if "libcuda" in str(error) or "nvcuda" in str(error):  # its names on Linux and Windows
            return f"NVIDIA's driver library is missing ({error}): install the NVIDIA driver, then see nvidia-smi"
        return f"PyCUDA is installed but does not load ({error}): reinstall it against this machine's CUDA toolkit"
    try:
        driver.init()
        if driver.Device.count() > 0:
            return None
        return "no NVIDIA device is visible: check nvidia-smi and CUDA_VISIBLE_DEVICES"
    except driver.Error as error:
        return (
            f"the NVIDIA driver answers {str(error)!r}: check nvidia-smi and CUDA_VISIBLE_DEVICES"
        )


def _driver_answers() -> bool:
    """Return whether NVIDIA's driver is there and has a device. PyCUDA is not needed for this."""
    try:
        return ctypes.CDLL("libcuda.so.1").cuInit(0) == 0
    except OSError:
        return False


@functools.cache
def engine() -> str:
    """Return the engine in use. The first call chooses it.

    Returns
    -------
    str
        ``"gpu"``, PyCUDA on an NVIDIA GPU, or ``"cpu"``, which runs kernels on the processor.

    Raises
    ------
    EngineError
        ``HOSTCUDA_ENGINE`` names no engine, or one that this machine does not have.
    """
    name, value = settings.variable("ENGINE")  # the convolution lab also has LABKIT_ENGINE
    wanted = value.strip().lower() or "auto"
    if wanted not in ("auto", "gpu", "cpu"):
        raise EngineError(
            f"{name}={value!r} is none of auto, gpu, cpu: set one of these, or unset it (auto takes the "
            "GPU if there is one)"
        )
    if wanted == "cpu":
        return "cpu"
    missing = why_no_gpu()
    if missing and wanted == "gpu":
        raise EngineError(
            f"{name}=gpu, but there is no GPU to use: {missing}. {name}=cpu (or unset) runs the kernels "
            "on this machine's processor."
        )
    return "cpu" if missing else "gpu"


def engine_module(name: str) -> ModuleType:
    """Return the module of the engine in use that ``hostcuda.<name>`` stands for: "driver", "compiler", "activity"."""
    if engine() == "cpu":
        return importlib.import_module(f"hostcuda.api.{name}")
    # the trace of kernels and copies is CUPTI's: PyCUDA has none
    return importlib.import_module("hostcuda.gpu.cupti" if name == "activity" else f"pycuda.{name}")


def __getattr__(name: str) -> ModuleType:
    """Import a module of the engine in use when it is looked up here, as in ``hostcuda.driver``."""
    if name in ("driver", "compiler", "activity"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def ensure_context() -> Any:
    """Make a context current in this thread if none is, and release it when the thread or the process ends.

    On a GPU it is the device's primary context, which PyTorch and other libraries share: retained
    here, released at exit (PyCUDA's own ``autoinit`` makes a private one, which collides with
    theirs). ``CUDA_DEVICE`` chooses the device. A context that is already current, e.g. of
    ``pycuda.autoinit``, is left alone.

    Returns
    -------
    Context
        The current context. If a context that something else has made is left alone, it is
        PyCUDA's class `Context`, whose static methods use the current context.

    Raises
    ------
    EngineError
        ``CUDA_DEVICE`` is not a number, or `engine` raises it.
    """
    global _context
    if getattr(_thread, "pushed", None):  # an earlier call in this thread has made it current
        return _context
    driver, gpu = engine_module("driver"), engine() == "gpu"
    driver.init()
    if gpu and _has_context(driver):
        return driver.Context
    number = os.environ.get("CUDA_DEVICE", "0")
    if not number.isdecimal():
        raise EngineError(
            f"CUDA_DEVICE={number!r} is not a device number: set 0, 1, ..., or unset it"
        )
    with _making:
        if _context is None:
            # the CPU engine has the device 0 alone
            _context = driver.Device(int(number) if gpu else 0).retain_primary_context()
            atexit.register(_release)
    _thread.pushed = _PushedContext(_context)
    return _context


class _PushedContext:
    """A context that is on the thread's stack of contexts as long as this object exists.

    It is an attribute of `_thread`, so Python deletes it when the thread ends; that pops the context.
    """

    def __init__(self, context):
        context.push()
        self.context = context

    def __del__(self):
        self.context.pop()


def _has_context(driver: ModuleType) -> bool:
    """Return whether PyCUDA (`driver`) has a current context; it does not see all that other libraries have made."""
    try:
        driver.Event()  # raises without a current context
    except driver.LogicError:
        return False
    return True


def _release() -> None:
    """Pop this thread's context and drop it, else PyCUDA aborts the process with "context stack was not empty"."""
    global _context
    if _context is not None:
        vars(_thread).clear()  # deletes the `_PushedContext`
        if engine() == "gpu":
            importlib.import_module("pycuda.tools").clear_context_caches()
        _context = None
