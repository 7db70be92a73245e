"""The commands that this package adds to `labkit`."""

import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

import labkit_classroom
from labkit.cli import app

pytestmark = pytest.mark.core("whether the commands of a class are there")

PROJECT = tomllib.loads(
    Path(labkit_classroom.__file__).parents[1].joinpath("pyproject.toml").read_text()
)["project"]
COMMANDS = PROJECT["entry-points"]["labkit.commands"]


def test_labkit_has_them():
    result = CliRunner().invoke(app, ["--help"])
    assert result.exit_code == 0
    assert (
        {"autograder", "grade", "similarity", "student"} == {*COMMANDS} <= {*result.output.split()}
    )
    assert "..." not in result.output.replace("[ARGS]...", "")  # no summary is cut short


@pytest.mark.parametrize("name", COMMANDS)
def test_each_explains_itself(name):
    result = CliRunner().invoke(app, [name, "--help"], prog_name="labkit")
    assert result.exit_code == 0
    assert f"Usage: labkit {name}" in result.output
    # an argument is named once; a flag takes no value
    assert "[[" not in result.output and "bool" not in result.output
