"""Say where wrong results lie, and which mistake gives the same ones: for messages of a comparison.

A mistake is named only if it gives every one of the wrong results that are looked at. The
playground uses this module, too, so it has no NumPy: arrays are flat sequences in C order.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

# The largest relative error of one rounding to nearest.
ROUNDOFF = {"float32": 2.0**-24, "float16": 2.0**-11}
SAMPLES = 48  # wrong results that are looked at
_FEWEST = 4  # wrong results from which a mistake is named: fewer agree by chance
_PERIODS = (2, 4, 8, 16, 32, 64)  # sides of blocks and tiles, widths of vectors
_TILES = (4, 8, 16, 32)  # sides of tiles
_AXES = {"b": "image", "m": "map", "h": "row", "w": "column", "index": "element"}
_NAMES = {1: ("index",), 2: ("row", "column")}  # of an array's axes, by their number
_SUMMED = 2e-5  # relative error of a sum of some hundred numbers
# Of a sum that a kernel rounds in another order: times the rounding error of the type.
_ROUNDINGS = 8


class Products(NamedTuple):
    """The inputs of a convolution: x [B,C,H,W] and the masks k [M,C,K,K], flat, with their shapes."""

    x: Sequence[float]
    k: Sequence[float]
    x_shape: tuple[int, int, int, int]
    k_shape: tuple[int, int, int, int]


class _Place(NamedTuple):
    """A product of an output: the output's index, the channel, and the place in the mask."""

    b: int
    m: int
    h: int
    w: int
    c: int
    p: int
    q: int


# Returns what a kernel adds where it should add one product: places (in x, in k) of factors.
_Mistake = Callable[[_Place], Sequence[tuple[int, int]]]


def sample(wrong: Sequence) -> list:
    """Return at most `SAMPLES` of the wrong results, in their order: enough to recognize the mistake behind them.

    They are drawn at random, the same ones each time.
    """
    places = range(len(wrong))
    if len(wrong) > SAMPLES:
        places = sorted(random.Random(0).sample(places, SAMPLES))
    return [wrong[place] for place in places]


