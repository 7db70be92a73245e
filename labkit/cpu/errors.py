"""PyCUDA's exceptions, raised by the CPU engine for the same reasons."""

import builtins

from labkit.base.errors import ShortTraceback

__all__ = ["CompileError", "Error", "LaunchError", "LogicError", "MemoryError", "RuntimeError"]


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


# PyCUDA has none of its own for these; here they are short in a notebook, too.


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
        The command, or empty if none ran.
    stdout, stderr : str
        The compiler's output, with the user's own files and lines.
    """

    def __init__(self, msg, command_line, stdout=None, stderr=None):
        super().__init__(msg, command_line, stdout, stderr)
        self.msg = msg
        self.command_line = command_line
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self):
        text = self.msg
        if self.stdout:
            text += f"\n[stdout:\n{self.stdout}]"
        if self.stderr and self.stderr.strip() not in text:  # unless the message has it already
            text += f"\n[stderr:\n{self.stderr}]"
        if self.command_line:
            text += f"\n[command: {' '.join(self.command_line)}]"
        return text
