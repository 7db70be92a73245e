"""Write the HTML report: the series, executed on this machine's engine, in pages that open from disk.

Mathematics is MathML, figures and styles are inside the page, without scripts. A page that would
use a network fails.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import datetime
import html
import itertools
import json
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit
from xml.etree import ElementTree

import latex2mathml.converter
import nbformat
from nbconvert.exporters.html import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from nbconvert.filters.highlight import Highlight2HTML
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath
from nbformat import NotebookNode

import labkit
from hostcuda.errors import EngineError
from hostcuda.files import locked, write
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.own import claim_folder, claiming
from labkit.draw.dark import dark
from labkit.exercises import progress
from labkit.notebooks import STYLE, TEMPLATES, execute, side_by_side
from labkit.notebooks.clean import Cleaner
from labkit.notebooks.execute import Failure, Notebook, Progress
from labkit.notebooks.links import Links
from labkit.page import listing, overview
from labkit.records.recorded import recorded

TITLE = "The CUDA convolution lab"
# The first number of a part, its name, and its readers.
PARTS = (
    (
        0,
        "Part 1: a kernel made fast",
        "Read these pages in their order. At their end there are two ways on. Most "
        "readers go to part 3 first.",
    ),
    (8, "Part 2: tensor cores", "For a third to an eleventh of the time. It goes back to page 06."),
    (12, "Part 3: whole programs", "Copies, a whole network, training. Part 1 is enough for it."),
    (
        15,
        "Part 4: beyond this lab",
        "Profilers, what others write, PyTorch, honest times. Page 03 is enough for all but 16, which needs 06.",
    ),
)
PRACTICE = (
    "Practice",
    "Short pages of half an hour each: a pattern, an empty cell, two exercises. They stand on "
    "their own.",
)
# A ladder of three bars, as a picture in the address of the icon.
ICON = (
    "data:image/svg+xml;base64,"
    + base64.b64encode(
        b'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" '
        b'height="16" rx="3" fill="#1f5fa5"/>'
        b'<path d="M3 4h10M3 8h6M3 12h3" stroke="#fff" stroke-width="2"/></svg>'
    ).decode()
)
RECORDED = "H200"  # the device of the first page's ladder
PHONE = 390  # CSS pixels
# "<math>…</math>)," stays a line
_BEFORE_A_SIGN = re.compile(r"<math\b(?:(?!</math>).)*</math>[.,;:?!)]+", re.DOTALL)
_SHOWN = (
    "text/html",
    "text/markdown",
    "image/svg+xml",
    "text/latex",
    "image/png",
    "image/jpeg",
    "text/plain",
)


@dataclass(eq=False)
class ReportPage:
    """A notebook and its page."""

    notebook: Notebook
    path: Path  # the file to write
    # the HTML of each Markdown cell, by the cell's index
    prose: dict[int, str] = field(default_factory=dict)
    # level, anchor and text of each heading
    contents: list[tuple[int, str, str]] = field(default_factory=list)
    # the page before it; companions and practice pages have no neighbours
    previous: ReportPage | None = None
    next: ReportPage | None = None
    companion: ReportPage | None = None  # the closer look of a notebook, and the other way round

    @property
    def home(self) -> str:
        """The link from this page to the first page."""
        return "../index.html" if self.notebook.folder else "index.html"

    def to(self, other: ReportPage) -> str:
        """Return the relative address of another page, for a link on this one."""
        return Path(os.path.relpath(other.path, self.path.parent)).as_posix()

    @property
    def failure(self) -> Failure | None:
        """The error that stopped the notebook, or an error of its page."""
        return self.notebook.failure


def make(
    names: Iterable[str] = (),
    out: Path | str | None = None,
    stored: bool = False,
    progress: Progress | None = None,
    fresh: bool = False,
    companions: bool = False,
) -> list[ReportPage]:
    """Execute notebooks and write `index.html` and a page for each.

    With `names`, the pages of the other notebooks stay as they are, and the index lists those that
    exist. Without, the closer looks (companions of notebooks), which take as long as all others,
    are not executed: their pages show the stored outputs, and say so. The notebooks run in parallel, see
    `side_by_side.run`. One that fails does not stop the others, and its page shows the cells before
    the failure. Returns the pages of the named notebooks; `page.failure` says what went wrong.
    LabError if no notebook has that name, a file is no notebook, two have the same name, or `out`
    cannot be written.

    Parameters
    ----------
    names : iterable of str
        Files, names or numbers of notebooks; the whole series by default.
    out : path
        The folder to write to; by default `reports/` of the course, or of the current folder
        without one.
    stored : bool
        Execute nothing: export the outputs that the notebooks hold.
    progress : Progress, optional
        Gets a call for each step, to show it; by default nothing is shown.
    fresh : bool
        Execute also what has not changed since its last execution.
    companions : bool
        Execute also the closer looks.
    """
    names, progress = [*names], progress or Progress()
    out = Path(out) if out else (execute.find_course() or Path()) / "reports"
    chosen = execute.find(names)
    ours = execute.list_notebooks() if execute.has_series() else []
    # notebooks outside the series are a report of their own
    files = ours if set(chosen) <= set(ours) else chosen
    notebooks = [*map(execute.read, files)]
    pages, documents = _make_listed_pages(notebooks, chosen, out), []
    if files is ours and (glossary := execute.folder().parent / "docs" / "glossary.md").is_file():
        documents.append(document(glossary, out))
    if len({page.path for page in pages}) < len(pages):
        raise LabError(
            "two of these notebooks have the same name, and so would their pages: rename one"
        )
    if not pages:
        raise LabError(
            f"there is nothing to report: {execute.folder()} holds no notebook NN_name.ipynb"
        )
    # refuses a folder of somebody else's files, before minutes of work
    with claiming(out, "labkit report"):
        wanted = {page.notebook: page for page in pages if page.notebook.path in chosen}
        exporter = ReportExporter(pages, documents)
        as_stored = [
            notebook
            for notebook in wanted
            if stored or (notebook.closer and not (names or companions))
        ]
        # these are executed
        others = (notebook for notebook in wanted if notebook not in as_stored)
        with contextlib.closing(side_by_side.run(others, progress, fresh)) as executed:
            for notebook in itertools.chain(executed, as_stored):
                if notebook in as_stored:
                    progress.start(notebook)
                exporter.write(wanted[notebook])
                progress.finish(notebook)
        for page in documents:
            exporter.write(page)
        # another report may have written pages here in the meantime: listed, too
        with locked(out / "index.html"):
            series = ReportExporter(
                _make_listed_pages(notebooks, chosen, out), documents
            ).render_series()
            index = write(out / "index.html", series)
        # lists the written files in the folder's mark: `make clean` removes these alone
        claim_folder(
            out, "labkit report", [index, *(page.path for page in (*wanted.values(), *documents))]
        )
        return [*wanted.values()]


def _make_listed_pages(
    notebooks: Iterable[Notebook], chosen: Container[Path], out: Path
) -> list[ReportPage]:
    """Return the pages of the notebooks in `chosen`, and those that exist in `out`, with their outputs' origin."""
    pages = make_pages(
        (
            notebook
            for notebook in notebooks
            if notebook.path in chosen or (out / f"{notebook.name}.html").is_file()
        ),
        out,
    )
    for page in pages:
        if page.notebook.path not in chosen:
            # As the template has noted it: content="{&#34;engine&#34;: &#34;cpu&#34;, …}".
            note = re.search(
                r'<meta name="labkit-produced" content="([^"]*)">',
                page.path.read_text(encoding="utf-8"),
            )
            page.notebook.nb.metadata["labkit"] = json.loads(html.unescape(note[1])) if note else {}
    return pages


