"""The doctor: the engine's findings with the lab's data, and one remedy for each thing missing.

The findings about a machine are the engine's own: engine/tests/test_doctor.py.
"""

import dataclasses
import gzip
import hashlib
import json
import os
import shutil
import struct
import sys
from pathlib import Path

import pytest

import hostcuda.doctor
from labkit.base import installation
from labkit.cli import doctor
from labkit.cli.doctor import MISSING, OK, UNUSED

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
        "labkit", "hostcuda", "Python", "C++ compiler", "NVIDIA driver", "GPU", "nvcc", "estimates", "PyCUDA", "CUPTI",
        "cache",
        "data", "notebooks", "fashion-mnist", "mnist", "data cache",
    ]


@pytest.mark.parametrize(("state", "ready"), [(OK, True), (MISSING, False)])
def test_without_its_data_the_lab_is_not_ready(monkeypatch, state, ready):
    engines = hostcuda.doctor.Report([doctor.Requirement("Python", OK, "3.11")], "cpu", "there is no NVIDIA GPU here")
    monkeypatch.setattr(hostcuda.doctor, "examine", lambda: engines)
    monkeypatch.setattr(doctor, "_check_shipped", lambda: doctor.Requirement("data", state, ""))
    assert engines.ready
    assert doctor.examine().ready == ready


@pytest.mark.parametrize("what", ["PyCUDA", "CUPTI", "C++ compiler"])
def test_the_environment_of_a_checkout_is_completed_by_make(monkeypatch, tmp_path, what):
    monkeypatch.setattr(installation, "checkout", lambda: tmp_path)
    finding = hostcuda.doctor.Requirement(what, MISSING, "is not here", "install it")
    assert doctor._adapt_remedy(finding) == finding
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    assert doctor._adapt_remedy(finding).remedy == ("install it" if what == "C++ compiler" else "make gpu")


def test_a_mac_runs_the_lab_in_a_container(monkeypatch, tmp_path):
    finding = hostcuda.doctor.Requirement("C++ compiler", MISSING, "is not here", "docker run python bash")
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(installation, "checkout", lambda: tmp_path)
    assert doctor._adapt_remedy(finding).remedy.endswith("make report")
    monkeypatch.setattr(installation, "checkout", lambda: None)
    assert doctor._adapt_remedy(finding) == finding


def test_packages_of_the_notebooks_are_named(monkeypatch):
    monkeypatch.setattr(installation, "NOTEBOOKS", ("json",))
    assert doctor._check_packages().state == OK
    monkeypatch.setattr(installation, "NOTEBOOKS", ("json", "no_such_package"))
    finding = doctor._check_packages()
    assert (finding.state, finding.found) == (MISSING, "not here: no_such_package")
    assert "[notebooks]" in finding.remedy
    monkeypatch.setattr(installation, "checkout", lambda: None)
    assert doctor._check_packages().state == UNUSED  # the engine and the commands work without


def test_an_unwritable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    finding = doctor._check_cache()
    assert finding.state == MISSING
    assert finding.remedy.startswith("export LABKIT_CACHE_DIR=")


def test_damaged_digits(tmp_path, monkeypatch):
    from labkit.networks import images as data

    for file in Path(data.data_dir()).glob("digits-*"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(data, "data_dir", lambda: tmp_path)
    assert doctor._check_shipped().state == OK
    images = next(tmp_path.glob("digits-images*"))
    images.write_bytes(images.read_bytes()[:1000])
    finding = doctor._check_shipped()
    assert finding.state == MISSING
    assert "checkout -- data" in finding.remedy


PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def put_images(folder, seed):
    """Write files of two images as MNIST and Fashion-MNIST have them; return the note about their source."""
    folder.mkdir(parents=True)
    sources = []
    images, labels = struct.pack(">4I", 0x803, 2, 3, 4) + bytes([seed]) * 24, struct.pack(">2I", 0x801, 2) + b"\7\7"
    for part in PARTS:
        content = gzip.compress(images if "images" in part else labels)
        (folder / f"{part}-ubyte.gz").write_bytes(content)
        sources.append((f"{part}-ubyte.gz", hashlib.md5(content).hexdigest()))
    return {"train": sources[:2], "test": sources[2:]}


def test_fetched_data_is_seen_where_the_loader_finds_it(tmp_path, monkeypatch):
    from labkit.networks import images as data

    monkeypatch.delenv("LABKIT_DATA_DIR", raising=False)
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path))
    files = {name: put_images(tmp_path / "data" / name, seed) for seed, name in enumerate(("mnist", "fashion-mnist"))}
    sources = {name: dataclasses.replace(data._SETS[name], files=files[name]) for name in files}
    monkeypatch.setattr(data, "_SETS", data._SETS | sources)
    assert [doctor._check_fetched(name).state for name in files] == [OK, OK]
    (tmp_path / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    assert [doctor._check_fetched(name).state for name in files] == [UNUSED, OK]
    assert "when a notebook first needs" in doctor._check_fetched("mnist").found
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path / "data" / "fashion-mnist"))
    assert doctor._check_fetched("fashion-mnist").state == OK
    assert "is not the published file of mnist" in doctor._check_fetched("mnist").found
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path / "nowhere"))
    assert "has no train-images" in doctor._check_fetched("mnist").found


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
    doctor.show(doctor.LabReport(findings, "cpu", "there is no [GPU] here"))
    assert "The lab runs here, on the CPU engine: there is no [GPU] here." in capsys.readouterr().out
    doctor.show(doctor.LabReport(findings, None, "nothing to run on"))
    assert "The lab cannot run here yet: nothing to run on." in capsys.readouterr().out
