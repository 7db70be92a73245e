"""Estimate a launch's time from its work: the busiest unit's time, the last wave of blocks, and the launch itself.

All units of the GPU work at the same time. So a kernel takes at least as long as its busiest unit needs for its share
of the work: a roofline (Williams, Waterman and Patterson, CACM 52(4), 2009) of all units instead of two.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hostcuda.errors import EngineError
from hostcuda.estimate.work import CODE
from hostcuda.limits import MULTIPROCESSOR, SECTOR

CARDS = Path(__file__).with_name("cards.toml")
PARTITIONS = 4  # of a multiprocessor; a partition issues one instruction per cycle
# Instructions of warps per cycle of a multiprocessor, from its lanes: CUDA C++ Programming Guide, "Arithmetic
# Instructions" (compute capability 9.0: results per cycle of a multiprocessor, divided by the 32 lanes of a warp).
# Tensor cores: NVIDIA H100 white paper, 2048 multiplications and additions per cycle; one m16n8k16 has as many.
RATES = {"fma": 4.0, "half": 4.0, "imad": 2.0, "alu": 2.0, "fp64": 2.0, "xu": 0.5, "tensor": 1.0}
WARPS = MULTIPROCESSOR["sm_90"]["warps"]
_CONSTANT_CYCLES = 2.0  # of the constant cache, per request: Nsight Compute's request cycles over its requests


@dataclass(frozen=True)
class Card:
    """A GPU, with the rates that were fitted to times recorded on it."""

    name: str  # "NVIDIA H200"
    arch: str  # "sm_90"
    multiprocessors: int
    clock_ghz: float
    dram_tb_s: float  # this and the next two: measured bandwidths
    l2_read_tb_s: float
    l2_write_tb_s: float  # of whole sectors; a sector that is written in part takes up to twice as long
    pipes: float  # the share of its peak rate that a busy pipe reaches
    issue: float  # the share of the issue slots that a busy kernel uses
    tags: float  # lines that the L1 cache looks up per cycle of a multiprocessor
    miss_cycles: float  # what a miss in the constant cache adds to a request
    misses_apart: float  # the least number of cycles between two misses
    launch_ms: float  # of an empty kernel
    # Without machine code: how many instructions of a GPU stand for one of the host's, by its kind.
    coarse: Mapping[str, float]
    # By busiest unit: the interval that holds 9 of 10 quotients of recorded and estimated time. A kernel with another
    # busiest unit gets no time.
    intervals: Mapping[str, tuple[float, float]]

    @property
    def cycles(self) -> float:
        """Cycles of all multiprocessors together in a millisecond."""
        return self.multiprocessors * self.clock_ghz * 1e6


@cache
def cards() -> dict[str, Card]:
    """Return the cards that have fitted rates, by name."""
    with open(CARDS, "rb") as file:
        return {entry["name"]: Card(**entry) for entry in tomllib.load(file)["card"]}


def card(name: str) -> Card:
    """Return the card whose name contains `name`, such as "H200".

    Raises
    ------
    EngineError
        No card has such a name, or several have: only cards with recorded times are known.
    """
    matches = [known_card for known_card in cards().values() if name and name.lower() in known_card.name.lower()]
    if len(matches) != 1:
        raise EngineError(f"no estimate for {name!r}: times were recorded on {', '.join(cards())}")
    return matches[0]


def units(work: Mapping[str, float], of: Card) -> dict[str, float]:
    """Return how long [ms] each unit of a card works for a launch; for `work` see `hostcuda.estimate.work.work`."""
    cycles = of.cycles

    def figure(name):
        """Return a figure of the machine code, or without that the source's."""
        return work.get(f"{CODE}{name}", work.get(name, 0.0))

    requests = figure("constant_requests")
    misses = requests * figure("constant_misses")
    operand_misses = figure("operands") * figure("constant_misses")
    stored = SECTOR * work["stored_sectors"]
    fill = min(1.0, work["stored_bytes"] / stored) if stored else 1.0  # the share of the sectors that is written
    times = {
        "DRAM": work["unique_bytes"] / (of.dram_tb_s * 1e9),
        "L2 reads": work["loaded_sectors"] * SECTOR / (of.l2_read_tb_s * 1e9),
        "L2 writes": work["stored_sectors"] * (2 - fill) * SECTOR / (of.l2_write_tb_s * 1e9),
        "L1 tags": work["global_lines"] / (cycles * of.tags),
        "L1 data pipe": (figure("shared_wavefronts") + work["global_passes"]) / (cycles * of.pipes),
        "constant cache": max(
            (_CONSTANT_CYCLES * requests + of.miss_cycles * misses) / (cycles * of.pipes),
            of.misses_apart * (misses + operand_misses) / cycles,
        ),
    }
    if f"{CODE}instructions" not in work:
        issued = sum(of.coarse[kind] * work[kind] for kind in of.coarse)
        times["instruction issue"] = issued / (cycles * PARTITIONS * of.issue)
        return times
    queue = sum(figure(pipe) for pipe in ("global", "local", "shared", "constant", "mio"))
    fma = max((figure("fma") + figure("half") + figure("imad")) / RATES["fma"], figure("imad") / RATES["imad"])
    return times | {
        "instruction issue": figure("instructions") / (cycles * PARTITIONS * of.issue),
        "memory instructions": queue / cycles,  # one per cycle
        "FMA pipe": fma / cycles,
        "integer pipe": figure("alu") / (RATES["alu"] * cycles),
        "FP64 pipe": figure("fp64") / (RATES["fp64"] * cycles),
        "slow functions": figure("xu") / (RATES["xu"] * cycles),
        "tensor cores": figure("tensor") / (RATES["tensor"] * cycles),
        "latency": _compute_latency(work, of),
    }


