"""Training with the lab's own kernels: mini-batches, momentum, and checkpoints that a training resumes from exactly.

The trainer has the data, the order of the images, the rate, the losses and the checkpoints; the network has the
weights, the passes and the accuracy.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np

import hostcuda
from hostcuda.errors import EngineError, Interrupted
from hostcuda.files import require_writable
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.numerals import is_whole
from labkit.base.paths import data_dir, private_cache
from labkit.networks.backprop import Lenet86
from labkit.networks.checkpoint import Settings, read_checkpoint, write_checkpoint
from labkit.networks.images import Dataset, dataset
from labkit.spec.devices import device

VERSION = 2  # of the recipe: raise it when the same settings would give other weights
NETWORKS = {"lenet86": Lenet86}
EPOCHS = {"digits": 40, "fashion-mnist": 8, "mnist": 4}
RATE, MOMENTUM, BATCH = 0.03, 0.9, 32
SPLITS = {"digits": "the last 360 of the 1797 images are held out, as a block"}  # for others: the published test images
RISE = 90  # steps, at least: at the full rate from the start, the loss stays at that of guessing
FIRST_LOSSES = 5


def random_maps(random: np.random.RandomState, count: int, turn=12.0, shift=0.09, scale=0.12, shear=0.1) -> np.ndarray:
    """Return affine maps that turn, move, grow and slant images a little, as if another hand had written them.

    Parameters
    ----------
    random : RandomState
    count : int
    turn : float
        Degrees.
    shift, scale, shear : float
        Bounds, as parts of the image's side. Every amount is uniform from minus to plus its bound.

    Returns
    -------
    ndarray, float32 [count, 2, 3]
        Each maps an output pixel's offsets from the center (down, across, 1) to the place in the image to read.
    """
    angle, grown_y, moved_y, grown_x, moved_x, slant = (
        random.uniform(-bound, bound, count) for bound in (np.deg2rad(turn), scale, shift, scale, shift, shear)
    )
    cos, sin = np.cos(angle), np.sin(angle)
    rows = [[cos * (1 + grown_y), -sin * (1 + grown_y), moved_y],
            [sin * (1 + grown_x) + slant, cos * (1 + grown_x), moved_x]]
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
        A name in `NETWORKS`.
    seed, epochs, batch : int, optional
    rate : float, optional
        The largest learning rate.
    momentum : float, optional
        The part of the last step that a step repeats.

    Attributes
    ----------
    settings : Settings
    model : Lenet86
        With the weights after the last step.
    step : int
        Steps taken.
    losses : list of float
        Mean cross-entropy of each batch, before its step.
    seconds : float
        Time of the training so far.
    devices : tuple of str
        The devices that it ran on.

    Raises
    ------
    LabError
        For a setting, or a label, that makes no sense.
    """

    def __init__(self, data="digits", network="lenet86", seed=1, epochs=None, batch=BATCH, rate=RATE,
                 momentum=MOMENTUM):
        if network not in NETWORKS:
            raise LabError(f"there is no network {network!r} to train; choose from: {', '.join(NETWORKS)}")
        epochs = EPOCHS.get(getattr(data, "name", data), 1) if epochs is None else epochs
        for name, value, ok, rule in (
            ("epochs", epochs, is_whole(epochs), "a whole number, 1 or more"),
            ("batch", batch, is_whole(batch), "a whole number, 1 or more"),
            ("seed", seed, is_whole(seed, 0, 2**32 - 1), "a whole number from 0 to 2^32 - 1"),
            ("rate", rate, 0 < rate < np.inf, "a positive number"),
            ("momentum", momentum, 0 <= momentum < 1, "a number from 0 to below 1"),
        ):
            if not ok:
                raise LabError(f"{name} = {value} makes no sense: give {rule}")
        data = dataset(data, "train") if isinstance(data, str) else data  # last, because it may download them
        labels, count, model = data.labels, len(data), NETWORKS[network]
        if not 0 <= labels.min() <= labels.max() < model.classes:
            raise LabError(f"{data.name} has labels from {labels.min()} to {labels.max()}; {network} knows "
                           f"0 to {model.classes - 1}")
        content = hashlib.sha256(data.images.tobytes() + labels.astype(np.int64).tobytes()).hexdigest()
        self.settings = Settings(network, VERSION, data.name, content, count, data.images.shape[2:],
                                 int(seed), int(epochs), int(batch), float(rate), float(momentum))
        self.data, here = data, device()
        self.step, self.losses, self.seconds, self.devices = 0, [], 0.0, (f"{here.name} ({here.engine})",)
        self.model = model(min(batch, count), seed)
        self._epoch = None  # the epoch whose order and maps are on the device
        memory = self.model.memory
        self._images = memory.copy_in(np.ascontiguousarray(data.images, np.float32))
        self._labels = memory.copy_in(labels.astype(np.int32))
        self._order, self._maps = memory.new(count, np.int32), memory.new((count, 6))

    def __enter__(self) -> Trainer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.model.close()

    def run(self) -> Iterator[float]:
        """Take the remaining steps; yield the loss of each batch. The caller may stop at any of them.

        Raises
        ------
        LabError
            The loss is NaN or infinite.
        """
        settings, model = self.settings, self.model
        while self.step < settings.steps:
            clock = time.perf_counter()
            epoch, position = divmod(self.step, settings.steps_per_epoch)
            self._draw(epoch)
            first = position * settings.batch
            B = min(settings.batch, settings.count - first)
            chosen = int(self._order) + 4 * first
            model.sample(self._images, chosen, int(self._maps) + 24 * first, B, *settings.size)
            model.forward(B)
            model.backward(self._labels, chosen, B)
            loss = float(model.losses(B).mean(dtype=np.float64))
            if not np.isfinite(loss):
                raise LabError(f"the loss is {loss} at step {self.step + 1} of {settings.steps}: the weights have "
                               f"grown too large. Train with a lower rate than {settings.rate}")
            model.descend(self.rate(self.step), settings.momentum)
            self.step += 1
            self.losses.append(loss)
            self.seconds += time.perf_counter() - clock
            yield loss

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: it rises at first, then falls along half a cosine."""
        steps = self.settings.steps
        rise = max(steps // 20, min(RISE, steps // 2), 1)
        return self.settings.rate * min(1, (step + 1) / rise) * 0.5 * (1 + np.cos(np.pi * step / steps))

    def _draw(self, epoch):
        """Draw the order and the maps of an epoch, and copy them to the device."""
        if epoch == self._epoch:
            return
        # NumPy's older generator: its stream never changes, so a recorded seed keeps its meaning.
        random, count = np.random.RandomState([self.settings.seed, epoch]), self.settings.count
        hostcuda.driver.memcpy_htod(self._order, random.permutation(count).astype(np.int32))
        hostcuda.driver.memcpy_htod(self._maps, random_maps(random, count))
        self._epoch = epoch

    def save(self, path: Path | str) -> None:
        """Replace the file by a checkpoint: the state between two steps.

        Each epoch has a generator of its own, seeded with (seed, epoch) and used up before the epoch's first step. So
        the settings and the number of steps are the state of all random draws.

        Raises
        ------
        LabError
            The weights or their momentum hold NaN or infinity.
        EngineError
            The file cannot be written; an older checkpoint is unchanged.
        """
        parts = {"weights": self.model.weights, "momentum": self.model.momentum.read()}
        arrays = {f"{part}/{name}": array for part, named in parts.items() for name, array in named.items()}
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise LabError(f"the weights are NaN or infinite after step {self.step} of {self.settings.steps}. Train "
                           f"with a lower rate than {self.settings.rate}")
        head = {"settings": asdict(self.settings), "step": self.step, "seconds": self.seconds, "devices": self.devices}
        write_checkpoint(path, head, arrays | {"losses": np.array(self.losses)})

    def resume(self, path: Path | str) -> None:
        """Continue from a checkpoint of the same settings.

        Raises
        ------
        LabError
            The checkpoint is damaged, or of other settings; nothing changes.
        """
        head, arrays = read_checkpoint(path)
        self.settings.require(head["settings"], path)
        weights, momentum = ({name: arrays[f"{part}/{name}"] for name in self.model.weights}
                             for part in ("weights", "momentum"))
        self.model.weights = weights
        self.model.momentum.write(momentum)
        self.step, self.losses, self.seconds = head["step"], arrays["losses"].tolist(), head["seconds"]
        self.devices = tuple(dict.fromkeys((*head["devices"], *self.devices)))


def train(trainer: Trainer, held_out: Dataset, out: Path | None = None, checkpoint: Path | None = None,
          fresh: bool = False, every: float = 10.0,
          progress: Callable[[Trainer], None] = lambda trainer: None) -> tuple[Path, dict]:
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
        By default in the cache, one per settings; beside `out` if the cache cannot be written.
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
    name = f"{settings.network}-{settings.dataset}"
    out = Path(out or data_dir() / "weights" / f"{name}.npz")
    if checkpoint is None:
        try:
            folder = private_cache() / "checkpoints"
        except EngineError:  # a home that cannot be written
            folder = out.parent
        checkpoint = folder / f"{name}-{settings.digest}.checkpoint"
    checkpoint = Path(checkpoint)
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
                       "another file")
    record, older = (path.read_bytes() if path.is_file() else b"" for path in (out.with_suffix(".json"), checkpoint))
    for path, own in ((out, b"labkit train" in record or not (out.exists() or record)),
                      (checkpoint, not fresh or not older or b"labkit checkpoint" in older[:64])):
        if not own:
            raise LabError(f"{path}, or its record beside it, is there and no training has written it: remove it, or "
                           "choose another name")
    if checkpoint.exists() and not fresh:
        trainer.resume(checkpoint)
    progress(trainer)
    saved_step, saved_at = trainer.step, time.monotonic()

    def describe_checkpoint():
        if saved_step:
            return f"The checkpoint of step {saved_step} is kept: {checkpoint}"
        older = f"The older checkpoint is unchanged: {checkpoint}"
        return older if checkpoint.exists() else "There is no checkpoint yet"

    try:
        for _ in trainer.run():
            progress(trainer)
            if time.monotonic() - saved_at >= every or trainer.step == settings.steps:
                trainer.save(checkpoint)
                saved_step, saved_at = trainer.step, time.monotonic()
        record = write_weights(trainer, held_out, out)
    except EngineError as error:
        raise LabError(f"{str(error).rstrip('.')}. {describe_checkpoint()}") from None
    except KeyboardInterrupt:  # perhaps in the middle of a step: its state is not to be kept
        raise Interrupted(f"stopped at step {trainer.step} of {settings.steps}. {describe_checkpoint()}") from None
    checkpoint.unlink(missing_ok=True)
    return out, record


def write_weights(trainer: Trainer, held_out: Dataset, out: Path) -> dict:
    """Write the weights, and beside them the record of how they were made, which is returned."""
    settings, data, losses = trainer.settings, trainer.data, trainer.losses
    packed = io.BytesIO()
    np.savez_compressed(packed, **trainer.model.weights)
    record = {
        "network": settings.network,
        "script": f"labkit train, version {settings.version}",
        "date": datetime.date.today().isoformat(),
        "dataset": settings.dataset,
        "split": data.remark or held_out.remark or SPLITS.get(data.name, "the published training and test images"),
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
        "training accuracy": round(trainer.model.accuracy(data.images, data.labels), 4),
        "held-out accuracy": round(trainer.model.accuracy(held_out.images, held_out.labels), 4),
        "training seconds": round(trainer.seconds, 1),
        "device": ", ".join(trainer.devices),
        "numpy": np.__version__,
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    if data.name == "digits":
        record["licence"] = f"of the digits: {data.licence}"
    existed = out.exists()
    manifest.write(out, packed.getvalue())
    try:
        manifest.write(out.with_suffix(".json"), json.dumps(record, indent=2) + "\n")
    except EngineError:
        if not existed:  # without their record they would look like another program's
            out.unlink()
        raise
    return record
