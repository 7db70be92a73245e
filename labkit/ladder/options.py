"""The options of the rungs: what a reader can choose, and how a value is validated."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hostcuda.limits import MAX_THREADS, WARP
from labkit.base.errors import LabError
from labkit.base.numerals import is_whole


@dataclass(frozen=True)
class Option:
    """One option of a rung."""

    default: object
    about: str  # what it means
    # takes a name and a value; returns the value or raises LabError
    validate: Callable[[str, object], object]
    # values of which one needs the least shared memory; () if it does not depend on the option
    least: tuple = ()


def format_option(value: object) -> str:
    """Return an option's value as text, as labels and results write it: a pair is "32x8"."""
    return "x".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)


def join_options(options: Mapping[str, object]) -> str:
    """Return options as text, "block=16x16 tile=16", without those that are None."""
    return " ".join(
        f"{name}={format_option(value)}" for name, value in options.items() if value is not None
    )


def block_size(name: str, value: object) -> tuple[int, int]:
    """Return the value of an option, two positive integers, as a block of threads (x, y); else raise LabError."""
    if not (isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_whole, value))):
        raise LabError(
            f"{name}={value!r}: a block is a pair of positive integers (x, y), such as (32, 8)"
        )
    x, y = map(int, value)
    if x * y > MAX_THREADS:
        raise LabError(f"{name}={(x, y)} has {x * y} threads; a block has at most {MAX_THREADS}")
    return x, y


def tile_side(name: str, value: Any) -> int:
    """Return the value of an option as the side of a square tile with a thread per element; else raise LabError."""
    if not is_whole(value):
        raise LabError(
            f"{name}={value!r}: the side of a tile is a positive integer, for example 16"
        )
    if value * value > MAX_THREADS:
        raise LabError(
            f"{name}={value} makes a block of {value}x{value} = {value * value} threads; a block has at "
            f"most {MAX_THREADS}: take {name} <= 32"
        )
    return int(value)


def count_to(largest: float) -> Callable[[str, object], int]:
    """Return a function (option's name, value) that returns an integer from 1 to `largest`, else raises LabError."""
    allowed = "a positive integer" if largest == math.inf else f"an integer from 1 to {largest}"

    def validate(name: str, value) -> int:
        """Return the value of the option `name` as an int if it is allowed; else raise LabError."""
        if not is_whole(value, most=largest):
            raise LabError(f"{name}={value!r}: it has to be {allowed}")
        return int(value)

    return validate


count = count_to(math.inf)
thread_count, warp_count = count_to(MAX_THREADS), count_to(MAX_THREADS // WARP)  # of a block


def or_none(validate: Callable) -> Callable:
    """Return `validate` extended so that it also returns None: the rung then chooses the value for each layer."""
    return lambda name, value: None if value is None else validate(name, value)


BLOCK = Option((16, 16), "threads of a block (x, y): the outputs of a tile", block_size)
TILE = Option(16, "side of a square tile; a block has tile x tile threads", tile_side, (1,))
