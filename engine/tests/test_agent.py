"""The report for coding agents: verdicts on broken kernels, repairs that were run, the command, and the server."""

import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from hostcuda.agent import as_text, check, child, look, report, run
from hostcuda.agent.advice import say_next
from hostcuda.agent.patterns import describe_errors
from hostcuda.agent.repair import make_unequal_case
from hostcuda.agent.report import MOST_JSON, MOST_TEXT
from hostcuda.agent.run import build_job, run_job
from hostcuda.errors import EngineError
from hostcuda.sandbox import why_not

pytestmark = pytest.mark.core("what a coding agent is told")

N = 300
INDEX = "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
# One source, so that it is compiled once: a kernel, and what is wrong with it.
BROKEN = {
    "right": "if (i < n) y[i] = x[i] + 1;",
    "no_barrier": "__shared__ float s[64]; s[threadIdx.x] = i < n ? x[i] : 0; if (i < n) y[i] = s[63 - threadIdx.x];",
    "no_guard": "y[i] = x[i] + 1;",
    "unset_shared": "__shared__ float s[64]; if (i % 2) s[threadIdx.x] = 1; if (i < n) y[i] = s[threadIdx.x] + x[i];",
    "shifted": "if (i < n) y[i] = x[(i + 1) % n] + 1;",
    "nothing_written": "if (i > n + 100) y[i] = x[i] + 1;",
    "part_written": "if (i < n - 44) y[i] = x[i] + 1;",
    "global_race": "if (i < n) y[0] = x[i];",
    "overflow": "int k = (int)(i * 10000000u); if (i < n && k >= 0) y[i] = x[i] + 1;",
    "forever": "volatile float *p = y; p[0] = 1; while (p[0] > 0) p[0] = 1;",
}


def write_kernel(body, name="k"):
    return f"__global__ void {name}(const float *x, float *y, int n) {{\n{INDEX}  {body}\n}}\n"


SOURCE = "".join(write_kernel(body, name) for name, body in BROKEN.items())
REFERENCE = "def reference(x, y, n):\n    return x + 1\n"
slow = pytest.mark.thorough("each check is a process, and compiles")


def launch(grid, block, **arguments):
    """Return a case; an argument is a number, or the shape of an array of float32."""
    specs = {
        name: {"shape": value, "dtype": "float32"} if isinstance(value, list) else value
        for name, value in arguments.items()
    }
    return {"grid": [grid], "block": [block], "arguments": specs}


CASE = launch(5, 64, x=[N], y=[N], n=N)


def inspect(kernel, source=SOURCE, **more):
    more = {"repairs": False, "cases": [CASE], "reference": REFERENCE, **more}
    report = check(source, kernel, **more)
    text = as_text(report)
    assert len(json.dumps(report).encode()) <= MOST_JSON and len(text.encode()) <= MOST_TEXT
    assert not re.search(
        r"0x[0-9a-f]{5,}|hostcuda/|g\+\+|-fsanitize|Traceback", json.dumps(report) + text
    )
    assert all(row["value"] or row.get("before") for row in report["counts"])
    return report


@slow
def test_a_right_kernel_passes_and_has_counts():
    report = inspect("right")
    assert report["verdict"] == "pass" and not report["findings"] and not report["results"]
    counts = {row["counter"]: (row["value"], row["line"]) for row in report["counts"]}
    assert counts["global_load_requests"] == (10, 3), "ten warps load once, on the third line"
    assert report["busiest"] == "DRAM" and "busiest, by its counts: DRAM." in report["next"]


@slow
def test_counts_that_moved_have_their_line():
    before = inspect("right")
    strided = SOURCE.replace("y[i] = x[i] + 1;", "y[i] = x[i * 7 % n] + 1;", 1)
    after = inspect("right", strided, previous=before)
    moved = {row["counter"]: row for row in after["counts"] if "before" in row}
    assert moved.keys() == {"global_load_sectors"} and after["verdict"] == "wrong_result"
    row = moved["global_load_sectors"]
    assert row["line"] == 3 and row["value"] > row["before"]
    other = inspect("right", previous={**before, "cases": "others"})
    assert other["not_compared"] and not any("before" in row for row in other["counts"])
    judged_otherwise = inspect("right", reference=f"{REFERENCE}  # of another kernel\n")
    assert before["report"] == other["report"] != judged_otherwise["report"]


@slow
@pytest.mark.parametrize(
    ("kernel", "verdict", "kind", "says"),
    [
        ("no_barrier", "unsafe", "race", "without a barrier"),
        ("no_guard", "unsafe", "out of bounds", "x[300], one past the end of 300 floats"),
        ("unset_shared", "unsafe", "uninitialized", "uninitialized shared memory"),
        ("global_race", "unsafe", "race", ""),
        ("shifted", "wrong_result", None, "element i has the right value of element i + 1"),
        ("nothing_written", "wrong_result", None, "every element, none of them written"),
        (
            "part_written",
            "wrong_result",
            None,
            "elements 256 to 299 (the last 44), none of them written",
        ),
        ("overflow", "wrong_result", None, "none of them written"),
    ],
)
def test_a_broken_kernel_has_its_verdict(kernel, verdict, kind, says):
    report = inspect(kernel)
    line = 3 + SOURCE.splitlines().index(
        f"__global__ void {kernel}(const float *x, float *y, int n) {{"
    )
    assert report["verdict"] == verdict
    if kind:
        first = next(one for one in report["findings"] if one["kind"].startswith(kind))
        assert first["line"] == line and says in first["says"]
        assert first["text"][first["caret"].index("^")] in "xys", "the caret is below the array"
    else:
        assert not report["findings"] and says in report["results"][0]["pattern"]
        assert (
            report["results"][0]["of"] == N
            and f"Look at line {line}, which writes it, " in report["next"]
        )


