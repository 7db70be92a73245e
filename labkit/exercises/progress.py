"""How far a reader has come: a file of the reader's own, outside of the checkout."""

from __future__ import annotations

import datetime
import json
from pathlib import Path

import pandas as pd

from hostcuda.files import locked, write
from hostcuda.tables import HTML
from labkit.base.errors import LabError
from labkit.base.paths import of_user
from labkit.base.tables import table
from labkit.exercises.exercise import exercises

predicted: dict[str, object] = {}  # what `lab.predict` was given in this process, by its names
shown: set[Path] = set()  # the folders of the exercises whose solution `lab.solution` has shown in this process


def path() -> Path:
    """The file: `LABKIT_PROGRESS`, else `labkit/progress.json` in the folder of the user's data."""
    return of_user("LABKIT_PROGRESS", "XDG_DATA_HOME", "~/.local/share", "labkit/progress.json")


def read() -> dict[str, dict]:
    """What is known of each exercise that was tried.

    ``failed`` are the digests of its failed attempts, ``hinted`` of those that unlocked a hint; ``met`` is a date, or
    None. Raises LabError if the file is damaged.
    """
    try:
        known = json.loads(path().read_text(encoding="utf-8"))
        return {
            number: {
                "failed": [*map(str, each["failed"])],
                "hinted": [*map(str, each.get("hinted", each["failed"]))],  # older files have those alone
                "met": each["met"],
            }
            for number, each in known.items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LabError(f"cannot read {path()}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabError(f"{path()} is damaged: repair it, or remove it to begin anew") from None


def note(number: str, digest: str, met: bool, hint: bool = True, first: bool = True) -> int:
    """Add an attempt by its digest, once; return how many different attempts have unlocked a hint up to now.

    One that has not `met` the goal unlocks a hint if `hint`; as the first one that failed, only if `first`.
    """
    with locked(path()):
        known = read()
        mine = known.setdefault(number, {"failed": [], "hinted": [], "met": None})
        if met:
            mine["met"] = mine["met"] or datetime.date.today().isoformat()
        hint = hint and (first or any(other != digest for other in mine["failed"]))
        for kind in () if met else ("failed", "hinted") if hint else ("failed",):
            if digest not in mine[kind]:
                mine[kind].append(digest)
        write(path(), json.dumps(known, indent=1) + "\n")
    return len(mine["hinted"])


def progress() -> HTML:
    """The exercises with those that are done, as a table for a page."""
    known = read()
    rows = []
    for number, each in exercises().items():
        mine = known.get(number, {"failed": [], "met": None})
        state = f"goal met on {mine['met']}" if mine["met"] else "tried" if mine["failed"] else ""
        rows.append({"exercise": number, "title": each.title, "state": state, "failed attempts": len(mine["failed"])})
    done = sum(row["state"].startswith("goal met") for row in rows)
    frame = pd.DataFrame(rows)
    return table(frame, f"Exercises: {done} of {len(rows)} done", {name: name for name in frame})
