"""Shared by the tests of check mode."""

import signal
import subprocess

import pytest


@pytest.fixture
def limit():
    """Let a program's time limit be reached when it sends SIGUSR1: the time until its kernel runs varies by machine."""

    def reached(*_):
        raise subprocess.TimeoutExpired("the program", 0)

    before = signal.signal(signal.SIGUSR1, reached)
    yield
    signal.signal(signal.SIGUSR1, before)
