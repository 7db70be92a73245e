"""The markers in README.md between which scripts write."""

import runpy
from pathlib import Path

import pytest

import labkit
from labkit.errors import LabError

ROOT = Path(labkit.__file__).resolve().parent.parent
put = runpy.run_path(str(ROOT / "scripts" / "readme.py"))["put"]
PAGE = "before\n<!-- a:begin -->\nold\n<!-- a:end -->\nbetween\n<!-- b:begin -->\n<!-- b:end -->\nafter\n"


def test_only_what_is_between_the_markers_changes(tmp_path):
    path = tmp_path / "README.md"
    path.write_text(PAGE)
    assert put("b", "| \\1 | new |\n", path)
    assert path.read_text() == PAGE.replace("<!-- b:begin -->\n", "<!-- b:begin -->\n| \\1 | new |\n")
    assert not put("b", "| \\1 | new |", path)
    assert put("a", "", path)
    assert "old" not in path.read_text()


@pytest.mark.parametrize("page", [
    "nothing", "<!-- a:begin -->", "<!-- a:end -->\n<!-- a:begin -->", PAGE.split("between")[0] * 2,
])  # fmt: skip
def test_markers_that_do_not_pair_are_refused(tmp_path, page):
    path = tmp_path / "README.md"
    path.write_text(page)
    with pytest.raises(LabError, match="a:begin"):
        put("a", "new", path)
    assert path.read_text() == page
