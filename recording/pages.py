"""How much there is to read on a page: words, visible lines of Python, figures, tables, and the README's minutes."""

from pathlib import Path

import pandas as pd

from labkit.notebooks import execute


def _find_minutes(path: Path) -> int:
    """Return how many minutes a page takes: the most that its row of the README says; a practice page without one, 30.

    Raises KeyError if another page has no row.
    """
    practice = path.parent.name == execute.PRACTICE
    name = f"{execute.PRACTICE}/{path.stem}" if practice else path.stem
    minutes = execute.read_minutes()
    return int((minutes.get(name, "30") if practice else minutes[name]).split()[-1])


def count_page(path: Path) -> dict[str, int]:
    """Return how long a page is: {"words": 900, "lines": 60, "figures": 2, "tables": 3, "minutes": 45}.

    The lines are those of Python that are not folded; the minutes are those that the page states.
    """
    notebook = execute.read(path)
    text = [cell for cell in notebook.nb.cells if cell.cell_type == "markdown"]
    cells = execute.list_code_cells(notebook)
    visible = [  # not folded, and Python: "%%" begins a cell in another language
        cell.source
        for cell in cells
        if "hide-input" not in cell.metadata.get("tags", []) and not cell.source.startswith("%%")
    ]
    # of each output a dict: kind, such as "image/png" -> content
    outputs = [output.get("data", {}) for cell in cells for output in cell.outputs]
    return {
        "words": sum(len(cell.source.split()) for cell in text),
        "lines": sum(bool(line.strip()) for source in visible for line in source.splitlines()),
        "figures": sum("image/png" in data or "image/svg+xml" in data for data in outputs),
        "tables": sum("<table" in data.get("text/html", "") for data in outputs),
        "minutes": _find_minutes(path),
    }


def pages() -> None:
    """Print words, lines, figures, tables, minutes of pages."""
    # "" is the folder of the series
    paths = execute.list_notebooks("", execute.PRACTICE)
    table = pd.DataFrame([count_page(path) for path in paths], index=[path.stem for path in paths])
    print(table.to_string())
