"""A class is graded into files, each submission once, and a stopped run can be continued."""

import csv
import json
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import BrokenExecutor, ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path

import pandas as pd
import pytest
from notebook_files import write_notebook
from typer.testing import CliRunner

import hostcuda.sandbox
from hostcuda.errors import EngineError, Interrupted
from hostcuda.sandbox import NoResultError, SandboxEnded, read_answer
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.cli import app
from labkit.exercises.exercise import Exercise, Goal, exercise
from labkit.exercises.grade import Grade, GradeLine
from labkit.exercises.subjects import Numbers
from labkit_classroom import commands, gradebooks, grades, grading
from labkit_classroom.roster import Person, Roster
from labkit_classroom.rules import read_rules
from labkit_classroom.submissions import Submission, explain_missing

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")


TILING = exercise("04a")
REFUSED = "__global__ void other() {}\n"  # before anything is compiled


@pytest.fixture
def walled(tmp_path, monkeypatch):
    """Grade in an empty working directory, as if there were a sandbox."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hostcuda.sandbox, "why_not", lambda *view: "")


@pytest.fixture
def all_pass(walled, monkeypatch):
    """Let every kernel meet its goal without being run; the fixture is the list of those who were graded."""
    graded, grade_one = [], grading._grade
    monkeypatch.setattr(
        grading,
        "_grade",
        lambda item, *args: (
            grade_one(item, *args) if item.problem else graded.append(item.student) or result(item)
        ),
    )
    return graded


def result(submission, verdict="goal met"):
    """Return a result as if the submission had been graded."""
    return grading.Result(
        submission.student,
        submission.exercise,
        verdict == "goal met",
        verdict,
        lines=[[True, "is right", ""]],
        answer=grading._digest_answer(submission),
        grader=grading.digest_task(submission.exercise),
    )


def hand_in(*names, text="// a kernel"):
    """Write kernels below the folder "in"."""
    for name in names:
        Path("in", name).parent.mkdir(parents=True, exist_ok=True)
        Path("in", name).write_text(text)


def grade_class(*words):
    """Return what `labkit grade` prints."""
    graded = CliRunner().invoke(app, ["grade", *words])
    assert graded.exit_code == 0, graded.output
    return graded.stdout


def rows_of(name):
    """Return the rows of a table of the class."""
    with open(f"grades/{name}.csv", newline="") as file:
        return [*csv.reader(file)]


def test_who_is_not_graded_is_named_in_the_summary_the_table_and_the_pages(walled):
    hand_in("carol.docx")
    Path("in/frank").mkdir()
    write_notebook(Path("in/alice.ipynb"), "lab.grade('12a', 2, 2)")
    lines = grade_class("in", "--ranking").splitlines()
    assert lines[1:] == [
        "    2  not graded:",
        "       carol: there is no .ipynb or .cu file, only carol.docx",
        "       frank: there is no .ipynb or .cu file, only the folder frank",
        "grades/ranking.html",
        "grades/grades.csv, and a page for each of 3 students",
    ]
    assert {*pd.read_csv("grades/grades.csv")["student"]} == {"alice", "carol", "frank"}
    page = Path("grades/carol.html").read_text()
    assert "<h2>Not graded: there is no" in page and "met their goal" not in page
    assert "<td>frank</td><td></td><td>there is no" in Path("grades/ranking.html").read_text()

    # the row of the other file goes
    write_notebook(Path("in/carol.ipynb"), "lab.grade('12a', 2, 2)")
    grade_class("in")
    assert [*pd.read_csv("grades/grades.csv")["student"]] == ["alice", "carol", "frank"]
    assert grade_class("in/alice.ipynb", "--out", "one").endswith(
        "one/grades.csv, and a page for one student\n"
    )


def test_a_ranking_is_ordered_by_the_first_goal_and_leaves_out_who_missed_it():
    numbers = {"alice": (True, 1.05), "bob": (True, 1), "carol": (True, 1), "dave": (False, 2)}
    (ranking,) = grades.rank_students(
        [
            grading.Result(name, "04a", met, "", reached={TILING.goals[0].what: number})
            for name, (met, number) in numbers.items()
        ]
    )
    assert [(row["rank"], row["student"], row["reached"]) for row in ranking["rows"]] == [
        (1, "bob", ["1"]),
        (1, "carol", ["1"]),
        (3, "alice", ["1.05"]),
    ]


def test_a_ranking_leaves_out_exercises_without_goals(monkeypatch):
    monkeypatch.setattr(grades, "exercises", lambda: {"04a": replace(TILING, goals=())})
    assert grades.rank_students([grading.Result("alice", "04a", True, "")]) == []


def test_a_ranking_has_results_without_the_first_goals_number_last(monkeypatch):
    goal = Goal("the share", lambda counts: 0, at_least=0.5)
    monkeypatch.setattr(grades, "exercises", lambda: {"04a": replace(TILING, goals=(goal,))})
    alice = grading.Result("alice", "04a", True, "", reached={"another name": 1.0})
    bob = grading.Result("bob", "04a", True, "", reached={"the share": 0.6})
    (ranking,) = grades.rank_students([alice, bob])
    assert [(row["rank"], row["student"]) for row in ranking["rows"]] == [(1, "bob"), (2, "alice")]
    (ranking,) = grades.rank_students([alice])
    assert ranking["rows"][0]["rank"] == 1


def test_a_stopped_run_goes_on_where_it_was(walled, tmp_path, monkeypatch):
    handed_in = [
        Submission(name, "04a", f"// {name}") for name in ("alice", "bob", "carol", "dave")
    ]
    graded = []

    def counting(submission, *args):
        """Grade a submission in no time; Ctrl-C comes at the third."""
        graded.append(submission.student)
        if len(graded) == 3:
            raise KeyboardInterrupt
        return result(submission)

    monkeypatch.setattr(grading, "_grade", counting)
    # the fourth had begun, or it had not
    message = "stopped: [23] of 4 are graded; the same command goes on"
    with ThreadPoolExecutor(1) as pool, pytest.raises(Interrupted, match=message):
        grading.grade_all(handed_in, tmp_path, pool)
    kept = [result.student for result in grading.read_results(tmp_path)]
    assert "carol" not in kept
    graded[:] = ["before"] * 3
    grading.grade_all(handed_in, tmp_path)
    assert sorted(kept + graded[3:]) == ["alice", "bob", "carol", "dave"]
    grading.grade_all(handed_in, tmp_path)
    assert len(graded) - 3 == len(handed_in) - len(kept)  # nothing has changed


def test_a_text_is_graded_once_and_never_in_place_of_another_version(
    all_pass, tmp_path, monkeypatch
):
    handed_in = [
        Submission(name, "04a", text, submitted_at=f"2026-11-0{day}T00:00:00+00:00", clock="file")
        for day, (name, text) in enumerate((("alice", "one"), ("bob", "one"), ("carol", "two")), 1)
    ]
    grading.grade_all(handed_in, tmp_path)
    assert sorted(all_pass) == ["alice", "carol"]
    # the same text, for another exercise
    dave = (Submission("dave", "04a", "two"), Submission("erin", "04b", "two"))
    grading.grade_all(dave, tmp_path)
    assert sorted(all_pass) == ["alice", "carol", "erin"]
    monkeypatch.setattr(grading, "digest_task", lambda number: "changed")
    grading.grade_all([Submission("frank", "04a", "two")], tmp_path)
    assert all_pass[3:] == ["frank"]
    kept = {result.student: result for result in grading.read_results(tmp_path)}
    assert {name: result.submitted_at[:10] for name, result in kept.items()} == {
        "alice": "2026-11-01",
        "bob": "2026-11-02",
        "carol": "2026-11-03",
        "dave": "",
        "erin": "",
        "frank": "",
    }
    assert kept["bob"].answer == kept["alice"].answer != kept["dave"].answer == kept["carol"].answer


def test_an_executor_has_a_bounded_number_of_submissions_at_a_time(walled, tmp_path, monkeypatch):
    running, most = set(), []

    class Counting(ThreadPoolExecutor):
        """An executor that notes how many tasks run at a time."""

        def submit(self, *args):
            """Start a task, and note how many now run."""
            future = super().submit(*args)
            running.add(future)
            most.append(len(running))
            future.add_done_callback(running.discard)
            return future

    monkeypatch.setattr(
        grading, "_grade", lambda submission, *args: time.sleep(0.01) or result(submission)
    )
    monkeypatch.setattr(grading, "_IN_FLIGHT", 3)
    with Counting(2) as pool:
        grading.grade_all(
            [Submission(f"s{index}", "04a", f"// {index}") for index in range(20)], tmp_path, pool
        )
    assert len(most) == 20 and max(most) == 3
    assert len([*grading.read_results(tmp_path)]) == 20


def test_worker_processes_grade_and_end_with_a_grader_that_is_killed(tmp_path):
    """It takes seconds: a process imports the lab, and so does each worker."""
    program = f"""
