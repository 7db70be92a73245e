"""Exercise 11c: three products."""

import re

import numpy as np

from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.exercises.text import find_line

_ON, _COUNT = "5 products", 5
# Of the sum of |a| |b|. Three products are off by about 2^-21 of it, two by 2^-14.
_ALLOWED = 2.0**-18


def multiply(random: np.random.Generator, count: int):
    """Return the launch of `count` products [16,16] x [16,8] of floats between 1/2 and 1, of either sign.

    A warp computes a product. The second matrix is stored column by column.
    """
    a, b = (
        (random.uniform(0.5, 1, shape) * random.choice([-1, 1], shape)).astype(np.float32)
        for shape in ((count, 16, 16), (count, 16, 8))
    )
    exact = a.astype(float) @ b.astype(float)
    # the errors of a sum are proportional to the sum of |a| |b|
    magnitude = np.abs(a).astype(float) @ np.abs(b).astype(float)
    c = Output("c", exact.astype(np.float32), allowed=_ALLOWED * magnitude)
    columns = np.ascontiguousarray(b.transpose(0, 2, 1))
    return launch("multiply", a, columns, c, grid=count, block=32)


# What is high in the factors of the three products: another part of a times high_b, and so on.
_RIGHT = [(False, True), (True, False), (True, True)]


def _list_products(attempt: Attempt, sums: str = r"\w+") -> list[tuple[bool, bool]]:
    """Return for each different product that is added to these sums whether its factors are high_a and high_b; sorted.

    Without the name of high_a or high_b among its factors, a kernel has other names: then [].
    """
    pairs = {*re.findall(rf"\bmma\({sums}, (\w+), (\w+)\);", attempt.source)}
    are_high = sorted((a == "high_a", b == "high_b") for a, b in pairs)
    return are_high if (True, True) in are_high else []


# "e[i] / 2048 / 2048" or "e[i] / (2048 * 2048)"; the group with a digit is the number.
_TWICE = re.compile(
    r"\b(\w+)\[\w+\] / (?:(?P<n>[1-9]\d*)\.?0?f? / (?P=n)\b|\((?P<m>[1-9]\d*)\.?0?f? \* (?P=m)\b)"
)


def _describe_division(attempt: Attempt) -> str:
    """Return the sentence if sums of products with one enlarged factor are divided twice by its factor; or ""."""
    division = _TWICE.search(attempt.source)
    number = division and (division["n"] or division["m"])
    if not division or not re.search(rf"\b{number} \* |\* {number}\b", attempt.source):
        return ""
    factors = re.findall(rf"\bmma\({division[1]}, (\w+), (\w+)\);", attempt.source)
    # each has a high part, which is not enlarged, and another one
    if not factors or any((a == "high_a") == (b == "high_b") for a, b in factors):
        return ""
    line = find_line(attempt.source, division.start())
    return (
        f"Each product in `{division[1]}` has one factor that is {number} times too large; the other is a high part. "
        f"Line {line} divides by {number} twice: once is enough."
    )


def _find_other_sums(attempt: Attempt) -> str:
    """Return the name of sums that products are added to and that nothing else reads, as "e" in mma(e, a, b); or ""."""
    for name in dict.fromkeys(re.findall(r"\bmma\((\w+), ", attempt.source)):
        used = re.sub(rf"\bmma\({name}, |\bfloat {name}\[", "", attempt.source)
        if name != "d" and not re.search(rf"\b{name}\b", used):
            return name
    return ""


# A number of a pair minus the half of one of them: "v.y - __half2float(__float2half_rn(v.x))".
_REST = re.compile(r"\b(\w+)\.([xy]) - __half2float\(__float2half(?:_rn)?\(\1\.([xy])\)\)")


def _describe_other_rest(attempt: Attempt) -> str:
    """Return the sentence for the first number from which the half of the other one is subtracted; or ""."""
    for rest in _REST.finditer(attempt.source):
        name, member, other = rest.groups()
        if member != other:
            line = find_line(attempt.source, rest.start())
            return (
                f"Line {line} subtracts the half of {name}.{other} from {name}.{member}. A low part is what the half "
                f"of the same number leaves: subtract that of {name}.{member}."
            )
    return ""


EXERCISE = Exercise(
    title="Three products",
    subject=Kernels(
        multiply,
        (Case("a product", (1,)), Case(_ON, (_COUNT,), counted=True)),
        hidden=(range(1, 9),),
    ),
    lines=14,
    goals=(
        counted(
            "matrix_operations",
            _ON,
            what="products on tensor cores",
            exactly=3 * _COUNT,
            least={"unique_bytes": 4 * _COUNT * (256 + 128 + 128)},
            # Six loads and two stores of a warp: sums without tensor cores take what other lanes have.
            most={"busiest_warp": 8 + 4, "lane_exchanges": 0},
        ),
    ),
    mistakes=(
        Mistake(
            lambda attempt: (
                f"Products are added to `{_find_other_sums(attempt)}`, and nothing adds these sums to what is stored. "
                "All three products can be added to the same d."
            ),
            lambda attempt: attempt.wrong.startswith("right") and _find_other_sums(attempt),
        ),
        Mistake(
            _describe_other_rest,
            lambda attempt: attempt.wrong.startswith("right") and _describe_other_rest(attempt),
        ),
        Mistake(
            _describe_division,
            lambda attempt: attempt.wrong.startswith("right") and _describe_division(attempt),
        ),
        Mistake(
            "The low part is what the high part leaves: the float minus its half, converted back to a float. Then "
            "that is rounded to a half.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.source.count("mma(") > 2
                and "half2float" not in attempt.source
            ),
        ),
        Mistake(
            "Two of three products are there, so one factor counts with its high part alone. Both have a low part, "
            "and each low part is multiplied by the other factor's high part.",
            lambda attempt: attempt.wrong.startswith("right") and attempt.source.count("mma(") == 3,
        ),
        Mistake(
            "The three products are the right ones, so a low part is wrong. It is what the high part of the same "
            "float leaves, and its words stand in the order of those of the high part.",
            lambda attempt: (
                attempt.wrong.startswith("right") and _list_products(attempt, "d") == _RIGHT
            ),
            vague=True,
        ),
        Mistake(
            "Three products, but not the three that matter. Write i for high (0) and low (1) of a, j for b: the "
            "product of parts i and j is about 2^(-11 (i + j)) of the whole, so those with i + j < 2 are needed.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.source.count("mma(") == 4
                and _list_products(attempt) not in ([], _RIGHT)
            ),
        ),
        Mistake(
            "The result is as exact as asked for, with one product too many: low times low is 2^-22 of the whole.",
            lambda attempt: attempt.count("matrix_operations", _ON) > 3 * _COUNT,
        ),
    ),
)
