"""Counts that are taken from the text of a kernel."""

import time
from collections import defaultdict

import pytest

from hostcuda.source import constant_arrays, has_dynamic_shared, kernel_names
from labkit.exercises import judge
from labkit.exercises.exercise import SOURCE_CHARACTERS, Attempt, exercise
from labkit.exercises.text import (
    EXPLAINED,
    count_features,
    explain_race,
    find_unset_sums,
    is_explained,
    list_causes,
    list_slips,
    loops,
)
from labkit.ladder.source import find_functions

pytestmark = pytest.mark.thorough("every exercise: minutes; the notebooks grade a few")


@pytest.mark.parametrize(
    ("code", "divisions"),
    [
        ("int h = n / W; for (int i = 0; i < n; ++i) s += x[i]; y = s / n;", 0),
        ("for (int i = 0; i < n / 2; ++i) { a[i] = i % 3; }", 2),
        ("while (n) n /= 2; n /= 2;", 1),
        ("for (;;)\n    #pragma unroll\n    for (;;) { if (a) b / 2; else { c % 2; } } d / 2;", 2),
        ("for (;;) x[i / 2] = f(i % 2, [&] { return 1; }); i / 2;", 2),
        ("do { x / 2; } while (a); y / 2;", 1),
        ("formula / 2; for (", 0),
    ],
)
def test_divisions_in_loops(code, divisions):
    assert count_features(code)["divisions_in_loops"] == divisions


@pytest.mark.parametrize(
    ("code", "floats"),
    [
        ("half zero = __float2half(0), one = __float2half(1.0f);", 0),
        ("half2 s = __floats2half2_rn(a.x, b.x);", 0),
        ("float2 sum = {0, 0};", 1),
        ("auto part = __half22float2(s);", 1),
        ("auto x = 0.f;", 1),
        ("auto x = 1e3;", 1),
        ("auto p = make_float2(0, 0);", 1),
        ("auto p = fmaf(a, b, c);", 1),
        ("p = __fadd_rn(a, b);", 1),
        ("(float)a", 1),
        ("if (a) x = half(3) + sizeof(h); int h2 = (n + 1) / 2 + 0x1f; u[1].x", 0),
        ("decltype(__low2float(a)) x;", 1),
    ],
)
def test_floats_that_a_text_has(code, floats):
    assert count_features(code)["floats"] == floats


def test_a_loop_in_a_loop_is_a_part_of_it():
    inner = "for (int j = 0; j < 3; ++j) s += j;"
    assert [*loops(f"a; for (;;) {{ {inner} }} b; while (s) --s;")] == [
        f"for (;;) {{ {inner} }}",
        "while (s) --s;",
    ]


@pytest.mark.parametrize(
    ("code", "unset"),
    [
        ("float sum[2];\n  sum[0] += a;", ["float sum[2];"]),
        ("float sum[MAPS][ROWS];\n  sum[m][r] += a; y = sum[m][r];", ["float sum[MAPS][ROWS];"]),
        ("float sum[2] = {};\n  sum[0] += a;", []),
        ("float sum[2];\n  sum[i] = 0; sum[0] += a;", []),
        ("float sum[2];\n  clear(sum); sum[0] += a;", []),
        ("float column[2];\n  column[i] = x[i]; s += column[0];", []),
        ("__shared__ float sum[2];\n  sum[0] += a;", []),
        ("float sum[2];\n  if (sum[0] == 0) sum[0] += a;", ["float sum[2];"]),
    ],
)
def test_sums_that_nobody_sets_to_zero(code, unset):
    assert find_unset_sums(code) == unset


