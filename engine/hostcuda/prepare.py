"""The engine's own compiled files, made before they are needed: the runtime library and precompiled headers.

Without them the first program of each kind waits until they are compiled.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from hostcuda.build.unit import Unit, make_unit
from hostcuda.check.mode import KNOWN
from hostcuda.runtime.building import build_library, is_built

__all__ = ["is_prepared", "prepare"]

_PROFILE, *_CHECKS = KNOWN[:-1]  # without the steps of a thread


def _list_units() -> Iterator[Unit]:
    """Yield an empty source for each precompiled header: of programs and of kernels, without and with tools."""
    for program, tools in (
        (True, ()),
        (True, (*_CHECKS,)),
        (False, ()),
        (False, (*_CHECKS,)),
        (False, (_PROFILE,)),
        (False, (_PROFILE, *_CHECKS)),
    ):
        yield make_unit("", no_extern_c=True, program=program, tools=tools)


def is_prepared() -> bool:
    """Return whether the cache has all that `prepare` makes; CompileError if there is no compiler."""
    # False and True: the runtime library without check mode, and that with it. A prelude is a
    # precompiled header, and there is one for each unit: for each set of the compiler's flags.
    return is_built(False) and is_built(True) and all(unit.has_prelude for unit in _list_units())


def prepare() -> None:
    """Compile the engine's own files into the cache ahead of time, as far as they are missing.

    They are the runtime library, with and without check mode, and the precompiled headers, all
    compiled at the same time. CompileError if the compiler fails.
    """
    with ThreadPoolExecutor() as pool:
        # the headers ("preludes") one after the other in one thread: they take as long as the library
        # beside them
        headers = pool.submit(lambda: [unit.make_prelude() for unit in _list_units()])
        for checks in (False, True):
            build_library(checks, with_header=False)  # the headers are compiled above
        headers.result()
