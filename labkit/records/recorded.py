"""The door to everything that was recorded on a device: `recorded("H200")`."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from hostcuda.metrics import FETCHED, NAMES, QUOTIENTS, RECORDED, STALLED, STALLS, SUMS
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from labkit.ladder.tables import parse_kernel_times
from labkit.ladder.variants import Variant
from labkit.records import results, store, sweeps
from labkit.records.results import COURSE, OWN
from labkit.records.training import Training, read_training
from labkit.spec.devices import device
from labkit.spec.layers import LENET72, LENET86, Layer, as_layer
from labkit.spec.layers import layer as layer_of

LAYERS = (*LENET86, *LENET72)
# cuDNN's modes in the file, and what a caller says
CUDNN = {"fp32": "float32", "tf32": "tf32", "fp16": "float16"}
# One or several kernels and layers; the figures of one or several of each.
Kernels: TypeAlias = int | str | Variant | Iterable[int | str | Variant]
Layers: TypeAlias = Layer | str | Iterable[Layer | str]
Figures: TypeAlias = float | pd.Series | pd.DataFrame
METRICS = {
    **NAMES,
    **RECORDED,
    **FETCHED,
    **{f"stalled_{reason}": STALLED.format(reason) for reason in STALLS},
}


def recorded(name: str, folder: Path | str | None = None) -> Recorded:
    """Open the recordings of a device.

    Parameters
    ----------
    name : str
        The device's name, or a part of it: "H200".
    folder : path, optional
        In place of `data/`.

    Raises
    ------
    LabError
        If there are no results of such a device, or several devices have that name; the message
        lists those recorded.
    """
    return Recorded(name, folder)


class Recorded:
    """The recordings of one device: times, counters, a sweep, chunks on streams; and the library's times.

    Every method takes kernels and layers in the same way. A kernel is a `Variant`, a label ("04
    tiling, tile=32"), or a rung's number or name, for the rung's own kernel with its default
    options. A layer is a `Layer` or its name. A list of kernels or layers gives a table: a row per
    kernel, a column per layer. Every method raises LabError if nothing that was recorded matches,
    or more than one row where one is asked for; the message lists what there is.

    Attributes
    ----------
    table : DataFrame
        All recorded times; its columns are `labkit.records.results.COLUMNS`.
    path : Path
        The file of `table`.
    device : str
        The device's full name.
    date : str
        The date of the latest measurement, ISO.

    Examples
    --------
    >>> h200 = recorded("H200")
    >>> h200.op_ms(4, LENET86[1])                                            # ms, 10,000 images
    >>> h200.op_ms([3, 4, variant(4, tile=32), "cuDNN TF32"])                # a row each, a column per layer
    >>> h200.op_ms(4, LENET86) / h200.op_ms(3, LENET86)                      # ratios, layer by layer
    >>> h200.counter("l1_hit_pct", 4, LENET86[1])
    >>> h200.counters([3, 4], LENET86, "l1_hit_pct", "l2_read_sectors")      # a row per kernel and layer
    """

    def __init__(self, name: str, folder: Path | str | None = None):
        """Read the times of the device with this name, or part of it, from `data/` or `folder`."""
        self.folder = Path(folder or data_dir())
        self.path = store.find_file(self.folder / "results", name)
        self.table = results.read(self.path)
        self.device = str(self.table["device"].iloc[0])
        self.date = str(self.table["date"].max())

    def __repr__(self) -> str:
        """Return "NVIDIA H200, recorded November 2026": messages begin with it."""
        return f"{self.device}, recorded {datetime.date.fromisoformat(self.date):%B %Y}"

    @property
    def ceilings(self) -> Mapping[str, float]:
        """The device's measured rates [B/s] and [FLOP/s]: `Device.ceilings`."""
        return device(self.device).ceilings

    # ---------------------------------------------------------------------------------------- times
    def select(
        self,
        which: Kernels | None = None,
        layer: Layers | None = None,
        batch: int | None = None,
        network: str | None = None,
    ) -> pd.DataFrame:
        """Return the recorded times that match everything given, in the order of the given kernels and layers.

        Parameters
        ----------
        which : kernel or iterable of kernels, optional
            A rung's number, a label or a variant. By default all but exercises' solutions and
            readers' kernels: these have to be named.
        layer : Layer, str, or iterable of these, optional
            "" for figures of a whole network.
        batch : int, optional
            By default all. For cuDNN's times (`which` is a label such as "cuDNN TF32"), 10,000.
        network : str, optional
            "lenet86", "lenet72" or "lenet28".
        """
        if store.is_several(which):
            if not (which := list(which)):
                raise LabError("no kernel was given: name at least one, or leave it out for all")
            return pd.concat(
                [self.select(kernel, layer, batch, network) for kernel in which], ignore_index=True
            )
        library = isinstance(which, str) and which.startswith("cuDNN")  # in a table of its own
        table = self.cudnn(batch=batch or 10_000) if library else self.table
        wanted = {"layer": layer, "batch": batch, "network": network}
        return _select(table, which, wanted, f"{self} has no times")

    def value(
        self,
        column: str,
        which: Kernels | None = None,
        layer: Layers | None = None,
        batch: int | None = None,
    ) -> Figures:
        """Return one figure, for example ``value("x_reference", 4, LENET86[1], batch=1000)``.

        Parameters
        ----------
        column : str
        which, layer
            As for `select`.
        batch : int, optional
            By default the largest that was recorded.

        Returns
        -------
        float, Series or DataFrame
            A Series for several kernels or layers, a DataFrame for several of both.
        """

        def find_figure(which, layer) -> float:
            """Return the figure of one kernel on one layer."""
            rows = self.select(which, layer, batch)
            rows = rows[rows["batch"] == rows["batch"].max()]
            return _pick(
                rows, column, str(self), _describe({"rung": which, "layer": layer, "batch": batch})
            )

        return _map_over(find_figure, which, layer)

    def op_ms(
        self,
        which: Kernels,
        layer: Layers = LAYERS,
        batch: int | None = None,
        kernel: str | None = None,
    ) -> Figures:
        """Return op times in milliseconds; by default of the layers of lenet86 and lenet72, at the largest batch.

        An op time is that of all launches on one layer, without copies. Returns a number, a Series for several
        kernels or layers, a DataFrame for several of both. `kernel`: only the launches of this kernel.
        """
        if kernel is None:
            return self.value("op_ms", which, layer, batch)

        def find_ms(which, layer) -> float:
            """Return the time of `kernel` in one variant on one layer, from a text such as "im2col=0.4 gemm=1.2"."""
            rows = self.select(which, layer, batch)
            times = parse_kernel_times(
                rows.loc[rows["batch"] == rows["batch"].max(), "kernels_ms"].iloc[0]
            )
            if kernel not in times:
                names = ", ".join(times) or "none: it has only one kernel, or was measured without"
                raise LabError(
                    f"{self}: no time of a kernel {kernel!r} of {_label_of(which)}; there are {names}"
                )
            return times[kernel]

        return _map_over(find_ms, which, layer)

    def ratio(
        self,
        column: str,
        a: Kernels,
        b: Kernels,
        layer: Layers | None = None,
        batch: int | None = None,
    ) -> Figures:
        """Divide `column` of kernel a by that of kernel b: ``ratio("op_ms", 4, 3, ...) > 1`` if 04 is slower than 03.

        By default for the largest batch that was recorded for both. Several kernels are paired: the
        first of a and the first of b, and so on, labelled as a; there have to be equally many.
        """
        if store.is_several(a) and store.is_several(b):
            a, b = list(a), list(b)
            if len(a) != len(b):
                raise LabError(
                    f"a ratio pairs {len(a)} kernels with {len(b)}: give equally many, or one"
                )
        if batch is None:
            batches, others = (set(self.select(which, layer)["batch"]) for which in (a, b))
            if not batches & others:
                raise LabError(f"{self} has no batch with which both kernels were timed")
            batch = max(batches & others)
        over, under = (self.value(column, which, layer, batch) for which in (a, b))
        if store.is_several(a) and store.is_several(b):
            under = under.set_axis(over.index)  # so that pandas pairs by place, not by label
        # one kernel over or under several, on several layers: pandas pairs the layers
        return over / under

    def noise(self, batch: int = 10_000) -> float:
        """Return by how much two measurements of the same code on the same layer differ at most: 0.01 for 1 %.

        Pairs are kernels that were timed twice in one run, `op_again_ms`, and kernels with the same
        code and options. A smaller difference between two kernels means nothing.
        """
        # without rows of a whole network, whose layer is ""
        rows = store.choose(
            self.table[self.table["layer"] != ""], f"{self} has no times", batch=batch
        )
        alike = ["layer", "dtype", "code", "options"]  # rows with equal values time the same code
        spread = (
            rows.melt(alike, ["op_ms", "op_again_ms"], value_name="ms")
            .groupby(alike)["ms"]
            .agg(["min", "max"])
        )
        return float((spread["max"] / spread["min"] - 1).max())

    def ladder(
        self, rung: int | str, network: str = "lenet86", batch: int = 10_000
    ) -> pd.DataFrame:
        """Return the recorded times of the rungs up to this one, with default options: a row per rung and layer."""
        rows, last = self.select(network=network, batch=batch), store.NUMBERS[store.name_of(rung)]
        # Without rows of a whole network, and without labels such as "07 tuning, rows=4".
        return rows[
            (rows["rung"] <= last) & (rows["layer"] != "") & ~rows["label"].str.contains(",")
        ]

    def course(self, rung: Kernels) -> pd.DataFrame:
        """Return the times of lenet86 with a rung's kernel: a row per batch, as in the reports of the CUDA course.

        The columns are those of `Network.course_table`: batch, op and layer times [ms], total time
        [s], accuracy. If several rungs are given, the first column is their ``label``.
        """
        # layer "": rows of a whole network; COURSE: the table's columns -> those of the file
        rows = self.select(rung, "", network="lenet86").sort_values("batch", kind="stable")
        course = (
            rows[list(COURSE.values())]
            .set_axis(list(COURSE), axis=1)
            .astype({"distinct images": int})
        )
        if store.is_several(rung):
            course.insert(0, "label", rows["label"])
        return course.reset_index(drop=True)

    def cudnn(
        self,
        network: str | Iterable[str] | None = None,
        dtype: str | Iterable[str] | None = None,
        batch: int = 10_000,
    ) -> pd.DataFrame:
        """Return the best times of cuDNN on this device, as `draw.ladder` takes them: a row per precision and layer.

        Parameters
        ----------
        network : str or iterable of str, optional
            By default lenet86 and lenet72.
        dtype : {"float32", "tf32", "float16"} or iterable of these, optional
            By default all. "tf32" rounds float32 inputs to TF32 for the tensor cores; PyTorch
            allows that by default.
        batch : int
            100, 1000 or 10000.

        Returns
        -------
        DataFrame
            label ("cuDNN FP32", "cuDNN TF32", "cuDNN FP16"), network, layer, batch, dtype (that of
            x, k and y), op_ms, x_reference, device.
        """
        # a row per precision ("mode": "fp16"), layer and layout of x; below, the faster one is taken
        table = self._read("cudnn", "device", "mode", "batch", "median_ms")
        # ordered, so that the result is sorted by precision
        table["dtype"] = pd.Categorical(table["mode"].map(CUDNN), CUDNN.values(), ordered=True)
        rows = store.choose(
            table, f"{self} has no time of cuDNN", network=network, dtype=dtype, batch=batch
        )
        best = rows.groupby(["dtype", "mode", "network", "layer"], as_index=False, observed=True)[
            "median_ms"
        ].min()
        layers = [layer_of(row.network, row.layer) for row in best.itertuples()]
        # of x, k and y in memory
        types = ["float16" if mode == "fp16" else "float32" for mode in best["mode"]]
        reference = [
            layer.reference_ms(batch, stored, self.device, "TF32" if mode == "tf32" else "")
            for layer, stored, mode in zip(layers, types, best["mode"], strict=True)
        ]
        return pd.DataFrame(
            {
                "label": "cuDNN " + best["mode"].str.upper(),
                "network": best["network"],
                "layer": [layer.name for layer in layers],
                "batch": batch,
                "dtype": types,
                "op_ms": best["median_ms"],
                "x_reference": best["median_ms"] / reference,
                "device": self.device,
            }
        )

    # ------------------------------------------------------------------------------------- counters
    def counters(
        self,
        which: Kernels | None = None,
        layer: Layers | None = None,
        *metrics: str,
        kernel: str | Iterable[str] | None = None,
        per_image: bool = False,
    ) -> pd.DataFrame:
        """Return Nsight Compute's counters, recorded by `recording.counters` with 1000 images.

        Parameters
        ----------
        which, layer
            Kernels and layers, see `Recorded`; by default all.
        *metrics : str
            Names of `hostcuda.metrics`, such as "l1_hit_pct" or "sectors_per_load", or Nsight
            Compute's own. By default all that were recorded, under Nsight Compute's names.
        kernel : str or iterable of str, optional
            Only these of a variant's several kernels.
        per_image : bool
            Divide counts by the images of the launch.

        Returns
        -------
        DataFrame
            A row per variant, layer and kernel: date, device, rung, label, layer, batch (images of
            the launch), kernel, and a column per metric with the name that was asked for.
        """
        table = self._counters
        rows = _select(table, which, {"layer": layer, "kernel": kernel}, f"{self} has no counters")
        about = list(table.columns[: table.columns.get_loc("kernel") + 1])  # before the counters
        columns = {
            name: self._read_metric(rows, name, per_image)
            for name in metrics or table.columns.drop(about)
        }
        return pd.concat([rows[about], pd.DataFrame(columns)], axis=1)

    def counter(
        self,
        metric: str,
        which: Kernels,
        layer: Layers,
        kernel: str | None = None,
        per_image: bool = False,
    ) -> Figures:
        """Return one counter, with the parameters of `counters`.

        Returns a number, a Series for several kernels or layers, a DataFrame for several of both.
        """

        def find_counter(which, layer) -> float:
            """Return the counter of one variant on one layer."""
            rows = self.counters(which, layer, metric, kernel=kernel, per_image=per_image)
            return _pick(
                rows,
                metric,
                str(self),
                _describe({"rung": which, "layer": layer, "kernel": kernel}),
            )

        return _map_over(find_counter, which, layer)

    def _read_metric(self, rows: pd.DataFrame, name: str, per_image: bool = False) -> pd.Series:
        """Return a counter, named as in `counters`, for each row: a column, the quotient of two, or the sum of several.

        With `per_image`, counts are divided by the images of the launch.
        """
        if name in QUOTIENTS:
            over, under = (self._read_metric(rows, counter) for counter in QUOTIENTS[name])
            return over / under
        if name in SUMS:
            return sum(self._read_metric(rows, counter, per_image) for counter in SUMS[name])
        metric = METRICS.get(name, name)
        if metric not in rows:
            names = ", ".join(
                [*(word for word, column in METRICS.items() if column in rows), *SUMS, *QUOTIENTS]
            )
            raise LabError(
                f"{self} has no counter {name!r}; it has {names}, and Nsight Compute's own names"
            )
        # In Nsight Compute's names ".sum" marks a count.
        return (
            rows[metric] / rows["batch"] if per_image and metric.endswith(".sum") else rows[metric]
        )

    @functools.cached_property
    def training(self) -> Training:
        """The training of lenet28: times of kernels and epochs, accuracies, contention."""
        return read_training(self.folder, self.device)

    @functools.cached_property
    def _counters(self) -> pd.DataFrame:
        """The file of Nsight Compute's counters: the columns up to "kernel" say of what, the others are counters."""
        return self._read("counters", "rung", "label", "layer", "batch", "kernel").sort_values(
            "rung", kind="stable"
        )

    # ------------------------------------------------------------------------------- sweep, streams
    def sweep(self) -> pd.DataFrame:
        """Return the recorded sweep of rung 07, with the columns of `labkit.sweep`: a row per point."""
        return sweeps.read_sweep(self.path.stem, self.folder)

    def best(self, layer: Layer | str) -> Variant:
        """Return the fastest variant of the recorded sweep on a layer, at the largest batch in it."""
        return sweeps.best(self.sweep(), as_layer(layer))

    def streams(
        self,
        which: Kernels | None = None,
        layer: Layers | None = None,
        *,
        batch: int | Iterable[int] | None = 10_000,
        pinned: bool | None = True,
        streams: int | Iterable[int] | None = 2,
        chunk: int | Iterable[int] | None = 500,
        order: str | None = "depth",
        sizes: str | None = "equal",
    ) -> pd.DataFrame:
        """Return layer times of chunks on streams, recorded by `recording.streams`.

        They have the columns of `bench_streams`, date and software. The other parameters are one
        value, several, or None for any: `order` is "depth" or "breadth", `sizes` of the chunks
        "equal" or "growing". The defaults are those of rung 12, for all kernels and layers.
        """
        wanted = {
            "layer": layer,
            "batch": batch,
            "pinned": pinned,
            "streams": streams,
            "chunk": chunk,
            "order": order,
            "sizes": sizes,
        }
        table = self._read("streams", "label", "layer_ms", *wanted)
        return _select(table, which, wanted, f"{self} has no times on streams")

    def framework(self, batch: int = 10_000) -> pd.DataFrame:
        """Return the times of lenet86's forward pass in PyTorch, part by part, on the host's CPU and on the GPU [ms].

        `python -m recording framework` recorded them, in float32 without TF32: a row per part, in
        their order, and "whole"; the columns "cpu" and "gpu". A copy is NaN on the CPU.
        """
        table = self._read("framework", "batch", "part", "place", "median_ms")
        rows = store.choose(table, f"{self} has no forward pass in PyTorch", batch=batch)
        order = list(rows.loc[rows["place"] == "gpu", "part"])  # the CPU has no copies
        return rows.pivot(index="part", columns="place", values="median_ms").loc[order]

    def network(self, batch: int | None = 10_000, **wanted: str) -> pd.DataFrame:
        """Return the times of lenet86's forward pass, ours and PyTorch's, recorded by `recording.network`.

        They have the columns of `labkit.bench_network`, date and software. `wanted` are values of
        the columns label, dtype, where or pixels: label="fused". With the batch None, all batches.
        """
        table = self._read("network", "batch", "label", "dtype", "where", "pixels")
        return store.choose(table, f"{self} has no forward pass", batch=batch, **wanted)

    def network_steps(
        self, batch: int | None = 10_000, kernel: str | None = "all", **wanted: str
    ) -> pd.DataFrame:
        """Return the times of the steps from the plain network to the fused one, recorded by `recording.network`.

        They have the columns of `labkit.networks.steps.bench_steps`, date and software. `kernel` is
        "all" (the whole pass), a layer's name, or None for any. The rest is as for `network`.
        """
        table = self._read("network/steps", "batch", "label", "dtype", "where", "pixels", "kernel")
        return store.choose(
            table, f"{self} has no step of the network", batch=batch, kernel=kernel, **wanted
        )

    def network_counters(self, label: str = "fused") -> pd.DataFrame:
        """Return Nsight Compute's counters of the fused network, recorded by `recording.network`: a row per data type.

        The columns are batch, and the counters by their names in `counters`; `label` names a
        version, as in `network`.
        """
        table = self._read_counters("network/counters", "label", "dtype")
        return table[table["label"] == label].set_index("dtype")

    def timelines(
        self,
        which: Kernels | None = None,
        layer: Layers | None = None,
        *,
        pinned: bool | None = None,
        streams: int | None = None,
    ) -> pd.DataFrame:
        """Return when copies and kernels of runs on streams began and ended: `Pipeline.timeline`, and each run's label.

        The parameters choose among the recorded runs; None takes all. `pinned` says whether the
        host's memory is page-locked. Each run cuts a batch of 10,000 images into chunks of 1000.
        """
        wanted = {"layer": layer, "pinned": pinned, "streams": streams}
        table = self._read("streams/timelines", "label", "start_ms", *wanted)
        return _select(table, which, wanted, f"{self} has no timelines")

    def versus(self, layer: Layer | str, batch: int = 10_000) -> pd.DataFrame:
        """Return the times of ours and others' kernels on a layer, measured in one interleaved run.

        There is a row per contestant ("cuDNN TF32"), the fastest first, with its faster layout of x:
        label, layout ("NCHW"), how (the tile or algorithm that it uses, and among how many it was
        chosen; "" for ours), median_ms, and, where they were recorded, the quartiles q1_ms and
        q3_ms.
        """
        layer = as_layer(layer)
        table = self._read("versus", "label", "network", "layer", "batch", "median_ms")
        rows = store.choose(
            table,
            f"{self} has no run against others",
            network=layer.network,
            layer=int(layer.name[-1]),  # 1 of "lenet86 layer 1"
            batch=batch,
        )
        return (
            rows.sort_values("median_ms", kind="stable")
            .drop_duplicates("label")  # its faster layout comes first
            .reset_index(drop=True)
        )

    def versus_counters(self, layer: Layer | str) -> pd.DataFrame:
        """Return Nsight Compute's counters of the kernels of `versus`: a row per kernel, 10,000 images.

        The columns are label and layout of the contestant, kernel, and the counters by their names
        in `counters`.
        """
        layer = as_layer(layer)
        table = self._read_counters(
            "versus/counters", "label", "network", "layer", "layout", "kernel"
        )
        return store.choose(
            table,
            f"{self} has no counters of others' kernels",
            network=layer.network,
            layer=int(layer.name[-1]),
        ).reset_index(drop=True)

    def experiment(self, name: str) -> pd.DataFrame:
        """Return what one experiment measured: a row per kernel and value of what was varied.

        Its columns: kernel (what is compared), x (what was varied), ms (time), rate, series (which of several, or "").

        - "waves": x is the number of blocks; "pytorch", "timers" and "squares": the number of images.
        - "latency": x is warps per multiprocessor, rate loads per µs; "ring": x is tiles, rate GB/s.
        - "clock": x is the time since the first launch [ms], rate the GPU's clock [MHz].
        - "order": there is no x; rate is the difference between the quartiles of the times [ms].
        """
        table = self._read("experiments", "experiment", "kernel", "x", "ms")
        return store.choose(table, f"{self} has no experiment", experiment=name)

    def _read_counters(self, folder: str, *needed: str) -> pd.DataFrame:
        """Return the table of `_read` with the counters by their names in `counters`."""
        names = {metric: name for name, metric in METRICS.items()}
        return self._read(folder, *needed).rename(columns=names)

    def _read(self, folder: str, *needed: str) -> pd.DataFrame:
        """Return this device's table in a folder of `data/`; LabError if it lacks one of the columns `needed`."""
        return store.read(store.find_file(self.folder / folder, self.path.stem), *needed)


# ------------------------------------------------------------------------------- kernels and layers
def _label_of(which: int | str | Variant) -> str:
    """Return the label, "04 tiling", of a kernel: a `Variant`, the number or name of a rung, or a label already."""
    return getattr(which, "label", None) or store.label(which)


def _select_kernel(rows: pd.DataFrame, which: int | str | Variant | None) -> pd.DataFrame:
    """Return the rows of one kernel; of None those of all, without exercises' solutions and readers' kernels."""
    # a label; or a rung's number, also for its name
    which = getattr(which, "label", store.NUMBERS.get(which, which))
    if isinstance(which, str):
        return rows[rows["label"] == which]
    rows = rows[~rows["label"].str.contains(OWN)]
    if which is None:
        return rows
    rows = rows[rows["label"].str.startswith(f"{which:02d} ")]
    # a rung means its kernel with default options, if recorded
    default = rows[~rows["label"].str.contains(",")]
    return rows if default.empty else default


def _select(
    table: pd.DataFrame, which: Kernels | None, wanted: dict[str, object], complaint: str
) -> pd.DataFrame:
    """Return the rows of one or several kernels, None for all, in the order in which kernels and layers are given.

    `wanted` maps a column to one value, several, or None for any. Raises LabError if a kernel has
    no such row; the message begins with the complaint ("H200 has no times"), and lists what there
    is.
    """
    wanted = {name: value for name, value in wanted.items() if value is not None}
    # column -> the values allowed in it; the table has a layer's name, not the `Layer`
    allowed = {
        name: [
            getattr(item, "name", item) for item in (value if store.is_several(value) else [value])
        ]
        for name, value in wanted.items()
    }
    tables = []
    for kernel in which if store.is_several(which) else [which]:
        rows = _select_kernel(table, kernel)
        for name, values in allowed.items():
            rows = rows[rows[name].isin(values)]
            if name == "layer":
                rows = rows.sort_values(
                    "layer", key=lambda names: names.map(values.index), kind="stable"
                )
        if rows.empty:
            # What there is: if a label was asked for, the kernels of its rung, else the rungs.
            labels, rung = table["label"], str(getattr(kernel, "label", kernel)).partition(",")[0]
            same = labels[labels.str.startswith(f"{rung}, ") | (labels == rung)]
            columns = {
                "rung" if same.empty else "kernel": labels.str.partition(",")[0]
                if same.empty
                else same,
                **{name: table[name] for name in allowed},
            }
            choices = "; ".join(
                f"{name}: {', '.join(str(value) for value in column.unique() if value != '')}"
                for name, column in columns.items()
            )
            raise LabError(
                f"{complaint} for {_describe({'rung': kernel, **wanted})}. It has {choices}"
            )
        tables.append(rows)
    return pd.concat(tables, ignore_index=True)


def _map_over(
    find_one: Callable[..., float], which: Kernels | None, layer: Layers | None
) -> Figures:
    """Return ``find_one(kernel, layer)``; for several kernels or layers a Series, for several of both a DataFrame."""
    if store.is_several(layer):
        layers = list(layer)
        if store.is_several(which):
            table = pd.DataFrame([_map_over(find_one, kernel, layers) for kernel in which])
            return table.rename_axis(index="variant", columns="layer")
        names = pd.Index([getattr(layer, "name", layer) for layer in layers], name="layer")
        return pd.Series([find_one(which, layer) for layer in layers], names, name=_label_of(which))
    if store.is_several(which):
        kernels = list(which)
        names = pd.Index(map(_label_of, kernels), name="variant")
        return pd.Series([find_one(kernel, layer) for kernel in kernels], names)
    return find_one(which, layer)


def _pick(rows: pd.DataFrame, column: str, device: str, asked: str) -> float:
    """Return the number in a column of the only row; else LabError, which names the device and what was asked for."""
    if column not in rows:
        raise LabError(f"no column {column!r} in the results; there are {', '.join(rows.columns)}")
    if len(rows) > 1:
        names = [name for name in ("label", "layer", "network", "dtype", "kernel") if name in rows]
        listed = "; ".join(
            ", ".join(filter(None, row)) for row in rows[names].itertuples(index=False)
        )
        raise LabError(f"{device} has {len(rows)} rows for {asked}: {listed}. Say which")
    value = rows[column].iloc[0]
    if pd.isna(value):
        raise LabError(f"{device} has no {column} for {asked}")
    return float(np.asarray(value))


def _describe(wanted: dict[str, object]) -> str:
    """Return in words what was asked for: "rung 4, layer lenet86 layer 1", "kernel 04 tiling" for a label."""
    if isinstance(label := getattr(wanted.get("rung"), "label", wanted.get("rung")), str):
        wanted = {
            "kernel": label,
            **{name: value for name, value in wanted.items() if name != "rung"},
        }
    return store.describe(wanted)
