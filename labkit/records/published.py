"""Times that the course's reports published, in `data/published/`."""

from __future__ import annotations

import pandas as pd

from labkit.base.paths import data_dir
from labkit.records import store


def published(
    network: str | None = None, step: str | None = None, report: str | None = None
) -> pd.DataFrame:
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
        report, gpu, network, step, batch, op1_ms, op2_ms (op time of layers 1 and 2), total_s
        (whole program), accuracy, note (what makes a row differ from the others).

    Raises
    ------
    LabError
        If no report has such a row.
    """
    path = data_dir() / "published" / "op_times.csv"
    table = store.read_as_stored(path, "network", "step", "report", "op1_ms", dtype={"report": str})
    steps = None
    # If no step has the text, `or` leaves the text itself: `choose` refuses it, and its message names it.
    if step is not None:
        steps = [name for name in table["step"].unique() if step.lower() in name.lower()] or step
    return store.choose(table, "nothing was published", network=network, report=report, step=steps)


def published_training() -> pd.DataFrame:
    """Return report 001's training times: a row per network's training, or per kernel in one of its versions.

    The columns are report, network, step (the version), epochs, train_s, test_accuracy_pct, kernel
    and kernel_us; NaN where a row has none.
    """
    path = data_dir() / "published" / "training.csv"
    return store.read_as_stored(path, "network", "step", "kernel_us", dtype={"report": str})
