"""The playground's engine in Chromium and Firefox, against the native one: results, counts, findings, grades.

It needs the compilers that `make playground` brings.
"""

import base64
import contextlib
import functools
import http.server
import re
import shutil
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from firefox import Firefox

import hostcuda
from hostcuda import processes, temporary
from hostcuda.source import kernel_names
from hostcuda.wasm.site import missing
from labkit.base.errors import LabError
from labkit.evidence.modules import keep_launches
from labkit.evidence.sanitize import sanitize
from labkit.exercises import attempts, grade
from labkit.exercises.exercise import exercise, exercises
from labkit.exercises.judge import judge
from labkit.exercises.trial import list_trials
from labkit.ladder.source import cell_arguments, with_functions
from labkit.ladder.tables import as_options
from labkit.ladder.variants import variant
from labkit.measure.check import check
from labkit.notebooks import execute, live
from labkit_playground.data import find_reason
from labkit_playground.site import write_lab

pytestmark = pytest.mark.thorough("the playground, in browsers")

OFFERED = [number for number, asked in exercises().items() if not find_reason(asked)]
PAGES = [execute.read(path) for path in execute.list_notebooks("")]
RUNGS = live.list_rungs(page.nb for page in PAGES)
CELLS = {
    f"{cell.name}{', part' * cell.part}": (cell, page.nb.cells[cell.index].source)
    for page in PAGES
    for cell in live.find_live_cells(page.nb, (), RUNGS).values()
    if cell.kind == "rung"
}
EVERY = pytest.mark.exhaustive("every exercise: half an hour")
QUICK = ("00a", "04a", "P3b")  # threads alone; a barrier, wavefronts; shuffles and atomics


