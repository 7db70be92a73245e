"""Kernels as textbooks, samples and lectures have them, written for this test (``corpus/*.cu``), against NumPy.

They run on either engine. A case is a function with the kernel's name: it returns the arguments, in
which `Out` stands for a buffer with what has to be in it after the launch.
"""

import functools
import zlib
from dataclasses import dataclass
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule

pytestmark = pytest.mark.core("kernels as others write them")

CORPUS = Path(__file__).parent / "corpus"


@dataclass
class Out:
    """A buffer: its content before the launch (zeros, if it is not given) and after it, with the tolerances."""

    expected: Any
    start: Any = None
    rtol: float = 2e-6
    atol: float = 1e-6

    def __post_init__(self):
        self.expected = np.asarray(self.expected)
        start = np.zeros_like(self.expected) if self.start is None else self.start
        self.array = np.array(start, self.expected.dtype, order="C").reshape(self.expected.shape)

    def check(self):
        if self.array.dtype.kind == "f" and self.rtol:
            np.testing.assert_allclose(self.array, self.expected, rtol=self.rtol, atol=self.atol)
        else:
            np.testing.assert_array_equal(self.array, self.expected)


CASES = []


def case(file, block, grid=1, shared=0, kernel="", **constants):
    """Register a case, of a `kernel` with another name than the function; `constants` fill __constant__ arrays."""

    def add(arguments):
        name = kernel or arguments.__name__
        CASES.append(
            (name, f"{file}.cu", _three(block), _three(grid), shared, arguments, constants)
        )
        return arguments

    return add


def _three(sizes):
    sizes = sizes if isinstance(sizes, tuple) else (sizes,)
    return (*sizes, 1, 1)[:3]


@functools.cache
def module(file):
    return SourceModule(f'#line 1 "{file}"\n{(CORPUS / file).read_text()}', no_extern_c=True)


def _argument(value):
    if isinstance(value, Out):
        return cuda.InOut(value.array)
    if isinstance(value, np.ndarray):
        return cuda.In(np.ascontiguousarray(value))
    return {int: np.int32, float: np.float32}.get(type(value), lambda same: same)(value)


def run(name, file, block, grid, shared, arguments, constants):
    values = arguments(np.random.default_rng(zlib.crc32(name.encode())))
    for symbol, content in constants.items():
        cuda.memcpy_htod(module(file).get_global(symbol)[0], content)
    module(file).get_function(name)(*map(_argument, values), block=block, grid=grid, shared=shared)
    return [value for value in values if isinstance(value, Out)]


def uniform(rng, *shape):
    return rng.random(shape, np.float32)


def normal(rng, *shape):
    return rng.normal(size=shape).astype(np.float32)


# --------------------------------------------------------------------------------------------------
# One thread per element


@case("elementwise", 256, 5)
@case("elementwise", 64, 4, kernel="add_float4")
def vector_add(rng):
    a, b = uniform(rng, 2, 999)
    return a, b, Out(a + b), 999


@case("elementwise", 128, 3)
def saxpy(rng):
    x, y = uniform(rng, 2, 1000)
    return 1000, 2.5, x, Out(2.5 * x + y, y)


@case("elementwise", (16, 8), (3, 4))
def matrix_add(rng):
    a, b = uniform(rng, 2, 30, 41)
    return a, b, Out(a + b), 30, 41


@case("elementwise", 128, 4)
def rgb_to_gray(rng):
    rgb = rng.integers(0, 256, (500, 3), np.uint8)
    return rgb, Out((rgb @ np.array([77, 150, 29]) >> 8).astype(np.uint8)), 500


@case("elementwise", (8, 8), (5, 4))
def box_blur(rng):
    x = uniform(rng, 29, 37)
    padded, ones = np.pad(x, 2), np.pad(np.ones_like(x), 2)
    windows = [
        p[i : i + 29, j : j + 37] for p in (padded, ones) for i in range(5) for j in range(5)
    ]
    return x, Out(sum(windows[:25]) / sum(windows[25:])), 37, 29, 2


@case("elementwise", (16, 16), (3, 2))
def sobel(rng):
    x = uniform(rng, 30, 40)
    smooth, step = np.array([1, 2, 1]), np.array([-1, 0, 1])
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3))
    gx, gy = (np.einsum("ijkl,k,l", windows, *pair) for pair in ((smooth, step), (step, smooth)))
    return x, Out(np.pad(np.sqrt(gx**2 + gy**2), 1).astype(np.float32)), 40, 30


