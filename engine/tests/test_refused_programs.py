"""What the engine does not have is told in one sentence at its place; code for the host can be passed over."""

import pytest

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

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
LIBRARY = "#include <cuda_runtime.h>\n#include <cub/cub.cuh>\n__global__ void f(float *x) { x[0] = 1; }\n"
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


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize(
    ("source", "line", "words"),
    [
        (PROGRAM, 7, "no host code: keep the kernels, and launch them from Python"),
        (NESTED, 4, "no launches by kernels (dynamic parallelism): launch the kernel from the host"),
        (REFERENCE, 1, "no texture references, which CUDA 12 has removed: use a texture object"),
        (LIBRARY, 2, "no header cub/cub.cuh: write the loop yourself, or run it on a GPU"),
        (GENERATOR, 4, "no generators of cuRAND but XORWOW (curandState) and Philox (curandStatePhilox4_32_10_t)"),
        (KEPT, 1, "no thread_local variables, and nvcc has none for the device: declare a thread's variable in the"),
        (OF_A_THREAD, 3, "no thread_local variables, and nvcc has none"),
        (LAYERED, 3, "no layered textures, cubemaps and levels of detail: use a texture per layer"),
    ],
    ids=["host", "nested", "reference", "library", "generator", "kept", "of a thread", "layered"],
)
def test_one_sentence(source, line, words):
    with pytest.raises(cuda.CompileError) as caught:
        SourceModule(source, no_extern_c=True)
    assert f"kernel.cu:{line}:" in caught.value.msg and f"the CPU engine has {words}" in caught.value.msg
    assert caught.value.msg.count("error:") == 1


@pytest.mark.usefixtures("cpu_engine")
def test_thread_local_variables_of_the_host_are_its_own():
    SourceModule(
        "#include <mutex>\nstatic thread_local int last;\nint host() { return ++last; }\n"
        "__global__ void f(float *x) { float kept = x[1]; x[0] = kept; }\n", no_extern_c=True)


def test_host_code_between_conditionals_is_passed_over():
    SourceModule(PROGRAM.replace("int main", "#ifndef __CUDA_ARCH__\nint main") + "#endif\n", no_extern_c=True)
