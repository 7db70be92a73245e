"""The grader's answers: its lines for any attempt, the hints, and the reader's progress."""

import json
import math
import pickle
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import hostcuda
import labkit
from hostcuda import processes
from labkit.base.errors import LabError
from labkit.base.paths import natural_key
from labkit.exercises import attempts, progress
from labkit.exercises import exercise as exercise_module
from labkit.exercises.attempts import write_job
from labkit.exercises.exercise import (
    Attempt,
    Exercise,
    Goal,
    Mistake,
    counted,
    exercise,
    exercises,
    format_number,
    hand_over,
    receive,
)
from labkit.exercises.grade import (
    Grade,
    GradeLine,
    _note_first_line,
    _require_prediction,
    _write_advice,
    describe_times,
    grade,
)
from labkit.exercises.judge import (
    _LOOK,
    BUDGET,
    ChildResult,
    _list_kinds,
    find_mistake,
    list_goal_lines,
)
from labkit.exercises.subjects import Before, Numbers

pytestmark = pytest.mark.thorough("every exercise: minutes; the notebooks grade a few")

TILING = exercise("04a")
SUM = "float sum = 0;"


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))


def answer(source, number="04a"):
    return str(grade(number, source, quiet=True, record=False))


def test_the_starting_code_is_no_attempt():
    """The pages grade it, and nbval compares the answers."""
    assert not grade("04a", labkit.variant(4, source=TILING.start), quiet=True).passed
    assert progress.read() == {}


def test_a_kernel_that_meets_the_goal_is_noted(capsys):
    assert grade("04a", TILING.solution.replace("[TILE + 32]", "[48]")).passed
    assert "goal met" in capsys.readouterr().out
    assert progress.read()["04a"]["met"]
    assert "Exercises: 1 of" in progress.progress()._repr_html_()


@pytest.mark.parametrize("number", ["00a", "12a"])
def test_a_solution_that_was_shown_is_not_the_readers(number):
    solution = labkit.solution(number)
    graded = grade(number, *(solution if isinstance(solution, tuple) else [solution]), quiet=True)
    assert graded.passed and graded.advice.startswith("This is the lab's own solution")
    assert progress.read() == {}


@pytest.mark.parametrize(("number", "right"), [("01a", 8), ("02a", 7)])
def test_a_number_that_the_page_lets_one_predict_has_to_be_predicted(number, right, monkeypatch):
    asked = exercise(number)
    name = asked.goals[0].predicted
    monkeypatch.setattr(progress, "predicted", {})
    met = Grade(asked, (GradeLine(True, "right"), GradeLine(True, "counted")), (right,))
    assert _require_prediction(
        met
    ).passed  # nothing was asked: as in a class, where only kernels are handed in
    for guess, says in (
        (..., "not shown yet"),
        (right + 1, f"{right}, and you predicted {right + 1}"),
    ):
        labkit.predict(**{name: guess})
        missed = _require_prediction(met)
        assert (
            missed.verdict == "goal missed"
            and says in str(missed)
            and f"lab.predict({name}=...)" in missed.mistake
        )
        assert not missed.wants_hint
    labkit.predict(**{name: right})
    assert _require_prediction(met) == met


def test_a_met_goal_gets_no_sentence_for_a_mistake():
    asked = Exercise("x", None, mistakes=(Mistake("always", lambda attempt: True),))
    for lines, says in (
        ([GradeLine(True, "a")], ""),
        ([GradeLine(True, "a"), GradeLine(False, "b", BUDGET)], ""),
        ([GradeLine(True, "a"), GradeLine(False, "b")], "always"),
    ):
        assert find_mistake(replace(asked, folder=TILING.folder), Attempt("code"), lines) == says


def test_each_new_miss_unlocks_a_hint():
    missed = Grade(TILING, (GradeLine(False, "wavefronts"),))
    hints = [
        _write_advice(missed, source, record=True)
        for source in ("first", "first", "second", "third", "fourth")
    ]
    expected = [0, 0, 1, 2, 2]
    for hint, at in zip(hints, expected, strict=True):
        assert hint.startswith(f"Hint {at + 1} of 3: {TILING.hints[at]}")
    assert "lab.solution" in hints[-1] and "lab.solution" not in hints[0]


