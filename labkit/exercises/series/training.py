"""The exercises of page 14."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator

import numpy as np

import hostcuda
from labkit.base.errors import LabError
from labkit.base.paths import cuda_src
from labkit.exercises.exercise import Case, Exercise, Goal, Mistake, counted
from labkit.exercises.subjects import Module, Numbers
from labkit.ladder.rung import tiles
from labkit.networks.images import dataset
from labkit.networks.lenet28 import Lenet28
from labkit.networks.lenet28_experiments import FILES
from labkit.networks.reference.lenet28 import Sizes, parameter_gradients

_LAUNCH = FILES["atomics"]["bp_weight_c1"]
_HELD_OUT = "held-out digits"


# ------------------------------------------------------------------------------------------------- 14a: one kernel
def _options(what: tuple[Sizes, int]) -> tuple[str, ...]:
    """The sizes, and the folder of lenet28.h."""
    return *what[0].defines, f"-I{cuda_src() / 'training' / 'lenet28'}"


def _inputs(s: Sizes, batch: int) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Images [B+1,side,side], their order [B], and the values: integers, so that every sum is exact, NaN elsewhere."""
    rng = np.random.default_rng([s.side, batch])
    images = rng.integers(1, 5, (batch + 1, s.side, s.side)).astype(np.float32)
    order = rng.permutation(batch + 1)[:batch].astype(np.int32)
    values = {name: np.full((batch, *shape), np.nan, np.float32) for name, shape in s.values.items()}
    values["d_c1"][...] = rng.integers(1, 5, values["d_c1"].shape) * rng.choice([-1, 1], values["d_c1"].shape)
    return images, order, values


def _run(module, what: tuple[Sizes, int]) -> Iterator[dict[str, np.ndarray]]:
    s, batch = what
    images, order, values = _inputs(s, batch)
    flat = np.concatenate([each.reshape(batch, -1) for each in values.values()], axis=1)
    gradient = np.zeros(sum(math.prod(shape) for shape in s.weights.values()), np.float32)
    into, block = hostcuda.driver.InOut(gradient), _LAUNCH.block(s)
    module.get_function("bp_weight_c1")(
        hostcuda.driver.In(images), hostcuda.driver.In(order), hostcuda.driver.In(flat), into, np.int32(batch),
        block=(block, 1, 1), grid=(tiles(_LAUNCH.threads(s), block), batch),
    )
    yield _arrays(s, gradient)


def _expected(what: tuple[Sizes, int]) -> Iterator[dict[str, np.ndarray]]:
    s, batch = what
    images, order, values = _inputs(s, batch)
    known = parameter_gradients(images[order].astype(np.float64), {name: np.nan_to_num(each.astype(np.float64))
                                                                   for name, each in values.items()})
    flat = np.concatenate([np.ravel(known[name] if name.startswith("c1") else np.zeros(shape))
                           for name, shape in s.weights.items()])
    yield _arrays(s, flat)


def _arrays(s: Sizes, gradient: np.ndarray) -> dict[str, np.ndarray]:
    """The gradient of c1 [maps,K,K], of its biases [maps], and of all other parameters, which stays zero."""
    masks, biases = (math.prod(s.weights[name]) for name in ("c1", "c1_bias"))
    parts = np.split(gradient, (masks, masks + biases))
    names = "gradient of c1 [m, p, q]", "gradient of c1_bias [m]", "gradient of all others"
    return dict(zip(names, (parts[0].reshape(s.weights["c1"]), *parts[1:]), strict=True))


_SECTORS = counted("reduction_sectors", "lenet28", per="reduction_requests", what="sectors per request", at_most=8)


# ---------------------------------------------------------------------------------------------------- 14b: the rate
def _accuracy(rate: object) -> dict[str, dict[str, float]]:
    if isinstance(rate, bool) or not isinstance(rate, (int, float, np.number)) or not math.isfinite(rate):
        raise LabError(f"the rate is a number, such as 0.2, not {rate!r}")
    if rate <= 0:
        raise LabError(f"a rate of {rate} does not train: take one above 0")
    return {_HELD_OUT: {"rate": float(rate), "accuracy": _trained(float(rate))}}


