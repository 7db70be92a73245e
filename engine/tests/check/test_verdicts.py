"""The verdict of `hostcuda sanitize` in text, JSON and exit status; what `hostcuda run` says of ignored errors."""

import json
from pathlib import Path

import pytest
from running import IMPORTS

from hostcuda import processes
from hostcuda.sanitize import STATUS, checked

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = Path(__file__).parents[1] / "programs" / "verdicts.cu"  # its argument chooses the mistake


@pytest.fixture
def hostcuda(hostcuda_command, on_the_cpu, monkeypatch):
    """Return a function that runs the command on the CPU engine: exit status, stdout, stderr."""
    monkeypatch.setenv("HOSTCUDA_OUTPUT_LIMIT", "1000000")  # the command sets it; it must not stay
    return lambda *words: hostcuda_command(*map(str, words))


CASES = {
    "a": ("pass", []),
    "b": ("not checked", []),
    "c": ("wrong result", []),
    "d": ("refused", []),
    "e": ("refused", []),
    "f": ("unsafe", [("out of bounds", 4, "x")]),
    "g": (
        "unsafe",
        [("out of bounds", 7, "a"), ("out of bounds", 8, "b"), ("out of bounds", 9, "c")],
    ),
    "h": ("unsafe", [("out of bounds", 11, "x")]),
    "i": ("unsafe", [("out of bounds", 12, "x")]),
    "j": ("unsafe", [("host pointer", 3, None)]),
    "k": ("unsafe", [("race", 15, "s")]),
    "n": ("unsafe", [("exited lanes", 20, None)]),
    "p": ("pass", []),  # it goes on with less memory
    "q": ("unsafe", [("out of bounds", 22, None)]),
    "r": ("pass", []),  # it asks for the error of a refused launch, and goes on
    "s": ("refused", []),  # it reports that error
}


@pytest.mark.parametrize("letter", CASES)
def test_the_verdict_in_json_and_as_exit_status(hostcuda, letter):
    verdict, findings = CASES[letter]
    status, out, _ = hostcuda("sanitize", "--json", PROGRAM, letter)
    reply = json.loads(out)
    assert (reply["verdict"], reply["status"], status) == (
        verdict.replace(" ", "_"),
        STATUS[verdict],
        STATUS[verdict],
    )
    rows = [
        (row["kind"], row["line"], (row["buffer"] or {}).get("name")) for row in reply["findings"]
    ]
    if letter == "g":  # of a there are 64 elements, and 32 of the others
        findings = findings[1:]
        rows.sort(key=lambda row: row[1])
    assert rows == findings, "one cause is one finding"


@pytest.mark.parametrize(
    ("letter", "words"),
    [
        (
            "h",
            "index 4294967295 of x, an allocation of 256 bytes: the index has wrapped in 32 bits",
        ),
        ("q", "write of 4 bytes in shared memory where this launch has none"),
        ("d", "verdict: refused (exit status 5): the launch failed: invalid argument: "),
        ("c", "verdict: wrong result (exit status 3)"),
        ("g", "2 findings in 1 launch\nverdict: unsafe (exit status 1)"),
    ],
)
def test_the_verdict_in_words(hostcuda, letter, words):
    assert words in hostcuda("sanitize", PROGRAM, letter)[1]


def test_an_early_return_before_a_barrier_is_a_note_and_a_branch_around_it_a_finding(hostcuda):
    program = PROGRAM.with_name("early_returns.cu")
    lines = {
        text.split()[-1]: number
        for number, text in enumerate(program.read_text().splitlines(), 1)
        if "();  //" in text
    }
    found = [("divergent barrier", lines.pop(name)) for name in ("around", "the_grid")]

    def run(*words):
        status, out, _ = hostcuda("sanitize", "--json", *words)
        reply = json.loads(out)
        notes = [event["line"] for event in reply["events"] if event["kind"] == "note"]
        return status, notes, [(row["kind"], row["line"]) for row in reply["findings"]]

    assert run(program) == (0, [*lines.values()], [])
    assert run(program, "x") == (1, [*lines.values()], found)
    everything = [("divergent barrier", line) for line in lines.values()]
    assert run("--strict", program) == (1, [], everything)
    assert "23 more returned before this barrier" in hostcuda("sanitize", program)[1]


