"""The report: notebooks executed, and pages that open from disk and load nothing."""

import base64
import itertools
import re
from html.parser import HTMLParser

import html5lib
import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_output
from notebook_files import write_notebook
from test_draw_dark import contrast

from labkit import draw
from labkit.base.paths import PACKAGE
from labkit.exercises import progress
from labkit.notebooks import STYLE, clean, execute, links
from labkit.notebooks import html as report
from labkit.page import listing

pytestmark = pytest.mark.thorough("pages as they are published")

TEACHING = [
    new_markdown_cell(
        "# 01 · Tiling: share *and* keep\n\n*You will learn* what a halo is,\nand $K^2$.\n\n"
        "See [the next](02_fails.ipynb#Part), [a file](../data/x.csv), [the web](https://example.org)."
    ),
    new_markdown_cell(
        "## The cost of $K^2$ loads\n\n$$ y_{b,m} = \\sum_{c=0}^{C-1} x_{b,c} \\cdot k_{m,c} $$\n\n"
        "\\begin{align} a &= b \\\\ c &= d \\end{align}\n\nInline $T \\times T < 3$ and $\\frac{1}{$.\n\n"
        "| rung | ms |\n|---|---:|\n| 01 | 18.9 |\n\n```cuda\n__global__ void f() { x[0] = 1.0f; } // <one>\n```"
    ),
    new_markdown_cell("## The cost\n\n## The cost\n"),
    "import pandas as pd\npd.DataFrame({'a': [1, 2]})",
    "from IPython.display import display\n"
    "import base64\n"
    f"png = {base64.b64encode(b'stands for a picture').decode()!r}\n"
    "about = {'image/png': {'alt': 'A <tile>', 'width': 300}}\n"
    "display({'image/png': png, 'text/plain': 'x'}, metadata=about, raw=True)\n"
    "display({'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\"/>', 'text/plain': 'x'}, raw=True)\n"
    "print('a < b', '\\x1b[31mred\\x1b[0m')",
    new_code_cell("raise ValueError('meant')", metadata={"tags": ["raises-exception"]}),
]
FAILING = [
    new_markdown_cell("# 02 · It fails\n\n**You will learn** nothing.\n\n## Part\n"),
    "x = 1\nprint('before')",
    "# divide\nx / 0",
    new_code_cell(
        "print('never')", outputs=[new_output("stream", text="an old output")], execution_count=3
    ),
]
DYING = [new_markdown_cell("# 03 · It dies"), "import os\nos._exit(7)"]
STORED = [
    new_markdown_cell("# 04 · Stored"),
    new_code_cell("1", outputs=[new_output("stream", text="as stored")], execution_count=1),
]
ON_GPU = {"labkit": {"engine": "gpu", "device": "NVIDIA H200", "date": "2026-11-05"}}


class Recorder(execute.Progress):
    """A progress that notes what it is told."""

    def __init__(self):
        self.seen = []

    def start(self, notebook):
        self.seen.append((notebook.name, "start"))

    def cell(self, notebook, done, of):
        self.seen.append((notebook.name, done, of))

    def finish(self, notebook):
        self.seen.append((notebook.name, "finish"))


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make one report of a notebook that runs, one that fails and one whose kernel dies: (folder, pages, progress)."""
    folder = tmp_path_factory.mktemp("notebooks")
    paths = [
        write_notebook(folder / f"{name}.ipynb", *cells)
        for name, cells in (("01_tiling", TEACHING), ("02_fails", FAILING), ("03_dies", DYING))
    ]
    progress = Recorder()
    pages = report.make([str(path) for path in paths], folder / "out", progress=progress)
    return folder / "out", pages, progress.seen


@pytest.fixture
def quick(monkeypatch):
    """Leave the pictures out of the first page: they take a while."""
    monkeypatch.setattr(report, "_make_overview", lambda: {"first": "", "ladder": "", "table": ""})


@pytest.fixture
def stored(tmp_path, monkeypatch, quick):
    """Return a function that exports cells as stored and returns the page's text; nothing may be executed."""
    monkeypatch.setattr(execute, "run", lambda *args: pytest.fail("a stored notebook was executed"))

    def export(cells, **metadata):
        """Export a notebook of these cells; return (page, its text)."""
        path = write_notebook(tmp_path / "04_stored.ipynb", *cells, **metadata)
        (page,) = report.make([str(path)], tmp_path / "out", stored=True)
        return page, page.path.read_text()

    return export


