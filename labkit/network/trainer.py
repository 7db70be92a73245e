"""Training with the lab's own kernels: mini-batches, momentum, and checkpoints that a training resumes from exactly."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from labkit import cuda
from labkit.base.errors import Interrupted, LabError
from labkit.base.files import private, require_writable, write
from labkit.base.paths import cache_dir, data_dir
from labkit.ladder.buffers import Buffers
from labkit.measure.check import Compared
from labkit.network import backprop
from labkit.network.checkpoint import Checkpoint, Settings
from labkit.network.images import Dataset, dataset
from labkit.spec.devices import device

VERSION = 2  # of the recipe: raise it when the same settings would give other weights
NETWORKS = {"lenet86": backprop.Step}
EPOCHS = {"digits": 40, "fashion-mnist": 8, "mnist": 4}
RATE, MOMENTUM, BATCH = 0.03, 0.9, 32
SPLITS = {"digits": "the last 360 of the 1797 images are held out, as a block"}  # of others: the published test images
RISE = 90  # steps, at least: at the full rate from the start, the loss stays at that of guessing
FIRST_LOSSES = 5


def random_maps(random: np.random.RandomState, count: int, turn=12.0, shift=0.09, scale=0.12, shear=0.1) -> np.ndarray:
    """Affine maps that turn, move, grow and slant images a little, as if another hand had written them.

    Parameters
    ----------
    random : RandomState
    count : int
    turn : float
        Degrees.
    shift, scale, shear : float
        Parts of the image's side. Every amount is drawn evenly from minus to plus its bound.

    Returns
    -------
    ndarray, float32 [count, 2, 3]
        From the offsets of an output pixel from the center (down, across, 1) to where it looks in the image.
    """
    angle, grown_y, moved_y, grown_x, moved_x, slant = (
        random.uniform(-bound, bound, count) for bound in (np.deg2rad(turn), scale, shift, scale, shift, shear)
    )
    cos, sin = np.cos(angle), np.sin(angle)
    rows = [[cos * (1 + grown_y), -sin * (1 + grown_y), moved_y],
            [sin * (1 + grown_x) + slant, cos * (1 + grown_x), moved_x]]  # fmt: skip
    return np.ascontiguousarray(np.moveaxis(np.array(rows), 2, 0), np.float32)


class Trainer:
    """A network in training on the engine in use.

    Each step takes the next images of the epoch's random order, distorts each of them by a random affine map, and
    moves the weights against the gradient of their mean loss, with momentum. No sum depends on the order in which
    blocks finish: on one device, with one compiler, the same settings give the same weights, bit for bit.

    A context manager: at its end the device buffers are freed.

    Parameters
    ----------
    data : Dataset or str
        The training images, of any size; a name stands for `dataset(name, "train")`.
    network : str
        Of `NETWORKS`.
    seed, epochs, batch : int, optional
    rate : float, optional
        The largest learning rate.
    momentum : float, optional
        The part of the last step that a step repeats.

    Attributes
    ----------
    settings : Settings
    step : int
        Steps taken.
    losses : list of float
        Mean cross-entropy of each batch, before its step.

    Raises
    ------
    LabError
        For a setting, or a label, that makes no sense.
    """

    def __init__(self, data="digits", network="lenet86", seed=1, epochs=None, batch=BATCH, rate=RATE,
                 momentum=MOMENTUM):  # fmt: skip
        if network not in NETWORKS:
            raise LabError(f"there is no network {network!r} to train; choose from: {', '.join(NETWORKS)}")
        epochs = EPOCHS.get(getattr(data, "name", data), 1) if epochs is None else epochs
        for name, value, ok, rule in (
            ("epochs", epochs, _whole(epochs) and epochs >= 1, "a whole number, 1 or more"),
            ("batch", batch, _whole(batch) and batch >= 1, "a whole number, 1 or more"),
            ("seed", seed, _whole(seed) and 0 <= seed < 2**32, "a whole number from 0 to 2^32 - 1"),
            ("rate", rate, 0 < rate < np.inf, "a positive number"),
            ("momentum", momentum, 0 <= momentum < 1, "a number from 0 to below 1"),
        ):
            if not ok:
                raise LabError(f"{name} = {value} makes no sense: give {rule}")
        data = dataset(data, "train") if isinstance(data, str) else data  # last, because it may download them
        model = NETWORKS[network]
        if not 0 <= data.labels.min() <= data.labels.max() < model.classes:
            raise LabError(f"{data.name} has labels from {data.labels.min()} to {data.labels.max()}; {network} knows "
                           f"0 to {model.classes - 1}")  # fmt: skip
        content = hashlib.sha256(data.images.tobytes() + data.labels.astype(np.int64).tobytes()).hexdigest()
        self.settings = Settings(network, VERSION, data.name, content, len(data), data.images.shape[2:],
                                 int(seed), int(epochs), int(batch), float(rate), float(momentum))  # fmt: skip
        self.data, self.label = data, f"{network} in training"
        self.step, self.losses, self.seconds, self.devices = 0, [], 0.0, ()
        self._epoch = None  # whose order and maps are on the device
        self._memory = Buffers()
        self._images = self._memory.copy_in(np.ascontiguousarray(data.images, np.float32))
        self._labels = self._memory.copy_in(data.labels.astype(np.int32))
        self._order = self._memory.new(len(data), np.int32)
        self._maps = self._memory.new((len(data), 6))
        self.model = model(model.initial_weights(seed), min(batch, len(data)))

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Free all buffers."""
        self.model.close()
        self._memory.close()

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights now, float32, as `labkit.Network` takes them."""
        return self.model.read(self.model.weights)

    def run(self) -> Iterator[float]:
        """Take the remaining steps; yield the loss of each batch. The caller may stop at any of them.

        Raises
        ------
        LabError
            The loss is NaN or infinite.
        """
        settings = self.settings
        while self.step < settings.steps:
            clock = time.perf_counter()
            epoch, position = divmod(self.step, settings.steps_per_epoch)
            self._draw(epoch)
            first = position * settings.batch
            B = min(settings.batch, settings.count - first)
            chosen = int(self._order) + 4 * first
            self.model.sample(self._images, chosen, int(self._maps) + 24 * first, B, *settings.size)
            self.model.forward(B)
            self.model.backward(self._labels, chosen, B)
            loss = float(self.model.losses(B).mean(dtype=np.float64))
            if not np.isfinite(loss):
                raise LabError(f"the loss is {loss} at step {self.step + 1} of {settings.steps}: the weights have "
                               f"grown too large. Train with a lower rate than {settings.rate}")  # fmt: skip
            self.model.descend(self.rate(self.step), settings.momentum)
            self.step += 1
            self.losses.append(loss)
            self.seconds += time.perf_counter() - clock
            yield loss

    def rate(self, step: int) -> float:
        """The learning rate of a step: it rises at first, then falls along half a cosine."""
        steps = self.settings.steps
        rise = max(steps // 20, min(RISE, steps // 2), 1)
        return self.settings.rate * min(1, (step + 1) / rise) * 0.5 * (1 + np.cos(np.pi * step / steps))

    def _draw(self, epoch):
        """The order of an epoch and its maps, to the device."""
        if epoch == self._epoch:
            return
        # NumPy's older generator: its stream never changes, so a recorded seed keeps its meaning.
        random, count = np.random.RandomState([self.settings.seed, epoch]), self.settings.count
        cuda.driver.memcpy_htod(self._order, random.permutation(count).astype(np.int32))
        cuda.driver.memcpy_htod(self._maps, random_maps(random, count))
        self._epoch = epoch

    def accuracy(self, data: Dataset | None = None) -> float:
        """The part of the images that the network classifies correctly; by default of the training images."""
        data = data or self.data
        batch, right = min(self.settings.batch, self.settings.count), 0
        with Buffers() as memory:
            maps = memory.copy_in(np.tile(np.float32(backprop.IDENTITY), (batch, 1)))
            order = memory.copy_in(np.arange(batch, dtype=np.int32))
            images = memory.new((batch, *data.images.shape[2:]))
            for start in range(0, len(data), batch):
                part = np.ascontiguousarray(data.images[start : start + batch], np.float32)
                cuda.driver.memcpy_htod(images, part)
                self.model.sample(images, order, maps, len(part), *part.shape[2:])
                self.model.forward(len(part))
                right += int((self.model.predicted(len(part)) == data.labels[start : start + batch]).sum())
        return right / len(data)

    def comparisons(self, seed: int) -> Iterator[Compared]:
        """For `labkit.check`: every array that a kernel writes, beside the same in float64. The training is untouched.

        On the network's own sizes, and on random ones of its kind.
        """
        return type(self.model).comparisons(seed)

    # ------------------------------------------------------------------------------------------------------ checkpoints
    def checkpoint(self) -> Checkpoint:
        """The state between two steps.

        Raises
        ------
        LabError
            The weights or their momentum hold NaN or infinity.
        """
        parts = self.weights, self.model.read(self.model.momentum)
        if not all(np.isfinite(array).all() for part in parts for array in part.values()):
            raise LabError(f"the weights are NaN or infinite after step {self.step} of {self.settings.steps}. Train "
                           f"with a lower rate than {self.settings.rate}")  # fmt: skip
        devices = tuple(dict.fromkeys((*self.devices, _device())))
        return Checkpoint(self.settings, self.step, *parts, np.array(self.losses), self.seconds, devices)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Go on from a checkpoint of the same settings.

        Raises
        ------
        LabError
            It is of other settings; nothing changes.
        """
        checkpoint.require(self.settings, "it")
        self.model.load(checkpoint.weights, checkpoint.momentum)
        self.step, self.losses = checkpoint.step, checkpoint.losses.tolist()
        self.seconds, self.devices = checkpoint.seconds, checkpoint.devices


