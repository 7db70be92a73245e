"""Launches for the practice pages' exercises, with their inputs and expected results."""

import numpy as np

from labkit.exercises import SOURCE, Case, Goal, counted
from labkit.exercises.subjects import Kernels, Output, launch


def transpose(random: np.random.Generator, rows: int, columns: int):
    """Launch a block of 32 x 32 threads for every 32 x 32 elements of `in`."""
    matrix = random.permutation(rows * columns).astype(np.float32).reshape(rows, columns)
    out = Output("out", np.ascontiguousarray(matrix.T))
    return launch("transpose", matrix, out, rows, columns, grid=(-(-columns // 32), -(-rows // 32)), block=(32, 32))


TRANSPOSE = Kernels(transpose, (
    Case("a matrix of 33 x 70", (33, 70)),
    Case("a matrix of 5 x 40", (5, 40)),
    Case("a matrix of 70 x 33", (70, 33)),
    Case("a matrix of 64 x 96", (64, 96), counted=True),
), hidden=(range(1, 100), range(1, 100)))


def histogram(random: np.random.Generator, n: int, blocks: int, threads: int):
    """Launch on pixels of which many are dark, as in most images, and on bins that are zero."""
    pixels = random.exponential(30, n).clip(0, 255).astype(np.uint8)
    bins = np.bincount(pixels, minlength=256).astype(np.uint32)
    return launch("histogram", pixels, n, Output("bins", bins, before=0), grid=blocks, block=threads)


def total(random: np.random.Generator, n: int, blocks: int, threads: int):
    """Launch on whole numbers, so that their sum is exact in any order, and on a total that is zero."""
    x = random.integers(-9, 10, n).astype(np.float32)
    return launch("sum", x, n, Output("total", x.sum(keepdims=True), before=0), grid=blocks, block=threads)


def scan(random: np.random.Generator, rows: int, columns: int):
    """Launch a block per row, with a thread per number, rounded up to whole warps."""
    x = random.integers(-9, 10, (rows, columns)).astype(np.int32)
    y = Output("y", x.cumsum(axis=1, dtype=np.int32))
    return launch("scan", x, y, columns, grid=rows, block=32 * -(-columns // 32))


SCAN = Kernels(scan, (
    Case("3 rows of 100", (3, 100)),
    Case("2 rows of 7", (2, 7)),
    Case("5 rows of 1", (5, 1)),
    Case("2 rows of 225", (2, 225)),
    Case("4 rows of 256", (4, 256), counted=True),
), hidden=(range(1, 6), range(1, 257)))


def softmax(random: np.random.Generator, rows: int, columns: int, highest: int):
    """Launch a warp per row, four rows per block. The numbers go up to `highest`."""
    x = (highest - random.exponential(3, (rows, columns))).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True)
    y = Output("y", exact.astype(np.float32), allowed=1e-5 * exact + 1e-12)
    return launch("softmax", x, y, rows, columns, grid=-(-rows // 4), block=(32, 4))


def ranks(random: np.random.Generator, n: int, threads: int):
    """Launch a thread per number, in blocks of `threads`. Numbers occur several times."""
    x = random.integers(0, 2 * n, n).astype(np.float32)
    rank = Output("rank", (x < x[:, None]).sum(1, dtype=np.int32))
    return launch("ranks", x, n, rank, grid=-(-n // threads), block=threads)


RANKS = Kernels(ranks, (
    Case("200 numbers, blocks of 64", (200, 64)),
    Case("33 numbers, a block of 128", (33, 128)),
    Case("512 numbers", (512, 128), counted=True),  # 16 warps and 4 tiles
), hidden=(range(1, 600), [32, 64, 128]))


def make_ranks_goals(barriers: int, overlap: bool = False) -> tuple[Goal, ...]:
    """Return the goals of a kernel of ranks with asynchronous copies and so many barriers per warp.

    With `overlap`, the copies of all tiles but the first are under way while the block compares with another tile.
    """
    on = "512 numbers"
    return (
        Goal("calls of __pipeline_memcpy_async", lambda counts: counts[SOURCE]["async_copies"], at_least=1),
        counted("global_load_requests", on, what="load requests", at_most=16 * 5, least={"unique_bytes": 2 * 4 * 512}),
        counted("barriers", on, per=16, what="barriers per warp", at_most=barriers, weight=3,
                least={"shared_load_instructions": 16 * 512 / 4, "barriers": 16 * 4}),
        *overlap * (counted("overlapped_bytes", on, per=4, at_least=3 * 4 * 128, weight=3,
                            what="bytes per block that are copied while it compares"),),
    )


def make_uneven_rows(with_counter: bool) -> Kernels:
    """Return a subject: sums of rows, most of them short and few long; `with_counter` adds a counter that is 0."""
    def launches(random: np.random.Generator, rows: int, blocks: int, threads: int):
        lengths = random.permutation((600 * np.linspace(0, 1, rows) ** 6).astype(np.int32))  # the longest: 600
        starts = np.append(0, lengths.cumsum()).astype(np.int32)
        x = random.integers(-9, 10, starts[-1]).astype(np.int32)
        total = np.diff(np.append(0, x.cumsum())[starts]).astype(np.int32)
        arguments = x, starts, rows, Output("total", total, before=0), np.zeros(1, np.int32)
        return launch("sums", *(arguments if with_counter else arguments[:-1]), grid=blocks, block=threads)

    return Kernels(launches, (
        Case("7 rows, 3 blocks", (7, 3, 64)),
        Case("3 rows, 5 blocks", (3, 5, 128)),
        Case("48 rows", (48, 4, 64), counted=True),
    ), hidden=(range(2, 60), range(1, 9), [32, 64, 128]))


def make_row_goals(taken: int = 0) -> tuple[Goal, ...]:
    """Return the goals for the 48 rows of `make_uneven_rows`; `taken` rows are taken by atomics that count as loads."""
    on, least = "48 rows", {"unique_bytes": 4 * 4315}  # the numbers of all rows
    return (
        counted("global_load_requests", on, what="load requests", at_most=360 + taken, least=least),
        counted("reduction_requests", on, what="atomic requests", at_most=2 * 48 + taken),
    )


def products(random: np.random.Generator, count: int, K: int, rows: bool):
    """Launch a warp per product of small whole numbers; the second matrix row by row, or else column by column."""
    a, b = (random.integers(-4, 5, shape).astype(np.float16) for shape in ((count, 16, K), (count, K, 8)))
    c = Output("c", a.astype(np.float32) @ b.astype(np.float32))
    return launch("multiply", a, b if rows else np.ascontiguousarray(b.transpose(0, 2, 1)), c, K, grid=count, block=32)


def make_product_goals(on: str, loads: int, moved: int) -> tuple[Goal, ...]:
    """Return the goals of `products`: so many load requests, and as few stores as a case of `moved` bytes needs."""
    stores = 2 * int(on.partition(" ")[0])
    return (
        counted("global_load_requests", on, what="load requests", at_most=loads, least={"unique_bytes": moved}),
        counted("global_store_requests", on, what="store requests", at_most=stores, least={"unique_bytes": moved}),
    )
