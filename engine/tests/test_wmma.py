"""nvcuda::wmma: loads, stores and products of every shape and layout, against float64.

A product's terms are exact, the sums float: |error| <= k * eps * (|a| |b| + |c|), whatever the
order of the additions. A half result is rounded once more.
"""

import itertools

import numpy as np
import pytest
from running import kernel_source

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.core("the products of page 09")

RNG = np.random.default_rng(161616)
SHAPES = [(16, 16, 16), (32, 8, 16), (8, 32, 16)]
LAYOUTS = ["row_major", "col_major"]
ACCUMULATORS = [
    ("float", "float"),
    ("half", "half"),
    ("float", "half"),
    ("half", "float"),
]  # of c and of d
DTYPE = {"float": np.float32, "half": np.float16}

PRODUCT = """
extern "C" __global__ void mma_{tag}(const half *a, const half *b, const {c_type} *c, {d_type} *d, int lda, int ldb,
                                     int ldc, wmma::layout_t c_layout, int ldd, wmma::layout_t d_layout)
{{
    wmma::fragment<wmma::matrix_a, {m}, {n}, {k}, half, wmma::{a_layout}> fa;
    wmma::fragment<wmma::matrix_b, {m}, {n}, {k}, half, wmma::{b_layout}> fb;
    wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {c_type}> fc;
    wmma::fragment<wmma::accumulator, {m}, {n}, {k}, {d_type}> fd;
    wmma::load_matrix_sync(fa, a, lda);
    wmma::load_matrix_sync(fb, b, ldb);
    wmma::load_matrix_sync(fc, c, ldc, c_layout);
    wmma::mma_sync(fd, fa, fb, fc);
    wmma::store_matrix_sync(d, fd, ldd, d_layout);
}}
"""


def product_cases():
    """Yield every shape with every pair of layouts in float, and the other accumulators with one pair each."""
    for shape in SHAPES:
        for a, b in itertools.product(LAYOUTS, LAYOUTS):
            yield shape, a, b, "float", "float"
        for (c, d), (a, b) in zip(
            ACCUMULATORS[1:], itertools.product(LAYOUTS, LAYOUTS), strict=False
        ):
            yield shape, a, b, c, d


CASES = list(product_cases())


def tag(shape, a, b, c, d):
    return "_".join([*map(str, shape), a[:3], b[:3], c, d])


@pytest.fixture(scope="module")
def module():
    source = "#include <mma.h>\nusing namespace nvcuda;\n"
    for shape, a, b, c, d in CASES:
        m, n, k = shape
        source += PRODUCT.format(
            tag=tag(shape, a, b, c, d), m=m, n=n, k=k, a_layout=a, b_layout=b, c_type=c, d_type=d
        )
    return SourceModule(source, no_extern_c=True)


def in_memory(matrix, layout, padding):
    """Return the matrix as it lies in memory, with `padding` NaN elements after each row or column, and the stride."""
    lines = matrix if layout in ("row_major", 0) else matrix.T
    padded = np.full((lines.shape[0], lines.shape[1] + padding), np.nan, matrix.dtype)
    padded[:, : lines.shape[1]] = lines
    return padded, padded.shape[1]


def bound(a, b, c, half_result):
    a, b, c = (abs(x.astype(np.float64)) for x in (a, b, c))
    size = a @ b + c
    return 20 * np.finfo(np.float32).eps * size + (2.0**-11 * size + 2.0**-25 if half_result else 0)


@pytest.mark.parametrize("case", CASES, ids=[tag(*case) for case in CASES])
def test_product(module, case):
    (m, n, k), a_layout, b_layout, c_type, d_type = case
    a, b = RNG.normal(size=(m, k)).astype(np.float16), RNG.normal(size=(k, n)).astype(np.float16)
    c = RNG.normal(size=(m, n)).astype(DTYPE[c_type])
    want = a.astype(np.float64) @ b.astype(np.float64) + c
    a_memory, lda = in_memory(a, a_layout, 8)
    b_memory, ldb = in_memory(b, b_layout, 16)
    for c_layout, d_layout in itertools.product((0, 1), (0, 1)):
        c_memory, ldc = in_memory(c, c_layout, 8)
        d_memory, ldd = in_memory(np.full((m, n), np.nan, DTYPE[d_type]), d_layout, 8)
        module.get_function("mma_" + tag(*case))(
            cuda.In(a_memory),
            cuda.In(b_memory),
            cuda.In(c_memory),
            cuda.InOut(d_memory),
            *map(np.int32, (lda, ldb, ldc, c_layout, ldd, d_layout)),
            block=(32, 1, 1),
            grid=(1, 1),
        )
        lines = d_memory[:, :-8]
        got = lines if d_layout == 0 else lines.T
        assert (abs(got - want) <= bound(a, b, c, d_type == "half")).all()
        assert np.isnan(d_memory[:, -8:]).all()  # the padding was left alone


