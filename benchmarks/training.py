"""Measure the training of lenet86 on the digits: seconds per epoch, and each kernel's share of a step.

    python benchmarks/training.py [--batch 32] [--rounds 5]

It runs on the engine in use. An epoch is timed by the wall clock, with everything: drawing the order and the maps, the
launches, and copying back the loss of each batch. The kernels are then timed one by one on a whole batch, between two
events around several launches in a row. The rest of a step is the host's, which waits for the loss of each batch.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import defaultdict
from datetime import date

import hostcuda
from labkit.networks.trainer import Trainer
from labkit.spec.devices import device

IN_A_ROW = {"gpu": 50, "cpu": 3}  # launches between two events


class Timed:
    """A wrapper of a `Kernels` that repeats and times each launch."""

    def __init__(self, kernels, in_a_row, times):
        self.kernels, self.in_a_row, self.times = kernels, in_a_row, times

    def __getattr__(self, name):
        launch = getattr(self.kernels, name)

        def timed(*arguments):
            launch(*arguments)  # warms up
            start, stop = hostcuda.driver.Event(), hostcuda.driver.Event()
            start.record()
            for _ in range(self.in_a_row):
                launch(*arguments)
            stop.record()
            stop.synchronize()
            self.times[name].append(stop.time_since(start) / self.in_a_row)

        return timed


def epochs(trainer: Trainer, rounds: int) -> list[float]:
    """Return the seconds of each of `rounds` epochs, after one that warms up."""
    steps, seconds = trainer.run(), []
    for _ in range(rounds + 1):
        clock = time.perf_counter()
        for _ in range(trainer.steps_per_epoch):
            next(steps)
        seconds.append(time.perf_counter() - clock)
    return seconds[1:]


def kernels(trainer: Trainer, rounds: int) -> tuple[dict[str, float], dict[str, int]]:
    """Return milliseconds per step and launches per step of each kernel: medians over `rounds` steps."""
    rows, launches, model = defaultdict(list), {}, trainer.model
    plain = model.kernels
    trainer.step = 0
    for _ in range(rounds):
        times = defaultdict(list)
        model.kernels = [Timed(untimed, IN_A_ROW[hostcuda.engine()], times) for untimed in plain]
        next(trainer.run())
        trainer.step = 0  # always a whole batch
        for name, of_kernel in times.items():
            rows[name].append(sum(of_kernel))
            launches[name] = len(of_kernel)
    model.kernels = plain
    return {name: statistics.median(of_kernel) for name, of_kernel in rows.items()}, launches


def measure(batch: int, rounds: int) -> str:
    """Measure, and return the table in Markdown."""
    with Trainer("digits", batch=batch, epochs=rounds + 1) as trainer:
        whole = epochs(trainer, rounds)
        per_step, launches = kernels(trainer, rounds)
        count = len(trainer.data)
    epoch, total = statistics.median(whole), sum(per_step.values())
    share = total / 1e3 * count / batch / epoch
    lines = [
        f"{device().name}, {date.today().isoformat()}: {epoch:.3g} s per epoch (median of {rounds}, {min(whole):.3g} "
        f"to {max(whole):.3g}) of {count} images in batches of {batch}, "
        f"{count / epoch:,.0f} images/s; the kernels take {share:.0%} of it.",
        "",
        "| kernel | launches per step | ms per step | of all kernels |",
        "|---|---:|---:|---:|",
    ]
    for name, ms in sorted(per_step.items(), key=lambda item: -item[1]):
        lines.append(f"| {name} | {launches[name]} | {ms:.4f} | {ms / total:.0%} |")
    return "\n".join([*lines, f"| together | {sum(launches.values())} | {total:.4f} | |"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--batch", type=int, default=32, help="images (32)")
    parser.add_argument("--rounds", type=int, default=5, help="epochs and steps that are timed (5)")
    chosen = parser.parse_args()
    print(measure(chosen.batch, chosen.rounds))
