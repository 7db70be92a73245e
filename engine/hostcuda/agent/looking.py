"""What ``hostcuda lines`` and ``hostcuda step`` print: an answer of `hostcuda.agent.look` as text."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

_SPACES = {"ld": "loads of", "st": "stores to", "atom": "atomics on", "red": "atomics on"}


def as_text(answer: Mapping) -> str:
    """Return an answer of `hostcuda.agent.look` as text: lines with their counts, or a thread's steps.

    At the end it says why there are none, or how to get those that are not shown.
    """
    if "steps" in answer:
        texts = [text for step in answer["steps"] for text in _write_step(step)]
    else:
        texts = [text for line in answer["lines"] for text in _write_line(line)]
    return "\n".join([*texts, *(answer[key] for key in ("why_none", "next") if key in answer)])


def _write_line(row: Mapping) -> list[str]:
    """Return lines of text about one source line's accesses of one kind: how many requests, and the worst one."""
    units = "sectors" if "sectors" in row else "wavefronts"
    count = row.get(units, 0)
    array = row["array"] or f"{row['space']} memory"
    worst = row["worst"]
    block = ",".join(map(str, worst["block"]))
    return [
        f"line {row['line']}: {row['text']}",
        f"  {_SPACES[row['op']]} {array}, {row['size']} bytes each: {row['requests']:,} requests, {count:,} {units} "
        f"({count / row['requests']:.3g} per request)",
        f"  the worst: {worst['units']}, warp {worst['warp']} of block ({block}), elements "
        + _write_lanes(worst["lanes"]),
    ]


def _write_lanes(lanes: Sequence[int | None]) -> str:
    """Return the elements that the lanes access, as a progression where they are one: "0, 2, … 62"."""
    known = [lane for lane in lanes if lane is not None]
    steps = {after - before for before, after in itertools.pairwise(known)}
    if len(known) > 3 and len(steps) == 1:
        shown = f"all {known[0]}" if steps == {0} else f"{known[0]}, {known[1]}, … {known[-1]}"
    else:
        shown = ", ".join(map(str, known))
    idle = len(lanes) - len(known)
    return f"{shown}{f' ({idle} lanes inactive)' if idle else ''}"


def _write_step(row: Mapping) -> list[str]:
    """Return lines of text about one source line that a thread ran: the variables that it set, and its accesses."""
    sets = [f"{name} = {value}" for name, value in row["sets"].items()]
    return [f"line {row['line']}: {row['text']}", *(f"  {text}" for text in sets + row["accesses"])]
