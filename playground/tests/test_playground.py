"""The playground: its exercises, and the page in a browser, with an engine that answers by words in the source.

The engine itself is tested in `engine/tests`; this page needs the node modules that `make
playground` brings.
"""

import contextlib
import functools
import hashlib
import http.server
import importlib.util
import json
import re
import shutil
import subprocess
import sys
import threading
import time
from importlib import resources
from pathlib import Path

import numpy as np
import pytest
from firefox import Firefox
from test_pages import AXE, DESKTOP, PHONE

from hostcuda.wasm.site import licence_texts
from labkit.base.errors import LabError
from labkit.exercises.exercise import exercises
from labkit.exercises.subjects import Numbers
from labkit.notebooks import execute, html, links, site
from labkit_playground.site import python_files

pytestmark = pytest.mark.thorough("the playground, in browsers")

ROOT = execute.folder().parent
SOURCES = ROOT / "playground"
spec = importlib.util.spec_from_file_location("playground_build", SOURCES / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


@pytest.fixture(scope="module")
def listed():
    parts = build.list_exercises()
    return {offered["number"]: offered for part in parts for offered in part["exercises"]}


def test_it_has_the_kernels_of_parts_1_and_2_and_of_practice(listed):
    kernels = {
        number for number, asked in exercises().items() if not isinstance(asked.subject, Numbers)
    }
    # its compiler makes other accesses
    others = {number for number in kernels if number[:2] not in ("P8", "10", "11")}
    assert set(listed) == {number for number in others if number < "12" or number[0] == "P"}
    assert len(listed) > 30


def test_an_exercise_leads_to_the_cell_with_its_kernel(listed):
    for number, entry in listed.items():
        name, _, index = entry["page"].removeprefix("../").partition(".html#cell-")
        cell = execute.read(ROOT / "notebooks" / f"{name}.ipynb").nb.cells[int(index)]
        magic, _, text = cell.source.partition("\n")
        assert f"--exercise {number}" in magic and entry["title"] == exercises()[number].title
        assert text.strip() in exercises()[number].start if "--part" not in magic else text


def test_its_exercises_load_where_there_is_no_numpy(listed, tmp_path):
    for name, content in python_files().items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); from labkit.exercises import exercise\n"
        "for number in sys.argv[2:]: exercise.exercise(number)"
    )
    command = [sys.executable, "-I", "-S", "-c", program, tmp_path, *listed]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.stderr == ""


def test_the_lock_has_digests_and_no_addresses():
    packages = json.loads((SOURCES / "package-lock.json").read_text())["packages"]
    assert all("resolved" not in package for package in packages.values())
    assert all(
        package["integrity"].startswith("sha512-") for name, package in packages.items() if name
    )


def test_every_licence_is_beside_what_it_covers():
    """Packages of npm leave these texts out."""
    texts = licence_texts()
    assert {*texts} == {"cpython", "llvm", "pyodide", "wasi-libc"}
    for name, words in (
        ("cpython", "PYTHON SOFTWARE FOUNDATION LICENSE VERSION 2"),
        ("llvm", "LLVM Exceptions to the Apache 2.0 License"),
        ("pyodide", "Mozilla Public License Version 2.0"),
        ("wasi-libc", "musl as a whole is licensed under"),
    ):
        assert words in texts[name]


