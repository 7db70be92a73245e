"""Findings: what they say, and how the command ends."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
from running import IMPORTS

import hostcuda
from hostcuda import processes
from hostcuda.findings import from_warnings
from hostcuda.gpu import nsight
from hostcuda.sanitize import checked, sanitize_script, watch
from hostcuda.source import warnings_about

pytestmark = pytest.mark.core("what every finding is told with")

PROGRAM = """
x = cuda.mem_alloc(4 * 100)
cuda.memset_d8(x, 0, 4 * 100)
kernel = SourceModule('''__global__ void fill(float *x, int n) {
  int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) x[i] = 1;
}
__global__ void forever(volatile float *x, int n) { while (x[0] == 0) ; }
''').get_function("KERNEL")
kernel(x, np.int32(N), grid=(2, 1), block=(64, 1, 1))
cuda.Context.synchronize()
"""


@pytest.fixture
def program(write_program):
    def write(kernel, n):
        return str(
            write_program(
                IMPORTS + PROGRAM.replace("KERNEL", kernel).replace("(N)", f"({n})"), "program.py"
            )
        )

    return write


@pytest.fixture
def command(hostcuda_command):
    return lambda *arguments: hostcuda_command("sanitize", "--engine", "cpu", *arguments)


@pytest.mark.parametrize(
    ("kernel", "n", "options", "status", "words"),
    [
        (
            "fill",
            101,
            (),
            1,
            (
                "out of bounds in fill",
                ":3:",
                "thread (36,0,0) of block (1,0,0)",
                "4 bytes beyond the end of the 400 bytes",
                "memcheck: 1 finding in 1 launch",
            ),
        ),
        ("fill", 100, (), 0, ("nothing found in 1 launch",)),
        ("forever", 0, ("--timeout", "2"), 124, ("was stopped",)),
    ],
)
def test_the_status_is_the_verdict(command, program, kernel, n, options, status, words):
    ended, out, err = command("--tool", "memcheck", *options, program(kernel, n))
    assert ended == status and all(text in out + err for text in words)


def test_what_was_stopped_is_not_called_checked(command, program):
    path = Path(program("fill", 100))
    path.write_text(
        path.read_text()
        + """
forever = SourceModule("__global__ void forever(volatile float *x) { while (x[0] > 0) ; }").get_function("forever")
threading.Timer(1, os.kill, [os.getppid(), signal.SIGINT]).start()  # Ctrl-C
forever(x, block=(32, 1, 1))
cuda.Context.synchronize()
"""
    )
    status, out, err = command(str(path))
    assert status == 130 and "was interrupted" in err
    assert (
        "nothing found in 2 launches; 1 launch not checked to the end (kernel forever, block (0,0,0), "
        in out
    )
    assert "was stopped at kernel-2.cu:1); the program was interrupted" in out


def finding(**more):
    base = {
        "tool": "racecheck",
        "kind": "race",
        "kernel": "f",
        "file": "/a/races.cu",
        "line": 8,
        "block": [0, 0, 0],
        "thread": [31, 0, 0],
        "other": {"file": "/a/races.cu", "line": 10, "thread": [32, 0, 0]},
        "address": 64,
        "size": 4,
        "buffer": None,
        "count": 3,
        "message": "a write and a read of the same word",
    }
    return {**base, **more}


def judge(*rows, launches=1):
    return checked([{"findings": [*rows]}] * launches, ["racecheck"], processes.Ended(0, 1.0))


def test_a_race_is_told_with_both_threads():
    text = repr(judge(finding()))
    assert "race in f at races.cu:8" in text and "thread (31,0,0) of block (0,0,0)" in text
    assert "races.cu:10, thread (32,0,0)" in text and "3 such accesses" in text
    assert "racecheck: 1 finding in 1 launch" in text


def test_an_address_is_told_only_without_a_name():
    """A race and its remedy, with the array's name; the same without a name."""
    array = {"base": 0x7F0000000000, "bytes": 256, "missed_by": 4, "offset": 256}
    row = finding(
        address=0x7F0000000100,
        buffer={**array, "name": "y"},
        remedy="put a barrier between them",
        op="st",
    )
    text = repr(judge(row))
    assert "4 bytes beyond the end of the 256 bytes of y\n" in text and "0x7f" not in text
    assert "  remedy: put a barrier between them\n" in text
    unnamed = repr(judge({**row, "buffer": array}))
    assert "address 0x7f0000000100" in unnamed
    shared = {
        **row,
        "buffer": {**array, "missed_by": 0},
        "message": "element 64 of dynamic shared memory",
    }
    assert "0x7f" not in repr(judge(shared))


def race(line, other, base=64, **more):
    there = {"file": "/a/races.cu", "line": other, "thread": [1, 0, 0]}
    return finding(
        line=line, other=there, buffer={"base": base, "bytes": 256, "missed_by": 0}, **more
    )


def test_races_whose_lines_hang_together_are_told_once():
    one_barrier = [race(3, 3), race(5, 6), race(4, 5), race(4, 3)]
    others = [
        race(3, 4, base=512),
        race(20, 21),
        race(3, 4, kernel="g"),
        race(3, 4, kind="race between blocks"),
    ]
    findings = judge(*one_barrier, *others, launches=2)
    assert findings.table["line"].tolist() == [3, 3, 20, 3, 3]
    assert findings.table["count"].tolist() == [24, 6, 6, 6, 6] and set(
        findings.table["launches"]
    ) == {2}
    assert "; the same in 3 more pairs of accesses, lines 3, 4, 5, 6\n" in repr(findings)
    assert repr(findings).count("the same in") == 1