@pytest.mark.parametrize("number", ["00a", "01b", "14a", "P5b"])
def test_each_seed_draws_other_inputs_and_the_same_seed_the_same(number):
    def drawn(seed):
        """Return what a seed draws: the cases, and their inputs as bytes."""
        subject = exercise(number).with_seed(seed).subject
        return [case.what for case in subject.cases], pickle.dumps(
            [*map(subject.inputs, subject.cases)]
        )

    (shapes, inputs), (others, other_inputs) = drawn("one"), drawn("two")
    assert drawn("one") == (shapes, inputs)
    assert inputs != other_inputs and (shapes != others or number == "14a")


@pytest.mark.parametrize("number", ["04a", "P3a"])
def test_the_child_gets_neither_the_seed_nor_what_is_expected(number, tmp_path):
    asked = exercise(number).with_seed("only the judge knows")
    hand_over(asked, asked.start, tmp_path)
    assert not [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and asked.seed.encode() in path.read_bytes()
    ]
    child, _ = receive(tmp_path)
    assert child.subject.cases == asked.subject.cases and child.subject.seed == ""
    sent = pickle.loads((tmp_path / "inputs").read_bytes())
    if number == "P3a":
        outputs = [
            argument
            for launches in sent
            for argument in launches[0].arguments
            if isinstance(argument, Before)
        ]
        # zeros: not yet summed
        assert len(outputs) == len(sent) and not any(output.array.any() for output in outputs)


def test_the_child_takes_no_module_from_the_folder_in_which_it_works(tmp_path, monkeypatch):
    (tmp_path / "numpy.py").write_text("raise SystemExit('taken')")
    monkeypatch.chdir(tmp_path)
    command, environment = write_job(exercise("04a"), exercise("04a").start, tmp_path)
    child = processes.run([*command[:-1], str(tmp_path / "none")], environment, 300, capture=True)
    assert "is no exercise" in child.output and "taken" not in child.output


HEADS = {
    "P1b": "__global__ void transpose(const float *in, float *out, int rows, int columns)\n{\n",
    "P3a": "__global__ void sum(const float *x, int n, float *total)\n{\n",
    "P3b": "__global__ void sum(const float *x, int n, float *total)\n{\n",
    "P2a": "__global__ void histogram(const unsigned char *pixels, int n, unsigned *bins)\n{\n",
    "P4b": "__global__ void scan(const int *x, int *y, int columns)\n{\n",
}
FIRST = "if (blockIdx.x + blockIdx.y + threadIdx.x + threadIdx.y > 0) return;\n"
HERE = """int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
int ox = blockIdx.y * 32 + threadIdx.x, oy = blockIdx.x * 32 + threadIdx.y;
"""
LOAD = "if (x < columns && y < rows) tile[threadIdx.y][threadIdx.x] = in[y * columns + x];\n__syncthreads();\n"
STORE = "if (ox < rows && oy < columns) out[oy * rows + ox] = "
DODGES = {  # the body of a kernel that does not do the work, and a part of the answer
    "a formula in place of loads": (
        "P1b",
        "for (int i = threadIdx.x; i < rows * columns; i += 32) out[i] = i % rows * columns + i / rows;",
        "✗",
    ),
    "the sum by a formula": (
        "P3a",
        FIRST + "float s = 0; for (int i = 0; i < n; ++i) s += i % 13 - 4; total[0] = s;",
        "✗ right",
    ),
    "a sum by one thread": (
        "P3b",
        FIRST + "float s = 0; for (int i = 0; i < n; ++i) s += x[i]; total[0] = s;",
        "✗ load requests, 16,384 numbers: 16,384",
    ),
    "a scan by one thread": (
        "P4b",
        "if (threadIdx.x == 0) for (int i = 0, s = 0; i < columns; ++i) "
        "y[blockIdx.x * columns + i] = s += x[blockIdx.x * columns + i];",
        "✗ load requests, 4 rows of 256: 1,024",
    ),
    "atomics for loads of global memory": (
        "P1b",
        HERE + STORE + "atomicAdd((float *)in + ox * columns + oy, 0);",
        "✗ sectors per load, a matrix of 64 x 96: 32",
    ),
    "atomics for stores": (
        "P1b",
        HERE + "if (x < columns && y < rows) atomicExch(out + x * rows + y, in[y * columns + x]);",
        "✗ sectors per store, a matrix of 64 x 96: 3",
    ),
    "atomics for loads of shared memory": (
        "P1b",
        "__shared__ float tile[32][32];\n"
        + HERE
        + LOAD
        + STORE
        + "atomicAdd(&tile[threadIdx.x][threadIdx.y], 0);",
        "✗ bank conflicts, a matrix of 64 x 96: 5",
    ),
    "no conflicts, because there is no tile": (
        "P1b",
        HERE + "if (x < columns && y < rows) out[x * rows + y] = in[y * columns + x];",
        "the work takes at least 96 shared instructions",
    ),
    "many stores of one lane beside the wide ones": (
        "P1b",
        HERE + "if (x < columns && y < rows) { for (int i = 0; i < 20; ++i) if (threadIdx.x == 0) "
        "((volatile float *)out)[x * rows + y] = 0; out[x * rows + y] = in[y * columns + x]; }",
        "✗ sectors per store, a matrix of 64 x 96: 5",
    ),
    "atomics whose old value is used": (
        "P2a",
        "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) "
        "if (atomicAdd(&bins[pixels[i]], 2) < 1234567) atomicSub(&bins[pixels[i]], 1);",
        "✗ atomic requests",
    ),
    "a variable of the worker as shared memory": (
        "P1b",
        "static thread_local float tile[32][33];\n"
        + HERE
        + LOAD
        + STORE
        + "tile[threadIdx.x][threadIdx.y];",
        "no thread_local variables",
    ),
}


