#!/usr/bin/env python3
"""Train lenet86 on a data set, in NumPy, and write its weights with their provenance.

    python -m labkit.recording.weights                           # digits: about a minute on two cores
    python -m labkit.recording.weights --dataset fashion-mnist   # fetches the images first; minutes an epoch

Writes data/weights/lenet86-DATASET.npz, and beside it a .json with the data, the seed, the settings, the
first losses (so that anyone can verify that the recorded seed leads to them), and the accuracy on the
training and on the held-out images. Both are written at the end, complete or not at all.
"""

import argparse
import datetime
import hashlib
import io
import json
import sys
import time
from pathlib import Path

import numpy as np
from tqdm import tqdm

from labkit.base.errors import LabError
from labkit.base.files import write
from labkit.base.paths import data_dir
from labkit.network.images import dataset, resize
from labkit.network.lenet86 import forward_numpy
from labkit.network.training import SIZE, initial_weights, train

VERSION = 1  # of this recipe: raise it when the same arguments would give other weights
EPOCHS = {"digits": 24, "mnist": 2, "fashion-mnist": 4}
FIRST_LOSSES = 5


def accuracy(weights, images, labels, batch=100):
    """The part of `images` ([N, 1, h, w], of any size) that the network classifies rightly."""
    right = 0
    for start in range(0, len(labels), batch):
        part = slice(start, start + batch)
        probabilities = forward_numpy(resize(images[part, 0], SIZE, white=1), weights)
        right += int((probabilities.argmax(axis=1) == labels[part]).sum())
    return right / len(labels)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--dataset", choices=EPOCHS, default="digits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, help=f"default: {EPOCHS}")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate at the start")
    parser.add_argument("--out", type=Path, help="the .npz file; default: data/weights/lenet86-DATASET.npz")
    options = parser.parse_args(arguments)
    epochs = options.epochs or EPOCHS[options.dataset]
    out = options.out or data_dir() / "weights" / f"lenet86-{options.dataset}.npz"

    try:
        training, held_out = dataset(options.dataset, "train"), dataset(options.dataset, "test")
    except LabError as error:
        sys.exit(str(error))
    print(training, held_out, sep="\n")
    weights = initial_weights(options.seed)
    losses, begin = [], time.perf_counter()
    with tqdm(total=epochs * -(-len(training) // options.batch), unit="step") as progress:
        for _, _, loss in train(weights, training.images, training.labels, epochs, options.seed,
                                options.batch, options.rate):  # fmt: skip
            losses.append(loss)
            progress.update()
            progress.set_postfix(loss=f"{np.mean(losses[-20:]):.3f}")
    seconds = time.perf_counter() - begin

    packed = io.BytesIO()
    np.savez_compressed(packed, **weights)
    pixels = hashlib.sha256(training.images.tobytes() + training.labels.tobytes()).hexdigest()
    provenance = {
        "network": "lenet86",
        "script": f"labkit/recording/weights.py, version {VERSION}",
        "date": datetime.date.today().isoformat(),
        "dataset": options.dataset,
        "training images": len(training),
        "training data sha256": pixels,
        "held-out images": len(held_out),
        "seed": options.seed,
        "epochs": epochs,
        "batch": options.batch,
        "rate": options.rate,
        "first losses": [round(loss, 6) for loss in losses[:FIRST_LOSSES]],
        "last epoch's mean loss": round(float(np.mean(losses[-len(losses) // epochs :])), 6),
        "training accuracy": round(accuracy(weights, training.images, training.labels), 4),
        "held-out accuracy": round(accuracy(weights, held_out.images, held_out.labels), 4),
        "training seconds": round(seconds, 1),
        "numpy": np.__version__,
        "sha256": hashlib.sha256(packed.getvalue()).hexdigest(),
    }
    if options.dataset == "digits":
        provenance["licence"] = f"of the digits: {training.licence}"
    write(out, packed.getvalue())
    write(out.with_suffix(".json"), json.dumps(provenance, indent=2) + "\n")
    print(f"{seconds:.0f} s; accuracy {provenance['training accuracy']} on the training images, "
          f"{provenance['held-out accuracy']} on the held-out ones; wrote {out}")


if __name__ == "__main__":
    main()