import os, signal
from pathlib import Path
import hostcuda.sandbox
from labkit_classroom import grading
from labkit_classroom.submissions import Submission
hostcuda.sandbox.why_not = lambda *view: ""
grading._THREADS = 0
with grading.start_workers(1, 9) as pool:
    print(pool.submit(os.getpid).result(), flush=True)
    grading.grade_all([Submission("alice", "04a", {REFUSED!r})], Path("."), pool)
    os.kill(os.getpid(), signal.SIGKILL)
"""
    process = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert process.returncode == -signal.SIGKILL, process.stderr
    (kept,) = grading.read_results(tmp_path)
    assert "asks for the kernel conv, and this has other" in kept.verdict
    until = time.monotonic() + 20
    while alive(int(process.stdout)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not alive(int(process.stdout))


def alive(pid):
    """Return whether a process runs; one that has ended and was not yet waited for ("Z") does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_dask_grades_and_a_lost_executor_loses_nothing(walled):
    from dask.distributed import Client

    for name in ("alice", "bob"):
        Path(f"{name}_04a.cu").write_text(f"// {name}\n{REFUSED}")
    with Client(
        processes=False, n_workers=1, threads_per_worker=2, dashboard_address=None
    ) as client:
        output = grade_class("alice_04a.cu", "bob_04a.cu", "--dask", client.scheduler.address)
    assert [result.student for result in grading.read_results(Path("grades"))] == ["alice", "bob"]
    assert output.startswith(
        "    2  not right yet\n    2  no points, because:\n       alice 04a: exercise"
    )

    class Broken(ThreadPoolExecutor):
        """An executor whose tasks fail as if their process had been killed."""

        def submit(self, *args):
            return super().submit(broken)

    def broken():
        raise BrokenExecutor("a process was killed")

    with (
        Broken(1) as pool,
        pytest.raises(LabError, match="the executor broke: a process was killed"),
    ):
        grading.grade_all([Submission("carol", "04a", REFUSED)], Path("grades"), pool)
    assert len([*grading.read_results(Path("grades"))]) == 2


