"""Start the engine in Pyodide: clang as WebAssembly stands for the host's compiler.

Import this module first.
"""

import sys

import hostcuda_js  # js/compiler.mjs provides it
from pyodide.ffi import to_js

import hostcuda.host
from hostcuda.wasm import toolchain

hostcuda.host.toolchain = sys.modules["hostcuda.host.toolchain"] = toolchain
toolchain.clang = lambda *arguments: hostcuda_js.clang(*map(to_js, arguments)).to_py()
