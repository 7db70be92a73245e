"""Recorded times and accuracies of training lenet28, in `data/training/`."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.records import store
from labkit.records.published import published_training

KEY = ["device", "kind", "dataset", "experiment"]
DIGITS = "digits"  # the data set of a figure, if no other is named
PUBLISHED = {  # report 001's name of an experiment -> the lab's
    "for loops": "loops",
    "atomic operations": "atomics",
    "temporary register": "register",
    "unrolled loops": "unrolled",
    "shared mask": "shared_mask",
    "shared mask + input": "shared_input",
}


class Training:
    """The recorded training of lenet28 on one device: `recorded("H200").training`.

    Attributes
    ----------
    table : DataFrame
        All rows; data/training/README.md says what they hold.
    device, date : str
        The device's full name; the date of the latest measurement, ISO.
    """

    def __init__(self, path: Path):
        """Read a device's file of data/training/."""
        self.table = store.read_as_stored(path, *KEY, "date")
        self.device = str(self.table["device"].iloc[0])
        self.date = str(self.table["date"].max())

    def __repr__(self) -> str:
        return f"{self.device}, training recorded {self.date}"

    def rows(
        self,
        kind: str,
        experiment: str | None = None,
        batch: int | None = None,
        dataset: str | None = None,
    ) -> pd.DataFrame:
        """Return the rows of a kind, such as "kernel" or "epoch", without empty columns.

        The other arguments are values of columns, None for any. An experiment is a version of the
        training's code: "shared_mask". Raises LabError if no row has these values; the message
        lists those that there are.
        """
        rows = store.choose(
            self.table,
            f"{self} has no rows",
            kind=kind,
            experiment=experiment,
            batch=batch,
            dataset=dataset,
        )
        return rows.dropna(axis="columns", how="all")

    def kernel_us(self, batch: int = 1, dataset: str = DIGITS) -> pd.DataFrame:
        """Return each kernel's time per step of `batch` images [µs]: a row per experiment, a column per kernel.

        NaN if the experiment lacks the kernel. An experiment is a version of the training's code:
        "shared_mask".
        """
        rows = self.rows("kernel", batch=batch, dataset=dataset)
        table = rows.pivot_table(index="experiment", columns="kernel", values="us", sort=False)
        return table.rename_axis(index=None, columns=None)

    def beside_published(self) -> pd.DataFrame:
        """Return the times that report 001 published beside those recorded here: kernel, label, us, published_us.

        Report 001 is a published report on optimizing lenet28's training; it timed two of the kernels.
        The last row is the experiment "shuffle", which the report did not try: its published_us is
        None.
        """
        us, published = self.kernel_us(), published_training().dropna(subset="kernel_us")
        # The report's "fp_preact_c1" is "fp_c1" here. PUBLISHED: its name of a version -> ours.
        kernels = published["kernel"].str.replace("preact_", "")
        rows = [
            (kernel, PUBLISHED[row.step], us.loc[PUBLISHED[row.step], kernel], row.kernel_us)
            for kernel, row in zip(kernels, published.itertuples(), strict=True)
        ]
        rows.append(("bp_weight_c1", "shuffle", us.loc["shuffle", "bp_weight_c1"], None))
        return pd.DataFrame(rows, columns=["kernel", "label", "us", "published_us"])

    def steps(self, *experiments: str) -> pd.DataFrame:
        """Return where a step of one image spends its time, a row per experiment.

        The columns: launches, kernels_us (all kernels of a step), step_us, per_launch_us, seconds
        (of the epoch).
        """
        rows = pd.concat(
            [self.rows("epoch", name, batch=1, dataset=DIGITS) for name in experiments],
            ignore_index=True,
        )
        # `.array` has no index, so that the sums go to the rows in their order
        rows["kernels_us"] = self.kernel_us().sum(axis=1)[rows["experiment"]].array
        rows["step_us"] = rows["seconds"] / rows["images"] * 1e6
        rows["per_launch_us"] = rows["step_us"] / rows["launches"]
        # of a step; read as floats, because rows of other kinds have none
        rows["launches"] = rows["launches"].astype(int)
        return rows[["experiment", "launches", "kernels_us", "step_us", "per_launch_us", "seconds"]]

    def epoch_s(
        self, experiment: str, batch: int | None = 1, dataset: str = DIGITS
    ) -> float | pd.Series:
        """Return the time of an epoch of 60,000 images [s]; if the batch is None, a Series indexed by the batches."""
        rows = self.rows("epoch", experiment, batch, dataset)
        return (
            float(rows["seconds"].iloc[0])
            if batch
            else rows.set_index(rows["batch"].astype(int))["seconds"]
        )

    def accuracy(
        self, experiment: str | None = None, batch: int | None = None, dataset: str = DIGITS
    ) -> pd.DataFrame:
        """Return accuracies on held-out images, one row per training.

        The columns: experiment, batch, rate (learning rate), epochs, seconds (of training), accuracy
        (0 to 1).
        """
        return self.rows("accuracy", experiment, batch, dataset)

    def accuracy_curves(self, dataset: str = DIGITS) -> dict[str, pd.Series]:
        """Return the accuracies as lines: "100 per step, rate 0.1" -> a Series, indexed by the epochs."""
        return {
            f"{int(batch)} per step, rate {rate}": rows.set_index(rows["epochs"].astype(int))[
                "accuracy"
            ]
            for (batch, rate), rows in self.accuracy(dataset=dataset).groupby(["batch", "rate"])
        }

    @property
    def launch_us(self) -> float:
        """The host's time for a launch, in microseconds."""
        return float(self.rows("launch")["us"].iloc[0])

    @property
    def contention_us(self) -> pd.DataFrame:
        """The time in which many threads add to shared addresses [µs]: a row per number of threads per address.

        A column per pattern, "neighbours" or "apart": which threads have an address in common.
        """
        # "experiment" is the pattern, "share" the threads that share an address
        rows = self.rows("contention").astype({"share": int})
        return rows.pivot_table(
            index="share", columns="experiment", values="us", sort=False
        ).rename_axis(columns=None)


def read_training(folder: Path, name: str) -> Training:
    """Open the training that was recorded on the device `name`; `folder` is `data/`.

    LabError if there is none.
    """
    if not any((folder / "training").glob("*.csv")):
        raise LabError(
            f"no training was recorded in {folder}; on a GPU: python -m recording training"
        )
    return Training(store.find_file(folder / "training", name))
