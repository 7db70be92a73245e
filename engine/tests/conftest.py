"""Set-up for all tests: the CPU engine unless a variable names one, and one cache of compiled kernels for all runs."""

import gc
import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest
from suites import pytest_ignore_collect, pytest_pycollect_makeitem, pytest_terminal_summary  # noqa: F401 - hooks

import hostcuda
from hostcuda import command as cli
from hostcuda import settings
from hostcuda.api import compiler, driver

if not settings.variable("ENGINE")[1]:
    os.environ["HOSTCUDA_ENGINE"] = "cpu"
if not settings.variable("CACHE_DIR")[1]:
    os.environ["HOSTCUDA_CACHE_DIR"] = str(
        Path(tempfile.gettempdir()) / f"hostcuda-tests-{os.getuid()}"
    )
# as in a shell's background, and what is started inherits it
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="module")
def module(request):
    """Compile the `SOURCE` of a test file with its own `SourceModule` or that of the engine in use."""
    compile_source = getattr(request.module, "SourceModule", None) or hostcuda.compiler.SourceModule
    return compile_source(request.module.SOURCE, no_extern_c='extern "C"' in request.module.SOURCE)


@pytest.fixture
def write_program(tmp_path):
    """Return a function that writes the text of a program into a file and returns its path."""

    def write(text, name="program.cu"):
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


@pytest.fixture
def no_collection():
    """Collect no garbage in a test whose kernels wait for one not yet launched: memory would be freed after both."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def hostcuda_command(monkeypatch, capfd):
    """Return a function that runs `hostcuda` within this process: exit status, stdout, stderr (its child's too)."""
    monkeypatch.setenv("HOSTCUDA_WARNINGS", "1")  # the command sets it; it must not stay

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hostcuda", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def on_the_cpu(monkeypatch):
    """Choose the CPU engine for commands and programs, also where the tests run on a GPU."""
    monkeypatch.setenv("HOSTCUDA_ENGINE", "cpu")
    monkeypatch.setattr(hostcuda, "engine", lambda: "cpu")


@pytest.fixture
def cpu_engine(request, on_the_cpu, monkeypatch):
    """Make the test's `cuda` and `SourceModule` those of the CPU engine, whichever engine is in use."""
    monkeypatch.setattr(request.module, "cuda", driver, raising=False)
    monkeypatch.setattr(request.module, "SourceModule", compiler.SourceModule, raising=False)
