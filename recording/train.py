"""Training lenet86 with the lab's own kernels: data/weights/.

Mini-batches of distorted images, with momentum.
"""

import datetime
import hashlib
import io
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import numpy as np
from tqdm import tqdm
from typer import Option

import hostcuda
from hostcuda.errors import EngineError, Interrupted
from hostcuda.files import require_writable
from labkit import LabError, dataset, device
from labkit.base import manifest
from labkit.base.numerals import is_whole
from labkit.base.paths import data_dir
from labkit.ladder.buffers import Closing
from labkit.ladder.rung import tiles
from labkit.networks.images import Dataset
from recording.backprop import Lenet86
from recording.options import Folder

VERSION = 2  # of the recipe: raise it when the same settings would give other weights
EPOCHS = {"digits": 40, "fashion-mnist": 8, "mnist": 4}
RATE, MOMENTUM, BATCH = 0.03, 0.9, 32
# for others: the published test images
SPLITS = {"digits": "the last 360 of the 1797 images are held out, as a block"}
RISE = 90  # steps, at least: at the full rate from the start, the loss stays at that of guessing
FIRST_LOSSES = 5


def draw_affine_maps(random: np.random.RandomState, count: int) -> np.ndarray:
    """Draw affine maps that turn, move, grow and slant images a little, as if another hand had written them.

    They are float32 [count, 2, 3]. A map times (down, across, 1), an output pixel's offsets from
    the center, is the place in the input that the pixel is read from.
    """
    # Each is drawn between minus and plus its bound: an angle, and parts of the image's side.
    angle, grown_y, moved_y, grown_x, moved_x, slant = (
        random.uniform(-bound, bound, count)
        for bound in (np.deg2rad(12.0), 0.12, 0.09, 0.12, 0.09, 0.1)
    )
    cos, sin = np.cos(angle), np.sin(angle)
    rows = [
        [cos * (1 + grown_y), -sin * (1 + grown_y), moved_y],
        [sin * (1 + grown_x) + slant, cos * (1 + grown_x), moved_x],
    ]
    return np.ascontiguousarray(np.moveaxis(np.array(rows), 2, 0), np.float32)


