"""Exercise 08a: one store."""

from labkit.exercises import HIDDEN, LAYERS, Exercise, InPlaceOf, Mistake, counted
from labkit.spec.layers import Layer

_STORES = "global_store_requests"
_ODD = (Layer("maps of 35 pixels", C=2, H=13, W=11, M=5, K=7), 2)

EXERCISE = Exercise(
    title="One store",
    subject=InPlaceOf("fp16", "a", LAYERS, (_ODD, *HIDDEN[::2])),
    lines=6,
    goals=tuple(
        counted(_STORES, layer, at_most=count, what="store requests")
        for layer, count in (("layer 1", 400), ("layer 2", 296))
    ),
    start_reaches=(800, 592),
    mistakes=(
        Mistake(
            "The index of a half2 pointer counts pairs. So both terms are halved: (m * pixels + n) / 2. Here n alone "
            "is.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(
                    r"(?:\(\(half2 ?\*\) ?y\)|reinterpret_cast<half2 ?\*>\(y\))\[m \* pixels \+ n / 2\]"
                )
            ),
        ),
        Mistake(
            "The index counts halves, and this pointer counts pairs of them: so the pair lies twice as far. Add "
            "m * pixels + n to y first, then convert the pointer.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(
                    r"(?:\(half2 \*\) ?\(?y|reinterpret_cast<half2 \*>\(y)\)\[m \* pixels \+ n\]"
                )
            ),
        ),
        Mistake(
            "The outputs are halves, and a pair of them is a half2 of 4 bytes: convert the float2 before the "
            "store.",
            lambda attempt: attempt.wrong and attempt.matches(r"\(float2? \*\)"),
        ),
        Mistake(
            "A half2 has to lie at a multiple of four bytes. With an odd number of pixels every second map begins "
            "between two of them, and so does every second image if its maps are odd in number. Where `pixels` is "
            "even, every pair is right.",
            lambda attempt: "misaligned" in attempt.findings,
        ),
        Mistake(
            "There is a store of a half2 now, but the two stores of single pixels are executed as well: they "
            "belong into an else.",
            lambda attempt: (
                attempt.count(_STORES, "layer 1") > 800 and not attempt.matches(r"\belse\b")
            ),
        ),
        Mistake(
            "The two pixels are together in a half2, and then its halves are stored one by one, as before. One store "
            "of 4 bytes needs a pointer to half2.",
            lambda attempt: (
                attempt.count(_STORES, "layer 1") == 800
                and attempt.matches(r"= *__(?:floats2|float22)half2_rn\b")
                and not attempt.matches(r"half2 *\*")
            ),
        ),
        Mistake(
            "Maps with an odd number of pixels have to be stored, too: pixel by pixel, as before.",
            lambda attempt: "maps of 35 pixels" in attempt.wrong and "written" in attempt.wrong,
        ),
    ),
)