@case("elementwise", (16, 16), (4, 3))
def mandelbrot(rng):
    pixel = np.float32(0.05)
    c = (
        -2
        + np.arange(60) * float(pixel)
        + 1j * (float(np.float32(1.2)) - np.arange(48) * float(pixel))[:, None]
    )
    z, steps = np.zeros_like(c), np.zeros(c.shape, np.int32)
    for _ in range(50):
        inside = z.real * z.real + z.imag * z.imag <= 4
        steps += inside
        real = z.real * z.real - z.imag * z.imag + c.real
        z = np.where(inside, real + 1j * (2 * z.real * z.imag + c.imag), z)
    return Out(steps), 60, 48, -2.0, 1.2, pixel, 50


@case("elementwise", (16, 16), (2, 2))
def game_of_life(rng):
    now = rng.integers(0, 2, (20, 30)).astype(np.uint8)
    shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    alive = sum(np.roll(now, shift, (0, 1)) for shift in shifts)
    return now, Out(((alive == 3) | ((alive == 2) & (now == 1))).astype(np.uint8)), 30, 20


@case("elementwise", 256, 2)
def activations(rng):
    x = normal(rng, 400)
    gelu = 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))
    return x, Out(np.maximum(x, 0)), Out(gelu), Out(x / (1 + np.exp(-x))), 400


@case("elementwise", 64, 2)
def xor_cipher(rng):
    text = np.frombuffer(b"attack at dawn, and bring the float4 loads with you " * 2, np.uint8)
    key = np.array([0x12345678], np.uint32)
    return text, Out(text ^ np.resize(key.view(np.uint8), text.size)), text.size, key[0]


@case("elementwise", 32, 2)
def crc32(rng):
    data = rng.integers(0, 256, (40, 25), np.uint8)
    return data, 25, Out(np.array([zlib.crc32(row.tobytes()) for row in data], np.uint32)), 40


# --------------------------------------------------------------------------------------------------
# Reductions


@case("reduction", 256, 12, shared=1024, kernel="reduce0_interleaved_divergent")
@case("reduction", 256, 12, shared=1024, kernel="reduce1_interleaved_strided")
@case("reduction", 256, 12, shared=1024, kernel="reduce2_sequential")
def partial_sums(rng, each=256):
    x = uniform(rng, 3000)
    padded = np.pad(x, (0, -3000 % each))
    return x, Out(padded.reshape(-1, each).sum(1), rtol=1e-5), 3000


@case("reduction", 256, 6, shared=1024, kernel="reduce3_first_add_during_load")
@case("reduction", 256, 6, shared=1024, kernel="reduce4_last_warp")
@case("reduction", 256, 6, kernel="reduce5_unrolled")
def partial_sums_of_two_per_thread(rng):
    return partial_sums(rng, 512)


@case("reduction", 128, 4)
def reduce6_shuffles(rng):
    x = uniform(rng, 3000)
    padded = np.pad(x, (0, 72)).reshape(-1, 4, 128)
    return x, Out(padded.sum((0, 2)), rtol=1e-5), 3000


@case("reduction", 96, 5)
def reduce_groups(rng):
    x = uniform(rng, 3000)
    return x, Out(x.sum(keepdims=True), rtol=1e-5), 3000


@case("reduction", 128, 7)
def reduce_last_block(rng):
    x = uniform(rng, 3000)
    padded = np.pad(x, (0, 7 * 128 * 4 - 3000)).reshape(-1, 7, 128)
    return x, Out(padded.sum((0, 2)), rtol=1e-5), Out(x.sum(keepdims=True), rtol=1e-5), 3000


@case("reduction", 256, 4)
def dot_product(rng):
    a, b = uniform(rng, 2, 3000)
    return a, b, Out(np.pad(a * b, (0, 72)).reshape(-1, 4, 256).sum((0, 2)), rtol=1e-5), 3000


@case("reduction", 256)
def argmax(rng):
    x = rng.integers(0, 500, 3000).astype(np.float32)  # with ties
    return x, Out(np.array([x.argmax()], np.int32)), Out(x.max(keepdims=True)), 3000


@case("reduction", 32)
def mean_and_variance(rng):
    x = normal(rng, 999) + np.float32(5)
    return x, Out(np.array([x.mean(), x.var()]), rtol=1e-5), 999


@case("reduction", 96)
def votes(rng):
    x = rng.integers(-9, 99, 96).astype(np.int32)
    return x, Out(np.array([(x > 0).all(), (x > 0).any(), (x > 0).sum()], np.int32))


# --------------------------------------------------------------------------------------------------
# Scans


@case("scan", 128, shared=1024, kernel="scan_blelloch")
@case("scan", 128, shared=1056, kernel="scan_blelloch_without_bank_conflicts")
def exclusive(rng, n=256):
    x = rng.integers(0, 100, n).astype(np.int32)
    return x, Out((x.cumsum() - x).astype(np.int32)), n


