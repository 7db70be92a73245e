"""What the engine does not have is told in one sentence at its place; code for the host can be passed over."""

from pathlib import Path

import pytest
from running import run_program

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.build.unit import make_unit
from hostcuda.compiler import SourceModule
from hostcuda.frontend import sides
from hostcuda.host import toolchain

pytestmark = [
    pytest.mark.thorough("whole programs: a process each"),
    pytest.mark.usefixtures("cpu_engine"),
]

PROGRAMS = Path(__file__).parent / "programs"
PROGRAM = """#include <cuda_runtime.h>
__global__ void f(float *x) { x[0] = 1 << 3; }
int main()
{
    float *p;
    cudaMalloc(&p, 4);
    f<<<1,
        32>>>(p);
    return cudaDeviceSynchronize();
}
"""
NESTED = """__global__ void f(float *x) { x[0] = 1; }
template <class T> __global__ void g(T *x)
{
    if (threadIdx.x == 0) { f<<<1, 1>>>(x); }
}
template __global__ void g<float>(float *);
"""
REFERENCE = """texture<float, 2> picture;
texture<float> line;
__global__ void f(float *x) { x[0] = tex2D(picture, 1.0f, 2.0f); }
"""
LIBRARY = (
    "#include <cuda_runtime.h>\n#include <cub/cub.cuh>\n__global__ void f(float *x) { x[0] = 1; }\n"
)
GENERATOR = "#include <curand_kernel.h>\n__global__ void f(int *x)\n{\n    curandStateSobol32_t s;\n    x[0] = 1;\n}\n"
LAYERED = "__global__ void f(float *x, cudaTextureObject_t t)\n{\n    x[0] = tex2DLayered<float>(t, 1, 2, 3);\n}\n"
KEPT = """static
thread_local float kept[2][32] = {};
template <class T> struct Kept { static T at(int i) { return kept[1][i]; } };
auto get(int i) { return Kept<float>::at(i); }
__device__ float given(int i) { return get(i); }
__global__ void f(float *x) { x[0] = given(1); }
"""
OF_A_THREAD = "__global__ void f(float *x)\n{\n    static __thread int n; x[n++] = 0;\n}\n"


@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (PROGRAM, 7, "no host code: keep the kernels, and launch them from Python"),
        (
            NESTED,
            4,
            "no launches by kernels (dynamic parallelism): launch the kernel from the host",
        ),
        (REFERENCE, 1, "no texture references, which CUDA 12 has removed: use a texture object"),
        (LIBRARY, 2, "no header cub/cub.cuh: write the loop yourself, or run it on a GPU"),
        (
            GENERATOR,
            4,
            "no generators of cuRAND but XORWOW (curandState) and Philox (curandStatePhilox4_32_10_t)",
        ),
        (
            KEPT,
            1,
            "no thread_local variables, and nvcc has none for the device: declare a thread's variable in the",
        ),
        (OF_A_THREAD, 3, "no thread_local variables, and nvcc has none"),
        (LAYERED, 3, "no layered textures, cubemaps and levels of detail: use a texture per layer"),
    ],
    ids=["host", "nested", "reference", "library", "generator", "kept", "of a thread", "layered"],
)
def test_one_sentence(source, line, words):
    with pytest.raises(cuda.CompileError) as caught:
        SourceModule(source, no_extern_c=True)
    assert (
        f"kernel.cu:{line}:" in caught.value.msg
        and f"the CPU engine has {words}" in caught.value.msg
    )
    assert caught.value.msg.count("error:") == 1


def test_thread_local_variables_of_the_host_are_its_own():
    SourceModule(
        "#include <mutex>\nstatic thread_local int last;\nint host() { return ++last; }\n"
        "__global__ void f(float *x) { float kept = x[1]; x[0] = kept; }\n",
        no_extern_c=True,
    )


def test_a_kernel_that_is_a_member():
    with pytest.raises(
        cuda.CompileError,
        match=r"kernel.cu:2:.*a __global__ function cannot be a member of a class",
    ):
        SourceModule(
            "struct S {\n    __global__ void f(float *x) { x[0] = 1; }\n};\n", no_extern_c=True
        )


