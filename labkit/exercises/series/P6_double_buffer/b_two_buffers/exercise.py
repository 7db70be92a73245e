"""Exercise P6b: a double buffer.

A cheat would wait for each copy behind a comparison or two: a copy counts only if its thread reads
as much as between two barriers while it is under way. Reads that pass the time, and copies that
nobody needs, are more shared load bytes and copied bytes than the tiles have.
"""

import re

from labkit.exercises import Attempt, Exercise, Mistake
from labkit.exercises.causes import COPIES_OF_SOME, NO_GROUP_BEHIND
from labkit.exercises.practice import NOT_COPIED, RANKS, make_ranks_goals
from labkit.exercises.text import find_line

# The steps whose order matters; each is a group, and that of a wait is its number.
_STEP = re.compile(
    r"(?P<copy>__pipeline_memcpy_async\(&\w+\[(?:(?:1 - |!)?\w+(?: \^ 1)?|\(\w+ \+ 1\) (?:% 2|& 1))\])|"
    r"(?P<commit>__pipeline_commit\()|"
    r"__pipeline_wait_prior\((?P<wait>\d)\)|(?P<barrier>__syncthreads\()|(?P<loop>\bwhile\b|\bfor\b)"
)
_EARLY = ["copy", "commit", "loop", "copy", "commit", "wait", "barrier", "loop"]
_LATE = ["copy", "commit", "loop", "wait", "barrier", "copy", "commit", "loop"]


def _explain_order(attempt: Attempt) -> str:
    """Return which lines of a loop over two buffers are in a wrong order, or wait for too little; or ""."""
    steps = [*_STEP.finditer(attempt.source)]
    order = [step.lastgroup for step in steps]
    if order not in (_EARLY, _LATE) or not attempt.matches(r"\b__shared__ float \w+\[2\]\["):
        return ""
    if not re.search(
        r"\[(?:1 - |!|\w+ \^ 1|\()", [*filter(None, (step["copy"] for step in steps))][1]
    ):
        return ""  # not into the other buffer
    lines = [str(find_line(attempt.source, step.start())) for step in steps]
    wait = steps[order.index("wait")]["wait"]
    if order == _EARLY and wait == "1":
        return (
            f"Line {lines[3]} begins the next copies before the barrier in line {lines[6]}: other threads may still "
            "read that buffer. Move these copies and their commit behind the barrier. Then no later group is under way "
            f"at the wait in line {lines[5]}, and it has to be __pipeline_wait_prior(0)."
        )
    if order == _LATE and wait != "0":
        return (
            f"At the wait in line {lines[3]} the last group that was begun is that of the tile which this turn reads. "
            f"__pipeline_wait_prior({wait}) does not wait for it: here it has to be __pipeline_wait_prior(0)."
        )
    return ""


def _advise_order(attempt: Attempt) -> str:
    """Return the order of the steps for two buffers, where the attempt has two and another order; else ""."""
    order = [step.lastgroup for step in _STEP.finditer(attempt.source)]
    if order == _LATE or not attempt.matches(r"\b__shared__ float \w+\[2\]\["):
        return ""
    return " With two buffers, each turn first waits, then comes the barrier, then the copies of the next tile begin."


# "&tile[now][t], ...; commit; for (...) smaller += tile[now][j]", without a barrier between; group: the buffer
_SAME_BUFFER = re.compile(
    r"__pipeline_memcpy_async\(&(?P<buffer>\w+\[[\w ^%+-]{1,40}\])\[(?:(?!__syncthreads)[^}]){1,400}?"
    r"(?<!&)(?P<read>\b(?P=buffer)\[)"
)


def _explain_same_buffer(attempt: Attempt) -> str:
    """Return which line copies the next tile into the buffer that another line reads behind it, or ""."""
    copies = _SAME_BUFFER.search(attempt.source)
    if not copies or "race with a copy" not in attempt.findings:
        return ""
    names = "|".join(re.findall(r"\b[a-zA-Z_]\w*", copies["buffer"]))
    if re.search(rf"\b(?:{names})\b *(?:[-+*^%]?=(?!=)|\+\+)|\+\+(?:{names})\b", copies[0]):
        return ""  # another buffer, if the number changes in between
    copied, read = (
        find_line(attempt.source, place) for place in (copies.start(), copies.start("read"))
    )
    return (
        f"Line {copied} copies into `{copies['buffer']}`, and line {read} reads there in the same turn, while the "
        "copies are under way. One of the two belongs to the other buffer."
    )


EXERCISE = Exercise(
    title="Two buffers",
    subject=RANKS,
    goals=make_ranks_goals(barriers=4 + 1, overlap=True),
    mistakes=(
        NOT_COPIED,
        Mistake(
            _explain_order,
            lambda attempt: "race with a copy" in attempt.findings and _explain_order(attempt),
        ),
        Mistake(_explain_same_buffer, _explain_same_buffer),
        NO_GROUP_BEHIND,
        COPIES_OF_SOME,
        Mistake(
            lambda attempt: (
                "A buffer is read while a copy into it is under way: its thread has not waited for it, or the buffer "
                f"is used again too early.{_advise_order(attempt)}"
            ),
            lambda attempt: "race with a copy" in attempt.findings,
            vague=True,
        ),
        Mistake(
            "Nobody copies the first tile: its copies have to begin before the loop, as in turn t those of tile t + 1 "
            "begin.",
            lambda attempt: (
                "uninitialized" in attempt.findings
                and attempt.source.count("__pipeline_memcpy_async(") == 1
                and attempt.matches(r"\bfor \([^{}]*\{[^{}]*__pipeline_memcpy_async")
            ),
        ),
        Mistake(
            "Nothing overlaps: each copy is waited for before the block reads a tile again. Start the copies of "
            "the next tile before you compare with the present one, and wait for them behind it.",
            lambda attempt: (
                0 < attempt.count("barriers", "512 numbers") < 16 * 2 * 4
                and not attempt.count("overlapped_bytes", "512 numbers")
            ),
        ),
        Mistake(
            "One buffer needs two barriers per tile. With two, the barrier that says that a tile is complete also "
            "says that nobody reads the one before.",
            lambda attempt: attempt.count("barriers", "512 numbers") >= 16 * 2 * 4,
        ),
    ),
)
