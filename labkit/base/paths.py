"""The lab's folders: shipped data, kernels, and the cache."""

import os
from pathlib import Path

from labkit.base.errors import LabError

PACKAGE = Path(__file__).resolve().parent.parent


def data_dir() -> Path:
    """The folder of shipped data: weights, recorded results, published figures.

    It is `data/` beside the package in a checkout, and inside the package where that was installed from a wheel.
    """
    inside = PACKAGE / "data"
    return inside if inside.is_dir() else PACKAGE.parent / "data"


def cuda_src() -> Path:
    """The folder of the ladder's kernels, `NN_name.cu`."""
    return PACKAGE / "cuda_src"


def cache_dir() -> Path:
    """The folder of everything that can be made again: `LABKIT_CACHE_DIR`, else `~/.cache/labkit`.

    The folder is not made here: who writes into it makes it with `labkit.base.files.private`, and can say what cannot
    be kept if that fails.

    Raises
    ------
    LabError
        This user has no home folder.
    """
    return of_user("LABKIT_CACHE_DIR", "XDG_CACHE_HOME", "~/.cache", "labkit")


def of_user(variable: str, parent: str, default: str, name: str) -> Path:
    """A place of the user's: what `variable` names, else `name` in the folder that `parent` names, or in `default`."""
    chosen = os.environ.get(variable)
    try:
        return Path(chosen).expanduser() if chosen else Path(os.environ.get(parent) or default).expanduser() / name
    except RuntimeError:  # neither HOME nor an entry in the list of users
        raise LabError(f"this user has no home folder: set {variable} to a place of your own") from None
