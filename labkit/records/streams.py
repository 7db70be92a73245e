"""Recorded layer times of chunks on streams, in `data/streams/`, and when each step ran, in its `timelines/`."""

from __future__ import annotations

import datetime
from pathlib import Path

import pandas as pd

from labkit.base.paths import data_dir
from labkit.records import store
from labkit.spec.devices import device

KEY = ["device", "label", "layer", "batch", "dtype", "pinned", "streams", "order", "chunk", "sizes"]
LINES = ["device", "label", "layer", "batch", "pinned", "streams", "order", "chunk_images"]


def record_streams(table: pd.DataFrame, timelines: pd.DataFrame, folder: Path | str | None = None) -> Path:
    """Merge measurements of the device in use into its two files, and return the file of the times.

    A new row replaces that of the same configuration. `table` is as `bench_streams` returns it, `timelines` as
    `Pipeline.timeline`, with the columns `LINES` except the device; `folder` is in place of `data/`.
    """
    here, folder = device(), Path(folder or data_dir()) / "streams"
    about = {"device": here.name, "date": datetime.date.today().isoformat(), "software": here.software}
    for part, rows, key in (("", table, KEY), ("timelines", timelines, LINES)):
        store.merge(folder / part / f"{here.slug}.csv", store.named(rows).assign(**about), key)
    return folder / f"{here.slug}.csv"
