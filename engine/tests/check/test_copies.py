"""What the host copies although nothing has set it: initcheck at the line of the copy."""

from pathlib import Path

import pytest
from running import IMPORTS

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAMS = Path(__file__).parents[1] / "programs"


def lines(name, mark):
    """Return the numbers of the lines of a program that end with this mark."""
    text = (PROGRAMS / name).read_text()
    return [
        number for number, line in enumerate(text.splitlines(), 1) if line.endswith(f"// {mark}")
    ]


@pytest.fixture
def check(write_program):
    """Return a function that checks a program of `PROGRAMS`, or one that is given as its text."""

    def run(name, tool, *arguments, text="", strict=False):
        path = write_program(text, name) if text else PROGRAMS / name
        return sanitize_script(
            str(path), [*arguments], tool=tool, engine="cpu", capture=True, strict=strict
        )

    return run


SCRIPT = """
source = "__global__ void f(float *y, int n) { int i = blockIdx.x * 256 + threadIdx.x; if (i < n) y[i] = 1; }"
double = SourceModule(source).get_function("f")
y = np.zeros(1000, np.float32)
double(cuda.Out(y), np.int32(1000), block=(256, 1, 1), grid=(3, 1))
double(cuda.Out(y), np.int32(1000), block=(256, 1, 1), grid=(4, 1))
"""

OF_PYTHON = """
twice = SourceModule("__global__ void f(float *y) { y[threadIdx.x] *= 2; }").get_function("f")
d, event, (s, t) = cuda.to_device(np.zeros(32, np.float32)), cuda.Event(), (cuda.Stream(), cuda.Stream())
cuda.Context.synchronize()
twice(d, block=(32, 1, 1), stream=s)
event.record(s)
t.wait_for_event(event)
twice(d, block=(32, 1, 1), stream=t)
cuda.Context.synchronize()
cuda.memset_d32(d, 0x3f800000, 32)
cuda.Context.synchronize()
twice(d, block=(32, 1, 1), stream=s)
twice(d, block=(32, 1, 1), stream=t)
cuda.Context.synchronize()
"""


def test_streams_use_the_same_memory_without_an_order(check):
    findings = check("streams.cu", "racecheck")
    first, second = (lines("streams.cu", mark) for mark in ("first", "found"))
    assert [(row["other"]["line"], row["line"]) for row in findings.table.to_dict("records")] == [
        *zip(first, second, strict=True)
    ], findings
    assert set(findings.table["kind"]) == {"race between streams"} and findings.ended.status == 0
    messages = findings.table["message"]
    assert (
        "kernel add in a stream reads what kernel fill in a stream writes: byte 0 of the allocation"
        in messages[0]
    )
    assert "cudaMemsetAsync in a stream writes what kernel add in a stream reads" in messages[1]
    assert "in a non-blocking stream" in messages[3] and "in the default stream" in messages[3]
    assert (
        "cudaFreeAsync in a stream frees what kernel fill in a stream writes" in messages.iloc[-1]
    )
    assert all("cudaStreamWaitEvent" in sentence for sentence in messages)


def test_streams_of_a_python_program(check, tmp_path):
    findings = check("streams.py", "racecheck", text=IMPORTS + OF_PYTHON)
    (row,) = findings.table.to_dict("records")
    assert (row["line"], row["other"]["line"], row["file"]) == (
        19,
        18,
        str(tmp_path / "streams.py"),
    ), findings


def test_the_host_goes_on_before_the_device_has_ended(check):
    findings = check("ahead.cu", "racecheck")
    assert list(findings.table["line"]) == lines("ahead.cu", "found"), findings
    assert set(findings.table["kind"]) == {"race"}
    words = (
        "reads what kernel fill writes",
        "writes what kernel add reads",
        "reads what cudaMemcpyAsync writes",
        "writes what cudaMemcpyAsync reads",
        "reads what kernel fill writes",
        "reads what kernel fill writes",
    )
    for message, what in zip(findings.table["message"], words, strict=True):
        assert what in message and "cudaDeviceSynchronize" in message


@pytest.mark.parametrize(
    ("way", "first"),
    [
        (0, "nothing has set 928: the first is in element 768, of 4 bytes"),
        (1, ""),
        (2, "nothing has set 8: the first is in element 0, of 4 bytes"),
        (3, "nothing has set 3000: the first is in element 250, of 4 bytes"),
        (9, ""),
        (6, "nothing has set 4000: the first is in element 0, of 1 byte"),
        (4, ""),
        (5, ""),
        (7, "nothing has set 72: the first is in element 32, of 4 bytes"),
        (8, ""),
    ],
)
def test_a_copy_of_what_nothing_has_set_is_found_if_the_host_uses_it(check, way, first):
    findings = check("copies.cu", "initcheck", str(way))
    rows = [(row["kernel"], row["line"]) for row in findings.table.to_dict("records")]
    call = "cudaMemcpy2D" if way == 7 else "cudaMemcpy"
    assert rows == ([(call, *lines("copies.cu", f"found: {call}"))] if first else []), findings
    assert first in "".join(findings.table["message"]) and findings.launches == 1
    notes = [event["line"] for event in findings.events]
    assert notes == (lines("copies.cu", f"found: {call}") if way in (1, 9) else []), findings


def test_a_python_program_s_copy_is_a_note_unless_nothing_was_set(check, tmp_path):
    findings = check("copies.py", "initcheck", text=IMPORTS + SCRIPT)
    (event,) = findings.events
    assert findings.outcome[0] == "pass" and "note at copies.py:11: " in repr(findings), findings
    assert "nothing has set 928" in event["message"] and findings.launches == 2
    strict = check("copies.py", "initcheck", text=IMPORTS + SCRIPT, strict=True)
    (row,) = strict.table.to_dict("records")
    assert (row["tool"], row["file"], row["line"]) == ("initcheck", str(tmp_path / "copies.py"), 11)
    assert "nothing has set 928" in row["message"] and not strict.events
    none = check("copies.py", "initcheck", text=IMPORTS + SCRIPT.replace("i < n", "i < n - 1000"))
    assert none.table["line"].tolist() == [11, 12] and not none.events, none


CUBLAS = """#include <cublas_v2.h>
int main() {
    float *a, *c, one = 1, none = 0;
    cudaMalloc(&a, 64);
    cudaMalloc(&c, 64);
    cublasHandle_t handle;
    cublasCreate(&handle);
    return cublasSgemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, 4, 4, 4, &one, a, 4, a, 4, &none, c, 4);
}
"""


def test_a_product_of_cublas_is_named_where_it_reads_what_nothing_has_set(check):
    findings = check("product.cu", "initcheck", text=CUBLAS)
    (row,) = findings.table.to_dict("records")
    assert (row["kernel"], row["line"]) == ("cudaMemcpy2DAsync of a cuBLAS product", 8), findings


def test_a_host_that_answers_a_kernel_is_right(check):
    """Check mode lets the host go on while the kernel waits for it; the host's words are not a warp's."""
    findings = check("answers.cu", "all")
    assert findings.outcome[0] == "pass" and not findings.events, findings
    assert findings.ended.output == "3 64\n"
