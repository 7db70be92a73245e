"""The exercises of page 01 can be solved as they say. Their solutions have no files: 03's first step is one of them."""

import labkit
from labkit import LENET86, variant

BASELINE = variant(1)


def edited(*changes):
    source = BASELINE.source
    for old, new in changes:
        assert source.count(old) == 1
        source = source.replace(old, new)
    return variant(1, source=source)


def test_the_mapping_turned_round():
    turned = edited(("blockDim.y + threadIdx.y", "blockDim.y + threadIdx.x"),
                    ("blockDim.x + threadIdx.x", "blockDim.x + threadIdx.y"))  # fmt: skip
    labkit.check(turned)
    assert labkit.diff(1, turned).changed_lines == 2


def test_a_sum_in_a_register_is_stored_once():
    summed = edited(("    y[h * Wo + w] = 0;", "    float sum = 0;"),
                    ("                y[h * Wo + w] +=", "                sum +="),
                    ("* K + q];\n}", "* K + q];\n    y[h * Wo + w] = sum;\n}"))  # fmt: skip
    labkit.check(summed)
    counted = labkit.profile([BASELINE, summed], LENET86[0], engine="cpu")
    assert counted.ratio("global_store_requests", 1, summed.label) == LENET86[0].terms + 1
    assert counted.ratio("global_load_requests", 1, summed.label) == 1
    assert labkit.diff(1, summed).changed_lines <= 4
