"""The stored notebooks: executed in order, complete, in one form, and with no trace of the machine that ran them."""

import ast
import functools
import html
import os
import re

import nbformat
import pytest

from labkit import recorded
from labkit.base.errors import LabError
from labkit.base.numerals import format_digits
from labkit.base.paths import PACKAGE, natural_key
from labkit.notebooks import execute
from recording.pages import count_page

pytestmark = pytest.mark.core("the stored pages as they are read")

FOLDER = PACKAGE.parent / "notebooks"
SERIES = sorted(FOLDER.glob("*.ipynb"))
FILES = [
    *SERIES,
    *sorted(FOLDER.glob("*/*.ipynb"), key=lambda path: natural_key(path.as_posix())),
]
# A path or an address that only one machine has.
MACHINE = re.compile(
    r"(?<![\w.])/(home|root|Users|tmp|work|mnt|var/folders|private|usr/local/lib)/\w|\bat 0x[0-9a-f]{6,}"
)

NAMES = [path.relative_to(FOLDER).with_suffix("").as_posix() for path in FILES]
every_notebook = pytest.mark.parametrize("path", FILES, ids=NAMES)


@functools.cache
def read(path):
    return nbformat.read(path, as_version=4)


def code_cells(path):
    return [cell for cell in read(path).cells if cell.cell_type == "code"]


def tags(cell):
    return cell.metadata.get("tags", [])


def outputs_as_text(cell, described=False):
    """Yield the texts of a cell's outputs, and if `described` the descriptions of its pictures."""
    for output in cell.outputs:
        if described and "image/png" in output.get("metadata", {}):
            yield output.metadata["image/png"].get("alt", "")
        yield output.get("text", "")
        for kind, data in output.get("data", {}).items():
            if kind.startswith("text/") or kind == "image/svg+xml":
                yield data


def test_a_notebook_of_several_names_is_found_once(monkeypatch):
    monkeypatch.chdir(FOLDER)
    paths = execute.find(["01", "0", "1", "01_baseline", "01_baseline.ipynb", "00_start_here"])
    assert [path.stem for path in paths] == ["01_baseline", "00_start_here"]


def test_a_companion_is_found_by_its_folder(monkeypatch):
    monkeypatch.chdir(FOLDER)
    names = [
        "closer_look/08",
        "closer_look/8",
        "closer_look/08_fp16",
        "closer_look/08_fp16.ipynb",
        "notebooks/closer_look/08_fp16.ipynb",
    ]
    assert execute.find(names) == [FOLDER / "closer_look" / "08_fp16.ipynb"]
    assert execute.find(["08"]) == [FOLDER / "08_fp16.ipynb"]
    assert sorted(execute.find()) == sorted(FILES)
    practice = "practice/P1_transpose.ipynb"
    assert execute.find(["P1", "practice/P1", practice]) == [FOLDER / practice]
    numbers = [path.stem.partition("_")[0] for path in execute.list_notebooks(execute.PRACTICE)]
    assert numbers == [f"P{number}" for number in range(1, len(numbers) + 1)]
    for unknown in ("closer_look/77", "elsewhere/08"):
        with pytest.raises(
            LabError, match=rf"no notebook '{unknown}'; the nearest names are (\S+, ){{2}}\S+$"
        ):
            execute.find([unknown])


def test_only_the_series_is_stored():
    series = execute.list_notebooks("")
    outside = [path.name for path in FILES if path not in execute.list_notebooks()]
    assert not outside, "a notebook outside the series: name it NN_name.ipynb, or remove it"
    numbers = [path.stem[:2] for path in series]
    twice = {number for number in numbers if numbers.count(number) > 1}
    assert twice == {"00", "01", "07", "11"}, "these numbers have a second page; others have one"


