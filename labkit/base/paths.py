"""The lab's folders: shipped data, kernels, and the cache; and the order of names of files."""

import os
import re
from pathlib import Path

from hostcuda.files import private
from hostcuda.settings import HOME, of_user

PACKAGE = Path(__file__).resolve().parent.parent
# the exercises: a folder per page, and in it one per exercise
SERIES = PACKAGE / "exercises" / "series"
# for processes that find no package
PYTHONPATH = os.pathsep.join(dict.fromkeys([str(PACKAGE.parent), str(HOME)]))


def data_dir() -> Path:
    """Return the folder of shipped data: weights, recorded results, published figures.

    It is `data/` beside the package in a checkout, and inside the package if that was installed
    from a wheel.
    """
    inside = PACKAGE / "data"
    return inside if inside.is_dir() else PACKAGE.parent / "data"


def course_dir() -> Path:
    """Return the folder of the course as it is shipped, with `notebooks`, `docs` and files of `recording`.

    `recording` is the code that recorded the data: those files of it that pages show are shipped. The
    folder is the checkout, or inside the package if that was installed from a wheel.
    """
    inside = PACKAGE / "course"
    return inside if inside.is_dir() else PACKAGE.parent


def cuda_src() -> Path:
    """Return the folder of the ladder's kernels, numbered versions of the convolution: `NN_name.cu`."""
    return PACKAGE / "cuda_src"


def cache_dir() -> Path:
    """Return the folder of everything that can be made again.

    It is what the environment variable `LABKIT_CACHE_DIR` says, else `labkit` in `XDG_CACHE_HOME`, else
    `~/.cache/labkit`. It may not exist: `private_cache` creates it. Raises EngineError if this user has no
    home folder.
    """
    return of_user("LABKIT_CACHE_DIR", "XDG_CACHE_HOME", "~/.cache", "labkit")


def private_cache() -> Path:
    """Return the folder of `cache_dir`, created for this user alone; EngineError if others can write to it."""
    return private(cache_dir(), "LABKIT_CACHE_DIR")


def natural_key(name: str) -> list[str | int]:
    """Return a key that sorts names by the value of the numbers in them: P9_producers before P10_mbarrier_ring.

    It is the list of texts and numbers in turn: ["P", 9, "_producers"]. It begins with a text, if need be
    "", so that no text is compared with a number.
    """
    return [int(piece) if piece.isdecimal() else piece for piece in re.split(r"(\d+)", name)]
