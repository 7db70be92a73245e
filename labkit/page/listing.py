"""Kernel sources on a page: with syntax highlighting, or as the difference of two."""

from __future__ import annotations

import difflib
import html
import inspect
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Protocol, runtime_checkable

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from labkit.base.errors import LabError
from labkit.ladder.source import changed_lines
from labkit.ladder.variants import Variant, variant
from labkit.spec.layers import LENET86, Layer

IMAGES = 1000  # of a launch that is shown
_WORD = re.compile(r"\w+|\s+|.")

# With transparent backgrounds, for light and dark pages.
_ROW = {"-": "background:rgba(218,54,51,.13)", "+": "background:rgba(46,160,67,.15)", " ": ""}
_WORDS = {"-": "background:rgba(218,54,51,.33)", "+": "background:rgba(46,160,67,.37)"}
_FRAME = (
    "margin:2px 0;overflow-x:auto;border:1px solid rgba(128,128,128,.35);border-radius:4px;font-size:13px;"
    "line-height:1.45;font-family:var(--jp-code-font-family,ui-monospace,Menlo,Consolas,monospace)"
)
_HEAD = "padding:4px 10px;border-bottom:1px solid rgba(128,128,128,.35);opacity:.85"
_FOOT = "padding:4px 10px;border-top:1px solid rgba(128,128,128,.35);opacity:.85"
_NUMBER = "display:inline-block;width:3em;padding-right:.6em;text-align:right;opacity:.5;user-select:none"


def without_contract(source: str) -> tuple[int, list[str]]:
    """Remove the comment at the top of a kernel file.

    Returns
    -------
    int, list of str
        The number of lines removed, with the blank lines after the comment, and the other lines.
    """
    lines = source.rstrip().split("\n")
    first = 0
    while first < len(lines) and lines[first].startswith("//"):
        first += 1
    while first < len(lines) and not lines[first].strip():
        first += 1
    return first, lines[first:]


@dataclass(frozen=True)
class Row:
    """A line of a diff: its kind (" ", "-" or "+"), number in its file, text and, if known, changed words."""

    kind: str
    number: int
    text: str
    changed: tuple[tuple[int, int], ...] = ()  # spans of characters


class Diff:
    """The difference of two kernel sources. Prints as a unified diff; notebooks show it in colour.

    A line that is only indented or aligned differently is unchanged.

    Attributes
    ----------
    hunks : list of list of Row
        Changed lines with a few unchanged lines around them.
    changed_lines : int
        A replaced line counts once.
    """

    def __init__(self, a_label, a_file, a_source, b_label, b_file, b_source):
        self.labels = a_label, b_label
        self.files = a_file, b_file
        (skipped_a, a), (skipped_b, b) = without_contract(a_source), without_contract(b_source)
        matcher = difflib.SequenceMatcher(None, *([" ".join(line.split()) for line in side] for side in (a, b)), False)
        self.changed_lines = changed_lines(a, b)
        self.hunks = []
        for group in matcher.get_grouped_opcodes(n=2):
            rows = []
            for tag, i1, i2, j1, j2 in group:
                old = [Row("-", skipped_a + i + 1, a[i]) for i in range(i1, i2)]
                new = [Row("+", skipped_b + j + 1, b[j]) for j in range(j1, j2)]
                if tag == "equal":
                    rows += [Row(" ", row.number, row.text) for row in new]
                else:
                    rows += _with_changed_words(old, new)
            self.hunks.append(rows)

    @cached_property
    def title(self) -> str:
        lines = "1 changed line" if self.changed_lines == 1 else f"{self.changed_lines} changed lines"
        return f"{self.labels[0]} → {self.labels[1]}: {lines}"

    def __repr__(self) -> str:
        text = [self.title, f"--- {self.files[0]}", f"+++ {self.files[1]}"]
        for rows in self.hunks:
            text.append(f"@@ line {rows[0].number} @@")
            text += [f"{row.kind}{row.text}".rstrip() for row in rows]
        return "\n".join(text)

    def _repr_html_(self) -> str:
        hunks = '<div style="opacity:.5;padding-left:1em">⋯</div>'.join(
            "".join(map(_row_html, rows)) for rows in self.hunks
        )
        return (
            f'<div style="{_FRAME}"><div style="{_HEAD}">{html.escape(self.title)}</div>'
            f'<div style="width:max-content;min-width:100%;padding:4px 0">{hunks}</div></div>'
        )


def _with_changed_words(old: list[Row], new: list[Row]) -> list[Row]:
    """Pair each old line with the new line it resembles most, in order; mark the words in which they differ."""
    first = 0
    for i, before in enumerate(old):
        a = _WORD.findall(before.text)
        matchers = [difflib.SequenceMatcher(None, a, _WORD.findall(after.text), False) for after in new[first:]]
        best = max(matchers, key=lambda matcher: matcher.ratio(), default=None)
        if best is None or best.ratio() < 0.6:
            continue
        j, b = first + matchers.index(best), best.b
        changes = [change for change in best.get_opcodes() if change[0] != "equal"]
        old[i] = replace(before, changed=_spans(a, [(i1, i2) for _, i1, i2, _, _ in changes]))
        new[j] = replace(new[j], changed=_spans(b, [(j1, j2) for _, _, _, j1, j2 in changes]))
        first = j + 1
    return old + new