def test_it_is_built_into_an_empty_folder_or_its_own(tmp_path, monkeypatch, capsys):
    def write(out, *_):
        """Write three files, as each part of the build."""
        (out / "engine").mkdir(parents=True, exist_ok=True)
        for name in ("licences.txt", "engine/licences.txt", "index.html"):
            (out / name).write_text("new")

    for name in ("write_page", "write_lab", "write_size", "write_service_worker"):
        monkeypatch.setattr(build, name, write)
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("mine")
    with pytest.raises(LabError, match=r"did not write: thesis\.txt"):
        build.main(mine)
    assert [path.name for path in mine.iterdir()] == ["thesis.txt"]
    build.main(tmp_path / "new")
    said = capsys.readouterr()
    assert [line.split()[:3] for line in said.err.splitlines()] == [
        ["building", "the", what] for what in ("page", "engine", "list")
    ]
    assert said.out == f"{tmp_path / 'new' / 'index.html'}: 3 files\n"
    (tmp_path / "new" / "thesis.txt").write_text("mine")
    (tmp_path / "new" / "index.html").write_text("old")
    build.main(tmp_path / "new")
    texts = {path.name: path.read_text() for path in (tmp_path / "new").iterdir() if path.is_file()}
    assert (texts["index.html"], texts["thesis.txt"]) == ("new", "mine")
    assert (
        "thesis.txt" not in texts[".written-by"] and "engine/licences.txt" in texts[".written-by"]
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the folder playground/ of a built site, beside two pages and the glossary.

    Instead of the engine it has lab.mjs, which answers without a compiler, and a large file, which
    lab.mjs loads as it would the engine.
    """
    if not (SOURCES / "node_modules").is_dir() or not shutil.which("node"):
        pytest.skip(
            "the page cannot be bundled here: `make playground` brings its node modules, and needs node"
        )
    out = tmp_path_factory.mktemp("site") / "playground"
    build.write_page(out)
    (out / "engine").mkdir()
    shutil.copy(Path(__file__).parent / "lab.mjs", out)
    (out / "engine" / "large.bin").write_bytes(bytes(2_700_000))
    build.write_size(out)
    build.write_service_worker(out)
    write_pages(out.parent)
    return out


def write_pages(out):
    """Write pages of the site beside the playground: two with kernels, and the glossary."""
    names = ("04_tiling.ipynb", "practice/P1_transpose.ipynb")
    notebooks = [execute.read(ROOT / "notebooks" / name) for name in names]
    glossary = html.document(ROOT / "docs" / "glossary.md", out)
    exporter = site.SiteExporter(pages := html.make_pages(notebooks, out), [glossary])
    sheet = out / "style.css"
    sheet.write_text(exporter.common["style"], encoding="utf-8")
    exporter.common |= {"playground": "playground/index.html", "sheet": sheet.name}
    exporter.common |= {"desks": {"04a", "04b", "P1a", "P1b"}, "rungs": {"04"}}
    for page in (*pages, glossary):
        exporter.write(page)
    site.write_service(out)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *about):
        """Say nothing."""


def serve(folder):
    """Serve a folder in a thread; return the server, and the address of its playground/."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_address[1]}/playground/"


@pytest.fixture(scope="module")
def address(folder):
    """Yield the address at which the playground is served."""
    server, address = serve(folder.parent)
    yield address
    server.shutdown()
    server.server_close()


@pytest.fixture
def tab(chromium, address):
    """Yield a new visitor's tab, in which no script may fail."""
    visitor = chromium.new_context(
        viewport=DESKTOP, permissions=["clipboard-read", "clipboard-write"]
    )
    tab, failed = visitor.new_page(), []
    tab.on("pageerror", lambda error: failed.append(error))
    yield tab
    visitor.close()
    assert not failed


def type_in(tab, text):
    """Write into the editor in place of what is there."""
    tab.locator(".cm-content").click()
    tab.keyboard.press("Control+a")
    tab.keyboard.insert_text(text)


# The engine of these tests finds a race two lines before the barrier, with another line further below.
RACE = (
    "__global__ void conv(float *y)\n{\n    first;\n    second;\n    __syncthreads();\n" + "\n" * 4
)
RACE += "    last;\n}"


def source(tab):
    tab.locator(".cm-line").first.wait_for()  # the page is loaded before the list of exercises is
    return "\n".join(tab.locator(".cm-line").all_inner_texts()).replace("\n\n", "\n")


def test_it_loads_nothing_from_elsewhere(tab, address):
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(f"{address}#own")
    tab.get_by_role("button", name="Run").click()
    tab.get_by_text("It ran, unchecked.").wait_for()
    search = address.replace("playground/", "search.html")  # whether the site has one
    assert len(asked) > 4 and all(url.startswith((address, "data:", search)) for url in asked)


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_axe_finds_nothing_and_nothing_is_cut_off(tab, address, size):
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    tab.set_viewport_size(size)

    def look(where):
        """Require that the page fits into the window and is accessible; `where` is for the message."""
        assert tab.evaluate("document.documentElement.scrollWidth") <= size["width"], where
        tab.evaluate(axe)
        for theme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            tab.emulate_media(color_scheme=theme)
            assert tab.evaluate(AXE, [":root", options]) == [], (where, theme)

    tab.goto(address)
    tab.locator(".exercises").first.wait_for()
    look("list")
    tab.goto(f"{address}#own")
    tab.get_by_role("button", name="Run").click()
    tab.locator(".array").first.wait_for()
    look("a run")
    type_in(tab, RACE)
    tab.get_by_role("button", name="Count and check").click()
    tab.locator(".found").wait_for()
    look("a race")
    type_in(tab, "__global__ void f() { oops; int unused; }")
    tab.get_by_role("button", name="Run").click()
    tab.locator(".cm-lint-marker-error").wait_for()
    look("an error")


def test_an_error_is_shown_at_its_line_and_its_button_leads_there(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, "__global__ void transpose()\n{\n    int unused;\n    oops = 1;\n}")
    tab.get_by_role("button", name="Run").click()
    tab.locator(".cm-lint-marker-error").wait_for()
    top = tab.locator(".cm-line").nth(3).bounding_box()["y"]
    assert abs(tab.locator(".cm-lint-marker-error").bounding_box()["y"] - top) < 8
    assert (
        tab.locator(".status").inner_text() == "It does not compile: 1 error, the first in line 4."
    )
    tab.get_by_role("button", name="line 4").click()
    assert tab.evaluate("getSelection().toString().trim()") == "oops = 1;"
    assert tab.locator(".cm-lintRange-error").inner_text() == "oops"


def test_a_finding_names_both_lines(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, RACE)
    tab.get_by_role("button", name="Count and check").click()
    item = tab.locator(".found li")
    assert re.match(r"race line 10 and line 4\s", item.inner_text())
    assert tab.get_by_role("row", name="shared load, 4 bytes").inner_text().split("\t")[1:] == [
        "shared load, 4 bytes",
        "39,200",
        "2 wavefronts",
    ]
    item.get_by_role("button", name="line 4").click()
    assert "second;" in tab.evaluate("getSelection().toString()")


def test_the_source_survives_a_reload_and_begins_again(tab, address):
    tab.goto(f"{address}#own")
    start = source(tab)
    type_in(tab, "// mine")
    tab.get_by_role("link", name="All exercises").click()
    tab.locator(".exercises").first.wait_for()
    tab.goto(f"{address}#own")
    tab.reload()
    tab.locator(".cm-line").first.wait_for()
    assert source(tab) == "// mine"
    tab.get_by_role("button", name="Start again").click()
    assert source(tab) == start
    tab.locator(".cm-content").press("Control+z")
    assert source(tab) == "// mine"


def test_a_link_carries_the_kernel_and_its_launch(tab, address, chromium):
    tab.goto(f"{address}#own")
    type_in(tab, "__global__ void fill(int *there, float by) { there[0] = by; } // \u2192 Größe")
    tab.locator("[name=grid]").fill("2, 3")
    tab.locator("[name='by value']").fill("2.5")
    tab.get_by_role("button", name="Copy a link").click()
    tab.get_by_text("The link is copied").wait_for()
    link = tab.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}#own&code=") and len(link) < 600
    other = chromium.new_context()
    try:
        reader = other.new_page()
        reader.goto(link)
        reader.locator("[name='by value']").wait_for()
        assert "Größe" in source(reader) and reader.locator("[name=grid]").input_value() == "2, 3"
        assert reader.locator("[name='by value']").input_value() == "2.5"
        assert reader.url == f"{address}#own"
    finally:
        other.close()