def test_tiled_product_with_fragment_arrays_and_functions():
    """A 48x32 = 48x64 @ 64x32 product: two warps a block, arrays of fragments, shared memory, a device function."""
    module = SourceModule(
        r"""
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

typedef wmma::fragment<wmma::accumulator, 16, 16, 16, float> Sum;
typedef wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> Left;
typedef wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> Right;

__device__ void accumulate(Sum (&sums)[3], const Left (&left)[3], const Right &right)
{
#pragma unroll
    for (int i = 0; i < 3; i++) wmma::mma_sync(sums[i], left[i], right, sums[i]);
}

extern "C" __global__ void gemm(const __half *a, const __half *b, float *c, float scale)
{
    __shared__ __align__(32) __half tile[16][32 + 8];
    int warp = threadIdx.x / 32;
    Sum sums[3];
    for (int i = 0; i < 3; i++) wmma::fill_fragment(sums[i], 0.0f);
    for (int p = 0; p < 64; p += 16) {
        for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) tile[i / 32][i % 32] = b[(p + i / 32) * 32 + i % 32];
        __syncthreads();
        Left left[3];
        Right right;
        for (int i = 0; i < 3; i++) wmma::load_matrix_sync(left[i], a + i * 16 * 64 + p, 64);
        wmma::load_matrix_sync(right, &tile[0][warp * 16], 40);
        accumulate(sums, left, right);
        __syncthreads();
    }
    for (int i = 0; i < 3; i++) {
        for (int e = 0; e < sums[i].num_elements; e++) sums[i].x[e] = scale * sums[i].x[e] + 1.0f;
        wmma::store_matrix_sync(c + i * 16 * 32 + warp * 16, sums[i], 32, wmma::mem_row_major);
    }
}
""",
        no_extern_c=True,
    )
    a, b = (
        RNG.normal(size=(48, 64)).astype(np.float16),
        RNG.normal(size=(64, 32)).astype(np.float16),
    )
    c = np.full((48, 32), np.nan, np.float32)
    gemm = module.get_function("gemm")
    gemm(cuda.In(a), cuda.In(b), cuda.Out(c), np.float32(0.5), block=(64, 1, 1), grid=(1, 1))
    want = 0.5 * (a.astype(np.float64) @ b.astype(np.float64)) + 1
    assert (abs(c - want) <= 4 * bound(a, b, np.ones_like(c), False)).all()


def test_half_sums_are_rounded_once(module):
    a, b, c = np.zeros((3, 16, 16), np.float16)
    # sixteen terms of 1/16 next to 2048, whose neighbours are 2 away, but in float add up
    a[0], b[:, 0] = (1, 1 / 16)
    c[0, 0] = 2048
    b[0, 0] += 1
    a[1, 0], b[0, 1] = 60000, 2  # overflow, both ways
    a[2, 0] = -60000
    a[3, 0], b[0, 2] = np.inf, 0  # NaN
    d = np.empty((16, 16), np.float16)
    product = module.get_function(
        "mma_" + tag((16, 16, 16), "row_major", "row_major", "half", "half")
    )
    strides = map(np.int32, (16, 16, 16, 0, 16, 0))
    product(*map(cuda.In, (a, b, c)), cuda.Out(d), *strides, block=(32, 1, 1), grid=(1, 1))
    assert d[0, 0] == 2050
    assert d[1, 1] == np.inf and d[2, 1] == -np.inf and np.isnan(d[3, 2])


