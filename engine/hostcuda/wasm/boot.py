"""Begins the engine in Pyodide: clang as WebAssembly stands for the host's compiler. To be imported first."""

import sys

import hostcuda_js  # js/compiler.mjs provides it
from pyodide.ffi import to_js

import hostcuda.host
from hostcuda.wasm import toolchain

hostcuda.host.toolchain = sys.modules["hostcuda.host.toolchain"] = toolchain
toolchain.clang = lambda *asked: hostcuda_js.clang(*map(to_js, asked)).to_py()
