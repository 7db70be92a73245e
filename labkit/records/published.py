"""Times that the course's reports published, in `data/published/`."""

from __future__ import annotations

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.records import store


def published(network: str | None = None, step: str | None = None, report: str | None = None) -> pd.DataFrame:
    """Return the op times that the course's reports published.

    Parameters
    ----------
    network : str, optional
        "lenet86" or "lenet72"; the training times of "lenet28" are in `published_training`.
    step : str, optional
        A part of the step's name, upper or lower case: "tiled".
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
    table = _read_published("op_times.csv", "network", "step", "report", "op1_ms")
    rows = table
    for name, value in (("network", network), ("report", report)):
        rows = rows if value is None else rows[rows[name] == value]
    if step is not None:
        rows = rows[rows["step"].str.contains(step, case=False, regex=False)]
    if rows.empty:
        groups = table.groupby(["report", "network"])["step"].unique()
        choices = "; ".join(f"{' '.join(name)}: {', '.join(steps)}" for name, steps in groups.items())
        request = {"network": network, "step": step, "report": report}
        wanted = ", ".join(f"{name} {value}" for name, value in request.items() if value is not None)
        raise LabError(f"nothing was published for {wanted}. There is {choices}")
    return rows.reset_index(drop=True)


def published_training() -> pd.DataFrame:
    """Return report 001's training times: report, network, step, epochs, train_s, test_accuracy_pct, and more."""
    return _read_published("training.csv", "network", "step", "kernel_us")


def _read_published(name: str, *needed: str) -> pd.DataFrame:
    return store.stored(data_dir() / "published" / name, *needed, dtype={"report": str})