def make_pages(notebooks: Iterable[Notebook], out: Path) -> list[ReportPage]:
    """Return a page in the folder `out`, not written yet, per notebook; set their neighbours and companions.

    The neighbours, `previous` and `next`, are pages of the series, outside of any folder.
    """
    pages = [ReportPage(notebook, out / f"{notebook.name}.html") for notebook in notebooks]
    for before, after in itertools.pairwise(page for page in pages if not page.notebook.folder):
        before.next, after.previous = after, before
    # a closer look has the file name of the page that it belongs to
    main = {page.path.name: page for page in pages if not page.notebook.closer}
    for page in pages:
        if page.notebook.closer and page.path.name in main:
            page.companion = main[page.path.name]
            page.companion.companion = page
    return pages


def document(path: Path, out: Path, text: str | None = None) -> ReportPage:
    """Return the page in the folder `out` for a Markdown file, or for `text` in place of the file's."""
    # `manifest`: a file of data/ must have the digest that is listed there
    text = manifest.read(path).decode() if text is None else text
    cell = nbformat.v4.new_markdown_cell(text)
    return ReportPage(
        Notebook(path, nbformat.v4.new_notebook(cells=[cell])), out / f"{path.stem.lower()}.html"
    )


class ReportExporter(HTMLExporter):
    """nbconvert's HTML exporter with the lab's template, mathematics as MathML, and links between pages.

    `pages` are the whole series: links between its notebooks become links between pages.
    `documents` are pages of Markdown files; the first one, the glossary, is named at the end of
    every page.
    """

    def __init__(self, pages: list[ReportPage], documents: Iterable[ReportPage] = ()):
        """Set what all templates use; `page` is set again for each page that is rendered."""
        self.pages, self.documents = pages, [*documents]
        # Of the page that is being rendered. `requests`: addresses on a network that its HTML would
        # load.
        self.page, self.cleaner, self.requests = pages[0], Cleaner(), []
        super().__init__(template_name="notebook", extra_template_basedirs=[str(TEMPLATES)])
        # for "if output.text is listing" in a template
        self.environment.tests["listing"] = _is_listing
        style = STYLE.read_text(encoding="utf-8")
        # listings bring it along, but outputs lose their own styles
        style += f"\n{listing.STYLE}\n"
        # Names in all templates.
        self.common = {
            "series_title": TITLE,
            "style": style,
            "icon": ICON,
            "documents": self.documents,
        }

    @property
    def default_config(self) -> Any:
        """The settings of nbconvert, without outputs that need a script, and with kernel cells coloured as CUDA."""
        config = super().default_config
        config.NbConvertBase.display_data_priority = list(_SHOWN)
        config.HighlightMagicsPreprocessor.languages = {
            "%%kernel": "cuda",
            "%%cuda": "cuda",
            "%%program": "cuda",
        }
        return config

    def write(self, page: ReportPage) -> None:
        """Write a notebook's page, whole or not at all; set the notebook's failure if the page would use a network."""
        text = self.render(page)
        requests = [*self.requests, *Links(text).loaded]
        if requests and not page.failure:
            what = f"its page would load {requests[0]}, and pages have to open offline"
            page.notebook.failure = Failure(  # None: of no cell
                None, f"{page.notebook.path.name}: {what}; keep a copy beside the notebook"
            )
            text = self.render(page)  # with the failure
        write(page.path, text)

    def render(self, page: ReportPage) -> str:
        """Return a notebook as the text of an HTML page; set `page.prose` and `page.contents`."""
        self.page, page.contents, self.requests, self.cleaner = page, [], [], Cleaner()
        cells = enumerate(page.notebook.nb.cells)
        page.prose = {
            i: self.markdown(cell.source, cell) for i, cell in cells if cell.cell_type == "markdown"
        }
        # `common`: what all templates are given, by name
        self.environment.globals.update(page=page, **self.common)
        # Not HTMLExporter's own: it reads and writes the page once more, which takes as long as all
        # before. It returns (the page's text, resources).
        return TemplateExporter.from_notebook_node(self, page.notebook.nb)[0]

    def render_series(self) -> str:
        """Return the first page as HTML: the series, with what each notebook teaches."""
        # a closer look is listed beside the notebook that it belongs to, its companion
        listed = [page for page in self.pages if not (page.notebook.closer and page.companion)]
        return self.environment.get_template("series.html.j2").render(
            parts=_group_by_part(listed),
            overview=_make_overview(),
            today=datetime.date.today().isoformat(),
            version=labkit.__version__,
            progress=_make_progress(),
            minutes=execute.read_minutes(),
            **self.common,
        )

    def default_filters(self) -> Iterator[tuple[str, Callable]]:
        """Yield the filters of the template, (name, function), after those of nbconvert."""
        yield from super().default_filters()
        yield "clean", self.clean
        yield "day", _format_day
        yield "highlight_code", Highlight2HTML(pygments_lexer="ipython3", parent=self)
        yield "formula", lambda text: convert_formula(text.strip().strip("$"), "block")
        yield "markdown2html", self.markdown
        yield "picture", _embed_output
        yield "scrolling", _scroll_attributes
        yield "summary", self.summarize
        yield "tables", _frame_tables

    def summarize(self, page: ReportPage) -> str:
        """Return a notebook's summary as HTML for the first page."""
        # links are relative to the first page
        self.page = ReportPage(page.notebook, page.path.parent / page.home)
        return self.markdown(page.notebook.summary)

    def markdown(self, source: str, cell: NotebookNode | None = None) -> str:
        """Return Markdown as clean HTML, with links relative to the current page; add its headings to its contents."""
        folder = str(self.page.notebook.path.resolve().parent)
        renderer = Renderer(self, attachments=(cell or {}).get("attachments"), path=folder)
        # the headings that the renderer adds to `contents` from here on are cleaned, too
        listed = len(self.page.contents)
        text = self.clean(MarkdownWithMath(renderer=renderer).render(source))
        # the style sheet keeps a formula and the sign behind it on one line
        text = _BEFORE_A_SIGN.sub(r'<span class="formula">\g<0></span>', text)
        self.page.contents[listed:] = [
            (level, anchor, self.cleaner.clean(heading))
            for level, anchor, heading in self.page.contents[listed:]
        ]
        return text

    def link_file(self, target: Path) -> str:
        """Return the address, relative to the current page, of a file that has no page."""
        return Path(os.path.relpath(target, self.page.path.resolve().parent)).as_posix()

    def clean(self, text: str) -> str:
        """Return a notebook's HTML without active content; note what it would have loaded, which fails the page."""
        self.requests += Links(text).loaded
        return self.cleaner.clean(text)


