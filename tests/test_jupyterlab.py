"""The notebooks as readers see them: in JupyterLab, in a browser."""

import contextlib
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import pytest

from labkit.cli.course import JUPYTERLAB
from labkit.exercises.exercise import exercise
from labkit.ladder.variants import variant

pytestmark = pytest.mark.thorough("pages as they are published")

playwright = pytest.importorskip(
    "playwright.sync_api", reason="Playwright is not installed: `make browser` adds it"
)
expect = playwright.expect

ROOT = Path(__file__).parents[1]
LAB = ROOT / ".venv-lab/bin/python"
LONG = 120_000  # ms, for what the page has to show: the machine may be busy
SETTINGS = {
    # cells are there though they are out of sight
    "notebook-extension/tracker": {"windowingMode": "none"}
}
ERROR = '[data-mime-type="application/vnd.jupyter.stderr"]'  # as JupyterLab shows a traceback, too


def find_jupyterlab():
    """Return the Python that has JupyterLab beside the engine's packages."""
    if LAB.exists():
        return LAB
    pytest.importorskip("jupyterlab", reason="JupyterLab is not installed: `make browser` adds it")
    return sys.executable


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield what `serve` yields, in folders of pytest."""
    with serve(tmp_path_factory.mktemp("home"), tmp_path_factory.mktemp("notebooks")) as started:
        yield started


@contextlib.contextmanager
def serve(home, folder):
    """Start a JupyterLab as `labkit lab` does; yield its folder of notebooks, and a function from name to address."""
    python = find_jupyterlab()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = secrets.token_hex()
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.root_dir": folder,
        "ServerApp.allow_root": True,
        "ServerApp.open_browser": False,
        "IdentityProvider.token": token,
    }
    command = [*JUPYTERLAB, *(f"--{name}={value}" for name, value in options.items())]
    own = {
        name: str(home / name)
        for name in (
            "JUPYTER_CONFIG_DIR",
            "JUPYTER_DATA_DIR",
            "JUPYTER_RUNTIME_DIR",
            "JUPYTERLAB_SETTINGS_DIR",
            "JUPYTERLAB_WORKSPACES_DIR",
            "IPYTHONDIR",
            "LABKIT_PROGRESS",
        )
    }
    for name, values in SETTINGS.items():
        path = home / f"JUPYTERLAB_SETTINGS_DIR/@jupyterlab/{name}.jupyterlab-settings"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(values))
    log = home / "log"
    with log.open("w") as output:
        # ipykernel shows what a process writes to its own standard error, but not where the first
        # of these is set; and the lab shows lines of progress, but not where the second is.
        hidden = ("PYTEST_CURRENT_TEST", "TQDM_DISABLE")
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        process = subprocess.Popen(
            [python, "-m", "jupyterlab", *command],
            env={**inherited, **own, "PYTHONPATH": str(ROOT), "HOSTCUDA_ENGINE": "cpu"},
            cwd=folder,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address_file = home / f"JUPYTER_RUNTIME_DIR/jpserver-{process.pid}.json"
        until = time.monotonic() + 120
        # all of it
        while not (address_file.exists() and address_file.read_text().rstrip().endswith("}")):
            assert process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        url = json.loads(address_file.read_text())["url"]
        # no tabs of the last test
        yield (folder, lambda name: f"{url}lab/tree/{name}?reset&token={token}")
    finally:
        process.send_signal(signal.SIGTERM)  # it ends its kernels
        try:
            process.wait(30)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


class Notebook:
    """A notebook in a tab of the browser."""

    def __init__(self, tab, url, notebook):
        self.tab = tab
        code = [cell for cell in notebook.cells if cell.cell_type == "code"]
        # folded
        self.numbers = [
            "" if cell.metadata.get("jupyter") else f"[{at}]:" for at, cell in enumerate(code, 1)
        ]
        self.cells = tab.locator(".jp-Notebook .jp-CodeCell")
        tab.goto(url)
        tab.locator("#jp-main-statusbar").get_by_text(
            "| Idle"
        ).wait_for()  # cells that are run earlier are not run
        expect(self.cells).to_have_count(len(code))

    def menu(self, name, command):
        self.tab.locator(".lm-MenuBar-item").get_by_text(name, exact=True).click()
        self.tab.locator(f'.lm-Menu-item[data-command="{command}"]').click()

    def run_all(self):
        """Run every cell, and check that none has failed."""
        self.menu("Run", "runmenu:run-all")
        expect(self.cells.locator(".jp-InputPrompt")).to_have_text(self.numbers)
        expect(self.cells.locator(ERROR)).to_have_count(0)

    def cell(self, text):
        """Return the first cell of code that has this text now."""
        self.cells.filter(has_text=text).first.wait_for()
        contents = self.cells.all_text_contents()
        return Cell(self.tab, self.cells.nth([text in content for content in contents].index(True)))


class Cell:
    """A cell of code, and what the page shows below it."""

    def __init__(self, tab, element):
        self.tab, self.editor = tab, element.locator(".cm-content")
        self.prompt, self.output = (
            element.locator(".jp-InputPrompt"),
            element.locator(".jp-Cell-outputArea"),
        )
        self.error = element.locator(ERROR)

    def write(self, text):
        """Replace the cell's text."""
        self.editor.click()
        self.tab.keyboard.press("ControlOrMeta+a")
        self.tab.keyboard.insert_text(text)

    def change(self, old, new):
        """Replace a line except for its indentation."""
        self.editor.locator(".cm-line").filter(has_text=old).click()
        self.tab.keyboard.press("End")
        self.tab.keyboard.press("Shift+Home")
        self.tab.keyboard.insert_text(new)

    def start(self):
        """Run the cell, without waiting for its end."""
        before = self.prompt.inner_text()
        self.editor.click()
        self.tab.keyboard.press("Control+Enter")
        expect(self.prompt).not_to_have_text(before)

    def run(self):
        self.start()
        expect(self.prompt).to_have_text(re.compile(r"^\[\d+\]:$"))


