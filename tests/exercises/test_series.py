"""Every exercise of the series: the start misses the goal, the solution meets it, wrong answers get their sentences."""

import random
import re

import pytest

import labkit as lab
from hostcuda import untrusted
from labkit.base.errors import LabError
from labkit.exercises.exercise import exercise, exercises
from labkit.exercises.grade import grade
from labkit.exercises.subjects import Numbers
from labkit.exercises.trial import SOLUTION, list_trials
from labkit.networks.lenet28 import Lenet28
from labkit.notebooks import execute

pytestmark = pytest.mark.thorough("every exercise: minutes; the notebooks grade a few")

EXERCISES = exercises()
KERNELS = [number for number, asked in EXERCISES.items() if not isinstance(asked.subject, Numbers)]
SENTENCES = {
    number: " ".join(
        mistake.sentence for mistake in asked.mistakes if isinstance(mistake.sentence, str)
    )
    for number, asked in EXERCISES.items()
}
TRIALS = [(number, trial) for number, asked in EXERCISES.items() for trial in list_trials(asked)]
OTHERS = pytest.mark.exhaustive("every attempt: minutes")


def list_parameters():
    """Return the trials; all but the solutions and a cheat of each exercise, a drawn one, are marked.

    The pages grade the starting code.
    """
    cheats = {
        number: [trial for of, trial in TRIALS if of == number and trial.is_cheat]
        for number in EXERCISES
    }
    drawn = {number: random.Random(number).choice(trials) for number, trials in cheats.items()}
    return [
        pytest.param(
            trial,
            id=f"{number} {trial.about}",
            marks=() if trial.about == SOLUTION or trial is drawn[number] else OTHERS,
        )
        for number, trial in TRIALS
    ]


@pytest.mark.parametrize("trial", list_parameters())
def test_the_grader_answers_as_it_should(trial):
    assert trial.find_problem() == ""


# Other right answers, as edits of the solution.
RIGHT = [
    (
        "00a",
        (
            "int i = blockIdx.x * blockDim.x + threadIdx.x;",
            "int i = threadIdx.x * gridDim.x + blockIdx.x;",
        ),
    ),
    ("00b", ("j * gridDim.x * blockDim.x + thread", "thread / 32 * 128 + j * 32 + thread % 32")),
    ("01b", ("float sum", "double sum")),
    ("03b", ("if (down) y[", "y[")),
    ("04a", ("[TILE + 32]", "[48]")),
    (
        "06a",
        (
            "int c = threadIdx.y / (K * K), p = threadIdx.y / K % K, q = threadIdx.y % K;",
            "int c = 0, p = 0, q = threadIdx.y;\n    while (q >= K) { q -= K; if (++p == K) { p = 0; ++c; } }",
        ),
    ),
    ("P1b", ("[32][33]", "[32][35]")),
    ("P2a", ("atomicAdd(&bins[pixels[i]], 1)", "atomicAdd(bins + pixels[i], 1u)")),
    (
        "P4a",
        ("before = i >= apart ? part[i - apart] : 0;", "before = i < apart ? 0 : part[i - apart];"),
    ),
    ("P5b", ("y[i] = mine[i] / sum", "y[i] = mine[i] * (1 / sum)")),
]


@pytest.mark.parametrize(("number", "edit"), RIGHT, ids=[number for number, _ in RIGHT])
def test_another_right_answer_gets_no_sentence_for_a_mistake(number, edit):
    source = EXERCISES[number].solution.replace(*edit)
    assert source != EXERCISES[number].solution
    graded = grade(number, source, quiet=True, record=False)
    assert graded.passed and not graded.mistake, graded


@pytest.fixture(scope="module")
def grades():
    """Return the printed grades by exercise.

    They are of the starting code; nbval grades it again and compares.
    """
    grade_lines = {}
    for path in execute.list_notebooks(""):
        for cell in execute.read(path).nb.cells:
            if match := re.match(r'lab\.grade\("(\w+)"', cell.source):
                assert "nbval-ignore-output" not in cell.metadata.get("tags", [])
                grade_lines[match[1]] = "".join(output.text for output in cell.outputs).splitlines()
    return grade_lines


# there it is empty
@pytest.mark.parametrize("number", [number for number in KERNELS if not number.startswith("P")])
def test_the_starting_code_misses_the_goal(number, grades):
    """It is right and clean, but it does not meet the goal; 11c's adds one product of three, and 11d's races."""
    verdict, clean, right, *others = grades[number]
    assert verdict == f"{number} {EXERCISES[number].title}: goal missed: this is the starting code"
    if number == "11d":
        assert clean.startswith("✗ clean under memcheck, ") and right.startswith("  race, ")
        return
    assert clean.startswith("✓ clean under memcheck, ")
    if number == "11c":
        assert right.startswith("✗ right")
        return
    assert right.startswith("✓ right on ")
    goals = others[-len(EXERCISES[number].goals) :]
    assert any(line.startswith("✗ ") for line in goals) and all(
        line[:2] in ("✓ ", "✗ ") for line in goals
    )
    # what the grade of a later attempt says of the starting code
    reaches = EXERCISES[number].start_reaches
    assert len(reaches) in (0, len(goals))
    for line, goal, number_reached in zip(goals, EXERCISES[number].goals, reaches, strict=False):
        if number_reached is not None:
            assert f": {goal.describe(number_reached)}, wanted" in line