@pytest.mark.parametrize("path", execute.list_notebooks(execute.CLOSER), ids=lambda path: path.stem)
def test_a_companion_and_its_notebook_link_to_each_other(path):
    owners = {main.name: main for main in execute.list_notebooks("", execute.PRACTICE)}
    assert path.name in owners, "a closer look has the name of the notebook that it belongs to"
    main = owners[path.name]
    for notebook, other in ((main, path), (path, main)):
        link = os.path.relpath(other, notebook.parent)
        assert any(
            f"]({link})" in cell.source
            for cell in read(notebook).cells
            if cell.cell_type == "markdown"
        ), link


@every_notebook
def test_canonical_form(path):
    nb = read(path)
    nbformat.validate(nb)
    assert execute.format_canonical(nb) == path.read_text(encoding="utf-8"), (
        f"run: labkit store --as-is {path.stem}"
    )


@every_notebook
def test_executed_once_from_top_to_bottom_without_a_failure(path):
    cells = code_cells(path)
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    failed = [
        cell.source
        for cell in cells
        if "raises-exception" not in tags(cell)
        and any(output.output_type == "error" for output in cell.outputs)
    ]
    assert not failed


@every_notebook
def test_size(path):
    assert path.stat().st_size < 1_000_000


def test_only_the_readme_says_how_long_a_page_takes():
    readme = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for path in (*SERIES, *FOLDER.glob("practice/*.ipynb")):
        assert not re.search(r"\b(minutes|hours?)\b", read(path).cells[0].source), path.stem
        name = path.relative_to(FOLDER.parent).as_posix()
        assert re.search(rf"\({name}\).*\| ~?[\d to]+ \|$", readme, re.MULTILINE) or (
            path.parent.name == "practice"
        )


@pytest.mark.parametrize("path", SERIES, ids=[path.stem for path in SERIES])
def test_a_page_is_read_in_an_hour(path):
    """A page has a budget of words and visible lines of Python per hour, of figures, and of tables.

    The README says how long a page takes. Of one with more than 90 minutes, 90 count: it has a stop.
    """
    page = count_page(path)
    hours = min(max(page["minutes"], 60), 90) / 60
    text = "".join(cell.source for cell in read(path).cells if cell.cell_type == "markdown")
    assert page["minutes"] <= 90 or re.search(r"[Hh]ere you can stop for today", text)
    assert page["words"] <= 1300 * hours
    assert page["lines"] <= 70 * hours
    assert page["figures"] <= 6
    assert page["tables"] <= 6


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_a_cell_to_edit_is_not_folded(path):
    for cell in code_cells(path):
        assert not (cell.source.startswith("%%kernel") and "hide-input" in tags(cell)), cell.source


@pytest.mark.parametrize("path", [*FOLDER.glob("practice/*.ipynb")], ids=lambda path: path.stem)
def test_a_practice_page_is_read_in_its_time(path):
    page = count_page(path)
    assert page["words"] <= 1300 * page["minutes"] / 60


def asserts(source):
    """Return whether a cell checks something: an assert, a claim, times of checked kernels, or the set-up."""
    return any(
        isinstance(node, ast.Assert)
        or (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).split(".")[-1] in ("claim", "setup", "times")
        )
        for node in ast.walk(ast.parse(source))
    )


@every_notebook
def test_what_nbval_does_not_compare_is_asserted(path):
    for cell in code_cells(path):
        if "nbval-ignore-output" in tags(cell):
            assert asserts(cell.source), f"nothing checks this cell:\n{cell.source}"


@every_notebook
def test_outputs_name_no_machine(path):
    for cell in code_cells(path):
        for text in outputs_as_text(cell):
            assert not MACHINE.search(text), (
                f"{MACHINE.search(text)[0]!r} in the output of:\n{cell.source}"
            )


def test_the_first_page_of_a_report_knows_how_long_each_page_takes():
    assert {path.stem for path in execute.list_notebooks("")} <= execute.read_minutes().keys()


def test_pages_with_the_same_number_are_in_the_readmes_order():
    series = [path.stem for path in execute.list_notebooks("")]
    assert series == [name for name in execute.read_minutes() if name in series]