def test_a_regrade_that_fails_leaves_the_earlier_result(all_pass, tmp_path, monkeypatch):
    both = [Submission(name, "04a", "one") for name in ("alice", "bob")]
    grading.grade_all(both, tmp_path)
    monkeypatch.setattr(grading, "digest_task", lambda number: "changed")
    full = "not graded: OSError: no space"
    monkeypatch.setattr(
        grading, "_grade", lambda entry, *args: grading.Result(entry.student, "04a", False, full)
    )
    assert grading.grade_all(both, tmp_path) == []  # it was not asked to
    failed = grading.grade_all(both, tmp_path, again=True)
    assert [(result.student, result.verdict) for result in failed] == [
        ("alice", full),
        ("bob", full),
    ]
    assert [
        (result.verdict, result.grader == "changed") for result in grading.read_results(tmp_path)
    ] == [("goal met", False)] * 2


def test_a_regrade_draws_what_the_first_grading_drew(walled, tmp_path, monkeypatch):
    """Another text draws anew, and `--seed` says what to draw from."""
    seeds, states = [], iter("abcd")
    graded = Grade(TILING, (GradeLine(True, "wavefronts"),), (1.0,))
    monkeypatch.setattr(
        grading, "grade_in_sandbox", lambda asked, *_: (seeds.append(asked.seed), graded)[1]
    )
    for text, seed in (
        (TILING.solution, ""),
        (TILING.solution, ""),
        (TILING.start, ""),
        (TILING.start, "given"),
    ):
        now = next(states)
        # the lab has changed
        monkeypatch.setattr(grading, "digest_task", lambda number, now=now: now)
        grading.grade_all([Submission("alice", "04a", text)], tmp_path, again=True, seed=seed)
        assert grading.read_result(tmp_path, "alice", "04a").seed == seeds[-1]
    assert len(seeds) == 4 and len(seeds[0]) == 16
    assert seeds[0] == seeds[1] != seeds[2] and seeds[3] == "given"


def test_what_decides_a_grade_is_the_exercise_and_the_engine(tmp_path, monkeypatch):
    folder = PACKAGE.parent / "tests" / "exercises" / "own" / "saxpy"
    shutil.copytree(folder, tmp_path / "saxpy", ignore=shutil.ignore_patterns("__pycache__"))
    before, path = grading.digest_task(tmp_path / "saxpy"), tmp_path / "saxpy" / "exercise.py"
    (tmp_path / "saxpy" / "wrong.toml").write_text("")  # it tries the grader out
    assert grading.digest_task(tmp_path / "saxpy") == before == grading.digest_task(folder)
    path.write_text(path.read_text().replace("lines=3", "lines=4"))
    after = grading.digest_task(tmp_path / "saxpy")
    monkeypatch.setattr(grading.labkit, "__version__", "0")
    grading._digest_lab.cache_clear()
    other = grading.digest_task(tmp_path / "saxpy")
    grading._digest_lab.cache_clear()
    assert len({before, after, other}) == 3


