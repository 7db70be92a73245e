"""The wheel: what a user gets who installs the package and has no checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from labkit.base import installation

ROOT = Path(labkit.__file__).resolve().parent.parent
PROGRAM = """
import numpy as np
import labkit.cuda.autoinit
import labkit.cuda.driver as cuda
from labkit.cuda.compiler import SourceModule

double = SourceModule("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }").get_function("twice")
x = np.ones(32, np.float32)
double(cuda.InOut(x), block=(%d, 1, 1))
print(x.sum())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run `labkit` from an installed wheel, in a folder that is no checkout."""
    tmp = tmp_path_factory.mktemp("wheel")
    for name in ("labkit", "data"):
        shutil.copytree(ROOT / name, tmp / "source" / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp / "source")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp, tmp / "source"], check=True)
    (wheel,) = tmp.glob("*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", "--target", tmp / "site", wheel], check=True)
    elsewhere = tmp / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "good.py").write_text(PROGRAM % 32)
    (elsewhere / "bad.py").write_text(PROGRAM % 33)

    def run(*arguments, hidden="", program="from labkit.report.command import main; main()"):
        """(exit status, output, errors) of the command, in a Python that cannot import `hidden`."""
        hide = f"import sys; sys.modules[{hidden!r}] = None; " if hidden else ""
        return subprocess.run(
            [sys.executable, "-c", f"{hide}{program}", *arguments],
            cwd=elsewhere, env={**os.environ, "PYTHONPATH": str(tmp / "site"), "LABKIT_ENGINE": "cpu"},
            capture_output=True, text=True, check=False,
        )

    return run


@pytest.mark.thorough
def test_the_doctor_of_an_installed_package_finds_its_data(installed):
    found = installed("doctor", "--json")
    report = json.loads(found.stdout)
    findings = {each["what"]: each for each in report["findings"]}
    assert report["ready"] and found.returncode == 0
    assert "an installed package" in findings["labkit"]["found"]
    assert findings["data"]["found"].endswith(os.path.join("site", "labkit", "data"))


@pytest.mark.thorough
@pytest.mark.parametrize(("arguments", "status", "said"), [
    (["profile", "good.py"], 0, "twice"),
    (["sanitize", "bad.py"], 1, "out of bounds"),
    (["bench", "1", "--layer", "lenet86-1", "--batch", "1"], 0, "baseline"),
    (["report"], 1, "they belong to the repository"),
])  # fmt: skip
def test_commands_of_an_installed_package(installed, arguments, status, said):
    ended = installed(*arguments)
    assert ended.returncode == status, ended.stderr
    assert said in ended.stdout + ended.stderr


@pytest.mark.thorough
def test_the_engine_needs_no_package_of_the_notebooks(installed):
    assert installed("check", "1", hidden="matplotlib").returncode == 0
    ended = installed("report", hidden="nbformat")
    assert ended.returncode == 1
    assert "nbformat" in ended.stderr and "[notebooks]" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.thorough
def test_pytest_knows_the_plugin_of_an_installed_package(installed):
    ended = installed("--markers", program="import pytest; pytest.main()")
    assert "@pytest.mark.labkit_sanitize" in ended.stdout


@pytest.mark.parametrize(("direct", "command"), [
    (None, '"cuda-convolution-lab"'),
    ('{"url": "file:///w/lab.whl"}', '"cuda-convolution-lab @ file:///w/lab.whl"'),
])  # fmt: skip
def test_an_installed_package_is_restored_from_where_it_came(monkeypatch, direct, command):
    class Distribution:
        read_text = staticmethod(lambda name: direct)

    monkeypatch.setattr(installation.metadata, "distribution", lambda name: Distribution)
    assert installation.restore("data").startswith("git -C ")
    monkeypatch.setattr(installation, "checkout", lambda: None)
    assert installation.restore("data").endswith(f"--force-reinstall --no-deps {command}")
