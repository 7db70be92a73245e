"""The recorded times of cuDNN, in `data/cudnn/`. `recording.cudnn` measures them."""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from labkit.records import store
from labkit.spec.layers import layer

MODES = {"float32": "fp32", "tf32": "tf32", "float16": "fp16"}  # what a caller says -> what the file says


def best_times(times: pd.DataFrame, network: str | Iterable[str] | None = None,
               dtype: str | Iterable[str] | None = None, batch: int = 10_000) -> pd.DataFrame:
    """Return the best time of each mode and layer over all layouts; `Recorded.cudnn` has the parameters and columns."""
    said = {mode: name for name, mode in MODES.items()}
    known = times.assign(dtype=times["mode"].map(said))
    rows = store.choose(known, f"data/cudnn has no time of {times['device'].iloc[0]}",
                        network=network, dtype=dtype, batch=batch)
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
