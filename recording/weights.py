"""The weights of lenet86, trained on a data set in NumPy, with a record of how they were made.

data/weights/lenet86-DATASET.npz, and beside it a .json with the data, the seed, the settings, the first losses (by
which anyone can verify the seed), and the accuracy on the training and on the held-out images. Both files are written
at the end, whole or not at all.
"""

import datetime
import hashlib
import io
import json
import time
from pathlib import Path
from typing import Annotated

import numpy as np
from tqdm import tqdm
from typer import Option

from labkit.base.errors import LabError
from labkit.base.files import write
from labkit.base.paths import data_dir
from labkit.network.images import dataset, resize
from labkit.network.lenet86 import forward_numpy
from labkit.network.training import SIZE, initial_weights, train

VERSION = 1  # of this recipe: raise it when the same arguments would give other weights
EPOCHS = {"digits": 24, "mnist": 2, "fashion-mnist": 4}
FIRST_LOSSES = 5


def accuracy(weights: dict[str, np.ndarray], images: np.ndarray, labels: np.ndarray, batch: int = 100) -> float:
    """The part of `images` ([N, 1, h, w], of any size) that the network classifies correctly."""
    right = 0
    for start in range(0, len(labels), batch):
        part = slice(start, start + batch)
        probabilities = forward_numpy(resize(images[part, 0], SIZE, white=1), weights)
        right += int((probabilities.argmax(axis=1) == labels[part]).sum())
    return right / len(labels)


def weights(
    name: Annotated[str, Option("--dataset", help=f"Of {', '.join(EPOCHS)}.")] = "digits",
    seed: Annotated[int, Option()] = 1,
    epochs: Annotated[int | None, Option(help=f"By default {', '.join(map(str, EPOCHS.values()))}.")] = None,
    batch: Annotated[int, Option(help="Images.")] = 32,
    rate: Annotated[float, Option(help="Adam's learning rate at the start.")] = 1e-3,
    out: Annotated[Path | None, Option(metavar="FILE.npz", help="In place of data/weights/.")] = None,
) -> None:
    """Train lenet86: data/weights/.

    The digits take about a minute.
    """
    if name not in EPOCHS:
        raise LabError(f"there is no data set {name!r}; there are {', '.join(EPOCHS)}")
    out = out or data_dir() / "weights" / f"lenet86-{name}.npz"
    epochs = epochs or EPOCHS[name]
    training, held_out = dataset(name, "train"), dataset(name, "test")
    print(training, held_out, sep="\n")
    trained = initial_weights(seed)
    losses, begin = [], time.perf_counter()
    with tqdm(total=epochs * -(-len(training) // batch), unit="step") as progress:
        for *_, loss in train(trained, training.images, training.labels, epochs, seed, batch, rate):
            losses.append(loss)
            progress.update()
            progress.set_postfix(loss=f"{np.mean(losses[-20:]):.3f}")
    seconds = time.perf_counter() - begin

    packed = io.BytesIO()
    np.savez_compressed(packed, **trained)
    record = {
        "network": "lenet86",
        "script": f"recording/weights.py, version {VERSION}",
        "date": datetime.date.today().isoformat(),
        "dataset": name,
        "training images": len(training),
        "training data sha256": hashlib.sha256(training.images.tobytes() + training.labels.tobytes()).hexdigest(),
        "held-out images": len(held_out),
        "seed": seed,
        "epochs": epochs,
        "batch": batch,
        "rate": rate,
        "first losses": [round(loss, 6) for loss in losses[:FIRST_LOSSES]],
        "last epoch's mean loss": round(float(np.mean(losses[-len(losses) // epochs :])), 6),
        "training accuracy": round(accuracy(trained, training.images, training.labels), 4),
        "held-out accuracy": round(accuracy(trained, held_out.images, held_out.labels), 4),
        "training seconds": round(seconds, 1),
        "numpy": np.__version__,
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    if name == "digits":
        record["licence"] = f"of the digits: {training.licence}"
    write(out, packed.getvalue())
    write(out.with_suffix(".json"), json.dumps(record, indent=2) + "\n")
    print(f"{seconds:.0f} s; accuracy {record['training accuracy']} on the training images, "
          f"{record['held-out accuracy']} on the held-out ones; wrote {out}")  # fmt: skip