@slow
def test_a_grid_that_is_too_small_is_the_fault_of_the_case():
    """A kernel is right where it is written; with more threads than elements the case has no part in it."""
    source = write_kernel("if (i < n) y[i] = 2 * x[i];")
    reference = "def reference(x, y, n):\n    return 2 * x\n"
    report = check(source, cases=[launch(3, 256, x=[1000], y=[1000], n=1000)], reference=reference)
    assert (
        report["results"][0]["pattern"]
        == "elements 768 to 999 (the last 232), none of them written"
    )
    assert (
        "the case launches 768 threads for 1,000 elements: give it a larger grid" in report["next"]
    )
    bytes_of = source.replace("float", "unsigned char").replace("2 * x[i]", "165")
    case = launch(3, 256, x=[1000], y=[1000], n=1000)
    case["arguments"] |= {name: {"shape": [1000], "dtype": "uint8"} for name in "xy"}
    of_ones = check(
        bytes_of, cases=[case], reference="def reference(x, y, n):\n    return 0 * x + 165\n"
    )
    # memory that nothing has set may hold what is right
    assert of_ones["results"][0]["unwritten"] == of_ones["results"][0]["wrong"] == 232
    maximum = source.replace("2 * x[i]", "fmaxf(0, x[i])")
    report = check(
        maximum,
        cases=[launch(3, 256, x=[1000], y=[1000], n=1000)],
        reference="def reference(x, y, n):\n    return x\n",
    )
    pattern = report["results"][0]["pattern"]
    assert "does a maximum begin at 0?; not written: elements 768 to 999 (the last 232)" in pattern
    assert "Look at what its maximum begins with. And the case launches 768" in report["next"]
    less = source.replace("i < n", "i < n - 232")
    report = check(less, cases=[launch(4, 256, x=[1000], y=[1000], n=1000)], reference=reference)
    assert report["results"][0]["unwritten"] == 232 and "threads" not in report["results"][0]
    assert "which writes it, at its index" in report["next"]


@slow
@pytest.mark.parametrize(
    ("statement", "case", "says"),
    [
        (
            "if (i >= n) return; y[i] = x[i];",
            launch(2, 64, x=[100], y=[100], n=128),
            "The kernel compares with n, which is 128 in case 1, and x has 100 elements: the case is at fault",
        ),
        (
            "__shared__ float s[8][8]; s[threadIdx.y][threadIdx.x] = x[i]; __syncthreads(); "
            "y[i] = s[7 - threadIdx.y][threadIdx.x];",
            {**launch(1, 0, x=[32], y=[32], n=32), "block": [8, 4]},
            "s has 8 x 8 elements, and the block of case 1 has 8 x 4 threads",
        ),
    ],
    ids=["size", "block"],
)
def test_a_case_that_is_at_fault_is_named(statement, case, says):
    report = inspect("", write_kernel(statement), cases=[case], reference="")
    assert report["verdict"] == "unsafe" and report["next"].startswith(says)


@slow
@pytest.mark.parametrize(
    ("statement", "right", "wrong"),
    [
        (
            "if (i >= n) return; y[i] = x[i] + 1;",
            launch(2, 64, x=[100], y=[100], n=100),
            launch(2, 64, x=[100], y=[100], n=128),
        ),
        (
            "__shared__ float s[8][8]; int t = 8 * threadIdx.y + threadIdx.x; s[threadIdx.y][threadIdx.x] = x[t]; "
            "__syncthreads(); y[t] = s[threadIdx.y][threadIdx.x] + 0 * s[7 - threadIdx.y][threadIdx.x] + 1;",
            {**launch(1, 0, x=[64], y=[64], n=64), "block": [8, 8]},
            {**launch(1, 0, x=[64], y=[64], n=64), "block": [8, 4]},
        ),
    ],
    ids=["size", "block"],
)
@pytest.mark.parametrize("last", [False, True], ids=["first", "last"])
def test_a_right_case_beside_it_makes_the_fault_of_a_case_certain(statement, right, wrong, last):
    cases = [{**right, "name": "good"}, {**wrong, "name": "bad"}][:: 1 if last else -1]
    report = inspect("", write_kernel(statement), cases=cases)
    assert "good, where it fits, is right, so bad is at fault" in report["next"]
    assert ", line 3, only in bad: " in as_text(report)


@slow
@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1 / 9 * x[i]", "Look at line 3: 1 / 9 is 0, a quotient of integers: write 1.0f / 9."),
        ("fmaxf(0, -2 * fabsf(x[i]))", "all of them 0, where negative values are right"),
    ],
)
def test_a_wrong_value_has_its_cause(value, says):
    """Also where only some elements are written: then no more threads are asked for."""
    report = check(
        write_kernel(f"if (i < n) y[i] = {value};"),
        cases=[launch(1, 64, x=[100], y=[100], n=100)],
        reference="def reference(x, y, n):\n    return -2 * abs(x) - 1\n",
    )
    assert says in f"{report['results'][0]['pattern']} {report['next']}"
    assert "right where it is written" not in report["next"]


SOLVE = """#include <cuda_runtime.h>
__global__ void twice(const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = 2 * x[i];
}
__global__ void increase(float *y, int n, double by) {
  for (int i = threadIdx.x; i < n; i += 64) y[i] += by;
}
// device pointers
extern "C" void solve(const float *x, float *y, int n, double by) {
  twice<<<(n + 63) / 64, 64>>>(x, y, n);
  increase<<<1, 64>>>(y, n, by);
  cudaDeviceSynchronize();
}
"""


