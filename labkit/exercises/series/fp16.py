"""The exercises of page 08."""

from labkit.exercises.exercise import SOURCE, Attempt, Exercise, Goal, Mistake, counted
from labkit.exercises.subjects import HIDDEN, LAYERS, InPlaceOf
from labkit.spec.layers import Layer

_STORES = "global_store_requests"
_ODD = (Layer("maps of 35 pixels", C=2, H=13, W=11, M=5, K=7), 2)
_LONG = Layer("3136 products", C=64, H=10, W=11, M=4, K=7)
_ROUNDING = 2.0**-11  # the largest relative error of one rounding to half


def _stores(attempt: Attempt) -> float:
    return attempt.counts.get("layer 1", {}).get(_STORES, 0)


EXERCISES = (
    Exercise(
        number="08a",
        page="fp16",
        title="One store",
        subject=InPlaceOf("fp16", "a", LAYERS, (_ODD, *HIDDEN[::2])),
        lines=6,
        goals=tuple(counted(_STORES, layer, at_most=count, what="store requests")
                    for layer, count in (("layer 1", 400), ("layer 2", 296))),
        hints=(
            "The pixels n and n + 1 are neighbours in memory, and both sums are in one float2. Which conversion gives "
            "a half2, and which pointer stores it?",
            "A half2 lies at a multiple of four bytes. n is even; where does map m begin if a map has an odd number "
            "of pixels?",
            "If `pixels` is even, every map begins at an even element and n + 1 is a pixel, too: one half2. If it is "
            "odd, store as before.",
        ),
        mistakes=(
            Mistake(
                "A half2 has to lie at a multiple of four bytes. With an odd number of pixels every second map begins "
                "between two of them, and so does every second image if its maps are odd in number: what decides is "
                "whether `pixels` is even.",
                lambda attempt: "misaligned" in attempt.findings,
            ),
            Mistake(
                "There is a store of a half2 now, but the two stores of single pixels are executed as well: they "
                "belong into an else.",
                lambda attempt: _stores(attempt) > 800,
            ),
            Mistake(
                "Maps with an odd number of pixels have to be stored, too: pixel by pixel, as before.",
                lambda attempt: "maps of 35 pixels" in attempt.wrong and "written" in attempt.wrong,
            ),
        ),
    ),
    Exercise(
        number="08b",
        page="fp16",
        title="No float",
        subject=InPlaceOf("fp16", "b", {"layer 2": LAYERS["layer 2"]}, (*HIDDEN[::2], (_LONG, 1)), {"step": "half2"}),
        lines=3,
        goals=(counted("largest_error", _LONG.name, per=_ROUNDING, at_most=4.6,
                       what="largest error in units of 2^-11"),
               Goal("variables of type float", lambda counts: counts[SOURCE]["floats"], exactly=0)),
        hints=(
            "A half has 11 bits, so a product that is added to a large sum loses its last bits. Which sums stay small?",
            "Sum the TILE products of one step in a half2 of their own, which begins at zero in each step.",
            "After the loop over i, add that part to the sum: __hadd2(sum, part).",
        ),
        mistakes=(
            Mistake(
                "The part has no value when the first product is added to it: it has to begin at zero in each step.",
                lambda attempt: bool(attempt.wrong) and "half2 part;" in attempt.source,
            ),
            Mistake(
                "Each step adds its part, and the part still has the products of the steps before: it has to begin at "
                "zero in each step.",
                lambda attempt: bool(attempt.wrong) and "__hadd2" in attempt.source
                and attempt.source.find(" part") < attempt.source.find("for (int step"),
            ),
            Mistake(
                "The result holds the last step only: the part has to be added to the sum of the steps before.",
                lambda attempt: bool(attempt.wrong) and "__hadd2" not in attempt.source and " part" in attempt.source
                and " + " not in attempt.source.split("u_tile[i][threadIdx.x], part)")[-1].split("__syncthreads")[0],
            ),
        ),
    ),
)
