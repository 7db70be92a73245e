"""The memory accesses of one warp at one line of a kernel, as the CPU engine saw them.

The kernel runs twice in a process of its own: the first run tells which warp made the worst access
at each line, the second one keeps that warp's accesses. This module, as ``python -m
labkit.evidence.accesses``, is the program that runs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from hostcuda import checking
from hostcuda.limits import SECTOR
from labkit.base.errors import LabError
from labkit.evidence import child
from labkit.ladder.plan import Plan
from labkit.ladder.variants import Variant
from labkit.spec.layers import Layer


@dataclass(frozen=True)
class WarpAccess:
    """One access of a warp."""

    space: str  # "global", "shared" or "constant"
    op: str  # "ld", "st" or "atom"
    size: int  # bytes per lane
    # what the engine counted for it: sectors of global memory, wavefronts of the other two
    units: int
    name: str  # the array's name; empty if it has none
    base: int  # the array's address
    lanes: dict[int, int]  # lane to address; without the lanes that take no part


@dataclass(frozen=True)
class WarpLine:
    """The accesses of one warp at one line."""

    variant: str  # its label
    kernel: str  # its name
    file: str  # the file's name
    text: str  # the line's text
    line: int  # the line's number, from 1
    block: tuple[int, int, int]  # the block's index (x, y, z)
    warp: int  # its number in the block
    # of all warps' accesses at this line, the one with the most sectors or wavefronts
    worst: WarpAccess
    following: list[WarpAccess]  # what the same warp did next at this line


def accesses(of: Variant | int, layer: Layer | str, line: int | None = None) -> WarpLine:
    """Return the worst access at a line of a variant's own file, and what the same warp did there next.

    The worst one took the most sectors of global memory, or wavefronts of another one. The variant
    computes one image. `line` counts from 1; by default it is the line with the most sectors or
    wavefronts above what its bytes need. Raises LabError if `line` has no accesses or the kernel
    failed (the message says why), CompileError if it does not compile.
    """
    variant = child.require_one(of, "draw.accesses")  # the name is for messages
    lines = variant.source.splitlines()
    if line is not None and not (isinstance(line, int) and 1 <= line <= len(lines)):
        raise LabError(f"line = {line!r}: {variant.file_name} has the lines 1 to {len(lines)}")
    # The dicts that `_list_accesses` has returned in the child process: first the place and the
    # warp (without accesses, only the "lines" that have some), then one per access, the worst first.
    # `__name__`: this module is the child's program.
    where, *records = child.trace(
        variant, layer, __name__, check="profile", purpose="drawing the accesses", line=line
    )
    if not records:
        lines_text = ", ".join(map(str, where["lines"])) or "none"
        which = f"line {line} of " if line else ""
        raise LabError(
            f"{which}{variant.file_name} accesses no global, shared or constant memory; lines that do: "
            f"{lines_text}"
        )
    # the keys of "lanes" become integers again: JSON has made them texts
    worst, *following = (
        WarpAccess(**record | {"lanes": {int(lane): at for lane, at in record["lanes"].items()}})
        for record in records
    )
    text = lines[where["line"] - 1].strip()
    return WarpLine(
        variant.label,
        where["kernel"],
        variant.file_name,
        text,
        where["line"],
        tuple(where["block"]),
        where["warp"],
        worst,
        following,
    )


_FOLLOWING = 8  # accesses that are kept after the worst one


def _count_excess(site: dict) -> int:
    """Return the sectors or wavefronts of a site, an access in the source, above those that its bytes need.

    `site` is a dict of the engine's; one in shared or constant memory has the number already, as
    "conflicts".
    """
    return (
        site["conflicts"]
        if "conflicts" in site
        else max(0, site["sectors"] - -(-site["bytes"] // SECTOR))
    )


def _select_rows(rows: Iterable[dict], file_name: str, line: int | None) -> list[dict]:
    """Return the sites or requests in this file, and at this line if one is given, without those of local memory."""
    return [
        row
        for row in rows
        if row["space"] in ("global", "shared", "constant")
        and row["file"]
        and Path(row["file"]).name == file_name
        and line in (None, row["line"])
    ]


def _list_accesses(plan: Plan, line: int | None) -> list[dict]:
    """Return the rows for `accesses`: the place and the warp; then, a `WarpAccess` each, what it accesses there.

    If the line, or the file, accesses no memory: only {"lines": numbers of the lines with
    accesses}.
    """
    file_name = plan.variant.file_name

    def run():
        """Run the plan; return a record of each of its launches, the last ones of this process."""
        child.run_and_wait(plan)
        return checking.launches()[-len(plan.launches) :]

    # from here on the engine notes at each site which warp made the worst request
    checking.follow()
    records = run()
    sites = [
        (number, site)
        for number, record in enumerate(records)
        for site in _select_rows(record.sites, file_name, line)
    ]
    if not sites:
        lines = {
            site["line"]
            for record in records
            for site in _select_rows(record.sites, file_name, None)
        }
        return [{"lines": sorted(lines)}]
    excess = Counter()  # of each line, as (number of the launch, line)
    for number, site in sites:
        excess[number, site["line"]] += _count_excess(site)
    chosen = excess.most_common(1)[0][0]
    number, site = max(
        (pair for pair in sites if (pair[0], pair[1]["line"]) == chosen),
        key=lambda pair: (pair[1]["worst"]["units"], _count_excess(pair[1])),
    )
    worst = site["worst"]
    # the next run keeps each request of this warp
    checking.follow(tuple(worst["block"]), worst["warp"])
    record = run()[number]
    requests = _select_rows(record.requests, file_name, site["line"])
    # The op is compared loosely: an atomic whose result is not used is "red" among the sites,
    # "atom" in requests.
    first = next(
        i
        for i, request in enumerate(requests)
        if all(request[name] == site[name] for name in ("space", "size"))
        and request["units"] == worst["units"]
        and (request["op"] == "ld") == (site["op"] == "ld")
    )
    # x, k, y: arrays that the engine has no name of
    names = {address: name for name, address in plan.buffers.items()}
    where = {
        "kernel": record.kernel,
        "line": site["line"],
        "block": worst["block"],
        "warp": worst["warp"],
    }
    return [
        where,
        *(
            {
                **{name: request[name] for name in ("space", "op", "size", "units", "base")},
                "name": request["name"] or names.get(request["base"], ""),
                # A lane that takes no part has a negative address.
                "lanes": {
                    lane: address
                    for lane, address in enumerate(request["addresses"])
                    if address >= 0
                },
            }
            for request in requests[first : first + 1 + _FOLLOWING]
        ),
    ]


if __name__ == "__main__":
    child.trace_plans(_list_accesses)
