"""Races beside barriers of some threads of a block: who arrives gives, who waits takes, and nobody else knows."""

import re

import pytest
from running import IMPORTS, kernel_source

from hostcuda.sanitize import sanitize_script

pytestmark = pytest.mark.core("races that pages and exercises with teams of warps rely on")

PROGRAM = """
source, names = sys.argv[1:]
module = SourceModule(source, no_extern_c=True, options=["-arch=sm_90"])
for name in names.split():
    grid = (2 if "cluster" in name else 1, 1)
    module.get_function(name)(cuda.to_device(np.zeros(512, np.int32)), block=(128, 1, 1), grid=grid)
cuda.Context.synchronize()
"""
KERNELS = [
    f"{name}_{mistake or 'right'}"
    for name, mistake in re.findall(
        r"^(?:RIGHT|WRONG)\((\w+)(?:, (\w+))?\)", kernel_source("named_barriers"), re.MULTILINE
    )
]
RIGHT = [name for name in KERNELS if name.endswith("_right")]
WRONG = [name for name in KERNELS if not name.endswith("_right")]


@pytest.fixture(scope="module")
def findings(tmp_path_factory):
    """Return the findings of each kernel with some."""
    path = tmp_path_factory.mktemp("barriers") / "program.py"
    path.write_text(IMPORTS + PROGRAM)
    found = sanitize_script(
        str(path),
        [kernel_source("named_barriers"), " ".join(KERNELS)],
        tool="racecheck",
        engine="cpu",
        capture=True,
    )
    assert found.ended.status == 0, found.ended.output
    assert found.launches == len(KERNELS)
    return dict(list(found.table.groupby("kernel")))


@pytest.mark.parametrize("kernel", RIGHT)
def test_what_a_thread_does_before_it_arrives_is_known_to_those_who_wait(kernel, findings):
    assert kernel not in findings, findings[kernel].to_string()


@pytest.mark.parametrize("kernel", WRONG)
def test_what_is_behind_the_arrival_or_of_others_is_a_race(kernel, findings):
    kinds = {
        "bulk_stored_no_fence": "missing proxy fence",
        "bulk_stored_not_waited": "race with a copy",
    }
    kind = kinds.get(kernel, "race")
    assert kernel in findings and kind in {*findings[kernel]["kind"]}


def test_the_remedy_is_a_barrier_of_those_who_meet(findings):
    named = "arrive at a named barrier behind it (bar.arrive or bar.sync)"
    for kernel in ("ring_full_too_early", "global_ring_full_too_early", "third_left_out"):
        (remedy,) = {*findings[kernel]["remedy"]}
        assert named in remedy and "__syncthreads" not in remedy
    (remedy,) = {*findings["lanes_not_waited"]["remedy"]}
    assert "within one warp __syncwarp() is enough" in remedy
