"""The comparison with cuDNN in one run: every contestant's result is looked at. It is timed on a GPU only."""

from contextlib import ExitStack

import numpy as np
import pytest

import labkit
from labkit.base.errors import LabError
from recording import versus

LAYER = labkit.Layer("lenet86 layer 2", C=2, H=9, W=8, M=3, K=3)


def test_a_wrong_result_of_either_input_ends_the_run(monkeypatch):
    monkeypatch.setattr(versus, "OURS", ((1, None), (10, None)))
    rng = np.random.default_rng(1)
    inputs = [rng.random(LAYER.x_shape(versus.CHECKED), dtype=np.float32) for _ in range(versus.INPUTS)]
    k = rng.random(LAYER.k_shape, dtype=np.float32)
    with ExitStack() as stack:
        several = list(versus._ours(stack, LAYER, inputs, k))
        assert [each.label for each in several] == ["01 baseline", "10 speed of light"]
        versus._check(several, LAYER, inputs, k, "before")
        for each in several:
            right = each.result
            each.result = lambda i, right=right: right(0)  # the second input's is not it
            with pytest.raises(LabError, match=f"{each.label}, NCHW, on {LAYER}: wrong after the timed runs"):
                versus._check(several, LAYER, inputs, k, "after")
            each.result = right
