"""Name what a kernel wastes most, by the counts of its launches: one line of the source, one number, one remedy.

The units of all kinds are passes of one multiprocessor's load and store unit: a sector of global
memory beyond those that the bytes need, a wavefront of shared memory beyond the first, a lane of an
atomic operation that waits for another one on the same word, and what idle lanes could have done.
What no order of the threads would spare is not called a waste: the second half of a sector that the
next load of the same lane reads, or banks in which lanes meet because data are their indices.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hostcuda.source import code_only, get_line

_WARP, _SECTOR, _LINE = 32, 32, 128  # threads; bytes; bytes
_LEAST_SHARE = 0.25  # of all units of the launches: less waste than this is not named
_SPARE = 2  # times the best number of sectors, up to which nothing is named
_FEW_LANES = 0.6  # of a warp
_OFTEN = 8  # requests for one sector by a block, from which on keeping it is worth a word
# A lane's elements lie side by side, and the warp's fill most of the sectors that it loads: less than
# four times the best number of sectors, or few lines of memory.
_NEAR, _NEAR_LINES, _FULL = 4, 2.5, 0.6
_FEW_WAVEFRONTS = 4  # as many are needed by 32 lanes that choose their banks at random
_NEIGHBOURS = "let neighbouring threads access neighbouring elements"
_VERBS = {"ld": "load", "st": "store", "atom": "atomic operation", "red": "atomic operation"}


class Waste(NamedTuple):
    """What one line of the source wastes (line 0: what the shape of the launch wastes).

    `units` is how many passes of the load and store unit (see the module) are wasted; `says` names the
    waste as a clause, and `remedy` what to do about it.
    """

    line: int
    units: float
    says: str
    remedy: str


def find_waste(launches: Sequence[Mapping], source: str = "") -> Waste | None:
    """Return the largest waste of launches, or None if no waste is a quarter of all units.

    A unit is a sector of global memory, or a wavefront of another memory, that an access takes.

    Parameters
    ----------
    launches : sequence of mapping
        The facts of `hostcuda.checking.LaunchRecord` by their names: ``block``, its shape, and
        ``sites``, a dict per access of the source with its counts.
    source : str
        The text in which the sites have their line numbers. It shows which arrays have rows, and
        which indices are data.
    """
    sites = [site for launch in launches for site in launch["sites"] if site["requests"]]
    total = sum(_count_units(site) for site in sites)
    code = code_only(source)
    wastes = []
    for launch in launches:
        # whether accesses that are near each other together use their sectors: then none of them is blamed
        fills = _fill_sectors(launch["sites"])
        for site in launch["sites"]:
            if site["requests"] and site["line"]:
                is_spared = fills and _is_near(site)
                wastes += _find_wastes_of(site, launch["block"], code, is_spared)
    wastes += [waste for launch in launches for waste in _find_idle_threads(launch)]
    largest = max(wastes, key=lambda waste: waste.units, default=None)
    if largest is None or largest.units >= _LEAST_SHARE * total:
        return largest
    # Several lines may waste sectors together, such as one for each member of a struct. `_NEIGHBOURS` is
    # the remedy for sectors.
    alike = [waste for waste in wastes if waste.remedy == _NEIGHBOURS]
    if sum(waste.units for waste in alike) < _LEAST_SHARE * total:
        return None
    worst = max(alike, key=lambda waste: waste.units)
    others = sorted({waste.line for waste in alike} - {worst.line})
    if not others:
        return worst
    also = f", and too many at {'lines' if others[1:] else 'line'} {', '.join(map(str, others))}"
    return worst._replace(says=worst.says + also)


def _count_units(site: Mapping) -> int:
    """Return the sectors or wavefronts of an access."""
    return site.get("sectors", site.get("wavefronts", site["requests"]))


def _is_near(site: Mapping) -> bool:
    """Return whether a warp's accesses to global memory are close together, though not side by side.

    Then other accesses may use the rest of the same sectors.
    """
    if site["space"] != "global" or site["op"] not in ("ld", "st"):
        return False
    sectors = max(site["requests"], site["bytes"] / _SECTOR)
    lines = max(site["requests"], site["bytes"] / _LINE)
    return _SPARE * sectors < site["sectors"] and (
        site["sectors"] < _NEAR * sectors or site["lines"] <= _NEAR_LINES * lines
    )


def _fill_sectors(sites: Sequence[Mapping]) -> bool:
    """Return whether the loads among `sites` that are near (`_is_near`) together use most bytes of their sectors."""
    near = [site for site in sites if site["requests"] and site["op"] == "ld" and _is_near(site)]
    loaded = sum(site["loaded"] for site in near)
    return sum(site["bytes"] for site in near) >= _FULL * _SECTOR * loaded


def _find_wastes_of(site: Mapping, block: Sequence[int], code: str, spare: bool) -> Iterator[Waste]:
    """Yield what the accesses of one line and operation waste: sectors, wavefronts, idle lanes, repeated loads.

    `spare`: do not name sectors and idle lanes, because other accesses use the same sectors.
    """
    requests, units, verb = site["requests"], _count_units(site), _VERBS[site["op"]]
    lanes = site["bytes"] / site["size"] / requests  # active lanes per request
    line = site["line"]
    if site["space"] == "global":
        best = max(1, site["bytes"] / requests / _SECTOR)
        count = f"{units / requests:.3g}"
        # Lanes that update the same word count a sector each: more than the lines of memory have.
        if units > 4 * site["lines"]:
            yield Waste(
                line,
                units - requests * best,
                f"lanes update the same word, one after the other: {count} times in each {verb}",
                "add up the values of a warp or a block first, and let one thread update the word",
            )
        elif units / requests > _SPARE * best and not spare:
            says, remedy = f"{count} sectors per {verb}, {best:.3g} is best", _NEIGHBOURS
            if site["op"] not in ("ld", "st"):
                says, remedy = (
                    f"{count} sectors per {verb}",
                    "add up in shared memory first, and then once per block",
                )
            elif _is_chosen_by_data(line, code):
                says = f"{count} sectors per {verb}, and the data choose which"
                remedy = f"{_NEIGHBOURS} as far as the data permit, or keep them in shared memory"
            yield Waste(line, units - requests * best, says, remedy)
    elif site["space"] == "shared" and site.get("conflicts", 0) > 0:
        best = (units - site["conflicts"]) / requests
        if remedy := _find_remedy_of_conflicts(units / requests / best, site, block, code):
            yield Waste(
                line,
                site["conflicts"],
                f"{units / requests:.3g} wavefronts per shared {verb}, {best:.3g} is best: lanes meet in "
                "the same bank",
                remedy,
            )
    elif site["space"] == "constant" and site.get("conflicts", 0) > 0:
        yield Waste(
            line,
            site["conflicts"],
            f"{units / requests:.3g} addresses per load of constant memory, 1 is best",
            "let all lanes of a warp read the same element, or read from shared memory",
        )
    if lanes < _FEW_LANES * _WARP and not spare:
        yield Waste(
            line,
            units * (1 - lanes / _WARP),
            f"{lanes:.3g} of 32 lanes take part in each {verb}",
            "give the work to neighbouring threads, so that whole warps do it or leave it out",
        )
    again = site["sectors"] / site["loaded"] if site.get("loaded") else 0
    if again >= _OFTEN:
        yield Waste(
            line,
            # less than what is wrong with an access itself: the L1 cache answers these loads
            (site["sectors"] - site["loaded"]) / 2,
            f"a block loads each sector {again:.3g} times",
            "keep the elements in shared memory or in registers",
        )


def _find_remedy_of_conflicts(times: float, site: Mapping, block: Sequence[int], code: str) -> str:
    """Return what helps against a shared access that takes `times` the best number of wavefronts.

    "" if nothing helps: lanes whose banks are chosen by data meet by chance.
    """
    line = site["line"]
    rows = _WARP // block[0] if 0 < block[0] < _WARP else 1  # of the block, that a warp covers
    if site["op"] not in ("ld", "st") or _is_chosen_by_data(line, code):
        # lanes that meet as rarely as by chance can be spread no better
        few = times <= _FEW_WAVEFRONTS
        return "" if few else "give a warp several copies of the array, and add these up at the end"
    if 1 < times <= rows and len(block) > 1 and block[1] > 1:
        return f"a warp covers {rows} rows of the block: give the block {_WARP} threads in x"
    for name in re.findall(r"\b(\w+)\s*\[", get_line(line, code.splitlines())):
        declared = [*re.finditer(rf"__shared__[^;]*\b{name}\s*\[[^]]*\]([ \n]*\[)?", code)]
        # several kernels may have an array of this name; an array with rows has two lengths
        known = [one for one in declared if code.count("\n", 0, one.end()) < line] or declared
        if known and known[-1][1]:
            at = 1 + code.count("\n", 0, known[-1].end())
            return f"pad the rows of {name} by one element at line {at}, or exchange its indices"
    if code:
        return "let neighbouring threads access neighbouring elements, or give rows an odd length"
    return "pad the rows of the array by one element, or exchange its indices"


def _is_chosen_by_data(line: int, code: str) -> bool:
    """Return whether an index in a line is an element of an array, or a variable that was set to one."""
    for index in re.findall(r"\w\s*\[([^][]*\[?)", get_line(line, code.splitlines())):
        if index.endswith("["):
            return True
        for name in re.findall(r"[A-Za-z_]\w*", index):
            counts = re.search(rf"(?:\+\+|--)\s*{name}\b|\b{name}\s*(?:\+\+|--|\+=)", code)
            if not counts and re.search(rf"\b{name}\s*=(?!=)[^;=]*\w\s*\[", code):
                return True
    return False


def _find_idle_threads(launch: Mapping) -> Iterator[Waste]:
    """Yield one `Waste` if the block of a launch leaves many lanes of its last warp idle, else nothing."""
    x, y, z = (*launch["block"], 1, 1)[:3]
    threads = x * y * z
    lanes = -(-threads // _WARP) * _WARP  # of whole warps
    if threads < _FEW_LANES * lanes:
        units = sum(_count_units(site) for site in launch["sites"])
        yield Waste(
            0,
            # 1 more, so that this cause wins over the same idle lanes counted at the only line
            units * (1 - threads / lanes) + 1,
            f"{threads} threads per block leave {lanes - threads} of {lanes} lanes idle",
            "take a multiple of 32 threads per block",
        )