@pytest.fixture
def show(chromium, server):
    """Yield a function that opens a notebook in JupyterLab, without its stored outputs."""
    folder, url = server
    tab = chromium.new_page(viewport={"width": 1280, "height": 1800})
    tab.set_default_timeout(LONG)
    expect.set_options(timeout=LONG)

    def opened(name, notebook):
        """Open a notebook in JupyterLab without outputs, under a name; return it."""
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs, cell.execution_count = [], None
        nbformat.write(notebook, folder / f"{name}.ipynb")
        return Notebook(tab, url(f"{name}.ipynb"), notebook)

    yield opened
    tab.close()


def make_notebook(*cells):
    """Return a notebook of these cells."""
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    return nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source) for source in cells], metadata=kernel
    )


def test_page_01_runs_and_an_error_in_its_kernel_is_shown_at_its_line(show):
    notebook = nbformat.read(ROOT / "notebooks/01_baseline.ipynb", as_version=4)
    page = show("01_baseline", notebook)
    page.run_all()
    kernel, check = page.cell("%%kernel 01 --name mine"), page.cell("report = lab.check(mine)")
    expect(kernel.editor).to_have_attribute("data-language", "cpp")  # coloured as what it is
    expect(check.output).to_contain_text("PASS")

    source = next(
        cell.source for cell in notebook.cells if cell.source.startswith("%%kernel 01 --name mine")
    )
    right, wrong = "y[h * Wo + w] = 0;", "y[h * Wo + w] = zero;"
    kernel.change(right, wrong)
    kernel.run()
    line = 1 + source.split("\n").index(f"    {right}")
    caret = " " * (4 + wrong.index("zero")) + "^"
    message = rf"line {line}: error: .*zero.*\n    {re.escape(wrong)}\n{re.escape(caret)}"
    expect(kernel.error).to_have_text(re.compile(message))
    check.run()
    # and not an older kernel
    expect(check.error).to_contain_text("the cell of `mine` did not compile")

    kernel.change(wrong, right)
    kernel.run()
    expect(kernel.output).to_contain_text("conv: grid (")
    check.run()
    expect(check.output).to_contain_text("PASS")
    expect(page.cells.locator(ERROR)).to_have_count(0)


def test_an_exercise_is_graded_goal_by_goal(show):
    start = exercise("04a").start
    page = show(
        "exercise",
        make_notebook(
            "import labkit as lab\nlab.setup()",
            f"%%kernel 04 --exercise 04a --name mine\n{start}",
            'lab.grade("04a", mine);',
            "lab.progress()",
        ),
    )
    page.run_all()
    kernel, grade, progress = (
        page.cell("--exercise 04a"),
        page.cell("lab.grade"),
        page.cell("lab.progress"),
    )
    expect(grade.output).to_contain_text("04a Rows apart: goal missed: this is the starting code")

    kernel.change("__shared__ float tile[SIDE][SIDE];", "__shared__ float tile[SIDE][SIDE + 1];")
    kernel.run()
    grade.run()
    missed = r"goal missed\n✓ clean.*\n✓ right.*\n✓ changed lines: 1,.*\n✗ wavefronts per shared load, layer 1: 2,"
    expect(grade.output).to_have_text(re.compile(missed))

    kernel.change(
        "__shared__ float tile[SIDE][SIDE + 1];", "__shared__ float tile[SIDE][TILE + 32];"
    )
    kernel.run()
    grade.run()
    expect(grade.output).to_have_text(re.compile(r"04a Rows apart: goal met(\n✓ .*){4}\n"))
    progress.run()
    expect(progress.output).to_contain_text("goal met on")