class _Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, *about):
        """Say nothing."""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """Serve an empty page beside the engine; yield its address."""
    if why := missing():
        pytest.skip(why)
    folder = tmp_path_factory.mktemp("playground")
    write_lab(folder, RUNGS)
    (folder / "index.html").write_text("<!doctype html><title>Engine</title>")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(_Quiet, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    server.server_close()


BEGIN = "() => import('/lab.mjs').then(({ Lab }) => (window.lab = new Lab()).init())"
ASK = "([method, request]) => window.lab.ask(method, request)"


@pytest.fixture(scope="module")
def tab(chromium, address):
    """Yield a page whose engine is ready."""
    tab = chromium.new_page()
    tab.set_default_timeout(300_000)
    tab.goto(address)
    tab.evaluate(BEGIN)
    yield tab
    tab.close()


@pytest.fixture(scope="module")
def firefox(tmp_path_factory, address):
    """Yield the same in Firefox."""
    executable = shutil.which("firefox-esr") or shutil.which("firefox")
    if not executable:
        pytest.skip("Firefox is not installed: on Debian, apt install firefox-esr")
    with contextlib.closing(Firefox(executable, tmp_path_factory.mktemp("firefox"))) as tab:
        tab.goto(address)
        tab.evaluate(BEGIN)
        yield tab


@pytest.fixture
def lab(tab):
    """Ask the engine: `lab(method, request)`."""
    return lambda *asked: tab.evaluate(ASK, [*asked])


def request(source, *arguments, n=256, grid=4, block=64, **fields):
    """Return a request to run the source's kernel on arrays x and y of n floats; `fields` are added to it."""
    kernel = source.partition("void ")[2].partition("(")[0]
    inputs = {"x": {"type": "float32", "length": n}, "y": {"type": "float32", "length": n}}
    launch = {"kernel": kernel, "grid": grid, "block": block, "arguments": [*arguments]}
    return {"source": source, "launch": launch, "inputs": inputs, **fields}


def test_a_kernel_runs_and_prints(lab):
    source = (
        "__global__ void f(float *y, int n)\n{\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        '    y[i] = i < n ? 2 * i : -1;\n    if (i == 3) printf("%d threads\\n", blockDim.x);\n}'
    )
    answer = lab("run", request(source, "y", 250))
    assert answer["ok"] and answer["printed"] == "64 threads\n" and not answer["messages"]
    assert [answer["outputs"]["y"][i] for i in (0, 3, 249, 250)] == [0, 6, 498, -1]


def test_a_template_with_64_bits_runs_and_only_the_first_elements_come(lab):
    source = (
        "template <class T, int N> __device__ T more(T y) { return y + N; }\n"
        "template <int N> __global__ void f(long long *y) {\n"
        "    if (threadIdx.x) y[threadIdx.x] = more<long long, N>(1LL << 40);\n}\n"
        "template __global__ void f<3>(long long *);"
    )
    launch = {"kernel": "f< 3 >", "grid": 1, "block": 4, "arguments": ["y"]}
    answer = lab(
        "run",
        {
            "source": source,
            "launch": launch,
            "inputs": {"y": {"type": "int64", "length": 4, "fill": "count"}},
            "first": 2,
        },
    )
    shown = answer["outputs"]["y"]
    assert answer["ok"] and not shown["same"]
    assert (shown["length"], shown["changed"], shown["unset"]) == (4, [False, True], 0)
    assert [shown["values"][i] for i in range(2)] == [0, 2**40 + 3]


def test_what_to_do_is_what_a_page_can_do(lab):
    answer = lab(
        "run", request("__global__ void f(float *y) {}\nint main() { f<<<1, 1>>>(nullptr); }", "y")
    )
    assert "keep the kernels, and the page launches them" in answer["messages"][0]["text"]
    answer = lab(
        "run", request("__global__ void f(float *y) { y[threadIdx.x + 1] = 0; }", "y", n=64, grid=1)
    )
    assert (
        "a write just past the end of an allocation of 256 bytes: is a guard such as"
        in answer["fault"]
    )


def test_a_launch_tells_how_far_it_is(tab):
    source = (
        "__global__ void f(float *y) { __shared__ float s[64]; s[threadIdx.x] = 1; __syncthreads(); "
        "y[threadIdx.x] = s[0]; }"
    )
    reports = tab.evaluate(
        """async request => {
        const reports = [];
        await window.lab.check(request, report => reports.push(report));
        return reports.filter(report => report.part === 'blocks');
    }""",
        request(source, "y", n=64, grid=200_000),
    )
    assert reports and all(0 < report["done"] <= report["total"] == 200_000 for report in reports)


def test_errors_and_warnings_have_line_and_column(lab):
    answer = lab(
        "run",
        request("__global__ void f(float *y)\n{\n    int unused = 1;\n    y[0] = oops;\n}", "y"),
    )
    assert not answer["ok"]
    (error,) = answer["messages"]
    assert (error["kind"], error["line"], error["column"]) == ("error", 4, 12)
    answer = lab(
        "run", request("__global__ void f(float *y)\n{\n    int unused = 1;\n    y[0] = 0;\n}", "y")
    )
    assert answer["ok"] and [
        (message["kind"], message["line"]) for message in answer["messages"]
    ] == [("warning", 3)]


RACE = """__global__ void f(float *y)
{
    __shared__ float s[64];
    s[threadIdx.x] = threadIdx.x;
    y[blockIdx.x * 64 + threadIdx.x] = s[63 - threadIdx.x];
}"""


def test_findings_have_both_lines_and_counts_are_rows(lab):
    answer = lab("check", request(RACE, "y"))
    race = next(finding for finding in answer["findings"] if finding["kind"] == "race")
    assert {race["line"], race["other"]["line"]} == {4, 5}
    answer = lab("check", request(RACE.replace("    y[", "    __syncthreads();\n    y["), "y"))
    rows = {(row["line"], row["space"], row["op"]): row["requests"] for row in answer["counts"]}
    assert answer["ok"] and rows == {
        (4, "shared", "st"): 8,
        (6, "shared", "ld"): 8,
        (6, "global", "st"): 8,
    }
    assert (
        answer["totals"][0]["global_store_sectors"] == 32 and answer["totals"][0]["barriers"] == 8
    )


def test_volatile_accesses_are_checked(lab):
    source = "__global__ void f(volatile float *y) { y[threadIdx.x] = y[threadIdx.x] + 1; }"
    asked = request(source, "y", n=64, grid=1)
    asked["inputs"]["y"]["fill"] = "zeros"
    answer = lab("check", asked)
    assert answer["ok"], answer["messages"]
    assert {(row["op"], row["requests"]) for row in answer["counts"]} == {("ld", 2), ("st", 2)}


def test_a_copy_in_the_background_loads_what_its_thread_has_loaded(lab):
    source = (
        "#include <cuda_pipeline.h>\n__global__ void f(const float *x, float *y) {\n"
        "    __shared__ float s[64];\n    y[threadIdx.x] = x[threadIdx.x];\n"
        "    __pipeline_memcpy_async(&s[threadIdx.x], &x[threadIdx.x], 4);\n"
        "    __pipeline_commit();\n    __pipeline_wait_prior(0);\n    y[threadIdx.x] += s[threadIdx.x];\n}"
    )
    asked = request(source, "x", "y", n=64, grid=1)
    asked["inputs"]["x"]["fill"] = "ones"
    answer = lab("check", asked)
    loads = [row for row in answer["counts"] if (row["space"], row["op"]) == ("global", "ld")]
    assert {row["line"]: row["requests"] for row in loads}.items() >= {4: 2, 5: 2}.items()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("y[threadIdx.x + 250] = 0;", "past the end"),
        ("if (threadIdx.x < 40) __syncthreads(); y[0] = 1;", "divergent barrier"),
        ("y[0] = (int)blockIdx.x / (int)(blockDim.x - 64);", "integer division by zero"),
        ("__shared__ float s[8]; s[threadIdx.x] = 1; y[0] = s[0];", "the __shared__ array s"),
    ],
)
def test_faults_are_found(lab, body, says):
    answer = lab("check", request(f"__global__ void f(float *y) {{ {body} }}", "y"))
    assert not answer["ok"] and any(
        says in f"{finding['kind']}: {finding['message']}" for finding in answer["findings"]
    ), answer["findings"]


