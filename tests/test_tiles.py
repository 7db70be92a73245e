"""Kernels in Triton, run with NumPy: page 16's, and its exercise with right and wrong changes."""

import re
import tomllib

import numpy as np
import pytest

import labkit as lab
from labkit.base.errors import LabError
from labkit.base.paths import PACKAGE
from labkit.exercises.exercise import exercise
from labkit.exercises.grade import grade
from labkit.measure.tiles import compute_checksum, make_inputs, run, tl
from labkit.notebooks import execute

pytestmark = pytest.mark.core("a second: what page 16 runs in place of Triton")

TEXT = (PACKAGE.parent / "recording" / "implicit_gemm.py").read_text(encoding="utf-8")
ODD = lab.Layer("odd", C=3, H=15, W=13, M=5, K=4)


def convolve(layer, batch, text=TEXT, **tile):
    x, k = make_inputs(layer, batch)
    sizes = {"PIXELS": 64, "TERMS": 16, "MAPS": 8} | tile
    return run(text, x, k, **sizes), lab.conv_float64(x, k)


@pytest.mark.parametrize("tile", [{}, {"PIXELS": 256, "TERMS": 64, "MAPS": 16}], ids=str)
def test_the_kernel_that_is_measured_is_right(tile):
    done, expected = convolve(ODD, 3, **tile)
    assert np.array_equal(done.y, expected.astype(np.float16))


