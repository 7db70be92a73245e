"""Start the engine in Pyodide: clang as WebAssembly stands for the host's compiler.

Import this module first.
"""

import sys
from collections.abc import Callable

from pyodide.ffi import to_js

import hostcuda.host
from hostcuda.wasm import toolchain

hostcuda.host.toolchain = sys.modules["hostcuda.host.toolchain"] = toolchain


def connect(clang: Callable) -> None:
    """In a browser, let the engine run its compiler's commands by `clang`, a function of JavaScript.

    The function is in ``js/compiler.mjs``. Its arguments become objects of JavaScript, its answer one of
    Python.
    """
    toolchain.clang = lambda *arguments: clang(*map(to_js, arguments)).to_py()
