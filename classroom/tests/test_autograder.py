"""The grader for a container: the contents of its zip and its image, and what it does with Gradescope's folder."""

import json
import stat
import subprocess
import zipfile

import pytest
from typer.testing import CliRunner

from labkit.base.paths import PACKAGE
from labkit.cli import app
from labkit.exercises import exercise as module
from labkit.exercises.exercise import exercise
from labkit_classroom import autograder, sandbox

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")

SMOOTH = PACKAGE.parent / "tests" / "exercises" / "own" / "smooth"
needs_sandbox = pytest.mark.skipif(not sandbox.available(), reason=sandbox.why_not())


@pytest.fixture(autouse=True)
def none_added(monkeypatch):
    monkeypatch.setattr(module, "_added", {})


@pytest.fixture(scope="module")
def zipped(tmp_path_factory):
    """Return the members of a Gradescope autograder's zip file: name -> (file mode, content)."""
    out = tmp_path_factory.mktemp("zip") / "grader.zip"
    result = CliRunner().invoke(
        app, ["autograder", "--gradescope", "--out", str(out), "04a", "12a", str(SMOOTH)]
    )
    assert result.stdout.strip() == f"{out}: 3 points in all", result.output
    with zipfile.ZipFile(out) as file:
        return {
            member.filename: (member.external_attr >> 16, file.read(member))
            for member in file.infolist()
        }


def test_the_zip_has_scripts_the_lab_and_no_solution(zipped):
    for script in ("setup.sh", "run_autograder", "enter"):
        mode, text = zipped[script]
        assert subprocess.run(["sh", "-n"], input=text, check=True)
        assert bool(mode & stat.S_IXUSR) == (script != "enter")
    assert zipped["asked"][1] == b"04a\n12a\nexercises/smooth\n"
    assert {
        "classroom/labkit_classroom/sandbox.py",
        "engine/hostcuda/__init__.py",
        "requirements.lock",
        "pyproject.toml",
        "engine/pyproject.toml",
        "classroom/pyproject.toml",
    } <= {*zipped}
    assert "-e ./engine -e . -e ./classroom\n" in zipped["setup.sh"][1].decode()
    assert not [
        name for name in zipped if name.startswith(("tests/", "classroom/tests/", "notebooks/"))
    ]
    assert not [name for name in zipped if "series/" in name and name.endswith("wrong.toml")]
    texts = {
        name: data.decode()
        for name, (_, data) in zipped.items()
        if name.endswith((".cu", "exercise.py"))
    }
    for asked in (exercise("04a"), exercise(SMOOTH)):
        (line,) = (line for line in asked.solution.splitlines() if "__shared__" in line)
        assert line not in asked.start
        own = [
            text
            for name, text in texts.items()
            if name.endswith(f"{asked.folder.name}/{asked.folder.name}.cu")
        ]
        assert own and not any(line in text for text in own)


def test_the_same_grader_is_the_same_file(tmp_path):
    first, second = (
        autograder.write_zip(tmp_path / name, [exercise("04a")]).read_bytes() for name in "ab"
    )
    assert first == second


def test_an_image_is_a_folder_with_a_containerfile(tmp_path):
    result = CliRunner().invoke(app, ["autograder", "--image", "--out", str(tmp_path / "image")])
    assert "podman build" in result.stdout
    assert {"Containerfile", "setup.sh", "enter", "asked"} <= {
        path.name for path in (tmp_path / "image").iterdir()
    }


@needs_sandbox
def test_gradescopes_folder_is_graded(tmp_path, monkeypatch):
    """It is graded as in the container, but under bubblewrap."""
    monkeypatch.setattr(autograder, "HERE", tmp_path)
    monkeypatch.setattr(autograder, "_ASKED", tmp_path / "asked")
    (tmp_path / "asked").write_text("04a\n12a\nexercises/smooth\n")
    (tmp_path / "exercises").mkdir()
    (tmp_path / "exercises" / "smooth").symlink_to(SMOOTH)
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "smooth.cu").write_text(exercise(SMOOTH).solution)
    (tmp_path / "submission" / "essay.pdf").write_text("")
    (tmp_path / "submission" / "04a.cu").symlink_to("/etc/hostname")
    (tmp_path / "submission_metadata.json").write_text(
        '{"users": [{"email": "alice@example.org"}]}'
    )
    path = autograder.gradescope(tmp_path)
    assert path == tmp_path / "results" / "results.json"
    report = json.loads(path.read_text())
    points = {test["name"]: (test["score"], test["max_score"]) for test in report["tests"]}
    assert points["04a handed in"] == points["12a handed in"] == (0, 1)
    assert (
        sum(score for name, (score, _) in points.items() if name.startswith("smooth"))
        == 1
        == report["score"]
    )
