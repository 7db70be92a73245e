"""The solutions of page 05 on other layers than those that are graded, and the step skip."""

import pytest

import labkit
from labkit import LENET72, LENET86, variant

pytestmark = pytest.mark.thorough("solutions beyond their goals")

SCATTER, TAIL = "05 unroll gemm, a_scatter.cu", "05 unroll gemm, b_tail.cu"
LOADS, STORES = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"


def test_each_input_is_read_once():
    layer = LENET72[1]
    table = labkit.profile([variant(5), labkit.solution("05a")], layer, engine="cpu").table
    unroll = table[table["kernel"] == "im2col"].set_index("variant")
    warps = -(-layer.W * layer.H // 32) * layer.C
    assert warps <= unroll[LOADS][SCATTER] <= 1.1 * warps
    assert unroll[STORES][SCATTER] < 1.25 * unroll[STORES]["05 unroll gemm"]  # rows that begin within a sector


@pytest.mark.parametrize("layer", list(LENET72), ids=str)
def test_the_last_step_sums_what_there_is(layer):
    profile = labkit.profile([variant(5), labkit.solution("05b")], layer, engine="cpu")
    steps = -(-layer.terms // 16)
    assert profile.ratio("shared_load_instructions", TAIL, "05 unroll gemm") == layer.terms / (16 * steps)
    assert profile.ratio("global_sectors", TAIL, "05 unroll gemm") == 1


@pytest.mark.parametrize(("layer", "busy"), [(LENET86[0], 2 / 8), (LENET86[1], 1), (LENET72[0], 6 / 8)], ids=str)
def test_warps_without_a_row_leave_the_product_out(layer, busy):
    """A warp has two of a tile's 16 rows; with M = 4, two of eight warps have an output."""
    profile = labkit.profile([variant(5), variant(5, step="skip")], layer, engine="cpu")
    skipped = "05 unroll gemm, skip"
    assert profile.ratio("shared_load_instructions", skipped, "05 unroll gemm") == busy
    assert profile.ratio("shared_store_instructions", skipped, "05 unroll gemm") == 1
    assert profile.ratio("global_sectors", skipped, "05 unroll gemm") == 1
