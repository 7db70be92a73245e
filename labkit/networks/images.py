"""Images for the network: digits (in the repository), Fashion-MNIST and MNIST (fetched on demand).

All three come as pairs of gzipped files in the idx format of LeCun's MNIST page: a big-endian
header (two zero bytes, the type of the elements, the number of dimensions, the size of each as
uint32), then the elements. A file is used only if it is the published one, by its digest.
"""

import gzip
import hashlib
import os
import zlib
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from hostcuda.errors import EngineError
from hostcuda.files import require_writable
from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.base.installation import write_restore_command
from labkit.base.paths import cache_dir, data_dir, private_cache

CHUNK = 256  # images resized at a time: so many fit into the processor's cache


@dataclass(frozen=True, repr=False)
class Dataset:
    """Images with their labels, and where they come from.

    Attributes
    ----------
    images : ndarray, float32 [N, 1, H, W]
        Brightness from 0 to 1.
    labels : ndarray, int64 [N]
        Class of each image, 0 to 9.
    name, split, source, licence : str
    """

    images: np.ndarray
    labels: np.ndarray
    name: str
    split: str
    source: str
    licence: str

    def __len__(self):
        return len(self.labels)

    def __repr__(self):
        H, W = self.images.shape[-2:]
        return f"{self.name} ({self.split}): {len(self)} images of {H}x{W}"


@dataclass(frozen=True)
class _Published:
    """A published data set: for each split the files of images and labels with their MD5, and where to fetch them."""

    source: str
    licence: str
    files: dict[str, tuple[tuple[str, str], ...]]
    mirrors: tuple[str, ...] = ()
    white: float = 255.0  # the integer that stands for 1.0


def _name_files(*md5: str) -> dict:
    """Return per split the pairs (file name, MD5) of images and labels; `md5` are those of the files in `kinds`.

    MNIST and Fashion-MNIST have files of the same names.
    """
    kinds = "train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"
    files = [(f"{kind}-ubyte.gz", digest) for kind, digest in zip(kinds, md5, strict=True)]
    return {"train": tuple(files[:2]), "test": tuple(files[2:])}


