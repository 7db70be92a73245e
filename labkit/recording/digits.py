#!/usr/bin/env python3
"""Make data/digits-*.gz from scikit-learn's copy of the UCI digits (scikit-learn is needed here alone).

    python -m labkit.recording.digits [FOLDER]

Prints the SHA-256 of each file; labkit/data.py and data/README.md record them. The 1797 images keep their
order and their values, 0 to 16; the files are in MNIST's idx format, so that one parser reads all data sets.
"""

import gzip
import hashlib
import struct
import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from labkit.base.files import write
from labkit.base.paths import data_dir


def idx(array):
    """The bytes of an idx file that holds `array` (uint8)."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def main(folder=None):
    folder = Path(folder or data_dir())
    digits = load_digits()
    images, labels = digits.images.astype(np.uint8), digits.target.astype(np.uint8)
    assert images.shape == (1797, 8, 8)
    assert (images == digits.images).all()  # whole numbers: nothing is lost in a byte
    for name, array in (("digits-images-idx3-ubyte.gz", images), ("digits-labels-idx1-ubyte.gz", labels)):
        content = gzip.compress(idx(array), compresslevel=9, mtime=0)  # no time stamp: always the same bytes
        write(folder / name, content)
        print(f"{hashlib.sha256(content).hexdigest()}  {name}  {len(content)} bytes")


if __name__ == "__main__":
    main(*sys.argv[1:])
