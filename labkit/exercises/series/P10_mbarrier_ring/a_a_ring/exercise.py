"""Exercise P10a: a ring of four stages with mbarriers, filled by bulk copies.

A cheat would leave out the ring: with all of a row in shared memory at once, with one stage, or with
plain loads. A row of 64 KB is more than a block's static shared memory; the bytes under way stop the
one stage, the load requests plain loads, the copied bytes copies that nobody needs, and the barriers
of the block batches, each of which ends before the next one begins.
"""

import re
from functools import partial
from itertools import islice

import numpy as np

from hostcuda.source import find_pairs
from labkit.exercises import (
    Attempt,
    Case,
    Exercise,
    Kernels,
    Mistake,
    Output,
    counted,
    draw_summands,
    launch,
)
from labkit.exercises.barriers import MBARRIER_MISTAKES
from labkit.exercises.causes import OWN_SUM_TWICE
from labkit.exercises.text import find_line

_ON, _ROWS, _COLUMNS, _TILE = "2 rows of 16,384", 2, 16_384, 4096  # bytes of a tile

# A copy, and right behind it a wait for the end of its own phase.
_WAITS_FOR_ITS_COPY = re.compile(
    r"\bcopy\([^;]*&(\w+)\[(\w+)\]\);\s*while \(!(?:\w+::)*mbarrier_try_wait_parity\(&\1\[\2\]"
)

# A consumer's loop over a tile, from "(threadIdx.y - 1) * 32 + lane" on, by all threads of the block.
_STEP_OF_THE_BLOCK = re.compile(
    r"\((?:threadIdx\.y|\w+) - 1\) \* 32 \+ [\w.]+; [^;]*; *\w+ \+= "
    r"(?:blockDim\.x \* blockDim\.y|blockDim\.y \* blockDim\.x|128)\)"
)


# A consumer's loop over a tile that begins with its warp's number, 1 to 3: "for (int j = 32 * w + lane; j < ...".
_FROM_ONE = re.compile(
    r"\bfor \((?:int|unsigned) (\w+) = (?:32 \* (?P<warp>[\w.]+) \+ [\w.]+|(?P<other>[\w.]+) \* 32 \+ [\w.]+|"
    r"[\w.]+ \+ 32 \* (?P<last>[\w.]+)); *\1 < [^;]{1,80}; *\1 \+= (?:96|3 \* 32)\)"
)


def _explain_first_left_out(attempt: Attempt) -> str:
    """Return which line begins a tile with the number of the first consumer's warp, 1, where it should be 0; or ""."""
    loop = _FROM_ONE.search(attempt.source)
    warp = loop and (loop["warp"] or loop["other"] or loop["last"])
    if not attempt.wrong.startswith("right") or not (
        warp == "threadIdx.y" or (warp and attempt.matches(rf"\b{warp} = threadIdx\.y *[,;]"))
    ):
        return ""
    line = find_line(attempt.source, loop.start())
    return (
        f"Line {line}: the consumers are the warps 1 to 3, so the first of them begins at number 32 of a tile, and "
        f"nobody adds the numbers 0 to 31. Warp 1 begins at number 0: ({warp} - 1) * 32."
    )


_MOST_CHANGES = 8  # of parities that are looked at
# A parity that a statement of its own changes, and that is waited for.
_CHANGED_PARITY = re.compile(r"(?<=[;{}])\s*(\w+) (?:\^= 1|= 1 - \1|= !\1|= \1 \^ 1);")


def _explain_changed_parity(attempt: Attempt) -> str:
    """Return which line changes a parity with each tile, and not once per lap of four stages; or ""."""
    code = attempt.source
    bodies = [(begin, end) for begin, end, _ in find_pairs(code, "{}")]

    def find_body(place: int) -> tuple[int, int]:
        """Return the braces around a place."""
        return max(((begin, end) for begin, end in bodies if begin < place < end), default=(0, 0))

    for change in islice(_CHANGED_PARITY.finditer(code), _MOST_CHANGES):
        body = find_body(change.start(1))
        waits = [*re.finditer(r"_parity\(&?\w{1,40}[^;,]{0,40}, (\w{1,40})\b", code[slice(*body)])]
        # the body of a loop that waits once, itself and not in a loop within it, in each iteration
        if (
            [wait[1] for wait in waits] == [change[1]]
            and find_body(body[0] + waits[0].start()) == body
            and not re.search(
                r"\b(?:for|continue|break)\b", code[body[0] : body[0] + waits[0].start()]
            )
            and not re.search(r"\b(?:continue|break)\b", code[slice(*body)])
            and re.search(
                r"\b(?:for|while) \([^{}]{0,200}\)\s*$", code[max(body[0] - 300, 0) : body[0]]
            )
        ):
            line = find_line(code, change.start(1))
            return (
                f"Line {line} changes `{change[1]}` with each tile. The parity of a stage's mbarrier changes once per "
                "lap of four stages, so that of the next stage is still the old one."
            )
    return ""


