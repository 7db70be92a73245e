"""Exercise 05b: a shorter last step."""

import math

from labkit.exercises import Exercise, InPlaceOf, Mistake, counted

_WARPS = {"layer 1": 8 * 400, "layer 2": 8 * 73}  # of gemm: a block has 8
_PRODUCT = {layer: counted("shared_load_instructions", f"{layer}, gemm", per=warps, what="shared loads per warp",
                           at_most=most, least={"shared_load_instructions": warps * most / 2})
            for (layer, warps), most in zip(_WARPS.items(), (98, 392), strict=True)}


EXERCISE = Exercise(
    title="A shorter last step",
    subject=InPlaceOf("unroll_gemm", "b"),
    lines=3,
    goals=tuple(_PRODUCT.values()),
    mistakes=(
        Mistake(
            "The tiles have TILE rows: the loop over i ends there, however many rows are left.",
            lambda attempt: "out of bounds" in attempt.findings and "__shared__" in attempt.wrong,
        ),
        Mistake(
            "Some products are missing, or too many. For a depth of 49: how many rows does each step multiply, and "
            "do all threads multiply the same ones?",
            lambda attempt: attempt.wrong.startswith("right"),
        ),
        Mistake(
            "Layer 1 needs fewer loads because threads without a map leave the product out. Layer 2 has a map for "
            "every thread: there only a shorter last step saves something.",
            lambda attempt: bool(attempt.counts)
            and not 98 < _PRODUCT["layer 1"].number(attempt.counts) < math.inf  # inf: so few that it is not counted
            and _PRODUCT["layer 2"].number(attempt.counts) == 416,
        ),
    ),
)