ALIGNMENTS = """
#include <cstdio>
struct Pair { double a, b; };
struct Scale { float *p; float by; };
__global__ void swaps(Pair *x) {
  Pair y = x[threadIdx.x];
  x[threadIdx.x] = x[63 - threadIdx.x];
  x[63 - threadIdx.x] = y;
}
__global__ void copies(Pair *x, const Pair *y) { x[threadIdx.x] = y[threadIdx.x]; }
__global__ void scales(int n, Scale s) { Scale mine = s; if (threadIdx.x < n) mine.p[threadIdx.x] *= mine.by; }
template <class F> __global__ void each(int n, F f) { if (threadIdx.x < n) f(threadIdx.x); }
#ifdef VECTORS
__global__ void vectors(float4 *x, const float4 *y) { x[threadIdx.x] = y[threadIdx.x]; }
#endif
int main() {
  char *x; cudaMalloc(&x, 4096); cudaMemset(x, 0, 4096);
#ifdef VECTORS
  copies<<<1, 32>>>((Pair *)(x + 8), (Pair *)(x + 2056));
  vectors<<<1, 32>>>((float4 *)(x + 2048), (float4 *)(x + 8));
#else
  swaps<<<1, 32>>>((Pair *)(x + 8));
#endif
  scales<<<1, 32>>>(5, Scale{(float *)x, 3});
  float *p = (float *)x, by = 3;
  each<<<1, 32>>>(5, [=] __device__(int i) { p[i] *= by; });
  return 0;
}
"""


@pytest.mark.parametrize(
    ("options", "found"), [("", []), ("-DVECTORS", [("misaligned", "vectors")])]
)
def test_a_struct_of_16_bytes_may_be_at_a_multiple_of_8_and_a_vector_may_not(
    hostcuda, tmp_path, options, found
):
    (tmp_path / "a.cu").write_text(ALIGNMENTS)
    words = [f"--options={options}", "--json", tmp_path / "a.cu"]
    rows = json.loads(hostcuda("sanitize", *words)[1])["findings"]
    assert [(row["kind"], row["kernel"]) for row in rows] == found
    assert ("misaligned" in "".join(hostcuda("profile", "--no-nvcc", *words[::2])[1:])) == bool(
        found
    )


def test_a_program_at_the_edges_passes_and_its_mistakes_are_found(hostcuda):
    program = PROGRAM.with_name("edges.cu")
    numbers = {
        line.rpartition("// ")[2]: number
        for number, line in enumerate(program.read_text().splitlines(), 1)
    }

    def run(order, *words):
        options = f"--options=-lcublas -lcudart -DORDER='\"{order}\"'"
        status, out, err = hostcuda("sanitize", options, "--json", program, *words)
        return status, err, [(row["kind"], row["line"]) for row in json.loads(out)["findings"]]

    assert run("release") == (0, "", [])
    status, _, rows = run("relaxed", "x")
    early, relaxed = ("race between streams", numbers["early"]), numbers["relaxed"]
    assert status == 1 and early in rows and relaxed in [line for _, line in rows]


@pytest.mark.parametrize("text", ['asm("trap;"), x++;', 'x = asm("trap;");'])
def test_asm_is_a_statement(hostcuda, tmp_path, text):
    (tmp_path / "a.cu").write_text(f"__global__ void k(int x) {{\n{text}\n}}\nint main() {{}}\n")
    status, out, _ = hostcuda("sanitize", tmp_path / "a.cu")
    assert status == 4 and "a.cu:2" in out and "asm is a statement, as nvcc has it" in out


def test_a_hang_is_neither_a_finding_nor_a_pass(hostcuda):
    # the engine sees that nobody writes
    status, out, _ = hostcuda("sanitize", "--json", "--timeout", 60, PROGRAM, "l")
    assert (status, json.loads(out)["verdict"]) == (124, "hang")


@pytest.mark.parametrize(
    ("letter", "last"),
    [
        ("d", "although this failed: the launch failed: invalid argument: "),
        ("e", "although this failed: cudaMemcpy failed"),
        ("f", "although this failed: kernel more wrote up to 4 bytes past the end"),
        ("a", ""),
        ("o", ""),  # it has asked for the error
    ],
)
def test_run_ends_with_the_program_s_status_and_names_the_error(hostcuda, letter, last):
    status, _, err = hostcuda("run", "--strict", PROGRAM, letter)
    assert status == (1 if last else 0) and (
        last in err.splitlines()[-1] if last else "although" not in err
    )
    assert letter != "d" or hostcuda("run", PROGRAM, letter)[0] == 0


