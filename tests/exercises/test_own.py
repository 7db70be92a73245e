"""Exercises that the lab does not ship, a folder each: graded, tried out and handed in like those of the series."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

import labkit as lab
from labkit.base.errors import LabError
from labkit.cli import app
from labkit.exercises import progress
from labkit.exercises.cheats import GRADED, make_cheats
from labkit.exercises.exercise import exercise
from labkit.exercises.trial import list_trials, write_template

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

OWN = Path(__file__).parent / "own"
SAXPY, MATVEC = OWN / "saxpy", OWN / "matvec"


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("LABKIT_PROGRESS", str(tmp_path / "progress.json"))


@pytest.fixture
def folder(tmp_path):
    """Return a copy of an exercise, which a test may damage."""
    return shutil.copytree(SAXPY, tmp_path / "saxpy")


@pytest.mark.parametrize(
    "trial",
    [*list_trials(exercise(SAXPY)), *list_trials(exercise(MATVEC))],
    ids=lambda trial: f"{trial.exercise.number} {trial.about}",
)
def test_the_grader_answers_as_it_should(trial):
    assert trial.find_problem() == ""


def test_it_is_graded_by_its_path_and_gives_its_hints(capsys):
    missed = exercise(SAXPY).start.replace("++i)", "i += 1)")
    graded = lab.grade(SAXPY, missed)
    assert "✗ sectors per load, 2,048 elements: 32, wanted at most 4" in capsys.readouterr().out
    assert "Hint 1 of 2: Which elements does a warp load at once?" in str(graded)
    assert [*progress.read()] == [str(SAXPY)]
    assert lab.grade(str(SAXPY), exercise(SAXPY).solution, quiet=True).passed
    assert progress.read()[str(SAXPY)]["met"]
    assert "Exercises: 0 of" in progress.progress()._repr_html_()  # of the series


def test_its_text_is_in_the_starting_code():
    assert exercise(SAXPY).start.startswith(
        "// SAXPY: y[i] = a x[i] + y[i] for all i below n, for any grid.\n"
    )
    assert exercise(SAXPY).solution.startswith("// SAXPY with a grid-stride loop.\n")


def test_the_lab_shows_its_solution():
    assert "i += gridDim.x * blockDim.x" in repr(lab.solution(SAXPY))


def test_a_new_one_passes_its_test(tmp_path):
    folder = tmp_path / "clamp_it"
    assert sorted(path.name for path in write_template(folder)) == [
        "clamp_it.cu",
        "exercise.py",
        "hints.md",
        "wrong.toml",
    ]
    test = CliRunner().invoke(app, ["exercise", "test", str(folder)])
    assert test.exit_code == 0, test.output
    assert test.output.count("✓ clamp_it ") == 10
    assert "✓ clamp_it a cheat: all by one thread\n" in test.output
    # 4,096 numbers are too long a text
    assert "– clamp_it cheats that cannot be made of it: no load\n" in test.output
    with pytest.raises(LabError, match="exists: name a new folder"):
        write_template(folder)


def test_the_test_says_what_does_not_hold(folder):
    text = (folder / "saxpy.cu").read_text()
    (folder / "saxpy.cu").write_text(text.replace("a * x[i] + y[i]", "a * x[i] - y[i]"))
    (folder / "wrong.toml").write_text(
        '["no such sentence"]\nsays = "you forgot the tail"\nedits = [["++i", "i++"]]'
    )
    test = subprocess.run(
        [sys.executable, "-m", "labkit", "exercise", "test", folder], capture_output=True, text=True
    )
    assert test.returncode == 1
    assert "✓ saxpy the starting code" in test.stdout
    assert "✗ saxpy the solution does not pass" in test.stdout
    assert "✗ saxpy no such sentence is not told 'you forgot the tail':\n" in test.stdout
    assert "attempts did not get the answer that was expected" in test.stderr


def test_the_test_tells_inputs_that_can_be_known_and_a_quotient_that_one_thread_meets(folder):
    (folder / "wrong.toml").unlink()
    text = (
        (folder / "exercise.py")
        .read_text()
        .replace("2,048", "200")
        .replace("(2048, 4)", "(200, 4)")
    )
    text = text.replace("random.integers(-9, 10, (2, n))", "np.arange(2 * n).reshape(2, n)")
    text = text.replace("per=128", 'per="global_load_requests"').replace(
        'least={"unique_bytes": 2 * 4 * 2048},', ""
    )
    (folder / "exercise.py").write_text(text)
    run = CliRunner().invoke(app, ["exercise", "test", str(folder)])
    for outcome in ("stored answers", "all by one thread"):
        assert (
            f"✗ saxpy a cheat: {outcome} meets every goal, also those that it should not:\n"
            in run.output
        )
    assert "✓ saxpy a cheat: no load\n" in run.output  # nothing to divide by


@pytest.mark.parametrize(
    ("number", "names"),
    [
        ("00a", ["stored answers", "no load", "all by one thread", "atomics for loads"]),
        ("P2a", ["stored answers", "no load", "all by one thread"]),
        ("P3b", ["stored answers", "no load"]),
    ],
)
def test_cheats_meet_no_goal_of_the_series(number, names):
    asked = exercise(number)
    # it is right
    texts = dict(make_cheats(asked, [asked.solution, *([asked.start] if number == "00a" else [])]))
    assert [*texts] == names
    for name in names:
        graded = lab.grade(number, texts[name], quiet=True, record=False, seed=GRADED)
        assert not graded.passed and not graded.long
        assert ("✗ right\n" in str(graded)) == (name in ("stored answers", "no load")), graded


def test_starting_code_to_hand_out():
    test = CliRunner().invoke(app, ["exercise", "start", str(MATVEC)])
    assert test.output == exercise(MATVEC).start


def test_an_exercise_without_starting_code_is_told_in_one_sentence(folder):
    (folder / "saxpy.cu").write_text("#ifdef SKELETON\n#else\n__global__ void saxpy() {}\n#endif\n")
    with pytest.raises(LabError, match="has no starting code: write it into") as refused:
        lab.grade(folder, "__global__ void saxpy() {}", quiet=True, record=False)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("old", "new"), [("(random: np.random.Generator, n: int", "(n: int"), ("(2, n)", "(2, 'n')")]
)
def test_launches_that_do_not_fit_are_told_how_they_are_called(folder, old, new):
    text = (folder / "exercise.py").read_text()
    assert old in text
    (folder / "exercise.py").write_text(text.replace(old, new))
    says = r"the launches fail on 1,000 elements in 3 blocks: .*gets `random` first.* this one has the parameters \("
    with pytest.raises(LabError, match=says):
        lab.grade(folder, exercise(SAXPY).start, quiet=True, record=False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('["x"]\nsays = "y"\nedits = [["nowhere", ""]]', "'x': 'nowhere' occurs 0 times"),
        ('["x"]\nedit = 1', "'x': give it says, and edits, file or answer"),
        ("[x", "is no TOML"),
    ],
)
def test_what_is_wrong_with_its_wrong_answers_is_said_in_one_sentence(folder, text, says):
    (folder / "wrong.toml").write_text(text)
    with pytest.raises(LabError, match=says) as refused:
        [*list_trials(exercise(folder))]
    assert "\n" not in str(refused.value)


def test_a_kernel_in_place_of_a_rungs(tmp_path):
    folder = tmp_path / "turn_it"
    folder.mkdir()
    (folder / "turn_it.cu").write_text(exercise("01a").file.read_text())
    (folder / "exercise.py").write_text("""
from labkit.exercises import LAYERS, Exercise, InPlaceOf, counted
EXERCISE = Exercise("Turned", InPlaceOf("baseline", layers={"layer 1": LAYERS["layer 1"]}, chosen={"block": (8, 8)}), (
    counted("global_store_sectors", "layer 1", per="global_store_requests", exactly=8),))
""")
    solved = lab.solution(folder)
    assert solved.source == exercise("01a").solution
    graded = lab.grade(folder, solved, quiet=True)
    assert graded.passed
    assert str(graded).endswith(
        "This is the lab's own solution: your progress counts what you write yourself."
    )
    own = lab.variant(1, source=f"{solved.source}\n__device__ int more;\n", block=(8, 8))
    assert str(lab.grade(folder, own, quiet=True)).endswith(
        f'The lab\'s own: lab.solution("{exercise(folder).key}").'
    )
