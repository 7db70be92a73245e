"""Exercise 05a: read once, write often."""

import re

from labkit.exercises import HIDDEN, LAYER_1, Attempt, Exercise, InPlaceOf, Mistake, counted
from labkit.spec.layers import Layer

_MOST_STORES = 20_000  # of 49 * 80 * 80 elements: 9,800 requests and those of warps that end a row
# 1,834 inputs, and a block of 256 threads for the 256 outputs: a thread has up to eight inputs.
_NARROW = Layer("a map of one column", C=2, H=262, W=7, M=3, K=7), 2
_IM2COL, _LOADS = "layer 1, im2col", "global_load_requests"
# How an attempt may compare h or w with 0, and with the size of the map.
_LIMITS = (
    r"\b0 <=|>= 0\b|< 0\b|>= [pq]\b|\b[pq] <=|\bunsigned\b|\bmax\(0,|\bmax\([^()]*, 0\)",
    r"[<>]=? [HW]o\b|\b[HW]o [<>]|\bmin\([^()]*\b[HW]o\b",
)
# A window on the other side of the input.
_AWAY = re.compile(r"\b(?:h = [^;,]*|\(row )\+ p\b|\b(?:w = [^;,]*|column )\+ q\b")


# A loop of a fixed number of passes over inputs that lie a grid apart: "n + j * threads".
_FEW_INPUTS = re.compile(
    r"\bfor \(int (\w+) = 0; (\1 < ([2-9]));[^;{}]{1,20}\) \{[^{}]{0,200}\+ \1 \* (?:\w*threads\b|gridDim\.x)"
)


def _finds_unwritten(attempt: Attempt) -> bool:
    """Return whether the finding that is shown is a read of an element of u that no thread has written."""
    return "uninitialized" in attempt.wrong and " at u[" in attempt.wrong


def _im2col(attempt: Attempt) -> str:
    """Return the code of an attempt's kernel im2col."""
    return attempt.source.partition("gemm(")[0]


