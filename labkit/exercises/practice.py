"""Launches for the practice pages' exercises, with their inputs and expected results."""

import re
from collections.abc import Iterator
from functools import partial

import numpy as np

from labkit.exercises import Attempt, Case, Goal, Mistake, counted
from labkit.exercises.arithmetic import describe_shares
from labkit.exercises.subjects import (
    ArrayLaunch,
    Kernels,
    Output,
    draw_floats,
    draw_summands,
    launch,
)
from labkit.exercises.wrong_results import (
    list_wrong_histograms,
    list_wrong_products,
    list_wrong_ranks,
    list_wrong_row_sums,
    list_wrong_scans,
    list_wrong_softmaxes,
    list_wrong_totals,
)

_INT_MAX = 2**31 - 1
_EXACT = 2**24  # up to it, float32 holds every integer


def transpose(random: np.random.Generator, rows: int, columns: int) -> ArrayLaunch:
    """Return the launch of a transpose of `in` [rows,columns]: a block of 32 x 32 threads for 32 x 32 elements.

    It has the random inputs, drawn from `random`, and in its `Output` the expected result.
    """
    matrix = draw_floats(random, (rows, columns))
    out = Output("out", np.ascontiguousarray(matrix.T))
    return launch(
        "transpose",
        matrix,
        out,
        rows,
        columns,
        grid=(-(-columns // 32), -(-rows // 32)),
        block=(32, 32),
    )


TRANSPOSE = Kernels(
    transpose,
    (
        Case("a matrix of 33 x 70", (33, 70)),
        Case("a matrix of 5 x 40", (5, 40)),
        Case("a matrix of 70 x 33", (70, 33)),
        Case("a matrix of 64 x 96", (64, 96), counted=True),
    ),
    hidden=(range(1, 100), range(1, 100)),
)


def histogram(
    random: np.random.Generator, n: int, blocks: int, threads: int, mean: float
) -> ArrayLaunch:
    """Return the launch of a histogram of n pixels, 0 to 255, whose 256 bins are zero before it.

    With a small `mean` most pixels are 0. The last pixel is 255, so that the last bin counts, too.
    """
    pixels = random.exponential(mean, n).clip(0, 255).astype(np.uint8)
    pixels[-1] = 255

    bins = Output(
        "bins",
        np.bincount(pixels, minlength=256).astype(np.uint32),
        before=0,
        mistakes=partial(list_wrong_histograms, pixels, blocks, threads),
    )
    return launch("histogram", pixels, n, bins, grid=blocks, block=threads)


# A block counts more pixels of one value than 16 bits hold.
NIGHT = Case("70,000 pixels of the night in a block", (70_000, 1, 128, 0.3))


def total(random: np.random.Generator, n: int, blocks: int, threads: int) -> ArrayLaunch:
    """Return the launch of a sum of n numbers, exact in any order; the total is zero before.

    The sums need up to 24 bits. The numbers are multiples of 16 where there are at most two blocks,
    and of 2^-30 elsewhere: a kernel that turns them into integers of 32 bits to sum these is wrong in
    some cases.
    """
    unit = 16 if blocks <= 2 else 2.0**-30
    # the sum of n numbers of at most 2^24 / n: float32 holds it exactly, also times a power of two
    x = (draw_summands(random, n, _EXACT // n) * unit).astype(np.float32)
    y = Output(
        "total",
        x.sum(keepdims=True),
        before=0,
        mistakes=partial(list_wrong_totals, x, blocks, threads),
    )
    return launch("sum", x, n, y, grid=blocks, block=threads)


# Lanes that add to one address are served one after the other: each counts as a sector.
ADDITIONS = "atomic additions, each lane's"


# Of a result that was added several times: the threads of a block, and how many times too large it is.
TOO_LARGE = re.compile(r"blocks of (\d+), is wrong[^\n]*\n[^\n]* (\d+) times the right one")


def wrong_shares(kernel: str, array: str, threads: int, what: str) -> Mistake:
    """Return the mistake that not each of 1,000 elements of an array is taken by one thread of three blocks.

    The sentence is that of `describe_shares`, whose names these parameters have.
    """

    def describe(attempt: Attempt) -> str:
        """Return the sentence, or "" if the attempt does not make this mistake."""
        return describe_shares(attempt.source, kernel, array, 1000, 3, threads, what)

    # It fits only if results are wrong: `wrong`, the grade's first line with ✗, is then "right on ...".
    return Mistake(
        describe,
        lambda attempt: attempt.wrong.startswith("right") and describe(attempt),
        vague=True,  # many mistakes have this effect
    )


def scan(random: np.random.Generator, rows: int, columns: int) -> ArrayLaunch:
    """Return the launch of a prefix sum of each row: a block per row, a thread per number up to whole warps.

    The sums of a row, whose sign is random, need up to 31 bits.
    """
    x = draw_summands(random, (rows, columns), _INT_MAX // columns)
    x = (x * random.choice([-1, 1], (rows, 1))).astype(np.int32)
    y = Output("y", x.cumsum(axis=1, dtype=np.int32), mistakes=partial(list_wrong_scans, x))
    return launch("scan", x, y, columns, grid=rows, block=32 * -(-columns // 32))


SCAN = Kernels(
    scan,
    (
        Case("3 rows of 100", (3, 100)),
        Case("2 rows of 7", (2, 7)),
        Case("5 rows of 1", (5, 1)),
        Case("2 rows of 225", (2, 225)),
        Case("2 rows of 80", (2, 80)),  # in blocks of 96 threads: no power of two
        Case("4 rows of 256", (4, 256), counted=True),
    ),
    hidden=(range(1, 6), range(1, 257)),
)


def softmax(random: np.random.Generator, rows: int, columns: int, highest: int) -> ArrayLaunch:
    """Return the launch of a softmax of each row: a warp per row, four rows per block.

    The kernel has to subtract a row's largest number before it computes exponentials. So all numbers of
    a row but one, or in a fourth of the rows but a tenth, are lower than `highest` by 100 to 2,000: with
    any other number in its place, some exponentials are infinite, or all are zero. Beyond 709 and
    -745 that is so in double, too. The largest number may lie anywhere in the row.
    """
    x = highest - random.exponential(3, (rows, columns))
    # Which numbers are lower: all of a row, or in a fourth of the rows 90 % of them. But one of each
    # row, at a random place, is not.
    is_low = random.random((rows, columns)) > 0.1 * (random.random((rows, 1)) < 0.25)
    is_low[range(rows), random.integers(columns, size=rows)] = False
    x = (x - is_low * random.uniform(100, 2000, (rows, columns))).astype(np.float32)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    exact = powers / powers.sum(axis=1, keepdims=True)
    # 1e-5: about 170 roundings. 1e-12: exp(-100) is less than float's normal numbers, so any tiny one will do.
    y = Output(
        "y",
        exact.astype(np.float32),
        allowed=1e-5 * exact + 1e-12,
        mistakes=partial(list_wrong_softmaxes, x, powers),
    )
    return launch("softmax", x, y, rows, columns, grid=-(-rows // 4), block=(32, 4))


# A max, or a condition with ?, may find the largest number.
_SEEKS_LARGEST = r"\bf?max|\?"


def _subtracts_no_largest(attempt: Attempt) -> bool:
    """Return whether no number is the larger one of others, or none of these is subtracted: ``- largest``."""
    names = "|".join({*re.findall(r"\b(\w+) = f?maxf?\(", attempt.source)})
    return not attempt.matches(_SEEKS_LARGEST) or (
        bool(names) and not attempt.matches(rf"- *(?:{names})\b")
    )


NO_LARGEST = Mistake(
    "exp of a large number is inf, and inf / inf is nan: subtract the largest number of the row first.",
    lambda attempt: "nan" in attempt.wrong and _subtracts_no_largest(attempt),
)
OTHER_LARGEST = Mistake(
    "nan comes of inf / inf or of 0 / 0 here: what is subtracted lies far below the largest number of the row, or far "
    "above it. Has each lane the largest of the whole row?",
    lambda attempt: (
        "nan" in attempt.wrong
        and "up to 2,000" in attempt.wrong
        and attempt.matches(_SEEKS_LARGEST)
    ),
    vague=True,
)


def ranks(
    random: np.random.Generator, n: int, threads: int, block: tuple[int, ...] = ()
) -> ArrayLaunch:
    """Return the launch that counts for each of n numbers how many are smaller: a block per `threads` numbers.

    By default a block has a thread per number.
    """
    # Groups of neighbours among the float32 numbers of either sign, so that only their last bits
    # tell which is smaller; some numbers occur several times.
    groups = random.integers(2**23, 2**24 - 2, -(-n // 8)) * random.choice([-1, 1], -(-n // 8))
    x = ((random.choice(groups, n) + random.integers(0, 3, n)) / 2**12).astype(np.float32)
    rank = Output(
        "rank",
        (x < x[:, None]).sum(1, dtype=np.int32),
        mistakes=partial(list_wrong_ranks, x, threads),
    )
    return launch("ranks", x, n, rank, grid=-(-n // threads), block=block or threads)


RANKS = Kernels(
    ranks,
    (
        Case("200 numbers, blocks of 64", (200, 64)),
        Case("33 numbers, a block of 128", (33, 128)),
        Case("512 numbers", (512, 128), counted=True),  # 16 warps and 4 tiles
    ),
    hidden=(range(1, 600), [32, 64, 128]),
)


def produce_ranks(random: np.random.Generator, n: int) -> ArrayLaunch:
    """Return the launch of `ranks` in blocks of four warps: one loads, three have a number per thread."""
    return ranks(random, n, threads=96, block=(32, 4))


PRODUCED_RANKS = Kernels(
    produce_ranks,
    (
        Case("200 numbers", (200,)),
        Case("96 numbers", (96,)),
        Case("5 numbers", (5,)),
        Case("480 numbers", (480,), counted=True),  # 5 blocks and 5 tiles
    ),
    hidden=(range(1, 600),),
)


NOT_COPIED = Mistake(
    "Nothing is copied in the background. An assignment, tile[i] = x[j], loads to a register and stores from there, "
    "and commit and wait do nothing without a copy. Only __pipeline_memcpy_async begins one.",
    lambda attempt: (
        attempt.counts
        and not attempt.count("copied_bytes", "512 numbers")
        and attempt.matches(r"\] = \w+\[|\] = [^;]*\? *\w+\[")
    ),
)


def make_ranks_goals(barriers: int, overlap: bool = False) -> tuple[Goal, ...]:
    """Return the goals of a kernel that computes `ranks` with asynchronous copies of tiles into shared memory.

    A warp may wait at `barriers` barriers. With `overlap` a last goal is added: the copies of all tiles
    but the first are under way while the block compares with another tile.
    """
    # The counted case: 4 blocks of 4 warps; each block copies all 512 numbers, of 4 bytes, in 4 tiles.
    # A warp makes 5 load requests: for its own numbers, and its part of each tile.
    on = "512 numbers"
    return (
        counted(
            "copied_bytes",
            on,
            per=4,
            at_least=4 * 512,
            what="bytes per block that are copied in the background",
        ),
        counted(
            "global_load_requests",
            on,
            what="load requests",
            at_most=16 * 5,
            least={"unique_bytes": 2 * 4 * 512},  # all numbers, and all results
        ),
        counted(
            "barriers",
            on,
            per=16,
            what="barriers per warp",
            at_most=barriers,
            weight=3,  # times the points of a usual goal
            # a warp reads at most four numbers per instruction, and needs a barrier for each tile
            least={"shared_load_instructions": 16 * 512 / 4, "barriers": 16 * 4},
            # barriers with a number are not among the counted ones: they must not replace these
            most={"named_barriers": 0},
        ),
        *overlap  # False times a tuple is ()
        * (
            counted(
                "overlapped_bytes",
                on,
                per=4,
                at_least=3 * 4 * 128,
                weight=3,
                what="bytes per block that are copied while it compares",
                # All copies are of tiles, and each number of a tile is read once: no reads beside them pass the time.
                # No warp leaves the comparisons to the others: each of the 16 makes 1/16 of the loads from
                # shared memory, and a few other accesses.
                most={
                    "copied_bytes": 4 * 4 * 512,
                    "shared_load_bytes": 1.25 * 4 * 512 * 512,
                    "busiest_warp": ("shared_load_instructions", 1 / 13),
                },
            ),
        ),
    )


def make_uneven_rows(with_counter: bool) -> Kernels:
    """Return the launches and cases of an exercise: a kernel adds up rows, most of them short and few long.

    `with_counter` adds an argument, the number of the next row, by which blocks take rows from a queue.
    The rows before it are taken already, and their totals stay 0.
    """

    def launches(random: np.random.Generator, rows: int, blocks: int, threads: int):
        """Return the launch of a sum per row; of the rows, which have 0 to 600 numbers, most are short.

        The sums need up to 31 bits. The counter ends at the number of all rows, or beyond it by
        what the blocks take in vain. The engine runs the block `first` before the others, so that a
        kernel cannot rely on their order.
        """
        lengths = random.permutation((600 * np.linspace(0, 1, rows) ** 6).astype(np.int32))
        taken = int(random.integers(1, 6)) if with_counter else 0
        # whole lines of 128 bytes: they move no element of the others to another sector
        lengths = np.append(32 * random.integers(1, 4, taken), lengths)
        starts = np.append(0, lengths.cumsum()).astype(np.int32)
        # for each number of a row of n, the largest with which the sum of n is exact
        limits = np.repeat(_INT_MAX // np.maximum(lengths, 1), lengths)
        x = draw_summands(random, starts[-1], limits)
        # of each row: the running sum at its end, less that at its start
        total = np.diff(np.append(0, x.cumsum())[starts])
        total[:taken] = 0

        def list_mistakes() -> dict[str, np.ndarray]:
            """Return what wrong sums give: those of rows that are taken before the launch are 0."""
            return {
                clause: np.where(np.arange(len(total)) < taken, 0, sums)
                for clause, sums in list_wrong_row_sums(x, starts, threads).items()
            }

        # At the end: from the number of all rows to two more per block. A block takes one row in vain
        # before it stops, or two if it takes a row ahead.
        next_row = Output(
            "next", np.array([taken + rows + blocks], np.int32), taken, allowed=blocks
        )
        return launch(
            "sums",
            x.astype(np.int32),
            starts,
            taken + rows,
            Output("total", total.astype(np.int32), before=0, mistakes=list_mistakes),
            *[next_row] * with_counter,
            grid=blocks,
            block=threads,
            first=int(random.integers(blocks)),
        )

    return Kernels(
        launches,
        (
            Case("7 rows, 3 blocks", (7, 3, 64)),
            Case("3 rows, 5 blocks", (3, 5, 128)),
            Case("48 rows", (48, 4, 64), counted=True),
        ),
        hidden=(range(2, 60), range(1, 9), [32, 64, 128]),
    )


def make_row_goals(taken: int = 0) -> tuple[Goal, ...]:
    """Return the goals for the 48 rows of `make_uneven_rows`: the most load requests, and atomic requests.

    `taken` is how many times a block takes its next row from a counter: by an atomic whose result is
    used, which counts as both.
    """
    on, least = "48 rows", {"unique_bytes": 4 * 4315}  # all rows have 4,315 numbers
    # 360: the lab's own solution needs about 350, since warps load the beginning and the end of
    # each row, too. 2 * 48: a block of 64 threads has two warps, each with an atomic request per row.
    return (
        counted("global_load_requests", on, what="load requests", at_most=360 + taken, least=least),
        counted("reduction_requests", on, what="atomic requests", at_most=2 * 48 + taken),
    )


def products(random: np.random.Generator, count: int, K: int, rows: bool) -> ArrayLaunch:
    """Return the launch of `count` products [16,K] x [K,8] of whole numbers, a warp per product.

    The second matrix is stored row by row if `rows`, or else column by column. The numbers of one
    matrix need all bits of a half, those of the other as many as leave the sums exact.
    """
    # of a and of b: all bits of a half; and so many that a sum of K products is at most 2^22
    largest = random.permuted([2**11, 2**22 // (2**11 * K)])
    a, b = (
        random.integers(-most, most + 1, shape).astype(np.float16)
        for most, shape in zip(largest, ((count, 16, K), (count, K, 8)), strict=True)
    )
    c = Output(
        "c",
        a.astype(np.float32) @ b.astype(np.float32),
        mistakes=partial(list_wrong_products, a, b),
    )
    return launch(
        "multiply",
        a,
        b if rows else np.ascontiguousarray(b.transpose(0, 2, 1)),
        c,
        K,
        grid=count,
        block=32,
    )


def make_product_goals(on: str, loads: int, moved: int, operations: int) -> tuple[Goal, ...]:
    """Return the goals of `products` on the case `on`, which begins with their number: "5 products".

    All products together may take `loads` load requests, and two store requests per product. They take
    exactly `operations` of tensor cores, each by a warp. To do less work is no way to the goals: at
    least `moved` bytes have to be loaded and stored.
    """
    count = int(on.partition(" ")[0])
    stores = 2 * count
    # A warp that multiplies without tensor cores needs numbers that other lanes have. So a warp may make
    # no exchanges, and few memory instructions: for its product the loads, two stores, and four
    # more per operation.
    steps = operations // count
    most = {"busiest_warp": loads // count + 2 + 4 * steps, "lane_exchanges": 0}
    return (
        counted(
            "global_load_requests",
            on,
            what="load requests",
            at_most=loads,
            least={"unique_bytes": moved},
        ),
        counted(
            "global_store_requests",
            on,
            what="store requests",
            at_most=stores,
            least={"unique_bytes": moved},
        ),
        counted(
            "matrix_operations",
            on,
            what="products on tensor cores",
            exactly=operations,
            most=most,
        ),
    )


def _stores_single_floats(attempt: Attempt) -> bool:
    """Return whether each lane stores the four sums of a product alone, in four requests."""
    return not attempt.matches(r"\bfloat2\b") and any(
        # "5 products", or "2 products, K = 64"
        counts.get("global_store_requests") == 4 * int(on.partition(" ")[0])
        and counts.get("matrix_operations", 0) > 0
        for on, counts in attempt.counts.items()
        if " product" in on
    )


SINGLE_SUMS = Mistake(
    "d[0] and d[1] lie side by side in c, and so do d[2] and d[3]. Store each two as one float2: two store requests "
    "per product, not four.",
    _stores_single_floats,
)

# The registers of a fragment: "{rows[i], rows[j], …}", or "fa[0] = rows[i]; fa[1] = rows[j]; …".
_LIST = re.compile(r"\{([^{};]{1,400})\}")
_REGISTER = re.compile(r"\b(\w+)\[[0-3]\] *= *\w+\[([^\[\]]{1,100})\]")
# The place of d[0] is a row of the lower half: "out[(g + 8) * 4 + t] = make_float2(d[0]".
_SUMS_EXCHANGED = re.compile(r"\+ *8 *\)[^\[\];]{0,100}\] *= *make_float2\(\w+\[0\]")


def _list_fragments(source: str) -> Iterator[list[str]]:
    """Yield the indices, as texts, with which the registers of each fragment are loaded from an array.

    A fragment is a list, ``{x[g], x[g + 8]}``, or an array of registers, ``a[0] = x[g];``: both give
    the indices "g", "g + 8" of its registers, in their order in the text.
    """
    for registers in _LIST.findall(source):
        yield re.findall(r"\[([^\[\]]*)\]", registers)
    assigned: dict[str, list[str]] = {}
    for name, index in _REGISTER.findall(source):
        assigned.setdefault(name, []).append(index)
    yield from assigned.values()


def has_exchanged_registers(attempt: Attempt) -> bool:
    """Return whether the code fills the registers of an ``mma`` instruction with the right words in a wrong order.

    A fragment are the registers in which a lane holds its part of a matrix: four of a, two of b, and the
    sums d. In a lane's code, a word of two halves 8 columns further has "+ 4" in its index, a row of
    the lower half "(g + 8)", where g is lane / 4.
    """
    # The right order of a: row g, row g + 8, then both rows 8 columns further. Of b: the word that is
    # 8 further comes last.
    for indices in _list_fragments(attempt.source):  # ["g", "g + 8"]: of the words of a fragment
        further = [re.search(r"\+ *4\b", index) is not None for index in indices]
        below = [re.search(r"\+ *8 *\)", index) is not None for index in indices]
        if sum(further) * 2 == len(indices) and further != sorted(further):
            return True
        if sum(below) == 2 and len(indices) == 4 and below != [False, True] * 2:
            return True
    return attempt.matches(_SUMS_EXCHANGED)


def has_own_products(attempt: Attempt) -> bool:
    """Return whether a block finds its own product, one of many, in all matrices: then another mistake is to blame.

    That is so if the code uses `blockIdx`, or a variable with that value, three times: in all three
    matrices; or if the result is wrong with only one block, too ("c, a product" in the message).
    """
    names = re.findall(r"\b(\w+) = blockIdx\.x[;,]", attempt.source)
    # without the declarations, "name = blockIdx.x": there neither counts
    uses = sum(len(re.findall(rf"\b{name}\b", attempt.source)) - 1 for name in names)
    uses += attempt.source.count("blockIdx") - len(names)
    return uses >= 3 or "c, a product" in attempt.wrong


EXCHANGED_REGISTERS = Mistake(
    "The registers of a fragment have an order, and here two of them are exchanged. Of a: first rows g and g + 8, "
    "then the same two rows 8 columns further. Of b: first rows 2t and 2t + 1, then those 8 further. Of d: d[0] and "
    "d[1] are row g, d[2] and d[3] row g + 8.",
    lambda attempt: attempt.wrong.startswith("right") and has_exchanged_registers(attempt),
)


OTHER_LANES = Mistake(
    "The registers belong to lane 4 g + t, so g is the quotient of the lane's number by 4, and t the remainder.",
    lambda attempt: (
        attempt.runs_wrong
        and attempt.matches(r"\bg = (?:threadIdx\.x|lane) (?:% \d+|/ (?!4\b)\d+)")
    ),
)
