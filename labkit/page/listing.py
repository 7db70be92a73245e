"""Show kernel sources on a page: with syntax highlighting, or as the difference of two sources."""

from __future__ import annotations

import copy
import difflib
import html
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol, runtime_checkable

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

from hostcuda.errors import EngineError
from labkit.base.errors import LabError
from labkit.ladder.plan import LayerKernel
from labkit.ladder.source import changed_lines, find_functions
from labkit.ladder.variants import Variant, variant
from labkit.spec.layers import LENET86, Layer

IMAGES = 1000  # the batch of a launch that is shown
_WORD = re.compile(r"\w+|\s+|.")  # a word, blanks, or one other character
_ALIKE = 0.6  # the share of equal words from which two lines are shown as one line that has changed

# without the comment in its first two lines
STYLE = "".join(Path(__file__).with_suffix(".css").read_text(encoding="utf-8").splitlines()[2:])
# by the sign of a diff's row; `STYLE` colours them
_ROW_CLASSES = {"-": "line old", "+": "line new", " ": "line"}
# Pygments' short names that `STYLE` colours: "k"
_COLOURED = set(re.findall(r"\.([a-z]{1,2}f?1?)\b(?=[,)])", STYLE))


def without_contract(source: str) -> tuple[int, list[str]]:
    """Remove a kernel file's contract, the comment at its top, and the blank lines below.

    Return (the number of lines removed, the other lines).
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
    """A line of a diff: its kind (" ", "-" or "+"), number in its file, tokens and, if known, changed words."""

    kind: str
    number: int
    # all of the line: ("k", "return"), ("w", " "), ... with Pygments' short names
    tokens: tuple[tuple[str, str], ...]
    # the spans (start, end) of the words that changed, as in ``text[start:end]``
    changed: tuple[tuple[int, int], ...] = ()

    @property
    def text(self) -> str:
        """The line's text, without its number."""
        return "".join(text for _, text in self.tokens)


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
        """Compare two sources: each has a label for the title, the name of its file, and its text."""
        self.labels = a_label, b_label
        self.files = a_file, b_file
        (skipped_a, a), (skipped_b, b) = without_contract(a_source), without_contract(b_source)
        tokens_a, tokens_b = _tokenize(a), _tokenize(b)
        # Lines are compared without their blanks at the beginning and end, and with single ones
        # between words.
        matcher = difflib.SequenceMatcher(
            None, *([" ".join(line.split()) for line in side] for side in (a, b)), False
        )
        self.changed_lines = changed_lines(a, b)
        self.whole: Diff | None = None  # in a result of `only`: the difference with all hunks
        self.hunks = []
        # with two unchanged lines around the changed ones
        for group in matcher.get_grouped_opcodes(n=2):
            rows = []
            for tag, i1, i2, j1, j2 in group:
                old = [Row("-", skipped_a + i + 1, tokens_a[i]) for i in range(i1, i2)]
                new = [Row("+", skipped_b + j + 1, tokens_b[j]) for j in range(j1, j2)]
                if tag == "equal":  # but for blanks: shown as the second source has them
                    rows += [replace(row, kind=" ") for row in new]
                else:
                    rows += _mark_changed_words(old, new)
            self.hunks.append(rows)

    @cached_property
    def title(self) -> str:
        """The two labels, and the number of changed lines."""
        lines = (
            "1 changed line" if self.changed_lines == 1 else f"{self.changed_lines} changed lines"
        )
        return f"{self.labels[0]} → {self.labels[1]}: {lines}"

    def only(self, pattern: str) -> Diff:
        """Return a copy with only those hunks, parts of the difference, in which `pattern` occurs in a changed line.

        A page shows them, and below them, folded, the whole difference.

        Parameters
        ----------
        pattern : str
            A regular expression.

        Raises
        ------
        LabError
            It occurs in no changed line.
        """
        chosen = copy.copy(self)
        chosen.whole = self
        # a row of a hunk is a line, of the kind "-", "+" or " " (unchanged)
        chosen.hunks = [
            rows
            for rows in self.hunks
            if any(row.kind != " " and re.search(pattern, row.text) for row in rows)
        ]
        if not chosen.hunks:
            raise LabError(f"{self.title}, and {pattern!r} occurs in none of them")
        return chosen

    def __repr__(self) -> str:
        """Return the comparison as `diff -u` writes it, below the title."""
        text = [self.title, f"--- {self.files[0]}", f"+++ {self.files[1]}"]
        for rows in self.hunks:
            text.append(f"@@ line {rows[0].number} @@")
            text += [f"{row.kind}{row.text}".rstrip() for row in rows]
        return "\n".join(text)

    def _repr_html_(self) -> str:
        hunks = '<span class="gap">⋯</span>'.join(
            "".join(map(_row_html, rows)) for rows in self.hunks
        )
        folded = (
            f"<details><summary>all of them</summary>{self.whole._repr_html_()}</details>"
            if self.whole
            else ""
        )
        return _frame(self.title, f'<pre class="lines">{hunks}</pre>') + folded