@case("scan", 200, shared=1600)
def scan_hillis_steele(rng):
    return exclusive(rng, 200)


@case("scan", 256)
def scan_shuffles(rng):
    x = rng.integers(-100, 100, 256).astype(np.int32)
    return x, Out(x.cumsum(dtype=np.int32))


@case("scan", 256, 8)
def scan_chained(rng):
    x = rng.integers(0, 100, 2000).astype(np.int32)
    sums = np.pad(x, (0, 48)).reshape(8, 256).sum(1).cumsum(dtype=np.int32)
    return x, Out(x.cumsum(dtype=np.int32)), Out(sums, np.full(8, -1)), 2000


@case("scan", 64)
def scan_segmented(rng):
    x, head = rng.integers(0, 9, 64).astype(np.int32), (rng.random(64) < 0.2).astype(np.int32)
    expected = x.copy()
    for i in range(64):
        expected[i] += 0 if head[i] or i % 32 == 0 else expected[i - 1]
    return x, head, Out(expected)


@case("scan", 64)
def scan_groups(rng):
    x = rng.integers(-9, 9, (4, 16)).astype(np.int32)
    sums = x.cumsum(1, dtype=np.int32)
    return x, Out(sums), Out(sums - x)


@case("scan", 128)
def compact(rng):
    x = rng.integers(-9, 9, 1000).astype(np.int32)
    kept = x[x > 0]
    return x, Out(np.pad(kept, (0, 1000 - kept.size))), Out(np.array([kept.size], np.int32)), 1000


@case("scan", 64, 5)
def run_lengths(rng):
    x = np.repeat(rng.integers(0, 9, 300), rng.integers(1, 5, 300)).astype(np.int32)
    start = np.flatnonzero(np.r_[True, x[1:] != x[:-1]]).astype(np.int32)
    runs = start.size
    assert runs <= 300
    length = np.diff(np.r_[start, x.size]).astype(np.int32)
    return x, start, Out(x[start]), Out(length), runs, x.size


# --------------------------------------------------------------------------------------------------
# Transposes


@case("transpose", (32, 8), (3, 2))
def copy(rng):
    x = uniform(rng, 50, 70)
    return Out(x), x, 70, 50


@case("transpose", (32, 8), (3, 2), kernel="transpose_naive")
@case("transpose", (32, 8), (3, 2), kernel="transpose_coalesced")
@case("transpose", (32, 8), (3, 2), kernel="transpose_padded")
@case("transpose", (32, 8), (3, 2), kernel="transpose_swizzled")
def transposed(rng):
    x = uniform(rng, 50, 70)
    return Out(x.T), x, 70, 50


@case("transpose", 32)
def transpose_shuffles(rng):
    x = uniform(rng, 32, 32)
    return Out(x.T), x


# --------------------------------------------------------------------------------------------------
# Products of matrices


@case("matmul", (16, 16), (3, 4), kernel="matmul_naive")
@case("matmul", 256, (4, 3), kernel="matmul_coalesced")
@case("matmul", (16, 16), (4, 3), kernel="matmul_tiled")
@case("matmul", 256, (2, 2), kernel="matmul_registers_1d")
@case("matmul", 64, (2, 2), kernel="matmul_registers_2d")
def product(rng, m=45, n=61, k=37, dtype=np.float32):
    a, b = uniform(rng, m, k).astype(dtype), uniform(rng, k, n).astype(dtype)
    return a, b, Out(a.astype(np.float32) @ b.astype(np.float32), rtol=1e-5), m, n, k


@case("matmul", 256, (4, 3))
def matmul_cp_async(rng):
    return product(rng, 48, 64, 80)


@case("matmul", 32, (2, 3))
def matmul_wmma(rng):
    return product(rng, 48, 32, 64, np.float16)


@case("matmul", 32, (3, 2))
def matmul_mma(rng):
    return product(rng, 32, 24, 48, np.float16)


@case("matmul", 128, 5)
def gemv(rng):
    a, x = uniform(rng, 19, 100), uniform(rng, 100)
    return a, x, Out(a @ x, rtol=1e-5), 19, 100


@case("matmul", 64, 3)
def outer_product(rng):
    x, y, a = rng.random(7), rng.random(90), rng.random((7, 90))
    return x, y, Out(a + np.outer(x, y), a, rtol=1e-14), 7, 90


# --------------------------------------------------------------------------------------------------
# Stencils

WEIGHTS, MASK = (
    np.linspace(-1, 2, 7, dtype=np.float32),
    np.arange(25, dtype=np.float32).reshape(5, 5) / 25,
)


@case("stencil", 256, 4)
def stencil_1d(rng):
    x = rng.integers(0, 99, 1000).astype(np.int32)
    return x, Out(np.convolve(x, np.ones(7, np.int32), "same")), 1000


