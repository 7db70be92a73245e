"""The two wheels: what users get who install the lab without a checkout. The engine has its own tests of its wheel."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import labkit
from labkit.base import installation

pytestmark = pytest.mark.thorough("tools of the repository")

ROOT = Path(labkit.__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run `labkit` from the two installed wheels, in a folder that is no checkout."""
    tmp = tmp_path_factory.mktemp("wheel")
    lab, engine = tmp / "lab", tmp / "engine"
    for folder in ("labkit", "data", "engine/hostcuda"):
        shutil.copytree(ROOT / folder, (engine if "/" in folder else lab) / Path(folder).name,
                        ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "MANIFEST.in", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, lab)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / "engine" / name, engine)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp, engine, lab], check=True)
    wheels = sorted(tmp.glob("*.whl"))
    assert [wheel.name.partition("-")[0] for wheel in wheels] == ["cuda_convolution_lab", "hostcuda"]
    subprocess.run([*pip, "install", "--no-deps", "--no-compile", "--target", tmp / "site", *wheels], check=True)
    elsewhere = tmp / "elsewhere"
    elsewhere.mkdir()

    def run(*arguments, hidden="", program="from labkit.cli import main; main()"):
        """Run the command in a Python that cannot import `hidden`; return its finished process."""
        hide = f"import sys; sys.modules[{hidden!r}] = None; " if hidden else ""
        return subprocess.run(
            [sys.executable, "-c", f"{hide}{program}", *arguments],
            cwd=elsewhere, env={**os.environ, "PYTHONPATH": str(tmp / "site"), "HOSTCUDA_ENGINE": "cpu"},
            capture_output=True, text=True, check=False,
        )

    return run


@pytest.mark.thorough
def test_the_doctor_of_an_installed_package_finds_its_data(installed):
    process = installed("doctor", "--json")
    report = json.loads(process.stdout)
    findings = {finding["what"]: finding for finding in report["findings"]}
    assert report["ready"] and process.returncode == 0
    assert "an installed package" in findings["labkit"]["found"]
    assert findings["data"]["found"].endswith(os.path.join("site", "labkit", "data"))


@pytest.mark.thorough
@pytest.mark.parametrize(("arguments", "status", "said"), [
    (["check", "1"], 0, "PASS 01 baseline"),
    (["bench", "1", "--layer", "lenet86-1", "--batch", "1"], 0, "baseline"),
    (["report"], 1, "they belong to the repository"),
])
def test_commands_of_an_installed_package(installed, arguments, status, said):
    ended = installed(*arguments)
    assert ended.returncode == status, ended.stderr
    assert said in ended.stdout + ended.stderr


@pytest.mark.thorough
def test_kernels_need_no_package_of_the_notebooks(installed):
    assert installed("check", "1", hidden="matplotlib").returncode == 0
    ended = installed("report", hidden="nbformat")
    assert ended.returncode == 1
    assert "nbformat" in ended.stderr and "[notebooks]" in ended.stderr and "Traceback" not in ended.stderr


@pytest.mark.parametrize(("direct", "command"), [
    (None, '"cuda-convolution-lab"'),
    ('{"url": "file:///w/lab.whl"}', '"cuda-convolution-lab @ file:///w/lab.whl"'),
])
def test_an_installed_package_is_restored_from_where_it_came(monkeypatch, direct, command):
    class Distribution:
        read_text = staticmethod(lambda name: direct)

    monkeypatch.setattr(installation.metadata, "distribution", lambda name: Distribution)
    assert installation.restore("data").startswith("git -C ")
    monkeypatch.setattr(installation, "checkout", lambda: None)
    assert installation.restore("data").endswith(f"--force-reinstall --no-deps {command}")