def _frame(title: str, body: str) -> str:
    """Return HTML with a title above a body; `tabindex` lets the keyboard scroll a body wider than the page."""
    name = html.escape(title)
    return (
        f'<style>{STYLE}</style><div class="labkit-code" tabindex="0" role="group" aria-label="{name}">'
        f'<div class="head">{name}</div>{body}</div>'
    )


def _tokenize(lines: list[str]) -> list[tuple[tuple[str, str], ...]]:
    """Return the tokens of each line of a CUDA C++ source: Pygments' short name of the kind, and the text."""
    token_lines = [[]]
    for token_type, text in get_lexer_by_name("cuda", stripnl=False).get_tokens("\n".join(lines)):
        name = STANDARD_TYPES.get(token_type, "")
        first, *others = text.split("\n")  # a token, such as a comment, may go over several lines
        token_lines[-1].append((name, first))
        token_lines += [[(name, other)] for other in others]
    return [tuple(line) for line in token_lines[: len(lines)]]


def _mark_changed_words(old: list[Row], new: list[Row]) -> list[Row]:
    """Set `changed` in the rows of both lists, in place; return the old rows, then the new ones.

    Each old line is paired with the most similar new line below the last pair, if they are alike
    enough (`_ALIKE`); other lines have no marked words.
    """
    first = 0
    for i, before in enumerate(old):
        a = _WORD.findall(before.text)
        matchers = [
            difflib.SequenceMatcher(None, a, _WORD.findall(after.text), False)
            for after in new[first:]
        ]
        best = max(matchers, key=lambda matcher: matcher.ratio(), default=None)
        if best is None or best.ratio() < _ALIKE:
            continue
        j, b = first + matchers.index(best), best.b
        changes = [change for change in best.get_opcodes() if change[0] != "equal"]
        old[i] = replace(
            before, changed=_character_spans(a, [(i1, i2) for _, i1, i2, _, _ in changes])
        )
        new[j] = replace(
            new[j], changed=_character_spans(b, [(j1, j2) for _, _, _, j1, j2 in changes])
        )
        first = j + 1
    return old + new