@case("stencil", 256, 4, weights=WEIGHTS)
def convolution_1d(rng):
    x = uniform(rng, 1000)
    return x, Out(np.convolve(x, WEIGHTS[::-1], "same"), rtol=1e-5), 1000


@case("stencil", (16, 16), (4, 3), mask2d=MASK)
def convolution_2d(rng):
    x = uniform(rng, 33, 41)
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(x, 2), (5, 5))
    return x, Out(np.einsum("ijkl,kl->ij", windows, MASK), rtol=1e-5), 33, 41


@case("stencil", 64, 9, shared=4 * 76, weights=WEIGHTS)
def convolution_rows(rng):
    x = uniform(rng, 9, 70)
    return (
        x,
        Out(np.array([np.convolve(row, WEIGHTS[::-1], "same") for row in x]), rtol=1e-5),
        9,
        70,
    )


@case("stencil", (16, 8), (3, 4))
def heat_step(rng):
    x = uniform(rng, 30, 40)
    p = np.pad(x, 1, "edge")
    around = p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:]
    return x, Out(x + 0.2 * (around - 4 * x)), 40, 30, 0.2


@case("stencil", (8, 8), (2, 2))
def laplace_3d(rng):
    x, y = uniform(rng, 6, 14, 17), np.zeros((6, 14, 17), np.float32)
    inner = x[1:-1, 1:-1, 1:-1]
    y[1:-1, 1:-1, 1:-1] = (
        x[:-2, 1:-1, 1:-1]
        + x[2:, 1:-1, 1:-1]
        + x[1:-1, :-2, 1:-1]
        + x[1:-1, 2:, 1:-1]
        + x[1:-1, 1:-1, :-2]
        + x[1:-1, 1:-1, 2:]
        - 6 * inner
    )
    return x, Out(y, atol=5e-6), 17, 14, 6


@case("stencil", 64)
def jacobi(rng):
    a, b, x = (
        normal(rng, 50, 50) + 50 * np.eye(50, dtype=np.float32),
        normal(rng, 50),
        normal(rng, 50),
    )
    off = a - np.diag(a.diagonal())
    return a, b, x, Out((b - off @ x) / a.diagonal(), rtol=1e-5, atol=1e-5), 50


@case("stencil", (8, 8), (3, 2))
def red_black(rng):
    u, f = uniform(rng, 2, 15, 20)
    after = u.copy()
    for y in range(1, 14):
        for x in range(1, 19):
            if (x + y) % 2 == 1:
                after[y, x] = 0.25 * (
                    u[y, x - 1] + u[y, x + 1] + u[y - 1, x] + u[y + 1, x] - f[y, x]
                )
    return Out(after, u), f, 20, 15, 1


@case("stencil", (16, 16), (2, 2))
def median_3x3(rng):
    x = rng.integers(0, 256, (25, 31), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3)).reshape(23, 29, 9)
    return x, Out(np.pad(np.median(windows, 2).astype(np.uint8), 1)), 31, 25


# --------------------------------------------------------------------------------------------------
# Sorting


@case("sort", 256, shared=1024)
def bitonic_sort(rng):
    x = normal(rng, 256)
    return Out(np.sort(x), x, rtol=0), 256


@case("sort", 32)
def odd_even_sort(rng):
    x = rng.integers(0, 50, 63).astype(np.int32)
    return Out(np.sort(x), x), 63


@case("sort", 64, 4)
def rank_sort(rng):
    x = rng.integers(0, 50, 200).astype(np.int32)
    return x, Out(np.sort(x)), 200


@case("sort", 128, shared=512)
def radix_pass(rng):
    x = rng.integers(0, 1000, 128).astype(np.uint32)
    return x, Out(x[np.argsort(x >> 3 & 1, kind="stable")]), 3, 128


@case("sort", 256)
def counting_sort(rng):
    x = rng.integers(0, 200, 2000, np.uint8)
    return x, Out(np.sort(x)), 2000


@case("sort", 32, 2)
def merge_path(rng):
    a, b = (np.sort(rng.integers(0, 99, n)).astype(np.int32) for n in (300, 211))
    return a, 300, b, 211, Out(np.sort(np.r_[a, b])), 8


@case("sort", 64, 2)
def binary_search(rng):
    x, keys = (
        np.sort(rng.integers(0, 500, 300)).astype(np.int32),
        rng.integers(-5, 505, 100).astype(np.int32),
    )
    return x, 300, keys, Out(np.searchsorted(x, keys).astype(np.int32)), 100


