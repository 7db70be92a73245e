"""Kernels that die or do not end: each is a finding, or its launch is said not to have been checked; never clean."""

import re

import pytest
from running import IMPORTS, kernel_source

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = """
module = SourceModule(SOURCE)
n, o = cuda.to_device(np.arange(32, dtype=np.int32)), cuda.to_device(np.zeros(32, np.int32))
if "never" in sys.argv:  # it ends: then the time limit of who started this is over, soon; see the fixture `limit`
    timer = threading.Timer(1, os.kill, [os.getppid(), signal.SIGUSR1])
    timer.daemon = True
    timer.start()
module.get_function(sys.argv[1])(n, o, grid=(2, 1), block=(32, 1, 1))
"""  # it ends without waiting for its kernel


@pytest.fixture
def program(write_program):
    return str(
        write_program(
            IMPORTS + PROGRAM.replace("SOURCE", repr(kernel_source("fatal"))), "program.py"
        )
    )


@pytest.mark.parametrize(
    ("kernel", "tool", "kind", "line", "thread"),
    [
        ("local_array", "memcheck", "out of bounds", 10, 0),
        ("traps", "memcheck", "trap", 14, 3),
        ("asserts", "memcheck", "assertion", 17, 3),
        ("recurses", "memcheck", "stack overflow", "[2345]", 0),
        ("divides", "memcheck", "division by zero", 23, 0),
        ("not_in_its_mask", "synccheck", "caller outside its mask", 26, 16),
    ],
)
def test_a_kernel_that_dies_is_a_finding(
    program, hostcuda_command, kernel, tool, kind, line, thread
):
    status, out, err = hostcuda_command(
        "sanitize", "--engine", "cpu", "--tool", tool, program, kernel
    )
    assert status == 1, err
    assert re.search(f"{kind} in {kernel} at fatal.cu:{line}: ", out), out
    assert f"thread ({thread},0,0) of block (0,0,0)" in out
    assert f"{tool}: 1 finding in 1 launch" in out


def test_a_tool_that_does_not_look_for_the_fault_does_not_call_the_launch_clean(
    program, hostcuda_command
):
    status, out, _ = hostcuda_command(
        "sanitize", "--engine", "cpu", "--tool", "racecheck", program, "traps"
    )
    assert status == 6  # not checked
    assert (
        "nothing found in 1 launch; 1 launch not checked to the end (kernel traps, block (0,0,0), "
        in out
    )


@pytest.mark.parametrize(
    ("kernel", "line"), [("waits_for_a_later_block", 32), ("grid_barrier", 38)]
)
def test_a_kernel_that_does_not_end_is_told_where_it_stood(program, limit, kernel, line):
    findings = sanitize_script(program, [kernel, "never"], engine="cpu", timeout=300, capture=True)
    assert findings.ended.stopped and findings.clean
    where = rf"\(kernel {kernel}, block \(0,0,0\), thread \(\d+,0,0\) was stopped at fatal\.cu:{line}\. "
    # threads that wait let others run: any of them may be the one
    assert re.search(where, repr(findings))
    assert "Check mode runs one block after the other" in repr(findings)
