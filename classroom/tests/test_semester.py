"""A semester from the first hand-in to the gradebook; each export is read as its target system reads it."""

import csv
import json
import os
import re
import shutil
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path

import pytest
from typer.testing import CliRunner

from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.cli import app
from labkit.exercises import exercise as module
from labkit.exercises.exercise import exercise
from labkit_classroom import gradebooks, grading, sandbox
from labkit_classroom.gradebooks import Question
from labkit_classroom.grades import Terms
from labkit_classroom.roster import Person, Roster, read_roster

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

OWN = PACKAGE.parent / "tests" / "exercises" / "own"
SOFTMAX = Path(__file__).parent / "similar" / "softmax"
# Kernels by as many authors, and copies of some: HOW_AUTHOR.
WRITTEN = {path.stem: path.read_text() for path in sorted(SOFTMAX.glob("*.cu"))}
COPIED = {path.stem: path.read_text() for path in sorted(SOFTMAX.glob("copies/*.cu"))}
ROSTER = """\
Name,ID,Email,Extension,Section
Ann Ode,1001,ann@uni.example,,A
"Bee, Bob",1002,bob@uni.example,,A
Cem Cay,1003,cem@uni.example,48,B
Dee Day,1004,dee@uni.example,,B
""" + "".join(
    f"{name},{2000 + place},{name}@uni.example,,B\n"
    for place, name in enumerate([*WRITTEN, *COPIED])
)
DUE = "--due", "saxpy=2026-11-01T23:59+01:00", "--due", "P5a=2026-12-01T23:59+01:00"


@pytest.fixture
def course(tmp_path, monkeypatch):
    """Yield the current folder, which has a class's list and an exercise of its own."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(OWN / "saxpy", tmp_path / "saxpy", ignore=shutil.ignore_patterns("__pycache__"))
    Path("class.csv").write_text(ROSTER)
    yield tmp_path
    module._added.clear()


def labkit(*arguments):
    """Grade with these arguments, and the class's list and exercise; return what is printed."""
    outcome = CliRunner().invoke(
        app, ["grade", *arguments, "--exercise", "saxpy", "--roster", "class.csv"]
    )
    assert outcome.exit_code == 0, outcome.output
    return outcome.stdout


def hand_in(name, text, at):
    """Write a file below in/ that was last changed at the time `at` (ISO)."""
    path = Path("in", name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (datetime.fromisoformat(at).timestamp(),) * 2)


def table():
    with open("grades/grades.csv", newline="") as file:
        return {(row["student"], row["exercise"]): row for row in csv.DictReader(file)}


def require_that_copies_are_found():
    """Require that copies, renamed, reordered or reformatted, are more alike than any others."""
    outcome = CliRunner().invoke(
        app, ["similarity", "in", "--exercise", "saxpy", "--out", "grades/similarity.html"]
    )
    assert outcome.exit_code == 0, outcome.output
    *lines, short, last = outcome.stdout.splitlines()
    assert short.strip() == "saxpy: 1 too short to compare, 0 of them equal to another"
    pairs = [re.fullmatch(r" *(\d+) %  (\S+)  (\S+) and (\S+)", line).groups() for line in lines]
    alike = {frozenset(who): int(share) for share, number, *who in pairs if number == "P5a"}
    copies = {frozenset((how, how.partition("_")[2])) for how in COPIED}
    assert [how.partition("_")[0] for how in COPIED] == ["reformatted", "renamed", "reordered"]
    assert {*list(alike)[:3]} == copies and len(alike) > 3
    assert (
        min(alike[pair] for pair in copies)
        > max(share for pair, share in alike.items() if pair not in copies) + 10
    )
    assert last.endswith("a reason to look, not a verdict")


@pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())
def test_a_semester(course, monkeypatch):
    """Eighteen hand-ins, sixteen different texts; it takes half a minute to compile, run and count the kernels."""
    saxpy, softmax = exercise(course / "saxpy"), exercise("P5a")
    graded, grade_one = [], grading._grade
    monkeypatch.setattr(
        grading,
        "_grade",
        lambda sent, *rest: graded.append(sent.exercise) or grade_one(sent, *rest),
    )
    # right, and as slow as before
    right = saxpy.start.replace("i < min(first + part, n)", "i < n && i < first + part")

    hand_in("1001/saxpy.cu", saxpy.solution, "2026-11-01T20:00+01:00")
    hand_in("bob_saxpy.cu", right, "2026-11-02T02:59+01:00")  # three hours late
    hand_in("cem/saxpy.cu", saxpy.solution, "2026-11-03T12:00+01:00")  # has an extension
    hand_in("zoe_saxpy.cu", saxpy.start, "2026-11-01T00:00+01:00")  # nobody knows her
    output = labkit("in", *DUE)
    assert sorted(graded) == ["saxpy"] * 3  # Cem's text is Ann's
    absent = ", ".join(["Dee Day", *WRITTEN, *COPIED])
    assert output.splitlines() == [
        "    2  goal met",
        "    1  goal missed",
        "    1  goal missed: this is the starting code",
        f"   12  nothing handed in: {absent}",
        "    1  not in the roster: zoe",
        "    1  late",
        "grades/grades.csv, and a page for each of 4 students",
    ]
    rows = table()
    assert "1 of 1 exercises met" in Path("grades/1001.html").read_text()
    assert {
        key[0]: (row["id"], row["points"], row["late_h"])
        for key, row in rows.items()
        if row["exercise"]
    } == {
        "1001": ("1001", "1", ""),
        "bob": ("1002", "0.25", "3.00"),
        "cem": ("1003", "1", ""),
        "zoe": ("", "0", ""),
    }
    assert (
        rows["Dee Day", ""]["verdict"] == "nothing handed in"
        and rows["bob", "saxpy"]["clock"] == "file"
    )
    assert "3.0 h late" in Path("grades/bob.html").read_text()

    # The second exercise. Ann hands hers in under another name, too; Dora is two hours late; three
    # have copied.
    hand_in("1001/P5a.cu", softmax.start, "2026-12-01T20:00+01:00")
    hand_in("ann/P5a.cu", softmax.solution, "2026-12-01T21:00+01:00")
    for name, text in {**WRITTEN, **COPIED}.items():
        hand_in(f"{name}/P5a.cu", text, f"2026-12-0{2 if name == 'dora' else 1}T01:59+01:00")
    output = labkit("in", *DUE)
    assert sorted(graded[3:]) == ["P5a"] * 13
    assert (
        "    1  handed in under two names: Ann Ode (1001, ann)" in output
        and "    2  late" in output
    )
    assert table()["dora", "P5a"]["late_h"] == "2.00"

    require_that_copies_are_found()

    # Lateness is another question to the same results: nothing is graded, and no hand-in is needed.
    output = labkit("--due", "2026-10-01T00:00Z")
    assert "   17  late" in output and len(graded) == 16

    # After a change of an exercise what was graded stands, until it is graded again.
    path = course / "saxpy" / "exercise.py"
    path.write_text(path.read_text().replace("lines=3", "lines=2"))
    output = labkit("in", *DUE)
    assert (
        len(graded) == 16
        and "    4  graded with an earlier version of the exercise or the lab: --again" in output
    )
    today = datetime.now(UTC).date()
    for _ in range(2):  # the second time it has nothing to do, and says the same
        output = labkit("in", "--again", *DUE).splitlines()
        assert output[:3] == [
            "    2  verdicts changed:",
            f"       1001 saxpy: goal met -> goal missed ({today})",
            f"       cem saxpy: goal met -> goal missed ({today})",
        ]
        assert sorted(graded[16:]) == ["saxpy"] * 3

    # Zoe takes hers back. It counts until the instructor says so.
    Path("in/zoe_saxpy.cu").unlink()
    assert "    1  of earlier hand-ins that are not among these count, too: --prune" in labkit(
        "in", *DUE
    )
    assert (
        "       zoe saxpy" in labkit("in", *DUE, "--prune").splitlines()
        and ("zoe", "saxpy") not in table()
    )

    # Every gradebook gets the same points; those of goals are worth nothing with more lines than
    # allowed.
    labkit(
        *DUE,
        *(
            word
            for name in gradebooks.FORMATS
            if name != "classroom50"
            for word in ("--format", name)
        ),
        "--points",
        "saxpy=4",
        "--points",
        "P5a=16",
    )
    rows = table()
    wanted = {
        "1001": {"saxpy": 1, "P5a": 16},
        "1002": {"saxpy": 1},
        "1003": {"saxpy": 1},
        "1004": {},
    }
    for place, name in enumerate([*WRITTEN, *COPIED]):
        wanted[str(2000 + place)] = {
            "P5a": 16 if rows[name, "P5a"]["verdict"] == "goal met" else 13
        }
    # Ada misses a goal, Dora none
    assert wanted["2000"] == {"P5a": 13} and wanted["2003"] == {"P5a": 16}
    assert canvas_reads("grades/canvas.csv", ROSTER) == (wanted, {"saxpy": 4, "P5a": 16})
    assert moodle_reads("grades/moodle.csv", ROSTER) == wanted
    assert csv_reads("grades/grades.csv") == {person: own for person, own in wanted.items() if own}
    scores = {
        path.parent.name: gradescope_reads(path)
        for path in Path("grades/gradescope").glob("*/results.json")
    }
    assert scores == {"1001": (1, 20), "ann": (16, 16), "bob": (1, 4), "cem": (1, 4)} | {
        name: (wanted[str(2000 + place)]["P5a"], 16)
        for place, name in enumerate([*WRITTEN, *COPIED])
    }

    # Classroom 50's autograder grades one student, in a job that says who it is.
    for name, value in JOB.items():
        monkeypatch.setenv(name, value)
    for path in Path("grades/results").glob("ann-*"):
        Path("one/results").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, "one/results")
    labkit("--out", "one", "--format", "classroom50", "--points", "2")
    record = json.loads(Path("one/result.json").read_text())
    assert (record["owner"], record["score"], record["max-score"], record["datetime"]) == (
        "ann",
        record["max-score"],
        record["max-score"],
        "2026-12-01T20:00:00Z",
    )


@pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())
def test_a_start_stays_a_start_and_points_that_change_are_told(course):
    saxpy = exercise(course / "saxpy")
    untouched = "goal missed: this is the starting code"
    right = saxpy.start.replace("i < min(first + part, n)", "i < n && i < first + part")
    hand_in("ann_saxpy.cu", saxpy.start, "2026-11-01T20:00+01:00")
    hand_in("bee_saxpy.cu", right, "2026-11-01T20:00+01:00")
    assert "starting code since" not in labkit("in")
    path = course / "saxpy" / "saxpy.cu"
    path.write_text(
        path.read_text().replace("i < min(first + part, n)", "i < n && i < first + part")
    )
    text = (course / "saxpy" / "exercise.py").read_text()
    (course / "saxpy" / "exercise.py").write_text(text.replace("lines=3", "lines=3, partial=0.5"))
    hand_in("bee_saxpy.cu", right + "\n__device__ int more;\n", "2026-11-01T20:00+01:00")
    hand_in("cem_saxpy.cu", f"// mine\n{saxpy.start}", "2026-11-01T20:00+01:00")
    output = labkit("in", "--again")
    assert "    1  changed starting code since the last grading: saxpy. A hand-in" in output
    assert {
        key[0]: (row["verdict"], row["points"]) for key, row in table().items() if row["exercise"]
    } == {"ann": (untouched, "0"), "cem": (untouched, "0"), "bee": ("goal missed", "0.5")}
    text = (course / "saxpy" / "exercise.py").read_text()
    (course / "saxpy" / "exercise.py").write_text(text.replace("partial=0.5", "partial=0.4"))
    output = labkit("in", "--again")
    assert (
        output.startswith("    1  points changed:\n       bee saxpy: 0.5 -> 0.4\n")
        and "code since" not in output
    )


# --------------------------------------------------------------------------------------------------
# The readers, after their documentation


