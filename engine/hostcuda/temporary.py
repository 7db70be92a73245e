"""Temporary folders that are removed, also after a process was killed.

A killed process cannot remove its folders. So each folder is locked as long as its process lives,
and the first folder that another process makes removes those that nobody locks.
"""

import contextlib
import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

# None if there are no locks: then the folders of a killed process stay
from hostcuda.files import fcntl

PREFIX = "hostcuda-tmp-"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Make an empty folder that exists during a `with`, which gets its path."""
    path, handle = make()
    try:
        yield path
    finally:
        try:
            remove(path)
        finally:
            if handle is not None:
                os.close(handle)  # unlocks the folder: locked, no other process removes it


def remove(path: Path) -> None:
    """Remove a folder that a program has filled, however deep its folders lie and whatever their modes are."""
    with contextlib.suppress(RecursionError):
        shutil.rmtree(path, ignore_errors=True)
    if path.exists():  # a folder without rights, or too deep for Python
        for command in (["chmod", "-R", "u+rwX"], ["rm", "-rf"]):
            subprocess.run([*command, "--", str(path)], stderr=subprocess.DEVNULL, check=False)


def make() -> tuple[Path, int | None]:
    """Make a temporary folder; return (its path, the descriptor that holds its lock until it is closed).

    The descriptor is None where there are no locks. The first call removes folders of ended processes.
    """
    remove_left_over(tempfile.gettempdir())
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX))
        if fcntl is None:
            return path, None
        try:
            handle = _lock(path)
        except (BlockingIOError, FileNotFoundError):  # another process removes it, or has done so
            continue
        except OSError:  # a file system without locks
            return path, None
        return path, handle


def _lock(path: Path) -> int:
    """Lock a folder; return the descriptor that holds the lock.

    OSError if another process holds it or removes it.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # it was removed, and made again, before the lock
        if not os.path.samestat(os.fstat(handle), os.stat(path)):
            raise FileNotFoundError(path)
    except BaseException:
        os.close(handle)
        raise
    return handle


@functools.cache  # once per process
def remove_left_over(parent: str) -> None:
    """Remove the folders that `make` made in `parent` for processes of this user that have ended.

    Without locks (`fcntl`) nothing is removed: nobody knows which processes have ended.
    """
    if fcntl is None:
        return
    for path in Path(parent).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):  # its process lives, or another process removes it, too
            handle = _lock(path)
            try:
                if os.geteuid() in (0, os.fstat(handle).st_uid):  # root removes those of all users
                    remove(path)
            finally:
                os.close(handle)
