"""Compute what a launch asks of each unit of a GPU, from the CPU engine's counts and nvcc's machine code, if any."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePath

from hostcuda.check.instrument import WORK
from hostcuda.estimate import constants
from hostcuda.estimate.flow import Executions, count_executions, count_operations, solve
from hostcuda.gpu.nvcc import ARCH, occupancy_of
from hostcuda.gpu.sass import L1_CYCLES, L2_CYCLES, USERS_CONSTANT, Block, warp_cycles
from hostcuda.limits import MULTIPROCESSOR, WARP

# of machine code whose executions are computed: the memory for that grows with their square
MOST_BLOCKS = 400
CODE = "code_"  # the prefix of figures that only the machine code tells
# Figures of a launch that do not grow with its number of blocks.
PER_WARP = (
    "block_warps",
    "constant_misses",
    *(
        f"{CODE}{name}"
        for name in ("occupancy", "constant_misses", "warp_cycles", "warp_cycles_l2", "missed")
    ),
)
_FROM_SHARED = {
    1: 1,
    2: 1,
    4: 1,
    8: 1,
    16: 2,
}  # wavefronts of a shared load without conflicts, by bytes per lane


def work(
    record: Mapping,
    flow: Sequence[Mapping],
    blocks: list[Block] | None = None,
    facts: Mapping[str, int] | None = None,
) -> dict[str, float]:
    """Compute the work of a launch.

    Parameters
    ----------
    record : mapping
        A `hostcuda.check.records.LaunchRecord`, as a dict.
    flow : sequence of mapping
        The blocks of the engine's own code, from the section `hostcuda.check.instrument.FLOW` of
        its module. One is ``{"pieces": [3], "next": [1, 2], "work": {"a.cu:12": [2, 0, 1, 0, 1, 0,
        3]}}``: a number per kind of `WORK`.
    blocks : list of Block, optional
        The kernel's machine code. Code with more than `MOST_BLOCKS` is not used.
    facts : mapping, optional
        The kernel's, as `hostcuda.gpu.nvcc.read_ptxas` returns them for `ARCH`; needed with
        `blocks`.

    Returns
    -------
    dict
        Totals of the launch: ``blocks``, ``warps``; for memory ``stored_sectors``,
        ``stored_bytes``, ``loaded_sectors`` (new to their block), ``loaded_bytes``, ``lane_bytes``
        (of global accesses, if all lanes of a warp took part), ``unique_bytes``,
        ``atomic_sectors``, ``shared_atomics``; ``matrices``, the operations on them; for the L1
        cache ``global_passes``, ``global_lines``, ``shared_wavefronts`` (less those that nvcc is
        expected to join); ``constant_requests``, one per word; and the instructions of warps:
        ``memory_instructions``, ``arithmetic``, ``doubles``, ``integer``, ``branches``,
        ``divisions``. Per request: ``constant_misses``.

        With machine code, names that begin with `CODE`: ``instructions``, and those of each pipe by
        its name; ``shared_wavefronts``, ``constant_requests`` and ``constant_misses`` once more, as
        nvcc has changed them; ``operands``, arithmetic with a word of constant memory;
        ``uniform_words``, loads of such a word by a whole warp; ``warp_cycles`` and
        ``warp_cycles_l2`` of a warp that runs alone, with its loads from the L1 or L2 cache;
        ``occupancy``, 0 to 1; and ``missed``, see `hostcuda.estimate.flow.Executions`.
    """
    # (space, operation) to sums over the lines of the source
    sites: dict = defaultdict(lambda: defaultdict(float))
    # {"file": "a.cu", "line": 3, "space": "global", "op": "ld", "size": 4, ...}
    for site in record["sites"]:
        for name, value in site.items():
            if isinstance(value, int):
                sites[site["space"], site["op"]][name] += value
    loads, stores = sites["global", "ld"], sites["global", "st"]
    block_warps = -(-math.prod(record["block"]) // WARP)
    # warps wait for the values
    waiting_loads = sum(sites[space, "ld"]["requests"] for space in ("global", "shared"))
    constant = sites["constant", "ld"]
    shared_wavefronts = sum(sites["shared", op]["wavefronts"] for op in ("ld", "st", "atom"))

    def compute_miss_rate(occupancy):
        """Return the share of constant requests that miss the cache, 0 to 1, at an occupancy of 0 to 1."""
        resident = max(1, round(occupancy * MULTIPROCESSOR[ARCH]["warps"] / block_warps))
        return constants.miss_rate(
            record["constant_traces"],
            block_warps,
            resident,
            constant["requests"] / max(waiting_loads, 1),
        )

    figures = {
        "blocks": math.prod(record["grid"]),
        "block_warps": block_warps,
        "warps": math.prod(record["grid"]) * block_warps,
        "stored_sectors": stores["sectors"],
        "stored_bytes": stores["bytes"],
        "loaded_bytes": loads["bytes"],
        "loaded_sectors": loads["loaded"],
        "unique_bytes": record["counts"]["lab__unique_bytes_global.sum"],
        "atomic_sectors": sites["global", "atom"]["sectors"] + sites["global", "red"]["sectors"],
        "shared_atomics": sites["shared", "atom"]["wavefronts"],
        "matrices": record["matrices"],
        "global_passes": loads["passes"] + stores["passes"],
        "global_lines": loads["lines"] + stores["lines"],
        "shared_wavefronts": shared_wavefronts - _count_saved(record),
        "constant_requests": constant["wavefronts"],
        "constant_misses": compute_miss_rate(1.0),
        "memory_instructions": sum(
            own["requests"] for (space, _), own in sites.items() if space != "local"
        ),
        "lane_bytes": sum(
            WARP * site["requests"] * site["size"]
            for site in record["sites"]
            if site["space"] == "global" and site["op"] in ("ld", "st")
        ),
        **_count_arithmetic(record, flow),
    }
    if blocks and facts and len(blocks) <= MOST_BLOCKS:
        occupancy = occupancy_of(facts, record["block"], record["shared"])
        code_figures = _count_executed(solve(blocks, record, flow), record)
        code_figures |= {"occupancy": occupancy, "constant_misses": compute_miss_rate(occupancy)}
        figures |= {f"{CODE}{name}": value for name, value in code_figures.items()}
    return figures


def _count_saved(record: Mapping) -> float:
    """Return how many wavefronts of shared memory nvcc is expected to save by joining loads into wider ones.

    It joins neighbouring words to 16 bytes, which take two wavefronts: 16 / size of them become 2,
    and each saves 1 - size / 8. Only requests of one or two addresses (``broadcast``) are joined:
    others may not be aligned.
    """
    loads = [site for site in record["sites"] if (site["space"], site["op"]) == ("shared", "ld")]
    return sum(site["broadcast"] * max(0.0, 1 - site["size"] / 8) for site in loads)


def without_code(figures: Mapping[str, float]) -> dict[str, float]:
    """Return those of a launch's figures, from `work`, that are known without machine code."""
    return {name: value for name, value in figures.items() if not name.startswith(CODE)}