def _list_wrong_sums(x: np.ndarray) -> dict[str, np.ndarray]:
    """Return what wrong sums of the rows of `x` give, by what they do: for `Output`. A tile has 1,024 numbers."""
    count, tile, number = x.shape[1], _TILE // 4, np.arange(x.shape[1])
    if count <= tile:
        left_out = {"the first 32 numbers of a row are in no sum": number < 32}
    else:
        left_out = {
            "of each 1,024 numbers of a row the first 32 are in no sum": number % tile < 32,
            "of each 128 numbers of a row the last 32 are in no sum": number % 128 >= 96,
            "the first 1,024 numbers of a row are in no sum": number < tile,
            "only the first 1,024 numbers of a row are added": number >= tile,
            "the numbers of a row behind the last whole 1,024 are in no sum": number
            >= count // tile * tile,
        }
    sums = {
        clause: np.where(which, 0, x).sum(axis=1, dtype=np.int32)
        for clause, which in left_out.items()
    }
    return {clause: wrong for clause, wrong in sums.items() if wrong.any()}


def sums(random: np.random.Generator, rows: int, columns: int):
    """Return the launch of a sum of each row, a block per row; the sums, whose sign is random, need up to 31 bits."""
    x = draw_summands(random, (rows, columns), 2**31 // columns)
    x = (x * random.choice([-1, 1], (rows, 1))).astype(np.int32)
    total = Output(
        "total", x.sum(axis=1, dtype=np.int32), before=0, mistakes=partial(_list_wrong_sums, x)
    )
    return launch("sums", x, columns, total, grid=rows, block=(32, 4))


EXERCISE = Exercise(
    title="A ring of four stages",
    subject=Kernels(
        sums,
        (
            Case("3 rows of 100", (3, 100)),
            Case("1 row of 4,096", (1, 4096)),
            Case("2 rows of 10,004", (2, 10_004)),  # three laps, and a short tile at the end
            Case(_ON, (_ROWS, _COLUMNS), counted=True),
        ),
        hidden=(range(1, 4), range(4, 9000, 4)),
        headers=("cuda/ptx",),
    ),
    goals=(
        counted(
            "global_load_requests",
            _ON,
            what="load requests",
            exactly=0,
            least={"shared_load_bytes": 4 * _ROWS * _COLUMNS},
        ),
        counted(
            "copied_bytes",
            _ON,
            per=_ROWS,
            what="bytes per row that are copied in the background",
            exactly=4 * _COLUMNS,
        ),
        counted(
            "bytes_ahead",
            _ON,
            what="bytes of bulk copies under way while a tile is read",
            at_least=3 * _TILE,
            weight=3,
            # The barrier behind the mbarriers' initial values; no others that end a lap.
            most={"block_barriers": 4 * _ROWS, "named_barriers": 0},
        ),
    ),
    mistakes=(
        *MBARRIER_MISTAKES,
        Mistake(
            _explain_changed_parity,
            lambda attempt: attempt.findings and _explain_changed_parity(attempt),
        ),
        Mistake(
            "The consumers are three warps, 96 threads, but each steps by 128: of each 128 numbers, 32 are left out.",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(_STEP_OF_THE_BLOCK)
            ),
        ),
        Mistake(_explain_first_left_out, _explain_first_left_out),
        OWN_SUM_TWICE,
        Mistake(
            "After __reduce_add_sync each lane has the sum of the warp, and here each adds it to the total: one lane "
            "is enough.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.matches(r"= __reduce_add_sync\([^;]*;\s*atomicAdd\(")
            ),
        ),
        Mistake(
            "Every block copies the first row: `blockIdx` is used for the total alone. Row blockIdx.x begins at number "
            "blockIdx.x * columns.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and attempt.source.count("blockIdx") == 1
                and attempt.matches(r"\btotal\[blockIdx\.x\]|\btotal \+ blockIdx\.x")
            ),
        ),
        Mistake(
            "Warps load from global memory themselves. One thread copies each tile, with cp.async.bulk.",
            lambda attempt: attempt.count("global_load_requests", _ON) > 0,
        ),
        Mistake(
            "The producer waits at `full` for the copy that it has just begun, so there is never more than one under "
            "way. Who has to wait until a stage is full? What is the only thing that the producer waits for?",
            lambda attempt: attempt.matches(_WAITS_FOR_ITS_COPY),
        ),
        Mistake(
            lambda attempt: (
                f"Too few bytes are under way: {int(attempt.count('bytes_ahead', _ON)):,} while a tile is read, of the "
                f"three stages of {_TILE:,} that may be. How many stages has the ring, how long is a tile, and for "
                "what does the producer wait before a copy?"
            ),
            lambda attempt: (
                0 < attempt.count("copied_bytes", _ON) <= 4 * _ROWS * _COLUMNS
                and attempt.count("bytes_ahead", _ON) < 3 * _TILE
            ),
        ),
        Mistake(
            "A batch of tiles ends at a barrier of the whole block: until all have read it, nothing is under way. Give "
            "each stage back by itself, by arrivals at its `empty`.",
            lambda attempt: (
                attempt.count("bytes_ahead", _ON) >= 3 * _TILE
                and attempt.count("block_barriers", _ON) > 4 * _ROWS
            ),
        ),
        Mistake(
            "Numbers are copied more than once. Each tile of a row is copied once, into stage i % 4.",
            lambda attempt: attempt.count("copied_bytes", _ON) > 4 * _ROWS * _COLUMNS,
        ),
    ),
)
