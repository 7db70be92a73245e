"""The folder of compiled kernels.

Each file is complete or does not exist (a temporary file, then `os.replace`), so that several
processes can share the folder, and any of them can end at any time. Each file has a digest, and a
damaged file is made again. `hostcuda.settings.cache_dir` names the folder. Its files are native
code that will run, so no other user may write there. If the folder cannot be used, a temporary one
is used as long as the process runs.
"""

import atexit
import contextlib
import errno
import functools
import hashlib
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from hostcuda import temporary
from hostcuda.errors import EngineError
from hostcuda.files import locked, private, publish
from hostcuda.settings import cache_dir

_DAY_S = 24 * 3600
_LARGE = 8 << 20  # bytes of a file whose check is remembered
T = TypeVar("T")
_usable = {}  # preferred folder -> the folder that is used: itself, or a temporary one
_scratch = None  # the temporary folder of this process, once it is needed
_intact_states = {}  # file -> (inode, size, time of change) when its digest was right


def directory(preferred: str | Path | None = None) -> Path:
    """Return the cache folder, `preferred` or else `cache_dir()`; make it, or warn and return a temporary one."""
    preferred = Path(preferred) if preferred else cache_dir()
    usable = _usable.get(preferred)
    if usable is None or not usable.is_dir():
        try:
            _usable[preferred] = private(preferred)  # makes it, for this user alone
        except EngineError as error:
            _use_temporary(preferred, str(error))
    return _usable[preferred]


def _use_temporary(preferred: Path, why: str) -> None:
    """From now on use a temporary folder in place of the folder `preferred`, and warn with the sentence `why`."""
    _usable[preferred] = scratch() / "cache"
    _usable[preferred].mkdir(exist_ok=True)
    warnings.warn(f"{why}. Compiled kernels are kept for this process only.", stacklevel=3)


def scratch() -> Path:
    """Return a temporary folder that is removed when the process ends."""
    global _scratch
    if _scratch is None or not _scratch.is_dir():
        _scratch, _ = temporary.make()  # the other value locks the folder until the process ends
        # by this process alone: a forked child must not remove its parent's folder
        atexit.register(_remove_scratch, _scratch, os.getpid())
    return _scratch


def _remove_scratch(path: Path, owner: int) -> None:
    """Remove the folder of `scratch` at the end of the process that made it, whose id is `owner`."""
    if os.getpid() == owner:  # a forked child must not remove its parent's folder
        shutil.rmtree(path, ignore_errors=True)


def is_intact(path: Path) -> bool:
    """Return whether a file that `obtain` made is there and undamaged: its content has the digest that is beside it.

    A process reads the file once, unless it changes. To read a precompiled header of 42 MB takes 33
    ms of processor time, so a large file is read once until the machine restarts: a file beside it
    says that it was intact.
    """
    try:
        now = path.stat()
        state = (now.st_ino, now.st_size, now.st_mtime_ns)
        if _intact_states.get(path) != state:
            # a file that says: since this start of the machine, the file in this state was intact
            seen, mark = path.with_name(f"{path.name}.intact"), f"{_read_boot()} {state}"
            is_large = now.st_size >= _LARGE and bool(_read_boot())
            if not (is_large and seen.is_file() and seen.read_text() == mark):
                if digest(path.name, path.read_bytes()) != digest_of(path).read_text():
                    return False
                if is_large:
                    with contextlib.suppress(OSError):  # in a sandbox the cache is read-only
                        publish(mark.encode(), seen)
            _intact_states[path] = state
        return True
    except (OSError, ValueError):  # a file is missing, or its text is damaged
        return False


@functools.cache
def _read_boot() -> str:
    """Return the id of the machine's last start, which each start changes; "" where the system has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def digest_of(path: Path) -> Path:
    """Return the path of the file beside `path` that has its digest, by which damage is found: "NAME.sha256"."""
    return path.with_name(f"{path.name}.sha256")


def obtain(name: str | Path, make: Callable[[Path], object]) -> Path:
    """Return the path of the file `name` in the cache folder; ``make(path)`` builds it if it is missing or damaged.

    `make` writes to a temporary path, and may raise; then nothing is kept. If the disk of the cache folder
    is full, the file is in a temporary folder.
    """

    def find_or_make(folder):
        """Return the file's path in this folder; one process at a time makes it."""
        target = folder / name
        if not is_intact(target):
            with locked(target):
                if not is_intact(target):  # else another process has made it meanwhile
                    with tempfile.TemporaryDirectory(dir=scratch()) as place:
                        built = Path(place) / target.name
                        make(built)
                        content = built.read_bytes()
                    publish(content, target)
                    publish(digest(target.name, content).encode(), digest_of(target))
        return target

    return with_room(find_or_make)