def test_the_earlier_time_of_a_text_counts_and_that_of_a_manifest_most(all_pass, tmp_path):
    def handed_in(day, clock="file", text="one"):
        """Grade alice's 04a, handed in on a day of November; return (day, clock) that are kept."""
        at = f"2026-11-{day:02}T00:00:00+00:00"
        grading.grade_all(
            [Submission("alice", "04a", text, submitted_at=at, clock=clock)], tmp_path
        )
        kept = grading.read_result(tmp_path, "alice", "04a")
        return int(kept.submitted_at[8:10]), kept.clock

    assert handed_in(5) == (5, "file")
    assert handed_in(9) == (5, "file")  # the folder was copied, say
    assert handed_in(7, "manifest.csv") == (7, "manifest.csv")
    assert handed_in(3) == (7, "manifest.csv")
    assert handed_in(8, text="two") == (8, "file")


def test_results_of_another_version_are_refused_and_damaged_ones_are_graded_again(tmp_path):
    broken = [Submission(name, "", problem="no notebook") for name in ("alice", "bob")]
    grading.grade_all(broken, tmp_path)
    file, _ = sorted((tmp_path / "results").iterdir())
    odd_types = file.read_text().replace('"lines": []', '"lines": [7]')
    for text in ("{", "[]", '{"format": 2, "mark": 1}', '"', "[" * 100_000, b"\xff", odd_types):
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        none, bob = grading.read_results(tmp_path)
        assert none.student == file.stem and not (none.exercise or none.passed or none.lines)
        assert (
            none.verdict
            == f"results/{file.name} is no result of `labkit grade`: remove it, and grade again"
        )
        assert bob.student == "bob"
    grading.grade_all(broken, tmp_path)
    assert [result.student for result in grading.read_results(tmp_path)] == ["alice", "bob"]
    earlier = {
        "student": "alice",
        "exercise": "04a",
        "passed": True,
        "verdict": "goal met",
        "format": 2,
        "peak_mb": 80,
    }
    file.write_text(json.dumps(earlier))  # before a field came, and before one went
    assert [result.passed for result in grading.read_results(tmp_path)] == [True, False]
    file.write_text('{"format": 1}')
    with pytest.raises(LabError, match="another version of the lab: grade into a new folder"):
        grading.grade_all(broken, tmp_path)


def test_a_folder_of_results_is_taken_only_if_the_grader_has_made_it(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "measured.json").write_text('{"runs": 3}')
    assert not grading.owns_results(tmp_path)
    with pytest.raises(LabError, match="has files that `labkit grade` did not write: results"):
        commands._require_folders(tmp_path, ["handed"], prune=False)
    grading.grade_all([Submission("alice", "", problem="no notebook")], tmp_path)
    assert grading.owns_results(tmp_path)
    commands._require_folders(tmp_path, ["handed"], prune=False)


def test_who_answers_none_of_the_named_exercises_has_a_row_with_the_reason(tmp_path):
    """A cell was deleted, and another one is there."""
    handed_in = [
        Submission("ann", "04b", "text", submitted_at="2026-11-28T16:00:00+00:00", clock="file"),
        Submission("ann", "05a", "text", submitted_at="2026-11-28T16:00:00+00:00", clock="file"),
        Submission("bob", "04a", "text"),
        Submission("bob", "04b", "text"),
        Submission("eve", "", problem="eve.ipynb has no kernel cell"),
    ]
    (missing,) = explain_missing(handed_in, {"04a"})
    grading.grade_all([missing], tmp_path)
    (result,) = grading.read_results(tmp_path)
    assert (result.student, result.exercise, result.clock) == ("ann", "04a", "file")
    assert result.verdict == "there is no answer to 04a: what was handed in is of 04b, 05a"
    grades.write_all(tmp_path)
    assert "there is no answer to 04a" in (tmp_path / "ann.html").read_text()


@pytest.mark.parametrize("rate", [1e308, 10**900, -(10**900)])
def test_a_number_of_any_size_is_graded_with_its_reason(rate):
    result = grading._grade(Submission("ann", "14b", (rate,)), unsafe=True)
    assert result.verdict.startswith(f"{grading.NO_RESULT}the rate is a number up to 1e+30")
    assert result.answer and result.lines and not result.passed


def test_an_answer_that_breaks_the_arithmetic_of_its_exercise_is_at_fault(monkeypatch):
    def count(rate):
        return {"x": {"n": 1 / (rate - 1)}}

    divides = Exercise("Divide", Numbers(count, start=(2,)))
    monkeypatch.setattr(grading.grade, "grade", lambda folder, *answer, **more: count(*answer))
    with pytest.raises(NoResultError, match="1 cannot be graded: division by zero"):
        grading._grade_answer(divides, (1,), unsafe=True)


