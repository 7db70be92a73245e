"""The command that trains a network."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from hostcuda.terminal import among
from labkit.base import installation
from labkit.cli.options import Use


def train(
    name: Annotated[
        str, typer.Option("--dataset", metavar="NAME", autocompletion=among("digits", "fashion-mnist", "mnist"),
                          help="digits, fashion-mnist or mnist.")
    ] = "digits",
    seed: Annotated[int, typer.Option(help="Seed of the initial weights, the order and the distortion of images.")] = 1,
    epochs: Annotated[
        int | None, typer.Option(help="Default: 40 of the digits, 8 of fashion-mnist, 4 of mnist.")
    ] = None,
    batch: Annotated[int | None, typer.Option(help="Images per step; 32 by default.")] = None,
    rate: Annotated[
        float | None, typer.Option(help="Largest learning rate; 0.03 by default. It rises, then falls to 0.")
    ] = None,
    momentum: Annotated[
        float | None, typer.Option(help="Momentum, the part of the last step that a step repeats; 0.9 by default.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.npz", help="By default data/weights/lenet86-DATASET.npz.")
    ] = None,
    engine: Use = None,
) -> None:
    """Train lenet86 with the lab's own kernels.

    Writes its weights, and beside them a record of how they were made.
    """
    from tqdm import tqdm

    from labkit.networks import trainer as training

    chosen = {"epochs": epochs, "batch": batch, "rate": rate, "momentum": momentum}
    options = {option: value for option, value in chosen.items() if value is not None}
    with training.Trainer(name, seed, **options) as trainer:
        held_out = training.dataset(name, "test")
        print(trainer.data, held_out, sep="\n")
        with tqdm(total=trainer.steps, unit="step", mininterval=0.5, delay=0.2) as bar:

            def show(trainer):
                if recent := trainer.losses[-20:]:
                    bar.set_postfix(loss=f"{sum(recent) / len(recent):.3f}", refresh=False)
                bar.update(trainer.step - bar.n)

            path, record = training.train(trainer, held_out, out, show)
    print(f"{record['training seconds']:.0f} s; accuracy {record['training accuracy']} on the training images, "
          f"{record['held-out accuracy']} on the {len(held_out)} held-out ones ({record['split']}); wrote {path}")
    if out is None:
        back = installation.restore("data/weights")
        print(f"The notebooks load these weights now; `{back}` brings back the lab's own")
