"""The folder of compiled kernels.

Each file is complete or does not exist (a temporary file, then `os.replace`), so that several processes can share the
folder, and any of them can end at any time. `labkit.base.paths.cache_dir` names it. If it cannot be written, a
temporary folder is used while the process runs.
"""

import atexit
import contextlib
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from pathlib import Path

from labkit.base.paths import cache_dir

try:
    import fcntl
except ImportError:  # no advisory locks: two processes may compile the same source, and the last one wins
    fcntl = None

__all__ = ["digest", "directory", "locked", "obtain", "publish", "scratch", "touch", "trim", "trim_daily"]

_DAY_S = 24 * 3600
_usable = {}  # wanted folder -> the folder that is used
_scratch = None


def directory(wanted=None):
    """The cache folder, made if it does not exist; a temporary one, with one warning, if that fails."""
    wanted = Path(wanted) if wanted else cache_dir()
    usable = _usable.get(wanted)
    if usable is None or not usable.is_dir():
        try:
            wanted.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=wanted):
                usable = wanted
        except OSError as error:
            usable = scratch() / "cache"
            usable.mkdir(exist_ok=True)
            warnings.warn(
                f"the cache folder {wanted} cannot be written ({error.strerror or error}): compiled kernels are kept "
                "for this process only. Set LABKIT_CACHE_DIR to a folder that can be written.",
                stacklevel=2,
            )
        _usable[wanted] = usable
    return usable


def scratch():
    """A temporary folder that is removed when the process ends."""
    global _scratch
    if _scratch is None or not _scratch.is_dir():
        _scratch = Path(tempfile.mkdtemp(prefix="labkit-"))
        atexit.register(_remove_scratch, _scratch, os.getpid())
    return _scratch


def _remove_scratch(path, owner):
    if os.getpid() == owner:  # a forked child must not remove its parent's folder
        shutil.rmtree(path, ignore_errors=True)


def publish(source, target):
    """Write the file or bytes `source` to the path `target` in one step."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".new-")
    try:
        with os.fdopen(handle, "wb") as file:
            if isinstance(source, bytes):
                file.write(source)
            else:
                with open(source, "rb") as original:
                    shutil.copyfileobj(original, file, 1 << 20)
        os.chmod(temporary, 0o644)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


@contextlib.contextmanager
def locked(target):
    """Hold the lock of `target`, so that only one of several processes builds it."""
    target = Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    path = target.parent / f".{target.name}.lock"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError):  # a file system without locks
            while fcntl:
                file = stack.enter_context(open(path, "w"))
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file.fileno()).st_nlink:  # 0: its last owner has removed it
                    break
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                path.unlink()


def obtain(target, make):
    """The path `target`; ``make(path)`` builds it at a scratch path if it is not in the cache."""
    if not target.exists():
        with locked(target):
            if not target.exists():
                with tempfile.TemporaryDirectory(dir=scratch()) as folder:
                    built = Path(folder) / target.name
                    make(built)
                    publish(built, target)
    return target


def trim(pattern, keep=8, idle_s=_DAY_S):
    """Remove files of earlier compilers and engines, but not the `keep` last used, nor any used within `idle_s`."""
    with contextlib.suppress(OSError):
        entries = sorted((-path.stat().st_mtime, path) for path in directory().glob(pattern))
        for used, path in entries[keep:]:
            if -used < time.time() - idle_s:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


def trim_daily(pattern):
    """Once a day, remove what was not used for 30 days."""
    stamp = directory() / ".trimmed"
    with contextlib.suppress(OSError):
        if not stamp.exists() or stamp.stat().st_mtime < time.time() - _DAY_S:
            stamp.touch()
            trim(pattern, keep=0, idle_s=30 * _DAY_S)


def touch(path):
    """Mark an entry as in use (see `trim`)."""
    with contextlib.suppress(OSError):
        os.utime(path)


def digest(*parts):
    """SHA-256 of a sequence of texts and bytes."""
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()
