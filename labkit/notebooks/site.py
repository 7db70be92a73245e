"""Write the site: the stored report, the documents and the API reference, in pages that load nothing.

The playground and the page of the search run scripts, and load files of the site itself. Beside a
playground, a page with kernels has a script of some lines: it adds buttons with which they run in
the page.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from hostcuda.files import write
from labkit.base.errors import LabError
from labkit.base.installation import find_checkout
from labkit.base.own import MARK, claim_folder, claiming
from labkit.notebooks import api, execute, html
from labkit.notebooks.links import find_dead_links
from labkit.notebooks.live import find_live_cells

GENERATED = "docs/api.md"  # made from the docstrings; there is no such file
# The groups of the first page and their files; a pattern stands for those that no other name or
# pattern before it has.
DOCUMENTS = {
    "Look it up": ("docs/glossary.md", "docs/faq.md", GENERATED, "data/counters.md"),
    "Results": ("docs/results.md", "docs/neighbours.md", "CHANGELOG.md"),
    "Teach and write": ("docs/instructors.md", "docs/authors.md", "docs/*.md"),
    "The engine": ("engine/docs/*.md",),
}
PLAYGROUND = Path("build", "playground")  # of the checkout: what `make playground` writes
# writes the search's script and index, where its node modules are
SEARCH = Path("playground", "search.mjs")
PICTURE = Path("docs", "images", "lab.png")  # what other sites show beside a link to this one
PLAYGROUND_BUILD = "playground/build.py"  # the maker of that folder


class SiteExporter(html.ReportExporter):
    """The report's exporter, with links to GitHub's `repository` ("owner/name") for files without a page."""

    def __init__(
        self,
        pages: list[html.ReportPage],
        documents: Iterable[html.ReportPage] = (),
        repository: str | None = None,
    ):
        self.repository = repository
        super().__init__(pages, documents)
        self.common |= {"desks": (), "rungs": ()}  # what the playground has

    def render(self, page: html.ReportPage) -> str:
        """Return a notebook as HTML; where there is a playground, its kernels can be run in the page."""
        # `common`: names for the template. "desks" are the exercises of the playground, such as
        # "04a", "rungs" its kernels, such as "07 step=rows". They are those of the series ("") and
        # of the practice pages; `documents`, such as the glossary, have no kernels.
        self.common["live"] = (
            find_live_cells(page.notebook.nb, self.common["desks"], self.common["rungs"])
            if self.common.get("playground")
            and page.notebook.folder in ("", execute.PRACTICE)
            and page not in self.documents
            else {}
        )
        return super().render(page)

    def link_file(self, target: Path) -> str:
        """Return the address of a file that has no page: on GitHub, if it is one of the published repository."""
        root = execute.folder().parent.resolve()
        if self.repository and target.is_relative_to(root):
            return f"https://github.com/{self.repository}/blob/HEAD/{target.relative_to(root).as_posix()}"
        return super().link_file(target)


def make(out: Path, repository: str | None = None) -> list[Path]:
    """Write the site.

    Returns the files whose links were checked, "index.html" first, and "404.html". Raises
    EngineError if labkit is not used from a checkout, `repository` is not "owner/name", the folder
    cannot be written, a page would load something from a network, or a link leads nowhere; the
    message lists those links.

    Parameters
    ----------
    out : Path
        The folder to write to.
    repository : str, optional
        Where the lab is published on GitHub, "owner/name": links to files without a page lead
        there.
    """
    if repository is not None and not re.fullmatch(r"[\w.-]+/[\w.-]+", repository):
        raise LabError(f"{repository!r} names no repository on GitHub: write owner/name")
    if (root := find_checkout()) is None:
        raise LabError("the site is made of the documents of a checkout: run labkit from one")
    # refuses a folder with files that `labkit site` has not written
    with claiming(out, "labkit site"):
        pages = html.make_pages(map(execute.read, execute.list_notebooks()), out)
        # the text of a document without a file
        generated = {root / GENERATED: api.make_reference()}
        groups = {
            name: [html.document(path, out, generated.get(path)) for path in paths]
            for name, paths in texts(root).items()
        }
        documents = [document for group in groups.values() for document in group]
        exporter = SiteExporter(pages, documents, repository)
        # `common`: what the templates are given
        exporter.common |= {"groups": groups, "repository": repository}
        has_playground = (root / PLAYGROUND / "lab.mjs").is_file()
        if has_playground:
            exporter.common["playground"] = "playground/index.html"
            listed = json.loads((root / PLAYGROUND / "exercises.json").read_bytes())
            # each exercise has a desk in the playground: {"04a", …}
            exporter.common["desks"] = {
                entry["number"] for part in listed["parts"] for entry in part["exercises"]
            }
            exporter.common["rungs"] = {*listed["rungs"]}
        # the index of the search is made with pagefind, a package of node
        if (
            has_search := bool(shutil.which("node"))
            and (root / SEARCH.parent / "node_modules" / "pagefind").is_dir()
        ):
            exporter.common["search"] = "search.html"
        # the picture that other sites show beside a link to this one; they need its full address
        if repository and (root / PICTURE).is_file():
            owner, _, name = repository.partition("/")
            exporter.common["picture"] = f"https://{owner.lower()}.github.io/{name}/{PICTURE.name}"
            shutil.copy(root / PICTURE, out)
        exporter.common["sheet"] = write(out / "style.css", exporter.common["style"]).name
        for page in (*pages, *documents):
            exporter.write(page)
            if page.failure:  # it would load something from a network
                raise LabError(page.failure.message)
        site_files = [page.path for page in (*pages, *documents)]
        if has_playground:
            # marked as playground/build.py's, as the folder that is copied is
            claim_folder(playground := out / "playground", PLAYGROUND_BUILD)
            shutil.copytree(root / PLAYGROUND, playground, dirs_exist_ok=True)
            site_files += [playground / "index.html", playground / "licences.txt"]
            site_files.append(write_service(out))
        site_files = [write(out / "index.html", exporter.render_series()), *site_files]
        if has_search:
            site_files += _write_search(root, out, exporter)
        # GitHub serves "404.html" at any address
        home = f"/{repository.partition('/')[2]}/" if repository else "/"
        lost = exporter.environment.get_template("lost.html.j2").render(
            home=home, **exporter.common
        )
        site_files.append(write(out / "404.html", lost))
        # lists them in a file, for `make clean`
        claim_folder(out, "labkit site", [*site_files, out / "style.css"])
        # The link of "404.html" begins at the server's root: it cannot be followed in files.
        linked = [path for path in site_files if path.name != "404.html"]
        if dead := find_dead_links(linked, [out / "playground" / "index.html"]):
            raise LabError(f"{len(dead)} links of the site lead nowhere: {'; '.join(dead)}")
        return site_files


def write_service(out: Path) -> Path:
    """Write the script by which the playground's service worker answers for the site's pages; return its path.

    The one in the playground's own folder cannot answer for pages above it.
    """
    return write(out / "service.js", "importScripts('playground/service.js');\n")


def _write_search(root: Path, out: Path, exporter: SiteExporter) -> list[Path]:
    """Write the page of the search, and an index of the pages in `out`; return the files whose links are checked."""
    claim_folder(out / "search", str(SEARCH))
    # writes search/ in `out`
    process = subprocess.run(["node", root / SEARCH, out], capture_output=True, text=True)
    if process.returncode:
        raise LabError(
            f"the site's search cannot be written: {process.stderr.strip() or 'node failed'}"
        )
    files = [path for path in (out / "search").rglob("*") if path.is_file() and path.name != MARK]
    claim_folder(out / "search", str(SEARCH), files)  # lists them in the file MARK
    page = exporter.environment.get_template("search.html.j2").render(**exporter.common)
    return [write(out / "search.html", page), out / "search" / "licences.txt"]


def texts(root: Path) -> dict[str, list[Path]]:
    """Return the Markdown files of the checkout `root` that become pages, by their group; each file is in one group.

    docs/api.md is among them, although there is no such file: `make` writes its page from the
    docstrings.
    """
    groups, taken = {}, set()
    for group, names in DOCUMENTS.items():
        files = (
            path
            for name in names
            for path in (sorted(root.glob(name)) if "*" in name else [root / name])
        )
        groups[group] = [path for path in dict.fromkeys(files) if path not in taken]
        taken.update(groups[group])
    return groups