def _character_spans(
    words: list[str], ranges: list[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """Return ranges of words as spans of characters in the joined words, without those of blanks alone.

    A range (first, end) stands for ``words[first:end]``; the span is (start, end) of their characters.
    """
    starts = [0, *accumulate(map(len, words))]
    return tuple(
        (starts[first], starts[end]) for first, end in ranges if "".join(words[first:end]).strip()
    )


def _row_html(row: Row) -> str:
    """Return a row of a diff as HTML: number, sign, coloured tokens, changed words marked."""
    text, position = "", 0  # the HTML, and the characters of the line before the token
    edges = sorted({edge for span in row.changed for edge in span})
    for name, token in row.tokens:
        # a token is cut where a changed span begins or ends inside of it
        cuts = [
            0,
            *(edge - position for edge in edges if 0 < edge - position < len(token)),
            len(token),
        ]
        for start, end in pairwise(cuts):
            piece = html.escape(token[start:end])
            if name in _COLOURED and piece.strip():
                piece = f'<span class="{name}">{piece}</span>'
            if any(begin <= position + start < stop for begin, stop in row.changed):
                piece = f"<mark>{piece}</mark>"
            text += piece
        position += len(token)
    text = text.replace("</mark><mark>", "")
    return f'<span class="{_ROW_CLASSES[row.kind]}"><b>{row.number}</b>{row.kind} {text}</span>'


class Listing:
    """A source with syntax highlighting. Prints as its text; notebooks show it in colour.

    Attributes
    ----------
    text, source : str
    file : str
        The name that is shown above it.
    language : str
        The language's name in Pygments.
    launch : str
        The launch of the kernel; empty for other sources.
    """

    def __init__(self, file: str, text: str, language: str = "cuda", launch: str = ""):
        self.file, self.text = file, text.rstrip() + "\n"
        self.language, self.launch = language, launch
        self.source = self.text  # so that `labkit.grade` takes a listing as an attempt

    def __repr__(self) -> str:
        return f"{self.text}\n{self.launch}".rstrip()

    def _repr_html_(self) -> str:
        code = highlight(self.text, get_lexer_by_name(self.language), HtmlFormatter(nowrap=True))
        launch = html.escape(self.launch).replace("\n", "<br>")
        return _frame(
            self.file, f"<pre>{code}</pre>" + f'<div class="foot">{launch}</div>' * bool(launch)
        )


@runtime_checkable
class Source(Protocol):
    """A kernel that can be shown: a `Variant`, or a kernel of `labkit.Lenet28`."""

    label: str
    file_name: str
    source: str


def launch_text(which: Variant, layer: Layer = LENET86[1], tools: Sequence[str] = ()) -> str:
    """Return how a variant's kernels are launched on a layer with 1000 images, a line per launch.

    The shared memory of a reader's own kernel (`which.own`) is counted from its arrays, in what is
    compiled for these `tools`, such as "memcheck". Empty if the variant cannot compute the layer.
    """
    try:
        kernel = which.on(layer)
    except EngineError:
        return ""
    launches = kernel.launches(IMAGES)
    extra_bytes = [0] * len(launches)
    if which.own:  # the bytes that its arrays have beyond those of the rung's kernel
        # the rung's kernel with the same options; None stands for an option that is not given
        chosen = {name: value for name, value in which.options.items() if value is not None}
        lab_kernel = variant(which.rung.name, **chosen).on(layer)
        extra_bytes = [
            own - theirs
            for own, theirs in zip(
                _list_static_bytes(kernel, tools), _list_static_bytes(lab_kernel), strict=True
            )
        ]
    lines = [
        f"{launch.kernel}: grid {launch.grid}, block {launch.block}, {launch.shared + extra:,} bytes of shared "
        "memory per block"
        for launch, extra in zip(launches, extra_bytes, strict=True)
    ]
    return "\n".join([f"Launch on {layer.name}, {IMAGES} images:", *lines])


def _list_static_bytes(kernel: LayerKernel, tools: Sequence[str] = ()) -> list[int]:
    """Return the bytes of static shared memory of each function of a kernel, which is compiled.

    With `tools` of check mode it is compiled with these alone, if the functions are found in that.
    """
    if tools:
        from hostcuda import checking  # here, because it loads the engine

        path = kernel.variant.compile_checked(kernel.defines, tools)
        sizes = [checking.read_shared_bytes(path, name) for name in kernel.variant.kernels]
        if None not in sizes:
            return sizes
    module = kernel.module(quick=kernel.variant.own)
    return [module.get_function(name).shared_size_bytes for name in kernel.variant.kernels]


def diff(a: int | str | Source, b: int | str | Source) -> Diff:
    """Return the difference of two kernels, without the comments at the top of their files.

    Each is a rung's number or name, a variant, such as a reader's own kernel, or a kernel of
    `labkit.Lenet28.source`.
    """
    sides = [item if isinstance(item, Source) else variant(item) for item in (a, b)]
    # Diff(label of a, file of a, source of a, label of b, ...)
    return Diff(*(text for side in sides for text in (side.label, side.file_name, side.source)))


def show(which: int | str | Source | Listing | Callable | Path, *names: str) -> Listing:
    """Return a listing of a rung's kernel file, a variant's or other kernel's source, a Python function, or a file.

    A rung's kernel has its launch below it. A reader's own kernel is not compiled to be shown. With
    `names`, only these of the kernel's functions are shown.

    Raises
    ------
    LabError
        The kernel has no function of such a name.
    """
    if isinstance(which, Listing):
        return which
    if isinstance(which, Path):
        return Listing(
            which.name,
            which.read_text(encoding="utf-8"),
            "python" if which.suffix == ".py" else "cuda",
        )
    if callable(which):
        return Listing(which.__name__, textwrap.dedent(inspect.getsource(which)), "python")
    chosen = which if isinstance(which, Source) else variant(which)
    if names:
        places = find_functions(chosen.source)  # name -> (begin, end) in the source
        if unknown := [name for name in names if name not in places]:
            raise LabError(
                f"{chosen.label} has no function {unknown[0]!r}; it has {', '.join(places)}"
            )
        texts = (chosen.source[slice(*places[name])] for name in names)
        return Listing(f"{chosen.file_name}: {', '.join(names)}", "\n\n".join(texts))
    # Only a variant has `own`, true for a reader's kernel; one of `labkit.Lenet28` has no layer to
    # be launched on.
    return Listing(
        chosen.file_name,
        chosen.source,
        launch="" if getattr(chosen, "own", True) else launch_text(chosen),
    )
