"""Trace the kernels, copies and API calls of a part of a program, with their times.

On a GPU the records come from CUPTI, on the CPU engine from the engine's own trace. The tables are
the same.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

import hostcuda
from labkit.spec.devices import device

COLUMNS = ["kind", "name", "start_ms", "duration_ms", "bytes", "stream"]


class Trace:
    """A recording of the kernels, copies and API calls inside a ``with`` block.

    Attributes
    ----------
    records : DataFrame
        A row per kernel, copy or API call: ``kind`` ("kernel", "copy" or "api"), ``name``,
        ``start_ms`` (since the first record), ``duration_ms``, ``bytes`` (of copies), ``stream``.

    Examples
    --------
    >>> with labkit.trace() as trace:
    ...     network.forward(images)
    >>> trace.top("device")
    """

    records: pd.DataFrame

    def __enter__(self) -> Trace:
        """Begin to record."""
        hostcuda.activity.start()
        return self

    def __exit__(self, *exception: object) -> None:
        """Wait for the device, end the recording, and set `records`, whose times begin with the first event."""
        try:
            hostcuda.driver.Context.synchronize()
        finally:  # the recording ends also if a kernel of the block has failed
            events = hostcuda.activity.stop()
        # (kind, name, start [s], duration [s], bytes, stream): by start
        events.sort(key=lambda record: record[2])
        first_start = events[0][2] if events else 0.0
        rows = [
            (kind, name, (start - first_start) * 1e3, duration * 1e3, *rest)
            for kind, name, start, duration, *rest in events
        ]
        self.records = pd.DataFrame(rows, columns=COLUMNS)

    def summary(self) -> pd.DataFrame:
        """Return a table of the total time of each kernel, copy and API call, by name, the longest first.

        Returns
        -------
        DataFrame
            ``side`` ("device" or "api"), ``kind``, ``name``, ``calls``, ``total_ms``, ``mean_ms``;
            ``share`` of the total time of its side (kernels and copies, or API calls), and the
            ``cumulative`` share. Do not add the shares of the two sides: they overlap in time,
            because an API call usually waits while a kernel runs.
        """
        sided = self.records.assign(side=np.where(self.records["kind"] == "api", "api", "device"))
        table = sided.groupby(["side", "kind", "name"], as_index=False).agg(
            calls=("duration_ms", "size"),
            total_ms=("duration_ms", "sum"),
            mean_ms=("duration_ms", "mean"),
        )
        table = table.sort_values(["side", "total_ms"], ascending=[False, False], ignore_index=True)
        by_side = table.groupby("side")["total_ms"]
        table["share"] = table["total_ms"] / by_side.transform("sum")
        table["cumulative"] = table.groupby("side")["share"].cumsum()
        table.attrs["note"] = device().note
        return table

    def top(self, side: str, share: float = 0.9) -> pd.DataFrame:
        """Return the fewest kernels and copies, or API calls, that together take at least `share` of their time.

        They are the first rows of `summary` for the `side`, "device" or "api", without its column
        ``side``.
        """
        table = self.summary()
        share_before = table.groupby("side")["cumulative"].shift(fill_value=0.0)
        # the rows before do not reach it yet
        needed = table.loc[(table["side"] == side) & (share_before < share)]
        return needed.drop(columns="side").reset_index(drop=True)


def trace() -> Trace:
    """Record the kernels, copies and API calls of a ``with`` block; see :class:`Trace`."""
    return Trace()
