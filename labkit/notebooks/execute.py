"""Find the notebooks of the series, execute them on this machine's engine, and store them in canonical form."""

from __future__ import annotations

import ast
import contextlib
import datetime
import difflib
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError
from nbformat import NotebookNode

from hostcuda import temporary
from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.base.installation import find_checkout
from labkit.base.paths import PYTHONPATH, natural_key

CELL_TIMEOUT = 600  # seconds; the slowest cell of the series takes a few
# the folder of the companions: each deepens the notebook, of the series or practice, with its name
CLOSER = "closer_look"
_KEPT = ("tags", "change_it")  # the metadata of cells that are stored: docs/authors.md
FIRST = "00_start_here.ipynb"  # the first page
PRACTICE = "practice"  # the folder of the short pages of patterns, which stand on their own
_silent = logging.getLogger(__name__)  # silences nbclient: a `Failure` has the message
_silent.disabled = True
# "01_baseline", "P4_scan": the names of drafts and copies are others
_NAME = re.compile(r"(\d\d|P\d\d?)_\w+")


@dataclass
class Failure:
    """The error that stopped a notebook: the cell's index, and a message with notebook, cell and error."""

    cell: int | None
    message: str


@dataclass(eq=False)
class Notebook:
    """A notebook, its file, and its last execution."""

    path: Path
    nb: NotebookNode  # its content, in nbformat 4
    failure: Failure | None = None  # the error that stopped its execution, or an error of its page
    seconds: float = 0.0  # the time of its execution; 0 without one
    # when it was executed, "2026-11-23 17:51", if that was earlier and nothing has changed since
    since: str = ""

    @property
    def name(self) -> str:
        """The file's name without its ending, "01_baseline"; outside the series with its folder, "practice/P4_scan"."""
        return f"{self.folder}/{self.path.stem}" if self.folder else self.path.stem

    @property
    def folder(self) -> str:
        """Its folder if that is "closer_look", of the companions, or "practice"; else "", as of the series."""
        name = self.path.resolve().parent.name
        # a Markdown file is made into a `Notebook`, too, and belongs to no folder
        return name if name in (CLOSER, PRACTICE) and self.path.suffix == ".ipynb" else ""

    @property
    def closer(self) -> bool:
        """Whether it is a companion, a closer look at what another notebook teaches."""
        return self.folder == CLOSER

    @property
    def number(self) -> str:
        """The number at the beginning of the file's name, "01" or "P4"; empty if there is none."""
        match = _NAME.fullmatch(self.path.stem)
        return match[1] if match else ""

    @property
    def title(self) -> str:
        """The first heading as plain text, without the number in front of it; the notebook's name if there is none."""
        for line in self._list_prose():
            if line.startswith("# "):  # "# 01 · The *baseline*" has the title "The baseline"
                return re.sub(r"^(\d\d|P\d\d?)\s*[·.:–-]\s*|[*`]", "", line[2:].strip())
        return self.name

    @property
    def summary(self) -> str:
        """The paragraph that begins with "You will learn", as Markdown; empty if there is none."""
        text = "\n".join(self._list_prose())
        # from there to an empty line; signs of Markdown, such as **, may stand before it
        match = re.search(r"^\W*You will learn\b.*?(?=\n\s*\n|\Z)", text, re.MULTILINE | re.DOTALL)
        return " ".join(match[0].split()) if match else ""

    @property
    def produced(self) -> dict:
        """The origin of the outputs: `engine`, `device` and `date`; empty if not recorded."""
        return dict(self.nb.metadata.get("labkit", {}))

    def _list_prose(self) -> Iterator[str]:
        """Yield the lines of the Markdown cells, and an empty one after each cell."""
        for cell in self.nb.cells:
            if cell.cell_type == "markdown":
                yield from [*cell.source.splitlines(), ""]


class Progress:
    """The steps of an execution, as calls. This class shows nothing."""

    def start(self, notebook: Notebook) -> None:
        """Note that a notebook starts; a subclass shows it, this class does nothing."""

    def cell(self, notebook: Notebook, done: int, total: int) -> None:
        """Note that `done` of a `total` of code cells have run; a subclass shows it, this class does nothing."""

    def finish(self, notebook: Notebook) -> None:
        """Note that a notebook has ended, whether it failed or not; a subclass shows it, this class does nothing."""


