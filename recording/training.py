"""Training lenet28: times of its kernels and epochs, accuracies, and what contention costs: data/training/.

Each function that measures returns rows for the table; data/training/README.md explains their
columns.
"""

import time
from pathlib import Path
from typing import Annotated

import numpy as np
from tqdm import tqdm
from typer import Option

import hostcuda
from hostcuda.graphs import Graph
from labkit import LabError, Lenet28, check, dataset, trace
from labkit.ladder.buffers import Buffers
from labkit.ladder.source import module_arguments
from labkit.measure.bench import time_run
from labkit.networks.images import Dataset, cycle
from labkit.networks.lenet28 import precompile
from labkit.networks.lenet28_experiments import EXPERIMENTS
from labkit.networks.reference.lenet28 import Sizes, random_sizes
from recording.gpu import require_gpu
from recording.keep import record_training
from recording.options import Folder

IMAGES = 60_000  # per epoch, as many as MNIST has
BATCHES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
MINI_BATCHES = ("minibatch", "deterministic")  # the experiments that have several images per step
# (batch, rate)
LEARNING = {"one_launch": ((1, 0.1),), "minibatch": ((10, 0.1), (10, 0.3), (100, 0.1), (100, 0.3))}
EPOCHS = 20
SHARES = tuple(4**n for n in range(10))  # threads per address
# kernels of contention.cu: where the threads are that share an address
PATTERNS = ("neighbours", "apart")
BLOCK = 256
STEPS_PER_GRAPH = (0, 1, 100)  # 0: no graph, a call per launch
SEED = 1


def training(
    name: Annotated[str, Option("--dataset", help="digits, mnist or fashion-mnist.")] = "digits",
    images: Annotated[
        int, Option(help="Images per epoch; a smaller set begins again at its first image.")
    ] = IMAGES,
    epochs: Annotated[int, Option(help="Epochs per run that measures accuracies.")] = EPOCHS,
    graphs: Annotated[
        bool, Option("--graphs", help="Measure only the steps of CUDA graphs, which takes seconds.")
    ] = False,
    out: Folder = None,
) -> None:
    """Train lenet28 in every experiment: data/training/.

    An experiment is a set of kernels that train the network, after one idea. Two to three minutes
    on an H200. The steps of CUDA graphs are timed first. All experiments are then checked before
    anything else is timed; with --graphs nothing is checked.
    """
    begin = time.perf_counter()
    require_gpu("training is recorded on a GPU")
    train, test = cycle(dataset(name, "train", size=28), images), dataset(name, "test", size=28)
    print(train, test, sep="\n")

    def print_done(what: str) -> None:
        """Print what is done now, after the seconds so far."""
        print(f"{time.perf_counter() - begin:6.1f} s  {what}", flush=True)

    # the experiment whose steps become graphs: a warp per sum
    record_training("graph", "shuffle", measure_graphs("shuffle", train), name, out)
    print_done("graphs")
    if graphs:
        return
    precompile(list(EXPERIMENTS), [Sizes(), *random_sizes(SEED)])
    print_done("compiled")
    for experiment, about in EXPERIMENTS.items():
        images_per_step = 3 if about.batches else 1  # some take one image only
        with Lenet28(experiment, images_per_step) as model:
            check(model, seed=SEED)
    print_done("checked")
    # the short kernel whose launch is timed is `update`
    record_training("launch", "update", [{"us": measure_launch_us()}], folder=out)
    for pattern in PATTERNS:
        rows = [{"share": share, "us": measure_contention_us(pattern, share)} for share in SHARES]
        record_training("contention", pattern, rows, folder=out)
    print_done("contention")
    for experiment in EXPERIMENTS:
        rows = []
        for batch in (1, 1000) if experiment in MINI_BATCHES else (1,):
            with Lenet28(experiment, batch) as model:
                times_us = measure_kernels_us(
                    model, train.images, train.labels, 200 if batch == 1 else 20
                )
            rows += [
                {"batch": batch, "kernel": kernel, "us": us} for kernel, us in times_us.items()
            ]
        record_training("kernel", experiment, rows, name, out)
    print_done("times of the kernels")
    for experiment, about in EXPERIMENTS.items():
        rows = []
        for batch in BATCHES if experiment in MINI_BATCHES else (1,):
            if batch <= len(train):
                rows.append(measure_epoch(experiment, batch, train))
                record_training("epoch", experiment, rows, name, out)  # each time all rows so far
        print_done(f"epochs of {experiment}: {about.about}")
    for experiment, settings in LEARNING.items():
        rows = []
        for batch, rate in settings:
            rows += measure_accuracies(experiment, batch, rate, train, test, epochs)
            record_training("accuracy", experiment, rows, name, out)
    print_done("accuracies")


