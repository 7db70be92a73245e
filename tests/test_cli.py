"""The command: what it prints, and its exit status.

The frame that it shares with the command `hostcuda` has tests of its own:
engine/tests/test_command.py. That other packages add commands is tested with their wheels, and what
the command refuses in test_bad_inputs.py.
"""

import json
import os
import subprocess
import sys

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_markdown_cell, new_output
from notebook_files import write_notebook

import labkit
from labkit import cli
from labkit.notebooks import execute

pytestmark = pytest.mark.thorough("tools of the repository")

COMMANDS = ("bench", "check", "device", "doctor", "lab", "report", "site", "start", "store")


@pytest.fixture
def command(monkeypatch, capsys):
    """Run `labkit` in this process: (exit status, stdout, stderr)."""

    def run(*arguments):
        """Run labkit with these arguments; return (status, standard output, standard error)."""
        monkeypatch.setattr(sys, "argv", ["labkit", *map(str, arguments)])
        with pytest.raises(SystemExit) as done:
            cli.main()
        captured = capsys.readouterr()
        return done.value.code or 0, captured.out, captured.err

    return run


@pytest.fixture
def notebook(tmp_path):
    """Return a function that writes a notebook of one cell of code."""
    return lambda name, code: write_notebook(
        tmp_path / f"{name}.ipynb", new_markdown_cell(f"# {name}"), code
    )


def test_help_lists_the_commands(command):
    status, out, _ = command("--help")
    assert status == 0
    for name in COMMANDS:
        assert f" {name} " in out
    for name in ("run", "profile", "sanitize", "pycuda"):  # these are the engine's: `hostcuda run`
        assert f"\n  {name} " not in out
    assert "..." not in out.replace("[ARGS]...", "")  # no summary is cut short


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(command, name):
    status, out, _ = command(name, "--help")
    assert status == 0
    assert f"Usage: labkit {name}" in out
    assert "[[" not in out and "bool" not in out  # an argument is named once; a flag takes no value


def test_the_device_as_json(command, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_ENGINE", os.environ.get("HOSTCUDA_ENGINE", ""))
    status, out, _ = command("device", "--json", "--engine", labkit.device().engine)
    assert status == 0
    assert json.loads(out, parse_constant=pytest.fail)["name"] == labkit.device().name
    assert labkit.device().name in command("device")[1]


def test_measurements_as_json(command, monkeypatch):
    table = pd.DataFrame([{"label": "baseline", "batch": 1}])
    monkeypatch.setattr(labkit, "check", lambda variant, quiet: None)
    monkeypatch.setattr(labkit, "bench", lambda variants, layer, batch: table)
    status, out, err = command("bench", 1, "--json")
    assert (status, json.loads(out), err) == (0, table.to_dict("records"), "")


@pytest.fixture
def quick(monkeypatch):
    """Execute notebooks in this process instead of a kernel (tests/test_report.py uses real ones)."""

    def run(notebook, progress):
        """Evaluate the second cell, and report its progress; a division by zero is a failure."""
        cell = notebook.nb.cells[1]
        cell.execution_count = 1
        notebook.nb.metadata["labkit"] = {
            "date": "2026-11-05",
            "engine": "cpu",
            "device": "a processor",
        }
        progress.cell(notebook, 0, 1)
        try:
            cell.outputs = [new_output("stream", text=str(eval(cell.source)))]
            progress.cell(notebook, 1, 1)
        except ZeroDivisionError as error:
            notebook.failure = execute.Failure(1, f"{notebook.path.name}: {error}")

    monkeypatch.setattr(execute, "run", run)


def test_report_writes_pages_and_fails_with_a_failing_notebook(command, notebook, quick, tmp_path):
    good, bad = notebook("01_good", "'fi' + 'ne'"), notebook("02_bad", "1 / 0")
    status, out, err = command("report", good, bad, "--out", tmp_path / "out")
    assert status == 1
    assert "✓ 01_good" in err
    assert "✗ 02_bad" in err
    assert "02_bad.ipynb: division by zero" in err
    assert out.strip() == str(tmp_path / "out" / "index.html")
    assert "fine" in (tmp_path / "out" / "01_good.html").read_text()
    assert "division by zero" in (tmp_path / "out" / "02_bad.html").read_text()


def test_store_keeps_what_ran_and_leaves_alone_what_failed(command, notebook, quick):
    good, bad = notebook("01_good", "1 + 1"), notebook("02_bad", "1 / 0")
    before = bad.read_text()
    assert command("store", good, bad)[0] == 1
    nb = nbformat.read(good, as_version=4)
    assert nb.cells[1].outputs[0].text == "2"
    assert nb.metadata.labkit.engine == "cpu"
    assert bad.read_text() == before


def test_store_says_that_it_cannot_write_before_it_executes(command, notebook, monkeypatch):
    path = notebook("01_good", "raise SystemExit('executed')")

    def refuse(folder):
        raise labkit.LabError(f"cannot write to {folder}")

    monkeypatch.setattr("hostcuda.files.require_writable", refuse)
    status, out, err = command("store", path)
    assert (status, out) == (1, "") and f"cannot write to {path.parent}" in err and "✗" not in err


def test_store_as_is_only_changes_the_form(command, notebook):
    path = notebook("01_good", "1 / 0")
    assert command("store", "--as-is", path)[0] == 0
    nb = nbformat.read(path, as_version=4)
    assert nb.cells[1].execution_count is None
    assert nb.metadata.kernelspec.name == "python3"


def test_check_sanitizes_where_it_is_asked_to(command, monkeypatch):
    asked = []
    monkeypatch.setattr(labkit, "check", lambda variant, **options: asked.append(options))
    assert command("check", 1, "--sanitize")[0] == command("check", 1)[0] == 0
    assert asked == [{"sanitize": True, "quiet": False}, {"sanitize": False, "quiet": False}]


def test_checks_as_json(command):
    status, out, _ = command("check", 1, "--json")
    rows = json.loads(out)
    assert status == 0
    assert {row["variant"] for row in rows} == {"01 baseline"}
    assert all(0 <= row["worst_of_allowed"] <= 1 for row in rows)


def test_bench_prints_a_table(command):
    status, out, _ = command("bench", 1, "--layer", "lenet28-1", "--batch", 2)
    assert status == 0
    assert "op time (ms)" in out
    assert "01 baseline" in out


def test_python_m_labkit_and_a_light_start():
    """The command runs as a process, which imports nothing heavy to print its version."""
    code = (
        "import sys\nsys.argv = ['labkit', '--version']\n"
        "try:\n    import labkit.__main__\nfinally:\n    print(*sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    version, modules = process.stdout.split("\n", 1)
    assert version == f"labkit {labkit.__version__}"
    assert not {"numpy", "pandas", "matplotlib", "nbconvert", "nbformat", "pycuda"} & set(
        modules.split()
    )


def test_doctor_as_json(command):
    status, out, _ = command("doctor", "--json")
    report = json.loads(out)
    assert status == (0 if report["ready"] else 1)
    assert {"Python", "C++ compiler", "data"} <= {finding["what"] for finding in report["findings"]}