@pytest.mark.parametrize("dodge", DODGES)
def test_a_kernel_that_does_not_do_the_work_meets_no_goal_of_it(dodge):
    number, body, says = DODGES[dodge]
    graded = grade(number, f"{HEADS[number]}{body}\n}}\n", quiet=True, record=False)
    assert not graded.passed and says in str(graded), graded


def test_a_kernel_that_knows_the_shapes_of_the_lab_is_not_right():
    others = " && ".join(f"n != {case.what[0]}" for case in exercise("00a").subject.cases)
    source = exercise("00a").solution.replace("{", f"{{ if ({others}) return;", 1)
    assert "✗ right\n  sum, n = " in answer(source, "00a")


WRONG = "right\non {}, B = 2 (integers): 9 of 5780 outputs\nThe first two:\n   b  m  h  w  got\n   {} 2 17  9 -3.5 4\n"


@pytest.mark.parametrize(
    ("number", "image", "says"),
    [
        ("02a", 0, "computes the first of these. Follow it"),
        ("01a", 0, "should store y[0, 2, 17, 9]?"),  # outputs have to change their threads
        ("02b", 0, "should store y[0, 2, 17, 9]?"),
        ("01b", 0, "lab.step(mine, thread=(9, 1), block=(2, 2), layer=lab.Layer("),
        ("05b", 0, ', kernel="gemm")'),
        ("01b", 1, "should store y[1, 2, 17, 9]?"),  # a thread is followed on the first image
        ("07a", 0, "should store y[0, 2, 17, 9]?"),  # its threads have several outputs
    ],
)
def test_wrong_results_without_a_known_cause_name_the_thread_to_follow(number, image, says):
    asked = exercise(number)
    layer = next(
        case.what[0] for case in asked.subject.cases if case.name == "several rows of tiles"
    )
    goals = (GradeLine(None, goal.what) for goal in asked.goals)
    wrong = Grade(asked, (GradeLine(False, WRONG.format(layer, image)), *goals))
    assert says in _write_advice(wrong, "wrong", record=False)


