"""The exercises of page 05."""

from labkit.exercises.exercise import Exercise, Mistake, counted
from labkit.exercises.subjects import LAYERS, InPlaceOf

_IM2COL, _LOADS = "layer 1, im2col", "global_load_requests"
_WARPS = {"layer 1": 8 * 400, "layer 2": 8 * 73}  # of gemm: a block has 8
_PRODUCT = {layer: counted("shared_load_instructions", f"{layer}, gemm", per=warps, what="shared loads per warp",
                           at_most=most)
            for (layer, warps), most in zip(_WARPS.items(), (98, 392), strict=True)}


EXERCISES = (
    Exercise(
        number="05a",
        page="unroll_gemm",
        title="Read once, write often",
        subject=InPlaceOf("unroll_gemm", "a", {"layer 1": LAYERS["layer 1"]}),
        lines=15,
        goals=(counted(_LOADS, _IM2COL, at_most=300),),
        hints=(
            "Input (row, column) is element (p, q) of the window that begins at (h, w), with h + p = row and "
            "w + q = column. Solve for h and w.",
            "Not every (h, w) is a window: near the edge of the image h or w would be negative, or beyond the last "
            "window. Write to u only where there is a window.",
            "The grid has a thread for each output, and there are more inputs. Let a thread begin with the input of "
            "its own number and go on with those that lie gridDim.x * blockDim.x apart, up to H * W.",
        ),
        mistakes=(
            Mistake(
                "The grid has a thread for each output, but there are more inputs: those at the end are in no thread's "
                "hands. Let each thread take several inputs, one whole grid apart.",
                lambda attempt: "uninitialized" in attempt.findings and "gridDim" not in attempt.source,
            ),
            Mistake(
                "gemm reads elements of u that no thread has written. Does each of the H * W inputs come to a thread, "
                "and are its row and column those in an image of width W?",
                lambda attempt: "uninitialized" in attempt.findings,
            ),
            Mistake(
                "Two threads write the same element of u. (h, w) has limits on all four sides, and no two threads take "
                "the same input.",
                lambda attempt: "race" in attempt.findings,
            ),
            Mistake(
                "Take one input and go through its windows by hand: which (h, w) contain the input (0, 0), and which "
                "contain (K, K)? Where in u are they?",
                lambda attempt: attempt.wrong.startswith("right"),
            ),
            Mistake(
                "Several threads take the same inputs: the next input of a thread lies one whole grid apart.",
                lambda attempt: _loads(attempt) > 300 and "gridDim" not in attempt.source,
            ),
            Mistake(
                "An input is still loaded for every window that contains it. Read it into a variable, before the loops "
                "over p and q.",
                lambda attempt: _loads(attempt) > 300,
            ),
        ),
    ),
    Exercise(
        number="05b",
        page="unroll_gemm",
        title="A shorter last step",
        subject=InPlaceOf("unroll_gemm", "b"),
        lines=3,
        goals=tuple(_PRODUCT.values()),
        hints=(
            "The depth of layer 1 is 49: three steps of 16 rows, and one of a single row. How many rows are left at "
            "the beginning of a step?",
            "At step there are depth - step rows left, and a tile has TILE of them. The loop over i ends at the "
            "smaller of the two.",
            "CUDA C++ has min(a, b). The pragma above the loop can go: the compiler does not know the number of rows.",
        ),
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
                and _PRODUCT["layer 1"].number(attempt.counts) <= 98
                and _PRODUCT["layer 2"].number(attempt.counts) == 416,
            ),
        ),
    ),
)


def _loads(attempt):
    return attempt.counts.get(_IM2COL, {}).get(_LOADS, 0)
