"""Tables of variants, with the options as text, as values, or as columns of their own."""

from __future__ import annotations

import pandas as pd

# A sweep: a row per point. `with_options` adds a column per option.
SWEEP = (
    "date", "device", "engine", "software", "rung", "label", "options", "code", "layer", "batch", "dtype", "op_ms",
    "op_min_ms", "op_max_ms", "x_reference", "repeat", "registers", "local_bytes", "shared_bytes", "threads", "reason",
)


def sweep_table(rows: list[dict] | pd.DataFrame) -> pd.DataFrame:
    """Return the table of a sweep: the columns `SWEEP`, and one per option."""
    frame = pd.DataFrame(rows).reindex(columns=SWEEP)
    for name in ("code", "reason"):  # an older record has no code, nor has a combination that is not a variant
        frame[name] = frame[name].astype(object).fillna("")
    return with_options(frame)


def with_options(frame: pd.DataFrame) -> pd.DataFrame:
    """Add a column for each option that the column "options" names: to a sweep, or to recorded results."""
    frame = frame.copy()
    rows = [_split_words(text) for text in frame["options"].astype(object).fillna("")]
    for name in dict.fromkeys(name for options in rows for name in options):
        values = [int(row[name]) if row.get(name, "").isdigit() else row.get(name) for row in rows]
        frame[name] = pd.Series(values, frame.index, dtype=object).infer_objects()
    return frame


def options(text: str) -> dict[str, int | str | tuple[int, ...]]:
    """Return the options in a text such as "rows=8 block=32x8": integers, tuples of them, or words."""
    return {name: _read_value(value) for name, value in _split_words(text).items()}


def kernels_ms(text: str | float) -> dict[str, float]:
    """Return the time of each kernel [ms] in a text such as "im2col=1.2 gemm=3.4"; nothing for a missing value."""
    return {name: float(ms) for name, ms in _split_words(text).items()} if isinstance(text, str) else {}


def _split_words(text: str) -> dict[str, str]:
    return {name: value for name, _, value in (part.partition("=") for part in text.split())}


def _read_value(text: str) -> int | str | tuple[int, ...]:
    numbers = text.split("x")
    if not all(part.isdigit() for part in numbers):
        return text
    return int(text) if len(numbers) == 1 else tuple(map(int, numbers))
