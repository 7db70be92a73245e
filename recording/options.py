"""Options that several commands of `python -m recording` have."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from labkit.ladder.rung import Rung
from labkit.ladder.rungs import LADDER, rung

Rungs = Annotated[list[str] | None, Argument(metavar="RUNG", help="Names or numbers (tuning, 7); all by default.")]
Device = Annotated[str, Option(metavar="NAME", help="Compare with what was recorded there.")]
Dry = Annotated[bool, Option("--dry", help="Keep nothing.")]
Folder = Annotated[Path | None, Option(metavar="DIR", help="Keep it there, in place of data/.")]
Repeat = Annotated[int | None, Option(help="Timed runs of each.")]


def chosen(names: list[str] | None) -> list[Rung]:
    """Return the rungs with these names or numbers; the whole ladder if there are none."""
    return [rung(int(name) if name.isdigit() else name) for name in names] if names else list(LADDER)
