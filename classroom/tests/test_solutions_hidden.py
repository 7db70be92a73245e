"""The sandbox with the lab in it: no kernel finds a solution there."""

from __future__ import annotations

import sys

import pytest

from labkit.base.paths import PACKAGE
from labkit.exercises.exercise import exercise, hand_over
from labkit_classroom import sandbox

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())
SAXPY = PACKAGE.parent / "tests" / "exercises" / "own" / "saxpy"


def python(program, scratch):
    return sandbox.run([sys.executable, "-I", "-c", program], scratch)


@needs_sandbox
@pytest.mark.parametrize(
    "asked", [exercise("04a"), exercise(SAXPY)], ids=lambda asked: asked.number
)
def test_it_gets_no_solution(tmp_path, asked):
    hand_over(asked, asked.start, tmp_path)
    names = {path.name for path in (tmp_path / "exercise").iterdir()}
    assert "exercise.py" in names and not names & {"wrong.toml", asked.file.name}
    assert (
        python(f"import os; print(os.path.exists({str(asked.folder)!r}))", tmp_path).stdout
        == "False\n"
    )