@slow
def test_a_host_function_without_main_is_called_with_the_arguments_of_cases():
    """LeetGPU's form: ten seconds, a process and a compilation per check."""
    sizes = {"x": {"shape": [N]}, "y": {"shape": [N]}, "n": N, "by": 0.5}
    more = {
        "cases": [{"arguments": sizes}, {"arguments": {**sizes, "by": 1.5}}],
        "reference": "def reference(x, y, n, by):\n    return 2 * x + by\n",
    }
    right = check(SOLVE, **more)
    assert (right["verdict"], right["checked"]["launches"]) == ("pass", 4)
    report = check(SOLVE.replace("if (i < n) y", "y"), **more)
    first = report["findings"][0]
    assert (first["line"], first["cases"]) == (4, ["case 1", "case 2"])
    assert first["says"].startswith("read of 4 bytes at x[300]") and report["repair"]["verified"]
    assert {one["line"] for one in report["findings"]} == {2, 4}, "n of line 2 is not used"
    on_host = check(SOLVE.replace("  twice<<<", "  by += x[0];\n  twice<<<"), **more)
    assert on_host["verdict"] == "unsafe" and "host reads" in on_host["next"]
    with pytest.raises(EngineError, match="no main: give cases with the arguments of solve"):
        check(SOLVE)


DOUBTFUL = """__global__ void other(float *unused) {}
__global__ void sums(const float *a, float *sums, int rows, int cols, int pitch) {
  int r = threadIdx.x;
  unsigned short at = r * 2000;
  int key = r * 2654435 % 7;
  float half = rows;
  if (r >= rows) return;
  sums[r] = half * 0 + at * 0 + key * 0;
  for (int c = 0; c < cols; c++) sums[r] += a[r * cols + c];
}
"""


@slow
def test_a_wrong_result_names_an_unused_parameter_and_a_cut_integer():
    case = launch(1, 64, a=[50, 64], sums=[50], rows=50, cols=50, pitch=64)
    reference = "def reference(a, sums, cols, **rest):\n    return a[:, :cols].sum(1)\n"
    report = inspect("sums", DOUBTFUL, cases=[case], reference=reference)
    findings = {one["line"]: one["says"] for one in report["findings"]}
    assert report["verdict"] == "wrong_result" and findings.keys() == {2, 4, 5}
    assert "pitch" in findings[2] and "short" in findings[4] and "2654435 overflows" in findings[5]
    assert "line 2" in report["next"]
    right = DOUBTFUL.replace("r * cols + c", "r * 64 + c")
    assert not inspect("sums", right, cases=[case], reference=reference)["findings"]


@slow
@pytest.mark.parametrize(
    ("body", "verdict", "line", "says"),
    [
        ("y[i] = 2 * x[i];", "unsafe", 1, "unused parameter 'n': the launch passes it"),
        ("if (i < 300) y[i] = x[i];", "wrong_result", 1, "unused parameter 'n'"),
        (
            "int k = i; if (i < n) y[i] = x[i] + k / n;",
            "wrong_result",
            3,
            "a quotient of integers has no fraction",
        ),
        (
            "short at = i * 512; if (i < n) y[i] = x[at / 512];",
            "unsafe",
            3,
            "'short int' may change value: take a type",
        ),
    ],
)
def test_the_first_lines_name_an_ignored_parameter_and_a_cut_integer(body, verdict, line, says):
    report = inspect("", write_kernel(body))
    assert report["verdict"] == verdict
    assert any(one["line"] == line and says in one["says"] for one in report["findings"]), report[
        "findings"
    ]
    assert f"line {line}" in report["next"] and says in "\n".join(as_text(report).splitlines()[:9])


@slow
def test_a_refused_launch_is_said_once():
    program = "__global__ void k(int *n) { *n = 1; }\nint main() { k<<<1, 2048>>>(0); }\n"
    report = inspect("", program, cases=[], reference="", seconds=200)
    assert report["verdict"] == "refused" and as_text(report).count("must be 1 to 1024") == 1


@slow
def test_a_hang_ends_in_time_and_has_its_line():
    inspect("right")  # compiles the source
    report = inspect("forever", seconds=40)
    assert report["verdict"] == "hang" and not report["checked"]["complete"]
    lines, line = SOURCE.splitlines(), report["findings"][0]["line"]
    assert any("while (p[0] > 0)" in text for text in lines[line - 2 : line]), (
        "g++ 13 names the line after"
    )


def change_x(x):
    return {"cases": [{**CASE, "arguments": {**CASE["arguments"], "x": x}}]}


# it keeps its own process from looking at the dtype; the one that compares looks, too
COMPLEX = """from hostcuda.agent import references
references._require_real = lambda *_: None
def reference(x, **k):
    return x + np.complex64(1)
"""


