"""Shared by the tests of check mode."""

import signal
import subprocess
import sys

import pytest

from hostcuda import command as cli


@pytest.fixture
def hostcuda_command(monkeypatch, capfd):
    """The command `hostcuda`, within this process: exit status, stdout, stderr (its child's too)."""
    monkeypatch.setenv("HOSTCUDA_WARNINGS", "1")  # which the command sets, and which is not to stay

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["hostcuda", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code or 0, *capfd.readouterr())

    return run


@pytest.fixture
def limit():
    """A program that this process runs with a time limit has reached it when it sends SIGUSR1, and not by the clock:
    how long it takes until its kernel runs depends on the machine."""

    def reached(*_):
        raise subprocess.TimeoutExpired("the program", 0)

    before = signal.signal(signal.SIGUSR1, reached)
    yield
    signal.signal(signal.SIGUSR1, before)
