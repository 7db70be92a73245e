"""Shared by the tests of check mode."""

import signal
import subprocess
import sys

import pytest

from hostcuda import command as cli


@pytest.fixture
def hostcuda_command(monkeypatch, capfd):
    """Return a function that runs `hostcuda` within this process: exit status, stdout, stderr (its child's too)."""
    monkeypatch.setenv("HOSTCUDA_WARNINGS", "1")  # the command sets it; it must not stay

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hostcuda", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def limit():
    """Let a program's time limit be reached when it sends SIGUSR1: the time until its kernel runs varies by machine."""

    def reached(*_):
        raise subprocess.TimeoutExpired("the program", 0)

    before = signal.signal(signal.SIGUSR1, reached)
    yield
    signal.signal(signal.SIGUSR1, before)