def test_warp_runs_in_step_at_loads_and_stores():
    """One warp, no barriers: a load sees what all lanes wrote before it, and later writes do not disturb it."""
    module = SourceModule(
        r"""
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void transpose_sum(const half *x, float *y)
{
    __shared__ __align__(32) half tile[16 * 16];
    __shared__ __align__(32) float out[16 * 16];
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = x[i];
    wmma::load_matrix_sync(fa, tile, 16);
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = i % 17 == 0 ? 2.0f : 0.0f;   // twice the identity
    wmma::load_matrix_sync(fb, tile, 16);
    for (int i = threadIdx.x; i < 256; i += 32) tile[i] = 0.0f;
    wmma::mma_sync(fc, fa, fb, fc);
    wmma::store_matrix_sync(out, fc, 16, wmma::mem_col_major);
    for (int i = threadIdx.x; i < 256; i += 32) y[i] = out[255 - i];
}
""",
        no_extern_c=True,
    )
    x, y = RNG.normal(size=(16, 16)).astype(np.float16), np.empty((16, 16), np.float32)
    module.get_function("transpose_sum")(cuda.In(x), cuda.Out(y), block=(32, 1, 1), grid=(1, 1))
    assert (y == 2 * x.astype(np.float32).T.ravel()[::-1].reshape(16, 16)).all()


@pytest.mark.usefixtures("cpu_engine")
def test_a_warp_that_is_not_whole_is_refused():
    source = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void load(const half *x)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    if (threadIdx.x == 20) return;
    wmma::load_matrix_sync(a, x, 16);
}
"""
    load = SourceModule(source, no_extern_c=True).get_function("load")
    x = np.zeros((16, 16), np.float16)
    for threads, taking_part in ((16, 16), (32, 31)):
        message = rf"load_matrix_sync at .*:8 needs the 32 .* but {taking_part} take"
        load(cuda.In(x), block=(threads, 1, 1), grid=(1, 1))
        with pytest.raises(cuda.LaunchError, match=message):
            cuda.Context.synchronize()


@pytest.mark.usefixtures("cpu_engine")  # a GPU says nothing of them
def test_strides_that_cuda_forbids_are_refused():
    module = SourceModule(
        """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void halves(const half *x, int stride)
{
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> a;
    wmma::load_matrix_sync(a, x, stride);
}
extern "C" __global__ void floats(float *y, int stride)
{
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> sum;
    wmma::fill_fragment(sum, 0.0f);
    wmma::store_matrix_sync(y, sum, stride, wmma::mem_row_major);
}
""",
        no_extern_c=True,
    )
    message = r"_sync at .*: the stride is {} elements, .* multiple of {} for"
    for name, dtype, legal, multiple in (
        ("halves", np.float16, (16, 24), 8),
        ("floats", np.float32, (16, 20), 4),
    ):
        memory = cuda.to_device(np.zeros((16, 32), dtype))
        for stride in (*legal, legal[0] + multiple // 2):
            module.get_function(name)(memory, np.int32(stride), block=(32, 1, 1), grid=(1, 1))
            if stride in legal:
                cuda.Context.synchronize()
                continue
            with pytest.raises(cuda.LaunchError, match=message.format(stride, multiple)):
                cuda.Context.synchronize()


def test_other_element_types():
    module = SourceModule(kernel_source("wmma_types"), no_extern_c=True)

    def run(name, a, b, c, *more):
        outputs = map(cuda.Out, (c, *more))
        module.get_function(name)(cuda.In(a), cuda.In(b), *outputs, block=(32, 1, 1), grid=(1, 1))
        return c

    a, b = RNG.integers(-128, 128, (2, 16, 16)).astype(np.int8)
    c, limit = np.empty((2, 16, 16), np.int32)
    product = a.astype(int) @ b.T.astype(int)
    assert (run("bytes", a, b, c, limit) == product + 5).all()
    assert (limit == np.minimum(product + (2**31 - 1), 2**31 - 1)).all()

    # integers up to 128 times 2^-4 fit bfloat16 and tf32 exactly, so that the sums are exact too
    x, y = (RNG.integers(-128, 128, (2, 16, 16)) / 16).astype(np.float32)
    assert (run("bf16", x, y, np.empty((16, 16), np.float32)) == x @ y).all()
    x, y = np.ascontiguousarray(x[:, :8]), np.ascontiguousarray(y[:8])
    assert (run("tf32", x, y, np.empty((16, 16), np.float32)) == x @ y).all()
    fine = x * np.float32(1 + 2.0**-12)  # more bits than tf32 keeps
    assert (run("tf32", fine, y, np.empty((16, 16), np.float32)) == x @ y).all()

    p, q = RNG.normal(size=(8, 4)), RNG.normal(size=(8, 4))
    np.testing.assert_allclose(run("f64", p, q, np.empty((8, 8))), p @ q.T, rtol=1e-14, atol=1e-14)
