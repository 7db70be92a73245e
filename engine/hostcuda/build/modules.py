"""The cache of compiled modules.

An entry is a folder: the shared library, and ``manifest.json``, which says what it was made of. It
covers the headers, and is sealed with the entry's key: that of the source, its options, the
compiler, the processor and the engine.
"""

import itertools
import json
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from hostcuda.build.unit import Unit
from hostcuda.host import cache


def _read_manifest(entry: Path, key: str) -> dict | None:
    """Return the manifest of a cache entry, a dict, if it has this key, is complete, and its headers are unchanged."""
    # {"file": "0a1b.so", "digest": ..., "headers": [[path, digest]], "asked": [[path, is there]],
    # "seal": ...}
    try:
        manifest = json.loads((entry / "manifest.json").read_text())
        if (
            manifest.pop("seal")
            != cache.digest(key, json.dumps(manifest))  # damaged, or moved here from another entry
            or any(
                cache.digest(Path(path).read_bytes()) != digest
                for path, digest in manifest["headers"]
            )
            or any(Path(path).exists() != there for path, there in manifest["asked"])
        ):
            return None
        path = manifest["path"] = entry / manifest["file"]
        return manifest if cache.digest(path.read_bytes()) == manifest["digest"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def obtain(
    unit: Unit,
    keep: bool,
    cache_dir: str | Path | bool | None,
    report_time: Callable[[float, float], None],
) -> dict:
    """Take the shared library of a unit from the cache, or compile it into the cache; return its manifest.

    The manifest is a dict: the library's ``path``, and the entries of `Unit.compile`. With `keep`
    it is compiled in any case, the build folder is kept, and its name printed. `cache_dir` is
    another cache folder; None means the usual one, False none. `report_time` is called with the
    start and the duration of a compilation, in seconds on the monotonic clock. CompileError if the
    unit does not compile.
    """
    if cache_dir is False:
        return _obtain_in_entry(
            Path(tempfile.mkdtemp(prefix="module-", dir=cache.scratch())), unit, keep, report_time
        )
    # "modules/3f/…": the form of name by which `_compile_into` removes old entries
    name = Path("modules", unit.key[:2], unit.key[2:40])
    # the folder is that of the cache, or a temporary one if its disk is full
    return cache.with_room(
        lambda folder: _obtain_in_entry(folder / name, unit, keep, report_time), cache_dir
    )


def _obtain_in_entry(
    entry: Path, unit: Unit, keep: bool, report_time: Callable[[float, float], None]
) -> dict:
    """Return the manifest of the library in the folder `entry`; if it is missing, compile it.

    The parameters are those of `obtain`.
    """
    cache.touch(entry)
    if not keep and (manifest := _read_manifest(entry, unit.key)):
        return manifest
    with cache.locked(entry):
        # another process has compiled it meanwhile
        if not keep and (manifest := _read_manifest(entry, unit.key)):
            return manifest
        start = time.monotonic()
        try:
            return _compile_into(entry, unit, keep)
        finally:
            report_time(start, time.monotonic() - start)


def _compile_into(entry: Path, unit: Unit, keep: bool) -> dict:
    """Compile a unit in a temporary folder and publish the result in the folder `entry`; return its manifest.

    `keep`: do not remove the temporary folder, and print its name.
    """
    prefix, where = ("hostcuda-kernel-", None) if keep else ("build-", cache.scratch())
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=where))
    # the names of `obtain`: a key's first 2 digits, and 38
    cache.trim_daily(f"modules/??/{38 * '?'}")
    try:
        library, about = unit.compile(folder)
        data = library.read_bytes()
        digest = cache.digest(data)
        manifest = {"file": f"{digest[:24]}.so", "digest": digest, **about}
        # before the manifest: other processes never see half an entry
        cache.publish(data, entry / manifest["file"])
        seal = cache.digest(unit.key, json.dumps(manifest))
        cache.publish(json.dumps(manifest | {"seal": seal}).encode(), entry / "manifest.json")
        return manifest | {"path": entry / manifest["file"]}
    finally:
        if keep:
            print(f"*** compiler output in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)


_loaded_paths = set()  # those that `make_own_copy` has returned
_loading = threading.Lock()  # of `_loaded_paths`
_copies = itertools.count()


def make_own_copy(path: Path) -> Path:
    """Return a path from which this process has not loaded a library yet: `path`, or that of a copy.

    A library that is loaded twice from one path is loaded only once, so two modules would share
    their variables.
    """
    with _loading:
        if path not in _loaded_paths:
            _loaded_paths.add(path)
            return path
        copy = cache.scratch() / f"{path.stem}-{next(_copies)}.so"
    shutil.copyfile(path, copy)
    return copy
