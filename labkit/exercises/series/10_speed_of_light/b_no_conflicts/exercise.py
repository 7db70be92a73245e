"""Exercise 10b: maps apart."""

import re

from labkit.exercises import Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.arithmetic import compute
from labkit.spec.layers import Layer

# Its maps are as large as those of layer 2 of lenet86, but it compiles in a second.
_NAME = "one channel of layer 2"
_PART = {_NAME: Layer(_NAME, C=1, H=40, W=40, M=12, K=7)}
_SIDE = 40 - 7 + 1  # rows and columns of its outputs
_STORES = "wavefronts_per_shared_store"


def _has_gaps(attempt: Attempt) -> bool:
    """Return whether `store` has another distance of maps than Ho * Wo, such as the hints' MAP."""
    store = attempt.source.partition("void store(")[2].partition("void copy(")[0]
    return bool(store) and "maps + (m * Ho + h) * Wo + w," not in store


def _find_distance(attempt: Attempt) -> int | None:
    """Return the distance of maps in `out` in halves, for the counted case; None if it is not known."""
    used = re.search(r"\bmaps \+ m \* (\w+) \+", attempt.source)
    defined = re.findall(rf"\bint {used[1]} = ([^;]{{1,200}});", attempt.source) if used else []
    names = {"Ho": _SIDE, "Wo": _SIDE, "GATHER": 1}
    return compute(defined[0], names) if len(defined) == 1 else None


def _describe_distance(attempt: Attempt) -> str:
    """Return what the distance of two maps should be, and what it is if that is known."""
    distance, size = _find_distance(attempt), _SIDE * _SIDE
    known = ""
    if distance and distance % 2 == 0 and distance >= size:
        gap = (16 - size) % 64
        known = (
            f"Here two maps of {size:,} halves begin {distance:,} halves apart. That is {distance // 2:,} words, "
            f"{distance // 2 % 32} more than a multiple of 32. Your gap of {distance - size} halves is "
            f"{(distance - size) // 2} words; these maps need {gap // 2}. "
        )
    return (
        f"A store of a warp still needs a bank for several words. {known}The distance of two maps should be 8 words "
        "more than a multiple of 32: then the four maps lie side by side. That is 16 halves more than a multiple of "
        "64, since a word has two halves."
    )


def _reads_misaligned(attempt: Attempt) -> bool:
    """Return whether `copy` reads a piece of `out` that does not begin at a multiple of its size."""
    return "misaligned" in attempt.findings and "&out[" in attempt.wrong


# `copy` skips something after each whole map.
_SKIPS_GAPS = re.compile(r"\bat / \(Ho \* Wo\) \*")
# `copy` skips whole maps, "at / (Ho * Wo) * MAP", in place of gaps.
_WHOLE_MAPS = re.compile(r"\bout\[at \+ [^;]*\* MAP\];")

_NO_GAP = (
    "A map of 50 halves ends in the middle of a piece of 8 bytes, which `copy` reads and writes at once: such maps can "
    "have no gap."
)

