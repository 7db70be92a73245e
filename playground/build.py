"""Build the page: its bundle, the exercises, the engine, and the list of files that the service worker keeps.

``python playground/build.py FOLDER`` writes the page to a folder, which is empty or has an earlier
page; nothing in it is removed. It needs the node modules of two package-lock.json, this folder's
and the engine's: `make playground` brings them.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from labkit.base.own import claim_folder
from labkit.exercises.exercise import Exercise, exercises
from labkit.notebooks import execute, html, live, site
from labkit_playground.data import find_reason
from labkit_playground.site import write_lab

HERE = Path(__file__).resolve().parent
_ON_ITS_PAGE = re.compile(r"\b(?:figure|picture|table) (?:at the top|above|below)\b")
_POSED = r"(?ms)^\*\*{}\b[^*]*\*\*\s*(.*?)(?=^\*\*[0P]?\d+[a-z]\b|^#|\Z)"


def main(out: Path) -> None:
    """Write the page, the engine and the service worker to a folder."""
    claim_folder(out, site.PLAYGROUND_BUILD)
    with tempfile.TemporaryDirectory() as place:
        new = Path(place, "playground")
        _say("the page and its exercises")
        page(new, out)
        _say("the engine and the lab, in minutes: Python and a C++ compiler as WebAssembly")
        write_lab(new, _list_rungs())
        write_size(new)
        _say("the list of its files")
        theirs = (new / "engine" / "licences.txt").read_text(encoding="utf-8")
        with open(new / "licences.txt", "a", encoding="utf-8") as file:
            file.write(f"\n{'-' * 80}\n\n{theirs}")
        service(new)
        written = [out / path.relative_to(new) for path in new.rglob("*") if path.is_file()]
        shutil.copytree(new, out, dirs_exist_ok=True)
    claim_folder(out, site.PLAYGROUND_BUILD, written)
    print(f"{out / 'index.html'}: {len(written)} files")


def _say(step: str) -> None:
    print(f"building {step}", file=sys.stderr, flush=True)


def page(out: Path, at: Path | None = None) -> None:
    """Write the page and its exercises; its links are those of a page in the folder `at`, by default `out`."""
    out.mkdir(parents=True)
    subprocess.run(["node", HERE / "build.mjs", out.resolve()], check=True)
    listed_exercises = listed(at or out) | {"rungs": _list_rungs()}
    (out / "exercises.json").write_text(json.dumps(listed_exercises), encoding="utf-8")


def _list_rungs() -> list[str]:
    """Return the rungs, "07 step=rows", whose place cells of parts 1 and 2 take: the page checks them."""
    pages = (html.ReportPage(execute.read(path), path) for path in execute.list_notebooks(""))
    return live.list_rungs(page.notebook.nb for page in pages if _find_part(page)[0])


def write_size(out: Path) -> None:
    """Write into the pages how large the engine is: what a first result loads."""
    engine = (path for path in (out / "engine").rglob("*") if path.is_file())
    size = sum(path.stat().st_size for path in engine if path.parent.name != "later")
    for name in ("index.html", "embed.html"):
        text = (out / name).read_text(encoding="utf-8")
        (out / name).write_text(text.replace("MEGABYTES", f"{size / 1e6:.0f}"), encoding="utf-8")


def service(out: Path) -> None:
    """Write the service worker, with all files of the page and their digests."""
    files = sorted(path for path in out.rglob("*") if path.is_file() and path.name != "service.js")
    digests = {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in files
    }
    text = (HERE / "src" / "service.js").read_text(encoding="utf-8")
    (out / "service.js").write_text(
        f"const FILES = {json.dumps(digests, indent=1)};\n{text}", encoding="utf-8"
    )


def listed(out: Path) -> dict:
    """Return the page's exercises by the parts of the series: kernels of parts 1 and 2, and of practice."""
    # The page lies in a folder of the site, beside those of the notebooks: links in the texts are
    # relative to it.
    pages = html.make_pages(map(execute.read, execute.list_notebooks()), out.parent)
    root = execute.folder().parent
    documents = [
        html.document(path, out.parent, "") for paths in site.texts(root).values() for path in paths
    ]
    exporter = site.SiteExporter(pages, documents)
    parts: dict[str, dict] = {}
    for asked in exercises().values():
        page = next(
            page for page in pages if not page.notebook.closer and page.path.stem == asked.page
        )
        name, about = _find_part(page)
        if asked.start and name and not find_reason(asked):
            part = parts.setdefault(name, {"name": name, "about": about, "exercises": []})
            part["exercises"].append(_describe(asked, page, exporter, out))
    return {"parts": [*parts.values()]}


def _find_part(page: html.ReportPage) -> tuple[str, str]:
    if page.notebook.folder == execute.PRACTICE:
        return html.PRACTICE[0], "Patterns that stand on their own."
    number = int(page.notebook.number)
    second, third = html.PARTS[1][0], html.PARTS[2][0]
    if number >= third:
        return "", ""
    return (html.PARTS[0][1], "") if number < second else (html.PARTS[1][1], html.PARTS[1][2])


def _describe(
    asked: Exercise, page: html.ReportPage, exporter: site.SiteExporter, out: Path
) -> dict:
    return {
        "number": asked.number,
        "title": asked.title,
        "from": f"{page.notebook.number} {page.notebook.title}",
        "page": f"../{page.notebook.name}.html",
        "text": text(asked, page, exporter, out),
        "start": asked.start,
        "goals": [f"{goal.what}: {goal.wanted}" for goal in asked.goals],
        "lines": asked.lines,
        "hints": asked.hints,
    }


def text(asked: Exercise, page: html.ReportPage, exporter: site.SiteExporter, out: Path) -> str:
    """Return the exercise's text on its page as HTML; links are relative to the playground.

    Raises
    ------
    ValueError
        The page does not pose the exercise.
    """
    exporter.page = html.ReportPage(page.notebook, out / "index.html")
    for cell in page.notebook.nb.cells:
        if cell.cell_type == "markdown" and (
            match := re.search(_POSED.format(asked.number), cell.source)
        ):
            there = rf"[\g<0>]({page.notebook.path.name}) of its page"
            return exporter.markdown(_ON_ITS_PAGE.sub(there, match[1]))
    raise ValueError(
        f"{page.notebook.path.name} does not pose exercise {asked.number}: begin a paragraph with "
        f"**{asked.number}**"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
