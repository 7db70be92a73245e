"""Exercise P10b: three mistakes that make a ring hang, each explained by the report of the deadlock.

A cheat would write a kernel of its own, without the ring: three changed lines are too few for that,
however long they are, and the barriers of the block stop batches.
One that waits for each copy at once hangs no more, and has no bytes under way.
"""

import numpy as np

from labkit.exercises import Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.exercises.barriers import MBARRIER_MISTAKES

_ON, _ROWS, _COLUMNS, _TILE = "2 rows of 4,096", 2, 4096, 2048  # bytes of a tile


def multiply(random: np.random.Generator, rows: int, columns: int):
    """Return the launch of a matrix times a vector, a block per row; the products need up to 31 bits."""
    a = random.integers(-(2**15), 2**15, (rows, columns)).astype(np.int32)
    most = max(1, 2**16 // columns)
    v = random.integers(-most, most + 1, columns).astype(np.int32)
    y = Output("y", a @ v, before=0)
    return launch("multiply", a, v, columns, y, grid=rows, block=(32, 4))


EXERCISE = Exercise(
    title="Why it hangs",
    subject=Kernels(
        multiply,
        (
            Case("3 rows of 100", (3, 100)),
            Case("2 rows of 3,204", (2, 3204)),  # three laps, and a short tile at the end
            Case(_ON, (_ROWS, _COLUMNS), counted=True),
        ),
        hidden=(range(1, 4), range(4, 4000, 4)),
        headers=("cuda/ptx",),
    ),
    goals=(
        counted(
            "global_load_requests",
            _ON,
            what="load requests",
            exactly=0,
            least={"copied_bytes": 8 * _ROWS * _COLUMNS},
        ),
        counted(
            "bytes_ahead",
            _ON,
            what="bytes of bulk copies under way while a tile is read",
            at_least=2 * 2 * _TILE,
            # Batches, each of which ends at a barrier of the whole block, are no ring.
            most={"block_barriers": 4 * _ROWS, "named_barriers": 0},
        ),
    ),
    lines=3,
    mistakes=(
        Mistake(
            "A stage takes two tiles, one of the row and one of the vector, and here the bytes of one tile are "
            "announced. So a phase of `full` ends before both copies are complete.",
            lambda attempt: (
                {"race", "race with a copy"} & {*attempt.findings}
                and attempt.matches(r"\barrive_expect\([^;{]*,\s*(?:bytes|4 \* T|T \* 4)\s*\)")
            ),
        ),
        *MBARRIER_MISTAKES,
    ),
)
