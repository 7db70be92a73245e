"""One thread from statement to statement: every value that is shown is the one that the program computed."""

import json
from pathlib import Path

import numpy as np
import pytest
from running import IMPORTS, run_python

from hostcuda import stepping

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

if stepping.why_not():
    pytest.skip(stepping.why_not(), allow_module_level=True)

SOURCE = (Path(__file__).parents[1] / "programs" / "steps.cu").read_text()
SCRIPT = r"""
from hostcuda import stepping
kernel, thread, block, launched, numbers = json.loads(sys.argv[1])
module = SourceModule(sys.argv[2], no_extern_c=True)
x = np.arange(64, dtype=np.float32) / 7
cuda.memcpy_htod(module.get_global("weights")[0], np.arange(6, dtype=np.float32) / 3)
x_gpu, y = cuda.to_device(x), cuda.to_device(np.zeros(256, np.float32))
arguments = [x_gpu, y] if kernel == "sums" else [y]

def launch():
    cuda.memset_d8(y, 0xff, 1024)
    module.get_function(kernel)(*arguments, *map(np.int32, numbers), grid=(2, 1), block=tuple(launched))
    cuda.Context.synchronize()

def plain(value):
    if isinstance(value, stepping.Pointer):
        return ["pointer", value.address - int(x_gpu), value.target.size]
    if isinstance(value, (list, dict)):
        return [*map(plain, value)] if isinstance(value, list) else {n: plain(v) for n, v in value.items()}
    return value

try:
    steps = stepping.follow(launch, module.get_function(kernel), thread, block)
except Exception as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(json.dumps([{
    "line": s.line, "function": s.function, "frame": s.frame, "file": s.file,
    "before": {n: plain(v) for n, v in s.before.items()}, "after": {n: plain(v) for n, v in s.after.items()},
    "accesses": [[a.op, a.space, a.name, list(a.shape), (a.address - a.base) // a.size, plain(a.value)]
                 for a in s.accesses],
} for s in steps]))
"""


def follow(kernel, thread=(0, 0, 0), block=(0, 0, 0), size=(32, 1, 1), numbers=(), tool="step"):
    job = json.dumps([kernel, thread, block, size, numbers])
    done = run_python(IMPORTS + SCRIPT, job, SOURCE, HOSTCUDA_CHECK=tool)
    return json.loads(done.stdout) if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def line_of(text):
    return next(number for number, line in enumerate(SOURCE.splitlines(), 1) if text in line)


@pytest.fixture(scope="module")
def sums():
    return follow("sums", (5, 0, 0), (1, 0, 0), numbers=[40])


@pytest.fixture(scope="module")
def kinds():
    return follow("kinds", numbers=[3])


def test_each_value_is_what_numpy_computes(sums):
    x, weights = (
        np.arange(64, dtype=np.float32) / 7,
        (np.arange(6, dtype=np.float32) / 3).reshape(2, 3),
    )
    expected, sum_ = [], np.float32(0)
    for i in range(40):
        factor = weights[i % 2, i % 3]
        sum_ = np.float32(sum_ + np.float32(factor * x[(5 + i) % 32]))
        expected.append((i, float(factor), float(sum_)))
    products = [step for step in sums if step["line"] == line_of("sum += factor")]
    assert [(s["after"]["i"], s["before"]["factor"], s["before"]["sum"]) for s in products[1:]] == [
        (i, factor, before)
        for (i, factor, _), (_, _, before) in zip(expected[1:], expected, strict=False)
    ]
    (stored,) = (step for step in sums if step["line"] == line_of("y[t] = sum"))
    assert stored["before"]["sum"] == expected[-1][2]
    assert stored["accesses"] == [["st", "global", "", [], 5, expected[-1][2]]]


def test_accesses_have_the_value_that_was_read_or_is_written(sums):
    (copied,) = (step for step in sums if step["line"] == line_of("tile[t / 8]"))
    value = float(np.float32(5) / np.float32(7))
    assert copied["accesses"] == [
        ["ld", "global", "", [], 5, value],
        ["st", "shared", "tile", [4, 8], 5, value],
    ]
    read = [step["accesses"] for step in sums if step["line"] == line_of("const float factor")]
    assert read[4] == [
        ["ld", "constant", "weights", [2, 3], 1, float(np.float32(1) / np.float32(3))]
    ]


def test_a_pointer_moves_by_what_was_added(sums):
    (moved,) = (step for step in sums if step["line"] == line_of("x += 2 * t"))
    assert (moved["before"]["x"], moved["after"]["x"]) == (["pointer", 0, 4], ["pointer", 40, 4])


