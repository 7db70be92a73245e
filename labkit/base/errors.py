"""The lab's own errors. Their messages say what is wrong, where, and what to do."""

from hostcuda.errors import EngineError


class LabError(EngineError):
    """An error of the lab: invalid input, or something that is missing on this machine."""


class CheckFailed(LabError, AssertionError):
    """The error of a check: a kernel's result differs from the expected one.

    The message shows where, and both values.
    """
