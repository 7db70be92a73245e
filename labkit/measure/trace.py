"""Where the time goes: the kernels, copies and API calls of a stretch of a program.

On a GPU the records come from CUPTI, on the CPU engine from the engine's own trace; the tables are the same.
"""

from __future__ import annotations

import time

import pandas as pd

from labkit import cuda
from labkit.spec.devices import device

COLUMNS = ("kind", "name", "start", "duration", "bytes", "stream")


class Trace:
    """Record what runs inside a ``with`` block.

    Attributes
    ----------
    records : DataFrame
        One row a kernel, copy or API call: ``kind`` ("kernel", "copy" or "api"), ``name``, ``start_ms`` (from
        the first record), ``duration_ms``, ``bytes`` (copies), ``stream``.
    wall_ms : float
        Time on the host's clock between entering and leaving the block.

    Examples
    --------
    >>> with labkit.trace() as trace:
    ...     network.forward(images)
    >>> trace.top("device")
    """

    records: pd.DataFrame
    wall_ms: float

    def __enter__(self) -> Trace:
        cuda.activity.start()
        self._entered = time.perf_counter()
        return self

    def __exit__(self, *exception) -> None:
        try:
            cuda.driver.Context.synchronize()
        finally:  # a kernel of the block may have failed: the recording ends all the same
            self.wall_ms = (time.perf_counter() - self._entered) * 1e3
            recorded = cuda.activity.stop()
        records = pd.DataFrame(recorded, columns=COLUMNS).sort_values("start", ignore_index=True)
        first = records["start"].min() if len(records) else 0.0
        records["start_ms"] = (records.pop("start") - first) * 1e3
        records["duration_ms"] = records.pop("duration") * 1e3
        self.records = records.loc[:, ["kind", "name", "start_ms", "duration_ms", "bytes", "stream"]]

    def summary(self) -> pd.DataFrame:
        """Time by name, longest first.

        Returns
        -------
        DataFrame
            ``side`` ("device" or "api"), ``kind``, ``name``, ``calls``, ``total_ms``, ``mean_ms``; ``share`` of
            the time of all activity of the device (kernels and copies together) or of all API calls, and the
            ``cumulative`` share down the list. The two sides overlap in time, so their shares are never added:
            while a kernel runs, some API call usually waits for it.
        """
        side = self.records["kind"].replace({"kernel": "device", "copy": "device"})
        groups = self.records.assign(side=side)
        table = groups.groupby(["side", "kind", "name"], as_index=False).agg(
            calls=("duration_ms", "size"), total_ms=("duration_ms", "sum"), mean_ms=("duration_ms", "mean")
        )
        table = table.sort_values(["side", "total_ms"], ascending=[False, False], ignore_index=True)
        by_side = table.groupby("side")["total_ms"]
        table["share"] = table["total_ms"] / by_side.transform("sum")
        table["cumulative"] = table.groupby("side")["share"].cumsum()
        table.attrs["note"] = device().note
        return table

    def top(self, side: str, share: float = 0.9) -> pd.DataFrame:
        """The fewest names that together take at least `share` of one side's time.

        Parameters
        ----------
        side : {"device", "api"}
            Kernels and copies, or API calls.
        share : float
            0 to 1.

        Returns
        -------
        DataFrame
            The first rows of :meth:`summary` for that side.
        """
        table = self.summary()
        table = table.query("side == @side").reset_index(drop=True)
        enough = table["cumulative"].shift(fill_value=0.0) < share
        return table.loc[enough].drop(columns="side")


def trace() -> Trace:
    """Record the kernels, copies and API calls of a ``with`` block; see :class:`Trace`."""
    return Trace()