def test_without_a_sandbox_kernels_of_others_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(
        hostcuda.sandbox,
        "why_not",
        lambda *view: "bubblewrap is missing: sudo apt install bubblewrap",
    )
    with pytest.raises(EngineError, match="not run without a sandbox: bubblewrap is missing"):
        grading.grade_all([Submission("alice", "04a", TILING.solution)], tmp_path)


def test_whatever_goes_wrong_with_one_the_others_are_graded_and_it_is_tried_again(
    walled, tmp_path, monkeypatch
):
    def broken(*args):
        raise OSError("no memory")

    monkeypatch.setattr(grading, "grade_in_sandbox", broken)
    handed_in = [
        Submission("alice", "04a", TILING.solution),
        Submission("bob", "04a", problem="empty"),
    ]
    grading.grade_all(handed_in, tmp_path)
    assert [result.verdict for result in grading.read_results(tmp_path)] == [
        "not graded: OSError: no memory",
        "empty",
    ]
    # damaged itself
    monkeypatch.setattr(grading, "grade_in_sandbox", lambda *args: Grade(TILING, None, None))
    grading.grade_all(handed_in, tmp_path)
    assert grading.read_result(tmp_path, "alice", "04a").verdict.startswith("not graded: TypeError")
    monkeypatch.setattr(grading, "grade_in_sandbox", lambda *args: Grade(TILING, ()))
    grading.grade_all(handed_in, tmp_path)
    assert grading.read_result(tmp_path, "alice", "04a").verdict == "goal met"


def test_names_of_files_are_of_one_student_each():
    names = ["Ranking", "a/b", "a_b", "ä" * 300, "Alice", "alice", "bob"]
    files = grades._choose_file_names(names)
    assert (
        len({file.casefold() for file in files.values()}) == 7
        and max(map(len, files.values())) < 60
    )
    assert files["bob"] == "bob" and files["Ranking"].lower() != "ranking"
    # a student without a name has a page
    assert all(grades._choose_file_names(["", ".", "..", "/", "a"]).values())


def test_results_of_hand_ins_that_are_gone_are_told_and_removed_when_asked(all_pass):
    hand_in("alice/04a.cu", "alice/04b.cu", "bob/04a.cu", "bob/04b.cu")
    assert "not among these" not in grade_class("in", "--ranking")
    ranking = Path("grades/ranking.html").read_text()
    assert "alice" in ranking and "bob" in ranking
    Path("in/alice/04b.cu").unlink()
    shutil.rmtree("in/bob")
    assert (
        "    3  of earlier hand-ins that are not among these count, too: --prune removes them\n"
        in grade_class("in")
    )
    assert len(pd.read_csv("grades/grades.csv")) == 4
    output = grade_class("in", "--prune")
    assert output.startswith("    3  removed:\n       alice 04b\n       bob 04a\n       bob 04b\n")
    assert [*pd.read_csv("grades/grades.csv")["exercise"]] == ["04a"]
    assert Path("grades/alice.html").is_file() and not Path("grades/bob.html").exists()
    # without a class
    assert isinstance(CliRunner().invoke(app, ["grade", "--prune"]).exception, LabError)


def test_cells_that_begin_like_formulas_are_texts(tmp_path):
    bob = Person("=cmd|'/C calc'!A1", "-1", "+1@uni.example")
    roster = Roster((bob, Person("Ann", "2")))
    grading.grade_all(
        [Submission("@SUM(A1)", "", problem="=1+1"), Submission("2", "", problem="none")], tmp_path
    )
    grades.write_all(tmp_path, grades.Terms(roster=roster), formats=["canvas", "moodle"])
    for name in ("grades", "canvas", "moodle"):
        with open(tmp_path / f"{name}.csv", newline="") as file:
            rows = [*csv.reader(file)]
        cells = [cell for row in rows[1:] for cell in row if cell[:1] in tuple("=+-@")]
        # Importers know students by the id and the address, which stay as they are.
        assert cells == ([] if name == "grades" else ["-1", "+1@uni.example"]), name
        assert "'=cmd|'/C calc'!A1" in (cell for row in rows for cell in row)


