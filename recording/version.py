"""The version of the four packages, wherever it is written; `labkit.__version__` is the one that counts."""

import datetime
import re
from pathlib import Path
from typing import Annotated

import typer

from hostcuda.files import write
from labkit import LabError
from labkit.base.paths import PACKAGE

ROOT = PACKAGE.parent
_MODULE = r'^__version__ = "(.+)"$'
# What stands for the version in each file, which has it in every match.
PLACES = {
    "labkit/__init__.py": _MODULE,
    "engine/hostcuda/__init__.py": _MODULE,
    "classroom/labkit_classroom/__init__.py": _MODULE,
    "playground/labkit_playground/__init__.py": _MODULE,
    "engine/server.json": r'"version": "(.+?)"',
    "CITATION.cff": r"^version: (.+)$",
}


def find_versions(root: Path = ROOT) -> dict[str, set[str]]:
    """Return the versions that each file of `PLACES` has: {"CITATION.cff": {"2.0.0"}, …}, one in each if all agree.

    The files are in the folder `root`.
    """
    # `findall` returns the pattern's only group, the version
    return {
        name: set(re.findall(pattern, (root / name).read_text("utf-8"), re.MULTILINE))
        for name, pattern in PLACES.items()
    }


def version(number: Annotated[str, typer.Argument(metavar="X.Y.Z")]) -> None:
    """Write the next release's version into all files.

    CITATION.cff gets today's date; CHANGELOG.md gets its heading by hand.
    """
    if not re.fullmatch(r"\d+\.\d+\.\d+", number):
        raise LabError(f"{number!r} is not a version: write three numbers, such as 2.1.0")
    for name, pattern in PLACES.items():
        text = (ROOT / name).read_text("utf-8")
        # match[1] is the version, match[0] the text around it
        text = re.sub(
            pattern, lambda match: match[0].replace(match[1], number), text, flags=re.MULTILINE
        )
        today = f"date-released: {datetime.date.today()}"
        write(ROOT / name, re.sub(r"^date-released: .+$", today, text, flags=re.MULTILINE))
        print(name)
