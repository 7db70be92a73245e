"""Measure the op time of an attempt on this machine's device, in a child of `labkit_classroom.grading.add_time`.

``python -m labkit_classroom.timing FOLDER IMAGES`` reads the attempt from `FOLDER/attempt.cu` and the exercise's
number from `FOLDER/exercise`, checks the kernel, and writes to `FOLDER/op_ms` the device's name and its time in
milliseconds. A kernel that faults or does not end stops this process alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from labkit.exercises.exercise import receive
from labkit.measure.bench import bench
from labkit.measure.check import check
from labkit.spec.devices import device


def main(folder: Path, images: int) -> None:
    """Time the attempt on the last layer that is counted."""
    exercise, source = receive(folder)
    *_, layer = exercise.subject.layers.values()
    variant = exercise.subject.variant(source)
    check(variant, quiet=True)
    measured = bench(variant, layer, images, layer_time=False)
    (folder / "op_ms").write_text(json.dumps({device().name: float(measured["op_ms"].iloc[0])}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
