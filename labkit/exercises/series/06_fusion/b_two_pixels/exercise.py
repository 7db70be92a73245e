"""Exercise 06b: two outputs per thread."""

import re

from labkit.exercises import LAYERS, Attempt, Exercise, InPlaceOf, Mistake, counted

# Products of a warp on layer 2, with those that only fill tiles: 73 blocks of 8 warps, 13 steps of
# 16.
# A load of four words counts as four.
_PER_PRODUCT = counted(
    "shared_load_bytes",
    "layer 2",
    per=73 * 8 * 13 * 16 * 32 * 4,
    what="shared loads per product",
    at_most=1.6,
    least={"shared_load_instructions": 60_000},
    most={"global_load_requests": 15_184, "lane_exchanges": 0},  # two per warp and step
)


def _count_loads(attempt):
    """Return the loads per product; 0 if nothing was counted."""
    return _PER_PRODUCT.number(attempt.counts) if attempt.counts else 0


# "out of bounds, line 27: read of 4 bytes at x["
_READ_BEYOND = re.compile(r"out of bounds, line (\d+): read of \d+ bytes at x\[")
_SECOND = re.compile(r"\bint (\w+) = n \+ TILE[,;]")


def _describe_guard(attempt: Attempt) -> str:
    """Return the sentence if the load of the second pixel asks for the first one alone; or ""."""
    read, second = _READ_BEYOND.search(attempt.wrong), _SECOND.search(attempt.source)
    lines = attempt.source.splitlines()
    if not read or not second or int(read[1]) > len(lines):
        return ""
    name = second[1]
    # the pixel, its row and its column: "h2 = right / Wo"
    names = [name, *re.findall(rf"\b(\w+) = {name} [/%] Wo\b", attempt.source)]
    asked, _, load = lines[int(read[1]) - 1].partition("?")
    variable = re.search(r"= (\w+) $", asked)
    where = f"`{variable[1]}`" if variable else "its condition"
    if variable:
        defined = re.findall(rf"\bbool {variable[1]} = ([^;]{{1,200}});", attempt.source)
        asked = defined[0] if len(defined) == 1 else ""
    if (
        not re.search(rf"\bx\[[^;]*\b(?:{'|'.join(names)})\b", load)
        or not re.search(r"\bn < pixels\b", asked)
        or re.search(rf"\b{name}\b|\bTILE\b", asked)
    ):
        return ""
    return (
        f"Line {read[1]} loads for the pixel {name}, and {where} asks whether n exists: at the end of a map a thread "
        f"may have n, and not {name}. It needs {name} < pixels."
    )


EXERCISE = Exercise(
    title="Two outputs per thread",
    subject=InPlaceOf("fusion", "b", {"layer 2": LAYERS["layer 2"]}, moves=True),
    lines=22,
    goals=(_PER_PRODUCT,),
    start_reaches=(2,),
    mistakes=(
        Mistake(
            "A thread that returns loads nothing for the others and misses the barriers: only a whole block may "
            "return, and blockIdx.x says which.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bif \(n\b(?![^;]*threadIdx)[^)]*\) return;")
            ),
        ),
        Mistake(
            "The second pixel has its own row and column: h and w follow from n + TILE, as they do from n.",
            lambda attempt: (
                attempt.runs_wrong
                and "n / Wo" in attempt.source
                and len(re.findall(r"/ Wo\b", attempt.source)) == 1
            ),
        ),
        Mistake(_describe_guard, _describe_guard),
        Mistake(
            "Each pixel needs its own guard: at the end of a map a thread may have the pixel n, and none at "
            "n + TILE.",
            lambda attempt: (
                "were not written" in attempt.wrong
                and _has_one_guard(attempt.source.rpartition("__sync")[2])
            ),
        ),
        Mistake(
            "Neighbouring blocks compute the same pixels: a block has 2 * TILE of them, so the next one begins as "
            "far away.",
            lambda attempt: (
                _count_loads(attempt) > 2.5
                and attempt.matches(r"(?<!2 \* )blockIdx\.x \* TILE(?! \* 2)")
            ),
        ),
        Mistake(
            "Every second block has no pixel, but it still multiplies zeros: let the whole block return at its "
            "beginning.",
            lambda attempt: _count_loads(attempt) > 2.5 and not attempt.matches(r"\breturn\b"),
        ),
        Mistake(
            "A thread computes two pixels now, and still loads both factors for each product. Both pixels are "
            "multiplied with the same element of k_tile: load it once into a variable, and use it twice.",
            # 2: both factors of each product; a little more with the last block, which has fewer pixels
            lambda attempt: (
                2 <= _count_loads(attempt) < 2.1 and attempt.matches(r"\b2 \* TILE|TILE \* 2\b")
            ),
        ),
    ),
)


def _has_one_guard(stores):
    """Return whether the code of the stores compares only the second pixel with the size of the map."""
    return "n + TILE < pixels" in stores and not re.search(r"\bn < pixels", stores)