_SETS = {
    "digits": _Published(
        source="E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning "
        "Repository, 1998, doi:10.24432/C50P49",
        licence="CC BY 4.0",
        files={},  # in data/, whose manifest has their digests
        white=16.0,
    ),
    "fashion-mnist": _Published(
        source="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747",
        licence="MIT",
        files=_name_files(
            "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
            "25c81989df183df01b3e8a0aad5dffbe",
            "bef4ecab320f06d8554ea6380940ec79",
            "bb300cfdad3c16e7a12a480ee83cd310",
        ),
        mirrors=(
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        ),
    ),
    "mnist": _Published(
        source="Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits",
        licence="CC BY-SA 3.0",
        files=_name_files(
            "f68b3c2dcbeaaa9fbdd348bbdeb94873",
            "d53e105ee54ea40749a09fcbcd1e9432",
            "9fb629c4189551a2d022fa330f9573f3",
            "ec29112dd5afa0611ce80d1b7f02629c",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
}

# The 1797 digits keep UCI's order, in which neighbours are often of one writer's hand. The last 360
# are held out as a block, not at random: a harder and more honest test, because most writers'
# digits are on one side only.
_DIGITS_TRAIN = 1437


def dataset(
    name: str = "digits", split: str = "test", size: int | tuple[int, int] | None = None
) -> Dataset:
    """Load a set of images.

    Parameters
    ----------
    name : {"digits", "fashion-mnist", "mnist"}
        "digits" is part of the repository. The others are looked for in the folder that the
        environment variable LABKIT_DATA_DIR names (in its subfolder `name`, then in itself), or
        else fetched once into the cache.
    split : {"test", "train"}
    size : int or (int, int), optional
        Height and width to resize to (bilinear). By default the images keep their size.

    Returns
    -------
    Dataset

    Raises
    ------
    LabError
        For an unknown name, split or size; for a file that is missing, damaged, or not the
        published one; without a network. The message says what to do.
    """
    if name not in _SETS:
        raise LabError(f"there is no data set {name!r}; there are {', '.join(_SETS)}")
    if split not in ("test", "train"):
        raise LabError(f"there is no split {split!r} of {name}; there are 'test' and 'train'")
    origin = _SETS[name]
    if name == "digits":
        # the first _DIGITS_TRAIN images are the training set, the others the test set
        numbers = slice(_DIGITS_TRAIN) if split == "train" else slice(_DIGITS_TRAIN, None)
        paths = (data_dir() / f"digits-{kind}-ubyte.gz" for kind in ("images-idx3", "labels-idx1"))
        images, labels = (_read_idx(path)[numbers] for path in paths)
    else:
        images, labels = (
            _read_idx(_find(name, *file) or _fetch(name, *file)) for file in origin.files[split]
        )
    return Dataset(
        resize(images, size, origin.white),
        labels.astype(np.int64),
        name,
        split,
        origin.source,
        origin.licence,
    )


def find_stored(name: str) -> Path | None:
    """Return the folder of a fetched data set's files on this machine; None if `dataset` would fetch them.

    Raises LabError if LABKIT_DATA_DIR names a folder that lacks a file, or has a file of that name that
    is not the published one.
    """
    paths = [_find(name, *file) for files in _SETS[name].files.values() for file in files]
    return paths[0].parent if all(paths) else None


def cycle(data: Dataset, n: int) -> Dataset:
    """Return `n` images of a data set: the first ones, beginning again if it has fewer; LabError for n below 1."""
    if n < 1:
        raise LabError(f"a batch needs at least one image, not {n}")
    numbers = np.arange(n) % len(data)
    return replace(data, images=data.images[numbers], labels=data.labels[numbers])


def resize(
    images: np.ndarray, size: int | tuple[int, int] | None = None, white: float = 255.0
) -> np.ndarray:
    """Resize by bilinear interpolation. A pixel's value belongs to its centre; edges are repeated.

    Parameters
    ----------
    images : ndarray, uint8 or float32 [N, h, w]
    size : int or (int, int), optional
        H and W; None keeps the size.
    white : float
        The value in `images` that becomes 1.

    Returns
    -------
    ndarray, float32 [N, 1, H, W]
        The same bits on every machine: element-wise arithmetic only, no sums whose order a library
        chooses.
    """
    H, W = _require_size(size, images.shape[1:])
    top, bottom, weight_below = _find_neighbours(images.shape[1], H)
    left, right, weight_right = _find_neighbours(images.shape[2], W)
    weight_below = weight_below[:, None]
    result = np.empty((len(images), 1, H, W), np.float32)
    for start in range(0, len(images), CHUNK):  # so many at a time fit into the processor's cache
        block = images[start : start + CHUNK] * np.float32(1 / white)
        rows = block[:, top] * (1 - weight_below) + block[:, bottom] * weight_below
        result[start : start + CHUNK, 0] = (
            rows[:, :, left] * (1 - weight_right) + rows[:, :, right] * weight_right
        )
    return result


def _require_size(size, native):
    """Return `size`, one integer or two, as (height, width); `native` if it is None; LabError if it is no size."""
    if size is None:
        return native
    try:
        H, W = (size, size) if np.ndim(size) == 0 else size
        ok = int(H) == H >= 1 and int(W) == W >= 1
    except (TypeError, ValueError):
        ok = False
    if not ok:
        raise LabError(f"size is a whole number of pixels, or a height and a width; not {size!r}")
    return int(H), int(W)


def _find_neighbours(length, new_length):
    """Return what interpolates `length` pixels to `new_length`, as three arrays [new_length].

    They are the indices of the two pixels that a new one lies between, and the weight of the
    second, 0 to 1.
    """
    # A pixel's value belongs to its center, half a pixel from its edge.
    positions = np.clip((np.arange(new_length) + 0.5) * (length / new_length) - 0.5, 0, length - 1)
    lower = positions.astype(np.intp)
    return lower, np.minimum(lower + 1, length - 1), (positions - lower).astype(np.float32)


def _read_idx(path: Path) -> np.ndarray:
    """Return the array of uint8 in a gzipped idx file; LabError with a remedy if the file is missing or damaged."""
    if not path.is_file():
        raise LabError(
            f"{path} is missing; it is part of the lab. Restore it with "
            f"`{write_restore_command(f'data/{path.name}')}`."
        )
    try:
        content = gzip.decompress(manifest.read(path))
        # byte 3: the number of dimensions, whose sizes follow as uint32
        header_end = 4 + 4 * content[3]
        return np.frombuffer(content, np.uint8, offset=header_end).reshape(
            np.frombuffer(content[4:header_end], ">u4")
        )
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError, IndexError) as error:
        raise LabError(
            f"{path} is damaged ({error}). Restore it with "
            f"`{write_restore_command(f'data/{path.name}')}`."
        ) from None


def _find(name: str, file: str, md5: str) -> Path | None:
    """Return the path of file `file` of data set `name` on this machine, or None if it has to be fetched.

    Raises LabError if LABKIT_DATA_DIR names a folder without it, or the file there has another MD5.
    """
    chosen = os.environ.get("LABKIT_DATA_DIR")
    folder = Path(chosen).expanduser() if chosen else cache_dir() / "data"
    path = next(
        (path for path in (folder / name / file, folder / file) if os.path.isfile(path)), None
    )
    if path and hashlib.md5(path.read_bytes()).hexdigest() == md5:
        return path
    if chosen and path:
        raise LabError(
            f"{path} is not the published file of {name}: its MD5 is another one. The files of MNIST and "
            f"Fashion-MNIST have the same names: keep each in a subfolder, mnist and fashion-mnist."
        )
    if chosen:
        raise LabError(
            f"LABKIT_DATA_DIR names {folder}, which has no {file}. Put it there or in {folder / name}, or "
            "unset LABKIT_DATA_DIR to have it fetched."
        )
    return None


def _fetch(name: str, file: str, md5: str) -> Path:
    """Fetch a file of data set `name` into the cache from the first mirror that has it with this MD5; return its path.

    Raises LabError if the cache cannot be written, or no mirror gives the file.
    """
    import pooch  # here: importing it takes a quarter of a second

    try:
        require_writable(folder := private_cache() / "data" / name)
    except EngineError as error:
        raise LabError(
            f"{error}. {name} would be kept there; or set LABKIT_DATA_DIR to one that has {file}."
        ) from None
    failures = []
    for mirror in _SETS[name].mirrors:
        try:
            # pooch fills a temporary file, compares the checksum, and only then puts the file in
            # its place.
            return Path(
                pooch.retrieve(
                    mirror + file,
                    f"md5:{md5}",
                    fname=file,
                    path=folder,
                    downloader=pooch.HTTPDownloader(progressbar=True, timeout=20),
                )
            )
        # OSError: requests' errors; ValueError: a wrong checksum
        except (OSError, ValueError) as error:
            failures.append(f"  {mirror}{file}: {' '.join(str(error).split())[:160]}")
    files = ", ".join(file for pair in _SETS[name].files.values() for file, _ in pair)
    raise LabError(
        "\n".join(
            [
                f"cannot fetch {name}; no mirror gave its files:",
                *failures,
                f"Without a network: copy {files} to {folder}, "
                f"or set LABKIT_DATA_DIR to a folder that has them. The data set "
                "'digits' needs no network.",
            ]
        )
    )
