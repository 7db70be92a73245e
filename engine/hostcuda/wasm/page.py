"""What a page's JavaScript asks of the engine: compile a kernel, read the record of a launch.

``js/compiler.mjs`` imports this module in Pyodide, where `hostcuda.wasm.toolchain` stands for `hostcuda.host.toolchain`.
Arguments and answers are text in JSON.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import hostcuda_js  # js/compiler.mjs
from pyodide.ffi import to_js

import hostcuda.host
from hostcuda.wasm import toolchain

hostcuda.host.toolchain = sys.modules["hostcuda.host.toolchain"] = toolchain
toolchain.clang = lambda *asked: hostcuda_js.clang(*map(to_js, asked)).to_py()

from hostcuda import source as sources  # noqa: E402  they import the toolchain
from hostcuda import temporary  # noqa: E402
from hostcuda.build import unit  # noqa: E402
from hostcuda.check import records  # noqa: E402
from hostcuda.errors import CompileError  # noqa: E402
from hostcuda.wasm import ir, objects  # noqa: E402

ALL_TOOLS = ("profile", "memcheck", "racecheck", "initcheck", "synccheck")
_MESSAGE = re.compile(r"(?m)^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
                      r"(?P<kind>[a-z ]*error|warning|note): (?P<text>.*)")
_VARIABLE = re.compile(r"\b__(?:constant|device)__\s[^;{}()=]*?(\w+)\s*(?=[\[;={])")
_PRODUCT = Path("/product.wasm")


class _Unit(unit.Unit):
    """A unit whose text for check mode is LLVM's."""

    TEXT = "kernel.ll"

    def prepare(self, path: Path, alone: bool) -> None:
        """Number the places in the text, which `places` has then."""
        text, self.places = ir.prepare(path.read_text(encoding="utf-8"), _is_own)
        path.write_text(text, encoding="utf-8")


def _is_own(file: str) -> bool:
    return file.startswith((str(toolchain.INCLUDE), "/usr/")) or file == "kernel.cpp"


def compile(asked: str) -> str:
    """Compile a kernel to `_PRODUCT`.

    Parameters
    ----------
    asked : str
        ``source``; ``options``, nvcc's; ``check``, whether for check mode; ``extern_c``, whether ``extern "C"`` is
        added around it; ``include_dirs``; ``warn``, whether warnings are wanted.

    Returns
    -------
    str
        ``error``, the compiler's messages, empty if there is none; ``messages``, errors and warnings; ``places`` of
        check mode; ``pointers``, whether functions are called by pointers; ``variables`` that the host can write.
    """
    asked = json.loads(asked)
    tools = ALL_TOOLS if asked.get("check") else ()
    whole = unit.unit(asked["source"], asked.get("options", ()), not asked.get("extern_c", True), None,
                      asked.get("include_dirs"), tools=tools)
    whole = _Unit(**vars(whole))
    toolchain.exported = _VARIABLE.findall(sources.code_only(asked["source"]))
    answer = {"error": "", "messages": [], "places": [], "pointers": False}
    with temporary.folder() as folder:
        try:
            library, _ = whole.compile(folder)
        except CompileError as error:
            text = f"{error.stderr or ''}\n{error.stdout or ''}"
            return json.dumps(answer | {"error": str(error), "messages": _messages(text), "said": text})
        _PRODUCT.write_bytes(library.read_bytes())
        answer["places"] = getattr(whole, "places", [])
        answer["pointers"] = objects.calls_pointers((folder / "kernel.o").read_bytes())
    if asked.get("warn"):
        answer["warnings"] = warnings(asked)
        answer["messages"] = _messages(answer["warnings"])
    return json.dumps(answer)


def warnings(asked: dict) -> str:
    """What the compiler warns of, in a source as `compile` takes it."""
    return sources.warnings_about(asked["source"], asked.get("options", ()), not asked.get("extern_c", True), None,
                                  asked.get("include_dirs"))


def _messages(text: str) -> list[dict]:
    return [{**found.groupdict(), "line": int(found["line"]), "column": int(found["column"] or 0)}
            for found in _MESSAGE.finditer(text)]


def read(raw: str, places: Sequence) -> dict:
    """The record of a launch, of what the runtime has written of it."""
    return asdict(records.read(json.loads(raw), places))


def warm() -> None:
    """Compile what the engine itself needs, into the cache."""
    for check in (False, True):
        compile(json.dumps({"source": "__global__ void f(float *x) { x[0] = 0; }", "check": check}))
