"""Page 10: each step saves what its contract predicts, and the solutions of the exercises reach the goals."""

import numpy as np
import pytest

import labkit
from labkit import LENET72, LENET86, Layer, variant
from labkit.evidence.nsight import COUNTED

SECOND = LENET86[1]
RUNG = variant(10, groups=1)
APART, ONE = (labkit.solution("speed_of_light", exercise, groups=1) for exercise in "ab")


def test_steps_save_what_their_contracts_predict():
    """Per product of 16 x 16 x 8 on layer 2 of lenet86. From the step pairs on, two squares stick out per map."""
    steps = [variant(10, step=step) for step in RUNG.rung.path] + [variant(10)]
    table = labkit.profile(steps, SECOND, engine="cpu").table.query("kernel == 'conv'").set_index("variant")
    words, stored = table[COUNTED["shared_load_instructions"]], table[COUNTED["global_store_sectors"]]
    products = np.array([2496, 2496, 2688, 2688, 2688, 2688])
    assert (table[COUNTED["global_load_requests"]] / products).round(2).tolist() == [5, 1.02, *4 * [0.19]]
    assert (words / products)[:5].tolist() == [0, 2, 0.75, 0.375, 0.375]
    assert stored.tolist()[2:] == [*3 * [4616], 1156]


def test_maps_lie_in_different_banks():
    profile = labkit.profile([RUNG, APART], SECOND, engine="cpu")
    assert profile.value("wavefronts_per_shared_store", RUNG.label) > 2.5
    assert profile.value("wavefronts_per_shared_store", APART.label) <= 1.25
    assert profile.ratio("shared_load_wavefronts", APART.label, RUNG.label) < 1.01
    assert labkit.diff(RUNG, APART).changed_lines <= 6


@pytest.mark.parametrize("layer", [LENET86[0], *LENET72], ids=str)
def test_other_layers_pay_nothing(layer):
    profile = labkit.profile([RUNG, APART], layer, engine="cpu")
    for count in ("global_store_requests", "global_store_sectors", "shared_load_wavefronts"):
        assert profile.ratio(count, APART.label, RUNG.label) < 1.01
    assert profile.value("shared_store_wavefronts", APART.label) <= profile.value("shared_store_wavefronts", RUNG.label)


@pytest.mark.parametrize(("options", "share"), [({"groups": 1}, 6 / 10), ({}, 1)], ids=["room for two", "for one"])
def test_a_barrier_a_turn_where_there_is_room(options, share):
    rung, mine = variant(10, **options), labkit.solution("speed_of_light", "b", **options)
    profile = labkit.profile([rung, mine], SECOND, engine="cpu")  # Nsight Compute does not count barriers
    assert profile.ratio("barriers", mine.label, rung.label) == share
    assert labkit.diff(rung, mine).changed_lines <= 4


@pytest.mark.parametrize("maps", [8, 12])
def test_turns_do_not_race(maps):
    """An even number of turns an image and an odd one, several images a block; with one place they would race."""
    layer, sizes = Layer("some turns", 2, 20, 21, maps, 4), {"groups": 1, "blocks": 1}
    mine = labkit.solution("speed_of_light", "b", **sizes)
    assert layer.Wo % 4  # outputs gather
    assert mine.defines(layer)["WARPS"] > 1
    assert labkit.sanitize(mine, layer, batch=3, tool="racecheck").clean
    one_place = mine.source.replace("outs[m0 / MAPS % TURNS]", "outs[0]")
    assert one_place != mine.source
    assert not labkit.sanitize(variant(10, one_place, **sizes), layer, batch=3, tool="racecheck", engine="cpu").clean
