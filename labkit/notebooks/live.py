"""Find the kernel cells of a notebook that a page of the site can run, and what on the page belongs to each.

The page says it in ``data-`` attributes, which ``playground/src/cell.js`` reads. A page without the
playground has none.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass, field

from nbformat import NotebookNode

# "%%kernel 07 step=rows --name mine": the magic, and its words.
_MAGIC = re.compile(r"%%(kernel|cuda) +(\S.*)")


@dataclass(frozen=True)
class LiveCell:
    """A kernel cell that a page can run.

    Attributes
    ----------
    index : int
        The cell's place in its notebook.
    kind : {"exercise", "rung", "own"}
        What the kernel is: an attempt at an exercise, a rung of the ladder, or any other kernel.
    name : str
        The exercise's number, or the rung with its options, "07 step=rows"; "" for another kernel.
    part : bool
        Whether the cell has only some of the kernel's functions.
    verdict, sanitized : int or None
        The cells whose outputs say whether the kernel is right, and whether it is clean.
    stale : tuple of int
        The other cells below whose outputs come from this kernel.
    """

    index: int
    kind: str
    name: str = ""
    part: bool = False
    verdict: int | None = None
    sanitized: int | None = None
    stale: tuple[int, ...] = field(default=())

    @property
    def attributes(self) -> dict[str, str]:
        """The ``data-`` attributes of the cell's HTML element: {"live": "rung", "verdict": "cell-7", …}.

        The report's script reads them, when a visitor edits the cell's kernel and runs it in the browser. The keys
        lack the prefix ``data-``. "live" is `kind`; "part": the cell has only some functions of the source. The
        others are ids of cells below it, "cell-7": "verdict" of the one that says whether the kernel is right,
        "sanitized" of the sanitizer's, "stale" of those whose outputs the change outdates. Empty attributes are
        left out.
        """
        places = {
            "verdict": [self.verdict],
            "sanitized": [self.sanitized],
            "stale": self.stale,
        }
        cells = {
            name: " ".join(f"cell-{index}" for index in indices if index is not None)
            for name, indices in places.items()
        }
        given = {"live": self.kind, "name": self.name, "part": "1" if self.part else "", **cells}
        return {name: value for name, value in given.items() if value}


def find_live_cells(
    notebook: NotebookNode, exercises: Container[str], rungs: Container[str]
) -> dict[int, LiveCell]:
    """Return the cells that a page can run, by their index.

    They are the kernel cells of these `exercises` ("04a") and `rungs` ("07 step=rows"), and cells of
    ``%%cuda`` that belong to no exercise.
    """
    found = {}
    for index, cell in enumerate(notebook.cells):
        match = cell.cell_type == "code" and _MAGIC.match(cell.source)
        if not match:
            continue
        magic, words = match[1], match[2].split()
        # what cells below use: the name after --name, or the first word of "%%cuda NAME"
        variable = words[words.index("--name") + 1] if "--name" in words else words[0]
        # `judges`: pattern of a cell whose output says whether the kernel is right
        if "--exercise" in words:
            number = words[words.index("--exercise") + 1]
            if number not in exercises:
                continue
            kind, name, judges = "exercise", number, rf'\blab\.grade\(\s*"{number}"'
        elif magic == "kernel":
            kind, name, judges = "rung", name_rung(words), r"\blab\.check\("
            if name not in rungs:
                continue
        else:
            kind, name, judges = "own", "", r"\Z."  # no cell has this: nothing follows the end
        below = [*_find_uses(notebook, index, variable)]  # (index, source) of each cell
        verdict = _find_first(below, lambda source, judges=judges: re.search(judges, source))
        sanitized = _find_first(below, lambda source: "lab.sanitize(" in source)
        # only of a rung, and only if it is another cell than the verdict's
        if kind != "rung" or sanitized == verdict:
            sanitized = None
        # their outputs are of the old kernel once the reader has run a changed one
        stale = tuple(place for place, _ in below if place not in (verdict, sanitized))
        found[index] = LiveCell(index, kind, name, "--part" in words, verdict, sanitized, stale)
    return found


def name_rung(words: list[str]) -> str:
    """Return the rung of a magic's words, with its options: "07 step=rows" of `07 step=rows --name mine`."""
    return " ".join([words[0], *(word for word in words if "=" in word)])


def list_rungs(notebooks: Iterator[NotebookNode]) -> list[str]:
    """Return the rungs, with their options, that cells of these notebooks replace by a kernel of their own.

    Such a cell begins with ``%%kernel`` and belongs to no exercise. A rung is a kernel of the
    ladder: "07 step=rows".
    """
    named: dict[str, None] = {}  # a set that keeps the order of the cells
    for notebook in notebooks:
        for cell in notebook.cells:
            match = cell.cell_type == "code" and _MAGIC.match(cell.source)
            if match and match[1] == "kernel" and "--exercise" not in match[2]:
                named[name_rung(match[2].split())] = None
    return [*named]


def _find_first(cells: list[tuple[int, str]], fits: Callable[[str], object]) -> int | None:
    return next((index for index, source in cells if fits(source)), None)


def _find_uses(notebook: NotebookNode, index: int, name: str) -> Iterator[tuple[int, str]]:
    """Yield (index, source) of the cells below that use a name, or what such a cell has computed, until it is new."""
    derived = {name}
    for place, cell in enumerate(notebook.cells[index + 1 :], index + 1):
        if cell.cell_type != "code":
            continue
        if match := _MAGIC.match(cell.source):
            words = match[2].split()
            derived -= {words[words.index("--name") + 1] if "--name" in words else words[0]}
            continue
        try:
            nodes = [*ast.walk(ast.parse(re.sub(r"(?m)^\s*[%!].*", "", cell.source)))]
        except SyntaxError:
            continue
        names = [node for node in nodes if isinstance(node, ast.Name)]
        stored = {node.id for node in names if isinstance(node.ctx, ast.Store)}
        if derived & {node.id for node in names if isinstance(node.ctx, ast.Load)}:
            derived |= stored
            yield place, cell.source
        else:
            derived -= stored
