"""Rung 11: floats as sums of two halves, of any size, and values that are not finite."""

import numpy as np
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.measure.compare import draw_integers, draw_reals, tolerance
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64, error_scale

pytestmark = pytest.mark.thorough("every kernel on every shape: minutes")

LAYER, BATCH = Layer("small and odd", C=3, H=9, W=12, M=4, K=3), 3
RUNG, WARPGROUPS = (labkit.variant("split_floats", step=step) for step in (None, "warpgroups"))
SAME_JOBS = [
    labkit.variant("split_floats", step=step) for step in ("teams", "no_teams", "background")
]


@pytest.fixture(scope="module", params=[RUNG, WARPGROUPS, *SAME_JOBS], ids=str)
def plan(request):
    with request.param.plan(LAYER, BATCH) as plan:
        yield plan


@pytest.fixture
def drawn():
    return draw_reals(RUNG, LAYER, BATCH, np.random.default_rng(1))


def computed(plan, x, k):
    """Return the result of a plan for x and k."""
    plan.load(x, k)
    plan.run()
    return plan.result()


@pytest.mark.parametrize(
    ("of_x", "of_k"), [(40, 0), (-40, 0), (0, 40), (0, -40), (100, -100), (-60, 70)]
)
def test_powers_of_two_change_no_digit(plan, drawn, of_x, of_k):
    """Halves end at 2^16 and are coarse below 2^-14, but the parts are scaled."""
    x, k = drawn
    expected = np.ldexp(computed(plan, x, k), of_x + of_k)
    np.testing.assert_array_equal(computed(plan, np.ldexp(x, of_x), np.ldexp(k, of_k)), expected)


def test_sums_too_large_or_too_small_for_a_float_end_as_in_float(plan, drawn):
    x, k = (np.abs(array) for array in drawn)
    assert np.isposinf(computed(plan, np.ldexp(x, 100), np.ldexp(k, 100))).all()
    assert (computed(plan, np.ldexp(x, -90), np.ldexp(k, -90)) == 0).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
def test_what_is_not_finite_spreads_as_far_as_in_float(plan, drawn, value):
    """It spreads to the outputs whose windows hold it, and to no other image or map."""
    x, k = drawn
    x[1, 2, 4, 5] = value
    y, expected = computed(plan, x, k), conv_float64(x, k)
    np.testing.assert_array_equal(np.isfinite(y), np.isfinite(expected))
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    np.testing.assert_allclose(y[np.isfinite(y)], expected[np.isfinite(y)], atol=1e-4)
    x, k = drawn
    x[1, 2, 4, 5], k[3, 0, 1, 1] = 0.5, value
    y, expected = computed(plan, x, k), conv_float64(x, k)
    np.testing.assert_array_equal(np.isnan(y), np.isnan(expected))
    assert np.isfinite(y[:, :3]).all() and not np.isfinite(y[:, 3]).any()


@pytest.mark.parametrize(
    ("kernel", "maps"),
    [(RUNG, 8), (WARPGROUPS, 24), *((kernel, 8) for kernel in SAME_JOBS)],
    ids=str,
)
def test_a_map_that_is_not_finite_leaves_the_next_maps_right(kernel, maps):
    """The next maps' weights and powers of two are loaded, although those of this group were not used."""
    layer = Layer("three groups", C=2, H=5, W=6, M=2 * maps + 4, K=3)
    x, k = draw_reals(kernel, layer, BATCH, np.random.default_rng(1))
    k[maps:] *= 64
    k[3, 0, 1, 1] = np.inf
    with kernel.plan(layer, BATCH) as plan:
        y, expected = computed(plan, x, k), conv_float64(x, k)
    np.testing.assert_allclose(y[:, maps:], expected[:, maps:], atol=64e-4)


