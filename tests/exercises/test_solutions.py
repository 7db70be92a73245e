"""The solutions of the exercises: lab.solution gives them, and they work beyond what is graded."""

import itertools
import math
import re

import numpy as np
import pytest

import hostcuda.driver as cuda
import labkit as lab
from hostcuda.compiler import SourceModule
from hostcuda.gpu.nsight import COUNTED
from labkit import LENET72, LENET86, Layer, solution, variant
from labkit.base.paths import PACKAGE
from labkit.exercises.exercise import exercises
from labkit.exercises.subjects import InPlaceOf, Numbers
from labkit.measure.pipeline import schedule, span_ms
from labkit.measure.rounding import rounding_errors
from labkit.notebooks import execute
from labkit.page.listing import Listing

pytestmark = pytest.mark.thorough("solutions beyond their goals")


def read_notebook(name):
    """Return the text of a page of the ladder."""
    cells = execute.read(PACKAGE.parent / "notebooks" / f"{name}.ipynb").nb.cells
    return "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")


def around(solution, most):
    """Return numbers from 1 to `most`: those near to the solution, and some far away."""
    return sorted({1, 2, most, *range(max(1, solution - 3), solution + 4), 2 * solution})


# Which answers are tried, and which of them meet all goals: without the lesson, somebody would have to guess these.
ANSWERS = {
    "13b half": lambda half, float: ([(n, float) for n in range(8, 1001, 8)], [(half, float)]),
    "13b float": lambda half, float: ([(half, n) for n in range(8, 1001, 8)], [(half, float)]),
    # one wave of blocks, or two
    "13c": lambda one: (
        [(n,) for n in around(one, 10_000)],
        [(n,) for n in (*range(one - 3, one + 1), 2 * one)],
    ),
    # the third pair, beside two that keep the rules
    "07c": lambda *three: (
        [
            (*three[:2], pair)
            for pair in itertools.product(
                (1, 2, 4, 6, 7, 8, 9, 10, 11, 14, 17, 20), (1, 2, 4, 6, 8)
            )
            if pair not in (*three[:2], (4, 8))
        ],
        [three],
    ),
    # the count, and the checksum of one shape
    "16a": lambda inputs, *checksums: (
        [(n, *checksums) for n in range(1, 1001)]
        + [(inputs, n, *checksums[1:]) for n in range(10_000) if n != checksums[0]],
        [(inputs, *checksums)],
    ),
    "18a": lambda *all: ([*itertools.product(range(1, 41), repeat=2)], [all]),
    "18b": lambda *all: ([(n,) for n in range(1, 1001)], [all]),
}


@pytest.mark.parametrize("which", ANSWERS)
def test_no_numbers_but_those_that_the_lesson_gives_meet_all_goals(which):
    asked = exercises()[which.split()[0]]
    tried, right = ANSWERS[which](*asked.subject.solution())
    met = []
    for answer in tried:
        counts = asked.subject.counts(answer)
        if all(goal.met(goal.number(counts)) for goal in asked.goals):
            met.append(answer)
    assert sorted(met) == right


@pytest.mark.parametrize("number", exercises())
def test_every_exercise_has_one(number):
    asked, solved = exercises()[number], solution(number)
    if isinstance(asked.subject, Numbers):
        assert all(goal.met(goal.number(asked.subject.counts(solved))) for goal in asked.goals)
    else:
        assert asked.subject.source(solved).rstrip() == asked.solution.rstrip()
        assert asked.solution.splitlines()[-3] in str(lab.show(solved))
        assert isinstance(solved, Listing) != isinstance(asked.subject, InPlaceOf)
        # and so shows the last line of a cell
        assert repr(solved).strip() == asked.solution.strip()
        assert solved._repr_html_() == lab.show(solved)._repr_html_()


def test_options_are_those_of_the_exercise_or_the_readers():
    assert dict(solution("08b").options)["step"] == "half2"
    assert dict(solution("10b", blocks=2).options)["blocks"] == 2
    assert dict(solution("speed_of_light", "b").options)["blocks"] is None
    with pytest.raises(lab.LabError, match="14a is in place of no rung, so it has no option tile"):
        solution("14a", tile=8)


def profile(kernels, layer):
    return lab.profile(kernels, layer, engine="cpu")


def test_01a_takes_any_square_block():
    for side in (7, 16):
        lab.check(solution("01a", block=(side, side)))


# Counts of a solution as multiples of those of the kernel that it begins with, or of its rung.
RATIOS = [
    ("02a", {}, LENET86[0], {"constant_requests": 1}),  # rotated rows are read as often
    # A warp has two of a tile's 16 rows; with M = 4, two of eight warps have an output.
    *(
        (
            "05b",
            {},
            layer,
            {"shared_load_instructions": busy, "shared_store_instructions": 1, "global_sectors": 1},
        )
        for layer, busy in ((LENET86[0], 2 / 8), (LENET86[1], 1), (LENET72[0], 6 / 8))
    ),
    ("08a", {}, LENET72[1], {"global_store_requests": 1}),  # an odd number of pixels, one by one
    ("09b", {}, LENET72[1], {"global_store_requests": 1}),
    ("10a", {}, LENET86[1], {"shared_load_instructions": 1, "global_load_requests": 1}),
]


