"""Numbers: with three significant digits, as tables, figures and prose show them; whole ones, as arguments."""

import math
from numbers import Integral

from hostcuda.tables import format_digits

__all__ = ["format_digits", "is_whole", "ms", "shorten", "times"]


def is_whole(value: object, least: int = 1, most: float = math.inf) -> bool:
    """Return whether a value is an integer within these limits, Python's or NumPy's.

    A bool is not one.
    """
    return (
        isinstance(value, Integral) and not isinstance(value, bool) and least <= int(value) <= most
    )


def shorten(value: object) -> str:
    """Return the first 40 characters of a value as `repr` writes it, for a message that refuses the value.

    Python refuses to print an integer of more than 4,300 digits: the text is then "this number".
    """
    try:
        return f"{value!r:.40}"
    except ValueError:
        return "this number"


def ms(value: float) -> str:
    """Return milliseconds as text with three digits, in seconds, milliseconds or microseconds: "3.71 ms"."""
    if value >= 9995:  # with three digits 10.0 s, or more
        return f"{format_digits(value / 1000)} s"
    if value >= 0.0995:  # from about 0.1 ms
        return f"{format_digits(value)} ms"
    return f"{format_digits(value * 1000)} µs"


def times(value: float) -> str:
    """Return a factor as text with three digits, "15.6×" or "0.0123×"; from 0.1 to 1 with two decimals, "0.61×"."""
    return f"{value:.2f}×" if 0.0995 <= value < 0.995 else f"{format_digits(value)}×"
