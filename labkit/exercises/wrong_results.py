"""What typical wrong kernels of the practice pages compute, by what they do: the `mistakes` of an `Output`.

A grade says "It looks as if ..." with that one whose result is the attempt's in every element, or with two of them.
"""

import numpy as np

_LANES = 32
_MANY = 100  # pixels


def list_wrong_histograms(pixels: np.ndarray, blocks: int, threads: int) -> dict[str, np.ndarray]:
    """Return what wrong histograms of pixels [n], uint8, give in a launch of `blocks` blocks of `threads` threads."""
    bins = np.bincount(pixels, minlength=256).astype(np.uint32)
    value = np.arange(256)
    # with few pixels, a bin that is left out is not told from pixels that are
    lost_bins = {
        "bin 255 is left out": np.where(value < 255, bins, 0),
        "bin 0 is left out": np.where(value > 0, bins, 0),
    }
    return (
        (lost_bins if len(pixels) >= _MANY else {})
        | {
            clause: np.bincount(pixels[taken], minlength=256).astype(np.uint32)
            for clause, taken in _list_shares(len(pixels), blocks, threads, "pixel")
        }
        | {
            "a bin has 8 bits: it wraps around at 256": bins % 256,
            "a bin has 16 bits: it wraps around at 65,536": bins % 65_536,
        }
    )


