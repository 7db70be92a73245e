"""half and half2: one correct rounding an operation, against exact arithmetic; conversions; comparisons; functions.

Values travel as their 16 bits. Exact references: NumPy's float64 holds every sum, difference and
product of two halves, and (as integers of 2^-48) every fused multiply-add; `round_half` rounds such
integers once.
"""

import os
import re

import numpy as np
import pytest
from expressions import C_NAMES, INTEGERS, MODES, ROUND, evaluate, write_kernel
from hypothesis import given, settings
from hypothesis import strategies as st
from running import kernel_source, launch

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda
from hostcuda.compiler import SourceModule
from hostcuda.host import toolchain

pytestmark = pytest.mark.core("what the kernels in FP16 compute with")

RNG = np.random.default_rng(16)
ALL = np.arange(65536, dtype=np.uint16)


def saturate(x):
    return np.where(np.isnan(x), 0, np.clip(x, 0, 1))


def extreme(choose, sign_first):
    def reference(a, b):
        pick = choose(a, b)
        pick = np.where(a == b, np.where(np.signbit(a) == sign_first, a, b), pick)
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, pick))

    return reference


def or_nan(reference):
    return lambda a, b: np.where(np.isnan(a) | np.isnan(b), np.nan, reference(a, b))


MIN, MAX = extreme(np.minimum, True), extreme(np.maximum, False)
# References in float64, where + - * are exact, then rounded once; a quotient is never so near to
# halfway that float64 hides it.
OPERATORS = {"a + b": np.add, "a - b": np.subtract, "a * b": np.multiply, "a / b": np.divide}
BINARY = OPERATORS | {
    "__hmin(a, b)": MIN,
    "__hmax(a, b)": MAX,
    "__hmin_nan(a, b)": or_nan(MIN),
    "__hmax_nan(a, b)": or_nan(MAX),
    "__hadd_sat(a, b)": lambda a, b: saturate(a + b),
    "__hsub_sat(a, b)": lambda a, b: saturate(a - b),
    "__hmul_sat(a, b)": lambda a, b: saturate(a * b),
    "__hadd_rn(a, b)": np.add,
    "__hdiv(a, b)": np.divide,
}
PAIR = OPERATORS | {
    "__hadd2(a, b)": np.add,
    "__hsub2(a, b)": np.subtract,
    "__hmul2(a, b)": np.multiply,
    "__h2div(a, b)": np.divide,
    "__hmin2(a, b)": MIN,
    "__hmax2(a, b)": MAX,
    "__hadd2_sat(a, b)": lambda a, b: saturate(a + b),
    "__hmul2_sat(a, b)": lambda a, b: saturate(a * b),
}
FUNCTIONS = {
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "rcp": lambda x: 1 / x,
    "exp": np.exp,
    "exp2": np.exp2,
    "exp10": lambda x: 10**x,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "sin": np.sin,
    "cos": np.cos,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
}
EXACT = ["sqrt", "floor", "ceil", "rint", "trunc"]
SIGNS = {
    "-a": lambda bits: bits ^ 0x8000,
    "__hneg(a)": lambda bits: bits ^ 0x8000,
    "__habs(a)": lambda bits: bits & 0x7FFF,
    "+a": lambda bits: bits,
}
UNARY = [*(f"h{name}(a)" for name in FUNCTIONS), *SIGNS]
RELATIONS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
SOURCE = f"""
#include <cuda_fp16.h>
#define I (blockIdx.x * blockDim.x + threadIdx.x)
extern "C" __global__ void fused(int n, const half *a, const half *b, const half *c, half *one, half2 *two,
                                 half *saturated)
{{
    int i = I;
    if (i >= n) return;
    int j = n - 1 - i;
    one[i] = __hfma(a[i], b[i], c[i]);
    two[i] = __hfma2(__halves2half2(a[i], a[j]), __halves2half2(b[i], b[j]), __halves2half2(c[i], c[j]));
    saturated[i] = __hfma_sat(a[i], b[i], c[i]);
}}
extern "C" __global__ void relations(int n, const half *x, const half *y, unsigned *ordered, unsigned *unordered,
                          unsigned *operators, unsigned *both)
{{
    int i = I;
    if (i >= n) return;
    half a = x[i], b = y[i];
    half2 p = __halves2half2(a, b), q = __halves2half2(b, a);
    ordered[i] = {" | ".join(f"__h{r}(a, b) << {k}" for k, r in enumerate(RELATIONS))};
    unordered[i] = {" | ".join(f"__h{r}u(a, b) << {k}" for k, r in enumerate(RELATIONS))};
    operators[i] = {" | ".join(f"(a {r} b) << {k}" for k, r in enumerate(RELATIONS.values()))};
    both[i] = {" | ".join(f"__hb{r}2(p, q) << {k}" for k, r in enumerate(RELATIONS))}
        | {" | ".join(f"(__low2float(__h{r}2(p, q)) == 1.0f) << {k + 8}" for k, r in enumerate(RELATIONS))}
        | {" | ".join(f"(__high2float(__h{r}u2(p, q)) == 1.0f) << {k + 16}" for k, r in enumerate(RELATIONS))}
        | __hisnan(a) << 24 | (__hisinf(a) == 1) << 25 | (__hisinf(a) == -1) << 26
        | (__heq2_mask(p, q) == (a == b ? 0xffffffffu : 0u)) << 27;
}}
"""
SOURCE += write_kernel("binary", [("half", "a"), ("half", "b")], BINARY, "half")
SOURCE += write_kernel("pair", [("half2", "a"), ("half2", "b")], PAIR, "half2")
SOURCE += write_kernel("unary", [("half", "a")], UNARY, "half")
SOURCE += write_kernel(
    "from_float", [("float", "x")], [f"__float2half_{mode}(x)" for mode in MODES], "half"
)
for kind in INTEGERS:
    name = C_NAMES.get(kind, kind)
    SOURCE += write_kernel(
        f"from_{kind}", [(name, "x")], [f"__{kind}2half_{mode}(x)" for mode in MODES], "half"
    )
    SOURCE += write_kernel(
        f"to_{kind}", [("half", "x")], [f"__half2{kind}_{mode}(x)" for mode in MODES], name
    )