class Partitioned(Out):
    """A result with the elements below the pivot from the left on and the others from the right, in any order."""

    def check(self):
        below = (self.expected < 40).sum()
        assert (np.sort(self.array[:below]) == self.expected[:below]).all()
        assert (np.sort(self.array[below:]) == self.expected[below:]).all()


@case("sort", 64, 8)
def partition(rng):
    x = rng.integers(0, 99, 500).astype(np.int32)
    counts = np.array([(x < 40).sum(), (x >= 40).sum()], np.int32)
    return x, Partitioned(np.sort(x)), Out(counts), 40, 500


# --------------------------------------------------------------------------------------------------
# Sparse matrices, graphs, histograms


def sparse(rng, rows=90, columns=70):
    """Return (dense matrix, where it is not zero, first entry of each row, its columns, its values, x)."""
    dense = normal(rng, rows, columns) * (rng.random((rows, columns)) < 0.1)
    where = np.nonzero(dense)
    first = np.r_[0, (dense != 0).sum(1).cumsum()].astype(np.int32)
    return (
        dense,
        where,
        first,
        where[1].astype(np.int32),
        dense[where].astype(np.float32),
        normal(rng, columns),
    )


@case("sparse", 128, 23, kernel="spmv_csr_vector")
@case("sparse", 32, 3)
def spmv_csr(rng):
    dense, _, first, column, value, x = sparse(rng)
    return first, column, value, x, Out((dense @ x).astype(np.float32), atol=1e-5), 90


@case("sparse", 32, 3)
def spmv_ell(rng):
    dense, (row, _), first, column, value, x = sparse(rng)
    width = np.diff(first).max()
    columns, values = np.full((width, 90), -1, np.int32), np.zeros((width, 90), np.float32)
    place = np.arange(row.size) - first[row]
    columns[place, row], values[place, row] = column, value
    return columns, values, x, Out((dense @ x).astype(np.float32), atol=1e-5), 90, int(width)


@case("sparse", 64, 2)
def spmv_coo(rng):
    dense, (row, _), _, column, value, x = sparse(rng)
    return (
        row.astype(np.int32),
        column,
        value,
        x,
        Out((dense @ x).astype(np.float32), atol=1e-5),
        value.size,
    )


class AnyOrder(Out):
    """A result with the same numbers, in any order."""

    def check(self):
        assert (np.sort(self.array) == np.sort(self.expected)).all()


@case("sparse", 32)
def bfs_level(rng):
    near = rng.random((60, 60)) < 0.05
    first, neighbour = (
        np.r_[0, near.sum(1).cumsum()].astype(np.int32),
        np.nonzero(near)[1].astype(np.int32),
    )
    frontier = np.array([0, 7, 11], np.int32)
    distance = np.full(60, -1, np.int32)
    distance[frontier] = 4
    fresh = np.flatnonzero(near[frontier].any(0) & (distance < 0))
    after = distance.copy()
    after[fresh] = 5
    following = np.zeros(60, np.int32)
    following[: fresh.size] = fresh
    size = Out(np.array([fresh.size], np.int32))
    return first, neighbour, Out(after, distance), frontier, 3, AnyOrder(following), size, 5


@case("sparse", 64, 4)
def relax_edges(rng):
    """All edges start at nodes that have a distance and end at others: one pass gives the least."""
    start, end, length = (
        rng.integers(0, 20, 200),
        rng.integers(20, 40, 200),
        rng.integers(1, 50, 200),
    )
    distance = np.r_[rng.integers(0, 30, 20), np.full(20, 2**31 - 1)].astype(np.int32)
    after = distance.copy()
    np.minimum.at(after, end, distance[start] + length)
    arrays = (array.astype(np.int32) for array in (start, end, length))
    return *arrays, Out(after, distance), Out(np.ones(1, np.int32)), 200


@case("sparse", 32, 2)
def pagerank_step(rng):
    links = rng.random((50, 50)) < 0.1  # [to, from]
    links[0] = True
    first, source = (
        np.r_[0, links.sum(1).cumsum()].astype(np.int32),
        np.nonzero(links)[1].astype(np.int32),
    )
    degree, rank = links.sum(0).astype(np.int32), uniform(rng, 50)
    return (
        first,
        source,
        degree,
        rank,
        Out((0.15 / 50 + 0.85 * links @ (rank / degree)).astype(np.float32)),
        50,
        0.85,
    )


@case("sparse", 64, (1, 40))
def floyd_warshall(rng):
    d = uniform(rng, 40, 40)
    d[7, 7] = 0
    return Out(np.minimum(d, d[:, 7:8] + d[7:8]), d), 40, 7


@case("sparse", 128, 4, kernel="histogram_global")
@case("sparse", 128, 4, kernel="histogram_shared")
def histogram(rng):
    x = rng.integers(0, 256, 5000, np.uint8)
    return x, Out(np.bincount(x, minlength=256).astype(np.uint32)), 5000


