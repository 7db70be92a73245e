"""The doctor: what it finds on a path made for the test, and one remedy for each thing missing."""

import dataclasses
import gzip
import hashlib
import io
import json
import os
import shlex
import shutil
import struct
import sys
from pathlib import Path

import pytest

from labkit.report import doctor
from labkit.report.doctor import MISSING, OK, UNUSED

REAL_PATH = os.environ["PATH"]
GXX = shutil.which("g++")


@pytest.fixture
def path(tmp_path, monkeypatch):
    """An otherwise empty PATH on which the test puts programs: `path("nvcc", "echo release 13.0")`."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setenv("LABKIT_ENGINE", "auto")
    for name in ("CXX", "CONDA_PREFIX", "CUDA_HOME", "LABKIT_DATA_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(doctor, "_nvidia_hardware", lambda: False)
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
    """What processes of our own Python answer, by a word of their code; everything else fails to import."""
    answers = {}

    def ask(code, **environment):
        return next(((0, text) for word, text in answers.items() if word in code), (1, "ImportError: not here"))

    monkeypatch.setattr(doctor, "_python_says", ask)
    return answers


def test_an_empty_machine_gets_a_remedy_for_each_thing(path, python_says, monkeypatch):
    monkeypatch.setenv("LABKIT_ENGINE", "gpu")
    path("apt-get", "exit 0")
    report = doctor.examine()
    missing = {finding.what: finding.remedy for finding in report.findings if finding.state == MISSING}
    assert missing.keys() >= {"C++ compiler", "NVIDIA driver", "GPU", "nvcc", "PyCUDA", "CUPTI"}
    assert all(missing.values())
    assert all("\n" not in remedy for remedy in missing.values())
    assert not report.ready
    assert report.engine is None


def test_a_container_is_told_from_a_machine(tmp_path, monkeypatch):
    mark = tmp_path / "mark"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(doctor, "_MARKS", (mark,))
    assert "container" not in doctor._labkit().found
    mark.touch()
    assert doctor._labkit().found.endswith(", in a container")


def test_without_a_gpu_the_compiler_is_enough(path, python_says):
    path("g++", f'exec {GXX} "$@"')
    python_says.update({"cuda.engine()": "cpu", "__global__": ""})
    report = doctor.examine()
    assert report.ready
    assert report.engine == "cpu"
    assert report["C++ compiler"].state == OK
    assert [report[what].state for what in ("NVIDIA driver", "GPU", "nvcc", "PyCUDA", "CUPTI")] == 5 * [UNUSED]
    assert not any(finding.remedy for finding in report.findings)


def test_a_gpu_machine(path, python_says):
    path("nvidia-smi", SMI)
    path("nvcc", NVCC)
    python_says.update({"pycuda": "2026.1", "cupti": "13.4.0", "cuda.engine()": "gpu"})
    report = doctor.examine()
    assert report.ready
    assert report.engine == "gpu"
    assert report["NVIDIA driver"].found == "580.65.06"
    assert report["GPU"].found == "2 × NVIDIA H200"
    assert report["nvcc"].found.startswith("release 13.0, ")
    assert report["C++ compiler"].state == MISSING  # said, though the GPU does without


def test_a_gpu_without_pycuda_falls_back_and_says_why(path, python_says):
    path("nvidia-smi", SMI)
    path("g++", f'exec {GXX} "$@"')
    python_says.update({"cuda.engine()": "cpu", "__global__": ""})
    report = doctor.examine()
    assert report.engine == "cpu"
    assert report.why == "missing for the GPU: PyCUDA"
    assert report["PyCUDA"].state == report["nvcc"].state == MISSING


def test_neither_compiler_nor_gpu(path, python_says):
    path("dnf", "exit 0")
    python_says["cuda.engine()"] = "cpu"
    report = doctor.examine()
    assert not report.ready
    assert "neither" in report.why
    assert report["C++ compiler"].remedy.endswith("dnf install gcc-c++")


def test_a_compiler_that_does_not_compile(path):
    path("g++", "echo 'cannot execute cc1plus' >&2; exit 1")
    path("apt-get", "exit 0")
    finding = doctor._compiler()
    assert finding.state == MISSING
    assert "cannot execute cc1plus" in finding.found
    assert finding.remedy.endswith("apt-get install g++")


@pytest.mark.parametrize("tools", doctor._MODES.values(), ids=doctor._MODES)
def test_a_kernel_runs_in_every_mode(tools):
    assert doctor._kernel_fails(tools) == ""


def test_a_compiler_without_a_version(path, monkeypatch):
    monkeypatch.setattr(doctor, "_kernel_fails", lambda tools: "")  # another compiler: nothing would be in the cache
    path("g++", f'[ "$1" = --version ] || exec {GXX} "$@"')
    finding = doctor._compiler()
    assert (finding.state, finding.found.split(",")[0]) == (OK, "no version")


def test_a_wrong_cxx_is_the_thing_to_unset(path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler -O2")
    finding = doctor._compiler()
    assert finding.state == MISSING
    assert "no-such-compiler" in finding.found
    assert finding.remedy == "unset CXX"


def test_nvcc_that_is_installed_but_not_on_the_path(path, tmp_path, monkeypatch):
    (tmp_path / "cuda" / "bin").mkdir(parents=True)
    (tmp_path / "cuda" / "bin" / "nvcc").touch()
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    assert doctor._nvcc(True).remedy == f'export PATH="{tmp_path}/cuda/bin:$PATH"'


@pytest.mark.parametrize(("manager", "remedy"), [
    ("apt-get", "apt-get install g++"), ("dnf", "dnf install gcc-c++"), ("pacman", "pacman -S gcc"),
    ("zypper", "zypper install gcc-c++"), ("apk", "apk add g++"), (None, "conda install -c conda-forge cxx-compiler"),
])  # fmt: skip
def test_the_remedy_is_the_systems_own(path, manager, remedy, monkeypatch):
    if manager:
        path(manager, "exit 0")
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 0)
    assert doctor._compiler().remedy == remedy
    monkeypatch.setattr(doctor.os, "geteuid", lambda: 1000)
    assert doctor._compiler().remedy == (f"sudo {remedy}" if manager else remedy)


def test_the_active_conda_environment_comes_first(path, monkeypatch):
    path("apt-get", "exit 0")
    monkeypatch.setenv("CONDA_PREFIX", "/opt/conda/envs/lab")
    assert doctor._compiler().remedy == "conda install -c conda-forge cxx-compiler"


def test_macos(path, monkeypatch):
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    finding = doctor._compiler()
    assert finding.state == MISSING  # the engine needs Linux
    assert finding.remedy.startswith("docker run ")


def test_an_unwritable_cache(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "file" / "cache"))
    finding = doctor._cache()
    assert finding.state == MISSING
    assert finding.remedy.startswith("export LABKIT_CACHE_DIR=")


def test_damaged_digits(tmp_path, monkeypatch):
    from labkit.network import images as data

    for file in Path(data.data_dir()).glob("digits-*"):
        shutil.copy(file, tmp_path)
    monkeypatch.setattr(data, "data_dir", lambda: tmp_path)
    assert doctor._shipped().state == OK
    images = next(tmp_path.glob("digits-images*"))
    images.write_bytes(images.read_bytes()[:1000])
    finding = doctor._shipped()
    assert finding.state == MISSING
    assert "checkout -- data" in finding.remedy


PARTS = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")


def put_images(folder, seed):
    """Files as MNIST and Fashion-MNIST have them, of two images; what a source says of them."""
    folder.mkdir(parents=True)
    said = []
    images, labels = struct.pack(">4I", 0x803, 2, 3, 4) + bytes([seed]) * 24, struct.pack(">2I", 0x801, 2) + b"\7\7"
    for part in PARTS:
        content = gzip.compress(images if "images" in part else labels)
        (folder / f"{part}-ubyte.gz").write_bytes(content)
        said.append((f"{part}-ubyte.gz", f"md5:{hashlib.md5(content).hexdigest()}"))
    return {"train": said[:2], "test": said[2:]}


def test_fetched_data_is_seen_where_the_loader_finds_it(tmp_path, monkeypatch):
    from labkit.network import images as data

    monkeypatch.delenv("LABKIT_DATA_DIR", raising=False)
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path))
    files = {name: put_images(tmp_path / "data" / name, seed) for seed, name in enumerate(("mnist", "fashion-mnist"))}
    sources = {name: dataclasses.replace(data._SOURCES[name], files=files[name]) for name in files}
    monkeypatch.setattr(data, "_SOURCES", data._SOURCES | sources)
    assert [doctor._fetched(name).state for name in files] == [OK, OK]
    (tmp_path / "data" / "mnist" / "t10k-labels-idx1-ubyte.gz").write_bytes(b"damaged")
    assert [doctor._fetched(name).state for name in files] == [UNUSED, OK]
    assert "when a notebook first needs" in doctor._fetched("mnist").found
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path / "data" / "fashion-mnist"))
    assert doctor._fetched("fashion-mnist").state == OK
    assert "belongs to fashion-mnist, not to mnist" in doctor._fetched("mnist").found
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path / "nowhere"))
    assert "is no folder" in doctor._fetched("mnist").found


def test_empty_files_are_no_images(tmp_path, monkeypatch):
    for part in PARTS:
        (tmp_path / f"{part}-ubyte.gz").touch()
    monkeypatch.setenv("LABKIT_DATA_DIR", str(tmp_path))
    for name in ("mnist", "fashion-mnist"):
        assert doctor._fetched(name).state == UNUSED
        assert "is no idx file" in doctor._fetched(name).found


def test_a_home_folder_of_another_user(tmp_path, monkeypatch):
    """As sudo and su may leave HOME: nothing in it can be entered."""
    (tmp_path / "home").mkdir(mode=0)
    monkeypatch.setenv("LABKIT_CACHE_DIR", str(tmp_path / "home" / "cache"))
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        cache, data = doctor._cache(), doctor._fetched("mnist")
    finally:
        if root:
            os.seteuid(0)
    assert cache.state == MISSING and "cannot be written (Permission denied)" in cache.found
    assert cache.remedy == 'export LABKIT_CACHE_DIR="$(mktemp -d)"'
    assert data.state == UNUSED


def test_a_terminal_without_check_marks(monkeypatch):
    printed = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    monkeypatch.setattr(sys, "stdout", printed)
    doctor.show(doctor.Report([doctor.Finding("a", OK, "1"), doctor.Finding("b", MISSING, "2", "r")], None, "b"))
    printed.flush()
    assert [line[:4] for line in printed.buffer.getvalue().decode("latin-1").splitlines()[:2]] == ["+  a", "x  b"]


def test_an_old_python(monkeypatch):
    monkeypatch.setattr(doctor, "PYTHON", (9, 0))
    finding = doctor._python()
    assert finding.state == MISSING
    assert "too old" in finding.found
    assert finding.remedy


def test_the_engine_is_the_one_that_runs(monkeypatch):
    """Asked for real, in processes of their own."""
    monkeypatch.setenv("LABKIT_ENGINE", "cpu")
    report = doctor.examine()
    assert (report.engine, report.ready) == ("cpu", True)
    assert report.why == "LABKIT_ENGINE=cpu asks for it"
    assert json.loads(json.dumps(report.as_dict()))["engine"] == "cpu"


def test_a_process_that_crashes_is_an_answer():
    status, said = doctor._python_says("import os; os.abort()")
    assert status
    assert said
    assert doctor._python_says("print(1); print('last')") == (0, "last")


def test_show_prints_the_remedy_unbroken(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    remedy = f'"{sys.executable}" -m pip install "pycuda>=2025.1,<2027"' + " and more" * 5
    findings = [doctor.Finding("Python", OK, "3.11"), doctor.Finding("data", OK, "here"),
                doctor.Finding("PyCUDA", MISSING, "does not import", remedy)]
    doctor.show(doctor.Report(findings, "cpu", "there is no [GPU] here"))
    said = capsys.readouterr().out
    assert remedy in said
    assert "The lab runs here, on the CPU engine: there is no [GPU] here." in said
    doctor.show(doctor.Report(findings, None, "nothing to run on"))
    assert "The lab cannot run here yet: nothing to run on." in capsys.readouterr().out