@pytest.mark.parametrize(
    ("cell", "shown"),
    [
        ("a;=1+1", "a;'=1+1"),
        ("  =1+1", "'  =1+1"),
        ("\uff1d1+1", "'\uff1d1+1"),
        ("\n=1", r"\n=1"),
        ("a\t@SUM(A1)", r"a\t@SUM(A1)"),
        ("\x1b]0;x\x07", r"\x1b]0;x\x07"),
        ("x,-2", "x,'-2"),
        ("cmd|'/C calc'!A1", "cmd|'/C calc'!A1"),
        ("Anne-Marie", "Anne-Marie"),
        ("a; b - c", "a; b - c"),
    ],
)
def test_no_part_of_a_cell_is_a_formula_and_no_terminal_obeys_it(cell, shown):
    assert gradebooks.escape_formula(cell) == shown and gradebooks.escape_formula(3) == 3


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (
            TILING.start.replace("void conv(", "void other("),
            "the kernel must be called conv, as in the starting code",
        ),
        (TILING.start + "//" * 40_000, "this has more than 65,536 characters"),
        (TILING.start + "//\n" * 1000, "lines and"),
        (None, "the program used more than 2048 MB of memory"),
    ],
)
def test_what_cannot_be_graded_by_its_own_fault_gets_no_points_and_is_not_tried_again(
    walled, monkeypatch, answer, says
):
    tried = []

    def stopped(*args):
        tried.append(1)
        raise NoResultError(f"there is no result: {says}")

    monkeypatch.setattr(grading, "grade_in_sandbox", stopped)
    Path("class.csv").write_text("name,id,email\nmallory,1,\n")
    Path("mallory_04a.cu").write_text(answer or TILING.solution)
    for _ in range(2):
        output = grade_class("mallory_04a.cu", "--roster", "class.csv", "--format", "canvas")
        assert output.startswith(
            "    1  not right yet\n    1  no points, because:\n       mallory 04a: "
        )
        assert says in output
        (row,) = csv.DictReader(Path("grades/grades.csv").read_text().splitlines())
        assert (row["points"], row["of"]) == ("0", "1") and says in row["why"]
        assert rows_of("canvas")[-1][-1] == "0"
    assert len(tried) == (answer is None)


@pytest.mark.parametrize(
    "answer",
    [
        (),
        (1,),
        (10**900, 1),
        (-1, 1),
        (1e999, 1),
        ("a", b""),
        (None, ...),
        ({}, [()]),
        (True, 1j),
        (float("nan"), 1),
        (1, 2, 3),
    ],
)
@pytest.mark.parametrize(
    "number",
    ["07c", "11a", "11b", "12a", "12b", "13b", "13c", "14b", "15a", "16a", "18a", "18b"],
)
def test_an_answer_by_numbers_that_is_none_gets_no_points(number, answer):
    grade = grading._grade(Submission("mallory", number, answer), unsafe=False)
    assert grade.lines and not grade.passed and grade.answer, grade.verdict


def test_what_is_not_the_fault_of_a_hand_in_is_tried_again(monkeypatch):
    for status, own in (
        (None, True),
        (-signal.SIGSEGV, True),
        (-signal.SIGKILL, False),
        (1, False),
    ):
        with pytest.raises(EngineError) as raised:
            read_answer(SandboxEnded(status, "ended", 1, 1, "", ""), Path("none"), "word")
        assert isinstance(raised.value, NoResultError) == own


def test_what_is_not_graded_is_an_empty_cell_everywhere(walled, monkeypatch):
    grade_one = grading._grade
    monkeypatch.setattr(
        grading, "_grade", lambda one, *args: grade_one(one, *args) if one.problem else result(one)
    )
    Path("class.csv").write_text("name,id,email\nAnn,1,\nBob,2,\n")
    hand_in("ann_04a.cu", "04a_ann.cu", "bob_04a.cu")
    output = grade_class("in", "--roster", "class.csv", "--format", "canvas", "--format", "moodle")
    assert "    1  not graded:\n       ann 04a: it was handed in twice" in output
    assert [row[-1] for row in rows_of("canvas")[1:]] == ["1", "", "1"]
    assert [row[-1] for row in rows_of("moodle")[1:]] == ["-", "1"]
    assert [*pd.read_csv("grades/grades.csv", dtype=str)["points"].fillna("")] == ["", "1"]
    page = Path("grades/ann.html").read_text()
    assert "<p>Not graded, handed in on" in page and "of 1 point" not in page


def test_only_what_is_assigned_is_graded_and_exported(all_pass):
    Path("class.csv").write_text("name,id,email\nAnn,1,\nBob,2,\n")
    hand_in("ann_04a.cu", "ann_p1A.CU", "bob_04b.cu")
    everything = "in", "--roster", "class.csv", "--format", "canvas"
    grade_class(*everything)
    text = grade_class(*everything, "--exercise", "04a", "--exercise", "1a", "--exercise", "p1a")
    assert text.startswith(
        "    2  goal met\n    3  not graded:\n"
        "       bob 01a: there is no answer to 01a: what was handed in is of 04b\n"
    )
    head, _, *rows = rows_of("canvas")
    assert [title.split()[0] for title in head[5:]] == ["01a", "04a", "P1a"]
    assert [row[5:] for row in rows] == [["", "1", "1"], ["", "", ""]]
    assert "    1  of exercises that --exercise does not name: left out" in text
    results = [*grading.read_results(Path("grades"))]
    assert len(results) == 6 and sum(bool(one.lines) for one in results) == 3


