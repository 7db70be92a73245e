"""Mutants of the ladder's kernels: a sample is found, and the table of all of them has no survivor without a reason."""

import mutants
import pytest

from labkit.ladder.rungs import LADDER
from labkit.measure.check import TEST_SHAPES

pytestmark = pytest.mark.thorough("tools of the repository")


@pytest.mark.parametrize(
    ("kernel", "after", "found"),
    [
        ("baseline", "if (h >= Ho || w > Wo) return;", "check"),
        ("tiling", "for (int c = 0; c <= C; ++c) {", "check"),
        ("tiling", "h + i <= H && w + j < W ? x[(c * H + h + i) * W + w + j] : 0;", "sanitize"),
    ],
)
def test_a_sample_is_found(kernel, after, found):
    (mutant,) = (
        candidate for candidate in mutants.list_mutants(kernel) if candidate.after == after
    )
    assert mutants.found_by(mutant, TEST_SHAPES[:1])[0] == found


def test_a_mutant_differs_from_its_kernel_in_one_line():
    for rung in LADDER:
        source = mutants.variant(rung.name).source.splitlines()
        several = mutants.list_mutants(rung.name)
        assert 25 <= len(several) == len({mutant.source for mutant in several}) <= mutants.MOST
        for mutant in several:
            lines = mutant.source.splitlines()
            assert [i for i, line in enumerate(lines, 1) if line != source[i - 1]] == [mutant.line]


def test_all_but_those_with_a_reason_are_found():
    table = mutants.read()
    left = mutants.survivors(table)
    assert left["reason"].notna().all(), left
    assert set(table["kernel"]) == {rung.name for rung in LADDER}
    equivalent = left["reason"].str.startswith("equivalent").sum()
    assert len(table) - equivalent >= 184
    assert (table["found_by"] == "sanitize").sum() >= 20  # what check alone does not find