class Trainer(Closing):
    """lenet86 in training on the engine in use.

    A context manager: at its end the device buffers are freed.

    Each step takes the next images of the epoch's random order, distorts each of them by a random
    affine map, and moves the weights against the gradient of their mean loss, with momentum. No sum
    depends on the order in which blocks finish: on one device, with one compiler, the same settings
    give the same weights, bit for bit.

    `data` are the training images, of any size; a name stands for `dataset(name, "train")`. `rate`
    is the largest learning rate, `momentum` the part of the last step that a step repeats. Raises
    LabError for senseless settings.

    Attributes: `settings` (dict of the other parameters), `steps_per_epoch` (batches, the last of
    which may be smaller), `steps` (of the whole training), `step` (steps taken), `model` (a
    `Lenet86` with the weights after the last step), `losses` (mean cross-entropy of each batch,
    before its step), `seconds` (time of the training so far).
    """

    def __init__(
        self, data="digits", seed=1, epochs=None, batch=BATCH, rate=RATE, momentum=MOMENTUM
    ):
        """Check the settings, and put the weights and the training images on the device."""
        epochs = EPOCHS.get(getattr(data, "name", data), 1) if epochs is None else epochs
        for name, value, is_right, rule in (
            ("epochs", epochs, is_whole(epochs), "a whole number, 1 or more"),
            ("batch", batch, is_whole(batch), "a whole number, 1 or more"),
            ("seed", seed, is_whole(seed, 0, 2**32 - 1), "a whole number from 0 to 2^32 - 1"),
            ("rate", rate, 0 < rate < np.inf, "a positive number"),
            ("momentum", momentum, 0 <= momentum < 1, "a number from 0 to below 1"),
        ):
            if not is_right:
                raise LabError(f"{name} = {value} makes no sense: give {rule}")
        # last: it may be downloaded
        self.data = data = dataset(data, "train") if isinstance(data, str) else data
        labels, count = data.labels, len(data)
        if not 0 <= labels.min() <= labels.max() < Lenet86.classes:
            raise LabError(
                f"{data.name} has labels from {labels.min()} to {labels.max()}; lenet86 knows "
                f"0 to {Lenet86.classes - 1}"
            )
        self.settings = {
            "seed": int(seed),
            "epochs": int(epochs),
            "batch": int(batch),
            "rate": float(rate),
            "momentum": float(momentum),
        }
        self.steps_per_epoch = tiles(count, int(batch))
        self.steps = int(epochs) * self.steps_per_epoch
        self.step, self.losses, self.seconds = 0, [], 0.0
        self.model = Lenet86(min(int(batch), count), int(seed))
        memory = self.model.memory
        self._images = memory.copy_in(np.ascontiguousarray(data.images, np.float32))
        self._labels = memory.copy_in(labels.astype(np.int32))
        # of an epoch: the images' order, and of each the affine map, 2 × 3 numbers
        self._order, self._maps = memory.new(count, np.int32), memory.new((count, 6))

    def close(self) -> None:
        """Free the device buffers; a second call does nothing."""
        self.model.close()

    def run(self) -> Iterator[float]:
        """Take all steps of the training; after each one yield the mean loss of its batch.

        Raises LabError if the loss is NaN or infinite.
        """
        model, batch, count = self.model, self.settings["batch"], len(self.data)
        clock = time.perf_counter()
        for epoch in range(self.settings["epochs"]):
            # NumPy's older generator: its stream never changes, so a recorded seed keeps its
            # meaning.
            random = np.random.RandomState([self.settings["seed"], epoch])
            hostcuda.driver.memcpy_htod(self._order, random.permutation(count).astype(np.int32))
            hostcuda.driver.memcpy_htod(self._maps, draw_affine_maps(random, count))
            for first in range(0, count, batch):
                B = min(batch, count - first)
                # addresses of the batch's part: an int32 and six floats (24 bytes) per image
                chosen, maps = int(self._order) + 4 * first, int(self._maps) + 24 * first
                height_width = self.data.images.shape[2:]
                model.sample(self._images, chosen, maps, B, *height_width)
                model.forward(B)
                model.backward(self._labels, chosen, B)
                loss = float(model.losses(B).mean(dtype=np.float64))
                if not np.isfinite(loss):
                    raise LabError(
                        f"the loss is {loss} at step {self.step + 1} of {self.steps}: the weights have "
                        f"grown too large. Train with a lower rate than {self.settings['rate']}"
                    )
                model.descend(self.rate(self.step), self.settings["momentum"])
                self.step += 1
                self.losses.append(loss)
                self.seconds += time.perf_counter() - clock
                yield loss
                clock = time.perf_counter()  # without the caller's time

    def rate(self, step: int) -> float:
        """Return the learning rate of a step: it rises at first, then falls along half a cosine."""
        # a twentieth of all steps, but at least RISE, or half of a training that is short
        rising_steps = max(self.steps // 20, min(RISE, self.steps // 2), 1)
        return (
            self.settings["rate"]
            * min(1, (step + 1) / rising_steps)
            * 0.5
            * (1 + np.cos(np.pi * step / self.steps))
        )


def train_to_end(
    trainer: Trainer, held_out: Dataset, folder: Path | None = None
) -> tuple[Path, dict]:
    """Train to the end; write the weights and the record of how they were made; return the path and the record.

    The path is weights/lenet86-DATASET.npz in `data/`, or in `folder`; the record is beside it, a
    .json. `held_out` is for the accuracy in the record. Raises LabError if the loss or a weight is
    NaN, or there is such a file that no training has written; EngineError if a file cannot be
    written; Interrupted by Ctrl-C: then nothing is written.
    """
    out = (folder or data_dir()) / "weights" / f"lenet86-{trainer.data.name}.npz"
    record_path = out.with_suffix(".json")
    require_writable(out.parent)  # before minutes of work
    # whether `make_record` wrote the record
    is_own = record_path.is_file() and b" train, version " in record_path.read_bytes()
    if (out.exists() or record_path.exists()) and not is_own:
        raise LabError(
            f"{out}, or its record beside it, is there and no training has written it: remove it, or choose "
            "another folder"
        )
    with tqdm(total=trainer.steps, unit="step", mininterval=0.5, delay=0.2) as bar:
        try:
            for _ in trainer.run():
                bar.set_postfix(loss=f"{np.mean(trainer.losses[-20:]):.3f}", refresh=False)
                bar.update()
        except KeyboardInterrupt:
            raise Interrupted(
                f"stopped at step {trainer.step} of {trainer.steps}: no weights are written"
            ) from None
    weights = trainer.model.weights
    if not all(np.isfinite(array).all() for array in weights.values()):
        raise LabError(
            f"the weights are NaN or infinite after step {trainer.step}. Train with a lower rate than "
            f"{trainer.settings['rate']}"
        )
    packed = io.BytesIO()
    np.savez_compressed(packed, **weights)
    record = make_record(trainer, held_out) | {
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest()
    }
    if trainer.data.name == "digits":
        record["licence"] = f"of the digits: {trainer.data.licence}"
    existed = out.exists()
    manifest.write(out, packed.getvalue())
    try:
        manifest.write(record_path, json.dumps(record, indent=2) + "\n")
    except EngineError:
        if not existed:  # without their record they would look like another program's
            out.unlink()
        raise
    return out, record


def make_record(trainer: Trainer, held_out: Dataset) -> dict:
    """Return how a trainer's weights were made: its data and settings, losses, accuracies, time, device and NumPy.

    `held_out` are images that were not trained with, for the second accuracy.
    """
    data, losses, here = trainer.data, trainer.losses, device()
    content = data.images.tobytes() + data.labels.astype(np.int64).tobytes()
    return {
        "network": "lenet86",
        "script": f"recording train, version {VERSION}",
        "date": datetime.date.today().isoformat(),
        "dataset": data.name,
        "split": SPLITS.get(data.name, "the published training and test images"),
        "training images": len(data),
        "training data sha256": hashlib.sha256(content).hexdigest(),
        "held-out images": len(held_out),
        **trainer.settings,
        "first losses": [round(loss, 6) for loss in losses[:FIRST_LOSSES]],
        "last epoch's mean loss": round(float(np.mean(losses[-trainer.steps_per_epoch :])), 6),
        "training accuracy": round(trainer.model.accuracy(data.images, data.labels), 4),
        "held-out accuracy": round(trainer.model.accuracy(held_out.images, held_out.labels), 4),
        "training seconds": round(trainer.seconds, 1),
        "device": f"{here.name} ({here.engine})",
        "numpy": np.__version__,
    }


def train(
    name: Annotated[
        str, Option("--dataset", metavar="NAME", help="digits, fashion-mnist or mnist.")
    ] = "digits",
    seed: Annotated[
        int, Option(help="Seed of the initial weights, the order and the distortion of images.")
    ] = 1,
    epochs: Annotated[
        int | None, Option(help="Default: 40 of the digits, 8 of fashion-mnist, 4 of mnist.")
    ] = None,
    batch: Annotated[int, Option(help="Images per step.")] = BATCH,
    rate: Annotated[float, Option(help="Largest learning rate. It rises, then falls to 0.")] = RATE,
    momentum: Annotated[
        float, Option(help="The part of the last step that a step repeats.")
    ] = MOMENTUM,
    out: Folder = None,
) -> None:
    """Train lenet86: data/weights/. On either engine.

    Writes the weights that the notebooks load, and beside them a record of how they were made.
    """
    with Trainer(name, seed, epochs, batch, rate, momentum) as trainer:
        held_out = dataset(name, "test")
        print(trainer.data, held_out, sep="\n")
        path, record = train_to_end(trainer, held_out, out)
    print(
        f"{record['training seconds']:.0f} s; accuracy {record['training accuracy']} on the training images, "
        f"{record['held-out accuracy']} on the {len(held_out)} held-out ones ({record['split']}); wrote {path}"
    )
