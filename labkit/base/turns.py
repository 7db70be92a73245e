"""Takes turns: the notebooks of a report run side by side, but one of them alone while it measures.

The kernel of a notebook holds a lock while it runs a cell, together with the kernels of the others. A measurement holds
the lock alone: it waits until the cells that run elsewhere have ended, and none begins before it has ended. Nobody else
takes part: in any other process `undisturbed` does nothing.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: `Turns` cannot be made, and a report runs one notebook after the other
    fcntl = None


class Turns:
    """One process's part in the lock of a folder.

    Two files are locked. Who wants the second holds the first until it has it, so that a measurement is not overtaken
    by cells that begin. The operating system frees both when the process ends. Raises OSError if the folder's file
    system has no locks.
    """

    def __init__(self, folder: Path):
        if fcntl is None:
            raise OSError("no locks on this operating system")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._next, self._running = (os.open(folder / name, flags, 0o600) for name in (".next", ".running"))
        self._measuring = threading.RLock()  # threads of this process measure one after the other, too
        self._depth, self._shared = 0, False
        self._take(fcntl.LOCK_SH)
        self.end()

    def begin(self) -> None:
        """Run, with others or after one that measures."""
        self._take(fcntl.LOCK_SH)
        self._shared = True

    def end(self) -> None:
        """Run no longer."""
        fcntl.flock(self._running, fcntl.LOCK_UN)
        self._shared = False

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Run while a `with` lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Run with nobody else while a `with` lasts. It may stand inside of another one, and inside of `together`."""
        with self._measuring:
            if self._depth == 0:
                fcntl.flock(self._running, fcntl.LOCK_UN)  # two that waited for each other's end would wait for ever
                self._take(fcntl.LOCK_EX)
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1
                if self._depth == 0:
                    fcntl.flock(self._running, fcntl.LOCK_SH if self._shared else fcntl.LOCK_UN)

    def _take(self, how: int) -> None:
        fcntl.flock(self._next, fcntl.LOCK_EX)
        try:
            fcntl.flock(self._running, how)
        finally:
            fcntl.flock(self._next, fcntl.LOCK_UN)


_turns: Turns | None = None  # of a kernel of a report


def join(turns: Turns) -> None:
    """Take part from now on: for the kernel of a report. Its child processes do not."""
    global _turns
    _turns = turns


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Measure while a `with` lasts: no other notebook of a report runs meanwhile."""
    with _turns.alone() if _turns else contextlib.nullcontext():
        yield