def test_a_finding_names_arrays_as_the_kernel_does(lab):
    found = lab("check", request("__global__ void f(float *y) { y[threadIdx.x + 250] = 1; }", "y"))
    overrun = next(finding for finding in found["findings"] if finding["tool"] == "memcheck")
    assert "y[256], one past the end of 256 floats" in overrun["message"]
    source = (
        "__global__ void f(float *y) {\n    __shared__ half s[8][8];\n"
        "    y[threadIdx.x] = __half2float(s[threadIdx.x / 8][threadIdx.x % 8]);\n}"
    )
    unset = lab("check", request(f"#include <cuda_fp16.h>\n{source}", "y", grid=1))["findings"]
    assert "s[0][0] of the __shared__ array s of 8 x 8 halfs" in unset[0]["message"]


def test_a_shuffled_value_that_a_condition_may_leave_unused_is_no_finding(lab):
    source = """__global__ void f(const float *x, float *y)
{
    const int i = threadIdx.x;
    if (i >= 24) return;
    float v = x[i];
    const float t = __shfl_down_sync(0x00ffffffu, v, 4);
    if (i + 4 < 24) v += t;
    y[i] = v;
}"""
    asked = request(source, "x", "y", n=32, grid=1, block=32)
    asked["inputs"]["x"]["fill"] = "ones"
    assert not lab("check", asked)["findings"]
    asked["source"] = source.replace("if (i + 4 < 24) ", "")
    (absent,) = lab("check", asked)["findings"]
    assert absent["kind"] == "absent lane" and absent["line"] == 6


def test_an_endless_kernel_is_stopped(lab, tab):
    endless = request(
        "__global__ void f(volatile float *y, bool once) { do y[1] = y[0]; while (!once); }",
        "y",
        False,
        grid=1,
        block=1,
    )
    launch = {**endless["launch"], "arguments": ["y", True]}
    assert lab("run", {**endless, "launch": launch})["ok"]  # it is compiled
    stopped = tab.evaluate(
        """async request => {
        const running = window.lab.run(request).catch(error => error.name);
        await new Promise(done => setTimeout(done, 500));
        const start = performance.now();
        await window.lab.stop();
        return [await running, performance.now() - start];
    }""",
        endless,
    )
    assert stopped[0] == "Stopped" and stopped[1] < 1000
    assert lab("run", request("__global__ void f(float *y) { y[0] = 1; }", "y"))["ok"]


# --------------------------------------------------------------------------------------------------
# Exercises


def native(asked, source):
    """Return what the CPU engine measures of an attempt in a process of its own."""
    with temporary.folder() as folder:
        command, environment = attempts.write_job(asked, source, folder)
        return attempts.collect_result(
            asked, folder, processes.run(command, environment, 300, capture=True)
        )


