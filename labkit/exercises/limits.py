"""What an attempt may take of the machine."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1 << 20

ATTEMPT_S = 300.0  # for all of an attempt, compiler included
SOURCE_LINES, SOURCE_CHARACTERS = 1000, 1 << 16  # the rungs have up to 200 lines
RUN_S = 20.0  # of processor time, for the launches of a case: they take less than a second
FILE_BYTES = 128 * MIB  # of the largest file that the compiler or a kernel writes


@dataclass(frozen=True)
class Limits:
    """What a command may use in the sandbox.

    Attributes
    ----------
    seconds : float
        From its start to its end.
    processor_seconds : int
        Of each process.
    memory : int
        Bytes of all processes together.
    processes : int
        Processes and threads of one user at a time.
    file, scratch : int
        Bytes of one file, and of all files in the scratch folder; the private ``/tmp`` can hold as many.
    open_files : int
        Of each process.
    output : int
        Bytes that are kept of each of its two outputs.
    """

    seconds: float = ATTEMPT_S
    processor_seconds: int = 120
    memory: int = 2048 * MIB
    processes: int = 128
    file: int = FILE_BYTES
    scratch: int = 256 * MIB
    open_files: int = 256
    output: int = 64 * 1024