SOURCE += write_kernel("from_double", [("double", "x")], ["__double2half(x)"], "half")
SOURCE += write_kernel("to_float", [("half", "x")], ["__half2float(x)"], "float")
SOURCE += kernel_source("half")


def halves(bits):
    return np.asarray(bits, np.uint16).view(np.float16)


def assert_same(got, want, *inputs):
    """Check that bits are equal, except that any NaN equals any other."""
    got, want = np.asarray(got).view(np.float16), np.asarray(want).view(np.float16)
    wrong = ~((got.view(np.uint16) == want.view(np.uint16)) | (np.isnan(got) & np.isnan(want)))
    first = np.flatnonzero(wrong)[:5]
    assert not first.size, [(got[i], want[i], *(x[i] for x in inputs)) for i in first]


def round_half(n, mode="rn"):
    """Round n / 2^48, an exact value, once to half; return its 16 bits."""
    sign, n = (0x8000, -n) if n < 0 else (0, n)
    shift = max(n.bit_length() - 11, 24)  # 11 bits are kept, but none under 2^-24
    kept, rest = n >> shift, n & ((1 << shift) - 1)
    if mode == "rn":
        kept += 2 * rest > 1 << shift or (2 * rest == 1 << shift and kept & 1)
    else:
        kept += rest != 0 and mode == ("rd" if sign else "ru")
    value = kept << (shift - 24)
    if value > 65504 << 24:
        return sign | (0x7BFF if mode == "rz" or mode == ("ru" if sign else "rd") else 0x7C00)
    return sign | int(np.float16(value / 2**24).view(np.uint16))


def exact(bits):
    """Return a finite half as an integer of 2^-24."""
    return int(float(halves(bits)[()]) * 2**24)


