"""Mistakes of C++ after 2017, each at its line, and nothing in their repairs: groups, scopes, copies, textures."""

import functools
import re
from pathlib import Path

import pytest

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.core(
    "each planted mistake is found, each repair and each right kernel is clean: 25 s"
)

PROGRAM = Path(__file__).parents[1] / "programs" / "newer.cu"
RIGHT = PROGRAM.with_name("newer_right.cu")


@functools.cache
def check(*arguments, options=(), program=PROGRAM):
    return sanitize_script(
        str(program), [*arguments], engine="cpu", capture=True, options=["-std=c++17", *options]
    )


def list_marks():
    """Return (line, kind) of the lines that end with the kind of their mistake."""
    marks = re.compile(r".*[;{}]\s+// ([a-z ]+)$")
    lines = PROGRAM.read_text().splitlines()
    return [(n, match[1]) for n, line in enumerate(lines, 1) if (match := marks.match(line))]


def test_each_mistake_is_found_at_its_line():
    expected = list_marks()
    assert len(expected) == 19
    found = {
        (row["line"], row["kind"])
        for findings in (check(), check("deadlock"))
        for row in findings.table.to_dict("records")
    }
    assert found == set(expected)


def test_nothing_is_found_in_the_repairs():
    for findings in (check(options=("-DFIXED",)), check("deadlock", options=("-DFIXED",))):
        assert findings.outcome[0] == "pass", findings


def test_a_vote_between_two_accesses_is_said_to_order_nothing():
    messages = check().table.set_index("kernel")["message"]
    assert "a shuffle or vote orders no memory" in messages["vote_for_a_barrier"]
    assert "The scope of the atomic operation is its block" in messages["block_scope"]


def test_nothing_is_found_in_right_kernels():
    findings = check(program=RIGHT)
    assert findings.outcome[0] == "pass" and findings.launches == 23, findings
    assert findings.ended.output == "0 31\n" and not any(
        event["kind"] == "note" for event in findings.events
    )
