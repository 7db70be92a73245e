"""Notebooks that tests write."""

import nbformat
from nbformat.v4 import new_code_cell, new_notebook


def write_notebook(path, *cells, **metadata):
    """Write a notebook of these cells, where a text is a cell of code; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    cells = [new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
    nbformat.write(new_notebook(cells=cells, metadata=metadata), path)
    return path