def describe_places(
    along: Sequence[set[int]], shape: Sequence[int], names: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence if wrong results lie at an end of an axis, or at the same places of each block.

    "All wrong ones are in the last of 5 rows." for `along` [{4}, {0, 1, 2}], the indices of the wrong
    ones on each axis, `shape` (5, 3) and `names` ["row", "column"].
    """
    if where := locate(along, shape, names):
        yield f"All wrong ones are in {where}."


def locate(along: Sequence[set[int]], shape: Sequence[int], names: Sequence[str]) -> str:
    """Return where places lie if at an end of an axis, "the last of 5 rows", or at the same places of blocks; or "".

    The same places of blocks are such as "columns with w % 8 = 7", the last column of each block.

    Parameters
    ----------
    along : sequence of set of int
        For each axis, the indices of the places: [{3, 4}, {7}].
    shape : sequence of int
        The length of each axis.
    names : sequence of str
        The name of each axis: "h".
    """
    wheres = [
        where
        for indices, extent, name in zip(along, shape, names, strict=True)
        if (where := _describe_axis(indices, extent, name))
    ]
    return " and ".join(wheres)


def _describe_axis(indices: set[int], extent: int, name: str) -> str:
    """Return where these indices are along an axis: "the last of 18 maps"; "" if they are everywhere or anywhere."""
    word = _AXES.get(name, name)
    low, high, count = min(indices), max(indices), len(indices)
    if count == extent:
        return ""
    if count == high - low + 1 and (low == 0 or high == extent - 1):
        end = "first" if low == 0 else "last"
        return f"the {end} {f'{count} ' if count > 1 else ''}of {extent} {word}s"
    for period in _PERIODS:
        rests = {i % period for i in indices}
        # as many blocks as make no coincidence
        if extent < 2 * period or len(rests) == period:
            continue
        if all(i in indices for i in range(extent) if i % period in rests):
            first, last = min(rests), max(rests)
            if last - first + 1 == len(rests):
                which = f"{first}" if first == last else f"{first} to {last}"
                return f"{word}s with {name} % {period} = {which}"
    return ""


def find_mistake(
    indices: Sequence[Sequence[int]],
    got: Sequence[float],
    allowed: float,
    dtype: str,
    products: Products,
) -> str:
    """Return the mistake that gives each of these wrong outputs of a convolution, as a clause; "" if none does.

    "the last row of the mask was left out"

    Parameters
    ----------
    indices : sequence of (b, m, h, w)
        Image, map, row and column of each output.
    got : sequence of float
        The output at each index.
    allowed : float
        The largest error of a right output.
    dtype : str
        The type of the outputs, "float32" or "float16".
    products : Products
        The inputs of the convolution, from which it is computed what a mistake gives.
    """
    # a few outputs fit to many mistakes by chance; none of these mistakes gives a NaN
    if len(got) < _FEWEST or not all(map(math.isfinite, got)):
        return ""
    if all(abs(number) <= allowed for number in got):
        return "the wrong ones are 0: nothing was added there"
    for clause, mistake in _list_mistakes(products):
        # The mistake has to give every wrong output, but for roundings in another order.
        for index, number in zip(indices, got, strict=True):
            total = _compute_output(products, index, mistake)
            if not abs(total - number) <= allowed + _ROUNDINGS * ROUNDOFF[dtype] * abs(total):
                break
        else:
            return clause
    return ""


def _compute_output(products: Products, index: Sequence[int], mistake: _Mistake) -> float:
    """Return the output at `index` (b, m, h, w) of a kernel with a mistake; NaN if it reads beyond an array."""
    (_, C, K, _), total = products.k_shape, 0.0
    b, m, h, w = index
    for c, p, q in itertools.product(range(C), range(K), range(K)):
        for at_x, at_k in mistake(_Place(b, m, h, w, c, p, q)):
            if not (0 <= at_x < len(products.x) and 0 <= at_k < len(products.k)):
                return math.nan
            total += products.x[at_x] * products.k[at_k]
    return total


def describe_array(
    wrong: Sequence[int],
    got: Sequence[float],
    expected: Sequence[float],
    bounds: Sequence[float],
    shape: Sequence[int],
) -> Iterator[str]:
    """Yield sentences about the wrong elements of an array: where they are, and what stands there.

    Parameters
    ----------
    wrong : sequence of int
        The places of the wrong elements, counted in C order.
    got, expected, bounds : sequence of float
        All elements of the array, what they should be, and the largest error allowed of each.
    shape : sequence of int
        The array's.
    """
    if where := locate_elements(wrong, shape):
        yield f"All wrong ones are in {where}."
    if len(got) == 1:
        yield from _describe_ratio(got[0], expected[0])
    # a few numbers fit to many mistakes by chance
    if len(wrong) < _FEWEST or not all(math.isfinite(got[place]) for place in wrong):
        return
    if not any(got[place] for place in wrong):
        yield "All wrong ones are 0."
    elif clause := _find_relation(wrong, got, expected, bounds, shape):
        yield f"It looks as if {clause}."


def _describe_ratio(got: float, expected: float) -> Iterator[str]:
    """Yield a sentence if an array's only element is 2, 3, ... times the right one."""
    ratio = got / expected if expected else math.nan
    if math.isfinite(ratio) and ratio > 1.5 and abs(ratio - round(ratio)) < _SUMMED * ratio:
        yield f"It is {round(ratio)} times the right one."


def locate_elements(places: Sequence[int], shape: Sequence[int]) -> str:
    """Return where elements of an array of one to three axes lie, as `locate` does; `places` are those in C order.

    Three axes are taken for a row of matrices: only the row and the column in the matrix count.
    """
    if len(shape) == 3:
        matrix = shape[1] * shape[2]
        places, shape = [place % matrix for place in places], shape[1:]
    if len(shape) not in _NAMES:  # it has the axes' names, {2: ("row", "column")}, for one and two
        return ""
    columns = shape[1] if len(shape) == 2 else 1
    along = [{place // columns for place in places}, {place % columns for place in places}]
    # of one axis, only the first set
    return locate(along[: len(shape)], shape, _NAMES[len(shape)])


def _find_relation(
    wrong: Sequence[int],
    got: Sequence[float],
    expected: Sequence[float],
    bounds: Sequence[float],
    shape: Sequence[int],
) -> str:
    """Return what the wrong elements of an array are in place of the right ones, as a clause; or "".

    The parameters are those of `describe_array`.
    """

    def are_like(right: Callable[[int], float], places: Sequence[int] = wrong) -> bool:
        """Return whether each wrong element is what it would be in place of the expected one."""
        return all(abs(got[place] - right(place)) <= bounds[place] for place in places)

    last = shape[-1]
    for by, neighbour in ((1, "before"), (-1, "behind")):
        # the first one of a row has no neighbour before it: what stands there is not looked at
        places = [place for place in wrong if 0 <= place % last - by < last]
        if len(places) >= _FEWEST and are_like(lambda place, by=by: expected[place - by], places):
            return f"each wrong one has the result of the element {neighbour} it"
    if len(shape) == 2 and are_like(
        lambda place: (
            expected[place % last * shape[0] + place // last] if shape[0] == last else math.nan
        )
    ):
        return "rows and columns were exchanged"
    differences = {got[place] - expected[place] for place in wrong}
    values = {expected[place] for place in wrong}
    if len(differences) == 1 and len(values) > 1:
        difference = differences.pop()
        word = "larger" if difference > 0 else "smaller"
        return f"each wrong one is {word} than the right one by {abs(difference):.6g}"
    ratios = {got[place] / expected[place] for place in wrong if expected[place]}
    if len(ratios) == 1 and len(values) > 1 and all(expected[place] for place in wrong):
        return f"each wrong one is {ratios.pop():.4g} times the right one"
    return ""


def _move(at: _Place, pixels: int, Wo: int) -> _Place:
    """Return the place of the same product in the output that is `pixels` further in its map."""
    h, w = divmod(at.h * Wo + at.w + pixels, Wo)
    return at._replace(h=h, w=w)


def _list_mistakes(products: Products) -> Iterator[tuple[str, _Mistake]]:
    """Yield (clause, mistake) for typical mistakes of a convolution."""
    (B, C, H, W), (M, _, K, _) = products.x_shape, products.k_shape
    Ho, Wo, last = H - K + 1, W - K + 1, K - 1

    def place_x(at: _Place, down: int = 0, right: int = 0) -> int:
        return ((at.b * C + at.c) * H + at.h + at.p + down) * W + at.w + at.q + right

    def place_k(at: _Place) -> int:
        return ((at.m * C + at.c) * K + at.p) * K + at.q

    def leave_out(skips: Callable[[_Place], bool]) -> _Mistake:
        return lambda at: () if skips(at) else ((place_x(at), place_k(at)),)

    def read(
        x: Callable[[_Place], int] = place_x, k: Callable[[_Place], int] = place_k
    ) -> _Mistake:
        return lambda at: ((x(at), k(at)),)

    if C > 1:
        yield "only the first channel was added", leave_out(lambda at: at.c > 0)
        yield (
            "only the last channel was added: the sum begins anew with each channel",
            leave_out(lambda at: at.c < C - 1),
        )
        yield "the last channel was left out", leave_out(lambda at: at.c == C - 1)
        yield "the first channel was left out", leave_out(lambda at: at.c == 0)
        yield (
            "each channel was multiplied with the weights of the first one",
            read(k=lambda at: place_k(at._replace(c=0))),
        )
        yield (
            "the weights of each channel were multiplied with the first channel",
            read(x=lambda at: place_x(at._replace(c=0))),
        )
    yield "the last row of the mask was left out", leave_out(lambda at: at.p == last)
    yield "the first row of the mask was left out", leave_out(lambda at: at.p == 0)
    yield "the last column of the mask was left out", leave_out(lambda at: at.q == last)
    yield "the first column of the mask was left out", leave_out(lambda at: at.q == 0)
    yield (
        "only the last row of the mask was added: the sum begins anew with each row",
        leave_out(lambda at: at.p < last),
    )
    yield (
        "only the last product was stored: = in place of +=",
        leave_out(lambda at: (at.c, at.p, at.q) != (C - 1, last, last)),
    )
    for side in _TILES:
        yield (
            f"inputs beyond a tile of {side} x {side} counted as 0: the tile lacks its halo",
            leave_out(
                lambda at, side=side: at.h % side + at.p >= side or at.w % side + at.q >= side
            ),
        )
        yield (
            f"inputs beyond the {side} columns of a tile counted as 0: it lacks the halo on its right",
            leave_out(lambda at, side=side: at.w % side + at.q >= side),
        )
        yield (
            f"inputs beyond the {side} rows of a tile counted as 0: it lacks the halo below",
            leave_out(lambda at, side=side: at.h % side + at.p >= side),
        )
    if B > 1:
        yield (
            "each image was computed from the first one",
            read(x=lambda at: place_x(at._replace(b=0))),
        )
    for pixels, neighbour in ((1, "behind"), (-1, "before")):
        yield (
            f"each wrong one has the result of the output {neighbour} it",
            lambda at, pixels=pixels: ((place_x(_move(at, pixels, Wo)), place_k(at)),),
        )
    if M > 1:
        yield (
            "each map was computed with the weights of the first one",
            read(k=lambda at: place_k(at._replace(m=0))),
        )
        yield (
            "the two maps of each pair, 0 and 1, 2 and 3 and so on, were exchanged",
            lambda at: ((place_x(at), place_k(at._replace(m=at.m ^ 1))),) if at.m ^ 1 < M else (),
        )
        yield (
            "the sums of both maps of each pair, 0 and 1, 2 and 3 and so on, were added together",
            lambda at: [(place_x(at), place_k(at._replace(m=m))) for m in (at.m, at.m ^ 1)],
        )
        yield (
            "the second map of each pair, 1, 3 and so on, has the sum of the first",
            read(k=lambda at: place_k(at._replace(m=at.m & ~1))),
        )
        if C > 1:
            yield (
                "the second map of each pair, 1, 3 and so on, was computed with the first one's weights of the next "
                "channel",
                read(k=lambda at: place_k(at._replace(m=at.m & ~1, c=at.c + 1))),
            )
        yield (
            "the sum of a map goes on in the next one: it is not set to 0 in between",
            lambda at: [(place_x(at), place_k(at._replace(m=m))) for m in range(at.m + 1)],
        )
    yield (
        "the rows of x were taken to be Wo long, not W",
        read(x=lambda at: ((at.b * C + at.c) * H + at.h + at.p) * Wo + at.w + at.q),
    )
    yield (
        "the channels of x were taken to have Ho * Wo inputs, not H * W",
        read(x=lambda at: (at.b * C + at.c) * Ho * Wo + (at.h + at.p) * W + at.w + at.q),
    )
    yield (
        "the rows and columns of x were exchanged",
        read(x=lambda at: ((at.b * C + at.c) * H + at.w + at.q) * W + at.h + at.p),
    )
    yield (
        "a map was taken to have M masks, not C",
        read(k=lambda at: ((at.m * M + at.c) * K + at.p) * K + at.q),
    )
    yield (
        "the masks of one channel were taken to lie side by side, not those of one map",
        read(k=lambda at: ((at.c * M + at.m) * K + at.p) * K + at.q),
    )
    for name, down, right in (("row", 1, 0), ("column", 0, 1)):
        yield f"x was read one {name} too far", read(lambda at, d=down, r=right: place_x(at, d, r))
        yield (
            f"x was read one {name} too early",
            read(lambda at, d=down, r=right: place_x(at, -d, -r)),
        )
