"""Keep a reader's progress in a file of the reader's own, outside of the checkout."""

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

# What other cells of this process did, for `labkit.grade`. `lab.predict` adds predictions by name:
# a wrong one misses the goal that names it as `Goal.predicted`. `lab.solution` adds the folder of
# an exercise whose solution it shows: an attempt with the same code is then not noted as the
# reader's own.
predicted: dict[str, object] = {}
shown: set[Path] = set()


def path() -> Path:
    """Return the path of the file with the reader's progress: what the variable LABKIT_PROGRESS says, or the usual one.

    The usual one is labkit/progress.json in the folder XDG_DATA_HOME, else in ~/.local/share.
    """
    return of_user("LABKIT_PROGRESS", "XDG_DATA_HOME", "~/.local/share", "labkit/progress.json")


def read() -> dict[str, dict]:
    """Return the notes on each exercise that was tried, by its number, or by its path for an exercise of one's own.

    ``failed`` lists the digests of failed attempts, ``hinted`` of those that unlocked a hint;
    ``met`` is the date of the first success, or None. LabError if the file is damaged or cannot be
    read.
    """
    try:
        file_notes = json.loads(path().read_text(encoding="utf-8"))
        return {
            number: {
                "failed": [*map(str, notes["failed"])],
                # files of older versions have no "hinted": there each failed attempt unlocked a hint
                "hinted": [*map(str, notes.get("hinted", notes["failed"]))],
                "met": notes["met"],
            }
            for number, notes in file_notes.items()
        }
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise LabError(f"cannot read {path()}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise LabError(f"{path()} is damaged: repair it, or remove it to begin anew") from None


def note(number: str, digest: str, met: bool, hint: bool = True, first: bool = True) -> int:
    """Note an attempt at exercise `number` in the file of the reader's progress; return how many have unlocked a hint.

    An attempt is known by the digest of its text: the same text is noted once.
    An attempt that has not `met` the goal unlocks a hint if `hint`: if nothing else in its grade
    says what to do. If it is the first failed attempt, it does so only if `first`, too: its grade
    may have a thread to follow instead.
    """
    with locked(path()):
        all_notes = read()
        notes = all_notes.setdefault(number, {"failed": [], "hinted": [], "met": None})
        if met:
            notes["met"] = notes["met"] or datetime.date.today().isoformat()
        has_failed_before = any(failed != digest for failed in notes["failed"])
        lists = []
        if not met:
            lists = ["failed", "hinted"] if hint and (first or has_failed_before) else ["failed"]
        for name in lists:
            if digest not in notes[name]:
                notes[name].append(digest)
        write(path(), json.dumps(all_notes, indent=1) + "\n")
    return len(notes["hinted"])


def progress() -> HTML:
    """Return a table for a page: each exercise, its state ("goal met on DATE", "tried" or "") and failed attempts."""
    all_notes = read()
    rows = []
    for number, task in exercises().items():
        notes = all_notes.get(number, {"failed": [], "met": None})
        state = (
            f"goal met on {notes['met']}" if notes["met"] else "tried" if notes["failed"] else ""
        )
        rows.append(
            {
                "exercise": number,
                "title": task.title,
                "state": state,
                "failed attempts": len(notes["failed"]),
            }
        )
    met_count = sum(row["state"].startswith("goal met") for row in rows)
    frame = pd.DataFrame(rows)
    headings = {name: name for name in frame}  # of each column
    return table(frame, f"Exercises: {met_count} of {len(rows)} done", headings)
