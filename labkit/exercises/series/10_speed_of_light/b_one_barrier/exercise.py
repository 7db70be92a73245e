"""Exercise 10b: one barrier per pass."""

import re

from labkit.exercises import Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.spec.layers import Layer

# Its maps are as large as those of layer 2 of lenet86, but it compiles in a second.
_NAME = "one channel of layer 2"
_PART = {_NAME: Layer(_NAME, C=1, H=40, W=40, M=12, K=7)}


def _find_divisor(attempt: Attempt) -> str:
    """Return what m0 is divided by in the index [m0 % TURNS] of the place, if it is 2, or 2 or 1; or ""."""
    divisor = re.search(r"\[m0 % (\w+)\]", attempt.source)
    if not divisor:
        return ""
    name = divisor[1]
    is_two = name == "2" or attempt.matches(rf"\bint {name} = (?:[^;?]{{0,200}}\? 2 : 1|2);")
    return name if is_two else ""


EXERCISE = Exercise(
    title="One barrier per pass",
    subject=InPlaceOf(
        "speed_of_light",
        "b",
        _PART,
        (
            (Layer("two passes", C=2, H=8, W=13, M=5, K=4), 3),
            (Layer("three passes", C=1, H=20, W=21, M=12, K=4), 3),
        ),
        {"blocks": 1},
    ),
    lines=4,
    goals=(
        counted(
            "barriers",
            _NAME,
            per=7,
            what="barriers per warp",
            at_most=5,
            least={"barriers": 7, "shared_store_instructions": 70},
            # whole maps; 252 without shared memory
            most={"global_store_requests": 150, "named_barriers": 0},
        ),
    ),
    start_reaches=(8,),
    mistakes=(
        Mistake(
            "The barrier behind the copy has a condition now, but warps still come to it. What would let all passes "
            "do without it?",
            lambda attempt: (
                attempt.counts
                and attempt.count("barriers", _NAME) > 7 * 5
                and attempt.matches(r"\bcopy\([^;]*;\s*if \([^;{]*\)\s*\{?\s*__syncthreads")
            ),
        ),
        Mistake(
            "The barrier before `fetch` has to stay: without it a thread copies the next image over the one that "
            "others still read, and over the zeros at the beginning.",
            lambda attempt: (
                "race" in attempt.findings
                and "array image" in attempt.wrong
                and attempt.matches(r"b \+= gridDim\.x\) \{\s*fetch\(")
            ),
        ),
        Mistake(
            "The barrier behind `fetch` has to stay: it says that the image is complete, before other threads read it.",
            lambda attempt: (
                "array image" in attempt.wrong
                and attempt.matches(r"\bfetch\(\(half \*\)image[^;]*;\s*for \(int m0\b")
            ),
        ),
        Mistake(
            lambda attempt: (
                f"m0 goes up by MAPS, a multiple of four: m0 % {_find_divisor(attempt)} is always 0, so each pass has "
                "the same place. The number of the pass is m0 / MAPS."
            ),
            lambda attempt: "race" in attempt.findings and _find_divisor(attempt),
        ),
        Mistake(
            "The other barrier has to stay: it says that the maps are complete, before other threads copy them.",
            lambda attempt: (
                "race" in attempt.findings
                # no barrier without a condition between the last store and the copy
                and not re.search(
                    r"[;{}]\s*__syncthreads",
                    attempt.source.rpartition("store(")[2].split("copy(")[0],
                )
            ),
        ),
        Mistake(
            "Without this barrier, threads store the next maps while others still copy these. They need another "
            "place.",
            lambda attempt: (
                "race" in attempt.findings
                and "half out[GATHER" in attempt.source
                and attempt.source.partition("void conv(")[2].count("__syncthreads") < 4
            ),
        ),
        Mistake(
            "b is the number of an image: all passes of an image, if it has several, get the same place. Which number "
            "changes from each pass to the next?",
            lambda attempt: "race" in attempt.findings and attempt.matches(r"\[b % (?:2|\w+)\]"),
        ),
    ),
)
