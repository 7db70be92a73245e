"""The arithmetic of a kernel's text: expressions, the elements that threads take, and texts that cannot be followed."""

import time

import pytest

from hostcuda.source import code_only
from labkit.exercises.arithmetic import (
    Follower,
    NotKnown,
    compute,
    describe_shares,
    describe_tile_rows,
    list_taken,
)
from labkit.exercises.exercise import SOURCE_CHARACTERS, exercise
from labkit.exercises.text import EXPLAINED

pytestmark = pytest.mark.core("a grader may say nothing false")

NAMES = {"a": 7, "b": -3, "c": 0, "SIDE": 22}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("a + b * 2", 1),
        ("(a + b) * 2", 8),
        ("b / 2", -1),  # C++ rounds towards zero
        ("b % 2", -1),
        ("a > 5 && b > 5 || !c", 1),
        ("a & 3 == 3", 1),  # == binds tighter than &
        ("c ? a : b", -3),
        ("-a - -b", -10),
        ("1u << 4", 16),
        ("(unsigned)a / 2", 3),
        ("(SIDE + 31) / 32 * 32", 32),
        ("SIDE | 1", 23),
        ("SIDE + 26 * sizeof(float)", 126),
        ("a / c", None),
        ("a << 40", None),
        ("a * 1000000000 * 10", None),
        ("unknown + 1", None),
        ("f(a)", None),
        ("a b", None),
        ("(a", None),
        ("010", None),
        ("", None),
        ("(" * 50 + "a" + ")" * 50, None),
        ("a +" * 500 + "a", None),
    ],
)
def test_an_expression_has_the_value_that_cpp_gives_it(expression, value):
    assert compute(expression, NAMES) == value


def follow(code):
    """Return the variables and the elements of x after these statements."""
    follower = Follower({"n": 5}, "x")
    follower.follow(code)
    return follower.names, [taken.index for taken in follower.taken]


@pytest.mark.parametrize(
    ("code", "taken"),
    [
        ("for (int i = 0; i < n; i += 2) s += x[i];", [0, 2, 4]),
        ("int i = 3; while (i > 0) { x[i] = 1; --i; }", [3, 2, 1]),
        ("if (n > 5) x[0] = 1; else x[1] = 1;", [1]),
        (
            "for (int i = 0; i < 2; ++i) for (int j = 0; j < 2; j++) y[j] = x[2 * i + j];",
            [0, 1, 2, 3],
        ),
        ("if (n == 5) return; x[0] = 1;", []),
        ("#pragma unroll\nx[1] = x[1] + x[2];", [1, 2]),
        ("float s = 0.5f; __syncthreads(); s = x[4];", [4]),
    ],
)
def test_a_thread_takes_the_elements_that_it_takes(code, taken):
    assert follow(code)[1] == taken


@pytest.mark.parametrize(
    "code",
    [
        "while (n) {}",
        "for (int i = 0; i < n; ++i) { if (x[i] > 0) break; }",
        "if (f()) return;",
        "int i = f(); x[i] = 1;",
        "int i = 0; i += f(); x[i] = 1;",
        "int i = 0; int &other = i; x[i] = 1;",
        "if (f()) x[0] = 1;",
        "do x[0] = 1; while (n);",
        "}",
        "x[0] = 1;" * 200,
    ],
)
def test_nothing_is_said_of_what_cannot_be_followed(code):
    with pytest.raises(NotKnown):
        follow(code)


SHARES = [
    ("00a", ("add", "a", 777, 3, 64, "element")),
    ("00b", ("add", "a", 1001, 4, 64, "element")),
    ("P2a", ("histogram", "pixels", 1000, 3, 128, "pixel")),
    ("P2b", ("histogram", "pixels", 1000, 3, 64, "pixel")),
    ("P3a", ("sum", "x", 1000, 3, 64, "number")),
    ("P3b", ("sum", "x", 1000, 3, 64, "number")),
]


@pytest.mark.parametrize(("number", "launch"), SHARES)
def test_the_solutions_take_each_element_once(number, launch):
    solution = code_only(exercise(number).solution)
    assert describe_shares(solution, *launch) == ""
    wrong = describe_shares(solution.replace("gridDim.x", "1"), *launch)
    assert "more than once: " in wrong or "no thread takes" in wrong
    assert launch[0] in solution
    assert describe_shares(solution, "other", *launch[1:]) == ""


def test_a_thread_lists_what_it_takes():
    names = {"n": 100, "threadIdx.x": 2, "blockIdx.x": 0}
    assert list_taken(code_only(exercise("00b").start), "add", "a", names) == [8, 9, 10, 11]
    assert list_taken("void add() { x[f()] = 1; }", "add", "x", names) == []


def test_rows_that_share_banks_are_told_how_many():
    solution, names = code_only(exercise("04a").solution), {"TILE": 16, "FIXED_K": 7}
    assert describe_tile_rows(solution, names) == ""
    longer = solution.replace("TILE + 32", "TILE + K")
    assert "has 23 words (line 17)" in describe_tile_rows(longer, names)
    assert "bank 23: they share 7 banks" in describe_tile_rows(longer, names)
    assert describe_tile_rows(longer.replace("[threadIdx.y + p]", "[threadIdx.x + p]"), names) == ""


@pytest.mark.parametrize(
    "part",
    [
        "add(",
        "add(){",
        "if (",
        "for(;;)",
        "{",
        "i = (",
        "- ",
        "x[",
        "if(1)i=2;",
        "++i;",
        "while(1)x[i];",
    ],
)
def test_the_time_to_follow_a_text_grows_with_its_length(part):
    for length in (EXPLAINED, SOURCE_CHARACTERS):
        text = "void add(int n) {" + (part * length)[: length - 20] + "}"
        began = time.process_time()
        describe_shares(text, "add", "x", 1000, 3, 64, "element")
        describe_tile_rows(text, NAMES)
        compute(text, NAMES)
        assert time.process_time() - began < 5
