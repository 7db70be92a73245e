"""The lab's folders: shipped data, kernels, and the cache."""

import os
from pathlib import Path

PACKAGE = Path(__file__).resolve().parent.parent


def data_dir() -> Path:
    """The folder of shipped data: weights, recorded results, published figures.

    It is `data/` beside the package, in a checkout.
    """
    return PACKAGE.parent / "data"


def cuda_src() -> Path:
    """The folder of the ladder's kernels, `NN_name.cu`."""
    return PACKAGE / "cuda_src"


def cache_dir() -> Path:
    """The folder of everything that can be made again: `LABKIT_CACHE_DIR`, else `~/.cache/labkit`.

    The folder is not made here: who writes into it makes it, and can say what cannot be kept if that fails.
    """
    chosen = os.environ.get("LABKIT_CACHE_DIR")
    if chosen:
        return Path(chosen).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "labkit"