def tricky(count):
    """Return random halves: all bit patterns, and as many of moderate size."""
    bits = RNG.integers(0, 65536, count, np.uint16)
    bits[::2] = RNG.normal(scale=4, size=count).astype(np.float16).view(np.uint16)[::2]
    bits[:12] = [0, 0x8000, 1, 0x8001, 0x3FF, 0x400, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00, 0x7E00, 0x3C00]
    return bits


@pytest.mark.parametrize(
    ("kernel", "expression", "reference"),
    [
        *(("binary", *operation) for operation in BINARY.items()),
        *(("pair", *operation) for operation in PAIR.items()),
    ],
)
def test_operation(module, kernel, expression, reference):
    a, b = tricky(60_000), RNG.permutation(tricky(60_000))
    a[-4:], b[-4:] = [0, 0x8000, 0, 0x8000], [0x8000, 0, 0, 0x8000]
    dtype, expressions = (np.uint16, BINARY) if kernel == "binary" else (np.uint32, PAIR)
    z = evaluate(
        module, kernel, [*expressions].index(expression), dtype, a.view(dtype), b.view(dtype)
    ).view(np.uint16)
    with np.errstate(all="ignore"):
        want = reference(halves(a).astype(float), halves(b).astype(float)).astype(np.float16)
    # the sign of a saturated zero is not specified
    zero = (halves(z) == 0) & (want == 0) & ("sat" in expression)
    assert_same(
        np.where(zero, 0, z).astype(np.uint16),
        np.where(zero, 0, want.view(np.uint16)),
        halves(a),
        halves(b),
    )


def fused(module, a, b, c):
    a, b, c = (np.asarray(x, np.uint16) for x in (a, b, c))
    one, two, saturated = np.empty_like(a), np.empty((a.size, 2), np.uint16), np.empty_like(a)
    arrays = *map(cuda.In, (a, b, c)), *map(cuda.Out, (one, two, saturated))
    launch(module, "fused", np.int32(a.size), *arrays, threads=256, blocks=a.size // 256 + 1)
    return one, two, saturated


def check_fused(module, a, b, c):
    one, two, saturated = fused(module, a, b, c)
    want = np.array(
        [
            round_half(exact(x) * exact(y) + (exact(z) << 24))
            for x, y, z in zip(a, b, c, strict=True)
        ],
        np.uint16,
    )
    nonzero = want & 0x7FFF != 0  # the sign of an exact zero follows other rules, tested below
    assert_same(one[nonzero], want[nonzero], *(halves(x)[nonzero] for x in (a, b, c)))
    assert (one[~nonzero] & 0x7FFF == 0).all()
    assert_same(two[:, 0], one)
    assert_same(two[:, 1], one[::-1])
    clipped = np.clip(halves(one).astype(float), 0, 1).astype(np.float16)
    assert (halves(saturated) == clipped).all()


def test_fused_multiply_add_rounds_once(module):
    finite = np.array([b for b in range(65536) if b & 0x7C00 != 0x7C00], np.uint16)
    a, b, c = RNG.choice(finite, (3, 20_000))
    check_fused(module, a, b, c)
    # addends that cancel the product up to a few units in the last place
    with np.errstate(over="ignore"):
        c = (-(halves(a).astype(np.float32) * halves(b))).astype(np.float16).view(np.uint16)
    near = c ^ RNG.integers(0, 4, c.size, np.uint16)
    keep = near & 0x7C00 != 0x7C00
    check_fused(module, a[keep], b[keep], near[keep])


def test_fused_multiply_add_next_to_halfway(module):
    """Products that lie halfway between two halves, and an addend too small for a float to see beside them."""
    significands = np.arange(1024, 2048)
    product = np.multiply.outer(significands, significands)
    halfway = np.where(product < 2**21, product % 1024 == 512, product % 2048 == 1024)
    x, y = np.nonzero(halfway)
    chosen = np.repeat(RNG.choice(x.size, 200, replace=False), 6)
    a, b = ((significands[v[chosen]] / 64).astype(np.float16).view(np.uint16) for v in (x, y))
    c = np.tile(np.array([0, 1, 0x8001, 0x3FF, 0x0400, 0x8400], np.uint16), 200)
    check_fused(module, a, b, c)
    check_fused(module, a ^ 0x8000, b, c)


def test_fused_multiply_add_next_to_halfway_between_subnormals(module):
    """Products close to 2^-25, half of the last place there, added to subnormal halves."""
    significands = np.arange(1024, 2048)
    product = np.multiply.outer(significands, significands)
    x, y = np.nonzero((abs(product - 2**21) < 64) & (product != 2**21))
    a, b = ((significands[v] * 2.0**-23).astype(np.float16).view(np.uint16) for v in (x, y))
    a ^= RNG.choice(np.array([0, 0x8000], np.uint16), a.size)
    check_fused(module, a, b, RNG.integers(16, 1024, a.size, np.uint16))


finite_half = st.integers(0, 65535).filter(lambda bits: bits & 0x7C00 != 0x7C00)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(finite_half, finite_half, finite_half), min_size=1, max_size=40))
def test_fused_multiply_add_of_any_halves(module, triples):
    check_fused(module, *(np.array(x, np.uint16) for x in zip(*triples, strict=True)))