@pytest.mark.parametrize(
    ("number", "options", "layer", "ratios"), RATIOS, ids=lambda value: str(value)[:15]
)
def test_a_solution_changes_only_what_it_should(number, options, layer, ratios):
    solved, rung = solution(number, **options), variant(int(number[:2]))
    counts = profile([rung, solved], layer)
    assert {name: counts.ratio(name, solved.label, rung.label) for name in ratios} == ratios


@pytest.mark.parametrize(
    ("number", "options", "counter", "most"),
    [
        ("03b", {}, "constant_serialized", 0),  # no two words of constant memory at once
        *(("04a", {"tile": tile}, "wavefronts_per_shared_load", 1.05) for tile in (8, 27, 32)),
    ],
)
def test_a_solution_has_no_conflict_whatever_its_options(number, options, counter, most):
    assert profile(solution(number, **options), LENET86[0]).value(counter) <= most


def test_05a_reads_each_input_once():
    layer = LENET72[1]
    table = profile([variant(5), solution("05a")], layer).table
    unroll = table[table["kernel"] == "im2col"].set_index("variant")
    loads, stores = unroll[COUNTED["global_load_requests"]], unroll[COUNTED["global_store_sectors"]]
    scatter, warps = "05 unroll gemm, a_scatter.cu", -(-layer.W * layer.H // 32) * layer.C
    assert warps <= loads[scatter] <= 1.1 * warps
    assert stores[scatter] < 1.25 * stores["05 unroll gemm"]  # rows that begin within a sector


@pytest.mark.parametrize("tile", [3, 14])
def test_06a_carries_for_tiles_below_and_above_k(tile):
    shapes = [(Layer("odd", 3, 12, 15, 5, K), 1) for K in (1, 4, 7)]
    lab.check(solution("06a", tile=tile), shapes)


@pytest.mark.parametrize("tile", [5, 32])
def test_06b_at_other_tiles(tile):
    lab.check(solution("06b", tile=tile), [(Layer("odd", 3, 21, 44, 19, 7), 2)])


SIZES = {"rows": 5, "maps": 4, "block": (64, 1)}  # of page 07, other than those that are graded


def test_07a_takes_no_weight_from_constant_memory():
    start, near = variant(7, step="maps", **SIZES), solution("07a", **SIZES)
    counts = profile([start, near], LENET72[0])
    assert counts.value("constant_requests", near.label) == 0
    assert counts.value("shared_load_instructions", near.label) == counts.value(
        "constant_requests", start.label
    )
    # a block loads each weight once
    assert counts.ratio("global_load_requests", near.label, start.label) < 1.5


@pytest.mark.parametrize("channels", [1, 3])
def test_07b_has_the_barrier_where_it_is_needed(channels):
    report = lab.sanitize(
        solution("07b", **SIZES, channels=channels), Layer("three", 3, 12, 13, 5, 3)
    )
    assert not len(report.table)


def test_08b_sums_on_two_levels_in_half_without_a_float():
    no_float, half2 = solution("08b"), variant(8, step="half2")
    assert not re.search(
        r"float(?!2half\(0\))", no_float.source[no_float.source.index("#include") :]
    )
    error = rounding_errors(
        [half2, no_float, 8], Layer("588 products", 12, 10, 11, 4, 7)
    ).set_index("label")["largest"]
    assert error["08 fp16"] < error[no_float.label] <= error[half2.label] / 3


@pytest.mark.parametrize("shape", [(8, 32, 16), (32, 8, 16)])
def test_09a_has_no_conflicts_with_tiles_of_another_shape(shape):
    own = solution("09a", wmma=shape)
    lab.check(own, [(LENET86[0], 1)])
    assert profile(own, LENET86[0]).value("shared_load_conflicts") == 0


def test_steps_of_page_10_save_what_their_contracts_predict():
    """Counted per product of 16 x 16 x 8 on layer 2 of lenet86.

    From step pairs on, two squares stick out per map.
    """
    steps = [variant(10, step=step) for step in variant(10, groups=1).rung.path] + [variant(10)]
    table = profile(steps, LENET86[1]).table.query("kernel == 'conv'").set_index("variant")
    words, stored = (
        table[COUNTED["shared_load_instructions"]],
        table[COUNTED["global_store_sectors"]],
    )
    products = np.array([2496, 2496, 2688, 2688, 2688, 2688])
    assert (table[COUNTED["global_load_requests"]] / products).round(2).tolist() == [
        5,
        1.02,
        *4 * [0.19],
    ]
    assert (words / products)[:5].tolist() == [0, 2, 0.75, 0.375, 0.375]
    assert stored.tolist()[2:] == [*3 * [4616], 1156]


@pytest.mark.parametrize("layer", [LENET86[0], *LENET72], ids=str)
def test_10b_costs_nothing_on_other_layers(layer):
    rung, apart = variant(10, groups=1), solution("speed_of_light", "b", groups=1)
    counts = profile([rung, apart], layer)
    for count in ("global_store_requests", "global_store_sectors", "shared_load_wavefronts"):
        assert counts.ratio(count, apart.label, rung.label) < 1.01
    assert counts.value("shared_store_wavefronts", apart.label) <= counts.value(
        "shared_store_wavefronts", rung.label
    )


def test_the_float_that_page_11_splits_has_these_parts():
    """The digits on the page, and the rates with which it explains 11a."""
    text = read_notebook("11_split_floats")
    value, high, low = (
        sign * int(digits.replace(".", ""), 2) / 2.0 ** (len(digits) - 2)
        for sign, digits in (
            (-1 if minus else 1, digits)
            for minus, digits in re.findall(r"(?:float|high|low) +(-?)([01]\.[01]+)", text)
        )
    )
    assert float(np.float32(value)) == value
    assert value < high == float(np.float16(value))
    assert value - high != low == float(np.float16(value - high))
    rates = lab.recorded("H200").ceilings
    said = re.search(r"reaches \[?(\d+) TFLOP/s in TF32, and (\d+) in half", text)
    assert [int(rate) for rate in said.groups()] == [
        round(rates[f"{of}_gemm"] / 1e12) for of in ("tf32", "float16")
    ]
    bf16, tf32 = solution("11a")
    assert (bf16, tf32) == (6, 3)


BATCH = 10_000
FIRST = [LENET86[0], LENET72[0]]


def planned(layer, chunk):
    """Return the planned time in multiples of the link's reference time."""
    op_ms = lab.recorded("H200").op_ms(7, layer, BATCH)
    reference = layer.link_reference_ms(BATCH, device="H200")
    return span_ms(schedule(layer, BATCH, op_ms, chunk, streams=2, on="H200")) / reference


@pytest.mark.parametrize(("layer", "fewest"), [*zip(FIRST, solution("12a"), strict=True)], ids=str)
def test_12a_is_the_fewest(layer, fewest):
    assert fewest == next(n for n in range(1, 40) if planned(layer, math.ceil(BATCH / n)) <= 1.05)


@pytest.mark.parametrize("layer", FIRST, ids=str)
def test_12b_comes_closer_than_any_eight_equal_chunks(layer):
    equal = min(planned(layer, math.ceil(BATCH / count)) for count in range(1, 9))
    assert planned(layer, *solution("12b")) <= 1.01 < equal


def test_growing_chunks_are_no_slower_on_an_h200_than_equal_ones():
    rows = lab.recorded("H200").streams(
        layer=FIRST[0], streams=None, chunk=None, order=None, sizes=None
    )
    for label in set(rows.loc[rows["sizes"] == "growing", "label"]):
        mine = rows[rows["label"] == label].groupby("sizes")["steady_ms"].min()
        assert mine["growing"] <= 1.01 * mine["equal"], label


def test_p9b_has_a_producer_that_runs_ahead():
    """Whenever the consumers take a tile, the next one is full: a warp of the CPU engine runs until it waits."""
    text = str(solution("P9b"))
    note = "if (threadIdx.x == 0) events[atomicAdd(&next, 1)] = 1000 * {} + 100 * threadIdx.y + number;"
    for instruction in ("bar.sync", "bar.arrive"):  # note each call, and each end of a wait
        text = text.replace(
            f'asm volatile("{instruction}', f'{note.format(1)}\n    asm volatile("{instruction}'
        )
    text = re.sub(r'(asm volatile\("bar.sync.*)', rf"\1\n    {note.format(2)}", text)
    module = SourceModule(f"__device__ int events[1000], next;\n{text}")
    x = np.arange(960, dtype=np.int32)
    y = np.zeros(960 - 95, np.int32)
    module.get_function("sums")(
        cuda.In(x), np.int32(960), cuda.Out(y), grid=(1, 1), block=(32, 4, 1)
    )
    assert (y == np.lib.stride_tricks.sliding_window_view(x, 96).sum(axis=1)).all()
    events, stored, taken, ahead = np.zeros(1000, np.int32), 0, 0, []
    cuda.memcpy_dtoh(events, module.get_global("events")[0])
    for what, warp, number in zip(events // 1000, events // 100 % 10, events % 100, strict=True):
        stored += what == 1 and warp == 0 and 1 <= number <= 3
        if what == 2 and warp == 1 and 1 <= number <= 3:
            taken += 1
            ahead += [stored - taken]
    assert stored == taken == 10
    assert ahead == [2, *[1] * 7, 1, 0]
