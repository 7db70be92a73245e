"""Layers: shapes, counts, reference times, and what is refused."""

import inspect

import numpy as np
import pytest

import labkit
from labkit.base.errors import LabError
from labkit.spec.layers import LENET28, LENET72, LENET86, PRESETS, Layer, as_layers, layer

pytestmark = pytest.mark.core("the shapes that everything is measured on")


def test_shapes_keep_their_axes_apart():
    odd = Layer("odd", C=3, H=11, W=19, M=5, K=4)
    assert odd.x_shape(2) == (2, 3, 11, 19)
    assert odd.k_shape == (5, 3, 4, 4)
    assert odd.y_shape(2) == (2, 5, 8, 16)
    assert odd.terms == 48


def test_counts_against_a_count_by_hand():
    one, batch = LENET86[1], 10
    assert one.macs(batch) == batch * 16 * 34 * 34 * 4 * 7 * 7
    assert one.flops(batch) == 2 * one.macs(batch)
    arrays = [
        np.empty(shape, np.float32)
        for shape in (one.x_shape(batch), one.k_shape, one.y_shape(batch))
    ]
    assert one.bytes(batch) == sum(array.nbytes for array in arrays)
    assert one.bytes(batch, np.float16) * 2 == one.bytes(batch)
    assert one.intensity(B=batch) == pytest.approx(one.flops(batch) / one.bytes(batch))


@pytest.mark.parametrize(
    ("name", "float32", "float16"),
    [
        ("lenet86 layer 1", 0.42, 0.15),
        ("lenet86 layer 2", 1.21, 0.12),
        ("lenet72 layer 1", 0.85, 0.27),
        ("lenet72 layer 2", 3.43, 0.28),
    ],
)
def test_reference_times_of_the_h200_at_10000_images(name, float32, float16):
    assert round(layer(name).reference_ms(10000, np.float32, "H200"), 2) == float32
    assert round(layer(name).reference_ms(10000, np.float16, "H200"), 2) == float16


@pytest.mark.parametrize(
    ("size", "says"),
    [
        ({"K": 12}, "12x12 does not fit into an image of 11x19"),
        ({"W": 3}, "does not fit"),
        ({"C": 0}, "C = 0"),
        ({"H": 2.5}, "H = 2.5"),
        ({"M": True}, "M = True"),
    ],
)
def test_an_impossible_layer_is_refused_with_its_numbers(size, says):
    with pytest.raises(LabError, match=says.replace(".", r"\.")):
        Layer("odd", **{"C": 3, "H": 11, "W": 19, "M": 5, "K": 4, **size})


@pytest.mark.parametrize("batch", [0, -1, 2.0, True, None])
def test_an_impossible_batch_is_refused(batch):
    with pytest.raises(LabError, match="batch"):
        LENET86[0].x_shape(batch)


def test_numpy_integers_are_integers():
    assert Layer("n", *(np.int64(size) for size in (1, 5, 6, 2, 3))) == Layer("n", 1, 5, 6, 2, 3)
    assert LENET86[0].y_shape(np.int32(3)) == (3, 4, 80, 80)


def test_lookup():
    assert layer("lenet86", 2) is LENET86[1] is layer("lenet86 layer 2")
    assert tuple(LENET86) == (LENET86[0], LENET86[-1]) and len(LENET86) == 2
    assert "1x86x86 -> 4x80x80" in str(LENET86)
    assert LENET72[0].network == "lenet72"
    assert Layer("my layer", 1, 5, 5, 1, 3).network == ""
    assert set(PRESETS) == {"lenet86", "lenet72", "lenet28"}
    with pytest.raises(LabError, match=r"lenet99 layer 1.*lenet86 layer 1"):
        layer("lenet99", 1)
    with pytest.raises(IndexError, match="lenet28 has 1 layer"):
        LENET28[1]


# What the functions below need beside a layer.
GIVEN = {"variants": 1, "variant": 1, "of": 1, "batch": 1, "kernel_ms": 1.0, "row": 0, "column": 0}


def list_functions_of_layers():
    """Yield each public function that takes a layer or several, with its parameters."""
    for place in (labkit, labkit.draw):
        for name in place.__all__:
            function = getattr(place, name)
            # `roofline` chooses rows of a table by the text of its layer
            if callable(function) and function not in (LabError, labkit.draw.roofline):
                parameters = inspect.signature(function).parameters
                if {"layer", "layers"} & parameters.keys():
                    yield pytest.param(function, parameters, id=f"{place.__name__}.{name}")


@pytest.mark.parametrize(("function", "parameters"), [*list_functions_of_layers()])
def test_a_function_that_takes_a_layer_looks_its_name_up(function, parameters):
    given = GIVEN | dict.fromkeys(("layer", "layers"), "lenet86 layer 9")
    given = {name: value for name, value in given.items() if name in parameters}
    with pytest.raises(LabError, match="there is no 'lenet86 layer 9'; the lab's layers are"):
        function(**given)


def test_layers_are_given_as_one_or_several():
    first, second = LENET86
    for given in (first, [first], first.name, (first.name,)):
        assert as_layers(given) == [first]
    assert as_layers(LENET86) == as_layers([first.name, second]) == [first, second]
    for wrong, message in ((None, "no layer is given"), ([3], "an int is not a layer")):
        with pytest.raises(LabError, match=message):
            as_layers(wrong)
