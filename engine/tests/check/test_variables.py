"""Variables of a module, and what kernels allocate: buffers with bounds of their own."""

import pytest
from running import IMPORTS, kernel_source

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

PROGRAM = """
module = SourceModule(SOURCE, no_extern_c=True)
o = cuda.to_device(np.zeros(32, np.int32))
for name in sys.argv[1:]:
    module.get_function(name)(o, grid=(1, 1), block=(32, 1, 1))
    cuda.Context.synchronize()
print(cuda.from_device(o, 32, np.int32).tolist())
"""


@pytest.fixture
def look(write_program):
    path = write_program(
        IMPORTS + PROGRAM.replace("SOURCE", repr(kernel_source("variables"))), "program.py"
    )
    return lambda *kernels: sanitize_script(str(path), kernels, engine="cpu", capture=True)


@pytest.mark.parametrize(
    ("kernel", "line", "thread", "words"),
    [
        (
            "past_bins",
            8,
            8,
            "at element 8 of the variable bins, one past the end of its 8 elements of 4 bytes",
        ),
        (
            "before_guard",
            11,
            0,
            "at element -1 of the variable guard, one before its 8 elements of 4 bytes",
        ),
        (
            "past_filled",
            14,
            6,
            "element 6 of the variable filled, one past the end of its 6 elements of 4 bytes",
        ),
        (
            "past_inner",
            17,
            3,
            "element 3 of the variable inner, one past the end of its 3 elements of 4 bytes",
        ),
        (
            "past_sized",
            20,
            5,
            "element 5 of the variable sized<5>, one past the end of its 5 elements",
        ),
        (
            "past_static",
            24,
            4,
            "element 4 of the variable local, one past the end of its 4 elements",
        ),
        ("far_away", 28, 0, "not near any allocation"),
        (
            "past_block",
            63,
            16,
            "at element 16 of an allocation, one past the end of its 16 elements of 4 bytes",
        ),
        (
            "freed_block",
            75,
            0,
            "at element 3 of an allocation of 16 elements of 4 bytes, which has been freed",
        ),
        ("frees_twice", 81, 0, "which was freed before"),
    ],
)
def test_an_access_beyond_a_variable_is_found_at_its_line(look, kernel, line, thread, words):
    (row,) = look(kernel).table.to_dict("records")
    assert (row["tool"], row["line"], row["thread"][0]) == ("memcheck", line, thread)
    assert words in row["message"]


def test_right_uses_are_clean_and_initial_values_are_what_they_were(look):
    findings = look("heap", "keeps", "takes_up", "all_within")
    assert findings.clean and findings.ended.status == 0, f"{findings}\n{findings.ended.output}"
    assert "[1, 0, 0, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0, 4" in findings.ended.output


def test_what_a_kernel_allocates_is_unset(look):
    (row,) = look("unset_block").table.to_dict("records")
    assert (row["tool"], row["line"]) == ("initcheck", 68)


LITTLE_MEMORY = """
import resource
n = 1 << 24
kernel = SourceModule("__global__ void add(float *x) { x[threadIdx.x] += 1; }").get_function("add")
x, y = cuda.mem_alloc(4 * n), cuda.mem_alloc(400)
cuda.memset_d32(x, 0, n)
cuda.memset_d32(y, 0, 100)
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + (1 << 30),) * 2)
for _ in range(2):
    kernel(x, grid=(1, 1), block=(64, 1, 1))
    kernel(y, grid=(1, 1), block=(64, 1, 1))
cuda.Context.synchronize()
"""


def test_an_array_that_racecheck_has_no_memory_for_is_named(write_program, hostcuda_command):
    path = write_program(IMPORTS + LITTLE_MEMORY, "program.py")
    status, out, _ = hostcuda_command("sanitize", "--engine", "cpu", "--tool", "racecheck", path)
    assert status == 6  # not checked
    sentence = "racecheck had too little memory for an allocation of 67108864 bytes: not checked"
    assert f"racecheck: nothing found in 4 launches; {sentence}\n" in out
