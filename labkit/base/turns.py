"""Turns of the notebooks of a report: they run side by side, but one of them alone while it measures.

The kernel of a notebook holds a lock while it runs a cell, together with the kernels of the others. A measurement holds
the lock alone: it waits until the cells that run elsewhere have ended, and none begins before it has ended. No other
process takes part: there `undisturbed` does nothing.
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

    Two files are locked. A process that waits for the second holds the first meanwhile, so that no cell that begins
    overtakes a measurement. The operating system frees both when the process ends. Raises OSError if the folder's file
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
        """Begin to run, together with others; wait while one of them measures."""
        self._take(fcntl.LOCK_SH)
        self._shared = True

    def end(self) -> None:
        """Stop running: another one may measure."""
        fcntl.flock(self._running, fcntl.LOCK_UN)
        self._shared = False

    @contextlib.contextmanager
    def together(self) -> Iterator[None]:
        """Run together with others while a `with` block lasts."""
        self.begin()
        try:
            yield
        finally:
            self.end()

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Run alone while a `with` block lasts. It may stand inside of another one, and inside of `together`."""
        with self._measuring:
            if self._depth == 0:
                fcntl.flock(self._running, fcntl.LOCK_UN)  # two that waited for each other would wait for ever
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


_turns: Turns | None = None  # in the kernel of a report; None in any other process


def join(turns: Turns) -> None:
    """Take part from now on: for the kernel of a report. Its child processes do not."""
    global _turns
    _turns = turns


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep the other notebooks of a report from running while a `with` block measures."""
    with _turns.alone() if _turns else contextlib.nullcontext():
        yield
