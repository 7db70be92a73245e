"""A thread that is followed: its values are those that NumPy computes, and the table shows them."""

import numpy as np
import pytest

import labkit
from hostcuda import stepping
from labkit.base.errors import LabError
from labkit.ladder.variants import variant
from labkit.spec.layers import LENET86, Layer

pytestmark = pytest.mark.thorough("breadth of the lab: the notebooks run the main paths")

if stepping.why_not():
    pytest.skip(stepping.why_not(), allow_module_level=True)

LAYER = Layer("small", 2, 13, 11, 3, 3)
RANDOM = np.random.default_rng(2)  # as labkit.evidence.child makes its images
X, MASK = (RANDOM.random(shape, np.float32) for shape in (LAYER.x_shape(1), LAYER.k_shape))


def sums(m, h, w):
    """Return the sum after each product, in float32 and in the kernels' order."""
    return np.add.accumulate((X[0, :, h : h + LAYER.K, w : w + LAYER.K] * MASK[m]).ravel()).tolist()


def rows(steps, text):
    return steps.table[steps.table["code"].str.contains(text, regex=False)]


@pytest.mark.parametrize(
    ("number", "thread", "block"),
    [(3, (4, 2), (0, 1)), (4, (4, 2, 0), (0, 1, 0)), (4, (0, 9), (0, 2))],
)
def test_the_sum_is_what_numpy_computes(number, thread, block):
    steps = labkit.step(number, thread, block, LAYER)
    products, m, (w, h) = rows(steps, "sum +="), block[1], thread[:2]
    assert [row["sum"] for row in products["values"]] == sums(m, h, w)
    assert [(row["c"], row["p"], row["q"]) for row in products["values"]] == [
        *np.ndindex(LAYER.C, LAYER.K, LAYER.K)
    ]
    (stored,) = rows(steps, "= sum;").itertuples()
    value = sums(m, h, w)[-1]
    assert stored.accesses == [
        {"op": "st", "space": "global", "name": "y", "index": [0, m, h, w], "value": value}
    ]


def test_accesses_name_the_element_and_its_value():
    steps = labkit.step(1, (4, 2), (0, 1), LAYER)
    first, *_, last = rows(steps, "y[h * Wo + w] +=")["accesses"]
    assert [(access["op"], access["name"], access["index"]) for access in first] == [
        ("ld", "y", [0, 1, 2, 4]),
        ("ld", "x", [0, 0, 2, 4]),
        ("ld", "k", [1, 0, 0, 0]),
        ("st", "y", [0, 1, 2, 4]),
    ]
    values = [access["value"] for access in first]
    assert values == [0, float(X[0, 0, 2, 4]), float(MASK[1, 0, 0, 0]), sums(1, 2, 4)[0]]
    assert last[-1]["value"] == sums(1, 2, 4)[-1]


def test_a_thread_beyond_the_edge_returns():
    steps = labkit.step(1, (15, 15), layer=LAYER)
    assert steps.table["code"].iloc[-1].endswith("return;") and len(steps.table) < 10


def test_a_pointer_is_the_element_that_it_points_to():
    steps = labkit.step(3, (1,), (0, 2), LAYER)
    assert steps.table["values"].iloc[-2]["y"] == "&y[0, 2, 0, 0]"


def test_what_is_not_set_is_not_shown():
    source = variant(1).source.replace("y[h * Wo + w] = 0;", "float never; y[h * Wo + w] = 0;")
    steps = labkit.step(variant(1, source), (1,), layer=LAYER)
    assert all(row["never"] is None for row in steps.table["values"] if "never" in row)
    assert "never" not in repr(steps).replace("float never", "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"thread": (16, 0)},
            r"thread = \(16, 0\): the launch has threads from \(0, 0, 0\) to \(15, 15, 0\)",
        ),
        ({"thread": 3}, "thread = 3"),
        ({"thread": (-1,)}, "thread = "),
        ({"thread": (0, 0, 0, 0)}, "thread = "),
        ({"block": (9, 9)}, r"block = \(9, 9\): the launch has blocks"),
        ({"kernel": "gemm"}, "01 baseline launches conv"),
        ({"first": 10**6}, "this thread makes"),
        ({"most": 0}, "most = 0"),
        ({"layer": 3}, "an int is not a layer"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(LabError, match=message):
        labkit.step(1, **{"layer": LAYER, **arguments})


def test_a_kernel_that_fails_says_why():
    broken = variant(1, variant(1).source.replace("h >= Ho || w >= Wo", "false"))
    with pytest.raises(LabError, match="one past the end"):
        labkit.step(broken, (15, 15), (0, 2), LAYER)
    unset = variant(
        1,
        variant(1).source.replace("if (h >= Ho", "int way; if (way & 1) return;\n    if (h >= Ho"),
    )
    with pytest.raises(LabError, match="depends on memory that has not been set"):
        labkit.step(unset, layer=LAYER)


def test_every_rung_can_be_followed():
    for number in (2, 6, 7, 8, 9, 10, 11):
        assert len(labkit.step(number, (1,), layer=LENET86[0]).table) > 5


def test_another_processor_is_refused(monkeypatch):
    monkeypatch.setattr(
        stepping, "why_not", lambda: "a thread can be followed on x86-64 processors alone"
    )
    with pytest.raises(LabError, match="x86-64 processors alone"):
        labkit.step(1, layer=LAYER)


def test_what_is_not_set_says_so():
    from labkit.page.steps import _format

    assert [_format(value) for value in (None, [0.5, None], {"x": 1.0})] == [
        "not set",
        "{0.5, not set}",
        "{x: 1}",
    ]