def list_wrong_totals(x: np.ndarray, blocks: int, threads: int) -> dict[str, np.ndarray]:
    """Return what wrong sums of x [n] give in a launch of `blocks` blocks of `threads` threads, as arrays [1]."""
    n = len(x)
    thread = np.arange(n) % (blocks * threads) % threads  # of its block
    shares = _list_shares(n, blocks, threads, "number") + _list_missing_steps(thread)
    # in the second tree of a block, lanes without a warp's sum still have that of warp 0
    first_warps = x[thread < _LANES].sum(keepdims=True)
    warps = -(-threads // _LANES)
    return {clause: x[taken].sum(keepdims=True) for clause, taken in shares} | {
        "the tree over the sums of the warps adds that of warp 0 also for lanes that have no warp": (
            x.sum(keepdims=True) + (_LANES - warps) * first_warps
        )
    }


def list_wrong_row_sums(x: np.ndarray, starts: np.ndarray, threads: int) -> dict[str, np.ndarray]:
    """Return what wrong sums of rows give, int32 [rows]: a block of `threads` threads per row.

    Row r is x[starts[r]] to x[starts[r + 1] - 1].
    """
    lengths = np.diff(starts)
    row = np.repeat(np.arange(len(lengths)), lengths)
    number = np.arange(len(x)) - starts[row]  # of its row
    thread = number % threads
    shares = [
        ("the first number of each row is left out", number > 0),
        ("the last number of each row is left out", number < lengths[row] - 1),
        (f"only the first {threads} numbers of each row are added", number < threads),
        ("only thread 0 of each block adds its numbers", thread == 0),
        ("only lane 0 of each warp adds its numbers", thread % _LANES == 0),
        ("only the first warp of each block adds its numbers", thread < _LANES),
        *_list_missing_steps(thread),
    ]

    def add(taken: np.ndarray) -> np.ndarray:
        """Return the sums of the numbers that are taken, bool [n], of each row."""
        sums = np.append(0, np.cumsum(np.where(taken, x, 0), dtype=np.int64))
        return np.diff(sums[starts]).astype(np.int32)

    following = np.append(x, 0)[starts[1:]]
    return {clause: add(taken) for clause, taken in shares} | {
        "the first number of the row behind is added, too": (
            add(np.ones(len(x), bool)) + following.astype(np.int32)
        )
    }


def list_wrong_products(a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """Return what wrong products of a [count,M,K] and b [count,K,N] give, float32 [count,M,N]."""
    a, b = a.astype(np.float32), b.astype(np.float32)
    step = np.arange(a.shape[2])
    # the lower eight of each 16 also in place of the upper ones
    lower = step // 16 * 16 + step % 8
    shares = {
        "only the first 16 of the K products are added": step < 16,
        "only the last 16 of the K products are added": step >= len(step) - 16,
        "of each 16 products the first eight are left out": step % 16 >= 8,
        "of each 16 products the last eight are left out": step % 16 < 8,
    }
    return {
        clause: a[:, :, taken] @ b[:, taken] for clause, taken in shares.items() if not taken.all()
    } | {
        "the first eight of each 16 columns of a stand in place of the last eight, too": (
            a[:, :, lower] @ b
        ),
        "the first eight of each 16 rows of b stand in place of the last eight, too": (
            a @ b[:, lower]
        ),
        "in each word of a the two halves are exchanged": a[:, :, step ^ 1] @ b,
        "in each word of b the two halves are exchanged": a @ b[:, step ^ 1],
        "every step has the first 16 columns of a": a[:, :, step % 16] @ b,
        "every step has the first 16 rows of b": a @ b[:, step % 16],
    }


def _list_shares(n: int, blocks: int, threads: int, what: str) -> list[tuple[str, np.ndarray]]:
    """Return which of n elements wrong kernels take, as (what they do, bool [n]); a right one takes all.

    With T threads in the grid, thread t takes the elements t, t + T, t + 2T and so on. `what` says
    what an element is: "number".
    """
    element = np.arange(n)
    block, thread = np.divmod(element % (blocks * threads), threads)
    shares = [
        (f"the first {what}, {what} 0, is left out", element > 0),
        (f"the last {what}, {what} {n - 1}, is left out", element < n - 1),
        (
            f"each thread takes one {what}: no thread takes {what} {blocks * threads}",
            element < blocks * threads,
        ),
        (f"only thread 0 of each block adds its {what}s", thread == 0),
        (f"only lane 0 of each warp adds its {what}s", thread % _LANES == 0),
        (f"only the first warp of each block adds its {what}s", thread < _LANES),
        (f"only the threads of block 0 add their {what}s", block == 0),
        (f"the first warp of each block adds no {what}", thread >= _LANES),
        (f"the last thread of each block adds no {what}", thread < threads - 1),
        (f"the threads of block 0 add no {what}", block > 0),
    ]
    # remainder -> a width with which it is left, the likeliest: the last one. 1 is the last element alone
    widths = {n % width: width for width in (32, 16, 8, 2, 4)}
    shares += [
        (
            f"the last {rest} of {n:,} {what}s are left out (n % {width} is {rest} here)",
            element < n - rest,
        )
        for rest, width in widths.items()
        if rest > 1
    ]
    # a kernel that takes all elements, or none, is not told from others by its result
    return [(clause, taken) for clause, taken in shares if 0 < taken.sum() < n]


def _list_missing_steps(thread: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Return which numbers a sum has without one of its steps, as (which step is missing, bool [n]).

    `thread` is the number of each number's thread. A step adds the sums of threads that are a power of
    two apart; without it, the sums of the upper ones are lost.
    """
    return [
        (f"there is no step that adds threads {apart} apart", thread & apart == 0)
        for apart in (1, 2, 4, 8, 16, 32, 64, 128)
    ]


def list_wrong_scans(x: np.ndarray) -> dict[str, np.ndarray]:
    """Return what wrong scans of the rows of `x` give, by what they do."""
    first_of_warps = np.arange(x.shape[1]) % 32 == 0
    sums = x.cumsum(axis=1, dtype=np.int32)
    of_warps = _sum_own_warps(x)
    one_before = np.zeros_like(sums)
    one_before[:, 32:] = of_warps[:, :-32]
    # the sums of the warps before, from the last places of those
    before = np.zeros_like(sums)
    before[:, 32:] = np.repeat(sums[:, 31::32], 32, axis=1)[:, : x.shape[1] - 32]
    within = sums - before
    scans = {
        "a place has the sum from its own number to the end of the row": (
            x[:, ::-1].cumsum(axis=1, dtype=np.int32)[:, ::-1]
        ),
        "the first number of a row is added to no other place": np.where(
            np.arange(x.shape[1]) == 0, sums, sums - x[:, :1]
        ),
        "the first number of each warp is added to no other place": (
            np.where(first_of_warps, 0, x).cumsum(axis=1, dtype=np.int32)
            + np.where(first_of_warps, x, 0)
        ),
        "a place gets the sum of its own warp, too, beside those of the warps before": (
            sums + of_warps
        ),
        "a place lacks the sums of the warps before its own": within,
        "a place gets the sum of one warp before its own, and of no other one": within + one_before,
        "the distance grows by 1 from step to step: it should double": _scan_in_small_steps(x),
    }
    for width in (2**step for step in range(1, 8)):
        earlier = np.zeros_like(sums)
        earlier[:, width:] = sums[:, :-width]
        scans[
            f"each place has the sum of the last {width} numbers up to its own: the steps end too early, or y is not "
            "taken from the last step's buffer"
        ] = sums - earlier
    return scans


def _sum_own_warps(x: np.ndarray) -> np.ndarray:
    """Return for each number of the rows of `x` the sum of the 32 numbers of its warp."""
    starts = np.arange(0, x.shape[1], 32)
    sums = np.add.reduceat(x, starts, axis=1, dtype=np.int32)
    return np.repeat(sums, 32, axis=1)[:, : x.shape[1]]


def _scan_in_small_steps(x: np.ndarray) -> np.ndarray:
    """Return what the rows of `x` become in steps with the distances 1, 2, 3 and so on."""
    part = x.copy()
    for apart in range(1, x.shape[1]):
        part[:, apart:] += part[:, :-apart].copy()
    return part


def list_wrong_softmaxes(x: np.ndarray, powers: np.ndarray) -> dict[str, np.ndarray]:
    """Return what wrong softmaxes of the rows of x give, by what they do.

    `powers` are the exponentials of the numbers less the largest one of their row.
    """
    columns = powers.shape[1]
    floats = powers.astype(np.float32)
    # each lane has the numbers l, l + 32 and so on of a row
    of_lanes = np.stack([floats[:, lane::32].sum(axis=1) for lane in range(32)], axis=1)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        by_lanes = floats / np.tile(of_lanes, -(-columns // 32))[:, :columns]
        by_first = floats / floats[:, :32].sum(axis=1, keepdims=True)
        # each lane's sum with its own largest number in place of that of the row
        unscaled = sum(
            np.exp(numbers - numbers.max(axis=1, keepdims=True)).sum(axis=1, keepdims=True)
            for numbers in (x[:, lane::32].astype(np.float64) for lane in range(min(32, columns)))
        )
        filled = [_fill_with_zeros(x, count) for count in (1024 - columns, -columns % 32)]
    return {
        # a lane may have 32 places, or as many as the longest row needs
        "places without a number hold 0, up to 1,024, which counts as a number": filled[0],
        "places without a number hold 0, in the last 32, which counts as a number": filled[1],
        "y has the exponentials, and nobody has divided them by their sum": powers,
        "each lane divides by the sum of its own numbers, not by that of the row": by_lanes,
        "only the first 32 numbers of a row are in its sum": by_first,
        "the lanes' sums are added as they are, each with the largest number of its lane": powers
        / unscaled,
    }


def _fill_with_zeros(x: np.ndarray, count: int) -> np.ndarray:
    """Return the softmax of the rows of x that `count` zeros follow in each row, without the zeros' own results."""
    x = x.astype(np.float64)
    largest = np.maximum(x.max(axis=1, keepdims=True), 0) if count else x.max(axis=1, keepdims=True)
    powers = np.exp(x - largest)
    return powers / (powers.sum(axis=1, keepdims=True) + count * np.exp(-largest))


def list_wrong_ranks(x: np.ndarray, threads: int) -> dict[str, np.ndarray]:
    """Return what wrong counts of smaller numbers give, by what they do. A tile has `threads` numbers."""
    n = len(x)
    is_smaller = x < x[:, None]  # [i, j]: x[j] < x[i]
    own = np.arange(n) // threads
    tiles = [is_smaller[:, first : first + threads] for first in range(0, n, threads)]
    # zeros that fill the last tile
    filling = np.zeros((1, -n % threads), x.dtype)
    counts = {
        "numbers that are equal are counted, too": x <= x[:, None],
        "the last tile is filled with zeros, which are counted as numbers": np.hstack(
            [is_smaller, filling < x[:, None]]
        ),
        "larger numbers are counted, not smaller ones": x > x[:, None],
        "each block compares with its own numbers only": is_smaller & (own == own[:, None]),
        "the block compares with the first tile only": tiles[0],
        "the first tile is left out": is_smaller[:, threads:],
        "the count begins anew with each tile": tiles[-1],
        "the last tile is left out": is_smaller[:, : len(tiles) * threads - threads],
        "every turn compares with the numbers of the first tile": np.hstack(
            [tiles[0][:, : tile.shape[1]] for tile in tiles]
        ),
    }
    return {clause: which.sum(1, dtype=np.int32) for clause, which in counts.items()}
