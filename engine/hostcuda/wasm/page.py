"""What a page's JavaScript asks of the engine: compile a kernel, read the record of a launch.

``js/compiler.mjs`` imports it in Pyodide, after `hostcuda.wasm.boot`. Arguments and answers are text in JSON.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path

from hostcuda import source as sources
from hostcuda import temporary
from hostcuda.build import unit
from hostcuda.check import records
from hostcuda.errors import CompileError
from hostcuda.host import toolchain
from hostcuda.metrics import NAMES, QUOTIENTS, SUMS
from hostcuda.wasm import ir, objects

ALL_TOOLS = ("profile", "memcheck", "racecheck", "initcheck", "synccheck")
_MESSAGE = re.compile(r"(?m)^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
                      r"(?P<kind>[a-z ]*error|warning|note): (?P<text>.*)")
_VARIABLE = re.compile(r"\b__(?:constant|device)__\s[^;{}()=]*?(\w+)\s*(?=[\[;={])")
_PRODUCT = Path("/product.wasm")


class _Unit(unit.Unit):
    """A unit whose text for check mode is LLVM's."""

    TEXT = "kernel.ll"

    @property
    def flags(self) -> list[str]:
        """Without a check of each pointer's alignment, which changes counts: hooks see what is misaligned."""
        return [flag for flag in super().flags if flag != "-fsanitize=alignment"]

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
    answer = {"error": "", "messages": [], "places": [], "pointers": False, "variables": toolchain.exported}
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


def read(raw: str, places: str) -> str:
    """The record of a launch, of what the runtime has written of it and the places of its module, with ``totals``: the
    counters by their friendly names."""
    record = asdict(records.read(json.loads(raw), json.loads(places)))
    record["totals"] = totals = {name: record["counts"].get(metric, 0) for name, metric in NAMES.items()}
    totals |= {name: sum(totals[part] for part in parts) for name, parts in SUMS.items()}
    totals |= {name: totals[over] / totals[under] if totals[under] else None
               for name, (over, under) in QUOTIENTS.items()}
    return json.dumps(record)


def warm() -> None:
    """Compile what the engine itself needs, into the cache."""
    for check in (False, True):
        answer = json.loads(compile(json.dumps({"source": "__global__ void f(float *x) { *x = 0; }", "check": check})))
        if answer["error"]:
            raise RuntimeError(answer["error"])
