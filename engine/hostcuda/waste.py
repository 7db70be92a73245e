"""Name what a kernel wastes most, by the counts of its launches: one line of the source, one number, one remedy.

The units of all kinds are passes of one multiprocessor's load and store unit: a sector of global
memory beyond those that the bytes need, a wavefront of shared memory beyond the first, a lane of an
atomic operation that waits for another one on the same word, and what idle lanes could have done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_WARP, _SECTOR = 32, 32  # threads; bytes
_LEAST_SHARE = 0.25  # of all units of the launches: less waste than this is not named
_FEW_LANES = 0.6  # of a warp
_OFTEN = 8  # requests for one sector by a block, from which on keeping it is worth a word
_NEIGHBOURS = "let neighbouring threads access neighbouring elements"
_VERBS = {"ld": "load", "st": "store", "atom": "atomic operation", "red": "atomic operation"}


class Waste(NamedTuple):
    """The line of the source that wastes most (0: the launch itself), how many units, what it wastes, and a remedy."""

    line: int
    units: float
    says: str
    remedy: str


def find_waste(launches: Sequence[Mapping]) -> Waste | None:
    """Return the largest waste of launches, or None if no waste is a quarter of all units.

    Parameters
    ----------
    launches : sequence of mapping
        The facts of `hostcuda.checking.LaunchRecord` by their names: ``block``, ``sites``.
    """
    sites = [site for launch in launches for site in launch["sites"] if site["requests"]]
    total = sum(_count_units(site) for site in sites)
    wastes = [waste for site in sites if site["line"] for waste in _find_wastes_of(site)]
    wastes += [waste for launch in launches for waste in _find_idle_threads(launch)]
    largest = max(wastes, key=lambda waste: waste.units, default=None)
    if largest is None or largest.units >= _LEAST_SHARE * total:
        return largest
    # several lines may waste sectors together, such as one for each member of a struct
    alike = [waste for waste in wastes if waste.remedy == _NEIGHBOURS]
    if sum(waste.units for waste in alike) < _LEAST_SHARE * total:
        return None
    worst = max(alike, key=lambda waste: waste.units)
    others = sorted({waste.line for waste in alike} - {worst.line})
    also = f", and as much at {'lines' if others[1:] else 'line'} {', '.join(map(str, others))}"
    return worst._replace(says=worst.says + also * bool(others))


def _count_units(site: Mapping) -> int:
    """Return the sectors or wavefronts of an access."""
    return site.get("sectors", site.get("wavefronts", site["requests"]))


def _find_wastes_of(site: Mapping) -> Iterator[Waste]:
    """Yield what an access of the source wastes: sectors, conflicts, lanes."""
    requests, units, verb = site["requests"], _count_units(site), _VERBS[site["op"]]
    lanes = site["bytes"] / site["size"] / requests
    line = site["line"]
    if site["space"] == "global":
        best = max(1, site["bytes"] / requests / _SECTOR)
        # Lanes that update the same word count a sector each: more than the lines of memory have.
        meet = units > 4 * site["lines"]
        if units / requests > 2 * best or meet:
            yield Waste(
                line,
                units - requests * best,
                f"{units / requests:.3g} sectors per {verb}, {best:.3g} is best"
                + ": lanes update the same word, one after the other" * meet,
                "add up the values of a warp or a block first, and let one thread update the word"
                if meet
                else _NEIGHBOURS,
            )
    elif site["space"] == "shared" and site.get("conflicts", 0) > 0:
        best = (units - site["conflicts"]) / requests
        yield Waste(
            line,
            site["conflicts"],
            f"{units / requests:.3g} wavefronts per shared {verb}, {best:.3g} is best: lanes meet in "
            "the same bank",
            "pad the rows of the array by one element, or exchange its indices",
        )
    elif site["space"] == "constant" and site.get("conflicts", 0) > 0:
        yield Waste(
            line,
            site["conflicts"],
            f"{units / requests:.3g} addresses per load of constant memory, 1 is best",
            "let all lanes of a warp read the same element, or read from shared memory",
        )
    if lanes < _FEW_LANES * _WARP:
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


def _find_idle_threads(launch: Mapping) -> Iterator[Waste]:
    """Yield what the block of a launch wastes: lanes of its last warp."""
    x, y, z = (*launch["block"], 1, 1)[:3]
    threads = x * y * z
    whole = -(-threads // _WARP) * _WARP
    if threads < _FEW_LANES * whole:
        units = sum(_count_units(site) for site in launch["sites"])
        yield Waste(
            0,
            # more than the same lanes at one line
            units * (1 - threads / whole) + 1,
            f"{threads} threads per block leave {whole - threads} of {whole} lanes idle",
            "take a multiple of 32 threads per block",
        )