@slow
@pytest.mark.parametrize(
    ("more", "verdict", "words"),
    [
        ({"reference": ""}, "not_checked", "no reference"),
        (
            {"cases": []},
            "not_checked",
            '{"cases": [{"grid": [4], "block": [256], "arguments": {"x": {',
        ),
        ({"cases": [{**CASE, "block": [2048]}]}, "refused", "must be 1 to 1024"),
        (change_x(140737), "refused", "takes an array"),
        (change_x({"shape": [N], "dtype": "float64"}), "refused", "has the dtype float64"),
        (change_x({"shape": [N], "dtype": "real"}), "refused", "none of this name"),
        (change_x({"shape": [N], "hi": 3}), "refused", "hi of x means nothing"),
        (change_x({"shape": "many"}), "refused", "case 1: the shape of x is a list of integers"),
        (change_x({"values": [1, 1e99]}), "refused", "float32, which does not hold 1e+99"),
        (
            {"reference": "def reference(**k):\n    while True: pass\n", "seconds": 20},
            "not_checked",
            "in time",
        ),
        (
            {"reference": "def reference(**k):\n    return k['z']\n"},
            "refused",
            "the reference fails in case 1: KeyError",
        ),
        (
            {"reference": "def reference(x, **k):\n    return np.array([object()] * x.size)\n"},
            "refused",
            "the reference's y in case 1 has the dtype object: return real numbers",
        ),
        (
            {"reference": COMPLEX},
            "refused",
            "the reference's y in case 1 has the dtype complex64: return real numbers",
        ),
    ],
)
def test_what_was_not_checked_does_not_pass(more, verdict, words):
    report = inspect("right", **more)
    assert report["verdict"] == verdict and words in report["next"]


@pytest.mark.parametrize(
    ("declaration", "kind", "size", "number", "words"),
    [
        ("int n", "i", 4, 8, ""),
        ("int n", "i", 4, 32.7, "takes an integer from -2,147,483,648 to 2,147,483,647, not 32.7"),
        ("int n", "i", 4, 8.0, "not 8.0"),
        ("int n", "i", 4, 1 << 32, "not 4294967296"),
        ("int n", "i", 4, True, "not True"),
        ("unsigned char c", "u", 1, 256, "takes an integer from 0 to 255, not 256"),
        ("unsigned long long k", "u", 8, (1 << 64) - 1, ""),
        ("float s", "f", 4, 1e99, "takes a number from -3.4e+38 to 3.4e+38, not 1e+99"),
        ("float s", "f", 4, 10**400, "takes a number from"),
        ("float s", "f", 4, False, "not False"),
        ("float s", "f", 4, float("inf"), ""),
        ("float s", "f", 4, 3, ""),
        ("double s", "f", 8, 1e99, ""),
        ("const bool b", "u", 1, True, ""),
        ("const bool b", "u", 1, 1, "takes true or false, not 1"),
    ],
)
def test_a_number_that_its_parameter_cannot_hold_is_refused(declaration, kind, size, number, words):
    parameter = SimpleNamespace(declaration=declaration, kind=kind, size=size)
    try:
        child._Case._refuse_number(SimpleNamespace(name="case 2"), parameter, number)
        message = ""
    except EngineError as refused:
        message = str(refused)
    assert bool(message) == bool(words) and words in message and "\n" not in message
    assert not words or message.startswith(f"case 2: the parameter `{declaration}` takes ")


@slow
def test_the_seconds_begin_with_the_program_and_a_compilation_is_no_hang(monkeypatch):
    """Compiling takes longer than the program may."""
    program = "int main() { for (volatile int i = 0; %s; i = 1) {} }  // compiled for this test\n"
    for ends, verdict in (("i < 1", "not checked"), ("true", "hang")):
        job = build_job("check", program % ends, "", [], "", 5, program=True)
        assert run_job(job, 1.5, False).decide_verdict(job)[0] == verdict
    monkeypatch.setattr(run, "COMPILING", 0)
    job = build_job("check", program % "i < 2", "", [], "", 5, program=True)
    assert run_job(job, 0.1, False).decide_verdict(job) == (
        "not checked",
        "neither the compilation nor the program that it made has ended",
    )


@slow
def test_a_compile_error_has_its_caret():
    report = inspect("k", "__global__ void k(float *y) {\n  y[0] = undefined_name;\n}\n")
    (error,) = report["findings"]
    assert report["verdict"] == "compile_error" and error["line"] == 2
    assert error["text"][error["caret"].index("^") :].startswith("undefined_name")
    assert report["next"].startswith("Look at line 2: ") and "undefined_name" in report["next"]


TREE = """__global__ void tree(const float *x, float *y, int n) {
  __shared__ float s[64];
  int i = threadIdx.x;
  s[i] = x[i];
  for (int half = 32; half > 0; half /= 2)
    if (i < half) s[i] += s[i + half];
  if (i == 0) y[0] = s[0];
}
"""
ACCUMULATOR = """__global__ void total(const float *x, float *y, int n) {
  float sum;
  for (int i = 0; i < n; i++) sum += x[i];
  if (threadIdx.x == 0) y[0] = sum;
}
"""
TILES = """__global__ void tiles(const float *x, float *y, int n) {
  __shared__ float s[64];
  int t = threadIdx.x;
  float sum = 0;
  for (int k = 0; k < n; k += 64) {
    s[t] = x[k + t];
    __syncthreads();
    for (int j = 0; j < 64; j++) sum += s[j];
  }
  y[t] = sum;
}
"""
ONE_SUM, SUM = launch(1, 64, x=[64], y=[1], n=64), "def reference(x, y, n):\n    return x.sum()\n"
PARTLY = f"""__global__ void k(const float *x, float *y, int n) {{
  __shared__ float s[64];
{INDEX}  if (i < n) {{
    s[threadIdx.x] = x[i];
    __syncthreads();
  }}
  if (i < n) y[i] = s[threadIdx.x ^ 1];
}}
"""
DAMP = """__global__ void damp(const float *x, float *y, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) y[i] = y[i] + x[i];
}
"""
FLIP = """__global__ void flip(const float *x, float *y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x, r = threadIdx.y;
  if (r < h && c < w) y[c * w + r] = x[r * w + c];
}
"""
LARGEST = """__global__ void largest(float *x, float *y, int n) {
  extern __shared__ float s[];
  int t = threadIdx.x;
  if (t < n) { s[t] = x[t]; }
  __syncthreads();
  for (int half = 32; half > 0; half /= 2) {
    if (t < half) s[t] = fmaxf(s[t], s[t + half]);
    __syncthreads();
  }
  if (t == 0) y[0] = s[0];
}
"""
DIFFUSION = f"""__global__ void k(const float *x, float *y, int n) {{
  __shared__ float s[64];
{INDEX}  s[i] = x[i];
  __syncthreads();
  for (int step = 0; step < 3; ++step) {{
    if (0 < i && i < n - 1)
      s[i] += 0.25f * (s[i - 1] + s[i + 1]);
    __syncthreads();
  }}
  y[i] = s[i];
}}
"""


