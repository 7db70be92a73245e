"""What the compiler sees in a CUDA source: its code, kernels, loops, arrays and headers, and its warnings.

These functions read the text as the engine's front end does (`hostcuda.frontend`): comments,
strings, raw strings and directives are known. Nothing is expanded, so what a macro stands for is
not seen, except by `warnings_about` and `rewritten`, which ask the compiler.
"""

from __future__ import annotations

import contextlib
import functools
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hostcuda.build.unit import make_unit
from hostcuda.errors import CompileError
from hostcuda.frontend.hostcode import find_entry
from hostcuda.frontend.scan import Scan, find_functions
from hostcuda.frontend.tokens import (
    Token,
    find_pairs,
    find_statement_end,
    lex,
    split_spans,
    without_comments,
)
from hostcuda.host import cache

__all__ = [
    "code_only",
    "constant_arrays",
    "find_pairs",
    "functions",
    "has_dynamic_shared",
    "headers",
    "host_entry",
    "kernel_names",
    "loops",
    "rewritten",
    "split_spans",
    "tokens",
    "warnings_about",
    "without_comments",
]

# ----------------------------------------------------------------------------------------- The text
_scan = functools.lru_cache(8)(Scan)


def code_only(source: str) -> str:
    """Return a source with spaces instead of comments and of the contents of strings; every position stays the same."""
    return _scan(source).masked


def get_line(number: int | None, lines: Sequence[str]) -> str:
    """Return a line of a source that was split into `lines`, by its number from 1; "" if there is none."""
    return lines[number - 1] if number and 0 < number <= len(lines) else ""


def tokens(source: str) -> list[Token]:
    """Return the tokens of a source, each with its kind (word, number, text or sign), text, start and end.

    The text of a literal has spaces between its quotation marks, so that nothing in it looks like code.
    """
    return lex(_scan(source).masked)


def functions(source: str) -> dict[str, tuple[int, int]]:
    """Map the names of a source's functions to the span (start, end) of their definition.

    ``source[start:end]`` has all from behind the previous definition or declaration to the closing
    brace. Left out are functions inside of braces (of a class or namespace) and specializations of
    templates; of several functions with one name it is the last.
    """
    return {name: (start, end) for name, start, end in find_functions(_scan(source))}


_BOUNDS = r"__launch_bounds__\s*\([^)]*\)"
_KERNEL = re.compile(
    rf"\b__global__\s(?:(?!__global__)[^;{{}}()]|{_BOUNDS})*?\bvoid\s+(?:{_BOUNDS}\s*)?(\w+)\s*\("
)
_CONSTANT = re.compile(r"\b__constant__\s+(?:(?!__constant__)\w+\s+)*?(\w+)\s*\[")
_DYNAMIC_SHARED = re.compile(r"\bextern\b(?:(?!\bextern\b)[^;{])*\b__shared__\b")


def kernel_names(source: str) -> tuple[str, ...]:
    """Return the names of the kernels, in their order, from all branches of a source; it need not compile."""
    return tuple(dict.fromkeys(_KERNEL.findall(_scan(source).code)))


def host_entry(source: str) -> tuple[str, tuple[str, ...]]:
    """Return name and parameters of a host function that launches kernels in a source without ``main``, or ("", ()).

    It is ``extern "C" void solve(...)``, or the only function of that form. An example of the result:
    ("solve", ("const float *x", "int n")).
    """
    return find_entry(_scan(source))


def constant_arrays(source: str) -> list[str]:
    """Return the names of the ``__constant__`` arrays of a source, in their order."""
    return _CONSTANT.findall(_scan(source).code)


def has_dynamic_shared(source: str) -> bool:
    """Return whether a kernel of a source declares shared memory whose size the launch gives: ``extern __shared__``."""
    return bool(_DYNAMIC_SHARED.search(_scan(source).code))


_INCLUDE = re.compile(r'\s*["<]([^">\n]+)[">]')


def headers(source: str, *folders: Path) -> dict[Path, str]:
    """Map the paths of the files of `folders` that a source includes, directly or through another one, to their text.

    A header's own headers may also be in the header's folder.
    """
    result: dict[Path, str] = {}
    _add_headers(source, (), folders, result)  # (): the source itself is in no folder
    return result


def _add_headers(
    source: str, beside: Sequence[Path], folders: Sequence[Path], result: dict[Path, str]
) -> None:
    """Add the headers that a source includes, and those that they include, from `beside` or `folders`, to `result`."""
    for directive in _scan(source).directives:
        if directive["word"] != "include":
            continue
        # in the source: the match has no strings
        name = _INCLUDE.match(source, directive.start("rest"))
        places = (folder / name[1] for folder in (*beside, *folders)) if name else ()
        path = next((place for place in places if place.is_file()), None)
        if path and path.resolve() not in result:
            text = result[path.resolve()] = path.read_text(
                encoding="utf-8", errors="surrogateescape"
            )
            _add_headers(text, (path.parent,), folders, result)


_LOOP = re.compile(r"\b(?:for|while|do)\b")


def loops(source: str) -> Iterator[str]:
    """Yield the text of each loop that is in no other loop, with its head; comments and directives are spaces."""
    code = _scan(source).code
    at = 0
    while loop := _LOOP.search(code, at):
        at = find_statement_end(code, loop.start())
        yield code[loop.start() : at]


# --------------------------------------------------------------------------- The compiler's answers
def rewritten(
    source: str,
    options: str | Sequence = (),
    no_extern_c: bool = False,
    arch: str | None = None,
    include_dirs: Iterable | None = None,
) -> str:
    """Return the C++ text that the host's compiler gets for a CUDA source; CompileError if the engine refuses it.

    Parameters: see `warnings_about`.
    """
    unit = make_unit(source, options, no_extern_c, arch, include_dirs)
    with tempfile.TemporaryDirectory(dir=cache.scratch()) as folder:
        preprocessed = unit.preprocess(Path(folder)).text
        # `why_fibers`: why no kernel gets a second version, in which a loop runs the threads of a block
        # one after the other; "" if kernels may
        return unit.write_text(unit.rewrite(preprocessed).text, unit.why_fibers)


def warnings_about(
    source: str,
    options: str | Sequence = (),
    no_extern_c: bool = False,
    arch: str | None = None,
    include_dirs: Iterable | None = None,
) -> str:
    """Return the host compiler's warnings about a source, as text, with the source's own files and lines.

    `options` are nvcc's, `arch` its architecture ("sm_90"); `no_extern_c`: do not put the source
    into ``extern "C"``. It works with either engine and makes no file. The text is empty without a
    compiler, or if the source is wrong.
    """
    with contextlib.suppress(CompileError):
        return make_unit(source, options, no_extern_c, arch, include_dirs).warnings()
    return ""