EXERCISE = Exercise(
    title="Maps apart",
    subject=InPlaceOf(
        "speed_of_light",
        "b",
        _PART,
        (
            (Layer("maps of 50 halves", C=2, H=8, W=13, M=6, K=4), 2),  # copied in pieces of four
            (Layer("rows of 8 halves", C=1, H=9, W=12, M=5, K=5), 2),
        ),
    ),
    lines=6,
    goals=(
        counted(
            "shared_store_wavefronts",
            _NAME,
            per=280,  # stores of warps
            what="wavefronts per shared store",
            at_most=1.25,
            least={"shared_store_instructions": 70},
            most={"global_store_requests": 150},  # of whole maps; 252 without shared memory
        ),
    ),
    start_reaches=(3.282143,),
    mistakes=(
        Mistake(
            _describe_distance,
            lambda attempt: (
                not attempt.wrong
                and _has_gaps(attempt)
                and attempt.count(_STORES, _NAME) > 1.25
                and (_find_distance(attempt) or 0) % 64 != 16
            ),
        ),
        Mistake(
            "`copy` has to skip the gaps: element `at` is in map at / (Ho * Wo), and each map before it has one.",
            lambda attempt: (
                _has_gaps(attempt)
                and (
                    "&out[at];" in attempt.source
                    or (
                        "uninitialized" in attempt.findings
                        and attempt.source.count("__syncthreads") > 3
                        and not _SKIPS_GAPS.search(attempt.source)
                    )
                )
            ),
        ),
        Mistake(
            "`copy` skips a gap after each map, and `store` leaves none: there map m still begins at m * Ho * Wo.",
            lambda attempt: (
                attempt.runs_wrong
                and not _has_gaps(attempt)
                and "maps + (m * Ho + h) * Wo + w," in attempt.source
                and "*(const Piece *)&out[at]" not in attempt.source
            ),
        ),
        Mistake(
            "`copy` skips MAP halves per map, and `at` counts the Ho * Wo halves of these maps already: what is left "
            "to skip is the gap.",
            lambda attempt: attempt.runs_wrong and attempt.matches(_WHOLE_MAPS),
        ),
        Mistake(
            "The maps have gaps in `out`, and none in y: there element `at` is y[at].",
            lambda attempt: attempt.runs_wrong and "&y[at + " in attempt.source,
        ),
        Mistake(
            "`copy` counts the halves of y, where maps have no gaps: Ho * Wo for each map.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and attempt.matches(r"\bcopy\(maps, [^;]*\* MAP, thread\)")
            ),
        ),
        Mistake(
            "`out` has to have room for the gaps, too.",
            lambda attempt: (
                _has_gaps(attempt)
                and "out of bounds" in attempt.findings
                and "MAPS * Ho * Wo : 1]" in attempt.source
            ),
        ),
        Mistake(
            "`out` ends before the last map: `store` puts the maps further apart than there is room for. Each of the "
            "MAPS maps takes its own Ho * Wo halves and a gap.",
            lambda attempt: (
                _has_gaps(attempt)
                and "out of bounds" in attempt.findings
                and "array out, " in attempt.wrong
                and "write of" in attempt.wrong
                # nothing in its size makes a gap for each map
                and attempt.matches(r"\bout\[[^\];]*\bMAPS \* Ho \* Wo\b")
            ),
        ),
        Mistake(
            "Where Wo is a multiple of 4, outputs go to y directly, and there maps have no gaps: `store` is used "
            "for both.",
            lambda attempt: (
                _has_gaps(attempt)
                and not attempt.matches(r"\bint \w+ = [^;]*GATHER[^;]*;")
                and (
                    "out of bounds" in attempt.findings
                    or "rows of 8 halves" in attempt.wrong
                    # two maps meet in y itself
                    or ("race" in attempt.findings and re.search(r" use y\[", attempt.wrong))
                )
            ),
        ),
        Mistake(
            "The distance of two maps is no multiple of the four halves that `copy` moves at once. The figure counts "
            "its gap in words: in halves it is twice as large.",
            lambda attempt: (
                _reads_misaligned(attempt)
                and attempt.matches(r"Ho\s*\*\s*Wo\)?\s*%\s*4")
                and not attempt.matches(_WHOLE_MAPS)
            ),
        ),
        Mistake(
            _NO_GAP,
            lambda attempt: (
                "uninitialized" in attempt.wrong
                and "array out " in attempt.wrong
                and _SKIPS_GAPS.search(attempt.source)
                and not attempt.matches(r"Ho\s*\*\s*Wo\)?\s*%\s*4")
            ),
        ),
        Mistake(
            _NO_GAP,
            lambda attempt: "maps of 50 halves" in attempt.wrong or _reads_misaligned(attempt),
            vague=True,
        ),
    ),
)
