"""Kernels of the tests, and scripts and programs that run in processes of their own, on the CPU engine."""

import json
import os
import subprocess
import sys
from pathlib import Path

from hostcuda import processes

ALL_TOOLS = "profile,memcheck,racecheck,initcheck,synccheck"


def kernel_source(name):
    """Return the source ``kernels/NAME.cu``, which one test file launches; messages name it."""
    path = Path(__file__).parent / "kernels" / f"{name}.cu"
    return f'#line 1 "{path.name}"\n{path.read_text()}'


def run_script(script, *arguments, tools="profile"):
    """Run a script under these tools of check mode; return the JSON in the last line that it prints, or None."""
    environment = {**os.environ, "HOSTCUDA_ENGINE": "cpu", "HOSTCUDA_CHECK": tools}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def run_program(path, *arguments, options=()):
    """Run a program with its host code, or a Python program that imports PyCUDA; return the completed process."""
    command = processes.program(str(path), arguments, "cpu", options)
    environment = {**os.environ, "HOSTCUDA_ENGINE": "cpu"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
