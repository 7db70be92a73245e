"""Notebooks side by side: forked kernels, turns, and outputs of an earlier execution.

Most take a second or more: a report of its own imports the lab before it forks its kernels.
"""

import json
import os
import signal
import subprocess
import sys
import time

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from labkit.base.errors import LabError
from labkit.notebooks import execute, kernels, side_by_side
from labkit.notebooks import html as report

pytestmark = [pytest.mark.thorough("pages as they are published"),
              pytest.mark.skipif(not kernels.AVAILABLE, reason="kernels are forked on Linux alone")]


def save(folder, name, *cells):
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.ipynb"
    code = [new_code_cell(cell) for cell in cells]
    nbformat.write(new_notebook(cells=[new_markdown_cell(f"# {name[:2]} · Title"), *code]), path)
    return path


def printed(notebook):
    return "".join(output.get("text", "") for cell in notebook.nb.cells for output in cell.get("outputs", ()))


def run(*paths):
    notebooks = [execute.read(path) for path in paths]
    assert {*side_by_side.run(notebooks, execute.Progress())} == {*notebooks}
    return notebooks


WHO = """import os, random, sys, threading
import numpy as np
import labkit
print([os.getcwd(), os.getppid(), os.getsid(0) == os.getpid(), sys.stdin.read() if sys.stdin else "",
       random.random(), np.random.rand(), os.environ["MPLBACKEND"], "labkit.measure.bench" in sys.modules])
labkit.setup()
"""


def test_kernels_are_forks_with_a_state_of_their_own(tmp_path):
    both = run(save(tmp_path, "01_one", WHO), save(tmp_path, "02_two", WHO))
    assert not any(executed.failure for executed in both)
    (one, two) = (eval(printed(executed)) for executed in both)
    assert one[1] == two[1] != os.getpid()  # forked from one process, which is not this one
    for who in (one, two):
        assert who[0] == str(tmp_path) and who[2] and who[3] == "" and who[7]
        assert who[6].endswith("backend_inline")
    assert one[4] != two[4] and one[5] != two[5]


@pytest.mark.parametrize("engine", ["cpu", "gpu"])
def test_what_kernels_are_forked_from_starts_no_engine_and_no_thread(engine):
    """It does not even look for a GPU: CUDA does not survive a fork."""
    code = "from labkit.notebooks import warm; warm._import(); import os, sys, threading, hostcuda\n" \
           "from hostcuda.runtime import native\n" \
           "assert threading.active_count() == 1 and native._library is None and hostcuda._context is None\n" \
           "assert hostcuda.engine.cache_info().currsize == (os.environ['HOSTCUDA_ENGINE'] == 'cpu')\n" \
           "assert not {'pycuda', 'matplotlib_inline.backend_inline'} & {*sys.modules}"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "HOSTCUDA_ENGINE": engine}, check=True)


def test_what_keeps_the_kernels_from_starting_is_shown(tmp_path, capfd):
    (tmp_path / "matplotlib.py").write_text("raise ImportError('damaged')")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    with pytest.raises(LabError, match="see its message above"):
        kernels.Warm(environment, tmp_path, "state")
    assert "ImportError: damaged" in capfd.readouterr().err


def test_kernels_keep_under_the_state_of_the_report(tmp_path, monkeypatch):
    """They use the engine that was chosen for them; they do not choose again."""
    monkeypatch.delenv("HOSTCUDA_ENGINE", raising=False)
    (done,) = run(save(tmp_path, "01_one", "from labkit.base import kept\nprint(kept.state() == kept._kept.state)"))
    assert printed(done) == "True\n"


CELL = """import json, time
def log(what):
    with open("log", "a") as file:
        file.write(json.dumps(what) + "\\n")
"""


def test_no_cell_runs_while_another_notebook_measures(tmp_path):
    cells = ["log(['begin', 'cell']); time.sleep(0.02); log(['end', 'cell'])"] * 8
    measured = "from labkit.base.turns import undisturbed\nwith undisturbed():\n" \
               "    log(['begin', 'measured']); time.sleep(0.02); log(['end', 'measured'])"
    clocked = "log(['begin', 'measured']); time.perf_counter(); time.sleep(0.02); log(['end', 'measured'])"
    done = run(save(tmp_path, "01_one", CELL, *cells), save(tmp_path, "02_two", CELL, *[measured, clocked] * 4))
    assert not any(executed.failure for executed in done)
    running = []
    for line in (tmp_path / "log").read_text().splitlines():
        event, what = json.loads(line)
        if event == "begin":
            running.append(what)
            assert running in (["cell"], ["measured"])
        else:
            running.remove(what)


def test_without_the_process_that_forks_all_fail_and_nothing_waits(tmp_path):
    paths = [save(tmp_path, f"{n:02}_x", "import os, signal, time", "os.kill(os.getppid(), signal.SIGKILL)",
                  "time.sleep(100)") for n in range(6)]
    began = time.monotonic()
    assert all(executed.failure for executed in run(*paths))
    assert time.monotonic() - began < 90


def test_ctrl_c_ends_the_kernels(tmp_path):
    path = save(tmp_path, "01_long", f"import os, time; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))",
                "time.sleep(1000)")
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


def test_outputs_are_compared_with_the_stored_ones(tmp_path):
    cells = [new_code_cell("print('a'); 1 + 1"), new_code_cell("2 / 0", metadata={"tags": ["raises-exception"]}),
             new_code_cell("import random; random.random()", metadata={"tags": ["nbval-ignore-output"]})]
    path = tmp_path / "01_one.ipynb"
    nbformat.write(new_notebook(cells=[new_markdown_cell("# 01 · Title"), *cells]), path)
    (notebook,) = run(path)
    execute.store(notebook)
    (again,) = run(path)
    assert again.nb.cells[-1].outputs != notebook.nb.cells[-1].outputs
    execute.compare(again, execute.read(path).nb)
    assert not again.failure
    for before, after in (("2", "3"), ("a\\n", "b\\n"), ("division by zero", "division by one")):
        stored = path.read_text()
        assert before in stored
        changed = nbformat.reads(stored.replace(f'"{before}"', f'"{after}"'), as_version=4)
        assert changed != execute.read(path).nb
        execute.compare(again, changed)
        assert "its outputs are not the stored ones" in again.failure.message and again.failure.cell
        again.failure = None


@pytest.fixture
def series(tmp_path, monkeypatch):
    """Return a function that reports a notebook that counts its executions; it returns the page and the count."""
    monkeypatch.setattr(execute, "PACKAGE", tmp_path / "labkit")
    monkeypatch.setattr(report, "_overview", lambda: {"first": "", "ladder": "", "table": ""})  # it takes a while
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "cache"))

    def made(*cells, fresh=False):
        counts = f"open({str(tmp_path / 'log')!r}, 'a').write('x'); print('out' + 'put')"
        path = save(tmp_path / "notebooks", "01_one", counts, *cells)
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


def test_a_notebook_that_fails_is_executed_again(series):
    assert series("1 / 0")[0].failure
    failed, count = series("1 / 0")
    assert failed.failure and count == 2