def compare(lab, asked, source):
    """Run an attempt on both engines; the lab has to judge both alike, word for word."""
    mine = native(asked, source)
    judgement = judge(asked, source, mine)
    page = lab("grade", {"exercise": asked.number, "source": source})
    lines = [(line["ok"], line["text"], line["kind"]) for line in page["lines"]]
    assert (page["verdict"], lines) == (
        judgement.verdict,
        [(line.ok, line.text, line.kind) for line in judgement.lines],
    )
    assert page["advice"] == (
        judgement.mistake or grade._write_advice(judgement, source, record=False)
    )
    return mine


@pytest.mark.parametrize(
    "number", [pytest.param(number, marks=() if number in QUICK else EVERY) for number in OFFERED]
)
def test_start_and_solution_are_judged_as_natively(lab, number):
    asked = exercise(number)
    for source in (asked.start, asked.solution):
        compare(lab, asked, source)


@pytest.mark.parametrize("number", QUICK)
def test_firefox_judges_as_natively(firefox, number):
    asked = exercise(number)
    for source in (asked.start, asked.solution):
        compare(lambda *request: firefox.evaluate(ASK, [*request]), asked, source)


def counted(events):
    """Return the counts of each launch that the two compilers have to agree on."""
    # what is in memory is the compiler's choice
    left_out = {"lab__local_requests_address_taken.sum"}
    return [
        {name: count for name, count in event["counts"].items() if name not in left_out}
        for event in events
        if "counts" in event
    ]


@pytest.mark.parametrize("number", [pytest.param(number, marks=EVERY) for number in OFFERED])
def test_results_are_equal_bit_for_bit_and_counts_too(lab, number):
    asked = exercise(number)
    mine = native(asked, asked.solution)
    page = lab("traced", {"exercise": number, "source": asked.solution})
    for runs, others in zip(mine.arrays, page["arrays"], strict=True):
        for name, array in runs[0].items():  # integers, which are exact
            assert array.tobytes() == base64.b64decode(others[0][name])
    assert counted(page["events"]) == counted(mine.events)


@pytest.mark.parametrize("number", [pytest.param(number, marks=EVERY) for number in OFFERED])
def test_wrong_answers_are_judged_as_natively(lab, number):
    asked = exercise(number)
    for trial in [*list_trials(asked)][2:]:
        (given,) = trial.attempt
        page = lab(
            "grade",
            {"exercise": number, "source": given.read_text() if isinstance(given, Path) else given},
        )
        if page["verdict"] == "refused":
            with pytest.raises(LabError) as refused:
                asked.attempt(given)
            assert page["text"] == str(refused.value), trial.about
            continue
        source = asked.attempt(given)
        judgement = judge(asked, source, native(asked, source))
        assert page["verdict"] == judgement.verdict, trial.about
        assert [line["ok"] for line in page["lines"]] == [line.ok for line in judgement.lines], (
            trial.about
        )


# --------------------------------------------------------------------------------------------------
# Kernels in place of rungs


def break_kernel(source, how):
    """Return a kernel's source as it is, or with a mistake: nothing is written, or a sum has a wrong sign.

    Where matrix instructions add up, all blocks but the first write nothing instead.
    """
    sums = re.search(r"(?s).*(?:\bsum\b|\by\[)[^;=]*(?=\+=)", source)
    if how == "right":
        return source
    if how == "sum" and sums:
        return f"{sums[0]}-={source[sums.end() + 2 :]}"
    begin = re.search(r"__(?:global|device)__[^;{]*\{", source).end()
    left_out = {"nothing": "blockDim.x", "sum": "blockIdx.x + blockIdx.y + blockIdx.z"}[how]
    return f"{source[:begin]} if ({left_out}) return; {source[begin:]}"


