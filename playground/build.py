"""Build the page: its bundle, the exercises, the engine, and the list of files that the service worker keeps.

``python playground/build.py FOLDER`` writes the page to a folder, which is empty or has an earlier
page; nothing in it is removed. It needs the node modules of two package-lock.json, this folder's
and the engine's: `make playground` brings them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from labkit.base.own import claim_folder
from labkit.exercises.exercise import exercises
from labkit.notebooks import execute, html, live, site
from labkit_playground.data import find_reason
from labkit_playground.site import write_lab

HERE = Path(__file__).resolve().parent


def main(out: Path) -> None:
    """Write the page, the engine and the service worker to a folder."""
    # refuses a folder with files that this program has not written, before minutes of work
    claim_folder(out, site.PLAYGROUND_BUILD)
    with tempfile.TemporaryDirectory() as place:
        new = Path(place, "playground")
        _say("the page and its exercises")
        write_page(new)
        _say("the engine and the lab, in minutes: Python and a C++ compiler as WebAssembly")
        write_lab(new, _list_rungs())
        write_size(new)
        _say("the list of its files")
        # the licences of what the engine has are added to those of the page's bundle
        theirs = (new / "engine" / "licences.txt").read_text(encoding="utf-8")
        with open(new / "licences.txt", "a", encoding="utf-8") as file:
            file.write(f"\n{'-' * 80}\n\n{theirs}")
        write_service_worker(new)
        written = [out / path.relative_to(new) for path in new.rglob("*") if path.is_file()]
        shutil.copytree(new, out, dirs_exist_ok=True)
    claim_folder(out, site.PLAYGROUND_BUILD, written)  # lists them in a file of the folder
    print(f"{out / 'index.html'}: {len(written)} files")


def _say(step: str) -> None:
    """Print on standard error what is built now."""
    print(f"building {step}", file=sys.stderr, flush=True)


def write_page(out: Path) -> None:
    """Write the page into a new folder, and exercises.json: the exercises and the rungs that it offers.

    A rung is a kernel of the lab, "07 step=rows", in whose place the page checks a reader's.
    """
    out.mkdir(parents=True)
    subprocess.run(["node", HERE / "build.mjs", out.resolve()], check=True)
    listed = {"parts": list_exercises(), "rungs": _list_rungs()}
    (out / "exercises.json").write_text(json.dumps(listed), encoding="utf-8")


def _read_notebooks() -> list[execute.Notebook]:
    """Return the notebooks of parts 1, 2 and practice, whose kernels run in a browser."""
    notebooks = map(execute.read, execute.list_notebooks("", execute.PRACTICE))
    return [notebook for notebook in notebooks if _find_part(notebook)[0]]


def _list_rungs() -> list[str]:
    """Return the rungs, "07 step=rows", whose place cells of parts 1 and 2 take: the page checks them."""
    return live.list_rungs(notebook.nb for notebook in _read_notebooks())


def write_size(out: Path) -> None:
    """Write into the pages, in place of MEGABYTES, how large the engine is [MB]: what a first result loads.

    That is all but the folder later/.
    """
    engine = (path for path in (out / "engine").rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in engine if path.parent.name != "later")
    for name in ("index.html", "embed.html"):
        text = (out / name).read_text(encoding="utf-8")
        (out / name).write_text(text.replace("MEGABYTES", f"{size / 1e6:.0f}"), encoding="utf-8")


def write_service_worker(out: Path) -> None:
    """Write service.js, the service worker, which begins with all files of the page and their SHA-256 digests.

    It keeps the files for use without a network; another digest tells it that a file is new.
    """
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "service.js")
    digests = {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    text = (HERE / "src" / "service.js").read_text(encoding="utf-8")
    (out / "service.js").write_text(
        f"const FILES = {json.dumps(digests, indent=1)};\n{text}", encoding="utf-8"
    )


def list_exercises() -> list[dict]:
    """Return the parts of the series, each {"name", "about", "exercises"}.

    An exercise is {"number": "04a", "title", "page": "../04_tiling.html#cell-7"}, the address of
    its cell. Those that the playground does not offer are left out.
    """
    offered = {number for number, asked in exercises().items() if not find_reason(asked)}
    parts: dict[str, dict] = {}
    for notebook in _read_notebooks():
        name, about = _find_part(notebook)  # of the part that the notebook belongs to
        part = parts.setdefault(name, {"name": name, "about": about, "exercises": []})
        cells = live.find_live_cells(notebook.nb, offered, rungs=()).values()
        part["exercises"] += [
            {
                "number": cell.name,
                "title": exercises()[cell.name].title,
                "page": f"../{notebook.name}.html#cell-{cell.index}",
            }
            for cell in cells
            if cell.kind == "exercise"
        ]
    return [*parts.values()]


def _find_part(notebook: execute.Notebook) -> tuple[str, str]:
    """Return the name of a notebook's part and a sentence on it (or ""); ("", "") for the parts 3 and 4."""
    if notebook.folder == execute.PRACTICE:
        return html.PRACTICE[0], "Patterns that stand on their own."
    number = int(notebook.number)
    second, third = html.PARTS[1][0], html.PARTS[2][0]
    if number >= third:
        return "", ""
    return (html.PARTS[0][1], "") if number < second else (html.PARTS[1][1], html.PARTS[1][2])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
