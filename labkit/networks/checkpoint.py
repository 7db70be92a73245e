"""Checkpoints: all that a training needs to continue as if it had never stopped.

The file has two lines, a title and the SHA-256 of the rest, then an .npz. It is replaced as a whole: whenever the
training is killed, the file holds the last checkpoint or the one before it.
"""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from hostcuda.files import write
from labkit.base.errors import LabError

_TITLE = b"labkit checkpoint 1\n"
_NAMES = {"size": "image size", "count": "training images", "sha256": "training data"}  # of fields, in messages


@dataclass(frozen=True)
class Settings:
    """Settings that decide, together with the device and its compiler, every bit of the trained weights.

    Attributes
    ----------
    network : str
    version : int
        Version of the recipe: schedule, initial weights, distortion.
    dataset : str
    sha256 : str
        Digest of the training images and their labels.
    count : int
        Training images.
    size : (int, int)
        Their height and width.
    seed, epochs, batch : int
    rate : float
        The largest learning rate.
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
        """Eight hexadecimal digits that identify the settings."""
        return hashlib.sha256(json.dumps(asdict(self)).encode()).hexdigest()[:8]

    @property
    def steps_per_epoch(self) -> int:
        """Batches per epoch; the last one may be smaller."""
        return -(-self.count // self.batch)

    @property
    def steps(self) -> int:
        """Total number of training steps."""
        return self.epochs * self.steps_per_epoch

    def require(self, other: dict, path: Path | str) -> None:
        """Refuse to continue from a checkpoint with other settings, which are given as a dict.

        Raises
        ------
        LabError
            If the settings differ; the message names all differences.
        """
        own = json.loads(json.dumps(asdict(self)))  # as in the file, where a pair is a list
        differ = [f"{_NAMES.get(name, name)} {_shorten(other.get(name))} there, {_shorten(here)} here"
                  for name, here in own.items() if here != other.get(name)]
        if differ:
            raise LabError(f"{path} is the checkpoint of another training: {'; '.join(differ)}. Choose another "
                           "--checkpoint, the same settings, or --fresh to replace it")


def write_checkpoint(path: Path | str, head: dict, arrays: dict[str, np.ndarray]) -> Path:
    """Replace the file by a checkpoint: numbers and texts as JSON, and arrays by name.

    Raises
    ------
    EngineError
        The file cannot be written; an older checkpoint of that name is unchanged.
    """
    packed = io.BytesIO()
    np.savez(packed, head=np.array(json.dumps(head)), **arrays)
    content = packed.getvalue()
    return write(path, _TITLE + hashlib.sha256(content).hexdigest().encode() + b"\n" + content)


def read_checkpoint(path: Path | str) -> tuple[dict, dict[str, np.ndarray]]:
    """Return the head and the arrays that `write_checkpoint` wrote.

    Raises
    ------
    LabError
        The file cannot be read, is no checkpoint, or is damaged.
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
    with np.load(io.BytesIO(packed), allow_pickle=False) as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("head"))), arrays


def _shorten(value) -> str:
    return " x ".join(map(str, value)) if isinstance(value, list) else str(value)[:12]
