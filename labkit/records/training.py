"""Recorded times and accuracies of training lenet28, in `data/training/`."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.records import store
from labkit.records.published import published_training
from labkit.spec.devices import device

KEY = ["device", "kind", "dataset", "experiment"]
DIGITS = "digits"  # the data set that a figure is of, if no other is named
PUBLISHED = {  # what report 001 calls an experiment -> the lab's
    "for loops": "loops", "atomic operations": "atomics", "temporary register": "register",
    "unrolled loops": "unrolled", "shared mask": "shared_mask", "shared mask + input": "shared_input",
}


def record_training(kind: str, experiment: str, rows: Iterable[dict], dataset: str = "none",
                    folder: Path | str | None = None) -> Path:
    """Write a piece of the recording of the device in use; it replaces the same piece of its file, which is returned.

    `kind` is "kernel", "epoch", "accuracy", "launch" or "contention", `experiment` that of `labkit.Lenet28`, of a
    contention the pattern; `rows` are the figures of the kind, see data/training/README.md. `folder` is in place of
    `data/`.
    """
    here = device()
    about = {"device": here.name, "date": datetime.date.today().isoformat(), "software": here.software}
    table = pd.DataFrame([{"kind": kind, "dataset": dataset, "experiment": experiment, **row, **about} for row in rows])
    return store.merge(Path(folder or data_dir()) / "training" / f"{here.slug}.csv", table, KEY)


class Training:
    """What was recorded of training lenet28 on one device: `recorded("H200").training`.

    Attributes
    ----------
    table : DataFrame
        All rows; data/training/README.md says what they hold.
    device, date : str
        The device's full name; of the latest measurement, ISO.
    """

    def __init__(self, path: Path):
        self.table = store.stored(path, *KEY, "date")
        self.device = str(self.table["device"].iloc[0])
        self.date = str(self.table["date"].max())

    def __repr__(self) -> str:
        return f"{self.device}, training recorded {self.date}"

    def rows(self, kind: str, experiment: str | None = None, batch: int | None = None,
             dataset: str | None = None) -> pd.DataFrame:
        """The rows of a kind, without empty columns.

        Raises LabError if there are none; the message lists what there is.
        """
        found = self.table[self.table["kind"] == kind]
        there = ", ".join(found["experiment"].unique()) or f"only {', '.join(self.table['kind'].unique())}"
        wanted = {"experiment": experiment, "batch": batch, "dataset": dataset}
        for name, value in wanted.items():
            found = found if value is None else found[found[name] == value]
        if found.empty:
            asked = ", ".join(f"{name} {value}" for name, value in wanted.items() if value is not None) or "that"
            raise LabError(f"{self} has no {kind!r} rows for {asked}. It has {there}")
        return found.dropna(axis="columns", how="all").reset_index(drop=True)

    def kernel_us(self, batch: int = 1, dataset: str = DIGITS) -> pd.DataFrame:
        """The time of each kernel, in microseconds: a row per experiment, a column per kernel, NaN if it has none."""
        rows = self.rows("kernel", batch=batch, dataset=dataset)
        table = rows.pivot_table(index="experiment", columns="kernel", values="us", sort=False)
        return table.rename_axis(index=None, columns=None)

    def beside_published(self) -> pd.DataFrame:
        """The kernels whose times report 001 published: kernel, label, us (recorded here), published_us; a row without
        the last for the experiment that the report did not try."""
        us, published = self.kernel_us(), published_training().dropna(subset="kernel_us")
        kernels = published["kernel"].str.replace("preact_", "")
        rows = [(kernel, PUBLISHED[row.step], us.loc[PUBLISHED[row.step], kernel], row.kernel_us)
                for kernel, row in zip(kernels, published.itertuples(), strict=True)]
        rows.append(("bp_weight_c1", "shuffle", us.loc["shuffle", "bp_weight_c1"], None))
        return pd.DataFrame(rows, columns=["kernel", "label", "us", "published_us"])

    def steps(self, *experiments: str) -> pd.DataFrame:
        """Where a step of one image spends its time, a row per experiment: launches, kernels_us (all kernels of a
        step), step_us, per_launch_us (step_us over launches), seconds (of the epoch)."""
        rows = pd.concat([self.rows("epoch", each, 1, DIGITS) for each in experiments], ignore_index=True)
        rows["kernels_us"] = self.kernel_us().sum(axis=1)[rows["experiment"]].array
        rows["step_us"] = rows["seconds"] / rows["images"] * 1e6
        rows["per_launch_us"] = rows["step_us"] / rows["launches"]
        rows["launches"] = rows["launches"].astype(int)
        return rows[["experiment", "launches", "kernels_us", "step_us", "per_launch_us", "seconds"]]

    def epoch_s(self, experiment: str, batch: int | None = 1, dataset: str = DIGITS) -> float | pd.Series:
        """The time of an epoch of 60,000 images, in seconds; with None as batch a Series, indexed by the batches."""
        rows = self.rows("epoch", experiment, batch, dataset)
        return float(rows["seconds"].iloc[0]) if batch else rows.set_index(rows["batch"].astype(int))["seconds"]

    def epochs(self, dataset: str = DIGITS) -> pd.DataFrame:
        """Every epoch that was timed: experiment, batch, images, launches (of a step), seconds."""
        return self.rows("epoch", dataset=dataset)

    def accuracy(self, experiment: str | None = None, batch: int | None = None,
                 dataset: str = DIGITS) -> pd.DataFrame:
        """Accuracies on held-out images: experiment, batch, rate, epochs, seconds of training, accuracy (0 to 1)."""
        return self.rows("accuracy", experiment, batch, dataset)

    def accuracy_curves(self, dataset: str = DIGITS) -> dict[str, pd.Series]:
        """The same as lines: "100 per step, rate 0.1" -> accuracies, indexed by the epochs."""
        return {f"{int(batch)} per step, rate {rate}": rows.set_index(rows["epochs"].astype(int))["accuracy"]
                for (batch, rate), rows in self.accuracy(dataset=dataset).groupby(["batch", "rate"])}

    @property
    def launch_us(self) -> float:
        """What a launch costs the host, in microseconds."""
        return float(self.rows("launch")["us"].iloc[0])

    @property
    def contention_us(self) -> pd.DataFrame:
        """The time of the contention kernel, in microseconds: a row per number of threads per address, a column per
        pattern."""
        rows = self.rows("contention").astype({"share": int})
        return rows.pivot_table(index="share", columns="experiment", values="us", sort=False).rename_axis(columns=None)


def read_training(folder: Path, name: str) -> Training:
    """The recording of a device. Raises LabError if there is none."""
    if not any((folder / "training").glob("*.csv")):
        raise LabError(f"no training was recorded in {folder}; on a GPU: python -m recording training")
    return Training(store.one_of(folder / "training", name))
