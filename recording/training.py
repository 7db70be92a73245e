"""Training lenet28: times of its kernels and epochs, accuracies, and what contention costs: data/training/."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Annotated

import numpy as np
from tqdm import tqdm
from typer import Option

import hostcuda
from hostcuda.graphs import Graph
from labkit.base.errors import LabError
from labkit.measure.check import check
from labkit.measure.trace import trace
from labkit.networks.images import cycle, dataset
from labkit.networks.lenet28 import Lenet28, precompile
from labkit.networks.lenet28_experiments import EXPERIMENTS
from labkit.networks.reference.lenet28 import Sizes, random_sizes
from labkit.spec.devices import device
from recording.contention import PATTERNS, measure_contention
from recording.keep import record_training
from recording.options import Folder

IMAGES = 60_000  # per epoch, as many as MNIST has
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
LEARNING = (  # experiment, batch, rate
    ("one_launch", 1, 0.1), ("minibatch", 10, 0.1), ("minibatch", 10, 0.3), ("minibatch", 100, 0.1),
    ("minibatch", 100, 0.3),
)
EPOCHS = 20
SHARES = tuple(4**n for n in range(10))  # threads per address
STEPS_PER_GRAPH = (0, 1, 100)  # 0: no graph, a call per launch
SEED = 1


def training(
    name: Annotated[str, Option("--dataset", help="digits, mnist or fashion-mnist.")] = "digits",
    images: Annotated[int, Option(help="Of an epoch; a smaller set begins again at its first image.")] = IMAGES,
    epochs: Annotated[int, Option(help="Of the accuracies.")] = EPOCHS,
    graphs: Annotated[bool, Option("--graphs", help="Only steps of CUDA graphs: seconds.")] = False,
    out: Folder = None,
) -> None:
    """Train lenet28 in every experiment: data/training/.

    Two to three minutes on an H200. Every kernel is checked before it is timed.
    """
    here, begin = device(), time.perf_counter()
    if here.engine != "gpu":
        raise LabError(f"training is recorded on a GPU; the engine here is the CPU's ({here.name})")
    train, test = cycle(dataset(name, "train", size=28), images), dataset(name, "test", size=28)
    print(train, test, sep="\n")

    def done(what):
        print(f"{time.perf_counter() - begin:6.1f} s  {what}", flush=True)

    record_graph_times("shuffle", train, name, out)
    done("graphs")
    if graphs:
        return
    precompile(list(EXPERIMENTS), [Sizes(), *random_sizes(SEED)])
    done("compiled")
    for experiment, about in EXPERIMENTS.items():
        with Lenet28(experiment, 3 if about.batches else 1) as model:
            check(model, seed=SEED)
    done("checked")
    record_training("launch", "update", [{"us": measure_launch_us()}], folder=out)
    for pattern in PATTERNS:
        rows = [{"share": share, "us": measure_contention(pattern, share)} for share in SHARES]
        record_training("contention", pattern, rows, folder=out)
    done("contention")
    for experiment in EXPERIMENTS:
        record_kernel_times(experiment, train, name, out)
    done("times of the kernels")
    for experiment, about in EXPERIMENTS.items():
        record_epochs(experiment, BATCHES if experiment in ("minibatch", "deterministic") else (1,), train, name, out)
        done(f"epochs of {experiment}: {about.about}")
    record_accuracies(train, test, epochs, name, out)
    done("accuracies")


def record_kernel_times(experiment: str, train, name: str, out: Path | None) -> None:
    """Record the times of the kernels, with one image per step, and with mini-batches if the experiment has them."""
    rows = []
    for batch in (1, 1000) if experiment in ("minibatch", "deterministic") else (1,):
        with Lenet28(experiment, batch) as model:
            times = measure_kernel_times(model, train.images, train.labels, 200 if batch == 1 else 20)
        rows += [{"batch": batch, "kernel": kernel, "us": us} for kernel, us in times.items()]
    record_training("kernel", experiment, rows, name, out)


def measure_kernel_times(model: Lenet28, images: np.ndarray, labels: np.ndarray, steps: int) -> dict[str, float]:
    """Return the mean time of each kernel of a step, in microseconds, from the trace of the engine.

    Parameters
    ----------
    model : Lenet28
    images, labels : ndarray
        As for `Lenet28.epoch`; the steps go through them in turn.
    steps : int
        Traced, after as many to warm up.

    Returns
    -------
    dict of str to float
        Kernel -> microseconds, in the order of the launches; "memcpy" for copies between them.

    Raises
    ------
    LabError
        On a GPU without CUPTI.
    """
    count = model.load(images, labels)
    starts = [n * model.batch % max(1, count - model.batch + 1) for n in range(steps)]
    for start in starts:
        model.issue(min(model.batch, count), start)
    hostcuda.driver.Context.synchronize()
    with trace() as traced:
        for start in starts:
            model.issue(min(model.batch, count), start)
    rows = traced.records[traced.records["kind"] != "api"]
    names = rows["name"].where(rows["kind"] == "kernel", "memcpy")
    sums = rows["duration_ms"].groupby(names).sum() * 1e3 / steps
    return {name: float(sums[name]) for name in (*model.kernels, "memcpy") if name in sums}


def measure_launch_us(launches: int = 5000) -> float:
    """Return a launch's cost on the host in microseconds: the time per launch of many updates in a row."""
    with Lenet28("loops") as model:
        model.load(np.zeros((1, model.sizes.side, model.sizes.side), np.float32), np.zeros(1, int))
        *_, update = model.launches(1)
        update(0)
        hostcuda.driver.Context.synchronize()
        begin = time.perf_counter()
        for _ in range(launches):
            update(0)
        hostcuda.driver.Context.synchronize()
        return (time.perf_counter() - begin) / launches * 1e6


