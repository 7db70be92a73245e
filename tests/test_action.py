"""The action: its steps, run as a forge's shell runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import hostcuda
import labkit

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = {step["name"]: step for step in ACTION["runs"]["steps"] if "name" in step}


@pytest.fixture
def step(tmp_path):
    """Run a step in a folder with a test and a program; `python` is the one that runs this test."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "the action").mkdir()
    (tmp_path / "the action" / "requirements.lock").write_text(
        "# written\nnumpy==2.4.6 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n"
        "    # via pandas\nappnope==1.0.0 ; sys_platform == 'darwin' \\\n    --hash=sha256:22\n"
    )
    (tmp_path / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "bin" / "python").chmod(0o755)
    (tmp_path / "test_a.py").write_text("def test_a(): pass\ndef test_b(): assert 0\n")
    (tmp_path / "program.py").write_text("import sys\nsys.exit(sys.argv[1] != 'a word')\n")

    def run(name, **inputs):
        """Run a step of the action in bash with these inputs; return the ended process."""
        values = {
            **{f"inputs.{key}": value for key, value in inputs.items()},
            "github.action_path": str(tmp_path / "the action"),
        }
        variables = {
            key: values[re.fullmatch(r"\$\{\{ ([\w.-]+) \}\}", expression)[1]]
            for key, expression in STEPS[name]["env"].items()
        }
        path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        python = os.pathsep.join(
            filter(None, [str(hostcuda.settings.HOME), os.environ.get("PYTHONPATH")])
        )
        return subprocess.run(
            [
                "bash",
                "--noprofile",
                "--norc",
                "-eo",
                "pipefail",
                "-c",
                STEPS[name]["run"],
            ],  # as "shell: bash" means
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            env={
                **os.environ,
                **variables,
                "PATH": path,
                "PYTHONPATH": python,
                "RUNNER_TEMP": str(tmp_path),
                "GITHUB_PATH": str(tmp_path / "path"),
            },
        )

    return run


def test_the_tests_decide(step):
    ended = step("Run the tests", tests="test_a.py -k 'test_a or test_b'")
    assert ended.returncode
    assert "1 failed, 1 passed" in ended.stdout
    assert step("Run the tests", tests="--version").returncode == 0


def test_all_commands_run_and_one_failure_fails(step):
    ended = step("Run the commands", commands="--version\n\n  run program.py 'a word'\n")
    assert ended.returncode == 0, ended.stderr
    assert f"hostcuda {hostcuda.__version__}" in ended.stdout
    ended = step("Run the commands", commands="run program.py another\n--version")
    assert ended.returncode == 1
    assert f"hostcuda {hostcuda.__version__}" in ended.stdout


@pytest.mark.parametrize(
    ("requirement", "lab", "installed"),
    [
        ("", "false", ["engine"]),
        ("", "true", ["engine", ""]),
        (
            "hostcuda @ git+https://example.org/lab",
            "false",
            ["hostcuda @ git+https://example.org/lab"],
        ),
    ],
)
def test_what_is_installed(step, tmp_path, requirement, lab, installed):
    own = tmp_path / "hostcuda" / "bin"
    made = f"mkdir -p '{own}'; cp \"$0\" '{own}/python'"
    script = f'#!/bin/sh\necho "$0"\nprintf \'%s\\n\' "$@"\ntest $2 = pip || {{ {made}; }}\n'
    (tmp_path / "bin" / "python").write_text(script)
    environment, versions = own.parent, tmp_path / "hostcuda-versions.txt"
    if not requirement:
        installed = [f"{tmp_path / 'the action'}/{name}".rstrip("/") for name in installed]
    pip = [str(own / "python"), "-m", "pip", "install", "--constraint", str(versions), "pytest"]
    pip += installed
    ended = step("Install hostcuda", requirement=requirement, lab=lab)
    first = [
        str(tmp_path / "bin" / "python"),
        "-m",
        "venv",
        "--system-site-packages",
        str(environment),
    ]
    assert ended.stdout.splitlines() == [*first, *pip]
    assert (tmp_path / "path").read_text().splitlines() == [str(own)]  # later steps get it
    assert [line.strip() for line in versions.read_text().splitlines()] == [
        "numpy==2.4.6",
        "appnope==1.0.0 ; sys_platform == 'darwin'",
    ]
    # a second use of the action in a job
    ended = step("Install hostcuda", requirement=requirement, lab=lab)
    assert ended.stdout.splitlines() == pip


WORKFLOWS = {path.name: path for path in (ROOT / ".github" / "workflows").glob("*.yml")}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_a_workflow_may_read_alone_but_for_jobs_that_say_more(name):
    workflow = yaml.safe_load(WORKFLOWS[name].read_text(encoding="utf-8"))
    assert workflow["permissions"] == {"contents": "read"}


@pytest.mark.parametrize("name", [*WORKFLOWS, "action.yml"])
def test_actions_of_others_are_named_by_their_commit(name):
    text = WORKFLOWS.get(name, ROOT / "action.yml").read_text(encoding="utf-8")
    used = re.findall(r"\buses: (\S+)", text)
    assert used and all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action in used)


def test_nobody_is_root_in_the_labs_container():
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").splitlines()
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users and "root" not in users


def test_inputs_reach_the_shell_only_through_its_environment():
    for step in STEPS.values():
        assert "${{" not in step["run"]
    used = set(re.findall(r"inputs\.([\w-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])


def test_the_page_describes_every_input():
    page = (ROOT / "engine" / "docs" / "testing.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `([\w-]+)` \|", page, re.MULTILINE)) >= set(ACTION["inputs"])
