"""The doctor: the engine's findings with the lab's data, and one remedy for each thing missing.

The findings about a machine are the engine's own: engine/tests/test_doctor.py.
"""

import json
import os
import sys
from pathlib import Path

import pytest

import hostcuda.doctor
from labkit.base import installation
from labkit.base.errors import LabError
from labkit.cli import doctor
from labkit.cli.doctor import MISSING, OK, UNUSED
from labkit.networks import images

pytestmark = pytest.mark.thorough("tools of the repository")


def test_the_engine_is_the_one_that_runs(monkeypatch):
    """Processes of their own ask for each engine."""
    monkeypatch.setenv("HOSTCUDA_ENGINE", "cpu")
    report = doctor.examine()
    assert (report.engine, report.ready) == ("cpu", True)
    assert report.why == "HOSTCUDA_ENGINE=cpu asks for it"
    findings = json.loads(json.dumps(report.as_dict()))
    assert findings["engine"] == "cpu"
    assert [finding["what"] for finding in findings["findings"]] == [
        "labkit",
        "hostcuda",
        "Python",
        "C++ compiler",
        "NVIDIA driver",
        "GPU",
        "nvcc",
        "PyCUDA",
        "CUPTI",
        "cache",
        "prepared",
        "data",
        "notebooks",
        "fashion-mnist",
        "mnist",
        "data cache",
    ]


@pytest.mark.parametrize(("state", "ready"), [(OK, True), (MISSING, False)])
def test_without_its_data_the_lab_is_not_ready(monkeypatch, state, ready):
    engines = hostcuda.doctor.Report(
        [doctor.Requirement("Python", OK, "3.11")], "cpu", "there is no NVIDIA GPU here"
    )
    monkeypatch.setattr(hostcuda.doctor, "examine", lambda: engines)
    monkeypatch.setattr(doctor, "_check_shipped", lambda: doctor.Requirement("data", state, ""))
    assert engines.ready
    assert doctor.examine().ready == ready


@pytest.mark.parametrize(
    ("what", "platform", "prefix", "remedy"),
    [
        ("PyCUDA", "linux", ".venv", "make gpu"),
        ("CUPTI", "linux", ".venv", "make gpu"),
        ("CUPTI", "linux", "elsewhere", "install it"),
        ("C++ compiler", "linux", ".venv", "install it"),
        ("C++ compiler", "darwin", ".venv", "make report"),  # in a container
    ],
)
def test_a_checkout_has_remedies_of_its_own(monkeypatch, tmp_path, what, platform, prefix, remedy):
    finding = hostcuda.doctor.Requirement(what, MISSING, "is not here", "install it")
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / prefix))
    monkeypatch.setattr(installation, "find_checkout", lambda: tmp_path)
    assert doctor._adapt_remedy(finding).remedy.endswith(remedy)
    monkeypatch.setattr(installation, "find_checkout", lambda: None)
    assert doctor._adapt_remedy(finding) == finding


def test_packages_of_the_notebooks_are_named(monkeypatch):
    monkeypatch.setattr(installation, "NOTEBOOKS", ("json",))
    assert doctor._check_packages().state == OK
    monkeypatch.setattr(installation, "NOTEBOOKS", ("json", "no_such_package"))
    finding = doctor._check_packages()
    assert (finding.state, finding.found) == (MISSING, "not here: no_such_package")
    assert "[notebooks]" in finding.remedy
    monkeypatch.setattr(installation, "find_checkout", lambda: None)
    assert doctor._check_packages().state == UNUSED  # the engine and the commands work without


def refuse(name, file, checksum):
    raise LabError(f"{file} is not the published file of {name}")


@pytest.mark.parametrize(
    ("find", "state", "says"),
    [
        (lambda name, file, checksum: Path("/there") / file, OK, "found, /there"),
        (
            lambda name, file, checksum: None if "labels" in file else Path(file),
            UNUSED,
            "when a notebook first needs",
        ),
        (refuse, UNUSED, "is not the published file of mnist"),
    ],
)
def test_fetched_data_is_where_the_loader_finds_it(monkeypatch, find, state, says):
    """The loader has tests of its own: tests/test_data.py."""
    monkeypatch.setattr(images, "_find", find)
    finding = doctor._check_fetched("mnist")
    assert finding.state == state and says in finding.found


def test_a_home_folder_of_another_user(tmp_path, monkeypatch):
    """HOME may be a folder that cannot be entered, as sudo and su may leave it."""
    (tmp_path / "home").mkdir(mode=0)
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "home" / "cache"))
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        cache, data = doctor._check_cache(), doctor._check_fetched("mnist")
    finally:
        if root:
            os.seteuid(0)
    assert cache.state == MISSING and "cannot be written (Permission denied)" in cache.found
    assert cache.remedy == 'export LABKIT_CACHE_DIR="$(mktemp -d)"'
    assert data.state == UNUSED


def test_show_says_whether_the_lab_runs(capsys):
    findings = [doctor.Requirement("Python", OK, "3.11"), doctor.Requirement("data", OK, "here")]
    hostcuda.doctor.show(doctor.LabReport(findings, "cpu", "there is no [GPU] here"), "The lab")
    assert (
        "The lab runs here, on the CPU engine: there is no [GPU] here." in capsys.readouterr().out
    )
    hostcuda.doctor.show(doctor.LabReport(findings, None, "nothing to run on"), "The lab")
    assert "The lab cannot run here yet: nothing to run on." in capsys.readouterr().out


def test_show_refuses_a_lab_without_its_data(capsys):
    """An engine alone is not enough: the exit status is 1, and the last line has to say so, too."""
    findings = [doctor.Requirement("data", MISSING, "there is no digits.npz", "git checkout data")]
    report = doctor.LabReport(findings, "cpu", "there is no GPU here")
    assert not report.ready
    hostcuda.doctor.show(report, "The lab")
    printed = capsys.readouterr().out
    assert "The lab cannot run here yet: see above." in printed
    assert "runs here" not in printed