@pytest.mark.parametrize("how", ["right", "nothing", "sum"])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name == "04" else EVERY) for name in CELLS]
)
def test_a_cell_of_a_page_is_checked_as_natively(lab, name, how):
    cell, source = CELLS[name]
    source = break_kernel(f"// {source}", how)
    number, _, options = cell.name.partition(" ")
    options = as_options(options)
    whole = with_functions(variant(int(number), **options).source, source) if cell.part else source
    mine = variant(int(number), whole, **options)
    try:
        told = repr(check(mine, quiet=True))
    except LabError as wrong:
        told = str(wrong)
    assert told.startswith("PASS") == (how == "right")
    asked = {"rung": cell.name, "source": source, "part": cell.part}
    page = lab("checkRung", asked)
    if how == "right":
        assert (page["ok"], page["text"]) == (True, told)
        assert lab("sanitizeRung", asked)["ok"]
    else:
        assert not page["ok"] and mine.label in page["text"]
        assert ("faults" in told, "wrong on" in told) == (
            "faults" in page["text"],
            "wrong on" in page["text"],
        )


def spoil(source, how):
    """Return a kernel's source as it is, or with a mistake that the sanitizer may find; "" if it has no place for it.

    The mistake is a barrier that is left out, an output that is not set to 0 before values are
    added to it, or an index that is larger by 1.
    """
    if how == "right":
        return source
    place, instead = {
        "barrier": (r"(?s)(.*)__syncthreads\(\);", r"\1"),
        "unset": (r"\by\[[^;=]*\] = 0;", ""),
        "index": (r"(?s)(.*\b(?:y|d|left|window|images)\[|.*\bsum\[)", r"\g<1>1 + "),
    }[how]
    spoiled, count = re.subn(place, instead, source, count=1)
    return spoiled if count else ""


def has_findings_of(page, rows):
    """Return whether a page finds what Linux finds: with each tool that does, and in no line that Linux does not name.

    Where clang has moved an access, its line may be unknown. Then a read of unset memory is not
    known to follow from a race of that line, and is a finding of its own. An address that is wrong
    in two ways is misaligned on Linux, and out of bounds in a page.
    """
    (tools, lines), (expected, known) = (
        (
            {finding["tool"] for finding in findings},
            {place["line"] for each in findings for place in (each, each["other"]) if place},
        )
        for findings in (page, rows)
    )
    return bool(page) == bool(rows) and expected <= tools and lines - {None} <= known


MISTAKES = ("barrier", "unset", "index")
QUICK_MISTAKES = (("01", "unset"), ("04", "barrier"))
SANITIZED = [
    pytest.param(
        name,
        how,
        marks=[EVERY] * ((name, how) not in QUICK_MISTAKES),
    )
    for name, (_, source) in CELLS.items()
    for how in ("right", "nothing", "sum", *MISTAKES)
    if how not in MISTAKES or spoil(source, how)
]


@pytest.mark.parametrize(("name", "how"), SANITIZED)
def test_a_cell_of_a_page_is_sanitized_as_natively(lab, name, how):
    cell, source = CELLS[name]
    source = (spoil if how in MISTAKES else break_kernel)(f"// {source}", how)
    number, _, options = cell.name.partition(" ")
    options = as_options(options)
    whole = with_functions(variant(int(number), **options).source, source) if cell.part else source
    mine = variant(int(number), whole, **options)
    found = sanitize(mine)
    page = lab("sanitizeRung", {"rung": cell.name, "source": whole})
    assert page["ok"] == found.clean
    assert has_findings_of(page["findings"], found.rows)
    if how in MISTAKES:
        try:
            told = repr(check(mine, quiet=True))
        except LabError as wrong:
            told = str(wrong)
        page = lab("checkRung", {"rung": cell.name, "source": source, "part": cell.part})
        assert page["ok"] == told.startswith("PASS"), (page["text"], told)


# --------------------------------------------------------------------------------------------------
# Kernels of a page that no cell judges

