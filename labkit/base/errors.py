"""The lab's own errors: each says what is wrong, where, and what to do."""

import linecache
import traceback


class ShortTraceback:
    """An exception that a notebook shows by its message and by the cell's lines that led to it, not by the lab's own:
    `%debug` still walks through all of them."""

    def _render_traceback_(self) -> list[str]:  # IPython asks for it
        name = f"{type(self).__name__}: {self}"
        lines = [f"line {line}: {linecache.getline(frame.f_code.co_filename, line).strip()}"
                 for frame, line in traceback.walk_tb(self.__traceback__)
                 if "ipykernel" in frame.f_code.co_filename]  # fmt: skip
        return [*lines, "", name] if lines else [name]


class Interrupted(ShortTraceback, KeyboardInterrupt):
    """Ctrl-C, or a notebook's stop button, with a word on what it stopped."""


class LabError(ShortTraceback, Exception):
    """Anything the lab refuses, with a message a reader can act on."""
