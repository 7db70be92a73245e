"""The recorded times of cuDNN, in `data/cudnn/`. `recording.cudnn` measures them."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from labkit.base.errors import LabError
from labkit.spec.layers import layer

MODES = {"float32": "fp32", "tf32": "tf32", "float16": "fp16"}  # what a caller says -> what the file says


def best_times(times: pd.DataFrame, network: str | Iterable[str] | None = None,
               dtype: str | Iterable[str] | None = None, batch: int = 10_000) -> pd.DataFrame:
    """Return the best time of each mode and layer over all layouts; `Recorded.cudnn` has the parameters and columns."""
    rows = times[times["batch"] == batch]
    for column, choice in (("network", network), ("mode", dtype)):
        if choice is not None:
            values = [choice] if isinstance(choice, str) else choice
            rows = rows[rows[column].isin([MODES.get(value, value) for value in values])]
    if rows.empty:
        recorded = "; ".join(f"{name}: {', '.join(map(str, times[name].unique()))}" for name in ("network", "batch"))
        request = ", ".join(str(value) for value in (network, dtype) if value is not None) or "any layer"
        recorded = f"{recorded}; dtype: {', '.join(MODES)}"
        raise LabError(f"cuDNN was not measured for {request} at batch {batch}. There are {recorded}")
    order = rows["mode"].map({mode: i for i, mode in enumerate(MODES.values())})
    rows = rows.assign(order=order).groupby(["order", "mode", "network", "layer"], as_index=False)["median_ms"].min()
    layers = [layer(row.network, row.layer) for row in rows.itertuples()]
    dtypes = ["float16" if mode == "fp16" else "float32" for mode in rows["mode"]]
    device = times["device"].iloc[0]
    reference = [at.reference_ms(batch, dtype, device) for at, dtype in zip(layers, dtypes, strict=True)]
    return pd.DataFrame({
        "label": "cuDNN " + rows["mode"].str.upper(),
        "network": rows["network"],
        "layer": [at.name for at in layers],
        "batch": batch,
        "dtype": dtypes,
        "op_ms": rows["median_ms"],
        "x_reference": rows["median_ms"] / reference,
        "device": device,
    })