def test_fused_multiply_add_of_special_values(module):
    inf, nan, one, zero, minus = 0x7C00, 0x7E00, 0x3C00, 0, 0x8000
    cases = [
        (inf, one, one, inf),
        (inf, zero, one, nan),
        (inf, one, inf | minus, nan),
        (nan, one, one, nan),
        (one, one, nan, nan),
        (inf | minus, one, 0x7BFF, inf | minus),
        (0x7BFF, 0x7BFF, 0xFBFF, inf),
        (zero, one, zero, zero),
        (minus, one, minus, minus),
        (minus, one, zero, zero),
        (one, one, one | minus, zero),
    ]
    a, b, c, want = np.array(cases, np.uint16).T.copy()
    got, two, _ = fused(module, a, b, c)
    assert_same(got, want)
    assert_same(two[:, 0], want)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_of_every_half(module, name):
    z = evaluate(module, "unary", UNARY.index(f"h{name}(a)"), np.uint16, ALL)
    with np.errstate(all="ignore"):
        want = FUNCTIONS[name](halves(ALL).astype(float)).astype(np.float16)
    if name in EXACT:
        assert_same(z, want, halves(ALL))
        return
    # At most the neighbouring half: these go through a float function that is itself rounded (the
    # GPU's: approximate).
    assert (np.isnan(halves(z)) == np.isnan(want)).all()
    usual = ~np.isnan(want)
    if name in ("sin", "cos"):
        usual &= abs(halves(ALL).astype(np.float32)) < 8
        assert np.max(abs(halves(z)[usual].astype(float) - want[usual])) <= 2**-10
    else:
        steps = abs(ordered(z[usual]) - ordered(want.view(np.uint16)[usual]))
        assert steps.max() <= (1 if name not in ("log", "log2", "log10") else 2)


def ordered(bits):
    """Return halves as integers in the order of their values."""
    bits = bits.astype(np.int32)
    return np.where(bits & 0x8000, 0x8000 - bits, bits)


@pytest.mark.parametrize("expression", SIGNS)
def test_sign_operations_touch_the_sign_only(module, expression):
    assert_same(
        evaluate(module, "unary", UNARY.index(expression), np.uint16, ALL), SIGNS[expression](ALL)
    )


