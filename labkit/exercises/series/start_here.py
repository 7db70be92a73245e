"""The exercises of page 00: a first kernel of one's own."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import hostcuda
from labkit.exercises.exercise import Attempt, Case, Exercise, Mistake, counted
from labkit.exercises.subjects import Module


class Vectors(NamedTuple):
    """Two vectors to add, and the launch: `n` elements, `blocks` blocks of `threads` threads."""

    n: int
    blocks: int
    threads: int

    @property
    def a(self) -> np.ndarray:
        """Whole numbers, which float32 adds without an error."""
        return np.arange(self.n, dtype=np.float32)

    @property
    def b(self) -> np.ndarray:
        """Whole numbers, too, in another order."""
        return 1000 * (np.arange(self.n, dtype=np.float32) % 7)


def _run(module, vectors: Vectors) -> Iterator[dict[str, np.ndarray]]:
    total = np.full(vectors.n, np.nan, np.float32)
    module.get_function("add")(
        hostcuda.driver.In(vectors.a), hostcuda.driver.In(vectors.b), hostcuda.driver.Out(total), np.int32(vectors.n),
        grid=(vectors.blocks, 1), block=(vectors.threads, 1, 1),
    )
    yield {"sum": total}


def _expected(vectors: Vectors) -> Iterator[dict[str, np.ndarray]]:
    yield {"sum": vectors.a + vectors.b}


def _subject(counted_on: Vectors, *hidden: Vectors) -> Module:
    cases = [Case(f"{each.n:,} elements in {each.blocks} blocks of {each.threads}", each) for each in hidden]
    return Module("vectors", _run, _expected, (*cases, Case(f"{counted_on.n:,} elements", counted_on, counted=True)))


def _quarter(n: int, threads: int) -> Vectors:
    """A launch with a thread for every four elements, rounded up to whole blocks."""
    return Vectors(n, -(-n // (4 * threads)), threads)


_NOT_WRITTEN = Mistake(
    "sum held nan before the launch, so no thread has stored this element. Which thread should have?",
    lambda attempt: ": nan, expected" in attempt.wrong,
)

EXERCISES = (
    Exercise(
        number="00a",
        page="start_here",
        title="All threads at work",
        # Grids with fewer threads than elements, as many, and more.
        subject=_subject(Vectors(1000, 4, 64), Vectors(777, 3, 64), Vectors(256, 4, 64), Vectors(50, 2, 64)),
        lines=4,
        goals=(counted("global_load_requests", "1,000 elements", at_most=64),),
        hints=(
            "Which elements belong to thread number 0, if each of the 256 threads takes every 256th element? "
            "Which to thread number 1?",
            "A thread begins at its own number in the grid, as in the kernel at the top of the page. The step of the "
            "loop is the number of all threads.",
            "gridDim.x blocks of blockDim.x threads: that product is the step. The line with return has to go.",
        ),
        mistakes=(
            Mistake(
                "The sums are right, but several threads compute each of them. Every thread needs a first element of "
                "its own, and a step over the elements of all other threads.",
                lambda attempt: _loads(attempt) > 64 and "return" not in attempt.source,
            ),
            Mistake(
                "A thread has to add more than one element: here the grid has fewer threads than there are elements.",
                lambda attempt: attempt.runs_wrong and "for" not in attempt.source.split(),
            ),
            _NOT_WRITTEN,
        ),
    ),
    Exercise(
        number="00b",
        page="start_here",
        title="Neighbours read neighbours",
        subject=_subject(_quarter(4096, 128), _quarter(1001, 64), _quarter(127, 32), _quarter(3, 32)),
        lines=2,
        goals=(
            counted("global_load_sectors", "4,096 elements", at_most=1024),
            counted("global_store_sectors", "4,096 elements", at_most=512),
        ),
        hints=(
            "All lanes of a warp run the loop in step: j is the same for all. Which 32 elements does a warp load at "
            "j = 0? Which ones should it load?",
            "At the same j, thread t + 1 should load the element next to that of thread t.",
            "The threads of the grid take the first quarter of the elements at j = 0, the second at j = 1 and so on: "
            "from one j to the next, a thread goes on by the number of all threads.",
        ),
        mistakes=(
            Mistake(
                "The threads of a block now lie side by side, but all blocks take the same elements: count the blocks "
                "before this one, too.",
                lambda attempt: attempt.runs_wrong and _without_block(attempt),
            ),
            _NOT_WRITTEN,
        ),
    ),
)


def _loads(attempt: Attempt) -> float:
    return attempt.counts.get("1,000 elements", {}).get("global_load_requests", 0)


def _without_block(attempt: Attempt) -> bool:
    line = next((line for line in attempt.source.splitlines() if "int i =" in line), "")
    return "thread" not in line.replace("threadIdx", "") and "blockIdx" not in line