def csv_reads(path):
    """Read ``grades.csv``: the best points by id and exercise. No cell may be a formula."""
    best = {}
    with open(path, newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            assert None not in row and not any(
                cell.startswith(("=", "+", "-", "@")) for cell in row.values()
            )
            if row["id"] and row["exercise"]:
                own = best.setdefault(row["id"], {})
                own[row["exercise"]] = max(own.get(row["exercise"], 0), float(row["points"]))
    return best


def canvas_reads(path, roster):
    """Read as Canvas's importer does: the points by SIS user ID and title, and the points possible."""
    with open(path, newline="", encoding="utf-8") as file:
        head, *rows = csv.reader(file)
    assert "Student" in head[0] and "ID" in head[1] and re.search(r"SIS\s+User\s+ID", head[2])
    assert re.search(r"SIS\s+Login\s+ID", head[3]) and "Section" in head[4]
    assert not any(
        re.search(r"Current|Final|Override", title) or re.search(r"\(\d+\)$", title)
        for title in head[5:]
    )
    titles = [title.split()[0] for title in head[5:]]
    students, points, possible = {row["ID"] for row in csv.DictReader(roster.splitlines())}, {}, {}
    for row in rows:
        assert len(row) == len(head)
        if "Points Possible" in row[0]:
            possible = dict(zip(titles, map(float, row[5:]), strict=True))
            continue
        # an ID of Canvas's own would be another student's
        assert row[1] == "" and row[2] in students
        points[row[2]] = {
            title: float(cell) for title, cell in zip(titles, row[5:], strict=True) if cell
        }
    return points, possible


def moodle_reads(path, roster):
    """Read as Moodle's importer does, with "ID number" as the key: an unknown or missing number ends the import."""
    with open(path, newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        assert reader.fieldnames[:2] == ["ID number", "Email address"]
        students, points = {row["ID"] for row in csv.DictReader(roster.splitlines())}, {}
        for row in reader:
            assert row["ID number"] in students
            grades = {
                name.split()[0]: cell
                for name, cell in row.items()
                if name.split()[0] in ("saxpy", "P5a")
            }
            assert all(cell == "-" or 0 <= float(cell) <= 100 for cell in grades.values())
            points[row["ID number"]] = {
                name: float(cell) for name, cell in grades.items() if cell != "-"
            }
    return points


def gradescope_reads(path):
    """Return score and points of Gradescope's ``results.json``; the score has to be the sum of the tests' scores."""
    report = json.loads(Path(path).read_text())
    assert report["score"] == pytest.approx(sum(test["score"] for test in report["tests"]))
    assert all(
        test["score"] <= test["max_score"] and test["name"] and test["output"]
        for test in report["tests"]
    )
    return report["score"], sum(test["max_score"] for test in report["tests"])


JOB = {
    "CLASSROOM": "cuda",
    "ASSIGNMENT": "week-4",
    "OWNER": "ann",
    "SUBMISSION_TAG": "submit/2026-12-01T20-00-09Z-0a1b",
    "COMMIT_URL": "https://git.example/c",
    "RELEASE_URL": "https://git.example/r",
    "ASSIGNMENT_TYPE": "individual",
}
RESULT = grading.Result(
    "ann",
    "04a",
    False,
    "goal missed",
    advice="Pad.",
    seconds=2.25,
    submitted_at="2026-12-01T21:00:00+01:00",
)
QUESTIONS = {
    "04a": [
        Question("04a clean and right", Fraction(1, 4), Fraction(1, 4), "right", True),
        Question("04a loads", Fraction(0), Fraction(3, 4), "loads: 9"),
    ]
}


def test_a_result_has_the_form_that_gradescope_documents():
    """Its "Autograder Specifications" name these keys, and these values of status, format and visibility."""
    shown = {"output_format": "text", "visibility": "visible"}
    assert gradebooks.make_gradescope_result([RESULT], QUESTIONS) == {
        "score": 0.25,
        "execution_time": 2.2,
        "output": "04a goal missed. Pad.",
        **shown,
        "tests": [
            {
                "name": "04a clean and right",
                "number": "1.1",
                "score": 0.25,
                "max_score": 0.25,
                "status": "passed",
                "output": "right",
                **shown,
            },
            {
                "name": "04a loads",
                "number": "1.2",
                "score": 0,
                "max_score": 0.75,
                "status": "failed",
                "output": "loads: 9",
                **shown,
            },
        ],
    }


def test_a_result_has_the_form_that_classroom50_documents():
    """By its schema classroom50/result/v1: whole points, and times in UTC to the second."""
    report = gradebooks.make_classroom50_result([RESULT], QUESTIONS, JOB)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", report.pop("graded_at"))
    assert report == {
        "schema": "classroom50/result/v1",
        "classroom": "cuda",
        "assignment": "week-4",
        "assignment_type": "individual",
        "owner": "ann",
        "submission": JOB["SUBMISSION_TAG"],
        "commit": JOB["COMMIT_URL"],
        "release": JOB["RELEASE_URL"],
        "review": JOB["COMMIT_URL"],
        "datetime": "2026-12-01T20:00:00Z",
        "score": 1,
        "max-score": 4,
        "tests": [
            {
                "test-name": "04a clean and right",
                "passed": True,
                "score": 1,
                "max-score": 1,
                "output": "right",
            },
            {
                "test-name": "04a loads",
                "passed": False,
                "score": 0,
                "max-score": 3,
                "output": "loads: 9",
            },
        ],
    }


def test_a_result_of_classroom50_needs_one_student_and_its_runner():
    with pytest.raises(LabError, match="is of one student, and here are those of 3"):
        gradebooks.require_formats(["classroom50"], None, 3)
    runner = {name: JOB[name] for name in JOB if name not in ("OWNER", "SUBMISSION_TAG")}
    with pytest.raises(
        LabError, match="which sets OWNER, SUBMISSION_TAG: they say whose result it is"
    ):
        gradebooks.make_classroom50_result([], {}, runner)


# --------------------------------------------------------------------------------------------------
# Points, rosters, times

LINES = [
    [True, "clean", ""],
    [True, "right", ""],
    [True, "changed lines: 2", "changed lines"],
    [True, "loads: 1", "loads"],
    [False, "stores: 9", "stores"],
]


@pytest.mark.parametrize(
    ("change", "points"),
    [
        ({}, "5/8"),  # a quarter, and half of the rest
        ({4: True}, "1"),
        ({3: False}, "1/4"),
        ({1: False, 3: None, 4: None}, "0"),  # not right: nothing is counted
        ({2: False}, "1/4"),  # too many lines: no goal counts
    ],
)
def test_points_of_a_kernel(change, points):
    lines = [[change.get(place, ok), text, part] for place, (ok, text, part) in enumerate(LINES)]
    result = grading.Result("ann", "none such", False, "goal missed", lines=lines)
    questions = Terms().questions(result)
    assert sum(question.points for question in questions) == Fraction(points)
    assert sum(question.of for question in questions) == 1 and len(questions) == 3
    untouched = Terms().questions(
        grading.Result("ann", "none such", False, "", untouched=True, lines=lines)
    )
    assert sum(question.points for question in untouched) == 0


def test_points_are_chosen_and_goals_have_weights(course):
    path = course / "saxpy" / "exercise.py"
    text = path.read_text().replace("lines=3", "lines=3, points=8, partial=0.5")
    other = "counted('barriers', '2,048 elements', at_most=0)"
    path.write_text(
        text.replace(
            '"unique_bytes": 2 * 4 * 2048},\n        ),',
            f'"unique_bytes": 1}}, weight=3), {other},',
        )
    )
    module.add(course / "saxpy")
    goals = [goal.what for goal in exercise("saxpy").goals]
    lines = [[True, "right", ""], [True, "", goals[0]], [False, "", goals[1]]]
    result = grading.Result("ann", "saxpy", False, "goal missed", lines=lines)

    def points(terms):
        return [(question.points, question.of) for question in terms.questions(result)]

    assert points(Terms()) == [(4, 4), (3, 3), (0, 1)]
    assert points(Terms({"": Fraction(4)})) == [
        (2, 2),
        (Fraction(3, 2), Fraction(3, 2)),
        (0, Fraction(1, 2)),
    ]
    assert points(Terms({"": Fraction(4), "saxpy": Fraction(16)}, Fraction(0))) == [
        (0, 0),
        (12, 12),
        (0, 4),
    ]


def test_an_answer_by_numbers_has_goals_alone():
    lines = [[True, "one", "one"], [False, "two", "two"]]
    questions = Terms().questions(grading.Result("ann", "11a", False, "goal missed", lines=lines))
    assert [(question.points, question.of) for question in questions] == [
        (Fraction(1, 2),) * 2,
        (0, Fraction(1, 2)),
    ]
    (nothing,) = Terms({"": Fraction(3)}).questions(
        grading.Result("ann", "04a", False, "not graded: no memory")
    )
    assert (nothing.points, nothing.of) == (0, 3)


def test_names_of_hand_ins_are_found_in_the_roster():
    roster = Roster((Person("Ann Ode", "1", "ann@a.org"), Person("Rob", "3", "rob@a.org")))
    for name in ("ann ode", "Ann_Ode", "ANN", "1", "ann@a.org"):
        assert roster.find_student(name).id == "1"
    assert roster.find_student("rob").id == "3" and roster.find_student("carl") is None


def test_a_name_that_nobody_has_is_held_against_those_that_it_begins_with():
    roster = Roster((Person("Ann Ode", "1", "ann@a.org"), Person("Rob", "3", "rob@a.org")))
    assert roster.report(["ann_my_kernel", "robin", "3"])[1] == (
        "    2  not in the roster: ann_my_kernel (of Ann Ode?), robin"
    )


def test_two_students_of_one_name_are_not_taken_for_each_other():
    roster = Roster((Person("Bo Li", "2", "bo@a.org"), Person("Bo Li", "3", "li@a.org")))
    assert roster.find_student("Bo Li") is None and roster.find_student("bo").id == "2"
    assert roster.report(["Bo Li", "2"]) == [
        "    1  nothing handed in: Bo Li",
        "    1  not in the roster: Bo Li",
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,mail\n", "has no column 'id': it needs name, id, email, and has name, mail"),
        ("name,id,email\nAnn,,\n", "line 2: there is no id"),
        ("name,id,email\nAnn,1,\n\nBob,1,\n", "line 4: the id '1' is there twice"),
        (
            "name,id,email,extension\nAnn,1,,tomorrow\n",
            "line 2: 'tomorrow' is no time with an offset",
        ),
        (
            "name;id;email;extension 04a\nAnn;1;;2026-12-01T23:59\n",
            "line 2: .* is no time with an offset",
        ),
        (b"name,id,email\n\xff,1,\n", "Save it as CSV UTF-8"),
    ],
)
def test_a_damaged_roster_is_told(tmp_path, text, says):
    path = tmp_path / "class.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(LabError, match=says):
        read_roster(path)


def test_an_extension_of_no_exercise_is_told(tmp_path):
    path = tmp_path / "class.csv"
    path.write_text(
        "Name,ID,Email,Extension,Extension 04A,Extension 4z,Extensions\nAnn,1,,24,24,24,24\n"
    )
    assert read_roster(path).report(["1"], ["04a"]) == [
        "    2  extension of no exercise: columns of the roster: extension 4z, extensions"
    ]


def test_extensions(tmp_path):
    path = tmp_path / "class.csv"
    path.write_text(
        "\ufeffID,Name,Email,Extension,Extension 04a,Extension P1a\n1,Ann,,24,2026-12-09T00:00Z,72\n"
        "2,Bob,,,,\n",
        "utf-8",
    )
    roster = read_roster(path)
    due = {
        "04a": datetime.fromisoformat("2026-12-01T00:00Z"),
        "": datetime.fromisoformat("2026-12-20T00:00Z"),
    }
    terms = Terms(due=due, roster=roster)

    def late(student, exercise, at):
        return terms.late_h(grading.Result(student, exercise, True, "", submitted_at=at))

    assert late("ann", "04a", "2026-12-08T23:00:00+00:00") is None
    assert late("ann", "04a", "2026-12-09T02:30:00+01:00") == 1.5
    assert late("ann", "04b", "2026-12-20T23:00:00+00:00") is None  # by a day
    assert late("ann", "P1a", "2026-12-22T23:00:00+00:00") is None
    assert late("bob", "04b", "2026-12-20T23:00:00+00:00") == 23
    assert late("nobody", "04a", "2026-12-01T00:30:00+00:00") == 0.5
    assert late("bob", "04b", "") is None