FAKE_CUDA = """
class Function:
    def _launch_kernel(self, *arguments):
        print("launched")
"""
SANITIZER = """#!/bin/sh
while [ "$1" != --log-file ]; do shift; done
echo "========= ERROR SUMMARY: 0 errors" > "$2"
shift 2
exec "$@"
"""


@pytest.mark.skipif(
    find_spec("pycuda") is not None,
    reason="PyCUDA is here, of which the test makes a copy of its own",
)
@pytest.mark.parametrize("launches", [0, 2])
def test_on_a_gpu_a_program_without_a_launch_is_told(launches, monkeypatch, tmp_path):
    """compute-sanitizer does not say so: the launches through PyCUDA are counted beside it."""
    (tmp_path / "pycuda").mkdir()
    (tmp_path / "pycuda" / "__init__.py").touch()
    (tmp_path / "pycuda" / "driver.py").write_text(FAKE_CUDA)
    (tmp_path / "beside.py").write_text(f"launches = {launches}\n")
    (tmp_path / "program.py").write_text(
        "import beside, pycuda.driver\nfor i in range(beside.launches): pycuda.driver.Function()._launch_kernel(1, 2)\n"
    )
    (tmp_path / "sanitizer").write_text(SANITIZER)
    (tmp_path / "sanitizer").chmod(0o755)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(nsight, "find", lambda tool: str(tmp_path / "sanitizer"))
    monkeypatch.setattr(hostcuda, "why_no_gpu", lambda: None)
    program = str(tmp_path / "program.py")
    findings = sanitize_script(program, tool="memcheck", engine="gpu", capture=True)
    assert findings.ended.status == 0 and findings.ended.output.count("launched") == launches
    assert ("the program itself launched no kernel" in repr(findings)) == (launches == 0)


def test_on_a_gpu_a_module_runs_as_its_command_says(monkeypatch, tmp_path):
    """Also behind `own_program`'s option of Python. Its launches are not counted."""
    (tmp_path / "sanitizer").write_text(SANITIZER)
    (tmp_path / "sanitizer").chmod(0o755)
    monkeypatch.setattr(nsight, "find", lambda tool: str(tmp_path / "sanitizer"))
    monkeypatch.setattr(hostcuda, "why_no_gpu", lambda: None)
    command = processes.own_program("json.tool", "--help")
    findings = watch(command, tool="memcheck", engine="gpu", capture=True)
    assert findings.ended.status == 0 and "json.tool" in findings.ended.output


def test_a_finding_without_a_line_is_still_one():
    findings = judge(finding(file=None, line=None, other=None))
    assert not findings.clean and "(no source line)" in repr(findings)


def test_nothing_launched_is_not_called_clean():
    assert "nothing was checked" in repr(judge(launches=0))


def test_a_variable_without_a_value_is_a_finding_where_the_compiler_or_the_text_is_sure():
    source = (Path(__file__).parents[1] / "programs" / "without_a_value.cu").read_text()
    rows = from_warnings(warnings_about(source, no_extern_c=True), source)
    rows.sort(key=lambda row: row["line"])
    # Once each: of the two sums of a kernel g++ 12 names one, g++ 13 both.
    assert [*dict.fromkeys((row["kernel"], row["line"]) for row in rows)] == [
        ("accumulated", 4),
        ("written_out", 9),
        ("own_index", 14),
        ("table", 18),
        ("member", 41),
        ("squares", 53),
        ("cubes", 57),
        ("two_sums", 60),
        ("in_turn", 75),
        ("counted", 90),
    ]
    assert [row["kind"] for row in rows if 50 < row["line"] < 60] == [
        "address of a local variable"
    ] * 2
    messages = "".join(row["message"] for row in rows)  # g++ 13 does not say where
    assert re.search(r"the variable acc has no value when (line 6 uses it|it is used)", messages)
    assert any("the variable t.count has no value" in row["message"] for row in rows)


def test_a_variable_without_a_value_is_a_finding_where_a_function_of_the_engine_reads_it():
    source = """#include <cuda_fp16.h>
extern "C" __global__ void k(const half *x, half *y, int n) {
  float2 sum;
  for (int i = 0; i < n; i++) sum.x += __half2float(x[i]);
  y[0] = __float2half(sum.x);
}"""
    (row,) = from_warnings(warnings_about(source, no_extern_c=True), source)
    assert (row["kernel"], row["line"]) == ("k", 3)
    assert re.match("the variable sum.x has no value when line [45] uses it", row["message"])


@pytest.mark.parametrize(
    "set_x",
    [
        "v.a.x = x[0]",
        "v.a = w",
        "In &r = v.a; r.x = 1",
        "set(v.a.x)",
        "(v.a.x) = x[0]",
        "u.x = x[0]",
        "u = q",
        "float &r = u.x; r = 1",
        "float &r{u.x}; r = 1",
        "set(u.x)",
        "set<float>(u.x)",
        "__set(u.x)",
        "(u.x) = 1",
        "const_cast<float &>(u.x) = 1",
        "UX = 1",
        "(n > 4 ? u.x : u.y) = 1",
    ],
)
def test_a_member_that_may_be_set_is_no_finding(set_x):
    used = "v.a.x" if "v.a" in set_x else "u.x"
    source = f"""#define UX u.x
struct In {{ float x, y; }};
struct Out {{ In a, b; }};
template <class T> __device__ void set(T &t) {{ t = 1; }}
__device__ void __set(float &t) {{ t = 1; }}
extern "C" __global__ void k(const float *x, float *y, int n) {{
  Out v; float2 u, q = make_float2(1, 2); In w = {{1, 2}};
  if (n > 3) {{ {set_x}; }}
  __syncthreads();
  for (int i = 0; i < n; i++) if (n > 3) y[i] = {used} + q.x + w.x;
}}"""
    assert from_warnings(warnings_about(source, no_extern_c=True), source) == []
