"""Images for the network: digits (in the repository), Fashion-MNIST and MNIST (fetched on demand).

All three come as pairs of files in the idx format of LeCun's MNIST page: a big-endian header (two zero bytes,
the type of the elements, the number of dimensions, then the size of each dimension as uint32), then the
elements; gzipped. Nothing is read or fetched at import.
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
from labkit.base.installation import restore
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
    remark : str
        Anything unusual about the files; mostly empty.
    distinct : int
        How many of the N images differ from each other (fewer than N after `cycle`).
    """

    images: np.ndarray
    labels: np.ndarray
    name: str
    split: str
    source: str
    licence: str
    remark: str = ""
    distinct: int = 0

    def __post_init__(self):
        if not self.distinct:
            object.__setattr__(self, "distinct", len(self.labels))

    def __len__(self):
        return len(self.labels)

    @property
    def cycled(self):
        """Whether images repeat."""
        return self.distinct < len(self)

    @property
    def note(self):
        """A remark for pages that show a number from these images; mostly empty."""
        cycled = f"{self.distinct} distinct images, cycled to {len(self)}" if self.cycled else ""
        return "; ".join(filter(None, (self.remark, cycled)))

    def __repr__(self):
        H, W = self.images.shape[-2:]
        note = f" ({self.note})" if self.note else ""
        return f"{self.name} ({self.split}): {len(self)} images of {H}x{W}{note}"


@dataclass(frozen=True)
class _Source:
    source: str
    licence: str
    files: dict  # split -> ((images file, checksum), (labels file, checksum))
    mirrors: tuple = ()
    white: float = 255.0  # the integer that stands for 1.0


def _name_files(*md5: str) -> dict:
    """Return the files of MNIST with these checksums; those of Fashion-MNIST have the same names."""
    kinds = "train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"
    files = [(f"{kind}-ubyte.gz", f"md5:{digest}") for kind, digest in zip(kinds, md5, strict=True)]
    return {"train": tuple(files[:2]), "test": tuple(files[2:])}