FAR = f"""__global__ void k(const float *x, float *y, int n, int blocks) {{
{INDEX}  const int src = blocks * i / 10000000 % 256;
  y[i] = x[src] > 2 ? 1 : 0;
}}
"""


@slow
@pytest.mark.parametrize(
    ("source", "case", "reference", "line"),
    [
        (TREE, ONE_SUM, SUM, "+    __syncthreads();"),
        (
            TILES,
            launch(1, 64, x=[192], y=[64], n=192),
            "def reference(x, y, n):\n    return np.full(64, x.sum())\n",
            "+    __syncthreads();",
        ),
        (ACCUMULATOR, ONE_SUM, SUM, "+  float sum = 0;"),
        (write_kernel("y[i] = x[i] + 1;"), CASE, REFERENCE, "+  if (i >= n) return;"),
        (
            PARTLY,
            CASE,
            "def reference(x, y, n):\n    return x[np.arange(n) ^ 1]\n",
            "+  __syncthreads();",
        ),
        (
            DIFFUSION,
            launch(1, 64, x=[64], y=[64], n=64),
            "def reference(x, y, n):\n    for _ in range(3):\n        x[1:-1] += np.float32(0.25) * (x[:-2] + x[2:])\n"
            "    return x\n",
            "+      if (0 < i && i < n - 1) s[i] += value;",
        ),
        (
            DAMP,
            launch(3, 64, x=[400], y={"shape": [400], "fill": "ones"}, n=400),
            "def reference(x, y, n):\n    return y + x\n",
            "+  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) "
            "y[i] = y[i] + x[i];",
        ),
        (
            FLIP,
            {**launch(3, 0, x=[11, 45], y=[45, 11], h=11, w=45), "block": [16, 12]},
            "def reference(x, y, h, w):\n    return x.T\n",
            "+  if (r < h && c < w) y[c * h + r] = x[r * w + c];",
        ),
        (
            LARGEST,  # of x, which is not const and which no reference has: it stays what it was
            {
                **launch(1, 64, x={"shape": [50], "fill": "uniform"}, y=[1], n=50),
                "shared_bytes": 256,
            },
            "def reference(x, y, n):\n    return {'y': [x.max()]}\n",
            "+  if (t < n) { s[t] = x[t]; } else s[t] = -INFINITY;",
        ),
        (
            FAR,  # (src >= 0 ? x[src] : 0) would give the same results, and leave the wrong index
            launch(4, 64, x={"shape": [256], "fill": "uniform"}, y=[256], n=256, blocks=50_000_000),
            "def reference(x, y, n, blocks):\n    return np.zeros(n)\n",
            "+  const long long src = (long long)blocks * i / 10000000 % 256;",
        ),
    ],
    ids=[
        "barriers",
        "loop's end",
        "initial value",
        "guard",
        "out of the branch",
        "read, then write",
        "stride of the grid",
        "pitch",
        "value of the other threads",
        "index in 64 bits",
    ],
)
def test_a_repair_was_run(source, case, reference, line):
    report = inspect("", source, cases=[case], reference=reference, repairs=True, seconds=200)
    assert report["verdict"] == "unsafe", "of what was given"
    assert report["repair"]["verified"] and line in report["repair"]["diff"].splitlines()
    assert "it was run" in report["next"]


@slow
def test_what_parts_a_statement_that_races_with_itself():
    report = inspect("", DIFFUSION, cases=[launch(1, 32, x=[32], y=[32], n=32)], reference="")
    remedy = next(one["remedy"] for one in report["findings"] if one["kind"] == "race")
    assert (
        remedy.startswith("read the element into a variable, put a barrier")
        and "and write then" in remedy
    )
    assert "within one warp __syncwarp() is enough" in remedy


RELU = """__global__ void relu2d(const float *x, float *y, int h, int w) {
  int c = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y * blockDim.y + threadIdx.y;
  y[r * w + c] = fmaxf(x[r * w + c], 0.0f);
}
"""
SQUARE = {**launch(0, 0, x=[50, 50], y=[50, 50], h=50, w=50), "grid": [4, 4], "block": [16, 16]}


