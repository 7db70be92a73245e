"""Files that cannot be attempts, submissions or results: one sentence says what is wrong and what to do."""


import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

import labkit as lab
from labkit.base.errors import LabError
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade
from labkit_classroom import grading
from labkit_classroom.submissions import Submission, submissions

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

START = exercise("04a").start
SECOND = '\nextern "C" __global__ void second(float *y) {}\n'


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        pytest.param("import os\nprint(os.name)\n", r"has to define conv; it defines no __global__ void function",
                     id="no CUDA"),
        pytest.param(START.replace("void conv(", "void mine(") + SECOND,
                     r"has to define conv; it defines mine, second", id="two kernels of other names"),
        pytest.param("", r"an attempt is a kernel cell's variant or module, a \.cu file or its text", id="nothing"),
        pytest.param("mine.cu", r"there is no kernel file mine\.cu; give the path", id="no such file"),
        pytest.param(START + "//\n" * 1000, r"this has 1,0\d\d lines and [\d,]+ characters: an attempt may have 1,000",
                     id="endless text"),
        pytest.param(3.5, r"an attempt is .* not 3\.5", id="a number"),
    ],
)
def test_what_is_no_attempt_is_refused_before_it_runs(attempt, says):
    with pytest.raises(LabError, match=says) as refused:
        grade("04a", attempt, record=False)
    assert len(str(refused.value).splitlines()) == 1


def test_two_attempts_are_refused():
    with pytest.raises(LabError, match=r'is answered by one kernel: grade\("04a", mine\)'):
        grade("04a", START, START)


def test_a_kernel_of_another_rung_is_refused():
    with pytest.raises(LabError, match="this is 03 registers, but the exercise asks for 04 tiling"):
        grade("04a", lab.variant(3))


@pytest.mark.parametrize("number", ["99z", "04", 4, "", "04ab", None])
def test_an_exercise_that_does_not_exist_gets_the_list(number):
    with pytest.raises(LabError, match=r"there is no exercise .*; there are .*04a"):
        grade(number, START)


def test_a_submission_that_is_no_attempt_gets_its_sentence(tmp_path):
    handed_in = [Submission("alice", "04a", "print('no CUDA')\n"), Submission("bob", "04a", "")]
    results = [grading._grade(submission, unsafe=False) for submission in handed_in]
    assert not any(result.passed for result in results)
    assert "has to define conv" in results[0].verdict
    assert "an attempt is a kernel cell's variant or module" in results[1].verdict


def test_cells_that_ran_out_of_order_are_read_from_top_to_bottom(tmp_path):
    head = "%%kernel 04 --exercise 04a\n"
    cells = [new_code_cell(head + "// the first", execution_count=9), new_code_cell(head + "// the last")]
    cells[1].execution_count = 2
    nbformat.write(new_notebook(cells=cells), tmp_path / "alice.ipynb")
    (entry,) = submissions([tmp_path])
    assert entry.answer.endswith("// the last")
