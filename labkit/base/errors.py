"""The lab's own errors. Their messages say what is wrong, where, and what to do."""

import linecache
import traceback


def type_of(value: object) -> str:
    """The name of a value's type with its article, for messages: "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"  # "a uint8"


class ShortTraceback:
    """An exception whose traceback in a notebook has only the lines of cells; `%debug` still has all frames."""

    def _render_traceback_(self) -> list[str]:  # called by IPython
        name = f"{type(self).__name__}: {self}"
        cells = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(self.__traceback__)
                 if "ipykernel" in frame.f_code.co_filename]  # fmt: skip
        lines = [f"line {line}: {linecache.getline(file, line).strip()}" for file, line in cells]
        # The call of a cell magic holds the whole cell; the message has its lines.
        lines = [line for line in lines if ": get_ipython()." not in line]
        return [*lines, "", name] if lines else [name]


class Interrupted(ShortTraceback, KeyboardInterrupt):
    """Ctrl-C or a notebook's stop button. The message says what was stopped."""


class LabError(ShortTraceback, Exception):
    """An error of the lab: invalid input, or something that is missing on this machine."""