class Renderer(IPythonRenderer):
    """A renderer of Markdown's elements as the report's HTML; mistune calls a method per element.

    HTML that `Cleaner` would take out is set aside: the method returns a word that stands for it
    until then.
    """

    def __init__(self, exporter: ReportExporter, **options):
        super().__init__(escape=False, embed_images=True, **options)
        self.exporter = exporter

    def heading(self, text: str, level: int, **attrs: Any) -> str:
        """Add a heading to the page's contents; return a word that stands for its HTML until the page is cleaned.

        Its anchor is made of its words, "the-tile", or "the-tile-2" if the page has that one already.
        """
        contents = self.exporter.page.contents  # (level, anchor, text) of each heading
        # the heading's words, without tags and formulas
        words = html.unescape(re.sub(r"<[^>]+>", " ", self.exporter.cleaner.drop_kept(text)))
        base = re.sub(r"\W+", "-", words).strip("-").lower() or "section"
        taken = {other for _, other, _ in contents}
        anchors = itertools.chain([base], (f"{base}-{number}" for number in itertools.count(2)))
        anchor = next(anchor for anchor in anchors if anchor not in taken)
        contents.append((level, anchor, re.sub(r"</?a\b[^>]*>", "", text)))  # without links
        # the title of the page, of level 1, needs no link to itself
        link = (
            f'<a class="anchor" href="#{anchor}" aria-label="Link to this section">#</a>'
            if level > 1
            else ""
        )
        text = self.exporter.cleaner.clean(text)
        return self.exporter.cleaner.keep(f'<h{level} id="{anchor}">{text}{link}</h{level}>') + "\n"

    def block_code(self, code: str, info: str | None = None) -> str:
        """Return a word that stands for code in a frame that scrolls, until the page is cleaned of scripts.

        The frame is the report's own HTML, which needs no cleaning. `info` is what follows the ``` in
        Markdown, such as "cuda".
        """
        code = f'<div class="scroll"{_scroll_attributes(code, "Code")}>{super().block_code(code, info)}</div>'
        return self.exporter.cleaner.keep(code) + "\n"

    def table(self, text: str) -> str:
        """Return a table in HTML, in a frame that scrolls sideways; `text` is its rows in HTML."""
        return _frame_tables(f"<table>\n{text}</table>\n")

    def _html_embed_images(self, html: str) -> str:
        """Return HTML with its pictures inside; leave a lone start tag open, which nbconvert would close."""
        return super()._html_embed_images(html) if "<img" in html.lower() else html

    def inline_math(self, body: str) -> str:
        """Return a word that stands for the formula `$...$` until the page is cleaned of scripts: then MathML."""
        return self.exporter.cleaner.keep(convert_formula(body, "inline"))

    def block_math(self, body: str) -> str:
        """Return a word that stands for the formula `$$...$$` until the page is cleaned of scripts: then MathML."""
        return self.exporter.cleaner.keep(convert_formula(body, "block"))

    def latex_environment(self, name: str, body: str) -> str:
        r"""Return a word for `\begin{align}…\end{align}` or the like, until the page is cleaned: then MathML."""
        return self.exporter.cleaner.keep(
            convert_formula(f"\\begin{{{name}}}{body}\\end{{{name}}}", "block")
        )

    def block_mermaidjs(self, code: str) -> str:
        """Return a Mermaid diagram as its source: a drawing would need a script."""
        return f"<pre><code>{html.escape(code)}</code></pre>\n"

    def link(self, text: str, url: str, title: str | None = None) -> str:
        """Return a link relative to the page; a link to a notebook leads to its page."""
        return super().link(text, self._relocate(url), title)

    def _relocate(self, url: str) -> str:
        """Return an address that is relative to the notebook as one relative to the page; any other as it is."""
        parts = urlsplit(url)
        if parts.scheme or parts.netloc or not parts.path:
            return url
        target = (Path(self.path) / unquote(parts.path)).resolve()
        anchor = f"#{parts.fragment}" if parts.fragment else ""
        for page in (*self.exporter.pages, *self.exporter.documents):
            if page.notebook.path.resolve() == target:
                return self.exporter.page.to(page) + anchor.lower()  # as `heading` makes them
        return self.exporter.link_file(target) + anchor