def test_a_link_does_not_lose_what_one_has_written(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, "// theirs")
    tab.get_by_role("button", name="Copy a link").click()
    tab.get_by_text("The link is copied").wait_for()
    link = tab.evaluate("navigator.clipboard.readText()")
    type_in(tab, "// mine")
    tab.goto(address)
    tab.locator(".exercises").first.wait_for()
    tab.goto(link)
    tab.get_by_text("This kernel came with a link").wait_for()
    assert source(tab) == "// theirs"
    tab.get_by_role("button", name="Back to mine").click()
    assert source(tab) == "// mine"


def test_a_damaged_link_is_said_to_be_one(tab, address):
    tab.goto(f"{address}#own&code=notacode")
    tab.get_by_text("The link is damaged").wait_for()
    assert "__global__ void" in source(tab)


def wait_until_stored(tab, folder, but=0):
    """Wait until the browser has kept all files of the page, or all `but` some."""
    files = (
        len([path for path in folder.rglob("*") if path.is_file() and path.name != "service.js"])
        - but
    )
    deadline = time.monotonic() + 30
    while (
        tab.evaluate(
            "() => caches.open('playground').then(cache => cache.keys()).then(keys => keys.length)"
        )
        < files
    ):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_it_works_without_a_network_after_the_first_visit(chromium, folder):
    server, address = serve(folder.parent)
    visitor = chromium.new_context()
    try:
        tab = visitor.new_page()
        tab.goto(f"{address}#own")
        wait_until_stored(tab, folder)
        server.shutdown()
        server.server_close()
        tab.goto(address)
        tab.reload()
        tab.get_by_role("link", name="A kernel of your own").click()
        tab.get_by_role("button", name="Run").click()
        tab.get_by_text("It ran, unchecked.").wait_for()
    finally:
        visitor.close()


