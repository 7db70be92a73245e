"""Outputs of notebooks that are kept from one report to the next, while nothing that they depend on has changed.

They lie in the user's cache, in a folder that nobody else may write to, under a digest of all that
they depend on: the notebook's code, and `state`, which has every file of the lab, of its data and
of the engine, the compiler, the processor and the versions of all packages. A file that is damaged
is not read.
"""

import contextlib
import hashlib
import os
import pickle
import sys
import time
from pathlib import Path

import hostcuda
from hostcuda.errors import EngineError
from hostcuda.files import write
from labkit.base.paths import PACKAGE, data_dir

_ENGINE = ("HOSTCUDA_ENGINE", "LABKIT_ENGINE")  # a result's name says which engine it comes from
IDLE_DAYS = 30  # a result that nobody has read for so long is removed


def digest(*parts: object) -> str:
    """Return the SHA-256, in hexadecimal digits, of all parts: bytes, or the text `str` of another object.

    Each part has its length in front. The lengths make ("ab", "c") differ from ("a", "bc").
    """
    sha = hashlib.sha256()
    for part in parts:
        # surrogateescape: a file's name need not be UTF-8
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        sha.update(len(data).to_bytes(8, "little") + data)
    return sha.hexdigest()


def state() -> str:
    """Return a digest of what a notebook's results depend on besides its code.

    These are the files of the lab, the engine and the data, the compiler, the processor, the packages
    and the settings.
    """
    from hostcuda.checking import fingerprint  # here, because it loads the engine

    folders = (PACKAGE, Path(hostcuda.__file__).parent, data_dir())
    files = sorted(
        path
        for folder in folders
        for path in folder.rglob("*")
        if path.is_file() and path.suffix not in (".pyc", ".lock")
    )
    places = map(Path, filter(os.path.isdir, sys.path))
    # folders like "numpy-2.1.0.dist-info": names and versions of the packages
    packages = sorted(info.name for place in places for info in place.glob("*-[0-9]*-info"))
    # without the engine's name, `_ENGINE`, which a result's key has
    settings = sorted(
        (name, value)
        for name, value in os.environ.items()
        if name.startswith(("HOSTCUDA_", "LABKIT_", "CUDA_")) and name not in _ENGINE
    )
    contents = (item for path in files for item in (path, path.read_bytes()))
    # fingerprint: of the engine, the compiler and the processor
    return digest(fingerprint(), sys.version, packages, settings, *contents)


class ResultsCache:
    """Results kept under one `state`, in a folder of this user alone.

    `state` is what the function `state` returned before the computations began.
    """

    def __init__(self, state: str, folder: Path):
        self.state, self.folder = state, folder / "kept"

    def get(self, *key: object) -> object:
        """Return the object that `put` has kept under this key; None if there is none, or its file is damaged.

        The key is any number of objects, such as a notebook's name and the source of its cells.
        """
        path = self._path(key)
        try:
            # the first line is the checksum of the file's name and of the rest, a pickled object
            checksum, _, data = path.read_bytes().partition(b"\n")
            if checksum.decode() != digest(path.name, data):
                return None
            os.utime(path)  # it was read now: `trim` leaves it
            return pickle.loads(data)
        except (OSError, ValueError):
            return None

    def put(self, value: object, *key: object) -> None:
        """Write a value to the file of this key, after a checksum.

        Nothing is written if `state` (of the lab's files, the compiler, the settings ...) has changed
        since this object was made: the value may come from the old state or from the new one.
        """
        if state() == self.state:
            data = pickle.dumps(value)
            with contextlib.suppress(EngineError):  # a full disk: it is computed again
                write(path := self._path(key), digest(path.name, data).encode() + b"\n" + data)

    def trim(self) -> None:
        """Remove the files of results that nobody has read for `IDLE_DAYS`."""
        oldest = time.time() - IDLE_DAYS * 24 * 3600
        # the names that `_path` gives, SHA-256 in hexadecimal digits
        for path in self.folder.glob("?" * 64):
            with contextlib.suppress(OSError):
                if path.stat().st_mtime < oldest:
                    path.unlink()

    def _path(self, key: tuple) -> Path:
        """Return the file of a key: its name is the digest of the state and the key."""
        return self.folder / digest(self.state, *key)
