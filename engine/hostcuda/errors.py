"""The engine's errors, and PyCUDA's exceptions, which the CPU engine raises for the same reasons.

Their messages say what is wrong, where, and what to do.
"""

import builtins
import linecache
import traceback
from collections.abc import Iterable
from types import TracebackType


def type_of(value: object) -> str:
    """Return the name of a value's type with its article, for messages: "an int"."""
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeio' else 'a'} {name}"  # "a uint8"


class ShortTraceback:
    """An exception whose traceback in a notebook has only the lines of cells; `%debug` still has all frames."""

    __traceback__: TracebackType | None  # of the exception whose class inherits from this one, too

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython, which calls this, shows: the cells' lines on the way, and the message."""
        name = f"{type(self).__name__}: {self}"
        cells = [
            (frame.f_code.co_filename, line)
            for frame, line in traceback.walk_tb(self.__traceback__)
            if "ipykernel" in frame.f_code.co_filename
        ]
        lines = [f"line {line}: {linecache.getline(file, line).strip()}" for file, line in cells]
        # The call of a cell magic holds the whole cell; the message has its lines.
        lines = [line for line in lines if ": get_ipython()." not in line]
        return [*lines, "", name] if lines else [name]


class Interrupted(ShortTraceback, KeyboardInterrupt):
    """Ctrl-C or a notebook's stop button. The message says what was stopped."""


class EngineError(ShortTraceback, Exception):
    """An error of the engine: invalid input, or something that is missing on this machine."""


# ------------------------------------------------------------------------------ PyCUDA's exceptions
class Error(ShortTraceback, Exception):
    """Base of the driver's exceptions."""


class MemoryError(Error):
    """Device memory is exhausted."""


class LogicError(Error):
    """The call is wrong: an invalid argument, an unknown name, freed memory."""


class LaunchError(Error):
    """A kernel faulted, or needs more than a block may have."""


class RuntimeError(Error):
    """The device does not respond."""


# For these two PyCUDA raises Python's own; here they have short tracebacks in a notebook, too.
class TypeError(ShortTraceback, builtins.TypeError):
    """An argument has the wrong type."""


class ValueError(ShortTraceback, builtins.ValueError):
    """An argument is missing or unknown."""


class CompileError(Error):
    """The compiler refused a source.

    Attributes
    ----------
    msg : str
        What failed.
    command_line : list of str
        The command, or empty if none ran. The message omits it: it is long, and does not say what
        is wrong.
    stdout, stderr : str
        The compiler's output, with the user's own files and lines.
    """

    def __init__(
        self,
        msg: str,
        command_line: Iterable[str] = (),
        stdout: str | None = None,
        stderr: str | None = None,
    ):
        super().__init__(msg, list(command_line), stdout, stderr)
        self.msg, self.command_line, self.stdout, self.stderr = self.args  # the four above

    def __str__(self) -> str:
        text = self.msg
        if self.stdout:
            text += f"\n[stdout:\n{self.stdout}]"
        if self.stderr and self.stderr.strip() not in text:  # unless the message has it already
            text += f"\n[stderr:\n{self.stderr}]"
        return text
