"""Programs as textbooks and students write them, unmodified, against NumPy. They run on either engine."""

import numpy as np
import pytest

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

RNG = np.random.default_rng(7)


def kernel(source, name, **keywords):
    return SourceModule(source, **keywords).get_function(name)


def test_grid_stride_loop_in_three_dimensions():
    fill = kernel("""
        __global__ void fill(int *y, int depth, int height, int width) {
            for (int z = blockIdx.z * blockDim.z + threadIdx.z; z < depth; z += gridDim.z * blockDim.z)
                for (int y_ = blockIdx.y * blockDim.y + threadIdx.y; y_ < height; y_ += gridDim.y * blockDim.y)
                    for (int x = blockIdx.x * blockDim.x + threadIdx.x; x < width; x += gridDim.x * blockDim.x)
                        y[(z * height + y_) * width + x] += (z * 100 + y_) * 100 + x;
        }
    """, "fill")
    y = np.zeros((5, 7, 11), np.int32)
    fill(cuda.InOut(y), *map(np.int32, y.shape), grid=(2, 3, 2), block=(4, 2, 2))
    z, h, w = np.indices(y.shape)
    assert (y == (z * 100 + h) * 100 + w).all()


def test_several_arrays_in_one_dynamic_buffer():
    mix = kernel("""
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
        }
    """, "mix")
    n = 64
    out = np.empty(n)
    mix(cuda.Out(out), np.int32(n), block=(n, 1, 1), shared=n * 32)
    o = n - 1 - np.arange(n)
    assert (out == 0.5 * o + 2 * o + o + o + 3).all()


def test_structs_and_lambdas():
    apply = kernel("""
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
        }
    """, "apply", no_extern_c=True, options=["--extended-lambda"])
    x = np.arange(50, dtype=np.float32)
    y = x.copy()
    affine = np.array([(2.0, 3.0)], np.dtype([("scale", np.float32), ("shift", np.float32)]))
    apply(cuda.InOut(y), np.int32(50), affine[0], block=(16, 1, 1))
    assert (y == 2 * x + 4).all()


def test_templates_are_found_by_their_mangled_names():
    module = SourceModule("""
        template <typename T, int N> __global__ void times(T *x) { x[threadIdx.x] *= N; }
        template __global__ void times<int, 3>(int *);
        template __global__ void times<float, 5>(float *);
    """, no_extern_c=True)
    for symbol, dtype, n in (("_Z5timesIiLi3EEvPT_", np.int32, 3), ("_Z5timesIfLi5EEvPT_", np.float32, 5)):
        x = np.arange(8, dtype=dtype)
        module.get_function(symbol)(cuda.InOut(x), block=(8, 1, 1))
        assert (x == n * np.arange(8)).all()


def test_overloads_and_namespaces_are_found_by_their_mangled_names():
    module = SourceModule("""
        __global__ void set(int *x) { x[0] = 1; }
        __global__ void set(float *x, int n) { x[0] = n; }
        namespace lab { namespace inner { __global__ void set(int *x) { x[0] = 3; } } }
    """, no_extern_c=True)
    x, y = np.zeros(1, np.int32), np.zeros(1, np.float32)
    module.get_function("_Z3setPi")(cuda.Out(x), block=(1, 1, 1))
    module.get_function("_Z3setPfi")(cuda.Out(y), np.int32(2), block=(1, 1, 1))
    assert (x[0], y[0]) == (1, 2)
    module.get_function("_ZN3lab5inner3setEPi")(cuda.Out(x), block=(1, 1, 1))
    assert x[0] == 3


def test_streams_overlap_and_keep_their_order():
    """Chunks on two streams: copy in, compute, copy out, each stream in its own order."""
    square = kernel(
        "__global__ void square(float *x) { int i = blockIdx.x * blockDim.x + threadIdx.x; x[i] *= x[i]; }",
        "square",
    )
    chunks, n = 6, 1024
    x = cuda.pagelocked_empty((chunks, n), np.float32)
    x[:] = RNG.random((chunks, n))
    y = cuda.pagelocked_zeros((chunks, n), np.float32)
    streams, buffers = [cuda.Stream() for _ in range(2)], [cuda.mem_alloc(4 * n) for _ in range(2)]
    for c in range(chunks):
        s, d = streams[c % 2], buffers[c % 2]
        cuda.memcpy_htod_async(d, x[c], s)
        square(d, grid=(n // 128, 1), block=(128, 1, 1), stream=s)
        cuda.memcpy_dtoh_async(y[c], d, s)
    for s in streams:
        s.synchronize()
    assert (y == x * x).all()


@pytest.mark.usefixtures("cpu_engine")  # a GPU prints to the standard output of C, not of Python
def test_printf(capsys):
    hello = kernel(r"""
        #include <stdio.h>
        __global__ void hello(float x) {
            if (threadIdx.x == 1) printf("block %d: %.2f %s %c %5u%%\n", blockIdx.x, x, "text", 'c', 42u);
        }
    """, "hello")
    hello(np.float32(1.5), grid=(2, 1), block=(2, 1, 1))
    cuda.Context.synchronize()
    lines = sorted(capsys.readouterr().out.splitlines())
    assert lines == ["block 0: 1.50 text c    42%", "block 1: 1.50 text c    42%"]
