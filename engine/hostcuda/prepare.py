"""The engine's own compiled files, made before they are needed: the runtime library and precompiled headers.

Without them the first program of each kind waits until they are compiled.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from hostcuda.build.unit import Unit, make_unit
from hostcuda.check.mode import KNOWN
from hostcuda.runtime.building import build_library, is_built

__all__ = ["is_prepared", "prepare"]

_PROFILE, *_CHECKS = KNOWN[:-1]  # without the steps of a thread


def _list_units() -> Iterator[Unit]:
    """Yield a source for each precompiled header: for programs, for kernels, and for the tools that look at them."""
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
    """Return whether the cache has all that `prepare` makes; CompileError: there is no compiler."""
    return is_built(False) and is_built(True) and all(unit.has_prelude for unit in _list_units())


def prepare() -> None:
    """Compile what is missing into the cache, all of it at the same time; CompileError: the compiler fails."""
    errors: list[BaseException] = []

    def run(make: Callable[[], object]) -> None:
        """Call a function, and keep its error for the caller."""
        try:
            make()
        except BaseException as error:
            errors.append(error)

    def make_headers() -> None:
        """Make the headers one after the other: the library takes as long as they do."""
        for unit in _list_units():
            unit.make_prelude()

    jobs = [
        threading.Thread(target=run, args=(make,))
        for make in (
            lambda: [build_library(checks, with_header=False) for checks in (False, True)],
            make_headers,
        )
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join()
    if errors:
        raise errors[0]