def _whole(value) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _device() -> str:
    here = device()
    return f"{here.name} ({here.engine})"


def default_paths(settings: Settings) -> tuple[Path, Path]:
    """Where the weights go, and the checkpoint: each training, by its settings, has a checkpoint of its own."""
    name = f"{settings.network}-{settings.dataset}"
    checkpoint = cache_dir() / "checkpoints" / f"{name}-{settings.digest}.checkpoint"
    return data_dir() / "weights" / f"{name}.npz", checkpoint


def train(
    trainer: Trainer,
    held_out: Dataset,
    out: Path | None = None,
    checkpoint: Path | None = None,
    fresh: bool = False,
    every: float = 10.0,
    progress: Callable[[Trainer], None] = lambda trainer: None,
) -> tuple[Path, dict]:
    """Train to the end, from the checkpoint if there is one; write the weights and the record of how they were made.

    The checkpoint is removed when the weights are written. Until then no error and no signal loses more than the last
    `every` seconds.

    Parameters
    ----------
    trainer : Trainer
    held_out : Dataset
        For the accuracy in the record.
    out : path of an .npz, optional
        By default data/weights/NETWORK-DATASET.npz. The record is beside it, a .json.
    checkpoint : path, optional
        By default in the cache, one per settings.
    fresh : bool
        Begin anew, even if there is a checkpoint.
    every : float
        Seconds between checkpoints; 0 for one after every step.
    progress : callable
        Called with the trainer at the beginning and after each step.

    Returns
    -------
    out : Path
    record : dict

    Raises
    ------
    LabError
        The loss is NaN; the checkpoint is damaged or of other settings; a path is a folder, or the checkpoint's is
        that of a result; a file cannot be written. The last good checkpoint is kept.
    Interrupted
        By Ctrl-C, likewise.
    """
    settings = trainer.settings
    by_default = default_paths(settings)
    if checkpoint is None:
        private(cache_dir())
    out, checkpoint = Path(out or by_default[0]), Path(checkpoint or by_default[1])
    if out.suffix != ".npz":
        raise LabError(f"weights are an .npz file, not {out.name!r}: give a path that ends with .npz")
    if not every >= 0:
        raise LabError(f"every = {every} makes no sense: give the seconds between checkpoints, 0 or more")
    for path in (out, out.with_suffix(".json"), checkpoint):  # before minutes of work
        require_writable(path.parent)
        if path.is_dir():
            raise LabError(f"{path} is a folder: choose another name for the file")
    if checkpoint.resolve() in (out.resolve(), out.with_suffix(".json").resolve()):
        raise LabError(f"the checkpoint cannot be {checkpoint}, which the weights and their record replace: choose "
                       "another file")  # fmt: skip
    if checkpoint.exists() and not fresh:
        found = Checkpoint.read(checkpoint)
        found.require(settings, checkpoint)
        trainer.resume(found)
    progress(trainer)
    kept, written = trainer.step, time.monotonic()

    def state():
        if kept:
            return f"The checkpoint of step {kept} is kept: {checkpoint}"
        older = f"The older checkpoint is unchanged: {checkpoint}"
        return older if checkpoint.exists() else "There is no checkpoint yet"

    try:
        for _ in trainer.run():
            progress(trainer)
            if time.monotonic() - written >= every or trainer.step == settings.steps:
                trainer.checkpoint().write(checkpoint)
                kept, written = trainer.step, time.monotonic()
        record = write_weights(trainer, held_out, out)
    except LabError as error:
        raise LabError(f"{str(error).rstrip('.')}. {state()}") from None
    except KeyboardInterrupt:  # perhaps in the middle of a step: its state is not to be kept
        raise Interrupted(f"stopped at step {trainer.step} of {settings.steps}. {state()}") from None
    checkpoint.unlink(missing_ok=True)
    return out, record


