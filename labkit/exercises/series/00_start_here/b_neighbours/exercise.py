"""Exercise 00b: neighbours read neighbours."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, draw_floats, launch


def add(random: np.random.Generator, n: int, threads: int):
    """Return the launch on two vectors of n numbers, with a thread per four elements, up to whole blocks."""
    a, b = draw_floats(random, (2, n))
    return launch("add", a, b, Output("sum", a + b), n, grid=-(-n // (4 * threads)), block=threads)


EXERCISE = Exercise(
    title="Neighbours read neighbours",
    subject=Kernels(
        add,
        (
            Case("1,001 elements in blocks of 64", (1001, 64)),
            Case("127 elements in blocks of 32", (127, 32)),
            Case("3 elements in blocks of 32", (3, 32)),
            Case("4,096 elements", (4096, 128), counted=True),
        ),
        hidden=(range(1, 1500), range(32, 160, 32)),
    ),
    lines=2,
    goals=(
        counted(
            "global_load_sectors",
            "4,096 elements",
            at_most=1024,
            least={"unique_bytes": 3 * 4 * 4096},
        ),
        counted("global_store_sectors", "4,096 elements", at_most=512),
    ),
    start_reaches=(4096, 2048),
    mistakes=(
        Mistake(
            "The threads of a block now lie side by side, but all blocks take the same elements: count the blocks "
            "before this one, too.",
            # Of the first 1,001 elements those of one block are stored: 4 * 64.
            lambda attempt: (
                "[256]: nan" in attempt.wrong and "745 of its elements" in attempt.wrong
            ),
        ),
    ),
)