def find_course() -> Path | None:
    """Return the folder with the notebooks that a reader works in.

    It is the checkout; of an installed package, the nearest folder that `labkit start` has laid
    out, from the current one upwards; None if there is none.
    """
    if checkout := find_checkout():
        return checkout
    here = Path.cwd()
    return next((at for at in (here, *here.parents) if (at / "notebooks" / FIRST).is_file()), None)


def read_minutes() -> dict[str, str]:
    """Return the minutes of each notebook, from the README's tables: {"01_baseline": "65", "06_fusion": "60 to 95"}.

    {} if there is no README.
    """
    path = (find_course() or Path()) / "README.md"
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    # A row: "| … | [01 baseline](notebooks/01_baseline.ipynb) | … | ~70 |".
    row = r"^\|.*\]\(notebooks/([\w/]+)\.ipynb\).*\| *~?((?:\d+ to )?\d+) \|$"
    return dict(re.findall(row, text, re.MULTILINE))


def has_series() -> bool:
    """Return whether there are notebooks to work in, in the checkout or in a folder of `labkit start`."""
    return bool(course := find_course()) and (course / "notebooks").is_dir()


def folder() -> Path:
    """Return the `notebooks/` of the course. LabError if there is none."""
    if not has_series():
        raise LabError(
            f"no notebooks in {find_course() or Path.cwd()}: `labkit start DIR` lays them out in a folder, in which "
            "labkit then finds them. Or name the notebooks' files."
        )
    return find_course() / "notebooks"


def read(path: Path | str) -> Notebook:
    """Read a notebook. Raises LabError if the file cannot be read, or is no notebook."""
    try:
        nb = nbformat.read(path := Path(path), as_version=4)
        # nbformat only logs that a source is no text or the outputs no list; using them as such
        # raises an error.
        _ = [(cell.source.strip(), [*cell.get("outputs", ())]) for cell in nb.cells]
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from None
    except Exception as error:  # nbformat raises JSON, validation and plain attribute errors
        reason = str(error).split("\n")[0][:200]
        reason = (
            "it has other JSON"
            if isinstance(error, (AttributeError, KeyError, TypeError))
            else reason
        )
        raise LabError(f"{path} is no Jupyter notebook: {reason}") from None
    return Notebook(path, nb)


def list_notebooks(*folders: str) -> list[Path]:
    """Return the notebooks in these folders of `notebooks/`, one folder after the other; "" is the series.

    By default all three folders. Within a folder they are sorted by number, those with the same
    number in the README's order, else by name.
    """
    in_readme = {name: place for place, name in enumerate(read_minutes())}

    def sort_key(path: Path) -> tuple:
        """Return the number, the place among the README's rows, and the name."""
        place = in_readme.get(path.stem, len(in_readme))
        return natural_key(path.stem.partition("_")[0]), place, natural_key(path.stem)

    return [
        path
        for name in folders or ("", CLOSER, PRACTICE)
        for path in sorted((folder() / name).glob("*.ipynb"), key=sort_key)
        if _NAME.fullmatch(path.stem)
    ]


def find(names: Iterable[str] = ()) -> list[Path]:
    """Return the files of notebooks by name, each file once; without names, `list_notebooks`.

    A name is a file, "01_baseline", "closer_look/08_fp16", or a number: "1", "closer_look/8", "P1".
    Raises LabError if a name is none of these.
    """
    return list(dict.fromkeys(map(_find_one, names))) or list_notebooks()


def _find_one(name: str) -> Path:
    """Return the file of the notebook with this name ("01_baseline"), number ("1", "closer_look/8", "P1") or path.

    Raises LabError, with the nearest names, if there is none.
    """
    if name.endswith(".ipynb") and Path(name).is_file():
        return Path(name).resolve()
    without_ending = name.removesuffix(".ipynb")
    closer, stem = Path(without_ending).parent.name == CLOSER, Path(without_ending).name
    candidates = list_notebooks(*([CLOSER] if closer else ["", PRACTICE]))
    # A companion, a bare name, a practice page, or a path that ends with .ipynb;
    # "elsewhere/01_baseline" is none.
    if closer or without_ending in (stem, f"{PRACTICE}/{stem}") or name != without_ending:
        for path in candidates:
            number = path.stem.partition("_")[0]
            if stem in (path.stem, number) or (stem.isdigit() and stem.zfill(2) == number):
                return path
    # None: its content is not needed for the name
    names = [Notebook(path, None).name for path in list_notebooks()]
    nearest = ", ".join(difflib.get_close_matches(name, names, 3, 0))
    raise LabError(
        f"no notebook {name!r}; {f'the nearest names are {nearest}' if names else 'there are none yet'}"
    )


