"""Functions that a page's JavaScript calls: compile a kernel, read the record of a launch.

``js/compiler.mjs`` imports it in Pyodide, after `hostcuda.wasm.boot`. Arguments and answers are
text in JSON.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import asdict
from pathlib import Path

from hostcuda import findings, temporary
from hostcuda import source as sources
from hostcuda.build import options, unit
from hostcuda.check import records
from hostcuda.check.elements import find_parameters
from hostcuda.errors import CompileError
from hostcuda.host import toolchain
from hostcuda.metrics import NAMES, QUOTIENTS, SUMS
from hostcuda.wasm import ir, objects

ALL_TOOLS = ("profile", "memcheck", "racecheck", "initcheck", "synccheck")
_MESSAGE = re.compile(
    r"(?m)^(?P<file>[^\s:][^:\n]*):(?P<line>\d+):(?:(?P<column>\d+):)? "
    r"(?P<kind>[a-z ]*error|warning|note): (?P<text>.*)"
)
_VARIABLE = re.compile(r"\b__(?:constant|device)__\s[^;{}()=]*?(\w+)\s*(?=[\[;={])")
_HERE = (
    ("launch them from Python", "the page launches them"),  # what to do, where there is no Python
    ("must have C++ linkage", 'must have C++ linkage: write extern "C" before the kernel'),
)
_PRODUCT = Path("/product.wasm")


class _Unit(unit.Unit):
    """A unit whose text for check mode is in LLVM's language."""

    TEXT = "kernel.ll"

    @classmethod
    def of(cls, request: dict, tools: tuple[str, ...] = ()) -> _Unit:
        """Return the unit of a request of `compile`, for the default architecture and these tools of check mode."""
        settings = options.read(request.get("options", ()), request.get("include_dirs"), arch=None)
        return cls(request["source"], settings, request.get("extern_c", True), tools=tools)

    @property
    def flags(self) -> list[str]:
        """The flags without the check of pointers' alignment, which changes counts: hooks see misaligned accesses."""
        return [flag for flag in super().flags if flag != "-fsanitize=alignment"]

    def prepare(self, path: Path, alone: bool) -> None:
        """Add check mode to the compiled text in the file `path`, before it is linked, and keep `self.places`.

        `alone` (the unit has no other file) is always true in a page, and not used.
        """
        # the engine's headers, the C++ library, and what the engine writes around the source
        own = (str(toolchain.INCLUDE), "/usr/", "kernel.cpp")
        text, self.places = ir.prepare(
            path.read_text(encoding="utf-8"), lambda file: file.startswith(own)
        )
        path.write_text(text, encoding="utf-8")


def compile(request: str) -> str:
    """Compile a kernel in the browser, to the file `_PRODUCT`; request and returned answer are objects of JSON.

    The request has ``source``; ``options``, nvcc's; ``check``, whether for check mode;
    ``extern_c``, whether to add ``extern "C"`` around it; ``include_dirs``. The answer has
    ``error``, the compiler's text or ""; ``messages``, its errors as dicts with ``file``, ``line``,
    ``column``, ``kind`` and ``text``; ``said``, all its text if it fails; ``places``, in check mode
    the place of each numbered access; ``pointers``, whether functions are called by pointers;
    ``variables`` that the host can write; ``declared``, each kernel's parameters as it declares
    them.
    """
    request = json.loads(request)
    kernel_unit = _Unit.of(request, ALL_TOOLS if request.get("check") else ())
    # the linker exports the variables of this source
    toolchain.exported = _VARIABLE.findall(sources.code_only(request["source"]))
    answer = {
        "error": "",
        "messages": [],
        "places": [],
        "pointers": False,
        "variables": toolchain.exported,
        "declared": {},
    }
    with temporary.folder() as folder:
        try:
            library, manifest = kernel_unit.compile(folder)
        except CompileError as error:
            text = f"{error.stderr or ''}\n{error.stdout or ''}"
            return json.dumps(
                answer | {"error": str(error), "messages": _read_messages(text), "said": text}
            )
        _PRODUCT.write_bytes(library.read_bytes())
        answer["declared"] = manifest["kernels"]
        answer["places"] = getattr(kernel_unit, "places", [])  # from `_Unit.prepare`, in check mode
        answer["pointers"] = objects.calls_pointers((folder / "kernel.o").read_bytes())
    return json.dumps(answer)


def warn(request: str) -> str:
    """Return the compiler's warnings about the source of a request of `compile`, as JSON.

    It has ``warnings``, their text, and ``messages``, the same as dicts, like those of `compile`.
    """
    text = _Unit.of(json.loads(request)).warnings()
    return json.dumps({"warnings": text, "messages": _read_messages(text)})


def _read_messages(text: str) -> list[dict]:
    """Return the compiler's messages, reworded for a page: dicts with file, line, column, kind and text."""
    return [
        {**match.groupdict(), "line": int(match["line"]), "column": int(match["column"] or 0)}
        for match in _MESSAGE.finditer(
            functools.reduce(lambda words, pair: words.replace(*pair), _HERE, text)
        )
    ]


def read(raw: str, module: str) -> str:
    """Return the record of a launch as JSON, from `raw`, what the runtime in the browser has written about it.

    The record also has ``totals``: the launch's counters by name, with their sums and quotients
    (None for a quotient by 0). `module` is JSON, an object:

    - ``source``: that of the request of `compile`;
    - ``places``, ``declared``: those of its answer. ``declared`` maps a kernel to its parameters,
      ["const float *x", "int n"];
    - ``offsets``: maps a kernel to the place of each argument among the bytes of all, [0, 8].
    """
    module = json.loads(module)
    parameters = {
        kernel: find_parameters(offsets, module["declared"].get(kernel, ()))
        for kernel, offsets in module["offsets"].items()
    }
    record = asdict(
        records.read_record(json.loads(raw), module["places"], module["source"], parameters)
    )
    record["totals"] = totals = {
        name: record["counts"].get(metric, 0) for name, metric in NAMES.items()
    }
    totals |= {name: sum(totals[part] for part in parts) for name, parts in SUMS.items()}
    totals |= {
        name: totals[over] / totals[under] if totals[under] else None
        for name, (over, under) in QUOTIENTS.items()
    }
    return json.dumps(record)


def list_findings(records: str) -> str:
    """Return, as JSON, the findings in a list of launches' records, which is JSON, too.

    See `hostcuda.findings.list_findings`.
    """
    return json.dumps(findings.list_findings(json.loads(records)))


def warm() -> None:
    """Compile a small kernel, without and with check mode, so that the cache has the engine's own compiled files."""
    for check in (False, True):
        answer = json.loads(
            compile(
                json.dumps({"source": "__global__ void f(float *x) { *x = 0; }", "check": check})
            )
        )
        if answer["error"]:
            raise RuntimeError(answer["error"])