def order(work: Mapping[str, float], of: Card) -> list[str]:
    """Return the units by the time that they need for a launch, the busiest first."""
    times = units(work, of)
    return sorted(times, key=times.__getitem__, reverse=True)


def interval_ms(work: Mapping[str, float], of: Card) -> tuple[float, float]:
    """Return the interval of the time of a launch, or of several equal ones [ms].

    Its ends are those of kernels with the same busiest unit. A launch costs time only if none is waiting in a row.
    """
    low, high = of.intervals[order(work, of)[0]]
    return low * (time_ms(work, of) - launches(work) * of.launch_ms), high * time_ms(work, of)


def _compute_latency(work: Mapping[str, float], of: Card) -> float:
    """Return how long [ms] warps wait for their own instructions, taking turns on a multiprocessor's places."""
    far = min(1.0, work["loaded_sectors"] / 4 / max(work["global_passes"], 1.0))  # loads that wait for the L2 cache
    near = work[f"{CODE}warp_cycles"]
    cycles = near + far * (work[f"{CODE}warp_cycles_l2"] - near)
    at_once = min(_count_resident(work) * of.multiprocessors, work["blocks"] / launches(work)) * work["block_warps"]
    return work["warps"] * cycles / at_once / (of.clock_ghz * 1e6)


def fill(work: Mapping[str, float], of: Card) -> float:
    """Return the share of the card's places for warps that a launch fills: few blocks, or blocks that need much."""
    in_grid = work["blocks"] / launches(work) * work["block_warps"] / of.multiprocessors
    return min(work.get(f"{CODE}occupancy", 1.0), in_grid / WARPS)


def _count_resident(work: Mapping[str, float]) -> float:
    """Return how many blocks are resident on a multiprocessor."""
    return max(1.0, work.get(f"{CODE}occupancy", 1.0) * WARPS // work["block_warps"])


def launches(work: Mapping[str, float]) -> float:
    """Return how many launches the work comes from."""
    return max(work.get("launches", 1.0), 1.0)


def time_ms(work: Mapping[str, float], of: Card) -> float:
    """Return the estimated time of a launch, or of several equal ones [ms]."""
    busy = max(units(work, of).values())
    waves = work["blocks"] / launches(work) / (_count_resident(work) * of.multiprocessors)
    # The last wave is half full on average.
    return busy * (1 + 0.5 / waves if waves > 1 else 1.0) + launches(work) * of.launch_ms
