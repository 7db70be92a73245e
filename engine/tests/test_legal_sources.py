"""Sources that nvcc accepts and a host compiler, or a scan of the text, would not."""

import contextlib

import numpy as np
import pytest
from running import kernel_source

from hostcuda.api import driver
from hostcuda.api.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

SOURCE = kernel_source("legal_sources")


def first(module, name, block=(1, 1, 1)):
    """Return what a kernel writes to the first element."""
    x = driver.to_device(np.zeros(64, np.int32))
    module.get_function(name)(x, block=block)
    return driver.from_device(x, 1, np.int32)[0]


def test_an_instantiation_whose_arguments_are_deduced(module):
    x = driver.to_device(np.zeros(1))
    module.get_function("_Z7deducedIdEvPT_")(x, block=(1, 1, 1))
    assert driver.from_device(x, 1, np.float64) == 8
    assert module.get_function("_Z7deducedIcEvPT_")


def test_a_templates_parameter_bounds_its_blocks(module):
    assert module.get_function("_Z7boundedILi64EEvPi").max_threads_per_block == 32
    assert module.get_function("_Z7boundedILi128EEvPi").max_threads_per_block == 64
    assert first(module, "_Z7boundedILi128EEvPi", (64, 1, 1)) == 128


@pytest.mark.parametrize(
    ("symbol", "dtype", "expected"),
    [
        ("_Z5scaleIiLi3EEvPT_", np.int32, 3),
        ("_Z5scaleIfLi4EEvPT_", np.float32, 4),
        ("plain", np.int32, 10),
        ("_Z5scaleIdLi2EEvPT_", np.float64, 6),
        ("_Z5shiftPdi", np.float64, 7),
        ("_Z5shiftPf", np.float32, 8),
        ("_ZN3lab5inner5shiftEPi", np.int32, 9),
        ("_Z5scalePx", np.int64, 11),
    ],
)
def test_overloads_are_found_by_their_mangled_names(symbol, dtype, expected):
    overloads = SourceModule(
        """
        template <typename T, int N = (3 > 2)> __global__ void scale(T *x) { x[threadIdx.x] *= N; }
        template __global__ void scale<int, 3>(int *x);
        template <> __global__ void scale<double, 2>(double *x) { x[threadIdx.x] *= 6; }
        template __global__ void scale<float, (8 >> 1)>(float *);
        __global__ void scale(long long *x) { x[threadIdx.x] *= 11; }
        __global__ void shift(double *x, int n = 3) { x[threadIdx.x] *= n; }
        __global__ void shift(float *x) { x[threadIdx.x] *= 8; }
        namespace lab { inline namespace inner { __global__ void shift(int *x) { x[threadIdx.x] *= 9; } } }
        extern "C" { __global__ void plain(int *x) { x[threadIdx.x] *= 10; } }
    """,
        no_extern_c=True,
    )
    x, more = np.arange(8, dtype=dtype), [np.int32(7)] * symbol.endswith("Pdi")
    overloads.get_function(symbol)(driver.InOut(x), *more, block=(8, 1, 1))
    assert (x == expected * np.arange(8)).all()


def test_kernels_that_macros_make(module):
    assert first(module, "_ZN5inner12of_namespaceEPi") == 5
    assert first(module, "made_of") == 6


def test_variables_that_only_the_host_writes(module):
    def find(*names):
        for name in names[:-1]:
            with contextlib.suppress(driver.LogicError):
                return module.get_global(name)
        return module.get_global(names[-1])

    # g++ 15 marks the second name as that of one file.
    for names in (
        ("only_host_writes",),
        ("_ZN12_GLOBAL__N_18namelessE", "_ZN12_GLOBAL__N_1L8namelessE"),
    ):
        address, size = find(*names)
        driver.memcpy_htod(address, np.int32([9]))
        assert size == 4
    assert first(module, "variables") == 9


PAIR = np.dtype([("x", "f4"), ("y", "f4")])


def test_an_argument_with_its_own_copy_constructor(module):
    y = np.zeros(1, np.float32)
    copied = module.get_function("copied")
    copied(np.array((5, 2), PAIR)[()], driver.Out(y), block=(1, 1, 1))
    assert y == 3