class Checkout:
    """A folder with notebooks of one Markdown cell each, and its reports of what they store."""

    def __init__(self, root):
        self.root = root

    def write(self, texts, **metadata):
        """Write a notebook of one text for each name."""
        for name, text in texts.items():
            write_notebook(
                self.root / "notebooks" / f"{name}.ipynb", new_markdown_cell(text), **metadata
            )

    def report(self, *names, out="out", stored=True, **options):
        return report.make(names, self.root / out, stored=stored, **options)

    def page(self, name, out="out"):
        return (self.root / out / f"{name}.html").read_text()


@pytest.fixture
def checkout(tmp_path, monkeypatch, quick):
    monkeypatch.setattr(execute, "find_checkout", lambda: tmp_path)
    return Checkout(tmp_path)


class Tags(HTMLParser):
    """A parser that collects the start tags of a page, as (tag, attributes)."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


def tags(page, wanted, **having):
    """Return the attributes of all tags of a kind that have certain attributes."""
    return [a for tag, a in Tags(page).found if tag == wanted and having.items() <= a.items()]


def text_of(made, name):
    return (made[0] / f"{name}.html").read_text()


def neighbours(page):
    """Return where the links to the page before and after lead."""
    return [a["href"] for a in tags(page, "a") if "rel" in a]


def test_pages_load_nothing_and_are_valid(made):
    for name in ("index", "01_tiling", "02_fails", "03_dies"):
        page = text_of(made, name)
        assert links.Links(page).loaded == []
        assert not {tag for tag, _ in Tags(page).found} & {
            "script",
            "iframe",
            "object",
            "embed",
            "base",
        }
        html5lib.HTMLParser(strict=True).parse(page)
        assert [
            meta["content"]
            for meta in tags(page, "meta", **{"http-equiv": "Content-Security-Policy"})
        ] == [
            "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
        ]


def test_the_pages_say_what_failed_and_the_others_run(made):
    _, (good, failed, dead), _ = made
    assert good.failure is None
    assert (
        failed.failure.message
        == "02_fails.ipynb, code cell 2 (# divide): ZeroDivisionError: division by zero"
    )
    assert "03_dies.ipynb, code cell 1 (import os): the kernel died" in dead.failure.message
    page = text_of(made, "02_fails")
    assert failed.failure.message in page
    cell = f"cell-{failed.failure.cell}"
    assert f'href="#{cell}"' in page
    assert tags(page, "div", id=cell) == [{"class": "cell failed", "id": cell}]
    assert "ZeroDivisionError" in page[page.index('class="cell failed"') :]
    assert "before" in page
    assert "an old output" not in page  # what is shown was made now
    assert "the kernel died" in text_of(made, "03_dies")
    assert "did not run" not in text_of(made, "01_tiling")


def test_progress_counts_the_cells(made):
    assert [event[1:] for event in made[2] if event[0] == "01_tiling"] == [
        ("start",),
        (0, 3),
        (1, 3),
        (2, 3),
        (3, 3),
        ("finish",),
    ]
    assert [event[1:] for event in made[2] if event[0] == "02_fails"] == [
        ("start",),
        (0, 3),
        (1, 3),
        ("finish",),
    ]


def test_mathematics_is_mathml(made):
    page = text_of(made, "01_tiling")
    assert "$" not in re.sub(r'<code class="latex">.*?</code>', "", page)
    # what cannot be read stays as it was written
    assert '<code class="latex">\\frac{1}{</code>' in page
    assert len(tags(page, "math", display="block")) == 2
    assert "<msup><mi>K</mi><mn>2</mn></msup>" in page
    assert re.search(r'<mo[^>]*largeop="false"[^>]*>∑</mo>', page)
    assert '<mo stretchy="false" lspace="0" rspace="0">|</mo><mi>y</mi>' in report.convert_formula(
        "|y|", "inline"
    )


def test_a_formula_stays_in_a_line_with_the_sign_behind_it(stored):
    _, text = stored([new_markdown_cell("# 04 · Title\n\nIs it $a$ or $b$, and how far from $c$?")])
    formulas = re.findall(
        r'<span class="formula"><math\b.*?<mi>(\w)</mi>.*?</math>(\W)</span>', text
    )
    assert formulas == [("b", ","), ("c", "?")]


def test_printed_cuda_keeps_its_lines_and_messages_wrap(stored):
    outputs = [
        [new_output("stream", text=text)]
        for text in ("void f()\n{\n    g();\n}\n", "a message {1}\n")
    ]
    _, text = stored([new_code_cell("1", outputs=output, execution_count=1) for output in outputs])
    printed = [pre["class"] for pre in tags(text, "pre") if "stream" in pre.get("class", "")]
    assert printed == ["stream listing", "stream"]


def test_pictures_carry_their_description(made):
    png, svg = tags(text_of(made, "01_tiling"), "img")
    assert png["alt"] == "A <tile>"
    assert png["width"] == "300"
    assert png["src"].startswith("data:image/png;base64,")
    assert svg["src"].startswith("data:image/svg+xml;base64,")
    assert svg["alt"]


def test_a_figure_has_a_dark_version_and_can_be_enlarged(tmp_path):
    draw.tile(16, 7, path=tmp_path / "tile.png")
    data = base64.b64encode((tmp_path / "tile.png").read_bytes()).decode()
    page = report._embed(data, "image/png", "A tile", 760, 400)
    (source,), (image,), (zoom,) = (tags(page, name) for name in ("source", "img", "input"))
    assert source["media"] == "(prefers-color-scheme: dark)"
    assert (
        base64.b64decode(source["srcset"].removeprefix("data:image/webp;base64,"))[8:12] == b"WEBP"
    )
    assert image["src"] == f"data:image/png;base64,{data}"
    assert zoom["type"] == "checkbox" and zoom["aria-label"]
    assert not links.Links(page).loaded
    assert "<label" not in report._embed(data, "image/png", "A tile", 300, 100)  # fits on a phone


def test_links_lead_from_page_to_page(made):
    page = text_of(made, "01_tiling")
    assert 'href="02_fails.html#part"' in page
    assert 'href="https://example.org"' in page
    assert 'href="../../data/x.csv"' in page  # seen from the page, not from the notebook
    assert 'id="part"' in text_of(made, "02_fails")
    # above and below
    assert neighbours(text_of(made, "02_fails")) == 2 * ["01_tiling.html", "03_dies.html"]


def test_every_heading_can_be_reached(made):
    page = text_of(made, "01_tiling")
    contents = page[page.index('class="contents"') :]
    anchors = [a["href"][1:] for a in tags(contents[: contents.index("</nav>")], "a")]
    assert anchors == 2 * [
        "the-cost-of-loads",
        "the-cost",
        "the-cost-2",
    ]  # beside the text, and folded for a phone
    assert all(page.count(f'id="{anchor}"') == 1 for anchor in [*anchors, "contents"])


def test_outputs_are_escaped_and_coloured(made):
    page = text_of(made, "01_tiling")
    assert "a &lt; b" in page
    assert 'class="ansi-red-fg">red</span>' in page
    assert '<table class="dataframe">' in page
    assert "<style scoped" not in page
    assert "ValueError" in page  # an error that the cell's tag announces is an output like others


def test_the_first_page_lists_the_series(made):
    page = text_of(made, "index")
    assert re.findall(r'<a href="([\w.]+)">', page) == [
        "01_tiling.html",
        "02_fails.html",
        "03_dies.html",
    ]
    assert ">Tiling: share and keep<" in page
    assert "<em>You will learn</em> what a halo is, and" in page
    assert page.count("Did not run to its end") == 2


def test_the_first_page_has_the_parts(checkout):
    checkout.write(
        dict.fromkeys(("00_a", "07_b", "07_c", "08_d", "12_e", "14_f", "15_g"), "# Title")
    )
    checkout.report()
    headings = re.findall(
        r'<h2 class="part">(Part \d)|<a class="number" href="(\w+)\.html"', checkout.page("index")
    )
    assert ["".join(parts) for parts in headings] == [
        "Part 1",
        "00_a",
        "07_b",
        "07_c",
        "Part 2",
        "08_d",
        "Part 3",
        "12_e",
        "14_f",
        "Part 4",
        "15_g",
    ]


def test_the_first_page_shows_the_readmes_pictures(tmp_path, monkeypatch):
    monkeypatch.setattr(execute, "find_checkout", lambda: tmp_path)
    (tmp_path / "README.md").write_text(
        '<img src="docs/lab.png" width="300" alt="What it &lt;is&gt;">\n'
        '<img src="docs/ladder.png" width="300" alt="All">\n'
    )
    assert report._make_overview()["first"] == ""  # not there yet
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "lab.png").write_bytes(b"stands for a picture")
    overview = report._make_overview()
    (image,) = tags(overview["first"], "img")
    assert (image["alt"], image["width"], overview["ladder"]) == ("What it <is>", "300", "")
    assert (
        base64.b64decode(image["src"].removeprefix("data:image/png;base64,"))
        == b"stands for a picture"
    )


def test_the_first_page_shows_the_whole_ladder(made):
    from labkit.ladder.rungs import LADDER

    page = text_of(made, "index")
    section = page[page.index('<section class="ladder">') :]
    assert len(tags(section[: section.index("</section>")], "img")) == 1
    assert all(f">{rung.label}" in section for rung in LADDER)
    assert section.count("lenet") >= 4


def test_the_badge_says_where_the_outputs_come_from(made):
    from labkit.spec.devices import device

    assert made[1][0].notebook.produced["engine"] == device().engine
    page = text_of(made, "01_tiling")
    badge = page[page.index('class="provenance"') :]
    assert "CPU engine" in badge[:400] if device().engine == "cpu" else "GPU" in badge[:400]
    assert "executed in" in badge[:600] and "Stored outputs" not in badge[:600]


def test_stored_outputs_are_exported_as_they_are(stored):
    _, page = stored(STORED, **ON_GPU)
    assert "as stored" in page
    badge = page[page.index('class="provenance"') :][:400]
    assert '<span class="badge stored"><b>Stored outputs</b> of <b>GPU</b> NVIDIA H200' in badge
    assert "5 November 2026" in badge
    _, page = stored(STORED)
    assert "<b>Stored outputs</b>" in page


def test_a_page_keeps_its_badge_when_another_is_made(checkout):
    checkout.write({"01_one": "# 01 · One"}, **ON_GPU)
    checkout.write({"02_two": "# 02 · Two"})
    checkout.report()
    checkout.write({"01_one": "# 01 · One", "02_two": "# 02 · Changed"})
    (made,) = checkout.report("2")
    assert made.notebook.name == "02_two"
    assert "NVIDIA H200" in checkout.page("index") and "NVIDIA H200" in checkout.page("01_one")
    assert "Changed" in checkout.page("index")


def test_the_pages_of_other_notebooks_are_not_made(checkout, tmp_path):
    checkout.write(dict.fromkeys(("01_one", "02_two", "03_three", "closer_look/02_two"), "# Title"))
    pages = [checkout.report(number)[0].path for number in ("3", "1")]
    assert {*(tmp_path / "out").rglob("*.html")} == {*pages, tmp_path / "out" / "index.html"}
    index = checkout.page("index")
    assert "01_one.html" in index and "03_three.html" in index and "02_two" not in index
    assert neighbours(checkout.page("01_one")) == ["03_three.html"] * 2


def test_practice_pages_and_companions_are_listed_by_themselves(checkout, tmp_path):
    checkout.write(
        {
            "01_one": "# 01 · One\n\n[Practice](practice/P1_some.ipynb), [more](closer_look/01_one.ipynb#Deep).",
            "02_two": "# 02 · Two",
            "practice/P1_some": "# P1 · Some\n\n[Back](../01_one.ipynb).",
            "closer_look/01_one": "# 01 · One, closely\n\n[Back](../01_one.ipynb).",
            "closer_look/P1_some": "# P1 · Some, closely",
        }
    )
    pages = checkout.report()
    names = ["01_one", "02_two", "closer_look/01_one", "closer_look/P1_some", "practice/P1_some"]
    assert [page.notebook.name for page in pages] == names
    index, one, two, closer, closer_practice, practice = map(checkout.page, ("index", *names))
    before, after = index.split('id="practice"')
    assert '<a href="practice/P1_some.html">Some</a>' in after and "P1_some" not in before
    assert before.count("<li>") == 2  # a companion is no notebook of its own
    assert 'href="practice/P1_some.html"' in one and 'href="closer_look/01_one.html#deep"' in one
    for page, other, title in (
        (index, "closer_look/01_one.html", "One, closely"),
        (one, "closer_look/01_one.html", "One, closely"),
        (closer, "../01_one.html", "One"),
        (practice, "../closer_look/P1_some.html", "Some, closely"),
        (closer_practice, "../practice/P1_some.html", "Some"),
    ):
        assert f'<a href="{other}">{title}</a></p>' in page
    assert "companion" not in re.sub(r"<style>.*?</style>", "", two, flags=re.S)
    assert [neighbours(page) for page in (one, two, closer, practice)] == [
        ["02_two.html"] * 2,
        ["01_one.html"] * 2,
        [],
        [],
    ]
    for page in (closer, practice):
        assert 'href="../01_one.html"' in page
        assert {a["href"] for a in tags(page, "a", **{"class": "home"})} == {"../index.html"}
    (again,) = checkout.report("closer_look/1")
    assert again.path == tmp_path / "out" / "closer_look" / "01_one.html"
    checkout.report(str(pages[0].notebook.path), out="other")
    assert "Practice" not in checkout.page("index", "other")


@pytest.mark.parametrize(
    ("names", "companions", "executed"),
    [
        ([], False, ["01_one", "practice/P1_some"]),
        ([], True, ["01_one", "closer_look/01_one", "practice/P1_some"]),
        (["closer_look/1"], False, ["closer_look/01_one"]),
    ],
)
def test_closer_looks_are_executed_when_asked_for(
    checkout, monkeypatch, names, companions, executed
):
    seen = []

    def run(notebooks, *_):
        """Execute nothing; note the notebooks."""
        for notebook in notebooks:
            seen.append(notebook.name)
            yield notebook

    monkeypatch.setattr(report.side_by_side, "run", run)
    checkout.write(dict.fromkeys(("01_one", "closer_look/01_one", "practice/P1_some"), "# One"))
    pages = checkout.report(*names, stored=False, companions=companions)
    assert seen == executed
    assert all(page.path.is_file() for page in pages) and len(pages) == (1 if names else 3)


@pytest.mark.parametrize(
    "source",
    [
        "![a figure](https://example.org/a.png)",
        '<script src="https://example.org/a.js"></script>',
        "<style>@import url(//example.org/a.css);</style>",
        '<svg><image href="https://example.org/x.png"/></svg>',
    ],
)
def test_a_page_that_would_load_something_is_a_failure(stored, source):
    page, text = stored([new_markdown_cell("# 04 · Loads"), new_markdown_cell(source)])
    assert "04_stored.ipynb: its page would load" in page.failure.message
    assert "example.org" in page.failure.message
    assert 'role="alert"' in text


ACTIVE = [
    "<script>alert(1)</script>",
    '<svg viewBox="0 0 9 9"><title>b</title><path d="M0 0h9"/></svg>',
    '<math xmlns="http://www.w3.org/1998/Math/MathML"><mi class="bar">q</mi></math>',
    "<img src=x onerror=alert(2)>",
    "<svg onload=alert(3)><script>alert(3)</script></svg>",
    '<iframe srcdoc="<script>alert(4)</script>"></iframe>',
    "<a href='javascript:alert(5)'>link</a>",
    "<a href='data:text/html,<script>alert(6)</script>'>link</a>",
    "<details open ontoggle=alert(7)><summary>more</summary></details>",
    "<math><mtext><style><img src=x onerror=alert(8)></style></mtext></math>",
    "<style>p { color: red }</style><p style='position: fixed; color: red'>text</p>",
    "<form action='javascript:alert(9)'><button>press</button></form>",
    "<!-- <img src=x onerror=alert(10)> --><object data='a.swf'></object><base href='//a.org'>",
    r"$\text{<script>alert(11)</script>}$",
    r"$$\text{<mi onclick='alert(12)'>x</mi>}$$",
    r"$\href{javascript:alert(13)}{x}$",
    r"$\style{position: fixed}{x}$",
]


def active_parts(page):
    """Return what could run in a page, or catch the reader's clicks."""
    found = []
    for tag, attributes in Tags(page).found:
        if tag in ("script", "iframe", "object", "svg", "form", "button", "base", "embed"):
            found.append(tag)
        for name, value in attributes.items():
            value = (value or "").strip().lower()
            if (
                name.startswith("on")
                or value.startswith(("javascript:", "data:text"))
                or "fixed" in value
            ):
                found.append(f"{tag} {name}={value}")
    return found