@pytest.mark.parametrize(
    ("source", "line"),
    [
        (
            "\n__global__ void f(float *y,\n                  const int &x)\n{\n    y[0] = x;\n}\n",
            2,
        ),
        ("__global__ void f(int &&x)\n{\n}\n", 1),
        ("__global__ void f(const float (&x)[4])\n{\n}\n", 1),
    ],
)
def test_a_reference_as_a_parameter(source, line):
    with pytest.raises(
        cuda.CompileError, match=rf"kernel.cu:{line}:.*a __global__ function takes no ref"
    ) as caught:
        SourceModule(source, no_extern_c=True)
    assert caught.value.msg.count("error:") == 1


def test_host_code_between_conditionals_is_passed_over():
    SourceModule(
        PROGRAM.replace("int main", "#ifndef __CUDA_ARCH__\nint main") + "#endif\n",
        no_extern_c=True,
    )


CROSSINGS = (PROGRAMS / "crossings.cu").read_text()
CROSSED = [
    'kernel.cu:29: error: calling a __host__ function("rand") from a __global__ function("k") is not allowed',
    'kernel.cu:30: error: calling a __host__ function("square") from a __global__ function("k") is not allowed: write '
    "__device__ before it, too",
    'kernel.cu:31: error: calling a __host__ function("twice") from a __global__ function("k") is not allowed: write '
    "__device__ before it, too",
    'kernel.cu:32: error: identifier "counter" is undefined in device code',
    'kernel.cu:33: error: identifier "table" is undefined in device code',
    'kernel.cu:34: error: calling a __host__ function("std::string") from a __global__ function("k") is not allowed',
    "kernel.cu:35: error: device code does not support exception handling",
    'kernel.cu:41: error: calling a __device__ function("dev") from a __host__ function("main") is not allowed',
    "kernel.cu:42: error: a __global__ function call must be configured: legal<<<blocks, threads>>>(...)",
    'kernel.cu:43: error: calling a __device__ function("__syncthreads") from a __host__ function("main") is not',
]


def _compiled(source, folder):
    return make_unit(source, no_extern_c=True, program=True).compile(folder)


@pytest.mark.skipif(toolchain.is_clang(toolchain.find()), reason="only g++ lists the calls")
def test_calls_between_host_and_device(tmp_path):
    with pytest.raises(cuda.CompileError) as caught:
        _compiled("#define WRONG\n#line 1\n" + CROSSINGS, tmp_path)
    message = caught.value.msg.splitlines()[1:]
    assert [line[: len(wanted)] for line, wanted in zip(message, CROSSED, strict=True)] == CROSSED


def test_legal_calls_between_host_and_device(tmp_path):
    _compiled(CROSSINGS, tmp_path)


def test_host_code_does_not_see_the_devices_macro(tmp_path):
    path = PROGRAMS / "sides.cu"
    done = run_program(path)
    assert done.stdout == "10 3 1, 20 6 2 5 line 32", done.stderr
    wrong = path.read_text().replace("struct Method {", "struct Method {\n    int field = SIDE;")
    with pytest.raises(cuda.CompileError) as caught:
        _compiled(wrong, tmp_path)
    assert "kernel.cu:12: error: a declaration that depends on __CUDA_ARCH__" in caught.value.msg


def test_what_belongs_to_a_kernel_may_depend_on_the_architecture():
    device = "int a;\n__global__ void __attribute__((launch_bounds(1024, 2)))\nk(int *x) {\n *x = 2;\n}\n"
    assert (
        sides.merge_sides(device, device.replace("1024, 2", "1024, 1").replace("= 2", "= 1"))
        == device
    )
    with pytest.raises(
        ValueError, match=r"kernel\.cu:1: error: a declaration that depends on __CUDA_ARCH__"
    ):
        sides.merge_sides(device.replace("int a", "float a"), device)


@pytest.mark.parametrize("address", ["", " @0x7ff57c784440"], ids=["g++ 13", "g++ 12"])
def test_the_list_of_calls_is_read_as_each_compiler_writes_it(address):
    text = "__device__ void device_only() {}\nint main()\n{\n  device_only();\n}\n"
    listed = "".join(
        f"{symbol} ({shown}){address}\n  Type: function definition analyzed\n  Calls: {calls}\n"
        for symbol, shown, calls in (
            ("main/1", "int main()", "_Z11device_onlyv/0 "),
            ("_Z11device_onlyv/0", "void device_only()", ""),
        )
    )
    (((_, line), sentence),) = sides.find_side_errors(text, listed, True)
    assert line == 4 and sentence.startswith(
        'error: calling a __device__ function("device_only")'
    ), sentence
