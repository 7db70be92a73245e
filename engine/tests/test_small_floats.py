"""Floating point in 8 bits, bfloat16 beyond its arithmetic, and bytes and shorts in a word, held against NumPy."""

import numpy as np
import pytest
from running import kernel_source, launch

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

SOURCE = kernel_source("small_floats")


def values(exponent_bits, mantissa_bits):
    """Return all 128 values with sign 0 of a format; it has IEEE's infinity and NaN unless its exponent has 4 bits."""
    code, bias = np.arange(128), 2 ** (exponent_bits - 1) - 1
    exponent, mantissa = code >> mantissa_bits, code % 2**mantissa_bits
    fraction = mantissa / 2.0**mantissa_bits
    value = np.where(
        exponent > 0, (1 + fraction) * 2.0 ** (exponent - bias), fraction * 2.0 ** (1 - bias)
    )
    if exponent_bits == 4:
        value[127] = np.nan
    else:
        value[124:] = [np.inf, np.nan, np.nan, np.nan]
    return value


E4M3, E5M2 = values(4, 3), values(5, 2)


def nearest(x, table, largest):
    """Return the codes of the values nearest to |x|, even codes in a tie, as if the format went on after `largest`."""
    table = np.r_[table[: largest + 1], 2 * table[largest] - table[largest - 1]]
    above = np.clip(np.searchsorted(table, abs(x)), 1, table.size - 1)
    low, high = abs(x) - table[above - 1], table[above] - abs(x)
    code = np.where((low < high) | ((low == high) & (above % 2 == 1)), above - 1, above)
    return np.where(abs(x) >= table[-1], largest + 1, code)


def test_all_codes_as_floats(module):
    out = np.zeros((2, 256), np.float32)
    halves = np.zeros(256, np.float16)
    launch(
        module,
        "widen",
        cuda.Out(out[0]),
        cuda.Out(out[1]),
        cuda.Out(halves.view(np.uint16)),
        threads=256,
    )
    for row, table in zip(out, (E4M3, E5M2), strict=True):
        np.testing.assert_array_equal(row, np.r_[table, -table])
    np.testing.assert_array_equal(halves, np.r_[E4M3, -E4M3])


def test_rounding_is_to_the_nearest_even(module):
    """All values of both formats, the points halfway between them, their neighbours among the floats, and others."""
    tables = [np.unique(table[np.isfinite(table)]) for table in (E4M3, E5M2)]
    points = np.concatenate(
        [np.r_[t, (t[1:] + t[:-1]) / 2] for t in tables] + [[464, 480, 61440, 65536, 1e30, np.inf]]
    )
    points = points.astype(np.float32)
    points = np.r_[
        points, np.nextafter(points, np.float32(0)), np.nextafter(points, np.float32(np.inf))
    ]
    rng = np.random.default_rng(1)
    points = np.r_[
        points, np.exp2(rng.uniform(-20, 18, 3000)).astype(np.float32), np.float32(2**-149)
    ]
    x = np.r_[points, -points]
    codes = np.zeros((7, x.size), np.uint8)
    launch(
        module,
        "narrow",
        cuda.In(x),
        cuda.Out(codes),
        np.int32(x.size),
        threads=256,
        blocks=x.size // 256 + 1,
    )
    sign = np.where(np.signbit(x), 128, 0)
    e4m3, e5m2 = nearest(x.astype(np.float64), E4M3, 126), nearest(x.astype(np.float64), E5M2, 123)
    assert (codes[0] == sign + np.minimum(e4m3, 127)).all() and (
        codes[1] == sign + np.minimum(e5m2, 124)
    ).all()
    assert (codes[[2, 5]] == sign + np.minimum(e4m3, 126)).all()
    assert (codes[[3, 4]] == sign + np.minimum(e5m2, 123)).all()
    with np.errstate(over="ignore"):
        half = nearest(x.astype(np.float16).astype(np.float64), E4M3, 126)
    assert (codes[6] == sign + np.minimum(half, 126)).all()


def test_bfloat16(module):
    x = (np.arange(32) / 8 + 1 / 16).astype(np.float32)  # exact in bfloat16
    out = np.zeros((6, 32), np.float32)
    launch(module, "brain", cuda.In(x), cuda.Out(out))
    np.testing.assert_allclose(out[0], np.sqrt(x), rtol=2**-8)
    np.testing.assert_allclose(out[1], np.exp(x), rtol=2**-8)
    assert (out[:2].view(np.uint32) << 16 == 0).all()  # rounded to bfloat16
    assert (out[2] == x[np.arange(32) ^ 5]).all() and (out[3] == 2 + out[0]).all()
    assert (out[4] == 32 + 100 * 64 + 10000 * 96).all() and (out[5] == x).all()