def test_comparisons(module):
    a, b = tricky(30_000), RNG.permutation(tricky(30_000))
    b[::3] = a[::3]
    outputs = [np.zeros(a.size, np.uint32) for _ in range(4)]
    arrays = cuda.In(a), cuda.In(b), *map(cuda.Out, outputs)
    launch(module, "relations", np.int32(a.size), *arrays, threads=256, blocks=a.size // 256 + 1)
    x, y = halves(a), halves(b)
    unordered = np.isnan(x) | np.isnan(y)
    truth = [x == y, ~unordered & (x != y), x < y, x <= y, x > y, x >= y]
    word = sum(t.astype(np.uint32) << k for k, t in enumerate(truth))
    assert (outputs[0] == word).all()
    assert (outputs[1] == np.where(unordered, 63, word)).all()
    assert (outputs[2] == np.where(unordered, 2, word)).all()  # only != holds with a NaN
    swapped = [
        truth[0],
        truth[1],
        truth[4],
        truth[5],
        truth[2],
        truth[3],
    ]  # the upper halves compare b with a
    both = sum(
        (t & s).astype(np.uint32) << k for k, (t, s) in enumerate(zip(truth, swapped, strict=True))
    )
    both += word << 8
    both += (
        np.where(unordered, 63, sum(s.astype(np.uint32) << k for k, s in enumerate(swapped))) << 16
    )
    both += np.isnan(x).astype(np.uint32) << 24
    both += (x == np.inf).astype(np.uint32) << 25
    both += (x == -np.inf).astype(np.uint32) << 26
    both += 1 << 27
    assert (outputs[3] == both).all()


def test_every_half_becomes_its_float(module):
    y = evaluate(module, "to_float", 0, np.float32, ALL)
    want = halves(ALL).astype(np.float32)
    assert (
        np.array_equal(y, want, equal_nan=True)
        and (np.signbit(y) == np.signbit(want))[~np.isnan(want)].all()
    )


@pytest.mark.parametrize("mode", MODES)
def test_float_to_half(module, mode):
    x = RNG.integers(0, 2**32, 100_000, np.uint32).view(np.float32)
    # at and around halfway points
    near = halves(RNG.integers(0, 0x7BFF, 100_000, np.uint16)).astype(np.float32)
    step = np.spacing(near.astype(np.float16)).astype(np.float32)
    around = (near + step / 2).view(np.uint32) + RNG.integers(-1, 2, near.size).astype(np.uint32)
    edges = [65519.996, 65520, -65520, 1e-10, -1e-40, 3e38]
    x = np.concatenate([x[np.isfinite(x)], around.view(np.float32), -near, edges]).astype(
        np.float32
    )
    y = evaluate(module, "from_float", MODES.index(mode), np.uint16, x)
    if mode == "rn":
        with np.errstate(over="ignore"):
            assert_same(y, x.astype(np.float16), x)
        return
    # the neighbour on the right side, from NumPy's nearest
    with np.errstate(over="ignore"):
        nearest = x.astype(np.float16)
        below = np.where(nearest > x, np.nextafter(nearest, np.float16(-np.inf)), nearest)
        above = np.where(nearest < x, np.nextafter(nearest, np.float16(np.inf)), nearest)
    down = (
        np.signbit(x)
        if mode == "rz"
        else np.zeros(x.size, bool)
        if mode == "rd"
        else np.ones(x.size, bool)
    )
    assert (halves(y) == np.where(down, above, below)).all()


def test_special_floats_and_doubles_to_half(module):
    x = np.array([np.inf, -np.inf, np.nan, 0, -0.0], np.float32)
    for which in range(len(MODES)):
        assert_same(evaluate(module, "from_float", which, np.uint16, x), x.astype(np.float16))
    # doubles that two roundings, by way of float, would get wrong; and the far ends
    ties = 1 + 2.0**-11 + np.array([2.0**-40, -(2.0**-40), 0.0])
    ends = [2**-25 * (1 + 2.0**-50), 2**-25, 1e300, -1e300, 1e-300, 5e-324, np.inf, 65520 - 1e-9]
    d = np.concatenate([ties, -ties, ends])
    with np.errstate(over="ignore", under="ignore"):
        assert_same(evaluate(module, "from_double", 0, np.uint16, d), d.astype(np.float16), d)


@pytest.mark.parametrize("kind", INTEGERS)
def test_integers_to_half_and_back(module, kind):
    dtype, info = INTEGERS[kind], np.iinfo(INTEGERS[kind])
    x = RNG.integers(max(info.min, -70_000), min(info.max, 70_000), 2000, dtype, endpoint=True)
    x[:4] = info.min, info.max, 0, 2049
    for which, mode in enumerate(MODES):
        y = evaluate(module, f"from_{kind}", which, np.uint16, x)
        assert_same(y, np.array([round_half(int(v) << 48, mode) for v in x], np.uint16), x)

        z = evaluate(module, f"to_{kind}", which, dtype, ALL)
        with np.errstate(invalid="ignore"):
            value = ROUND[mode](halves(ALL).astype(float))
        finite = np.isfinite(value)
        assert z[finite].tolist() == [max(info.min, min(info.max, int(v))) for v in value[finite]]
        assert (z[value == np.inf] == info.max).all() and (z[value == -np.inf] == info.min).all()


def test_packing(module):
    x = np.array([1.5, -2.25], np.float32)
    pairs, floats, bits = (
        np.zeros((13, 2), np.float16),
        np.zeros(7, np.float32),
        np.zeros(6, np.int16),
    )
    launch(
        module, "packing", cuda.In(x), cuda.Out(pairs), cuda.Out(floats), cuda.Out(bits), threads=1
    )
    a, b = x
    want = [
        (a, b),
        (b, a),
        (a, 3),
        (b, 4),
        (a, a),
        (b, b),
        (b, a),
        (a, a),
        (5, 5),
        (b, 7),
        (b, b),
        (-a, b),
    ]
    product = (a + 1j * b) * (3 + 4j) + (a + 1j * b)
    assert pairs.tolist() == [list(map(float, w)) for w in want] + [[product.real, product.imag]]
    assert floats.tolist() == [a, b, a, b, a, a, b]
    low, high = (int(np.float16(v).view(np.int16)) for v in x)
    assert bits.tolist() == [low, high, 0x3C01, 0x8001 - 65536, low, high]


def test_types_mix_as_in_cuda(module):
    y = np.zeros(15, np.float32)
    launch(module, "mixed", cuda.Out(y), threads=1)
    h = np.float16
    a = (h(3.5) * h(3) - h(0.5)) / h(7)
    assert y[0] == a and y[1] == h(0.1)
    assert y[2] == a and y[3] == h(h(a + h(1)) - h(1)) and y[4] == 2
    assert y[5:11].tolist() == [2, 255, -1, 1, 0, 0]
    assert y[11] == 15
    assert y[12] == 2048  # 2048 + 1 rounds back to 2048: half sums stop growing
    assert y[13] == 3 and y[14] == 0


def test_atomic_add_and_shuffles(module):
    one, two, shared = np.zeros(1, np.float16), np.zeros(2, np.float16), np.zeros(4, np.float16)
    launch(module, "sum", cuda.InOut(one), cuda.InOut(two), cuda.Out(shared), threads=64, blocks=4)
    assert one[0] == 256 and two.tolist() == [256, 512] and (shared == 32).all()

    x = RNG.normal(size=(32, 2)).astype(np.float16)
    y, z = np.empty_like(x), np.empty(32, np.float16)
    launch(module, "rotate", cuda.In(x), cuda.Out(y), cuda.Out(z))
    assert (y == np.roll(x, -1, axis=0)).all() and (z == x[np.arange(32) ^ 2, 0]).all()


def test_bfloat16(module):
    x, y = RNG.normal(size=(2, 5000)).astype(np.float32)
    outputs = [np.empty(5000, np.float32) for _ in range(4)]
    launch(
        module,
        "ops",
        cuda.In(x),
        cuda.In(y),
        *map(cuda.Out, outputs),
        np.int32(5000),
        threads=256,
        blocks=20,
    )

    def bf16(v):
        """Round float64 to bfloat16, once, to nearest even."""
        mantissa, exponent = np.frexp(v)
        return np.ldexp(np.rint(mantissa * 256), exponent - 8)

    a, b = bf16(x.astype(float)), bf16(y.astype(float))
    assert (outputs[0] == bf16(a + b)).all()
    assert (outputs[1] == bf16(a * b)).all()
    assert (outputs[2] == bf16(a * b + a)).all()
    assert (outputs[3] == (bf16(a * a) + bf16(b * b)).astype(np.float32)).all()


@pytest.mark.usefixtures("cpu_engine")
def test_software_conversions_agree_with_the_instructions():
    source = """
extern "C" __global__ void compare(const float *x, int n, int *wrong)
{
    for (int i = 0; i < n; i++) {
        wrong[0] += hostcuda::round_to_half<hostcuda::to_nearest>(x[i]) != __half_as_ushort(__float2half_rn(x[i]));
        wrong[1] += hostcuda::round_to_half<hostcuda::to_zero>(x[i]) != __half_as_ushort(__float2half_rz(x[i]));
        wrong[2] += hostcuda::round_to_half<hostcuda::up>(x[i]) != __half_as_ushort(__float2half_ru(x[i]));
        wrong[3] += hostcuda::round_to_half<hostcuda::down>(x[i]) != __half_as_ushort(__float2half_rd(x[i]));
    }
    for (int bits = 0; bits < 65536; bits++) {
        float f = hostcuda::widen_half(bits), g = __half2float(__ushort_as_half(bits));
        wrong[4] += __float_as_int(f) != __float_as_int(g);
    }
}
"""
    x = RNG.integers(0, 2**32, 200_000, np.uint32)
    x[::2] = 0x33000000 + x[::2] % 0x15000000 & 0xFFFFF800  # the range of half, many halfway points
    wrong = np.zeros(5, np.int32)
    compare = SourceModule(source, no_extern_c=True).get_function("compare")
    compare(cuda.In(x), np.int32(x.size), cuda.InOut(wrong), block=(1, 1, 1), grid=(1, 1))
    assert not wrong.any()


THREAD_LOOPS = """
#include <cuda_fp16.h>
extern "C" __global__ void pairs(const half2 *__restrict__ a, const half2 *__restrict__ b, const half2 *__restrict__ c,
                                 half2 *__restrict__ y, float *__restrict__ z)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const half2 first = __hfma2(a[i], b[i], c[i]);
    __syncthreads();
    const half2 sum = a[i] + first, product = sum * b[i];
    y[i] = product - __half2half2(__low2half(c[i]));
    z[i] = __low2float(first) + __high2float(product);
}
extern "C" __global__ void single(const half *__restrict__ a, const half *__restrict__ b, const half *__restrict__ c,
                                  half *__restrict__ y, float *__restrict__ z)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const half first = __hfma(a[i], b[i], c[i]);
    __syncthreads();
    y[i] = (a[i] + first) * b[i] - c[i];
    __syncthreads();
    z[i] = (float)first;
}
"""


def near_halfway(rng, size):
    """Return three arrays of pairs of halves: any bits, and sums that cancel or lie near halfway between two halves."""
    a, b, c = rng.integers(0, 2**32, (3, size), np.uint32)
    with np.errstate(all="ignore"):
        product = (a.view(np.float16) * b.view(np.float16)).view(np.uint32)
    near = product ^ (
        rng.integers(0, 4, size, np.uint32) * 0x00010001 << rng.integers(0, 12, size, np.uint32)
    )
    c = np.where(
        rng.integers(0, 2, size), c, near ^ rng.choice(np.array([0, 0x80008000], np.uint32), size)
    )
    # few significant bits
    few = np.where(rng.integers(0, 4, size), 0xFFFFFFFF, 0xFE00FE00).astype(np.uint32)
    return a & few, b & few, c


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize("kernel", ["pairs", "single"])
def test_thread_loops_round_as_fibers(monkeypatch, kernel):
    modules = {}
    for mode in ("fibers", "loops"):
        monkeypatch.setenv("HOSTCUDA_EXECUTION_MODE", mode)
        modules[mode] = SourceModule(THREAD_LOOPS, no_extern_c=True).get_function(kernel)
        assert modules[mode].execution_mode == mode
    for width in (61, 16, 8, 5):  # whole vectors, rests of them, and fewer
        bits = np.uint32 if kernel == "pairs" else np.uint16
        data = [
            array.view(bits) for array in near_halfway(np.random.default_rng(width), 200 * width)
        ]
        out = {}
        for mode, function in modules.items():
            out[mode] = np.zeros(data[0].size, bits), np.zeros(data[0].size, np.float32)
            arguments = *map(cuda.In, data), *map(cuda.Out, out[mode])
            function(*arguments, grid=(data[0].size // width, 1), block=(width, 1, 1))
        (y, z), (want_y, want_z) = out["loops"], out["fibers"]
        np.testing.assert_array_equal(y.view(np.float16), want_y.view(np.float16))
        np.testing.assert_array_equal(z, want_z)


@pytest.mark.usefixtures("cpu_engine")
@pytest.mark.parametrize("size", [40_000, pytest.param(20_000_000, marks=pytest.mark.thorough)])
def test_the_versions_for_vectors_agree_with_those_for_one_value(size):
    compare = SourceModule(kernel_source("half_vectors"), no_extern_c=True).get_function("compare")
    data = near_halfway(np.random.default_rng(size), size // 16 * 16)
    data[0][:65536] = np.arange(size)[:65536]  # every half
    wrong = np.zeros(6, np.int32)
    compare(
        *map(cuda.In, data), np.int32(data[0].size), cuda.InOut(wrong), block=(1, 1, 1), grid=(1, 1)
    )
    if wrong[0] < 0:
        pytest.skip("half arithmetic has versions for vectors with g++ and AVX2, F16C and FMA")
    assert not wrong.any()


def test_the_processors_own_half_arithmetic_compiles(tmp_path):
    """AVX512-FP16, which few machines have: the runtime's functions assemble, and a product and a sum stay apart."""
    command = toolchain.find()
    flags = [
        "-std=gnu++17",
        "-O2",
        "-march=sapphirerapids",
        "-ffp-contract=fast",
        "-w",
        f"-I{toolchain.INCLUDE}",
    ]
    if (
        toolchain.is_clang(command)
        or toolchain.run([*command, *flags, "-fsyntax-only", "-xc++", os.devnull])[0]
    ):
        pytest.skip("g++ 12 or newer for x86-64 compiles AVX512-FP16")
    source, assembly = tmp_path / "source.cpp", tmp_path / "source.s"
    source.write_text("""#include "hostcuda.h"
HOSTCUDA_IN_LANES(0)
half fused(half a, half b, half c) { return __hfma(a, b, c); }
half2 fused_pair(half2 a, half2 b, half2 c) { return __hfma2(a, b, c); }
half apart(half a, half b, half c) { return a * b + c; }
""")
    runtime = toolchain.RUNTIME / "half.cpp"
    for arguments in (["-S", source, "-o", assembly], ["-c", runtime, "-o", tmp_path / "half.o"]):
        status, _, error = toolchain.run([*command, *flags, *map(str, arguments)])
        assert status == 0, error
    fused = re.findall(r"vfn?madd\w+", assembly.read_text())
    assert sorted(fused) == ["vfmadd231ph", "vfmadd231sh"]


CONVERSIONS = """#include "hostcuda.h"
using namespace hostcuda;
template <class A, class B> unsigned differ(A a, B b) { return memcmp(&a, &b, sizeof a) != 0; }
int main() {
    unsigned wrong = 0;
    for (uint32_t bits = 0; bits < 65536; bits++)
        wrong += differ(widen((half_storage)bits), widen_half((uint16_t)bits));
    for (uint64_t bits = 0; bits < 1ull << 32; bits += 251) {   // every exponent, and all places around halfway
        float x = __builtin_bit_cast(float, (uint32_t)bits);
        wrong += differ(narrow<to_nearest>(x), round_to_half<to_nearest>(x));
    }
    return wrong != 0;
}
"""


def test_conversions_without_the_processors_are_exact(tmp_path):
    """WebAssembly uses them: the short ones equal those in integer arithmetic, on every half and 17 million floats."""
    source, program = tmp_path / "source.cpp", tmp_path / "program"
    source.write_text(CONVERSIONS)
    flags = [
        "-std=gnu++17",
        "-O2",
        "-mno-f16c",
        "-w",
        f"-I{toolchain.INCLUDE}",
        "-Wl,--unresolved-symbols=ignore-all",
    ]
    status, _, error = toolchain.run([*toolchain.find(), *flags, str(source), "-o", str(program)])
    if "unrecognized" in error or "unknown argument" in error:
        pytest.skip("this processor has its conversions in any case")
    assert status == 0, error
    assert toolchain.run([str(program)])[0] == 0