@functools.cache
def _trained(rate: float) -> float:
    """The accuracy after five passes, 50 images per step; without atomics, so that it is the same in every run."""
    train, test = (dataset("digits", part, size=28) for part in ("train", "test"))
    with Lenet28("unrolled", batch=50, rate=rate) as model:
        for _ in range(5):
            model.epoch(train.images, train.labels)
        return float(model.accuracy(test.images, test.labels))


def _rate(attempt) -> float:
    return attempt.counts[_HELD_OUT]["rate"]


def _missed(attempt) -> bool:
    return attempt.counts[_HELD_OUT]["accuracy"] < 0.7


EXERCISES = (
    Exercise(
        number="14a",
        page="training",
        title="Lanes apart",
        subject=Module(
            name="bp_weight_c1",
            run=_run,
            expected=_expected,
            options=_options,
            headers=("lenet28.h",),
            cases=(
                Case("a smaller network, three images", (Sizes(14, 3, 5, 4, 7), 3)),
                Case("lenet28", (Sizes(), 1), counted=True),
            ),
        ),
        goals=(_SECTORS,),
        lines=3,
        hints=(
            "Which index changes from a thread to its neighbour? Here it is the position w, and a warp's lanes meet "
            "at one parameter.",
            "Each thread needs a map m, a parameter t of its K * K + 1, and a position. Only the order in which i "
            "counts them has to change.",
            "Let t be the remainder of i by K * K + 1; the quotient then counts positions and maps.",
        ),
        mistakes=(
            Mistake(
                "With this h and w a parameter does not meet every position, and some it meets twice: where the "
                "parameter is a remainder of i, the position has to come from the quotient.",
                lambda attempt: bool(attempt.wrong) and "i % (K * K + 1)" in attempt.source
                and "h = i / C1 % C1" in attempt.source,
            ),
            Mistake(
                "Neighbouring lanes have different maps now, but there are few maps, and their parameters lie K * K "
                "words apart: lanes still meet at one address. Which parameters lie side by side in struct Weights?",
                lambda attempt: not attempt.wrong and "i % MAPS" in attempt.source,
            ),
            Mistake(
                "A map has K * K + 1 parameters: the last one is its bias, which gets products, too.",
                lambda attempt: bool(attempt.wrong) and "i % (K * K)," in attempt.source,
            ),
            Mistake(
                "The grid is rounded up to whole blocks: threads beyond the last product have to return.",
                lambda attempt: bool(attempt.wrong) and "return;" not in attempt.source,
            ),
            Mistake(
                "Lanes can be summed only if they all belong to one parameter. In the smaller network a map has 144 "
                "positions, which is no number of whole warps.",
                lambda attempt: bool(attempt.wrong) and ("warp_sum" in attempt.source or "__shfl" in attempt.source),
            ),
            Mistake(
                "Threads of many blocks add to one parameter: only atomicAdd keeps all of their products.",
                lambda attempt: "race" in attempt.findings and "atomicAdd" not in attempt.source,
            ),
        ),
    ),
    Exercise(
        number="14b",
        page="training",
        title="The rate of a mini-batch",
        subject=Numbers(_accuracy, start=(0.1,), solution=lambda: (0.3,)),
        goals=(
            Goal(f"accuracy, {_HELD_OUT}", lambda counts: counts[_HELD_OUT]["accuracy"], at_least=0.7),
        ),
        hints=(
            "A step of 50 images has one update where 50 steps of one image have 50. Its gradient is their mean.",
            "The mean of 50 gradients is steadier than one, so the step may be longer: but how much, before it jumps "
            "over the minimum? Try a few rates between 0.1 and 1.",
        ),
        mistakes=(
            Mistake(
                "With this rate the steps jump over the minimum, and the sigmoids end at 0 and 1, where their slope "
                "is zero. A mean of 50 gradients is steadier than one, but it points no further.",
                lambda attempt: _missed(attempt) and _rate(attempt) > 0.5,
            ),
            Mistake(
                "This is less than the rate of single images, and there are 50 times fewer updates: the weights have "
                "hardly moved.",
                lambda attempt: _missed(attempt) and _rate(attempt) < 0.1,
            ),
        ),
    ),
)