def run(notebook: Notebook, progress: Progress | None = None) -> None:
    """Execute a notebook in a fresh kernel of this Python, from its own folder.

    Stored outputs are removed first. A cell that fails stops the notebook, unless it has the tag
    `raises-exception`. Sets `notebook.failure` and `notebook.seconds`; the notebook's metadata say
    where its outputs come from.
    """
    start = time.monotonic()
    notebook.failure = _execute(notebook, progress or Progress())
    notebook.seconds = time.monotonic() - start


def list_code_cells(notebook: Notebook) -> list[NotebookNode]:
    """Return the code cells of a notebook."""
    return [cell for cell in notebook.nb.cells if cell.cell_type == "code"]


def make_environment() -> dict[str, str]:
    """Return all environment variables of a Jupyter kernel: this process's, so that it finds labkit, without bars.

    TQDM_DISABLE: a progress bar would be stored among the outputs of a cell.
    """
    # the constant PYTHONPATH has the folders of labkit, for a checkout that is not installed
    paths = [PYTHONPATH, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "TQDM_DISABLE": "1"}


def _execute(notebook: Notebook, progress: Progress) -> Failure | None:
    """Execute all code cells in a fresh kernel, and set their outputs; return the failure that ended it, or None."""
    nb = notebook.nb
    indices = [
        i for i, cell in enumerate(nb.cells) if cell.cell_type == "code" and cell.source.strip()
    ]
    for cell in list_code_cells(notebook):
        cell.outputs, cell.execution_count = [], None
    nb.metadata.pop("labkit", None)

    client = NotebookClient(
        nb, timeout=CELL_TIMEOUT, record_timing=False, coalesce_streams=True, log=_silent
    )
    nb.metadata["labkit"] = {"date": datetime.date.today().isoformat()}
    progress.cell(notebook, 0, len(indices))
    index, problem = None, None
    try:
        with (
            temporary.folder() as scratch,
            _run_kernel(client, scratch, _link_beside(notebook, scratch / "here")),
        ):
            try:
                for count, index in enumerate(indices, 1):
                    client.execute_cell(nb.cells[index], index, execution_count=count)
                    progress.cell(notebook, count, len(indices))
            except CellExecutionError as error:
                problem = f"{error.ename}: {error.evalue}".strip().removesuffix(":")
            nb.metadata["labkit"].update(_ask_engine(client))
    except CellTimeoutError:
        problem = f"stopped after {CELL_TIMEOUT} s without finishing"
    except (DeadKernelError, RuntimeError) as error:
        problem = "the kernel died: Python itself crashed here, or ran out of memory"
        if index is None:
            problem = f"its kernel did not start: {error}"
    return None if problem is None else _make_failure(notebook, index, problem)


def _link_beside(notebook: Notebook, here: Path) -> Path:
    """Make the folder `here` to execute a notebook in, and return it.

    It has links to all files beside the notebook, except for the programs that the notebook's cells
    write: so a reader's version of such a program is neither run nor changed.
    """
    (here / "programs").mkdir(parents=True)
    # Cells that begin with "%%program name.cu" write programs/name.cu.
    programs = {
        name
        for cell in list_code_cells(notebook)
        for name in re.findall(r"\A%%program +(\S+)", cell.source)
    }
    for place in (Path(), Path("programs")):
        for path in sorted((notebook.path.resolve().parent / place).glob("*")):
            if path.name not in programs | {"programs"}:
                (here / place / path.name).symlink_to(path)
    return here


