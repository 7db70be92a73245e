"""Programs that import CuPy or cuda.core, on the CPU engine."""

import re

import pytest
from running import run_program

from hostcuda.host.toolchain import INCLUDE
from hostcuda.programs import cupy
from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.thorough("whole programs: a process each; 20 s together")

ARRAYS = '''
import numpy as np
import cupy as cp

SOURCE = r"""
template <class T> __global__ void triple(T *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 3;
}
__constant__ float factors[2];
__global__ void scale(float *x) { x[threadIdx.x] *= factors[threadIdx.x % 2]; }
extern "C" __global__ void add(const float *x, const float *y, float *sum, int n, float more) {
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum[i] = x[i] + y[i] + more;
}
"""
module = cp.RawModule(code=SOURCE, name_expressions=["triple<float>", "triple<double>", "scale"])
x = cp.arange(12, dtype=cp.float32).reshape(3, 4)
y, total = cp.ones_like(x), cp.empty((3, 4), cp.float32)
module.get_function("add")((1,), (32,), (x, y, total, x.size, np.float32(0.5)))
cp.testing.assert_array_equal(total, x + y + 0.5)
x[1:, ::2] = 7  # a view, which is not contiguous
x += 1
print(x.get().tolist(), x.T.shape, float(x[2].sum()), int((x == 8).sum()))
stream = cp.cuda.Stream(non_blocking=True)
with stream:
    z = cp.sqrt(cp.asarray([1.0, 4.0, 9.0]))
    module.get_function("triple<double>")((1,), (4,), (z, z.size))
    print(z)
factors = cp.ndarray((2,), cp.float32, module.get_global("factors"))
factors[...] = cp.array([2, 5], cp.float32)
w = cp.random.rand(6, dtype=cp.float32)
scaled = w.copy()
module.get_function("scale")((1,), (6,), (scaled,))
print(cp.allclose(scaled[1::2] / w[1::2], 5), cp.get_array_module(w) is cp, cp.asnumpy(w).dtype)
meet = cp.RawKernel("""#include <cooperative_groups.h>
extern "C" __global__ void meet(int *x, int *y) {
    x[blockIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    atomicAdd(y, x[(blockIdx.x + 1) % gridDim.x]);
}""", "meet", enable_cooperative_groups=True)
met = cp.zeros(1, cp.int32)
meet((20,), (1,), (cp.zeros(20, cp.int32), met))
print(met)
add = cp.RawKernel(SOURCE, "add")
for wrong in (
    lambda: add((1,), (32,), (x, y, total, x.size, 0.5)),
    lambda: add((1,), (32,), (x, np.ones(12), total, x.size, np.float32(0.5))),
    lambda: w + np.ones(6),
    lambda: np.asarray(w),
    lambda: cp.ElementwiseKernel("T x", "T y", "y = x"),
):
    try:
        wrong()
    except (TypeError, AttributeError) as error:
        print(error)
'''
PRINTED = """\
[[1.0, 2.0, 3.0, 4.0], [8.0, 6.0, 8.0, 8.0], [8.0, 10.0, 8.0, 12.0]] (4, 3) 38.0 5
[3. 6. 9.]
True True float32
[20]
"""
MISTAKES = """
import cupy as cp
kernel = cp.RawKernel('''
extern "C" __global__ void shift(const float *x, float *y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] + x[i + 1];
}''', "shift")
x, y = cp.empty(33, cp.float32), cp.zeros(32, cp.float32)
kernel((1,), (32,), (x, y, 32))
kernel((1,), (32,), (y, x, 32))
print(y.sum())
"""
CORE = '''
import cupy as cp
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch

device = Device()
device.set_current()
stream = device.create_stream()
options = ProgramOptions(std="c++17", arch=f"sm_{device.arch}", define_macro=[("STEP", 2)])
source = """template <class T> __global__ void fill(T *x, size_t n) {
    if (threadIdx.x < n) x[threadIdx.x] = STEP * threadIdx.x;
}"""
code = Program(source, code_type="c++", options=options).compile("cubin", name_expressions=("fill<int>",))
x = cp.empty(5, cp.int32)
launch(stream, LaunchConfig(grid=1, block=32), code.get_kernel("fill<int>"), x.data.ptr, cp.uint64(x.size))
stream.sync()
print(x, device.compute_capability.major)
'''


def test_a_program_that_imports_cupy(write_program):
    ended = run_program(write_program(ARRAYS, "program.py"))
    assert ended.returncode == 0 and ended.stdout.startswith(PRINTED), ended.stderr
    told = ended.stdout.removeprefix(PRINTED).splitlines()
    for sentence, words in zip(
        told,
        (
            "0.5 is passed as a double, whose first 4 bytes are another number: pass np.float32(0.5)",
            "is no argument of a kernel: pass cupy.asarray(array)",
            "in one operation: convert it by cupy.asarray(array)",
            "write array.get() or cupy.asnumpy(array)",
            "ElementwiseKernel is not in the CPU engine's stand-in for CuPy",
        ),
        strict=True,
    ):
        assert words in sentence


def test_kernels_of_cupy_have_findings(write_program):
    findings = sanitize_script(
        str(write_program(MISTAKES, "program.py")), engine="cpu", capture=True
    )
    found = [(row["kind"], row["line"]) for row in findings.table.to_dict("records")]
    assert found == [("uninitialized", 4), ("out of bounds", 4)]