def test_a_second_wrong_result_without_a_known_cause_gets_the_first_hint():
    asked = exercise("00a")
    text = "right\nsum, 50 elements, is wrong: 2 of 50 elements. The first, [3]: 4, expected 3"
    wrong = Grade(
        asked, (GradeLine(False, text), *(GradeLine(None, goal.what) for goal in asked.goals))
    )
    answers = [
        _write_advice(wrong, source, record=True)
        for source in ("first", "first", "second", "third")
    ]
    assert all(
        advice.startswith("Which thread should store element [3], or add to it?")
        for advice in answers
    )
    assert ["Hint" in advice for advice in answers] == [False, False, True, True]
    assert f"\nHint 1 of 3: {asked.hints[0]}" in answers[2] and "\nHint 2 of 3" in answers[3]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1 of 1 elements. The first, [0]: 5, expected 9", "is each input taken exactly once?"),
        (
            "2 of 9 elements. The first, [3]: nan, expected 1",
            "which number is the first that is 0, inf or nan",
        ),
        (
            "2 of 9 elements. The first, [3]: -inf, expected 1",
            "A thread stores -inf to element [3].",
        ),
        (
            "2 of 9 elements. The first, [3]: nan, expected 1\n2 of its elements hold: no thread has stored them",
            "Which thread should store element [3]",
        ),
    ],
)
def test_what_is_asked_about_a_wrong_element(text, says):
    graded = Grade(exercise("P3a"), (GradeLine(False, f"right\nx, 9 numbers, is wrong: {text}"),))
    assert says in graded.thread_advice


def test_each_kind_of_finding_has_advice():
    """Except for shuffles, whose sentence is in `labkit.exercises.text`."""
    runtime = Path(hostcuda.__file__).parent / "runtime"
    files = ("hooks.cpp", "races.cpp", "records.cpp", "allocations.cpp")
    text = "".join((runtime / name).read_text() for name in files)
    kinds = {
        *re.findall(r'report\(\w+(?:\(\))?, "\w+", "([a-z ]+)"', text),
        *re.findall(r'report_place\("([a-z ]+)"|\bf\.kind = "([a-z ]+)"', text),
    }
    kinds = {kind if isinstance(kind, str) else "".join(kind) for kind in kinds}
    assert len(kinds) > 8 and kinds - {*_LOOK} == {"exited lanes"}


def test_what_follows_from_a_divergent_barrier_is_left_out():
    findings = [{"kind": kind} for kind in ("race", "divergent barrier")]
    assert _list_kinds(ChildResult(None, [{"findings": findings}], [])) == ("divergent barrier",)
    assert _list_kinds(ChildResult(None, [{"findings": findings[:1]}], [])) == ("race",)


def test_a_solution_is_compared_with_the_kernel_that_one_began_with(monkeypatch):
    monkeypatch.setattr("labkit.exercises.grade.device", lambda: SimpleNamespace(engine="cpu"))
    assert ": 02 constant, where you began, 12.3 ms; the solution " in describe_times(
        exercise("03a")
    )
    fused = describe_times(exercise("06a"))
    assert ": 06 fusion, where you began, " in fused and "of the page" not in fused
    # a step of the rung
    assert describe_times(exercise("05b")).endswith(", 20.0 ms; the solution 15.6 ms.")
    # two steps of the rung
    assert describe_times(exercise("07a")).endswith(", 10.2 ms; the solution 3.24 ms.")


def test_every_failed_attempt_counts_and_only_some_unlock_a_hint():
    goal = GradeLine(True, "wavefronts")
    wrong = Grade(TILING, (GradeLine(False, "right"), GradeLine(None, "wavefronts")))
    attempts = [
        wrong,
        wrong,
        Grade(TILING, (GradeLine(False, "changed lines", BUDGET), goal)),
        Grade(TILING, (GradeLine(False, "wavefronts"),), mistake="a typical one"),
        Grade(TILING, (goal,)),
    ]
    for attempt in attempts:
        _write_advice(attempt, repr(attempt), record=True)
    # the first two are one and the same
    assert '<td class="figure">3</td>' in progress.progress()._repr_html_()
    missed = Grade(TILING, (GradeLine(False, "wavefronts"),))
    assert _write_advice(missed, "missed", record=True).startswith("Hint 1 of 3")


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ((SUM, SUM + " if (blockIdx.x == 0) *(volatile int *)0 = 1;"), "line"),
        (("if (h < Ho && w < Wo)", "__syncthreads(); if (h < Ho && w < Wo)"), "goal missed"),
        (
            (
                "        __syncthreads();                                    // all threads",
                "        if (threadIdx.x < 8) __syncthreads();               // all threads",
            ),
            "to reach the barrier",
        ),
        (("int M, int)", "int M)"), "a kernel of the ladder has nine"),
        (
            ("__global__\nvoid conv", "__global__\nvoid conv2(float *) {}\n__global__ void conv3"),
            "has to define conv",
        ),
        (
            ("__global__\nvoid conv", "__global__ void f(float *) {}\n__global__\nvoid conv"),
            "has f and conv",
        ),
        (("float sum = 0;", "float sum = 0"), "line 24: error: expected ',' or ';' before 'for'"),
    ],
    ids=[
        "crashes",
        "barrier of all",
        "barrier of some",
        "signature",
        "two others",
        "one too many",
        "no CUDA",
    ],
)
def test_an_answer_in_a_sentence(edit, says):
    source = TILING.start.replace(*edit)
    assert source != TILING.start
    try:
        verdict = answer(source)
    except LabError as error:
        verdict = str(error)
    assert says in verdict


