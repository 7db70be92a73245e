"""Check mode and what textbooks use: mapped memory, groups, barriers, pipelines, PTX.

No false alarms.
"""

from pathlib import Path

import pytest
from running import IMPORTS

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

ENGINE_TESTS = Path(__file__).resolve().parents[1]

MAPPED = """
source = "__global__ void copy(const float *x, float *y) { y[threadIdx.x] = x[threadIdx.x]; }"
copy = SourceModule(source).get_function("copy")
x = cuda.pagelocked_zeros(32, np.float32, mem_flags=cuda.host_alloc_flags.DEVICEMAP)
y = cuda.mem_alloc(4096)
copy(np.uintp(x.base.get_device_pointer()), y, block=(int(sys.argv[1]), 1, 1))
"""

# Runs the functions of a test file as pytest would, with its module of kernels.
RUN = """
import importlib
sys.path.insert(0, sys.argv[1])
tests = importlib.import_module(f"test_{sys.argv[2]}")
module = tests.SourceModule(tests.kernel_source(sys.argv[2]), no_extern_c=True)
for name in sys.argv[3:]:
    getattr(tests, name)(module)
"""


@pytest.fixture
def sanitize(write_program):
    def run(source, *arguments):
        path = write_program(IMPORTS + source, "program.py")
        findings = sanitize_script(str(path), list(map(str, arguments)), engine="cpu", capture=True)
        assert findings.ended.status == 0, findings.ended
        return findings

    return run


def test_kernels_may_use_mapped_host_memory(sanitize):
    assert sanitize(MAPPED, 32).clean
    assert "out of bounds in copy" in repr(sanitize(MAPPED, 33))


@pytest.mark.parametrize(
    ("file", "names"),
    [
        (
            "groups",
            [
                "test_a_function_of_any_group",
                "test_partitions_by_label_and_predicate",
                "test_exchanges_and_scans_of_a_tile",
                "test_tiles_of_several_warps",
                "test_copies_of_a_group",
                "test_ranks_in_the_grid",
            ],
        ),
        (
            "async",
            [
                "test_a_thread_copies_ahead",
                "test_a_block_wide_pipeline",
                "test_a_warp_copies_for_the_others",
                "test_a_barrier_in_two_steps",
                "test_atomic_objects",
                "test_a_loop_that_waits_for_an_atomic_object_ends",
            ],
        ),
        (
            "ptx",
            [
                "test_barriers_of_some_warps",
                "test_copies_in_the_background",
                "test_matrices_of_bfloat16",
            ],
        ),
    ],
)
def test_right_kernels_are_clean(sanitize, file, names):
    findings = sanitize(RUN, ENGINE_TESTS, file, *names)
    assert findings.clean, repr(findings)


CORPUS = """
sys.path.insert(0, sys.argv[1])
import test_textbook_corpus as corpus
for kernel in corpus.CASES:
    for out in corpus.run(*kernel):
        out.check()
"""


@pytest.mark.thorough
def test_the_textbook_kernels_are_clean(sanitize):
    findings = sanitize(CORPUS, ENGINE_TESTS)
    assert findings.clean, repr(findings)
