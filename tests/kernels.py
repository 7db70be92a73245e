"""Every kernel of the lab, for the tests that go through all of them."""

from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import solutions, variant

KERNELS = [
    variant(rung.number, **({"step": step} if step else {}))
    for rung in LADDER
    for step in (None, *rung.steps)
]
SOLUTIONS = solutions()