EXERCISE = Exercise(
    title="Read once, write often",
    subject=InPlaceOf("unroll_gemm", "a", LAYER_1, (*HIDDEN, _NARROW)),
    lines=15,
    goals=(
        counted(
            _LOADS,
            _IM2COL,
            at_most=300,
            least={"global_store_sectors": 39_200},
            # Two inputs of up to 49 windows, by all blocks: one block alone could keep the image.
            most={"busiest_warp": 200},
        ),
    ),
    start_reaches=(9800,),
    mistakes=(
        Mistake(
            "The window that has this input as its element (p, q) begins above it and to its left: from "
            "h + p = row follows h = row - p, and from w + q = column follows w = column - q.",
            lambda attempt: (
                attempt.runs_wrong and _AWAY.search(attempt.source.partition("gemm(")[0])
            ),
        ),
        Mistake(
            "Windows begin in row 0 and column 0: 0 < h or 0 < w leaves these out. The limit is 0 <= h, and 0 <= w.",
            lambda attempt: (
                attempt.runs_wrong and re.search(r"\b0 < [hw]\b|\b[hw] > 0\b", _im2col(attempt))
            ),
        ),
        Mistake(
            "The last window is that of row Ho - 1 and column Wo - 1: h < Ho and w < Wo, without the equals sign.",
            lambda attempt: (
                attempt.runs_wrong
                and re.search(r"\bh <= Ho\b(?! - 1)|\bw <= Wo\b(?! - 1)", _im2col(attempt))
            ),
        ),
        Mistake(
            "The row and the column of an input follow from W, the width of the image: i / W and i % W. Wo is the "
            "width of a map of outputs.",
            lambda attempt: (
                attempt.runs_wrong
                and (loop := re.search(r"\b(\w+) < H \* W\b", _im2col(attempt)))
                and re.search(rf"\b{loop[1]} [/%] Wo\b", _im2col(attempt))
            ),
        ),
        Mistake(
            "An image has H * W inputs, and the loop ends at pixels = Ho * Wo, the number of outputs: the last inputs "
            "come to no thread.",
            lambda attempt: (
                attempt.runs_wrong
                and (loop := re.search(r"; (\w+) < pixels;", _im2col(attempt)))
                and re.search(rf"\bx\[{loop[1]}\]", _im2col(attempt))
            ),
        ),
        Mistake(
            "Element (p, q) of a window belongs to row p * K + q of u, in the order of the mask: here p and q are "
            "exchanged.",
            lambda attempt: (
                attempt.wrong.startswith("right")
                and re.search(r"\bu\[\(q \* K \+ p\)", _im2col(attempt))
            ),
        ),
        Mistake(
            lambda attempt: (
                "`{1}`: a thread takes {2} inputs, one whole grid apart, and on other layers it has more. An image of "
                "262 x 7 inputs has 256 outputs, so its grid has 256 threads: some have eight inputs. Go on as long as "
                "the input is below H * W.".format(*_FEW_INPUTS.search(_im2col(attempt)).groups())
            ),
            lambda attempt: _finds_unwritten(attempt) and _FEW_INPUTS.search(_im2col(attempt)),
        ),
        Mistake(
            "A window that begins K rows above an input ends one row above it: the first window that contains row r "
            "begins in row r - K + 1, and it is the same with columns.",
            lambda attempt: (
                attempt.runs_wrong
                and re.search(r"\bmax\((?:0, \w+ - K|\w+ - K, 0)\)", _im2col(attempt))
            ),
        ),
        Mistake(
            "The last window begins in row Ho - 1 and column Wo - 1. So p is at least row - Ho + 1, and q is at least "
            "column - Wo + 1.",
            lambda attempt: (
                attempt.runs_wrong
                and not re.search(_LIMITS[1], _im2col(attempt))
                and re.search(r"\bmax\((?:0, \w+ - [HW]o|\w+ - [HW]o, 0)\)", _im2col(attempt))
            ),
        ),
        Mistake(
            "Near the edges of the image row - p or column - q is negative, or beyond the last window: then there "
            "is no window. (h, w) has limits on all four sides: compare both with 0, h with Ho, w with Wo.",
            lambda attempt: (
                attempt.runs_wrong and not all(attempt.matches(limit) for limit in _LIMITS)
            ),
        ),
        Mistake(
            "`if (n >= pixels) return` is the guard for outputs, and there are more inputs than outputs. Remove "
            "it, and let each thread take several inputs, one whole grid apart, up to H * W.",
            lambda attempt: (
                attempt.runs_wrong and attempt.matches(r"\bif \(\w+ >= pixels\)\s*return")
            ),
        ),
        Mistake(
            "The grid has a thread for each output, but there are more inputs: no thread takes those at the end. "
            "Let each thread take several inputs, one whole grid apart.",
            lambda attempt: (
                _finds_unwritten(attempt)
                and not attempt.matches(r"\bgridDim\b|\bpixels - 1\) /|\bi \+=|\bwhile\b")
            ),
        ),
        Mistake(
            "A column of u belongs to a window, not to an input: input (row, column) goes to column h * Wo + w, for "
            "each window (h, w) that contains it.",
            lambda attempt: (
                attempt.runs_wrong and attempt.matches(r"pixels \+ (?:row \* \w+ \+ column|i)\]")
            ),
        ),
        Mistake(
            "A row of outputs has Wo numbers, not W: the window (h, w) is column h * Wo + w of u.",
            lambda attempt: (
                attempt.runs_wrong
                and attempt.matches(r"\bu\[[^;]*(?:\bh|\(row - p\)) \* W \+[^;]*\] =")
            ),
        ),
        Mistake(
            "gemm reads elements of u that no thread has written. Does each of the H * W inputs come to a thread, "
            "and are its row and column those in an image of width W?",
            lambda attempt: _finds_unwritten(attempt),
            vague=True,
        ),
        Mistake(
            "Two threads write the same element of u. (h, w) has limits on all four sides, and no two threads take "
            "the same input.",
            lambda attempt: (
                {"race", "race between blocks"} & {*attempt.findings} and "u[" in attempt.wrong
            ),
            vague=True,
        ),
        Mistake(
            "Take one input and go through its windows by hand: which (h, w) contain the input (0, 0), and which "
            "contain (K, K)? Where in u are they?",
            lambda attempt: attempt.wrong.startswith("right"),
            vague=True,
        ),
        Mistake(
            "Several threads take the same inputs: the next input of a thread lies one whole grid apart.",
            lambda attempt: attempt.count("global_store_requests", _IM2COL) > _MOST_STORES,
        ),
        Mistake(
            "An input is still loaded for every window that contains it. Read it into a variable, before the loops "
            "over p and q.",
            # nearly as often as in the starting code
            lambda attempt: attempt.count(_LOADS, _IM2COL) > 5000,
        ),
    ),
)