def test_results_of_an_exercise_that_is_not_named_are_not_taken_for_names_of_students(walled):
    Path("grades/results").mkdir(parents=True)
    kept = grading.Result("ann", "saxpy", True, "goal met", lines=[[True, "right", ""]])
    Path("grades/results/ann.json").write_text(json.dumps(asdict(kept)))
    error = CliRunner().invoke(app, ["grade"]).exception
    assert isinstance(
        error, LabError
    ) and "grades holds results of saxpy, which is no exercise" in str(error)


def test_a_page_says_what_too_many_lines_cost_and_has_the_first_line_of_an_error_as_its_heading(
    tmp_path,
):
    lines = [
        [True, "right", ""],
        [False, "changed lines: 9, wanted at most 2", "changed lines"],
        [True, "one", "one"],
    ]
    (tmp_path / "results").mkdir()
    for stored in (
        grading.Result("ann", "04a", False, "goal missed", lines=lines),
        grading.Result("ann", "04b", False, "not graded: <first>\nsecond"),
    ):
        grading._choose_path(tmp_path / "results", stored).write_text(json.dumps(asdict(stored)))
    grades.write_all(tmp_path)
    page = (tmp_path / "ann.html").read_text()
    assert (
        "at most 2\nWith more changed lines than that, the goals count for nothing.</span>" in page
    )
    assert page.count("count for nothing") == 1
    assert ": not graded: &lt;first&gt;</h2>" in page and ">second</pre>" in page


RULES = """
[late]
lost_per_day = 0.2
grace_hours = 1
at_most = 0.5

[groups]
blue = ["Ann Ode", "bob", "3"]

[[marks]]
student = "cem"
exercise = "04a"
invalid = "it is Ann's kernel"

[[marks]]
student = "blue"
exercise = "04A"
comment = "=A good idea: see section 3."

[[marks]]
student = "Bob"
exercise = "04a"
comment = "You did not take part."

[[marks]]
student = "dora"
exercise = "04b"
comment = "Where is it?"
"""
PEOPLE = (("Ann Ode", "1"), ("Bob", "2"), ("Eve", "3"), ("Cem", "4"), ("Dora", "5"))


def test_marks_late_points_and_groups_survive_a_regrade(all_pass, monkeypatch):
    hand_in("ann/04a.cu", "cem/04a.cu", "dora/04a.cu", "bob/04b.cu")
    Path("in/manifest.csv").write_text(
        "file,submitted_at\nann,2026-12-01T10:00Z\nbob,2026-12-03T10:00Z\n"
        "cem,2026-12-01T10:00Z\ndora,2026-12-02T00:30Z\n"
    )
    Path("rules.toml").write_text(RULES)
    Path("class.csv").write_text(
        "name,id,email\n"
        + "".join(
            f"{name},{number},{name.split()[0].lower()}@uni.example\n" for name, number in PEOPLE
        )
    )
    known = [
        "--rules",
        "rules.toml",
        "--roster",
        "class.csv",
        "--due",
        "2026-12-02T00:00Z",
        *(word for name in ("canvas", "moodle", "gradescope") for word in ("--format", name)),
    ]

    def grade(*words):
        """Run the command with these words; return its output, and the rows of its table by student and exercise."""
        output = grade_class(*words, *known)
        with open("grades/grades.csv", newline="") as file:
            return output, {(row["id"], row["exercise"]): row for row in csv.DictReader(file)}

    output, rows = grade("in")
    comment = "=A good idea: see section 3."
    late = "34.0 h late: 40 % of the points lost"
    assert {key: (row["points"], row["verdict"], row["notes"]) for key, row in rows.items()} == {
        ("1", "04a"): ("1", "goal met", f"'{comment}"),
        ("1", "04b"): ("0.6", "goal met", late),
        ("2", "04a"): ("1", "goal met", f"'{comment}; You did not take part."),
        ("2", "04b"): ("0.6", "goal met", late),
        ("3", "04a"): ("1", "goal met", f"'{comment}"),
        ("3", "04b"): ("0.6", "goal met", late),
        ("4", "04a"): ("0", "invalid", "invalid, because it is Ann's kernel"),
        ("5", "04a"): ("1", "goal met", ""),  # late, within the grace
    }
    assert (
        "    1  marks without a hand-in:\n       5 04b\n" in output and "    1  invalid\n" in output
    )
    assert "nothing handed in" not in output and "two names" not in output
    before = {
        path: path.read_bytes()
        for path in Path("grades").rglob("*")
        if path.suffix in (".csv", ".html")
    }
    assert "invalid, because it is Ann&#39;s kernel" in before[Path("grades/cem.html")].decode()
    report = json.loads(Path("grades/gradescope/cem/results.json").read_text())
    assert report["score"] == 0 and report["tests"][0]["status"] == "failed"
    assert report["tests"][0]["output"].endswith("\ninvalid, because it is Ann's kernel")
    report = json.loads(Path("grades/gradescope/bob/results.json").read_text())
    assert report["score"] == 1.6 and {test["status"] for test in report["tests"]} == {"passed"}
    moodle = {
        row["ID number"]: row
        for row in csv.DictReader(before[Path("grades/moodle.csv")].decode().splitlines())
    }
    assert moodle["4"]["04a Rows apart"] == "0" and moodle["4"][
        "04a Rows apart (feedback)"
    ].endswith("Ann's kernel")
    assert moodle["1"]["04a Rows apart (feedback)"] == f"'{comment}"
    # Canvas imports points alone
    assert "feedback" not in before[Path("grades/canvas.csv")].decode()

    monkeypatch.setattr(grading, "digest_task", lambda number: "another lab")
    for words in (["in", "--again"], []):
        grade(*words)
        assert {path: path.read_bytes() for path in before} == before
    Path("rules.toml").unlink()
    known.remove("--rules"), known.remove("rules.toml")
    assert {row["points"] for row in grade()[1].values()} == {"1"}


