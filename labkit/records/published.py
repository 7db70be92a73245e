"""Published times, to stand beside the lab's own: those of the course's reports, and the library's (cuDNN).

They are tables in `data/published/`; what the lab records leaves them alone.
"""

from __future__ import annotations

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.spec.layers import layer


def published(network: str | None = None, step: str | None = None, report: str | None = None) -> pd.DataFrame:
    """The op times that the course's reports published.

    Parameters
    ----------
    network : str, optional
        "lenet86" or "lenet72"; the training times of "lenet28" are in `published_training`.
    step : str, optional
        A part of the step's name, in either case: "tiled".
    report : str, optional
        "000", "002", "003" or "004".

    Returns
    -------
    DataFrame
        report, gpu, network, step, batch, op1_ms, op2_ms (op time of layers 1 and 2), total_s (whole
        program), accuracy, note (what makes a row differ from the others).

    Raises
    ------
    LabError
        If no report has such a row.
    """
    table = _published("op_times.csv")
    rows = table
    for name, value in (("network", network), ("report", report)):
        rows = rows if value is None else rows[rows[name] == value]
    if step is not None:
        rows = rows[rows["step"].str.contains(step, case=False, regex=False)]
    if rows.empty:
        groups = table.groupby(["report", "network"])["step"].unique()
        there = "; ".join(f"{' '.join(name)}: {', '.join(steps)}" for name, steps in groups.items())
        asked = {"network": network, "step": step, "report": report}
        wanted = ", ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        raise LabError(f"nothing was published for {wanted}. There is {there}")
    return rows.reset_index(drop=True)


def published_training() -> pd.DataFrame:
    """The training times that report 001 published: report, network, step, epochs, train_s, test_accuracy_pct, …"""
    return _published("training.csv")


def cudnn_times() -> pd.DataFrame:
    """cuDNN 9.19 on one H200, through PyTorch 2.11: network, layer (1 or 2), batch, mode, median_ms of 20
    runs.

    The mode names the precision and, with "cl", channels-last order; each is the best algorithm of cuDNN's
    autotuner.
    """
    return _published("cudnn_h200.csv")


def cudnn(network: str, batch: int, dtype: str = "float32") -> pd.DataFrame:
    """cuDNN's best time for each layer in one precision, to stand beside the ladder's rows.

    Parameters
    ----------
    network : str
    batch : int
        100, 1000 or 10000.
    dtype : {"float32", "tf32", "float16"}
        Of x, k and y. "tf32" is float32 with TF32 products, which PyTorch allows by default for convolutions; "float32"
        is without them.

    Returns
    -------
    DataFrame
        A row per layer: label, layer, batch, dtype (of x, k and y), op_ms, x_reference (over the reference time of an
        H200 in that type), device.

    Raises
    ------
    LabError
        If there is no such measurement.
    """
    table, mode = cudnn_times(), str(dtype).replace("float", "fp")
    stored = "float32" if mode == "tf32" else dtype
    rows = table[(table["network"] == network) & (table["batch"] == batch) & table["mode"].isin([mode, f"{mode}cl"])]
    if rows.empty:
        raise LabError(f"cuDNN was not measured for {network} in {dtype} at batch {batch}; see `cudnn_times()`")
    best = rows.groupby("layer", as_index=False)["median_ms"].min()
    layers = [layer(network, number) for number in best["layer"]]
    reference = [each.reference_ms(batch, stored, "H200") for each in layers]
    return pd.DataFrame({
        "label": f"cuDNN {mode.upper()}",
        "layer": [each.name for each in layers],
        "batch": batch,
        "dtype": stored,
        "op_ms": best["median_ms"],
        "x_reference": best["median_ms"] / reference,
        "device": "NVIDIA H200",
    })  # fmt: skip


def _published(name: str) -> pd.DataFrame:
    path = data_dir() / "published" / name
    if not path.is_file():
        raise LabError(f"{path} is missing; restore it with `git checkout -- data/published`")
    return pd.read_csv(path, dtype={"report": str})
