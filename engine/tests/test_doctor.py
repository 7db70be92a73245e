"""The doctor: what it finds on a path made for the test, and one remedy for each thing missing."""

import io
import json
import os
import shlex
import shutil
import sys

import pytest

from hostcuda import doctor
from hostcuda.doctor import MISSING, OK, UNUSED

pytestmark = pytest.mark.thorough("tools and documents of the engine")

REAL_PATH = os.environ["PATH"]
GXX = shutil.which("g++")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """Make an otherwise empty PATH on which the test puts programs: `path("nvcc", "echo release 13.0")`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("HOSTCUDA_ENGINE", "auto")
    for name in ("CXX", "CONDA_PREFIX", "CUDA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "_has_nvidia_hardware", lambda: False)
    monkeypatch.setattr(doctor.sys, "platform", "linux")

    def put(name, script):
        program = folder / name
        program.write_text(f"#!/bin/sh\nPATH={shlex.quote(REAL_PATH)}\n{script}\n")
        program.chmod(0o755)

    return put


SMI = 'echo "NVIDIA H200, 580.65.06"; echo "NVIDIA H200, 580.65.06"'
NVCC = 'echo "Cuda compilation tools, release 13.0, V13.0.48"'


@pytest.fixture
def python_says(monkeypatch):
    """Set what processes of our own Python answer, by a word of their code; everything else fails to import."""
    answers = {}

    def ask(code, *seconds, **environment):
        return next(
            ((0, text) for word, text in answers.items() if word in code),
            (1, "ImportError: not here"),
        )

    monkeypatch.setattr(doctor, "_ask_python", ask)
    return answers


def test_an_empty_machine_gets_a_remedy_for_each_thing(path, python_says, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_ENGINE", "gpu")
    path("apt-get", "exit 0")
    report = doctor.examine()
    missing = {
        finding.what: finding.remedy for finding in report.findings if finding.state == MISSING
    }
    assert missing.keys() >= {"C++ compiler", "NVIDIA driver", "GPU", "nvcc", "PyCUDA", "CUPTI"}
    assert all(missing.values())
    assert all("\n" not in remedy for remedy in missing.values())
    assert not report.ready
    assert report.engine is None


def test_a_container_is_told_from_a_machine(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(doctor, "_MARKS", (mark,))
    assert "container" not in doctor._report_engine().found
    mark.touch()
    assert doctor._report_engine().found.endswith(", in a container")


COMPILER, ON_CPU = {"g++": f'exec {GXX} "$@"'}, {"hostcuda.engine()": "cpu", "__global__": ""}


@pytest.mark.parametrize(
    ("programs", "answers", "engine", "why", "facts"),
    [
        (
            COMPILER,
            ON_CPU,
            "cpu",
            "there is no NVIDIA GPU here",
            {
                "C++ compiler": OK,
                **dict.fromkeys(("NVIDIA driver", "GPU", "nvcc", "PyCUDA", "CUPTI"), UNUSED),
            },
        ),
        (
            {"nvidia-smi": SMI, "nvcc": NVCC},
            {"pycuda": "2026.1", "cupti": "13.4.0", "hostcuda.engine()": "gpu"},
            "gpu",
            "PyCUDA imports and a GPU answers",
            {
                "NVIDIA driver": "580.65.06",
                "GPU": "2 × NVIDIA H200",
                "nvcc": "release 13.0, ",
                "C++ compiler": MISSING,
            },
        ),  # said, though the GPU does without
        (
            {"nvidia-smi": SMI, **COMPILER},
            ON_CPU,
            "cpu",
            "missing for the GPU: PyCUDA",
            {"PyCUDA": MISSING, "nvcc": MISSING},
        ),
        (
            {"dnf": "exit 0"},
            {"hostcuda.engine()": "cpu"},
            None,
            "there is neither a GPU that PyCUDA can use nor ",
            {"C++ compiler": MISSING},
        ),
    ],
    ids=["no GPU", "GPU", "GPU without PyCUDA", "neither compiler nor GPU"],
)
def test_the_engine_follows_from_what_is_there(
    path, python_says, programs, answers, engine, why, facts
):
    for name, script in programs.items():
        path(name, script)
    python_says.update(answers)
    report = doctor.examine()
    assert (report.engine, report.ready) == (engine, engine is not None) and report.why.startswith(
        why
    )
    for what, fact in facts.items():
        finding = report[what]
        assert finding.state == fact or (finding.state == OK and finding.found.startswith(fact)), (
            what
        )
        assert bool(finding.remedy) == (finding.state == MISSING)


@pytest.mark.parametrize(
    ("programs", "environment", "system", "found", "remedy"),
    [
        ({"apt-get": "exit 0"}, {}, "linux", "", "sudo apt-get install g++"),
        ({"dnf": "exit 0"}, {}, "linux", "", "sudo dnf install gcc-c++"),
        ({"pacman": "exit 0"}, {}, "linux", "", "sudo pacman -S gcc"),
        ({"zypper": "exit 0"}, {}, "linux", "", "sudo zypper install gcc-c++"),
        ({"apk": "exit 0"}, {}, "linux", "", "sudo apk add g++"),
        ({}, {}, "linux", "", "conda install -c conda-forge cxx-compiler"),
        (
            {"apt-get": "exit 0"},
            {"CONDA_PREFIX": "/opt/conda"},
            "linux",
            "",
            "conda install -c conda-forge cxx-compiler",
        ),
        (
            {},
            {},
            "darwin",
            "",
            'docker run -it --rm -v "$PWD":/here -w /here python:3.13 bash',
        ),  # the engine needs Linux
        ({}, {"CXX": "no-such-compiler -O2"}, "linux", "no-such-compiler", "unset CXX"),
        (
            {"g++": "echo 'cannot execute cc1plus' >&2; exit 1", "apt-get": "exit 0"},
            {},
            "linux",
            "cannot execute cc1plus",
            "sudo apt-get install g++",
        ),
    ],
)
def test_the_compilers_remedy_is_the_systems_own(
    path, monkeypatch, programs, environment, system, found, remedy
):
    for name, script in programs.items():
        path(name, script)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(doctor.sys, "platform", system)
    for user, command in ((1000, remedy), (0, remedy.removeprefix("sudo "))):
        monkeypatch.setattr(doctor.os, "geteuid", lambda user=user: user)
        finding = doctor._examine_compiler()
        assert (finding.state, finding.remedy) == (MISSING, command) and found in finding.found


@pytest.mark.parametrize("tools", doctor._MODES.values(), ids=doctor._MODES)
def test_a_kernel_runs_in_every_mode(tools):
    assert doctor._find_failure(tools) == ""


def test_a_trial_that_does_not_end_in_time_is_slow_and_not_missing(path, python_says, monkeypatch):
    path("g++", f'exec {GXX} "$@"')
    path("apt-get", "exit 0")
    python_says["hostcuda.engine()"] = "cpu"
    ask = doctor._ask_python
    monkeypatch.setattr(
        doctor,
        "_ask_python",
        lambda code, *seconds, **environment: (
            doctor._run(["sleep", "5"], 0.01) if code == doctor._KERNEL else ask(code)
        ),
    )
    path("sleep", "exec sleep 5")
    report = doctor.examine()
    finding = report["C++ compiler"]
    assert finding.state == "slow" and "sleep did not answer within" in finding.found
    assert "install" not in finding.remedy and "does not work" not in finding.found
    assert report.ready and "in time" in report.why


def test_a_compiler_without_a_version(path, monkeypatch):
    # another compiler: nothing would be in the cache
    monkeypatch.setattr(doctor, "_find_failure", lambda tools: "")
    path("g++", f'[ "$1" = --version ] || exec {GXX} "$@"')
    finding = doctor._examine_compiler()
    assert (finding.state, finding.found.split(",")[0]) == (OK, "no version")


def test_nvcc_that_is_installed_but_not_on_the_path(path, tmp_path, monkeypatch):
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    (tmp_path / "cuda" / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert doctor._examine_nvcc(True).remedy == f'export PATH="{tmp_path}/cuda/bin:$PATH"'


def test_an_unwritable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "file" / "cache"))
    finding = doctor._examine_cache()
    assert finding.state == MISSING
    assert finding.remedy.startswith("export HOSTCUDA_CACHE_DIR=")


def test_a_home_folder_of_another_user(tmp_path, monkeypatch):
    """The commands sudo and su may leave such a HOME: nothing in it can be entered."""
    (tmp_path / "home").mkdir(mode=0)
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "home" / "cache"))
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        cache = doctor._examine_cache()
    finally:
        if root:
            os.seteuid(0)
    assert cache.state == MISSING and "cannot be written (Permission denied)" in cache.found
    assert cache.remedy == 'export HOSTCUDA_CACHE_DIR="$(mktemp -d)"'


def test_a_terminal_without_check_marks(monkeypatch):
    printed = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", printed)
    findings = [doctor.Requirement("a", OK, "1"), doctor.Requirement("b", MISSING, "2", "r")]
    doctor.show(doctor.Report(findings, None, "b"))
    printed.flush()
    assert [line[:4] for line in printed.buffer.getvalue().decode("latin-1").splitlines()[:2]] == [
        "+  a",
        "x  b",
    ]


def test_the_engine_is_the_one_that_runs(monkeypatch):
    """Processes of their own are asked for the engine."""
    monkeypatch.setenv("HOSTCUDA_ENGINE", "cpu")
    report = doctor.examine()
    assert (report.engine, report.ready) == ("cpu", True)
    assert report.why == "HOSTCUDA_ENGINE=cpu asks for it"
    assert json.loads(json.dumps(report.as_dict()))["engine"] == "cpu"


def test_a_process_that_crashes_is_an_answer():
    status, answer = doctor._ask_python("import os; os.abort()")
    assert status
    assert answer
    assert doctor._ask_python("print(1); print('last')") == (0, "last")


def test_show_prints_the_remedy_unbroken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    remedy = f'"{sys.executable}" -m pip install "pycuda>=2025.1,<2027"' + " and more" * 5
    pycuda = doctor.Requirement("PyCUDA", MISSING, "does not import", remedy)
    findings = [doctor.Requirement("Python", OK, "3.11"), pycuda]
    doctor.show(doctor.Report(findings, "cpu", "there is no [GPU] here"))
    printed = capsys.readouterr().out
    assert remedy in printed
    assert "CUDA runs here, on the CPU engine: there is no [GPU] here." in printed
    doctor.show(doctor.Report(findings, None, "nothing to run on"))
    assert "CUDA cannot run here yet: nothing to run on." in capsys.readouterr().out