def _count_arithmetic(record: Mapping, flow: Sequence[Mapping]) -> dict[str, float]:
    """Count the host code's instructions by kind, all warps together; in ``arithmetic`` a multiply-add is one."""
    kinds = dict.fromkeys(WORK, 0.0)
    arithmetic = 0.0
    for block, times in zip(flow, count_executions(record, flow), strict=True):
        for amounts in block[
            "work"
        ].values():  # {"a.cu:12": [2, 0, 1, 0, 1, 0, 3]}: instructions per kind of `WORK`
            arithmetic += times * count_operations(amounts)
            for kind, amount in zip(WORK, amounts, strict=True):
                kinds[kind] += times * amount
    return {
        "arithmetic": arithmetic,
        "doubles": kinds["double"],
        "integer": kinds["integer"],
        "branches": kinds["branch"],
        "divisions": kinds["divide"],
    }


def _count_executed(run: Executions, record: Mapping) -> dict[str, float]:
    """Return the figures of `work` from the machine code, by name: `run` has the executions, `record` the counts."""
    pipes: dict[str, float] = defaultdict(float)
    cycles_l1 = cycles_l2 = loads = operands = uniform = (
        0.0  # the last three: uses of __constant__ variables
    )
    for times, block in zip(run.times, run.blocks, strict=True):
        for instruction in block.code:
            pipes[instruction.pipe] += times
            if USERS_CONSTANT.search(instruction.arguments):  # the source's __constant__ variables
                loads += times * (instruction.pipe == "constant")
                operands += times * (instruction.pipe in ("fma", "half"))
                uniform += times * (instruction.pipe == "uniform")
        cycles_l1 += times * warp_cycles(block.code, L1_CYCLES)
        cycles_l2 += times * warp_cycles(block.code, L2_CYCLES)
    constant = [site for site in record["sites"] if site["space"] == "constant"]
    requests = sum(site["requests"] for site in constant)
    words = sum(site["wavefronts"] for site in constant)
    return {
        "instructions": sum(pipes.values()),
        **pipes,
        # nvcc may join loads of variables, or keep words in registers; the other loads are of the
        # launch's arguments.
        "constant_requests": min(requests, loads) * (words / requests if requests else 1)
        + pipes["constant"]
        - loads,
        "operands": operands,
        "uniform_words": uniform,
        "shared_wavefronts": _count_shared(run, record),
        "warp_cycles": cycles_l1 / run.warps,
        "warp_cycles_l2": cycles_l2 / run.warps,
        "missed": run.missed,
    }