# Attributes of MathML that run, load, link, move or name something.
_ACTIVE = re.compile(r"on.*|.*href|src|style|id|class", re.IGNORECASE)


def convert_formula(latex: str, display: str) -> str:
    """Return LaTeX, without dollar signs, as "inline" or "block" MathML; as source if it cannot be read."""
    try:
        # xmlns="": tags are "mi", without a namespace
        text = latex2mathml.converter.convert(latex.strip(), xmlns="", display=display)
        tree = ElementTree.fromstring(text)
        for node in tree.iter():  # others come from HTML in \text, or from \href and \style
            if not re.fullmatch("m[a-z]+", node.tag) or any(map(_ACTIVE.fullmatch, node.attrib)):
                raise ValueError("more than mathematics")
    except Exception:  # its exceptions have no common base class; some inputs raise IndexError
        return f'<code class="latex">{html.escape(latex)}</code>'
    # elements whose children are a base, then its indices or limits
    tags = ("msub", "msup", "msubsup", "munder", "mover", "munderover")
    scripts = {
        operator
        for tag in tags
        for parent in tree.iter(tag)
        for script in list(parent)[1:]
        for operator in script.iter("mo")
    }
    for operator in tree.iter("mo"):
        # TeX sets indices and limits without space, MathML with it. A bar is of an absolute value,
        # and no relation.
        if operator in scripts or operator.text == "|":
            operator.attrib.update(lspace="0", rspace="0")
        # only mathematical fonts have a larger sign: the style sheet makes the letter larger
        if display == "block" and operator.text and operator.text in "∑∏":
            operator.attrib.update({"largeop": "false", "class": "large"})
    return ElementTree.tostring(tree, encoding="unicode")