@pytest.mark.parametrize(
    "endless",
    [
        "volatile int *at = (volatile int *)x; while (at[0] != 12345) {}",
        'for (int i = 0; i < 100000; ++i) printf("x");',
    ],
    ids=["waits", "floods printf"],
)
def test_a_kernel_that_does_not_end_is_ended(endless):
    assert "was still running after 20 s" in answer(TILING.start.replace(SUM, f"{SUM} {endless}"))


def test_the_heap_of_kernels_ends_where_its_limit_is():
    """A kernel cannot fill the machine's memory: malloc returns a null pointer at the limit, as on a GPU."""
    allocates = "for (int i = 0; i < 1 << 20; ++i) *(volatile char *)malloc(1 << 16) = 1;"
    assert "null pointer, line 23: writ" in answer(TILING.start.replace(SUM, f"{SUM} {allocates}"))


@pytest.mark.parametrize(
    ("number", "attempts", "says"),
    [
        *(
            (number, [TILING.start], r"there is no exercise .*; there are .*04a")
            for number in ("99z", "04", 4, "", None)
        ),
        ("04a", [], r'is answered by one kernel: grade\("04a", mine\)'),
        ("04a", [TILING.start] * 2, r'is answered by one kernel: grade\("04a", mine\)'),
        (
            "04a",
            [3.5],
            r"an attempt is a kernel cell's variant or module, a \.cu file or its text, not 3\.5",
        ),
        ("04a", [""], "an attempt is a kernel cell's variant or module"),
        ("04a", ["mine.cu"], r"there is no kernel file mine\.cu; give the path"),
        ("04a", ["import os\n"], "has to define conv; it defines no __global__ void function"),
        (
            "04a",
            [TILING.start + "//\n" * 1000],
            r"this has 1,0\d\d lines and [\d,]+ characters: an attempt may have 1,000",
        ),
        ("04a", [labkit.variant(3)], "this is 03 registers, but the exercise asks for 04 tiling"),
    ],
)
def test_what_is_no_exercise_and_no_attempt(number, attempts, says):
    with pytest.raises(LabError, match=says) as refused:
        grade(number, *attempts)
    assert "\n" not in str(refused.value)


def test_a_damaged_file_of_progress_says_what_to_do(tmp_path):
    (tmp_path / "progress.json").write_text("[1, 2]")
    with pytest.raises(LabError, match="is damaged: repair it, or remove it"):
        progress.read()


def test_progress_is_a_plain_file_that_may_be_of_an_earlier_lab(tmp_path):
    file = tmp_path / "progress.json"
    for _ in range(2):
        progress.note("04a", "abc", met=False)
    assert json.loads(file.read_text()) == {
        "04a": {"failed": ["abc"], "hinted": ["abc"], "met": None}
    }
    file.write_text('{"04a": {"failed": ["abc"], "met": null}}')
    assert progress.note("04a", "def", met=False) == 2


