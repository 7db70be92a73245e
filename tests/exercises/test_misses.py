"""What a grade says of a right kernel that misses a goal: the lines in which the goal's number is counted."""

import math
from dataclasses import replace

import pytest

from labkit.exercises.exercise import SOURCE, exercise
from labkit.exercises.grade import grade
from labkit.exercises.judge import code_lines
from labkit.exercises.misses import explain_miss
from labkit.exercises.text import count_features

pytestmark = pytest.mark.core("what a reader sees after each attempt that misses a goal")

TILING = exercise("04a")


def explain(number, *edits):
    """Return what the grade says of an exercise's starting code with edits."""
    source = exercise(number).start
    for before, after in edits:
        assert source.count(before) == 1
        source = source.replace(before, after)
    return grade(number, source, quiet=True, record=False).place


def test_the_line_that_makes_the_number_is_named():
    """A row of 24 words: the warp's two rows still share banks."""
    text = explain("04a", ("[SIDE][SIDE]", "[SIDE][SIDE + int(2.0)]"))
    lines = TILING.start.splitlines()
    line = next(number for number, line in enumerate(lines, 1) if "sum += tile" in line)
    assert f"Line {line} makes all 78,400 shared load wavefronts of layer 1 (2 per load" in text
    assert "your change does not alter it" in text


def test_a_limit_that_is_not_kept_to_is_named_with_the_attempts_number():
    text = explain(
        "04a",
        (
            "tile[threadIdx.y + p][threadIdx.x + q] *",
            "x[(c * H + (h + p) % H) * W + (w + q) % W] *",
        ),
    )
    assert text.startswith(
        "The work takes at least 19,600 shared load instructions; your kernel makes none."
    )


def test_a_line_of_the_reader_that_is_not_as_in_the_solution_is_named():
    source = TILING.solution.replace("[TILE + 32]", "[TILE + 31]")
    text = explain_miss(TILING, source, [], {}, [1.5])
    line = 1 + next(
        place for place, line in enumerate(source.splitlines()) if "[TILE + 31]" in line
    )
    assert text.endswith(f"Only line {line} is not as in a solution.")


@pytest.mark.parametrize(
    ("start", "number", "says"),
    [(2, 2, "does not alter"), (2, 3, "worse"), (2, 1.5, ""), (None, 2, ""), (2, math.inf, "")],
)
def test_a_number_is_compared_with_the_starting_codes(start, number, says):
    compared = replace(TILING, start_reaches=(start,), goals=(replace(TILING.goals[0], bounds=()),))
    text = explain_miss(compared, "int other;", [], {}, [number])
    assert (says in text) if says else text == ""


def test_of_an_exact_number_the_nearer_one_is_the_better():
    turned = replace(exercise("02a"), start_reaches=(1,))
    assert "worse" not in explain_miss(turned, "int other;", [], {}, [3])
    assert "worse" in explain_miss(turned, "int other;", [], {}, [14])


def test_lines_of_divisions_in_loops_are_named():
    asked = exercise("06a")
    code = "void f() {\n    for (;;) {\n        a = b / c;\n    }\n    a = b / c;\n}\n"
    counts = {SOURCE: count_features(code)}
    assert explain_miss(asked, code, [], counts, [1.0]) == "Counted is line 3."


def test_a_goal_that_is_met_is_passed_over():
    assert explain_miss(TILING, TILING.solution, [], {}, [1.0]) == ""
    assert code_lines(TILING.solution) != code_lines(TILING.start)
