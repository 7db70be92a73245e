"""What a command leaves in its scratch folder, read outside the sandbox: nothing in it is trusted."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import stat
from collections.abc import Mapping
from pathlib import Path

from hostcuda.errors import EngineError
from hostcuda.sandbox.runs import MIB, SandboxEnded

_MOST_VALUES = 1_000_000  # of the JSON of a result
_MOST_RECORDS, _VALUES_PER_RECORD = 20_000, 300_000  # of a file of records


class NoResultError(EngineError):
    """By its own fault a command has no result: it reached a limit, crashed, or replaced the file of the result."""


def read_file(path: Path, most: int) -> bytes:
    """Return the content of a file that a sandboxed program has left, if it is a plain one of at most `most` bytes.

    OSError if it cannot be read; ValueError if it is a link, something else, or larger.
    """
    # A link would be followed with the rights of this process, and a pipe would be waited for.
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        # a file with a second name (a hard link) may be somebody else's
        if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
            raise ValueError("it is no plain file")
        data = file.read(most + 1)  # a byte more than allowed tells a larger file
    if len(data) > most:
        raise ValueError(f"it has more than {most / MIB:g} MB")
    return data


def read_records(path: Path, most: int = 8 * MIB) -> list[dict]:
    """Return the records of a file with an object of JSON per line, as a command has left it; skip other lines.

    Without such a file the list is empty. NoResultError says why a file is not read: it is no plain
    file, or has more than `most` bytes or too many lines.
    """
    try:
        lines = read_file(path, most).splitlines()
        if len(lines) > _MOST_RECORDS:
            raise ValueError(f"it has more than {_MOST_RECORDS:,} lines")
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        reason = "it is no plain file" if isinstance(error, OSError) else error
        raise NoResultError(
            f"the records of the run, {path.name}, are not read: {reason}"
        ) from None
    records = []
    for line in lines:
        with contextlib.suppress(ValueError, RecursionError):
            record = parse_json(line, _VALUES_PER_RECORD)
            if isinstance(record, dict):
                records.append(record)
    return records


def write_answer(path: Path, word: str, record: Mapping) -> None:
    """Write a result, `record`, as JSON to a file, with `word`, the nonce by which `read_answer` recognizes it."""
    Path(path).write_text(json.dumps({"nonce": word, "record": record}))


def make_nonce() -> str:
    """Return a random word that nobody can guess, by which the answer of a sandboxed program is recognized."""
    return secrets.token_hex(16)


def parse_json(data: bytes, most: int) -> object:
    """Return the value of an untrusted JSON text.

    ValueError if it is no JSON, or may have more than `most` values, which would need much memory;
    RecursionError if it is nested too deep.
    """
    # One of these signs precedes each value (but the first), so they are counted before the text is
    # parsed. Those in strings count, too.
    if sum(map(data.count, (b"{", b"[", b","))) > most:
        raise ValueError(f"it has more than {most:,} values")
    return json.loads(data)


def read_answer(ended: SandboxEnded, path: Path, word: str, most: int = 64 * MIB) -> dict:
    """Return the result that a command has left, read outside the sandbox.

    Parameters
    ----------
    ended : SandboxEnded
        It must have ended by itself with status 0.
    path : Path
        A file of JSON that `write_answer` wrote: ``nonce``, and ``record``, a dict.
    word : str
        The nonce that the command was given: a random word that a submitted kernel does not know.
    most : int
        Bytes; a longer file is not read.

    Raises
    ------
    NoResultError
        The command did not come to its end, there is no such file, it is not a plain file, or the
        nonce is wrong.
    EngineError
        It ended with an exit status other than 0, or something killed it: that need not be its own
        fault.
    """
    if ended.problem:
        # a limit (None) or a signal, such as that of a crash; SIGKILL may come from the system
        own_fault = ended.status is None or (ended.status < 0 and ended.status != -signal.SIGKILL)
        raise (NoResultError if own_fault else EngineError)(
            f"there is no result: the program {ended.problem}"
        )
    try:
        values = parse_json(read_file(path, most), _MOST_VALUES)
    except (OSError, ValueError, RecursionError):
        values = None
    claimed = str(values.get("nonce")) if isinstance(values, dict) else ""
    right = secrets.compare_digest(claimed.encode("utf-8", "replace"), word.encode())
    if not right or not isinstance(values.get("record"), dict):
        raise NoResultError(
            "there is no result: the program ended before it could write one, or another one was put "
            "there"
        )
    return values["record"]