@pytest.mark.parametrize("active", ACTIVE)
def test_active_content_of_a_notebook_reaches_no_page(stored, active):
    output = new_output(
        "display_data", data={"text/html": f"<b>kept</b>{active}", "text/plain": ""}
    )
    markdown = new_output("display_data", data={"text/markdown": active, "text/plain": ""})
    title = f"# 04 · Title {active}\n\nYou will learn {active} [x](javascript:alert(0))\n\n{active}"
    cells = [
        new_markdown_cell(title),
        new_markdown_cell(
            f"## A heading {active}\n\n- {active}\n\n| a | b |\n|---|---|\n| {active} | $x^2$ |\n"
        ),
        new_code_cell("1", execution_count=1, outputs=[output, markdown]),
    ]
    _, text = stored(cells)
    assert active_parts(text) == []
    assert "<b>kept</b>" in text and "<msup><mi>x</mi><mn>2</mn></msup>" in text
    html5lib.HTMLParser(strict=True).parse(text)


def test_html_of_a_notebook_takes_no_name_of_the_page(stored):
    theirs = ("contents", "cell-0", "bar", "sheet", "failure")

    def taken(page):
        """Return the ids and classes of a page's elements that are among `theirs`."""
        elements = [attributes for tag in ("div", "p") for attributes in tags(page, tag)]
        names = [
            name
            for element in elements
            for name in (element.get("id"), *element.get("class", "").split())
        ]
        return sorted(name for name in names if name in theirs)

    named = (
        '<div id="contents" class="bar lab-note sheet"><p id=cell-0 class=failure>text</p></div>'
    )
    output = new_output("display_data", data={"text/html": named, "text/plain": ""})
    _, plain = stored([new_markdown_cell("# 04 · Title\n\n## Part"), "1"])
    _, text = stored(
        [
            new_markdown_cell(f"# 04 · Title\n\n{named}\n\n## Part"),
            new_code_cell("1", outputs=[output]),
        ]
    )
    assert text.count('<div class="lab-note">') == 2
    assert taken(text) == taken(plain)
    assert "part" in {heading.get("id") for heading in tags(text, "h2")}


