"""The checker accepts right results in each precision, and refuses every well-known way to be wrong."""

import re
import sys
import time
from types import SimpleNamespace

import fakes
import numpy as np
import pytest
from fakes import HALF, SINGLE, FakeVariant, correct, random_shapes, unwritten

import hostcuda
from labkit.base import progress
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.ladder import variants as variants_module
from labkit.ladder.rung import Rounding
from labkit.ladder.variants import variant
from labkit.measure import check as check_module
from labkit.measure import compare as compare_module
from labkit.measure.check import TEST_SHAPES, CheckFailed, Compared, check, is_verified
from labkit.measure.compare import compare, compare_array, tolerance
from labkit.spec.layers import Layer
from labkit.spec.reference import conv_float64, error_scale

pytestmark = pytest.mark.core("the judge of every kernel")

ODD = (Layer("odd", C=3, H=11, W=16, M=5, K=4), 3)  # y [3, 5, 8, 13]


# ---- what is right
def summed(accumulate, output, factors=None, part=None):
    """Return a kernel that rounds factors, products and sums one by one: in the loops' order, or 16 in each part."""

    def compute(x, k, state):
        (B, C, H, W), (M, _, K, _) = x.shape, k.shape
        Ho, Wo = H - K + 1, W - K + 1
        taps, total = list(np.ndindex(C, K, K)), np.zeros((B, M, Ho, Wo), accumulate)
        size = 16 if part else len(taps)
        for first in range(0, len(taps), size):
            sums = np.zeros(total.shape, part or accumulate)
            for c, p, q in taps[first : first + size]:
                window, column = (
                    array.astype(factors or array.dtype).astype(sums.dtype)
                    for array in (x[:, c, p : p + Ho, q : q + Wo], k[:, c, p, q])
                )
                sums += window[:, None] * column[:, None, None]
            total += sums
        return total.astype(output)

    return compute


def spoil(change):
    """Return a kernel whose right output is changed: in place, or into what `change` returns."""

    def compute(x, k, state):
        y = correct(x, k, state)
        changed = change(y)
        return y if changed is None else changed

    return compute


in_float32, half_in_half = summed(SINGLE, SINGLE), summed(HALF, HALF)
float_times_half = summed(SINGLE, SINGLE, factors=HALF)  # x, k and y are float32
RIGHT = [
    (in_float32, Rounding()),
    (lambda x, k, state: in_float32(x[:, ::-1], k[:, ::-1], state), Rounding()),  # backwards
    (summed(SINGLE, HALF), Rounding(HALF, SINGLE)),
    (half_in_half, Rounding(HALF, HALF)),
    (float_times_half, Rounding(SINGLE, SINGLE, operands=HALF)),
]


@pytest.mark.parametrize(("compute", "rounding"), RIGHT)
def test_a_correct_kernel_passes_with_its_legitimate_rounding(compute, rounding, capsys):
    variant = FakeVariant(compute, rounding=rounding)
    assert not is_verified(variant)
    report = check(variant)
    assert is_verified(variant)
    assert 0 < report.worst <= 1
    assert len(report.table) == len(TEST_SHAPES) >= 12
    assert capsys.readouterr().out == f"{report!r}\n"


@pytest.mark.parametrize("compute", [float_times_half, spoil(lambda y: y.astype(np.float16))])
def test_factors_and_outputs_may_be_rounded_only_by_a_kernel_that_says_so(compute):
    with pytest.raises(CheckFailed, match="real numbers"):
        check(FakeVariant(compute))


# ---- what is wrong
def stale(x, k, state):
    """Return whatever the first run gave."""
    return state.setdefault("y", correct(x, k, state))


def accumulating(x, k, state):
    """Add to a sum that is not reset between runs."""
    state["y"] = state.get("y", 0) + correct(x, k, state)
    return state["y"]


def second_run_wrong(x, k, state):
    state["runs"] = state.get("runs", 0) + 1
    return correct(x, k, state) * (1 if state["runs"] < 3 else 1.5)


def not_set(x, k, state):
    """Add to what the output holds, like a kernel without the line y = 0."""
    return correct(x, k, state) + state["before"]