def test_goals_in_words_and_numbers():
    goal = counted("stores", "layer 1", per="warps", what="stores per warp", exactly=1)
    assert (goal.what, goal.wanted) == ("stores per warp, layer 1", "exactly 1")
    assert goal.number({"layer 1": {"stores": 800, "warps": 800}}) == 1
    # nothing was counted
    assert not goal.met(goal.number({"layer 1": {"stores": 800, "warps": 0}}))
    nothing = goal.number({"layer 1": {"stores": 0}})
    assert nothing == math.inf and not goal.met(nothing)
    (line,) = list_goal_lines(Exercise("", Numbers(dict), goals=(goal,)), [nothing])
    assert (
        line.ok is False
        and "not counted, because the work takes at least 1 warps, and this code does not; wanted exactly 1"
        in line.text
    )
    above = counted("time", "a", what="time with one chunk fewer", at_least=5)
    (line,) = list_goal_lines(Exercise("", Numbers(dict), goals=(above,)), [math.inf])
    assert (line.ok, line.text) == (
        True,
        "time with one chunk fewer, a: infinite, wanted at least 5",
    )
    much = counted("stores", "layer 1", at_least=2, least={"loads": 5})
    assert [much.met(much.number({"layer 1": {"stores": 9, "loads": n}})) for n in (4, 5)] == [
        False,
        True,
    ]
    tiled = counted(
        "waves", "a", at_most=9, least={"reads": 5}, most={"loads": 20, "lane_turns": 0}
    )
    counts = {"waves": 9, "reads": 5, "loads": 20, "lane_turns": 0}
    for other, reached in (({}, 9), ({"loads": 21}, math.inf), ({"lane_turns": 1}, math.inf)):
        assert tiled.number({"a": counts | other}) == reached
    # a number that misses the goal says more than what else there is too much of
    assert tiled.number({"a": counts | {"waves": 10, "loads": 21}}) == 10
    assert tiled.least == "at least 5 reads, at most 20 loads and no lane turns"
    assert not Goal("x", max, at_most=1).met(float("nan"))
    assert [*map(format_number, (39200.0, 1.05, 0.5312, float("nan")))] == [
        "39,200",
        "1.05",
        "0.531",
        "none",
    ]


def test_exercises_are_in_the_order_of_the_pages():
    assert list(exercises()) == sorted(exercises(), key=natural_key)


def test_what_is_left_of_an_exercise_that_is_gone_is_none(tmp_path, monkeypatch):
    (tmp_path / "05_page" / "b_gone" / "__pycache__").mkdir(parents=True)
    (tmp_path / "05_page" / "b_new").mkdir()
    (tmp_path / "05_page" / "b_new" / "exercise.py").write_text("")
    monkeypatch.setattr(exercise_module, "SERIES", tmp_path)
    assert exercise_module._list_series.__wrapped__() == {"05b": tmp_path / "05_page" / "b_new"}


def test_only_too_many_lines_say_so_and_use_up_no_hint(tmp_path):
    long = TILING.solution.replace(SUM, "float sum;\n    sum = 0;")
    in_one = TILING.solution.replace(SUM, f"float sum; {'sum = 0; ' * 25}sum = 0;")
    indented = long.replace("    sum = 0;", " " * 120 + "sum = 0;")
    assert indented != long
    for source, lines in (
        (long, "3, wanted at most 1\n"),
        (indented, "3, wanted at most 1\n"),
        (in_one, "4, wanted at most 1; a line counts once per 120"),
    ):
        graded = grade("04a", source, quiet=True)
        assert graded.verdict == "goal missed" and f"changed lines: {lines}" in str(graded)
        assert "The goal is met, with more lines than it takes" in str(graded)
        assert "Hint" not in str(graded)


@pytest.mark.parametrize(
    ("number", "old", "new", "says"),
    [
        (
            "P2a",
            "atomicAdd(",
            "if (pixels[i] < 255) atomicAdd(",
            "bin 255 is left out",
        ),
        (
            "P2a",
            "i < n;",
            "i < n - n % 32;",
            "the last 8 of 1,000 pixels are left out (n % 16 is 8 here)",
        ),
        (
            "P3a",
            "half = blockDim.x / 2",
            "half = blockDim.x / 4",
            "only the first warp of each block adds its numbers, or there is no step that adds threads 32 apart",
        ),
        ("P7a", "i += blockDim.x)", "i += end)", "only the first 64 numbers of each row are added"),
        (
            "P8b",
            "pair(b, k + 2 * t + 8, g)",
            "pair(b, k + 2 * t, g)",
            "the first eight of each 16 rows of b stand in place of the last eight, too",
        ),
        ("P8b", "k < K;", "k < 16;", "only the first 16 of the K products are added"),
    ],
)
def test_a_result_tells_what_was_left_out(number, old, new, says):
    solution = exercise(number).solution
    assert solution.count(old) == 1
    told = str(grade(number, solution.replace(old, new), quiet=True, record=False, search=False))
    assert "It looks as if " in told and f"{says}." in told, told


