"""Numbers with three significant digits, as tables, figures and prose show them."""

import math


def ms(value: float) -> str:
    """Milliseconds with three digits, in seconds, milliseconds or microseconds: "3.71 ms"."""
    if value >= 9995:
        return f"{three(value / 1000)} s"
    if value >= 0.0995:
        return f"{three(value)} ms"
    return f"{three(value * 1000)} µs"


def times(value: float) -> str:
    """A factor with three digits, at most two of them decimals: "15.6×", "0.61×"; smaller ones in full: "0.0123×"."""
    return f"{value:.2f}×" if 0.0995 <= value < 0.995 else f"{three(value)}×"


def three(value: float) -> str:
    """A number with three digits, or as an integer: "80.0", "1,234"."""
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    if abs(round(value, digits)) >= 10 ** (3 - digits):  # 9.995 is 10.0
        digits -= 1
    return f"{value:,.{max(0, digits)}f}"