def test_an_endless_kernel_is_interrupted_and_the_notebook_goes_on(show):
    source = variant(1).source
    guard = "if (h >= Ho || w >= Wo) return;"
    assert guard in source
    endless = source.replace(guard, "for (volatile unsigned more = 1; more; more += 2) {}")
    launch = (
        "import hostcuda.driver as cuda\n"
        "import numpy as np\n"
        "x = cuda.to_device(np.zeros(1, np.int32))\n"
        'module.get_function("forever")(x, block=(32, 1, 1))\n'
        'print("launched")\n'
        "cuda.Context.synchronize()"
    )
    page = show(
        "endless",
        make_notebook(
            "import labkit as lab\nlab.setup()",
            f"%%kernel 01 --name mine\n{endless}",
            "%%cuda module\n__global__ void forever(volatile int *x)\n{\n"
            "    for (volatile unsigned n = 1; n && !x[0]; n += 2) {}\n}",
            "1 + 1",
        ),
    )
    page.run_all()
    cell = page.cell("1 + 1")
    cell.write("lab.check(mine);")
    cell.start()
    expect(cell.output).to_contain_text("checking 01 baseline, own source: small and odd: 0 of 15")
    expect(cell.output).to_contain_text("has waited for 5 s. The last launch was that of conv.")
    page.tab.locator('[data-command="notebook:interrupt-kernel"]').first.click()
    stopped = re.compile(r"^\s*line 1: lab\.check\(mine\);\n\nInterrupted: .* was stopped\s*$")
    expect(cell.error.last).to_have_text(stopped)

    cell.write(launch)
    cell.start()
    expect(cell.output).to_contain_text("launched")
    page.menu("Kernel", "kernelmenu:interrupt")
    stopped = "Interrupted: cuCtxSynchronize was stopped, and with it all that the device had not finished"
    expect(cell.error.last).to_have_text(
        re.compile(rf"^\s*line 6: cuda\.Context\.synchronize\(\)\n\n{stopped}\s*$")
    )

    cell.write(f"%%kernel 01 --name mine\n{source}")
    cell.run()
    cell.write("lab.check(mine);")
    cell.run()
    expect(cell.output).to_contain_text("PASS")
    expect(page.cells.locator(ERROR)).to_have_count(0)


def test_cudas_names_are_coloured_and_completed_and_nothing_asks_for_news(show):
    comment = "// threadIdx in a comment"
    lines = (
        "__global__ void copy(float4 *weights)",
        "{",
        comment,
        "int i = threadIdx.x;",
        "__syncthreads();",
        "}",
    )
    page = show(
        "names",
        make_notebook("import labkit as lab\nlab.setup()", "\n".join(["%%cuda names", *lines])),
    )
    page.run_all()
    cell = page.cell("%%cuda names")
    expect(cell.editor).to_have_attribute("data-language", "cpp")
    expect(cell.editor.locator(".cm-cuda-builtin")).to_have_text(
        ["float4", "threadIdx", "__syncthreads"]
    )
    expect(cell.editor.locator(".cm-cuda-keyword")).to_have_text("__global__")
    builtin = cell.editor.locator(".cm-cuda-builtin").nth(1)
    colours = [
        element.evaluate("it => getComputedStyle(it).color") for element in (builtin, cell.editor)
    ]
    assert colours[0] != colours[1]

    for begun, name in (("blockI", "blockIdx"), ("wei", "weights")):  # CUDA's, and the kernel's own
        cell.editor.locator(".cm-line").filter(has_text=comment).click()
        page.tab.keyboard.press("End")
        page.tab.keyboard.type(f"\n{begun}")
        page.tab.keyboard.press("Tab")
        expect(page.tab.locator(".jp-Completer-item").first).to_contain_text(name)
        page.tab.keyboard.press("Enter")
        expect(
            cell.editor.locator(".cm-line").filter(has_text=re.compile(rf"^\s*{name}$"))
        ).to_have_count(1)
    page.tab.wait_for_timeout(2_000)  # the question comes when the page is there
    expect(page.tab.get_by_text("Jupyter news")).to_have_count(0)
