"""The form of the code, where neither ruff nor import-linter has a rule for it."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.core("what `make lint` checks, too, in a second")

ROOT = Path(__file__).resolve().parent.parent
# Not the tests: each is read by itself, and half of the long files are tables of cases.
FOLDERS = (
    "engine/hostcuda",
    "benchmarks",
    "labkit",
    "recording",
    "playground/labkit_playground",
    "classroom/labkit_classroom",
)
MOST_LINES = 700


def list_long_modules(root):
    """Return the modules below a folder that have more lines than one can read in one sitting."""
    lengths = {path: path.read_bytes().count(b"\n") for path in sorted(root.rglob("*.py"))}
    return [f"{path}: {lines} lines" for path, lines in lengths.items() if lines > MOST_LINES]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_module_can_be_read_in_one_sitting(folder):
    assert [*(ROOT / folder).glob("**/*.py")]
    assert not list_long_modules(ROOT / folder), "split them, by what their parts are for"


def test_a_long_module_is_found(tmp_path):
    (tmp_path / "short.py").write_text("1\n" * MOST_LINES)
    (tmp_path / "long.py").write_text("1\n" * (MOST_LINES + 1))
    assert list_long_modules(tmp_path) == [f"{tmp_path / 'long.py'}: 701 lines"]
