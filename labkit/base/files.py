"""Files that are either whole or not there."""

import os
import tempfile
from pathlib import Path

from labkit.base.errors import LabError


def require_writable(folder: Path) -> None:
    """Make a folder, and see that files can be made in it.

    Raises
    ------
    LabError
        They cannot.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise LabError(f"cannot write to {folder}: {error.strerror}. Choose a folder that you may write to.") from None


def write(path: Path | str, content: str | bytes) -> Path:
    """Write a file, its folder too, so that nobody ever sees half of it.

    Raises
    ------
    LabError
        The file cannot be written there; what stood there before still does.
    """
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, part = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise LabError(f"cannot write {path}: {error.strerror}. Choose a folder that you may write to.") from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(part, 0o644)  # mkstemp's files are for their owner alone
        os.replace(part, path)
    except OSError as error:
        os.unlink(part)
        raise LabError(f"cannot write {path}: {error.strerror}.") from None
    except BaseException:
        os.unlink(part)
        raise
    return path
