"""Makes data/digits-*.gz from scikit-learn's copy of the UCI digits.

The 1797 images keep their order and their values, 0 to 16. The files are in MNIST's idx format, so that one parser
reads all data sets.
"""

import gzip
import struct

import numpy as np

from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from recording.options import Folder


def idx(array: np.ndarray) -> bytes:
    """Return the bytes of an idx file that holds `array` (uint8)."""
    return struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes()


def digits(out: Folder = None) -> None:
    """Pack the digits of scikit-learn: data/digits-*.gz."""
    try:
        from sklearn.datasets import load_digits  # nothing else in the lab needs it
    except ModuleNotFoundError:
        raise LabError("the digits come with scikit-learn: python -m pip install scikit-learn") from None
    dataset = load_digits()
    images, labels = dataset.images.astype(np.uint8), dataset.target.astype(np.uint8)
    assert images.shape == (1797, 8, 8)
    assert (images == dataset.images).all()  # whole numbers: a byte holds them exactly
    for name, array in (("digits-images-idx3-ubyte.gz", images), ("digits-labels-idx1-ubyte.gz", labels)):
        content = gzip.compress(idx(array), compresslevel=9, mtime=0)  # no time stamp: always the same bytes
        manifest.write((out or data_dir()) / name, content)
        print(f"{name}  {len(content)} bytes")