def test_each_pixel_loads_its_window_once():
    done, expected = convolve(ODD, 3)
    pixels, programs = expected[:, 0].size, -(-expected[:, 0].size // 64)
    assert done.loads == {"x": pixels * ODD.terms, "k": programs * ODD.M * ODD.terms}


def test_an_output_that_is_not_stored_is_nan():
    done, expected = convolve(ODD, 1, MAPS=2)
    assert np.isnan(done.y[:, 2:]).all()
    assert np.array_equal(done.y[:, :2], expected[:, :2])


@pytest.mark.parametrize("sum", ["(m[None, :] * ALL + k) +", "(k - -m[None, :] * ALL) +"])
def test_offsets_are_added_on_both_sides_and_subtracted(sum):
    assert "k + m[None, :] * ALL +" in TEXT
    done, expected = convolve(ODD, 1, TEXT.replace("k + m[None, :] * ALL +", sum))
    assert np.array_equal(done.y, expected)


@pytest.mark.parametrize(
    ("change", "tile", "says"),
    [
        (("", ""), {"TERMS": 24}, "tl.arange: the range must be a power of 2, not 24"),
        (("", ""), {"TERMS": 8}, "tl.dot: it takes at least 16 terms, not 8"),
        (
            ("mask=(pixel < pixels)[:, None] & (term < ALL)", "mask=(term < ALL)"),
            {},
            "tl.load takes element 585 of x, which has elements 0 to 584",
        ),
        (("term[:, None],\n", "term[:, None] - 1,\n"), {}, "tl.load takes element -1 of k"),
        (
            ("place[:, None]\n", "place[:, None] + 1\n"),
            {},
            "tl.store takes element 600 of y, which has elements 0 to 599",
        ),
    ],
)
def test_what_a_gpu_would_not_do_is_refused(change, tile, says):
    assert change[0] in TEXT
    with pytest.raises(LabError, match=re.escape(says)):
        convolve(ODD, 1, TEXT.replace(*change), **tile)


def test_a_checksum_depends_on_each_output():
    y = np.float16(np.arange(24).reshape(1, 2, 3, 4))
    others = [y + np.float16(i == np.arange(24)).reshape(y.shape) for i in range(24)]
    others += [y.swapaxes(2, 3), np.where(y == 5, np.float16(np.nan), y), y - np.float16(0.25)]
    assert compute_checksum(y) not in [*map(compute_checksum, others)]


def read_cell(name):
    cells = execute.read(PACKAGE.parent / "notebooks" / "16_as_others_write_it.ipynb").nb.cells
    return next(cell.source for cell in cells if cell.id == name)


SIDE = ("SIDE: tl.constexpr = K ", "SIDE: tl.constexpr = K + 1 ")
PLACES = (
    "= p[:, None] + 0 * down[None, :], q[:, None] + 0 * right[None, :]",
    "= p[:, None] - down[None, :], q[:, None] - right[None, :]",
)
BOUNDS = ("exists = ", "exists = (0 <= row) & (0 <= col) & ")
POOL = ("tl.sum(four, axis=1) / 4", "tl.maximum(tl.max(four, axis=1), 0)")


def answer_with(*changes):
    """Return the answer to 16a that the page's cells print for a change of its kernel."""
    text = read_cell("16-pooled")
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    printed, names = (
        [],
        {"lab": lab, "np": np, "layer": lab.LENET86[1], "run": run, "tl": tl},
    )
    exec(read_cell("16-try-out"), names)
    names["print"] = printed.append
    exec(text, names)
    inputs = int(re.search(r"a square loads (\d+) inputs", printed[0])[1])
    return [inputs, *(int(line.rpartition(" ")[2]) for line in printed)]


def place(row, column):
    return PLACES[0], f"= {row}, {column}"


ROWS, COLUMNS = PLACES[1][2:].split(", q")[0], "q" + PLACES[1].split(", q")[1]
WRONG = {
    "weights that do not move": (SIDE, BOUNDS, POOL),
    "weights that move with down alone": (SIDE, place(ROWS, "q[:, None]"), BOUNDS, POOL),
    "weights that move with right alone": (SIDE, place("p[:, None]", COLUMNS), BOUNDS, POOL),
    "weights that move up and left": (
        SIDE,
        place(ROWS.replace("-", "+"), COLUMNS.replace("-", "+")),
        BOUNDS,
        POOL,
    ),
    "weights at the edge once more where a row or column is -1": (
        SIDE,
        place(f"tl.maximum({ROWS}, 0)", f"tl.maximum({COLUMNS}, 0)"),
        POOL,
    ),
    "the window of one output": (PLACES, BOUNDS, POOL),
    "no ReLU": (SIDE, PLACES, BOUNDS, (POOL[0], "tl.max(four, axis=1)")),
    "the mean of the starting text": (SIDE, PLACES, BOUNDS),
    "the ReLU of a mean": (SIDE, PLACES, BOUNDS, (POOL[0], f"tl.maximum({POOL[0]}, 0)")),
}


def test_16a_begins_with_what_the_page_prints():
    assert answer_with() == [*exercise("16a").subject.start]


@pytest.mark.parametrize(
    "edits",
    [
        (SIDE, PLACES, BOUNDS, POOL),
        # the largest of the four does not depend on their order
        (SIDE, PLACES, BOUNDS, POOL, ("down, right, m", "right, down, m")),
        (SIDE, PLACES, BOUNDS, (POOL[0], "tl.max(tl.maximum(four, 0), axis=1)")),
        (SIDE, PLACES, BOUNDS, (POOL[0], "tl.max(tl.where(four > 0, four, 0), 1)")),
    ],
)
def test_16a_is_met_by_a_kernel_of_its_page(edits):
    assert grade("16a", *answer_with(*edits), quiet=True, record=False).passed


@pytest.mark.parametrize("about", WRONG)
def test_a_wrong_answer_to_16a_is_what_the_page_prints_for_the_mistake(about):
    path = exercise("16a").folder / "wrong.toml"
    answers = tomllib.loads(path.read_text(encoding="utf-8"))
    assert answer_with(*WRONG[about]) == answers[about]["answer"]


def test_a_weight_outside_of_the_mask_is_refused():
    with pytest.raises(LabError, match=r"tl\.load takes element -1 of k"):
        answer_with(SIDE, PLACES, POOL)