@slow
@pytest.mark.parametrize(
    "reference", ["def reference(x, y, h, w):\n    return np.maximum(x, 0)\n", ""]
)
def test_a_guard_is_right_where_two_sizes_differ(reference):
    """On 50 x 50 elements a guard with the sizes exchanged is as good."""
    report = inspect("", RELU, cases=[SQUARE], reference=reference, repairs=True, seconds=200)
    repair = report["repair"]
    assert repair["verified"] == bool(reference)
    assert report["next"].startswith("Apply the repair" if reference else "Try the edit")
    if reference:
        guard = "".join(line for line in repair["diff"].splitlines() if line.startswith("+"))
        assert {*re.findall(r"\w >= \w", guard)} == {"c >= w", "r >= h"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"x": [50, 50], "h": 50, "w": 50}, {"x": [49, 47], "h": 49, "w": 47}),
        ({"x": [2500], "h": 50, "w": 50}, {"x": [49 * 47], "h": 49, "w": 47}),
        (
            {
                "x": [2, 3, 20, 20],
                "y": [2, 4, 14, 14],
                "B": 2,
                "C": 3,
                "H": 20,
                "W": 20,
                "M": 4,
                "K": 7,
            },
            {"x": [2, 3, 19, 17], "y": [2, 4, 13, 11], "H": 19, "W": 17},
        ),
        ({"x": [61], "n": 61}, {"x": [59], "n": 59}),
        ({"x": [77], "n": 50}, None),
        ({"x": [4], "k": 4}, None),
    ],
)
def test_a_case_of_unequal_sizes(arguments, expected):
    made = make_unequal_case(launch(1, 32, **arguments))
    if expected is None:
        assert made is None
    else:
        assert made["arguments"] == launch(1, 32, **{**arguments, **expected})["arguments"]


@slow
def test_integers_are_right_in_all_of_their_bits():
    """Not all of 64 bits fit into a float. In one line, a kernel has no place for a guard."""
    source = write_kernel("if (i < n) y[i] = x[i] + 1;").replace("float", "long long")
    cases = [launch(5, 64, x=[N], y=[N], n=N)]
    for name in ("x", "y"):
        cases[0]["arguments"][name]["dtype"] = "int64"
    cases[0]["arguments"]["x"] |= {"fill": "randint", "low": 2**60, "high": 2**61}
    for add, verdict in ((1, "pass"), (2, "wrong_result")):
        reference = f"def reference(x, **k):\n    return x + {add}\n"
        assert inspect("k", source, cases=cases, reference=reference)["verdict"] == verdict
    cases[0]["arguments"]["x"] = {"shape": [0], "dtype": "int64"}
    report = inspect("k", " ".join(source.split()), cases=cases, reference="", repairs=True)
    assert report["verdict"] == "unsafe" and report["findings"][0]["kind"] == "out of bounds"


def test_a_report_does_not_command_a_terminal():
    empty = {"findings": [], "results": [], "counts": [], "next": "\x9b2J"}
    text = as_text(
        {"verdict": "pass", "checked": {"cases": 0, "launches": 0, "not_seen": []}}
        | empty
        | {"printed": "a\tb\n\x1b]0;title\x07"}
    )
    assert text.replace("\n", "").replace("\t", "").isprintable()
    assert "a\tb\n" in text and r"\x1b]0;title\x07" in text and text.endswith(r"\x9b2J")


@slow
def test_a_right_kernel_that_is_slow_is_told_so():
    source = write_kernel("if (i < n / 32) y[i * 32] = x[i] + 1;")
    case = launch(1, 32, x=[1024], y=[1024], n=1024)
    slow_store = inspect("", source, cases=[case], reference="")["slow"]
    assert slow_store["line"] == 3 and slow_store["says"].startswith("32 sectors per store, 4 is")
    long = source.replace("+ 1;", f"+ 1{' + some_number' * 20};").replace(
        "if (", "float some_number = 0; if ("
    )
    text = inspect("", long, cases=[case], reference="")["slow"]["text"]
    assert len(text) <= 162 and text.endswith(("number …", "+ …"))


@slow
def test_an_array_of_values_alone_is_repaired_like_one_with_a_shape():
    arguments = {**CASE["arguments"], "x": {"values": [1.0] * N}}
    case = {**CASE, "arguments": arguments}
    source = write_kernel("y[i] = x[i] + 1;")
    report = inspect("", source, cases=[case], repairs=True, seconds=120)
    assert "if (i >= n) return;" in report["repair"]["diff"]


@slow
def test_no_repair_without_right_results():
    report = inspect("", write_kernel("y[i] = x[i] + 2;"), repairs=True, seconds=120)
    assert (
        report["verdict"] == "unsafe" and "repair" not in report and "Apply" not in report["next"]
    )


GATHER = """__global__ void gather(const float *x, float *y, int rows, int n, int step, int pitch) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  int r = blockIdx.y;
  if (r < rows && i < n) y[r * n + i] = x[r * pitch + i * step];
}
"""


@slow
def test_no_other_pitch_where_no_reference_tells_whether_the_array_is_too_small():
    sizes = {"rows": 3, "n": 10, "step": 2, "pitch": 32}
    case = {**launch(0, 0, x=[40], y=[3, 10], **sizes), "grid": [1, 3], "block": [32, 1]}
    report = inspect("", GATHER, cases=[case], reference="", repairs=True, seconds=120)
    assert report["verdict"] == "unsafe"
    assert "(index)" not in report["next"] and "pitch" not in report.get("repair", {}).get(
        "diff", ""
    )


@slow
def test_an_array_that_is_written_through_a_cast_has_no_line_that_writes_it():
    source = write_kernel(
        "if (i + 1 < n / 2) *reinterpret_cast<float2 *>(y + 2 * i) = make_float2(x[i], 0); "
        "else if (i < 0) y[i] = 0;"
    )
    report = inspect("", source)
    assert report["verdict"] == "wrong_result" and "which writes it" not in report["next"]