_SOURCES = {
    "digits": _Source(
        source="E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits, UCI Machine Learning "
        "Repository, 1998, doi:10.24432/C50P49",
        licence="CC BY 4.0",
        files={"all": (("digits-images-idx3-ubyte.gz", ""), ("digits-labels-idx1-ubyte.gz", ""))},
        white=16.0,
    ),
    "fashion-mnist": _Source(
        source="H. Xiao, K. Rasul, R. Vollgraf: Fashion-MNIST, arXiv:1708.07747",
        licence="MIT",
        files=_name_files("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
                          "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
        mirrors=(
            "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets/",
        ),
    ),
    "mnist": _Source(
        source="Y. LeCun, C. Cortes, C. Burges: The MNIST database of handwritten digits",
        licence="CC BY-SA 3.0",
        files=_name_files("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
                          "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c"),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
}

# The 1797 digits keep UCI's order, in which neighbours are often of one writer's hand. The last 360 are held
# out as a block, not at random: a harder and more honest test, because most writers' digits are on one side only.
_DIGITS_TRAIN = 1437


def dataset(
    name: str = "digits", split: str = "test", size: int | tuple[int, int] | None = None
) -> Dataset:
    """Load a set of images.

    Parameters
    ----------
    name : {"digits", "fashion-mnist", "mnist"}
        "digits" is part of the repository. The others are looked for in the folder that the environment
        variable LABKIT_DATA_DIR names (in its subfolder `name`, then in itself), or else fetched once into
        the cache.
    split : {"test", "train"}
    size : int or (int, int), optional
        Height and width to resize to (bilinear). By default the images keep their size.

    Returns
    -------
    Dataset

    Raises
    ------
    LabError
        For an unknown name, split or size; for a file that is missing, damaged, or not what it should be;
        without a network. The message says what to do.
    """
    if name not in _SOURCES:
        raise LabError(f"there is no data set {name!r}; there are {', '.join(_SOURCES)}")
    if split not in ("test", "train"):
        raise LabError(f"there is no split {split!r} of {name}; there are 'test' and 'train'")
    origin = _SOURCES[name]
    if name == "digits":
        paths, remark = [_find_shipped(name) for name, _ in origin.files["all"]], ""
    elif folder := os.environ.get("LABKIT_DATA_DIR"):
        paths, remark = _find_in_folder(folder, name, split)
    else:
        paths, remark = [_fetch(name, *file) for file in origin.files[split]], ""
    images, labels = read_pair(*paths)
    if name == "digits":
        half = slice(_DIGITS_TRAIN) if split == "train" else slice(_DIGITS_TRAIN, None)
        images, labels = images[half], labels[half]
    images = resize(images, size, origin.white)
    return Dataset(images, labels, name, split, origin.source, origin.licence, remark)


def stored(name: str) -> Path | None:
    """Return the folder of a data set's files on this machine; None if `dataset` would fetch them.

    Raises
    ------
    LabError
        LABKIT_DATA_DIR names a folder that lacks a file, or has a damaged one or one of another data set.
    """
    chosen = os.environ.get("LABKIT_DATA_DIR")
    try:
        for split in ("train", "test"):
            paths, remark = _find_in_folder(chosen or cache_dir() / "data", name, split)
            if remark and not chosen:  # damaged in the cache: `dataset` fetches it again
                return None
            if remark:  # without the published checksum
                read_pair(*paths)
    except EngineError:
        if chosen:
            raise
        return None
    return paths[0].parent


def cycle(data, n):
    """Return `n` images of a data set: the first ones, beginning again if it has fewer.

    Parameters
    ----------
    data : Dataset
    n : int
        At least 1.

    Returns
    -------
    Dataset
        With n images. If images repeat, `.cycled` is true and `.note` says so.
    """
    if n < 1:
        raise LabError(f"a batch needs at least one image, not {n}")
    if n <= data.distinct:
        return replace(data, images=data.images[:n], labels=data.labels[:n], distinct=n)
    at = np.arange(n) % data.distinct
    return replace(data, images=data.images[at], labels=data.labels[at], distinct=data.distinct)


def resize(images, size=None, white=255.0):
    """Resize by bilinear interpolation, pixel centres on pixel centres, edges repeated.

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
        The same bits on every machine: element-wise arithmetic only, no sums whose order a library chooses.
    """
    H, W = _require_size(size, images.shape[1:])
    top, bottom, down = _find_neighbours(images.shape[1], H)
    left, right, across = _find_neighbours(images.shape[2], W)
    down = down[:, None]
    result = np.empty((len(images), 1, H, W), np.float32)
    for start in range(0, len(images), CHUNK):
        part = images[start : start + CHUNK] * np.float32(1 / white)
        rows = part[:, top] * (1 - down) + part[:, bottom] * down
        result[start : start + CHUNK, 0] = rows[:, :, left] * (1 - across) + rows[:, :, right] * across
    return result


def _require_size(size, native):
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


def _find_neighbours(n, N):
    """Return, for each of N pixels laid over n, its two neighbours and its distance from the first (float32)."""
    at = np.clip((np.arange(N) + 0.5) * (n / N) - 0.5, 0, n - 1)
    first = at.astype(np.intp)
    return first, np.minimum(first + 1, n - 1), (at - first).astype(np.float32)


def read_idx(path):
    """Read one file in the idx format, gzipped or not.

    Parameters
    ----------
    path : path

    Returns
    -------
    ndarray, uint8
        With as many dimensions as the file says.

    Raises
    ------
    LabError
        If it is no such file, cut off, or longer than its header says.
    """
    path = Path(path)
    try:
        content = manifest.read(path)
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise LabError(f"{path} is damaged or was only half downloaded ({error}). {_remedy(path)}") from None
    if len(content) < 4 or content[:3] != b"\0\0\x08" or not 1 <= content[3] <= 4:
        begins = content[:4].hex(" ") or "nothing"
        raise LabError(f"{path} is no idx file of bytes: it begins with {begins}, not with 00 00 08 and the "
                       f"number of dimensions. {_remedy(path)}")
    start = 4 + 4 * content[3]
    shape = tuple(int(n) for n in np.frombuffer(content[4:start], ">u4")) if len(content) >= start else ()
    expected = start + int(np.prod(shape, dtype=object))
    if len(content) != expected or not shape:
        raise LabError(f"{path} holds {len(content)} bytes where its header, {content[3]} dimensions "
                       f"{shape}, asks for {expected}. {_remedy(path)}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def read_pair(images_path, labels_path):
    """Return the images, uint8 [N, h, w], and the labels, int64 [N], of two idx files that belong together."""
    images, labels = read_idx(images_path), read_idx(labels_path)
    if images.ndim != 3 or labels.ndim != 1:
        raise LabError(f"{images_path} should have 3 dimensions and {labels_path} 1; they have {images.ndim} "
                       f"and {labels.ndim}. Were they exchanged?")
    if len(images) != len(labels) or not len(labels):
        raise LabError(f"{images_path} holds {len(images)} images and {labels_path} {len(labels)} labels: "
                       f"they are not a pair. {_remedy(images_path)}")
    return images, labels.astype(np.int64)


def _remedy(path):
    path = Path(path)
    if path.parent == data_dir():
        return f"Restore it with `{restore(f'data/{path.name}')}`."
    return f"Delete it and fetch it again (without a network: copy a good {path.name} to {path.parent})."


def _matches(path, checksum):
    kind, _, digest = checksum.partition(":")
    with open(path, "rb") as file:
        return hashlib.file_digest(file, kind).hexdigest() == digest


def _find_shipped(name):
    path = data_dir() / name
    if not path.is_file():
        raise LabError(f"{path} is missing; it is part of the lab. {_remedy(path)}")
    return path


def _find_in_folder(folder, name, split):
    """Return the two files in LABKIT_DATA_DIR, and a remark if they are not the published ones."""
    folder = Path(folder).expanduser()
    try:
        exists = folder.is_dir()
    except OSError as error:
        raise LabError(f"cannot read {folder}: {error.strerror}") from None
    if not exists:
        raise LabError(f"LABKIT_DATA_DIR names {folder}, which is no folder. Make it and put the files "
                       f"there, or unset LABKIT_DATA_DIR.")
    paths, remark = [], ""
    for file, checksum in _SOURCES[name].files[split]:
        unpacked = file.removesuffix(".gz")
        candidates = [folder / name / file, folder / name / unpacked, folder / file, folder / unpacked]
        path = next((path for path in candidates if path.is_file()), None)
        if path is None:
            raise LabError(f"LABKIT_DATA_DIR names {folder}, which has no {file}. Put it there or in "
                           f"{folder / name}, or unset LABKIT_DATA_DIR to have it fetched.")
        if path.suffix != ".gz":
            remark = remark or f"files of {path.parent}, unpacked and so not compared with the published ones"
        elif not _matches(path, checksum):
            _refuse_namesake(path, name, split)
            remark = f"files of {path.parent}, not the published ones"
        paths.append(path)
    return paths, remark


def _refuse_namesake(path, name, split):
    """Refuse a file of another data set: those of MNIST and Fashion-MNIST have the same names."""
    for other, origin in _SOURCES.items():
        for file, checksum in origin.files.get(split, ()):
            if other != name and file == path.name and _matches(path, checksum):
                raise LabError(f"{path} belongs to {other}, not to {name}: their files have the same names. "
                               f"Keep each in a subfolder of its own, {other} and {name}.")


def _fetch(name, file, checksum):
    """Return the path of a published file in the cache, fetched if necessary and verified. Raises LabError."""
    folder = cache_dir() / "data" / name
    path = folder / file
    if path.is_file() and _matches(path, checksum):
        return path
    import pooch  # here: importing it takes a quarter of a second

    try:
        require_writable(private_cache() / "data" / name)
    except EngineError as error:
        raise LabError(f"{error}. {name} would be kept there; or set LABKIT_DATA_DIR to one that has {file}.") from None
    failures = []
    for mirror in _SOURCES[name].mirrors:
        try:
            # pooch fills a temporary file, compares the checksum, and only then puts the file in its place.
            pooch.retrieve(mirror + file, checksum, fname=file, path=folder,
                           downloader=pooch.HTTPDownloader(progressbar=True, timeout=20))
            return path
        except (OSError, ValueError) as error:  # OSError: requests' errors; ValueError: a wrong checksum
            failures.append(f"  {mirror}{file}: {_shorten(error)}")
    state = "damaged (its checksum is wrong)" if path.is_file() else "not there"
    files = ", ".join(file for pair in _SOURCES[name].files.values() for file, _ in pair)
    raise LabError(
        f"cannot fetch {name}: {path} is {state}, and no mirror gave it:\n" + "\n".join(failures) + "\n"
        f"Without a network: copy {files} to {folder}, or set LABKIT_DATA_DIR to a folder that has them. "
        f"The data set 'digits' needs no network."
    )


def _shorten(error):
    text = " ".join(str(error).split())
    if "does not match the known hash" in text:
        return "what came has the wrong checksum"
    return f"{type(error).__name__}: {text[:160]}"
