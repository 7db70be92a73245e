"""Figures of a line's accesses and of a race: drawn as they were counted and found."""

import numpy as np
import pytest
from test_draw import collisions, compose, render  # noqa: F401  fixtures

import labkit
import labkit.draw as draw
from hostcuda.processes import Ended
from labkit.base.errors import LabError
from labkit.draw.accesses import _find_turns
from labkit.draw.warps import bytes_used
from labkit.evidence.accesses import accesses
from labkit.evidence.sanitize import VariantFindings
from labkit.ladder.variants import variant
from labkit.spec.layers import LENET86, Layer

pytestmark = pytest.mark.thorough("figures, which the notebooks draw, too")

SMALL = Layer("two channels", 2, 22, 22, 5, 7)
TILED = variant(4)
RACY = variant(4, "".join(TILED.source.rpartition("__syncthreads();")[::2]))
# Each lane reads its own element of the mask, and float4s that are 5 apart from shared memory.
SCATTERED = variant(
    2,
    """
__constant__ float mask[16384];
extern "C" __global__
void conv(const float *x, const float *k, float *y, int B, int C, int H, int W, int M, int K)
{
    __shared__ float4 wide[320];
    const int t = threadIdx.y * blockDim.x + threadIdx.x;
    if (t < 64) wide[t] = make_float4(t, t, t, t);
    __syncthreads();
    float4 four = wide[t * 5 % 64];
    atomicAdd(&y[t % 3], four.x + mask[t % 7]);
}
""",
)
LINES = [
    (1, None),
    (1, 29),
    (TILED, None),
    (TILED, 41),
    (TILED, 42),
    (5, 36),
    (9, None),
    (SCATTERED, 10),
    (SCATTERED, 11),
    (variant(4, step="weights"), None),
]


@pytest.mark.parametrize(("of", "line"), LINES)
def test_what_is_drawn_is_what_was_counted(of, line):
    """The engine's sectors and wavefronts of each request are those that the figure draws of its addresses."""
    counts = accesses(of, LENET86[1], line)
    assert line in (None, counts.line)
    for access in (counts.worst, *counts.following):
        turns = _find_turns(access)
        drawn_units = turns.number if turns else len(bytes_used(access.lanes, access.size)[1])
        # lanes with the same address take several passes, each with its sectors
        if access.op != "atom":
            assert drawn_units == access.units
        assert access.units <= counts.worst.units or access.space != counts.worst.space
    assert len(counts.following) == 8 or counts.worst.op == "atom" or line in (29, 10, 11, 41, 42)


def test_lines_are_those_of_the_readers_cell():
    """A cell's magic is its first line, so all others move down by one."""
    own = variant(1, "// %%kernel 01\n" + variant(1).source)
    assert accesses(own, SMALL).line == accesses(1, SMALL).line + 1


@pytest.mark.parametrize(("of", "line"), LINES[::3])
def test_figures_of_accesses_are_tidy(render, of, line):  # noqa: F811
    page = render(draw.accesses, of, LENET86[1], line)
    assert not collisions(page)
    assert page.alt.endswith(".") and "\n" not in page.alt


@pytest.mark.parametrize(
    ("of", "line", "message"),
    [
        (TILED, 3, r"line 3 of 04_tiling\.cu accesses no .*; lines that do: 41, 42, 48, 52"),
        (TILED, 1000, "has the lines 1 to 53"),
        (TILED, "48", "has the lines 1 to 53"),
        ([1, 4], None, "takes one variant"),
        (
            variant(
                1,
                'extern "C" __global__ void conv(const float *, const float *, float *, int, int, int, int, int, int)\n'
                "{}",
            ),
            None,
            "lines that do: none",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused(of, line, message):
    with pytest.raises(LabError, match=message):
        draw.accesses(of, SMALL, line)


# -------------------------------------------------------------------------------------------- races
@pytest.fixture(scope="module")
def race():
    """Return the report of the sanitizer on RACY."""
    return labkit.sanitize(
        RACY, Layer("one block", 2, 22, 22, 1, 7), tool="racecheck", engine="cpu"
    )


@pytest.mark.parametrize(
    ("kind", "title", "missing"),
    [
        ("race with a copy", "the copy is not waited for", "no wait for the copy here"),
        (
            "race between blocks",
            "nothing orders two blocks",
            "the blocks of a launch run in any order",
        ),
    ],
)
def test_another_kind_of_race_is_not_about_a_barrier(render, race, kind, title, missing):  # noqa: F811
    page = render(
        draw.race,
        VariantFindings(race.table.assign(kind=kind).to_dict("records"), 1, race.tools, race.ended),
    )
    assert not collisions(page)
    assert (
        page.title == f"Race on tile: {title}"
        and missing in page.alt
        and "__syncthreads" not in page.alt
    )
    assert ("of another block" in page.alt) == (kind == "race between blocks")


def test_a_race_that_compute_sanitizer_reports_lacks_what_it_does_not_say(render):  # noqa: F811
    row = {
        "tool": "racecheck",
        "kind": "race",
        "kernel": "conv",
        "file": "/a/b.cu",
        "line": 9,
        "block": (0, 0, 0),
        "thread": (3, 0, 0),
        "other": {"file": "/a/b.cu", "line": 7, "thread": None},
        "address": 0,
        "size": 4,
        "buffer": None,
        "count": 1,
        "launches": None,
        "message": "",
        "op": np.nan,
        "source": "compute-sanitizer",
    }
    page = render(draw.race, VariantFindings([row], None, ("racecheck",), Ended(0, 1.0)))
    assert not collisions(page)
    assert {
        "another thread",
        "b.cu, line 7",
        "accesses the same bytes of shared or global memory",
    } <= set(page.words)


def test_without_a_race_there_is_nothing_to_draw(race):
    clean = VariantFindings([], 1, ("racecheck",), Ended(0, 1.0))
    with pytest.raises(
        LabError,
        match=r"no race of two known accesses to draw\. racecheck: nothing found in 1 launch",
    ):
        draw.race(clean)
    with pytest.raises(LabError, match=r"takes what lab\.sanitize gives, and got int"):
        draw.race(3)
