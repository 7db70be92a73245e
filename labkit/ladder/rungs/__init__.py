"""The ladder: every module of this folder defines one rung as `RUNG`."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from labkit.base.errors import LabError
from labkit.ladder.rung import Rung

LADDER: tuple[Rung, ...] = tuple(
    sorted(
        (
            import_module(f"{__name__}.{module.name}").RUNG
            for module in pkgutil.iter_modules(__path__)
        ),
        key=lambda rung: rung.number,
    )
)

# Pages that have a number and recorded figures, but no kernel in the ladder.
PAGES = {"network": 0, "streams": 12}


def rung(which: int | str) -> Rung:
    """Return a rung by its number or its name.

    Raises LabError if there is none; the message lists the rungs.
    """
    for candidate in LADDER:
        # in Python True == 1, but it is no number of a rung
        if which in (candidate.number, candidate.name) and not isinstance(which, bool):
            return candidate
    raise LabError(
        f"there is no rung {which!r}; the ladder has {', '.join(rung.label for rung in LADDER)}"
    )