def test_a_variable_is_known_only_where_it_is_in_scope(sums):
    outside = (line_of("y[t] = sum"), line_of("float sum"))
    assert [step["before"].get("i") for step in sums if step["line"] in outside] == [None, None]
    assert all("factor" in s["after"] for s in sums if s["line"] == line_of("const float factor"))


def test_each_kind_of_value(kinds):
    (last,) = (step for step in kinds if step["line"] == line_of("*out = exact"))
    values = last["before"]
    assert values["four"] == {"x": 1, "y": 2, "z": 3, "w": 3} and values["point"] == {
        "x": 3,
        "y": 0.5,
    }
    assert (values["small"], values["flag"], values["letter"]) == (1.5, True, 200)
    assert (values["wide"], values["exact"], values["later"]) == (-(1 << 40), 1 / 3, 8)
    assert last["accesses"][0][5] == 1 / 3 + 8


def test_what_has_not_been_set_is_none(kinds):
    """Uninitialized variables, elements of an array, and the variable of a block that begins anew."""
    at = {step["line"]: step for step in kinds if step["function"] == "kinds"}
    first = next(step for step in kinds if step["line"] == line_of("float4 four"))
    assert first["before"]["later"] is None and first["before"]["some"] == [None] * 4
    assert first["before"]["exact"] is None and first["before"]["point"] == {"x": None, "y": None}
    assert at[line_of("later = some")]["before"]["some"] == [6, 8, None, None]
    inner = [
        step["before"]["inner"] for step in kinds if step["line"] == line_of("some[i] = twice")
    ]
    assert inner == [7, None]  # the second time its block has begun again


def test_the_lines_of_a_called_function_stand_between(kinds):
    called = [step for step in kinds if step["function"] == "twice"]
    assert [step["line"] - line_of("__device__ int twice") for step in called] == [2, 3, 4] * 2
    assert [step["frame"] for step in called] == [1] * 3 + [2] * 3
    assert [step["after"].get("result") for step in called] == [3, 6, None, 4, 8, None]
    calls = [step for step in kinds if step["line"] == line_of("some[i] = twice")]
    assert [step["after"]["some"][:2] for step in calls] == [[6, None], [6, 8]]


def test_turns_of_a_loop_on_one_line_are_steps():
    steps = follow("one_line")
    before = [(step["before"].get("i"), step["before"].get("s")) for step in steps]
    assert before == [(None, None), (0, 0), (1, 0), (2, 1)]
    assert steps[-1]["accesses"] == [["st", "global", "", [], 0, 3]]


@pytest.mark.parametrize("thread", [0, 40])
def test_other_threads_run_between(thread):
    steps = follow("waits", (thread, 0, 0), (1, 0, 0), (64, 1, 1))
    other = next(step for step in steps if step["line"] == line_of("int other"))
    assert other["after"]["other"] == 63 - thread
    assert other["accesses"] == [["ld", "shared", "seen", [64], 63 - thread, 63 - thread]]
    assert steps[-1]["accesses"] == [["st", "global", "", [], thread, 63 - thread]]


@pytest.mark.parametrize(
    ("kernel", "more", "words"),
    [
        ("undecided", {}, "depends on memory that has not been set"),  # which way it goes
        (
            "beyond",
            {"numbers": [1000]},
            "write of 4 bytes at element 1000 of an allocation, 745 past the end of its 256 elements",
        ),
        ("one_line", {"tool": "step,profile"}, "used alone"),
        ("one_line", {"tool": "profile"}, "set HOSTCUDA_CHECK=step"),
    ],
)
def test_what_cannot_be_followed_is_said(kernel, more, words):
    sentence = follow(kernel, **more)
    assert words in sentence and sentence.startswith(
        "LaunchError" if kernel == "beyond" else ("Engine", "hostcuda")
    )


def test_a_thread_that_is_not_there_makes_no_step():
    assert follow("one_line", (32, 0, 0)) == []


def test_other_processors_and_compilers_are_refused(monkeypatch):
    monkeypatch.setattr(stepping.toolchain, "is_clang", lambda command: True)
    assert (
        stepping.why_not()
        == "a thread can be followed with g++ alone, and the compiler here is clang: set CXX=g++"
    )
    monkeypatch.setattr(stepping.instrument, "can_instrument", lambda: False)
    assert stepping.why_not() == "a thread can be followed on x86-64 processors alone"