def test_the_last_hand_in_of_a_group_counts_for_those_who_have_none(tmp_path):
    text = '[groups]\nblue = ["ann", "bob", "cem"]\n'
    (tmp_path / "rules.toml").write_text(text)
    shared = read_rules(tmp_path / "rules.toml").share_groups(
        [
            Submission("Ann", "04a", "early", submitted_at="2026-12-01T00:00:00+00:00"),
            Submission("bob", "04a", "late", submitted_at="2026-12-02T00:00:00+00:00"),
            Submission("bob", "", problem="there is no .cu file"),
            Submission("blue", "04b", "of the group"),
            Submission("dora", "04a", "hers"),
            Submission("cem", "04b", problem="handed in twice"),
        ]
    )
    assert sorted((item.student, item.exercise, item.answer) for item in shared) == [
        ("Ann", "04a", "early"),
        ("Ann", "04b", "of the group"),
        ("bob", "", ""),
        ("bob", "04a", "late"),
        ("bob", "04b", "of the group"),
        ("cem", "04a", "late"),
        ("cem", "04b", ""),
        ("dora", "04a", "hers"),
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("late =", "cannot be read"),
        ("points = 3", "its tables are late, groups and marks"),
        ("[late]\nlost_per_day = 10", "shares from 0 to 1"),
        ("[late]\nlost_per_day = nan", "shares from 0 to 1"),
        ("[late]\nper_week = 1", "shares from 0 to 1"),
        ("late = 0.1", "shares from 0 to 1"),
        ("groups = 1", "a group is a list of names"),
        ("[groups]\nblue = [1]", "a group is a list of names"),
        ("[groups]\nblue = ['1']\nred = ['Ann Ode']", "1 is there twice"),
        (
            "[groups]\nbob = ['ann']",
            "2 is there twice: a student has one group, and no student has its name",
        ),
        ("[groups]\nblue = ['zoe']", "the roster has no student zoe"),
        ("marks = 'no'", "each of marks has"),
        ("[[marks]]\nstudent = 'ann'", "each of marks has"),
        ("[[marks]]\nstudent = 'ann'\nexercise = '04a'\ncoment = ''", "each of marks has"),
        ("[[marks]]\nstudent = 'ann'\nexercise = '04a'\ncomment = 3", "each of marks has"),
        ("[[marks]]\nstudent = 'ann'\nexercise = '99z'", "99z"),
        ("[[marks]]\nstudent = 'zoe'\nexercise = '04a'", "the roster has no student zoe"),
    ],
)
def test_rules_that_are_wrong_are_one_sentence(tmp_path, text, says):
    (tmp_path / "rules.toml").write_text(text)
    roster = Roster(
        tuple(Person(name, number, f"{name.split()[0].lower()}@x") for name, number in PEOPLE)
    )
    with pytest.raises(LabError, match=says) as error:
        read_rules(tmp_path / "rules.toml", roster)
    assert "\n" not in str(error.value)
