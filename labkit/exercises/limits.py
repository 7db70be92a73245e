"""What an attempt may take of the machine."""

RUN_S = 20.0  # for the launches of a case: they take less than a second
FILE_BYTES = 2**28  # of the largest file that the compiler or a kernel writes
