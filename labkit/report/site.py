"""The site: the stored report, the documents and the API reference as one folder of pages that load nothing."""

from __future__ import annotations

from collections.abc import Iterable
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from labkit.base.errors import LabError
from labkit.base.files import require_writable, write
from labkit.report import api, execute, html
from labkit.report.colab import require_repository

# In the order of the first page. Files of docs/ that are missing here are an error of the tests.
DOCUMENTS = (
    "docs/glossary.md", "docs/api.md", "docs/testing.md", "docs/programs.md", "docs/engine.md", "docs/gears.md",
    "docs/counters.md", "docs/findings.md", "docs/neighbours.md", "docs/instructors.md", "CHANGELOG.md",
)  # fmt: skip
GENERATED = "docs/api.md"  # from the docstrings; there is no such file


class Exporter(html.Exporter):
    """The report's exporter, for which files of the checkout without a page are on GitHub.

    Parameters
    ----------
    pages, documents
        See `html.Exporter`.
    repository : str, optional
        "owner/name".
    """

    def __init__(self, pages: list[html.Page], documents: Iterable[html.Page] = (), repository: str | None = None):
        self.repository = repository
        super().__init__(pages, documents)

    def elsewhere(self, target: Path) -> str:
        """The address of a file that has no page."""
        root = execute.folder().parent.resolve()
        if self.repository and target.is_relative_to(root):
            return f"https://github.com/{self.repository}/blob/HEAD/{target.relative_to(root).as_posix()}"
        return super().elsewhere(target)


def make(out: Path, repository: str | None = None) -> list[Path]:
    """Write the site.

    Parameters
    ----------
    out : Path
        The folder to write to.
    repository : str, optional
        Where the lab is published on GitHub, "owner/name": links to files without a page lead there.

    Returns
    -------
    list of Path
        The pages.

    Raises
    ------
    LabError
        labkit is not used from a checkout, the folder cannot be written, a page would load something from a network, or
        a link leads nowhere; the message lists those links.
    """
    if repository:
        require_repository(repository)
    root = execute.folder().parent
    require_writable(out)
    pages = html.pages_of(map(execute.read, [*execute.series(), *execute.closer_looks()]), out)
    documents = [html.document(root / name, out, api.text() if name == GENERATED else None) for name in DOCUMENTS]
    exporter = Exporter(pages, documents, repository)
    for page in (*pages, *documents):
        exporter.write(page)
        if page.failure:
            raise LabError(page.failure.message)
    index = write(out / "index.html", exporter.series())
    written = [index, *(page.path for page in (*pages, *documents))]
    if dead := dead_links(written):
        raise LabError(f"{len(dead)} links of the site lead nowhere: {'; '.join(dead)}")
    return written


class Links(HTMLParser):
    """The addresses that a page links to, and the anchors in it.

    Attributes
    ----------
    found : list of str
    anchors : set of str
    """

    def __init__(self, path: Path):
        super().__init__()
        self.found, self.anchors = [], {""}
        self.feed(path.read_text(encoding="utf-8"))
        self.close()

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.anchors.add(attributes.get("id"))
        if tag == "a" and "href" in attributes:
            self.found.append(attributes["href"])


def dead_links(files: list[Path]) -> list[str]:
    """The relative links of pages that lead to none of them, or to no anchor of one, each with its page in front."""
    pages = {path.resolve(): Links(path) for path in files}
    dead = []
    for path, page in pages.items():
        for link in page.found:
            parts = urlsplit(link)
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not parts.scheme and (target not in pages or parts.fragment not in pages[target].anchors):
                dead.append(f"{path.name}: {link}")
    return dead