@every_notebook
def test_says_where_its_outputs_come_from(path):
    assert execute.read(path).produced.keys() == {"engine", "device", "date"}


@every_notebook
def test_all_outputs_come_from_the_device_of_the_banner(path):
    """What another device measured is recorded, and says so; a claim's sentence names its device."""
    produced = execute.read(path).produced
    assert not [
        cell for cell in read(path).cells if "*Where the outputs were made:*" in cell.source
    ]
    for cell in code_cells(path):
        for text in outputs_as_text(cell, described=True):
            if "These cells ran on" in text:
                assert produced["device"] in html.unescape(text)
                continue
            for line in foreign_devices(text, **produced):
                pytest.fail(
                    f"{line!r}, but {produced['device']} made the outputs of:\n{cell.source}"
                )


DEVICES = re.compile(r"NVIDIA \w+|\b[AHV]\d00\b")


def foreign_devices(text, engine, device, **_):
    """Yield what an output shows as measured elsewhere: lines with a device, and the captions of the other engine."""
    if ("Counted here" if engine == "gpu" else "Measured here") in text:
        yield text.split("\n")[0]
    says_so = re.search("recorded|estimate|measured here", text, re.IGNORECASE)
    for line in [] if says_so else text.splitlines():
        names = [name for name in DEVICES.findall(line) if name.split()[-1] not in device.split()]
        if names and not line.startswith(("✓ on the ", "//")):  # a claim, the comment of a listing
            yield line


def test_a_foreign_device_is_seen():
    h200, cpu = {"engine": "gpu", "device": "NVIDIA H200"}, {"engine": "cpu", "device": "AMD EPYC"}
    row = "0  91.215  NVIDIA H100 80GB HBM3"
    assert [*foreign_devices(row, **h200)] == [*foreign_devices(row, **cpu)] == [row]
    assert [*foreign_devices("Counted here for one image. No GPU", **h200)]
    assert [*foreign_devices("Measured here on NVIDIA H200, 1,000 images", **cpu)]
    for fine in (
        "0  79.2  NVIDIA H200",
        "NVIDIA H100, recorded November 2026",
        "✓ on the NVIDIA H100, so",
    ):
        assert not [*foreign_devices(fine, **h200)]


RECORDED_ROW = re.compile(r"^ *(\d\d .+?) +(lenet\d\d layer \d) .*?(\S+)$", re.MULTILINE)


@every_notebook
def test_recorded_times_are_those_of_the_records(path):
    """A table that nbval does not compare may have been stored before the kernels were recorded again."""
    records = recorded("H200")
    times = records.table.query("batch == 10_000").set_index(["label", "layer"])["op_ms"]
    for cell in code_cells(path):
        for output in cell.outputs:
            text = output.get("data", {}).get("text/plain", "")
            if "recorded op time (ms)" in text:
                for label, layer, shown in RECORDED_ROW.findall(text):
                    time = times.get((label, layer))  # None: not recorded yet
                    wanted = "–" if time is None else format_digits(time)
                    assert shown == wanted, (label, layer)


@every_notebook
def test_figures_are_described(path):
    for cell in code_cells(path):
        for output in cell.outputs:
            if "image/png" in output.get("data", {}):
                assert output.metadata.get("image/png", {}).get("alt"), (
                    f"no alt text:\n{cell.source}"
                )


@every_notebook
def test_the_series_can_list_it(path):
    notebook = execute.read(path)
    assert notebook.title != notebook.name
    assert "You will learn" in notebook.summary


def test_the_checks_see_what_they_are_for():
    assert asserts("assert x == 1")
    assert asserts("if True:\n    lab.claim('so', x)")
    assert not asserts("table = lab.bench(v, layer)\ntable")
    assert MACHINE.search("File /home/someone/x.py")
    assert MACHINE.search("<object at 0x7f31a2b3c4d5>")
    assert not MACHINE.search(
        "see labkit/cuda_src/01_baseline.cu, 3.1 GB/s, https://example.org/home/x"
    )
