"""Kernels of the tests, and scripts and programs that run in processes of their own, on the CPU engine."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

from hostcuda import processes

ALL_TOOLS = "profile,memcheck,racecheck,initcheck,synccheck"
IMPORTS = """import json, os, signal, sys, threading, time
import numpy as np
import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda import checking
from hostcuda.compiler import SourceModule
"""


def kernel_source(name):
    """Return the source ``kernels/NAME.cu``, which one test file launches; messages name it."""
    path = Path(__file__).parent / "kernels" / f"{name}.cu"
    return f'#line 1 "{path.name}"\n{path.read_text()}'


def launch(module, name, *arguments, threads=32, blocks=1, **more):
    """Launch a kernel of a module on blocks in a row."""
    module.get_function(name)(*arguments, block=(threads, 1, 1), grid=(blocks, 1), **more)


def run_python(program, *arguments, timeout=60, **variables):
    """Run a Python program on the CPU engine, with these environment variables; return the completed process."""
    environment = {**os.environ, "HOSTCUDA_ENGINE": "cpu", **variables}
    command = [sys.executable, "-c", textwrap.dedent(program), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout, env=environment, check=False
    )


def run_script(script, *arguments, tools="profile"):
    """Run a script, behind `IMPORTS`, under tools of check mode; return the JSON in its last line, or None."""
    done = run_python(IMPORTS + script, *arguments, timeout=None, HOSTCUDA_CHECK=tools)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]) if done.stdout else None


def run_program(path, *arguments, options=()):
    """Run a program with its host code, or a Python program that imports PyCUDA; return the completed process."""
    command = processes.program(str(path), arguments, "cpu", options)
    environment = {**os.environ, "HOSTCUDA_ENGINE": "cpu"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
