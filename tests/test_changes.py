"""Every "Change it" of a page is made, and its cells show what the text predicts.

The metadata of its Markdown cell have a `change_it`, a list of changes. Each names the `cell` that is
changed, by its id, and `replace`, pairs of texts: every place of the first becomes the second. With
`of`, the cell has the solution of that exercise before. `then` are further cells to run, or the text
of one, and `shows` is a text that the output has to contain.
"""

import ast
import copy
import random
import re

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from labkit.exercises.exercise import exercises
from labkit.notebooks import execute

pytestmark = pytest.mark.thorough("every change that a page asks for: minutes")

ASKED = re.compile(r"\*\*(Change it[.:]?\*\*|Change\*\* `)")
PAGES = execute.list_notebooks("", execute.PRACTICE)


def read(path):
    return nbformat.read(path, as_version=4).cells


def list_changes(path):
    """Return the changes that a page predicts, in its order."""
    return [change for cell in read(path) for change in cell.metadata.get("change_it", ())]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_each_text_says_what_its_change_shows(path):
    cells = [cell for cell in read(path) if cell.cell_type == "markdown"]
    silent = [
        cell.source
        for cell in cells
        if ASKED.search(cell.source) and not cell.metadata.get("change_it")
    ]
    assert not silent, "docs/authors.md says how a text marks what its change shows"


def change_cell(cell, change):
    """Return a copy of a cell with a change made, which may raise an exception."""
    changed = copy.deepcopy(cell)
    if "of" in change:
        magic = cell.source.partition("\n")[0]
        changed.source = f"{magic}\n{exercises()[change['of']].solution}"
    for old, new in change["replace"]:
        assert old in changed.source, f"{old!r} is not in the cell {cell.id}"
        changed.source = changed.source.replace(old, new)
    return changed


def split_names(cell):
    """Return the names that a cell defines, and those that it reads; a magic defines its words."""
    if cell.source.startswith("%"):
        return set(re.findall(r"\w+", cell.source.partition("\n")[0])), set()
    nodes = [*ast.walk(ast.parse(cell.source))]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    defined = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    defined |= {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    defined |= {
        name.asname or name.name
        for node in nodes
        for name in getattr(node, "names", ())
        if isinstance(name, ast.alias)
    }
    return defined, {node.id for node in names if isinstance(node.ctx, ast.Load)}


def select_cells(cells, wanted):
    """Return those of the cells that the last ones need, by the names that they read; programs stay."""
    kept = []
    for cell in reversed(cells):
        defined, read_names = split_names(cell)
        if defined & wanted or "lab.setup()" in cell.source or cell.source.startswith("%%program"):
            kept.insert(0, cell)
            wanted |= read_names
    return kept


def run_changes(path):
    """Yield each change of a page with what its cells print, in one run after the cells that they need."""
    changes, by_id = list_changes(path), {cell.id: cell for cell in read(path)}
    made = [
        [
            change_cell(by_id[change["cell"]], change),
            *(
                copy.deepcopy(by_id.get(name, new_code_cell(name)))
                for name in change.get("then", ())
            ),
        ]
        for change in changes
    ]
    code = [cell for cell in read(path) if cell.cell_type == "code"]
    run = {name for change in changes for name in (change["cell"], *change.get("then", ()))}
    last = max(i for i, cell in enumerate(code) if cell.id in run)
    wanted = set().union(*(split_names(cell)[1] for cells in made for cell in cells))
    notebook = execute.Notebook(path, new_notebook(cells=select_cells(code[: last + 1], wanted)))
    for cells in made:
        for cell in cells:
            cell.id, cell.metadata["tags"] = new_code_cell().id, ["raises-exception"]
            notebook.nb.cells.append(cell)
    execute.run(notebook)
    assert notebook.failure is None, notebook.failure.message
    for change, cells in zip(changes, made, strict=True):
        yield change, "\n".join(map(print_outputs, cells))


def print_outputs(cell):
    """Return what a cell shows as text, the descriptions of pictures and messages of errors included."""
    lines = []
    for output in cell.outputs:
        lines += [output.get("text", ""), output.get("data", {}).get("text/plain", "")]
        lines += [output.get("metadata", {}).get("image/png", {}).get("alt", "")]
        lines += [f"{output.ename}: {output.evalue}"] if output.output_type == "error" else []
    return "\n".join(filter(None, lines))


CHANGED = [path for path in PAGES if list_changes(path)]
DRAWN = random.Random("changes").sample(CHANGED, len(CHANGED) // 2)
OTHERS = pytest.mark.exhaustive("the other half of the pages")


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=() if path in DRAWN else OTHERS, id=path.stem) for path in CHANGED],
)
def test_the_change_shows_what_the_text_predicts(path):
    wrong = [
        f"{change['replace']} should show {change['shows']!r}, and shows:\n{shown}"
        for change, shown in run_changes(path)
        if change["shows"] not in shown
    ]
    assert not wrong, "\n\n".join(wrong)