def test_a_file_of_another_version_is_not_kept(chromium, folder, tmp_path):
    changed = tmp_path / folder.name
    shutil.copytree(folder, changed)
    with (changed / "style.css").open("a", encoding="utf-8") as style:
        style.write("/* another version */\n")
    server, address = serve(changed.parent)
    visitor = chromium.new_context()
    try:
        tab = visitor.new_page()
        tab.goto(f"{address}#own")
        wait_until_stored(tab, changed, but=1)
        tab.wait_for_timeout(500)
        kept = tab.evaluate(
            "async () => (await (await caches.open('playground')).keys()).map(({ url }) => url)"
        )
        assert not any("/style.css" in address for address in kept)
        assert any("/main.js" in address for address in kept)
    finally:
        visitor.close()
        server.shutdown()
        server.server_close()


def test_its_links_lead_somewhere(folder):
    page = links.Links(folder / "index.html")
    page.anchors |= {"own"}
    for link in page.found:
        there = link == "../index.html" or (folder / link).is_file()
        assert link[1:] in page.anchors if link[0] == "#" else there, link


def test_the_service_worker_knows_each_file_by_its_digest(folder):
    text = (folder / "service.js").read_text(encoding="utf-8")
    files = json.loads(text[len("const FILES = ") : text.index("};") + 1])
    assert {"index.html", "main.js", "style.css", "exercises.json", "lab.mjs"} <= set(files)
    for name, digest in files.items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_stop_ends_an_endless_kernel_and_the_next_run_works(tab, address):
    tab.goto(f"{address}#own")
    example = source(tab)
    type_in(tab, "__global__ void f(int *x) { while (true) x[0]++; }")
    tab.keyboard.press("Control+Enter")
    tab.get_by_text("Running \u2026").wait_for()
    tab.keyboard.press("Control+.")
    tab.get_by_text("Stopped.").wait_for()
    # it stays there
    assert tab.locator(".cm-content").evaluate("each => each === document.activeElement")
    type_in(tab, example)
    tab.keyboard.press("Control+Enter")
    tab.get_by_text("It ran, unchecked.").wait_for()
    assert "races" in tab.locator(".status").inner_text()
    assert tab.get_by_text(
        "6 elements are NaN, as is memory that no thread has stored to."
    ).is_visible()
    assert tab.get_by_text("Unchanged: a, b.").is_visible()


def test_a_wrong_launch_is_refused_with_its_place(tab, address):
    tab.goto(f"{address}#own")
    tab.locator("[name=block]").fill("64, many")
    tab.get_by_role("button", name="Run").click()
    assert tab.locator(".status").inner_text() == 'Block: "many" is no integer.'


def test_nothing_of_the_last_result_stays_under_an_error(tab, address):
    tab.goto(f"{address}#own")
    tab.get_by_role("button", name="Run").click()
    tab.locator(".array").first.wait_for()
    tab.locator("[name=block]").fill("many")
    tab.get_by_role("button", name="Run").click()
    tab.get_by_text('Block: "many" is no integer.').wait_for()
    assert tab.locator(".results").inner_text() == ""


def test_the_engine_is_loaded_for_a_desk_and_not_for_the_list(tab, address):
    asked = []
    tab.on("request", lambda request: asked.append(request.url.removeprefix(address)))
    tab.goto(address)
    tab.locator(".exercises").first.wait_for()
    assert "loads the engine, 3 MB" in tab.locator("#contents").inner_text()
    tab.wait_for_timeout(300)
    assert "lab.mjs" not in asked and "engine/large.bin" not in asked
    with tab.expect_request("**/engine/large.bin"):
        tab.get_by_role("link", name="A kernel of your own").click()
    tab.get_by_role("heading", name="A kernel of your own").wait_for()


def test_arrays_are_shown_as_numbers_and_vectors_and_large_ones_by_their_first(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, "__global__ void f(__half *h, long long *n, float3 *v, float *y) { }")
    tab.locator("[name='y length']").fill("67000000")
    for name in "hnvy":
        tab.get_by_role("group", name=f"Argument {name}").get_by_role("combobox").select_option(
            "nothing"
        )
    tab.locator("[name='n length']").fill("1")
    tab.get_by_role("button", name="Run").click()
    tab.locator(".array").nth(3).wait_for()
    shown = tab.locator(".array").all_inner_texts()
    assert "1.5, 1.5" in shown[0] and str(2**62) in shown[1]
    assert "v 256 elements" in shown[2] and "(1, 2, 3), (4, 5, 6)" in shown[2]
    assert "y 67,000,000 elements" in shown[3] and shown[3].count(",") < 80


def test_much_that_is_printed_keeps_its_beginning(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, '__global__ void f() { printf("x"); }')
    tab.get_by_role("button", name="Run").click()
    tab.get_by_text("further lines not shown here.").wait_for()
    text = tab.locator(".printed pre").inner_text()
    assert text.startswith("thread 0\nthread 1\n") and len(text) <= 20_000