def _embed_output(output: NotebookNode, kind: str) -> str:
    """Return the image of a cell's output, of a MIME type such as "image/png", as HTML."""
    data, about = output.data[kind], output.get("metadata", {}).get(kind, {})
    if kind == "image/svg+xml":
        data = base64.b64encode(data.encode()).decode()
    alt = about.get("alt") or "A figure without a description, drawn by the code above"
    return _embed(data, kind, alt, about.get("width"), about.get("height"))


def _embed(
    data: str, kind: str, alt: str, width: int | str | None = None, height: int | str | None = None
) -> str:
    """Return an image, in base64 and of this MIME type, as HTML with its dark version; a tap enlarges a wide one."""
    # a length in per cent counts as none
    width, height = (int(length) if str(length).isdecimal() else 0 for length in (width, height))
    size = f' width="{width}"' if width else ""
    size += f' height="{height}"' if height else ""
    data = "".join(data.split())
    image = f'<img src="data:{kind};base64,{html.escape(data)}" alt="{html.escape(alt)}"{size}>'
    try:
        picture = base64.b64decode(data)
    except binascii.Error:  # damaged: the browser shows its description
        picture = b""
    if night := kind == "image/png" and dark(picture):
        source = f"data:image/webp;base64,{base64.b64encode(night).decode()}"
        image = f'<picture><source media="(prefers-color-scheme: dark)" srcset="{source}">{image}</picture>'
    if width > PHONE:
        toggle = '<input type="checkbox" aria-label="Enlarge the figure"><span></span>'
        image = f'<label class="zoom">{toggle}{image}</label>'
    return image