@slow
def test_lines_show_elements_and_steps_show_variables():
    counts = look("lines", SOURCE, "shifted", CASE)
    load = next(site for site in counts["lines"] if site["op"] == "ld")
    assert load["array"] == "x" and load["worst"]["lanes"][1] - load["worst"]["lanes"][0] == 1
    split = "int e; sincosf(x[i], y, &y[1 + i]); y[99] = frexpf(y[0], &e) + e;"
    results = look("lines", write_kernel(split), "k", launch(1, 1, x=[N], y=[N], n=N))["lines"]
    assert sum(site["requests"] for site in results if site["op"] == "st") == 3, (
        "two of the C library's function, none of them to a local variable"
    )
    steps = look("step", SOURCE, "shifted", CASE, thread=[3, 0, 0], block=[1, 0, 0])["steps"]
    assert {"i": 67} in [step["sets"] for step in steps]
    assert any(access.startswith("ld x[68]") for step in steps for access in step["accesses"])


LOOP = "__global__ void k(const float *x, float *y, int n) {\n  for (int i = 0; i < n; i++)\n    y[i] = x[i];\n}\n"


@slow
def test_a_long_walk_is_cut_and_says_how_to_go_on():
    case = launch(1, 1, x=[N], y=[N], n=N)
    first = look("step", LOOP, "k", case)
    shown, rest = len(first["steps"]), first["omitted"]
    assert len(json.dumps(first)) <= MOST_TEXT and 5 < shown < 60 and shown + rest >= 2 * N
    assert first["next"] == f"{rest} more were cut: ask again with start = {shown}"
    after = look("step", LOOP, "k", case, start=shown)
    assert after["steps"][0] not in first["steps"] and after["omitted"] == rest - len(
        after["steps"]
    )


PROGRAM = """#include <cstdio>
__global__ void fill(float *y, int n) { if (threadIdx.x < n) y[threadIdx.x] = 1; }
int main() {
  float host[32];
  fill<<<1, 32>>>(host, 32);
  cudaDeviceSynchronize();
  printf("done\\n");
}
"""


@slow
def test_a_program_with_a_host_pointer_is_unsafe():
    report = inspect("", PROGRAM, cases=[], reference="", seconds=200)
    (finding,) = report["findings"]
    assert report["verdict"] == "unsafe" and finding["line"] == 2 and "done" in report["printed"]
    assert as_text(report).startswith("unsafe (launches: 1)")


# What needs no compiler


WANT, SQUARES = np.arange(1.0, 101.0), np.arange(60_000, 60_100, dtype=np.int64) ** 2
PLACES = np.arange(100)