def test_a_long_run_says_how_far_it_is(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, "__global__ void f() { } // long")
    tab.get_by_role("button", name="Run").click()
    tab.get_by_text("3 s: 37 % of the blocks").wait_for()


def test_the_time_is_that_since_the_click(tab, address):
    tab.add_init_script("globalThis.SLOW = 1500")
    tab.goto(f"{address}#own")
    tab.get_by_role("button", name="Run").click()
    tab.get_by_text("It ran, unchecked.").wait_for()
    seconds = float(
        re.search(r"([\d.]+) s, compilation included", tab.locator(".status").inner_text())[1]
    )
    assert 1 < seconds < 10  # the engine itself says 0.4 s


def test_a_fault_leads_to_the_check_and_its_counts_are_said_to_end_there(tab, address):
    tab.goto(f"{address}#own")
    type_in(tab, "__global__ void f() { } // overrun")
    tab.get_by_role("button", name="Run").click()
    tab.locator(".failure").get_by_role("button", name="Count and check").click()
    tab.get_by_text("Counters, up to the error").wait_for()
    assert tab.get_by_text("Memory accesses by line, up to the error").count() == 1
    heads = tab.get_by_role("table", name="Counters").locator("th").all_inner_texts()
    assert heads == ["counter", "count"]  # of one kernel, whose name may read as a total
    assert tab.get_by_role("row", name="memory instructions of the busiest warp 27").count() == 1


def test_a_stored_engine_is_started_and_not_loaded(tab, address, folder):
    tab.add_init_script("globalThis.SLOW = 1000")
    tab.goto(f"{address}#own")
    said = tab.locator(".work .load")
    said.get_by_text("Loading the engine: 27 of 27 MB. Later visits need no network.").wait_for()
    wait_until_stored(tab, folder)
    tab.reload()
    said.get_by_text("Starting the engine (it is stored on this computer) \u2026").wait_for()
    assert "MB" not in said.inner_text()


def test_too_little_memory_is_said(tab, address):
    tab.add_init_script("globalThis.REFUSES = true")
    tab.goto(f"{address}#own")
    tab.get_by_role("alert").get_by_text("this device has too little free").wait_for()


def in_node(expression, given):
    """Return the value of an expression of `launch.js`, computed from `given`."""
    if not shutil.which("node"):
        pytest.skip("node is not installed")
    script = (
        f"import * as launch from {json.dumps((SOURCES / 'src' / 'launch.js').as_uri())}; "
        f"import * as halves from {json.dumps((ROOT / 'engine/hostcuda/wasm/js/half.mjs').as_uri())}; "
        f"const given = {json.dumps(given)}; console.log(JSON.stringify({expression}));"
    )
    process = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True
    )
    return json.loads(process.stdout)


def test_halves_are_those_of_numpy():
    values = [
        0.0,
        -0.0,
        1.0,
        -2.5,
        65504.0,
        65519.0,
        1e-7,
        6e-8,
        2.0**-14,
        0.1,
        1 / 3,
        2049.0,
        2051.0,
        1e-4,
    ]
    bits = np.array(values).astype(np.float16).view(np.uint16)
    assert in_node("given.map(halves.half)", values) == bits.tolist()
    assert (
        in_node("given.map(halves.number)", bits.tolist())
        == bits.view(np.float16).astype(float).tolist()
    )
    assert in_node("given.map(halves.half)", [65520.0, -1e9]) == [0x7C00, 0xFC00]  # infinity


def test_kernels_are_found_with_their_parameters():
    source = """
// __global__ void not_this(int a) {}
template <int N> __device__ float f(float x) { return x; }
extern "C" __global__ void __launch_bounds__(256) one(const float *__restrict__ x, unsigned int n, double d[], Foo *foo)
{ f(1); }
__global__
void two(__half* h, size_t n, bool b, float **deep) {}
"""
    assert in_node("launch.kernels(given).map(each => each.name)", source) == ["one", "two"]
    one, two = in_node(
        "launch.kernels(given).map(each => launch.parameters(each, { values: {} }))", source
    )

    def short(parameters):
        """Return (name, type, array, number) of each parameter."""
        return [
            (parameter["name"], parameter["type"], parameter.get("array"), parameter["number"])
            for parameter in parameters
        ]

    assert short(one) == [
        ("x", "float *", "float32", False),
        ("n", "unsigned int", None, True),
        ("d", "double *", "float64", False),
        ("foo", "Foo *", None, False),
    ]
    assert short(two) == [
        ("h", "__half *", "float16", False),
        ("n", "size_t", None, True),
        ("b", "bool", None, True),
        ("deep", "float *", None, False),
    ]


REQUEST = "launch.request(given, { grid: '1', block: '32', shared: '0', values: %s })"


