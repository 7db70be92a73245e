"""The plugin of pytest: markers that run a test under the sanitizers and with budgets, and the fixture."""

import re
import shutil
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import hostcuda

pytestmark = pytest.mark.thorough("breadth of check mode: a module compiled per case")

pytest_plugins = ["pytester"]

PROGRAMS = Path(__file__).parents[1] / "programs"
# An editable install that is older than the plugin has no entry point of it yet.
PLUGIN = (
    () if "hostcuda" in entry_points(group="pytest11").names else ("-p", "hostcuda.pytest_plugin")
)
MODULE = '''
import numpy as np
import pytest

import hostcuda.autoinit
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

SOURCE = """
__global__ void scale(float *y, const float *x, int n, int step) {
    int i = threadIdx.x;
    if (i <= n) y[i] = 2 * x[i * step];
}"""

PROGRAM = """
__global__ void copy(float *y, const float *x) { y[threadIdx.x] = x[threadIdx.x]; }
int main(int, char **arguments) {
    float *x, *y;
    cudaMalloc(&x, 128), cudaMalloc(&y, 128), cudaMemset(x, 0, 128);
    for (int i = atoi(arguments[1]); i > 0; i--) copy<<<1, 32>>>(y, x);
    return cudaDeviceSynchronize();
}"""


@pytest.fixture
def scale():
    kernel = SourceModule(SOURCE).get_function("scale")

    def call(n, step=1):
        x, y = np.arange(32 * step, dtype=np.float32), np.empty(32, np.float32)
        kernel(cuda.Out(y), cuda.In(x), np.int32(n), np.int32(step), block=(64, 1, 1))
        return y

    return call
'''


@pytest.fixture
def ran(pytester, monkeypatch):
    """Run a file of tests in a pytest of its own, on the CPU engine."""
    monkeypatch.setenv("HOSTCUDA_ENGINE", "cpu")

    def run(tests, *options):
        pytester.makepyfile(test_scale=MODULE + tests)
        return pytester.runpytest_subprocess(*PLUGIN, *options)

    return run


def test_marked_tests_fail_by_findings_and_by_budgets(ran):
    result = ran("""
@pytest.mark.hostcuda_sanitize("memcheck")
def test_beyond(scale):
    scale(32)

@pytest.mark.hostcuda_sanitize
@pytest.mark.hostcuda_budget("scale", sectors_per_load=4, global_load_requests=1)
def test_within(scale):
    assert (scale(31) == 2 * np.arange(32)).all()

@pytest.mark.hostcuda_budget(sectors_per_load=4.1, sectors_per_store=4)
def test_strided(scale):
    scale(31, 8)

def test_program(hostcuda_profile, tmp_path):
    program = tmp_path / "copy.cu"
    program.write_text(PROGRAM)
    counted = hostcuda_profile(program, 3, engine="cpu")
    assert counted.value("sectors_per_load", "copy") == 4
    assert counted.value("launches", "copy") == 3
""")
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(
        [
            "out of bounds in scale at kernel.cu:4: read of 4 bytes*",
            "  by thread (32,0,0) of block (0,0,0)",
            "scale: sectors_per_load is 32, more than the budget of 4.1",
        ]
    )
    result.stdout.no_fnmatch_line("scale: sectors_per_store*")


def test_outcomes_of_the_process_are_those_of_the_test(ran):
    result = ran(
        """
@pytest.mark.hostcuda_sanitize
def test_wrong(scale):
    assert scale(31)[1] == 3

@pytest.mark.hostcuda_sanitize
def test_skips(scale):
    pytest.skip("not here")

@pytest.mark.skipif(np.float32 is not None, reason="evaluated beside the test")
@pytest.mark.hostcuda_sanitize
def test_is_skipped(scale):
    raise SystemExit

@pytest.mark.xfail(reason="known")
@pytest.mark.hostcuda_budget(sectors_per_load=0)
def test_is_expected_to_fail(scale):
    scale(31)

@pytest.mark.hostcuda_sanitize
def test_launches_nothing():
    pass

@pytest.mark.hostcuda_budget(sectors_per_load=4)
def test_counts_nothing():
    pass

@pytest.mark.hostcuda_budget("skale", sectors_per_load=4)
def test_another_name(scale):
    scale(31)

@pytest.mark.hostcuda_budget(no_such_counter=4)
def test_another_counter(scale):
    scale(31)

@pytest.mark.hostcuda_budget(wavefronts_per_shared_load=1)
def test_no_such_access(scale):
    scale(31)

class TestInAClass:
    @pytest.mark.hostcuda_sanitize
    @pytest.mark.parametrize("step", [1, 8])
    def test_passes(self, scale, step):
        scale(31, step)
""",
        "-rs",
        "-n",
        "1",
    )
    result.assert_outcomes(passed=2, failed=6, skipped=2, xfailed=1)
    for line in (
        "E * assert * == 3",
        "SKIPPED*not here*",
        "SKIPPED*evaluated beside the test",
        "*no kernel was launched, so nothing was checked",
        "the test launched no kernel, so nothing was counted",
        "0 rows of this profile are 'skale'; it has scale",
        "no counter 'no_such_counter' in this profile*",
    ):
        result.stdout.fnmatch_lines([line])


def test_the_examples_of_the_page_pass(pytester, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_ENGINE", "cpu")
    page = (Path(hostcuda.__file__).parents[1] / "docs" / "testing.md").read_text(encoding="utf-8")
    pytester.makepyfile(test_page="\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)))
    for name in ("twice.cu", "transpose.cu"):
        shutil.copy(PROGRAMS / name, pytester.path)
    pytester.runpytest_subprocess(*PLUGIN).assert_outcomes(passed=2)
