"""The wheels: what users get who install the lab without a checkout.

The engine has its own tests of its wheel.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import labkit
from labkit.base import installation

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent
MAIN = "from labkit.cli import main; main()"
FOLDERS = {
    "cuda_convolution_lab": ("labkit", "data", "notebooks", "docs", "recording"),
    "hostcuda": ("engine/hostcuda",),
    "labkit_classroom": ("classroom/labkit_classroom",),
    "labkit_playground": ("playground/labkit_playground",),
}
FILES = ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run programs in a folder that is no checkout, with the wheels of the lab and its engine, and others."""
    tmp = tmp_path_factory.mktemp("wheel")
    for project, folders in FOLDERS.items():
        for folder in folders:
            shutil.copytree(
                ROOT / folder,
                tmp / project / Path(folder).name,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        for name in (*FILES, "LICENSE", "LICENSE-CC-BY-4.0"):
            if (file := (ROOT / folder).parent / name).is_file():
                shutil.copy(file, tmp / project)
    modules = tmp / "hostcuda" / "hostcuda" / "wasm" / "js" / "node_modules" / "some"
    modules.mkdir(parents=True)  # as in a checkout with the playground
    (modules / "module.js").write_text("")
    # a list of an earlier build, whose files setuptools takes up again
    (tmp / "hostcuda/hostcuda.egg-info").mkdir()
    (tmp / "hostcuda/hostcuda.egg-info/SOURCES.txt").write_text(
        (modules / "module.js").relative_to(tmp / "hostcuda").as_posix()
    )
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    build = "from setuptools import build_meta; build_meta.build_sdist('..')"
    for project in FOLDERS:  # a wheel is made of the sdist, as for a release
        subprocess.run([sys.executable, "-c", build], cwd=tmp / project, check=True, stdout=-3)
    sdists = [*tmp.glob("*.tar.gz")]
    subprocess.run(
        [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp, *sdists], check=True
    )
    wheels = {wheel.name.partition("-")[0]: wheel for wheel in tmp.glob("*.whl")}
    assert wheels.keys() == FOLDERS.keys()
    for project, wheel in wheels.items():
        with zipfile.ZipFile(wheel) as file:  # as pip does, but for scripts
            assert not [name for name in file.namelist() if "node_modules" in name]
            file.extractall(tmp / "site" / project)
    registry, elsewhere = tmp / "registry", tmp / "elsewhere"
    registry.mkdir()
    elsewhere.mkdir()
    for path in Path(pytest.__file__).parent.parent.iterdir():  # without this repository's packages
        if not re.match("__editable__|labkit|cuda_convolution_lab|hostcuda", path.name):
            (registry / path.name).symlink_to(path)

    def run(*arguments, hidden="", program=MAIN, beside=(), alone=False, cwd=elsewhere):
        """Run a program in a Python that cannot import `hidden`, with other wheels `beside`; return its process.

        It runs in the folder `elsewhere`, or in another. Where it is to be alone, no package of the
        checkout is installed, either.
        """
        hide = f"import sys; sys.modules[{hidden!r}] = None; " if hidden else ""
        places = [
            tmp / "site" / project for project in ("cuda_convolution_lab", "hostcuda", *beside)
        ]
        places += [registry] * alone
        return subprocess.run(
            [sys.executable, *["-S"] * alone, "-c", f"{hide}{program}", *arguments],
            cwd=cwd,
            capture_output=True,
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(map(str, places)),
                "HOSTCUDA_ENGINE": "cpu",
            },
            text=True,
        )

    return run


def test_the_doctor_of_an_installed_package_finds_its_data(installed):
    process = installed("doctor", "--json")
    report = json.loads(process.stdout)
    findings = {finding["what"]: finding for finding in report["findings"]}
    assert report["ready"] and process.returncode == 0
    assert "an installed package" in findings["labkit"]["found"]
    assert findings["data"]["found"].endswith(
        os.path.join("cuda_convolution_lab", "labkit", "data")
    )


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["check", "1"], 0, "PASS 01 baseline"),
        (["bench", "1", "--layer", "lenet86-1", "--batch", "1"], 0, "baseline"),
        (["report"], 1, "`labkit start DIR` lays them out"),
        (["lab"], 1, "`labkit start DIR` lays them out"),
        (["site"], 1, "run labkit from one"),
    ],
)
def test_commands_of_an_installed_package(installed, arguments, status, message):
    ended = installed(*arguments)
    assert ended.returncode == status, ended.stderr
    assert message in ended.stdout + ended.stderr


