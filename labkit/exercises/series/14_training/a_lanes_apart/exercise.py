"""Exercise 14a: lanes apart."""

import numpy as np

from labkit.base.paths import cuda_src
from labkit.exercises import Attempt, Case, Exercise, Kernels, Mistake, Output, counted, launch
from labkit.ladder.rung import tiles
from labkit.networks.lenet28_experiments import FILES
from labkit.networks.reference.lenet28 import Sizes, parameter_gradients

# the page's launch: `block` and `threads` (of all) by the network's sizes
_LAUNCH = FILES["atomics"]["bp_weight_c1"]


def _options(s: Sizes, batch: int) -> tuple[str, ...]:
    """Return the compiler's options: the sizes, and the folder of lenet28.h."""
    return *s.defines, f"-I{cuda_src() / 'training' / 'lenet28'}"


def gradient(random: np.random.Generator, s: Sizes, batch: int):
    """Return the launch of bp_weight_c1, the gradient of the weights and biases of layer c1, summed over a batch.

    The kernel gets images [B+1,side,side], the indices [B] of the images in the batch, and all values
    of the network per image. Images and d_c1, the gradient at the outputs of layer c1, are
    integers, so that sums are exact. Values that the kernel must not read are NaN; the gradient of
    parameters of other layers stays 0. `s` are the network's sizes.
    """
    # one more than the batch has: a kernel that ignores the indices is wrong
    images = random.integers(1, 256, (batch + 1, s.side, s.side)).astype(np.float32)
    order = random.permutation(batch + 1)[:batch].astype(np.int32)
    values = {
        name: np.full((batch, *shape), np.nan, np.float32) for name, shape in s.values.items()
    }
    d_c1 = values["d_c1"]
    most = 2**24 // (255 * d_c1[:, 0].size)  # sums over images and positions are exact
    d_c1[...] = random.integers(1, most + 1, d_c1.shape) * random.choice([-1, 1, 1], d_c1.shape)
    gradients = parameter_gradients(
        images[order].astype(np.float64),
        {name: np.nan_to_num(value.astype(np.float64)) for name, value in values.items()},
    )
    expected = np.concatenate(
        [
            np.ravel(gradients[name] if name.startswith("c1") else np.zeros(shape))
            for name, shape in s.weights.items()
        ]
    )
    block = _LAUNCH.block(s)
    return launch(
        "bp_weight_c1",
        images,
        order,
        np.concatenate([value.reshape(batch, -1) for value in values.values()], axis=1),
        Output(
            "gradient of all parameters, those of c1 first", expected.astype(np.float32), before=0
        ),
        batch,
        block=block,
        grid=(tiles(_LAUNCH.threads(s), block), batch),  # blocks for all threads, per image
    )


_SECTORS = counted(
    "reduction_sectors",
    "lenet28",
    per=2808,
    what="sectors per request",
    at_most=8,  # of 2808 warps
    least={"reduction_requests": 1},
)


def _has_maps_side_by_side(attempt: Attempt) -> bool:
    """Return whether a right attempt gives neighbouring lanes different maps."""
    return bool(attempt.counts) and "i % MAPS" in attempt.source


EXERCISE = Exercise(
    title="Lanes apart",
    subject=Kernels(
        gradient,
        (
            Case("a smaller network, three images", (Sizes(14, 3, 5, 4, 7), 3)),
            Case("lenet28", (Sizes(), 1), counted=True),
        ),
        _options,
        headers=("lenet28.h",),
    ),
    goals=(_SECTORS,),
    lines=3,
    start_reaches=(32,),
    mistakes=(
        Mistake(
            "With this h and w a parameter does not meet every position, and some it meets twice: where the "
            "parameter is a remainder of i, the position has to come from the quotient.",
            lambda attempt: (
                attempt.wrong
                and "i % (K * K + 1)" in attempt.source
                and "h = i / C1 % C1" in attempt.source
            ),
        ),
        Mistake(
            "Neighbouring lanes have different maps now, but there are few maps, and their parameters lie K * K "
            "words apart: lanes still meet at one address. Which parameters lie side by side in struct Weights?",
            lambda attempt: (
                _has_maps_side_by_side(attempt) and _SECTORS.number(attempt.counts) > 16
            ),
        ),
        Mistake(
            "Neighbouring lanes have different parameters now, and those of two maps lie K * K words apart. A request "
            f"touches all {Sizes().maps} maps, so it takes more sectors than its 32 words fill. Which parameters lie "
            "side by side in struct Weights?",
            _has_maps_side_by_side,
        ),
        Mistake(
            "A map has K * K + 1 parameters: the last one is its bias, which gets products, too.",
            lambda attempt: attempt.wrong and "i % (K * K)," in attempt.source,
        ),
        Mistake(
            "The grid is rounded up to whole blocks: threads beyond the last product have to return.",
            lambda attempt: (
                attempt.wrong
                and "return;" not in attempt.source
                and not attempt.matches(r"\bi (?:<|>=) ")
            ),
        ),
        Mistake(
            "Lanes can be summed only if they all belong to one parameter. In the smaller network a map has 144 "
            "positions, which is no number of whole warps.",
            lambda attempt: (
                attempt.wrong and ("warp_sum" in attempt.source or "__shfl" in attempt.source)
            ),
        ),
        Mistake(
            "Threads of many blocks add to one parameter: only atomicAdd keeps all of their products.",
            lambda attempt: "race" in attempt.findings and "atomicAdd" not in attempt.source,
        ),
    ),
)