def test_bfloat16_rounds_in_every_direction(module):
    rng = np.random.default_rng(2)
    some = np.float32([0, -0.0, 1, -1, 1e-44, 3e38, -3e38])
    x = np.r_[rng.integers(0, 2**32, 4000, np.uint32).view(np.float32), some]
    x = x[np.isfinite(x) & (abs(x) < 3.3e38)]
    out = np.zeros((3, x.size), np.uint16)
    launch(
        module,
        "brain_roundings",
        cuda.In(x),
        cuda.Out(out),
        np.int32(x.size),
        threads=256,
        blocks=x.size // 256 + 1,
    )
    below, above, inner = (out.astype(np.uint32) << 16).view(np.float32)
    assert (below <= x).all() and (x <= above).all() and (abs(inner) <= abs(x)).all()
    assert ((inner == below) | (inner == above)).all()
    step = np.abs(out[1].astype(int) - out[0])  # between neighbours, as integers
    assert (step == (below != above)).all() and ((below == x) == (above == x)).all()


def test_bfloat16_of_integers_and_relations(module):
    """Of 2**62 + 2**54 + 1 a double loses the 1 that decides; the tie of 2**40 + 2**32 goes to the even code."""
    x = np.array([2**62 + 2**54 + 1, 2**62 + 2**54, 2**40 + 2**32, -3, 257, -(2**63)], np.int64)
    out, relations = np.zeros(6, np.float32), np.zeros(6, np.int32)
    launch(module, "brain_integers", cuda.In(x), cuda.Out(out), cuda.Out(relations), threads=6)
    assert list(out) == [2.0**62 + 2.0**55, 2.0**62, 2.0**40, -3, 256, -(2.0**63)]
    assert (relations == 2 + 4 + 16 + 64 + 128 + 256 + 512).all()


def test_bytes_and_shorts(module):
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 2**32, (2, 32), np.uint32)
    x[:3], y[:3] = [0x80808080, 0x80008000, 0x7FFFFFFF], [0x80808080, 0x80008000, 0x7FFFFFFF]
    out = np.zeros((15, 32), np.uint32)
    launch(module, "bytes_and_shorts", cuda.In(x), cuda.In(y), cuda.Out(out))

    def parts(dtype):
        return x.view(dtype).astype(np.int64), y.view(dtype).astype(np.int64)

    def word(values, dtype, clip=False):
        limits = np.iinfo(dtype)
        return (
            (np.clip(values, limits.min, limits.max) if clip else values)
            .astype(dtype)
            .view(np.uint32)
        )

    (a8, b8), (u8, v8), (a16, b16), (u16, v16) = map(
        parts, (np.int8, np.uint8, np.int16, np.uint16)
    )
    pairs = [a16.reshape(32, 2), b8.reshape(32, 4), u16.reshape(32, 2), v8.reshape(32, 4)]
    set_bits = [[i for i in range(3, 32) if word_ >> i & 1] for word_ in x.tolist()]
    expected = [
        word(a8 + b8, np.int8, True),
        word(u8 - v8, np.uint8, True),
        word(u16 + v16, np.uint16, True),
        word(a16 - b16, np.int16, True),
        word(abs(a8), np.int8),
        word(abs(a16), np.int16),
        word(-a8, np.int8),
        word(abs(a8), np.int8, True),
        word(u8 > v8, np.uint8),
        word(a16 == b16, np.int16),
        (7 + (pairs[0] * pairs[1][:, :2]).sum(1)).astype(np.uint32),
        (7 + (pairs[2] * pairs[3][:, 2:]).sum(1)).astype(np.uint32),
        np.maximum(np.maximum(x.view(np.int32), y.view(np.int32)), 5).view(np.uint32),
        np.minimum(x + y, 2**31),
        np.array([bits[1] if len(bits) > 1 else 2**32 - 1 for bits in set_bits], np.uint32),
    ]
    for i, (row, values) in enumerate(zip(out, expected, strict=True)):
        np.testing.assert_array_equal(row, values, err_msg=f"function {i}")