KEYS = np.random.default_rng(9).choice(2**31, 600, replace=False).astype(np.uint32) + 1


@case("sparse", 64, 10)
def hash_insert(rng):
    return KEYS, AnyOrder(np.pad(KEYS, (0, 424))), 600


@case("sparse", 64, 10)
def hash_lookup(rng):
    """Look keys up in a table that the host has filled with the first 500 keys."""
    table = np.zeros(1024, np.uint32)
    for key in KEYS[:500]:
        slot = (int(key) * 2654435761 & 0xFFFFFFFF) >> 22
        while table[slot]:
            slot = (slot + 1) % 1024
        table[slot] = key
    return table, KEYS, Out((np.arange(600) < 500).astype(np.int32)), 600


# --------------------------------------------------------------------------------------------------
# Networks


def softmax(x):
    weights = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


@case("networks", 96, 5)
@case("networks", 32, 5, kernel="softmax_online")
def softmax_rows(rng):
    x = 5 * normal(rng, 5, 200)
    return x, Out(softmax(x).astype(np.float32), rtol=1e-5), 200


@case("networks", 64, 4)
def layer_norm(rng):
    x, gain, bias = normal(rng, 4, 100), normal(rng, 100), normal(rng, 100)
    y = (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * gain + bias
    return x, gain, bias, Out(y, rtol=1e-4, atol=1e-5), 100


@case("networks", 32, 4)
def rms_norm(rng):
    x, gain = normal(rng, 4, 100).view(np.uint32) & 0xFFFF0000, normal(rng, 100)
    v = x.view(np.float32)
    y = v / np.sqrt((v**2).mean(1, keepdims=True) + 1e-6) * gain
    return (x >> 16).astype(np.uint16), gain, Out(y, rtol=1e-5), 100


@case("networks", 32, 6)
def attention_row(rng):
    q, k, v = normal(rng, 6, 32), normal(rng, 50, 32), normal(rng, 50, 32)
    scale = np.float32(32**-0.5)
    return (
        q,
        k,
        v,
        Out((softmax(q @ k.T * scale) @ v).astype(np.float32), rtol=1e-4, atol=1e-5),
        50,
        scale,
    )


@case("networks", 32, 2)
def cross_entropy(rng):
    x, label = normal(rng, 40, 10), rng.integers(0, 10, 40).astype(np.int32)
    return (
        x,
        label,
        Out(-np.log(softmax(x)[np.arange(40), label]).astype(np.float32), rtol=1e-5, atol=1e-5),
        10,
        40,
    )


@case("networks", 32, 20)
def embedding(rng):
    token, table = rng.integers(0, 30, 20).astype(np.int32), uniform(rng, 30, 48)
    return token, table, Out(table[token], rtol=0), 12


@case("networks", 16, (1, 5, 3))
def max_pool(rng):
    x = normal(rng, 3, 10, 22)
    return x, Out(x.reshape(3, 5, 2, 11, 2).max((2, 4)), rtol=0), 10, 22


@case("networks", 64, 3)
def im2col(rng):
    x = uniform(rng, 2, 9, 11)
    # [channel, row, column, p, q]
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    return x, Out(windows.transpose(0, 3, 4, 1, 2).reshape(18, 63), rtol=0), 2, 9, 11, 3


@case("networks", 32, 5)
def int8_dot(rng):
    a, b = rng.integers(-128, 128, (2, 5, 160)).astype(np.int8)
    return (
        a.view(np.int32),
        b.view(np.int32),
        Out((a.astype(np.int32) * b).sum(1, dtype=np.int32)),
        40,
    )


@case("networks", 64, 2)
def quantize_fp8(rng):
    """Powers of two and small integers are exact in e4m3: code = exponent and three bits of the mantissa."""
    x = np.r_[np.arange(-16, 17), [448, 1000, -1000, 0.25, 2**-9]].astype(np.float32)
    back = np.clip(x, -448, 448)
    magnitude = abs(back)
    exponent = np.floor(np.log2(np.maximum(magnitude, 2**-6)))
    step = 2 ** (exponent - 3)
    code = np.where(magnitude < 2**-6, magnitude / 2**-9, (exponent + 7) * 8 + magnitude / step - 8)
    return x / 4, Out((code + 128 * (x < 0)).astype(np.uint8)), Out(back / 4), 4.0, x.size


@case("networks", 64, 2)
def half2_axpy(rng):
    x, y = rng.normal(size=(2, 200)).astype(np.float16)
    expected = (np.float64(1.5) * x + y).astype(np.float16)
    return np.full(2, 1.5, np.float16).view(np.uint32)[0], x, Out(expected, y, rtol=0), 100


@case("networks", 128, 4)
def sgd_momentum(rng):
    w, v, g = normal(rng, 3, 500)
    speed = 0.9 * v - 0.01 * g
    return Out(w + speed, w, atol=5e-6), Out(speed, v, atol=5e-6), g, 0.01, 0.9, 500


# --------------------------------------------------------------------------------------------------
# Simulations


@case("simulation", 64, 2, shared=1024)
def nbody_forces(rng):
    body = uniform(rng, 100, 4)
    d = body[None, :, :3] - body[:, None, :3]
    weight = body[:, 3] / ((d**2).sum(2) + 0.01) ** 1.5
    return (
        body,
        Out((d * weight[:, :, None]).sum(1).astype(np.float32), rtol=1e-4, atol=1e-3),
        100,
        0.01,
    )


@case("simulation", 64, 2)
def leapfrog(rng):
    x, v, a = uniform(rng, 100, 4), uniform(rng, 100, 4), uniform(rng, 100, 3)
    speed, place = v.copy(), x.copy()
    speed[:, :3] += np.float32(0.1) * a
    place[:, :3] += np.float32(0.1) * speed[:, :3]
    return Out(place, x), Out(speed, v), a, 0.1, 100


class Near(Out):
    """A random count: it lies within four standard deviations."""

    def check(self):
        assert abs(self.array.astype(np.float64) - self.expected).max() < 4 * self.rtol


@case("simulation", 32, 4)
def monte_carlo_pi(rng):
    state = cuda.mem_alloc(48 * 128)
    module("simulation.cu").get_function("random_setup")(
        state, np.uint64(7), block=(32, 1, 1), grid=(4, 1)
    )
    samples = 128 * 200
    return (
        state,
        Near(np.array([samples * np.pi / 4]).astype(np.uint64), rtol=np.sqrt(samples * 0.169)),
        200,
    )


def philox(key, subsequences):
    """Return the first number of each subsequence: ten rounds of Philox4x32."""
    words, low = [np.zeros_like(subsequences) for _ in range(4)], np.uint64(2**32 - 1)
    words[2] = subsequences
    keys = [key, 0]
    for _ in range(10):
        x, z = words[0] * np.uint64(0xD2511F53), words[2] * np.uint64(0xCD9E8D57)
        shift, one, two = np.uint64(32), *map(np.uint64, keys)
        words = [z >> shift ^ words[1] ^ one, z & low, x >> shift ^ words[3] ^ two, x & low]
        keys = [(keys[0] + 0x9E3779B9) % 2**32, (keys[1] + 0xBB67AE85) % 2**32]
    return words[0]


@case("simulation", 128, 8)
def dropout(rng):
    x, keep = normal(rng, 1000), np.float32(0.8)
    kept = philox(42, np.arange(1000, dtype=np.uint64)) * 2.0**-32 <= keep
    assert 700 < kept.sum() < 900
    return (
        x,
        Out(np.where(kept, x / keep, 0).astype(np.float32)),
        Out(kept.astype(np.uint8)),
        keep,
        1000,
    )


@case("simulation", 64, 2)
def black_scholes(rng):
    price, strike, years = (
        rng.uniform(5, 30, 100),
        rng.uniform(1, 100, 100),
        rng.uniform(0.25, 10, 100),
    )
    price, strike, years = (array.astype(np.float32) for array in (price, strike, years))
    cdf = np.vectorize(lambda d: 0.5 * (1 + erf(d / 2**0.5)))
    d1 = (np.log(price / strike) + (0.02 + 0.5 * 0.3**2) * years) / (0.3 * np.sqrt(years))
    d2, worth = d1 - 0.3 * np.sqrt(years), strike * np.exp(-0.02 * years)
    call, put = price * cdf(d1) - worth * cdf(d2), worth * cdf(-d2) - price * cdf(-d1)
    outs = (Out(array.astype(np.float32), rtol=1e-4, atol=1e-4) for array in (call, put))
    return price, strike, years, *outs, 0.02, 0.3, 100


@case("simulation", 64, 5)
def kmeans_assign(rng):
    points, centres = uniform(rng, 300, 2), uniform(rng, 6, 2)
    nearest = ((points[:, None] - centres) ** 2).sum(2).argmin(1).astype(np.int32)
    sums = [np.bincount(nearest, points[:, i], 6).astype(np.float32) for i in (0, 1)]
    count = np.bincount(nearest, minlength=6).astype(np.int32)
    return (
        points,
        centres,
        Out(nearest),
        *(Out(total, rtol=1e-5) for total in sums),
        Out(count),
        300,
        6,
    )


@case("simulation", 32)
def common_subsequence(rng):
    a, b = rng.integers(97, 101, 60).astype(np.uint8), rng.integers(97, 101, 47).astype(np.uint8)
    table = np.zeros((61, 48), np.int32)
    for i in range(1, 61):
        for j in range(1, 48):
            table[i, j] = (
                table[i - 1, j - 1] + 1
                if a[i - 1] == b[j - 1]
                else max(table[i - 1, j], table[i, j - 1])
            )
    return a, 60, b, 47, Out(table)


@case("simulation", 64, 2)
def knapsack_row(rng):
    before = rng.integers(0, 50, 101).cumsum().astype(np.int32)
    after = before.copy()
    after[13:] = np.maximum(before[13:], before[:-13] + 200)
    return before, Out(after), 13, 200, 100


@case("simulation", 32)
def recursive_filter(rng):
    x, y = normal(rng, 100), np.zeros(100)
    for i in range(100):
        y[i] = x[i] + 0.7 * (y[i - 1] if i else 0)
    return x, Out(y.astype(np.float32), rtol=1e-4, atol=1e-5), 0.7, 100


# --------------------------------------------------------------------------------------------------
# Threads that work together


@case("threads", 64)
def butterfly(rng):
    x = uniform(rng, 2, 32)
    return x, Out(x.sum(1).repeat(32), rtol=1e-5)


@case("threads", 64)
def rotate(rng):
    x = rng.integers(0, 99, 64).astype(np.int32)
    lane = np.arange(64)
    return x, Out(x[lane // 8 * 8 + (lane + 1) % 8])


@case("threads", 96, 6)
def aggregated_atomics(rng):
    x = rng.integers(1, 1000, 500).astype(np.int32)
    kept = x[x % 3 == 0]
    return (
        x,
        AnyOrder(np.pad(kept, (0, 500 - kept.size))),
        Out(np.array([kept.size], np.int32)),
        500,
    )


@case("threads", 64)
def count_equal(rng):
    x = rng.integers(0, 7, 64).astype(np.int32)
    same = [x[i // 32 * 32 : i // 32 * 32 + 32] == x[i] for i in range(64)]
    leader = [votes.argmax() == i % 32 for i, votes in enumerate(same)]
    return x, Out(np.sum(same, 1).astype(np.int32)), Out(np.array(leader, np.int32))


@case("threads", 32)
def odd_and_even(rng):
    x = rng.integers(0, 99, 32).astype(np.int32)
    return x, Out(np.array([x[x % 2 == 0].sum(), x[x % 2 == 1].sum()], np.int32))


@case("threads", 96, 10)
def spin_lock(rng):
    cuda.memset_d32(module("threads.cu").get_global("shared_counter")[0], 0, 1)
    return (Out(np.array([30], np.int32)),)


@case("threads", 1)
def sum_of_stack(rng):
    nodes, top = cuda.mem_alloc(16 * 300), cuda.to_device(np.zeros(1, np.uint64))
    module("threads.cu").get_function("push_nodes")(
        nodes, top, np.int32(300), block=(64, 1, 1), grid=(5, 1)
    )
    return nodes, top, Out(np.array([300 * 299 // 2, 300], np.int64))


@case("threads", 32, 4)
def heap_memory(rng):
    return Out(np.arange(4, dtype=np.int32) * (50 * 49 // 2)), 50


@case("threads", 64)
def staged_sum(rng):
    x = uniform(rng, 9, 64)
    return x, Out(sum(np.roll(row, -t) for t, row in enumerate(x)), rtol=1e-5), 9


@case("threads", 128)
def arrive_and_wait(rng):
    x = rng.integers(0, 99, 128).astype(np.int32)
    return x, Out(2 * x + x[::-1])


@case("threads", 64, 8)
def atomic_objects(rng):
    x = rng.integers(-1000, 1000, 500).astype(np.int32)
    return x, Out(np.array([min(x.min(), 0)])), Out(np.array([max(x.max(), 0)])), 500


# --------------------------------------------------------------------------------------------------


def test_the_corpus_is_as_large_as_it_claims():
    names = [name for name, *_ in CASES]
    assert len(names) >= 60 and len(set(names)) == len(names)
    kernels = sum(path.read_text().count("__global__ void") for path in CORPUS.glob("*.cu"))
    assert kernels == len(names) + 2  # two only prepare for another one
    assert {file for _, file, *_ in CASES} == {path.name for path in CORPUS.glob("*.cu")}


@pytest.mark.parametrize("kernel", CASES, ids=[f"{file[:-3]}-{name}" for name, file, *_ in CASES])
def test_kernel(kernel):
    for out in run(*kernel):
        out.check()


def test_a_wrong_result_fails():
    wrong = Out(np.arange(4.0))
    with pytest.raises(AssertionError):
        wrong.check()
