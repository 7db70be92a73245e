"""Programs that import PyCUDA, on the CPU engine."""

import sys

import pytest
from running import run_program

from hostcuda import processes as child
from hostcuda.programs import pycuda
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("whole programs: a process each")

PLAIN = """
import sys
import numpy as np
import pycuda
import pycuda.autoinit
import pycuda.driver as drv
from pycuda.compiler import SourceModule

drv.Context.set_limit(drv.limit.STACK_SIZE, 2048)
x = np.arange(64, dtype=np.float32)
SourceModule("__global__ void kernel(float *x) { x[threadIdx.x] += 1; }").get_function("kernel")(
    drv.InOut(x), block=(BLOCK, 1, 1), grid=(1, 1))
print(x.sum(), pycuda.VERSION_TEXT, sys.argv[1:], __name__)
"""
ARRAYS = """
import numpy as np
import pycuda.autoinit
from pycuda import cumath, gpuarray
from pycuda.curandom import rand
from pycuda.elementwise import ElementwiseKernel
from pycuda.reduction import ReductionKernel
from pycuda.scan import InclusiveScanKernel
from pycuda.tools import DeviceMemoryPool

x = gpuarray.to_gpu(np.arange(8, dtype=np.float32))
axpy = ElementwiseKernel("float a, float *x, float *y", "y[i] = a * x[i] + y[i]")
axpy(2, x, x)
dot = ReductionKernel(np.float32, "0", "a + b", "x[i] * y[i]", "const float *x, const float *y")
print(x.get().tolist(), dot(x, x).get(), float(gpuarray.sum(x).get()))
print(InclusiveScanKernel(np.int32, "a + b")(gpuarray.arange(5, dtype=np.int32)).get().tolist())
z = gpuarray.to_gpu(np.array([1 + 2j], np.complex64))
print((z * z).get()[0], float(cumath.sqrt(x).get()[3]), bool((rand((50,)).get() < 1).all()))
pool = DeviceMemoryPool()
sizes = [pool.alloc_size(pool.bin_number(size)) for size in (0, 1, 1000)]
print(sizes[0] > 0, sizes[1] >= 1, sizes[2] >= 1000, pool.bin_number(sizes[2]) == pool.bin_number(1000))
"""


@pytest.fixture
def program(write_program):
    return lambda text: write_program(text, "program.py")


def test_a_program_that_imports_pycuda(program):
    ended = run_program(program(PLAIN.replace("BLOCK", "64")), "a", "b")
    assert ended.stdout == f"2080.0 {pycuda.VERSION} ['a', 'b'] __main__\n", ended.stderr


LATE = """
import threading, time
import pycuda.driver as drv
from pycuda.compiler import DynamicModule

def work():
    while threading.main_thread().is_alive():
        time.sleep(0.01)
    drv.init()
    module = DynamicModule()
    module.add_source("extern __device__ int twice(int); __global__ void late(int *x) { *x = twice(*x); }")
    module.add_source(f"__device__ int twice(int x) {{ return 2 * x; }}  // {time.time()}", nvcc_options=["-rdc=true"])
    module.add_stdlib("cudadevrt")
    module.link()
    import numpy as np
    x = np.full(1, 4, np.int32)
    module.get_function("late")(drv.InOut(x), block=(1, 1, 1))
    print(x[0])

threading.Thread(target=work).start()
"""


def test_a_thread_compiles_a_module_of_two_sources_after_the_main_thread_has_ended(
    program, tmp_path, monkeypatch
):
    # the runtime, too, of several files
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    ended = run_program(program(LATE))
    assert (ended.stdout, ended.stderr) == ("8\n", "")


def test_sanitize_takes_it(program):
    findings = sanitize_script(
        str(program(PLAIN.replace("BLOCK", "65"))), (), "memcheck", "cpu", capture=True
    )
    assert findings.table["kind"].tolist() == ["out of bounds"]


def test_a_module_that_is_missing_says_how_to_get_it(program, tmp_path, monkeypatch):
    monkeypatch.setenv("HOSTCUDA_CACHE_DIR", str(tmp_path / "cache"))
    ended = run_program(program("import pycuda.autoinit\nimport pycuda.nonesuch"))
    assert ended.returncode == 1
    assert "`hostcuda pycuda` fetches them" in ended.stderr


WAITING = """
import numpy as np, pycuda.autoinit, pycuda.driver as drv
from pycuda.compiler import SourceModule

module = SourceModule('''
__global__ void answer(volatile int *flags) {
    flags[0] = 1;
    while (!flags[1]) {}
    flags[2] = 1;
}
__global__ void set(volatile int *flags) { flags[1] = 1; }
''')
flags = drv.managed_zeros(3, np.int32, mem_flags=drv.mem_attach_flags.GLOBAL)
first, second = drv.Stream(), drv.Stream()
module.get_function("answer")(flags, block=(1, 1, 1), stream=first)
"""
FROM_THE_HOST = """
while not flags[0]:
    pass
flags[1] = 1
"""
FROM_A_KERNEL = """
module.get_function("set")(flags, block=(1, 1, 1), stream=second)
"""


@pytest.mark.parametrize(
    ("writer", "verdict"),
    [(FROM_THE_HOST, "pass"), (FROM_A_KERNEL, "hang")],
    ids=["host", "kernel"],
)
def test_sanitize_lets_a_kernel_wait_for_the_host_but_not_for_another_kernel(
    program, writer, verdict
):
    path = program(WAITING + writer + "first.synchronize()\nprint(flags)\n")
    findings = sanitize_script(str(path), engine="cpu", capture=True)
    assert findings.outcome[0] == verdict, findings


def test_a_program_without_pycuda_runs_as_it_is(program):
    path = program("# import pycuda is in a comment only\n")
    assert child.program(str(path), ["x"], "cpu") == [sys.executable, str(path), "x"]


def test_pycudas_own_modules_work_on_the_engine(program, tmp_path, monkeypatch):
    try:
        pycuda.fetch()
    except pycuda.EngineError as error:
        pytest.skip(str(error))
    ended = run_program(program(ARRAYS))
    assert "Warning" not in ended.stderr
    assert ended.stdout.splitlines() == [
        "[0.0, 3.0, 6.0, 9.0, 12.0, 15.0, 18.0, 21.0] 1260.0 84.0",
        "[0, 1, 3, 6, 10]",
        "(-3+4j) 3.0 True",
        "True True True True",
    ], ended.stderr