def _group_by_part(pages: Iterable[ReportPage]) -> list[tuple[str, str, list[ReportPage]]]:
    """Return (name, lead, pages) of each part that has pages; pages without a number get no name and lead."""

    def find_part(page: ReportPage) -> tuple[str, str]:
        """Return the name and the lead of the part that a page belongs to, ("", "") if it has no number."""
        number = page.notebook.number
        if page.notebook.folder == execute.PRACTICE:
            return PRACTICE
        return [entry[1:] for entry in PARTS if entry[0] <= int(number)][-1] if number else ("", "")

    return [(*part, list(group)) for part, group in itertools.groupby(pages, find_part)]


def _make_overview() -> dict[str, str]:
    """Return the first page's pictures, "first" and "ladder", and its "table" as HTML; "" where a file is missing."""
    pictures = {}  # by the file's name without its ending
    root = execute.find_course() or Path()
    for page in (root / "README.md", root / "docs" / "results.md"):
        text = page.read_text(encoding="utf-8") if page.is_file() else ""
        for name, width, alt in re.findall(
            r'<img src="([\w/.-]+\.png)" width="(\d+)" alt="([^"]*)">', text
        ):
            if (page.parent / name).is_file():
                data = base64.b64encode((page.parent / name).read_bytes()).decode()
                pictures[Path(name).stem] = _embed(data, "image/png", html.unescape(alt), width)
    try:
        table = overview.write_html(recorded(RECORDED))
    except EngineError:
        table = ""
    return {"first": pictures.get("lab", ""), "ladder": pictures.get("ladder", ""), "table": table}


def _make_progress() -> str:
    """Return the reader's exercises as an HTML table, or why they cannot be read; empty if none was tried."""
    try:
        return progress.progress()._repr_html_() if progress.read() else ""
    except EngineError as error:
        return f"<p>{html.escape(str(error))}</p>"


def _is_listing(text: str) -> bool:
    """Return whether an output is CUDA C++: one of its lines is only the bracket that opens a body."""
    return any(line.strip() == "{" for line in text.splitlines())


_PHONE_CHARACTERS = 40  # of code in a line on a narrow phone


def _scroll_attributes(text: str, name: str, wraps: bool = False) -> str:
    """Return the HTML attributes of a frame that the keyboard can scroll, named for screen readers; "" if it fits.

    It fits if it has at most 20 lines on a phone, and none is too long; with `wraps` long lines are
    broken. The role is not region: each region is a landmark, and a page has dozens of frames.
    """
    lines = text.splitlines()
    is_high = sum(1 + wraps * len(line) // _PHONE_CHARACTERS for line in lines) > 20
    is_wide = not wraps and any(len(line) > _PHONE_CHARACTERS for line in lines)
    return f' tabindex="0" role="group" aria-label="{name}"' if is_high or is_wide else ""


def _frame_tables(text: str) -> str:
    """Return an HTML output in a frame, which scrolls if there is a table in it.

    Tables get the page's style in place of pandas' style, and an empty cell is no heading.
    """
    text = re.sub(r"<style scoped>.*?</style>", "", text, flags=re.DOTALL)  # pandas'
    text = text.replace('<table border="1" class="dataframe">', '<table class="dataframe">')
    text = re.sub(r"<th\b([^>]*)>\s*</th>", r"<td\1></td>", text)
    frame = ' tabindex="0" role="group" aria-label="Table"' if "<table" in text else ""
    return f'<div class="html"{frame}>{text}</div>'


def _format_day(date: str) -> str:
    """Return "2026-11-05" as "5 November 2026"."""
    day = datetime.date.fromisoformat(date)
    return f"{day.day} {day:%B %Y}"