ORDERS = """
import numpy as np, cupy as cp
show = cp.RawKernel(
    'extern "C" __global__ void show(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }', "show"
)
def print_memory(x):
    y = cp.empty(x.size, cp.int32)
    show((1,), (x.size,), (x, y))
    print(y)
columns = cp.array([[1, 2, 3], [4, 5, 6]], cp.int32, order="F")
print_memory(columns)
columns += 1
print_memory(columns)
print_memory(columns.copy("F"))
print_memory(columns.copy())
print_memory(cp.ascontiguousarray(columns))
print_memory(cp.asarray(np.array([[1, 2, 3], [4, 5, 6]], np.int32, order="F")))
print(columns[0], cp.empty_like(columns).strides, cp.empty_like(columns, order="C").strides)
for copy, order in ((False, "F"), (False, "C"), (True, "F")):
    print(cp.array(columns, copy=copy, order=order) is columns)
"""


def test_an_array_of_cupy_lies_in_memory_in_the_order_that_was_asked_for(write_program):
    ended = run_program(write_program(ORDERS, "program.py"))
    assert ended.stdout.splitlines() == [
        "[1 4 2 5 3 6]",
        "[2 5 3 6 4 7]",
        "[2 5 3 6 4 7]",
        "[2 3 4 5 6 7]",
        "[2 3 4 5 6 7]",
        "[1 4 2 5 3 6]",
        "[2 3 4] (4, 8) (12, 4)",
        "True",
        "False",
        "False",
    ], ended.stderr


STREAMS = '''
import threading
import cupy as cp
import cupy.fft
import numpy as np
from cupy.cuda.device import Device
from cupy.cuda.stream import Stream
from hostcuda.api import driver
assert Stream is cp.cuda.Stream and Device is cp.cuda.Device
assert cupy.fft.fft(cp.ones(4))[0] == 4
wait = cp.RawKernel(
    'extern "C" __global__ void wait(volatile int *go, int *x) { while (*go == 0) {} *x = 1; }', "wait"
)
go, x = driver.pagelocked_zeros(1, np.int32), cp.zeros(1, cp.int32)
arguments = (np.uint64(go.ctypes.data), x)
wait((1,), (1,), arguments)
print(cp.cuda.Stream.null.done)
go[0] = 1
cp.cuda.Stream.null.synchronize()
print(cp.cuda.Stream.null.done)
go[0] = 0
stream = cp.cuda.Stream(non_blocking=True)
wait((1,), (1,), arguments, stream=stream)
threading.Timer(0.2, go.fill, (1,)).start()
x.set([5], stream=stream)  # after the kernel
stream.synchronize()
print(x)
meet = cp.RawKernel("""#include <cooperative_groups.h>
extern "C" __global__ void meet(int *x, int *y) {
    x[blockIdx.x] = 1;
    cooperative_groups::this_grid().sync();
    atomicAdd(y, x[(blockIdx.x + 1) % gridDim.x]);
}""", "meet")
met = cp.zeros(1, cp.int32)
meet((20,), (1,), (cp.zeros(20, cp.int32), met), enable_cooperative_groups=True)
print(met)
'''


def test_calls_of_cupy_that_name_a_stream_or_ask_for_cooperation_do_so(write_program):
    ended = run_program(write_program(STREAMS, "program.py"))
    assert ended.stdout.splitlines() == ["False", "True", "[5]", "[20]"], ended.stderr


def test_attributes_of_a_device_of_cupy_have_cudas_names():
    header = (INCLUDE / "hostcuda" / "host_types.h").read_text()
    attributes = cupy.Device(0).attributes
    assert attributes["MultiProcessorCount"] >= 1
    assert {f"cudaDevAttr{name}" for name in attributes} <= set(re.findall(r"\w+", header))


CLUSTERS = """
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
import cupy as cp
device = Device()
device.set_current()
stream = device.create_stream()
source = 'extern "C" __global__ void __cluster_dims__(2) rank(int *x) { x[blockIdx.x] = __clusterRelativeBlockRank(); }'
kernel = Program(source, "c++", ProgramOptions()).compile("cubin").get_kernel("rank")
x = cp.zeros(4, cp.int32)
launch(stream, LaunchConfig(grid=4, block=1), kernel, x.data.ptr)
stream.sync()
print(x.get().tolist())
LaunchConfig(grid=2, cluster=2, block=1)
"""


def test_clusters_from_cuda_core_are_those_that_a_kernel_declares(write_program):
    ended = run_program(write_program(CLUSTERS, "program.py"))
    assert ended.stdout == "[0, 1, 0, 1]\n"
    assert "__cluster_dims__(...) in front of it, and launch without cluster" in ended.stderr


def test_a_program_that_imports_cuda_core(write_program):
    ended = run_program(write_program(CORE, "program.py"))
    assert (ended.stdout, ended.stderr) == ("[0 2 4 6 8] 9\n", "")


def test_a_program_takes_modules_from_its_own_folder_and_none_from_that_in_which_it_runs(
    write_program, tmp_path, monkeypatch
):
    """As `python PROGRAM.py` does."""
    program = write_program(
        "import random, sys\nimport cupy as cp\nimport near\nprint(sys.argv[1:], near.VALUE, cp.zeros(1))\n",
        "program.py",
    )
    program.with_name("near.py").write_text("VALUE = 5\n")
    work = tmp_path / "work"
    work.mkdir()
    (work / "random.py").write_text("raise SystemExit('a file of the reader')\n")
    monkeypatch.chdir(work)
    ended = run_program(program, "-v")
    assert ended.stdout == "['-v'] 5 [0.]\n", ended.stderr
