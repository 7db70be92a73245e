"""The wheel: what a user gets who installs the engine and has no checkout."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hostcuda

pytestmark = pytest.mark.thorough("tools and documents of the engine")

ROOT = Path(hostcuda.__file__).resolve().parent.parent
CUDA = """
#include <cstdio>
__global__ void twice(float *x) { x[threadIdx.x] *= 2; }
int main()
{
    float *x, host[32], sum = 0;
    for (float &each : host) each = 1;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    twice<<<1, 32>>>(x);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    for (float each : host) sum += each;
    printf("%.1f\\n", sum);
}
"""
PYCUDA = """
import numpy as np
import pycuda.autoinit
import pycuda.driver as cuda
from pycuda.compiler import SourceModule

twice = SourceModule("__global__ void twice(float *x) { x[threadIdx.x] *= 2; }").get_function("twice")
x = np.ones(32, np.float32)
twice(cuda.InOut(x), block=(%d, 1, 1))
print(x.sum())
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Run the command of an installed wheel, in a folder that is no checkout."""
    tmp = tmp_path_factory.mktemp("wheel")
    source, elsewhere = tmp / "source", tmp / "elsewhere"
    shutil.copytree(
        ROOT / "hostcuda", source / "hostcuda", ignore=shutil.ignore_patterns("__pycache__")
    )
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run(
        [*pip, "wheel", "--no-build-isolation", "--no-deps", "-w", tmp, source], check=True
    )
    (wheel,) = tmp.glob("*.whl")
    subprocess.run(
        [*pip, "install", "--no-deps", "--no-compile", "--target", tmp / "site", wheel], check=True
    )
    elsewhere.mkdir()
    for name, text in {"good.cu": CUDA, "good.py": PYCUDA % 32, "bad.py": PYCUDA % 33}.items():
        (elsewhere / name).write_text(text)

    def run(*arguments, code="from hostcuda.command import main; main()", **environment):
        variables = {"PYTHONPATH": str(tmp / "site"), "HOSTCUDA_ENGINE": "cpu"}
        return subprocess.run(
            [sys.executable, "-c", code, *arguments],
            cwd=elsewhere,
            env={**os.environ, **variables, **environment},
            capture_output=True,
            text=True,
            check=False,
        )

    return run


@pytest.mark.parametrize("program", ["good.cu", "good.py"])
def test_programs_load_only_what_they_need(installed, program):
    """Every process that the command starts reports what it imports: of NumPy, a program in CUDA C++ has no use."""
    ended = installed("run", program, PYTHONPROFILEIMPORTTIME="1")
    assert (ended.returncode, ended.stdout) == (0, "64.0\n"), ended.stderr
    imported = {
        line.rpartition("|")[2].strip().partition(".")[0] for line in ended.stderr.splitlines()
    }
    assert "hostcuda" in imported and ("numpy" in imported) == program.endswith(".py")
    assert not {"pandas", "matplotlib", "labkit", "pydantic"} & imported


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["profile", "good.py"], 0, "twice"),
        (["sanitize", "good.cu"], 0, "memcheck"),
        (["sanitize", "bad.py"], 1, "out of bounds"),
        (["--version"], 0, hostcuda.__version__),
    ],
)
def test_commands_of_an_installed_package(installed, arguments, status, words):
    ended = installed(*arguments)
    assert ended.returncode == status, ended.stderr
    assert words in ended.stdout + ended.stderr


def test_the_doctor_names_the_installed_package(installed):
    ended = installed("doctor", "--json")
    report = json.loads(ended.stdout)
    assert report["ready"] and ended.returncode == 0
    assert {"Python", "C++ compiler", "cache"} <= {
        finding["what"] for finding in report["findings"]
    }
    (own,) = [finding["found"] for finding in report["findings"] if finding["what"] == "hostcuda"]
    assert os.path.join("site", "hostcuda") in own


def test_pytest_knows_the_plugin_of_an_installed_package(installed):
    assert (
        "@pytest.mark.hostcuda_sanitize"
        in installed("--markers", code="import pytest; pytest.main()").stdout
    )