def write_weights(trainer: Trainer, held_out: Dataset, out: Path) -> dict:
    """Write the weights, and beside them the record of how they were made, which is returned."""
    settings, data, losses = trainer.settings, trainer.data, trainer.losses
    packed = io.BytesIO()
    np.savez_compressed(packed, **trainer.weights)
    record = {
        "network": settings.network,
        "script": f"labkit train, version {settings.version}",
        "date": datetime.date.today().isoformat(),
        "dataset": settings.dataset,
        "split": SPLITS.get(settings.dataset, "the published training and test images"),
        "training images": settings.count,
        "training data sha256": settings.sha256,
        "held-out images": len(held_out),
        "seed": settings.seed,
        "epochs": settings.epochs,
        "batch": settings.batch,
        "rate": settings.rate,
        "momentum": settings.momentum,
        "first losses": [round(loss, 6) for loss in losses[:FIRST_LOSSES]],
        "last epoch's mean loss": round(float(np.mean(losses[-settings.steps_per_epoch :])), 6),
        "training accuracy": round(trainer.accuracy(), 4),
        "held-out accuracy": round(trainer.accuracy(held_out), 4),
        "training seconds": round(trainer.seconds, 1),
        "device": ", ".join(dict.fromkeys((*trainer.devices, _device()))),
        "numpy": np.__version__,
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    if data.remark:
        record["remark"] = data.remark
    if data.name == "digits":
        record["licence"] = f"of the digits: {data.licence}"
    write(out, packed.getvalue())
    write(out.with_suffix(".json"), json.dumps(record, indent=2) + "\n")
    return record
