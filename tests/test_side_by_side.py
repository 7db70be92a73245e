"""Notebooks side by side: their kernels end with the report, and an unchanged notebook keeps its outputs."""

import os
import signal
import subprocess
import sys
import time

import pytest
from nbformat.v4 import new_markdown_cell
from notebook_files import write_notebook

from labkit.notebooks import execute, side_by_side
from labkit.notebooks import html as report

pytestmark = pytest.mark.thorough("pages as they are published")


TITLE = new_markdown_cell("# 01 · Title")


def test_ctrl_c_ends_the_kernels(tmp_path):
    note = f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    path = write_notebook(tmp_path / "01_long.ipynb", TITLE, note, "time.sleep(1000)")
    command = [sys.executable, "-m", "labkit", "report", str(path), "--out", str(tmp_path / "out")]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
        assert child.poll() is None
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    child.communicate(timeout=60)
    assert child.returncode == 130
    for _ in range(600):
        try:
            os.kill(int((tmp_path / "pid").read_text()), 0)
        except ProcessLookupError:
            return
        time.sleep(0.1)
    raise AssertionError("the kernel is still there")


@pytest.fixture
def series(tmp_path, monkeypatch):
    """Return a function that reports a notebook that counts its executions; it returns the page and the count."""
    monkeypatch.setattr(execute, "find_checkout", lambda: tmp_path)
    # it takes a while
    monkeypatch.setattr(report, "_make_overview", lambda: {"first": "", "ladder": "", "table": ""})
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "cache"))

    def made(*cells, fresh=False, name="01_one"):
        """Export a notebook whose second cell counts its runs; return (page, number of runs so far)."""
        counts = f"open({str(tmp_path / 'log')!r}, 'a').write('x'); print('out' + 'put')"
        path = write_notebook(tmp_path / "notebooks" / f"{name}.ipynb", TITLE, counts, *cells)
        (page,) = report.make([str(path)], tmp_path / "out", fresh=fresh)
        return page, len((tmp_path / "log").read_text())

    return made


def test_an_unchanged_notebook_is_not_executed_again(series, monkeypatch):
    first, count = series("1 + 1")
    assert count == 1 and not first.notebook.since
    second, count = series("1 + 1")
    text = second.path.read_text()
    assert count == 1 and "nothing it depends on has changed since" in text and ">output" in text
    assert second.notebook.produced == first.notebook.produced
    assert series("1 + 2")[1] == 2
    assert series("1 + 2", fresh=True)[1] == 3
    monkeypatch.setattr(side_by_side, "state", lambda: "another engine")
    assert series("1 + 2")[1] == 4


@pytest.mark.parametrize("name", ["practice/P1_one", "closer_look/01_one"])
def test_so_are_those_beside_the_series(series, name):
    assert [series("1 + 1", name=name)[1] for _ in range(2)] == [1, 1]


def test_a_notebook_that_fails_is_executed_again(series):
    assert series("1 / 0")[0].failure
    failed, count = series("1 / 0")
    assert failed.failure and count == 2
