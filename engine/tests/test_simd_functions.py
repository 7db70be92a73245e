"""Functions of words that hold bytes or shorts, and of the largest or smallest of three, against NumPy's integers."""

import re

import numpy as np
import pytest

from hostcuda.api import driver as cuda
from hostcuda.api.compiler import SourceModule

pytestmark = pytest.mark.thorough("breadth of CUDA's API")


def halves(bits, sign):
    """Return two functions: from words to their parts, as wide integers, and back."""
    dtype = np.dtype(f"{'i' if sign == 's' else 'u'}{bits // 8}")

    def parts(words):
        return words.view(dtype).astype(np.int64)

    return parts, lambda values: values.astype(dtype).view(np.uint32)


def average(a, b):
    """Return the mean; a half is rounded away from 0."""
    return np.sign(a + b) * ((abs(a + b) + 1) // 2)


def expected(name, x, y, z):
    """Return the results of a function, from its name."""
    sign, kind = re.search("([su]?)(2|4|32|16x2)(?:_relu)?$", name).groups()
    lane = {"32": 1, "4": 4}.get(kind, 2)
    parts, word = halves(32 // lane, sign)
    a, b, c = parts(x), parts(y), parts(z)
    if "vsad" in name:
        return abs(a - b).reshape(-1, lane).sum(1).astype(np.uint32)
    if "vavg" in name:
        return word(average(a, b))
    if "vabsdiff" in name:
        return word(abs(a - b))
    if "vcmp" in name:
        return word(-(a == b if "eq" in name else a > b).astype(np.int64))
    if name in ("__vadd2", "__vadd4", "__vsub2", "__vsub4"):
        return word(a + b if "add" in name else a - b)
    if "vhadd" in name:
        return word((a + b) // 2)
    best = np.maximum if "max" in name else np.minimum
    result = best(best(a, b), c) if "x3_" in name or "n3_" in name else best(a, b)
    if "add" in name:
        result = best(parts(word(a + b)), c)
    if "relu" in name:
        result = np.maximum(result, 0)
    return word(result)


OF_TWO = [
    "__vadd2",
    "__vadd4",
    "__vsub2",
    "__vsub4",
    "__vmaxu4",
    "__vmaxs4",
    "__vminu4",
    "__vmins2",
    "__vavgu4",
    "__vabsdiffu4",
    "__vabsdiffs4",
    "__vcmpeq4",
    "__vcmpgtu4",
    "__vcmpgts2",
    "__vavgs2",
    "__vavgs4",
    "__vhaddu2",
    "__vhaddu4",
    "__vsads2",
    "__vsads4",
    "__vsadu2",
    "__vsadu4",
    "__vimax_s32_relu",
    "__vimin_s32_relu",
    "__vimax_s16x2_relu",
    "__vimin_s16x2_relu",
]
OF_THREE = [
    f"__{name}_{kind}"
    for name in ("vimax3", "vimin3", "viaddmax", "viaddmin")
    for kind in ("s32", "u32", "s16x2", "u16x2", "s32_relu", "s16x2_relu")
]
WHICH = ["__vibmax_s32", "__vibmin_s32", "__vibmax_u32", "__vibmin_u32"]
WHICH_HALF = ["__vibmax_s16x2", "__vibmin_s16x2", "__vibmax_u16x2", "__vibmin_u16x2"]
NAMES = [*OF_TWO, *OF_THREE, *WHICH, *WHICH_HALF]
COUNT = 512


@pytest.fixture(scope="module")
def words():
    rng = np.random.default_rng(4)
    x, y, z = rng.integers(0, 2**32, (3, COUNT), np.uint32)
    edges = np.array(
        [0, 0x80808080, 0x80008000, 0x7FFF7FFF, 0xFFFFFFFF, 0x80000000, 0x7FFFFFFF, 0x00010001],
        np.uint32,
    )
    x[:64], y[:64], z[:64] = np.repeat(edges, 8), np.tile(edges, 8), np.tile(edges[::-1], 8)
    y[64:128] = x[64:128] ^ 0x00010000  # halves that are the same, and some that nearly are
    return x, y, z


@pytest.fixture(scope="module")
def results(words):
    calls = [f"{name}(a, b)" for name in OF_TWO] + [f"{name}(a, b, c)" for name in OF_THREE]
    calls += [f"{name}(a, b, first)" for name in WHICH] + [
        f"{name}(a, b, first + 1, first)" for name in WHICH_HALF
    ]
    lines = "\n".join(
        f"first[0] = first[1] = false;\nout[{2 * i} * {COUNT} + i] = {call};\n"
        f"out[{2 * i + 1} * {COUNT} + i] = first[0] | first[1] << 1;"
        for i, call in enumerate(calls)
    )
    source = f"""__global__ void all(const unsigned *x, const unsigned *y, const unsigned *z, unsigned *out)
    {{
        const int i = blockIdx.x * blockDim.x + threadIdx.x;
        const unsigned a = x[i], b = y[i], c = z[i];
        bool first[2];
        {lines}
    }}"""
    out = np.zeros((len(NAMES), 2, COUNT), np.uint32)
    SourceModule(source).get_function("all")(
        *map(cuda.In, words), cuda.Out(out), block=(128, 1, 1), grid=(COUNT // 128, 1)
    )
    return out


@pytest.mark.parametrize("name", NAMES)
def test_result(name, words, results):
    np.testing.assert_array_equal(results[NAMES.index(name), 0], expected(name, *words))


@pytest.mark.parametrize("name", [*WHICH, *WHICH_HALF])
def test_which_one(name, words, results):
    bits, sign = (16 if "16" in name else 32), name[9]
    a, b = (halves(bits, sign)[0](word).reshape(COUNT, -1) for word in words[:2])
    first = a >= b if "max" in name else a <= b
    predicates = results[NAMES.index(name), 1]
    np.testing.assert_array_equal(predicates, (first << np.arange(first.shape[1])).sum(1))
