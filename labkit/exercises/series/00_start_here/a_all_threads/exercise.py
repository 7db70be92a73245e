"""Exercise 00a: all threads at work."""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, draw_floats, launch


def add(random: np.random.Generator, n: int, blocks: int, threads: int):
    """Return the launch on two vectors of n numbers, whose sums are rounded once, on every device alike."""
    a, b = draw_floats(random, (2, n))
    return launch("add", a, b, Output("sum", a + b), n, grid=blocks, block=threads)


def _make_case(*what: int) -> Case:
    """Return the case with these arguments of `add`: elements, blocks and threads per block."""
    return Case("{:,} elements in {} blocks of {}".format(*what), what)


EXERCISE = Exercise(
    title="All threads at work",
    # Grids with fewer threads than elements, as many, and more.
    subject=Kernels(
        add,
        (
            _make_case(777, 3, 64),
            _make_case(256, 4, 64),
            _make_case(50, 2, 64),
            _make_case(2, 3, 32),
            _make_case(1001, 5, 33),
            Case("1,000 elements", (1000, 4, 64), counted=True),
        ),
        hidden=(range(1, 1500), range(1, 6), [64]),
    ),
    lines=4,
    goals=(
        counted(
            "global_load_requests", "1,000 elements", at_most=64, least={"unique_bytes": 3 * 4000}
        ),
        counted(
            "busiest_warp",
            "1,000 elements",
            what="memory instructions of the busiest warp",
            at_most=64,
        ),
    ),
    start_reaches=(2000, 3000),
    mistakes=(
        Mistake(
            "The sums are right, but several threads compute each of them. Every thread needs a first element of "
            "its own, and a step over the elements of all other threads.",
            lambda attempt: (
                attempt.count("global_load_requests", "1,000 elements") > 64
                and "return" not in attempt.source
            ),
        ),
        Mistake(
            "All blocks add the same elements here, because nothing depends on blockIdx. The number of a thread in the "
            "grid is blockIdx.x * blockDim.x + threadIdx.x.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "blockIdx" not in attempt.source
                and "gridDim" in attempt.source
            ),
        ),
        Mistake(
            "A thread has to add more than one element: here the grid has fewer threads than there are elements.",
            lambda attempt: attempt.runs_wrong and "for" not in attempt.source.split(),
        ),
    ),
)
