"""Every kernel of the lab, for the tests that go through all of them."""

from labkit.ladder.rungs import LADDER
from labkit.ladder.variants import solutions, variant

KERNELS = [variant(each.number, **({"step": step} if step else {})) for each in LADDER for step in (None, *each.steps)]
SOLUTIONS = solutions()