def test_a_template_is_instantiated_as_the_form_says():
    source = """
template <typename T, int N = 3> __global__ void scale(T *y, const float4 *v, T by) { y[threadIdx.x] *= N * by; }
"""
    values = "{ y: { length: '8', fill: 'count' }, v: { length: '5', fill: 'zeros' }, by: { value: '2' } }"
    asked = in_node(REQUEST % values, source)
    assert asked["launch"]["kernel"] == "scale<float, 3>"
    assert (
        asked["source"]
        == f"{source}\ntemplate __global__ void scale<float, 3>(float *, float4 *, float);\n"
    )
    assert asked["inputs"] == {
        "y": {"type": "float32", "length": 8, "fill": "count"},
        "v": {"type": "float32", "length": 20, "fill": "zeros"},
    }
    assert asked["shapes"]["v"] == {"half": False, "width": 4}
    mine = (
        source
        + "template __global__ void scale<long long,2>(long long *, const float4 *, long long);\n"
    )
    asked = in_node(REQUEST % values, mine)
    assert (asked["source"], asked["launch"]["kernel"]) == (mine, "scale<long long,2>")
    assert asked["inputs"]["y"]["type"] == "int64"


def test_arrays_that_are_too_large_are_refused_before_they_are_made():
    source = "__global__ void f(long long *y) {}"
    with pytest.raises(subprocess.CalledProcessError) as refused:
        in_node(REQUEST % "{ y: { length: '67108864' } }", source)
    assert "536,870,912 bytes together; here they may have 268,435,456" in refused.value.stderr


# --------------------------------------------------------------------------------------------------
# Kernel cells of the site's pages, and a kernel alone


@pytest.fixture
def page(tab, address):
    """Yield the page of rung 04, with `asked`: what it has loaded since the last look."""
    tab.asked = []
    tab.on("request", lambda request: tab.asked.append(request.url.removeprefix(address)))
    tab.goto(address.replace("playground/", "04_tiling.html"))
    return tab


def edit(page, number):
    """Open the desk of a cell; return the cell."""
    cell = page.locator(f"#cell-{number}")
    cell.get_by_role("button", name="Edit and run").click()
    cell.locator(".cm-content").wait_for()
    return cell


def find_cell(page, text):
    """Return the number of the first live cell whose code begins with a text."""
    return page.evaluate(
        "text => [...document.querySelectorAll('[data-live]')]"
        ".find(cell => cell.textContent.trim().startsWith(text)).id.slice(5)",
        text,
    )


def test_a_page_loads_nothing_before_the_click_and_keeps_its_policy(page, folder):
    page.wait_for_timeout(300)
    assert [url for url in page.asked if "http" not in url] == ["live.js"]
    assert (folder / "live.js").stat().st_size < 1000
    text = (folder.parent / "04_tiling.html").read_text(encoding="utf-8")
    assert "script-src 'self'; worker-src 'self'; connect-src 'self'; img-src data:;" in text
    assert text.count("<script") == 1
    assert "<script" not in (folder.parent / "glossary.html").read_text(encoding="utf-8")
    with page.expect_request("**/engine/large.bin"):
        edit(page, find_cell(page, "%%kernel 04 --name"))


def test_from_disk_and_without_scripts_a_page_is_as_it_was(chromium, folder):
    there = (folder.parent / "04_tiling.html").as_uri()
    for scripts in (True, False):
        visitor = chromium.new_context(java_script_enabled=scripts)
        try:
            tab = visitor.new_page()
            tab.goto(there)
            assert tab.get_by_role("button", name="Edit and run").count() == 0
            assert tab.locator(".code").first.is_visible()
        finally:
            visitor.close()


def test_a_kernel_of_a_page_is_edited_and_judged_in_place(page):
    number = find_cell(page, "%%kernel 04 --name")
    facts = page.locator(f"#cell-{number}").evaluate("cell => ({ ...cell.dataset })")
    judged, clean = page.locator(f"#{facts['verdict']}"), page.locator(f"#{facts['sanitized']}")
    stored = judged.locator(".outputs").inner_text()
    cell = edit(page, number)
    status = cell.locator(".status")
    page.keyboard.press("Control+Enter")
    status.get_by_text("Passed.").wait_for()
    assert judged.locator(".outputs").inner_text() == "PASS 04 tiling, own source: 15 shapes"
    assert page.locator(".stale").count() == 0
    page.keyboard.press("Control+Shift+Enter")
    status.get_by_text("1 finding.").wait_for()
    assert "race" in status.inner_text() and "line" in status.inner_text()
    assert cell.locator(".cm-lint-marker-error").count() > 0
    # the lines are the notebook's, whose first is the magic
    at = int(re.search(r"line (\d+)", clean.locator(".found").inner_text())[1])
    clean.get_by_role("button", name=f"line {at}").first.click()
    selected = page.evaluate("getSelection().toString()")
    code = cell.locator(".code").evaluate("code => code.textContent").split("\n")
    assert selected.strip() == code[at - 1].strip()
    type_in(page, "// wrong")
    page.keyboard.press("Control+Enter")
    status.get_by_text("Not right.").wait_for()
    assert "is wrong on one past a tile" in judged.locator(".outputs").inner_text()
    others = facts["stale"].split()
    assert page.locator(".stale").count() == len(others) > 1
    assert page.locator(f"#{others[0]} .stale").is_visible()
    cell.get_by_role("button", name="As stored").click()
    assert page.locator(".stale, .work").count() == 0
    assert judged.locator(".outputs").inner_text() == stored
    assert cell.get_by_role("button", name="Edit and run").evaluate(
        "button => button === document.activeElement"
    )
    # it comes back as one left it
    assert source(edit(page, number)) == "// wrong"