@pytest.mark.parametrize(
    ("got", "want", "shape", "words"),
    [
        (
            np.trunc(WANT**2 + 0.5),
            WANT**2 + 0.5,
            (100,),
            "every element, the right values without their fractions, as if integers were divided",
        ),
        (SQUARES.astype(np.int32), SQUARES, (100,), "every element, off by multiples of 2^32"),
        (
            np.roll(WANT, 1),
            WANT,
            (100,),
            "every element, element i has the right value of element i - 1",
        ),
        (
            np.append(np.zeros(25), WANT[:-25]),
            WANT,
            (100,),
            "every element, element i has the right value of element i - 25 (a block's threads)",
        ),
        (WANT[::-1], WANT, (100,), "every element, in reverse order"),
        (0 * WANT, -WANT, (100,), "every element, all of them 0, where negative values are right"),
        (
            np.where((PLACES < 20) | (PLACES % 10 > 7), -1, WANT),
            WANT,
            (10, 10),
            "the edge: all but rows 2 to 9 in columns 0 to 7, all of them -1",
        ),
        (3 * WANT, WANT, (100,), "every element, 3 times the right value"),
        (WANT.reshape(10, 10).T.ravel(), WANT, (10, 10), "90 elements from 1 to 98, transposed"),
        (
            np.where(PLACES % 25 < 5, 0, WANT),
            WANT,
            (100,),
            "elements 0 to 4 of each 25 (a block's threads), all of them 0",
        ),
        (
            np.where(np.isin(PLACES // 10, [0, 2, 3, 5, 7, 9]), -1, WANT),
            WANT,
            (10, 10),
            "60 elements from 0 to 99",
        ),
        (np.where(PLACES % 10 == 4, -1, WANT), WANT, (10, 10), "all of columns 4, all of them -1"),
        (
            np.where(PLACES >= 90, np.nan, WANT),
            WANT,
            (100,),
            "elements 90 to 99 (the last 10), 10 of them NaN or infinite",
        ),
    ],
)
def test_patterns_lead_to_the_index(got, want, shape, words):
    got, want = got.astype(float), want.astype(float)
    assert describe_errors(got, want, got != want, np.zeros(100, bool), shape, 25).startswith(words)


@pytest.mark.parametrize(
    ("verdict", "findings", "sentence"),
    [
        (
            "unsafe",
            [{"line": 9, "other": {"line": 5}}],
            "Lines 5 and 9 access the same element: order them.",
        ),
        (
            "unsafe",
            [{"line": 5, "other": {"line": 5}, "remedy": "use an atomic operation"}],
            "Two threads at line 5 access the same element: use an atomic operation.",
        ),
        (
            "unsafe",
            [{"line": 5}],
            "Look at line 5 first, and at the lines that its values come from.",
        ),
        (
            "unsafe",
            [{"line": 5, "remedy": "leave the branch"}],
            "Look at line 5: leave the branch.",
        ),
        ("wrong_result", [], "y is wrong. Look at where it is written and at what is read for it."),
    ],
)
def test_what_comes_next_does_not_accuse_the_line_that_shows_a_fault(verdict, findings, sentence):
    results = [{"array": "y", "pattern": "every element"}]
    assert say_next({"verdict": verdict, "findings": findings, "results": results}, "") == sentence


@pytest.mark.parametrize(
    "more",
    [
        {"seconds": 301},
        {"cases": [CASE] * 9},
        {"options": "-include /etc/passwd"},
        {"cases": [{"grid": [1]}]},
    ],
)
def test_a_request_beyond_the_limits_is_refused(more):
    with pytest.raises(EngineError):
        check(SOURCE, **more)


# The command and the server


@slow
def test_the_command_has_the_verdict_as_its_status(tmp_path, hostcuda_command):
    (tmp_path / "k.cu").write_text(SOURCE)
    (tmp_path / "k.json").write_text(json.dumps({"kernel": "shifted", "cases": [CASE]}))
    (tmp_path / "k.py").write_text(REFERENCE)
    status, out, _ = hostcuda_command("check", tmp_path / "k.cu", "--json", "--no-repairs")
    assert status == 3 and json.loads(out)["verdict"] == "wrong_result"
    (tmp_path / "k.json").write_text("{")
    status, _, err = hostcuda_command("check", tmp_path / "k.cu")
    assert status == 1 and "no JSON" in err and "Traceback" not in err


@slow
@pytest.mark.skipif(bool(why_not()), reason="there is no sandbox")
@pytest.mark.parametrize("command", ["run", "sanitize", "profile"])
def test_a_sandbox_has_what_another_command_left_in_the_cache(
    command, tmp_path, monkeypatch, hostcuda_command
):
    """The sandbox cannot add a file to a folder of the cache: each is complete, whoever made it."""
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    program = tmp_path / "k.cu"
    program.write_text(f"{SOURCE}int main() {{ forever<<<1, 0>>>(nullptr, nullptr, 0); }}\n")
    hostcuda_command(command, program)
    report = check(SOURCE, "right", [CASE], REFERENCE, walled=True)
    assert report["verdict"] == "pass", as_text(report)


def test_repairs_have_their_time_however_long_the_first_compilation_takes(monkeypatch):
    given, now = [], [0.0]

    def run_late(job, seconds, walled):
        given.append(seconds)
        now[0] += 1000 * (len(given) == 1)
        return run_job(job, seconds, walled)

    monkeypatch.setattr(report, "run_job", run_late)
    monkeypatch.setattr(report, "time", SimpleNamespace(monotonic=lambda: now[0]))
    found = check(SOURCE, "no_guard", [CASE], REFERENCE, repairs=True, seconds=200)
    assert found["repair"]["kind"] == "guard"
    assert given[:2] == [pytest.approx(140), pytest.approx(60)]


def test_what_a_cancelled_call_has_started_ends_with_it(tmp_path):
    pytest.importorskip("mcp", reason="the extra hostcuda[mcp] is not installed")
    import asyncio

    from hostcuda.agent import server

    async def cancel():
        line = 'sleep 300 & echo $! > "$0"; wait'
        call = asyncio.create_task(server._run(["sh", "-c", line, str(tmp_path / "pid")], b"{}"))
        while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text():
            await asyncio.sleep(0.05)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return await server._run(["sh", "-c", "cat; sleep 0"], b"{}")

    assert asyncio.run(cancel()) == b"{}"
    state = Path("/proc", (tmp_path / "pid").read_text().strip(), "stat")
    assert not state.is_file() or ") Z " in state.read_text()


@slow
@pytest.mark.skipif(bool(why_not()), reason="there is no sandbox")
def test_the_server_answers_over_stdio():
    mcp = pytest.importorskip("mcp", reason="the extra hostcuda[mcp] is not installed")
    import asyncio
    import os

    async def talk():
        names = ("HOSTCUDA_CACHE_DIR", "PYTHONPATH", "CXX")
        environment = {name: os.environ[name] for name in names if name in os.environ}
        server = mcp.StdioServerParameters(
            command=sys.executable, args=["-m", "hostcuda", "mcp"], env=environment
        )
        async with mcp.Client(mcp.stdio_client(server)) as client:
            tools = {tool.name for tool in (await client.list_tools()).tools}
            request = {"source": SOURCE, "kernel": "right", "cases": [CASE], "reference": REFERENCE}
            first = await client.call_tool("check", request)
            broken = {**request, "kernel": "no_guard", "repairs": False}
            again = await client.call_tool(
                "check", {**broken, "previous": first.structured_content["report"]}
            )
            spy = "import socket\ndef reference(**k):\n    socket.create_connection(('127.0.0.1', 22), 1)\n"
            walled = await client.call_tool("check", {**request, "reference": spy})
            late = asyncio.create_task(
                client.call_tool("check", {**request, "kernel": "forever", "seconds": 300})
            )
            await asyncio.sleep(2)
            late.cancel()
            after = await client.call_tool("capabilities", {})
            unknown = await client.call_tool("check", {**request, "previous": "r00000000"})
            return tools, first, again, walled, after, unknown

    tools, first, again, walled, after, unknown = asyncio.run(talk())
    assert tools == {"check", "run_program", "lines", "step", "capabilities"}
    assert first.structured_content["verdict"] == "pass" and first.content[0].text.startswith(
        "pass"
    )
    assert first.content[0].text.endswith(f"report: {first.structured_content['report']}")
    assert again.structured_content["verdict"] == "unsafe"
    assert "OSError" in walled.content[0].text or "Error" in walled.content[0].text
    assert not after.is_error, "a cancelled call does not keep the next one waiting"
    assert unknown.is_error and "no report" in unknown.content[0].text
