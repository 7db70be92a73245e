"""The files in `data/`: one CSV per device, keyed by the names of the rungs.

A rung's number may change, its name does not. So a file holds "tuning, rows=4", and whoever reads
it gets "07 tuning, rows=4": `add_rung_numbers` and `remove_rung_numbers` convert a table when it is read and
before it is written.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from labkit.base import manifest
from labkit.base.errors import LabError
from labkit.ladder.rungs import LADDER, PAGES
from labkit.spec.devices import slug

# PAGES: 0, network, and 12, streams
NUMBERS = {**{rung.name: rung.number for rung in LADDER}, **PAGES}
_NAMES = {number: name for name, number in NUMBERS.items()}
_WORDS = {name.replace("_", " "): number for name, number in NUMBERS.items()}
_LABELS = ("label", "program", "options", "reason")  # columns whose texts may begin with a label
# A rung's name in a label: "tuning, rows=4", "fp16 + tuning"; or in a reason, "tuning cannot …". {}
# is for its number.
_LABEL = rf"(^| \+ ){{}}({'|'.join(_WORDS)})(?=$|[,;:]| \+ | needs | cannot )"
_DAMAGES = {  # in a file without a manifest: a pattern that shows damage, and what it means
    rb"\A\s*([^\n]*\n)?\s*\Z": "it has no rows",
    rb"\0": "it has NUL bytes",
    rb"(?m)^(<{7}|={7}|>{7})": "it has the marks of a conflict of git",
    rb"[^\n]\Z": "its last line is cut off",
}
_NUMBERED, _UNNUMBERED = re.compile(_LABEL.format(r"\d\d ")), re.compile(_LABEL.format(""))


def label(which: int | str) -> str:
    """Return a rung's label, "07 tuning", by its number or name; another text is returned, as a label already.

    Raises LabError for an unknown number.
    """
    if isinstance(which, str) and which not in NUMBERS:
        return which
    name = name_of(which)
    return f"{NUMBERS[name]:02d} {name.replace('_', ' ')}"


def name_of(rung: int | str) -> str:
    """Return the name of a rung, by its number or its name; LabError, which lists the rungs, if there is none."""
    name = _NAMES.get(rung, rung)
    if name not in NUMBERS:
        raise LabError(
            f"there is no rung {rung!r}; there are {', '.join(map(label, sorted(_NAMES)))}"
        )
    return name


def add_rung_numbers(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Return a file's table with rungs by number: "tuning" becomes 7, a label "tuning, rows=4" "07 tuning, rows=4".

    Files have names, because a rung's number may change. LabError for a rung that is unknown.
    """
    table = table.copy()
    if "rung" in table:
        if unknown := set(table["rung"]) - NUMBERS.keys():
            raise LabError(
                f"{path} names the rung {min(map(str, unknown))!r}; the ladder has {', '.join(NUMBERS)}"
            )
        table["rung"] = table["rung"].map(NUMBERS)
    # in a label, match[2] is a rung's name, and match[1] is "" or the " + " before it
    return _replace_labels(
        table, _UNNUMBERED, lambda match: f"{match[1]}{_WORDS[match[2]]:02d} {match[2]}"
    )


def remove_rung_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return a table with rungs by name, as files hold it: 7 becomes "tuning", "07 tuning, rows=4" "tuning, rows=4".

    The opposite of `add_rung_numbers`: a rung's number may change. LabError for a rung that is unknown.
    """
    table = table.copy()
    if "rung" in table:
        if unknown := set(table["rung"]) - _NAMES.keys():
            raise LabError(
                f"rung {min(unknown)} cannot be recorded: the ladder has {', '.join(map(str, _NAMES))}"
            )
        table["rung"] = table["rung"].map(_NAMES)
    return _replace_labels(table, _NUMBERED, r"\1\2")  # drops the number between these groups


def _replace_labels(
    table: pd.DataFrame, pattern: re.Pattern, replacement: str | Callable
) -> pd.DataFrame:
    """Replace a pattern in the columns that may have labels, as `re.sub` does; change and return the table."""
    for name in table.columns.intersection(_LABELS):
        table[name] = table[name].map(
            lambda text: pattern.sub(replacement, text), na_action="ignore"
        )
    return table


def find_file(folder: Path, name: str) -> Path:
    """Return the CSV file in `folder` of the one device that has this name, or whose name contains it.

    "H200" finds nvidia-h200.csv. Raises LabError if there is none, or more than one; the message
    lists the recorded devices.
    """
    paths = sorted(folder.glob("*.csv"))
    # the full name first: it may also be a part of another device's
    chosen = [path for path in paths if path.stem == slug(name)] or [
        path for path in paths if slug(name) in path.stem
    ]
    if len(chosen) != 1:
        devices = ", ".join(path.stem for path in paths) or "no device"
        many = f"{len(chosen)} recorded devices have" if chosen else "no recorded device has"
        raise LabError(f"{many} {name!r} in the name; {folder} has results of {devices}")
    return chosen[0]


def read_as_stored(path: Path, *needed: str, **options: Any) -> pd.DataFrame:
    """Return the table of a CSV file as it stands there; `options` are those of `pandas.read_csv`.

    Raises LabError if it cannot be read, is not what its manifest says, is no whole CSV, or lacks a
    column of `needed`.
    """
    # LabError if its SHA-256 is another one than data/MANIFEST.sha256 has
    text = manifest.read(path)
    damages = [damage for pattern, damage in _DAMAGES.items() if re.search(pattern, text)]
    try:
        table = pd.DataFrame() if damages else pd.read_csv(io.BytesIO(text), **options)
        damages += [f"it has no column {name!r}" for name in needed if name not in table]
    except ValueError:  # what pandas says of it is in terms of its parser
        damages = ["its lines are not those of one table"]
    if damages:
        raise LabError(f"{path} is damaged: {damages[0]}. Restore it with git")
    return table


def read(path: Path, *needed: str) -> pd.DataFrame:
    """Return the table of a CSV file, with rungs by number in place of name; LabError as in `read_as_stored`."""
    return add_rung_numbers(read_as_stored(path, *needed), path)


def is_several(value: object) -> bool:
    """Return whether a value is a list or another iterable, and no text."""
    return isinstance(value, Iterable) and not isinstance(value, str)


def describe(wanted: Mapping[str, object]) -> str:
    """Return in words which values of columns, except None, were asked for: "network lenet86, batch 100 or 1000"."""
    texts = {
        name: " or ".join(
            # a Layer by its name
            getattr(item, "name", str(item))
            for item in (value if is_several(value) else [value])
        )
        for name, value in wanted.items()
        if value is not None
    }
    return ", ".join(f"{name} {text}" for name, text in texts.items()) or "that"


def choose(table: pd.DataFrame, complaint: str, **wanted: object) -> pd.DataFrame:
    """Return the rows with these values in these columns: one value, several, or None for any.

    Raises LabError if there are none; it begins with `complaint`, "H200 has no times", and lists
    what the columns have.
    """
    rows, wanted = table, {name: value for name, value in wanted.items() if value is not None}
    for name, value in wanted.items():
        rows = rows[rows[name].isin(list(value) if is_several(value) else [value])]
    if rows.empty:
        choices = "; ".join(
            f"{name}: {', '.join(map(str, table[name].dropna().unique()))}" for name in wanted
        )
        raise LabError(f"{complaint} for {describe(wanted)}. It has {choices}")
    return rows.reset_index(drop=True)
