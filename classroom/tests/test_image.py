"""The image that `labkit autograder --image` writes, built and run: it grades, and it holds attacks.

It takes Podman or Docker, and minutes. ``LABKIT_TEST_BASE`` names another image of Debian or Ubuntu
to build it from.
"""

import csv
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from test_attacks import ASKED, ATTACKS, KERNELS, PROGRAMS, together

from labkit_classroom import autograder

pytestmark = pytest.mark.thorough("a class of hand-ins: minutes")
TOOL = next(filter(None, map(shutil.which, ("podman", "docker"))), None)
BASE = (
    os.environ.get("LABKIT_TEST_BASE")
    or re.search(
        r"ARG BASE=(\S+)",
        Path(autograder.__file__).with_name("container").joinpath("Containerfile").read_text(),
    )[1]
)
IMAGE = "localhost/labkit-grader-test"
AS_DOCUMENTED = ("run", "--rm", "--init", "--network", "none")

# In the container: each program in the sandbox, as a kernel's child process runs there.
PROGRAM = """
import json, pathlib, shutil, subprocess, sys, tempfile, time
import hostcuda.sandbox
from labkit_classroom import sandbox
built = pathlib.Path(tempfile.mkdtemp())
subprocess.run(["g++", "-std=c++20", "-w", "-o", built / "attacks", "/work/attacks.cpp"], check=True)
found = {"walls": hostcuda.sandbox.try_walls(sandbox.VIEW)}
for name in sys.argv[1:]:
    scratch = pathlib.Path(tempfile.mkdtemp())
    shutil.copy(built / "attacks", scratch)
    ended = sandbox.run([str(scratch / "attacks"), name], scratch, limits=sandbox.Limits(seconds=20, processes=40))
    left = [path.stat().st_size for path in scratch.glob("stays") for _ in range(2) if not time.sleep(0.3)]
    found[name] = ended.stdout, ended.status, ended.problem, len(set(left)) < 2
print(json.dumps(found))
"""
# The shipped script's own preparation, then the program above in place of the grader.
ENTERED = """
eval "$(sed '/^# No exec/,$d' /opt/labkit/enter)"
/opt/labkit/venv/bin/python /work/program.py "$@"
"""


def tool(*arguments, check=True):
    """Run the container runtime; return its ended process, which has to succeed if `check`."""
    process = subprocess.run([TOOL, *arguments], capture_output=True, text=True, check=False)
    assert not check or process.returncode == 0, (process.stdout + process.stderr)[-3000:]
    return process


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """Yield the name of a built image of the grader."""
    if not TOOL:
        pytest.skip(
            "no container runtime is installed, neither Podman nor Docker: sudo apt install podman"
        )
    tried = tool(*AS_DOCUMENTED, BASE, "true", check=False)
    if tried.returncode:
        pytest.skip(
            f"{Path(TOOL).name} runs no container from {BASE} here: {tried.stderr.strip().splitlines()[-1]}"
        )
    folder = tmp_path_factory.mktemp("image") / "grader"
    autograder.write_image(folder, [])
    tool("build", "--network", "host", "--build-arg", f"BASE={BASE}", "-t", IMAGE, str(folder))
    yield IMAGE
    tool("rmi", "-f", IMAGE, check=False)


def test_programs_that_attack_are_held(image, tmp_path):
    (tmp_path / "attacks.cpp").write_text(together())
    (tmp_path / "program.py").write_text(PROGRAM)
    for name in ("handed-in/bob/04a.cu", "grades/results/bob-04a.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("bob's")
    mounts = [word for path in tmp_path.iterdir() for word in ("-v", f"{path}:/work/{path.name}")]
    process = tool(
        *AS_DOCUMENTED, *mounts, "--entrypoint", "sh", image, "-c", ENTERED, "sh", *PROGRAMS
    )
    outcomes = json.loads(process.stdout)
    assert not any(outcomes.pop("walls").values())
    assert outcomes.keys() == PROGRAMS.keys() and len(outcomes) == len([*ATTACKS.glob("*.cpp")])
    for name, (output, status, problem, stopped) in outcomes.items():
        assert "REACHED" not in output, name
        assert "held" in output or status is None or status < 0, (name, problem)
        assert stopped, name
    assert {
        path.name: path.read_text()
        for path in tmp_path.rglob("*")
        if path.suffix in (".json", ".cu")
    } == {"04a.cu": "bob's", "bob-04a.json": "bob's"}


def test_kernels_that_attack_do_not_pass_and_an_honest_one_does(image, tmp_path):
    for name, text in {**KERNELS, "honest": ASKED.solution}.items():
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "01b.cu").write_text(text)
    (tmp_path / "grades").mkdir()
    before = {path: path.read_bytes() for path in (tmp_path / "in").rglob("*.cu")}
    mounts = "-v", f"{tmp_path}/in:/work/handed-in:ro", "-v", f"{tmp_path}/grades:/work/grades"
    process = tool(*AS_DOCUMENTED, *mounts, image, "handed-in", "--out", "grades")
    assert (
        "Walls that stand (the container): network, file system, processes, memory, system calls\n"
        in process.stderr
    )
    with open(tmp_path / "grades" / "grades.csv", newline="") as file:
        verdicts = {row["student"]: (row["verdict"], row["points"]) for row in csv.DictReader(file)}
    assert verdicts.pop("honest") == ("goal met", "1")
    assert verdicts.keys() == KERNELS.keys()
    assert {name: points for name, (_, points) in verdicts.items() if points != "0"} == {}
    assert {path: path.read_bytes() for path in (tmp_path / "in").rglob("*.cu")} == before