def test_the_classes_of_the_template_are_the_pages_own():
    templates = PACKAGE.glob("notebooks/template/notebook/*.j2")
    used = {
        word
        for path in templates
        for words in re.findall(r'class="([^"{]*)', path.read_text())
        for word in words.split()
    }
    # of outputs and contents, which place nothing
    assert used - clean._OF_THE_PAGE == {"html", "level-"}


def test_a_picture_brings_no_html_along(stored):
    about = {"image/png": {"width": "100%"}}
    output = new_output(
        "display_data", {"image/png": '"><script>alert(1)</script>'}, metadata=about
    )
    _, text = stored([new_markdown_cell("# 04 · Picture"), new_code_cell("1", outputs=[output])])
    assert active_parts(text) == []


def test_html_in_a_paragraph_surrounds_its_text(stored):
    _, text = stored(
        [
            new_markdown_cell("# 04 · Keys"),
            new_markdown_cell("Press <kbd>Shift</kbd>, see <b>*this*</b>"),
        ]
    )
    assert "<p>Press <kbd>Shift</kbd>, see <b><em>this</em></b></p>" in text


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('<a href="https://a.org">', []),
        ('<img src="data:image/png;base64,AA==">', []),
        ('<img src="figure.png">', []),
        ('<img src="//a.org/x.png" src="x.png">', ["//a.org/x.png"]),
        ('<img srcset="x.png 1x, https://a.org/x.png 2x">', ["https://a.org/x.png 2x"]),
        ('<link rel="stylesheet" href="https://a.org/x.css">', ["https://a.org/x.css"]),
        ('<svg><use xlink:href="https://a.org/x.svg#a"/></svg>', ["https://a.org/x.svg#a"]),
        ("<p style=\"background: url('https://a.org/x.png')\">", ["https://a.org/x.png"]),
        ("<style>@import 'https://a.org/x.css';</style>", ["https://a.org/x.css"]),
        ("<style>p { color: red }</style><p>https://a.org</p>", []),
        ("<script>fetch('https://a.org/x')</script>", ["https://a.org/x"]),
        ('<iframe src="http://a.org"></iframe>', ["http://a.org"]),
        ('<object data="http://a.org"></object>', ["http://a.org"]),
        (
            '<meta http-equiv="refresh" content="0; url=https://a.org">',
            ["a page that it forwards to"],
        ),
    ],
)
def test_requests_in(text, found):
    assert links.Links(text).loaded == found


