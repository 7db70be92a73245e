"""Page 10: each step saves what its contract predicts, and the solutions work on other layers."""

import numpy as np
import pytest

import labkit
from hostcuda.gpu.nsight import COUNTED
from labkit import LENET72, LENET86, variant

pytestmark = pytest.mark.thorough("solutions beyond their goals")

SECOND = LENET86[1]
RUNG = variant(10, groups=1)
APART = labkit.solution("speed_of_light", "a", groups=1)


def test_steps_save_what_their_contracts_predict():
    """Counted per product of 16 x 16 x 8 on layer 2 of lenet86. From step pairs on, two squares stick out per map."""
    steps = [variant(10, step=step) for step in RUNG.rung.path] + [variant(10)]
    table = labkit.profile(steps, SECOND, engine="cpu").table.query("kernel == 'conv'").set_index("variant")
    words, stored = table[COUNTED["shared_load_instructions"]], table[COUNTED["global_store_sectors"]]
    products = np.array([2496, 2496, 2688, 2688, 2688, 2688])
    assert (table[COUNTED["global_load_requests"]] / products).round(2).tolist() == [5, 1.02, *4 * [0.19]]
    assert (words / products)[:5].tolist() == [0, 2, 0.75, 0.375, 0.375]
    assert stored.tolist()[2:] == [*3 * [4616], 1156]


@pytest.mark.parametrize("layer", [LENET86[0], *LENET72], ids=str)
def test_other_layers_pay_nothing(layer):
    profile = labkit.profile([RUNG, APART], layer, engine="cpu")
    for count in ("global_store_requests", "global_store_sectors", "shared_load_wavefronts"):
        assert profile.ratio(count, APART.label, RUNG.label) < 1.01
    assert profile.value("shared_store_wavefronts", APART.label) <= profile.value("shared_store_wavefronts", RUNG.label)


def test_where_there_is_no_room_for_two_turns_nothing_changes():
    rung, mine = variant(10), labkit.solution("speed_of_light", "b")
    profile = labkit.profile([rung, mine], SECOND, engine="cpu")  # Nsight Compute does not count barriers
    assert profile.ratio("barriers", mine.label, rung.label) == 1
