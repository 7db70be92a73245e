"""The engine on aarch64: compiled with a cross compiler, run under emulation, held against this machine's results."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import hostcuda.api.driver as cuda
from hostcuda.api.compiler import SourceModule
from hostcuda.host import toolchain

HERE = Path(__file__).parent / "aarch64"
ROOT = HERE.parents[2]
CXX = "aarch64-linux-gnu-g++"
QEMU = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
SOURCE = (HERE / "kernels.cu").read_text()
RNG = np.random.default_rng(14)

pytestmark = [
    pytest.mark.thorough("another processor, under emulation"),
    pytest.mark.skipif(
        not (QEMU and shutil.which(CXX)),
        reason="on Debian: apt install g++-aarch64-linux-gnu qemu-user",
    ),
]


class Aarch64:
    """A runner of the kernels in kernels.cu, under emulation."""

    def __init__(self, folder, check="", cxx=CXX):
        self.folder = folder
        self.environment = environment = {
            **os.environ,
            "CXX": cxx,
            "HOSTCUDA_CHECK": check,
            "PYTHONPATH": str(ROOT),
        }
        self.drive = [QEMU, "-L", "/usr/aarch64-linux-gnu", str(folder / "drive")]
        line = [
            CXX,
            "-std=gnu++17",
            f"-I{toolchain.RUNTIME}",
            "-o",
            self.drive[-1],
            str(HERE / "drive.cpp"),
            "-ldl",
        ]
        subprocess.run(line, check=True)
        command = [sys.executable, str(HERE / "build.py"), str(HERE / "kernels.cu"), *self.drive]
        built = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert built.returncode == 0, built.stderr
        self.built = built.stdout.split()

    def launch(self, kernel, *arguments, grid=(1, 1, 1), block=(64, 1, 1), shared=0):
        """Run a kernel, which changes arrays in place; return its output, and its error or check mode's records."""
        words = []
        for i, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                argument.tofile(self.folder / f"array{i}")
            words.append(
                str(self.folder / f"array{i}" if isinstance(argument, np.ndarray) else argument)
            )
        command = [*self.drive, *self.built, kernel, *map(str, (*grid, *block, shared)), *words]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        for i, argument in enumerate(arguments):
            if isinstance(argument, np.ndarray):
                argument[:] = np.fromfile(self.folder / f"array{i}", argument.dtype)
        return done.stdout, done.stderr


@pytest.fixture(scope="module")
def aarch64(tmp_path_factory):
    return Aarch64(tmp_path_factory.mktemp("aarch64"))


@pytest.fixture(scope="module")
def here():
    return SourceModule(SOURCE, no_extern_c=True)


def launched_here(module, kernel, *arguments, grid=(1, 1, 1), block=(64, 1, 1), shared=0):
    values = [
        cuda.InOut(item) if isinstance(item, np.ndarray) else np.int32(item) for item in arguments
    ]
    module.get_function(kernel)(*values, grid=grid, block=block, shared=shared)


INTS = RNG.integers(0, 100, 24 * 64, dtype=np.int32)
FLOATS = RNG.random(64, np.float32)
CASES = {
    "barriers": ((INTS, np.zeros(64, np.int32), 10), {"grid": (4, 1, 1)}),
    "lanes": ((INTS[:32], np.zeros(32, np.int32)), {"block": (32, 1, 1)}),
    "atomics": (
        (INTS[:64], np.zeros(8, np.int32), np.zeros(1, np.float32), np.zeros(1, np.uint64)),
        {"grid": (6, 1, 1)},
    ),
    "halves": ((FLOATS, np.zeros(64, np.float16), np.zeros(128, np.float32)), {}),
    "dynamic": ((INTS[:64], np.zeros(64, np.int32)), {"shared": 256}),
}


@pytest.mark.parametrize("kernel", CASES)
def test_results_are_those_of_this_machine(aarch64, here, kernel):
    arguments, geometry = CASES[kernel]
    ours, theirs = (
        [a.copy() if isinstance(a, np.ndarray) else a for a in arguments] for _ in range(2)
    )
    launched_here(here, kernel, *ours, **geometry)
    assert aarch64.launch(kernel, *theirs, **geometry) == ("", "")
    assert all(map(np.array_equal, ours, theirs))
    assert any(not np.array_equal(one, before) for one, before in zip(ours, arguments, strict=True))


def test_half_arithmetic_of_the_processor_rounds_each_operation(tmp_path, here):
    """Without care the compiler joins a product and a sum of halves there."""
    native = Aarch64(tmp_path, cxx=f"{CXX} -march=armv8.2-a+fp16")
    (x, *outputs), _ = CASES["halves"]
    for seed in range(4):
        x = np.random.default_rng(seed).random(x.size, np.float32)
        ours, theirs = ([output.copy() for output in outputs] for _ in range(2))
        launched_here(here, "halves", x, *ours)
        assert native.launch("halves", x, *theirs) == ("", "")
        assert all(map(np.array_equal, ours, theirs))


def test_printf(aarch64):
    lines = [f"block {b} thread {t}:  1.50 text" for b in range(2) for t in range(3)]
    printed, message = aarch64.launch("prints", 3, grid=(2, 1, 1))
    assert (sorted(printed.splitlines()), message) == (lines, "")


def as_words(text):
    """Return an error without addresses, and without the kind of access (read or write), which qemu does not report."""
    return re.sub(
        r"0x[0-9a-f]+", "0x", re.sub(r"an access to|a read of|a write to", "an access to", text)
    ).strip()


@pytest.mark.parametrize("which", range(7))
def test_a_fault_ends_the_launch_with_the_same_sentence(aarch64, here, which):
    y = np.zeros(64, np.int32)
    with pytest.raises(cuda.LaunchError) as caught:
        launched_here(here, "faults", y, which)
    _, message = aarch64.launch("faults", y, which)
    assert message.startswith("error: kernel faults, block (0,0,0)")
    assert as_words(str(caught.value)).endswith(as_words(message.removeprefix("error: ")))


@pytest.mark.parametrize("check", ["profile", "memcheck,racecheck,initcheck,synccheck"])
def test_check_mode(tmp_path, check):
    aarch64 = Aarch64(tmp_path, check)
    y = np.zeros(64, np.int32)
    _, message = aarch64.launch("dynamic", INTS[:64].copy(), y, shared=256)
    record = json.loads(message.splitlines()[0])
    assert (record["kernel"], record["error"], record["findings"]) == ("dynamic", "", [])
    assert (y == INTS[:64][::-1] + 3).all()
    if check == "profile":
        accesses = [(site["space"], site["op"], site["requests"]) for site in record["sites"]]
        shared = [("shared", "ld", 2)] * 3 + [("shared", "st", 1)] * 2 + [("shared", "st", 2)]
        assert sorted(accesses) == [("global", "ld", 2), ("global", "st", 2), *shared]
    _, message = aarch64.launch("faults", y, 1)
    # memcheck knows the size of an access
    place = "byte 68" if check == "profile" else "element 17"
    assert f"{place} of the __shared__ array s" in message
