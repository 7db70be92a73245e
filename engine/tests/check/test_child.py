"""Programs in processes of their own."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PARENT = """
import sys
from hostcuda import processes as child
child.run([sys.executable, "-c", "import os, time; print(os.getpid(), flush=True); time.sleep(60)"], {})
"""


def test_a_program_ends_with_the_process_that_runs_it():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    program = int(parent.stdout.readline())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    try:
        until = time.monotonic() + 20
        while time.monotonic() < until and _runs(program):
            time.sleep(0.02)
        assert not _runs(program)
    finally:
        parent.stdout.close()
        if _runs(program):
            os.kill(program, signal.SIGKILL)


def _runs(process):
    """Return whether the process exists and is not a zombie."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