def _count_shared(run: Executions, record: Mapping) -> float:
    """Return the wavefronts of shared memory: nvcc, whose code `run` has, joins the source's accesses (`record`)."""
    # ((file, line), "ld" or "st") to {bytes: number}
    widths_by_place: dict = defaultdict(lambda: defaultdict(int))
    for block in run.blocks:
        for instruction in block.code:
            if instruction.name in ("LDS", "LDSM", "STS"):
                for place in instruction.places:
                    widths_by_place[place, "st" if instruction.name == "STS" else "ld"][
                        instruction.bytes
                    ] += 1
    sites_by_place: dict = defaultdict(list)
    for site in record["sites"]:
        if site["space"] == "shared":
            sites_by_place[(PurePath(site["file"] or "").name, site["line"]), site["op"]].append(
                site
            )
    wavefronts = 0.0
    for place_and_op, sites in sites_by_place.items():
        source_wavefronts = sum(site["wavefronts"] for site in sites)
        widths = widths_by_place.get(place_and_op)
        # nothing was joined, or the code is not known
        if not widths or {*widths} == {site["size"] for site in sites}:
            wavefronts += source_wavefronts
            continue
        moved_bytes = sum(site["requests"] * site["size"] for site in sites)
        executions = moved_bytes / sum(width * number for width, number in widths.items())
        # Lanes that share banks share those of wide words.
        conflicts = source_wavefronts / max(sum(site["requests"] for site in sites), 1)
        joined = sum(_FROM_SHARED[width] * number * executions for width, number in widths.items())
        wavefronts += min(source_wavefronts, joined * conflicts)
    return wavefronts


def merged(launch_works: Sequence[Mapping[str, float]], factor: float = 1.0) -> dict[str, float]:
    """Add up the `work` of several launches of a kernel, times `factor` for a larger grid; "kernel" is left out."""
    return {
        name: value
        if name in PER_WARP
        else factor * sum(launch_work[name] for launch_work in launch_works)
        for name, value in launch_works[0].items()
        if not isinstance(value, str)
    }
