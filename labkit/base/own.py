"""Folders that a command writes to.

A mark in them says whose they are, so that no command overwrites other files.
"""

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from hostcuda.files import locked, require_writable, write
from labkit.base.errors import LabError

MARK = ".written-by"  # the command, then the files that it has written: `make clean` removes these


@contextlib.contextmanager
def claiming(folder: Path, command: str) -> Iterator[None]:
    """Claim a folder for the files that a `with` block writes; remove a new one if it writes none, as after Ctrl-C.

    To claim is to write the file `MARK`, with the command's name. A folder with files but without this mark is
    refused (LabError): no command overwrites other files.
    """
    new = not folder.exists()
    claim_folder(folder, command)
    try:
        yield
    finally:
        if new and {path.name for path in folder.iterdir()} == {MARK}:
            (folder / MARK).unlink()
            folder.rmdir()


def claim_folder(folder: Path, command: str, written: Iterable[Path] = ()) -> None:
    """Create a folder for the files of a command, or take an empty one or one that the command has created before.

    The file `MARK` in it gets the command's name and the files `written`, a line each: `make clean`
    removes these files. Raises LabError if the folder has files and is not the command's; EngineError if
    it cannot be written.
    """
    require_writable(folder)  # creates it, too
    mark = folder / MARK
    with locked(mark):
        # neither the mark nor its lock, which has a longer name
        files = sorted(path.name for path in folder.iterdir() if MARK not in path.name)
        if mark.is_file():
            lines = mark.read_text(encoding="utf-8").splitlines()
        else:  # an empty folder is taken as the command's, one with files is refused
            lines = [] if files else [command]
        if lines[:1] != [command]:
            # `or lines`: a folder with nothing but the mark of another command
            raise LabError(
                f"{folder} has files that `{command}` did not write: {', '.join(files[:3] or lines)}. Give "
                "it an empty folder or a new one with --out, or move these away"
            )
        names = {*lines[1:], *(path.relative_to(folder).as_posix() for path in written)}
        write(mark, "\n".join([command, *sorted(names)]) + "\n")