def test_a_second_run_that_does_not_end_takes_the_pass_away(monkeypatch):
    """Without counts, an attempt could behave in another way: then it is judged by that run."""
    asked = exercise("13a")
    runs = []

    def run(tools):
        """Return the result of the right attempt, and for the second run one without its end."""
        result = attempts._run_attempt(asked.with_seed("s"), asked.solution, tools, 60)
        runs.append(tools)
        events = [event for event in result.events if event.get("mark") != "done" or len(runs) == 1]
        return replace(result, events=events)

    assert attempts.judge_runs(asked.with_seed("s"), asked.solution, run).verdict == "not right yet"
    assert runs == [attempts.CHECKS, attempts.WITHOUT_COUNTS]


def test_an_index_outside_of_a_local_array_is_found_where_the_results_are_right():
    asked = exercise("13a")
    beyond = asked.solution.replace("i < 4; ++i", "i <= 4; ++i").replace(
        # the element behind a row changes nothing, whatever is there
        "most = fmaxf(most, sum[row][i]);",
        "most = fmaxf(most, i < 4 ? sum[row][i] : fminf(sum[row][i], sum[row][0]));",
    )
    # it would pass, and it would miss its goal
    for source in (
        beyond,
        beyond.replace("fmaxf(most, __shfl", "fmaxf(__shfl_xor_sync(~0u, most, 0), __shfl"),
    ):
        graded = grade("13a", source, quiet=True, record=False, search=False)
        assert "is outside of a local array, 'float [4]'" in str(graded) and not graded.passed
        assert all(line.ok is None for line in graded.lines[1:])


def test_what_may_be_unset_is_judged_by_its_results():
    solved = TILING.solution
    right = answer(
        solved.replace("float sum = 0;", "float sum; for (int i = 0; i < C; ++i) sum = 0;")
    )
    assert "✓ right on" in right and "✗ changed lines: 2" in right
    wrong = answer(solved.replace("float sum = 0;", "float sum;"))
    assert "✗ right" in wrong and "'sum' may be used uninitialized" in wrong


@pytest.mark.parametrize(
    ("bound", "reached", "text"),
    [
        ({"at_most": 1}, 1.0003, "1.0003"),
        ({"at_least": 0.99}, 0.9899, "0.9899"),
        ({"at_most": 1.25}, 1.3, "1.3"),
        ({"at_most": 1.25}, 1.2501, "1.2501"),
        ({"at_most": 1}, 0.9999, "1"),
        ({"exactly": 12_288}, 12_288, "12,288"),
    ],
)
def test_a_number_that_misses_its_goal_never_looks_like_it(bound, reached, text):
    goal = Goal("a count", lambda counts: 0, **bound)
    assert goal.describe(reached) == text


def test_lines_of_a_part_are_counted_from_the_whole_kernel():
    """A cell with --part: the answer says which line of the kernel the cell begins with, if it names lines."""
    asked = exercise("05b")
    answered = Grade(asked, (GradeLine(False, "right"),), mistake="Line 9 has `<`.")
    source = "int a;\nint b;\n// %%kernel 05 --part --exercise 05b\nint c;\n"
    note = "(Lines are those of the whole kernel: line 1 of your cell is line 3 there.)"
    assert _note_first_line(answered, source).mistake == f"Line 9 has `<`.\n{note}"
    hinted = replace(answered, mistake="", advice="Look at line 4.")
    assert _note_first_line(hinted, source).advice == f"Look at line 4.\n{note}"
    # no line is named; the cell has the whole kernel; a file has no such comment
    silent = replace(answered, mistake="An int.")
    assert _note_first_line(silent, source) == silent
    for whole in (source[source.index("//") :], "int a;\n"):
        assert _note_first_line(answered, whole) == answered
