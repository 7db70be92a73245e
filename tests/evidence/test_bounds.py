"""Which sources need the check of local arrays' indices, and which arrays are local."""

import pytest

from hostcuda.check.bounds import needs_checks
from labkit.ladder.rungs import LADDER
from labkit.ladder.source import header_folders
from labkit.ladder.variants import variant

pytestmark = pytest.mark.thorough("counters, which the notebooks show, too")


def test_the_ladder_is_as_fast_as_without_it():
    """Except for rung 11, whose indices are computed from the counters of its unrolled loops."""
    several = [variant(rung.name) for rung in LADDER]
    slower = [
        kernel.rung.name
        for kernel in several
        if needs_checks(kernel.source, header_folders(kernel.path))
    ]
    assert slower == ["split_floats"]
