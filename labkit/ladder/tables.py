"""Tables of variants, with the options as text, as values, or as columns of their own."""

from __future__ import annotations

import pandas as pd

# A sweep: a row per point. `with_options` adds a column per option.
SWEEP = (
    "date",
    "device",
    "engine",
    "software",
    "rung",
    "label",
    "options",
    "code",
    "layer",
    "batch",
    "dtype",
    "op_ms",
    "op_min_ms",
    "op_max_ms",
    "x_reference",
    "repeat",
    "registers",
    "local_bytes",
    "shared_bytes",
    "threads",
    "reason",
)


def sweep_table(rows: list[dict] | pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a sweep, dicts by column, as a table with the columns `SWEEP` and one per option.

    A sweep times a kernel with many combinations of options, a row each: device, label, layer, op_ms, ...
    """
    frame = pd.DataFrame(rows).reindex(columns=SWEEP)
    # missing in older records and in rows of combinations that are no variants
    for name in ("code", "reason"):
        frame[name] = frame[name].astype(object).fillna("")
    return with_options(frame)


def with_options(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a copy of a table with a column for each option in its texts "options", such as "rows=8 block=32x8"."""
    frame = frame.copy()
    # a dict of texts per row
    rows = [_split_words(text) for text in frame["options"].astype(object).fillna("")]
    for name in dict.fromkeys(name for options in rows for name in options):
        values = [
            int(row[name]) if row.get(name, "").isdecimal() else row.get(name) for row in rows
        ]
        # None where a row lacks the option; the type becomes int64 where all values are integers
        frame[name] = pd.Series(values, frame.index, dtype=object).infer_objects()
    return frame


def as_options(text: str) -> dict[str, int | str | tuple[int, ...]]:
    """Return the options in a text such as "rows=8 block=32x8": integers, tuples of them, or words."""
    return {name: _read_value(value) for name, value in _split_words(text).items()}


def parse_kernel_times(text: str | float) -> dict[str, float]:
    """Return the time of each kernel [ms] in a text such as "im2col=1.2 gemm=3.4"; {} for a missing text, NaN."""
    return (
        {name: float(ms) for name, ms in _split_words(text).items()}
        if isinstance(text, str)
        else {}
    )


def _split_words(text: str) -> dict[str, str]:
    """Return "rows=8 block=32x8" as {"rows": "8", "block": "32x8"}."""
    return {name: value for name, _, value in (word.partition("=") for word in text.split())}


def _read_value(text: str) -> int | str | tuple[int, ...]:
    """Return "8" as 8, "32x8" as (32, 8), and any other text as it is."""
    numbers = text.split("x")
    if not all(number.isdecimal() for number in numbers):
        return text
    return int(text) if len(numbers) == 1 else tuple(map(int, numbers))