# the launch of each: grid, block, and per argument its value, or the elements of its array
LAUNCHES = {
    "add": (4, 64, {"a": 256, "b": 256, "sum": 256, "n": 250}),
    "squares": (1, 32, {"x": 86 * 43, "a": 16 * 32, "d": 128}),
    "stacks": (1, 32, {"x": 86 * 43, "a": 16 * 32, "d": 4 * 128}),
    "parts": (4, 64, {"x": 256, "left": 256, "n": 250}),
    "bias_relu": (4, 32, {"x": 256, "b": 2, "y": 256, "C": 2, "area": 64}),
    "honest": (2, 64, {"x": 128 * 256, "y": 128, "rows": 100, "columns": 256}),
    "nothing": (2, 64, {"x": 128 * 256, "y": 128, "rows": 100, "columns": 256}),
    "of_256": (2, 64, {"x": 128 * 256, "y": 128, "rows": 100, "columns": 256}),
    "cached": (2, 64, {"x": 128 * 256, "y": 128, "rows": 100, "columns": 256}),
}
TYPES = {"float": "float32", "unsigned": "uint32"}
OWN = {
    f"{page.name}, {name}": (page.name, f"// {source}", name)
    for page in PAGES
    for cell in live.find_live_cells(page.nb, (), ()).values()
    for source in [page.nb.cells[cell.index].source]
    for name in kernel_names(source)
}


def launch_natively(source, kernel, grid, block, arguments):
    """Launch a kernel on the CPU engine, and sanitize it; return its fault or None, and the findings.

    `arguments` are numbers, and arrays that get what the kernel writes.
    """
    compiled = cell_arguments(source, "own")
    module = hostcuda.compiler.SourceModule(**compiled)
    keep_launches(module, "own", compiled)
    passed = [
        np.int32(value) if isinstance(value, int) else hostcuda.driver.InOut(value)
        for value in arguments.values()
    ]
    fault = None
    try:
        module.get_function(kernel)(*passed, grid=(grid, 1), block=(block, 1, 1))
    except hostcuda.driver.Error as error:
        fault = error
    return fault, sanitize(module).rows


@pytest.mark.parametrize("how", ["right", "nothing", "index"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=EVERY) for name in OWN])
def test_a_kernel_that_no_cell_judges_runs_as_natively(lab, name, how):
    _, source, kernel = OWN[name]
    begin = source.rindex("__global__", 0, source.index(f" {kernel}("))
    end = source.index("\n}", begin)
    change = break_kernel if how == "nothing" else spoil
    source = source[:begin] + change(source[begin:end], how) + source[end:]
    grid, block, sizes = LAUNCHES[kernel]
    arguments, inputs = {}, {}
    for argument, size in sizes.items():
        declared = re.search(rf"(\w+) \*{argument}\b", source[begin:])
        arguments[argument] = size
        if declared:
            dtype = TYPES[declared[1]]
            arguments[argument] = np.arange(size).astype(dtype)
            inputs[argument] = {"type": dtype, "length": size, "fill": "count"}
    launch = {"kernel": kernel, "grid": grid, "block": block}
    launch["arguments"] = [given if given in inputs else sizes[given] for given in sizes]
    asked = {"source": source, "launch": launch, "inputs": inputs}
    run, checked = lab("run", asked), lab("check", asked)
    fault, rows = launch_natively(source, kernel, grid, block, arguments)
    assert bool(run["fault"]) == bool(fault)
    assert has_findings_of(checked["findings"], rows)
    if not fault:
        for argument in inputs:
            mine = arguments[argument]
            np.testing.assert_array_equal(np.array(run["outputs"][argument], mine.dtype), mine)


def test_the_engines_document_says_how_many_cells_are_compared():
    document = (execute.folder().parent / "engine" / "docs" / "browser.md").read_text()
    assert all(len([*list_trials(exercise(number))]) >= 2 + 8 for number in OFFERED)
    mistakes = Counter(case.values[0] for case in SANITIZED).values()
    others = {(page, source) for page, source, _ in OWN.values()}
    for words in (
        f"**{len(OFFERED)} exercises.**",
        "at least 8 wrong answers",
        f"**{len(CELLS)} kernels of pages**",
        f"{min(mistakes) - 1} or {max(mistakes) - 1} wrong versions",
        f"**{len(others)} other cells of pages**",
    ):
        assert words in " ".join(document.split())


def test_a_race_of_a_page_is_named_at_its_two_lines(lab):
    source = CELLS["04"][1]
    before, _, after = f"// {source}".rpartition("__syncthreads();")
    found = lab("sanitizeRung", {"rung": "04", "source": before + after})
    lines = (before + after).splitlines()
    for race in found["findings"]:
        assert race["kind"] == "race" and race["line"] != race["other"]["line"]
        assert all("tile[" in lines[at - 1] for at in (race["line"], race["other"]["line"]))
    assert found["findings"] and not found["ok"]