def measure_contention_us(
    pattern: str, share: int, threads: int = 1 << 18, times: int = 16, repeat: int = 5
) -> float:
    """Return the median time [µs] of a kernel in which many threads add 1 to the same addresses with atomics.

    Each of `threads` threads adds `times` times; `share` threads have one address in common. Which
    threads these are depends on `pattern`, the name of a kernel of contention.cu: neighbours, so
    that the lanes of a warp meet, or threads as far apart as possible. `threads` is a multiple of
    256 and of `share`. `repeat` launches are timed, after a warm-up. Raises LabError if a sum is
    wrong.
    """
    source, addresses = Path(__file__).with_name("contention.cu"), threads // share
    times_us = []
    with Buffers() as buffers:
        module = hostcuda.compiler.SourceModule(**module_arguments(source.read_text(), source))
        add = module.get_function(pattern).prepare("Pii")  # its arguments: a pointer, two ints
        x = buffers.copy_in(np.zeros(addresses, np.float32))
        for _ in range(1 + repeat):
            hostcuda.driver.memset_d8(x, 0, 4 * addresses)
            times_us.append(
                1e3
                * time_run(
                    lambda: add.prepared_call(
                        (threads // BLOCK, 1), (BLOCK, 1, 1), int(x), share, times
                    )
                )
            )
        sums = buffers.copy_out(x, (addresses,))
    # exact in float32: a sum of ones stops growing only at 2**24
    if not (sums == share * times).all():
        raise LabError(
            f"{pattern}: the sums are {sums.min():g} to {sums.max():g}; each has to be {share * times}"
        )
    return float(np.median(times_us[1:]))


def measure_kernels_us(
    model: Lenet28, images: np.ndarray, labels: np.ndarray, steps: int
) -> dict[str, float]:
    """Return the mean time [µs] per training step of each kernel: {"fp_c1": 3.1, ..., "memcpy": 1.2}.

    The kernels are in the order of their launches; "memcpy" stands for the copies between them. The
    times are from the engine's trace of `steps` steps, after as many to warm up. The steps go
    through the images in turn. Raises LabError on a GPU without CUPTI.
    """
    count = model.load(images, labels)
    # the first image of each step; begins again where no whole batch would follow
    starts = [n * model.batch % max(1, count - model.batch + 1) for n in range(steps)]
    for start in starts:
        model.issue(min(model.batch, count), start)  # (images, the first one)
    hostcuda.driver.Context.synchronize()
    with trace() as traced:
        for start in starts:
            model.issue(min(model.batch, count), start)
    # "api": the host's calls; others are kernels and copies
    rows = traced.records[traced.records["kind"] != "api"]
    names = rows["name"].where(rows["kind"] == "kernel", "memcpy")
    sums = rows["duration_ms"].groupby(names).sum() * 1e3 / steps
    return {name: float(sums[name]) for name in (*model.kernels, "memcpy") if name in sums}


def measure_launch_us(launches: int = 5000) -> float:
    """Return what a launch costs the host [µs]: the mean over `launches` launches in a row of a short kernel."""
    with Lenet28("loops") as model:
        model.load(np.zeros((1, model.sizes.side, model.sizes.side), np.float32), np.zeros(1, int))
        # functions that each issue one launch of a step; the last kernel, `update`, is short
        *_, update = model.launches(1)
        update(0)  # 0: the number of the step's image
        hostcuda.driver.Context.synchronize()
        begin = time.perf_counter()
        for _ in range(launches):
            update(0)
        hostcuda.driver.Context.synchronize()
        return (time.perf_counter() - begin) / launches * 1e6


def measure_graphs(
    experiment: str, train: Dataset, steps: int = 20_000, runs: int = 5
) -> list[dict]:
    """Time a training step of one image with its launches issued one by one, and as graphs of several steps.

    `experiment` is a set of kernels that compute a step. Returns a row per number in STEPS_PER_GRAPH:
    batch (1), launches (in the graph; 0 without one), us (time of a step in µs: the median of `runs`
    runs of `steps` steps, by the host's clock).
    """
    rows = []
    for in_graph in STEPS_PER_GRAPH:  # steps in a graph; 0: no graph, the host issues each launch
        with Lenet28(experiment) as model:
            model.load(train.images, train.labels)
            model.stream = hostcuda.driver.Stream()

            # The defaults bind this round's values.
            def issue(model=model, count=in_graph or 1):
                """Issue the launches of one step, or of as many as the graph has."""
                for image in range(count):
                    model.issue(1, image)  # a step of one image, which is number `image`

            issue()  # compiled before the clock starts
            graph = Graph(issue, model.stream) if in_graph else None
            launch, calls = graph.launch if graph else issue, steps // (in_graph or 1)
            seconds = []
            for _ in range(runs):
                begin = time.perf_counter()
                for _ in range(calls):
                    launch()
                model.stream.synchronize()
                seconds.append(time.perf_counter() - begin)
            rows.append(
                {
                    "batch": 1,
                    "launches": in_graph * len(model.kernels),
                    "us": float(np.median(seconds)) / steps * 1e6,
                }
            )
            if graph:
                graph.close()
    return rows


def measure_epoch(experiment: str, batch: int, train: Dataset) -> dict:
    """Return a row with the time of an epoch, after a warm-up of ten steps; the median of three if it is short.

    The row is a dict: batch, images (of the epoch), launches (of a step), seconds.
    """
    with Lenet28(experiment, batch) as model:
        model.epoch(train.images[: 10 * batch], train.labels[: 10 * batch])
        seconds = [model.epoch(train.images, train.labels)]
        while seconds[0] < 0.7 and len(seconds) < 3:
            seconds.append(model.epoch(train.images, train.labels))
        return {
            "batch": batch,
            "images": len(train),
            "launches": len(model.kernels),
            "seconds": float(np.median(seconds)),
        }


def measure_accuracies(
    experiment: str, batch: int, rate: float, train: Dataset, test: Dataset, epochs: int
) -> list[dict]:
    """Train lenet28 with `batch` images per step; return a row per epoch with the accuracy on `test`.

    `experiment` is a set of kernels that train it. The first row, with epochs = 0, is of the untrained
    network. A row's seconds are those of the training so far.
    """
    rows, seconds = [], 0.0
    with (
        Lenet28(experiment, batch, SEED, rate) as model,
        tqdm(total=epochs, unit="epoch", disable=None) as bar,
    ):
        for epoch in range(epochs + 1):
            accuracy = model.accuracy(test.images, test.labels)
            rows.append(
                {
                    "batch": batch,
                    "rate": rate,
                    "epochs": epoch,
                    "seconds": seconds,
                    "accuracy": accuracy,
                    "images": len(train),
                }
            )
            bar.set_postfix(accuracy=f"{accuracy:.4f}")
            if epoch < epochs:
                seconds += model.epoch(train.images, train.labels)
                bar.update()
    return rows