def test_a_course_is_laid_out_and_nothing_in_it_is_overwritten(installed, tmp_path):
    course = tmp_path / "my course"
    started = installed("start", str(course))
    assert started.returncode == 0 and "labkit lab" in started.stdout, started.stderr
    for folder, pattern in (("notebooks", "[!.]*.ipynb"), ("docs/images", "*")):
        ours, theirs = (
            {path.relative_to(at): path.read_bytes() for path in (at / folder).rglob(pattern)}
            for at in (ROOT, course)
        )
        assert ours == theirs and ours
    page, picture = course / "notebooks" / "01_baseline.ipynb", course / "docs/images/lab.png"
    page.write_bytes(mine := page.read_bytes() + b"\n")
    picture.unlink()
    again = installed("start", str(course)).stdout
    assert "1 file added" in again and f"stay as they are: {page.relative_to(course)}\n" in again
    assert page.read_bytes() == mine and picture.is_file()
    inside = installed("report", "--stored", "P1", cwd=course / "notebooks")
    assert inside.returncode == 0 and (course / "reports" / "index.html").is_file(), inside.stderr
    (tmp_path / "file").write_text("")
    refused = installed("start", str(tmp_path / "file"))
    assert refused.returncode == 1 and "Traceback" not in refused.stderr


def test_pages_that_show_what_was_recorded_run_without_a_checkout(installed, tmp_path):
    installed("start", str(tmp_path))
    ended = installed("report", "16", "17", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert {"16_as_others_write_it.html", "17_pytorch.html"} <= {
        path.name for path in (tmp_path / "reports").iterdir()
    }


def test_kernels_need_no_package_of_the_notebooks(installed):
    assert installed("check", "1", hidden="matplotlib").returncode == 0
    ended = installed("report", hidden="nbformat")
    assert ended.returncode == 1
    assert (
        "nbformat" in ended.stderr
        and "[notebooks]" in ended.stderr
        and "Traceback" not in ended.stderr
    )


def test_the_commands_of_a_class_come_with_their_wheel(installed):
    names = {"autograder", "grade", "similarity", "student"}
    assert not names & {*installed("--help", alone=True).stdout.split()}
    assert "No such command 'grade'" in installed("grade", "--help", alone=True).stderr
    beside = ("labkit_classroom",)
    assert names <= {*installed("--help", beside=beside, alone=True).stdout.split()}
    ended = installed("grade", "nothing.cu", beside=beside)
    assert (
        ended.returncode == 1 and "nothing.cu" in ended.stderr and "Traceback" not in ended.stderr
    )
    program = (
        "from labkit_classroom import autograder, grades; grades._environment().get_template('grades.html.j2');"
        "print(*(path.name for path in autograder._CONTAINER.iterdir()))"
    )
    ended = installed(program=program, beside=beside)
    assert {"Containerfile", "enter", "run_autograder", "setup.sh"} == {*ended.stdout.split()}, (
        ended.stderr
    )


def test_the_data_of_the_playground_come_with_their_wheel(installed):
    program = "from labkit_playground import data, site; print(len(data.collect()) > 70, *site.python_files())"
    ended = installed(program=program, beside=("labkit_playground",))
    assert (
        ended.stdout.startswith("True ") and "labkit_playground/judging.py" in ended.stdout.split()
    ), ended.stderr


@pytest.mark.parametrize(
    ("direct", "command"),
    [
        (None, '"cuda-convolution-lab"'),
        ('{"url": "file:///w/lab.whl"}', '"cuda-convolution-lab @ file:///w/lab.whl"'),
    ],
)
def test_an_installed_package_is_restored_from_where_it_came(monkeypatch, direct, command):
    class Distribution:
        """An installed package with this direct_url.json."""

        read_text = staticmethod(lambda name: direct)

    monkeypatch.setattr(installation.metadata, "distribution", lambda name: Distribution)
    assert installation.write_restore_command("data").startswith("git -C ")
    monkeypatch.setattr(installation, "find_checkout", lambda: None)
    assert installation.write_restore_command("data").endswith(
        f"--force-reinstall --no-deps {command}"
    )