def last_tap_missing(x, k, state):
    """Compute without the last element of the mask."""
    short = k.copy()
    short[:, -1, -1, -1] = 0
    return correct(x, short, state)


def swap(a, b):
    return spoil(lambda y: np.ascontiguousarray(y.swapaxes(a, b)).reshape(y.shape))


def shift(axis, by):
    return spoil(lambda y: np.roll(y, by, axis))


def write_a_block_further(y):
    """Move all columns by 8, as an index of blocks that begins at 1 does; zero the first 8."""
    y[..., 8:] = y[..., :-8].copy()
    y[..., :8] = 0


WRONG = {  # a kernel -> how it computes, and in some cases the hint in the message
    "zeros": (spoil(np.zeros_like), "All outputs are 0"),
    "unwritten": (lambda x, k, state: None, "nothing was written"),
    "stale": (stale, ""),
    "accumulating": (accumulating, ""),
    "second run wrong": (second_run_wrong, ""),
    "not set": (not_set, "With zeros in y before, it is right"),
    "one NaN": (spoil(lambda y: y.put(y.size // 2, np.nan)), "1 outputs became NaN in the kernel"),
    "one infinity": (
        spoil(lambda y: y.put(y.size - 1, np.inf)),
        r"1 outputs are infinite: larger than (3.40282e\+38|65504), the largest float",
    ),
    "one element": (
        spoil(lambda y: y.put(y.size // 3, y.flat[y.size // 3] + 1)),
        "1 of 1560 outputs",
    ),
    "scaled": (spoil(lambda y: np.multiply(y, 2, out=y)), "each output is 2 times the right one"),
    "shifted by a block": (
        spoil(write_a_block_further),
        "y is shifted by 8 along w, as by a block",
    ),
    "flipped": (lambda x, k, state: correct(x, k[:, :, ::-1, ::-1], state), "mask was flipped"),
    "mask transposed": (
        lambda x, k, state: correct(x, k.swapaxes(2, 3), state),
        "rows and columns of the mask were",
    ),
    "last tap missing": (last_tap_missing, ""),
    "last row missing": (
        spoil(lambda y: np.copyto(y[:, :, -1], unwritten(y.dtype))),
        "195 outputs were not written",
    ),
    "whole tiles only": (spoil(lambda y: y[..., y.shape[3] // 4 * 4 :].fill(0)), ""),
    "last image like the first": (spoil(lambda y: np.copyto(y[-1], y[0])), ""),
    "axes h and w swapped": (swap(2, 3), "its axes h and w swapped"),
    "axes b and m swapped": (swap(0, 1), "its axes b and m swapped"),
    "axes m and h swapped": (swap(1, 2), "its axes m and h swapped"),
    **{
        f"shifted by {by} along {name}": (shift(axis, by), f"shifted by one along {name}")
        for axis, name in enumerate("bmhw")
        for by in (-1, 1)
    },
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("rounding", [Rounding(), Rounding(HALF, HALF)], ids=["float32", "float16"])
def test_a_wrong_kernel_is_refused_on_a_single_odd_shape(name, rounding, capsys):
    compute, hint = WRONG[name]
    variant = FakeVariant(compute, rounding=rounding)
    with pytest.raises(CheckFailed, match=rf"odd: 3x11x16(?s:.*){hint}"):
        check(variant, [ODD])
    assert not is_verified(variant)
    assert capsys.readouterr().out == ""


def test_the_message_shows_where_what_and_how_much():
    expected = np.arange(2 * 3 * 4 * 5, dtype=np.float64).reshape(2, 3, 4, 5)
    y = expected.astype(np.float32)
    y[1, 2, 3, 4] += 8
    y[1, 2, 0, 4] = np.nan
    with pytest.raises(CheckFailed) as failure:
        compare(y, expected, title="rung wrong on layer")
    lines = str(failure.value).splitlines()
    assert lines[0] == "rung wrong on layer: 2 of 120 outputs, at b 1, m 2, h 0 to 3, w 4"
    assert lines[-1].split() == ["1", "2", "3", "4", "127", "119", "8", "0"]
    assert lines[-2].split()[:6] == ["1", "2", "0", "4", "NaN", "104"]
    with pytest.raises(CheckFailed, match="900 of 900 outputs") as failure:
        compare(np.ones((9, 1, 10, 10), np.float32), np.zeros((9, 1, 10, 10)))
    assert len(str(failure.value).splitlines()) < 15


def test_one_output_beyond_its_own_bound_looks_like_nothing_else():
    rng = np.random.default_rng(3)
    x, k = rng.random((2, 1, 4, 4)), np.full((2, 1, 2, 2), 0.5)
    expected = conv_float64(x, k)
    allowed = np.full(expected.shape, 1e-3)
    allowed[1, 1, 2, 2] = 10  # more than any of the outputs
    y = expected.astype(np.float32)
    y[0, 1, 2, 2] += 0.01
    with pytest.raises(CheckFailed, match="1 of 36 outputs") as failure:
        compare(y, expected, allowed, inputs=(x, k))
    assert "looks as if" not in str(failure.value)


def test_a_result_that_may_be_right_by_luck_has_the_compilers_warning_beside_it(monkeypatch):
    text, shapes = (cuda_src() / "03_registers.cu").read_text(), [(Layer("odd", 2, 9, 12, 3, 3), 1)]
    assert repr(check(variant(3, text), shapes)).endswith(
        "; races were not looked for: lab.sanitize"
    )
    assert "races" not in repr(check(variant(3), shapes))
    # As if the register of the sum held 0 by luck.
    monkeypatch.setattr(check_module, "_check_shape", lambda *_: {"worst_of_allowed": 0.0})
    report = repr(check(variant(3, text.replace("float sum = 0;", "float sum;")), shapes))
    assert report.startswith("PASS 03 registers, own source: 1 shape, exact on integers")
    assert re.search(r", but the compiler warns: line \d+: .*\bsum\b.* uninitialized", report)


def test_a_readers_kernel_is_hardly_optimized_for_small_shapes(monkeypatch):
    text = f"{BASELINE}// {time.time_ns()}"
    for most in (1e9, 0):
        monkeypatch.setattr(check_module, "_QUICK_MACS", most)
        check(variant(1, text), [(Layer("odd", 2, 9, 12, 3, 3), 1)], quiet=True)
        own = {module[-1] for module in variants_module._modules if module[0] == text}
        assert own == ({True} if most else {True, False})


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="a GPU has one build")
def test_what_is_timed_has_been_checked_as_it_is_compiled_for_that(monkeypatch):
    mine = variant(1, f"{BASELINE}// {time.time_ns()}")
    builds, plan = [], check_module._plan

    def note_build(kernel, batch, quick):
        builds.append("quick" if quick else "as timed")
        return plan(kernel, batch, quick)

    monkeypatch.setattr(check_module, "_plan", note_build)
    check(mine, [(Layer("odd", 2, 9, 12, 3, 3), 1)], quiet=True)
    for _ in range(2):  # once is enough
        check_module.require_verified(mine)
    assert builds == ["quick", "as timed"]
    # a second check of the same text, as of a cell that runs again, asks for nothing more
    check(mine, [(Layer("odd", 2, 9, 12, 3, 3), 1)], quiet=True)
    check_module.require_verified(mine)
    assert builds == ["quick", "as timed", "quick"]


def faults(x, k, state):
    """Fail as a kernel does that writes past the end."""
    from hostcuda import driver

    raise driver.LaunchError("wrote past the end")


def test_a_kernel_that_faults_is_refused():
    with pytest.raises(CheckFailed, match=r"99 fake faults on odd: .*: wrote past the end"):
        check(FakeVariant(faults), [ODD])


@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="a GPU does not notice 96 bytes")
def test_a_fault_of_an_earlier_launch_is_not_blamed_on_the_checked_kernel():
    from hostcuda import driver
    from hostcuda.compiler import SourceModule

    variant = FakeVariant()
    module = SourceModule(
        "__global__ void add(float *y, int n) { y[blockIdx.x * blockDim.x + threadIdx.x] = n; }"
    )
    y = driver.mem_alloc(4000)
    module.get_function("add")(y, np.int32(1000), grid=(4, 1), block=(256, 1, 1))
    with pytest.raises(
        LabError,
        match=r"99 fake was not checked: .* an earlier launch: .* kernel add wrote up to 96 ",
    ):
        check(variant, [ODD])
    assert not is_verified(variant)
    check(variant, [ODD])


def test_a_fault_that_shows_when_the_buffers_are_freed_does_not_hide_the_mismatches(monkeypatch):
    monkeypatch.setattr(fakes.FakePlan, "__exit__", lambda self, *_: faults(None, None, None))
    with pytest.raises(
        CheckFailed, match=r"(?s)1 of 1560 outputs.*allowed.*And it faults: wrote past the end"
    ):
        check(FakeVariant(WRONG["one element"][0]), [ODD])
    with pytest.raises(CheckFailed, match="99 fake faults"):
        check(FakeVariant(), [ODD])


# ---- compare, tolerance
ZEROS = np.zeros((1, 1, 1, 2), np.float32)
Y = np.float32([0.5, 0.25]).reshape(ZEROS.shape)


@pytest.mark.parametrize(
    ("y", "expected", "allowed", "dtype", "message"),
    [
        (ZEROS.swapaxes(2, 3), ZEROS, 0, "float32", r"shape is \(1, 1, 2, 1\)"),
        (ZEROS.astype(float), ZEROS, 0, "float32", "dtype is float64"),
        (ZEROS, ZEROS, 0, "float16", "must be float16"),
        (Y, ZEROS, 0.375, "float32", "1 of 2"),
        (ZEROS, ZEROS + np.nan, 0, "float32", "2 of 2"),
        (ZEROS, ZEROS, np.nan, "float32", "2 of 2"),
    ],
)
def test_another_shape_or_dtype_an_error_beyond_the_limit_and_nan_never_pass(
    y, expected, allowed, dtype, message
):
    assert compare(Y, ZEROS, 0.5) == 1  # on the limit
    with pytest.raises(CheckFailed, match=message):
        compare(y, expected.astype(float), allowed, dtype)


def test_the_tolerance_grows_with_the_sum_and_shrinks_with_the_format():
    scale = np.ones(1)
    single, half = Rounding(), Rounding(HALF, HALF)
    two_level = Rounding(HALF, SINGLE, part=HALF, part_terms=16)
    assert tolerance(single, scale, 100) == pytest.approx(101 * 2.0**-24, rel=1e-3)
    assert tolerance(single, scale, 200) > tolerance(single, scale, 100)
    assert tolerance(Rounding(HALF, SINGLE), scale, 588) < tolerance(two_level, scale, 588)
    assert tolerance(two_level, scale, 588) < tolerance(half, scale, 588)
    assert tolerance(two_level, scale, 9) == pytest.approx(10 * 2.0**-11, rel=1e-2)
    # Of 2^16 parts in half; float32 sums of them may be those of tensor cores, which truncate.
    assert tolerance(two_level, scale, 2**20) == pytest.approx(
        (1 + 2**-7) * (1 + 2**-6) * (1 + 2**-11) - 1, rel=1e-5
    )
    assert tolerance(Rounding(operands=HALF), scale, 49) == pytest.approx(2 * 2.0**-11, rel=2e-2)


def test_the_tolerance_covers_what_rounding_can_really_do():
    layer, rng = ODD[0], np.random.default_rng(5)
    for compute, rounding in RIGHT:
        dtype = np.dtype(rounding.storage)
        x = rng.standard_normal(layer.x_shape(2)).astype(dtype)
        k = rng.standard_normal(layer.k_shape).astype(dtype)
        error = np.abs(compute(x, k, {}) - conv_float64(x, k))
        allowed = tolerance(rounding, error_scale(x, k), layer.terms)
        assert (error <= allowed).all()
        assert error.max() > allowed.max() / 200  # and is not so loose that it means nothing


def test_sums_promised_in_float_are_not_kept_in_half():
    """The bound for real numbers is that of the parts; it hides the rounding of their sum."""
    rounding = Rounding(HALF, SINGLE, part=HALF, part_terms=16)
    long_sums = TEST_SHAPES[-1]
    check(FakeVariant(summed(SINGLE, HALF, part=HALF), rounding=rounding), [long_sums])
    with pytest.raises(CheckFailed, match="large integers"):
        check(FakeVariant(summed(HALF, HALF, part=HALF), rounding=rounding), [long_sums])


def test_very_long_sums_stay_exact_in_half():
    variant = FakeVariant(half_in_half, rounding=Rounding(HALF, HALF))
    check(variant, [(Layer("deep", C=120, H=8, W=9, M=2, K=7), 1)])


# ---- what is checked
def test_the_line_says_only_what_every_engine_says_alike(capsys):
    check(FakeVariant(label="01 baseline"))
    report = check(FakeVariant(refuses=lambda layer: layer.K > 5))
    assert len(report.refused) == 4
    assert capsys.readouterr().out.splitlines() == [
        "PASS 01 baseline: 15 shapes, exact on integers, within rounding on reals",
        "PASS 99 fake: 11 shapes, exact on integers, within rounding on reals; 4 shapes refused",
    ]


def test_layers_are_given_with_or_without_a_batch_and_one_has_to_be_possible():
    for layers in ([ODD[0]], [ODD], ODD[0]):
        assert list(check(FakeVariant(), layers).table["B"]) == [3]
    variant = FakeVariant(refuses=lambda layer: True)
    with pytest.raises(LabError, match=r"takes none of the shapes.*no room for small and odd"):
        check(variant)
    with pytest.raises(LabError, match="none was given"):
        check(FakeVariant(), [])
    assert not is_verified(variant)


def test_several_shapes_are_compiled_side_by_side_a_single_one_by_its_plan(monkeypatch):
    variant, ahead, other = FakeVariant(), [], Layer("other", 1, 5, 9, 2, 2)
    monkeypatch.setattr(variant, "precompile", lambda *all_defines, **_: ahead.append(all_defines))
    check(variant, [ODD])
    assert ahead == []
    check(variant, [ODD, other])
    assert ahead == [({"FIXED_K": 4}, {"FIXED_K": 2})]


def test_the_test_shapes_are_odd():
    layers = [layer for layer, _ in TEST_SHAPES]
    assert {layer.K for layer in layers} == {1, 3, 4, 5, 7}  # one even value, and each layer's
    assert any(layer.C > layer.M for layer in layers)
    assert any(layer.C < layer.M for layer in layers)
    assert sum(layer.H != layer.W for layer in layers) >= 12
    assert any(layer.Ho == 1 < layer.Wo for layer in layers)
    assert any(layer.Wo == 1 < layer.Ho for layer in layers)
    for tile in (4, 8, 16, 32):
        assert any(layer.Wo % tile and layer.Wo > tile for layer in layers)
    assert len({batch for _, batch in TEST_SHAPES}) >= 4


def test_the_ladder_passes(capsys):
    from labkit.ladder.rungs import LADDER

    # the others are compiled for each K; tests/test_kernels.py has them all
    for rung in LADDER[:2]:
        assert check(variant(rung.number), [*TEST_SHAPES, *random_shapes(60)]).worst > 0
    assert capsys.readouterr().out.count("PASS") == 2


TILING = (cuda_src() / "04_tiling.cu").read_text()
BASELINE = (cuda_src() / "01_baseline.cu").read_text()
CAUSES = [  # a rung, its text, what is changed, and what the message has to say; what it must not
    (
        "halo not loaded",
        4,
        TILING,
        "j < SIDE; j += TILE",
        "j < TILE; j += TILE",
        r"became NaN in the kernel(?s:.*)The sanitizer says why(?s:.*)shared memory",
        "not written",
    ),
    (
        "returns before the barrier",
        4,
        TILING,
        "    float sum = 0;\n",
        "    if (h >= Ho || w >= Wo) return;\n    float sum = 0;\n",
        r"The sanitizer says why(?s:.*)barrier",
        "not written",
    ),
    (
        "rows not written",
        1,
        BASELINE,
        "h >= Ho",
        "h >= Ho - 1",
        r"80 outputs were not written(?s:.*)Next: lab\.step\(",
        "lab.sanitize",
    ),
    (
        "a block further",
        1,
        BASELINE,
        "blockIdx.x % tiles * blockDim.x",
        "(blockIdx.x % tiles + 1) * blockDim.x",
        r"nothing was written(?s:.*)wrong on whole tiles.* at b 0, m 0 to 15, h 0 to 63, w 0 to 15\n"
        r"It looks as if 16384 outputs were not written.*\n(?s:.*)Next: lab\.step\(",
        "lab.sanitize",
    ),
    (
        "mask flipped",
        1,
        BASELINE,
        "* K + p) * K + q]",
        "* K + (K - 1 - p)) * K + (K - 1 - q)]",
        r"the mask was flipped(?s:.*)Next: lab\.step\(",
        "lab.sanitize",
    ),
]


@pytest.mark.thorough("five seconds or more")
@pytest.mark.skipif(
    hostcuda.engine() == "gpu", reason="only the CPU engine knows memory that nobody set"
)
@pytest.mark.parametrize("case", CAUSES, ids=[case[0] for case in CAUSES])
def test_a_wrong_kernel_is_told_the_cause_that_the_sanitizer_sees(case, monkeypatch):
    monkeypatch.setattr(check_module, "SANITIZER_S", 600)  # a busy machine is no cause
    _, number, text, before, after, says, never = case
    assert text.count(before) == 1
    with pytest.raises(CheckFailed, match=says) as wrong:
        check(variant(number, text.replace(before, after)))
    assert never not in str(wrong.value)


def test_the_next_step_names_the_kernel_as_the_readers_program_does(monkeypatch):
    layer = Layer("odd", 2, 9, 12, 3, 4)
    off = FakeVariant(lambda x, k, state: correct(x, k, state) + 1)
    off.own = True
    monkeypatch.setattr(
        check_module.sanitizer, "sanitize", lambda *of, **how: SimpleNamespace(rows=[])
    )
    for name in ("variant", "mine"):
        if name == "mine":  # as the reader's program calls it
            monkeypatch.setattr(sys.modules["__main__"], name, off, raising=False)
        with pytest.raises(CheckFailed) as wrong:
            check(off, [(layer, 5)])
        last = str(wrong.value).splitlines()[-1]
        assert (
            last.startswith(f"Next: lab.step({name}, layer=lab.{layer!r})")
            and eval(repr(layer)) == layer
        )


def test_parameters_in_another_order_are_refused_before_anything_runs():
    rung = "const float *x, const float *k, float *y,\n          int B, int C, int H, int W, int M, int K"
    turned = BASELINE.replace(
        rung, "float *y, const float *x, const float *k, int B, int M, int C, int H, int W, int K"
    )
    assert turned != BASELINE
    says = "(y, x, k, B, M, C, H, W, K), but 01 baseline passes (x, k, y, B, C, H, W, M, K)"
    with pytest.raises(LabError, match=re.escape(says)):
        variant(1, turned)
    assert variant(1, BASELINE.replace("int B,", "int images,")).own  # names of one's own are fine
    # by the names' first letters, and by the pointer that is not const
    sizes = "int Batch, int Map_out, int Channel, int Height, int Width, int K"
    course = f"float *r, const float *p, const float *q, {sizes}"
    says = (
        "which seem to be (y, x, k, B, M, C, H, W, K), but 01 baseline passes (x, k, y, B, C, H, W, M, K): put them in "
        "this order, (p, q, r, Batch, Channel, Height, Width, Map_out, K)"
    )
    with pytest.raises(LabError, match=re.escape(says)):
        variant(1, BASELINE.replace(rung, course))


@pytest.mark.thorough("five seconds or more")
@pytest.mark.parametrize(
    ("arrays", "order"),
    [
        ("const float *p, const float *q, float *r", "x, k, y"),
        ("float *r, float *p, float *q", "y, x, k"),
    ],
)
def test_a_kernel_is_told_in_which_order_it_would_be_right(arrays, order):
    """Nothing tells the order but trying: names of one's own, and in the second case no const."""
    rung = "const float *x, const float *k, float *y,\n          int B, int C, int H, int W, int M, int K)\n{"
    assert rung in BASELINE
    sizes = "int n, int o, int i, int rows, int columns, int s"
    own = (
        f"{arrays}, {sizes})\n{{ const float *x = p, *k = q; float *y = r;\n"
        "int C = i, H = rows, W = columns, M = o, K = s;\n"
    )
    says = (
        f"got ({order}, B, M, C, H, W, K), but 01 baseline passes (x, k, y, B, C, H, W, M, K): put them in this order, "
        "(p, q, r, n, i, rows, columns, o, s)."
    )
    with pytest.raises(CheckFailed, match=re.escape(says)):
        check(variant(1, BASELINE.replace(rung, own)))


@pytest.mark.parametrize("dtype", [HALF, SINGLE])
def test_an_output_that_nobody_wrote_is_a_nan_that_nothing_else_is(dtype):
    marked = compare_module.unwritten(dtype)
    fresh = np.frombuffer(b"\xff" * dtype.itemsize, dtype)[0]
    assert (
        np.isnan(marked)
        and not compare_module._find_unwritten(np.array([fresh, np.nan, 0], dtype)).any()
    )
    assert compare_module._find_unwritten(np.full(3, marked)).all()


def test_a_right_result_with_a_race_is_refused_with_the_sanitizer(monkeypatch, capsys):
    shapes, no_findings = [], SimpleNamespace(clean=True, tools=("memcheck", "racecheck"))

    def sanitize(variant, layer, batch):
        shapes.append((layer.name, batch))
        return no_findings

    monkeypatch.setattr(check_module.sanitizer, "sanitize", sanitize)
    variant = FakeVariant()
    assert "15 shapes, exact" in repr(check(variant)) and not shapes
    assert "on reals, clean on one past a tile under memcheck, racecheck" in repr(
        check(variant, sanitize=True)
    )
    check(FakeVariant(), [ODD], sanitize=True)
    assert shapes == [("one past a tile", 1), ("odd", 3)]
    no_findings.clean = False
    racing = FakeVariant()
    with pytest.raises(CheckFailed, match="computes what it should, but on odd"):
        check(racing, [ODD], sanitize=True)
    assert not is_verified(racing)
    with pytest.raises(LabError, match="is a model"):
        check(_Squares(), sanitize=True)


@pytest.mark.thorough("half a minute")
@pytest.mark.skipif(hostcuda.engine() == "gpu", reason="counts of the CPU engine")
def test_a_right_kernel_that_wastes_more_than_its_rung_is_told_the_line():
    turned = (
        BASELINE.replace("(Wo + blockDim.x - 1) / blockDim.x", "(Ho + blockDim.x - 1) / blockDim.x")
        .replace(
            "blockIdx.x / tiles * blockDim.y + threadIdx.y",
            "blockIdx.x % tiles * blockDim.x + threadIdx.x",
        )
        .replace(
            "w = blockIdx.x % tiles * blockDim.x + threadIdx.x",
            "w = blockIdx.x / tiles * blockDim.y + threadIdx.y",
        )
    )
    shape = Layer("square", 2, 36, 36, 2, 3), 1
    slow = repr(check(variant(1, turned), [shape], sanitize=True))
    assert re.search(
        r"\nslow: 01 baseline, own source, line \d+: [\d.]+ sectors per store, [\d.]+ is best: let neigh",
        slow,
    )
    assert slow.endswith("\n    " + BASELINE.rpartition("\n}")[0].rpartition("\n")[2].strip())
    # the rung's own waste is a question of its page
    assert "slow" not in repr(check(variant(1, BASELINE), [shape], sanitize=True))


@pytest.mark.thorough("five seconds or more")
def test_the_sanitizer_gets_a_shape_with_several_channels_where_a_tile_is_used_again():
    text = (cuda_src() / "04_tiling.cu").read_text()
    before, _, after = text.rpartition("__syncthreads();")  # the one before the next channel
    shapes = [Layer("one channel", 1, 20, 20, 1, 3), Layer("two channels", 2, 20, 20, 2, 3)]
    with pytest.raises(
        CheckFailed, match=r"(?s)computes what it should, but on two channels.*race in conv"
    ):
        check(variant(4, before + after), shapes, sanitize=True)


def test_a_check_that_takes_long_says_what_it_does_and_how_far_it_is(monkeypatch, capsys):
    def slow(x, k, state):
        time.sleep(0.2)
        return correct(x, k, state)

    shapes = [(Layer("first", 2, 9, 12, 3, 4), 1), (Layer("second", 2, 9, 12, 3, 4), 1)]
    for name in ("DELAY_S", "_TICK_S", "_PATIENCE_S"):
        monkeypatch.setattr(progress, name, 0.05)
    monkeypatch.setattr(hostcuda.settings, "in_notebook", lambda: True)
    check(FakeVariant(slow), shapes)
    assert "\r" not in capsys.readouterr().out  # the tests set TQDM_DISABLE, as a report does
    monkeypatch.delenv("TQDM_DISABLE")
    report = check(FakeVariant(slow), shapes)
    lines = capsys.readouterr().out.split("\r")
    assert any(
        line.startswith("checking 99 fake: first:") and " 0 of 2 [" in line for line in lines
    )
    assert any(
        line.startswith("checking 99 fake: second:") and " 1 of 2 [" in line for line in lines
    )
    # the line is gone at the end, and on the CPU engine the call that waits gives the advice
    assert lines[-1] == f"{report!r}\n" and lines[-2].isspace()
    assert ("restart" in "".join(lines)) == (hostcuda.engine() == "gpu")
    monkeypatch.setattr(check_module, "device", lambda: SimpleNamespace(engine="gpu"))
    check(FakeVariant(slow), shapes)
    assert "if it does not end, restart Python" in capsys.readouterr().out


def test_an_interrupt_says_what_it_stopped():
    def interrupted(x, k, state):
        raise KeyboardInterrupt

    layer = ODD[0]
    with pytest.raises(KeyboardInterrupt) as stop:
        check(FakeVariant(interrupted), layer)
    assert stop.value._render_traceback_() == [
        f"Interrupted: 99 fake on {layer}, B = 3 was stopped"
    ]


# ---- models: every array by its own bound
class _Squares:
    """A kernel of sums of squares and their gradient, with a mistake on demand."""

    label = "squares"

    def __init__(self, spoil=lambda result, bound: None):
        self.spoil = spoil

    def comparisons(self, seed):
        """Yield two comparisons, after `spoil` has changed their results."""
        x = np.random.default_rng(seed).uniform(1, 2, (2, 3, 5)).astype(np.float32)
        true = np.square(x, dtype=np.float64)
        for kernel, result, expected in (
            ("fp", (x * x).sum(2), true.sum(2)),
            ("bp, gradient of x", 2 * x, 2.0 * x),
        ):
            bound = 5 * 2.0**-24 * np.abs(expected)
            self.spoil(result, bound)
            yield Compared(kernel, result, expected, bound)


def test_a_model_passes_by_its_own_comparisons(capsys):
    report = check(_Squares())
    assert capsys.readouterr().out == "PASS squares: 2 arrays of 2 kernels, within rounding\n"
    assert 0 < report.worst <= 1
    assert report.table["array"].tolist() == ["fp", "bp, gradient of x"]
    assert report.table["elements"].tolist() == [6, 30]
    check(_Squares(), quiet=True)
    assert capsys.readouterr().out == ""


def test_a_model_fails_at_the_first_wrong_element():
    def one_wrong(result, bound):
        if result.ndim == 3:
            result[1, 2, 3:] *= np.float32(1.001)

    message = r"squares: bp, gradient of x is wrong: 2 of 30 elements. The first, \[1, 2, 3\]: .* expected .* bound"
    with pytest.raises(CheckFailed, match=message):
        check(_Squares(one_wrong))


@pytest.mark.parametrize("value", [0, np.nan, np.inf])
def test_a_model_cannot_pass_with_what_is_no_result_or_a_bound_that_says_nothing(value):
    with pytest.raises(CheckFailed, match=r"fp is wrong: 6 of 6"):
        check(_Squares(lambda result, bound: result.fill(value)))
    with pytest.raises(LabError, match="a bound is negative, infinite or NaN"):
        check(_Squares(lambda result, bound: bound.fill(value or -1)))


def test_a_model_must_compare_something_of_the_right_shape():
    class Nothing:
        """A network that compares nothing."""

        def comparisons(self, seed):
            return []

    with pytest.raises(LabError, match="Nothing compares nothing"):
        check(Nothing())
    with pytest.raises(CheckFailed, match=r"its shape is \(3,\), but \(4,\)"):
        compare_array("fp", np.zeros(3), np.zeros(4), np.ones(4))
    with pytest.raises(LabError, match="has its own shapes"):
        check(_Squares(), [ODD])
