"""How a notebook shows what the lab refuses."""

import nbformat
import pytest
from nbclient import NotebookClient

import labkit

pytestmark = pytest.mark.core("how every page shows an error")

CELLS = {
    "LabError: there is no rung 99": (
        "import labkit as lab\ndef mine(number):\n    return lab.variant(number)\nmine(99)"
    ),
    "CheckFailed: 01 baseline, own source": (
        "import labkit as lab\nsource = lab.variant(1).source.replace('h >= Ho', 'h >= Ho - 1')\n"
        "lab.check(lab.variant(1, source))"
    ),
    "CompileError: compilation of 01_own.cu failed": (
        "import labkit as lab\nlab.check(lab.variant(1, lab.variant(1).source.replace('= 0;', '= 0')))"
    ),
}


@pytest.fixture(scope="module")
def executed():
    """Execute the cells in one kernel, which takes longer to start than they take to run; map messages to cells."""
    notebook = nbformat.v4.new_notebook(cells=[*map(nbformat.v4.new_code_cell, CELLS.values())])
    NotebookClient(notebook, timeout=120, allow_errors=True).execute()
    return dict(zip(CELLS, notebook.cells, strict=True))


@pytest.mark.parametrize("message", CELLS)
def test_a_cell_shows_its_own_lines_and_the_message(message, executed):
    if message.startswith("CompileError") and labkit.device().engine == "gpu":
        pytest.skip("PyCUDA's own exception")
    error = next(output for output in executed[message].outputs if output.output_type == "error")
    trace = "\n".join(error.traceback)
    assert trace.startswith("line ") and CELLS[message].split("\n")[-1] in trace.split("\n")[0]
    assert f"\n\n{message}" in trace
    assert "labkit/" not in trace.partition("[command")[0]
    if "mine" in CELLS[message]:
        assert trace.split("\n")[:2] == ["line 4: mine(99)", "line 3: return lab.variant(number)"]
