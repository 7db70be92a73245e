"""Files that are complete or do not exist."""

import os
import tempfile
from pathlib import Path

from labkit.base.errors import LabError


def require_writable(folder: Path) -> None:
    """Make a folder, and check that files can be created in it.

    Raises
    ------
    LabError
        The folder cannot be made, or no file can be created in it.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise LabError(f"cannot write to {folder}: {error.strerror}. Choose a folder that you may write to.") from None


def write(path: Path | str, content: str | bytes) -> Path:
    """Write a file, and make its folder. Other processes never see an incomplete file.

    Raises
    ------
    LabError
        The file cannot be written; an older file of that name is unchanged.
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
        os.chmod(part, 0o644)  # mkstemp makes files that only their owner can read
        os.replace(part, path)
    except OSError as error:
        os.unlink(part)
        raise LabError(f"cannot write {path}: {error.strerror}.") from None
    except BaseException:
        os.unlink(part)
        raise
    return path
