"""Write the edition for Google Colab: notebooks whose first cell installs the lab, for a branch of their own."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

import nbformat
from nbformat import NotebookNode

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.base.installation import PROJECT
from labkit.base.own import claim
from labkit.notebooks import execute

BRANCH = "colab"
_BADGE = "https://colab.research.google.com/assets/colab-badge.svg"
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#]+)(#[^)]*)?\)")
_SET_UP = """\
#@title Set up the lab: run this cell first (about a minute, longer with a GPU)
%pip install --quiet {requirement}
import os, shutil
if os.path.exists("/dev/nvidia0") and shutil.which("nvcc"):  # a runtime with a GPU; without one, the CPU engine
    %pip install --quiet pycuda"""


def write_edition(out: Path, repository: str, requirement: str | None = None) -> list[Path]:
    """Write the notebooks for Colab: each begins with a cell that installs the lab, and links lead to Colab.

    The files are meant for the branch `colab` of the repository; the notebooks of the checkout stay as they are.
    Returns the notebooks. Raises EngineError if the repository's name has another form, labkit is not used from a
    checkout, or the folder cannot be written.

    Parameters
    ----------
    out : Path
        The folder to write to.
    repository : str
        Where the lab is published on GitHub, "owner/name".
    requirement : str
        The requirements that the first cell installs, for pip; by default the engine and the lab of the repository.
    """
    require_repository(repository)
    source = f"git+https://github.com/{repository}"
    requirement = requirement or f'"hostcuda @ {source}#subdirectory=engine" "{PROJECT} @ {source}"'
    root = execute.folder().parent
    claim(out, "labkit colab")
    notebooks = []
    for path in execute.find():
        name = path.relative_to(root)
        notebooks.append(write(out / name, _edition(path, PurePosixPath(name), repository, requirement)))
    claim(out, "labkit colab", notebooks)
    return notebooks


def require_repository(name: str) -> None:
    """Refuse a text that names no repository on GitHub."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        raise LabError(f"{name!r} names no repository on GitHub: write owner/name")


def address(repository: str, name: PurePosixPath | str) -> str:
    """Return the address at which Colab opens a notebook of the edition."""
    return f"https://colab.research.google.com/github/{repository}/blob/{BRANCH}/{name}"


def badge(repository: str, name: PurePosixPath | str) -> str:
    """Return the badge, in Markdown, that opens a notebook of the edition."""
    return f"[![Open In Colab]({_BADGE})]({address(repository, name)})"


def _edition(path: Path, name: PurePosixPath, repository: str, requirement: str) -> str:
    nb = execute.read(path).nb
    for cell in nb.cells:
        if cell.cell_type == "markdown":
            cell.source = _LINK.sub(lambda link: f"]({_target(name, link, repository)})", cell.source)
    nb.cells[0].source = f"{badge(repository, name)}\n\n{nb.cells[0].source}"
    nb.cells.insert(1, _set_up(requirement))
    return nbformat.writes(nb) + "\n"


def _set_up(requirement: str) -> NotebookNode:
    cell = nbformat.v4.new_code_cell(_SET_UP.format(requirement=requirement), id="set-up")
    cell.metadata["cellView"] = "form"  # Colab shows the title and folds the code
    return cell


def _target(name: PurePosixPath, link: re.Match, repository: str) -> str:
    """Return the address of a notebook's relative link on Colab, or on GitHub for other files."""
    parts: list[str] = []
    for part in (*name.parent.parts, *PurePosixPath(link[1]).parts):
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    file, anchor = "/".join(parts), link[2] or ""
    if file.endswith(".ipynb"):
        return address(repository, file) + anchor
    return f"https://github.com/{repository}/blob/HEAD/{file}{anchor}"
