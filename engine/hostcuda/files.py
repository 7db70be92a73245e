"""Files that are either complete or absent, and folders that no other user can change."""

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from hostcuda.errors import EngineError

try:
    import fcntl
except ImportError:  # Windows lacks the locks below
    fcntl = None


def require_writable(folder: Path) -> None:
    """Make a folder; EngineError if it cannot be made, or no file can be created in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise EngineError(
            f"cannot write to {folder}: {error.strerror}. Choose another folder."
        ) from None


def require_place(file: Path | None) -> None:
    """Raise an EngineError if a command could not write its table (CSV) to `file`, before it works for minutes.

    Refused are a file that cannot be written, a link, a device, and an existing file that holds
    something other than an earlier table. None, no file, is accepted.
    """
    if file is None:
        return
    if file.is_symlink() or (file.exists() and not file.is_file()):  # a table would replace it
        raise EngineError(
            f"{file} is a {'folder: name a file in it' if file.is_dir() else 'link or a device'}"
        )
    if not file.parent.is_dir():
        raise EngineError(
            f"there is no folder {file.parent} for {file.name}: make it, or choose another"
        )
    require_writable(file.parent)
    content = file.read_bytes() if file.is_file() else b""
    # An earlier table has one of these columns in its first line.
    if content and not {b"kernel", b"label"} & {*content.partition(b"\n")[0].strip().split(b",")}:
        raise EngineError(
            f"{file} is there, and is no table of an earlier run: remove it, or choose another name"
        )


def private(folder: Path, variable: str = "HOSTCUDA_CACHE_DIR") -> Path:
    """Make the cache folder, for this user alone; if it exists, check that this user and nobody else can write to it.

    Return `folder`. EngineError if it cannot be made or written, it or a link to it belongs to
    another user, or others can write to it: they could put compiled code there. The message names
    `variable`, which chooses the folder.
    """
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        link, target = folder.lstat(), folder.stat()
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        problem = f"cannot be written ({error.strerror})"
    else:
        # Windows has no geteuid; a folder that is no link is its own target
        if hasattr(os, "geteuid") and {link.st_uid, target.st_uid} != {os.geteuid()}:
            problem = "belongs to another user, who can change what is in it"
        elif target.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            problem = f"can be changed by other users (if all in it is yours, chmod go-w {folder})"
        else:
            return folder
    raise EngineError(
        f"the cache folder {folder} {problem}: set {variable} to a folder of your own"
    )


@contextlib.contextmanager
def locked(path: Path | str) -> Iterator[None]:
    """Hold the lock of a file during a `with`, so that one process or thread at a time reads, changes and replaces it.

    The lock is a file beside it, which is removed at the end. Where the folder or its file system
    permits none, nothing is locked. The folder is made if it does not exist.
    """
    path = Path(path)
    lock = path.parent / f".{path.name}.lock"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            # until this process holds a lock file that is still in the folder; Windows has no fcntl
            while fcntl:
                # Do not follow a link, and do not change a file that is there.
                handle = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                stack.callback(os.close, handle)
                fcntl.flock(handle, fcntl.LOCK_EX)
                # Unlocked before it is closed: a process that was forked meanwhile has the file open,
                # too, and would keep the lock.
                stack.callback(fcntl.flock, handle, fcntl.LOCK_UN)
                if os.fstat(handle).st_nlink:  # 0: its last owner has removed it
                    stack.callback(_remove, lock)
                    break
        yield


def _remove(path: Path) -> None:
    """Delete a file; do nothing if it is gone or cannot be deleted."""
    with contextlib.suppress(OSError):
        path.unlink()


def publish(content: bytes, target: Path) -> None:
    """Write `content` to the file `target` in one step, and make its folder; OSError if that fails.

    Other processes never see an incomplete file.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, part = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(part, 0o644)  # mkstemp makes files that only their owner can read
        os.replace(part, target)
    except BaseException:
        _remove(Path(part))
        raise


def write(path: Path | str, content: str | bytes) -> Path:
    """Write `content` to a file in one step, text as UTF-8, and make its folder; return the file's path.

    Raises EngineError if the file cannot be written; an older file of that name is unchanged then.
    """
    path = Path(path)
    try:
        publish(content.encode() if isinstance(content, str) else content, path)
    except OSError as error:
        raise EngineError(
            f"cannot write {path}: {error.strerror}. Choose a folder that you may write to."
        ) from None
    return path