def obtain_folder(name: str, files: Sequence[str], make: Callable[[Path], object]) -> Path:
    """Return the path of the folder `name` in the cache folder, which has all of the `files`.

    If one is missing or damaged, ``make(path)`` writes all of them into another folder, which then
    takes the name: no process ever sees a part of it. If the disk of the cache folder is full, `name` is
    in a temporary folder.
    """

    def find_or_make(folder):
        """Return the folder's path in this cache; one process at a time makes it."""
        target = folder / name

        def is_complete():
            """Return whether all files are there and undamaged."""
            return all(is_intact(target / file) for file in files)

        if not is_complete():
            with locked(target):
                if not is_complete():  # else another process has made it meanwhile
                    place = Path(tempfile.mkdtemp(dir=folder, prefix=f".{name}."))
                    try:
                        make(place)
                        for file in files:
                            content = (place / file).read_bytes()
                            digest_of(place / file).write_text(digest(file, content))
                        place.chmod(0o755)  # a sandbox reads it as another user
                        # a folder with files has to go first: os.replace would refuse to replace it
                        old = place.with_name(f"{place.name}.old")
                        with contextlib.suppress(FileNotFoundError):
                            os.replace(target, old)
                        os.replace(place, target)
                        shutil.rmtree(old, ignore_errors=True)
                    finally:
                        shutil.rmtree(place, ignore_errors=True)
        return target

    return with_room(find_or_make)


def with_room(use: Callable[[Path], T], preferred: str | Path | None = None) -> T:
    """Return ``use(folder)`` for the cache folder, `directory(preferred)`; if its disk is full, use a temporary one.

    The latter comes with a warning. `use` may be called twice, and its other errors are raised.
    """
    folder = directory(preferred)
    try:
        return use(folder)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        if folder.is_relative_to(scratch()):
            raise EngineError(
                f"cannot write to {scratch()}: {error.strerror}. Free some space there"
            ) from None
        if folder == directory(preferred):  # else another thread has found it full in the meantime
            why = f"the cache folder {folder} cannot be written ({error.strerror}): set HOSTCUDA_CACHE_DIR to another"
            _use_temporary(Path(preferred) if preferred else cache_dir(), why)
        return with_room(use, preferred)


def trim(pattern: str, keep: int = 8, idle_s: float = _DAY_S) -> None:
    """Remove old entries of the cache, files or folders, that match a glob `pattern`.

    The `keep` entries that were used last stay, and those that were used in the last `idle_s` seconds.
    """
    with contextlib.suppress(OSError):  # another process may remove the same ones
        # the one used last first: `touch` sets an entry's time when it is used
        entries = sorted(
            ((path.stat().st_mtime, path) for path in directory().glob(pattern)), reverse=True
        )
        for last_used, path in entries[keep:]:
            if last_used < time.time() - idle_s:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
                digest_of(path).unlink(missing_ok=True)


def trim_daily(pattern: str) -> None:
    """Remove entries of the cache that match a glob `pattern` and were not used for 30 days; do so once a day."""
    stamp = directory() / ".trimmed"
    with contextlib.suppress(OSError):
        if not stamp.exists() or stamp.stat().st_mtime < time.time() - _DAY_S:
            stamp.touch()
            trim(pattern, keep=0, idle_s=30 * _DAY_S)


def touch(path: Path) -> None:
    """Mark an entry of the cache as just used, so that `trim` keeps it."""
    with contextlib.suppress(OSError):  # in a sandbox the cache is read-only
        os.utime(path)


def digest(*parts: object) -> str:
    """Return the SHA-256 of a sequence of texts and bytes, in hexadecimal."""
    sha = hashlib.sha256()
    for part in parts:
        data = part if isinstance(part, bytes) else str(part).encode("utf-8", "surrogateescape")
        sha.update(len(data).to_bytes(8, "little"))  # so that ("ab", "c") and ("a", "bc") differ
        sha.update(data)
    return sha.hexdigest()
