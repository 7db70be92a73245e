"""Exercise 09b: a tile for all maps."""

import re

from labkit.exercises import HIDDEN, LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.exercises.text import find_line
from labkit.spec.layers import LENET72, Layer

_MAPS = "layer 2 of lenet72"  # 24 maps
# Three tiles of maps: the third one is the first of a pair.
_THREE = Layer("three tiles of maps", C=5, H=9, W=13, M=34, K=4), 3
_LOADS = "global_load_requests"

# "out of bounds, line 70: write of 2 bytes at y["
_WRITE_BEYOND = re.compile(r"out of bounds, line (\d+): write of \d+ bytes at y\[")
_STORED_MAP = re.compile(r"\by\[\(([\w +*]{1,80})\) \* pixels \+ n\]")
_ASKED_MAP = re.compile(r"\b(\w[\w +*]{0,80}) < M\b")


def _describe_guard(attempt: Attempt) -> str:
    """Return the sentence if the condition before a store leaves out a summand of its map; or ""."""
    write = _WRITE_BEYOND.search(attempt.wrong)
    for store in _STORED_MAP.finditer(attempt.source) if write else ():
        line = find_line(attempt.source, store.start())
        # conditions before it are of other work
        begin = attempt.source.rfind("store_matrix_sync", 0, store.start())
        guards = [*_ASKED_MAP.finditer(attempt.source, begin, store.start())] if begin >= 0 else ()
        if line != int(write[1]) or not guards:
            continue
        stored, asked = ({*match[1].split(" + ")} for match in (store, guards[-1]))
        if asked < stored:
            left_out = " + ".join(part for part in store[1].split(" + ") if part not in asked)
            return (
                f"Line {line} stores to map {store[1]}, and the condition before it asks whether map {guards[-1][1]} "
                f"exists: it leaves out {left_out}."
            )
    return ""


EXERCISE = Exercise(
    title="A tile for all maps",
    subject=InPlaceOf("tensor_cores", "b", {_MAPS: LENET72[1], **LAYER_1}, (HIDDEN[1], _THREE)),
    lines=22,
    goals=(counted(_LOADS, _MAPS, at_most=14_900), counted(_LOADS, "layer 1", at_most=12_904)),
    start_reaches=(28120, 12904),
    mistakes=(
        Mistake(
            "The block computes all maps now, but those with the other maps work as before: let every second one "
            "return at once.",
            lambda attempt: (
                attempt.count(_LOADS, _MAPS) > 20_000
                and "[2 * WM]" in attempt.source
                # those of every second one return
                and not attempt.matches(r"\bblockIdx\.y\s*[%&][^;{}]*\breturn\b")
            ),
        ),
        Mistake(
            "k_tile has rows for WM maps, and now it gets twice as many.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and "array k_tile" in attempt.wrong
                and "half k_tile[WM][" in attempt.source
            ),
        ),
        Mistake(_describe_guard, _describe_guard),
        Mistake(
            "A lane reads sums from y_tile that other lanes store there: between store_matrix_sync and these reads "
            "the lanes of the warp have to wait for each other.",
            lambda attempt: (
                "race" in attempt.findings
                and "array y_tile" in attempt.wrong
                and attempt.matches(r"store_matrix_sync\([^;]*;\s*(?:#[^\n]*\s*)?for \(int i\b")
            ),
        ),
        Mistake(
            "The second sums are stored over the first ones in y_tile, while other lanes still read those. What says "
            "that all lanes of the warp have read them?",
            lambda attempt: (
                "race" in attempt.findings
                and "array y_tile" in attempt.wrong
                and attempt.source.partition("store_matrix_sync")[2].count("__syncwarp") < 2
            ),
        ),
        Mistake(
            "The sums go on from one tile of pixels to the next: they have to begin at zero in each turn of the loop "
            "over n0.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "fill_fragment(" in attempt.source.partition("for (int n0")[0]
                and "fill_fragment(" not in attempt.source.partition("for (int n0")[2]
            ),
        ),
        Mistake(
            "Only the blocks with blockIdx.y = 0 go on. With more than two tiles of maps, block 2 has to compute the "
            "next two.",
            lambda attempt: (
                "three tiles of maps" in attempt.wrong
                and attempt.matches(r"\bif \(blockIdx\.y(?: > 0| != 0| >= 1)?\)\s*\{?\s*return;")
            ),
        ),
        Mistake(
            "Each of the two sums has to begin at zero.",
            lambda attempt: (
                attempt.wrong
                and attempt.source.count("fill_fragment(") == 1
                and "fill_fragment(sum[0]" in attempt.source
            ),
        ),
        Mistake(
            "Both products have the same maps: the second tile of the mask begins at row WM of k_tile.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and "sum[" in attempt.source
                and {"0"} == {*re.findall(r"&k_tile\[([^\]]*)\]\[step\]", attempt.source)}
            ),
        ),
    ),
)
