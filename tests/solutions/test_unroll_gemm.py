"""The solutions of page 05 on other layers than those that are graded."""

import pytest

import labkit
from labkit import LENET72, LENET86, variant

pytestmark = pytest.mark.thorough("solutions beyond their goals")

SCATTER, SKIP = "05 unroll gemm, a_scatter.cu", "05 unroll gemm, b_skip.cu"
LOADS, STORES = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"


def test_each_input_is_read_once():
    layer = LENET72[1]
    table = labkit.profile([variant(5), labkit.solution("05a")], layer, engine="cpu").table
    unroll = table[table["kernel"] == "im2col"].set_index("variant")
    warps = -(-layer.W * layer.H // 32) * layer.C
    assert warps <= unroll[LOADS][SCATTER] <= 1.1 * warps
    assert unroll[STORES][SCATTER] < 1.25 * unroll[STORES]["05 unroll gemm"]  # rows that begin within a sector


@pytest.mark.parametrize(("layer", "busy"), [(LENET86[0], 2 / 8), (LENET86[1], 1), (LENET72[0], 6 / 8)], ids=str)
def test_warps_without_a_row_leave_the_product_out(layer, busy):
    """A warp has two of a tile's 16 rows; with M = 4, two of eight warps have an output."""
    profile = labkit.profile([variant(5), labkit.solution("05b")], layer, engine="cpu")
    assert profile.ratio("shared_load_instructions", SKIP, "05 unroll gemm") == busy
    assert profile.ratio("shared_store_instructions", SKIP, "05 unroll gemm") == 1
    assert profile.ratio("global_sectors", SKIP, "05 unroll gemm") == 1
