"""CUDA graphs: a sequence of copies and launches that is issued by a single call.

PyCUDA has no graphs, so the driver's own calls are bound through ctypes. The CPU engine has none
either: there a `Graph` issues its steps one by one.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import hostcuda
from hostcuda.errors import EngineError
from hostcuda.gpu import libcuda

_THREAD_LOCAL = 1  # CU_STREAM_CAPTURE_MODE_THREAD_LOCAL: other threads may go on using the device


class Graph:
    """The steps that a function issues, recorded once and launched as often as needed.

    Parameters
    ----------
    issue : callable
        Called without arguments; it issues asynchronous copies from and to page-locked memory, and
        launches of kernels, on `stream` alone. All addresses and sizes stay as they are now. It
        runs once before it is recorded, so that all kernels are loaded.
    stream : hostcuda.driver.Stream

    Raises
    ------
    EngineError
        If a step cannot be recorded; the message quotes the driver's error.
    """

    def __init__(self, issue: Callable[[], None], stream):
        """Call `issue`, which issues the steps on `stream`; on a GPU call it again to record them as a graph."""
        self._stream, self._issue, self._executable = stream, issue, None
        issue()  # loads the kernels, which cannot be done while the graph is recorded
        stream.synchronize()
        if hostcuda.engine() == "cpu":
            return
        library, handle = libcuda.library(), ctypes.c_void_p(stream.handle)
        graph, executable = ctypes.c_void_p(), ctypes.c_void_p()
        _check(library.cuStreamBeginCapture_v2(handle, _THREAD_LOCAL), "cuStreamBeginCapture")
        try:
            issue()
        finally:  # also after an error: else the stream would stay in this state
            status = library.cuStreamEndCapture(handle, ctypes.byref(graph))
        _check(status, "cuStreamEndCapture")
        try:
            status = library.cuGraphInstantiateWithFlags(
                ctypes.byref(executable), graph, ctypes.c_ulonglong(0)
            )
            _check(status, "cuGraphInstantiate")
        finally:
            library.cuGraphDestroy(graph)
        self._executable = executable

    @property
    def recorded(self) -> bool:
        """Whether the GPU holds the graph; False after `close`, and on the CPU engine, which issues each step."""
        return self._executable is not None

    def launch(self) -> None:
        """Issue all copies and launches of the graph on its stream; return before they have finished."""
        if self._executable is None:  # on the CPU engine, which has no graphs
            self._issue()
        else:
            handle = ctypes.c_void_p(self._stream.handle)
            _check(libcuda.library().cuGraphLaunch(self._executable, handle), "cuGraphLaunch")

    def close(self) -> None:
        """Free the graph; a second call does nothing."""
        if self._executable is not None:
            libcuda.library().cuGraphExecDestroy(self._executable)
            self._executable = None


def _check(status: int, call: str) -> None:
    """Raise an EngineError if a driver's `call`, by its name, has returned a status other than 0, success."""
    if status:
        raise EngineError(
            f"{call} failed: {libcuda.error(status)}. A graph records asynchronous copies of page-locked "
            "memory and launches, on one stream"
        )
