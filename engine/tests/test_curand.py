"""Random numbers in kernels: published sequences of both generators, their subsequences, and the distributions."""

import numpy as np
import pytest
from running import kernel_source, launch

import hostcuda.autoinit  # noqa: F401
import hostcuda.driver as cuda

pytestmark = pytest.mark.thorough("breadth of CUDA's API")

SOURCE = kernel_source("curand")


@pytest.fixture(scope="module")
def draw(module):
    def draw(generator, seed=0, offset=0, threads=1, n=16):
        """Draw integers, uniform and normal floats, and doubles, from `threads` subsequences."""
        kinds = [
            np.zeros((threads, n), dtype)
            for dtype in (np.uint32, np.float32, np.float32, np.float64)
        ]
        launch(
            module,
            generator,
            np.uint64(seed),
            np.uint64(offset),
            *map(cuda.Out, kinds),
            np.int32(n),
            threads=threads,
        )
        return kinds

    return draw


def test_xorwow_begins_as_published(draw):
    """Outputs of cuRAND on GPUs: seed 0 (in the log of a physics simulation), and seed 1234 (in cuRAND's manual)."""
    _, uniform, *_ = draw("xorwow", threads=8)
    np.testing.assert_allclose(
        uniform[0],
        [
            0.7402193546,
            0.4384511411,
            0.5170126557,
            0.1569886208,
            0.0713675097,
            0.4625083804,
            0.2276432663,
            0.3293584883,
            0.1440653056,
            0.1877991110,
            0.9153834581,
            0.5401248336,
            0.9746608734,
            0.5474692583,
            0.6531602740,
            0.2302378118,
        ],
        rtol=1e-6,
    )
    firsts = [
        0.74021935,
        0.9209938,
        0.03902049,
        0.9689629,
        0.92514056,
        0.4463501,
        0.6673192,
        0.10993068,
    ]
    np.testing.assert_allclose(uniform[:, 0], firsts, rtol=1e-6)
    _, uniform, *_ = draw("xorwow", 1234, threads=10)
    manual = [0.1455, 0.8202, 0.5504, 0.2948, 0.9147, 0.8690, 0.3219, 0.7829, 0.0113, 0.2855]
    np.testing.assert_allclose(uniform[:, 0], manual, atol=6e-5)


def test_philox_gives_the_known_answers(module):
    """The answers are those of Random123 for Philox4x32-10."""
    counters = np.array(
        [[0] * 4, [2**32 - 1] * 4, [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]], np.uint32
    )
    keys = np.array([[0] * 2, [2**32 - 1] * 2, [0xA4093822, 0x299F31D0]], np.uint32)
    out = np.zeros((3, 4), np.uint32)
    launch(module, "block_cipher", cuda.In(counters), cuda.In(keys), cuda.Out(out), threads=3)
    assert [" ".join(f"{word:08x}" for word in row) for row in out] == [
        "6627e8d5 e169c58d bc57ac4c 9b00dbd8",
        "408f276d 41c83b0e a20bc7c6 6d5451fd",
        "d16cfe09 94fdcceb 5001e420 24126ea1",
    ]


@pytest.mark.parametrize("generator", ["xorwow", "philox"])
@pytest.mark.parametrize("offset", [1, 6, 11])
def test_an_offset_skips_numbers(draw, generator, offset):
    whole, rest = draw(generator, 99, 0, 3, 20)[0], draw(generator, 99, offset, 3, 20 - offset)[0]
    assert (rest == whole[:, offset:]).all()


def test_steps_and_subsequences_commute(module, draw):
    out = np.zeros(1, np.uint32)
    for n in (5, 2**40 + 3):
        launch(module, "ahead", np.uint64(n), cuda.Out(out), threads=1)
        assert out == draw("xorwow", 1, n, 3, 1)[0][2, 0]


def test_four_numbers_of_philox_at_once(module, draw):
    for offset in (0, 3):
        integers, uniform = np.zeros((2, 4), np.uint32), np.zeros(4, np.float32)
        launch(module, "fours", np.uint64(offset), cuda.Out(integers), cuda.Out(uniform), threads=1)
        expected = draw("philox", 7, offset, 4, 12)
        assert (integers.ravel() == expected[0][3, :8]).all() and (
            uniform == expected[1][3, 8:]
        ).all()


@pytest.mark.parametrize("generator", ["xorwow", "philox"])
def test_distributions_follow_from_the_integers(draw, generator):
    integers, uniform, normal, _ = draw(generator, 5, 0, 64, 500)
    x = (integers + 0.5) * 2.0**-32
    np.testing.assert_allclose(uniform, x, rtol=2e-7)
    radius, angle = np.sqrt(-2 * np.log(x[:, ::2])), 2 * np.pi * x[:, 1::2]
    np.testing.assert_allclose(normal[:, ::2], radius * np.sin(angle), atol=2e-5)
    np.testing.assert_allclose(normal[:, 1::2], radius * np.cos(angle), atol=2e-5)
    assert (
        abs(normal.mean()) < 0.03
        and abs(normal.std() - 1) < 0.03
        and abs(uniform.mean() - 0.5) < 0.01
    )


@pytest.mark.parametrize(("generator", "first"), [("xorwow", 2), ("philox", 1)])
def test_doubles(draw, generator, first):
    """A uniform one takes two integers of XORWOW and one of Philox; two normal ones take the next four."""
    integers, *_, wide = draw(generator, 5, 0, 2, 12)
    integers = integers.astype(np.uint64)

    def double(at):
        return ((integers[:, at] ^ integers[:, at + 1] << np.uint64(21)) + 0.5) * 2.0**-53

    def uniform(at):
        return double(at) if generator == "xorwow" else (integers[:, at] + 1.0) * 2.0**-32

    np.testing.assert_allclose(wide[:, 0], uniform(0), rtol=1e-15)
    radius, angle = np.sqrt(-2 * np.log(double(first))), 2 * np.pi * double(first + 2)
    np.testing.assert_allclose(wide[:, 1], radius * np.sin(angle), atol=1e-12)
    np.testing.assert_allclose(wide[:, 2], uniform(first + 4), rtol=1e-15)
    np.testing.assert_allclose(wide[:, 3], radius * np.cos(angle), atol=1e-12)