def record_graph_times(experiment: str, train, name: str, out: Path | None, steps: int = 20_000, runs: int = 5) -> None:
    """Record the time of a step of one image whose launches are issued one by one, or as a graph of some steps.

    It is the median of some runs in a row, by the host's clock.
    """
    rows = []
    for recorded in STEPS_PER_GRAPH:
        with Lenet28(experiment) as model:
            model.load(train.images, train.labels)
            model.stream = hostcuda.driver.Stream()
            issue = functools.partial(_issue_steps, model, max(recorded, 1))
            issue()  # compiled before the clock starts
            graph = Graph(issue, model.stream) if recorded else None
            launch, calls = (graph.launch if graph else issue), steps // max(recorded, 1)
            seconds = []
            for _ in range(runs):
                begin = time.perf_counter()
                for _ in range(calls):
                    launch()
                model.stream.synchronize()
                seconds.append(time.perf_counter() - begin)
            launches = recorded * len(model.kernels)
            rows.append({"batch": 1, "launches": launches, "us": float(np.median(seconds)) / steps * 1e6})
            if graph:
                graph.close()
    record_training("graph", experiment, rows, name, out)


def _issue_steps(model: Lenet28, steps: int) -> None:
    for first in range(steps):
        model.issue(1, first)


def record_epochs(experiment: str, batches, train, name: str, out: Path | None) -> None:
    """Record the time of an epoch, the median of three if it is short."""
    rows = []
    for batch in (size for size in batches if size <= len(train)):
        with Lenet28(experiment, batch) as model:
            model.epoch(train.images[: 10 * batch], train.labels[: 10 * batch])  # a warm-up
            seconds = [model.epoch(train.images, train.labels)]
            while seconds[0] < 0.7 and len(seconds) < 3:
                seconds.append(model.epoch(train.images, train.labels))
            rows.append({"batch": batch, "images": len(train), "launches": len(model.kernels),
                         "seconds": float(np.median(seconds))})
        record_training("epoch", experiment, rows, name, out)


def record_accuracies(train, test, epochs: int, name: str, out: Path | None) -> None:
    """Record the accuracy on held-out images after each epoch."""
    by_experiment: dict[str, list[dict]] = {}
    for experiment, batch, rate in LEARNING:
        rows, seconds = by_experiment.setdefault(experiment, []), 0.0
        with Lenet28(experiment, batch, SEED, rate) as model, tqdm(total=epochs, unit="epoch", disable=None) as bar:
            for epoch in range(epochs + 1):
                accuracy = model.accuracy(test.images, test.labels)
                rows.append({"batch": batch, "rate": rate, "epochs": epoch, "seconds": seconds, "accuracy": accuracy,
                             "images": len(train)})
                bar.set_postfix(accuracy=f"{accuracy:.4f}")
                if epoch < epochs:
                    seconds += model.epoch(train.images, train.labels)
                    bar.update()
        record_training("accuracy", experiment, rows, name, out)