@pytest.mark.parametrize(
    ("code", "findings", "wrong", "says"),
    [
        ("void f(float *restrict y)", (), "compiles\n", "__restrict__"),
        ("int sum = 0; sum += x[i] * k[j];", (), "right\n", "`sum` is an int"),
        ("int n = 0, m; n += K * x[i];", (), "right\n", "`n` is an int"),
        ("for (int i = 0; i < n; i += 2 * K) y[i] = 0;", (), "right\n", ""),
        ("int i = 0; for (; i < n; i += 2 * K) y[i] = 0;", (), "right\n", ""),
        ("float sum = 0; int i = 0; i += 2; sum += x[i] * k[j];", (), "right\n", ""),
        ("int sum = 0; sum += expf(x[i] - most);", (), "right\n", "`sum` is an int"),
        ("int n = 0; n += x[i];", (), "right\n", ""),
        (
            "a;\nfor (int i = 0; i < n; ++i)\n    const int q = i; y[q] = 0;",
            (),
            "compiles\n",
            "The loop in line 2 has no",
        ),
        ("for (int i = 0; i < n; ++i) {\n    const int q = i; y[q] = 0; }", (), "compiles\n", ""),
        (
            "for (int i = 0; i < n; ++i) {\n    const int q = i;",
            (),
            "compiles\n",
            "There are 1 { and 0 }: each",
        ),
        (
            "if (i) __shfl_up_sync(m, v, 1);",
            ("divergent barrier",),
            "clean\nat __shfl_up_sync",
            "Every lane that the mask",
        ),
        (
            "if (i) __shfl_xor_sync(m, v, 1);",
            ("exited lanes",),
            "clean\nat __shfl_xor_sync",
            "Every lane that the mask",
        ),
        (
            "int each = n / (gridDim.x * blockDim.x);",
            (),
            "right\n",
            "`n / (gridDim.x * blockDim.x)` drops the remainder",
        ),
        ("int each = (n + threads - 1) / threads;", (), "right\n", ""),
        (
            "float sum;",
            (),
            "right\n'sum' may be used uninitialized",
            "`sum` may be read before it has a value",
        ),
        (
            "float s = 0; int i = blockDim.y + 1; s += x[i];",
            (),
            "right\nas if nothing was written",
            "No result is stored",
        ),
        ("y[i] += x[i];", (), "right\nas if nothing was written", ""),
        ("int sum = 0; sum += x[i] * k[j];", (), "", ""),
        ("const int t = i / 4, m = i %  4;", (), "right\n", "Line 1 has / and % exchanged"),
        ("const int t = i % 4, m = i / 4;", (), "right\n", ""),
        (
            "__shared__ float a[4]; a[i] = a[i + 1];",
            ("uninitialized",),
            "clean",
            "`a` is filled from itself",
        ),
        (
            "__shared__ float a[4]; a[i] = x[i]; a[i] = a[i] + a[i + 1];",
            ("uninitialized",),
            "clean",
            "",
        ),
        ("__shared__ float a[4]; a[i] = a[i + 1];", (), "right", ""),
    ],
)
def test_causes_that_any_kernel_may_have(code, findings, wrong, says):
    sentences = [
        *list_causes(Attempt(code, {}, findings, wrong), ["const int t = i % 4, m = i / 4;"])
    ]
    assert sentences[0].startswith(says) or says in sentences[0] if says else sentences == [], (
        sentences
    )


RIGHT = """
__global__ void add(const float *x, float *y, int n, int columns)
{
    __shared__ float tile[32][33];
    float sum = 0;
    for (int i = blockIdx.x * 64 + threadIdx.x; i < n; i += 32)
        sum += x[i * columns + threadIdx.y];
    if (sum > 0 && n != 3)
        y[blockIdx.x] = sum;
}
"""


