"""The environment variables that the engine reads, and its folder for what can be made again."""

import os
from pathlib import Path

from hostcuda.errors import EngineError

HOME = Path(__file__).resolve().parent.parent  # the folder that this package is imported from


def variable(name: str) -> tuple[str, str]:
    """An environment variable of the engine: what it is called here, and its value.

    Parameters
    ----------
    name : str
        "ENGINE" is ``HOSTCUDA_ENGINE``. ``LABKIT_ENGINE``, its name in the convolution lab, is read where that is not
        set.

    Returns
    -------
    tuple of str
        The name that is set, or ``HOSTCUDA_…``; the value, or an empty string.
    """
    names = (f"HOSTCUDA_{name}", f"LABKIT_{name}")
    return next(((each, os.environ[each]) for each in names if os.environ.get(each)), (names[0], ""))


def cache_dir() -> Path:
    """The folder of compiled kernels: `HOSTCUDA_CACHE_DIR`, else `~/.cache/hostcuda`.

    The folder is not made here: who writes into it makes it with `hostcuda.files.private`, and can say what cannot be
    kept if that fails.

    Raises
    ------
    EngineError
        This user has no home folder.
    """
    return of_user(variable("CACHE_DIR")[0], "XDG_CACHE_HOME", "~/.cache", "hostcuda")


def of_user(name: str, parent: str, default: str, folder: str) -> Path:
    """A place of the user's: what the environment variable `name` names, else `folder` in what `parent` names, or in
    `default`.

    Raises
    ------
    EngineError
        This user has no home folder.
    """
    chosen = os.environ.get(name)
    try:
        return Path(chosen).expanduser() if chosen else Path(os.environ.get(parent) or default).expanduser() / folder
    except RuntimeError:  # neither HOME nor an entry in the list of users
        raise EngineError(f"this user has no home folder: set {name} to a place of your own") from None