def _make_failure(notebook: Notebook, index: int | None, problem: str) -> Failure:
    """Return the failure in the cell with this index (None: before the first), and add it to the cell's outputs."""
    if index is None:
        return Failure(None, f"{notebook.path.name}: {problem}")
    cell = notebook.nb.cells[index]
    if not any(output.output_type == "error" for output in cell.outputs):
        cell.outputs.append(
            nbformat.v4.new_output("error", ename="Stopped", evalue=problem, traceback=[problem])
        )
    number = 1 + sum(c.cell_type == "code" for c in notebook.nb.cells[:index])
    first_line = next((line.strip() for line in cell.source.splitlines() if line.strip()), "")
    return Failure(
        index, f"{notebook.path.name}, code cell {number} ({first_line[:60]}): {problem}"
    )


@contextlib.contextmanager
def _run_kernel(client: NotebookClient, scratch: Path, cwd: Path) -> Iterator[None]:
    """Run a kernel for `client` in the folder `cwd` while a `with` lasts.

    Its sockets and its stderr are files in the folder `scratch`: no network port is opened, except
    on Windows.
    """
    km = client.create_kernel_manager()
    km.kernel_spec_manager, km.log = _ThisPython(), client.log
    if os.name == "posix":
        km.transport, km.connection_file = "ipc", str(scratch / "kernel.json")
    with (
        # the kernel's own messages; what cells print is not among them
        open(scratch / "stderr", "wb") as stderr,
        client.setup_kernel(cwd=str(cwd), env=make_environment(), stderr=stderr),
    ):
        process = km.provisioner.process
        _processes.add(process)  # for `end_kernels`
        try:
            yield
        finally:
            _processes.discard(process)


_processes: set[subprocess.Popen] = set()  # the kernels that run


def end_kernels() -> None:
    """Kill the Jupyter kernels in which other threads execute notebooks; these notebooks fail."""
    for process in [*_processes]:  # a copy: those threads take theirs out of the set
        process.kill()


class _ThisPython(KernelSpecManager):
    """The Python that runs labkit as the only kernel, whatever kernels the user has registered elsewhere."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        """Return how to start a kernel, whatever its name: with the Python that runs this."""
        # Jupyter replaces "{connection_file}" by the path
        argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        return KernelSpec(
            argv=argv, display_name="Python 3", language="python", metadata={"debugger": False}
        )


def _ask_engine(client: NotebookClient) -> dict[str, str]:
    """Ask the kernel for its ``engine`` ("cpu") and ``device`` (a name); return an empty dict if it does not answer."""
    question = "(lambda d: (d.engine, d.name))(__import__('labkit').device())"
    message = client.kc.execute(
        "", silent=True, store_history=False, user_expressions={"device": question}
    )
    reply = client.wait_for_reply(message)
    answer = reply["content"].get("user_expressions", {}).get("device", {}) if reply else {}
    if answer.get("status") != "ok":
        return {}
    engine, device = ast.literal_eval(answer["data"]["text/plain"])
    return {"engine": engine, "device": device}


def format_canonical(nb: NotebookNode) -> str:
    """Return a notebook as the repository stores it, as JSON text.

    A diff then shows only changes of the lesson: the kernel's name is always the same, there is no
    Python version, and of the cells' metadata only `_KEPT` remain: tags, and what an exercise
    "Change it" predicts. A cell with the tag "hide-input" is folded in JupyterLab, too.
    """
    nb = nbformat.from_dict(nb)
    origin = {"labkit": nb.metadata["labkit"]} if "labkit" in nb.metadata else {}
    nb.metadata = nbformat.from_dict(
        {
            **origin,
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {
                "file_extension": ".py",
                "name": "python",
                "pygments_lexer": "ipython3",
            },
        }
    )
    nb.cells = [cell for cell in nb.cells if cell.source.strip()]
    for cell in nb.cells:
        cell.setdefault("id", nbformat.v4.new_markdown_cell().id)  # a new random one
        kept = {name: cell.metadata[name] for name in _KEPT if cell.metadata.get(name)}
        tags, cell.metadata = kept.get("tags"), nbformat.from_dict(kept)
        if tags and "hide-input" in tags:
            cell.metadata["jupyter"] = {"source_hidden": True}
    nb.nbformat, nb.nbformat_minor = 4, 5
    return nbformat.writes(nb) + "\n"


def store(notebook: Notebook) -> None:
    """Write a notebook back to its file in canonical form, whole or not at all."""
    write(notebook.path, format_canonical(notebook.nb))
