"""Exercise 07a: one bank per thread."""

import re

from labkit.exercises import LAYER_1, Exercise, InPlaceOf, Mistake, counted

EXERCISE = Exercise(
    title="One bank per thread",
    subject=InPlaceOf("tuning", "a", LAYER_1),
    lines=2,
    # 35 stores of warps, one for each thread's word of the masks.
    goals=(counted("shared_store_wavefronts", "layer 1", per=35, what="wavefronts per shared store", at_most=1.05,
                   least={"shared_store_instructions": 9}),),
    mistakes=(
        Mistake(
            "mask has a row per term: the weight of term t for map m is mask[t][m]. Only the order of i changes.",
            lambda attempt: bool(attempt.wrong) and "mask[TERMS]" in attempt.source and "mask[m][t]" in attempt.source,
        ),
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
)
