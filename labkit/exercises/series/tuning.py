"""The exercises of page 07."""

import re

from labkit.exercises.exercise import Exercise, Mistake, counted
from labkit.exercises.subjects import HIDDEN, LAYERS, InPlaceOf
from labkit.spec.layers import Layer

_LAYER_1 = {"layer 1": LAYERS["layer 1"]}
# Its masks come in two passes, and a thread of the last block has no output.
_PASSES = Layer("channels in two passes", C=5, H=30, W=34, M=18, K=4), 1
_STORES = "wavefronts_per_shared_store"
_BARRIERS = counted("barriers", "layer 1", per=20, what="barriers per block", at_most=1)  # of 20 blocks
_UNLIKE = re.compile(r"\bif \([^;{]*\b(?:first|h|n|w|mine|threadIdx)\b[^;{]*\)\s*\{?\s*__syncthreads")

EXERCISES = (
    Exercise(
        number="07a",
        page="tuning",
        title="One bank per thread",
        subject=InPlaceOf("tuning", "a", _LAYER_1),
        lines=2,
        goals=(counted(_STORES, "layer 1", at_most=1.05),),
        hints=(
            "Thread number i stores mask[t][m]. Which word of the array is that, and which word does thread i + 1 "
            "store?",
            "mask[t][m] is word t * GROUPS * MAPS + m. If neighbouring threads have neighbouring t, their words lie "
            "GROUPS * MAPS apart. Let them have neighbouring m.",
            "i counts the words of mask in their order: m is the remainder of i, and t the quotient, by the same "
            "divisor.",
        ),
        mistakes=(
            Mistake(
                "As i counts up, (t, m) has to go through all places of mask, each once: m is below GROUPS * MAPS, t "
                "below TERMS, one is the remainder and the other the quotient by the same number.",
                lambda attempt: bool(attempt.findings) and attempt.source.count("__syncthreads()") == 2,
            ),
            Mistake(
                "Padding leaves some conflicts, and on a GPU a row that is no multiple of four words cannot be loaded "
                "16 bytes at a time. Leave the array as it is, and change the order.",
                lambda attempt: bool(attempt.counts) and bool(re.search(r"GROUPS \* MAPS \+ \d\]", attempt.source)),
            ),
        ),
    ),
    Exercise(
        number="07b",
        page="tuning",
        title="Nothing to wait for",
        subject=InPlaceOf("tuning", "b", _LAYER_1, (*HIDDEN[:2], _PASSES)),
        lines=2,
        goals=(_BARRIERS,),
        hints=(
            "What could go wrong without the first barrier, and in which passes of the loop over c0?",
            "A thread that is early would store new masks while others still read the previous ones. The first pass "
            "has no previous ones.",
            "A barrier may stand in an if, as long as all threads of the block decide alike: c0 is the same for all.",
        ),
        mistakes=(
            Mistake(
                "All threads of a block have to decide alike whether they wait. c0 is the same for all; threadIdx, and "
                "what follows from it, is not.",
                lambda attempt: bool(attempt.wrong and _UNLIKE.search(attempt.source)),
            ),
            Mistake(
                "The second barrier stays as it is: no thread may sum before all masks are stored.",
                lambda attempt: "uninitialized" in attempt.findings,
            ),
            Mistake(
                "From the second pass on, slow threads may still read the masks that fast ones replace: there the "
                "barrier is needed.",
                lambda attempt: "race" in attempt.findings,
            ),
            Mistake(
                "The barrier has moved, but it still runs in every pass: leave it out where there is nothing to wait "
                "for.",
                lambda attempt: bool(attempt.counts) and _BARRIERS.number(attempt.counts) == 2,
            ),
        ),
    ),
)
