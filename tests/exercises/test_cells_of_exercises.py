"""The notebooks pose the exercises as the grader knows them: two per number, each with its starting code."""

import re

import nbformat
import pytest

from labkit.base.paths import cuda_src
from labkit.exercises.exercise import exercises
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.ladder.source import view, with_functions
from labkit.ladder.variants import variant
from labkit.notebooks import execute

pytestmark = pytest.mark.thorough("every exercise: minutes; the notebooks grade a few")

EXERCISES = exercises()
OWN_START = set()  # starting code that is written for the exercise, not a kernel of the ladder
PAGES = [*execute.series(), *execute.practice()]
_CELL = re.compile(r"%%(kernel|cuda) ([^\n]*?)--exercise +((?:\d\d|P\d)[a-z])\b([^\n]*)\n(.*)", re.S)
_GRADED = re.compile(r'lab\.grade\("((?:\d\d|P\d)[a-z])"')


def sources(path, kind):
    return [cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind]


def cells(path):
    """Yield the cells with starting code: the magic, its arguments, the exercise and the code."""
    for source in sources(path, "code"):
        if match := _CELL.match(source):
            magic, before, number, after, code = match.groups()
            yield magic, before + after, number, code


@pytest.mark.parametrize("page", sorted({path.stem[:2] for path in PAGES}))
def test_the_pages_of_a_number_pose_and_grade_its_two_exercises(page):
    asked = [page + letter for letter in "ab"]
    paths = [path for path in PAGES if path.stem[:2] == page]
    text = "\n".join(source for path in paths for source in sources(path, "markdown"))
    code = [source for path in paths for source in sources(path, "code")]
    assert sorted(re.findall(r"^\*\*((?:\d\d|P\d)[a-z])\b", text, re.M)) == asked
    assert [number for source in code for number in _GRADED.findall(source)] == asked
    assert [number for path in paths for *_, number, _ in cells(path)] == [
        number for number in asked if not isinstance(EXERCISES[number].subject, Numbers)
    ]


@pytest.mark.parametrize("path", execute.everything(), ids=lambda path: path.stem)
def test_a_cell_has_the_starting_code(path):
    for magic, arguments, number, code in cells(path):
        asked = EXERCISES[number]
        if "--part" in arguments.split():
            code = with_functions(asked.start, code)
        assert code.rstrip("\n") == asked.start.rstrip("\n"), f"the cell of {number} differs from {asked.file.name}"
        assert magic == ("kernel" if isinstance(asked.subject, InPlaceOf) else "cuda")
        graded = re.search(rf'lab\.grade\("{number}", (\w+)\)', "\n".join(sources(path, "code")))
        assert graded and graded[1] in arguments.split()


@pytest.mark.parametrize("number", sorted(number for number, asked in EXERCISES.items() if asked.start))
def test_the_starting_code_of_a_rungs_exercise_is_a_kernel_of_the_ladder(number):
    files = [*cuda_src().glob("[0-9][0-9]_*.cu"), *cuda_src().glob("steps/*/*.cu")]
    starts = {view(path.read_text(encoding="utf-8"), skeleton=True) for path in files}
    of_a_rung = isinstance(EXERCISES[number].subject, InPlaceOf) and number not in OWN_START
    assert (EXERCISES[number].start in starts) == of_a_rung


@pytest.mark.parametrize("number", [number for number in EXERCISES if "04" <= number[:2] <= "07"])
def test_it_begins_with_the_kernel_of_its_page(number):
    """It is the rung's kernel or that of its step, without the comment at the top."""
    asked = EXERCISES[number]
    assert asked.start == view(variant(asked.subject.name, **asked.subject.options).source, skeleton=True)
