"""The environment variables that the engine reads, and its folder for files that it can make again."""

import os
import sys
from pathlib import Path

from hostcuda.errors import EngineError

HOME = Path(__file__).resolve().parents[1]  # the folder that this package is imported from


def variable(name: str) -> tuple[str, str]:
    """Return an environment variable of the engine: the name under which it is set, and its value.

    Parameters
    ----------
    name : str
        "ENGINE" is ``HOSTCUDA_ENGINE``. ``LABKIT_ENGINE``, its name in the convolution lab, is read
        where that is not set.

    Returns
    -------
    tuple of str
        The name that is set, or ``HOSTCUDA_…``; the value, or an empty string.
    """
    names = (f"HOSTCUDA_{name}", f"LABKIT_{name}")
    return next(((key, os.environ[key]) for key in names if os.environ.get(key)), (names[0], ""))


def cache_dir() -> Path:
    """Return the folder of compiled kernels, which need not exist: HOSTCUDA_CACHE_DIR, or else ~/.cache/hostcuda.

    EngineError if this user has no home folder.
    """
    # [0]: the name, HOSTCUDA_CACHE_DIR or LABKIT_CACHE_DIR
    return of_user(variable("CACHE_DIR")[0], "XDG_CACHE_HOME", "~/.cache", "hostcuda")


def of_user(name: str, parent: str, default: str, folder: str) -> Path:
    """Return the folder that the environment variable `name` chooses, which need not exist.

    If the variable is not set, the folder is `folder` inside of another one: the one that the variable
    `parent` names ("XDG_CACHE_HOME"), or else the path `default` ("~/.cache"). Raises EngineError if
    this user has no home folder.
    """
    place = os.environ.get(name)
    try:
        return (
            Path(place).expanduser()
            if place
            else Path(os.environ.get(parent) or default).expanduser() / folder
        )
    except RuntimeError:  # neither HOME nor an entry in the list of users
        raise EngineError(
            f"this user has no home folder: set {name} to a place of your own"
        ) from None


def in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    return hasattr(ipython.get_ipython(), "kernel") if ipython else False
