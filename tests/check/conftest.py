"""Shared by the tests of check mode."""

import sys

import pytest

from labkit.report import command as cli


@pytest.fixture
def labkit_command(monkeypatch, capfd):
    """The command `labkit`, within this process: exit status, stdout, stderr (its child's too)."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["labkit", *arguments])
        with pytest.raises(SystemExit) as ended:
            cli.main()
        return (ended.value.code or 0, *capfd.readouterr())

    return run
