"""The data/digits-*.gz, of scikit-learn's copy of the UCI digits, in the idx format of MNIST: one parser reads both."""

import gzip
import struct

import numpy as np

from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.paths import data_dir
from recording.options import Folder


def digits(out: Folder = None) -> None:
    """Pack the digits of scikit-learn: data/digits-*.gz.

    The 1797 images of 8x8 pixels keep their order and their values, 0 to 16.
    """
    try:
        from sklearn.datasets import load_digits  # nothing else in the lab needs it
    except ModuleNotFoundError:
        raise LabError(
            "the digits come with scikit-learn: python -m pip install scikit-learn"
        ) from None
    dataset = load_digits()
    for name, array in (("images-idx3", dataset.images), ("labels-idx1", dataset.target)):
        values = array.astype(np.uint8)
        assert (values == array).all()  # whole numbers: a byte holds them exactly
        # An idx file begins with two zero bytes, the type 8 (unsigned byte), the number of
        # dimensions, and each dimension (big-endian).
        head = struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape)
        # without a time stamp, so that the same digits give the same file
        content = gzip.compress(head + values.tobytes(), compresslevel=9, mtime=0)
        manifest.write((out or data_dir()) / f"digits-{name}-ubyte.gz", content)
        print(f"digits-{name}-ubyte.gz  {len(content)} bytes")
