"""Mistakes of host code, each told with its line: calls that fail, and what nvcc or g++ warns of."""

import re
from pathlib import Path

import pytest

from hostcuda import processes
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough(
    "mistakes of host code: two runtimes and headers are compiled, half a minute"
)
PROGRAM = Path(__file__).parents[1] / "programs" / "mistakes.cu"
TOLD = {
    number: found[1]
    for number, line in enumerate(PROGRAM.read_text().splitlines(), 1)
    if (found := re.search(r"// told: (.*)", line))
}


@pytest.fixture(scope="module")
def sanitized():
    """Return the events of `hostcuda sanitize`: line -> messages."""
    found = sanitize_script(str(PROGRAM), engine="cpu", capture=True)
    assert found.outcome[0] == "refused" and found.table.empty and not found.ended.status, found
    lines = {}
    for event in found.events:
        assert event["file"] == str(PROGRAM), event
        lines.setdefault(event["line"], []).append(event["message"])
    return lines


@pytest.mark.parametrize("line", TOLD)
def test_the_mistake_is_told_with_its_line(line, sanitized):
    assert TOLD[line] in "\n".join(sanitized.get(line, [])), sanitized


def test_nothing_is_said_of_other_lines(sanitized):
    assert len(TOLD) >= 30 and sanitized.keys() == TOLD.keys()


def test_run_says_the_lines_too(monkeypatch):
    monkeypatch.setenv("HOSTCUDA_WARNINGS", "1")
    ended = processes.run(
        processes.program(str(PROGRAM), [], "cpu"), {"HOSTCUDA_ENGINE": "cpu"}, capture=True
    )
    found = re.findall(
        rf"{re.escape(str(PROGRAM))}:(\d+)(?::\d+: warning|: warning|\)$)",
        ended.output,
        re.MULTILINE,
    )
    assert set(map(int, found)) == TOLD.keys()
    first = next(line for line, text in TOLD.items() if "out of memory" in text)
    assert re.search(rf"although this failed: .*:{first}\)$", ended.output.strip().splitlines()[-1])