@pytest.mark.parametrize("rung", ["speed_of_light", "split_floats"])
def test_products_of_four_warps_cover_every_layer(rung):
    """There are sizes for wide and deep layers, within a product's columns, a thread's sums and a block's memory."""
    kernel = labkit.variant(rung, step="warpgroups")
    several = (
        Layer("deep", 16, 20, 33, 100, 5),
        Layer("one of each", 1, 1, 1, 1, 1),
        Layer("even mask", 3, 40, 9, 7, 4),
        Layer("16 bytes too many", 16, 32, 31, 25, 3),
        Layer("16 bytes too many in three stages", 20, 14, 30, 24, 6),
    )
    for layer in (*labkit.LENET86, *labkit.LENET72, *several):
        s = kernel.scope(layer)
        assert s.groups == -(-layer.M // s.maps)  # as the kernel counts them
        assert (
            2 * s.down * s.maps <= 48
            and s.down * s.maps % 4 == 0
            and s.tall * s.down * s.maps <= 80
        )
        assert s.maps % (4 * s.stages) == 0 or s.parts == 1
        # Of each block, the driver has 1 KB, and in float 32 bytes are not the launch's.
        assert s.room * (s.shared + 32 * (s.parts - 1) + 1024) <= 228 * 1024
        (conv,) = kernel.launches(layer, 1000)  # its blocks arrange their weights themselves
        grid = conv.grid[0]
        assert grid % s.groups == 0 and grid <= 264


def test_a_layer_32_bytes_too_large_for_a_block_is_refused():
    """What the kernel itself declares counts, too: on a GPU the launch would fail."""
    layer = Layer("32 bytes too many", C=6, H=60, W=60, M=12, K=4)
    assert WARPGROUPS.scope(layer).shared == 227 * 1024
    with pytest.raises(LabError, match="needs 232,480 bytes of shared memory"):
        WARPGROUPS.supports(layer)


def test_a_block_with_one_image_stores_its_maps_in_stages():
    """One image follows the other in the same place, also after one that is not finite."""
    kernel, layer = labkit.variant("split_floats", step="warpgroups", blocks=1), labkit.LENET72[1]
    s = kernel.scope(layer)
    assert (s.images, s.stages, s.outs, s.groups, s.maps) == (1, 3, 2, 1, 24)
    assert kernel.launches(layer, 4)[0].grid == (1, 1, 1)
    x, k = draw_integers(kernel, layer, 4, np.random.default_rng(1))
    x[1, 7, 20, 32] = np.nan
    with kernel.plan(layer, 4) as plan:
        y = computed(plan, x, k)
    np.testing.assert_array_equal(y, conv_float64(x, k))
    assert np.isnan(y[1]).any() and np.isfinite(y[[0, 2, 3]]).all()


@pytest.mark.parametrize(
    "layer",
    [
        labkit.LENET72[1],
        Layer("fours of pixels", 4, 13, 15, 5, 6),
        Layer("more than a thread loads at once", 16, 31, 31, 4, 3),
        Layer("an odd number of pixels", 3, 11, 13, 9, 4),
    ],
    ids=str,
)
def test_odd_rows_of_several_images_per_block(layer):
    """A word in shared memory holds a pixel and the next one, which the last pixel does not have."""
    # per multiprocessor; so it is one
    kernel = labkit.variant("speed_of_light", step="warpgroups", blocks=4)
    images = 2 * kernel.launches(layer, 9)[0].grid[0] + 1
    assert layer.W % 2 == 1 and images <= 5
    x, k = draw_integers(kernel, layer, images, np.random.default_rng(1))
    with kernel.plan(layer, images) as plan:
        np.testing.assert_array_equal(computed(plan, x, k), conv_float64(x, k))
    assert layer.C > 4 or labkit.sanitize([kernel], layer, images, engine="cpu").clean


def test_three_products_are_float_and_one_is_half(drawn):
    """Errors relative to sum |x| |k|: one product has half's roundoff, 2^-11; three come near to float's."""
    x, k = drawn
    scale, exact, errors = error_scale(x, k), conv_float64(x, k), {}
    for step in ("one", "three"):
        with labkit.variant(RUNG.rung.name, step=step).plan(LAYER, BATCH) as plan:
            errors[step] = np.max(np.abs(computed(plan, x, k) - exact) / scale)
    assert errors["one"] > 2.0**-14 > 2.0**-20 > errors["three"]


def test_bound_holds_a_kernel_to_three_products():
    """On short sums, a kernel that leaves out one of them is outside of it."""
    rounding = RUNG.rounding
    allowed = tolerance(rounding, np.ones(1), 9)[0]
    assert rounding.parts == 2
    assert 2.0**-22 * 3 * 9 < allowed < 2.0**-16
