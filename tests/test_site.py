"""The parts of the site: which documents it has, dead links, links to the repository, the API reference."""

import inspect

import pytest

import labkit
from labkit.notebooks import api, execute, html, links, live, site

pytestmark = pytest.mark.thorough("pages as they are published")

ROOT = execute.folder().parent


def test_every_document_is_on_the_site_once():
    there = [path for group in site.texts(ROOT).values() for path in group]
    every = {
        *(ROOT / "docs").glob("*.md"),
        *(ROOT / "engine" / "docs").glob("*.md"),
        ROOT / "data" / "counters.md",
    }
    assert {*there} == {*every, ROOT / site.GENERATED, ROOT / "CHANGELOG.md"}
    assert there[0].name == "glossary.md"  # every page names it
    assert len({path.name.lower() for path in there}) == len(there)


def test_dead_links_are_found(tmp_path):
    one, two = tmp_path / "one.html", tmp_path / "two.html"
    one.write_text(
        '<a href="two.html#here"></a><a href="#gone"></a><a href="three.html"></a><a href="https://x.y"></a>'
    )
    two.write_text('<h2 id="here"></h2><a href="one.html"></a><a href="two.html#there"></a>')
    assert links.find_dead_links([one, two]) == [
        "one.html: #gone",
        "one.html: three.html",
        "two.html: two.html#there",
    ]
    assert links.find_dead_links([one, two], [two]) == [
        "one.html: #gone",
        "one.html: three.html",
    ]  # a script


def test_a_summary_leads_from_the_first_page_to_what_its_notebook_names(tmp_path):
    names = ("01_baseline.ipynb", "practice/P1_transpose.ipynb", "practice/P2_histogram.ipynb")
    one, two, three = html.make_pages(
        [execute.read(ROOT / "notebooks" / name) for name in names], tmp_path
    )
    texts = (
        f"# 1\n\nYou will learn [a](practice/{two.notebook.path.name}).",
        f"# P1\n\nYou will learn [b]({three.notebook.path.name}).",
    )
    for page, text in zip((one, two), texts, strict=True):
        page.notebook.nb.cells[0].source = text
    (tmp_path / "index.html").write_text(site.SiteExporter([one, two, three]).render_series())
    found = links.Links(tmp_path / "index.html").found
    assert (
        found.count(f"{two.notebook.name}.html") == 3
        and found.count(f"{three.notebook.name}.html") == 3
    )


@pytest.mark.parametrize(
    ("site_has", "wanted"),
    [
        ({}, None),
        (
            {"groups": {"Look it up": []}},
            'Here you read. To run the cells, <a href="../faq.html">install the lab</a>.',
        ),
        (
            {
                "groups": {"Look it up": []},
                "playground": "playground/index.html",
                "repository": "some/lab",
                "desks": (),
            },
            "Here you read. A kernel of your own runs in the <a "
            'href="../playground/index.html">playground</a>, in this browser; to run the '
            'cells, <a href="https://github.com/some/lab#readme">install the lab</a>.',
        ),
    ],
    ids=["report", "site", "site with a playground"],
)
def test_a_page_of_the_site_says_where_its_cells_can_be_run(tmp_path, site_has, wanted):
    pages = html.make_pages(
        [execute.read(ROOT / "notebooks" / "practice" / "P1_transpose.ipynb")], tmp_path
    )
    exporter = site.SiteExporter(pages, [html.document(ROOT / "docs" / "faq.md", tmp_path)])
    exporter.common |= site_has
    for page in (*pages, *exporter.documents):
        exporter.write(page)
    text, document = (
        page.path.read_text(encoding="utf-8") for page in (*pages, *exporter.documents)
    )
    assert (wanted in text) if wanted else ("Here you read" not in text)
    assert "Here you read" not in document
    bar = text.partition("</header>")[0]
    assert ('<a class="find try" href="../playground/index.html">Playground</a>' in bar) == (
        "playground" in site_has
    )


@pytest.mark.parametrize(
    ("repository", "address"),
    [("some/lab", "https://github.com/some/lab/blob/HEAD/LICENSE#name"), (None, "/LICENSE#name")],
)
def test_files_without_a_page_are_on_github(tmp_path, repository, address):
    page = html.document(
        ROOT / "docs" / "x.md", tmp_path, "# A page\n\n[Licence](../LICENSE#name)\n"
    )
    exporter = site.SiteExporter([page], repository=repository)
    exporter.write(page)
    (link,) = [link for link in links.Links(page.path).found if "LICENSE" in link]
    assert link.endswith(address) and link.startswith("https:") == bool(repository)


def test_a_live_cell_knows_what_judges_it_and_what_comes_from_it():
    notebooks = {
        name: execute.read(ROOT / "notebooks" / f"{name}.ipynb").nb
        for name in ("04_tiling", "00_start_here", "practice/P1_transpose", "10_speed_of_light")
    }
    rungs = live.list_rungs(notebooks.values())
    assert rungs == ["04"]
    (kernel, solved, *_) = live.find_live_cells(
        cells := notebooks["04_tiling"], {"04a"}, rungs
    ).values()
    assert (kernel.kind, kernel.name, solved.kind, solved.name) == (
        *("rung", "04"),
        *("exercise", "04a"),
    )
    assert "lab.check(mine)" in cells.cells[kernel.verdict].source
    assert "lab.sanitize(mine" in cells.cells[kernel.sanitized].source
    assert 'lab.grade("04a"' in cells.cells[solved.verdict].source
    # a cell that draws what an earlier one has found in the kernel is of the kernel, too
    drawn = [i for i in kernel.stale if "lab.draw.race(found)" in cells.cells[i].source]
    assert drawn and kernel.verdict not in kernel.stale
    assert solved.attributes["live"] == "exercise" and "sanitized" not in solved.attributes
    found = live.find_live_cells(notebooks["10_speed_of_light"], {"10a", "10b"}, rungs).values()
    assert [(cell.kind, cell.part) for cell in found] == [
        ("own", False),
        ("own", False),
        ("exercise", True),
        ("exercise", True),
    ]
    assert live.find_live_cells(notebooks["practice/P1_transpose"], (), ()) == {}


@pytest.fixture(scope="module")
def reference():
    return api.make_reference()


@pytest.mark.parametrize("name", sorted(set(labkit.__all__) - {"__version__", "cuda", "draw"}))
def test_the_reference_has_every_public_name(reference, name):
    _, _, entry = reference.partition(f"\n### lab.{name}\n")
    assert entry
    about = getattr(labkit, name)
    first = (inspect.getdoc(about) if callable(about) else str(about)).splitlines()[0]
    assert first in entry.partition("\n### ")[0]


def test_signatures_are_those_of_the_source(reference):
    assert "lab.table(frame: pd.DataFrame, caption: str=''" in reference
    assert "]=TEST_SHAPES," in "".join(reference.split())  # not the shapes themselves
    assert "lab.Layer(name: str, C: int, H: int, W: int, M: int, K: int)\n" in reference
    assert "\n#### VariantProfile.value\n" in reference  # what a function returns is there, too