@pytest.mark.parametrize(
    ("edits", "says"),
    [
        (
            [("i < n", "i <= n")],
            "Line 6 has `<=` in a comparison: the case in which both sides are equal does not",
        ),
        ([("sum > 0", "sum >= 0")], "Line 8 has `>=` in a comparison"),
        ([("n != 3", "n == 3")], "the condition is the wrong way round"),
        ([("sum +=", "sum =")], "Line 7 has `=`: = forgets"),
        ([("threadIdx.y", "threadIdx.x")], "Line 7 has `threadIdx.x`: what do x and y count"),
        ([("y[blockIdx", "x[blockIdx")], "Line 9 has `x`, where another name belongs"),
        ([("[32][33]", "[33][32]")], "Line 4 has `32` and `33` exchanged"),
        ([("[32][33]", "[16][33]")], "Line 4 has the number 16: compare the array's size"),
        ([("i += 32", "i += 64")], "Line 6 has the number 64, where another number"),
        ([("float sum", "int sum")], "Line 5 has the type `int`"),
        ([("* 64 + th", "* 64 - th")], "Line 6 has `-`, where another operator belongs"),
        ([(" * columns", "")], "Line 7 lacks a factor"),
        ([(" && n != 3", "")], "Line 8 lacks a condition"),
        ([("i < n", "i < n - 1")], "Line 6 has `- 1`, which"),
        ([("* 64 + th", "* 64 + 2 * th")], "Line 6 has `2 *`, which"),
        ([("blockIdx.x * 64 + ", "")], "Line 6 lacks a term"),
        (
            [("blockIdx.x * 64 + threadIdx.x", "blockIdx.x * (64 + threadIdx.x)")],
            "other parentheses",
        ),
        (
            [("i * columns + threadIdx.y", "columns + i * threadIdx.y")],
            "the right words in another order",
        ),
        ([("threadIdx.x; i < n", "5; i < n")], "Line 6 has the number 5, where a"),
        (
            [("y[blockIdx.x] = sum", "y[0] = sum")],
            "Line 9 has the number 0, where an expression belongs",
        ),
        ([("i < n", "i <= n"), ("sum > 0", "sum < 0")], "Line 6 has `<=`"),  # two lines
        ([], ""),  # the solution itself
        (
            [("i < n", "i <= n"), ("sum > 0", "sum < 0"), ("float sum", "int sum")],
            "",
        ),  # three lines
        ([("y[blockIdx.x] = sum", "atomicAdd(y + blockIdx.x, sum)")], ""),  # another way
        ([("i < n", "i <= n"), ("    float sum = 0;\n", "")], ""),  # a line less
    ],
)
def test_a_slip_in_a_line_of_the_solution_is_named(edits, says):
    code = RIGHT
    for old, new in edits:
        assert code.count(old) == 1
        code = code.replace(old, new)
    sentences = [*list_slips(Attempt(code, {}, (), "right\n"), RIGHT)]
    assert [says in sentence for sentence in sentences] == ([True] if says else []), sentences
    assert not [*list_slips(Attempt(code, {}, (), ""), RIGHT)]  # right results are no slip's


SLOW = (
    "for ( ",
    "for ()x ",
    "int a = 0 a += ",
    "__shared__ float a[1] a[",
    "a += ",
    "float a[",
    "__global__ void a(",
    "__global__ ",
    "__constant__ a ",
    "extern ",
    "(",
    "[",
    "{",
    "a",
    " ",
    "if (",
    "row ",
    "__restrict__ x ",
    "f(){",
    "a:",
    "#define a\n",
    "goto a; a: ",
    "float a[1];\na[0] += 1;\n",
    "a[a[1] ",
    "a[[",
    "a. ",
    "x=[",
    "for(;;){f();}f(){}",
    "for(;;)",
    "f",
)


