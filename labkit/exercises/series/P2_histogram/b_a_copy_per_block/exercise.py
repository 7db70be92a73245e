"""Exercise P2b: a histogram with a copy of the bins per block."""

import re

from labkit.exercises import Case, Exercise, Kernels, Mistake, counted
from labkit.exercises.causes import LOST_REST, MORE_WARPS, SIGNED_PIXEL
from labkit.exercises.practice import NIGHT, TOO_LARGE, histogram, wrong_shares

_PIXELS = "4,096 pixels"


EXERCISE = Exercise(
    title="A copy per block",
    subject=Kernels(
        histogram,
        (
            Case("1,000 pixels in 3 blocks of 64", (1000, 3, 64, 30)),
            Case("100 pixels in 2 blocks of 512", (100, 2, 512, 30)),
            Case("779 pixels in 2 blocks of 300", (779, 2, 300, 30)),
            NIGHT,
            Case(_PIXELS, (4096, 4, 128, 30), counted=True),
        ),
        hidden=(range(1, 3000), range(1, 6), range(32, 544, 32), [30]),
    ),
    goals=(
        counted(
            "global_load_requests",
            _PIXELS,
            what="load requests",
            at_most=128,
            least={"unique_bytes": 4096},
        ),
        counted(
            "reduction_requests",
            _PIXELS,
            what="atomic requests to global memory",
            at_most=32,
            most={"busiest_warp": 36},  # four blocks share the pixels
        ),
        counted(
            "barriers",
            _PIXELS,
            per=4 * 4,
            what="barriers per warp",
            at_most=2,
            most={"named_barriers": 0},
        ),
        counted(
            "busiest_warp", _PIXELS, what="memory instructions of the busiest warp", at_most=128
        ),
    ),
    mistakes=(
        SIGNED_PIXEL,
        LOST_REST,
        MORE_WARPS,
        Mistake(
            "Shared memory begins undefined: a thread of the block has to set each of the 256 counts to zero.",
            lambda attempt: (
                "uninitialized" in attempt.findings and attempt.source.count("= 0;") == 0
            ),
        ),
        Mistake(
            "A block may have fewer than 256 threads: zero and add the bins in a loop, blockDim.x apart.",
            lambda attempt: (
                attempt.runs_wrong
                and not {"race", "race between blocks"} & {*attempt.findings}
                and len(
                    re.findall(
                        r"\b(?:for|while) *\([^)]{0,300}\b(?:25[56]|[A-Z_]{2,})\b", attempt.source
                    )
                )
                < 2
            ),
        ),
        Mistake(
            "A pixel is 0 to 255, so there are 256 counts: the array in shared memory has fewer.",
            lambda attempt: (
                "out of bounds" in attempt.findings
                and "__shared__ array" in attempt.wrong
                and (size := re.search(r"__shared__ [\w ]+ \w+\[(\d{1,9})\] *;", attempt.source))
                and int(size[1]) < 256
            ),
        ),
        Mistake(
            "Each thread of a block adds all 256 counts to the bins, which are as many times too large as a block has "
            "threads. Let thread v add the counts v, v + blockDim.x and so on.",
            lambda attempt: (
                (found := TOO_LARGE.search(attempt.wrong)) and found[1] == found[2] != "1"
            ),
        ),
        Mistake(
            "Only block 0 adds its counts to the bins, and those of the other blocks are lost: each block has its own "
            "counts, and adds them itself.",
            lambda attempt: (
                attempt.wrong.startswith("right") and attempt.matches(r"\bif \(blockIdx\.x == 0\b")
            ),
        ),
        Mistake(
            "One thread goes through all 256 counts, one after the other, and the others wait for it: let thread v "
            "take the counts v, v + blockDim.x and so on.",
            lambda attempt: (
                attempt.count("busiest_warp", _PIXELS) >= 256
                and attempt.count("reduction_requests", _PIXELS) <= 32
                and attempt.matches(
                    r"\bif \((?:threadIdx\.x|tid|t|thread) == 0\)\s*\{?\s*"
                    r"for \([^;]*= 0; \w+ < 256; (?:\+\+\w+|\w+\+\+)\)"
                )
            ),
        ),
        Mistake(
            "Threads of a block add to one count at the same time: atomicAdd works in shared memory, too.",
            lambda attempt: (
                "race" in attempt.findings
                and attempt.matches(r"\w\[\w+\[\w+\]\](?:\+\+| \+= )|\+\+\w+\[\w+\[")
            ),
        ),
        Mistake(
            "Threads of different blocks add to one bin: the last additions have to be atomic, too.",
            lambda attempt: "race between blocks" in attempt.findings,
        ),
        Mistake(
            "A request to global memory can carry the additions of 32 lanes, and here a single lane makes them: "
            "let thread v add the counts v, v + blockDim.x and so on.",
            lambda attempt: (
                32
                < attempt.count("reduction_requests", _PIXELS)
                == attempt.count("reduction_sectors", _PIXELS)
            ),
        ),
        Mistake(
            "Each pixel still costs an atomic addition to global memory: count in shared memory, and add the "
            "counts once per block.",
            lambda attempt: (
                attempt.count("reduction_requests", _PIXELS) >= 128
                and not attempt.count("shared_atomic_requests", _PIXELS)
            ),
        ),
        Mistake(
            lambda attempt: (
                "The pixels are counted in shared memory, and then four blocks add their counts by "
                f"{attempt.count('reduction_requests', _PIXELS):.0f} requests, where 8 per block are enough for 256 "
                "counts: has a block several copies of them, each of which it adds?"
            ),
            lambda attempt: (
                attempt.count("reduction_requests", _PIXELS) > 32
                and attempt.count("shared_atomic_requests", _PIXELS)
            ),
            vague=True,
        ),
        wrong_shares("histogram", "pixels", 64, "pixel"),
    ),
)
