"""Which functions of the engine a submitted kernel may call: each one is allowed, or refused on purpose."""

import re

import pytest

from hostcuda import untrusted
from hostcuda.host import toolchain
from hostcuda.runtime import building, elf

pytestmark = pytest.mark.core(
    "a function that is in no list breaks every hand-in that calls it; a second"
)

ALLOWED = untrusted._IMPORTED.union(*untrusted._ASYNCHRONOUS.values())
# What a submitted kernel may not call, and why.
REFUSED = {
    "no goal counts what these copy, or of which block's memory": (
        "await_bulk commit_bulk complete_copies_at cluster_place cluster_waited cluster_window_address "
        "of_cluster_window map_shared_to rank_of_shared shared_of_bits wait_for_cluster arrive_at_cluster "
        "hostcuda_box_outside"
    ),
    "no goal counts products of warpgroups": (
        "begin_product commit_products await_products note_product_fence hostcuda_tile_copied hostcuda_tile_used "
        "change_registers wait_for_registers"
    ),
    "they write to a barrier in the kernel's memory": "begin_phases arrive_at",
    "a hand-in is one ordinary launch": (
        "wait_for_grid is_cooperative hostcuda_grid_wait hostcuda_grid_launch_dependents"
    ),
    "textures are set up by a program": "hostcuda_texel_read hostcuda_texel_written",
    "programs for the host call it": "hostcuda_calls",
    "thread loops and steps, which no hand-in is compiled for": (
        "hostcuda_step hostcuda_unfit hostcuda_half2_add hostcuda_half2_fma hostcuda_half2_mul hostcuda_half2_sub "
        "hostcuda_half_narrow hostcuda_half_widen"
    ),
}


def test_each_function_of_the_engine_is_allowed_or_refused_on_purpose():
    library = elf.Elf(building.build_library(checks=True))
    exported = {symbol.name for symbol in library.symbols(elf.SHT_DYNSYM) if symbol.section}
    # Not those that Python calls (hc_…), nor the versions for vectors of a function.
    own = {name for name in exported if re.match(r"_ZN8hostcuda|hostcuda_", name)}
    short = {
        name: toolchain.demangle(name).partition("(")[0].removeprefix("hostcuda::") for name in own
    }
    refused = [word for words in REFUSED.values() for word in words.split()]
    assert sorted({short[name] for name in own - ALLOWED}) == sorted(refused)
    assert {name for name in ALLOWED if "hostcuda" in name} <= own, "the list has one that is gone"
