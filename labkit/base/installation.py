"""How the lab came here, a checkout or an installed package, and the commands that mend either."""

import json
import sys
from importlib import metadata
from pathlib import Path

from labkit.base.paths import PACKAGE

PROJECT = "cuda-convolution-lab"  # the name that pip knows
_PIP_INSTALL = f'"{sys.executable}" -m pip install'

# Packages that only figures, the notebooks and their reports import: the extra "notebooks".
NOTEBOOKS = (
    "IPython",
    "jinja2",
    "jupyter_client",
    "latex2mathml",
    "matplotlib",
    "nbclient",
    "nbconvert",
    "nbformat",
    "nh3",
    "pygments",
)


def find_checkout() -> Path | None:
    """Return the root folder of the checkout that `labkit` is imported from; None if it is an installed package."""
    return PACKAGE.parent if (PACKAGE.parent / "pyproject.toml").is_file() else None


def write_restore_command(name: str) -> str:
    """Return the command that restores a file or folder of the lab, such as `data/weights`.

    It is git's in a checkout. An installed package is installed anew by pip, from where it came.
    """
    if root := find_checkout():
        return f'git -C "{root}" checkout -- {name}'
    return f'{_PIP_INSTALL} --force-reinstall --no-deps "{PROJECT}{_find_origin()}"'


def write_install_command(extra: str = "notebooks") -> str:
    """Return the command that installs labkit with an extra: by default what figures, notebooks and reports need."""
    return f'{_PIP_INSTALL} "{PROJECT}[{extra}]{_find_origin()}"'


def _find_origin() -> str:
    """Return " @ file:///…", the address that pip installed the project from, for a requirement; "" if not known."""
    try:
        direct_url = metadata.distribution(PROJECT).read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        direct_url = None
    return f" @ {json.loads(direct_url)['url']}" if direct_url else ""
