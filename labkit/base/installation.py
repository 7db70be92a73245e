"""How the lab came here, a checkout or an installed package, and the commands that mend either.

The lab depends on hostcuda, which no registry has: it is installed from the same repository, and before it.
"""

import json
import sys
from importlib import metadata
from pathlib import Path

from labkit.base.paths import PACKAGE

PROJECT = "cuda-convolution-lab"  # the name that pip knows

# What only figures, the notebooks and their reports import: the extra "notebooks".
NOTEBOOKS = (
    "IPython", "jinja2", "jupyter_client", "latex2mathml", "matplotlib", "nbclient", "nbconvert", "nbformat", "nh3",
    "pygments",
)


def checkout() -> Path | None:
    """The checkout that the package lies in, with its notebooks; None for an installed package."""
    return PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None


def restore(name: str) -> str:
    """The command that brings back files of the lab: `data`, `data/weights`, ..."""
    if root := checkout():
        return f'git -C "{root}" checkout -- {name}'
    return f'{_pip()} --force-reinstall --no-deps "{PROJECT}{_origin()}"'


def notebooks() -> str:
    """The command that adds what figures, notebooks and reports need."""
    return f'{_pip()} "{PROJECT}[notebooks]{_origin()}"'


def _pip() -> str:
    return f'"{sys.executable}" -m pip install'


def _origin() -> str:
    """What follows the project's name where pip knows it from a file or an address alone: " @ file:///…"."""
    try:
        direct = metadata.distribution(PROJECT).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        direct = None
    return f" @ {json.loads(direct)['url']}" if direct else ""
