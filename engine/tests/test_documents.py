"""docs/: every environment variable of the engine is on one page, and links lead to files."""

import json
import re
from pathlib import Path

import pytest

import hostcuda
from hostcuda import sanitize

pytestmark = pytest.mark.thorough("tools and documents of the engine")

ROOT = Path(hostcuda.__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGE = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")


def test_every_variable_that_is_read_is_on_the_page():
    """The variables that the page names are read somewhere, too."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "hostcuda").rglob("*.py")]
    text = "\n".join(
        [*sources, *(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))]
    )
    read = set(re.findall(r"""environ(?:\.get\(|\[)["'](HOSTCUDA_\w+)""", text))
    read |= {f"HOSTCUDA_{name}" for name in re.findall(r"""variable\("(\w+)"\)""", text)}
    read |= set(re.findall(r"""= "(HOSTCUDA_PYTEST_\w+)\"""", text))
    read |= set(re.findall(r"""_number\("(HOSTCUDA_\w+)\"""", text))
    assert read == set(re.findall(r"HOSTCUDA_\w+", PAGE))


@pytest.mark.parametrize("name", ["ENGINE", "CACHE_DIR"])
def test_the_names_of_the_convolution_lab_are_read_too(monkeypatch, name):
    assert f"`HOSTCUDA_{name}` (`LABKIT_{name}`)" in PAGE
    monkeypatch.delenv(f"HOSTCUDA_{name}", raising=False)
    monkeypatch.setenv(f"LABKIT_{name}", "there")
    assert hostcuda.settings.variable(name) == (f"LABKIT_{name}", "there")
    monkeypatch.setenv(f"HOSTCUDA_{name}", "here")
    assert hostcuda.settings.variable(name) == (f"HOSTCUDA_{name}", "here")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    for link in re.findall(r"\]\((?!https?://|#)([^)#]+)", path.read_text(encoding="utf-8")):
        assert (path.parent / link).exists(), link


def test_the_readme_is_one_screen_and_names_every_page():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 80
    assert all(f"docs/{path.name}" in text for path in (ROOT / "docs").glob("*.md"))


def test_the_headers_of_libcu_are_those_that_the_page_names():
    page = (ROOT / "docs" / "programs.md").read_text(encoding="utf-8")
    folder = ROOT / "hostcuda" / "include" / "cuda"
    for prefix, place in (("cuda", folder), ("cuda/std", folder / "std")):
        named = re.search(rf"^\| `<{prefix}/…>` \|(.*)\|$", page, re.MULTILINE)[1]
        there = {path.name for path in place.iterdir() if path.is_file() and path.name[0] != "_"}
        assert set(re.findall(r"`(\w+)`", named)) == there


def test_the_public_modules_are_those_of_the_interfaces_table():
    """architecture.md names the modules beside the packages that are not public."""
    table, text = (
        (ROOT / "docs" / name).read_text(encoding="utf-8")
        for name in ("interface.md", "architecture.md")
    )
    listed = re.findall(r"`(?:hostcuda)?\.([\w.]+)`", table.split("\n\n")[2])
    own = " ".join(text.split()).split("are public, except for ")[1].split(". ")[0]
    private = {name for name in re.findall(r"`(\w+)`", own) if name != "hostcuda"}
    beside = {path.stem for path in (ROOT / "hostcuda").glob("[!_]*.py")}
    assert beside - set(listed) == private


def test_an_editor_finds_the_line_of_a_finding():
    text = (ROOT / "docs" / "testing.md").read_text()
    (task,) = json.loads(text.partition("```json\n")[2].partition("```")[0])["tasks"]
    pattern = task["problemMatcher"][1]["pattern"]
    finding = {
        **dict.fromkeys(sanitize.COLUMNS),
        "kind": "race between blocks",
        "kernel": "sums<float>",
        "file": "sub/sums.cu",
        "line": 12,
        "message": "blocks at work: 2",
        "count": 1,
    }
    found = re.match(pattern["regexp"], sanitize._format_finding(finding).splitlines()[0])
    names = {name: found[group] for name, group in pattern.items() if name != "regexp"}
    assert names == {
        "code": "race between blocks",
        "file": "sums.cu",
        "line": "12",
        "message": "blocks at work: 2",
    }