def test_prepared_calls_with_structs(module):
    copied, y = module.get_function("copied"), driver.to_device(np.zeros(1, np.float32))
    copied.prepare([PAIR, "P"])
    for pair, difference in (
        (np.array((9, 2), PAIR)[()], 7),
        (np.array((9, 1), PAIR), 8),
        (b"\0" * 8, 0),
    ):
        copied.prepared_call((1, 1), (1, 1, 1), pair, y)
        assert driver.from_device(y, 1, np.float32) == difference
    with pytest.raises(TypeError, match="prepared for 2 arguments, and 1 were given"):
        copied.prepared_call((1, 1), (1, 1, 1), y)
    with pytest.raises(TypeError, match=r"argument 0 .* cannot be passed as '8s'"):
        copied.prepared_call((1, 1), (1, 1, 1), 3, y)


def test_placement_new_into_aligned_shared_memory(module):
    x = np.zeros(32, np.int32)
    module.get_function("placed")(driver.Out(x), block=(32, 1, 1))
    assert (x == np.arange(32)).all()


def test_several_arrays_in_one_dynamic_buffer():
    mix = SourceModule("""
        extern __shared__ __align__(16) unsigned char buffer[];
        __global__ void mix(double *out, int n) {
            double *d = reinterpret_cast<double *>(buffer);
            int *i = (int *)(d + n);
            float4 *v = (float4 *)(buffer + n * 16);
            int t = threadIdx.x;
            d[t] = t * 0.5; i[t] = 2 * t; v[t] = make_float4(t, t + 1, t + 2, t + 3);
            __syncthreads();
            int o = n - 1 - t;
            out[t] = d[o] + i[o] + v[o].x + v[o].w;
        }""").get_function("mix")
    n, out = 64, np.empty(64)
    mix(driver.Out(out), np.int32(n), block=(n, 1, 1), shared=n * 32)
    o = n - 1 - np.arange(n)
    assert (out == 0.5 * o + 2 * o + o + o + 3).all()


def test_a_lambda_in_a_kernel_takes_a_struct_along():
    apply = SourceModule(
        """
        struct Affine {
            float scale, shift;
            __device__ float operator()(float x) const { return scale * x + shift; }
        };
        template <typename F> __device__ void each(float *x, int n, F f) {
            for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = f(x[i]);
        }
        extern "C" __global__ void apply(float *x, int n, Affine g) {
            float bias = 1.0f;
            auto h = [=] __device__ (float v) { return g(v) + bias; };
            each(x, n, h);
        }""",
        no_extern_c=True,
        options=["--extended-lambda"],
    ).get_function("apply")
    y, affine = (
        np.arange(50, dtype=np.float32),
        np.array([(2, 3)], np.dtype([("scale", "f4"), ("shift", "f4")])),
    )
    apply(driver.InOut(y), np.int32(50), affine[0], block=(16, 1, 1))
    assert (y == 2 * np.arange(50) + 4).all()


def test_ptx_in_a_macro_of_several_lines(module):
    x = np.zeros(32, np.float32)
    module.get_function("multiplied")(driver.Out(x), block=(32, 1, 1))
    line = SOURCE[: SOURCE.index("MMA(d, a, 0x")].count("\n")
    assert (x == 8 + 100 * line).all()


@pytest.mark.parametrize(
    ("options", "fused"), [(["-fmad=false"], False), ([], True), (["-fmad", "true"], True)]
)
def test_fused_multiplications_can_be_switched_off(options, fused):
    source = 'extern "C" __global__ void rounded(float *x) { x[3] = x[0] * x[1] + x[2]; }'
    a = np.float32(1 + 2**-12)
    x = np.array([a, a, -(a * a), 9], np.float32)
    SourceModule(source, no_extern_c=True, options=options).get_function("rounded")(
        driver.InOut(x), block=(1, 1, 1)
    )
    assert x[3] == (2**-24 if fused else 0)


def test_a_thread_waits_with_additions_of_zero(module):
    flag, x = np.zeros(1, np.int32), np.zeros(1, np.int32)
    module.get_function("waits")(driver.InOut(flag), driver.InOut(x), block=(64, 1, 1))
    assert x == 7


def test_the_shared_memory_of_a_kernel_is_its_own():
    """The mangled name of ``conv1f``'s array contains what that of ``f``'s array would begin with."""
    module = SourceModule("""
        __global__ void conv1f(float *x) {
            __shared__ float tile[8000]; tile[threadIdx.x] = x[0]; __syncthreads(); x[1] = tile[0]; }
        __global__ void f(float *x) {
            __shared__ float s[8000]; s[threadIdx.x] = 2; __syncthreads(); x[1] = s[0]; }""")
    assert (
        module.get_function("f").shared_size_bytes
        == module.get_function("conv1f").shared_size_bytes
        == 32000
    )
