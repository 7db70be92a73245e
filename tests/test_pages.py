"""The site: the report of the stored outputs and the documents, copied elsewhere and shown by a browser."""

import functools
import http.server
import random
import shutil
import threading
from importlib import resources
from pathlib import Path

import pytest

from labkit.base import results_cache
from labkit.notebooks import execute, links, site

pytestmark = pytest.mark.thorough("pages as they are published")

DOCUMENTS = [
    path.stem.lower() for group in site.texts(execute.folder().parent).values() for path in group
]
NOTEBOOKS = [execute.Notebook(path, None).name for path in execute.find()]
NAMES = ["index", *DOCUMENTS[:2], *NOTEBOOKS]  # the other documents look as these two do
SEARCHED = (
    bool(shutil.which("node"))
    and (execute.folder().parent / site.SEARCH.parent / "node_modules").is_dir()
)
PHONE, DESKTOP = {"width": 390, "height": 844}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Make the site with all pages, which takes seconds, half of them for the dark versions of its figures."""
    out = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patched:  # the playground has tests of its own
        patched.setattr(site, "PLAYGROUND", out)
        site.make(out)
    return out


def test_every_link_leads_to_a_place_in_the_folder(folder):
    pages = {path: links.Links(path) for path in folder.rglob("*.html")}
    names = {path.relative_to(folder).with_suffix("").as_posix() for path in pages}
    assert names == {"index", "404", *DOCUMENTS, *NOTEBOOKS, *(["search"] if SEARCHED else [])}
    linked = [path for path in pages if path.stem != "404"]  # that one is shown at any address
    assert links.find_dead_links([*linked, *folder.glob("search/licences.txt")]) == []
    assert sum("glossary.html#" in link for page in pages.values() for link in page.found) > 20
    assert {f"{name}.html" for name in DOCUMENTS} <= set(pages[folder / "index.html"].found)


def test_the_site_without_the_playground_is_small(folder):
    assert sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) < 20_000_000


@pytest.fixture
def searched(chromium, folder):
    """Yield a tab at the search of the site, which a server has in a folder, and the addresses that it asks for."""
    if not SEARCHED:
        pytest.skip(
            "the site has no search here: `make playground` brings its node modules, and needs node"
        )
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder.parent)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        tab, asked = chromium.new_page(), []
        tab.on("request", lambda request: asked.append(request.url))
        tab.goto(f"http://127.0.0.1:{server.server_address[1]}/{folder.name}/index.html")
        yield tab, asked
        tab.close()
        server.shutdown()


def test_the_search_needs_no_server_and_no_mouse(searched, folder):
    tab, asked = searched
    home = tab.url.removesuffix("index.html")
    tab.locator("[name=q]").press_sequentially("cp.async")
    tab.keyboard.press("Enter")
    tab.locator("#results a").first.wait_for()
    tab.locator("[name=q]").fill("Hillis")
    first = tab.locator("#results a").first
    tab.wait_for_url("**?q=Hillis")
    tab.get_by_text("Hillis").first.wait_for()
    assert tab.url == f"{home}search.html?q=Hillis" and first.get_attribute("href").startswith(
        f"/{folder.name}/"
    )
    for _ in range(2):  # the button, the first page
        tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.closest('#results') !== null")
    tab.evaluate(
        (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    )
    for theme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
        tab.emulate_media(color_scheme=theme)
        assert tab.evaluate(AXE, ["html", options]) == []
    tab.locator("[name=q]").fill("tiling")
    tab.locator('#results a[href$="/closer_look/04_tiling.html"]').first.wait_for()
    found = tab.locator("#results h2 a").evaluate_all("all => all.map(link => link.pathname)")
    own, closer = (f"/{folder.name}/{name}04_tiling.html" for name in ("", "closer_look/"))
    assert found.index(own) < found.index(closer)  # which has the word more often
    assert all(address.startswith((home, "data:")) for address in asked)


# What a stranger asks for, and a page that answers it.
ANSWERS = {
    "bank conflict": "04_tiling",
    "coalescing": "glossary",
    "constant memory": "02_constant",
    "homework": "faq",
    "nvcc not found": "faq",
    "profiler": "15_measure_it_yourself",
    "pytorch": "17_pytorch",
    "race condition": "glossary",
    "tensor core": "09_tensor_cores",
    "warp shuffle": "practice/P3_reduction",
}


def test_the_search_answers_what_a_stranger_asks(searched, folder):
    tab, _ = searched
    home = tab.url.removesuffix("index.html")
    for words, page in ANSWERS.items():
        tab.goto(f"{home}search.html?q={words}")
        tab.locator("#results a").first.wait_for()
        found = tab.locator("#results h2 a").evaluate_all("all => all.map(link => link.pathname)")
        assert f"/{folder.name}/{page}.html" in found[:3], words


def test_pages_are_small_and_load_nothing_and_their_formulas_are_mathml(folder):
    for path in folder.rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert path.stat().st_size < 1_000_000, path.name
        assert links.Links(text).loaded == [], path.name
        assert 'class="latex"' not in text, path.name


@pytest.fixture
def browse(chromium, folder):
    """Yield a function that opens a page of the report in the one tab, at a size."""
    tab = chromium.new_page()

    def show_page(name, size=DESKTOP):
        show(tab, size).goto((folder / f"{name}.html").as_uri())
        return tab

    yield show_page
    tab.close()


def show(tab, size, theme="light"):
    """Show a page at a size and in a theme."""
    tab.emulate_media(color_scheme=theme)
    tab.set_viewport_size(size)
    return tab


# axe compares the colour of each piece of text with its ground, which takes milliseconds. Of those
# that look alike at both sizes and in both themes, and stand on the same grounds, it gets the first
# one. Tokens of code that it does not get become plain text: a page has thousands.
LOOK = """() => {
  const known = new Map(), looks = window.looks ??= new Map();
  const ground = e => {
    if (!known.has(e)) {
      const s = getComputedStyle(e), own = [s.backgroundColor, s.backgroundImage, s.opacity, s.filter].join();
      known.set(e, (e.parentElement ? ground(e.parentElement) : "") + "/" + own);
    }
    return known.get(e);
  };
  for (const e of document.body.querySelectorAll("*")) {
    if (![...e.childNodes].some(n => n.nodeType == Node.TEXT_NODE && n.data.trim()) || !e.checkVisibility()) continue;
    const s = getComputedStyle(e), look = [ground(e), s.color, s.fontSize, s.fontWeight].join();
    looks.set(e, (looks.get(e) ?? "") + "|" + look);
  }
}"""
MARK_THE_FIRST = """() => {
  const seen = new Set(), alike = [];
  for (const e of document.querySelectorAll("[data-first]")) delete e.dataset.first;
  for (const [e, look] of window.looks) {
    if (!seen.has(look)) e.dataset.first = "";
    else if (!e.children.length && e.matches("pre span")) alike.push(e);
    seen.add(look);
  }
  for (const e of alike) e.replaceWith(e.textContent);
  delete window.looks;
}"""
AXE = """async ([context, options]) => {
  const found = await axe.run(context, {resultTypes: ["violations"], preload: false, ...options});
  return found.violations.flatMap(v => v.nodes.map(n => `${v.id}: ${n.html.slice(0, 150)}: ${n.failureSummary}`));
}"""
CONTRAST = ["[data-first]", {"runOnly": ["color-contrast"]}]
OTHERS = [":root", {"rules": {"color-contrast": {"enabled": False}}}]
TABLES = "[...document.querySelectorAll('table')]"
WIDE = f"{TABLES}.filter(t => t.parentElement.scrollWidth > t.parentElement.clientWidth)"


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_cut_off(browse, name):
    """A table fits at 1280 pixels; at 390 the page is not wider than the screen.

    What is wider scrolls in a frame that the keyboard reaches.
    """
    tab = browse(name)
    assert tab.evaluate(f"{WIDE}.map(t => t.innerText.slice(0, 200))") == []
    show(tab, PHONE)
    assert tab.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    assert tab.evaluate(f"{WIDE}.filter(t => t.parentElement.tabIndex < 0).length") == 0


OTHER_PAGES = pytest.mark.exhaustive("pages that are made alike")
DRAWN = {"index", *random.Random("axe").sample(NAMES[1:], len(NAMES) // 3)}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in DRAWN else OTHER_PAGES) for name in NAMES]
)
def test_axe_finds_nothing(browse, name, folder, chromium, pytestconfig):
    """A page that has not changed since this test last passed, here and in this browser, passes.

    On a phone and on a desktop, the colours in both themes: all in one tab, since a page takes a
    second to load.
    """
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    page = (folder / f"{name}.html").read_bytes() + (folder / "style.css").read_bytes()
    state, passed = (
        results_cache.digest(axe, Path(__file__).read_bytes(), page, chromium.version),
        f"pages/{name}",
    )
    if pytestconfig.cache.get(passed, "") == state:
        return
    tab = browse(name)
    four = [(size, theme) for size in (PHONE, DESKTOP) for theme in ("light", "dark")]
    for size, theme in four:
        show(tab, size, theme).evaluate(LOOK)
    tab.evaluate(MARK_THE_FIRST)
    tab.evaluate(axe)
    violations = {}
    for size, theme in four:
        violations[size["width"], theme] = show(tab, size, theme).evaluate(AXE, CONTRAST)
        if theme == "dark":
            violations[size["width"]] = tab.evaluate(AXE, OTHERS)
    assert not {where: what for where, what in violations.items() if what}
    pytestconfig.cache.set(passed, state)


def test_the_contents_are_reached_on_a_phone_from_anywhere(browse):
    tab = browse("04_tiling", PHONE)
    tab.evaluate("scrollTo(0, 5000)")
    entry = tab.locator(".contents details a").first
    assert not entry.is_visible()
    tab.get_by_role("link", name="On this page").click()
    assert entry.is_visible()
    entry.click()
    assert tab.url.endswith("#the-idea")
