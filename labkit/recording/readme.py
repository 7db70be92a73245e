"""Texts between markers in README.md, written by the program that measures them.

    <!-- timings:begin -->
    ...
    <!-- timings:end -->
"""

import re
import sys
from pathlib import Path
from typing import Annotated

from typer import Argument

from labkit.base.errors import LabError
from labkit.base.files import write
from labkit.base.paths import PACKAGE

README = PACKAGE.parent / "README.md"


def put(name: str, text: str, path: Path = README) -> bool:
    """Replace the text between the markers `name` in a Markdown file; the file is written whole or not at all.

    Parameters
    ----------
    name : str
        As in ``<!-- name:begin -->``.
    text : str
        Markdown, without the markers.
    path : Path

    Returns
    -------
    bool
        Whether the file changed.

    Raises
    ------
    LabError
        The file lacks the pair of markers, or has it more than once.
    """
    old = Path(path).read_text(encoding="utf-8")
    begin, end = f"<!-- {name}:begin -->", f"<!-- {name}:end -->"
    if (old.count(begin), old.count(end)) != (1, 1) or old.index(begin) > old.index(end):
        raise LabError(f"{path} needs one line {begin} and one line {end} after it")
    pattern = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    new = pattern.sub(lambda _: f"{begin}\n{text.strip()}\n{end}", old)
    if new != old:
        write(path, new)
    return new != old


def readme(name: Annotated[str, Argument(help="As in <!-- NAME:begin -->.")]) -> None:
    """Put standard input between two markers of README.md."""
    print(f"README.md: {name} {'written' if put(name, sys.stdin.read()) else 'was up to date'}")
