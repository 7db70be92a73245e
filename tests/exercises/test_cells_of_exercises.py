"""The notebooks pose the exercises as the grader knows them, each with its starting code."""

import re

import nbformat
import pytest
from kernels import KERNELS, SOLUTIONS

import labkit
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import exercises
from labkit.exercises.judge import code_lines
from labkit.exercises.subjects import LAYERS, InPlaceOf, Numbers
from labkit.ladder.source import select_view, with_functions
from labkit.ladder.variants import variant, variants
from labkit.notebooks import execute

pytestmark = pytest.mark.thorough("every exercise: minutes; the notebooks grade a few")

EXERCISES = exercises()
OWN_START = {"10a"}  # starting code that is written for the exercise, not a kernel of the ladder
PAGES = execute.list_notebooks("", execute.PRACTICE)
BEYOND = ("15", "16")  # of tools and other people's kernels: with one exercise, answered by numbers
_CELL = re.compile(
    r"%%(kernel|cuda) ([^\n]*?)--exercise +((?:\d\d|P\d+)[a-z])\b([^\n]*)\n(.*)", re.S
)
_GRADED = re.compile(r'lab\.grade\("((?:\d\d|P\d+)[a-z])"')


def number_of(path):
    """Return the number of a page by its file: "04", "P10"."""
    return path.stem.partition("_")[0]


def sources(path, kind):
    """Return the texts of a notebook's cells of a kind, "code" or "markdown"."""
    return [
        cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == kind
    ]


def cells(path):
    """Yield the cells with starting code: the magic, its arguments, the exercise and the code."""
    for source in sources(path, "code"):
        if match := _CELL.match(source):
            magic, before, number, after, code = match.groups()
            yield magic, before + after, number, code


@pytest.mark.parametrize("page", sorted({number_of(path) for path in PAGES}))
def test_the_pages_of_a_number_pose_and_grade_its_exercises(page):
    asked = sorted(number for number in EXERCISES if number[:-1] == page)
    assert len(asked) >= (1 if page in BEYOND else 2)
    paths = [path for path in PAGES if number_of(path) == page]
    text = "\n".join(source for path in paths for source in sources(path, "markdown"))
    code = [source for path in paths for source in sources(path, "code")]
    introduced = re.findall(r"^\*\*((?:\d\d|P\d+)[a-z])\b", text, re.M)
    assert sorted(introduced) == asked  # the one that gains may come first
    assert [number for source in code for number in _GRADED.findall(source)] == introduced
    assert [number for path in paths for *_, number, _ in cells(path)] == [
        number for number in introduced if not isinstance(EXERCISES[number].subject, Numbers)
    ]


@pytest.mark.parametrize("page", BEYOND)
def test_a_page_beyond_the_lab_asks_for_predictions_and_compares_them(page):
    (path,) = (path for path in PAGES if number_of(path) == page)
    code = "\n".join(sources(path, "code"))
    guesses = re.findall(r"^(\w+) = lab\.predict\(", code, re.M)
    assert len(guesses) >= 2 and sorted(re.findall(r"^(\w+)\.against\(", code, re.M)) == sorted(
        guesses
    )


@pytest.mark.parametrize("path", execute.list_notebooks(), ids=lambda path: path.stem)
def test_a_cell_has_the_starting_code_and_a_file_with_its_text_is_an_attempt(path, tmp_path):
    for magic, arguments, number, code in cells(path):
        asked = EXERCISES[number]
        (tmp_path / f"{number}.cu").write_text(code)
        assert asked.attempt(tmp_path / f"{number}.cu").rstrip("\n") == asked.start.rstrip("\n")
        if "--part" in arguments.split():
            code = with_functions(asked.start, code)
        assert code.rstrip("\n") == asked.start.rstrip("\n"), (
            f"the cell of {number} differs from {asked.file.name}"
        )
        assert magic == ("kernel" if isinstance(asked.subject, InPlaceOf) else "cuda")
        graded = re.search(rf'lab\.grade\("{number}", (\w+)\)', "\n".join(sources(path, "code")))
        assert graded and graded[1] in arguments.split()


@pytest.mark.parametrize(
    "number", sorted(number for number, asked in EXERCISES.items() if asked.start)
)
def test_the_starting_code_of_a_rungs_exercise_is_a_kernel_of_the_ladder(number):
    files = [*cuda_src().glob("[0-9][0-9]_*.cu"), *cuda_src().glob("steps/*/*.cu")]
    starts = {select_view(path.read_text(encoding="utf-8"), skeleton=True) for path in files}
    of_a_rung = isinstance(EXERCISES[number].subject, InPlaceOf) and number not in OWN_START
    assert (EXERCISES[number].start in starts) == of_a_rung


@pytest.mark.parametrize(
    "number",
    [number for number, asked in EXERCISES.items() if "04" <= number[:2] <= "07" and asked.start],
)
def test_it_begins_with_the_kernel_of_its_page(number):
    """It is the rung's kernel or that of its step, without the comment at the top."""
    asked = EXERCISES[number]
    assert asked.start == select_view(
        variant(asked.subject.name, **asked.subject.options).source, skeleton=True
    )


_TIMES = re.compile(r"([\d.]+) (?:ms )?in place of ([\d.]+) on (layer \d)")
_NOT_FASTER = re.compile(r"This will (not|hardly) be faster: find out why\.\*\*")


def _recorded_ms(code, layer, rung):
    """Return the recorded op time of the kernel that has this code: one of the rung's, as in the grade, or another."""
    recorded = labkit.recorded("H200")
    measured = {*recorded.table["label"]}
    kernels = (*variants(rung), *SOLUTIONS, *KERNELS)
    same = [kernel for kernel in kernels if code_lines(kernel.source) == code_lines(code)]
    return recorded.op_ms(next(kernel for kernel in same if kernel.label in measured), layer)


@pytest.mark.parametrize("page", [f"{number:02}" for number in range(1, 8)])
def test_an_exercise_of_part_1_gains_or_says_that_it_does_not(page):
    """The times in its text are the recorded ones; at least one exercise of a number gains more than a tenth."""
    text = "\n\n".join(
        source for path in PAGES if number_of(path) == page for source in sources(path, "markdown")
    )
    gains = []
    for number in (page + "a", page + "b"):
        asked, introduced = EXERCISES[number], re.search(rf"^\*\*{number} .*", text, re.M)[0]
        for after, before, layer in (times := _TIMES.findall(introduced)):
            ms = [
                _recorded_ms(code, LAYERS[layer], asked.subject.name)
                for code in (asked.solution, asked.start)
            ]
            assert [after, before] == [f"{time:#.3g}" for time in ms]
        gains.append(max(float(before) / float(after) for after, before, _ in times))
        warned = _NOT_FASTER.search(introduced)
        assert (warned is not None) == (gains[-1] < 1.05), (
            f"{number} is {gains[-1]:.2f} times as fast"
        )
        assert not warned or warned[1] == "not" or gains[-1] > 1, f"{number} is slower"
    assert max(gains) > 1.1