def test_run_has_limits_of_time_and_output(hostcuda, tmp_path):
    status, out, err = hostcuda("run", "--output-limit", 100, PROGRAM, "m")
    assert status == 0 and out.startswith("line 0") and len(out) == 100
    assert "3,690 more bytes were not printed (--output-limit 100)" in err
    (tmp_path / "sleeps.py").write_text("import time\ntime.sleep(100)\n")
    status, _, err = hostcuda("run", "--timeout", 2, tmp_path / "sleeps.py")
    assert status == 124 and "did not end within 2 s" in err


def test_a_syntax_error_is_short_and_a_verdict(hostcuda, tmp_path):
    source = "__global__ void k(float *x) { x[0] = y }"
    (tmp_path / "a.cu").write_text(f"{source}\nint main() {{}}\n")
    (tmp_path / "a.py").write_text(
        f"from hostcuda.compiler import SourceModule\nSourceModule('{source}')\n"
    )
    for name in ("a.cu", "a.py"):
        status, out, err = hostcuda("sanitize", "--json", tmp_path / name)
        reply = json.loads(out)
        assert (status, reply["verdict"]) == (
            4,
            "compile_error",
        ) and "'y' was not declared" in reply["reason"]
        assert len(reply["reason"]) < 500 and "g++ -std" not in err


PYTHON = """
f = SourceModule('__global__ void k(float *x) { x[threadIdx.x + 1] = 1; }').get_function("k")
g = SourceModule('__global__ void k(float *x) {\\n x[threadIdx.x] += x[threadIdx.x + 64]; }').get_function("k")
for kernel in (f, g):
    try:
        kernel(cuda.InOut(np.zeros(64, np.float32)), block=(64, 1, 1))
        cuda.Context.synchronize()
    except cuda.Error:
        pass
"""


def test_two_sources_without_names_are_told_apart(hostcuda, tmp_path):
    (tmp_path / "two.py").write_text(IMPORTS + PYTHON)
    rows = json.loads(hostcuda("sanitize", "--json", tmp_path / "two.py")[1])["findings"]
    assert [(row["file"], row["line"]) for row in rows] == [("kernel.cu", 1), ("kernel-2.cu", 2)]


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("f(x, block=(2048, 1, 1))", "refused"),
        ("f(x, block=(64, 1, 1)); assert x.sum() == 0, 'wrong'", "wrong_result"),
        ("raise SystemExit(2)", "not_checked"),
    ],
)
def test_verdicts_of_a_program_in_python(hostcuda, tmp_path, line, verdict):
    source = IMPORTS + "a = np.zeros(64, np.float32); x = cuda.InOut(a)\n"
    source += "f = SourceModule('__global__ void k(float *x) { x[threadIdx.x] = 1; }').get_function('k')\n"
    (tmp_path / "one.py").write_text(source + line.replace("x.sum()", "a.sum()") + "\n")
    assert json.loads(hostcuda("sanitize", "--json", tmp_path / "one.py")[1])["verdict"] == verdict


def test_warnings_are_shown_by_each_command(hostcuda, tmp_path):
    path = tmp_path / "w.cu"
    path.write_text("""__global__ void k(float *x) {
  float sum;
  __syncthreads;
  for (int i = 0; i < 4; i++) sum += x[i];
  x[0] = sum;
}
int main() { float *x; cudaMalloc(&x, 16); cudaMemset(x, 0, 16); k<<<1, 1>>>(x); return cudaDeviceSynchronize(); }
""")
    for name in ("run", "profile", "sanitize"):
        status, out, err = hostcuda(name, *(["--no-nvcc"] if name == "profile" else []), path)
        assert f"{path}:3:3: warning: statement has no effect" in err and "warning: 'sum' " in err
        assert status == (name == "sanitize") and ("uninitialized variable in k at" in out) == (
            name == "sanitize"
        )


def test_ctrl_c_and_a_time_limit_are_verdicts():
    assert checked([], ("memcheck",), processes.Ended(-2, 1.0)).status == 130
    assert checked([], ("memcheck",), processes.Ended(None, 1.0)).outcome[0] == "hang"