def test_an_exercise_of_a_page_is_solved_in_place_and_the_playground_lists_it(page, address):
    number = find_cell(page, "%%kernel 04 --exercise 04a")
    cell = edit(page, number)
    facts = cell.evaluate("cell => ({ ...cell.dataset })")
    judged, status = page.locator(f"#{facts['verdict']}"), cell.locator(".status")
    # the first wrong attempt unlocks no hint, and each further one does, once
    attempts = [
        ("wrong", "Which thread is it?"),
        ("wrong again", "Hint 1"),
        ("wrong once more", "Hint 2"),
    ]
    for attempt, advice in [*attempts, attempts[-1]]:
        type_in(page, attempt)
        page.keyboard.press("Alt+Enter")
        status.get_by_text("04a: not right yet").wait_for()
        judged.locator(".advice").get_by_text(advice).wait_for()
        assert ("Hint" in judged.locator(".advice").inner_text()) == ("Hint" in advice)
    left_out = "2 goals not counted, because of the above: load requests; barriers per warp"
    assert judged.locator(".grade li").last.inner_text().endswith(left_out)
    type_in(page, "TILE + 32")
    page.keyboard.press("Alt+Enter")
    status.get_by_text("04a: goal met").wait_for()
    judged.get_by_role("button", name="Show the lab's solution").click()
    assert judged.locator(".solution pre").inner_text() == "// how the lab solves it"
    page.goto(address)
    solved = page.locator(".exercises li", has_text="04a")
    assert solved.inner_text().endswith("✓ goal met")
    solved.get_by_role("link").click()
    page.wait_for_url(f"**/04_tiling.html#cell-{number}")


def test_desks_of_a_page_take_turns_and_stop_ends_ones_own(page):
    first = edit(page, find_cell(page, "%%kernel 04 --exercise 04a"))
    page.keyboard.press("Control+a")
    page.keyboard.insert_text("while (true)")
    page.keyboard.press("Control+Enter")
    first.get_by_text("Running").wait_for()
    second = edit(page, find_cell(page, "%%kernel 04 --exercise 04b"))
    page.keyboard.press("Control+Enter")
    second.get_by_text("Another kernel comes first").wait_for()
    page.keyboard.press("Control+.")
    second.locator(".status").get_by_text("Stopped.").wait_for()
    assert first.locator(".working").count() == 1
    page.keyboard.press("Control+Enter")
    first.get_by_role("button", name="Stop").click()
    first.locator(".status").get_by_text("Stopped.").wait_for()
    second.get_by_text("It ran on layer 1").wait_for()


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_axe_finds_nothing_at_an_open_cell(page, size):
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    page.set_viewport_size(size)
    cell = edit(page, find_cell(page, "%%kernel 04 --name"))
    for keys, done in (("Control+Shift+Enter", "1 finding"), ("Control+Enter", "Passed")):
        page.keyboard.press(keys)
        cell.locator(".status").get_by_text(done).wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= size["width"]
    # Chromium's inspector adds the script whatever the page's policy is
    page.evaluate(axe)
    facts = cell.evaluate("cell => ({ ...cell.dataset })")
    for place in (f"#{cell.get_attribute('id')}", f"#{facts['sanitized']}", f"#{facts['verdict']}"):
        for theme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
            page.emulate_media(color_scheme=theme)
            assert page.evaluate(AXE, [place, options]) == [], (place, theme)


