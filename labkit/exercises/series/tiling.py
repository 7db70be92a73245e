"""The exercises of page 04."""

import re

from labkit.exercises.exercise import Exercise, Mistake, counted
from labkit.exercises.subjects import LAYERS, InPlaceOf

_WAVEFRONTS = "wavefronts_per_shared_load"
# Threads leave a pass or the kernel; or a condition has a barrier, or the loop that loads the inputs, inside of it.
_SKIPS = re.compile(r"\b(?:continue|return);|\bif \(h < Ho && w < Wo\)\s*(?:\{[^}]*__syncthreads|for \(int i)")


def _textbook(layer):
    """The padding of textbooks, for a layer on which it leaves conflicts."""

    def padded(attempt):
        conflicts = attempt.counts.get(layer, {}).get(_WAVEFRONTS, 0) > 1.05
        return conflicts and bool(re.search(r"\]\[SIDE \+ 1\]", attempt.source))

    return Mistake(
        "SIDE + 1 is the padding for a column, whose words lie a row apart. Here a warp reads two rows, and "
        "with 23 words per row their banks still overlap.",
        padded,
    )


EXERCISES = (
    Exercise(
        number="04a",
        page="tiling",
        title="Rows apart",
        subject=InPlaceOf("tiling", "a", {"layer 1": LAYERS["layer 1"]}),
        lines=1,
        goals=(counted(_WAVEFRONTS, "layer 1", at_most=1.05),),
        hints=(
            "A warp reads two rows of the tile, 16 words of each. In which banks does the second row begin?",
            "The rows have SIDE = 22 words, so the second begins at bank 22 and ends at bank 37 - 32 = 5: six banks "
            "are asked twice. Where would it have to begin?",
            "A row of 16 words more than a multiple of 32 puts the second row into the other half of the banks: pad "
            "the rows to 48 words.",
        ),
        mistakes=(
            _textbook("layer 1"),
            Mistake(
                "This is a row more, and the rows are as long as before: the second index is the length of a row.",
                lambda attempt: bool(re.search(r"\[SIDE \+ \d+\]\[SIDE\]", attempt.source)),
            ),
        ),
    ),
    Exercise(
        number="04b",
        page="tiling",
        title="No sum without an output",
        subject=InPlaceOf("tiling", "b", {"layer 2": LAYERS["layer 2"]}),
        lines=5,
        goals=(
            counted(_WAVEFRONTS, "layer 2", at_most=1.05),
            counted("shared_load_wavefronts", "layer 2", at_most=205_000),
        ),
        hints=(
            "Two things cost wavefronts: the conflicts of 04a, and sums that no thread stores. Which threads compute "
            "those?",
            "The condition of the store says which threads have an output. The others have to load inputs and to reach "
            "both barriers, and nothing else.",
            "Put the condition before the three loops of the sum, between the two barriers, and pad the rows of the "
            "tile as in 04a.",
        ),
        mistakes=(
            Mistake(
                "Threads without an output load inputs for the others, and all threads of a block have to reach both "
                "barriers: put the condition before the loops of the sum, and nowhere else.",
                lambda attempt: bool(attempt.wrong and _SKIPS.search(attempt.source)),
            ),
            _textbook("layer 2"),
        ),
    ),
)
