"""Checkpoints: all that a training needs to go on as if it had never stopped.

A file of two lines, what it is and the SHA-256 of the rest, then an .npz. It is replaced as a whole: whenever the
training is killed, the file holds the last checkpoint or the one before it.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

from labkit.base.errors import LabError
from labkit.base.files import write

_TITLE = b"labkit checkpoint 1\n"


@dataclass(frozen=True)
class Settings:
    """What decides, together with the device and its compiler, every bit of the trained weights.

    Attributes
    ----------
    network : str
    version : int
        Of the recipe: schedule, initial weights, distortion.
    dataset : str
    sha256 : str
        Of the training images and their labels.
    count : int
        Training images.
    size : (int, int)
        Their height and width.
    seed, epochs, batch : int
    rate : float
        The largest.
    momentum : float
    """

    network: str
    version: int
    dataset: str
    sha256: str
    count: int
    size: tuple[int, int]
    seed: int
    epochs: int
    batch: int
    rate: float
    momentum: float

    @property
    def digest(self) -> str:
        """Eight hexadecimal digits."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:8]

    @property
    def steps_per_epoch(self) -> int:
        """Batches; the last one of an epoch may be smaller."""
        return -(-self.count // self.batch)

    @property
    def steps(self) -> int:
        """In all."""
        return self.epochs * self.steps_per_epoch


@dataclass(frozen=True)
class Checkpoint:
    """The state of a training between two steps.

    Each epoch has a generator of its own, seeded with (seed, epoch) and used up before the epoch's first step. So the
    settings and `step` are its state.

    Attributes
    ----------
    settings : Settings
    step : int
        Steps taken.
    weights, momentum : dict of ndarray, float32
    losses : ndarray, float64 [step]
        Mean cross-entropy of each batch, before its step.
    seconds : float
        Of training so far.
    devices : tuple of str
        That it ran on.
    """

    settings: Settings
    step: int
    weights: dict[str, np.ndarray]
    momentum: dict[str, np.ndarray]
    losses: np.ndarray
    seconds: float = 0.0
    devices: tuple[str, ...] = field(default=())

    @property
    def position(self) -> tuple[int, int]:
        """The epoch, from 0, and the steps taken in it."""
        return divmod(self.step, self.settings.steps_per_epoch)

    def write(self, path: Path | str) -> Path:
        """Replace the file by this checkpoint.

        Raises
        ------
        LabError
            The file cannot be written; an older checkpoint of that name is unchanged.
        """
        head = {"settings": asdict(self.settings), "step": self.step, "seconds": self.seconds, "devices": self.devices}
        packed = io.BytesIO()
        np.savez(
            packed, head=np.array(json.dumps(head)), losses=np.asarray(self.losses, np.float64),
            **{f"weights/{name}": w for name, w in self.weights.items()},
            **{f"momentum/{name}": v for name, v in self.momentum.items()},
        )  # fmt: skip
        content = packed.getvalue()
        return write(path, _TITLE + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)

    @classmethod
    def read(cls, path: Path | str) -> Checkpoint:
        """Read a file that `write` wrote.

        Raises
        ------
        LabError
            It cannot be read, is no checkpoint, or is damaged.
        """
        try:
            content = Path(path).read_bytes()
        except OSError as error:
            raise LabError(f"cannot read the checkpoint {path}: {error.strerror or error}") from None
        title, digest, packed = content[: len(_TITLE)], content[len(_TITLE) :][:64], content[len(_TITLE) + 65 :]
        if title != _TITLE:
            raise LabError(f"{path} is no checkpoint of this version of the lab: delete it, or choose another file")
        if hashlib.sha256(packed).hexdigest().encode() != digest:
            raise LabError(f"the checkpoint {path} is damaged: its SHA-256 differs. Delete it, or train --fresh")
        try:
            with np.load(io.BytesIO(packed), allow_pickle=False) as file:
                head, losses = json.loads(str(file["head"])), file["losses"]
                arrays = {name: file[name] for name in file.files}
            settings = Settings(**{**head["settings"], "size": tuple(head["settings"]["size"])})
            parts = [{name.removeprefix(part): array for name, array in arrays.items() if name.startswith(part)}
                     for part in ("weights/", "momentum/")]  # fmt: skip
            return cls(settings, head["step"], *parts, losses, head["seconds"], tuple(head["devices"]))
        except (KeyError, TypeError, ValueError, zipfile.BadZipFile) as error:
            raise LabError(f"{path} is no checkpoint of this version of the lab ({error}): delete it") from None

    def require(self, settings: Settings, path: Path | str) -> None:
        """Refuse to go on with other settings than those of the checkpoint.

        Raises
        ------
        LabError
            That names all differences.
        """
        names = {"size": "image size", "count": "training images", "sha256": "training data"}
        ours, theirs = asdict(settings), asdict(self.settings)
        differ = [f"{names.get(name, name)} {_text(theirs[name])} there, {_text(ours[name])} here"
                  for name in ours if ours[name] != theirs[name]]  # fmt: skip
        if differ:
            raise LabError(f"{path} is the checkpoint of another training: {'; '.join(differ)}. Choose another "
                           "--checkpoint, the same settings, or --fresh to replace it")  # fmt: skip


def _text(value) -> str:
    return " x ".join(map(str, value)) if isinstance(value, (tuple, list)) else str(value)[:12]