def test_stored_notebooks_are_canonical(tmp_path):
    python = {"name": "python", "version": "3.11.2"}
    cell = new_code_cell("1", metadata={"scrolled": True, "tags": ["keep"]})
    path = write_notebook(
        tmp_path / "08_form.ipynb", cell, new_markdown_cell("  "), **ON_GPU, language_info=python
    )
    execute.store(execute.read(path))
    nb = nbformat.read(path, as_version=4)
    nbformat.validate(nb)
    assert len(nb.cells) == 1
    assert nb.cells[0].metadata == {"tags": ["keep"]}
    assert nb.metadata.labkit == ON_GPU["labkit"]
    assert "version" not in nb.metadata.language_info
    assert execute.format_canonical(nb) == path.read_text()


def test_notes_are_legible_in_both_themes():
    """WCAG 2, contrast of at least 4.5.

    The other colours are on the stored pages, where axe checks them.
    """
    blocks = re.findall(r":root \{(.*?)\}", STYLE.read_text(), re.S)
    light, dark = (dict(re.findall(r"--([\w-]+): (#\w{6})", block)) for block in blocks[:2])
    assert set(light) == set(dark)
    for theme, tone in itertools.product((light, dark), ("good", "warn", "bad")):
        for text, ground in (
            (tone, "paper"),
            *((text, f"{tone}-wash") for text in ("ink", "muted", tone)),
        ):
            assert contrast(theme[text], theme[ground]) >= 4.5, (text, ground)