@pytest.mark.parametrize("part", SLOW)
def test_the_time_to_read_a_text_grows_with_its_length(part):
    """Each of these texts took more than five seconds, or would if a pattern were tried at each of its places."""
    source = (part * SOURCE_CHARACTERS)[: SOURCE_CHARACTERS - 2] + "{}"
    began = time.process_time()
    for read in (
        find_functions,
        kernel_names,
        constant_arrays,
        has_dynamic_shared,
        count_features,
        find_unset_sums,
    ):
        read(source)
    for wrong in ("compiles\n", "right\n"):
        [*list_causes(Attempt(source, {}, ("uninitialized",), wrong), ["a"])]
        judge.find_mistake(
            exercise("07b"), Attempt(source, {}, (), wrong), [judge.GradeLine(False, wrong)]
        )
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("number", "part"),
    [
        ("04b", "if (h < Ho "),  # went on for hours as one statement
        ("05a", "u[h * W + "),
        ("06a", "p -= p >= K; c += (p >= K); "),
        ("P1a", "out[ "),
        ("P5b", "a[aa][aa][aa]"),
        ("P9a", "if (a) {return; "),
    ],
)
@pytest.mark.parametrize("end", ["", ";"])
def test_the_time_to_find_a_mistake_is_limited(number, part, end):
    """Each exercise has patterns with several parts; the text is one statement, or as many as it may have."""
    statement = part * (900 // len(part)) + end
    used = "threadIdx.x threadIdx.y blockIdx.x blockIdx.y y[ atomicAdd gridDim "
    source = (used + statement * EXPLAINED)[:EXPLAINED]
    task = exercise(number)
    counts = defaultdict(lambda: defaultdict(lambda: 128.0))
    began = time.process_time()
    for attempt in (
        Attempt(source, {}, ("race", "out of bounds"), "clean\n"),
        Attempt(source, {}, (), "right\nwrong"),
        Attempt(source, counts, (), ""),
    ):
        judge.find_mistake(task, attempt, [judge.GradeLine(False, attempt.wrong)])
    assert time.process_time() - began < 5


def test_a_text_with_a_very_long_statement_is_not_explained():
    assert is_explained("x = 1;\n" * 1000)
    assert is_explained("x = 1;" + " " * 5000 + "y = 2;")  # a long comment
    assert not is_explained("(lane)" + " " * 9000)  # patterns with "any blanks" take seconds
    assert not is_explained("x = 1;\n" * 3000)
    assert not is_explained("x = 1" + " + 1" * 400 + ";")


@pytest.mark.parametrize("part", ["for(;;)\n", "for(;;){\n", "do ", "while(x)a;\n"])
def test_the_time_to_explain_a_race_grows_with_the_length_of_the_text(part):
    loops = part * (EXPLAINED // len(part) * 9 // 10)
    source = f"__global__ void f()\n{{\n{loops}x[1] = 2;\ny = x[1];\n}}\n"
    line = source[: source.index("y = x[1]")].count("\n") + 1
    finding = RACE.format(line - 1, "31,0,0", "32,0,0", "write and read", line)
    began = time.process_time()
    assert explain_race(finding, source).startswith(
        f"No barrier stands between line {line - 1} and line {line}: "
    )
    assert time.process_time() - began < 5


RACE = (
    "race, line {}: threads ({}) and ({}) of a block {} element 3 of the __shared__ array part\n"
    "    x\n  and line {}: x"
)


def write_kernel(*lines):
    """Return a kernel with these lines, from line 2 on."""
    return "\n".join(["__global__ void f(int *y) {", *lines, "}"])


@pytest.mark.parametrize(
    ("lines", "what", "at", "other", "says"),
    [
        (
            ("part[i] = 1;", "y[i] = part[j];"),
            "write and read",
            3,
            2,
            "No barrier stands between line 2 and line 3",
        ),
        (("part[i] = 1;", "__syncthreads();", "y[i] = part[j];"), "write and read", 4, 2, ""),
        (
            ("for (;;) {", "part[i] = 1;", "__syncthreads();", "y[i] = part[j];", "}"),
            "read and write",
            3,
            5,
            "A barrier stands between line 3 and line 5, and none between line 5 and line 3 of the next iteration",
        ),
        (
            (
                "for (;;) {",
                "part[i] = 1;",
                "__syncthreads();",
                "y[i] = part[j];",
                "__syncthreads();",
                "}",
            ),
            "",
            3,
            5,
            "",
        ),
        (
            ("part[i] += part[j];",),
            "write and read",
            2,
            2,
            "Line 2 changes an element that another thread reads",
        ),
        (("part[0] = i;",), "both write", 2, 2, "Two threads write one element in line 2"),
        (("part[0] = i;",), "use", 2, 2, ""),
        (('asm("bar.sync 0;");', "part[i] = 1;", "y[i] = part[j];"), "write and read", 4, 3, ""),
    ],
)
def test_a_race_is_explained_by_the_barriers_of_the_text(lines, what, at, other, says):
    finding = RACE.format(at, "0,0,0", "32,0,0", what, other)
    told = explain_race(finding, write_kernel(*lines))
    assert told.startswith(says) if says else not told
    assert "one warp" not in told


def test_lanes_of_a_warp_need_a_barrier_of_the_warp():
    kernel = write_kernel("part[i] = 1;", "y[i] = part[j];")
    assert "lanes of one warp" in explain_race(
        RACE.format(3, "1,0,0", "2,0,0", "write and read", 2), kernel
    )
    assert "lanes of one warp" not in explain_race(
        RACE.format(3, "1,0,0", "1,1,0", "write and read", 2), kernel
    )


def test_a_line_that_a_loop_comes_back_to_without_a_barrier():
    told = [
        explain_race(RACE.format(3, "0,0,0", "32,0,0", "write and read", 3), write_kernel(*lines))
        for lines in (
            ("for (;;) {", "part[i] += part[j];", "}"),
            ("for (;;) {", "part[i] += part[j];", "__syncthreads();", "}"),
        )
    ]
    assert ["comes back to this line" in sentence for sentence in told] == [True, False]


def test_a_race_in_a_function_is_not_explained():
    source = "__device__ void g(int *p) {\np[0] = 1;\n}\n" + write_kernel(
        "g(part);", "y[i] = part[j];"
    )
    assert explain_race(RACE.format(6, "0,0,0", "32,0,0", "write and read", 2), source) == ""