RUN_AXE = f"argument => {{ {{axe}}; return ({AXE})(argument); }}"
WAIT_FOR_EDITOR = """number => new Promise(done => {
    const wait = () => document.activeElement.closest(`#cell-${number} .cm-content`) ? done() : setTimeout(wait, 50);
    wait();
})"""
STATUS = """([number, text]) => new Promise((done, failed) => {
    const wait = (left) => {
        const said = document.querySelector(`#cell-${number} .status`)?.textContent ?? "";
        said.includes(text) ? done(said) : left ? setTimeout(wait, 100, left - 1) : failed(said);
    };
    wait(300);
})"""


def test_firefox_edits_and_judges_an_open_cell_by_keys_and_without_a_network(folder, tmp_path):
    executable = shutil.which("firefox-esr") or shutil.which("firefox")
    if not executable:
        pytest.skip("Firefox is not installed: on Debian, apt install firefox-esr")
    axe = (resources.files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
    server, address = serve(folder.parent)
    with contextlib.closing(Firefox(executable, tmp_path)) as tab:
        for visit in ("first", "without a network"):
            tab.goto(address.replace("playground/", "04_tiling.html"))
            tab.show("light", 390)
            number = find_cell(tab, "%%kernel 04 --name")
            tab.evaluate(
                "number => document.querySelector(`#cell-${number} .desk button`).focus()", number
            )
            tab.press("Enter")
            tab.evaluate(WAIT_FOR_EDITOR, number)
            for letter in "// mine ":
                tab.press(letter)
            tab.press("Control", "Enter")
            assert "Passed." in tab.evaluate(STATUS, [number, "Passed."]), visit
            tab.press("Control", "Shift", "Enter")
            said = tab.evaluate(STATUS, [number, "1 finding."])
            assert re.search(r"race at line \d+ and line \d+", said), visit
            if visit == "first":
                for theme, options in (("light", {}), ("dark", {"runOnly": ["color-contrast"]})):
                    tab.show(theme, 390)
                    assert (
                        tab.evaluate(RUN_AXE.replace("{axe}", axe), [f"#cell-{number}", options])
                        == []
                    )
                widths = "() => [innerWidth, document.documentElement.scrollWidth]"
                assert max(tab.evaluate(widths)) <= 390
                wait_until_stored(tab, folder)
                server.shutdown()
                server.server_close()


def test_a_page_whose_kernel_was_run_works_without_a_network(chromium, folder):
    server, address = serve(folder.parent)
    visitor = chromium.new_context()
    try:
        tab = visitor.new_page()
        tab.goto(address.replace("playground/", "04_tiling.html"))
        cell = edit(tab, number := find_cell(tab, "%%kernel 04 --name"))
        tab.keyboard.press("Control+Enter")
        cell.locator(".status").get_by_text("Passed.").wait_for()
        wait_until_stored(tab, folder)
        server.shutdown()
        server.server_close()
        tab.reload()
        cell = edit(tab, number)
        tab.keyboard.press("Control+Enter")
        cell.locator(".status").get_by_text("Passed.").wait_for()
        assert tab.evaluate("getComputedStyle(document.body).fontFamily").startswith("Charter")
    finally:
        visitor.close()


HOSTS = {
    "plain": "",
    "sandbox": 'sandbox="allow-scripts allow-same-origin"',
    "credentialless": "credentialless",
    "without storage": 'sandbox="allow-scripts allow-same-origin"',
}


@pytest.mark.parametrize("host", HOSTS)
def test_a_link_shows_its_kernel_alone_in_somebody_elses_page(tab, address, folder, host):
    tab.goto(address.replace("playground/", "practice/P1_transpose.html"))
    cell = edit(tab, find_cell(tab, "%%cuda mine_a --exercise P1a"))
    type_in(tab, "// Größe")
    cell.get_by_role("button", name="Copy a link").click()
    cell.get_by_text("The link is copied").wait_for()
    link = tab.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{address}embed.html#code=")
    if host == "without storage":
        refuse = "Object.defineProperty(globalThis, 'localStorage', { get() { throw new Error('refused') } })"
        tab.add_init_script(refuse)
    there = link.replace("127.0.0.1", "localhost")  # another site than the blog's
    (folder.parent / "blog.html").write_text(
        f'<h1>A blog</h1><iframe {HOSTS[host]} src="{there}" width=800 height=600></iframe>'
    )
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(address.replace("playground/", "blog.html"))
    kernel = tab.frame_locator("iframe")
    kernel.locator(".cm-line").first.wait_for()
    assert kernel.locator(".cm-content").inner_text() == "// Größe"
    tab.wait_for_timeout(200)
    assert not any("lab.mjs" in url for url in asked)  # not for those who only read
    kernel.get_by_role("button", name="Run").click()
    kernel.locator(".status").get_by_text("It ran on layer 1").wait_for()
    kernel.get_by_role("button", name="Grade").click()
    kernel.locator(".status").get_by_text("P1a: goal missed").wait_for()