def test_print_wraps_the_labs_listings():
    """The style sheet knows the lab's listings by the styles that they bring along: it has to find these in them."""
    page = listing.Diff("a", "a.cu", "int i;\n", "b", "b.cu", "int j;\n")._repr_html_()
    source = listing.Listing("a.cu", "int i;\n")._repr_html_()
    listings = re.findall(r"\.html ([^{]+) \{", STYLE.read_text().partition("@media print")[2])
    assert len(listings) == 3
    for name in re.findall(r"[a-z-]+", " ".join(listings).replace(":is", "")):
        assert re.search(rf'<{name}\b|class="[^"]*\b{name}\b', page + source), name


def test_the_first_page_shows_the_readers_exercises(tmp_path, monkeypatch, stored):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))

    def first_page():
        return (stored(STORED)[0].path.parent / "index.html").read_text()

    assert "Your exercises" not in first_page()
    progress.note("04a", "digest", met=True)
    assert "Your exercises" in first_page() and "goal met on" in first_page()
    (tmp_path / "progress.json").write_text("damaged")
    assert "is damaged: repair it" in first_page()


def test_a_report_leaves_the_readers_files(tmp_path):
    """Cells run beside copies of what they write."""
    (tmp_path / "programs").mkdir()
    mine = {"first.cu": "// the reader's", "other.cu": "// another"}
    for name, text in mine.items():
        (tmp_path / "programs" / name).write_text(text)
    (tmp_path / "data.txt").write_text("data")
    path = write_notebook(
        tmp_path / "05_program.ipynb",
        "import labkit",
        "%%program first.cu\nint main() {}\n",
        "from pathlib import Path\nPath('new').write_text('')\nprint(Path('data.txt').read_text(), "
        "*(path.read_text() for path in sorted(Path('programs').glob('*.cu'))))",
    )
    (page,) = report.make([str(path)], tmp_path / "out")
    assert page.failure is None
    assert [cell.outputs[0].text for cell in page.notebook.nb.cells[1:]] == [
        "first.cu: 1 lines\n",
        "data int main() {}\n // another\n",
    ]
    assert {path.name: path.read_text() for path in (tmp_path / "programs").iterdir()} == mine
    assert not (tmp_path / "new").exists()


def test_two_reports_at_once_are_both_listed(tmp_path, monkeypatch, quick):
    monkeypatch.setattr(execute, "folder", lambda: tmp_path)
    one, two = (
        write_notebook(tmp_path / f"{number}_stored.ipynb", *STORED) for number in ("04", "05")
    )

    class Between(execute.Progress):
        """A progress that makes a report of another notebook when one is finished."""

        def finish(self, notebook):  # one has written its page, and not yet its index
            report.make([str(two)], tmp_path / "out", stored=True)

    report.make([str(one)], tmp_path / "out", stored=True, progress=Between())
    index = (tmp_path / "out" / "index.html").read_text()
    assert "04_stored.html" in index and "05_stored.html" in index