def _spans(words: list[str], ranges: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Ranges of words as ranges of characters, without those that have only blanks."""
    starts = [0, *accumulate(map(len, words))]
    return tuple((starts[a], starts[b]) for a, b in ranges if "".join(words[a:b]).strip())


def _row_html(row: Row) -> str:
    text, position = "", 0
    for start, end in row.changed:
        text += html.escape(row.text[position:start])
        text += f'<span style="{_WORDS[row.kind]}">{html.escape(row.text[start:end])}</span>'
        position = end
    text += html.escape(row.text[position:])
    return (
        f'<div style="white-space:pre;{_ROW[row.kind]}"><span style="{_NUMBER}">{row.number}</span>'
        f"{row.kind} {text}</div>"
    )


# JupyterLab's names for its editor's colours; for other pages, colours that are legible on light and on dark ones.
_COLOURS = {
    "k": ("keyword", "#3b7a2a"), "kt": ("def", "#2f73c4"), "nf": ("def", "#2f73c4"),
    "m": ("number", "#2f8a5b"),
    "c": ("comment", "#80808f"), "s": ("string", "#b5533c"), "cp": ("meta", "#9a5bb5"),
}  # fmt: skip
_SAME = {
    "kr": "k", "kc": "k", "kd": "k", "cm": "c", "c1": "c", "ch": "c", "mi": "m", "mf": "m", "mh": "m",
    "sc": "s", "cpf": "cp", "nb": "kt",
}  # fmt: skip


class Listing:
    """A source with syntax highlighting. Prints as its text; notebooks show it in colour.

    Attributes
    ----------
    text : str
    file : str
        Its name, shown above it.
    language : str
        As Pygments names it.
    launch : str
        How it is launched; empty for what is not a kernel.
    """

    def __init__(self, file: str, text: str, language: str = "cuda", launch: str = ""):
        self.file, self.text, self.language, self.launch = file, text.rstrip() + "\n", language, launch

    def __repr__(self) -> str:
        return f"{self.text}\n{self.launch}".rstrip()

    def _repr_html_(self) -> str:
        rules = "".join(
            f".labkit-listing .{name}{{color:var(--jp-mirror-editor-{variable}-color,{colour})}}"
            for name, (variable, colour) in
            (_COLOURS | {name: _COLOURS[same] for name, same in _SAME.items()}).items()
        )  # fmt: skip
        code = highlight(self.text, get_lexer_by_name(self.language), HtmlFormatter(nowrap=True))
        return (
            f'<style>{rules}</style><div style="{_FRAME}"><div style="{_HEAD}">{html.escape(self.file)}</div>'
            '<pre class="labkit-listing" style="margin:0;padding:4px 10px;font:inherit;background:none">'
            f"{code}</pre>{self._launch_html()}</div>"
        )

    def _launch_html(self) -> str:
        text = html.escape(self.launch).replace("\n", "<br>")
        return f'<div style="{_FOOT}">{text}</div>' if text else ""


@runtime_checkable
class Source(Protocol):
    """A kernel that can be shown: a `Variant`, or a kernel of `labkit.Lenet28`."""

    label: str
    file_name: str
    source: str


def launch_text(which: Variant, layer: Layer = LENET86[1]) -> str:
    """How a variant's kernels are launched on a layer with 1000 images, a line per launch.

    The shared memory of a reader's own kernel is counted from its arrays. Empty if the variant cannot compute the
    layer.
    """
    try:
        launches = which.launches(layer, IMAGES)
    except LabError:
        return ""
    more = [0] * len(launches)
    if which.own:  # what its arrays have more than those of the rung's kernel
        chosen = {name: value for name, value in which.options.items() if value is not None}
        rungs = variant(which.rung.name, **chosen)
        more = [_static(which, own, layer) - _static(rungs, theirs, layer)
                for own, theirs in zip(which.kernels, rungs.kernels, strict=True)]  # fmt: skip
    lines = [f"{each.kernel}: grid {each.grid}, block {each.block}, {each.shared + extra:,} bytes of shared memory "
             "per block" for each, extra in zip(launches, more, strict=True)]  # fmt: skip
    return "\n".join([f"Launch on {layer.name}, {IMAGES} images:", *lines])


def _static(which: Variant, kernel: str, layer: Layer) -> int:
    return which.module(layer).get_function(kernel).shared_size_bytes


def diff(a: int | str | Source, b: int | str | Source) -> Diff:
    """The difference of two kernels, without the comments at the top of their files.

    Parameters
    ----------
    a, b : int, str, Variant or other source
        Rungs by number or name, or variants, such as a reader's own kernel; or kernels of `labkit.Lenet28.source`.
    """
    sides = [each if isinstance(each, Source) else variant(each) for each in (a, b)]
    return Diff(*(part for v in sides for part in (v.label, v.file_name, v.source)))


def show(which: int | str | Source | Callable) -> Listing:
    """The kernel file of a rung, the source of a variant or other kernel, or a Python function of the lab.

    A rung's kernel has its launch below it. A reader's own kernel is not compiled to be shown.
    """
    if callable(which):
        return Listing(which.__name__, textwrap.dedent(inspect.getsource(which)), "python")
    chosen = which if isinstance(which, Source) else variant(which)
    return Listing(chosen.file_name, chosen.source, launch="" if getattr(chosen, "own", True) else launch_text(chosen))