@pytest.mark.parametrize("number", KERNELS)
def test_a_sandbox_takes_both(number):
    for source in (EXERCISES[number].start, EXERCISES[number].solution):
        untrusted.refuse(source, EXERCISES[number].subject.headers)


@pytest.mark.parametrize("number", EXERCISES)
def test_it_has_hints_a_countable_goal_and_wrong_answers(number):
    asked = EXERCISES[number]
    assert len(asked.hints) >= 2
    assert asked.goals
    assert len([trial for of, trial in TRIALS if of == number]) >= 2 + (
        3 if number.startswith("P") else 5
    ), "too few"
    assert asked.lines or number not in KERNELS or number.startswith("P")


@pytest.mark.parametrize("number", EXERCISES)
def test_a_cheat_says_which_number_stops_it(number):
    """`test_the_grader_answers_as_it_should` tries it."""
    cheats = [trial for of, trial in TRIALS if of == number and trial.is_cheat]
    # what the work takes ends with these
    limit = re.compile(r"✗|not counted|(and )?(at most|at least|no) ")
    # a sentence with the attempt's numbers is composed there
    sentences = SENTENCES[number] + (EXERCISES[number].folder / "exercise.py").read_text()
    assert cheats and all(limit.match(trial.says) or trial.says in sentences for trial in cheats)


@pytest.mark.parametrize(
    ("number", "values", "says"),
    [
        ("11a", (0, 3), "0 is no number of products"),
        ("11a", (17, 3), "17 is no number of products; it is an integer from 1 to 16"),
        ("11a", (True, 3), "True is no number of products"),
        ("11a", (2.5, 3), "2.5 is no number of products"),
        ("11a", (10**5000, 3), "this number is no number of products"),
        ("11b", (17, -1), "-1 is no exponent"),
        ("11b", (17, 60), "60 is no exponent; it is an integer from 0 to 59"),
        ("12a", ("seven", 3), "'seven' is no number of chunks"),
        ("12a", (7, 0), "0 is no number of chunks of layer 1 of lenet72"),
        ("12b", ((-100, 10_100),), "a chunk of -100 images"),
        ("12b", ((),), "a chunk of 0 images"),
        ("12b", ("many",), "a chunk of 'm' images"),
        ("12b", (10**5000,), "this number is no number of images"),
        ("12b", ((10**5000, 1),), "the 2 chunks have far too many images in total"),
        ("12b", ([[10**5000]],), "a chunk of this number images"),
        ("13b", (4, 72), "4 is no side in pixels"),
        ("13b", (48,), "the answer is half, float; this has 1 value"),
        ("13b", (50.5, 76), "50.5 is no side in pixels"),
        ("13c", (True,), "True is no number of images"),
        ("13c", (10_001,), "it is an integer from 1 to 10,000"),
        ("14b", (None,), "the rate is a number"),
        ("14b", (float("nan"),), "the rate is a number"),
        ("14b", (10**5000,), "the rate is a number up to 1e\\+30, such as 0.2, not this number"),
        ("14b", (0.1, 0.2), "the answer is rate; this has 2 values"),
        ("15a", (1, 10**5000), "this number is no share of the roof"),
        ("16a", (256, 1, 2, 10**5000), "this number is no checksum"),
        (
            "16a",
            (256, 1, 2),
            "the answer is inputs, checksum_1, checksum_2, checksum_3; this has 3 values",
        ),
    ],
)
def test_what_is_no_answer_is_refused_in_one_sentence(number, values, says):
    with pytest.raises(LabError, match=says) as refused:
        grade(number, *values, quiet=True, record=False)
    assert "\n" not in str(refused.value)


def test_14a_begins_with_the_kernel_of_atomics():
    with Lenet28("atomics") as atomics:
        assert exercise("14a").start.endswith(atomics.source("bp_weight_c1").source)


def test_the_solution_of_14a_trains_lenet28():
    with Lenet28("atomics", own=lab.solution("14a").source) as mine:
        lab.check(mine, quiet=True)


def test_other_parameters_of_a_kernel_are_refused():
    source = exercise("14a").solution.replace("Weights *gradient, int)", "Weights *gradient)")
    assert "bp_weight_c1" in str(grade("14a", source, quiet=True, record=False))
