"""Findings: what they say, and how the command ends."""

import sys

import pytest

import labkit
from labkit import child, sanitizing
from labkit.errors import LabError

PROGRAM = """
import numpy as np
import labkit.cuda.autoinit
import labkit.cuda.driver as cuda
from labkit.cuda.compiler import SourceModule
x = cuda.mem_alloc(4 * 100)
cuda.memset_d8(x, 0, 4 * 100)
kernel = SourceModule('''__global__ void fill(float *x, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) x[i] = 1;
}
__global__ void forever(volatile float *x, int n) { while (x[0] == 0) ; }
''').get_function("KERNEL")
kernel(x, np.int32(N), grid=(2, 1), block=(64, 1, 1))
cuda.Context.synchronize()
"""


@pytest.fixture
def program(tmp_path):
    def write(kernel, n):
        path = tmp_path / "program.py"
        path.write_text(PROGRAM.replace("KERNEL", kernel).replace("(N)", f"({n})"))
        return str(path)

    return write


@pytest.fixture
def command(labkit_command):
    return lambda *arguments: labkit_command("sanitize", "--engine", "cpu", *arguments)


def test_a_finding_ends_with_status_1(command, program):
    status, out, _ = command("--tool", "memcheck", program("fill", 101))
    assert status == 1
    assert "out of bounds in fill" in out and ":3:" in out, "its third line, of a source without a file"
    assert "thread (36,0,0) of block (1,0,0)" in out
    assert "4 bytes beyond the end of the 400 bytes" in out
    assert "memcheck: 1 finding in 1 launch" in out


def test_a_clean_program_ends_with_status_0(command, program):
    status, out, _ = command("--tool", "memcheck", program("fill", 100))
    assert status == 0 and "nothing found in 1 launch" in out


def test_a_kernel_that_never_ends_is_stopped(command, program):
    status, _, said = command("--tool", "memcheck", "--timeout", "2", program("forever", 0))
    assert status == 124 and "was stopped" in said


def test_an_unknown_tool_is_refused(command, program):
    status, _, said = command("--tool", "leakcheck", program("fill", 100))
    assert status == 1 and "memcheck, racecheck" in said and "Traceback" not in said


def test_the_ladder_is_clean_and_a_broken_variant_is_not(tmp_path):
    layer = labkit.Layer("odd", 2, 11, 13, 3, 3)
    clean = labkit.sanitize([rung.number for rung in labkit.LADDER], layer, engine="cpu")  # all tools
    assert clean.clean, repr(clean)
    launches = sum(len(rung.calls) for rung in labkit.LADDER)
    assert clean.launches == launches and f"nothing found in {launches} launches" in repr(clean)
    source = labkit.variant(1).source
    broken = source.replace("w >= Wo", "w > Wo")
    assert broken != source
    found = labkit.sanitize(labkit.variant(1, source=broken), layer, tool="memcheck", engine="cpu")
    assert not found.clean and set(found.table["kind"]) == {"out of bounds"}
    assert "<table" in found._repr_html_()


def finding(**more):
    base = {"tool": "racecheck", "kind": "race", "kernel": "f", "file": "/a/races.cu", "line": 8, "block": [0, 0, 0],
            "thread": [31, 0, 0], "other": {"file": "/a/races.cu", "line": 10, "thread": [32, 0, 0]}, "address": 64,
            "size": 4, "buffer": None, "count": 3, "message": "a write and a read of the same word"}  # fmt: skip
    return {**base, **more}


def test_a_race_is_told_with_both_threads():
    found = sanitizing.checked([{"findings": [finding()]}], ["racecheck"], child.Ended(0, 1.0))
    text = repr(found)
    assert "race in f at races.cu:8" in text and "thread (31,0,0) of block (0,0,0)" in text
    assert "races.cu:10, thread (32,0,0)" in text and "3 such accesses" in text
    assert "racecheck: 1 finding in 1 launch" in text


def test_a_finding_without_a_line_is_still_one():
    record = {"findings": [finding(file=None, line=None, other=None)]}
    found = sanitizing.checked([record], ["racecheck"], child.Ended(0, 1.0))
    assert not found.clean and "(no source line)" in repr(found)


def test_nothing_launched_is_not_called_clean():
    found = sanitizing.checked([], ["memcheck"], child.Ended(0, 1.0))
    assert "nothing was checked" in repr(found)


def test_a_program_that_fails_without_a_finding_is_an_error(monkeypatch):
    crash = [sys.executable, "-c", "print('no memory left'); raise SystemExit(3)"]
    monkeypatch.setattr(child, "plans", lambda *_: crash)
    with pytest.raises(LabError, match=r"(?s)exit status 3.*no memory left"):
        labkit.sanitize(1, labkit.LENET86[0], engine="cpu")
